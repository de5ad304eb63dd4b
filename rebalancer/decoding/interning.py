"""One object for each distinct value: thousands of pods share a few specs and label sets.

Pods come and go, each job with labels of its own, so that a store that watches must forget values. It does so when it
has grown by a quarter since the last time: the cost for each new value is then constant.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

Value = TypeVar("Value")

_FEWEST: Final = 250
"""New values for which it is not worth it to look which are unused."""


class Interner:
    """Returns the first of all equal values. Each store has its own, so that both are freed together."""

    def __init__(self) -> None:
        self._values: dict[object, object] = {}
        self._limit = _FEWEST

    def __call__(self, value: Value) -> Value:
        """Return the first value that equals this one and has the same type."""
        first: Value = self._values.setdefault((type(value), value), value)  # type: ignore[assignment]  # same type
        return first

    def __len__(self) -> int:
        """Return the number of distinct values."""
        return len(self._values)

    @property
    def is_overgrown(self) -> bool:
        """Whether it has grown by a quarter since values were last forgotten."""
        return len(self._values) > self._limit

    def forget_unused(self, used: Iterable[object]) -> None:
        """Forget the values that are not among the used ones, compared by identity: to hash them all takes too long."""
        identities = set(map(id, used))
        self._values = {key: value for key, value in self._values.items() if id(value) in identities}
        self.accept_size()

    def accept_size(self) -> None:
        """Count growth from here: every value is in use."""
        self._limit = len(self._values) + max(_FEWEST, len(self._values) // 4)
