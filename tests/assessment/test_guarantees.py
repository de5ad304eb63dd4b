"""A guarantee is a proof: compared with every placement that the pods' own constraints allow."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.assessment.guarantees import least_under, most_under, nests
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Limit, PolicyGroup, Selector, Share, default_policy
from rebalancer.scheduling.view import View
from tests.assessment.redis import AZ, CLUSTER, HOSTNAME, machines, redis
from tests.scheduling.build import node, taint


@cache
def placements(pods: int, domains: int, most: int) -> tuple[tuple[int, ...], ...]:
    """List the ways to put pods into domains, as falling counts of at most `most`."""
    if domains == 0:
        return ((),) if pods == 0 else ()
    return tuple(
        (first, *rest)
        for first in range(min(most, pods), -1, -1)
        for rest in placements(pods - first, domains - 1, first)
    )


@pytest.mark.parametrize("pods", range(1, 21))
def test_the_closed_form_is_brute_force(pods: int) -> None:
    """For up to twenty pods, eight domains and every maxSkew: the worst placement within the constraint."""
    for domains in range(1, 9):
        every = placements(pods, domains, pods)
        for skew in range(1, pods + 1):
            within = [counts for counts in every if counts[0] - counts[-1] <= skew]
            assert most_under(pods, domains, skew) == max(counts[0] for counts in within)
            assert least_under(pods, domains, skew) == min(counts[-1] for counts in within)


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 10**4))
def test_a_cap_as_wide_as_the_skew_takes_as_many_domains_as_documented(pods: int, domains: int, skew: int) -> None:
    """N - s + 1 domains."""
    assert (most_under(pods, domains, skew) <= skew) == (domains >= pods - skew + 1)


def guaranteed(snapshot: Snapshot, limit: Limit) -> bool:
    group = PolicyGroup(name="g", selector=Selector(), group_by=(CLUSTER,), limits=(limit,))
    policy = default_policy().model_copy(update={"groups": (group,)})
    (evaluated,) = assess(View(snapshot), policy, NO_MEMORY).limits
    return evaluated.guaranteed


def at_most(share: str, key: str) -> Limit:
    return Limit(name="l", topology_key=key, max_share=Share.of(share))


SHARDS = [("a1", "b1"), ("a2", "c1"), ("b2", "c2")]


@pytest.mark.parametrize(
    ("apart", "limit", "holds"),
    [
        (AZ, at_most("<=1/2", AZ), True),
        (AZ, at_most("<1/2", AZ), False),
        (AZ, at_most("<=1/2", HOSTNAME), True),
        (HOSTNAME, at_most("<=1/2", HOSTNAME), True),
        (HOSTNAME, at_most("<=1/2", AZ), False),
        (None, at_most("<=1/2", AZ), False),
    ],
)
def test_shard_separation_bounds_a_zone_by_the_number_of_shards(apart: str | None, limit: Limit, holds: bool) -> None:
    """Anti-affinity by zone lets a zone hold one pod of each shard: exactly half is sure, below half is not."""
    assert guaranteed(redis(machines("abc", 2), SHARDS, apart=apart), limit) is holds


def test_a_shard_apart_is_sure_of_one_pod_a_domain() -> None:
    """MaxPods 1 by the key of the shard's anti-affinity, or by a finer one."""
    snapshot = redis(machines("abc", 2), SHARDS[:1], apart=AZ)
    for key in (AZ, HOSTNAME):
        assert guaranteed(snapshot, Limit(name="l", topology_key=key, max_pods=1))
    assert not guaranteed(redis(machines("abc", 2), SHARDS[:2], apart=AZ), Limit(name="l", topology_key=AZ, max_pods=1))


def test_skew_and_minimum_follow_from_the_same_constraint() -> None:
    """MaxSkew 1 over three zones and six pods: two in each, so at least one, and no difference above one."""
    snapshot = redis(machines("abc", 2), SHARDS, skews={AZ: 1})
    assert guaranteed(snapshot, Limit(name="l", topology_key=AZ, min_pods=1))
    assert guaranteed(snapshot, Limit(name="l", topology_key=AZ, min_pods=2))
    assert guaranteed(snapshot, Limit(name="l", topology_key=AZ, max_pods=2))
    assert guaranteed(snapshot, Limit(name="l", topology_key=AZ, max_skew=1))
    loose = redis(machines("abc", 2), SHARDS, skews={AZ: 2})
    assert not guaranteed(loose, Limit(name="l", topology_key=AZ, max_skew=1))
    assert not guaranteed(redis(machines("abc", 2), SHARDS), Limit(name="l", topology_key=AZ, min_pods=1))


