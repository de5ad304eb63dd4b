"""Pods of several classes, limits, soft constraints and pending pods: what is planned for them, and what is refused."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.documents.phrases import eviction_text
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.facts import Fact
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import FailedPrediction, Memory, MoveState
from rebalancer.model.pods import HostPort, PodSpec
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.decision import FailedPredictions
from rebalancer.planning.diagnosis.obstacles import NoPlacementOfClasses
from rebalancer.planning.multi_class.classes import HostPortsOfSeveralClasses, PodAffinityRequired
from rebalancer.planning.scope.budgets import GroupSettling
from rebalancer.planning.scope.components import current_counts
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, a_layout, change_specs, with_labels
from tests.planning.build import (
    DEADLOCK,
    cause_of,
    joined,
    limit,
    planned,
    policy,
    shards,
    softly,
    together,
    two_classes,
)
from tests.tracking.build import move


def test_a_placement_deadlock_is_freed_by_one_eviction() -> None:
    """Three shards over three zones, the last pod barred by spread here and by anti-affinity there."""
    plan = planned(shards(DEADLOCK))
    (group,) = plan.components
    assert (group.evictions, group.optimal, group.state) == (1, True, State.VIOLATED)
    (eviction,) = plan.fates.going
    assert (eviction.cause, eviction.forced) == (Cause.PLACEMENT_DEADLOCK, True)
    assert eviction_text(eviction) == "a pending pod finds a node once this pod is evicted"
    assert group.after is None
    assert set(current_counts(group.component)) == {ZONE, HOSTNAME}


def test_a_pod_that_waits_for_a_moment_only() -> None:
    """Within the scheduler's back-off a pod is not called stuck."""
    snapshot = shards(DEADLOCK)
    fresh = tuple(structs.replace(pod, created=snapshot.taken_at) if pod.node is None else pod for pod in snapshot.pods)
    assert planned(replace(snapshot, pods=fresh)).components == ()


def test_relaxed_constraints_need_nobody_to_go() -> None:
    """With node maxSkew 2 the same pod finds a node."""
    assert planned(shards(DEADLOCK, node=2)).components == ()


def skewed(**fields: Any) -> Snapshot:
    """Ten pods as 4/2/1/1/1/1, hostname maxSkew 3."""
    blueprint = ClusterBuilder()
    for number, name in enumerate("aabbcc", start=1):
        blueprint.node(f"n{number}", zone=name)
    on = {"n1": 4, "n2": 2, "n3": 1, "n4": 1, "n5": 1, "n6": 1}
    blueprint.deployment("web", on=on, spread={HOSTNAME: 3}, **fields)
    return blueprint.snapshot()


THIRD = policy(limit('maxShare: "<1/3"'))


def test_a_limit_that_nothing_forces_is_repaired_where_a_placement_can_be_predicted() -> None:
    """With the soft constraint the emptier nodes score best, so a pod of the fullest node goes, as predicted."""
    plan = planned(softly(skewed()), THIRD)
    (eviction,) = plan.fates.going
    assert (eviction.pod.node, eviction.forced, eviction.cause) == ("n1", False, Cause.SHARE_LIMIT_VIOLATED)
    assert "n1" not in {value for target in eviction.targets for value in target.values}
    assert "limit g/l (maxShare <1/3)" in eviction_text(eviction)


def test_a_limit_is_left_alone_where_a_replacement_may_come_back() -> None:
    """Without it all nodes score alike, the one that the pod left among them."""
    plan = planned(skewed(), THIRD)
    (group,) = plan.components
    assert (group.state, group.reason, group.evictions, group.optimal) == (State.UNFIXABLE, Reason.NOT_FORCED, 1, True)
    assert group.limits
    assert plan.fates.going == ()


def test_after_three_failures_nothing_is_predicted_any_more() -> None:
    """And the reason says so; while one such move is under way the next waits for it."""
    snapshot = softly(skewed())
    name = planned(snapshot, THIRD).components[0].name
    missed = Memory(failed_predictions=(FailedPrediction(name, 3, snapshot.taken_at),))
    (group,) = planned(snapshot, THIRD, missed).components
    assert group.reason is Reason.NOT_FORCED
    assert cause_of(group) == FailedPredictions(3)
    going = move("x", snapshot.taken_at, node="n1", group=name, state=MoveState.PENDING)
    (group,) = planned(snapshot, THIRD, Memory(moves=(going,))).components
    assert (group.reason, group.state) == (Reason.GROUP_IN_FLIGHT, State.VIOLATED)


