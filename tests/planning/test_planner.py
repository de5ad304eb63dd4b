"""The plan of a snapshot: who goes, who waits, who stays, each with its reason."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder
from rebalancer.assessment.assess import assess
from rebalancer.model.affinity import NodeSelectorTerm, PodAffinity, PodAffinityTerm, Taint, TaintEffect
from rebalancer.model.cluster import Namespace
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.model.nodes import Node
from rebalancer.model.pods import HostPort, OwnerReference, Pod, PodSpec, Resources
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Fault, Snapshot
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim
from rebalancer.model.workloads import Workload
from rebalancer.planning.plan import Plan, narrow_plan
from rebalancer.planning.planner import plan
from rebalancer.policy import Amount, Budgets, Policy, Spread
from rebalancer.policy.sections import Eligibility, Nodes
from rebalancer.scheduling.view import View
from tests.controller.simulated import eager
from tests.scheduling.build import NOW
from tests.tracking.build import move

GENEROUS = Budgets(max_unavailable=Amount(value=100), per_workload=Amount(value=100))


def policy(**changes: Any) -> Policy:
    return eager(**{"budgets": GENEROUS, **changes})


def returned(**fields: Any) -> Snapshot:
    """Twelve pods on two of three zones of two nodes."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1}, namespace="shop", **fields)
    return blueprint.snapshot()


def planned(snapshot: Snapshot, rules: Policy | None = None, memory: Memory = NO_MEMORY) -> Plan:
    view = View(snapshot)
    return plan(view, assess(view, rules or policy(), memory), rules or policy(), memory)


def pods(snapshot: Snapshot, change: Callable[[Pod], Pod]) -> Snapshot:
    return replace(snapshot, pods=tuple(change(pod) for pod in snapshot.pods))


def nodes(snapshot: Snapshot, change: Callable[[Node], Node]) -> Snapshot:
    return replace(snapshot, nodes=tuple(change(node) for node in snapshot.nodes))


def owners(snapshot: Snapshot, change: Callable[[Workload], Workload]) -> Snapshot:
    return replace(snapshot, workloads=tuple(change(owner) for owner in snapshot.workloads))


def sharing(snapshot: Snapshot) -> Snapshot:
    """Put all workloads under one spread selector, in their templates too."""

    def spread(found: PodSpec) -> PodSpec:
        selector = LabelSelector.of({"both": "yes"})
        return msgspec.structs.replace(
            found, spread=tuple(msgspec.structs.replace(each, selector=selector) for each in found.spread)
        )

    def labelled(pod: Pod) -> Pod:
        return msgspec.structs.replace(pod, spec=spread(pod.spec), labels=Labels({**pod.labels, "both": "yes"}))

    def templated(owner: Workload) -> Workload:
        if owner.template is None:
            return owner
        labels = Labels({**owner.template.labels, "both": "yes"})
        template = msgspec.structs.replace(owner.template, labels=labels, spec=spread(owner.template.spec))
        return msgspec.structs.replace(owner, template=template)

    return owners(pods(snapshot, labelled), templated)


def test_a_zone_that_returned() -> None:
    """Four go at once where the budgets let them, into the zone that came back, and the proof stands beside."""
    found = planned(returned())
    assert sorted(each.pod.node or "" for each in found.evictions) == ["a-1", "a-2", "b-1", "b-2"]
    assert {target.topology_key: target.values for target in found.evictions[0].targets} == {
        ZONE: ("c",),
        HOSTNAME: ("c-1", "c-2"),
    }
    (group,) = found.groups
    assert (group.evictions, group.lower_bound, group.optimal, group.state) == (4, 4, True, State.VIOLATED)
    assert group.after[ZONE] == {"a": 4, "b": 4, "c": 4}
    assert found.waiting == ()
    assert "zone a holds 6" in found.evictions[0].message


def test_the_same_snapshot_gives_the_same_plan() -> None:
    """The order in which objects come changes nothing."""
    snapshot = returned()
    turned = replace(
        snapshot,
        pods=tuple(reversed(snapshot.pods)),
        nodes=tuple(reversed(snapshot.nodes)),
        workloads=tuple(reversed(snapshot.workloads)),
    )
    assert [each.pod.uid for each in planned(turned).evictions] == [
        each.pod.uid for each in planned(snapshot).evictions
    ]


