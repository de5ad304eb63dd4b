"""`rebalancer pause`: stops evictions for a time, or until `rebalancer resume`."""

import argparse
from datetime import UTC, datetime

from rebalancer.admission.pause import KEY, Pause, format_pause, to_one_line
from rebalancer.cli.controller_state import read_lease
from rebalancer.cli.elsewhere import list_elsewhere
from rebalancer.cli.errors import Exit, UsageError, warn
from rebalancer.cli.parsing import Parser
from rebalancer.cli.pause_client import Target, connect_switch, current_user, explain_refusals, parse_duration_flag
from rebalancer.cli.settings_flags import add_settings_arguments
from rebalancer.cli.terminal import say
from rebalancer.model.words import format_duration

_EPILOG = (
    "It writes the key pause.yaml of the ConfigMap rebalancer-control, which the controller watches: evictions stop "
    "within a second; where none runs, the next one begins paused. In a namespace without that ConfigMap, where no "
    "controller is, it writes nothing. Pods evicted before still get their replacements. Reports, metrics and plans "
    "continue. `rebalancer resume` ends the pause; pausing again replaces it."
)


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--for",
        dest="lasting",
        metavar="DURATION",
        type=parse_duration_flag,
        help="how long, such as 30m or 2h (default: until resumed)",
    )
    parser.add_argument(
        "--reason", metavar="TEXT", help="why; shown in events, logs and plans (default: no reason given)"
    )
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Write the pause and confirm it."""
    reason = to_one_line(args.reason or "")
    if args.reason is not None and not reason:
        raise UsageError("--reason is empty; give the reason for the pause, which events, logs and plans show")
    lasting = () if args.lasting is None else ("--for", format_duration(args.lasting))
    target = connect_switch(args, "pause", *lasting, *(("--reason", reason) if reason else ()))
    until = datetime.now(UTC).replace(microsecond=0) + args.lasting if args.lasting is not None else None
    pause = Pause(until=until, reason=reason, by=current_user(target.transport))
    with explain_refusals(target):
        target.control.put(KEY, format_pause(pause))
    say((f"Now {pause.message}", f"Written to {target.control}. {_describe_effect(target)}"))
    if target.led is False:
        namespace, name = target.control.namespace, target.control.name
        warn(list_elsewhere(target.transport, name, namespace, target.command))
    return Exit.FINE


def _describe_effect(target: Target) -> str:
    """Say what the pause stops: the running controller, or the next one that starts there.

    The Lease is read after the pause was written, because a Lease that is not renewed takes seconds to read.
    """
    if target.led is False:
        return (
            f"No controller has led in namespace {target.control.namespace} yet: the pause holds for a controller that "
            "starts there, and for no other."
        )
    ends = "`rebalancer resume` ends the pause."
    lease = read_lease(target.transport, target.control.namespace)
    if lease.holder:
        return f"Evictions stop within a second; {ends}"
    if lease.error and lease.free_since is None:
        return f"Where a controller runs, evictions stop within a second; whether one runs is not known. {ends}"
    return f"No controller runs, so nothing is evicted: the pause holds from the start of the next one. {ends}"
