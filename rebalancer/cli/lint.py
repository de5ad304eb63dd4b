"""`rebalancer lint`: predicts what manifests will do once deployed, alone or in a cluster."""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rebalancer.adapters.files.manifests import read_manifests
from rebalancer.assessment.name_hints import nearest_name
from rebalancer.cli.errors import CliError, Exit, UsageError, warn
from rebalancer.cli.files import (
    CONFIG_MAP_PREFIX,
    choose_policy,
    listing_problems,
    read_bytes,
    read_policy,
    source_name,
)
from rebalancer.cli.load import load_profile, load_snapshot
from rebalancer.cli.options import ReadOptions, add_color_argument, add_snapshot_argument
from rebalancer.cli.output import write_document
from rebalancer.cli.parsing import Parser
from rebalancer.cli.terminal import find_layout
from rebalancer.lint.check import lint
from rebalancer.lint.document import InputError, LintDocument, lint_document
from rebalancer.lint.finding import Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import Manifest, Manifests
from rebalancer.lint.sarif import sarif
from rebalancer.lint.text import lint_text
from rebalancer.locations import controller_namespace
from rebalancer.model.words import plural
from rebalancer.policy import Policy, is_team_policy, load_policy
from rebalancer.policy.team_maps import POLICY_KEY, POLICY_MAP

_FORMATS: Final = ("text", "json", "yaml", "sarif")
_NEVER: Final = "never"
_KUSTOMIZATIONS: Final = frozenset({"kustomization.yaml", "kustomization.yml"})
_MANIFESTS: Final = re.compile(r"\.(?:json|yaml|yml)\Z")


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = "A comment in a manifest, # rebalancer-lint: ignore=RULE reason, turns a rule off for it."
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="manifests in YAML or JSON, a folder of them, or - for what kustomize or helm template print",
    )
    _add_cluster_arguments(parser)
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="the policy whose limits are held against the manifests: a file, or configmap:NAMESPACE/NAME of the live "
        f"cluster (default: the ConfigMap {POLICY_MAP} among the manifests, else the one in force in the live cluster)",
    )
    parser.add_argument(
        "--fail-on",
        metavar="SEVERITY",
        choices=[*map(str, Severity), _NEVER],
        default=str(Severity.ERROR),
        help="exit with 3 if there is a finding of this severity or a worse one: error, warning, info or never "
        "(default: error)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=_FORMATS,
        default=_FORMATS[0],
        help="text, json, yaml or sarif (default: text)",
    )
    add_color_argument(parser)


def _add_cluster_arguments(parser: Parser) -> None:
    """Declare the flags that name the cluster where the manifests will run."""
    add_snapshot_argument(
        parser,
        "the cluster where they will run, as kubectl get … -o json prints it; without it, and without --context and "
        "--kubeconfig, lint says what follows from the manifests alone",
    )
    parser.add_argument("--context", metavar="NAME", help="the live cluster of this context of the kubeconfig file")
    parser.add_argument("--kubeconfig", metavar="FILE", help="the live cluster of this kubeconfig file")
    parser.add_argument(
        "--controller-namespace",
        metavar="NAME",
        help="where the controller of the live cluster runs: its policy says how the scheduler places pods (default: "
        "$REBALANCER_NAMESPACE, the pod's own, rebalancer-system)",
    )
    parser.add_argument(
        "--drain",
        metavar="NODE",
        nargs="+",
        default=[],
        help="also say whether a drain of these nodes of the cluster ends; then no FILE is needed",
    )


def run(args: argparse.Namespace) -> int:
    """Print what is found; nothing is changed."""
    files = list(_find_files(args.files))
    read, errors = _read_all(files)
    _warn_of_kustomizations(files)
    _warn_of_unknown_rules(read)
    manifests = Manifests.of(read)
    options = _read_options(args)
    ground = _read_cluster(args, options, manifests) if options is not None else None
    if args.files == ["-"] and not (read or errors):  # which input has failed?
        raise CliError("no Kubernetes object in standard input")
    objects = sum(bool(one.kind) for one in read)
    source = args.snapshot[0] if args.snapshot else "cluster"
    policy = _find_policy(args, options, manifests)
    findings = lint(manifests, ground, args.drain, source, policy)
    document = lint_document(findings, len(files) - len(errors), objects, errors)
    if args.output == "sarif":
        sys.stdout.write(f"{json.dumps(sarif(document), indent=2)}\n")
    else:
        consequence = _explain_exit_code(document, args.fail_on)
        write_document(document, args.output, lambda: lint_text(document, find_layout(args.color), consequence))
    if errors:
        raise CliError(*(error.message for error in errors))
    return Exit.SOMETHING if _fails(document, args.fail_on) else Exit.FINE


