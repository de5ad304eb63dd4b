"""Small clusters and policies for the planner's tests, and what is planned for them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.engine import evaluate
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.model.nodes import Node
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.case import ComponentContext, Decision
from rebalancer.planning.decision import decide
from rebalancer.planning.formulation import ProblemBuilder
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.planning.planner import plan
from rebalancer.planning.problem.protocol import Problem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import CapacityIndex
from rebalancer.planning.scope.components import find_components
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchBudget, SearchLimits
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, a_policy, change_specs, with_cpu, without_node
from tests.planning.states import CACHE, LIMITS
from tests.scheduling.build import NOW, spread

EVICTING = """
mode: Evict
budgets: {maxUnavailable: 100%, perWorkload: 100%}
eligibility: {minAge: 0s}
nodes: {settle: 0s}
"""


def policy(text: str = "") -> Policy:
    return a_policy(EVICTING + text)


def limit(bound: str, *, key: str = HOSTNAME, more: str = "", group: str = "selector: {}") -> str:
    """Write a group with one limit; `more` are further fields of the limit, `group` those of the group."""
    rule = f"{{name: l, topologyKey: {key}, {bound}, action: Evict{more}}}"
    return f"groups: [{{name: g, {group}, limits: [{rule}]}}]"


def planned(
    snapshot: Snapshot, rules: Policy | None = None, memory: Memory = NO_MEMORY, limits: SearchLimits | None = None
) -> Plan:
    rules = rules or policy()
    evaluation = evaluate(snapshot, rules, memory=memory)
    if limits is None:
        return evaluation.plan
    return plan(evaluation.view, evaluation.assessment, rules, memory, limits)


def together(app: str, spec: PodSpec) -> PodSpec:
    """Let all constraints count every pod of the cluster `r`."""
    del app
    selector = LabelSelector.of({"cluster": "r"})
    return structs.replace(
        spec, spread=tuple(structs.replace(constraint, selector=selector) for constraint in spec.spread)
    )


def shards(places: Mapping[str, list[str | None]], *, node: int = 1) -> Snapshot:
    """Return six nodes in three zones with StatefulSets of two that keep apart; a pod at None waits."""
    blueprint = ClusterBuilder()
    for number, name in enumerate("aabbcc", start=1):
        blueprint.node(f"n{number}", zone=name)
    for shard, on in places.items():
        held = [place for place in on if place is not None]
        blueprint.stateful_set(shard, on=dict.fromkeys(held, 1), spread={ZONE: 2, HOSTNAME: node}, replicas=2)

    def tied(app: str, spec: PodSpec) -> PodSpec:
        term = PodAffinityTerm(topology_key=ZONE, selector=LabelSelector.of({"app": app}))
        return structs.replace(together(app, spec), pod_affinity=PodAffinity(anti_required=(term,)))

    snapshot = change_specs(blueprint.snapshot(), tied, cluster="r")
    late = []
    for shard, on in places.items():
        standing = [pod for pod in snapshot.pods if pod.labels["app"] == shard]
        for number in range(len(standing), len(on)):
            name = f"{shard}-{number}"
            own = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": f"{number}"}
            labels = Labels({**standing[0].labels, **own})
            created = snapshot.taken_at - timedelta(minutes=1)
            late.append(without_node(standing[0], name, labels=labels, created=created))
    return replace(snapshot, pods=(*snapshot.pods, *late))


DEADLOCK: dict[str, list[str | None]] = {"s0": ["n1", "n3"], "s1": ["n4", "n2"], "s2": ["n6", None]}


def softly(snapshot: Snapshot) -> Snapshot:
    """Add a soft hostname constraint."""

    def add(app: str, spec: PodSpec) -> PodSpec:
        soft = spread(HOSTNAME, soft=True, selects=LabelSelector.of({"app": app}))
        return structs.replace(spec, spread=(*spec.spread, soft))

    return change_specs(snapshot, add)


def on_one_node(**fields: Any) -> Snapshot:
    """Return four pods on one of two zones' nodes; the fields are the ReplicaSet's."""
    snapshot = a_cluster("ab", 1, {"a-1": 4}, spread={ZONE: 1}).snapshot()
    return replace(snapshot, workloads=tuple(structs.replace(owner, **fields) for owner in snapshot.workloads))


def cause_of(group: ComponentPlan) -> Fact:
    """Return why a component is not repaired, or not further now."""
    assert group.refusal is not None
    return group.refusal


def two_classes(**fields: Any) -> ClusterBuilder:
    """Return two workloads of different size, six pods on one of four nodes; the fields are the second one's."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=200, **fields)
    return blueprint


def crowded(priority: int = 0, *, cpu: int = 150) -> Snapshot:
    """Return three pods of a priority in zone a, one in b, and in c a node that is full of another workload."""
    blueprint = a_cluster("abc", 1, {"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=100, priority=priority)
    blueprint.deployment("other", on={"c-1": 1}, cpu=100)
    return with_cpu(blueprint.snapshot(), cpu, "c-1")


def joined(blueprint: ClusterBuilder) -> Snapshot:
    """Return the cluster with all workloads under one selector."""
    return change_specs(blueprint.snapshot(), together, cluster="r")


def labelled(name: str, labels: dict[str, str]) -> Node:
    return Node(name=name, labels=Labels({HOSTNAME: name, **labels}), created=NOW, ready_since=NOW - timedelta(days=1))


def first_problem(
    snapshot: Snapshot, rules: Policy | None = None, *, stuck: frozenset[str] = frozenset(), cache: SearchCache = CACHE
) -> tuple[View, Problem | Refusal]:
    """Return the view and the first component's problem; `stuck` are the UIDs of pods that wait in vain."""
    view, rules = View(snapshot), rules or policy()
    assessment = assess(view, rules, NO_MEMORY)
    ledger = BudgetLedger(view, rules, NO_MEMORY)
    component = find_components(assessment, stuck, rules.spread.act_on)[0]
    problem = ProblemBuilder(view, rules, ledger, CapacityIndex(view), cache).problem(component)
    assert problem is not None
    return view, problem


def decided(problem: Problem, view: View, *, lookahead: int = LIMITS.lookahead_nodes_of_plan, **known: Any) -> Decision:
    """Decide about a problem under budgets that allow everything; `known` are further fields of its context."""
    context = ComponentContext(
        lookahead=SearchBudget(lookahead),
        quick=SearchBudget(LIMITS.quick_nodes_of_plan),
        contingent=SearchBudget(LIMITS.contingent_states_of_plan),
        **known,
    )
    return decide(problem, view, context, BudgetLedger(view, policy(), NO_MEMORY), LIMITS)
