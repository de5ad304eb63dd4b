"""Limits are evaluated on exact numbers: which are in force, what they count, their state and their message."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.assessment.domains import named_domains as named_values
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.cluster import Namespace
from rebalancer.model.labels import Labels
from rebalancer.model.moves import NO_MEMORY, Memory, ZoneSeen
from rebalancer.model.pods import OwnerReference, Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Limit, Policy, PolicyGroup, Selector, Share, default_policy, load_policy
from rebalancer.scheduling.node_index import RequiredAffinity
from rebalancer.scheduling.view import View
from rebalancer.tracking.zones import zones_seen
from tests.assessment.redis import AZ, CLUSTER, HOSTNAME, SHARD, machines, redis
from tests.build import a_cluster
from tests.controller.cycles import cycle_of
from tests.scheduling.build import pod, term

NETEASE = load_policy(
    (Path(__file__).parents[3] / "config" / "examples" / "netease.yaml").read_bytes(), source="netease.yaml"
)


def limits_of(snapshot: Snapshot, policy: Policy = NETEASE, memory: Memory = NO_MEMORY) -> list[EvaluatedLimit]:
    return list(assess(View(snapshot), policy, memory).limits)


def named(limits: Sequence[EvaluatedLimit], name: str) -> EvaluatedLimit:
    (named,) = [limit for limit in limits if limit.limit == name]
    return named


def one(
    snapshot: Snapshot, *, memory: Memory = NO_MEMORY, group_by: Sequence[str] = (CLUSTER,), **rule: Any
) -> EvaluatedLimit:
    """Evaluate a single limit of a single group."""
    (only,) = several(snapshot, memory=memory, group_by=group_by, **rule)
    return only


def several(
    snapshot: Snapshot, *, memory: Memory = NO_MEMORY, group_by: Sequence[str] = (CLUSTER,), **rule: Any
) -> list[EvaluatedLimit]:
    if "max_share" in rule:
        rule["max_share"] = Share.of(rule["max_share"])
    limit = Limit(name="only", **{"topology_key": HOSTNAME, **rule})
    group = PolicyGroup(name="group", selector=Selector(), group_by=tuple(group_by), zone_key=AZ, limits=(limit,))
    return limits_of(snapshot, default_policy().model_copy(update={"groups": (group,)}), memory)


def in_pairs(places: Sequence[str | None]) -> list[Sequence[str | None]]:
    return [places[at : at + 2] for at in range(0, len(places), 2)]


def spread_over(counts: dict[str, int]) -> list[Sequence[str | None]]:
    return in_pairs([name for name, number in counts.items() for _ in range(number)])


# The rules of the design that the limits come from, row by row


@pytest.mark.parametrize(
    ("zones", "machines_per_zone", "places", "violated"),
    [
        # one zone: a shard's pods on one node (R1), a node with a third (R2)
        ("a", 6, ["a1", "a2", "a3", "a4", "a5", "a6"], set()),
        ("a", 6, ["a1", "a1", "a3", "a4", "a5", "a6"], {"R1", "R2-single-az"}),
        ("a", 6, ["a1", "a2", "a1", "a4", "a5", "a6"], {"R2-single-az"}),
        # two zones: a shard within a zone (R3), uneven zones (R4), uneven nodes in one (R5), a node over a third (R2)
        ("ab", 3, ["a1", "b1", "a2", "b2", "a3", "b3"], set()),
        ("ab", 3, ["a1", "a2", "b1", "b2", "a3", "b3"], {"R3-R6"}),
        ("ab", 3, ["a1", "b1", "a2", "b2", "a3", "a1"], {"R3-R6", "R4"}),
        ("ab", 3, ["a1", "b1", "a1", "b2", "a2", "b3"], {"R5"}),
        ("ab", 3, ["a1", "b1", "a1", "b2", "a1", "b3"], {"R2-three-shards", "R5"}),
        # three zones: half in one (R7, with three shards only above half), an empty one, a third on a node, far apart
        ("abc", 2, ["a1", "b1", "a2", "c1", "b2", "c2"], set()),
        ("abc", 2, ["a1", "b1", "a2", "b2", "a1", "c1"], set()),
        ("abc", 2, ["a1", "a2", "a1", "b1", "a2", "c1"], {"R3-R6", "R7-three-shards", "R8"}),
        ("abc", 2, ["a1", "b1", "a2", "b2", "a1", "b2"], {"R8", "every-az"}),
        ("abc", 2, ["a1", "b1", "a1", "c1", "a1", "c2"], {"R2-three-shards"}),
        # five shards: the bounds are strict
        ("abc", 2, ["a1", "b1", "a2", "c1", "b2", "c2", "a1", "b1", "a2", "c1"], set()),
        ("abc", 2, ["a1", "b1", "a2", "c1", "a1", "c2", "a1", "b1", "a2", "c1"], {"R7", "R8"}),
        ("abc", 2, ["a1", "b1", "a1", "c1", "b2", "c2", "a1", "b1", "a1", "c1"], {"R2"}),
    ],
)
def test_each_rule_of_the_design_is_reported_when_broken(
    zones: str, machines_per_zone: int, places: list[str | None], violated: set[str]
) -> None:
    """R1 to R8 for one, two and three zones, three and five shards, and the exception for three."""
    evaluated = limits_of(redis(machines(zones, machines_per_zone), in_pairs(places), zones=list(zones)))
    assert {limit.limit for limit in evaluated if limit.state is State.VIOLATED} == violated
    assert {limit.state for limit in evaluated} <= {State.SATISFIED, State.VIOLATED}


@pytest.mark.parametrize(
    ("pods", "node", "node_relaxed", "zone", "zone_relaxed"),
    [
        (2, 0, 0, 0, 1),
        (4, 1, 1, 1, 2),
        (6, 1, 2, 2, 3),
        (8, 2, 2, 3, 4),
        (10, 3, 3, 4, 5),
        (12, 3, 4, 5, 6),
        (18, 5, 6, 8, 9),
        (20, 6, 6, 9, 10),
    ],
)
def test_the_caps_of_the_design(pods: int, node: int, node_relaxed: int, zone: int, zone_relaxed: int) -> None:
    """One to ten shards."""
    snapshot = redis(machines("abc", 8), in_pairs([None] * pods))
    caps = [
        one(snapshot, topology_key=key, max_share=share).cap
        for key, share in ((HOSTNAME, "<1/3"), (HOSTNAME, "<=1/3"), (AZ, "<1/2"), (AZ, "<=1/2"))
    ]
    assert caps == [node, node_relaxed, zone, zone_relaxed]


@pytest.mark.parametrize(
    ("pods", "skew", "key", "share", "needed"),
    [
        *[
            (n, s, HOSTNAME, "<1/3", d)
            for n, s, d in [(6, 1, 6), (8, 2, 7), (10, 3, 8), (12, 3, 10), (18, 5, 14), (20, 6, 15)]
        ],
        *[
            (n, s, AZ, "<1/2", d)
            for n, s, d in [(6, 2, 5), (8, 3, 6), (10, 4, 7), (12, 5, 8), (18, 8, 11), (20, 9, 12)]
        ],
    ],
)
def test_how_many_domains_a_guarantee_takes(pods: int, skew: int, key: str, share: str, needed: int) -> None:
    """The pods' own maxSkew guarantees the share from n - s + 1 domains on, and not with one less."""
    letters = "abcdefghijklmnop"
    for there, guaranteed in ((needed, True), (needed - 1, False)):
        nodes = machines("a", there) if key == HOSTNAME else machines(letters[:there], 1)
        snapshot = redis(nodes, in_pairs([None] * pods), skews={key: skew})
        assert one(snapshot, topology_key=key, max_share=share).guaranteed is guaranteed


