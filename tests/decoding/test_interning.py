"""Equal values share one object, and values that nothing uses any more are forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.decoding.interning import Interner


def overgrown(intern: Interner) -> bool:
    return intern.is_overgrown


def test_the_first_of_equal_values_is_returned() -> None:
    """Values of different types are different, even if Python calls them equal."""
    intern = Interner()
    first = intern(("a", 1))
    assert intern(tuple(["a", 1])) is first  # noqa: C409  # a literal would be the same object
    assert [type(intern(value)) for value in (1, 1.0)] == [int, float]
    assert len(intern) == 3


@given(st.sets(st.integers(10_000, 20_000)), st.sets(st.integers(10_000, 20_000)))
def test_used_values_remain_the_same_objects(used: set[int], unused: set[int]) -> None:
    intern = Interner()
    values = {number: intern((number,)) for number in used | unused}
    intern.forget_unused(values[number] for number in used)
    assert len(intern) == len(used)
    assert all(intern((number,)) is values[number] for number in used)


def test_it_grows_by_a_quarter_before_values_are_forgotten() -> None:
    """So that the cost for each new value is constant; 250 values are not worth it."""
    intern = Interner()
    values = [intern((number,)) for number in range(250)]
    assert not overgrown(intern)
    values.append(intern((250,)))
    assert overgrown(intern)
    intern.forget_unused(values)
    more = Interner()
    for number in range(251):
        more((number,))
    more.accept_size()
    assert not overgrown(more), "a list has no unused values"
    values += [intern((number,)) for number in range(251, 501)]
    assert not overgrown(intern)
    intern((501,))
    assert overgrown(intern)


def test_a_large_one_grows_in_proportion() -> None:
    """Four thousand values that are in use are looked through again after a thousand more."""
    intern = Interner()
    values = [intern((number,)) for number in range(4_000)]
    intern.forget_unused(values)
    values += [intern((number,)) for number in range(4_000, 5_000)]
    assert not overgrown(intern)
    intern((5_000,))
    assert overgrown(intern)
