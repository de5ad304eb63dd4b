"""Pods of several kinds, limits, soft constraints and pods that wait: what is planned for them, and what is refused."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder
from rebalancer.assessment.assess import assess
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY, FailedPrediction, Memory, MoveState
from rebalancer.model.pods import HostPort, Pod, PodPhase, PodSpec
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan
from rebalancer.policy import Policy, load_policy
from rebalancer.scheduling.view import View
from tests.tracking.build import move

HEAD = """
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Evict
budgets: {maxUnavailable: 100%, perWorkload: 100%}
eligibility: {minAge: 0s}
nodes: {settle: 0s}
"""


def policy(text: str = "") -> Policy:
    return load_policy((HEAD + text).encode(), source="test")


def limit(bound: str, *, key: str = HOSTNAME, more: str = "", group: str = "") -> str:
    rule = f"{{name: l, topologyKey: {key}, {bound}, action: Evict{more}}}"
    return f"groups: [{{name: g, selector: {{}}, limits: [{rule}]{group}}}]"


def planned(snapshot: Snapshot, rules: Policy | None = None, memory: Memory = NO_MEMORY) -> Plan:
    view, rules = View(snapshot), rules or policy()
    return plan(view, assess(view, rules, memory), rules, memory)


def changed(snapshot: Snapshot, spec: Callable[[str, PodSpec], PodSpec], **labels: str) -> Snapshot:
    """Change the specs of all pods and templates, by their label `app`, and add labels."""

    def pod(each: Pod) -> Pod:
        app = each.labels["app"]
        return msgspec.structs.replace(each, spec=spec(app, each.spec), labels=Labels({**each.labels, **labels}))

    def owner(each: Any) -> Any:
        if each.template is None:
            return each
        template = msgspec.structs.replace(
            each.template,
            spec=spec(each.template.labels["app"], each.template.spec),
            labels=Labels({**each.template.labels, **labels}),
        )
        return msgspec.structs.replace(each, template=template, current=each.replicas, updated=each.replicas)

    return replace(snapshot, pods=tuple(map(pod, snapshot.pods)), workloads=tuple(map(owner, snapshot.workloads)))


def together(app: str, spec: PodSpec) -> PodSpec:
    """Let all constraints count every pod of the cluster `r`."""
    del app
    selector = LabelSelector.of({"cluster": "r"})
    spread = tuple(msgspec.structs.replace(each, selector=selector) for each in spec.spread)
    return msgspec.structs.replace(spec, spread=spread)


def shards(places: Mapping[str, list[str | None]], *, node: int = 1, zone: int = 2, apart: str = ZONE) -> Snapshot:
    """Return six nodes in three zones with StatefulSets of two that keep apart; a pod at None waits."""
    blueprint = ClusterBuilder()
    for number, name in enumerate("aabbcc", start=1):
        blueprint.node(f"n{number}", zone=name)
    for shard, on in places.items():
        held = [each for each in on if each is not None]
        blueprint.stateful_set(shard, on=dict.fromkeys(held, 1), spread={ZONE: zone, HOSTNAME: node}, replicas=2)

    def tied(app: str, spec: PodSpec) -> PodSpec:
        term = PodAffinityTerm(topology_key=apart, selector=LabelSelector.of({"app": app}))
        return msgspec.structs.replace(together(app, spec), pod_affinity=PodAffinity(anti_required=(term,)))

    snapshot = changed(blueprint.snapshot(), tied, cluster="r")
    waiting = []
    for shard, on in places.items():
        standing = [pod for pod in snapshot.pods if pod.labels["app"] == shard]
        for number in range(len(standing), len(on)):
            own = {
                "statefulset.kubernetes.io/pod-name": f"{shard}-{number}",
                "apps.kubernetes.io/pod-index": f"{number}",
            }
            waiting.append(
                msgspec.structs.replace(
                    standing[0],
                    uid=f"{shard}-{number}",
                    name=f"{shard}-{number}",
                    labels=Labels({**standing[0].labels, **own}),
                    node=None,
                    ready=False,
                    phase=PodPhase.PENDING,
                    created=snapshot.taken_at - timedelta(minutes=1),
                )
            )
    return replace(snapshot, pods=(*snapshot.pods, *waiting))


DEADLOCK: dict[str, list[str | None]] = {"s0": ["n1", "n3"], "s1": ["n4", "n2"], "s2": ["n6", None]}


def test_a_placement_deadlock_is_freed_by_one_eviction() -> None:
    """Three shards over three zones, the last pod barred by spread here and by anti-affinity there."""
    found = planned(shards(DEADLOCK))
    (group,) = found.groups
    assert (group.evictions, group.optimal, group.state) == (1, True, State.VIOLATED)
    (eviction,) = found.evictions
    assert (eviction.cause, eviction.forced) == (Cause.PLACEMENT_DEADLOCK, True)
    assert "a pod that waits" in eviction.message
    assert set(group.after) == {ZONE, HOSTNAME}


def test_a_pod_that_waits_for_a_moment_only() -> None:
    """Within the scheduler's back-off a pod is not called stuck."""
    snapshot = shards(DEADLOCK)
    fresh = tuple(
        msgspec.structs.replace(pod, created=snapshot.taken_at) if pod.node is None else pod for pod in snapshot.pods
    )
    assert planned(replace(snapshot, pods=fresh)).groups == ()


