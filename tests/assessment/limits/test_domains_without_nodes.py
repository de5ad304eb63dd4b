"""Limits count domains that are known to exist although no node carries them; no pod can be moved there yet."""

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.moves import NO_MEMORY, Memory, ZoneSeen
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Limit, LimitAction, Policy, PolicyGroup, Selector, Share, Topology, When, default_policy
from tests.assessment.limits.test_evaluate import limits_of, spread_over
from tests.assessment.redis import AZ, CLUSTER, machines, redis
from tests.scheduling.build import HOSTNAME

ABC = Topology(domains={AZ: ("a", "b", "c")})
NOTHING = Topology()


def policy(topology: Topology, **rule: Any) -> Policy:
    if "max_share" in rule:
        rule["max_share"] = Share.of(rule["max_share"])
    limit = Limit(name="only", **{"topology_key": AZ, **rule})
    group = PolicyGroup(name="group", selector=Selector(), group_by=(CLUSTER,), zone_key=AZ, limits=(limit,))
    return default_policy().model_copy(update={"groups": (group,), "topology": topology})


def limit_over(snapshot: Snapshot, topology: Topology = ABC, memory: Memory = NO_MEMORY, **rule: Any) -> EvaluatedLimit:
    (limit,) = limits_of(snapshot, policy(topology, **rule), memory)
    return limit


def two_zones(a: int = 3, b: int = 3, **options: Any) -> Snapshot:
    return redis(machines("ab", 2), spread_over({"a1": a, "b1": b}), **options)


@pytest.mark.parametrize(
    ("rule", "alone", "known"),
    [
        ({"max_skew": 1}, (State.SATISFIED, None), "az a holds 3 of 6, the emptiest 0, maxSkew is 1"),
        (
            {"max_share": "<=1/3"},
            (State.INFEASIBLE, Reason.TOO_FEW_DOMAINS),
            "az a holds 3 of 6 (50%), the limit is maxShare <=1/3, which allows 2",
        ),
        ({"min_pods": 1}, (State.SATISFIED, None), "az c holds 0 of 6, minPods is 1"),
    ],
)
def test_a_limit_that_lacks_only_a_node_is_unfixable(
    rule: dict[str, Any], alone: tuple[State, Reason | None], known: str
) -> None:
    """Not Infeasible: with a node in zone c it can be satisfied. No eviction helps before."""
    without = limit_over(two_zones(), NOTHING, **rule)
    assert (without.state, without.reason) == alone
    limit = limit_over(two_zones(), **rule)
    assert (limit.state, limit.reason, limit.improvable) == (State.UNFIXABLE, Reason.NO_CAPACITY, False)
    assert dict(limit.counts) == {"a": 3, "b": 3, "c": 0}
    assert limit.message == f"{known.replace('az ', AZ + ' ')}; no node of {AZ} c exists: add one"


def pool(*zones: str) -> NodePool:
    return NodePool(name="general", requirements=(SelectorRequirement(AZ, Operator.IN, zones),))


def test_domains_of_node_pools_count_and_remembered_ones_do_not() -> None:
    """Those may be gone for good; nor do ignored ones, and those that the pods' affinity excludes."""
    snapshot = two_zones()
    pooled = replace(snapshot, node_pools=(pool("a", "b", "c"),))
    assert limit_over(pooled, NOTHING, max_skew=1).deserted == ("c",)
    seen = Memory(zones=(ZoneSeen(AZ, "c", snapshot.taken_at - timedelta(minutes=1)),))
    assert limit_over(snapshot, NOTHING, seen, max_skew=1).deserted == ()
    ignoring = Topology(domains={AZ: ("c",)}, ignore={AZ: ("c",)})
    assert limit_over(pooled, ignoring, max_skew=1).deserted == ()
    assert limit_over(two_zones(zones=["a", "b"]), max_skew=1).deserted == ()


def test_a_domain_that_a_limit_names_counts_as_possible_only_if_it_is_known() -> None:
    named: dict[str, Any] = {"min_pods": 1, "domains": ("a", "b", "c")}
    assert limit_over(two_zones(), NOTHING, **named).reason is Reason.TOO_FEW_DOMAINS
    assert limit_over(two_zones(), **named).reason is Reason.NO_CAPACITY


