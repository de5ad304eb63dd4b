"""Find the sizes without a placement for a cluster's workloads: what is counted, and what may change by itself.

Workloads are evaluated if they have one or two hard constraints that nest and count the same pods, their own among
them. Nodes that are cordoned or not Ready will take pods again; while they do not count, nothing is reported. Capacity,
affinity between pods and volumes are left out, because they can only forbid more.

If an autoscaler may add nodes, the number of nodes is not decisive. Then only constraints over zones are evaluated, and
none if a domain without nodes may get some. An autoscaler is known by NodePools, by the marks that Karpenter and the
cluster-autoscaler leave on nodes, by a workload with such a name, and by `capacity.mode` of the policy.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import Struct

from rebalancer.assessment.controllers import count_members_pods
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
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import AUTOSCALER_TAINTS, HOSTNAME, NODE_POOL, PASSING
from rebalancer.model.words import plural, short_key
from rebalancer.model.workloads import reference_of
from rebalancer.policy import Policy
from rebalancer.policy.capacity import CapacityMode
from rebalancer.scheduling.feasibility import admitted_by_labels, admitted_by_taints
from rebalancer.scheduling.node_index import required_part
from rebalancer.scheduling.pod_topology_spread import Counts
from rebalancer.scheduling.spread_constraints import Origin
from rebalancer.scheduling.view import View
from rebalancer.tracking.zones import is_node_key

MOST_SIZES: Final = 1_000
"""The largest size that is evaluated."""

_AUTOSCALERS: Final = ("cluster-autoscaler", "karpenter")
"""Parts of the names of workloads that add nodes."""


class WorkloadSizes(Struct, frozen=True, gc=False):
    """The sizes of one workload from `first` to `last` that have no placement, or none that pods reach one by one."""

    workload: Reference
    autoscaler: str
    """The HorizontalPodAutoscaler that may choose these sizes, "" without one."""
    first: int
    last: int
    most: int
    """The largest size that the autoscaler may choose; sizes above `MOST_SIZES` are not evaluated."""
    verdict: SizeVerdict
    forbidding: tuple[str, ...] = ()
    """The constraints that exclude the sizes."""
    change: str = ""
    """The smallest change after which no such size is left, "" if there are no such sizes, or no change is enough."""

    def __str__(self) -> str:
        """Name the autoscaler, the sizes, the constraints, and the change."""
        impossible, unreachable = (list_sizes(sizes) for sizes in self.verdict)
        parts = [f"no placement of {impossible} satisfies its hard constraints"] if impossible else []
        if unreachable:
            parts.append(f"pods that are placed one by one do not reach {unreachable} from where they are now")
        who = f"HorizontalPodAutoscaler {self.autoscaler} may scale it" if self.autoscaler else "if it is scaled"
        twice = "" if self.autoscaler else ", twice its number"
        unseen = f" (sizes above {self.last} are not evaluated)" if self.most > self.last else ""
        together = " together" if len(self.forbidding) > 1 else ""
        change = f"{self.change}: then each size has a placement" if self.change else "No single change is enough"
        return (
            f"{who} to {plural(self.most, 'replica')}{twice}{unseen}: {', and '.join(parts)}. "
            f"{' and '.join(self.forbidding)} {'forbid' if together else 'forbids'} it{together}, "
            f"whatever capacity there is. {change}"
        )


class _Range(NamedTuple):
    """The sizes that are evaluated, their HorizontalPodAutoscaler, and the largest size that it allows."""

    autoscaler: str
    first: int
    last: int
    most: int


def find_workload_sizes(
    groups: Sequence[tuple[SpreadGroup, Sequence[Counts]]],
    view: View,
    policy: Policy,
    knowledge: DomainKnowledge,
    *,
    autoscaled: bool = True,
) -> tuple[WorkloadSizes, ...]:
    """Return the verdicts on sizes for workloads with (`autoscaled`) or without a HorizontalPodAutoscaler.

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


