"""What the nodes would take of a group's pods, and what is reserved of it for pods that have no node yet."""

from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from benchmarks.planning_states import zone_returned
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import Pod, PodPhase, PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.capacity import CapacityIndex, NodeCapacity, has_countable_affinity
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster, change_specs, with_cpu
from tests.planning.build import first_problem, joined, planned, two_classes
from tests.scheduling.build import NOW, spread


def waiting_pod(spec: PodSpec) -> Pod:
    return Pod(
        namespace="default",
        name="waits",
        uid="waits",
        spec=spec,
        requests=spec.requests,
        created=NOW - timedelta(hours=1),
    )


def on_node(name: str, requests: Resources) -> PodSpec:
    """Return the spec of a pod that only one node admits."""
    affinity = structs.replace(PodSpec().node_affinity, selector=Labels({HOSTNAME: name}))
    return PodSpec(requests=requests, node_affinity=affinity)


def with_allocatable(snapshot: Snapshot, **resources: object) -> Snapshot:
    nodes = tuple(
        structs.replace(node, allocatable=structs.replace(node.allocatable, **resources)) for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)


def test_without_any_node_all_numbers_are_zero() -> None:
    """Median, least and count are 0 where no node takes a pod."""
    nobody = NodeCapacity({})
    assert (nobody.median(), nobody.least_places(1), nobody.count_nodes_with(1)) == (0, 0, 0)


def test_a_pending_pod_displaces_as_many_as_its_scarcest_resource() -> None:
    """A pod that requests three GPUs may take the place of three that request one."""
    snapshot = with_allocatable(a_cluster("ab", 1, {"a-1": 2}, spread={ZONE: 1}).snapshot(), extended=(("gpu", 8),))
    waiting = waiting_pod(PodSpec(requests=Resources(cpu=100, extended=(("gpu", 3),))))
    index = CapacityIndex(View(replace(snapshot, pods=(*snapshot.pods, waiting))))
    sample = structs.replace(waiting, spec=PodSpec(requests=Resources(extended=(("gpu", 1),))))
    assert index.reserved(index.capacity_for(sample, []), sample).of("a-1") == 3


def test_capacity_is_reserved_only_where_a_pending_pod_may_be_placed() -> None:
    """On the node that its affinity names, and on no other; also on one that holds pods of the group."""
    snapshot = a_cluster(
        "abc", 2, {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}, spread={ZONE: 1, HOSTNAME: 1}, cpu=1000
    ).snapshot()
    pending = waiting_pod(on_node("c-1", Resources(cpu=2000)))
    crowded = replace(with_cpu(snapshot, 3000, "c-1"), pods=(*snapshot.pods, pending))
    assert planned(crowded).components
    _, problem = first_problem(crowded)
    assert isinstance(problem, SingleClassProblem)
    assert (problem.layout.cap("c-1"), problem.layout.cap("c-2") > 1) == (1, True)
    beside = waiting_pod(on_node("a-1", Resources(cpu=2000)))
    _, problem = first_problem(replace(snapshot, pods=(*snapshot.pods, beside)))
    assert isinstance(problem, SingleClassProblem)
    assert problem.layout.root


def test_an_owner_without_any_pod_reserves_nothing() -> None:
    """What its first pod will be like is not known from a pod."""
    snapshot = a_cluster("ab", 1, {"a-1": 2}, spread={ZONE: 1}).snapshot()
    replica_set = next(owner for owner in snapshot.workloads if owner.kind == "ReplicaSet")
    empty = structs.replace(replica_set, uid="empty", name="empty", replicas=1)
    assert planned(replace(snapshot, workloads=(*snapshot.workloads, empty))).components


def test_more_replacements_than_one_node_has_capacity_for() -> None:
    """Then nodes with half the usual capacity are counted on, less those that the others could fill."""
    snapshot = zone_returned(30, 40, 9)
    tight = tuple(structs.replace(node, pods=24) for node in snapshot.nodes)
    plan = planned(replace(snapshot, nodes=tight))
    assert plan.fates.going
    assert {group.reason for group in plan.components} >= {Reason.GROUP_IN_FLIGHT}


def test_replacements_count_on_every_node_where_all_have_little_capacity() -> None:
    """Where the usual capacity is as little as a group needs, a plan is made all the same."""
    snapshot = zone_returned(30, 40, 9)
    tight = tuple(structs.replace(node, pods=14) for node in snapshot.nodes)
    assert planned(replace(snapshot, nodes=tight)).components