def test_inside_a_larger_domain_only_domains_with_nodes_count() -> None:
    """A zone without nodes has no racks either."""
    limits = limits_of(two_zones(), policy(ABC, topology_key=HOSTNAME, within=AZ, max_skew=9))
    assert [limit.key[AZ] for limit in limits] == ["a", "b"]


@pytest.mark.parametrize(
    ("topology", "pools", "zones"),
    [
        (NOTHING, (), 2),
        (ABC, (), 3),
        (NOTHING, (pool("c", "d"),), 4),
        (Topology(ignore={AZ: ("c", "a")}), (pool("c", "d"),), 3),
    ],
)
def test_rules_are_chosen_by_the_zones_that_are_known(
    topology: Topology, pools: tuple[NodePool, ...], zones: int
) -> None:
    """Ignored zones count only if they have nodes."""
    snapshot = replace(two_zones(), node_pools=pools)
    in_force = [
        number
        for number in range(1, 6)
        if limits_of(snapshot, policy(topology, when=When.model_validate({"zones": number}), max_skew=9))
    ]
    assert in_force == [zones]


def test_an_ignored_zone_does_not_count_for_the_hour_after_it_was_lost() -> None:
    snapshot = two_zones()
    seen = Memory(zones=(ZoneSeen(AZ, "c", snapshot.taken_at - timedelta(minutes=1)),))
    three = {"when": When.model_validate({"zones": 3}), "max_skew": 9}
    assert limits_of(snapshot, policy(NOTHING, **three), seen)
    assert not limits_of(snapshot, policy(Topology(ignore={AZ: ("c",)}), **three), seen)


BOUNDS = st.one_of(
    st.fixed_dictionaries({"max_skew": st.integers(1, 4)}),
    st.fixed_dictionaries({"max_pods": st.integers(1, 4)}),
    st.fixed_dictionaries({"min_pods": st.integers(1, 3)}),
)


def excess(rule: dict[str, int], counts: tuple[int, ...]) -> int:
    """Return by how many pods a limit is exceeded; 0 where it holds."""
    if "max_skew" in rule:
        return max(0, max(counts) - min(counts) - rule["max_skew"])
    if "max_pods" in rule:
        return max(0, max(counts) - rule["max_pods"])
    return max(0, rule["min_pods"] - min(counts))


def placements(pods: int, domains: int) -> list[tuple[int, ...]]:
    return [counts for counts in product(range(pods + 1), repeat=domains) if sum(counts) == pods]


@given(BOUNDS, st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(sum), st.integers(0, 2))
def test_the_state_is_that_of_every_placement(rule: dict[str, int], held: list[int], missing: int) -> None:
    """Infeasible if none over all known domains satisfies it; Unfixable if none over those with nodes is nearer."""
    names = "abc"[: len(held)]
    snapshot = redis(machines(names, 1), spread_over({f"{name}1": n for name, n in zip(names, held, strict=True)}))
    known = Topology(domains={AZ: tuple("xy"[:missing])})
    (limit,) = limits_of(snapshot, policy(known, **rule, of="live"))
    total, empty = sum(held), (0,) * missing
    if not excess(rule, (*held, *empty)):
        expected = State.SATISFIED
    elif all(excess(rule, counts) for counts in placements(total, len(held) + missing)):
        expected = State.INFEASIBLE
    elif "min_pods" in rule:  # an empty domain without nodes hides what the others hold
        nearer = any(excess(rule, counts) < excess(rule, tuple(held)) for counts in placements(total, len(held)))
        expected = State.VIOLATED if nearer else State.UNFIXABLE
    else:
        now = excess(rule, (*held, *empty))
        nearer = any(excess(rule, (*counts, *empty)) < now for counts in placements(total, len(held)))
        expected = State.VIOLATED if nearer else State.UNFIXABLE
    assert limit.state is expected


def test_what_can_be_repaired_with_the_nodes_there_are_is_repaired() -> None:
    """The limit counts zone c, so that maxSkew 3 allows three pods in a zone; evictions go on until that is so."""
    limit = limit_over(two_zones(4, 2), max_skew=3, action=LimitAction.EVICT)
    assert (limit.state, limit.improvable, limit.goal) == (State.VIOLATED, True, 3)
    assert limit_over(two_zones(3, 3), max_skew=3).state is State.SATISFIED
