"""Numbers and nouns agree."""

import pytest

from rebalancer.documents.phrases import portion
from rebalancer.model.words import plural


@pytest.mark.parametrize(
    ("number", "total", "text"),
    [
        (0, 1, "0 of 1 limit holds"),
        (1, 1, "1 of 1 limit holds"),
        (0, 2, "0 of 2 limits hold"),
        (1, 2, "1 of 2 limits hold"),
        (2, 2, "2 of 2 limits hold"),
    ],
)
def test_a_part_of_something_agrees_with_its_number(number: int, total: int, text: str) -> None:
    assert portion(number, total, "limit", "hold") == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_only_one_is_singular(number: int, text: str) -> None:
    assert plural(number, "pod") == text
