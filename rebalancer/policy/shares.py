"""Shares: "less than a third", as an exact fraction and never as a float.

The difference between `<1/3` and `<=1/3` is one pod if the total is divisible by three; a float would round it away.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from rebalancer.policy.base import read_value

_SHARE: Final = (
    r"^<=?(?:[1-9][0-9]{0,5}/[1-9][0-9]{0,5}|(?!0+(?:\.0+)?%)[0-9]{1,3}(?:\.[0-9]{1,6})?%)$"  # 12/34, 12.34%
)
_WRITTEN = re.compile(_SHARE.removesuffix("$") + r"\Z")
_LOOSE = re.compile(r"(?P<operator><=?|=<|≤)? *(?P<share>[1-9][0-9]{0,5} */ *[1-9][0-9]{0,5}|[0-9.]{1,9} *%)\Z")
_EXPECTED: Final = 'an operator and a share such as "<1/3", "<=1/2" or "<34%"'
_PLAIN_DENOMINATOR: Final = 12
_MOST_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class Share:
    """A bound on a part of a total: less than `fraction` if `strict`, else at most `fraction`."""

    strict: bool
    fraction: Fraction

    @classmethod
    def of(cls, written: str) -> Self:
        """Read `<1/3`, `<=1/2`, `<34%` or `<=33.5%`; ValueError says what was expected."""
        if not _WRITTEN.match(written):
            raise ValueError(f"expected {_EXPECTED}")
        strict = not written.startswith("<=")
        number = written.lstrip("<=")
        fraction = Fraction(number.removesuffix("%")) / 100 if number.endswith("%") else Fraction(number)
        if fraction > 1 or (fraction == 1 and not strict):
            raise ValueError(f"expected a share below the whole: {_EXPECTED}")
        return cls(strict, fraction)

    def cap(self, total: int) -> int:
        """Return the largest number of pods, of `total`, that the bound allows; never below 0."""
        whole, rest = divmod(self.fraction.numerator * total, self.fraction.denominator)
        return max(0, whole - 1 if self.strict and not rest else whole)

    def holds(self, count: int, total: int) -> bool:
        """Return whether `count` of `total` pods is within the bound; 0 always is."""
        bound = self.fraction * total
        return not count or (count < bound if self.strict else count <= bound)

    def __str__(self) -> str:
        """Format it as in a file; equal shares give equal text."""
        return f"{'<' if self.strict else '<='}{_format_fraction(self.fraction)}"


def _format_fraction(fraction: Fraction) -> str:
    """Format a fraction with a small denominator as it is, others as a percentage if that is exact and short."""
    scaled = fraction * 100 * 10**_MOST_DECIMALS
    if fraction.denominator <= _PLAIN_DENOMINATOR or scaled.denominator != 1:
        return f"{fraction.numerator}/{fraction.denominator}"
    whole, rest = divmod(scaled.numerator, 10**_MOST_DECIMALS)
    decimals = f"{rest:0{_MOST_DECIMALS}d}".rstrip("0")
    return f"{whole}.{decimals}%" if decimals else f"{whole}%"


def _validate(value: object) -> Share:
    return read_value(value, Share, Share.of, accepts=str, expected=_EXPECTED, meant=_suggest)


def _suggest(value: object) -> str | None:
    """Suggest the valid spelling for blanks, a missing operator or a reversed one."""
    match = _LOOSE.match(value) if isinstance(value, str) else None
    if match is None:
        return None
    share = match["share"].replace(" ", "")
    try:
        guesses = [
            Share.of(operator + share) for operator in ([match["operator"]] if match["operator"] else ["<", "<="])
        ]
    except ValueError:
        return None
    return " or ".join(f'"{guess}"' for guess in guesses)


ShareField = Annotated[
    Share,
    PlainValidator(_validate),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _SHARE, "examples": ["<1/3", "<=1/2", "<34%"]}),
]
"""A field for a bound on a share."""
