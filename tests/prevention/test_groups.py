"""From a cluster to groups and rules, and what reports say of them."""

from dataclasses import replace

from msgspec import structs

from rebalancer.assessment.assess import Assessment, assess
from rebalancer.model.cluster import Autoscaler
from rebalancer.model.deletion_costs import DELETION_COST, SURGE_COST
from rebalancer.model.labels import Labels
from rebalancer.model.motion import NodeChange, NodeEvent
from rebalancer.model.moves import NO_MEMORY, Memory, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.scope.bounds import Bound
from rebalancer.policy import Policy
from rebalancer.prevention.findings import find_risks
from rebalancer.prevention.groups import PodGroup, find_pod_groups
from rebalancer.prevention.plan import Unsteered, evaluate_groups
from rebalancer.prevention.summary import explain_scale_downs
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster, a_policy

ON = {"a-1": 2, "a-2": 2, "b-1": 2, "b-2": 2, "c-1": 2, "c-2": 2}


def policy(mode: str = "Steer", limits: str = "[]") -> Policy:
    return a_policy(f"prevention: {{scaleDown: {mode}}}\ngroups: [{{name: all, selector: {{}}, limits: {limits}}}]")


def web(kind: str = "Deployment") -> Snapshot:
    blueprint = a_cluster("abc", 2)
    add = blueprint.stateful_set if kind == "StatefulSet" else blueprint.deployment
    add("web", on=ON, spread={ZONE: 1, HOSTNAME: 1})
    return blueprint.snapshot()


def groups(snapshot: Snapshot, rules: Policy) -> list[PodGroup]:
    view = View(snapshot)
    return list(find_pod_groups(view, assess(view, rules, NO_MEMORY), rules, NO_MEMORY))


def test_the_rules_are_the_hard_constraints_the_largest_domains_first() -> None:
    (group,) = groups(web(), policy())
    assert [rule.topology_key for rule in group.problem.rules] == [ZONE, HOSTNAME]
    assert all(bound == Bound(max_skew=1) for rule in group.problem.rules for bound in rule.bounds)
    assert group.settled


def test_pods_that_are_not_ready_have_no_place_in_the_order() -> None:
    snapshot = web()
    pods = [structs.replace(snapshot.pods[0], ready=False), *snapshot.pods[1:]]
    (group,) = groups(replace(snapshot, pods=tuple(pods)), policy())
    assert group.problem.size == 11
    assert not group.settled


def test_pods_on_a_node_with_another_label_a_moment_ago_are_not_settled() -> None:
    """The order waits as in a rollout: a wrong label would say which pods a scale-down deletes."""
    view, rules = View(web()), policy()
    for name, event, settled in (
        ("a-1", NodeEvent.RELABELLED, False),
        ("a-1", NodeEvent.UNCORDONED, True),
        ("d-1", NodeEvent.RELABELLED, True),
    ):
        memory = Memory(node_changes=(NodeChange(view.snapshot.taken_at, name, event, ZONE, "b"),))
        (group,) = find_pod_groups(view, assess(view, rules, memory), rules, memory)
        assert group.settled is settled