@pytest.mark.parametrize(
    ("counts", "largest", "cap"),
    [
        ({"a1": 4, "a2": 2, "b1": 1, "b2": 1, "c1": 1, "c2": 1}, 4, 3),
        ({"a1": 4, "a2": 4, "b1": 1, "b2": 1, "c1": 1, "c2": 1}, 4, 3),
        ({"a1": 8, "a2": 4, "b1": 2, "b2": 2, "c1": 2, "c2": 2}, 8, 6),
    ],
)
def test_distributions_that_constraints_allow_and_limits_do_not(counts: dict[str, int], largest: int, cap: int) -> None:
    """The worst that satisfies the constraints of the design on its six nodes is over a third, and is reported."""
    pods = sum(counts.values())
    limit = one(redis(machines("abc", 2), spread_over(counts), skews={HOSTNAME: cap}), max_share="<1/3")
    assert (limit.state, limit.maximum, limit.cap, limit.headroom) == (State.VIOLATED, largest, cap, cap - largest)
    assert limit.largest is not None
    assert (limit.largest.domain, limit.largest.share) == ("a1", Fraction(largest, pods))
    assert not limit.guaranteed


def test_fewer_nodes_than_the_limit_needs() -> None:
    """Six pods on five nodes cannot stay below a third: the least possible maximum is the goal (5.4)."""
    limit = one(redis(machines("a", 5), spread_over({"a1": 2, "a2": 1, "a3": 1, "a4": 1, "a5": 1})), max_share="<1/3")
    assert (limit.state, limit.reason, limit.goal) == (State.INFEASIBLE, Reason.TOO_FEW_DOMAINS, 2)
    assert "6 pods need 6 domains, there are 5 domains of kubernetes.io/hostname; at best one holds 2" in limit.message


