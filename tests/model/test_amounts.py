"""Amounts as people write them."""

import pytest

from rebalancer.model.quantities import format_amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("requests.cpu", 2000, "2"),
        ("cpu", 0, "0"),
        ("memory", 512 * 2**20, "512Mi"),
        ("memory", 2**40, "1Ti"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("pods", 3, "3"),
    ],
)
def test_an_amount_is_written_in_its_largest_whole_unit(resource: str, amount: int, text: str) -> None:
    assert format_amount(resource, amount) == text
