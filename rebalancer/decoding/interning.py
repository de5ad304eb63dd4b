"""One object for each distinct value: thousands of pods share a few specs and label sets.

Pods come and go, and each job has its own labels, so a store that watches must forget values. It does so whenever it
has grown by a quarter, so that the cost for each new value is constant.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final, TypeVar

from rebalancer.model.labels import NO_LABELS, Labels

Value = TypeVar("Value")

_FEWEST: Final = 250
"""Below this number of new values, a search for unused values does not pay."""

_MOST_CONVERSIONS: Final = 50_000
"""After this many stored conversions, all are forgotten, and made again when needed."""


class Interner:
    """Returns the first of all equal values. Each store has its own interner, so that both are freed together."""

    def __init__(self) -> None:
        self._values: dict[object, object] = {}
        self._limit = _FEWEST
        self._conversions: dict[bytes, object] = {}
        """Converted texts by the digest of the text, because texts are a hundred times as long."""
        self._last_text = b""
        self._last: object = None
        self._last_labels = NO_LABELS
        self._last_annotations: Mapping[str, str] = {}
        self._last_read: tuple[Labels, int] = (NO_LABELS, 0)

    def __call__(self, value: Value) -> Value:
        """Return the first value that equals this one and has the same type."""
        first: Value = self._values.setdefault((type(value), value), value)  # type: ignore[assignment]  # same type
        return first

    def labels(self, source: Mapping[str, str] | None) -> Labels:
        """Return the label set that equals a mapping; consecutive pods mostly share one."""
        if not source:
            return NO_LABELS
        if source != self._last_labels:
            self._last_labels = self(Labels(source))
        return self._last_labels

    def annotations(
        self, source: Mapping[str, str], read: Callable[[Mapping[str, str]], tuple[Labels, int]]
    ) -> tuple[Labels, int]:
        """Return what `read` returns for annotations; consecutive pods mostly have equal ones."""
        if source != self._last_annotations:
            labels, number = read(source)
            self._last_annotations, self._last_read = source, (self(labels), number)
        return self._last_read

    def convert(self, text: bytes, make: Callable[[bytes], Value]) -> Value:
        """Return the result of `make` for a text, which is called once for equal texts. `make` must never change."""
        if text == self._last_text:  # lists are sorted by name, so pods of one owner come together
            return self._last  # type: ignore[return-value]  # one function, one type
        digest = blake2b(text, digest_size=16).digest()
        converted: Value | None = self._conversions.get(digest)  # type: ignore[assignment]  # one function, one type
        if converted is None:
            if len(self._conversions) >= _MOST_CONVERSIONS:
                self._conversions.clear()
            self._conversions[digest] = converted = make(text)
        self._last_text, self._last = text, converted
        return converted

    def __len__(self) -> int:
        """Return the number of distinct values."""
        return len(self._values)

    @property
    def is_overgrown(self) -> bool:
        """Whether the number of values has grown by a quarter since values were last forgotten."""
        return len(self._values) > self._limit

    def forget_unused(self, used: Iterable[object]) -> None:
        """Forget the values that are not among the used ones, compared by identity: to hash them all takes too long."""
        identities = set(map(id, used))
        self._conversions.clear()
        self._last_text, self._last, self._last_labels = b"", None, NO_LABELS
        self._last_annotations, self._last_read = {}, (NO_LABELS, 0)
        self._values = {key: value for key, value in self._values.items() if id(value) in identities}
        self.accept_size()

    def accept_size(self) -> None:
        """Count growth from the present size, because every value is in use."""
        self._limit = len(self._values) + max(_FEWEST, len(self._values) // 4)
