"""The number of series has a bound, and what is left out is what matters least."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.controller.series import (
    MOST_BROKEN,
    MOST_WORKLOADS,
    WORST_SATISFIED,
    Series,
    select_series,
    take_worst,
)
from rebalancer.model.reasons import State
from tests.drawing import examples


def series(name: str, headroom: int, state: State | None = None, *, namespace: str = "shop") -> Series[None]:
    state = state or (State.VIOLATED if headroom < 0 else State.SATISFIED)
    return Series(namespace, (name,), name, headroom, state, None)


def cluster() -> st.SearchStrategy[list[Series[None]]]:
    """Draw rows of a few namespaces, of which some have many; each has a name of its own."""
    rows = st.tuples(st.sampled_from("aaaaabcde"), st.integers(-3, 0))
    return st.lists(rows, max_size=40).map(
        lambda drawn: [
            series(f"{number:02}", headroom, namespace=name) for number, (name, headroom) in enumerate(drawn)
        ]
    )


def test_two_templates_of_one_workload_make_one_series_the_worse() -> None:
    """Prometheus refuses a scrape in which a series comes twice."""
    better, worse = series("web", -2), series("web", -3)
    assert select_series([better, worse]) == select_series([worse, better]) == [worse]


def test_names_that_are_shown_alike_make_one_series_the_worse() -> None:
    """All gauges of it are then of the same workload."""
    better, worse = series("web\n", -2), series("web\\n", -3)
    assert select_series([better, worse]) == select_series([worse, better]) == [worse]
    (shown,) = select_series([better])
    assert shown.labels == ("web\\n",)


def test_a_very_large_cluster_has_the_series_that_are_broken_and_the_worst_others() -> None:
    """Above 10,000 workloads the number of series no longer grows with the cluster."""
    satisfied = [series(f"s{number:05}", 1 + number) for number in range(MOST_WORKLOADS + 1_000)]
    broken = [series("b0", 0, State.UNFIXABLE), *(series(f"b{number}", -1) for number in range(1, 7))]
    ordinary = [*satisfied[: MOST_WORKLOADS - len(broken)], *broken]
    assert select_series(ordinary) == ordinary
    everything = [*satisfied, *broken]
    random.Random(1).shuffle(everything)
    selected = select_series(everything)
    assert set(selected) == {*broken, *satisfied[:WORST_SATISFIED]}


def test_a_workload_with_several_constraints_counts_once() -> None:
    """The bound is of workloads, not of series."""
    many = [
        Series("shop", (f"w{number}", key), number, 1, State.SATISFIED, None)
        for number in range(10_000)
        for key in "ab"
    ]
    assert len(select_series(many)) == 20_000


def test_the_worst_are_taken_by_headroom_then_by_name() -> None:
    """So they are the same as long as nothing changes."""
    some = [series("c", -1), series("b", -1), series("a", 0), series("d", -2)]
    assert [one.labels[0] for one in take_worst(some, 3)] == ["d", "b", "c"]


def badness(one: Series[None]) -> tuple[int, tuple[str, ...]]:
    return one.headroom, one.labels


@examples(200)
@given(cluster(), st.integers(0, 40))
def test_of_each_namespace_the_worst_are_taken_and_none_gets_fewer_than_another_that_has_more(
    rows: list[Series[None]], number: int
) -> None:
    """By definition of a fair share: all are used, and whoever lacks a row has as many as anybody, but for the last."""
    taken = take_worst(rows, number)
    assert len(taken) == len(set(taken)) == min(number, len(rows))
    shares = Counter(one.namespace for one in taken)
    for namespace, all_of in Counter(one.namespace for one in rows).items():
        own = sorted((one for one in rows if one.namespace == namespace), key=badness)
        assert {one for one in taken if one.namespace == namespace} == set(own[: shares[namespace]])
        if shares[namespace] < all_of:
            assert max(shares.values(), default=0) - shares[namespace] <= 1


@examples(200)
@given(cluster(), st.integers(1, 40), st.data())
def test_no_rows_of_another_namespace_take_the_worst_row_of_one(
    rows: list[Series[None]], number: int, data: st.DataObject
) -> None:
    """While there are as many places as namespaces, however many rows another has and however bad they are."""
    namespaces = {one.namespace for one in rows}
    more = [series(f"x{one:02}", -9, namespace="a") for one in range(data.draw(st.integers(0, 60)))]
    taken = {one.labels for one in take_worst([*rows, *more], max(number, len(namespaces | {"a"})))}
    for namespace in namespaces - {"a"}:
        assert min((one for one in rows if one.namespace == namespace), key=badness).labels in taken


@examples(200)
@given(cluster(), st.integers(0, 40), st.randoms(use_true_random=False))
def test_the_order_in_which_rows_come_decides_nothing(
    rows: list[Series[None]], number: int, chance: random.Random
) -> None:
    """A series that came and went with the order would end alerts."""
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert take_worst(rows, number) == take_worst(shuffled, number)


def test_a_namespace_with_ten_thousand_violations_hides_no_violation_of_another() -> None:
    """Alerts about the others would end, as if all were well with them."""
    flood = [series(f"f{number:05}", -9) for number in range(MOST_WORKLOADS + 1)]
    others = [series(f"o{number}", -1, namespace=f"team-{number}") for number in range(30)]
    selected = select_series([*flood, *others])
    assert len(selected) == MOST_BROKEN
    assert {one.subject for one in selected} >= {one.subject for one in others}