def test_a_constraint_of_one_owner_alone_guarantees_nothing_for_all() -> None:
    """Every owner's next pod must be bound, or it may come to stand where the others may not."""
    bound, free = (
        redis(machines("abc", 2), SHARDS[:2], skews={AZ: 1}),
        redis(machines("abc", 2), SHARDS[2:], cluster="x"),
    )
    pods = (*bound.pods, *free.pods)
    several = Snapshot(
        taken_at=bound.taken_at, nodes=bound.nodes, pods=pods, workloads=(*bound.workloads, *free.workloads)
    )
    group = PolicyGroup(
        name="g", selector=Selector(), group_by=("cloud.netease.com/app",), limits=(at_most("<=1/2", AZ),)
    )
    policy = default_policy().model_copy(update={"groups": (group,)})
    (limit,) = assess(View(several), policy, NO_MEMORY).limits
    assert not limit.guaranteed


MASTERS = Selector(match_labels={"redis-role": "master"})


def test_a_constraint_over_more_pods_leaves_fewer_of_them_less_sure() -> None:
    """Twelve pods, two a node: six masters among them may stand two by two, and far apart."""
    nodes = machines("a", 6)
    snapshot = redis(nodes, [(None, None)] * 6, skews={HOSTNAME: 1})
    placed = redis(nodes, [(f"a{n}", f"a{n}") for n in range(1, 7)], skews={HOSTNAME: 1})
    assert guaranteed(snapshot, Limit(name="l", topology_key=HOSTNAME, max_pods=2))
    assert not guaranteed(placed, Limit(name="l", topology_key=HOSTNAME, max_pods=1, selector=MASTERS))
    assert guaranteed(placed, Limit(name="l", topology_key=HOSTNAME, max_skew=1))
    assert not guaranteed(placed, Limit(name="l", topology_key=HOSTNAME, max_skew=1, selector=MASTERS))


def test_too_few_domains_for_min_domains_cap_each_at_the_skew() -> None:
    """While minDomains is not met the minimum counts as 0."""
    limit = Limit(name="l", topology_key=AZ, max_pods=2)
    assert guaranteed(redis(machines("ab", 3), SHARDS, skews={AZ: 2}, min_domains=3), limit)
    assert not guaranteed(redis(machines("ab", 3), SHARDS, skews={AZ: 2}), limit)


def test_a_constraint_that_leaves_domains_out_says_nothing_of_them() -> None:
    """A tainted zone is no domain of a constraint that honours taints, and one of the limit's."""
    nodes = [
        structs.replace(machine, taints=(taint("x"),)) if machine.name.startswith("c") else machine
        for machine in machines("abc", 2)
    ]
    limit = Limit(name="l", topology_key=AZ, max_skew=1)
    shards = [("a1", "b1"), ("a2", "b2")]
    assert not guaranteed(redis(nodes, shards, skews={AZ: 1}, taints="Honor"), limit)
    assert guaranteed(redis(nodes, shards, skews={AZ: 1}), limit)


def test_the_loosest_of_several_owners_binds() -> None:
    """After a scaling some owners carry the old maxSkew and some the new."""
    tight = redis(machines("abc", 2), SHARDS[:2], skews={AZ: 1})
    loose = redis(machines("abc", 2), SHARDS[2:], skews={AZ: 3}, first=2)
    for one, two in ((tight, loose), (loose, tight)):
        both = replace(one, pods=(*one.pods, *two.pods), workloads=(*one.workloads, *two.workloads))
        assert not guaranteed(both, Limit(name="l", topology_key=AZ, max_pods=2))
        assert guaranteed(both, Limit(name="l", topology_key=AZ, max_pods=4))
        assert not guaranteed(both, Limit(name="l", topology_key=AZ, max_skew=1))
        assert guaranteed(both, Limit(name="l", topology_key=AZ, max_skew=3))


def test_nodes_nest_in_zones_where_every_node_has_one() -> None:
    """A node without the zone's label is in no zone: what holds for zones says nothing of it."""
    whole = View(redis(machines("ab", 2), []))
    assert nests(HOSTNAME, AZ, whole)
    assert not nests(AZ, HOSTNAME, whole)
    assert not nests(HOSTNAME, AZ, View(redis([*machines("ab", 2), node("x")], [])))
