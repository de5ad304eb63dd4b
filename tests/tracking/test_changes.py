"""What changed between two snapshots: of workloads, of pods, of domains."""

from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.model.moves import NO_MEMORY, ObservedChange
from rebalancer.model.pods import OwnerReference, PodPhase
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ZONE
from rebalancer.tracking.changes import observe_changes
from rebalancer.tracking.track import track
from tests.build import a_cluster, with_nodes
from tests.planning.build import policy


def shop() -> Snapshot:
    return a_cluster("ab", 1, {"a-1": 2, "b-1": 2}, spread={ZONE: 1}).snapshot()


def changes(before: Snapshot, after: Snapshot) -> list[tuple[ViolationCause, str]]:
    return [(change.cause, change.subject) for change in observe_changes(NO_MEMORY, before, after, (ZONE,))]


def test_another_replica_set_of_a_known_deployment_is_its_rollout() -> None:
    """A workload that is new as a whole has not changed."""
    snapshot = shop()
    (old,) = (workload for workload in snapshot.workloads if workload.kind == "ReplicaSet")
    newer = structs.replace(old, uid="newer", name="web-newer")
    rolled = replace(snapshot, workloads=(*snapshot.workloads, newer))
    assert changes(snapshot, rolled) == [(ViolationCause.ROLLOUT, "default/web (Deployment)")]
    assert changes(replace(snapshot, workloads=()), snapshot) == []


def test_only_fewer_replicas_are_a_scale_down() -> None:
    """An update that keeps or raises the number is none."""
    snapshot = shop()
    (deployment,) = (workload for workload in snapshot.workloads if workload.kind == "Deployment")
    others = tuple(workload for workload in snapshot.workloads if workload is not deployment)
    for replicas, expected in (
        (deployment.replicas - 1, [(ViolationCause.SCALE_DOWN, "default/web (Deployment)")]),
        (deployment.replicas, []),
        (deployment.replicas + 1, []),
    ):
        updated = structs.replace(deployment, replicas=replicas)
        assert changes(snapshot, replace(snapshot, workloads=(updated, *others))) == expected


def test_changed_labels_of_a_pod_count_for_its_workload() -> None:
    """Of a pod whose owner is not known they name nothing that could be violated."""
    snapshot = shop()
    relabelled = tuple(structs.replace(pod, labels=Labels({"app": "other"})) for pod in snapshot.pods)
    after = replace(snapshot, pods=relabelled)
    assert changes(snapshot, after) == [(ViolationCause.LABELS_CHANGED, "default/web (Deployment)")]
    assert changes(snapshot, replace(after, workloads=())) == []


def test_a_node_that_gets_or_loses_a_label_changes_that_domain_alone() -> None:
    """There is no domain without a value."""
    snapshot = shop()
    first, *others = snapshot.nodes
    without = structs.replace(first, labels=Labels({key: value for key, value in first.labels.items() if key != ZONE}))
    bare = replace(snapshot, nodes=(without, *others))
    subject = f"{ZONE}={first.labels[ZONE]}"
    assert changes(snapshot, bare) == [(ViolationCause.LABELS_CHANGED, subject)]
    assert changes(bare, snapshot) == [(ViolationCause.LABELS_CHANGED, subject)]


def test_lost_nodes_that_are_all_back_are_a_return() -> None:
    """Of a domain with others too; as long as one is away, and where a further one joins, nothing has returned."""
    snapshot = a_cluster("ab", 3, {"a-1": 2, "b-1": 2}, spread={ZONE: 1}).snapshot()

    def away(*names: str) -> Snapshot:
        nodes = tuple(structs.replace(node, ready=node.name not in names) for node in snapshot.nodes)
        return replace(snapshot, nodes=nodes)

    zone = f"{ZONE}=a"
    assert changes(snapshot, away("a-1", "a-2")) == [(ViolationCause.NODE_LOST, zone)]
    assert changes(away("a-1", "a-2"), away("a-2")) == []
    assert changes(away("a-1"), snapshot) == [(ViolationCause.DOMAIN_RETURNED, zone)]
    fewer = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != "a-3"))
    assert changes(fewer, snapshot) == []


def test_only_a_domain_that_was_lost_as_a_whole_is_back() -> None:
    """From its first node on, also while others come later; one whose nodes were only cordoned was never away."""
    first = a_cluster("ab", 2, {"a-1": 2, "b-1": 2}, spread={ZONE: 1}).snapshot()
    rules = policy()

    def returned(*looks: dict[str, dict[str, bool]]) -> int | None:
        """Return at which look zone b came back that is said to be."""
        memory, before = track(NO_MEMORY, None, first, rules, first.taken_at), first
        for number, changed in enumerate(looks, 1):
            after = with_nodes(before, changed)
            after = replace(after, taken_at=first.taken_at + timedelta(seconds=number))
            memory, before = track(memory, before, after, rules, after.taken_at), after
        found = [change for change in memory.changes if change.cause is ViolationCause.DOMAIN_RETURNED]
        return next((round((one.back_at - first.taken_at).total_seconds()) for one in found if one.back_at), None)

    away, there = {"ready": False}, {"ready": True}
    shut, open_ = {"unschedulable": True}, {"unschedulable": False}
    assert returned({"b-1": away, "b-2": away}, {"b-1": there, "b-2": there}) == 2
    assert returned({"b-1": away, "b-2": away}, {"b-1": there}, {"b-2": there}) == 2
    assert returned({"b-1": away}, {"b-1": there}) is None
    assert returned({"b-1": shut, "b-2": shut}, {"b-1": open_, "b-2": open_}) is None