def test_a_limit_depends_on_how_many_pods_remain() -> None:
    """A share is of what remains, and a limit for up to six pods begins when six remain."""
    limits = (
        f'[{{name: half, topologyKey: {ZONE}, maxShare: "<=1/2"}}, '
        f'{{name: few, when: {{total: "<=6"}}, topologyKey: {ZONE}, maxPods: 2}}]'
    )
    (group,) = groups(web(), policy(limits=limits))
    half, few = (rule for rule in group.problem.rules if rule.bounds[4] != Bound(max_skew=1))
    assert [bound and bound.cap for bound in half.bounds] == [None, *(remaining // 2 for remaining in range(1, 13))]
    assert [bound and bound.cap for bound in few.bounds] == [None, *[2] * 6, *[None] * 6]


def test_an_autoscaler_says_where_the_night_ends() -> None:
    """The pods of two zones are younger, so they are likely to go first: four of one zone remain, not three."""
    snapshot = web()
    young = [
        structs.replace(pod, ready_since=snapshot.taken_at) if pod.node and not pod.node.startswith("a") else pod
        for pod in snapshot.pods
    ]
    autoscaler = Autoscaler(
        namespace="default", name="web", target_kind="Deployment", target_name="web", min_replicas=4
    )
    snapshot = replace(snapshot, pods=tuple(young), autoscalers=(autoscaler,))
    rules, view = policy("Observe"), View(snapshot)
    results = list(evaluate_groups(view, assess(view, rules, NO_MEMORY), rules, NO_MEMORY, snapshot.taken_at))
    risks = {risk.after: risk for risk in find_risks(results, view, rules)}
    assert risks[4].before == 12
    assert (risks[4].topology_key, risks[4].domain, risks[4].held) == (ZONE, "a", 4)
    assert 3 not in risks
    to_zero = View(replace(snapshot, autoscalers=(structs.replace(autoscaler, min_replicas=0),)))
    assert {risk.after for risk in find_risks(results, to_zero, rules)} == set(risks) - {4}, "of none, none is skewed"
    without = View(replace(snapshot, autoscalers=()))
    assert 3 in {risk.after for risk in find_risks(results, without, rules)}


def test_a_foreign_cost_leaves_the_workload_alone_and_is_reported() -> None:
    snapshot = web()
    pods = [structs.replace(snapshot.pods[0], annotations=Labels({DELETION_COST: "5"})), *snapshot.pods[1:]]
    view, rules = View(replace(snapshot, pods=tuple(pods))), policy()
    assessment = assess(view, rules, NO_MEMORY)
    (result,) = evaluate_groups(view, assessment, rules, NO_MEMORY, snapshot.taken_at)
    assert result.unsteered is Unsteered.FOREIGN
    assert result.patches == ()
    (answer,) = explain_scale_downs(Reference("default", "Deployment", "web"), view, assessment, rules)
    assert "somebody else has set" in answer.evidence


def test_a_workload_is_left_alone_while_one_of_its_pods_is_marked_by_a_surge() -> None:
    snapshot, rules = web(), policy()
    (before,) = evaluate_groups(*_assess(snapshot, rules), rules, NO_MEMORY, snapshot.taken_at)
    assert before.patches
    pods = [structs.replace(snapshot.pods[0], own_deletion_cost=SURGE_COST), *snapshot.pods[1:]]
    view, assessment = _assess(replace(snapshot, pods=tuple(pods)), rules)
    (result,) = evaluate_groups(view, assessment, rules, NO_MEMORY, snapshot.taken_at)
    assert (result.unsteered, result.patches) == (Unsteered.SURGING, ())
    (answer,) = explain_scale_downs(Reference("default", "Deployment", "web"), view, assessment, rules)
    assert "waits for the end of a surge" in answer.evidence


def _assess(snapshot: Snapshot, rules: Policy) -> tuple[View, Assessment]:
    view = View(snapshot)
    return view, assess(view, rules, NO_MEMORY)


def test_a_stateful_set_is_not_steered_and_the_numbers_that_stay_spread_are_named() -> None:
    """Two pods of each node in the order of the ordinals: only one pod, or all, are spread."""
    snapshot, rules = web("StatefulSet"), policy()
    assert groups(snapshot, rules) == []
    view = View(snapshot)
    reference = Reference("default", "StatefulSet", "web")
    (answer,) = explain_scale_downs(reference, view, assess(view, rules, NO_MEMORY), rules)
    assert answer.answer == "the pods with the lowest ordinals; with 1, 11 replicas they are spread"
    assert "deletes the highest ordinals first" in answer.evidence


def test_nothing_is_reported_with_off() -> None:
    view, rules = View(web()), policy("Off")
    assessment = assess(view, rules, NO_MEMORY)
    assert list(evaluate_groups(view, assessment, rules, NO_MEMORY, view.snapshot.taken_at)) == []
    assert list(explain_scale_downs(Reference("default", "Deployment", "web"), view, assessment, rules)) == []
