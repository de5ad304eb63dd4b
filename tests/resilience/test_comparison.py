"""What a repair changes in what is left when a zone is lost: worked examples, and drawn plans that are played."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rebalancer.engine import evaluate
from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import ZONE
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import reference_of
from rebalancer.planning.carried_out import carry_out
from rebalancer.planning.fates import NO_FATES
from rebalancer.resilience import comparison
from rebalancer.resilience.bounds import find_bounds
from rebalancer.resilience.comparison import Effect, compare_losses, find_effect
from rebalancer.resilience.loss import Loss
from rebalancer.resilience.rows import find_resilience
from rebalancer.resilience.sizes import Sizes
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from rebalancer.simulator.play import Play
from tests.build import a_cluster, with_cpu
from tests.controller.simulated import eager
from tests.drawing import examples
from tests.resilience.drawn import draw_loss


class Said(NamedTuple):
    """A row without its key."""

    name: str
    where: str
    wanted: int
    before: tuple[int, int]
    after: tuple[int, int]


def said(effect: Effect) -> list[Said]:
    assert effect.unknown is None
    assert {row.key for row in effect.rows} <= {ZONE}
    return [
        Said(row.workload.name, f"{row.value} {row.phase}", row.wanted, (*row.before,), (*row.after,))
        for row in effect.rows
    ]


def repaired(snapshot: Snapshot) -> Effect:
    """Return what the plan of a cluster changes."""
    evaluation = evaluate(snapshot, eager())
    return find_effect(evaluation.view, evaluation.plan.fates)


def compared(before: Mapping[str, int], after: Mapping[str, int], *, stateful: bool) -> list[Said]:
    """Return what has changed between two placements of one workload."""
    first, last = (
        View(a_cluster("abc", 2, on, stateful=stateful, spread={ZONE: 6}).snapshot()) for on in (before, after)
    )
    return said(compare_losses(first, last, set(map(reference_of, first.snapshot.workloads))))


def test_twelve_pods_in_two_of_three_zones_before_and_after_their_repair() -> None:
    """By hand. Zone a is silent: b has 6, and c may have 1 more than a, which has 0 in the end, so 7 of 12.

    At best c is filled while pods of a still count, as long as these are replaced: its third one has 3 beside it. After
    the repair b and c have 4 each, which is more than 1 above the empty zone: 8, and no more.
    """
    snapshot = a_cluster("abc", 2, {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}, spread={ZONE: 1}).snapshot()
    assert said(repaired(snapshot)) == [Said("web", "a silent", 12, (7, 9), (8, 8))]


def test_a_stateful_set_keeps_what_is_elsewhere() -> None:
    """Nothing of it is replaced while the nodes are silent: with 6, 6, 0 a half is left, with 4, 4, 4 two thirds."""
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    snapshot = a_cluster("abc", 2, on, stateful=True, spread={ZONE: 1}).snapshot()
    assert said(repaired(snapshot)) == [Said("web", "a silent", 12, (6, 6), (8, 8))]


def test_what_gets_worse_is_said_beside_what_gets_better() -> None:
    """The worst loss before is that of a, the worst one after that of c."""
    before, after = {"a-1": 6, "b-1": 3, "c-1": 3}, {"a-1": 3, "b-1": 3, "c-1": 6}
    assert compared(before, after, stateful=True) == [
        Said("web", "a silent", 12, (6, 6), (9, 9)),
        Said("web", "c silent", 12, (9, 9), (6, 6)),
    ]


def test_what_stays_short_is_said_and_what_stays_whole_is_not() -> None:
    """Pods that are replaced find nodes in any zone; those of a StatefulSet do not come back."""
    on = {"a-1": 2, "b-1": 2, "c-1": 2}
    assert compared(on, on, stateful=False) == []
    assert compared(on, on, stateful=True) == [Said("web", "a silent", 6, (4, 4), (4, 4))]


def test_nothing_moves_nothing() -> None:
    """No workload is looked at."""
    view = View(a_cluster("ab", 1, {"a-1": 2}, stateful=True).snapshot())
    assert find_effect(view, NO_FATES) == compare_losses(view, view, ()) == Effect()


def test_what_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not begun."""
    snapshot = a_cluster("abc", 2, {"a-1": 6, "b-1": 6}, spread={ZONE: 1}).snapshot()
    view = View(snapshot)
    monkeypatch.setattr(comparison, "MOST_EVICTIONS", 3)
    assert str(repaired(snapshot).unknown) == "there are 4 evictions, more than 3"
    monkeypatch.setattr(comparison, "MOST_EVICTIONS", 4)
    monkeypatch.setattr(comparison, "MOST_PODS", 11)
    assert str(repaired(snapshot).unknown) == "there are 12 pods, more than 11"
    workloads = {eviction.workload for eviction in evaluate(snapshot, eager()).plan.fates.evictions}
    assert str(compare_losses(view, view, workloads).unknown) == "there are 12 pods, more than 11"


