"""Shares: "less than a third", as an exact fraction and never as a float.

The difference between `<1/3` and `<=1/3` is one pod where the total is divisible by three, and 0.1 + 0.2 is no place to
look for it.
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
    """A bound on a part of a total: less than `fraction` where `strict`, else at most that."""

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
            raise ValueError(f"expected less than the whole, which would be no limit: {_EXPECTED}")
        return cls(strict, fraction)

    def cap(self, total: int) -> int:
        """Return the largest number of pods, of `total`, that is within the bound; 0 where even none is not."""
        whole, rest = divmod(self.fraction.numerator * total, self.fraction.denominator)
        return max(0, whole - 1 if self.strict and not rest else whole)

    def holds(self, count: int, total: int) -> bool:
        """Say whether `count` of `total` is within the bound; no pods always are."""
        bound = self.fraction * total
        return not count or (count < bound if self.strict else count <= bound)

    def __str__(self) -> str:
        """Show it as a file has it; shares that mean the same look the same."""
        return f"{'<' if self.strict else '<='}{_format_fraction(self.fraction)}"


def _format_fraction(fraction: Fraction) -> str:
    """Write small denominators as a fraction, others as a percentage where that is exact and short."""
    scaled = fraction * 100 * 10**_MOST_DECIMALS
    if fraction.denominator <= _PLAIN_DENOMINATOR or scaled.denominator != 1:
        return f"{fraction.numerator}/{fraction.denominator}"
    whole, rest = divmod(scaled.numerator, 10**_MOST_DECIMALS)
    decimals = f"{rest:0{_MOST_DECIMALS}d}".rstrip("0")
    return f"{whole}.{decimals}%" if decimals else f"{whole}%"


def _validate(value: object) -> Share:
    return read_value(value, Share, Share.of, accepts=str, expected=_EXPECTED, meant=_suggest)


def _suggest(value: object) -> str | None:
    """Guess what another spelling means: blanks, a missing or a turned operator."""
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
