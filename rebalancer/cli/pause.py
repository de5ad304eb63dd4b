"""`rebalancer pause`: nothing is evicted until somebody resumes, or for a while."""

import argparse
import sys
from datetime import UTC, datetime, timedelta

from rebalancer.admission.pause import KEY, Pause, one_line, pause_text
from rebalancer.cli.errors import Exit, UsageError
from rebalancer.cli.parsing import Parser
from rebalancer.cli.pause_client import connect_control, current_user, explain_refusals
from rebalancer.cli.settings_flags import add_settings_arguments, settings_of
from rebalancer.policy.durations import parse_duration

_EPILOG = (
    "It writes the key pause.yaml of the ConfigMap rebalancer-control, which the controller watches: within a second "
    "it evicts nothing more. What was evicted before gets its replacement. Reports, metrics and plans go on. "
    "`rebalancer resume` ends it; pausing again replaces it."
)


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--for",
        dest="lasting",
        metavar="DURATION",
        type=_duration,
        help="how long, such as 30m or 2h (default: until resumed)",
    )
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; whoever wonders reads it")
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Write the pause and say so."""
    reason = one_line(args.reason)
    if not reason:
        raise UsageError("--reason is empty; say why, whoever wonders reads it")
    settings = settings_of(args)
    transport, control = connect_control(settings)
    until = datetime.now(UTC).replace(microsecond=0) + args.lasting if args.lasting is not None else None
    pause = Pause(until=until, reason=reason, by=current_user(transport))
    with explain_refusals(control, "patch and create"):
        control.put(KEY, pause_text(pause))
    sys.stdout.write(
        f"Now {pause.message}\n"
        f"Written to {control}. Within a second nothing more is evicted; `rebalancer resume` ends it.\n"
    )
    return Exit.FINE


def _duration(text: str) -> timedelta:
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, {error}") from None
    if not found:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected more than 0s")
    return found