def test_pods_with_affinity_have_a_capacity_of_their_own() -> None:
    """Anti-affinity to pods of others does not share the answer of pods without any, of one class or of several."""
    blueprint = a_cluster("ab", 2, {"a-1": 3}, spread={ZONE: 1})

    def avoid_others(_: str, spec: PodSpec) -> PodSpec:
        term = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"app": "other"}))
        return structs.replace(spec, pod_affinity=PodAffinity(anti_required=(term,)))

    assert planned(change_specs(blueprint.snapshot(), avoid_others)).components[0].evictions == 1
    assert planned(change_specs(joined(two_classes()), avoid_others)).components[0].evictions == 3


def test_for_pods_that_are_not_created_no_more_is_reserved_than_can_come_at_once() -> None:
    """A ReplicaSet that asks for 100,000 keeps capacity for 500, where nothing refuses its pods; else for none."""
    snapshot = a_cluster("ab", 1, {"a-1": 2}).snapshot()
    asked = tuple(structs.replace(owner, replicas=100_000) for owner in snapshot.workloads)
    for failure, expected in (("", 500), ("serviceaccount gone not found", 0)):
        owners = tuple(structs.replace(owner, creation_failure=failure) for owner in asked)
        state = replace(snapshot, workloads=owners)
        view = View(with_allocatable(state, cpu=10**9, memory=10**15))
        assert CapacityIndex(view).count_pending() == expected
    few = tuple(structs.replace(owner, replicas=12) for owner in snapshot.workloads)
    assert CapacityIndex(View(replace(snapshot, workloads=few))).count_pending() == 10


def test_pods_that_their_own_constraints_keep_waiting_reserve_capacity_for_a_minute() -> None:
    """Nodes have room for them, and no node is feasible: more domains are required than there are, say."""
    snapshot = a_cluster("ab", 1, {"a-1": 2}).snapshot()
    labels = Labels({"app": "far"})
    for needed, longer in ((100, 0), (1, 2)):
        constraint = spread(ZONE, selects=LabelSelector.of(labels), min_domains=needed)
        spec = PodSpec(spread=(constraint,))
        for age, expected in ((timedelta(seconds=59), 2), (timedelta(seconds=60), longer)):
            pods = [
                structs.replace(waiting_pod(spec), uid=uid, name=uid, labels=labels, created=snapshot.taken_at - age)
                for uid in "vw"
            ]
            running = {"phase": PodPhase.RUNNING, "owner": None}
            placed = [structs.replace(pods[0], uid=node, name=node, node=node, **running) for node in ("a-1", "b-1")]
            view = View(replace(snapshot, pods=(*snapshot.pods, *placed, *pods)))
            assert CapacityIndex(view).count_pending() == expected, (needed, age)


def test_pods_that_nobody_places_reserve_capacity_for_a_minute() -> None:
    """Pods of another scheduler or with claims; others reserve it as long as they wait."""
    snapshot = a_cluster("ab", 1, {"a-1": 2}).snapshot()
    for spec, longer in (
        (PodSpec(scheduler="nobody"), 0),
        (PodSpec(unpredictable=("spec.resourceClaims",)), 0),
        (PodSpec(), 2),
    ):
        for age, expected in ((timedelta(seconds=59), 2), (timedelta(seconds=60), longer)):
            pods = [
                structs.replace(waiting_pod(spec), uid=uid, name=uid, created=snapshot.taken_at - age) for uid in "vw"
            ]
            view = View(replace(snapshot, pods=(*snapshot.pods, *pods)))
            assert CapacityIndex(view).count_pending() == expected, (spec, age)
            if age < timedelta(minutes=1) and longer == 0:
                assert view.clock.holds_until == snapshot.taken_at + timedelta(seconds=1)


def test_affinity_that_the_scheduler_does_not_look_at_can_be_counted() -> None:
    """With InterPodAffinity off neither required affinity nor anti-affinity over zones closes a node."""
    term = PodAffinityTerm(topology_key=ZONE, selector=LabelSelector())
    sample = waiting_pod(PodSpec(pod_affinity=PodAffinity(required=(term,), anti_required=(term,))))
    snapshot = a_cluster("ab", 1, {"a-1": 2}).snapshot()
    off = Profile(filters_off=frozenset({"InterPodAffinity"}))
    assert not has_countable_affinity(sample, View(snapshot))
    assert has_countable_affinity(sample, View(snapshot, off))