def test_a_balanced_group_is_not_in_the_plan() -> None:
    """What holds is not planned."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 2, "b-1": 1}, spread={ZONE: 1})
    assert planned(blueprint.snapshot()).groups == ()


@pytest.mark.parametrize(
    ("budgets", "now"),
    [
        (GENEROUS, 4),
        (Budgets(), 1),
        (Budgets(max_unavailable=Amount(value=3), per_workload=Amount(value=2)), 2),
        (Budgets(max_unavailable=Amount(value=0)), 0),
        (Budgets(max_unavailable=Amount(value=25, percent=True), per_workload=Amount(value=100)), 3),
    ],
)
def test_own_budgets_cut_the_step(budgets: Budgets, now: int) -> None:
    """MaxUnavailable and perWorkload let a prefix of the step go; the rest waits and says for what."""
    found = planned(returned(), policy(budgets=budgets))
    assert len(found.evictions) == now
    assert len(found.waiting) == 4 - now
    if 0 < now < 4:
        assert {each.reason for each in found.waiting} == {Reason.BLOCKED_BY_BUDGET}
    if not now:
        assert {each.reason for each in found.waiting} == {Reason.STEP_EXCEEDS_BUDGET}, "it will never have room"


def test_unavailable_pods_count_whatever_the_cause() -> None:
    """A pod that is not Ready takes the room of one eviction."""
    snapshot = returned()
    unready = snapshot.pods[0].uid
    changed = pods(snapshot, lambda pod: msgspec.structs.replace(pod, ready=pod.uid != unready))
    assert planned(changed, policy(budgets=Budgets())).evictions == ()


def budgeted(**fields: Any) -> Snapshot:
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1})
    blueprint.budget("web", **fields)
    return blueprint.snapshot()


def test_a_disruption_budget_cuts_the_step() -> None:
    """Never more than disruptionsAllowed."""
    found = planned(budgeted(max_unavailable=2))
    assert len(found.evictions) == 2
    assert [each.reason for each in found.waiting] == [Reason.BLOCKED_BY_BUDGET] * 2
    assert "PodDisruptionBudget web" in found.waiting[0].message


def test_a_budget_is_counted_afresh() -> None:
    """A status that still allows two is not believed when a pod has become unready since."""
    snapshot = budgeted(max_unavailable=2)
    unready = snapshot.pods[0].uid
    changed = pods(snapshot, lambda pod: msgspec.structs.replace(pod, ready=pod.uid != unready))
    assert len(planned(changed).evictions) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"generation": 2},
        {"synced": False},
        {"allowed": 0},
    ],
)
def test_a_budget_that_is_not_worked_out_allows_nothing(change: dict[str, Any]) -> None:
    """A stale generation, a failed sync, no room: nothing goes."""
    snapshot = budgeted(max_unavailable=2)
    budgets = tuple(msgspec.structs.replace(each, **change) for each in snapshot.budgets)
    assert planned(replace(snapshot, budgets=budgets)).evictions == ()


def test_evictions_granted_elsewhere_count() -> None:
    """What the API server granted somebody else within two minutes is not healthy, whatever the pod says."""
    snapshot = budgeted(max_unavailable=2)
    when = snapshot.taken_at - timedelta(seconds=30)
    budgets = tuple(
        msgspec.structs.replace(each, disrupted=((snapshot.pods[0].name, when),)) for each in snapshot.budgets
    )
    assert len(planned(replace(snapshot, budgets=budgets)).evictions) == 1


def test_two_budgets_on_a_pod() -> None:
    """The API refuses to evict a pod that two budgets select, so it is not planned."""
    snapshot = budgeted(max_unavailable=2)
    again = msgspec.structs.replace(snapshot.budgets[0], name="again")
    found = planned(replace(snapshot, budgets=(*snapshot.budgets, again)))
    assert found.evictions == ()
    assert {each.reason for each in found.refusals} == {Reason.SEVERAL_BUDGETS}


def test_moves_in_flight_take_room() -> None:
    """PerWorkload counts what is under way."""
    snapshot = returned()
    other = move("other", snapshot.taken_at, namespace="shop")
    rules = policy(budgets=Budgets(max_unavailable=Amount(value=9), per_workload=Amount(value=3)))
    assert len(planned(snapshot, rules, Memory(moves=(other,))).evictions) == 2


def annotated(**notes: str) -> Callable[[Pod], Pod]:
    named = {key.replace("__", "/").replace("_", "-"): value for key, value in notes.items()}
    return lambda pod: msgspec.structs.replace(pod, annotations=Labels(named))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (annotated(rebalancer_dev__exclude="true"), None),
        (
            lambda pod: msgspec.structs.replace(pod, annotations=Labels({"rebalancer.dev/exclude": "true"})),
            Reason.EXCLUDED,
        ),
        (lambda pod: msgspec.structs.replace(pod, annotations=Labels({"rebalancer.dev/exclude": "false"})), None),
        (
            lambda pod: msgspec.structs.replace(
                pod, annotations=Labels({"rebalancer.dev/pause-until": "2999-01-01T00:00:00Z"})
            ),
            Reason.EXCLUDED,
        ),
        (
            lambda pod: msgspec.structs.replace(
                pod, annotations=Labels({"rebalancer.dev/pause-until": "2001-01-01T00:00:00Z"})
            ),
            None,
        ),
        (
            lambda pod: msgspec.structs.replace(pod, annotations=Labels({"rebalancer.dev/pause-until": "tomorrow"})),
            Reason.EXCLUDED,
        ),
        (
            lambda pod: msgspec.structs.replace(
                pod, annotations=Labels({"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""})
            ),
            Reason.EXCLUDED,
        ),
        (
            lambda pod: msgspec.structs.replace(
                pod, annotations=Labels({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
            ),
            Reason.EXCLUDED,
        ),
        (
            lambda pod: msgspec.structs.replace(pod, annotations=Labels({"karpenter.sh/do-not-disrupt": "true"})),
            Reason.EXCLUDED,
        ),
        (lambda pod: msgspec.structs.replace(pod, annotations=Labels({"karpenter.sh/do-not-disrupt": "1m"})), None),
        (
            lambda pod: msgspec.structs.replace(pod, annotations=Labels({"karpenter.sh/do-not-disrupt": "8000h"})),
            Reason.EXCLUDED,
        ),
        (lambda pod: msgspec.structs.replace(pod, mirror=True), Reason.NOT_EVICTABLE),
    ],
)
def test_pods_that_stay(change: Callable[[Pod], Pod], reason: Reason | None) -> None:
    """Annotations, own and others', keep a pod where it is; it counts all the same."""
    found = planned(pods(returned(), change))
    if reason is None:
        assert len(found.evictions) == 4
    else:
        assert found.evictions == ()
        assert {each.reason for each in found.refusals if each.pod} == {reason}
        assert found.groups[0].state is State.UNFIXABLE
        assert found.groups[0].reason is reason


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (Eligibility(min_age=timedelta(days=300)), Reason.TOO_YOUNG),
        (Eligibility(min_age=timedelta(0), min_replicas=13), Reason.TOO_FEW_REPLICAS),
        (Eligibility(min_age=timedelta(0), priority_below=0), Reason.PRIORITY_TOO_HIGH),
        (Eligibility(min_age=timedelta(0), priority_below="unheard-of"), Reason.PRIORITY_TOO_HIGH),
        (Eligibility.model_validate({"minAge": "0s", "owners": ["StatefulSet"]}), Reason.UNKNOWN_OWNER),
        (Eligibility.model_validate({"minAge": "0s", "namespaces": {"exclude": ["sh*"]}}), Reason.EXCLUDED),
        (Eligibility.model_validate({"minAge": "0s", "selector": {"matchLabels": {"a": "b"}}}), Reason.EXCLUDED),
    ],
)
def test_the_rules_of_the_policy(rules: Eligibility, reason: Reason) -> None:
    """Each rule of eligibility refuses with its own reason."""
    found = planned(returned(), policy(eligibility=rules))
    assert found.evictions == ()
    assert {each.reason for each in found.refusals} == {reason}