def test_that_a_lost_node_was_deleted_is_stored_with_the_loss() -> None:
    """Also when another one is lost later; of one that is away nothing is stored besides."""
    snapshot = a_cluster("ab", 3, {"a-1": 2, "b-1": 2}, spread={ZONE: 1}).snapshot()
    away = replace(snapshot, nodes=tuple(structs.replace(node, ready=node.name != "a-1") for node in snapshot.nodes))
    gone = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != "a-2"))
    (lost,) = observe_changes(NO_MEMORY, snapshot, away, (ZONE,))
    (deleted,) = observe_changes(NO_MEMORY, snapshot, gone, (ZONE,))
    assert (lost.deleted, deleted.deleted) == (False, True)
    (both,) = observe_changes(structs.replace(NO_MEMORY, changes=(deleted,)), snapshot, away, (ZONE,))
    assert both.deleted


def test_the_deletion_of_a_silent_node_is_a_loss_if_pods_on_it_counted() -> None:
    """Pods that run on each node, and nodes that were cordoned and drained before, lose nothing by it."""
    snapshot = with_nodes(shop(), {"b-1": {"ready": False}})
    lost = [(ViolationCause.NODE_LOST, f"{ZONE}=b")]

    def deleted(before: Snapshot) -> list[tuple[ViolationCause, str]]:
        return changes(before, replace(before, nodes=tuple(node for node in before.nodes if node.name != "b-1")))

    def owned_by(kind: str) -> Snapshot:
        owner = OwnerReference(group="apps", kind=kind, name="agent", uid="agent")
        return replace(snapshot, pods=tuple(structs.replace(pod, owner=owner) for pod in snapshot.pods))

    finished = replace(snapshot, pods=tuple(structs.replace(pod, phase=PodPhase.SUCCEEDED) for pod in snapshot.pods))
    assert deleted(snapshot) == deleted(owned_by("StatefulSet")) == lost
    assert deleted(owned_by("DaemonSet")) == deleted(owned_by("Node")) == deleted(finished) == []
    assert deleted(with_nodes(snapshot, {"b-1": {"unschedulable": True}})) == []


def test_another_revision_of_a_workload_is_its_rollout() -> None:
    """Of a StatefulSet its own, of a ReplicaSet that of its Deployment."""
    snapshot = shop()
    for kind in ("Deployment", "ReplicaSet"):
        (changed,) = (workload for workload in snapshot.workloads if workload.kind == kind)
        others = tuple(workload for workload in snapshot.workloads if workload is not changed)
        after = replace(snapshot, workloads=(structs.replace(changed, revision="next"), *others))
        assert changes(snapshot, after) == [(ViolationCause.ROLLOUT, "default/web (Deployment)")]


def test_the_first_replica_set_of_a_deployment_is_no_rollout() -> None:
    """Its second one is."""
    snapshot = shop()
    (first,) = (one for one in snapshot.workloads if one.kind == "ReplicaSet")
    bare = replace(snapshot, workloads=tuple(one for one in snapshot.workloads if one is not first))
    assert changes(bare, snapshot) == []
    second = structs.replace(first, uid="second", name="web-2")
    after = replace(snapshot, workloads=(*snapshot.workloads, second))
    assert changes(snapshot, after) == [(ViolationCause.ROLLOUT, "default/web (Deployment)")]


def test_another_label_of_a_node_changes_no_domain() -> None:
    """Only the value of a key that forms domains does."""
    snapshot = shop()
    first, *others = snapshot.nodes
    labelled = structs.replace(first, labels=Labels({**first.labels, "disk": "ssd"}))
    assert changes(snapshot, replace(snapshot, nodes=(labelled, *others))) == []


def test_between_snapshots_of_the_very_same_objects_nothing_has_changed() -> None:
    """What was observed before stays, as long as an hour, and the first snapshot of all has nothing before it."""
    snapshot = shop()
    later = snapshot.at(snapshot.taken_at + timedelta(minutes=59))
    change = ObservedChange(ViolationCause.ROLLOUT, "default/web (Deployment)", snapshot.taken_at)
    memory = structs.replace(NO_MEMORY, changes=(change,))
    assert observe_changes(memory, snapshot, later, (ZONE,)) == (change,)
    assert observe_changes(memory, None, later, (ZONE,)) == (change,)
    assert observe_changes(memory, snapshot, snapshot.at(snapshot.taken_at + timedelta(hours=1)), (ZONE,)) == ()
