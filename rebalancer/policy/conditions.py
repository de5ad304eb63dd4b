"""Conditions on a number: `3`, `">=2"`, `"!=6"`."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from rebalancer.policy.amounts import LARGEST
from rebalancer.policy.base import read_value

_COMPARES: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM: Final = r"^(?:=|!=|<=?|>=?)(?:0|[1-9][0-9]{0,8})$"
_WRITTEN = re.compile(r"(=|!=|<=?|>=?)(0|[1-9][0-9]{0,8})\Z")
_LOOSE = re.compile(r"(==|=|!=|<=?|>=?)? *(0|[1-9][0-9]{0,8})\Z")
_EXPECTED: Final = 'a whole number such as 3, or one with =, !=, <, <=, > or >= such as ">=2"'


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number: `comparison` is one of =, !=, <, <=, > and >=."""

    comparison: str
    number: int

    @classmethod
    def of(cls, written: int | str) -> Self:
        """Read `3` or `">=2"`; ValueError says what was expected."""
        if isinstance(written, str):
            match = _WRITTEN.match(written)
            if match is None:
                raise ValueError(f"expected {_EXPECTED}")
            return cls(match.group(1), int(match.group(2)))
        if not 0 <= written <= LARGEST:
            raise ValueError(f"expected a number from 0 to {LARGEST}")
        return cls("=", written)

    def holds(self, number: int) -> bool:
        """Return whether a number satisfies the condition."""
        return _COMPARES[self.comparison](number, self.number)

    @property
    def written(self) -> int | str:
        """The value as a file has it."""
        return self.number if self.comparison == "=" else f"{self.comparison}{self.number}"

    def __str__(self) -> str:
        """Show it as a file has it."""
        return str(self.written)


def find_greatest(*conditions: Condition | None) -> int | None:
    """Return the greatest number that satisfies all conditions: None if there is no greatest, -1 if none does."""
    given = [condition for condition in conditions if condition is not None]
    edge = max((condition.number for condition in given), default=0)
    if all(condition.holds(edge + 1) for condition in given):
        return None  # beyond the greatest number of a condition nothing changes
    # The last number of an interval that satisfies them all is a condition's number, or adjacent to one.
    near = {number for condition in given for number in (condition.number - 1, condition.number, condition.number + 1)}
    return max(
        (number for number in near if number >= 0 and all(condition.holds(number) for condition in given)), default=-1
    )


def _validate(value: object) -> Condition:
    return read_value(value, Condition, Condition.of, accepts=(int, str), expected=_EXPECTED, meant=_suggest)


def _suggest(value: object) -> str | None:
    match = _LOOSE.match(value) if isinstance(value, str) else None
    if match is None:
        return None
    sign, number = match.groups()
    return f'"{sign}{number}"' if sign in _COMPARES and sign != "=" else number


ConditionField = Annotated[
    Condition,
    PlainValidator(_validate),
    PlainSerializer(lambda condition: condition.written, return_type=int | str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": LARGEST},
                {"type": "string", "pattern": _FORM},
            ],
            "examples": [3, ">=2"],
        }
    ),
]
"""A field for a condition on a number."""