@pytest.mark.parametrize(
    "change",
    [
        {"observed": False},
        {"current": 11},
        {"updated": 5},
        {"replicas": 11},
        {"paused": True},
    ],
)
def test_a_rollout_is_left_to_itself(change: dict[str, Any]) -> None:
    """While the owner is being scaled, rolled out or paused, nothing is moved."""
    found = planned(owners(returned(), lambda owner: msgspec.structs.replace(owner, **change)))
    assert found.evictions == ()
    assert {each.reason for each in found.refusals} == {Reason.ROLLOUT_IN_PROGRESS}


def test_an_unknown_owner() -> None:
    """Pods whose owner was not read are not moved: nobody knows what would replace them."""
    snapshot = returned()
    found = planned(replace(snapshot, workloads=()))
    assert found.evictions == ()
    assert {each.reason for each in found.refusals} == {Reason.UNKNOWN_OWNER}


def test_bare_pods() -> None:
    """A pod that nothing would replace is never evicted."""
    alone = replace(returned(), workloads=())
    found = planned(pods(alone, lambda pod: msgspec.structs.replace(pod, owner=None)))
    assert found.evictions == ()
    assert {each.reason for each in found.refusals} == {Reason.NOT_EVICTABLE}


def test_a_daemon_set() -> None:
    """A DaemonSet's pods belong to their nodes."""
    owner = OwnerReference(group="apps", kind="DaemonSet", name="d", uid="d")
    alone = replace(returned(), workloads=())
    found = planned(pods(alone, lambda pod: msgspec.structs.replace(pod, owner=owner)))
    assert {each.reason for each in found.refusals} == {Reason.NOT_EVICTABLE}


def test_a_node_that_settles() -> None:
    """A node that has only just become Ready is no target yet."""
    snapshot = returned()
    fresh = nodes(
        snapshot,
        lambda node: msgspec.structs.replace(
            node, ready_since=snapshot.taken_at - timedelta(seconds=30) if node.name == "c-1" else node.ready_since
        ),
    )
    found = planned(fresh, policy(nodes=Nodes()))
    assert found.evictions == ()
    assert found.groups[0].reason is Reason.NODE_SETTLING
    assert "c-1" in found.groups[0].message


def test_a_zone_in_maintenance() -> None:
    """A zone that is cordoned as a whole is waited for, and nothing is evicted because of it."""

    def cordon(node: Node) -> Node:
        taint = Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE)
        return msgspec.structs.replace(node, unschedulable=True, taints=(taint,)) if node.name[0] == "c" else node

    found = planned(nodes(returned(), cordon))
    assert found.evictions == ()
    assert found.groups[0].reason is Reason.ZONE_IN_MAINTENANCE


def test_no_room() -> None:
    """Where the replacement would not fit, nothing is evicted."""
    found = planned(nodes(returned(), lambda n: msgspec.structs.replace(n, pods=0) if n.name[0] == "c" else n))
    assert found.evictions == ()
    assert (found.groups[0].state, found.groups[0].reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)


def test_room_is_not_promised_twice() -> None:
    """Two workloads that need the same room do not both get it."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 4}, spread={ZONE: 1}, cpu=1000)
    snapshot = nodes(
        blueprint.snapshot(),
        lambda n: (
            msgspec.structs.replace(n, allocatable=msgspec.structs.replace(n.allocatable, cpu=2000))
            if n.name == "b-1"
            else n
        ),
    )
    found = planned(snapshot)
    assert {each.workload.name for each in found.evictions} == {"one"}
    assert len(found.evictions) == 2


@pytest.mark.parametrize(
    ("on", "nearest"),
    [
        ({"a-1": 2, "b-1": 4, "b-2": 1, "b-3": 1}, "5 would do"),
        ({"a-1": 1, "b-1": 1, "b-2": 1, "b-3": 1}, "3 or 5 would do"),
    ],
)
def test_arithmetic(on: dict[str, int], nearest: str) -> None:
    """What no arrangement can satisfy is Infeasible, with the nearest numbers that would do: here 1, 2, 3 and 5 do."""
    blueprint = ClusterBuilder()
    blueprint.zones("a", 1)
    blueprint.zones("b", 3)
    blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1})
    (group,) = planned(blueprint.snapshot()).groups
    assert (group.state, group.reason) == (State.INFEASIBLE, Reason.NO_ARRANGEMENT)
    total = sum(on.values())
    assert group.message == f"no arrangement of {total} pods over these domains satisfies all; {nearest}"


def test_too_few_domains() -> None:
    """With fewer domains than minDomains each may hold maxSkew at the most."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 3, "b-1": 3}, spread={ZONE: 1})

    def demanding(pod: Pod) -> Pod:
        spread = tuple(msgspec.structs.replace(each, min_domains=3) for each in pod.spec.spread)
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, spread=spread))

    (group,) = planned(pods(blueprint.snapshot(), demanding)).groups
    assert (group.state, group.reason) == (State.INFEASIBLE, Reason.TOO_FEW_DOMAINS)


def test_least_important_first() -> None:
    """Of pods that would do equally, the one of lowest deletion cost goes, then the unready, then the youngest."""
    snapshot = returned()
    cheap = {pod.name for pod in snapshot.pods if pod.name.endswith(("1", "4", "7"))}

    def priced(pod: Pod) -> Pod:
        cost = "-5" if pod.name in cheap else "odd"
        return msgspec.structs.replace(pod, annotations=Labels({"controller.kubernetes.io/pod-deletion-cost": cost}))

    found = planned(pods(snapshot, priced))
    on = {pod.node for pod in snapshot.pods if pod.name in cheap}
    assert {each.pod.name for each in found.evictions if each.pod.node in on} <= cheap


