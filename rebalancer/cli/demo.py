"""`rebalancer demo`: `simulate --live` with a shipped scenario, where no other one is named."""

import argparse

from rebalancer.cli import simulate
from rebalancer.cli.parsing import Parser
from rebalancer.simulator.scenario import BUILTIN


def add_arguments(parser: Parser) -> None:
    """Declare the flags of `simulate`, with other defaults."""
    simulate.add_arguments(parser)
    parser.set_defaults(live=True, scenario=f"{BUILTIN}zone")


def run(args: argparse.Namespace) -> int:
    """Play the scenario, then print what happened."""
    return simulate.run(args)
