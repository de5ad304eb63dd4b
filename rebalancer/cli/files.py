"""Files on the command line: read with `-` as standard input; a policy's error lists all its problems."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rebalancer.cli.errors import CliError
from rebalancer.policy import (
    Policy,
    PolicyError,
    TeamPolicy,
    default_policy,
    is_team_policy,
    load_policy,
    load_team_policy,
)


def read_bytes(name: str) -> bytes:
    """Read a file, or standard input for `-`; CliError if it cannot be read."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise CliError(f"{name} cannot be read: {error.strerror or error}") from None


def read_policy(name: str | None) -> Policy:
    """Read a policy file, or return the shipped policy for None; CliError lists all problems with their lines."""
    if name is None:
        return default_policy()
    data = read_bytes(name)
    with _listing_problems(name) as source:
        return load_policy(data, source=source)


def read_any_policy(name: str) -> Policy | TeamPolicy:
    """Read a file with a cluster policy, or with a team policy if its `kind` says so; see `read_policy`."""
    data = read_bytes(name)
    with _listing_problems(name) as source:
        return load_team_policy(data, source=source) if is_team_policy(data) else load_policy(data, source=source)


@contextmanager
def _listing_problems(name: str) -> Iterator[str]:
    """Give the name of a policy's file for messages, and make a CliError of its PolicyError."""
    source = "standard input" if name == "-" else name
    try:
        yield source
    except PolicyError as error:
        number = len(error.problems) + error.unlisted
        raise CliError(f"{source} is not a valid policy, {number} problem{'s'[: number > 1]}:\n{error}") from None