# The deadlock (5.2): shares in its two outcomes


def test_the_walk_through_of_three_shards() -> None:
    """One pod a node and two a zone is within everything; relaxed to two a node, 3/2/1 is exactly half and a third."""
    nodes = machines("abc", 2)
    strict = limits_of(redis(nodes, [("a1", "b1"), ("b2", "c1"), ("c2", "a2")], zones="abc"))
    assert {limit.state for limit in strict} == {State.SATISFIED}
    relaxed = limits_of(redis(nodes, [("a1", "b1"), ("a1", "c1"), ("a2", "b1")], zones="abc"))
    assert {limit.limit for limit in relaxed if limit.state is not State.SATISFIED} == set()
    at_the_bound = named(relaxed, "R7-three-shards")
    assert (at_the_bound.headroom, at_the_bound.largest and at_the_bound.largest.share) == (0, Fraction(1, 2))
    assert (named(relaxed, "R2-three-shards").cap, named(relaxed, "R2-three-shards").headroom) == (2, 0)


# What is counted


def test_shards_are_evaluated_one_by_one() -> None:
    """A finer groupBy gives a limit for each shard, and the key says which."""
    evaluated = limits_of(redis(machines("ab", 3), [("a1", "a2"), ("a3", "b1")], zones="ab"))
    shards = {limit.key[SHARD]: limit.state for limit in evaluated if limit.limit == "R3-R6"}
    assert shards == {"one-0": State.VIOLATED, "one-1": State.SATISFIED}
    assert all(limit.key[CLUSTER] == "one" for limit in evaluated)


def test_a_role_counts_alone_and_is_never_evicted_for() -> None:
    """Masters alone: half of them on one node, whatever the replicas do; a new pod would be no master."""
    masters = Selector(match_labels={"redis-role": "master"})
    snapshot = redis(machines("a", 4), [("a1", "a2"), ("a1", "a3"), ("a2", "a4"), ("a3", "a4")])
    limit = one(snapshot, max_share="<1/2", selector=masters, action="Evict")
    assert (limit.total, limit.maximum, limit.state) == (4, 2, State.VIOLATED)
    assert not limit.enforceable
    assert "lacks the label redis-role: a replacement would not carry it" in limit.message
    assert one(snapshot, max_share="<1/2", action="Evict").enforceable


def test_a_part_of_one_owner_wants_its_part_of_the_replicas() -> None:
    """Four of eight pods have the role, ten are wanted: five."""
    snapshot = redis(machines("a", 4), [("a1", "a2", "a3", "a4") * 2], replicas=10)
    chosen = {"one-0-0", "one-0-3", "one-0-5", "one-0-6"}
    pods = tuple(
        structs.replace(pod, labels=Labels({**pod.labels, "half": str(pod.name in chosen)})) for pod in snapshot.pods
    )
    limit = one(replace(snapshot, pods=pods), max_pods=1, selector=Selector(match_labels={"half": "True"}))
    assert (limit.total, len(limit.pods)) == (5, 4)


def test_a_label_that_must_be_absent_is_absent_from_a_new_pod_too() -> None:
    """A label that the template lacks is not required."""
    without = Selector.model_validate({"matchExpressions": [{"key": "drained", "operator": "DoesNotExist"}]})
    limit = one(redis(machines("a", 2), [("a1", "a1")]), max_pods=1, selector=without)
    assert limit.enforceable