def test_relaxed_constraints_need_nobody_to_go() -> None:
    """With node maxSkew 2 the same pod finds a node."""
    assert planned(shards(DEADLOCK, node=2)).groups == ()


def lopsided(**fields: Any) -> Snapshot:
    """Ten pods as 4/2/1/1/1/1, hostname maxSkew 3."""
    blueprint = ClusterBuilder()
    for number, name in enumerate("aabbcc", start=1):
        blueprint.node(f"n{number}", zone=name)
    on = {"n1": 4, "n2": 2, "n3": 1, "n4": 1, "n5": 1, "n6": 1}
    blueprint.deployment("web", on=on, spread={HOSTNAME: 3}, **fields)
    return blueprint.snapshot()


def softly(snapshot: Snapshot, max_skew: int = 1) -> Snapshot:
    """Add a soft hostname constraint."""

    def add(app: str, spec: PodSpec) -> PodSpec:
        soft = SpreadConstraint(
            topology_key=HOSTNAME,
            max_skew=max_skew,
            when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY,
            selector=LabelSelector.of({"app": app}),
        )
        return msgspec.structs.replace(spec, spread=(*spec.spread, soft))

    return changed(snapshot, add)


THIRD = policy(limit('maxShare: "<1/3"'))


def test_a_limit_that_nothing_forces_is_repaired_where_a_landing_can_be_predicted() -> None:
    """With the soft constraint the emptier nodes score best, so a pod of the fullest node goes, as predicted."""
    found = planned(softly(lopsided()), THIRD)
    (eviction,) = found.evictions
    assert (eviction.pod.node, eviction.forced, eviction.cause) == ("n1", False, Cause.SHARE_LIMIT_VIOLATED)
    assert "n1" not in {value for target in eviction.targets for value in target.values}
    assert "limit g/l (maxShare <1/3)" in eviction.message


def test_a_limit_is_left_alone_where_a_replacement_may_come_back() -> None:
    """Without it all nodes score alike, the one that the pod left among them."""
    found = planned(lopsided(), THIRD)
    (group,) = found.groups
    assert (group.state, group.reason, group.evictions, group.optimal) == (State.UNFIXABLE, Reason.NOT_FORCED, 1, True)
    assert group.limits
    assert found.evictions == ()


def test_after_three_misses_nothing_is_predicted_any_more() -> None:
    """And the reason says so; while one such move is under way the next waits for it."""
    snapshot = softly(lopsided())
    name = planned(snapshot, THIRD).groups[0].name
    missed = Memory(failed_predictions=(FailedPrediction(name, 3, snapshot.taken_at),))
    (group,) = planned(snapshot, THIRD, missed).groups
    assert group.reason is Reason.NOT_FORCED
    assert "3 moves in a row" in group.message
    going = move("x", snapshot.taken_at, node="n1", group=name, state=MoveState.PENDING)
    (group,) = planned(snapshot, THIRD, Memory(moves=(going,))).groups
    assert (group.reason, group.state) == (Reason.GROUP_IN_FLIGHT, State.VIOLATED)


def test_soft_constraints_are_repaired_only_where_they_are_listed() -> None:
    """`spread.actOn` decides, and what it leaves is not violated for anybody."""
    snapshot = softly(lopsided())
    assert planned(snapshot).groups == ()
    found = planned(snapshot, policy("spread: {actOn: [DoNotSchedule, ScheduleAnyway]}"))
    assert found.evictions
    assert not any(each.forced for each in found.evictions)


def test_a_limit_cannot_ask_for_more_than_there_are_domains() -> None:
    """Under one pod a node, with ten pods on six nodes, the least possible maximum is aimed at: two a node."""
    found = planned(softly(lopsided()), policy(limit("maxPods: 1")))
    assert found.groups[0].evictions == 2


