"""Random components of several pod classes, as plain facts from which the cluster is built.

The oracle reads the facts, the planner reads the cluster.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from msgspec import structs

from rebalancer.assessment.assess import Assessment, assess
from rebalancer.model.affinity import NodeSelectorTerm, PodAffinity, PodAffinityTerm
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.planning.formulation import ProblemBuilder
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.problem.protocol import Problem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import CapacityIndex
from rebalancer.planning.scope.components import find_components, stuck_pods
from rebalancer.planning.search.cache import SearchCache
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_policy
from tests.planning.states import CACHE

POLICY = """
mode: Evict
budgets: {maxUnavailable: 100%, perWorkload: 100%}
eligibility: {minAge: 0s, minReplicas: 1}
nodes: {settle: 0s}
"""


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """One constraint: at most `max_skew` between the domains of `key`, of pods with `label`."""

    key: str
    max_skew: int
    label: str
    min_domains: int = 1


@dataclass(frozen=True, kw_only=True)
class Work:
    """One StatefulSet: what a pod requests, its labels, where its pods are, how many have no node.

    Of the pods with the label `apart` at most one may be in a domain of `apart_by`. `only` are the zones that its
    node affinity names; empty for any.
    """

    name: str
    cpu: int
    labels: frozenset[str]
    on: Mapping[str, int]
    missing: int = 0
    constraints: tuple[Constraint, ...] = ()
    apart: str = ""
    apart_by: str = ZONE
    only: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Nodes by name (zone, cpu), workloads, and limits (label, key, most pods)."""

    nodes: Mapping[str, tuple[str, int]]
    works: tuple[Work, ...]
    limits: tuple[tuple[str, str, int], ...] = field(default=())

    def domain(self, node: str, key: str) -> str:
        return self.nodes[node][0] if key == ZONE else node

    def policy(self) -> Policy:
        """Return the policy with the limits, every one of them acted on."""
        groups = [
            f"{{name: g{number}, selector: {{matchLabels: {{{label}: 'yes'}}}}, groupBy: [{label}], "
            f"limits: [{{name: most, topologyKey: {key}, maxPods: {most}, action: Evict}}]}}"
            for number, (label, key, most) in enumerate(self.limits)
        ]
        return a_policy(f"{POLICY}groups: [{', '.join(groups)}]\n")

    def snapshot(self) -> Snapshot:
        """Build the cluster."""
        blueprint = ClusterBuilder()
        for name, (zone, cpu) in self.nodes.items():
            blueprint.node(name, cpu=cpu, zone=zone)
        works = {work.name: work for work in self.works}
        for work in self.works:
            replicas = sum(work.on.values()) + work.missing
            blueprint.stateful_set(work.name, on=work.on, replicas=replicas, cpu=work.cpu)
        made = blueprint.snapshot()

        def change_pod(pod: Pod) -> Pod:
            work = works[pod.labels["app"]]
            return structs.replace(pod, spec=_spec(work, pod.spec), labels=_labels(work, pod.labels))

        def change_owner(owner: Any) -> Any:
            work = works[owner.name]
            template = owner.template
            template = structs.replace(template, spec=_spec(work, template.spec), labels=_labels(work, template.labels))
            return structs.replace(owner, template=template)

        return replace(made, pods=tuple(map(change_pod, made.pods)), workloads=tuple(map(change_owner, made.workloads)))


def _labels(work: Work, labels: Labels) -> Labels:
    return Labels({**labels, **dict.fromkeys(sorted(work.labels), "yes")})


def _spec(work: Work, spec: PodSpec) -> PodSpec:
    spread = tuple(
        SpreadConstraint(
            topology_key=constraint.key,
            max_skew=constraint.max_skew,
            min_domains=constraint.min_domains,
            when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
            selector=LabelSelector.of({constraint.label: "yes"}),
        )
        for constraint in work.constraints
    )
    apart: tuple[PodAffinityTerm, ...] = ()
    if work.apart:
        apart = (PodAffinityTerm(topology_key=work.apart_by, selector=LabelSelector.of({work.apart: "yes"})),)
    affinity = spec.node_affinity
    if work.only:
        zones = SelectorRequirement(key=ZONE, operator=Operator.IN, values=tuple(sorted(work.only)))
        affinity = structs.replace(affinity, required=(NodeSelectorTerm((zones,)),))
    return structs.replace(spec, spread=spread, node_affinity=affinity, pod_affinity=PodAffinity(anti_required=apart))


