"""One object for each distinct value: thousands of pods share a few specs and label sets."""

from typing import TypeVar

Value = TypeVar("Value")


class Interner:
    """Returns the first of all equal values. Each store has its own, so that both are freed together."""

    def __init__(self) -> None:
        self._values: dict[object, object] = {}

    def __call__(self, value: Value) -> Value:
        """Return the first value that equals this one and has the same type."""
        first: Value = self._values.setdefault((type(value), value), value)  # type: ignore[assignment]  # same type
        return first
