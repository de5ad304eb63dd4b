"""The question before a command makes an irreversible change: asked in a terminal, answered by --yes elsewhere."""

import argparse
import sys

from rebalancer.cli.errors import UsageError
from rebalancer.cli.parsing import Parser
from rebalancer.cli.terminal import ask, say


def add_confirmation_arguments(parser: Parser) -> None:
    """Declare --yes and --dry-run."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("-y", "--yes", action="store_true", help="do it without asking, as scripts need it")
    choice.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")


def is_confirmed(args: argparse.Namespace, question: str) -> bool:
    """Return whether to go on; with `--dry-run`, and after any other answer than yes, say that nothing was done.

    UsageError without a terminal in which to ask.
    """
    if args.yes:
        return True
    if not args.dry_run:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal to ask in; add --yes to do it, or --dry-run to look")
        if ask(f"{question} [y/N]").strip().lower() in {"y", "yes"}:
            return True
    say(["Nothing was changed."])
    return False
