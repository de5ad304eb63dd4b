"""From a component to a problem: what is left alone as a whole and why, and how reserved capacity is left out."""

from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint
from rebalancer.planning.formulation import OthersUncreated, set_aside
from rebalancer.planning.scope.capacity import NodeCapacity, ReservedCapacity
from rebalancer.planning.scope.leaving_nodes import NodeBeingDeleted
from rebalancer.planning.scope.movable import NodeGone
from rebalancer.planning.scope.unable_nodes import NodeUnable
from rebalancer.simulator import ZONE
from tests.build import a_cluster, change_specs, with_labels, with_node, without_node
from tests.planning.build import cause_of, joined, labelled, limit, planned, policy, together, two_classes
from tests.scheduling.build import NOW, pod, spread


def test_several_classes_wait_for_settling_nodes() -> None:
    """A node that just became Ready is no target for pods of several classes either."""
    snapshot = joined(two_classes())
    fresh = with_node(snapshot, "b-1", ready_since=snapshot.taken_at)
    rules = policy().model_copy(update={"nodes": policy().nodes.model_copy(update={"settle": timedelta(minutes=5)})})
    (group,) = planned(fresh, rules).components
    assert group.reason is Reason.NODE_SETTLING


def test_several_classes_wait_for_a_node_that_is_being_deleted() -> None:
    """As pods of one class do."""
    snapshot = joined(two_classes())
    (group,) = planned(with_node(snapshot, "b-1", deleted=snapshot.taken_at)).components
    assert group.refusal == NodeBeingDeleted("b-1")


def with_systems(snapshot: Snapshot, wanted: str, *, system: str = "windows") -> Snapshot:
    """Return the cluster with pods that ask for an operating system, and the node b-1 that runs one."""
    labels = Labels({**snapshot.node["b-1"].labels, "kubernetes.io/os": system})
    asking = [structs.replace(pod, spec=structs.replace(pod.spec, os=wanted)) for pod in snapshot.pods]
    return replace(with_node(snapshot, "b-1", labels=labels), pods=asking)


def test_a_node_of_another_system_that_may_take_a_replacement_stops_a_repair() -> None:
    """The scheduler does not look at `spec.os`, and its kubelet rejects the pod."""
    alone = a_cluster("ab", 2, on={"a-1": 3}, spread={ZONE: 1}).snapshot()
    for snapshot in (alone, joined(two_classes())):
        (group,) = planned(with_systems(snapshot, "linux")).components
        assert isinstance(group.refusal, NodeUnable)
        assert (group.refusal.node, group.refusal.lack) == ("b-1", "runs windows, where spec.os of the pods is linux")
        assert "Add nodeSelector kubernetes.io/os: linux to the template" in str(group.refusal)
        for wanted, system in (("linux", "linux"), ("", "windows")):
            assert planned(with_systems(snapshot, wanted, system=system)).fates.going


def test_a_node_of_another_system_that_takes_none_does_not_matter() -> None:
    alone = a_cluster("ab", 2, on={"a-1": 3}, spread={ZONE: 1}).snapshot()
    assert planned(with_systems(with_node(alone, "b-1", pods=0), "linux")).fates.going


def test_only_the_nodes_on_which_a_replacement_may_land_matter() -> None:
    """Zone b is as full as a was, and c is empty: whatever the scheduler chooses, it is c."""
    snapshot = a_cluster("abc", 2, on={"a-1": 3, "b-2": 3}, spread={ZONE: 1}).snapshot()
    plan = planned(with_systems(snapshot, "linux"))
    assert {eviction.targets[0].values for eviction in plan.fates.going} == {("c",)}


def test_a_gated_pod_of_one_class_holds_nothing() -> None:
    """It is in no queue and takes no capacity; once its gate goes it comes where the constraints allow it."""
    snapshot = joined(two_classes())
    first = next(pod for pod in snapshot.pods if pod.labels["app"] == "one")
    gated = without_node(first, spec=structs.replace(first.spec, gated=True))
    pods = tuple(gated if pod is first else pod for pod in snapshot.pods)
    plan = planned(replace(snapshot, pods=pods))
    assert plan.fates.going
    waiting = tuple(without_node(first) if pod is first else pod for pod in snapshot.pods)
    pending = planned(replace(snapshot, pods=waiting))
    assert [one.pod.uid for one in plan.fates.going] != [one.pod.uid for one in pending.fates.going], (
        "one that waits counts"
    )


def hard(key: str, app: str) -> SpreadConstraint:
    return spread(key, selects=LabelSelector.of({"app": app}))