def test_within_a_larger_domain() -> None:
    """Nodes are compared inside each zone; the zone is part of the key."""
    snapshot = redis(machines("ab", 2), spread_over({"a1": 3, "a2": 1, "b1": 1, "b2": 1}))
    by_zone = {limit.key[AZ]: limit for limit in several(snapshot, within=AZ, max_skew=1)}
    assert {zone: (limit.state, dict(limit.counts)) for zone, limit in by_zone.items()} == {
        "a": (State.VIOLATED, {"a1": 3, "a2": 1}),
        "b": (State.SATISFIED, {"b1": 1, "b2": 1}),
    }
    assert by_zone["a"].message == "kubernetes.io/hostname a1 holds 3 of 4, the emptiest 1, maxSkew is 1"


def test_a_share_within_a_larger_domain_is_of_what_that_holds() -> None:
    """Half of a zone's pods on one of its nodes, whatever stands elsewhere; what a zone holds nobody guarantees."""
    snapshot = redis(machines("ab", 2), spread_over({"a1": 2, "a2": 2, "b1": 3, "b2": 1}), skews={HOSTNAME: 1})
    by_zone = {limit.key[AZ]: limit for limit in several(snapshot, within=AZ, max_share="<=1/2")}
    assert {zone: (limit.total, limit.cap, limit.state) for zone, limit in by_zone.items()} == {
        "a": (4, 2, State.SATISFIED),
        "b": (4, 2, State.VIOLATED),
    }
    assert not by_zone["a"].guaranteed


def test_a_limit_may_divide_a_group_by_workload() -> None:
    """Each shard apart without a label of its own."""
    limits = several(redis(machines("a", 2), [("a1", "a1"), ("a1", "a2")]), group_by=(CLUSTER,), max_pods=1)
    assert [limit.total for limit in limits] == [4]
    limit = Limit(name="l", topology_key=HOSTNAME, group_by=("Workload",), max_pods=1)
    group = PolicyGroup(name="g", selector=Selector(), group_by=(CLUSTER,), limits=(limit,))
    policy = default_policy().model_copy(update={"groups": (group,)})
    limits = limits_of(redis(machines("a", 2), [("a1", "a1"), ("a1", "a2")]), policy)
    assert {one.key["workload"]: one.state for one in limits} == {
        "StatefulSet/one-0": State.VIOLATED,
        "StatefulSet/one-1": State.SATISFIED,
    }
    assert all(one.key[CLUSTER] == "one" for one in limits)


def test_too_few_pods_for_a_minimum() -> None:
    """Two pods cannot be in three zones; the most even placement is the goal."""
    limit = one(redis(machines("abc", 1), [("a1", "b1")]), topology_key=AZ, min_pods=1)
    assert (limit.state, limit.reason, limit.goal) == (State.INFEASIBLE, Reason.NO_ARRANGEMENT, 0)
    assert limit.message.endswith("holds 0 of 2, minPods is 1; 3 domains need 3 pods")
    enough = one(redis(machines("abc", 1), [("a1", "b1"), ("a1", "b1")]), topology_key=AZ, min_pods=1)
    assert (enough.state, enough.goal, enough.headroom, enough.worst) == (State.VIOLATED, 1, -1, "c")
    just = one(redis(machines("ab", 1), [("a1", "a1")]), topology_key=AZ, min_pods=1)
    assert (just.state, just.reason) == (State.VIOLATED, None)
    lost = one(redis(machines("ab", 1), [("a1", "b1"), ("a1", "b1")], zones="abc"), topology_key=AZ, min_pods=1)
    assert lost.message.endswith("; 1 of the domains has no node")


def test_a_label_whose_value_the_template_does_not_give() -> None:
    """The label is there, the value is set at run time."""
    snapshot = redis(machines("a", 2), [("a1", "a1")], roles=False)
    pods = tuple(structs.replace(pod, labels=Labels({**pod.labels, SHARD: "moved"})) for pod in snapshot.pods)
    limit = one(replace(snapshot, pods=pods), max_pods=1, selector=Selector(match_labels={SHARD: "moved"}))
    assert limit.unenforceable == "the selector does not match the template of cache/one-0 (StatefulSet)"


def test_a_group_whose_label_is_set_at_run_time() -> None:
    """A new pod would belong to another cluster."""
    snapshot = redis(machines("a", 2), [("a1", "a1")])
    pods = tuple(structs.replace(pod, labels=Labels({**pod.labels, CLUSTER: "two"})) for pod in snapshot.pods)
    limit = one(replace(snapshot, pods=pods), max_pods=1)
    assert limit.key == {CLUSTER: "two"}
    assert (
        limit.unenforceable
        == f"the template of cache/one-0 (StatefulSet) has another value of {CLUSTER} than these pods"
    )


