"""The plan of a snapshot: which evictions go, in which order, and what they are for."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.documents.phrases import eviction_text
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint
from rebalancer.planning.scope.components import stuck_pods
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, with_cpu, with_node, without_node
from tests.planning.clusters import REGION, hostname_only, nodes, planned, pods, regions, returned, sharing, spread_by
from tests.scheduling.build import NOW, spread, taint


def test_a_zone_that_returned() -> None:
    """Four go at once where the budgets let them, into the zone that came back, and the proof stands beside."""
    plan = planned(returned())
    assert sorted(eviction.pod.node or "" for eviction in plan.fates.going) == ["a-1", "a-2", "b-1", "b-2"]
    assert {target.topology_key: target.values for target in plan.fates.going[0].targets} == {
        ZONE: ("c",),
        HOSTNAME: ("c-1", "c-2"),
    }
    (group,) = plan.components
    assert (group.evictions, group.lower_bound, group.optimal, group.state) == (4, 4, True, State.VIOLATED)
    assert group.after is not None
    assert group.after[ZONE] == {"a": 4, "b": 4, "c": 4}
    assert plan.fates.kept == ()
    assert "zone a holds 6 pods, the emptiest domain 0, maxSkew is 1" in eviction_text(plan.fates.going[0])


def test_the_same_snapshot_gives_the_same_plan() -> None:
    """The order in which objects come changes nothing."""
    snapshot = returned()
    turned = replace(
        snapshot,
        pods=tuple(reversed(snapshot.pods)),
        nodes=tuple(reversed(snapshot.nodes)),
        workloads=tuple(reversed(snapshot.workloads)),
    )
    assert [eviction.pod.uid for eviction in planned(turned).fates.going] == [
        eviction.pod.uid for eviction in planned(snapshot).fates.going
    ]


def test_a_balanced_group_is_not_in_the_plan() -> None:
    """What holds is not planned."""
    assert planned(a_cluster("ab", 1, {"a-1": 2, "b-1": 1}, spread={ZONE: 1}).snapshot()).components == ()


def test_least_important_first() -> None:
    """Of pods that would do equally, the one of lowest deletion cost goes, then the unready, then the youngest."""
    snapshot = returned()
    cheap = {pod.name for pod in snapshot.pods if pod.name.endswith(("1", "4", "7"))}

    def priced(pod: Pod) -> Pod:
        cost = "-5" if pod.name in cheap else "odd"
        return structs.replace(pod, annotations=Labels({"controller.kubernetes.io/pod-deletion-cost": cost}))

    plan = planned(pods(snapshot, priced))
    on = {pod.node for pod in snapshot.pods if pod.name in cheap}
    assert {eviction.pod.name for eviction in plan.fates.going if eviction.pod.node in on} <= cheap


def test_two_revisions_share_a_selector() -> None:
    """Two owners under one selector are one group, planned together."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("one", on={"a-1": 4}, spread={ZONE: 1})
    blueprint.deployment("two", on={"b-1": 4}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()

    assert planned(sharing(snapshot)).components == ()
    assert len(planned(snapshot).components) == 2


@pytest.mark.parametrize(
    ("affinity", "reason"),
    [
        ({"anti_required": HOSTNAME}, None),
        ({"anti_required": ZONE}, Reason.TOO_FEW_DOMAINS),
        ({"required": ZONE}, Reason.NOT_PREDICTABLE),
    ],
)
def test_affinity_to_pods(affinity: dict[str, str], reason: Reason | None) -> None:
    """Keeping off each other's nodes is counted; affinity that moves with every placement is left alone."""
    blueprint = a_cluster("abc", 3, {"a-1": 1, "a-2": 1, "a-3": 1, "b-1": 1}, spread={ZONE: 1})
    ((kind, key),) = affinity.items()
    term = PodAffinityTerm(topology_key=key, selector=LabelSelector.of({"app": "web"}))

    tied_by = {"anti_required": PodAffinity(anti_required=(term,)), "required": PodAffinity(required=(term,))}

    def tied(pod: Pod) -> Pod:
        spec = structs.replace(pod.spec, pod_affinity=tied_by[kind])
        return structs.replace(pod, spec=spec)

    plan = planned(pods(blueprint.snapshot(), tied))
    assert plan.components[0].reason is reason
    assert len(plan.fates.going) == (1 if reason is not Reason.NOT_PREDICTABLE else 0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            hostname_only(
                selector=LabelSelector.of({"app": "web"}, [SelectorRequirement("x", Operator.DOES_NOT_EXIST)])
            ),
            Reason.NO_ARRANGEMENT,
        ),
        (hostname_only(node_taints_policy=InclusionPolicy.HONOR), None),
        (
            lambda constraint: structs.replace(constraint, selector=LabelSelector.of({"app": "web", "x": "y"})),
            Reason.NOT_PREDICTABLE,
        ),
    ],
)
def test_constraints_that_do_not_fit_together(
    change: Callable[[SpreadConstraint], SpreadConstraint], reason: Reason | None
) -> None:
    """Constraints that count different pods or nodes are planned together; not the workload's own, they are left."""
    snapshot = returned()
    tainted = with_node(snapshot, "b-2", taints=(taint("t"),))
    extra = tuple(
        structs.replace(pod, uid=f"{pod.uid}x", owner=None, labels=Labels({"app": "web", "x": "y"}))
        for pod in snapshot.pods
    )
    plan = planned(spread_by(replace(tainted, pods=(*tainted.pods, *extra)), change))
    group = next(group for group in plan.components if group.groups[0].spread.members[0].owner is not None)
    assert group.reason is reason
    if reason is None:
        assert (group.evictions, group.optimal, bool(plan.fates.going)) == (8, True, True)


