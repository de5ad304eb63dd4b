"""Components that are left alone or wait: each has its reason and its cause."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.nodes import Node
from rebalancer.model.pods import HostPort, Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import OPTIONAL, Fault
from rebalancer.planning.decision import PendingWillSatisfy, StepSearchLimit
from rebalancer.planning.diagnosis.obstacles import NoPlacement, OthersStay, PodsStay, TooFewDomains
from rebalancer.planning.formulation import ObjectUnreadable, PodsNodeBeingRemoved
from rebalancer.planning.plan import Plan
from rebalancer.planning.problem.single_class import CapacityReserved
from rebalancer.planning.scope.components import current_counts
from rebalancer.planning.scope.leaving_nodes import NodeBeingDeleted, NodeDraining, NodeToBeRemoved
from rebalancer.planning.scope.settling import NodeSettling
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.policy import Spread
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, with_cpu, with_node
from tests.planning.build import cause_of
from tests.planning.clusters import REGION, laid_out, nodes, planned, pods, policy, regions, returned, sharing
from tests.scheduling.build import NOW


def test_a_node_that_settles() -> None:
    """A node that has only just become Ready is no target yet."""
    snapshot = returned()
    since, settle = snapshot.taken_at - timedelta(seconds=30), timedelta(minutes=5)
    plan = planned(with_node(snapshot, "c-1", ready_since=since), policy(nodes=Nodes()))
    assert plan.fates.going == ()
    assert plan.components[0].reason is Reason.NODE_SETTLING
    assert cause_of(plan.components[0]) == NodeSettling("c-1", since, settle, since + settle)


def test_a_zone_in_maintenance() -> None:
    """A zone that is cordoned as a whole is waited for, and nothing is evicted because of it."""

    def cordon(node: Node) -> Node:
        taint = Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE)
        return structs.replace(node, unschedulable=True, taints=(taint,)) if node.name[0] == "c" else node

    plan = planned(nodes(returned(), cordon))
    assert plan.fates.going == ()
    assert plan.components[0].reason is Reason.ZONE_IN_MAINTENANCE


def test_capacity_that_others_may_take_is_waited_for() -> None:
    """Two workloads need the same places: one is repaired now, the other is not said to have no remedy."""
    blueprint = ClusterBuilder()
    for zone in "ab":
        blueprint.node(f"{zone}-1", zone=zone)
    blueprint.node("c-1", zone="c", cpu=500)
    for name in ("first", "second"):
        blueprint.deployment(name, on={"a-1": 6, "b-1": 6}, spread={ZONE: 1})
    plan = planned(blueprint.snapshot())
    assert len(plan.fates.going) == 4
    (waiting,) = (group for group in plan.components if group.refusal is not None)
    assert (waiting.state, waiting.reason) == (State.VIOLATED, Reason.GROUP_IN_FLIGHT)
    assert cause_of(waiting) == CapacityReserved()


def test_no_capacity() -> None:
    """Where the replacement would not fit, nothing is evicted."""
    plan = planned(nodes(returned(), lambda n: structs.replace(n, pods=0) if n.name[0] == "c" else n))
    assert plan.fates.going == ()
    assert (plan.components[0].state, plan.components[0].reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)


@pytest.mark.parametrize(
    ("on", "nearest"),
    [
        ({"a-1": 2, "b-1": 4, "b-2": 1, "b-3": 1}, (5,)),
        ({"a-1": 1, "b-1": 1, "b-2": 1, "b-3": 1}, (3, 5)),
    ],
)
def test_no_placement_names_the_nearest_feasible_numbers(on: dict[str, int], nearest: tuple[int, ...]) -> None:
    """What no placement can satisfy is Infeasible, with the nearest feasible numbers: here 1, 2, 3 and 5 are."""
    blueprint = a_cluster("a", 1)
    blueprint.zones("b", 3)
    blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1})
    (group,) = planned(blueprint.snapshot()).components
    assert (group.state, group.reason) == (State.INFEASIBLE, Reason.NO_ARRANGEMENT)
    total = sum(on.values())
    assert cause_of(group) == NoPlacement(total, nearest)


@pytest.mark.parametrize(("far", "feasible"), [(100, (2,)), (4, (2,)), (3, ())])
def test_too_few_domains(far: int, feasible: tuple[int, ...]) -> None:
    """With fewer domains than minDomains each may hold at most maxSkew; a number that is too far away helps nobody."""
    blueprint = a_cluster("ab", 1, {"a-1": 3, "b-1": 3}, spread={ZONE: 1})

    def demanding(pod: Pod) -> Pod:
        spread = tuple(structs.replace(constraint, min_domains=3) for constraint in pod.spec.spread)
        return structs.replace(pod, spec=structs.replace(pod.spec, spread=spread))

    limits = SearchLimits(feasible_count_distance=far)
    (group,) = planned(pods(blueprint.snapshot(), demanding), limits=limits).components
    assert (group.state, group.reason) == (State.INFEASIBLE, Reason.TOO_FEW_DOMAINS)
    assert cause_of(group) == TooFewDomains(domains=2, required=3, max_skew=1, pods=6, feasible=feasible)


def test_an_unread_object_stops_what_it_may_touch() -> None:
    """A budget or pod of the namespace that could not be read, or any node: nothing is evicted, and it is named.

    An object of an optional kind does not say where pods may be placed: it stops nothing.
    """
    snapshot = returned()
    for kind, namespace, stops in (
        ("PodDisruptionBudget", "shop", True),
        ("Pod", "other", False),
        ("Node", "", True),
        *((kind, namespace, False) for kind in sorted(OPTIONAL) for namespace in ("", "shop")),
    ):
        fault = Fault(kind=kind, namespace=namespace, name="broken", message="spec.x: y")
        plan = planned(replace(snapshot, faults=(fault,)))
        assert bool(plan.fates.going) != stops
        if stops:
            assert plan.components[0].reason is Reason.NOT_PREDICTABLE
            assert cause_of(plan.components[0]) == ObjectUnreadable(str(fault))
            assert "broken" in str(fault)


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"ready": False, "ready_since": None}, Reason.NODE_SETTLING), ({"deleted": NOW}, Reason.NODE_LEAVING)],
)
def test_targets_that_are_none(change: dict[str, Any], reason: Reason) -> None:
    """A node that would be taken for a target and is not Ready, or is being deleted: nothing is sent its way."""
    plan = planned(with_node(returned(), "c-1", **change))
    assert plan.fates.going == ()
    assert plan.components[0].reason is reason


REMOVING = "an autoscaler is about to remove it"


@pytest.mark.parametrize(
    "key", ["ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted"]
)
def test_a_target_that_an_autoscaler_is_about_to_remove_is_none(key: str) -> None:
    """Another taint that only makes the node less preferred changes nothing."""
    taints = tuple(Taint(name, TaintEffect.PREFER_NO_SCHEDULE) for name in ("example.com/slow", key))
    plan = planned(with_node(returned(), "c-1", taints=taints))
    assert plan.fates.going == ()
    assert plan.components[0].refusal == NodeToBeRemoved("c-1", key, REMOVING)


def test_a_target_that_is_drained_is_none() -> None:
    """A taint of an autoscaler, or a deletion, is the plainer reason; without a condition the node is a target."""

    def refusal(draining: str, **change: Any) -> Refusal | None:
        change["draining"] = draining
        plan = planned(with_node(returned(), "c-1", **change))
        assert bool(plan.fates.going) is (plan.components[0].refusal is None)
        return plan.components[0].refusal

    taint = Taint("karpenter.sh/disrupted", TaintEffect.PREFER_NO_SCHEDULE)
    assert refusal("DrainInProgress") == NodeDraining("c-1", "DrainInProgress")
    assert refusal("DrainInProgress", taints=(taint,)) == NodeToBeRemoved(
        "c-1", taint.key, "an autoscaler is about to remove it"
    )
    assert refusal("DrainInProgress", deleted=returned().taken_at) == NodeBeingDeleted("c-1")
    assert refusal("") is None


def test_evictions_wait_while_an_autoscaler_removes_a_node_of_the_group() -> None:
    """It evicts the pods there itself; a node without pods of the group keeps nobody waiting."""
    taint = Taint("karpenter.sh/disrupted", TaintEffect.NO_SCHEDULE)

    def disrupted(name: str) -> Plan:
        return planned(with_node(returned(), name, taints=(taint,)))

    plan = disrupted("a-1")
    assert plan.fates.going == ()
    cause = cause_of(plan.components[0])
    assert isinstance(cause, PodsNodeBeingRemoved)
    assert (cause.node, cause.taint, plan.components[0].reason) == ("a-1", taint.key, Reason.NODE_LEAVING)
    assert disrupted("c-1").components[0].reason is not Reason.NODE_LEAVING


def test_members_that_ask_for_different_ports() -> None:
    """Two owners under one selector of which one needs a host port are not planned as one."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("one", on={"a-1": 2}, spread={ZONE: 1})
    blueprint.deployment("two", on={"a-1": 2}, spread={ZONE: 1})

    def porting(pod: Pod) -> Pod:
        ports = (HostPort("0.0.0.0", "TCP", 80),)
        spec = structs.replace(pod.spec, host_ports=ports)
        return structs.replace(pod, spec=spec) if pod.name.startswith("two") else pod

    (group,) = planned(pods(sharing(blueprint.snapshot()), porting)).components
    assert group.reason is Reason.NOT_PREDICTABLE


