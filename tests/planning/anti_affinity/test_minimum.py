"""Violated required anti-affinity is repaired with the fewest evictions, wherever the replacements are placed."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.pods import OwnerReference, Pod
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.policy import Policy
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_policy
from tests.drawing import examples
from tests.planning.anti_affinity.drawn import Drawn, Term, draw, every_layout
from tests.planning.build import EVICTING, planned

REPAIRED = "antiAffinity: {actOn: [Required], for: 0s}\n"


def acting() -> Policy:
    return a_policy(EVICTING.replace("minAge: 0s", "minAge: 0s, minReplicas: 1") + REPAIRED)


def going(plan: Plan) -> list[Pod]:
    return [eviction.pod for eviction in plan.fates.going]


def landings(snapshot: Snapshot, pod: Pod) -> Iterator[Snapshot]:
    """Yield the clusters in which the replacement of a pod was placed on each node that the scheduler may take."""
    view = View(replace(snapshot, pods=tuple(one for one in snapshot.pods if one.uid != pod.uid)))
    made = replacement(pod, view)
    assert isinstance(made, Pod)
    for node in sorted(feasible(made, view)):
        placed = structs.replace(pod, uid=f"{pod.uid}-", name=f"{pod.name}-", node=node)
        yield replace(view.snapshot, pods=(*view.snapshot.pods, placed))


def layout(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((pod.labels["app"], pod.node or "") for pod in snapshot.pods))


class Followed:
    """The planner followed to the end, over every way that the placements can go."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.ends: set[tuple[tuple[str, str], ...]] = set()
        self._known: dict[tuple[tuple[str, str], ...], int] = {}

    def most(self, snapshot: Snapshot) -> int:
        """Return the most evictions until nothing goes any more; every end is kept."""
        key = layout(snapshot)
        if key not in self._known:
            self._known[key] = -1
            self._known[key] = self._most(snapshot, key)
        assert self._known[key] >= 0, f"it comes back to {key}"
        return self._known[key]

    def _most(self, snapshot: Snapshot, key: tuple[tuple[str, str], ...]) -> int:
        plan = planned(snapshot, acting())
        pods = going(plan)
        if not pods:
            self.ends.add(key)
            return 0
        (first, *_) = plan.fates.going
        assert first.forced
        after = list(landings(snapshot, pods[0]))
        assert after, "a replacement is left pending"
        return 1 + max(map(self.most, after))


@pytest.mark.invariant("anti-affinity-repair")
@given(st.integers(0, 2**32))
@examples(60)
def test_the_fewest_evictions_repair_it_wherever_replacements_land(seed: int) -> None:
    """Of up to three workloads, also across namespaces: the number is that of a search over all placements.

    Where no order of so many evictions is safe, none is begun.
    """
    drawn = draw(seed)
    snapshot, fewest = drawn.snapshot(), drawn.minimum()
    plan, followed = planned(snapshot, acting()), Followed(drawn)
    most = followed.most(snapshot)
    if fewest is None:
        assert {component.state for component in plan.components} & {State.INFEASIBLE, State.UNFIXABLE}
        before = excess(drawn, drawn.pods)
        assert all(excess(drawn, end) < before or end == layout(snapshot) for end in followed.ends)
        return
    assert sum(component.evictions for component in plan.components) == fewest
    assert all(component.optimal for component in plan.components)
    if any(map(drawn.conflicts, followed.ends)):
        assert most == 0
        assert not drawn.can_be_forced(drawn.pods, fewest)
    else:
        assert most == fewest


def excess(drawn: Drawn, pods: tuple[tuple[str, str], ...]) -> int:
    """Return the fewest pods without which the others do not conflict, of each term alone, in all."""
    return sum(
        next(
            number
            for number in range(len(pods) + 1)
            if any(not alone.conflicts(staying) for staying in combinations(pods, len(pods) - number))
        )
        for alone in (replace(drawn, terms=(term,)) for term in drawn.terms)
    )


@pytest.mark.parametrize(("nodes", "pods"), [(2, 2), (3, 3), (3, 5), (4, 4)])
def test_as_many_move_as_have_a_free_node(nodes: int, pods: int) -> None:
    """Every layout of pods that keep apart; where they outnumber the nodes, the rest says so with the numbers."""
    for drawn in every_layout(nodes, pods):
        used = len({node for _, node in drawn.pods})
        followed, snapshot = Followed(drawn), drawn.snapshot()
        assert followed.most(snapshot) == min(nodes, pods) - used
        assert {len({node for _, node in end}) for end in followed.ends} == {min(nodes, pods)}
        components = planned(snapshot, acting()).components
        reasons = {component.reason for component in components}
        assert reasons == ({Reason.TOO_FEW_DOMAINS} if pods > nodes else {None} if used < pods else set())


def test_an_eviction_says_what_it_is_for() -> None:
    drawn = Drawn({"n0": "a", "n1": "a"}, {"a": "x"}, (("a", "n0"), ("a", "n0")), (Term("a", HOSTNAME, "a", False),))
    plan = planned(drawn.snapshot(), acting())
    (eviction,) = plan.fates.going
    assert eviction.cause is Cause.ANTI_AFFINITY_VIOLATED
    (apart,) = eviction.repair.apart
    assert apart.together == {"n0": tuple(sorted(pod.name for pod in drawn.snapshot().pods))}
    assert [(target.topology_key, target.values) for target in eviction.targets] == [(HOSTNAME, ("n1",))]


def test_a_node_without_the_key_takes_any_number() -> None:
    """Three of one zone leave it but for one, and stand together where no zone is."""
    drawn = Drawn({"n0": "a", "n1": None}, {"a": "x"}, (("a", "n0"),) * 3, (Term("a", ZONE, "a", everywhere=False),))
    followed = Followed(drawn)
    assert (drawn.minimum(), followed.most(drawn.snapshot())) == (2, 2)
    assert followed.ends == {(("a", "n0"), ("a", "n1"), ("a", "n1"))}


def test_pods_that_nobody_moves_stay_and_the_other_side_goes() -> None:
    """A pod without an owner, or of a DaemonSet, that two pods avoid: both go, though it alone would be fewer."""
    drawn = Drawn(
        {"n0": "a", "n1": "a"},
        {"a": "x", "b": "x"},
        (("a", "n0"), ("a", "n0"), ("b", "n0")),
        (Term("a", HOSTNAME, "b", False),),
    )
    snapshot = drawn.snapshot()
    for owner in (None, OwnerReference(group="apps", kind="DaemonSet", name="b", uid="unknown")):
        pods = tuple(structs.replace(pod, owner=owner) if pod.labels["app"] == "b" else pod for pod in snapshot.pods)
        owners = tuple(one for one in snapshot.workloads if one.labels["app"] != "b")
        plan = planned(replace(snapshot, pods=pods, workloads=owners), acting())
        assert [component.evictions for component in plan.components] == [2]
        assert {pod.labels["app"] for pod in going(plan)} == {"a"}


def test_nothing_is_begun_that_only_scores_would_put_right() -> None:
    """A replacement of b may land on the node without a zone, beside those of a that have still to leave it."""
    terms = (Term("a", HOSTNAME, "a", everywhere=False), Term("a", ZONE, "b", everywhere=False))
    pods = (("a", "n0"), ("a", "n0"), ("b", "n1"), ("b", "n1"))
    drawn = Drawn({"n0": None, "n1": "a"}, {"a": "x", "b": "x"}, pods, terms)
    plan = planned(drawn.snapshot(), acting())
    assert ([component.evictions for component in plan.components], going(plan)) == ([drawn.minimum()], [])
