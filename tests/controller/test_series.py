"""The number of series has a bound, and what is left out is what matters least."""

import random

from rebalancer.controller.series import MOST_WORKLOADS, WORST_SATISFIED, Series, select_series, take_worst
from rebalancer.model.reasons import State


def series(name: str, headroom: int, state: State | None = None) -> Series[None]:
    state = state or (State.VIOLATED if headroom < 0 else State.SATISFIED)
    return Series((name,), name, headroom, state, None)


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
    many = [Series((f"w{number}", key), number, 1, State.SATISFIED, None) for number in range(10_000) for key in "ab"]
    assert len(select_series(many)) == 20_000


def test_the_worst_are_taken_by_headroom_then_by_name() -> None:
    """So they are the same as long as nothing changes."""
    some = [series("c", -1), series("b", -1), series("a", 0), series("d", -2)]
    assert [one.labels[0] for one in take_worst(some, 3)] == ["d", "b", "c"]