def test_pods_that_others_have_still_to_create() -> None:
    """An owner under the same selector that has pods to create is waited for: the counts will change."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("one", on={"a-1": 4}, spread={ZONE: 1})
    blueprint.deployment("two", on={"b-1": 1}, replicas=3, spread={ZONE: 2})
    plan = planned(sharing(blueprint.snapshot()))
    one = next(group for group in plan.components if group.groups[0].spread.workloads[0].name == "one")
    assert one.reason is Reason.GROUP_IN_FLIGHT


def test_a_waiting_pod_of_somebody_else() -> None:
    """While another workload's pod that counts has no node yet, nothing is planned on counts that will change."""
    snapshot = returned()
    bare = structs.replace(snapshot.pods[0].spec, spread=())
    stranger = structs.replace(snapshot.pods[0], uid="s", name="s", node=None, ready=False, owner=None, spec=bare)
    plan = planned(replace(snapshot, pods=(*snapshot.pods, stranger)))
    assert plan.fates.going == ()
    assert Reason.GROUP_IN_FLIGHT in {group.reason for group in plan.components}


@pytest.mark.parametrize(("excluded", "reason"), [(11, Reason.EXCLUDED), (5, Reason.OTHER_SCHEDULER)])
def test_what_ties_most_pods_is_the_reason(excluded: int, reason: Reason) -> None:
    """Where none may move and each has a reason of its own, the plan tells what most have in common, and how many."""
    snapshot = returned()
    other = structs.replace(snapshot.pods[0].spec, scheduler="other")
    annotated = Labels({"rebalancer.dev/exclude": "true"})
    tied = [structs.replace(pod, annotations=annotated) for pod in snapshot.pods[:excluded]]
    tied += [structs.replace(pod, spec=other) for pod in snapshot.pods[excluded:]]
    (group,) = planned(replace(snapshot, pods=tuple(tied))).components
    assert group.reason is reason
    cause = cause_of(group)
    assert isinstance(cause, PodsStay)
    assert cause.pods == max(excluded, 12 - excluded)