def _read_options(args: argparse.Namespace) -> ReadOptions | None:
    """Return how to read the cluster that the flags name, with its policy; None if they name no cluster."""
    is_live = args.context is not None or args.kubeconfig is not None
    if not (args.files or args.drain):
        raise UsageError("name manifests: FILE, a folder, or - for standard input")
    if args.snapshot and is_live:
        raise UsageError("--snapshot is a file of a cluster, --context and --kubeconfig name a live one; give one")
    if not is_live and (args.policy or "").startswith(CONFIG_MAP_PREFIX):
        raise UsageError("--policy configmap:… names a live cluster; give a file, or --context or --kubeconfig")
    if not (args.snapshot or is_live):
        if args.drain:
            raise UsageError("--drain is about nodes of a cluster; give it with --snapshot, --context or --kubeconfig")
        return None
    namespace = args.controller_namespace or controller_namespace()
    access = {"kubeconfig": args.kubeconfig, "context": args.context}
    policy = choose_policy(args.policy, namespace, **access) if is_live else read_policy(args.policy)
    live = ReadOptions.live(**access, namespace=namespace, policy=policy)
    return replace(live, snapshots=tuple(args.snapshot or ()))


def _read_cluster(args: argparse.Namespace, options: ReadOptions, manifests: Manifests) -> Ground:
    snapshot = load_snapshot(options)
    unknown = [name for name in args.drain if name not in snapshot.node]
    if unknown:
        near = nearest_name(unknown[0], snapshot.node.keys())
        raise UsageError(f"--drain: there is no node {unknown[0]}{f'; did you mean {near}?' if near else ''}")
    return Ground(snapshot, manifests, load_profile(options))


def _find_policy(args: argparse.Namespace, options: ReadOptions | None, manifests: Manifests) -> Policy | None:
    """Return the policy whose limits matter; the shipped policy was not chosen, so its limits do not count."""
    if args.policy is not None:
        return options.policy if options is not None else read_policy(args.policy).policy
    text_path = ("data", POLICY_KEY)
    maps = (one for one in manifests.every if (one.kind, one.name) == ("ConfigMap", POLICY_MAP))
    for one in maps:
        text = one.find(text_path)
        if isinstance(text, str) and not is_team_policy(text.encode()):
            with listing_problems(one.file) as source:
                return load_policy(text.encode(), source=f"{source}, {one.title}")
    return options.policy if options is not None and options.read_policy.location is not None else None


def _find_files(names: Sequence[str]) -> Iterator[str]:
    """Yield named files and standard input, and all files of folders that may be manifests; each file once."""
    seen = set[Path]()
    for name in _expand(names):
        place = Path(name).resolve()
        if place not in seen:
            seen.add(place)
            yield name


def _expand(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        folder = Path(name)
        if name == "-" or not folder.is_dir():
            yield name
            continue
        found = sorted(path for path in folder.rglob("*") if path.is_file() and _MANIFESTS.search(path.name))
        if not found:
            raise CliError(f"{folder} has no manifest (.yaml, .yml, .json)")
        yield from map(str, found)


def _read_all(files: Sequence[str]) -> tuple[Sequence[Manifest], Sequence[InputError]]:
    """Return the manifests of all readable files, and why the other files are unreadable."""
    read: list[Manifest] = []
    errors: list[InputError] = []
    for file in files:
        try:
            read += _read(file)
        except CliError as error:
            errors.append(InputError(file=source_name(file), message=str(error)))
    return read, errors


def _read(file: str) -> Iterator[Manifest]:
    data = read_bytes(file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CliError(f"{source_name(file)} is not UTF-8; expected YAML or JSON") from None
    return read_manifests(text, source_name(file))


def _warn_of_kustomizations(files: Sequence[str]) -> None:
    folders = sorted({Path(file).parent for file in files if Path(file).name in _KUSTOMIZATIONS})
    if folders:
        more = f" (and {plural(len(folders) - 1, 'other folder')})" if len(folders) > 1 else ""
        said = f"{folders[0]}{more} has a kustomization: the files are read as they are"
        warn([f"{said}. What is deployed is seen by: kustomize build {folders[0]} | rebalancer lint -"])


def _warn_of_unknown_rules(manifests: Sequence[Manifest]) -> None:
    unknown = {(one.file, rule) for one in manifests for rule in one.ignores.difference(Rule)}
    warn([f"{file}: rebalancer-lint: ignore={rule} names no rule" for file, rule in sorted(unknown)])


def _explain_exit_code(document: LintDocument, fail_on: str) -> str:
    """Say why warnings do not affect the exit code, if no flag decides that; "" otherwise."""
    severities = {one.severity for one in document.findings}
    if fail_on != Severity.ERROR or Severity.WARNING not in severities or Severity.ERROR in severities:
        return ""
    return "No error, so the exit code is 0; with --fail-on warning it is 3."


def _fails(document: LintDocument, fail_on: str) -> bool:
    if fail_on == _NEVER:
        return False
    return any(one.severity.rank <= Severity(fail_on).rank for one in document.findings)