@pytest.mark.parametrize("bound", ["minPods: 1", "maxSkew: 1", "maxPods: 2", 'maxShare: "<=1/5"'])
def test_every_kind_of_limit(bound: str) -> None:
    """Each is aimed at with the fewest evictions."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    on = {"a-1": 4, "a-2": 2, "b-1": 2, "b-2": 1, "c-1": 1}
    blueprint.deployment("web", on=on, spread={ZONE: 9})
    found = planned(softly(blueprint.snapshot()), policy(limit(bound)))
    least = {"minPods: 1": 1, "maxSkew: 1": 2, "maxPods: 2": 2, 'maxShare: "<=1/5"': 2}
    assert found.groups[0].evictions == least[bound]


def test_a_limit_within_a_larger_domain() -> None:
    """The nodes of each zone may differ by one: judged, and repaired, inside the zone."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 4, "b-1": 2, "b-2": 2}, spread={ZONE: 1})
    found = planned(softly(blueprint.snapshot()), policy(limit("maxSkew: 1", more=f", within: {ZONE}")))
    assert found.groups[0].evictions == 2


def test_several_owners_under_one_limit() -> None:
    """A limit over two workloads joins them; neither has a constraint of its own."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("one", on={"a-1": 3})
    blueprint.deployment("two", on={"a-1": 1, "b-1": 1, "b-2": 1}, cpu=200)
    rules = (
        "groups: [{name: g, selector: {}, groupBy: [team], limits: "
        f"[{{name: l, topologyKey: {HOSTNAME}, maxPods: 2, action: Evict}}]}}]"
    )
    snapshot = changed(blueprint.snapshot(), lambda _, spec: spec, team="x")
    (group,) = planned(snapshot, policy(rules)).groups
    assert ([each.name for each in group.workloads], group.evictions) == (["one", "two"], 2)
    assert group.after == {HOSTNAME: {"a-1": 4, "a-2": 0, "b-1": 1, "b-2": 1}}


def test_no_room_for_pods_of_several_kinds() -> None:
    """The nodes that would have to take them are full, and that is the reason."""
    blueprint = ClusterBuilder()
    blueprint.node("a-1", zone="a", cpu=100_000)
    blueprint.node("b-1", zone="b", cpu=900)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=1000)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=2000)
    (group,) = planned(changed(blueprint.snapshot(), together, cluster="r")).groups
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)


def test_pods_of_several_kinds_that_may_not_move() -> None:
    """What they have in common is the reason; pods of nobody count and stay."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=200)
    snapshot = changed(blueprint.snapshot(), together, cluster="r")
    stay = {"rebalancer.dev/exclude": "true"}
    kept = tuple(msgspec.structs.replace(pod, annotations=Labels(stay)) for pod in snapshot.pods)
    (group,) = planned(replace(snapshot, pods=kept)).groups
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.EXCLUDED)


def test_arithmetic_of_several_kinds() -> None:
    """Keys that cross and cannot both hold: no arrangement, whatever moves."""
    blueprint = ClusterBuilder()
    for name, zone, rack in (("n1", "a", "1"), ("n2", "a", "2"), ("n3", "b", "1")):
        blueprint.node(name, zone=zone, rack=rack)
    blueprint.deployment("web", on={"n1": 4, "n2": 4}, spread={ZONE: 1, "rack": 1, HOSTNAME: 1})
    (group,) = planned(blueprint.snapshot()).groups
    assert (group.state, group.reason) == (State.INFEASIBLE, Reason.NO_ARRANGEMENT)
    assert "the nearest arrangement exceeds what is asked by" in group.message


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ({"host_ports": (HostPort("0.0.0.0", "TCP", 80),)}, "host ports"),
        (
            {
                "pod_affinity": PodAffinity(
                    required=(PodAffinityTerm(topology_key=ZONE, selector=LabelSelector.of({"cluster": "r"})),)
                )
            },
            "affinity to other pods",
        ),
        (
            {
                "pod_affinity": PodAffinity(
                    anti_required=(PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"cluster": "r"})),)
                )
            },
            "keep away from others",
        ),
    ],
)
def test_what_several_kinds_may_not_ask(ask: dict[str, Any], words: str) -> None:
    """What only one kind asks, and what moves with every placement, is not modelled, and says so."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=200)

    def asking(app: str, spec: PodSpec) -> PodSpec:
        spec = together(app, spec)
        return msgspec.structs.replace(spec, **ask) if app == "one" else spec

    (group,) = planned(changed(blueprint.snapshot(), asking, cluster="r")).groups
    assert group.reason is Reason.NOT_PREDICTABLE
    assert words in group.message


def test_a_kind_whose_next_pod_is_not_known_stays() -> None:
    """The others move around it."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=200)

    def claiming(app: str, spec: PodSpec) -> PodSpec:
        spec = together(app, spec)
        return msgspec.structs.replace(spec, unpredictable=("spec.resourceClaims",)) if app == "one" else spec

    found = planned(changed(blueprint.snapshot(), claiming, cluster="r"))
    assert {each.workload.name for each in found.evictions} == {"two"}


