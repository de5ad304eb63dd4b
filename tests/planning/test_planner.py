"""The plan of a snapshot: who goes, who waits, who stays, each with its reason."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from rebalancer.adapters.simulator import HOSTNAME, ZONE, Blueprint
from rebalancer.assessment.judgement import assess
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, Taint, TaintEffect
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY, Memory, Move, Reference
from rebalancer.model.nodes import Node
from rebalancer.model.pods import OwnerReference, Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.verdicts import Cause, Reason, State
from rebalancer.model.workloads import Workload
from rebalancer.planning.planner import plan
from rebalancer.planning.plans import Plan, narrowed
from rebalancer.policy import Amount, Budgets, Policy
from rebalancer.policy.sections import Eligibility, Nodes
from rebalancer.scheduling.view import View
from tests.controller.simulated import eager

GENEROUS = Budgets(max_unavailable=Amount(value=100), per_workload=Amount(value=100))


def policy(**changes: Any) -> Policy:
    return eager(**{"budgets": GENEROUS, **changes})


def returned(**fields: Any) -> Snapshot:
    """Twelve pods on two of three zones of two nodes."""
    blueprint = Blueprint()
    blueprint.zones("abc", 2)
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1}, namespace="shop", **fields)
    return blueprint.snapshot()


def planned(snapshot: Snapshot, rules: Policy | None = None, memory: Memory = NO_MEMORY) -> Plan:
    view = View(snapshot)
    return plan(view, assess(view), rules or policy(), memory)


def pods(snapshot: Snapshot, change: Callable[[Pod], Pod]) -> Snapshot:
    return replace(snapshot, pods=tuple(change(pod) for pod in snapshot.pods))


def nodes(snapshot: Snapshot, change: Callable[[Node], Node]) -> Snapshot:
    return replace(snapshot, nodes=tuple(change(node) for node in snapshot.nodes))


def owners(snapshot: Snapshot, change: Callable[[Workload], Workload]) -> Snapshot:
    return replace(snapshot, workloads=tuple(change(owner) for owner in snapshot.workloads))


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
    blueprint = Blueprint()
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
    blueprint = Blueprint()
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
    move = Move(
        uid="other",
        namespace="shop",
        pod="x",
        node="a-1",
        workload=Reference("shop", "Deployment", "web"),
        owner_uid="",
        cause=Cause.SKEW_VIOLATED,
        asked_at=snapshot.taken_at,
        changed_at=snapshot.taken_at,
    )
    rules = policy(budgets=Budgets(max_unavailable=Amount(value=9), per_workload=Amount(value=3)))
    assert len(planned(snapshot, rules, Memory(moves=(move,))).evictions) == 2


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
    found = planned(pods(returned(), lambda pod: msgspec.structs.replace(pod, owner=None)))
    assert found.evictions == ()
    assert {each.reason for each in found.refusals} == {Reason.NOT_EVICTABLE}


def test_a_daemon_set() -> None:
    """A DaemonSet's pods belong to their nodes."""
    owner = OwnerReference(group="apps", kind="DaemonSet", name="d", uid="d")
    found = planned(pods(returned(), lambda pod: msgspec.structs.replace(pod, owner=owner)))
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
    blueprint = Blueprint()
    blueprint.zones("ab", 1)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 4}, spread={ZONE: 1}, cpu=1000)
    snapshot = nodes(
        blueprint.snapshot(),
        lambda n: (
            msgspec.structs.replace(n, allocatable=msgspec.structs.replace(n.allocatable, cpu=3000))
            if n.name == "b-1"
            else n
        ),
    )
    found = planned(snapshot)
    assert {each.workload.name for each in found.evictions} == {"one"}
    assert len(found.evictions) == 2


def test_arithmetic() -> None:
    """What no arrangement can satisfy is Infeasible, with the nearest numbers that would do."""
    blueprint = Blueprint()
    blueprint.zones("a", 1)
    blueprint.zones("b", 3)
    blueprint.deployment("web", on={"a-1": 2, "b-1": 4, "b-2": 1, "b-3": 1}, spread={ZONE: 1, HOSTNAME: 1})
    (group,) = planned(blueprint.snapshot()).groups
    assert (group.state, group.reason) == (State.INFEASIBLE, Reason.NO_ARRANGEMENT)
    assert "would do" in group.message


def test_too_few_domains() -> None:
    """With fewer domains than minDomains each may hold maxSkew at the most."""
    blueprint = Blueprint()
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
    blueprint = Blueprint()
    blueprint.zones("ab", 1)
    blueprint.deployment("one", on={"a-1": 4}, spread={ZONE: 1})
    blueprint.deployment("two", on={"b-1": 4}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()

    def same(pod: Pod) -> Pod:
        selector = LabelSelector.of({"both": "yes"})
        spread = tuple(msgspec.structs.replace(each, selector=selector) for each in pod.spec.spread)
        spec = msgspec.structs.replace(pod.spec, spread=spread)
        return msgspec.structs.replace(pod, spec=spec, labels=Labels({**pod.labels, "both": "yes"}))

    assert planned(pods(snapshot, same)).groups == ()
    assert len(planned(snapshot).groups) == 2


@pytest.mark.parametrize(
    ("affinity", "foreseen"),
    [
        ({"anti_required": HOSTNAME}, True),
        ({"anti_required": ZONE}, False),
        ({"required": ZONE}, False),
    ],
)
def test_affinity_to_pods(affinity: dict[str, str], foreseen: bool) -> None:
    """Keeping off each other's nodes is counted; affinity that moves with every placement is left alone."""
    blueprint = Blueprint()
    blueprint.zones("abc", 3)
    blueprint.deployment("web", on={"a-1": 1, "a-2": 1, "a-3": 1, "b-1": 1}, spread={ZONE: 1})
    ((kind, key),) = affinity.items()
    term = PodAffinityTerm(topology_key=key, selector=LabelSelector.of({"app": "web"}))

    tied_by = {"anti_required": PodAffinity(anti_required=(term,)), "required": PodAffinity(required=(term,))}

    def tied(pod: Pod) -> Pod:
        spec = msgspec.structs.replace(pod.spec, pod_affinity=tied_by[kind])
        return msgspec.structs.replace(pod, spec=spec)

    found = planned(pods(blueprint.snapshot(), tied))
    if foreseen:
        assert len(found.evictions) == 1
    else:
        assert found.groups[0].reason is Reason.NOT_PREDICTABLE


def test_narrowed() -> None:
    """A plan can be cut down to chosen workloads."""
    found = planned(returned())
    assert narrowed(found, None) is found
    assert narrowed(found, frozenset()).evictions == ()
    assert narrowed(found, frozenset({Reference("shop", "Deployment", "web")})) == found
