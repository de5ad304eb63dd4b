"""`rebalancer version`: what to put into a report of a problem."""

import argparse
import platform
import sys

from rebalancer import __version__
from rebalancer.build import find_revision
from rebalancer.cli.errors import Exit
from rebalancer.cli.parsing import Parser
from rebalancer.model.cluster import NEWEST, OLDEST


def add_arguments(_: Parser) -> None:
    """Declare nothing."""


def run(_: argparse.Namespace) -> int:
    """Print the versions, one a line; the revision is that of an image's build."""
    revision = find_revision() or "unknown"
    sys.stdout.write(
        f"rebalancer {__version__}\n"
        f"revision {revision}\n"
        f"Python {platform.python_version()}\n"
        f"Kubernetes {OLDEST} to {NEWEST}\n"
    )
    return Exit.FINE