def test_pods_that_stand_where_they_may_not_are_counted() -> None:
    """A node that their affinity no longer admits still falls with them; it is no domain to fill."""
    limit = one(redis(machines("ab", 2), spread_over({"a1": 1, "b1": 3}), zones=["a"]), max_share="<=1/2")
    assert (dict(limit.counts), limit.existing, limit.state) == ({"a1": 1, "a2": 0, "b1": 3}, 2, State.VIOLATED)


def test_domains_that_are_declared() -> None:
    """A declared zone without nodes is missing; a zone that is not declared is not counted."""
    snapshot = redis(machines("abd", 2), spread_over({"a1": 2, "b1": 1, "d1": 3}))
    limit = one(snapshot, topology_key=AZ, min_pods=1, domains=("a", "b", "c"))
    assert (dict(limit.counts), limit.worst, limit.state) == ({"a": 2, "b": 1, "c": 0}, "c", State.INFEASIBLE)
    assert limit.reason is Reason.TOO_FEW_DOMAINS
    assert dict(one(snapshot, topology_key=AZ, max_pods=2, domains=("a", "b")).counts) == {"a": 2, "b": 1}
    affine = redis(machines("abd", 2), spread_over({"a1": 2, "b1": 2}), zones=["a", "b", "c"])
    assert dict(one(affine, topology_key=AZ, min_pods=1).counts) == {"a": 2, "b": 2, "c": 0}
    assert named(limits_of(affine), "every-az").worst == "c"


def test_only_what_the_scheduler_counts_counts() -> None:
    """Terminating pods are gone, waiting ones stand nowhere, and the total is what the owners want."""
    snapshot = redis(machines("a", 6), [("a1", "a2"), ("a1", "a3"), ("a4", None)])
    gone = structs.replace(snapshot.pods[0], deleted=snapshot.taken_at)
    limit = one(replace(snapshot, pods=(gone, *snapshot.pods[1:])), max_share="<=1/3")
    assert (dict(limit.counts), limit.total, len(limit.pods)) == (
        {"a1": 1, "a2": 1, "a3": 1, "a4": 1, "a5": 0, "a6": 0},
        6,
        5,
    )
    live = one(replace(snapshot, pods=(gone, *snapshot.pods[1:])), max_share="<=1/3", of="live")
    assert live.total == 5


def test_an_owner_without_any_pod_still_wants_its_replicas() -> None:
    """Losing a shard altogether does not make the others' share larger."""
    snapshot = redis(machines("a", 6), [("a1", "a2"), ("a3", "a4"), ()])
    assert one(snapshot, max_share="<=1/3").total == 6


def test_a_pod_on_a_node_without_the_key_is_in_no_domain() -> None:
    """It counts in the total and nowhere else."""
    bare = structs.replace(machines("a", 1)[0], name="x", labels=Labels({"other": "label"}))
    limit = one(redis([*machines("a", 4), bare], spread_over({"a1": 1, "x": 3})), max_share="<1/2")
    assert (limit.total, limit.maximum, limit.state) == (4, 1, State.SATISFIED)


@pytest.mark.parametrize("text", ["only", "group/only", "other, only"])
@pytest.mark.parametrize("place", ["pod", "owner", "namespace"])
def test_pods_leave_a_limit_by_annotation(place: str, text: str) -> None:
    """Deliberate weighting: on a pod, its owner or its namespace, by the limit's name."""
    annotations = Labels({"rebalancer.dev/ignore-limits": text})
    snapshot = redis(machines("a", 4), [("a1", "a1"), ("a1", "a1"), ("a2", "a3")])

    def noted(what: Any) -> Any:
        return structs.replace(what, annotations=annotations)

    if place == "pod":
        snapshot = replace(snapshot, pods=(*map(noted, snapshot.pods[:4]), *snapshot.pods[4:]))
    elif place == "owner":
        snapshot = replace(snapshot, workloads=(*map(noted, snapshot.workloads[:2]), snapshot.workloads[2]))
    else:
        snapshot = replace(snapshot, namespaces=(Namespace(name="cache", annotations=annotations),))
        assert several(snapshot, max_share="<=1/2") == []
        return
    limit = one(snapshot, max_share="<=1/2")
    assert (limit.state, limit.total, limit.maximum) == (State.SATISFIED, 2, 1)


