"""The sizes without a placement of the workloads of a cluster: what is counted where, and what may change by itself.

Evaluated are workloads with one or two hard constraints that nest and count the same pods, theirs among them. Nodes
that are cordoned or not Ready take pods again some day; while they do not count, nothing is said. Capacity, affinity
between pods and volumes are left out: they can only forbid more.

Where an autoscaler may add nodes, the number of nodes decides nothing: only constraints over zones are evaluated then,
and none of which a domain without nodes may get some. An autoscaler is known by NodePools, by the marks that Karpenter
and the cluster-autoscaler leave on nodes, by a workload that is called so, and by `capacity.mode` of the policy.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from rebalancer.assessment.known_domains import DomainKnowledge, NodeNeeds
from rebalancer.assessment.sizes.changes import SizeNames, find_change, find_forbidding
from rebalancer.assessment.sizes.layout import (
    NO_RULE,
    Filling,
    Rule,
    SizeProblem,
    SizeVerdict,
    Zone,
    evaluate_sizes,
    list_sizes,
)
from rebalancer.assessment.spread_groups import SpreadGroup
from rebalancer.model.affinity import Toleration
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME, NODE_POOL, TO_BE_REMOVED
from rebalancer.model.words import plural, short_key
from rebalancer.model.workloads import reference_of
from rebalancer.policy import Policy
from rebalancer.policy.capacity import CapacityMode
from rebalancer.scheduling.node_index import required_part
from rebalancer.scheduling.pod_topology_spread import Counts
from rebalancer.scheduling.spread_constraints import Origin
from rebalancer.scheduling.view import View
from rebalancer.tracking.zones import is_node_key

MOST_SIZES: Final = 1_000
"""Larger sizes are not evaluated."""

_PASSING: Final = ("unschedulable", "not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure")
_TOLERATED: Final = tuple(Toleration(key=f"node.kubernetes.io/{name}", operator="Exists") for name in _PASSING)
"""Taints that come and go."""

_AUTOSCALERS: Final = ("cluster-autoscaler", "karpenter")
"""What the names of workloads that add nodes contain."""


class WorkloadSizes(Struct, frozen=True, kw_only=True, gc=False):
    """The sizes of one workload from `first` to `last` that have no placement, or none that pods reach one by one.

    `autoscaler` is the HorizontalPodAutoscaler that may choose these sizes, "" without. `forbidding` are the
    constraints, `change` the smallest change after which no such size is left, "" where there are none, or none is
    enough.
    """

    workload: Reference
    autoscaler: str
    first: int
    last: int
    verdict: SizeVerdict
    forbidding: tuple[str, ...] = ()
    change: str = ""

    def __str__(self) -> str:
        """Name the autoscaler, the sizes, the constraints, and the change."""
        impossible, unreachable = (list_sizes(sizes) for sizes in self.verdict)
        parts = [f"no placement of {impossible} satisfies its hard constraints"] if impossible else []
        if unreachable:
            parts.append(f"pods that are placed one by one do not reach {unreachable} from where they are now")
        who = f"HorizontalPodAutoscaler {self.autoscaler} may scale it" if self.autoscaler else "if it is scaled"
        twice = "" if self.autoscaler else ", twice its number"
        together = " together" if len(self.forbidding) > 1 else ""
        change = f"{self.change}: then each size has a placement" if self.change else "No single change is enough"
        return (
            f"{who} to {plural(self.last, 'replica')}{twice}: {', and '.join(parts)}. {' and '.join(self.forbidding)} "
            f"{'forbid' if together else 'forbids'} it{together}, whatever capacity there is. {change}"
        )


class _Range(NamedTuple):
    """The sizes that are evaluated, and the HorizontalPodAutoscaler that they are of."""

    autoscaler: str
    first: int
    last: int


def find_workload_sizes(
    groups: Sequence[tuple[SpreadGroup, Sequence[Counts]]],
    view: View,
    policy: Policy,
    knowledge: DomainKnowledge,
    *,
    autoscaled: bool = True,
) -> tuple[WorkloadSizes, ...]:
    """Return what is known of the sizes of each workload that a HorizontalPodAutoscaler scales; of the others if not.

    `groups` are the spread groups with the counts of their hard constraints. A workload in several groups is being
    rolled out, and left out.
    """
    if "Node" in view.snapshot.unknown or (autoscaled and not view.snapshot.autoscalers):
        return ()
    several = Counter(workload for group, _ in groups for workload in group.workloads)
    finder = _Finder(view, policy, knowledge)
    return tuple(
        sizes
        for group, counts in groups
        if counts
        for workload in group.workloads
        if several[workload] == 1
        for sizes in finder.evaluate(workload, group, counts, autoscaled=autoscaled)
    )


class _Ground(NamedTuple):
    """The domains of one or two keys: `zone_of` the open domains of the finer key, and the closed ones of both."""

    zone_of: Mapping[str, str]
    zones: Sequence[tuple[str, int]]
    """The zones with open domains, and how many: the one with the fewest first."""
    closed_fine: frozenset[str]
    closed_coarse: frozenset[str]


class _Finder:
    """Finds the sizes of the workloads of one cluster; thousands share their nodes."""

    def __init__(self, view: View, policy: Policy, knowledge: DomainKnowledge) -> None:
        self._view = view
        self._knowledge = knowledge
        self._may_grow = _may_grow(view, policy)

    def evaluate(
        self, workload: Reference, group: SpreadGroup, counts: Sequence[Counts], *, autoscaled: bool
    ) -> Iterator[WorkloadSizes]:
        """Yield what is known of one workload, nothing where the model does not hold for it."""
        sizes = self._range(workload, group, autoscaled=autoscaled)
        levels = self._levels(group, counts)
        if sizes is None or not levels:
            return
        made = self._problem(workload, group, levels, sizes, honor=False)
        if made is None:
            return
        problem, names = made
        verdict = evaluate_sizes(problem)
        entry = WorkloadSizes(
            workload=workload, autoscaler=sizes.autoscaler, first=sizes.first, last=sizes.last, verdict=verdict
        )
        if verdict.number:
            closed = problem.now.closed_fine or problem.now.closed_coarse
            honored = self._problem(workload, group, levels, sizes, honor=True) if closed else None
            entry = WorkloadSizes(
                workload=workload,
                autoscaler=sizes.autoscaler,
                first=sizes.first,
                last=sizes.last,
                verdict=verdict,
                forbidding=find_forbidding(problem, names),
                change=find_change(problem, honored[0] if honored is not None else None, names),
            )
        yield entry

    def _range(self, workload: Reference, group: SpreadGroup, *, autoscaled: bool) -> _Range | None:
        scaled = self._view.snapshot.autoscalers_of.get((workload.namespace, workload.kind, workload.name), ())
        scaler = next((scaler for scaler in scaled if scaler.max_replicas is not None), None)
        if (scaler is not None) is not autoscaled:
            return None
        if scaler is not None:
            first, most = max(1, scaler.min_replicas), scaler.max_replicas or 0
            sizes = _Range(f"{scaler.namespace}/{scaler.name}", first, min(MOST_SIZES, most))
        else:
            sizes = _Range("", 1, min(MOST_SIZES, 2 * _replicas(workload, group)))
        return sizes if sizes.first <= sizes.last else None

    def _levels(self, group: SpreadGroup, counts: Sequence[Counts]) -> Sequence[Counts]:
        """Return the counts of the constraints that are evaluated, the finer key first; none where there are others."""
        selectors = {row.constraint.selector for row in counts}
        own = all(row.self_match and row.constraint.origin is not Origin.DEFAULT for row in counts)
        if len(counts) > 2 or len(selectors) > 1 or not own:
            return ()
        if self._may_grow:
            counts = [row for row in counts if not self._depends_on_growth(group, row)]
        return sorted(counts, key=lambda row: (-len(row.by_domain), row.constraint.key != HOSTNAME))

    def _depends_on_growth(self, group: SpreadGroup, row: Counts) -> bool:
        """Return whether an autoscaler may change the domains of a constraint."""
        key, needs = row.constraint.key, NodeNeeds.of(group.sample)
        carried = self._view.nodes.values(key).values()
        if is_node_key(key, carried, self._knowledge.zone_keys):
            return True
        return bool(self._knowledge.domains_without_nodes(key, needs, carried, row.by_domain))

    def _problem(
        self, workload: Reference, group: SpreadGroup, levels: Sequence[Counts], sizes: _Range, *, honor: bool
    ) -> tuple[SizeProblem, SizeNames] | None:
        """Return the problem with the names of its keys; `honor`: only the nodes that take the pods are counted."""
        fine, coarse = levels[0], levels[-1] if len(levels) > 1 else None
        usable = self._usable(group, levels)
        if not usable or not all(usable <= row.eligible.nodes for row in levels):
            return None
        ground = self._ground(fine, coarse, usable, honor=honor)
        if ground is None:
            return None
        pods = [pod for member in group.members if member.reference == workload for pod in member.pods]
        where = [(pod, node) for pod in pods if (node := self._view.where(pod)) is not None]
        selector = fine.constraint.selector
        own = Counter(node for pod, node in where if selector is not None and selector.matches(pod.labels))
        every = Counter(fine.by_node if coarse is None else {**coarse.by_node, **fine.by_node})
        seen = [usable if honor else row.eligible.nodes for row in levels]
        now, foreign = (_fill(counted, fine, coarse, seen, ground, self._view) for counted in (every, every - own))
        problem = SizeProblem(
            fine=_rule(fine, len(ground.zone_of) + len(ground.closed_fine)),
            coarse=NO_RULE if coarse is None else _rule(coarse, len(ground.zones) + len(ground.closed_coarse)),
            now=now,
            foreign=foreign,
            placed=len(where),
            first=sizes.first,
            last=sizes.last,
        )
        key = "" if coarse is None else coarse.constraint.key
        return problem, SizeNames(fine.constraint.key, key, f"{short_key(key)} {ground.zones[0][0]}")

    def _usable(self, group: SpreadGroup, levels: Sequence[Counts]) -> frozenset[str]:
        """Return the nodes that take pods of the group, if not now then some day."""
        affinity, tolerations = required_part(group.sample.spec.node_affinity), group.sample.spec.tolerations
        keys = levels[0].constraint.required_keys
        nodes = self._view.nodes

        def make() -> frozenset[str]:
            return nodes.matching(affinity) & nodes.tolerated((*tolerations, *_TOLERATED)) & nodes.carrying(keys)

        return self._view.memo(("takes pods some day", affinity, tolerations, keys), make)

    def _ground(self, fine: Counts, coarse: Counts | None, usable: frozenset[str], *, honor: bool) -> _Ground | None:
        """Return the domains, None where those of the finer key do not lie within those of the coarser one."""
        eligible = id(fine.eligible), id(None if coarse is None else coarse.eligible)
        key = ("domains of sizes", *eligible, usable, honor)
        (ground,) = self._view.memo(key, lambda: (_make_ground(fine, coarse, usable, self._view, honor=honor),))
        return ground


def _replicas(workload: Reference, group: SpreadGroup) -> int:
    tops = {top.uid: top for member in group.members if (top := member.top or member.owner) is not None}
    return sum(top.replicas for top in tops.values() if reference_of(top) == workload)


def _make_ground(
    fine: Counts, coarse: Counts | None, usable: frozenset[str], view: View, *, honor: bool
) -> _Ground | None:
    fine_values = view.nodes.values(fine.constraint.key)
    coarse_values = {} if coarse is None else view.nodes.values(coarse.constraint.key)
    pairs = {(fine_values[node], coarse_values.get(node, "")) for node in usable}
    zone_of = dict(pairs)
    if len(zone_of) < len(pairs):
        return None
    closed_fine = frozenset() if honor else fine.by_domain.domains.keys() - zone_of.keys()
    zones = Counter(zone_of.values())
    closed_coarse = frozenset[str]()
    if coarse is not None and not honor:
        closed_coarse = frozenset(coarse.by_domain.domains.keys() - zones.keys())
    return _Ground(
        zone_of, sorted(zones.items(), key=lambda zone: (zone[1], zone[0])), frozenset(closed_fine), closed_coarse
    )


def _rule(counts: Counts, domains: int) -> Rule:
    return Rule(counts.constraint.max_skew, domains, counts.constraint.min_domains)


def _fill(
    counted: Mapping[str, int],
    fine: Counts,
    coarse: Counts | None,
    seen: Sequence[frozenset[str]],
    ground: _Ground,
    view: View,
) -> Filling:
    """Sort counted pods into the domains; `seen` are the nodes that each constraint counts."""
    fine_values = view.nodes.values(fine.constraint.key)
    held = Counter[str]()
    for node, number in counted.items():
        if node in seen[0]:
            held[fine_values[node]] += number
    totals = Counter[str]()
    if coarse is not None:
        coarse_values = view.nodes.values(coarse.constraint.key)
        for node, number in counted.items():
            if node in seen[1]:
                totals[coarse_values[node]] += number
    rows: dict[str, Counter[int]] = {zone: Counter() for zone, _ in ground.zones}
    within = Counter[str]()
    for domain, number in held.items():
        zone = ground.zone_of.get(domain)
        if zone is not None:
            rows[zone][number] += 1
            within[zone] += number
    zones = []
    for zone, number in ground.zones:
        rows[zone][0] += number - rows[zone].total()
        listed = tuple(sorted((pods, times) for pods, times in rows[zone].items() if times))
        zones.append(Zone(listed, totals[zone] - within[zone] if coarse is not None else 0))
    return Filling(
        tuple(zones),
        tuple(sorted({held[domain] for domain in ground.closed_fine})),
        tuple(sorted({totals[zone] for zone in ground.closed_coarse})),
    )


def _may_grow(view: View, policy: Policy) -> bool:
    """Return whether an autoscaler is known that may add nodes."""
    snapshot = view.snapshot
    return (
        policy.capacity.mode is not CapacityMode.OFF
        or any(not pool.deleted for pool in snapshot.node_pools)
        or any(NODE_POOL in node.labels or any(t.key in TO_BE_REMOVED for t in node.taints) for node in snapshot.nodes)
        or any(name in workload.name for workload in snapshot.workloads for name in _AUTOSCALERS)
    )
