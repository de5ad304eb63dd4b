"""`rebalancer resume`: takes a pause away."""

import argparse
import sys
from datetime import UTC, datetime

from rebalancer.admission.pause import KEY
from rebalancer.cli.errors import Exit
from rebalancer.cli.parsing import Parser
from rebalancer.cli.pause_client import connect_control, explain_refusals
from rebalancer.cli.settings_flags import add_settings_arguments, settings_of
from rebalancer.controller.pauses import parse_pause


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = (
        "It takes the key pause.yaml out of the ConfigMap rebalancer-control. The controller goes on with a new plan."
    )
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Take the pause away and say which it was."""
    _, control = connect_control(settings_of(args))
    with explain_refusals(control, "get and patch"):
        found = control.read()
        pause = parse_pause(found) if found is not None else None
        if pause is None:
            sys.stdout.write(f"Nothing to do: {control} holds no pause.\n")
            return Exit.FINE
        control.remove(KEY)
    over = "" if pause.holds(datetime.now(UTC)) else " (it was over)"
    sys.stdout.write(f"Resumed; it was {pause.message}{over}\n{KEY} is taken out of {control}.\n")
    return Exit.FINE