def test_two_revisions_share_a_selector() -> None:
    """Two owners under one selector are one group, planned together."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("one", on={"a-1": 4}, spread={ZONE: 1})
    blueprint.deployment("two", on={"b-1": 4}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()

    assert planned(sharing(snapshot)).groups == ()
    assert len(planned(snapshot).groups) == 2


@pytest.mark.parametrize(
    ("affinity", "reason"),
    [
        ({"anti_required": HOSTNAME}, None),
        ({"anti_required": ZONE}, Reason.NO_ARRANGEMENT),
        ({"required": ZONE}, Reason.NOT_PREDICTABLE),
    ],
)
def test_affinity_to_pods(affinity: dict[str, str], reason: Reason | None) -> None:
    """Keeping off each other's nodes is counted; affinity that moves with every placement is left alone."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 3)
    blueprint.deployment("web", on={"a-1": 1, "a-2": 1, "a-3": 1, "b-1": 1}, spread={ZONE: 1})
    ((kind, key),) = affinity.items()
    term = PodAffinityTerm(topology_key=key, selector=LabelSelector.of({"app": "web"}))

    tied_by = {"anti_required": PodAffinity(anti_required=(term,)), "required": PodAffinity(required=(term,))}

    def tied(pod: Pod) -> Pod:
        spec = msgspec.structs.replace(pod.spec, pod_affinity=tied_by[kind])
        return msgspec.structs.replace(pod, spec=spec)

    found = planned(pods(blueprint.snapshot(), tied))
    assert found.groups[0].reason is reason
    assert len(found.evictions) == (1 if reason is not Reason.NOT_PREDICTABLE else 0)


def test_a_part_of_a_plan_is_about_the_workloads_asked_for() -> None:
    """What goes, what waits, what is refused and what was found out of them, and nothing of others."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 6, "b-1": 1}, spread={ZONE: 1})
    excluded = {"rebalancer.dev/exclude": "true"}
    last = {each.labels["app"]: each.uid for each in blueprint.snapshot().pods if each.node == "a-1"}
    snapshot = pods(
        blueprint.snapshot(),
        lambda pod: msgspec.structs.replace(pod, annotations=Labels(excluded)) if pod.uid in last.values() else pod,
    )
    whole = planned(snapshot, policy(budgets=Budgets(max_unavailable=Amount(value=1))))
    both = sorted({each.workload for each in whole.evictions})
    assert [each.name for each in both] == ["one", "two"]
    parts = [narrow_plan(whole, frozenset({each})) for each in both]
    for workload, part in zip(both, parts, strict=True):
        assert {each.workload for each in part.evictions} == {workload}
        assert {each.eviction.workload for each in part.waiting} == {workload}
        assert {each.workload for each in part.refusals} == {workload}
        assert {each for group in part.groups for each in group.workloads} == {workload}
    for of in ("evictions", "waiting", "refusals", "groups"):
        assert sum(len(getattr(part, of)) for part in parts) == len(getattr(whole, of)), of
    assert narrow_plan(whole, None) is whole
    assert narrow_plan(whole, frozenset(both)) == whole
    assert narrow_plan(whole, frozenset()).evictions == ()


def test_an_unread_object_stops_what_it_may_touch() -> None:
    """A budget or pod of the namespace that could not be read, or any node: nothing is evicted, and it is named."""
    snapshot = returned()
    for kind, namespace, stops in (
        ("PodDisruptionBudget", "shop", True),
        ("Pod", "other", False),
        ("Node", "", True),
    ):
        fault = Fault(kind=kind, namespace=namespace, name="broken", message="spec.x: y")
        found = planned(replace(snapshot, faults=(fault,)))
        assert bool(found.evictions) != stops
        if stops:
            assert found.groups[0].reason is Reason.NOT_PREDICTABLE
            assert "broken" in found.groups[0].message


def spread_by(snapshot: Snapshot, change: Callable[[SpreadConstraint], SpreadConstraint]) -> Snapshot:
    """Change the constraints of all pods."""

    def changed(pod: Pod) -> Pod:
        spread = tuple(change(each) for each in pod.spec.spread)
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, spread=spread))

    return pods(snapshot, changed)


def hostname_only(**fields: Any) -> Callable[[SpreadConstraint], SpreadConstraint]:
    return lambda each: msgspec.structs.replace(each, **fields) if each.topology_key == HOSTNAME else each


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
            lambda each: msgspec.structs.replace(each, selector=LabelSelector.of({"app": "web", "x": "y"})),
            Reason.NOT_PREDICTABLE,
        ),
    ],
)
def test_constraints_that_do_not_fit_together(
    change: Callable[[SpreadConstraint], SpreadConstraint], reason: Reason | None
) -> None:
    """Constraints that count different pods or nodes are planned together; not the workload's own, they are left."""
    snapshot = returned()
    tainted = nodes(
        snapshot,
        lambda node: (
            msgspec.structs.replace(node, taints=(Taint("t", TaintEffect.NO_SCHEDULE),)) if node.name == "b-2" else node
        ),
    )
    extra = tuple(
        msgspec.structs.replace(pod, uid=f"{pod.uid}x", owner=None, labels=Labels({"app": "web", "x": "y"}))
        for pod in snapshot.pods
    )
    found = planned(spread_by(replace(tainted, pods=(*tainted.pods, *extra)), change))
    group = next(each for each in found.groups if each.groups[0].group.members[0].owner is not None)
    assert group.reason is reason
    if reason is None:
        assert (group.evictions, group.optimal, bool(found.evictions)) == (8, True, True)