def test_soft_constraints_are_repaired_only_where_they_are_listed() -> None:
    """`spread.actOn` decides, and what it leaves is not violated for anybody."""
    snapshot = softly(skewed())
    assert planned(snapshot).components == ()
    plan = planned(snapshot, policy("spread: {actOn: [DoNotSchedule, ScheduleAnyway]}"))
    assert plan.fates.going
    assert not any(eviction.forced for eviction in plan.fates.going)


def test_a_limit_cannot_ask_for_more_than_there_are_domains() -> None:
    """Under one pod a node, with ten pods on six nodes, the least possible maximum is aimed at: two a node."""
    plan = planned(softly(skewed()), policy(limit("maxPods: 1")))
    assert plan.components[0].evictions == 2


@pytest.mark.parametrize("bound", ["minPods: 1", "maxSkew: 1", "maxPods: 2", 'maxShare: "<=1/5"'])
def test_every_bound_of_a_limit(bound: str) -> None:
    """Each is aimed at with the fewest evictions."""
    on = {"a-1": 4, "a-2": 2, "b-1": 2, "b-2": 1, "c-1": 1}
    plan = planned(softly(a_cluster("abc", 2, on, spread={ZONE: 9}).snapshot()), policy(limit(bound)))
    least = {"minPods: 1": 1, "maxSkew: 1": 2, "maxPods: 2": 2, 'maxShare: "<=1/5"': 2}
    assert plan.components[0].evictions == least[bound]


def test_a_limit_within_a_larger_domain() -> None:
    """The nodes of each zone may differ by one: evaluated, and repaired, inside the zone."""
    plan = planned(
        softly(a_cluster("ab", 2, {"a-1": 4, "b-1": 2, "b-2": 2}, spread={ZONE: 1}).snapshot()),
        policy(limit("maxSkew: 1", more=f", within: {ZONE}")),
    )
    assert plan.components[0].evictions == 2


