"""The orders of a drain against every sequence of evictions, played in plain numbers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.controllers import find_reference
from rebalancer.lint.drain_order import play_orders
from rebalancer.model.labels import LabelSelector, Operator, SelectorRequirement
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.drawing import examples

CORE = 1_000


@dataclass(frozen=True)
class Drain:
    """Workloads by the size of their pods in cores and how many are drained; one other node has `room` cores.

    Each budget keeps all but `allowed` pods of the workloads with its number, None of those without one.
    """

    sizes: Sequence[int]
    pods: Sequence[int]
    budgets: Sequence[int | None]
    allowed: Sequence[int]
    room: int

    def view(self) -> View:
        made = ClusterBuilder()
        made.node("a-1", cpu=99 * CORE)
        made.node("b-1", cpu=self.room * CORE)
        for number, (size, pods) in enumerate(zip(self.sizes, self.pods, strict=True)):
            made.deployment(f"w{number}", on={"a-1": pods}, cpu=size * CORE)
        kept = [number for number in range(len(self.allowed)) if number in self.budgets]
        for number in kept:
            made.budget(f"b{number}", max_unavailable=self.allowed[number])
        snapshot = made.snapshot()
        budgets = []
        for number, budget in zip(kept, snapshot.budgets, strict=True):
            those = [at for at, one in enumerate(self.budgets) if one == number]
            names = tuple(f"w{at}" for at in those)
            selector = LabelSelector.of(None, (SelectorRequirement("app", Operator.IN, names),))
            expected = sum(self.pods[at] for at in those)
            budgets.append(structs.replace(budget, selector=selector, expected=expected))
        return View(replace(snapshot, budgets=tuple(budgets)), DEFAULT_PROFILE)

    def outcomes(self) -> set[bool]:
        """Return whether the drain ends, by all sequences of evictions that the budgets allow."""
        return {not any(left) for left in self._play(tuple(self.pods), self.room, tuple(self.allowed))}

    def _play(self, left: tuple[int, ...], room: int, spare: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the pods that stay; a new pod that finds no room is missing for ever."""
        goes = [at for at, many in enumerate(left) if many and self._may_go(at, spare)]
        if not goes:
            yield left
        for at in goes:
            fits, budget = self.sizes[at] <= room, self.budgets[at]
            after = tuple(many - (other == at) for other, many in enumerate(left))
            missing = tuple(number - (other == budget and not fits) for other, number in enumerate(spare))
            yield from self._play(after, room - self.sizes[at] * fits, missing)

    def _may_go(self, at: int, spare: Sequence[int]) -> bool:
        budget = self.budgets[at]
        return budget is None or spare[budget] > 0


@st.composite
def drains(draw: st.DrawFn, most: int) -> Drain:
    number = draw(st.integers(1, 4 if most == 1 else 3))
    return Drain(
        sizes=draw(st.lists(st.integers(1, 3), min_size=number, max_size=number)),
        pods=draw(st.lists(st.integers(1, most), min_size=number, max_size=number)),
        budgets=draw(st.lists(st.sampled_from([None, 0, 1]), min_size=number, max_size=number)),
        allowed=draw(st.lists(st.integers(1, 2), min_size=2, max_size=2)),
        room=draw(st.integers(1, 7)),
    )


def played(drain: Drain) -> set[bool]:
    """Return whether the drain ends, by the orders of its workloads."""
    view, there = drain.view(), defaultdict[Reference, list[Pod]](list)
    for pod in view.pods_on("a-1"):
        there[find_reference(pod, view)].append(pod)
    return ends(view, there)


def ends(view: View, there: Mapping[Reference, Sequence[Pod]]) -> set[bool]:
    return {not one.staying for one in play_orders(view, ["a-1"], there)}


@given(drains(most=1))
@examples(100)
def test_of_workloads_with_one_pod_every_sequence_of_evictions_is_an_order(drain: Drain) -> None:
    """So that "in no order" means in none at all."""
    assert played(drain) == drain.outcomes()


@given(drains(most=3))
@examples(60)
def test_what_an_order_shows_some_sequence_of_evictions_does(drain: Drain) -> None:
    """Of several pods of a workload not every sequence is played."""
    assert played(drain) <= drain.outcomes()


def test_the_drawn_drains_end_and_do_not_end() -> None:
    """A shared budget that lets one pod be missing: of the two only the small one finds room."""
    either = Drain(sizes=[3, 1], pods=[1, 1], budgets=[0, 0], allowed=[1, 1], room=1)
    assert played(either) == either.outcomes() == {True, False}
    never = replace(either, sizes=[3, 3])
    assert played(never) == never.outcomes() == {False}