def test_another_limits_name_leaves_a_pod_in() -> None:
    snapshot = redis(machines("a", 4), [("a1", "a1")])
    annotations = Labels({"rebalancer.dev/ignore-limits": "group/other, onl"})
    pods = tuple(structs.replace(pod, annotations=annotations) for pod in snapshot.pods)
    assert one(replace(snapshot, pods=pods), max_share="<=1/2").total == 2


def test_pods_without_a_label_of_group_by_are_in_no_group() -> None:
    """Two clusters are two groups, a pod without the label is in none."""
    nodes = machines("a", 4)
    both = [redis(nodes, [("a1", "a2")], cluster=name) for name in ("one", "two")]
    stripped = tuple(structs.replace(pod, labels=Labels({"a": "b"})) for pod in both[1].pods)
    merged = replace(both[0], pods=(*both[0].pods, *both[1].pods), workloads=(*both[0].workloads, *both[1].workloads))
    assert [limit.key for limit in several(merged, max_pods=1)] == [{CLUSTER: "one"}, {CLUSTER: "two"}]
    bare = replace(both[0], pods=(*both[0].pods, *stripped))
    assert [limit.key for limit in several(bare, max_pods=1)] == [{CLUSTER: "one"}]


def test_workloads_are_grouped_by_their_top_owner() -> None:
    """The shipped policy tells of half a Deployment on a node from four replicas on; DaemonSets are left out."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("web", on={"a-1": 3, "b-1": 1})
    blueprint.deployment("small", on={"a-1": 3})
    evaluated = limits_of(blueprint.snapshot(), default_policy())
    assert [(dict(limit.key), limit.limit, limit.state) for limit in evaluated] == [
        ({"workload": "Deployment/web"}, "node-half", State.VIOLATED),
        ({"workload": "Deployment/web"}, "zone-half", State.VIOLATED),
    ]
    assert evaluated[0].name == "limit workloads/node-half default workload=Deployment/web"
    assert (
        evaluated[0].message
        == "kubernetes.io/hostname a-1 holds 3 of 4 (75%), the limit is maxShare <=1/2, which allows 2"
    )
    assert dict(evaluated[1].counts) == {"a": 3, "b": 1}


def test_pods_without_a_known_owner() -> None:
    """Those of a foreign controller are a group by its name; bare pods and those of DaemonSets are in no workload."""

    def owned(kind: str, name: str, number: int) -> list[Pod]:
        owner = OwnerReference(group="x", kind=kind, name=name, uid=name)
        return [
            pod({CLUSTER: "one"}, f"a{index % 2 + 1}", owner=owner, name=f"{name}-{index}") for index in range(number)
        ]

    pods = [*owned("CloneSet", "clones", 4), *owned("DaemonSet", "agents", 4), pod({CLUSTER: "one"}, "a1", name="bare")]
    snapshot = redis(machines("a", 2), [])
    limits = several(replace(snapshot, pods=tuple(pods)), group_by=("Workload",), max_pods=1)
    assert [(dict(limit.key), limit.total, dict(limit.counts)) for limit in limits] == [
        ({"workload": "CloneSet/clones"}, 4, {"a1": 2, "a2": 2})
    ]
    assert "the next pod of default/clones (CloneSet) is not known" in limits[0].unenforceable
    by_label = one(replace(snapshot, pods=tuple(pods)), max_pods=1)
    assert (by_label.total, dict(by_label.counts)) == (5, {"a1": 3, "a2": 2})


def test_a_rollout_counts_both_of_its_replica_sets_once() -> None:
    """The Deployment's replicas are the total, not those of its ReplicaSets together."""
    snapshot = a_cluster("ab", 2, {"a-1": 3, "b-1": 3}).snapshot()
    top, below = snapshot.workloads
    newer = structs.replace(below, uid="newer", name="web-newer", replicas=2)
    moved = tuple(
        structs.replace(pod, owner=structs.replace(pod.owner, uid="newer", name="web-newer"))
        for pod in snapshot.pods[:2]
        if pod.owner is not None
    )
    rolling = replace(snapshot, workloads=(top, below, newer), pods=(*moved, *snapshot.pods[2:]))
    limit = named(limits_of(rolling, default_policy()), "node-half")
    assert (limit.total, limit.maximum, len(limit.parts)) == (6, 3, 2)