def draw_skewed(seed: int) -> Snapshot:
    """Draw one or two services that lack pods in zone c, on nodes of several sizes."""
    random = Random(seed)
    builder = ClusterBuilder()
    for name in [f"{zone}-{number}" for zone in "abc" for number in range(random.randint(1, 2))]:
        builder.node(name, cpu=random.choice((1_500, 2_000, 4_000)), memory=2**36, zone=name[0])
    filled = [name for name in builder.snapshot().node if name[0] != "c"]
    for app in "pq"[: random.randint(1, 2)]:
        add = builder.stateful_set if random.random() < 0.3 else builder.deployment
        on = Counter(random.choice(filled) for _ in range(random.randint(3, 6)))
        add(app, on=on, spread={ZONE: random.choice((1, 1, 2))}, cpu=random.choice((200, 500)))
    return builder.snapshot()


def placed(snapshot: Snapshot) -> Counter[tuple[str, str | None]]:
    return Counter((pod.owner.name if pod.owner else "", pod.node) for pod in snapshot.pods)


@given(st.integers(0, 10**6))
@examples(100)
def test_the_numbers_after_a_repair_are_those_of_the_state_that_it_reaches(seed: int) -> None:
    """Where the loop, the scheduler and the owners of a simulated cluster take it, step by step."""
    snapshot, policy = draw_skewed(seed), eager()
    evaluation = evaluate(snapshot, policy)
    evictions = evaluation.plan.fates.evictions
    assume(evictions)
    end = Play(snapshot, policy, seed=seed).run().snapshot
    on_paper = carry_out(evaluation.view, evictions)
    assume(on_paper is not None and placed(end) == placed(on_paper))
    effect = find_effect(evaluation.view, evaluation.plan.fates)
    workloads = {eviction.workload for eviction in evictions}
    assert effect == compare_losses(evaluation.view, View(end), workloads)
    reached = {
        (loss.value, loss.phase, row.workload): (row.wanted, row.guaranteed, row.possible)
        for loss in find_resilience(View(end), [ZONE], Phase, workloads.__contains__)
        for row in loss.rows
    }
    for row in effect.rows:
        whole = row.wanted, row.wanted, row.wanted
        assert reached.get((row.value, row.phase, row.workload), whole) == (row.wanted, *row.after)


@given(st.integers(0, 10**6).map(draw_loss))
@example(draw_loss(151, "my"))
@examples(100)
def test_who_asks_for_some_services_gets_their_bounds(loss: Loss) -> None:
    """Those that all have, also where some preempt others; of those that nobody asks for no better ones."""
    whole = find_bounds(loss)
    for number, service in enumerate(loss.services):
        alone = find_bounds(loss, asked=lambda one, chosen=service: one is chosen)  # type: ignore[misc]
        assert alone[number] == whole[number]
        for own, other in zip(alone, whole, strict=True):
            assert (own.guaranteed <= other.guaranteed, own.possible >= other.possible) == (True, True)


def test_what_takes_a_larger_program_is_left_out_and_that_is_said() -> None:
    """Sums bound it in each state, but their difference says nothing."""
    snapshot = a_cluster("abc", 1, {"a-1": 4, "b-1": 4}, spread={ZONE: 1}, cpu=300).snapshot()
    snapshot = with_cpu(snapshot, 1_500, "a-1", "b-1", "c-1")
    evaluation = evaluate(snapshot, eager())
    assert find_effect(evaluation.view, evaluation.plan.fates).rows
    small = Sizes(by_node=0, all_nodes=0, by_group=0, all_groups=0)
    effect = find_effect(evaluation.view, evaluation.plan.fates, small)
    assert effect.rows == ()
    assert str(effect.unknown).startswith("1 service may be placed on 2 nodes: too many")
