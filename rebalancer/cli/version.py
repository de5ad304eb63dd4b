"""`rebalancer version`: the versions to put into a bug report."""

import argparse
import platform

from rebalancer import __version__
from rebalancer.build import find_revision
from rebalancer.cli.errors import Exit
from rebalancer.cli.parsing import Parser
from rebalancer.cli.terminal import write_lines
from rebalancer.model.cluster import NEWEST, OLDEST


def add_arguments(_: Parser) -> None:
    """Declare nothing."""


def run(_: argparse.Namespace) -> int:
    """Print the versions, one per line; only an image has a revision, because its build records it."""
    revision = find_revision()
    lines = [
        f"rebalancer {__version__}",
        *([f"revision {revision}"] if revision else []),
        f"Python {platform.python_version()}",
        f"Kubernetes {OLDEST} to {NEWEST}",
    ]
    write_lines(lines)
    return Exit.FINE