def test_a_cycle_keeps_the_zones_that_it_saw() -> None:
    """They go with the memory from one leader to the next."""
    snapshot = redis(machines("abc", 1), [])
    memory = cycle_of(snapshot, NETEASE).memory
    assert [(zone.key, zone.zone) for zone in memory.zones] == [(AZ, "a"), (AZ, "b"), (AZ, "c")]
    later = snapshot.taken_at + timedelta(minutes=30)
    two = replace(redis(machines("ab", 1), []), taken_at=later)
    memory = cycle_of(two, NETEASE, memory=memory).memory
    assert {zone.zone: zone.last for zone in memory.zones} == {"a": later, "b": later, "c": snapshot.taken_at}


def test_a_memory_from_another_clock_or_of_long_ago() -> None:
    """A zone seen in the future was seen now; one of long ago does not count even where the memory still has it."""
    snapshot = redis(machines("ab", 1), [("a1", "b1")])
    now = snapshot.taken_at
    ahead = Memory(zones=(ZoneSeen(AZ, "c", now + timedelta(hours=5)),))
    assert {zone.last for zone in zones_seen(ahead, snapshot, NETEASE, (), now)} == {now}
    old = Memory(zones=(ZoneSeen(AZ, "c", now - timedelta(hours=1)),))
    assert "R4" in {limit.limit for limit in limits_of(snapshot, NETEASE, old)}
    lately = Memory(zones=(ZoneSeen(AZ, "c", now - timedelta(minutes=59)),))
    assert "R4" not in {limit.limit for limit in limits_of(snapshot, NETEASE, lately)}


@pytest.mark.parametrize(
    ("selector", "terms", "values"),
    [
        ({}, None, None),
        ({"z": "a"}, None, {"a"}),
        ({}, [[("z", "In", ("a", "b"))]], {"a", "b"}),
        ({}, [[("z", "In", ("a", "b"))], [("z", "In", ("c",))]], {"a", "b", "c"}),
        ({}, [[("z", "In", ("a", "b")), ("z", "In", ("b", "c"))]], {"b"}),
        ({}, [[("z", "In", ("a",))], [("y", "In", ("c",))]], None),
        ({}, [[("z", "NotIn", ("a",))]], None),
        ({"z": "a"}, [[("y", "Exists", ())]], {"a"}),
        ({"z": "a"}, [[("z", "In", ("a", "b"))]], {"a"}),
        ({"z": "c"}, [[("z", "In", ("a", "b"))]], set()),
    ],
)
def test_which_values_an_affinity_names(selector: dict[str, str], terms: Any, values: set[str] | None) -> None:
    """Terms are alternatives, each must name some; nodeSelector holds besides. Anything else leaves the key open."""
    affinity = RequiredAffinity(
        Labels(selector), tuple(term(*fields) for fields in terms) if terms is not None else None
    )
    assert named_values("z", frozenset({affinity})) == values
    assert named_values("z", frozenset({affinity, None})) is None


def test_what_has_very_many_values_is_no_zone() -> None:
    """The memory stays small if somebody counts nodes as zones; the newest two hundred are kept."""
    many = redis([*machines("a", 300)], [])
    group = PolicyGroup(name="g", selector=Selector(), zone_key=HOSTNAME)
    policy = default_policy().model_copy(update={"groups": (group,)})
    assert len(zones_seen(NO_MEMORY, many, policy, (), many.taken_at)) == 200


def test_a_lost_zone_does_not_switch_rules_for_an_hour() -> None:
    """Zones seen in the last hour count; where affinity names zones, those count for ever."""
    three = redis(machines("abc", 2), [("a1", "b1"), ("a2", "c1"), ("b2", "c2")])
    remembered = Memory(zones=zones_seen(NO_MEMORY, three, NETEASE, (), three.taken_at))
    for minutes, zones in ((59, 3), (61, 2)):
        later = three.taken_at + timedelta(minutes=minutes)
        two = replace(redis(machines("ab", 2), [("a1", "b1"), ("a2", None), ("b2", None)]), taken_at=later)
        memory = Memory(zones=zones_seen(remembered, two, NETEASE, (), later))
        assert {zone.zone for zone in memory.zones} == set("abc")
        names = {limit.limit for limit in limits_of(two, NETEASE, memory)}
        assert ("every-az" in names, "R4" in names) == (zones == 3, zones == 2)
        affine = replace(redis(machines("ab", 2), [("a1", "b1")], zones="abc"), taken_at=later)
        assert "every-az" in {limit.limit for limit in limits_of(affine)}