@dataclass(frozen=True, kw_only=True)
class _Ground:
    """The domains of one or two keys, and the constraints over them."""

    zone_of: Mapping[str, str]
    """The open domains of the finer key with their zones, `""` without a coarser key."""
    zones: Sequence[tuple[str, int]]
    """The zones with the number of their open domains, the smallest number first."""
    closed_fine: Sequence[str]
    closed_coarse: Sequence[str]
    nodes: frozenset[str] | None
    """The nodes whose pods count, None: all nodes that the constraints count."""
    whole: bool
    """Whether each node that counts takes pods."""
    fine: Rule
    coarse: Rule
    names: SizeNames

    @cached_property
    def empty(self) -> Filling:
        """The domains without a pod."""
        return self.fill({}, {})

    def fill(self, held: Mapping[str, int], totals: Mapping[str, int]) -> Filling:
        """Return pods by domain of the finer key, and by zone, as a filling; only domains with pods are named."""
        rows = {zone: Counter({0: number}) for zone, number in self.zones}
        within = Counter[str]()
        for domain, pods in held.items():
            zone = self.zone_of.get(domain)
            if zone is not None:
                rows[zone].update({0: -1, pods: 1})
                within[zone] += pods
        zones = [
            Zone(tuple(sorted(item for item in row.items() if item[1])), totals.get(zone, 0) - within[zone])
            for zone, row in rows.items()
        ]
        closed_fine = {held.get(domain, 0) for domain in self.closed_fine}
        closed_coarse = {totals.get(zone, 0) for zone in self.closed_coarse}
        return Filling(tuple(zones), tuple(sorted(closed_fine)), tuple(sorted(closed_coarse)))


