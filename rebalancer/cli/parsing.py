"""Argument parsing as this program wants it: no abbreviated flags, help of a steady width.

argparse rather than pydantic-settings' own command line: that lists verbs without a description, shows every type as
`str`, and its import takes longer than all of `--help`.
"""

import argparse
import shutil
from functools import partial

_WIDEST = 100


class Parser(argparse.ArgumentParser):
    """argparse's parser; a flag is known only by its whole name, since abbreviations break when flags are added."""

    def __init__(self, *, prog: str, description: str, epilog: str | None = None) -> None:
        width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=partial(argparse.HelpFormatter, width=width, max_help_position=32),
        )


def add_verbs(parser: Parser, verbs: dict[str, str], *, dest: str) -> dict[str, Parser]:
    """Make a choice of verbs with one line each; return a parser for each, to be given its arguments."""
    choices = parser.add_subparsers(title="commands", dest=dest, metavar="COMMAND", required=True, parser_class=Parser)
    return {
        name: choices.add_parser(name, prog=f"{parser.prog} {name}", help=summary, description=f"{summary}.")
        for name, summary in verbs.items()
    }