def test_without_knowledge_of_nodes_nothing_is_evaluated() -> None:
    """Absent is not empty."""
    snapshot = replace(redis([], [("a1", "a1")]), unknown=frozenset({"Node"}))
    assert several(snapshot, max_pods=1) == []


def test_no_domain_at_all() -> None:
    """A topology key that no node carries can hold nothing, and the message says so."""
    limit = one(redis(machines("a", 2), [("a1", "a2")]), topology_key="rack", max_share="<=1/2")
    assert (limit.state, limit.reason, limit.goal, limit.worst) == (
        State.INFEASIBLE,
        Reason.TOO_FEW_DOMAINS,
        None,
        None,
    )
    assert "no node that these pods may use has the label rack" in limit.message


@pytest.mark.parametrize(
    ("pods", "share", "reason", "goal"),
    [
        (1, "<1/3", Reason.NO_ARRANGEMENT, 1),
        (3, "<1/3", Reason.NO_ARRANGEMENT, 1),
        (4, "<1/3", None, 1),
        (2, "<=1/2", None, 1),
    ],
)
def test_few_pods(pods: int, share: str, reason: Reason | None, goal: int) -> None:
    """One pod is a third of three: below a third there must be four."""
    limit = one(redis(machines("a", 6), [("a1",)] * pods, replicas=1), max_share=share)
    assert (limit.reason, limit.goal) == (reason, goal)
    assert ("from 4 pods on it is not" in limit.message) == (reason is not None)


# Against brute force


@given(st.integers(1, 20), st.integers(1, 8), st.booleans(), st.fractions(Fraction(1, 20), 1, max_denominator=20))
def test_feasible_is_what_some_placement_reaches(pods: int, nodes: int, strict: bool, fraction: Fraction) -> None:
    """Infeasible exactly where even the most even placement breaks the bound; its maximum is then the goal."""
    share = Share(strict, fraction)
    even = -(-pods // nodes)
    snapshot = redis(machines("a", nodes), [(None,)] * pods, replicas=1)
    group = PolicyGroup(
        name="g",
        selector=Selector(),
        group_by=(CLUSTER,),
        limits=(Limit(name="l", topology_key=HOSTNAME, max_share=share),),
    )
    (limit,) = limits_of(snapshot, default_policy().model_copy(update={"groups": (group,)}))
    feasible = even < pods * fraction if strict else even <= pods * fraction
    assert (limit.state is not State.INFEASIBLE) == feasible
    assert limit.goal == (share.cap(pods) if feasible else even)


@given(st.data())
def test_counts_and_verdicts_equal_an_independent_count(data: st.DataObject) -> None:
    """Any placement, any limit: recounted from the pods one by one."""
    nodes = machines("abc", 2)
    places = data.draw(st.lists(st.sampled_from([None, *(node.name for node in nodes)]), min_size=1, max_size=12))
    snapshot = redis(nodes, [(place,) for place in places], replicas=1)
    key = data.draw(st.sampled_from([HOSTNAME, AZ]))
    kind = data.draw(st.sampled_from(["max_pods", "max_skew", "min_pods", "max_share"]))
    number = data.draw(st.integers(1, 4))
    value: Any = f"<=1/{number + 1}" if kind == "max_share" else number
    limit = one(snapshot, topology_key=key, **{kind: value})
    wanted = {node.labels[key]: 0 for node in nodes}
    for place in places:
        if place is not None:
            wanted[next(node.labels[key] for node in nodes if node.name == place)] += 1
    assert dict(limit.counts) == wanted
    most, least, total = max(wanted.values()), min(wanted.values()), len(places)
    broken = {
        "max_pods": most > number,
        "max_skew": most - least > number,
        "min_pods": least < number,
        "max_share": most * (number + 1) > total,
    }[kind]
    assert (limit.headroom < 0) == broken
    if limit.state is not State.INFEASIBLE:
        assert (limit.state is State.VIOLATED) == broken
    assert limit.key == {CLUSTER: "one"}