def test_one_node_a_zone_named_otherwise() -> None:
    """Where every node is a zone of its own, targets are named by the labels, not by the nodes."""
    blueprint = ClusterBuilder()
    for name, zone in (("n1", "a"), ("n2", "b")):
        blueprint.node(name, zone=zone)
    blueprint.deployment("web", on={"n1": 4}, spread={ZONE: 1, HOSTNAME: 1})
    snapshot = nodes(
        blueprint.snapshot(),
        lambda node: msgspec.structs.replace(node, labels=Labels({**node.labels, HOSTNAME: f"host-{node.name}"})),
    )
    found = planned(snapshot)
    assert {each.topology_key: each.values for each in found.evictions[0].targets} == {
        ZONE: ("b",),
        HOSTNAME: ("host-n2",),
    }
    assert found.groups[0].after == {ZONE: {"a": 2, "b": 2}, HOSTNAME: {"host-n1": 2, "host-n2": 2}}


def test_pods_of_a_lost_node() -> None:
    """While pods of a node that is gone are not replaced yet, nothing is planned on counts that leave them out."""
    snapshot = returned()
    without = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != "b-2"))
    found = planned(without)
    assert found.evictions == ()
    assert found.groups[0].reason is Reason.GROUP_IN_FLIGHT
    assert "b-2" in found.groups[0].message


def test_pods_of_an_unready_node_are_unavailable() -> None:
    """Pods on a node that is not Ready do not count as healthy, whatever they said last."""

    def failing(node: Node) -> Node:
        taint = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE)
        return msgspec.structs.replace(node, ready=False, taints=(taint,)) if node.name == "b-2" else node

    for snapshot in (nodes(returned(), failing), nodes(budgeted(max_unavailable=2), failing)):
        assert planned(snapshot, policy(budgets=Budgets(max_unavailable=Amount(value=3)))).evictions == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"ready": False, "ready_since": None}, Reason.NODE_SETTLING), ({"deleted": NOW}, Reason.NODE_LEAVING)],
)
def test_targets_that_are_none(change: dict[str, Any], reason: Reason) -> None:
    """A node that would be taken for a target and is not Ready, or is being deleted: nothing is sent its way."""
    found = planned(nodes(returned(), lambda n: msgspec.structs.replace(n, **change) if n.name == "c-1" else n))
    assert found.evictions == ()
    assert found.groups[0].reason is reason


def test_room_that_is_spoken_for() -> None:
    """The last free place is not promised while a pod waits for it, or is still to be created for it."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 2}, spread={ZONE: 1}, cpu=1000)
    blueprint.stateful_set("other", on={"a-1": 2}, cpu=1000)
    snapshot = nodes(
        blueprint.snapshot(),
        lambda n: (
            msgspec.structs.replace(n, allocatable=msgspec.structs.replace(n.allocatable, cpu=1000))
            if n.name == "b-1"
            else n
        ),
    )
    assert len(planned(snapshot).evictions) == 1
    last = next(pod for pod in snapshot.pods if pod.name == "other-1")
    waits = pods(snapshot, lambda pod: msgspec.structs.replace(pod, node=None, ready=False) if pod is last else pod)
    missing = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod is not last))
    alone = pods(waits, lambda pod: msgspec.structs.replace(pod, owner=None) if pod.uid == last.uid else pod)
    for taken in (waits, missing, alone):
        assert planned(taken).evictions == ()


def test_members_that_ask_for_different_ports() -> None:
    """Two owners under one selector of which one needs a host port are not planned as one."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("one", on={"a-1": 2}, spread={ZONE: 1})
    blueprint.deployment("two", on={"a-1": 2}, spread={ZONE: 1})

    def porting(pod: Pod) -> Pod:
        ports = (HostPort("0.0.0.0", "TCP", 80),)
        spec = msgspec.structs.replace(pod.spec, host_ports=ports)
        return msgspec.structs.replace(pod, spec=spec) if pod.name.startswith("two") else pod

    (group,) = planned(pods(sharing(blueprint.snapshot()), porting)).groups
    assert group.reason is Reason.NOT_PREDICTABLE


def test_pods_that_others_have_still_to_create() -> None:
    """An owner under the same selector that has pods to create is waited for: the counts will change."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("one", on={"a-1": 4}, spread={ZONE: 1})
    blueprint.deployment("two", on={"b-1": 1}, replicas=3, spread={ZONE: 2})
    found = planned(sharing(blueprint.snapshot()))
    one = next(group for group in found.groups if group.groups[0].group.workloads[0].name == "one")
    assert one.reason is Reason.GROUP_IN_FLIGHT


def test_keys_that_cross() -> None:
    """Keys of which neither divides the other are planned by the integer program."""
    blueprint = ClusterBuilder()
    for name, zone, rack in (("n1", "a", "1"), ("n2", "a", "2"), ("n3", "b", "1"), ("n4", "b", "2")):
        blueprint.node(name, zone=zone, rack=rack)
    blueprint.deployment("web", on={"n1": 3, "n2": 3}, spread={ZONE: 1, "rack": 1})
    (group,) = planned(blueprint.snapshot()).groups
    assert (group.reason, group.evictions, group.optimal) == (None, 3, True)


def test_a_key_above_shared_hosts() -> None:
    """Without a hostname constraint the nodes of a zone are interchangeable, and the plan still names them."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 2, "a-2": 2}, spread={ZONE: 1})
    found = planned(blueprint.snapshot())
    assert len(found.evictions) == 2
    assert [target.topology_key for target in found.evictions[0].targets] == [ZONE]
    assert set(found.groups[0].after) == {ZONE}


def test_selectors_that_count_nobody() -> None:
    """`{}` counts nobody on this version, so it is never violated; beside a real one it is left out."""
    snapshot = spread_by(returned(), hostname_only(selector=LabelSelector()))
    found = planned(snapshot)
    assert len(found.evictions) == 4
    assert planned(spread_by(returned(), lambda each: msgspec.structs.replace(each, selector=None))).groups == ()