class _Finder:
    """Finds the sizes of the workloads of one cluster, thousands of which share their nodes."""

    def __init__(self, view: View, policy: Policy, knowledge: DomainKnowledge) -> None:
        self._view = view
        self._knowledge = knowledge
        self._may_grow = _may_grow(view, policy)
        self._complete: dict[tuple[int, int, int], bool] = {}

    def evaluate(
        self, workload: Reference, group: SpreadGroup, counts: Sequence[Counts], *, autoscaled: bool
    ) -> Iterator[WorkloadSizes]:
        """Yield the result for one workload, nothing if the model does not apply to it."""
        sizes = self._range(workload, group, autoscaled=autoscaled)
        levels = self._levels(group, counts) if sizes is not None else ()
        ground = self._ground(group, levels, honor=False) if levels else None
        if sizes is None or ground is None:
            return
        if self._is_known_complete(group, levels, sizes, ground):
            yield WorkloadSizes(workload, *sizes, SizeVerdict())
            return
        problem = self._problem(workload, group, levels, sizes, ground)
        verdict = evaluate_sizes(problem)
        forbidding: tuple[str, ...] = ()
        change = ""
        if verdict.number:
            other = self._ground(group, levels, honor=True) if not ground.whole else None
            honored = self._problem(workload, group, levels, sizes, other) if other is not None else None
            forbidding, change = find_forbidding(problem, ground.names), find_change(problem, honored, ground.names)
        yield WorkloadSizes(workload, *sizes, verdict, forbidding, change)

    def _range(self, workload: Reference, group: SpreadGroup, *, autoscaled: bool) -> _Range | None:
        scalers = self._view.snapshot.autoscalers_of.get((workload.namespace, workload.kind, workload.name), ())
        bounded = [scaler for scaler in scalers if scaler.max_replicas is not None]
        # If several compete, choose the autoscaler that may scale it furthest.
        scaler = max(bounded, key=lambda scaler: scaler.max_replicas or 0, default=None)
        if (scaler is not None) is not autoscaled:
            return None
        if scaler is not None:
            name, first, most = (
                f"{scaler.namespace}/{scaler.name}",
                max(1, scaler.min_replicas),
                scaler.max_replicas or 0,
            )
        else:
            name, first, most = "", 1, 2 * _replicas(workload, group)
        sizes = _Range(name, first, min(MOST_SIZES, most), most)
        return sizes if sizes.first <= sizes.last else None

    def _levels(self, group: SpreadGroup, counts: Sequence[Counts]) -> Sequence[Counts]:
        """Return the counts of the constraints that are evaluated, the finer key first; empty if there are others."""
        selector = counts[0].constraint.selector
        if len(counts) > 2 or counts[0].constraint.origin is Origin.DEFAULT:
            return ()
        for row in counts:
            if not row.self_match or row.constraint.selector != selector:
                return ()
        if self._may_grow:
            counts = [row for row in counts if not self._depends_on_growth(group, row)]
        if len(counts) > 1 and _order(counts[0]) > _order(counts[1]):
            return counts[::-1]
        return counts

    def _depends_on_growth(self, group: SpreadGroup, row: Counts) -> bool:
        """Return whether an autoscaler may change the domains of a constraint."""
        key, needs = row.constraint.key, NodeNeeds.of(group.sample)
        carried = self._view.nodes.values(key).values()
        if is_node_key(key, carried, self._knowledge.zone_keys):
            return True
        return bool(self._knowledge.domains_without_nodes(key, needs, carried, row.by_domain))

    def _is_known_complete(self, group: SpreadGroup, levels: Sequence[Counts], sizes: _Range, ground: _Ground) -> bool:
        """Return whether it is clear without examining the domains that every size has a placement.

        Over one key without closed domains the emptiest domain always takes a pod. Over two keys, pods that satisfy
        maxSkew 1 over the finer key are spread within each zone like pods that come one by one. If these reach every
        size from no pod on, so do pods from the current placement: the first zone in which the former would exceed the
        latter is open to both.
        """
        if not ground.whole or not self._has_every_size(ground, sizes):
            return False
        spread = ground.fine.max_skew == 1 and not levels[0].violated
        return len(levels) == 1 or (spread and self._counts_own_only(group, levels))

    def _has_every_size(self, ground: _Ground, sizes: _Range) -> bool:
        """Return whether every size has a placement that pods reach from no pod on."""
        key = id(ground), sizes.first, sizes.last
        if key not in self._complete:
            problem = SizeProblem(
                ground.fine, ground.coarse, ground.empty, ground.empty, placed=0, first=sizes.first, last=sizes.last
            )
            self._complete[key] = not evaluate_sizes(problem).number
        return self._complete[key]

    def _counts_own_only(self, group: SpreadGroup, levels: Sequence[Counts]) -> bool:
        """Return whether all counted pods belong to one owner, as for nearly all workloads."""
        own = count_members_pods(group.members[0], self._view) if len(group.members) == 1 else None
        return own is not None and own == levels[0].by_node and own == levels[-1].by_node

    def _problem(
        self, workload: Reference, group: SpreadGroup, levels: Sequence[Counts], sizes: _Range, ground: _Ground
    ) -> SizeProblem:
        if ground.nodes is None and self._counts_own_only(group, levels):
            placed, foreign = len(group.members[0].pods), ground.empty
            totals = levels[1].by_domain.filled if len(levels) > 1 else {"": placed}
            now = ground.fill(levels[0].by_domain.filled, totals)
        else:
            pods = [pod for member in group.members if member.reference == workload for pod in member.pods]
            where = [(pod, node) for pod in pods if (node := self._view.where(pod)) is not None]
            selector = levels[0].constraint.selector
            own = Counter(node for pod, node in where if selector is not None and selector.matches(pod.labels))
            every = Counter({node: count for row in levels for node, count in row.by_node.items()})
            placed = len(where)
            now, foreign = (self._fill(levels, ground, counted) for counted in (every, every - own))
        return SizeProblem(ground.fine, ground.coarse, now, foreign, placed, sizes.first, sizes.last)

    def _fill(self, levels: Sequence[Counts], ground: _Ground, counted: Mapping[str, int]) -> Filling:
        """Sort pods by node into the domains."""
        held, *totals = [
            self._view.nodes.by_value(
                row.constraint.key,
                {node: pods for node, pods in counted.items() if node in (ground.nodes or row.eligible.nodes)},
            )
            for row in levels
        ]
        return ground.fill(held, totals[0] if totals else {"": sum(held.values())})

    def _ground(self, group: SpreadGroup, levels: Sequence[Counts], *, honor: bool) -> _Ground | None:
        """Return the domains, None if the model does not apply; `honor`: only nodes that take the pods count.

        Groups with the same eligible nodes share the objects.
        """
        spec = group.sample.spec
        affinity = required_part(spec.node_affinity)
        rules = [(id(row.eligible), row.constraint.max_skew, row.constraint.min_domains) for row in levels]
        key = ("domains of sizes", *rules, affinity, spec.tolerations, honor)

        def make() -> tuple[_Ground | None]:
            nodes, keys = self._view.nodes, levels[0].constraint.required_keys
            usable = admitted_by_labels(spec.node_affinity, self._view) & nodes.carrying(keys)
            usable &= admitted_by_taints((*spec.tolerations, *PASSING), self._view)
            if not usable or not all(usable <= row.eligible.nodes for row in levels):
                return (None,)
            return (_make_ground(levels, usable, self._view, honor=honor),)

        (ground,) = self._view.memo(key, make)
        return ground