def test_no_capacity_at_all_for_foreign_pods() -> None:
    """Where pods of others keep it wrong, that is said."""
    snapshot = returned()
    bare = structs.replace(snapshot.pods[0].spec, spread=())
    foreign = tuple(
        structs.replace(pod, uid=f"{pod.uid}f", name=f"{pod.name}f", owner=None, spec=bare, node="a-1")
        for pod in snapshot.pods
    )
    (group,) = planned(replace(snapshot, pods=(*snapshot.pods, *foreign))).components
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NOT_EVICTABLE)
    assert cause_of(group) == OthersStay()


def test_a_little_capacity_everywhere_is_too_little() -> None:
    """Where every domain has some capacity but not enough, that is said, whatever the level."""
    blueprint = regions()
    blueprint.deployment("web", on={"a-1": 8, "b-1": 8}, spread={REGION: 1, ZONE: 4, HOSTNAME: 9}, cpu=1000)
    (group,) = planned(with_cpu(blueprint.snapshot(), 1000, "c-1", "c-2", "d-1", "d-2")).components
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)
    assert str(cause_of(group)) == (
        "the nodes that would have to take more of these pods do not have the capacity for all of them"
    )


def test_a_search_that_reaches_its_limit_says_so() -> None:
    """Where the scheduler has too many ways to go, nothing is begun, and that is why."""
    counts = {"a": [2, 3, 1, 0], "b": [1, 1, 5, 3, 3, 2], "c": [0, 5, 0, 1, 0], "d": [1, 0, 3, 0, 3]}
    (group,) = planned(laid_out(counts, 20, 2, 3)).components
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NOT_FORCED)
    assert cause_of(group) == StepSearchLimit()


def test_no_step_leads_on() -> None:
    """2,2 | 3,1,3 with both maxSkew 1 is two evictions from satisfied, and none of them is sure to help."""
    plan = planned(laid_out({"a": [2, 2], "b": [3, 1, 3]}, 0, 1, 1))
    (group,) = plan.components
    assert (group.state, group.reason, group.evictions) == (State.UNFIXABLE, Reason.UNREACHABLE, 2)
    assert plan.fates.going == ()


def test_waiting_pods_that_bring_it_right() -> None:
    """Where two pods without a node are all that is missing, they are waited for."""
    assert planned(laid_out({"a": [3], "b": [1]}, 0, 1, 4)).fates.going
    plan = planned(laid_out({"a": [3], "b": [1]}, 2, 1, 4))
    (group,) = plan.components
    assert (group.state, group.reason) == (State.VIOLATED, Reason.GROUP_IN_FLIGHT)
    assert cause_of(group) == PendingWillSatisfy(2)


def test_acting_on_nothing() -> None:
    """With `actOn: []` violations are reported and nothing is planned."""
    plan = planned(returned(), policy(spread=Spread(act_on=())))
    assert plan.fates.going == ()
    assert plan.components[0].reason is Reason.EXCLUDED


def test_a_component_without_a_step_has_its_present_counts_and_no_targets() -> None:
    """Nothing moves, so nothing is expected to change."""
    (group,) = planned(returned(), policy(spread=Spread(act_on=()))).components
    assert group.outlook is not None
    assert group.outlook.targets == ()
    assert group.after == current_counts(group.component)