def test_one_node_a_zone_named_otherwise() -> None:
    """Where every node is a zone of its own, targets are named by the labels, not by the nodes."""
    blueprint = ClusterBuilder()
    for name, zone in (("n1", "a"), ("n2", "b")):
        blueprint.node(name, zone=zone)
    blueprint.deployment("web", on={"n1": 4}, spread={ZONE: 1, HOSTNAME: 1})
    snapshot = nodes(
        blueprint.snapshot(),
        lambda node: structs.replace(node, labels=Labels({**node.labels, HOSTNAME: f"host-{node.name}"})),
    )
    plan = planned(snapshot)
    assert {target.topology_key: target.values for target in plan.fates.going[0].targets} == {
        ZONE: ("b",),
        HOSTNAME: ("host-n2",),
    }
    assert plan.components[0].after == {ZONE: {"a": 2, "b": 2}, HOSTNAME: {"host-n1": 2, "host-n2": 2}}


def test_keys_that_cross() -> None:
    """Keys of which neither divides the other are planned by the integer program."""
    blueprint = ClusterBuilder()
    for name, zone, rack in (("n1", "a", "1"), ("n2", "a", "2"), ("n3", "b", "1"), ("n4", "b", "2")):
        blueprint.node(name, zone=zone, rack=rack)
    blueprint.deployment("web", on={"n1": 3, "n2": 3}, spread={ZONE: 1, "rack": 1})
    (group,) = planned(blueprint.snapshot()).components
    assert (group.reason, group.evictions, group.optimal) == (None, 3, True)


def test_a_key_above_shared_hosts() -> None:
    """Without a hostname constraint the nodes of a zone are interchangeable, and the plan still names them."""
    plan = planned(a_cluster("ab", 2, {"a-1": 2, "a-2": 2}, spread={ZONE: 1}).snapshot())
    assert len(plan.fates.going) == 2
    assert [target.topology_key for target in plan.fates.going[0].targets] == [ZONE]
    assert set(plan.components[0].after or ()) == {ZONE}


def test_selectors_that_count_nobody() -> None:
    """`{}` counts nobody on this version, so it is never violated; beside a real one it is left out."""
    snapshot = spread_by(returned(), hostname_only(selector=LabelSelector()))
    plan = planned(snapshot)
    assert len(plan.fates.going) == 4
    assert (
        planned(spread_by(returned(), lambda constraint: structs.replace(constraint, selector=None))).components == ()
    )


def test_workloads_that_ask_for_different_things() -> None:
    """Two owners under one selector with different requests are planned together, as two kinds."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("one", on={"a-1": 4}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 4}, spread={ZONE: 1}, cpu=200)

    (group,) = planned(sharing(blueprint.snapshot())).components
    assert (group.reason, len(group.workloads), group.evictions, group.optimal) == (None, 2, 4, True)


def test_three_keys() -> None:
    """Region, zone and host are planned together: one divides the next."""
    blueprint = regions()
    blueprint.deployment("web", on={"a-1": 4, "b-1": 4}, spread={REGION: 1, ZONE: 1, HOSTNAME: 1})
    plan = planned(blueprint.snapshot())
    assert plan.components[0].evictions == 6
    assert len(plan.fates.going) + len(plan.fates.kept) > 0
    assert set(plan.components[0].after or ()) == {REGION, ZONE, HOSTNAME}


def test_groups_that_count_the_same_pods_are_planned_together() -> None:
    """The number is the minimum for both, and each eviction of the step is good for both."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("one", on={"a-1": 6}, spread={ZONE: 1})
    blueprint.deployment("two", on={"a-1": 4}, spread={ZONE: 2})

    def same(pod: Pod) -> Pod:
        spread = tuple(
            structs.replace(constraint, selector=LabelSelector.of({"both": "y"})) for constraint in pod.spec.spread
        )
        spec = structs.replace(pod.spec, spread=spread)
        return structs.replace(pod, spec=spec, labels=Labels({**pod.labels, "both": "y"}))

    plan = planned(sharing(blueprint.snapshot()))
    (group,) = plan.components
    assert (group.evictions, group.optimal, len(group.workloads)) == (5, True, 2)
    assert plan.fates.going