def limited_alone() -> tuple[Snapshot, Policy]:
    """Return four pods in the zone of two nodes, none in the other, and a limit's maxSkew 1 over zones."""
    work = Work(name="web", cpu=100, labels=frozenset({"all"}), on={"a1": 2, "a2": 2})
    scene = Scene(nodes={"a1": ("a", 4000), "a2": ("a", 4000), "b1": ("b", 4000)}, works=(work,))
    limit = f"{{name: l, topologyKey: {ZONE}, maxSkew: 1, action: Evict}}"
    return scene.snapshot(), a_policy(f"{POLICY}groups: [{{name: g, selector: {{}}, limits: [{limit}]}}]")


def problems(
    snapshot: Snapshot, policy: Policy, cache: SearchCache = CACHE, namespaces: Collection[str] = ()
) -> list[Problem | Refusal]:
    """Return what the planner makes of a cluster: a problem, or a refusal, for each component to repair.

    `namespaces` are those with something to be repaired.
    """
    view = View(snapshot)
    assessment: Assessment = assess(view, policy, NO_MEMORY)
    ledger = BudgetLedger(view, policy, NO_MEMORY, assessment.pod_groups)
    builder = ProblemBuilder(view, policy, ledger, CapacityIndex(view), cache, namespaces=namespaces)
    components = find_components(assessment, stuck_pods(view), policy.spread.act_on)
    made = (builder.problem(component) for component in components)
    return [problem for problem in made if problem is not None]


def multi_class_problems(snapshot: Snapshot, policy: Policy, cache: SearchCache = CACHE) -> list[MultiClassProblem]:
    """Return the problems of several pod classes among them."""
    return [problem for problem in problems(snapshot, policy, cache) if isinstance(problem, MultiClassProblem)]


def several_classes(choice: Random) -> Scene:
    """Draw a small component: unequal requests, overlapping selectors, shards apart by zone, caps, scarce capacity."""
    zones = choice.randint(2, 3)
    nodes = {
        f"n{zone}{number}": (f"z{zone}", choice.choice([500, 1000, 2000, 16_000]))
        for zone in range(zones)
        for number in range(choice.randint(1, 3))
    }
    names = list(nodes)
    free = {name: cpu for name, (_, cpu) in nodes.items()}
    labels = ["all", "one", "two"]
    works = []
    for number in range(choice.randint(2, 4)):
        cpu = choice.choice([100, 200, 300, 700])
        shard = choice.random() < 0.4
        on: dict[str, int] = {}
        held: set[str] = set()
        for _ in range(choice.randint(1, min(zones, 3) if shard else 4)):
            open_ = [name for name in names if free[name] >= cpu and not (shard and nodes[name][0] in held)]
            if open_:
                name = choice.choice(open_[: max(1, len(open_) // choice.randint(1, 2))])
                on[name] = on.get(name, 0) + 1
                free[name] -= cpu
                held.add(nodes[name][0])
        if not on:
            continue
        mine = {"all", *(label for label in labels[1:] if choice.random() < 0.5), f"w{number}"}
        constraints = {
            key: Constraint(
                key=key,
                max_skew=choice.choice([1, 1, 2]),
                label=choice.choice(sorted(mine)) if choice.random() < 0.5 else "all",
                min_domains=choice.choice([1, 1, 1, 4]) if key == ZONE else 1,
            )
            for key in (ZONE, HOSTNAME)
            if choice.random() < 0.7
        }
        works.append(
            Work(
                name=f"w{number}",
                cpu=cpu,
                labels=frozenset(mine),
                on=on,
                missing=choice.choice([0, 0, 0, 1]),
                constraints=tuple(constraints.values()),
                apart=f"w{number}" if shard else "",
                only=frozenset(nodes[name][0] for name in on) if choice.random() < 0.15 else frozenset(),
            )
        )
    total = sum(sum(work.on.values()) + work.missing for work in works)
    limits = []
    # A limit out of reach has another goal than its number: not where affinity leaves it fewer domains.
    if choice.random() < 0.5 and works and not any(work.only for work in works):
        key = choice.choice([ZONE, HOSTNAME])
        many = zones if key == ZONE else len(names)
        limits.append(("all", key, -(-total // many) + choice.choice([0, 0, 1])))
    return Scene(nodes=nodes, works=tuple(works), limits=tuple(limits))