def test_several_owners_under_one_limit() -> None:
    """A limit over two workloads joins them; neither has a constraint of its own."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("one", on={"a-1": 3})
    blueprint.deployment("two", on={"a-1": 1, "b-1": 1, "b-2": 1}, cpu=200)
    rules = limit("maxPods: 2", group="selector: {}, groupBy: [team]")
    snapshot = with_labels(blueprint.snapshot(), team="x")
    (group,) = planned(snapshot, policy(rules)).components
    assert ([workload.name for workload in group.workloads], group.evictions) == (["one", "two"], 2)
    assert group.after is None
    assert current_counts(group.component) == {HOSTNAME: {"a-1": 4, "a-2": 0, "b-1": 1, "b-2": 1}}


def test_no_capacity_for_pods_of_several_classes() -> None:
    """The nodes that would have to take them are full, and that is the reason."""
    blueprint = ClusterBuilder()
    blueprint.node("a-1", zone="a", cpu=100_000)
    blueprint.node("b-1", zone="b", cpu=900)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=1000)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=2000)
    (group,) = planned(joined(blueprint)).components
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)


def test_pods_of_several_classes_that_may_not_move() -> None:
    """What they have in common is the reason; pods of nobody count and stay."""
    snapshot = joined(two_classes())
    stay = {"rebalancer.dev/exclude": "true"}
    staying = tuple(structs.replace(pod, annotations=Labels(stay)) for pod in snapshot.pods)
    (group,) = planned(replace(snapshot, pods=staying)).components
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.EXCLUDED)


def test_no_placement_satisfies_crossing_keys_of_several_classes() -> None:
    """Keys that cross and cannot both hold: no placement, whatever moves."""
    blueprint = ClusterBuilder()
    for name, zone, rack in (("n1", "a", "1"), ("n2", "a", "2"), ("n3", "b", "1")):
        blueprint.node(name, zone=zone, rack=rack)
    blueprint.deployment("web", on={"n1": 4, "n2": 4}, spread={ZONE: 1, "rack": 1, HOSTNAME: 1})
    (group,) = planned(blueprint.snapshot()).components
    assert (group.state, group.reason) == (State.INFEASIBLE, Reason.NO_ARRANGEMENT)
    assert group.refusal is not None
    cause = group.refusal
    assert isinstance(cause, NoPlacementOfClasses)
    assert (cause.unplaced, cause.excess > 0) == (0, True)


@pytest.mark.parametrize(
    ("terms", "cause"),
    [
        ({"host_ports": (HostPort("0.0.0.0", "TCP", 80),)}, HostPortsOfSeveralClasses()),
        (
            {
                "pod_affinity": PodAffinity(
                    required=(PodAffinityTerm(topology_key=ZONE, selector=LabelSelector.of({"cluster": "r"})),)
                )
            },
            PodAffinityRequired(),
        ),
    ],
)
def test_terms_of_several_classes_that_are_not_modelled(terms: dict[str, Any], cause: Fact) -> None:
    """What only one class requires, and what moves with every placement, is refused with its cause."""

    def asking(app: str, spec: PodSpec) -> PodSpec:
        spec = together(app, spec)
        return structs.replace(spec, **terms) if app == "one" else spec

    (group,) = planned(change_specs(two_classes().snapshot(), asking, cluster="r")).components
    assert group.reason is Reason.NOT_PREDICTABLE
    assert cause_of(group) == cause


def test_a_class_whose_next_pod_is_not_known_stays() -> None:
    """The others move around it."""

    def claiming(app: str, spec: PodSpec) -> PodSpec:
        spec = together(app, spec)
        return structs.replace(spec, unpredictable=("spec.resourceClaims",)) if app == "one" else spec

    plan = planned(change_specs(two_classes().snapshot(), claiming, cluster="r"))
    assert {eviction.workload.name for eviction in plan.fates.going} == {"two"}


def test_one_more_than_the_minimum_where_force_needs_it() -> None:
    """0,3 | 1,2 | 3 with maxSkew 2 and 2 takes one eviction and is forced in two; the plan says one and begins."""
    blueprint, on = a_layout(([0, 3], [1, 2], [3]))
    blueprint.deployment("web", on=on, spread={ZONE: 2, HOSTNAME: 2})
    plan = planned(blueprint.snapshot())
    assert [eviction.forced for eviction in plan.fates.going] == [True]
    assert plan.components[0].evictions == 1


def crowd(**fields: Any) -> Snapshot:
    """Twelve pods on two zones, a third one back."""
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    return a_cluster("abc", 2, on, spread={ZONE: 1, HOSTNAME: 1}, **fields).snapshot()


def test_a_group_has_its_number_in_flight() -> None:
    """`disruption.maxInFlight` counts members that are away for whatever cause, over all workloads."""
    group = "groups: [{name: g, selector: {}, disruption: {maxInFlight: 2}, limits: []}]"
    snapshot = crowd()
    assert len(planned(snapshot).fates.going) == 4
    plan = planned(snapshot, policy(group))
    assert len(plan.fates.going) == 2
    assert {waiting.reason for waiting in plan.fates.kept} == {Reason.GROUP_IN_FLIGHT}
    first, second, *others = (structs.replace(pod, ready=False) for pod in snapshot.pods)
    others = list(snapshot.pods[2:])
    two_are_unready = replace(snapshot, pods=(first, second, *others))
    plan = planned(two_are_unready, policy(group))
    assert {eviction.pod.ready for eviction in plan.fates.going} == {False}, "it is away already"
    starting = [structs.replace(pod, starting_since=snapshot.taken_at) for pod in (first, second)]
    assert planned(replace(snapshot, pods=(*starting, *others)), policy(group)).fates.going == ()


@pytest.mark.parametrize("of", ["pod", "move"])
def test_a_group_settles(of: str) -> None:
    """After a pod became Ready the next one of the group waits for `disruption.settle`.

    The pod says so, though its move has been forgotten, or the move does, though the pod is unready again.
    """
    group = policy("groups: [{name: g, selector: {}, disruption: {settle: 5m}, limits: []}]")
    snapshot = crowd()
    assert planned(snapshot, group).fates.going
    first, *others = snapshot.pods
    since = snapshot.taken_at - timedelta(minutes=1)
    landed = structs.replace(first, ready_since=since) if of == "pod" else structs.replace(first, ready=False)
    moved = move("old", since, changed_at=since, state=MoveState.VERIFIED, replacement=first.uid)
    memory = Memory(moves=() if of == "pod" else (moved,))
    plan = planned(replace(snapshot, pods=(landed, *others)), group, memory)
    assert plan.fates.going == ()
    assert Reason.GROUP_IN_FLIGHT in {waiting.reason for waiting in plan.fates.kept}
    settling = GroupSettling("group g default workload=Deployment/web", timedelta(minutes=1), timedelta(minutes=5))
    assert settling in {waiting.refusal for waiting in plan.fates.kept}


@pytest.mark.parametrize("disruption", ["settle: 5m", "maxInFlight: 9"])
def test_a_pod_that_became_ready_in_the_future_holds_nobody(disruption: str) -> None:
    """A node's clock may be ahead, and pods become Ready while a list is read."""
    group = policy(f"groups: [{{name: g, selector: {{}}, disruption: {{{disruption}}}, limits: []}}]")
    snapshot = crowd()
    first, *others = snapshot.pods
    ahead = structs.replace(first, ready_since=snapshot.taken_at + timedelta(minutes=1))
    plans = planned(snapshot, group), planned(replace(snapshot, pods=(ahead, *others)), group)
    assert len(plans[0].fates.going) == len(plans[1].fates.going) > 0


