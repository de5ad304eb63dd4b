"""`rebalancer status`: what the controller does, what it did last, and why nothing happens."""

import argparse
import sys
import time
from collections.abc import Iterator
from datetime import datetime

from msgspec import structs

from rebalancer.adapters.kubernetes.configmaps import STATUS, ControlMap, find_pause
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport, connect
from rebalancer.cli.controller_state import doubt_next_policy, read_lease, read_status, warn_of_clock
from rebalancer.cli.elsewhere import list_elsewhere, repeat_command
from rebalancer.cli.errors import CliError, Exit, warn
from rebalancer.cli.options import FORMATS, add_color_argument
from rebalancer.cli.page_command import find_page_command
from rebalancer.cli.parsing import Parser
from rebalancer.cli.redraw import can_redraw, redrawing
from rebalancer.cli.refusals import unreadable
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.cli.terminal import find_layout
from rebalancer.documents.document import to_json, to_yaml
from rebalancer.documents.status import StatusDocument, pause_status
from rebalancer.reporting.acting import describe_controller, find_trouble, leaders_time, runs
from rebalancer.reporting.text.status import status_lines, status_text

_INTERVAL = 2.0
"""Seconds between two reads of the status with --watch; the controller writes it at the end of a cycle."""


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = (
        "It reads the ConfigMap rebalancer-status and the Lease. The controller writes it at the end of a cycle; "
        "if only times have changed, not within 15 seconds of the last write. So its last cycle may be more recent; "
        "the first line has the time of the status."
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="keep showing it, until Ctrl-C: in its place in a terminal, else again whenever it changes",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=FORMATS,
        default=FORMATS[0],
        help="table, json or yaml (default: table)",
    )
    add_color_argument(parser)
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Print the status, once or at each change."""
    settings = load_flags(args)
    try:
        transport = connect(kubeconfig=str(settings.kubeconfig or "") or None, context=settings.context)
        warn(transport.warnings)
        if not args.watch:
            status = _read(transport, settings.namespace, args)
            warn_of_clock(transport)
            warn(filter(None, [doubt_next_policy(transport, settings.namespace, status)]))
            sys.stdout.write(_show(status, leaders_time(status, transport.now()), args))
        elif args.output == "table" and can_redraw():
            with redrawing() as redraw:
                for status in _read_again(transport, settings.namespace, args):
                    now = leaders_time(status, transport.now())
                    redraw(status_lines(status, now, find_layout(args.color)))
        else:
            _show_changes(transport, _read_again(transport, settings.namespace, args), args)
    except ClusterError as error:
        raise unreadable(error) from None
    return Exit.FINE


def _read_again(transport: Transport, namespace: str, args: argparse.Namespace) -> Iterator[StatusDocument]:
    """Yield the present status again and again, without end."""
    while True:
        yield _read(transport, namespace, args)
        time.sleep(_INTERVAL)


def _show_changes(transport: Transport, statuses: Iterator[StatusDocument], args: argparse.Namespace) -> None:
    """Write each status that differs from the one before.

    Without a running controller the status does not change; only the line on how long it has been so differs.
    """
    last = None
    for status in statuses:
        now = leaders_time(status, transport.now())
        at_work = status.lease is not None and status.lease.holder and not find_trouble(status, now)
        shown = _without_renewal(status), "" if at_work or args.output != "table" else describe_controller(status, now)
        if shown != last:
            sys.stdout.write(_show(status, now, args) + ("\n" if args.output == "table" else ""))
            sys.stdout.flush()
            last = shown


def _without_renewal(status: StatusDocument) -> StatusDocument:
    """Return a status without the renewal time of the Lease, whose change every two seconds is no news."""
    lease = status.lease
    return structs.replace(status, lease=structs.replace(lease, renewed=None) if lease is not None else None)


def _read(transport: Transport, namespace: str, args: argparse.Namespace) -> StatusDocument:
    status = read_status(transport, namespace)
    if status is None:
        elsewhere = list_elsewhere(transport, STATUS, namespace, repeat_command(args, "status"))
        raise CliError(f"no controller has written a status in namespace {namespace}", *elsewhere)
    status = _with_pause(transport, namespace, structs.replace(status, lease=read_lease(transport, namespace)))
    return structs.replace(status, page_command=find_page_command(transport, namespace, status, args))


def _with_pause(transport: Transport, namespace: str, status: StatusDocument) -> StatusDocument:
    """Return a status without a leader with the present pause, because the stored pause is that of the last cycle.

    The status is unchanged if the pause's ConfigMap cannot be read.
    """
    if runs(status):
        return status
    try:
        config_map = ControlMap(transport, namespace).read()
    except ClusterError:
        return status
    pause = find_pause(config_map) if config_map is not None else None
    stands = pause is not None and pause.holds(transport.now())
    return structs.replace(status, paused=pause_status(pause if stands else None))


def _show(status: StatusDocument, now: datetime, args: argparse.Namespace) -> str:
    match args.output:
        case "json":
            return to_json(status).decode()
        case "yaml":
            return ("---\n" if args.watch else "") + to_yaml(status)
        case _:
            return status_text(status, now, find_layout(args.color))
