"""Files on the command line: read with `-` as standard input; a policy's error lists all its problems."""

import sys
from pathlib import Path

from rebalancer.cli.errors import CliError
from rebalancer.policy import Policy, PolicyError, default_policy, load_policy


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
    source = "standard input" if name == "-" else name
    try:
        return load_policy(read_bytes(name), source=source)
    except PolicyError as error:
        number = len(error.problems) + error.unlisted
        raise CliError(f"{source} is not a valid policy, {number} problem{'s'[: number > 1]}:\n{error}") from None
