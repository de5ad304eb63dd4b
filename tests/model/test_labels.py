"""Selectors match exactly as Kubernetes' do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement

A, B = {"app": "web"}, {"tier": "back"}


@pytest.mark.parametrize(
    ("operator", "values", "present", "other", "absent"),
    [
        (Operator.IN, ("web",), True, False, False),
        (Operator.NOT_IN, ("web",), False, True, True),
        (Operator.EXISTS, (), True, True, False),
        (Operator.DOES_NOT_EXIST, (), False, False, True),
    ],
)
def test_operators(operator: Operator, values: tuple[str, ...], present: bool, other: bool, absent: bool) -> None:
    """NotIn and DoesNotExist match pods that lack the key."""
    requirement = SelectorRequirement("app", operator, values)
    assert requirement.matches({"app": "web"}) is present
    assert requirement.matches({"app": "db"}) is other
    assert requirement.matches({}) is absent


@pytest.mark.parametrize(
    ("value", "bound", "greater", "less"),
    [
        ("5", "3", True, False),
        ("3", "5", False, True),
        ("-1", "-2", True, False),
        ("x", "3", False, False),
        ("3", "y", False, False),
        ("1_0", "3", False, False),
        ("٣", "1", False, False),
        (str(2**63), "1", False, False),
    ],
)
def test_comparisons(value: str, bound: str, greater: bool, less: bool) -> None:
    """Gt and Lt compare 64-bit integers in ASCII digits; anything else matches nothing."""
    assert SelectorRequirement("n", Operator.GT, (bound,)).matches({"n": value}) is greater
    assert SelectorRequirement("n", Operator.LT, (bound,)).matches({"n": value}) is less
    assert not SelectorRequirement("n", Operator.GT, (bound, bound)).matches({"n": value})
    assert not SelectorRequirement("n", Operator.GT, (bound,)).matches({})


def test_empty_selects_everything() -> None:
    """A selector without requirements matches every label set."""
    assert LabelSelector().matches({})
    assert LabelSelector().matches(A)
    assert LabelSelector().empty


words = st.sampled_from("abc")
requirements = st.builds(
    SelectorRequirement,
    words,
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(words, min_size=1, max_size=3).map(tuple),
)


@given(st.lists(requirements, max_size=4), st.dictionaries(words, words, max_size=3), st.randoms(use_true_random=False))
def test_spelling_does_not_matter(drawn: list[SelectorRequirement], labels: dict[str, str], random: object) -> None:
    """Order and repetition of requirements and values change neither meaning nor equality."""
    plain = LabelSelector.of(None, drawn)
    reordered = LabelSelector.of(
        None, [SelectorRequirement(e.key, e.operator, (*e.values, *e.values)) for e in reversed(drawn)]
    )
    assert plain == reordered
    assert plain.matches(labels) == all(requirement.matches(labels) for requirement in drawn)


def test_narrowed() -> None:
    """Narrowing demands exactly these values as well, and twice is as once."""
    narrowed = LabelSelector.of(A).narrowed(B)
    assert narrowed.matches({**A, **B})
    assert not narrowed.matches(A)
    assert narrowed.narrowed(B) == narrowed


def test_a_selector_is_formatted_as_kubectl_reads_it() -> None:
    """A selector prints in kubectl's own notation."""
    selector = LabelSelector.of(
        A,
        [
            SelectorRequirement("b", Operator.IN, ("x", "y")),
            SelectorRequirement("c", Operator.NOT_IN, ("z",)),
            SelectorRequirement("d", Operator.NOT_IN, ("y", "z")),
            SelectorRequirement("e", Operator.EXISTS),
            SelectorRequirement("f", Operator.DOES_NOT_EXIST),
            SelectorRequirement("g", Operator.GT, ("1",)),
            SelectorRequirement("h", Operator.LT, ("1",)),
        ],
    )
    assert str(selector) == "app=web,b in (x,y),c!=z,d notin (y,z),e,!f,g>1,h<1"
    assert str(LabelSelector()) == "(everything)"


def test_label_sets_are_keys() -> None:
    """Equal label sets are one key, and none of them changes."""
    left, right = Labels({"a": "1", "b": "2"}), Labels({"b": "2", "a": "1"})
    assert {left: 1}[right] == 1
    with pytest.raises(TypeError):
        left["c"] = "3"
    with pytest.raises(TypeError):
        left.update(c="3")
