"""Amounts of pods in budgets: a number, or a percentage of a total that is known only later."""

import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from rebalancer.policy.base import read_value

LARGEST = 2**31 - 1
"""Kubernetes counts replicas in 32 bits."""

PERCENTAGE = r"^(100|[1-9]?[0-9])%$"
_PERCENT = re.compile(PERCENTAGE.removesuffix("$") + r"\Z")
_ANY_PERCENT = re.compile(r"[1-9][0-9]{2,8}%\Z")
_EXPECTED = "a whole number such as 2 or a percentage such as 10%"


def expected_percentage(written: str) -> str:
    """Say what is expected in place of a percentage above 100; return "" for any other text."""
    return "at most 100%" if _ANY_PERCENT.match(written) else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """A number of pods: `value` itself, or `value` percent of a total."""

    value: int
    percent: bool = False

    @classmethod
    def of(cls, written: int | str) -> Self:
        """Read `2` or `"10%"`; ValueError says what was expected."""
        if isinstance(written, str):
            match = _PERCENT.match(written)
            if match is None:
                raise ValueError(f"expected {expected_percentage(written) or _EXPECTED}")
            return cls(value=int(match.group(1)), percent=True)
        if not 0 <= written <= LARGEST:
            raise ValueError(f"expected a number from 0 to {LARGEST}")
        return cls(value=written)

    def resolve(self, total: int) -> int:
        """Return the number that the amount means for `total` pods.

        A percentage rounds down, but not below 1 if there are at least two pods: otherwise 10% would allow no eviction
        in a workload of fewer than ten replicas. 0% stays 0.
        """
        if not self.percent:
            return self.value
        number = total * self.value // 100
        return 1 if number == 0 and self.value and total >= 2 else number

    @property
    def written(self) -> int | str:
        """The value as it is written in the file."""
        return f"{self.value}%" if self.percent else self.value

    def __str__(self) -> str:
        """Show the value as it is written in the file."""
        return str(self.written)


def _validate(value: object) -> Amount:
    return read_value(value, Amount, Amount.of, accepts=(int, str), expected=_EXPECTED, meant=_suggest)


def _suggest(value: object) -> str | None:
    """Guess that digits in quotes were meant as a number."""
    return value if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None


AmountField = Annotated[
    Amount,
    PlainValidator(_validate),
    PlainSerializer(lambda amount: amount.written, return_type=int | str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": LARGEST},
                {"type": "string", "pattern": PERCENTAGE},
            ],
            "examples": [2, "10%"],
        }
    ),
]
"""A field for a budget."""