def test_victims_of_last_resort() -> None:
    """Pods that `avoid` selects stay where others will do."""
    snapshot = crowd()
    chosen = {eviction.pod.uid for eviction in planned(snapshot).fates.going}
    marked = tuple(
        structs.replace(pod, labels=Labels({**pod.labels, "role": "master"})) if pod.uid in chosen else pod
        for pod in snapshot.pods
    )
    rules = policy("groups: [{name: g, selector: {}, avoid: {matchLabels: {role: master}}, limits: []}]")
    going = {eviction.pod.uid for eviction in planned(replace(snapshot, pods=marked), rules).fates.going}
    assert len(going) == 4
    assert not going & chosen


def test_a_member_that_is_not_whole_in_a_group() -> None:
    """Of an owner of which only some pods belong to the group, those are counted as they are."""
    snapshot = crowd()
    marked = tuple(
        structs.replace(pod, labels=Labels({**pod.labels, "part": "yes"})) if number < 6 else pod
        for number, pod in enumerate(snapshot.pods)
    )
    rules = policy(
        "groups: [{name: g, selector: {matchLabels: {part: 'yes'}}, groupBy: [part], "
        "disruption: {maxInFlight: 1}, limits: []}]"
    )
    plan = planned(replace(snapshot, pods=marked), rules)
    assert sum("part" in eviction.pod.labels for eviction in plan.fates.going) == 1


def test_a_limit_by_workload_beside_one_for_all() -> None:
    """Two of a shard in one zone, by a limit divided by workload: what counts one shard does not count the others."""
    rules = policy(
        "groups: [{name: g, selector: {}, groupBy: [cluster], limits: ["
        f"{{name: shard, groupBy: [Workload], topologyKey: {ZONE}, maxPods: 1, action: Evict}}, "
        f"{{name: all, topologyKey: {HOSTNAME}, maxPods: 2, action: Evict}}]}}]"
    )
    blueprint = a_cluster("abc", 2)
    for shard, on in {"s0": ("a-1", "a-2"), "s1": ("b-1", "c-1"), "s2": ("b-2", "c-2")}.items():
        blueprint.stateful_set(shard, on=dict.fromkeys(on, 1))
    snapshot = with_labels(blueprint.snapshot(), cluster="r")
    plan = planned(snapshot, rules)
    (group,) = plan.components
    assert (group.state, group.lower_bound, group.optimal) == (State.VIOLATED, 1, True)
    assert [eviction.pod.labels["app"] for eviction in plan.fates.going] == ["s0"]