def test_pods_that_nobody_would_create_again() -> None:
    """In a component of unlike pods without owners nothing is moved."""
    pods = [
        structs.replace(
            pod({"app": "x", "n": str(number)}, on="n1"),
            uid=f"u{number}",
            name=f"p{number}",
            spec=PodSpec(requests=Resources(cpu=number), spread=(hard(ZONE, "x"), hard("rack", "x"))),
        )
        for number in range(3)
    ]
    nodes = [
        labelled("n1", {ZONE: "a", "rack": "1"}),
        labelled("n2", {ZONE: "a", "rack": "2"}),
        labelled("n3", {ZONE: "b", "rack": "1"}),
    ]
    plan = planned(Snapshot(taken_at=NOW, nodes=nodes, pods=pods))
    assert plan.fates.going == ()
    assert {group.reason for group in plan.components} == {Reason.UNKNOWN_OWNER}


def test_a_limit_waits_only_for_pods_that_it_counts() -> None:
    """A pod that the limit does not count may be pending; one that it counts belongs to the component."""
    snapshot = with_labels(a_cluster("ab", 2, {"a-1": 3, "a-2": 1}).snapshot(), team="x")
    selecting = "selector: {matchLabels: {team: x}}, groupBy: [team]"
    rules = policy(limit("maxPods: 2", more=", selector: {matchLabels: {app: web}}", group=selecting))
    for labels in ({"team": "y", "app": "web"}, {"team": "x", "app": "other"}, {"team": "x", "app": "web"}):
        pending = structs.replace(pod(labels, namespace="default"), name="w", uid="w", created=snapshot.taken_at)
        plan = planned(replace(snapshot, pods=(*snapshot.pods, pending)), rules)
        assert Reason.GROUP_IN_FLIGHT not in {group.reason for group in plan.components}, labels


def test_an_owner_that_has_still_to_create_pods_that_count() -> None:
    """They would change the counts of every workload under the selector."""
    snapshot = joined(two_classes())
    one, two = (
        next(
            owner
            for owner in snapshot.workloads
            if owner.kind == "ReplicaSet" and owner.template is not None and owner.template.labels["app"] == app
        )
        for app in ("one", "two")
    )
    alone = tuple(pod for pod in snapshot.pods if pod.labels["app"] == "one")
    complete = tuple(
        structs.replace(owner, replicas=3, current=3, updated=3)
        for owner in snapshot.workloads
        if owner.template is not None and owner.template.labels["app"] == "one"
    )
    assert one.uid in {owner.uid for owner in complete}
    short = structs.replace(two, replicas=4, current=3)
    plan = planned(replace(snapshot, pods=alone, workloads=(*complete, short)))
    assert {group.reason for group in plan.components} == {Reason.GROUP_IN_FLIGHT}
    assert cause_of(plan.components[0]) == OthersUncreated(str(short))


def test_one_class_of_several_whose_next_pod_is_unknown_stops_the_component() -> None:
    """It is not planned around."""
    blueprint = two_classes()
    blueprint.deployment("three", on={"b-1": 1}, spread={ZONE: 1}, cpu=300)

    def claiming(app: str, spec: PodSpec) -> PodSpec:
        spec = together(app, spec)
        return structs.replace(spec, unpredictable=("spec.resourceClaims",)) if app == "three" else spec

    (group,) = planned(change_specs(blueprint.snapshot(), claiming, cluster="r")).components
    assert group.reason is Reason.NOT_PREDICTABLE


def test_limits_over_pods_without_an_owner_and_pending_pods() -> None:
    """A pending pod is part of the problem; with a bare pod under the limit nothing is planned."""
    snapshot = with_labels(a_cluster("ab", 2, {"a-1": 6, "b-1": 2}).snapshot(), team="x")
    pending = without_node(snapshot.pods[1], created=snapshot.taken_at)
    rules = policy(limit("maxPods: 2", group="selector: {}, groupBy: [team]"))
    pods = (snapshot.pods[0], pending, *snapshot.pods[2:])
    assert planned(replace(snapshot, pods=pods), rules).components
    bare = structs.replace(snapshot.pods[0], uid="bare", name="bare", owner=None)
    assert planned(replace(snapshot, pods=(*pods, bare)), rules).components == ()


def test_a_vanished_node_stops_several_classes_too() -> None:
    """A pod of a node that no longer exists is to be replaced first."""
    snapshot = joined(two_classes())
    first = snapshot.pods[0]
    pods = tuple(structs.replace(pod, node="gone") if pod is first else pod for pod in snapshot.pods)
    (group,) = planned(replace(snapshot, pods=pods)).components
    assert group.reason is Reason.GROUP_IN_FLIGHT
    assert cause_of(group) == NodeGone("gone", first.name)


def test_reserved_capacity_counts_everywhere_where_half_the_median_is_too_little() -> None:
    """Nothing is lost in halves where half the median capacity is as little as the group needs."""
    capacity = NodeCapacity({"n1": 4, "n2": 5, "n3": 6})
    reserved = ReservedCapacity(5, {})
    assert set_aside(capacity, reserved, 3) == (reserved, 0)
