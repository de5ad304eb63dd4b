"""The flags that every read-only verb shares: where to read, what to select, how to print."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from rebalancer.cli.errors import UsageError
from rebalancer.cli.files import CONFIG_MAP_PREFIX, read_policy
from rebalancer.cli.parsing import Parser
from rebalancer.cli.selectors import parse_selector
from rebalancer.cli.terminal import find_layout
from rebalancer.model.cluster import NEWEST, OLDEST, Version
from rebalancer.model.labels import LabelSelector
from rebalancer.policy import Policy
from rebalancer.reporting.text.layout import PLAIN, TextLayout

FORMATS = ("table", "json", "yaml")
LIST_FORMATS = ("table", "wide", "name", "json", "yaml")
"""Those of the verbs that list workloads: `wide` leaves nothing out, `name` prints names alone."""

_MOST_IN_TERMINAL = 20
"""So many workloads are shown in a terminal without --limit; a file and a pipe get them all."""


def add_read_arguments(parser: Parser, *, formats: Sequence[str] = FORMATS, namespace: str | None = None) -> None:
    """Declare the shared flags; the first of `formats` is the default.

    A verb about one object gives the help text of `namespace`; it has neither -A nor -l.
    """
    source = parser.add_argument_group("where to read", "A live cluster, or the output of kubectl get … -o json.")
    add_snapshot_argument(source, "what kubectl get … -o json or yaml printed")
    source.add_argument(
        "--server-version",
        metavar="VERSION",
        type=_parse_version,
        help=f"the Kubernetes version the snapshot is from (default: {NEWEST})",
    )
    source.add_argument(
        "--at", metavar="TIME", type=_parse_time, help="when it was taken, RFC 3339 (default: the newest time in it)"
    )
    source.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="the kubeconfig file (default: $KUBECONFIG, the pod's own account, ~/.kube/config)",
    )
    source.add_argument("--context", metavar="NAME", help="the kubeconfig's context (default: the current one)")
    selection = parser.add_argument_group("what to select")
    namespaces = selection.add_mutually_exclusive_group()
    namespaces.add_argument("-n", "--namespace", metavar="NAME", help=namespace or "only this namespace")
    if namespace is None:
        namespaces.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces (the default)")
        selection.add_argument(
            "-l",
            "--selector",
            metavar="SELECTOR",
            type=_parse_selector_flag,
            help="only pods with these labels, as kubectl takes it",
        )
    parser.set_defaults(selector=None)
    selection.add_argument(
        "--policy", metavar="FILE", help="the policy: a file, or configmap:NAMESPACE/NAME (default: the shipped policy)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=formats,
        default=formats[0],
        help=f"{', '.join(formats[:-1])} or {formats[-1]} (default: {formats[0]})",
    )
    add_color_argument(parser)
    parser.set_defaults(limit=None)
    if "wide" in formats:
        parser.add_argument(
            "--limit",
            metavar="N",
            type=_parse_limit,
            help=f"show the first N workloads in tables, 0 all (default: {_MOST_IN_TERMINAL} in a terminal)",
        )


def add_snapshot_argument(parser: argparse._ActionsContainer, text: str) -> None:
    """Declare --snapshot; `text` says what it names."""
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        action="append",
        help=f"{text}, also compressed, or a folder of kubectl cluster-info dump; - is standard input; may be given "
        "repeatedly, the files are joined",
    )


def add_color_argument(parser: Parser) -> None:
    """Declare --color."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours in tables (default: auto, in a terminal unless NO_COLOR is set)",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """The shared flags, checked. Without `snapshots` it is a live cluster; `namespace` None is all of them.

    `policy_folder` is that of the policy's file, None for another policy. `layout` is that of text on standard
    output, `most` how many workloads it shows, None for all.
    """

    snapshots: tuple[str, ...]
    server_version: Version
    at: datetime | None
    kubeconfig: str | None
    context: str | None
    namespace: str | None
    selector: LabelSelector
    policy: Policy
    is_shipped_policy: bool
    policy_folder: Path | None
    output: str
    layout: TextLayout
    most: int | None

    @classmethod
    def of(cls, args: argparse.Namespace) -> Self:
        """Take the flags from parsed arguments and read the policy; CliError where they contradict each other."""
        snapshots = tuple(args.snapshot or ())
        if not snapshots:
            _refuse_flags(args, ("server_version", "at"), "describes a snapshot; add --snapshot FILE or leave it out")
        else:
            _refuse_flags(args, ("kubeconfig", "context"), "names a live cluster; leave it out or --snapshot")
        if "-" in snapshots and args.policy == "-":
            raise UsageError("both --snapshot and --policy read standard input; give one of them as a file")
        if snapshots and (args.policy or "").startswith(CONFIG_MAP_PREFIX):
            raise UsageError("--policy configmap:… names a live cluster; give a file, or leave out --snapshot")
        return cls(
            snapshots=snapshots,
            server_version=args.server_version or NEWEST,
            at=args.at,
            kubeconfig=args.kubeconfig,
            context=args.context,
            namespace=args.namespace,
            selector=args.selector or LabelSelector(),
            policy=read_policy(args.policy, kubeconfig=args.kubeconfig, context=args.context),
            is_shipped_policy=args.policy is None,
            policy_folder=_get_folder(args.policy),
            output=args.output,
            layout=find_layout(args.color),
            most=_MOST_IN_TERMINAL if args.limit is None and sys.stdout.isatty() else args.limit or None,
        )

    @classmethod
    def live(cls, *, kubeconfig: str | None, context: str | None, policy: Policy, location: str | None) -> Self:
        """Return the flags of a live cluster, all of it, with a policy from `location`, None for the shipped one."""
        return cls(
            snapshots=(),
            server_version=NEWEST,
            at=None,
            kubeconfig=kubeconfig,
            context=context,
            namespace=None,
            selector=LabelSelector(),
            policy=policy,
            is_shipped_policy=location is None,
            policy_folder=_get_folder(location),
            output=FORMATS[0],
            layout=PLAIN,
            most=None,
        )


def _get_folder(policy: str | None) -> Path | None:
    """Return the folder of the policy file, the working directory for standard input; None without a file."""
    if policy is None or policy.startswith(CONFIG_MAP_PREFIX):
        return None
    return Path() if policy == "-" else Path(policy).parent


def _refuse_flags(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in names:
        if getattr(args, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def _parse_version(text: str) -> Version:
    try:
        version = Version.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not OLDEST <= version <= NEWEST:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a version from {OLDEST} to {NEWEST}")
    return version


def _parse_limit(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number, 0 for all")
    return int(text)


def _parse_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a time with its zone such as 2026-01-31T08:00:00Z")
    return time.astimezone(UTC)


def _parse_selector_flag(text: str) -> LabelSelector:
    try:
        return parse_selector(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
