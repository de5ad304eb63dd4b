"""`rebalancer history`: past moves, violations and zone losses, and who paused, resumed, approved or led.

The history is as new as `rebalancer status`: it also shows entries that the controller has stored with the status, but
not yet written into the ConfigMaps of the history. The status is read first, because written entries are removed from
it.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from rebalancer.adapters.kubernetes.configmaps import STATUS, read_config_map
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport, connect
from rebalancer.cli.elsewhere import list_elsewhere, repeat_command
from rebalancer.cli.errors import CliError, Exit, UsageError, warn
from rebalancer.cli.options import FORMATS, add_color_argument
from rebalancer.cli.parsing import Parser
from rebalancer.cli.refusals import VIEW, unreadable
from rebalancer.cli.terminal import find_layout
from rebalancer.documents.document import to_json, to_yaml
from rebalancer.documents.history import (
    UNKNOWN_TIME,
    AsOf,
    HistoryDocument,
    TrendDocument,
    entry_workloads,
    history_document,
    trend_document,
)
from rebalancer.documents.memory import parse_memory
from rebalancer.history.outbox import Stored, find_missing
from rebalancer.history.ring import ENTRIES_KEY, SEGMENT_MAPS, find_last, read_ring
from rebalancer.history.trend import TREND_KEY, TREND_MAP, Trend, extend_trend, parse_trend
from rebalancer.locations import controller_namespace
from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moments import seconds_of
from rebalancer.model.visible import visible_json
from rebalancer.policy.durations import parse_duration
from rebalancer.ports import MEMORY_KEY, STATUS_KEY
from rebalancer.reporting.text.history import history_text, trend_text

_FORMATS: Final = (*FORMATS, "jsonl")


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = (
        "It reads the ConfigMaps rebalancer-history and rebalancer-history-0 to -7, which the controller writes, and "
        "in rebalancer-status what it has not written there yet. The first line says as of when that is. The newest "
        "entry is the last. -o jsonl prints an entry a line, to be stored elsewhere: the ConfigMaps keep the last few "
        "thousand."
    )
    parser.add_argument(
        "workload",
        metavar="WORKLOAD",
        nargs="?",
        help="only this workload: NAME, KIND/NAME or NAMESPACE/KIND/NAME (default: all, and what concerns none)",
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="only workloads of this namespace")
    parser.add_argument(
        "--since", metavar="DURATION", type=_parse_since, help="only what has happened within it, such as 2h or 30m"
    )
    parser.add_argument(
        "--trend", action="store_true", help="print how much was violated when, in the place of the entries"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=_FORMATS,
        default=_FORMATS[0],
        help="table, json, yaml or jsonl (default: table)",
    )
    add_color_argument(parser)
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="the kubeconfig file (default: $KUBECONFIG, the pod's own account, ~/.kube/config)",
    )
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context (default: the current one)")
    parser.add_argument(
        "--controller-namespace",
        metavar="NAME",
        help="where the controller runs (default: $REBALANCER_NAMESPACE, the pod's own, rebalancer-system)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the history, or the trend."""
    wanted = _parse_workload(args.workload, args.namespace)
    if args.trend and wanted != _ALL:
        raise UsageError("--trend counts all workloads; leave out WORKLOAD and -n")
    since = seconds_of(datetime.now(UTC) - args.since) if args.since is not None else 0
    command = _repeat(args)
    try:
        transport = connect(kubeconfig=args.kubeconfig, context=args.context)
        warn(transport.warnings)
        namespace = args.controller_namespace or controller_namespace()
        if args.trend:
            sys.stdout.write(_show_trend(_read_trend(transport, namespace, since, command), args))
        else:
            sys.stdout.write(_show_history(_read_history(transport, namespace, wanted, since, command), args))
    except ClusterError as error:
        raise unreadable(error) from None
    return Exit.FINE


_ALL: Final = ("", "", "")


