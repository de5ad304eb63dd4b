"""Kubernetes quantities: `100m`, `1.5Gi`, `1e3`.

The client's parser is not used: it is slow and accepts values that the API server refuses (NaN, underscores, other
scripts' digits). A test compares the two. Source: apimachinery `resource.ParseQuantity`.
"""

import re
from fractions import Fraction
from functools import lru_cache

_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?",
    re.ASCII,
)
_SUFFIXES: dict[str | None, Fraction] = {
    None: Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(10 ** (3 * power)) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(2 ** (10 * power)) for power, suffix in enumerate("KMGTPE", start=1)},
}
_LARGEST = 2**63 - 1


class QuantityError(ValueError):
    """The text is not a quantity."""


@lru_cache(maxsize=65536)
def _parse(text: str) -> Fraction:
    match = _FORM.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity; expected a number such as 2, 500m, 1.5Gi or 1e3")
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > 64:
        # The server caps at 2^63-1 and rounds up to 1n: larger exponents give the same result at a higher cost.
        exponent = 64 if exponent > 0 else -64
    return Fraction(match["number"]) * _SUFFIXES[match["suffix"]] * Fraction(10) ** exponent


def _round_up(value: Fraction) -> int:
    rounded = -(-value.numerator // value.denominator)
    return max(-_LARGEST, min(_LARGEST, rounded))


@lru_cache(maxsize=65536)
def parse_units(text: str) -> int:
    """Return whole units, rounded up (`Quantity.Value`); bytes for memory."""
    return _round_up(_parse(text))


@lru_cache(maxsize=65536)
def parse_milli(text: str) -> int:
    """Return thousandths, rounded up (`Quantity.MilliValue`), the scheduler's unit of CPU."""
    return _round_up(_parse(text) * 1000)


def format_amount(resource: str, amount: int) -> str:
    """Write an amount as people do: `1500m` for CPU in thousandths of a core, `512Mi`, `3`."""
    if resource.rpartition(".")[2] == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if not resource.rpartition(".")[2].startswith(("memory", "storage", "ephemeral-storage", "hugepages-")):
        return str(amount)
    for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if amount and amount % 1024**power == 0:
            return f"{amount // 1024**power}{suffix}"
    return str(amount)