def test_one_more_than_the_distance_where_force_needs_it() -> None:
    """0,3 | 1,2 | 3 with maxSkew 2 and 2 is one eviction from right and forced in two; the plan says one and begins."""
    blueprint = ClusterBuilder()
    on = {}
    for name, nodes in zip("abc", ([0, 3], [1, 2], [3]), strict=True):
        blueprint.zones([name], len(nodes))
        on.update({f"{name}-{number}": held for number, held in enumerate(nodes, start=1) if held})
    blueprint.deployment("web", on=on, spread={ZONE: 2, HOSTNAME: 2})
    found = planned(blueprint.snapshot())
    assert [each.forced for each in found.evictions] == [True]
    assert found.groups[0].evictions == 1


def crowd(**fields: Any) -> Snapshot:
    """Twelve pods on two zones, a third one back."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1}, **fields)
    return blueprint.snapshot()


def test_a_group_has_its_number_in_flight() -> None:
    """`disruption.maxInFlight` counts members that are away for whatever cause, over all workloads."""
    group = "groups: [{name: g, selector: {}, disruption: {maxInFlight: 2}, limits: []}]"
    snapshot = crowd()
    assert len(planned(snapshot).evictions) == 4
    found = planned(snapshot, policy(group))
    assert len(found.evictions) == 2
    assert {each.reason for each in found.waiting} == {Reason.GROUP_IN_FLIGHT}
    unready = tuple(
        msgspec.structs.replace(pod, ready=False) if number < 2 else pod for number, pod in enumerate(snapshot.pods)
    )
    assert planned(replace(snapshot, pods=unready), policy(group)).evictions == ()


def test_a_group_settles() -> None:
    """After a replacement became Ready the next pod of the group waits for `disruption.settle`."""
    group = policy("groups: [{name: g, selector: {}, disruption: {settle: 5m}, limits: []}]")
    snapshot = crowd()
    landed = move(
        "old",
        snapshot.taken_at - timedelta(minutes=2),
        changed_at=snapshot.taken_at - timedelta(minutes=1),
        state=MoveState.VERIFIED,
        replacement=snapshot.pods[0].uid,
    )
    assert planned(snapshot, group).evictions
    found = planned(snapshot, group, Memory(moves=(landed,)))
    assert found.evictions == ()
    assert {each.reason for each in found.waiting} == {Reason.GROUP_IN_FLIGHT}
    assert "settle" in found.waiting[0].message


def test_victims_of_last_resort() -> None:
    """Pods that `avoid` selects stay where others will do."""
    snapshot = crowd()
    chosen = {each.pod.uid for each in planned(snapshot).evictions}
    marked = tuple(
        msgspec.structs.replace(pod, labels=Labels({**pod.labels, "role": "master"})) if pod.uid in chosen else pod
        for pod in snapshot.pods
    )
    rules = policy("groups: [{name: g, selector: {}, avoid: {matchLabels: {role: master}}, limits: []}]")
    going = {each.pod.uid for each in planned(replace(snapshot, pods=marked), rules).evictions}
    assert len(going) == 4
    assert not going & chosen


def test_a_member_that_is_not_whole_in_a_group() -> None:
    """Of an owner of which only some pods belong to the group, those are counted as they are."""
    snapshot = crowd()
    marked = tuple(
        msgspec.structs.replace(pod, labels=Labels({**pod.labels, "part": "yes"})) if number < 6 else pod
        for number, pod in enumerate(snapshot.pods)
    )
    rules = policy(
        "groups: [{name: g, selector: {matchLabels: {part: 'yes'}}, groupBy: [part], "
        "disruption: {maxInFlight: 1}, limits: []}]"
    )
    found = planned(replace(snapshot, pods=marked), rules)
    assert sum("part" in each.pod.labels for each in found.evictions) == 1
