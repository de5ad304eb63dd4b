"""Quantities are read as the API server reads them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from rebalancer.model.quantities import QuantityError, parse_milli, parse_units

numbers = st.from_regex(r"[+-]?([0-9]{1,9}(\.[0-9]{0,6})?|\.[0-9]{1,6})", fullmatch=True)
suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"])


def capped(value: int) -> int:
    """Cap as the server's 64 bits do; the client does not."""
    return max(1 - 2**63, min(2**63 - 1, value))


@given(numbers, suffixes)
def test_as_the_client(number: str, suffix: str) -> None:
    """Our parser and the official client's agree on what both take, rounded up to whole units."""
    value = parse_quantity(number + suffix)  # type: ignore[no-untyped-call]
    assert parse_units(number + suffix) == capped(math.ceil(value))
    assert parse_milli(number + suffix) == capped(math.ceil(value * 1000))


@pytest.mark.parametrize(
    ("text", "whole", "thousandths"),
    [
        ("0", 0, 0),
        ("1e3", 1000, 10**6),
        ("1E3", 1000, 10**6),
        ("1E", 10**18, 10**21),
        ("100m", 1, 100),
        ("1.5Gi", 3 * 2**29, 3000 * 2**29),
    ],
)
def test_examples(text: str, whole: int, thousandths: int) -> None:
    """An exponent is no suffix, and fractions round up."""
    assert parse_units(text) == whole
    assert parse_milli(text) == min(thousandths, 2**63 - 1)


@pytest.mark.parametrize(
    "text", ["", "x", "1x", "1 Gi", "NaN", "Infinity", "1_000", "٣", "1e", "Gi", "--1", "1.5.5", "0x10"]
)
def test_refused(text: str) -> None:
    """What the API server refuses is refused, in other scripts' digits too."""
    with pytest.raises(QuantityError, match="quantity"):
        parse_units(text)


def test_far_exponents_cost_nothing() -> None:
    """A quantity with a million digits is capped, not computed."""
    assert parse_units("1e999999999") == 2**63 - 1
    assert parse_units("1e-999999999") == 1
