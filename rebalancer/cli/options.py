"""The flags that every read-only verb shares: where to read, what to select, how to print."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from rebalancer.cli.errors import UsageError
from rebalancer.cli.files import CONFIG_MAP_PREFIX, ReadPolicy, choose_policy, read_policy
from rebalancer.cli.parsing import Parser
from rebalancer.cli.selectors import parse_selector
from rebalancer.cli.terminal import find_layout
from rebalancer.locations import controller_namespace
from rebalancer.model.cluster import NEWEST, OLDEST, Version
from rebalancer.model.labels import LabelSelector
from rebalancer.policy import Policy
from rebalancer.reporting.text.layout import PLAIN, TextLayout

FORMATS = ("table", "json", "yaml")
LIST_FORMATS = ("table", "wide", "name", "json", "yaml")
"""The formats of the verbs that list workloads: `wide` leaves nothing out, `name` prints only names."""

_MOST_IN_TERMINAL = 20
"""Up to this many workloads are shown in a terminal without --limit; a file and a pipe get all."""


def add_read_arguments(parser: Parser, *, formats: Sequence[str] = FORMATS, namespace: str | None = None) -> None:
    """Declare the shared flags; the first of `formats` is the default.

    For a verb about one object, `namespace` is the help text of -n; the verb has neither -A nor -l.
    """
    _add_source_arguments(parser)
    _add_selection_arguments(parser, namespace)
    _add_output_arguments(parser, formats)


def _add_source_arguments(parser: Parser) -> None:
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
    source.add_argument(
        "--controller-namespace",
        metavar="NAME",
        help="where the controller of the live cluster runs, by whose policy and memory it is planned (default: "
        "$REBALANCER_NAMESPACE, the pod's own, rebalancer-system)",
    )


def _add_selection_arguments(parser: Parser, namespace: str | None) -> None:
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
        "--policy",
        metavar="FILE",
        help="the policy: a file, or configmap:NAMESPACE/NAME (default: the one in force in the live cluster, else the "
        "shipped one)",
    )


def _parse_format(text: str) -> str:
    if text == "junit":
        raise argparse.ArgumentTypeError("JUnit is not written any more: -o json has all that it had")
    return text


def _add_output_arguments(parser: Parser, formats: Sequence[str]) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        type=_parse_format,
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
    """The shared flags, checked."""

    snapshots: tuple[str, ...]
    """The files of the cluster; empty for a live cluster."""
    server_version: Version
    at: datetime | None
    kubeconfig: str | None
    context: str | None
    controller_namespace: str
    """The namespace in which the controller of a live cluster runs."""
    namespace: str | None
    """The selected namespace, None for all."""
    selector: LabelSelector
    read_policy: ReadPolicy
    output: str
    layout: TextLayout
    """The layout of text on standard output."""
    most: int | None
    """How many workloads the text shows, None for all."""

    @property
    def policy(self) -> Policy:
        """The policy, without team policies."""
        return self.read_policy.policy

    @classmethod
    def of(cls, args: argparse.Namespace, *, policy: Policy | None = None) -> Self:
        """Take the flags from parsed arguments and read the policy; CliError if they contradict each other.

        `policy` is used if the flags name none; the cluster is not asked for its policy then.
        """
        snapshots = tuple(args.snapshot or ())
        if not snapshots:
            _refuse_flags(args, ("server_version", "at"), "describes a snapshot; add --snapshot FILE or leave it out")
        else:
            live = ("kubeconfig", "context", "controller_namespace")
            _refuse_flags(args, live, "names a live cluster; leave it out or --snapshot")
        if "-" in snapshots and args.policy == "-":
            raise UsageError("both --snapshot and --policy read standard input; give one of them as a file")
        if snapshots and (args.policy or "").startswith(CONFIG_MAP_PREFIX):
            raise UsageError("--policy configmap:… names a live cluster; give a file, or leave out --snapshot")
        namespace = args.controller_namespace or controller_namespace()
        return cls(
            snapshots=snapshots,
            server_version=args.server_version or NEWEST,
            at=args.at,
            kubeconfig=args.kubeconfig,
            context=args.context,
            controller_namespace=namespace,
            namespace=args.namespace,
            selector=args.selector or LabelSelector(),
            read_policy=_choose_policy(args, namespace, policy),
            output=args.output,
            layout=find_layout(args.color),
            most=_MOST_IN_TERMINAL if args.limit is None and sys.stdout.isatty() else args.limit or None,
        )

    @classmethod
    def live(cls, *, kubeconfig: str | None, context: str | None, namespace: str, policy: ReadPolicy) -> Self:
        """Return the flags for all of a live cluster; `namespace` is its controller's."""
        return cls(
            snapshots=(),
            server_version=NEWEST,
            at=None,
            kubeconfig=kubeconfig,
            context=context,
            controller_namespace=namespace,
            namespace=None,
            selector=LabelSelector(),
            read_policy=policy,
            output=FORMATS[0],
            layout=PLAIN,
            most=None,
        )


def _choose_policy(args: argparse.Namespace, namespace: str, policy: Policy | None) -> ReadPolicy:
    """Return the policy of --policy, else `policy` if given, else the one in force in the live cluster."""
    if args.policy is None and policy is not None:
        return ReadPolicy(policy=policy)
    if args.snapshot:
        return read_policy(args.policy)
    return choose_policy(args.policy, namespace, kubeconfig=args.kubeconfig, context=args.context)


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