def test_workloads_that_ask_for_different_things() -> None:
    """Two owners under one selector with different requests are planned together, as two kinds."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("one", on={"a-1": 4}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 4}, spread={ZONE: 1}, cpu=200)

    (group,) = planned(sharing(blueprint.snapshot())).groups
    assert (group.reason, len(group.workloads), group.evictions, group.optimal) == (None, 2, 4, True)


def test_a_waiting_pod_of_somebody_else() -> None:
    """While another workload's pod that counts has no node yet, nothing is planned on counts that will change."""
    snapshot = returned()
    bare = msgspec.structs.replace(snapshot.pods[0].spec, spread=())
    stranger = msgspec.structs.replace(
        snapshot.pods[0], uid="s", name="s", node=None, ready=False, owner=None, spec=bare
    )
    found = planned(replace(snapshot, pods=(*snapshot.pods, stranger)))
    assert found.evictions == ()
    assert Reason.GROUP_IN_FLIGHT in {group.reason for group in found.groups}


def test_a_gated_pod_of_its_own() -> None:
    """A pod that something else holds back is not counted on to be placed."""
    snapshot = returned()
    first = snapshot.pods[0]
    gated = msgspec.structs.replace(first, node=None, ready=False, spec=msgspec.structs.replace(first.spec, gated=True))
    found = planned(replace(snapshot, pods=(gated, *snapshot.pods[1:])))
    assert found.evictions == ()
    assert found.groups[0].reason is Reason.GROUP_IN_FLIGHT


def test_pods_on_their_way_may_bring_it_right() -> None:
    """Where the pods without a node are all that is missing, nothing is evicted."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 2}, replicas=3, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    waiting = [pod for pod in snapshot.pods if pod.node is None]
    assert len(waiting) <= 1
    found = planned(snapshot)
    assert found.evictions == ()
    assert {group.reason for group in found.groups} <= {Reason.GROUP_IN_FLIGHT, Reason.ROLLOUT_IN_PROGRESS}


def test_a_relabelled_pod_is_not_moved() -> None:
    """A pod whose labels no longer match is not counted, so moving it would repair nothing."""
    snapshot = returned()
    odd = snapshot.pods[0].uid
    relabelled = pods(
        snapshot,
        lambda pod: msgspec.structs.replace(pod, labels=Labels({"app": "other"})) if pod.uid == odd else pod,
    )
    found = planned(relabelled)
    assert odd not in {each.pod.uid for each in found.evictions}
    assert odd not in {each.pod for each in found.refusals}


def stateful(reach: dict[str, str]) -> Snapshot:
    """Put a StatefulSet of four on two of three zones, each pod with a volume that reaches the zones named for it."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    blueprint.stateful_set("db", on={"a-1": 1, "a-2": 1, "b-1": 1, "b-2": 1}, spread={ZONE: 1}, namespace="shop")
    snapshot = blueprint.snapshot()
    volumes, claims = [], []
    for pod in snapshot.pods:
        zones = tuple(sorted(reach.get(pod.name, "abc")))
        term = NodeSelectorTerm((SelectorRequirement(ZONE, Operator.IN, zones),))
        volumes.append(
            PersistentVolume(name=f"v-{pod.name}", node_affinity=(term,), claim=("shop", f"data-{pod.name}"))
        )
        claims.append(
            PersistentVolumeClaim(namespace="shop", name=f"data-{pod.name}", volume=f"v-{pod.name}", bound=True)
        )
    with_claims = pods(snapshot, lambda pod: msgspec.structs.replace(pod, claims=(f"data-{pod.name}",)))
    return replace(with_claims, volumes=tuple(volumes), claims=tuple(claims))


def test_volumes_that_reach_everywhere_tie_nobody() -> None:
    """Pods whose volumes follow them are moved like any other."""
    found = planned(stateful({}))
    assert len(found.evictions) == 1


def test_pinned_by_volumes() -> None:
    """Pods whose volumes keep them in their zone stay, and that is what the report says."""
    found = planned(stateful({"db-0": "a", "db-1": "a", "db-2": "b", "db-3": "b"}))
    assert found.evictions == ()
    assert (found.groups[0].state, found.groups[0].reason) == (State.UNFIXABLE, Reason.VOLUME_PINNED)
    some = planned(stateful({"db-0": "a", "db-1": "a"}))
    assert {each.pod.name for each in some.evictions} <= {"db-2", "db-3"}
    assert len(some.evictions) == 1


def test_a_missing_pod_with_volumes() -> None:
    """While a pod with volumes of its own is missing, nobody knows where its replacement can go."""
    snapshot = stateful({})
    found = planned(replace(snapshot, pods=snapshot.pods[1:]), policy(budgets=GENEROUS))
    assert found.evictions == ()


def test_volumes_that_were_not_read() -> None:
    """A pod with claims is left alone where volumes were not read."""
    found = planned(replace(stateful({}), unknown=frozenset({"PersistentVolume"})))
    assert found.evictions == ()
    assert {each.reason for each in found.refusals} == {Reason.NOT_PREDICTABLE}


@pytest.mark.parametrize(
    ("owner", "namespace", "named"),
    [
        ({"annotations": Labels({"rebalancer.dev/exclude": "true"})}, {}, "the ReplicaSet"),
        ({}, Labels({"rebalancer.dev/exclude": "true"}), "the namespace"),
    ],
)
def test_whole_workloads_are_excluded(owner: dict[str, Any], namespace: Labels, named: str) -> None:
    """An annotation on the owner or on the namespace excludes all its pods, and the message says where it is."""
    snapshot = owners(returned(), lambda each: msgspec.structs.replace(each, **owner))
    annotated = replace(snapshot, namespaces=(Namespace(name="shop", annotations=Labels(namespace)),))
    found = planned(annotated)
    assert found.evictions == ()
    assert {each.reason for each in found.refusals} == {Reason.EXCLUDED}
    why = f"{named} is annotated rebalancer.dev/exclude: true"
    assert [each.message for each in found.refusals if not each.message.endswith(why)] == []


