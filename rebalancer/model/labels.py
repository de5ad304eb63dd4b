"""Label sets and the selectors that match them.

They are one module, because most re-implementations of the scheduler's counting go wrong in a selector without the
exact rules of matching (absent keys, null against empty). Source: apimachinery `labels.Requirement.Matches` and
`metav1.LabelSelectorAsSelector`.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Self, assert_never

from msgspec import Struct


class Labels(dict[str, str]):
    """A label set that can be a dictionary key; treated as immutable once made.

    Many pods share one label set, so the decoder makes one object for each distinct set and indexes are built over the
    distinct sets only. The hash is computed once.
    """

    __slots__ = ("_hash",)
    _hash: int

    def __hash__(self) -> int:  # type: ignore[override]  # a dict is unhashable, this one is never changed
        """Hash of the items, whatever their order."""
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self.items()))
            return self._hash

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a label set is immutable")

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, str]]]:
        """Pickle the items at once and without the hash, which differs between processes."""
        return type(self), (dict(self),)

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse


NO_LABELS = Labels()


class Operator(StrEnum):
    """Operators of label and node selectors; GT and LT exist in node selectors only."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


RequiredLabel = tuple[str, str | None] | None
"""A label that a pod must have to be selected, with a value or any value (None); None: no label is required."""


def find_required_labels(requirements: Iterable[tuple[str, str, Iterable[str]]]) -> Sequence[RequiredLabel]:
    """Return (key, value) labels; a pod must have at least one of them to satisfy all requirements."""
    exists: Sequence[RequiredLabel] = (None,)
    for key, operator, values in requirements:
        if operator == Operator.IN:
            return [(key, value) for value in values]
        if operator == Operator.EXISTS:
            exists = ((key, None),)
    return exists


class SelectorRequirement(Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """One condition on one label; `values` is sorted and without duplicates for In and NotIn."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether labels satisfy the requirement; NotIn and DoesNotExist also match if the key is absent."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return value is not None and self._compares(value)
            case _:
                assert_never(self.operator)

    def _compares(self, value: str) -> bool:
        """Compare as 64-bit integers; a value that is no integer matches nothing (labels.Requirement.Matches)."""
        if len(self.values) != 1:
            return False
        left, right = _parse_integer(value), _parse_integer(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator is Operator.GT else left < right


def _parse_integer(text: str) -> int | None:
    """Parse as Go's strconv.ParseInt does: an optional sign and ASCII digits, 64 bits."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits.isascii() or not digits.isdigit():
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class LabelSelector(Struct, frozen=True, gc=False, cache_hash=True):
    """All requirements must hold. No requirement at all matches everything.

    The null selector, which matches nothing, is `None` where a selector is optional: a caller cannot forget the
    difference, since `None` has no `matches`.
    """

    requirements: tuple[SelectorRequirement, ...] = ()

    @classmethod
    def of(
        cls,
        match_labels: Mapping[str, str] | None = None,
        expressions: Iterable[SelectorRequirement] = (),
    ) -> Self:
        """Make a selector in canonical order, so that equal meanings written differently compare equal."""
        requirements = {SelectorRequirement(key, Operator.IN, (value,)) for key, value in (match_labels or {}).items()}
        for expression in expressions:
            requirements.add(
                SelectorRequirement(expression.key, expression.operator, tuple(sorted(set(expression.values))))
            )
        return cls(tuple(sorted(requirements)))

    @property
    def empty(self) -> bool:
        """Whether the selector has no requirement (`{}`)."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether every requirement holds for these labels."""
        for requirement in self.requirements:  # noqa: SIM110  # called for every constraint: a generator costs twice as much
            if not requirement.matches(labels):
                return False
        return True

    def narrowed(self, labels: Mapping[str, str]) -> Self:
        """Return the selector that also requires exactly these label values."""
        added = (SelectorRequirement(key, Operator.IN, (value,)) for key, value in labels.items())
        return type(self).of(None, (*self.requirements, *added))

    def __str__(self) -> str:
        """Show it as kubectl takes it after `-l`."""
        return ",".join(_format_requirement(requirement) for requirement in self.requirements) or "(everything)"


def _format_requirement(requirement: SelectorRequirement) -> str:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case Operator.IN:
            return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})"
        case Operator.NOT_IN:
            return f"{key}!={values[0]}" if len(values) == 1 else f"{key} notin ({','.join(values)})"
        case Operator.EXISTS:
            return key
        case Operator.DOES_NOT_EXIST:
            return f"!{key}"
        case Operator.GT:
            return f"{key}>{','.join(values)}"
        case Operator.LT:
            return f"{key}<{','.join(values)}"
        case _:
            assert_never(requirement.operator)
