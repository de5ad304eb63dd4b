"""Why nodes take no more pods of a component, as far as a plan may look."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.cluster import DeviceClass, DisruptionBudget
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import PodPhase, PodSpec
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.diagnosis.closed_nodes import ClosedDomains, NodesTakeNoMore, NoSuchNode, _find_absent
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster, change_specs, with_node
from tests.planning.build import cause_of, crowded, joined, limit, planned, policy

NODES = 3


def explained(limit: int) -> NodesTakeNoMore:
    (component,) = planned(crowded(), limits=SearchLimits(diagnosis_nodes_of_plan=limit)).components
    cause = cause_of(component)
    assert isinstance(cause, NodesTakeNoMore)
    return cause


def test_one_pod_shows_it_and_what_helps_is_tried() -> None:
    cause = explained(1000)
    assert (cause.nodes, cause.remedy) == (NODES, "Free 50m cpu on c-1")
    assert cause.pod


def test_a_plan_looks_at_so_many_nodes_and_no_more() -> None:
    """What helps is not tried then; with less, only the domains that are closed are looked at."""
    assert (explained(NODES).nodes, explained(NODES).remedy) == (NODES, "")
    cause = explained(NODES - 1)
    assert (cause.pod, cause.remedy) == ("", "")
    assert str(cause) == f"no node of {ZONE} c takes another of these pods: the only node has not enough cpu"


def test_a_domain_that_the_scheduler_need_not_choose() -> None:
    """A limit asks for fewer pods in zone a; the scheduler could place the replacement there again."""
    blueprint = a_cluster("ab", 1, {"a-1": 3, "b-1": 1}, cpu=100)
    full = with_node(blueprint.snapshot(), "b-1", pods=1)
    (component,) = planned(full, policy(limit("maxPods: 2", key=ZONE))).components
    assert str(cause_of(component)) == (
        f"no node of {ZONE} b takes another of these pods: the only node runs as many pods as it may"
    )


def test_pods_that_pass_and_pods_that_stay() -> None:
    """One of three is young; where the others stay for good, it is not waited for."""
    blueprint = a_cluster("abc", 1, {"a-1": 4, "b-1": 1}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    young = {pod.uid for pod in snapshot.pods if pod.node == "a-1"}
    assert state_of(aged(snapshot, young, set())) == (State.VIOLATED, Reason.TOO_YOUNG)
    (first, *others) = sorted(young)
    mixed = aged(snapshot, {first}, set(others))
    assert state_of(mixed) == (State.UNFIXABLE, Reason.EXCLUDED)


def test_pods_of_several_classes_that_pass() -> None:
    """The same where an integer program decides."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 2}, spread={ZONE: 1}, cpu=200)
    snapshot = joined(blueprint)
    every = {pod.uid for pod in snapshot.pods}
    assert state_of(aged(snapshot, every, set())) == (State.VIOLATED, Reason.TOO_YOUNG)
    first = min(every)
    mixed = aged(snapshot, {first}, every - {first})
    assert state_of(mixed) == (State.UNFIXABLE, Reason.EXCLUDED)