@pytest.mark.parametrize(("excluded", "reason"), [(11, Reason.EXCLUDED), (5, Reason.OTHER_SCHEDULER)])
def test_what_ties_most_pods_is_the_reason(excluded: int, reason: Reason) -> None:
    """Where none may move and each has a reason of its own, the plan tells what most have in common, and how many."""
    snapshot = returned()
    other = msgspec.structs.replace(snapshot.pods[0].spec, scheduler="other")
    annotated = Labels({"rebalancer.dev/exclude": "true"})
    tied = [msgspec.structs.replace(pod, annotations=annotated) for pod in snapshot.pods[:excluded]]
    tied += [msgspec.structs.replace(pod, spec=other) for pod in snapshot.pods[excluded:]]
    (group,) = planned(replace(snapshot, pods=tuple(tied))).groups
    assert group.reason is reason
    assert group.message.startswith(f"{max(excluded, 12 - excluded)} pods stay where they are, ")


def test_others_decide() -> None:
    """Another scheduler's pods, pods with responders to their eviction, owners on their way out: left alone."""
    snapshot = returned()
    spec = snapshot.pods[0].spec
    other = msgspec.structs.replace(spec, scheduler="other")
    asked = msgspec.structs.replace(spec, eviction_responders=True)
    for changed, reason in (
        (pods(snapshot, lambda pod: msgspec.structs.replace(pod, spec=other)), Reason.OTHER_SCHEDULER),
        (pods(snapshot, lambda pod: msgspec.structs.replace(pod, spec=asked)), Reason.EXCLUDED),
        (
            owners(snapshot, lambda each: msgspec.structs.replace(each, deleted=snapshot.taken_at)),
            Reason.ROLLOUT_IN_PROGRESS,
        ),
    ):
        found = planned(changed)
        assert found.evictions == ()
        assert {each.reason for each in found.refusals} == {reason}


def test_one_old_pod_of_another_scheduler() -> None:
    """A pod that still names another scheduler stays; its siblings may go."""
    snapshot = returned()
    last = snapshot.pods[-1].uid
    other = msgspec.structs.replace(snapshot.pods[0].spec, scheduler="other")
    found = planned(pods(snapshot, lambda pod: msgspec.structs.replace(pod, spec=other) if pod.uid == last else pod))
    assert last not in {each.pod.uid for each in found.evictions}
    assert Reason.OTHER_SCHEDULER in {each.reason for each in found.refusals}


def test_karpenters_word() -> None:
    """`false` is no objection."""
    notes = Labels({"karpenter.sh/do-not-disrupt": "false"})
    assert len(planned(pods(returned(), lambda pod: msgspec.structs.replace(pod, annotations=notes))).evictions) == 4


def test_extended_resources_and_storage_are_room_too() -> None:
    """Room is the least of all resources that the pods ask for."""
    asks = Resources(cpu=1, memory=1, ephemeral_storage=10, extended=(("example.com/gpu", 1),))
    has = Resources(cpu=64_000, memory=2**40, ephemeral_storage=25, extended=(("example.com/gpu", 9),))
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 8}, spread={ZONE: 1})

    def asking(pod: Pod) -> Pod:
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, requests=asks), requests=asks)

    snapshot = nodes(
        pods(blueprint.snapshot(), asking),
        lambda n: msgspec.structs.replace(n, allocatable=has) if n.name == "b-1" else n,
    )
    (group,) = planned(snapshot).groups
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY), "storage for two, four must come"


def test_no_room_at_all_for_foreign_pods() -> None:
    """Where pods of others keep it wrong, that is said."""
    snapshot = returned()
    bare = msgspec.structs.replace(snapshot.pods[0].spec, spread=())
    foreign = tuple(
        msgspec.structs.replace(pod, uid=f"{pod.uid}f", name=f"{pod.name}f", owner=None, spec=bare, node="a-1")
        for pod in snapshot.pods
    )
    (group,) = planned(replace(snapshot, pods=(*snapshot.pods, *foreign))).groups
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NOT_EVICTABLE)
    assert "other workloads" in group.message


REGION = "topology.kubernetes.io/region"


def regions() -> ClusterBuilder:
    """Two regions of two zones of two nodes."""
    blueprint = ClusterBuilder()
    for zone in "abcd":
        for number in (1, 2):
            labels: dict[str, Any] = {REGION: "west" if zone in "ab" else "east"}
            blueprint.node(f"{zone}-{number}", zone=zone, **labels)
    return blueprint


def test_three_keys() -> None:
    """Region, zone and host are planned together: one divides the next."""
    blueprint = regions()
    blueprint.deployment("web", on={"a-1": 4, "b-1": 4}, spread={REGION: 1, ZONE: 1, HOSTNAME: 1})
    found = planned(blueprint.snapshot())
    assert found.groups[0].evictions == 6
    assert len(found.evictions) + len(found.waiting) > 0
    assert set(found.groups[0].after) == {REGION, ZONE, HOSTNAME}


def test_a_little_room_everywhere_is_too_little() -> None:
    """Where every domain has some room but not enough, that is said, whatever the level."""
    blueprint = regions()
    blueprint.deployment("web", on={"a-1": 8, "b-1": 8}, spread={REGION: 1, ZONE: 4, HOSTNAME: 9}, cpu=1000)
    snapshot = nodes(
        blueprint.snapshot(),
        lambda n: (
            msgspec.structs.replace(n, allocatable=msgspec.structs.replace(n.allocatable, cpu=1000))
            if n.name[0] in "cd"
            else n
        ),
    )
    (group,) = planned(snapshot).groups
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)
    assert "have no room for them" in group.message


