"""Argument parsing without abbreviated flags, and with help of a fixed width.

It uses argparse, because pydantic-settings' own command line lists verbs without a description, shows every type as
`str`, and takes longer to import than all of `--help`.
"""

import argparse
import shutil
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any, NoReturn

from rebalancer.model.visible import visible

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

    def list_flags(self) -> tuple[str, ...]:
        """Return every flag, short and long."""
        return tuple(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        """End with one line that says what is wrong; argparse would show every flag before it."""
        if message.endswith("expected one argument"):
            message += self._describe_argument(message)
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0]
        hint = suggest_flag(unknown, self.list_flags())
        self.exit(2, f"{visible(f'error: {message}; {hint}`{self.prog} --help` shows how it is used')}\n")

    def _describe_argument(self, message: str) -> str:
        """Return the values of the flag that a message names, as shown in its help."""
        flag = message.removeprefix("argument ").partition(":")[0].partition("/")[0]
        action = self._option_string_actions.get(flag)
        return f": {action.help.replace('%%', '%')}" if action is not None and action.help else ""


class _VerbParser(Parser):
    """The parser of a verb below a verb. It refuses unknown flags itself; argparse leaves them to the parent parser."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def suggest_flag(written: str, flags: Iterable[str]) -> str:
    """Return "did you mean FLAG?", "" if no flag is similar."""
    near = get_close_matches(written.partition("=")[0], flags, n=1) if written.startswith("--") else []
    return f"did you mean {near[0]}? " if near else ""


def add_verbs(parser: Parser, verbs: dict[str, str], *, dest: str) -> dict[str, Parser]:
    """Add a choice of verbs with one line of help each; return the parser of each verb, without arguments yet."""
    choices = parser.add_subparsers(
        title="commands", dest=dest, metavar="COMMAND", required=True, parser_class=_VerbParser
    )
    return {
        name: choices.add_parser(name, prog=f"{parser.prog} {name}", help=summary, description=f"{summary}.")
        for name, summary in verbs.items()
    }