def asking_for_devices(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """Let the pods of some workloads ask for what no node states and a DeviceClass provides."""

    def asking(name: str, spec: PodSpec) -> PodSpec:
        requests = structs.replace(spec.requests, extended=(("example.com/gpu", 1),))
        return structs.replace(spec, requests=requests) if name in names else spec

    device = DeviceClass(name="gpu", extended_resource="example.com/gpu")
    return replace(change_specs(snapshot, asking), device_classes=(device,))


def test_of_pods_that_are_not_predicted_no_node_is_blamed() -> None:
    """No node states the resource; that none has it would be wrong."""
    state = asking_for_devices(crowded(), {"web"})
    (component,) = [one for one in planned(state).components if one.refusal is not None]
    assert isinstance(cause_of(component), Unpredictable)


def state_of(snapshot: Snapshot) -> tuple[State, Reason | None]:
    rules = policy()
    old_enough = rules.eligibility.model_copy(update={"min_age": timedelta(minutes=5)})
    (component,) = planned(snapshot, rules.model_copy(update={"eligibility": old_enough})).components
    return component.state, component.reason


def aged(snapshot: Snapshot, young: set[str], excluded: set[str]) -> Snapshot:
    """Return the snapshot with some pods made just now, and some that are excluded."""
    old = snapshot.taken_at - timedelta(hours=1)
    pods = []
    for pod in snapshot.pods:
        made = structs.replace(pod, created=snapshot.taken_at if pod.uid in young else old)
        if pod.uid in excluded:
            made = structs.replace(made, annotations=type(pod.annotations)({"rebalancer.dev/exclude": "true"}))
        pods.append(made)
    return replace(snapshot, pods=tuple(pods))


def test_a_pod_whose_containers_were_never_made_asks_no_budget() -> None:
    """The Eviction API deletes a Pending pod at once."""
    snapshot = a_cluster("abc", 1, {"a-1": 3, "b-1": 1}, spread={ZONE: 1}).snapshot()
    budget = DisruptionBudget(
        namespace="default", name="web", selector=LabelSelector.of({"app": "web"}), desired_healthy=4, expected=4
    )
    first = next(pod for pod in snapshot.pods if pod.node == "a-1")
    pending = structs.replace(first, ready=False, phase=PodPhase.PENDING)
    pods = tuple(pending if pod is first else pod for pod in snapshot.pods)
    assert [one.pod.uid for one in planned(replace(snapshot, pods=pods, budgets=(budget,))).fates.going] == [first.uid]


def test_what_helps_is_not_tried_beyond_the_limit() -> None:
    """One pod shows it, and the trial would look at more nodes than are left."""
    assert (explained(5).nodes, explained(5).remedy) == (NODES, "")


def test_a_zone_in_maintenance_is_said_of_every_workload_within_the_limit_and_beyond() -> None:
    """Two workloads request the same; with nothing left to try it counts that its nodes take such pods then."""
    blueprint = a_cluster("abc", 1)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=100)
    closed = with_node(blueprint.snapshot(), "c-1", unschedulable=True)
    for limits in (SearchLimits(), SearchLimits(diagnosis_nodes_of_plan=0)):
        plan = planned(closed, limits=limits)
        assert [component.reason for component in plan.components] == [Reason.ZONE_IN_MAINTENANCE] * 2
    small = with_node(closed, "c-1", allocatable=structs.replace(closed.nodes[-1].allocatable, cpu=50))
    for limits in (SearchLimits(), SearchLimits(diagnosis_nodes_of_plan=0)):
        plan = planned(small, limits=limits)
        assert [component.reason for component in plan.components] == [Reason.NODES_REJECT] * 2


def test_a_pod_of_a_stateful_set_on_a_silent_node_is_refused() -> None:
    """So is none of a Deployment: its ReplicaSet does not wait until the pod has ended."""
    for stateful, reasons in ((True, {Reason.CANNOT_CREATE}), (False, set())):
        blueprint = a_cluster("abc", 2, {"a-1": 1, "a-2": 2, "b-1": 1}, spread={ZONE: 1}, stateful=stateful)
        silent = with_node(blueprint.snapshot(), "a-1", ready=False, ready_since=None)
        plan = planned(silent)
        assert {one.refusal.reason for one in plan.refusals if one.pod} == reasons
        assert len(plan.fates.going) == 1
        assert (plan.fates.going[0].pod.node == "a-2") or not stateful


def test_a_host_is_no_domain_that_could_get_another_node() -> None:
    """Of a zone without a node that the pods select it is said; of a host that it is not selected, nothing."""
    snapshot = a_cluster("ab", 1, {"a-1": 2}).snapshot()
    view = View(snapshot)
    sample = structs.replace(
        snapshot.pods[0],
        spec=structs.replace(snapshot.pods[0].spec, node_affinity=NodeAffinity(selector=Labels({"disk": "fast"}))),
    )
    zones = ClosedDomains(ZONE, {"b": frozenset({"b-1"})})
    hosts = ClosedDomains(HOSTNAME, {"b-1": frozenset({"b-1"})})
    assert list(_find_absent(sample, zones, view)) == [NoSuchNode(ZONE, ("b",))]
    assert list(_find_absent(sample, hosts, view)) == []
