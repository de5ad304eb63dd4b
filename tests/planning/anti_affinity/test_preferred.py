"""Preferred anti-affinity: a pod moves only where the scheduler puts its replacement better, whatever node it takes."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.preferred import NoBetterPlace
from rebalancer.policy import Policy
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.place import top_scoring
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME
from tests.build import a_policy
from tests.drawing import examples
from tests.planning.anti_affinity.drawn import Drawn, Term, draw_preferring
from tests.planning.anti_affinity.test_minimum import layout
from tests.planning.build import EVICTING, planned


def acting(kinds: str = "Required, Preferred") -> Policy:
    eligible = EVICTING.replace("minAge: 0s", "minAge: 0s, minReplicas: 1")
    return a_policy(f"{eligible}antiAffinity: {{actOn: [{kinds}], for: 0s}}\n")


def landings(snapshot: Snapshot, pod: Pod) -> Iterator[Snapshot]:
    """Yield the clusters in which the replacement is on each node that all scores put first.

    The evicted pod is still terminating, or gone.
    """
    others = View(replace(snapshot, pods=tuple(one for one in snapshot.pods if one.uid != pod.uid)))
    ending = structs.replace(pod, deleted=snapshot.taken_at)
    beside = View(replace(snapshot, pods=tuple(ending if one.uid == pod.uid else one for one in snapshot.pods)))
    made = replacement(pod, others)
    assert isinstance(made, Pod)
    nodes = {node for view in (others, beside) for node in top_scoring(made, view, feasible(made, view))}
    for node in sorted(nodes):
        placed = structs.replace(pod, uid=f"{pod.uid}-", name=f"{pod.name}-", node=node)
        yield replace(others.snapshot, pods=(*others.snapshot.pods, placed))


@given(st.integers(0, 2**32))
@examples(60)
def test_each_move_lowers_the_weight_wherever_it_lands(seed: int) -> None:
    """And nothing required is violated; so none comes back, and it ends."""
    drawn = draw_preferring(seed)
    followed = {layout(drawn.snapshot())}
    left = [drawn.snapshot()]
    while left:
        snapshot = left.pop()
        plan = planned(snapshot, acting())
        components: dict[str, int] = {}
        for eviction in plan.fates.going:
            assert not eviction.forced
            components[eviction.group] = components.get(eviction.group, 0) + 1
            after = list(landings(snapshot, eviction.pod))
            assert after, "a replacement is left pending"
            for ended in after:
                assert drawn.weigh(layout(ended)) < drawn.weigh(layout(snapshot))
                assert not drawn.conflicts(layout(ended))
                if layout(ended) not in followed:
                    followed.add(layout(ended))
                    left.append(ended)
        assert all(number == 1 for number in components.values()), "one move at a time"


def own(counts: list[int], weight: int = 1) -> Drawn:
    zones = {f"n{number}": "a" for number in range(len(counts))}
    pods = tuple(("a", f"n{number}") for number, many in enumerate(counts) for _ in range(many))
    return Drawn(zones, {"a": "x"}, pods, (Term("a", HOSTNAME, "a", everywhere=False, weight=weight),))


@pytest.mark.parametrize(
    ("counts", "moves"),
    [([2, 1, 0], 1), ([3, 3, 0], 2), ([2, 1], 0), ([1, 1, 1], 0), ([2, 2, 1], 0), ([4, 0], 2), ([5, 1, 0], 3)],
)
def test_pods_that_prefer_to_be_apart_end_up_spread_evenly(counts: list[int], moves: int) -> None:
    """With as few moves as counting says, each of which the plan has announced; what is even is not touched."""
    snapshot, left = own(counts).snapshot(), moves
    while True:
        plan = planned(snapshot, acting())
        if not plan.fates.going:
            break
        (component,), (eviction,) = plan.components, plan.fates.going
        assert (component.evictions, component.optimal) == (left, True)
        left -= 1
        snapshot = next(landings(snapshot, eviction.pod))
    assert (left, plan.refusals) == (0, ())


def test_nothing_moves_where_other_scores_outweigh_the_term() -> None:
    """A PreferNoSchedule taint on the empty node: the replacement would come back."""
    snapshot = own([2, 1, 0]).snapshot()
    taint = Taint(key="dear", effect=TaintEffect.PREFER_NO_SCHEDULE)
    nodes = tuple(structs.replace(node, taints=(taint,)) if node.name == "n2" else node for node in snapshot.nodes)
    plan = planned(replace(snapshot, nodes=nodes), acting())
    assert not plan.fates.going
    assert {type(row.refusal) for row in plan.refusals} == {NoBetterPlace}


@pytest.mark.parametrize("kinds", ["", "Required"])
def test_preferred_terms_are_left_alone_unless_the_policy_lists_them(kinds: str) -> None:
    plan = planned(own([3, 0]).snapshot(), acting(kinds))
    assert (plan.components, plan.refusals) == ((), ())


def test_heavy_pairs_count_more_than_many_light_ones() -> None:
    """One pair of weight 100 is left for three of weight 1."""
    terms = (
        Term("a", HOSTNAME, "b", everywhere=False, weight=100),
        Term("a", HOSTNAME, "c", everywhere=False, weight=1),
    )
    pods = (("a", "n0"), ("b", "n0"), ("c", "n1"), ("c", "n1"), ("c", "n1"))
    drawn = Drawn({"n0": "a", "n1": "a"}, dict.fromkeys("abc", "x"), pods, terms)
    (eviction,) = planned(drawn.snapshot(), acting()).fates.going
    assert max(drawn.weigh(layout(after)) for after in landings(drawn.snapshot(), eviction.pod)) < 100
