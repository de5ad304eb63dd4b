"""One object for each distinct value: thousands of pods share a handful of specs and label sets."""

from typing import TypeVar

Value = TypeVar("Value")


class Interner:
    """Hands out the first of all equal values it was shown. One for each store, so that it dies with it."""

    def __init__(self) -> None:
        self._values: dict[object, object] = {}

    def __call__(self, value: Value) -> Value:
        """Return the kept object that equals this one; values of different types never meet."""
        kept: Value = self._values.setdefault((type(value), value), value)  # type: ignore[assignment]  # same type
        return kept