def _order(counts: Counts) -> tuple[int, bool]:
    """Order keys: the key with more domains first; with equal numbers the host name."""
    return -len(counts.by_domain.domains), counts.constraint.key != HOSTNAME


def _replicas(workload: Reference, group: SpreadGroup) -> int:
    tops = {top.uid: top for member in group.members if (top := member.top or member.owner) is not None}
    return sum(top.replicas for top in tops.values() if reference_of(top) == workload)


def _make_ground(levels: Sequence[Counts], usable: frozenset[str], view: View, *, honor: bool) -> _Ground | None:
    """Return the domains, None if the finer key's domains do not nest in the coarser key's."""
    values = [view.nodes.values(row.constraint.key) for row in levels]
    fine, coarse = levels[0], levels[1] if len(levels) > 1 else None
    pairs = {(values[0][node], values[1][node] if coarse is not None else "") for node in usable}
    zone_of = dict(pairs)
    if len(zone_of) < len(pairs):
        return None
    zones = Counter(zone_of.values())
    closed_fine = [] if honor else sorted(fine.by_domain.domains.keys() - zone_of.keys())
    closed_coarse = [] if honor or coarse is None else sorted(coarse.by_domain.domains.keys() - zones.keys())
    ordered = sorted(zones.items(), key=lambda zone: (zone[1], zone[0]))
    coarse_key = coarse.constraint.key if coarse is not None else ""
    return _Ground(
        zone_of=zone_of,
        zones=ordered,
        closed_fine=closed_fine,
        closed_coarse=closed_coarse,
        nodes=usable if honor else None,
        whole=honor or all(usable == row.eligible.nodes for row in levels),
        fine=_rule(fine, len(zone_of) + len(closed_fine)),
        coarse=NO_RULE if coarse is None else _rule(coarse, len(zones) + len(closed_coarse)),
        names=SizeNames(fine.constraint.key, coarse_key, f"{short_key(coarse_key)} {ordered[0][0]}"),
    )


def _rule(counts: Counts, domains: int) -> Rule:
    return Rule(counts.constraint.max_skew, domains, counts.constraint.min_domains)


def _may_grow(view: View, policy: Policy) -> bool:
    """Return whether an autoscaler is known that may add nodes."""
    snapshot = view.snapshot
    return (
        policy.capacity.mode is not CapacityMode.OFF
        or any(not pool.deleted for pool in snapshot.node_pools)
        or any(
            NODE_POOL in node.labels or any(t.key in AUTOSCALER_TAINTS for t in node.taints) for node in snapshot.nodes
        )
        or any(name in workload.name for workload in snapshot.workloads for name in _AUTOSCALERS)
    )