def test_capacity_is_not_promised_twice() -> None:
    """Two workloads that need the same capacity do not both get it."""
    blueprint = a_cluster("ab", 1)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 4}, spread={ZONE: 1}, cpu=1000)
    snapshot = with_cpu(blueprint.snapshot(), 2000, "b-1")
    plan = planned(snapshot)
    assert {eviction.workload.name for eviction in plan.fates.going} == {"one"}
    assert len(plan.fates.going) == 2


def test_capacity_that_is_spoken_for() -> None:
    """The last free place is not promised while a pod waits for it, or is still to be created for it."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("web", on={"a-1": 2}, spread={ZONE: 1}, cpu=1000)
    blueprint.stateful_set("other", on={"a-1": 2}, cpu=1000)
    snapshot = with_cpu(blueprint.snapshot(), 1000, "b-1")
    assert len(planned(snapshot).fates.going) == 1
    last = next(pod for pod in snapshot.pods if pod.name == "other-1")
    waits = pods(snapshot, lambda pod: structs.replace(pod, node=None, ready=False) if pod is last else pod)
    missing = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod is not last))
    alone = pods(waits, lambda pod: structs.replace(pod, owner=None) if pod.uid == last.uid else pod)
    for taken in (waits, missing, alone):
        assert planned(taken).fates.going == ()


def test_extended_resources_and_storage_are_capacity_too() -> None:
    """Capacity is the least of all resources that the pods ask for."""
    asks = Resources(cpu=1, memory=1, ephemeral_storage=10, extended=(("example.com/gpu", 1),))
    has = Resources(cpu=64_000, memory=2**40, ephemeral_storage=25, extended=(("example.com/gpu", 9),))
    blueprint = a_cluster("ab", 1, {"a-1": 8}, spread={ZONE: 1})

    def asking(pod: Pod) -> Pod:
        return structs.replace(pod, spec=structs.replace(pod.spec, requests=asks), requests=asks)

    snapshot = with_node(pods(blueprint.snapshot(), asking), "b-1", allocatable=has)
    (group,) = planned(snapshot).components
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY), "storage for two, four must come"


def test_pods_that_wait_are_counted_in() -> None:
    """Two pods of zone a that wait for a node will fill the zone that came back: two evictions remain."""
    snapshot = returned()
    waiting = {next(pod.uid for pod in snapshot.pods if pod.node == node) for node in ("a-1", "a-2")}
    plan = planned(
        pods(snapshot, lambda pod: structs.replace(pod, node=None, ready=False) if pod.uid in waiting else pod)
    )
    assert plan.components[0].evictions == 2


def test_pods_on_their_way_may_bring_it_right() -> None:
    """Where the pods without a node are all that is missing, nothing is evicted."""
    snapshot = a_cluster("ab", 1, {"a-1": 2}, replicas=3, spread={ZONE: 1}).snapshot()
    waiting = [pod for pod in snapshot.pods if pod.node is None]
    assert len(waiting) <= 1
    plan = planned(snapshot)
    assert plan.fates.going == ()
    assert {group.reason for group in plan.components} <= {Reason.GROUP_IN_FLIGHT, Reason.ROLLOUT_IN_PROGRESS}


@pytest.mark.parametrize("selectors", [(), (None,), (LabelSelector(),)])
def test_a_pod_that_waits_for_capacity_where_nothing_is_required_needs_no_repair(
    selectors: tuple[LabelSelector | None, ...],
) -> None:
    """Its workload has soft defaults, or constraints that reject no node; other workloads are planned as always."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("cart", on={"a-1": 3}, spread={ZONE: 1})
    blueprint.deployment("web", on={"a-1": 1, "b-1": 1}, replicas=3)
    snapshot = blueprint.snapshot()
    constraints = tuple(spread(ZONE, selects=selector) for selector in selectors)

    def constrained(pod: Pod) -> Pod:
        return structs.replace(pod, spec=structs.replace(pod.spec, spread=constraints))

    web = [constrained(pod) for pod in snapshot.pods if pod.labels["app"] == "web"]
    requests = structs.replace(web[0].requests, cpu=10**6)
    spec = structs.replace(web[0].spec, requests=requests)
    late = without_node(web[0], "w", created=NOW - timedelta(days=9), requests=requests, spec=spec)
    others = [pod for pod in snapshot.pods if pod.labels["app"] != "web"]
    snapshot = replace(snapshot, pods=(*others, *web, late))
    assert stuck_pods(View(snapshot)) == {"w"}
    made = planned(snapshot)
    assert [(group.workloads[0].name, group.evictions) for group in made.components] == [("cart", 1)]
    assert len(made.fates.going) == 1
    assert made.refusals == ()
