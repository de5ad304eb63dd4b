"""`rebalancer resume`: ends a pause."""

import argparse
from datetime import UTC, datetime

from rebalancer.account.people import describe_end, pause_token
from rebalancer.adapters.kubernetes.configmaps import find_author, find_pause
from rebalancer.admission.pause import KEY, is_pause_key
from rebalancer.cli.errors import Exit
from rebalancer.cli.parsing import Parser
from rebalancer.cli.pause_client import connect_switch, declare, explain_refusals
from rebalancer.cli.settings_flags import add_settings_arguments
from rebalancer.cli.terminal import say


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.epilog = (
        "It removes the key pause.yaml from the ConfigMap rebalancer-control. The controller continues with a new plan."
    )
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """End the pause and report which it was."""
    target = connect_switch(args, "resume")
    control = target.control
    with explain_refusals(target):
        config_map = control.read()
        if config_map is None:
            raise target.missing()
        pause = find_pause(config_map)
        if pause is None:
            say([f"Nothing to do: {control} has no pause."])
            return Exit.FINE
        keys = sorted(filter(is_pause_key, (*config_map.data, *config_map.binary)))
        author = find_author(config_map, KEY)
        declared = declare(target.transport, pause_token(pause), describe_end(pause, author, target.transport.now()))
        for key in keys:
            control.remove(key, declared=declared)
    over = "" if pause.holds(datetime.now(UTC)) else " (it had ended)"
    unread = f"the pause could not be read ({pause.unreadable}), which had counted as a pause"
    was = unread if pause.unreadable else f"it was {pause.message}{over}"
    say((f"Resumed; {was}", f"Removed {', '.join(keys)} from {control}."))
    return Exit.FINE