def _repeat(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the command that was given, without the controller's namespace."""
    words = [args.workload] if args.workload is not None else []
    words += ["-n", args.namespace] if args.namespace is not None else []
    words += ["--since", f"{args.since / timedelta(seconds=1):.0f}s"] if args.since is not None else []
    words += ["--trend"] if args.trend else []
    words += ["-o", args.output] if args.output != _FORMATS[0] else []
    return repeat_command(args, "history", *words)


def _parse_workload(text: str | None, namespace: str | None) -> tuple[str, str, str]:
    """Return namespace, kind and name to select, "" for any."""
    parts = text.split("/") if text is not None else [""]
    if len(parts) > 3 or (text is not None and not all(parts)):
        raise UsageError(f"found {text!r}, expected NAME, KIND/NAME or NAMESPACE/KIND/NAME such as deployment/web")
    own, kind, name = ["", "", *parts][-3:]
    if own and namespace not in {None, own}:
        raise UsageError(f"{text} is in namespace {own}, but -n names {namespace}; leave out one of them")
    return own or namespace or "", kind.lower(), name


def _parse_since(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, {error}") from None


def _read(transport: Transport, namespace: str, names: Iterable[str], key: str, command: Sequence[str]) -> list[str]:
    """Return the texts of ConfigMaps; if none of them exists, CliError with `command` for other namespaces."""
    maps = [read_config_map(transport, namespace, name) for name in names]
    if not any(maps):
        raise CliError(
            f"namespace {namespace} has no ConfigMap of a history; choose the controller's namespace with "
            "--controller-namespace, or apply deploy/ again, which has them",
            *list_elsewhere(transport, STATUS, namespace, command),
        )
    return [config_map.data.get(key, "") for config_map in maps if config_map is not None]


class _Waiting(NamedTuple):
    """The entries that were stored with the status, and the time of the status."""

    outbox: tuple[Entry, ...] = ()
    as_of: AsOf = UNKNOWN_TIME


class _Times(msgspec.Struct, frozen=True, rename="camel"):
    """Only the times of a status, readable from any release."""

    as_of: datetime | None = None
    last_cycle: datetime | None = None


def _read_waiting(transport: Transport, namespace: str) -> _Waiting:
    """Read the entries stored with the status; if they are not readable, the history is shown without them."""
    try:
        config_map = read_config_map(transport, namespace, STATUS)
    except RequestRefused as error:
        reason = error.details.get("message", str(error))
        warn([f"as of when this is is not known, and the newest entries may be missing: {reason}; {VIEW}"])
        return _Waiting()
    data = config_map.data if config_map is not None else {}
    try:
        times = msgspec.json.decode(data.get(STATUS_KEY) or "{}", type=_Times)
    except msgspec.DecodeError:
        times = _Times()
    return _Waiting(
        parse_memory(data.get(MEMORY_KEY, "")).outbox, AsOf(times.as_of or times.last_cycle, times.last_cycle)
    )


def _read_history(
    transport: Transport, namespace: str, wanted: tuple[str, str, str], since: int, command: Sequence[str]
) -> HistoryDocument:
    waiting = _read_waiting(transport, namespace)
    segments = _read(transport, namespace, SEGMENT_MAPS, ENTRIES_KEY, command)
    missing = find_missing(waiting.outbox, Stored(entries=find_last(segments)))
    entries = (*read_ring(segments), *(entry for entry in missing if entry.kind != EntryKind.SAMPLE))
    selected = [entry for entry in entries if entry.at >= since and _is_wanted(entry, wanted)]
    return history_document(selected, total=len(entries), as_of=waiting.as_of)


def _is_wanted(entry: Entry, wanted: tuple[str, str, str]) -> bool:
    namespace, kind, name = wanted
    named = [(workload.kind.lower(), workload.name) for workload in entry_workloads(entry)] or [("", "")]
    is_named = any(kind in {"", one} and name in {"", other} for one, other in named)
    return namespace in {"", entry.namespace} and is_named


def _read_trend(transport: Transport, namespace: str, since: int, command: Sequence[str]) -> TrendDocument:
    waiting = _read_waiting(transport, namespace)
    (text,) = _read(transport, namespace, [TREND_MAP], TREND_KEY, command)
    trend = extend_trend(parse_trend(text), waiting.outbox)
    held = [sample for sample in trend.samples if sample.at < since][-1:]  # a sample holds until the next one
    samples = (*held, *(sample for sample in trend.samples if sample.at >= since))
    return trend_document(Trend(samples=samples), waiting.as_of)


def _show_history(document: HistoryDocument, args: argparse.Namespace) -> str:
    if args.output == "table":
        return history_text(document, find_layout(args.color))
    return _show(document, document.entries, args.output)


def _show_trend(document: TrendDocument, args: argparse.Namespace) -> str:
    if args.output == "table":
        return trend_text(document, find_layout(args.color))
    return _show(document, document.samples, args.output)


def _show(document: HistoryDocument | TrendDocument, entries: Sequence[msgspec.Struct], output: str) -> str:
    match output:
        case "jsonl":
            return "".join(f"{visible_json(msgspec.json.encode(entry).decode())}\n" for entry in entries)
        case "json":
            return to_json(document).decode()
        case _:
            return to_yaml(document)
