"""`rebalancer demo`: `simulate --live` with a scenario that has its own cluster, a shipped one by default."""

import argparse

from rebalancer.cli import simulate
from rebalancer.cli.live import add_watching_arguments
from rebalancer.cli.options import add_color_argument
from rebalancer.cli.parsing import Parser
from rebalancer.simulator.scenario import BUILTIN

_OF_SIMULATE = (
    *("changes", "every_domain_of", "prevention", "policy", "limit"),
    *("snapshot", "server_version", "at", "kubeconfig", "context", "controller_namespace"),
    *("namespace", "selector"),
)
"""Flags of `simulate` that are of no use in a demo."""


def add_arguments(parser: Parser) -> None:
    """Declare the flags of `simulate` that are of use here."""
    simulate.add_scenario_argument(parser, default=f"{BUILTIN}zone")
    simulate.add_seed_argument(parser)
    add_watching_arguments(parser)
    add_color_argument(parser)
    parser.set_defaults(live=True, output="table", **dict.fromkeys(_OF_SIMULATE))


def run(args: argparse.Namespace) -> int:
    """Play the scenario, then print what happened."""
    return simulate.run(args)
