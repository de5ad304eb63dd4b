"""What ends a command early, a message and an exit code, and warnings that do not end it.

CliError          exit 1: the message says what is wrong and what to do
└── UsageError    exit 2: the command line itself is wrong
"""

import sys
from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """The exit codes, the same for every verb."""

    FINE = 0
    ERROR = 1
    USAGE = 2
    SOMETHING = 3
    """--detailed-exitcode or --fail-on applies."""
    INTERRUPTED = 130


class CliError(Exception):
    """The command cannot be carried out; its text is shown on standard error, without a traceback."""

    exit_code = Exit.ERROR


class UsageError(CliError):
    """The command line is wrong or contradicts itself."""

    exit_code = Exit.USAGE


def warn(warnings: Iterable[str]) -> None:
    """Write warnings to standard error."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)  # noqa: T201
