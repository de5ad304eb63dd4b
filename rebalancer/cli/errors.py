"""Errors, which end a command with a message and an exit code, and warnings, which do not.

CliError          exit 1: the message says what is wrong and what to do
└── UsageError    exit 2: the command line itself is wrong
"""

import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum

from rebalancer.model.visible import visible_lines


class Exit(IntEnum):
    """The exit codes, equal for every verb."""

    FINE = 0
    ERROR = 1
    USAGE = 2
    SOMETHING = 3
    """--detailed-exitcode or --fail-on applies."""
    INTERRUPTED = 130


class CliError(Exception):
    """The command cannot be carried out; its lines are shown on standard error, without a traceback."""

    exit_code = Exit.ERROR

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self.lines = lines

    def __str__(self) -> str:
        return visible_lines(self.lines)


class UsageError(CliError):
    """The command line is wrong or contradicts itself."""

    exit_code = Exit.USAGE


def warn(warnings: Iterable[str]) -> None:
    """Write warnings to standard error."""
    for warning in warnings:
        write_error([f"warning: {warning}"])


def traceback_lines(error: BaseException, *, most: int | None = None) -> Iterator[str]:
    """Yield the lines of a traceback, with the last `most` calls. The message is one item, each call several."""
    import traceback  # noqa: PLC0415  # it takes longer than the rest of a command that prints its help

    for part in traceback.format_exception(error, limit=most and -most):
        text = part.strip("\n")
        yield from text.split("\n") if text.startswith("  File ") else [text]


def write_error(lines: Iterable[str]) -> None:
    """Write lines to standard error."""
    print(visible_lines(lines), file=sys.stderr)  # noqa: T201