def laid_out(counts: dict[str, list[int]], waiting: int, zone: int, host: int) -> Snapshot:
    """Put one Deployment on zones of nodes that hold so many pods, and let so many wait for a node."""
    blueprint = ClusterBuilder()
    on = {}
    for name, held in counts.items():
        blueprint.zones([name], len(held))
        on.update({f"{name}-{n}": number for n, number in enumerate(held, start=1) if number})
    blueprint.deployment("web", on=on, replicas=sum(on.values()) + waiting, spread={ZONE: zone, HOSTNAME: host})
    return owners(
        blueprint.snapshot(),
        lambda owner: msgspec.structs.replace(owner, current=owner.replicas, updated=owner.replicas, observed=True),
    )


def test_a_search_that_gave_up() -> None:
    """Where the scheduler has too many ways to go, nothing is begun, and that is why."""
    counts = {"a": [2, 3, 1, 0], "b": [1, 1, 5, 3, 3, 2], "c": [0, 5, 0, 1, 0], "d": [1, 0, 3, 0, 3]}
    (group,) = planned(laid_out(counts, 20, 2, 3)).groups
    assert (group.state, group.reason) == (State.UNFIXABLE, Reason.NOT_FORCED)
    assert "cut short" in group.message


def test_no_step_leads_on() -> None:
    """2,2 | 3,1,3 with both maxSkew 1 is two evictions from right, and none of them is sure to help."""
    found = planned(laid_out({"a": [2, 2], "b": [3, 1, 3]}, 0, 1, 1))
    (group,) = found.groups
    assert (group.state, group.reason, group.evictions) == (State.UNFIXABLE, Reason.UNREACHABLE, 2)
    assert found.evictions == ()


def test_waiting_pods_that_bring_it_right() -> None:
    """Where two pods without a node are all that is missing, they are waited for."""
    assert planned(laid_out({"a": [3], "b": [1]}, 0, 1, 4)).evictions
    found = planned(laid_out({"a": [3], "b": [1]}, 2, 1, 4))
    (group,) = found.groups
    assert (group.state, group.reason) == (State.VIOLATED, Reason.GROUP_IN_FLIGHT)
    assert "2 pods without a node" in group.message


def test_two_that_must_go_together() -> None:
    """A step that needs two at once waits whole where the budget has room for one, and goes where it has for two."""
    counts = {"a": [2], "b": [4, 1]}
    snapshot = laid_out(counts, 0, 2, 1)
    both = planned(snapshot)
    assert [each.needed for each in both.evictions] == [2, 2]
    one = planned(snapshot, policy(budgets=Budgets(max_unavailable=Amount(value=1), per_workload=Amount(value=9))))
    assert one.evictions == ()
    assert {each.reason for each in one.waiting} == {Reason.STEP_EXCEEDS_BUDGET}
    unready = snapshot.pods[0].uid
    busy = pods(snapshot, lambda pod: msgspec.structs.replace(pod, ready=pod.uid != unready))
    now = planned(busy, policy(budgets=Budgets(max_unavailable=Amount(value=2), per_workload=Amount(value=9))))
    assert now.evictions == ()
    assert {each.reason for each in now.waiting} == {Reason.BLOCKED_BY_BUDGET}


def test_a_disruption_budget_with_room_for_one_of_two() -> None:
    """What a budget granted to a step that cannot go whole is given back."""
    blueprint = ClusterBuilder()
    blueprint.zones("a", 1)
    blueprint.zones("b", 2)
    blueprint.deployment("web", on={"a-1": 2, "b-1": 4, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1})
    blueprint.budget("web", max_unavailable=1)
    found = planned(blueprint.snapshot())
    assert found.evictions == ()
    assert {each.reason for each in found.waiting} == {Reason.STEP_EXCEEDS_BUDGET}


def test_acting_on_nothing() -> None:
    """With `actOn: []` violations are reported and nothing is planned."""
    found = planned(returned(), policy(spread=Spread(act_on=())))
    assert found.evictions == ()
    assert found.groups[0].reason is Reason.EXCLUDED


def test_pods_that_wait_are_counted_in() -> None:
    """Two pods of zone a that wait for a node will fill the zone that came back: two evictions remain."""
    snapshot = returned()
    waiting = {next(pod.uid for pod in snapshot.pods if pod.node == node) for node in ("a-1", "a-2")}
    found = planned(
        pods(snapshot, lambda pod: msgspec.structs.replace(pod, node=None, ready=False) if pod.uid in waiting else pod)
    )
    assert found.groups[0].evictions == 2


def test_a_volume_that_dies_with_its_pod() -> None:
    """A pod with an ephemeral volume is left alone: where the new volume can be is not known."""
    snapshot = returned()
    last = snapshot.pods[-1]
    claim = PersistentVolumeClaim(namespace="shop", name="scratch", volume="v", bound=True, owner_uid=last.uid)
    tied = pods(snapshot, lambda pod: msgspec.structs.replace(pod, claims=("scratch",)) if pod.uid == last.uid else pod)
    found = planned(replace(tied, claims=(claim,), volumes=(PersistentVolume(name="v"),)))
    assert last.uid not in {each.pod.uid for each in found.evictions}
    assert {each.reason for each in found.refusals if each.pod} == {Reason.NOT_PREDICTABLE}


def test_groups_that_count_each_others_pods_are_planned_together() -> None:
    """The number is the minimum for both, and each eviction of the step is good for both."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("one", on={"a-1": 6}, spread={ZONE: 1})
    blueprint.deployment("two", on={"a-1": 4}, spread={ZONE: 2})

    def same(pod: Pod) -> Pod:
        spread = tuple(
            msgspec.structs.replace(each, selector=LabelSelector.of({"both": "y"})) for each in pod.spec.spread
        )
        spec = msgspec.structs.replace(pod.spec, spread=spread)
        return msgspec.structs.replace(pod, spec=spec, labels=Labels({**pod.labels, "both": "y"}))

    found = planned(sharing(blueprint.snapshot()))
    (group,) = found.groups
    assert (group.evictions, group.optimal, len(group.workloads)) == (5, True, 2)
    assert found.evictions
