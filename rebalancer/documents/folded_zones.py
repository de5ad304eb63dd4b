"""Makes the zones of a cluster with too many nodes for a map: nodes by their state, pods by zone.

Nodes, rules, moves and the pods of violated workloads are visited once each; the result grows with the zones only. A
pod counts once, however many rules it violates.

Each workload has one bound, because the sum of the bounds is compared with the pods. It is the bound of the rule with
most pods above it, among the repairable rules if there are any.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from heapq import nsmallest
from itertools import chain
from typing import Final, NamedTuple

from rebalancer.account.losses import lack_of
from rebalancer.account.numbers import group_numbers
from rebalancer.assessment.controllers import members, stray_controllers
from rebalancer.documents.cluster_map import MOST_LANDINGS, choose_zone_key, find_nodes, node_state
from rebalancer.documents.evaluated_rules import violated_rules
from rebalancer.documents.map import MoveKind, NodeState, move_kind
from rebalancer.documents.state_reasons import StateReasons
from rebalancer.documents.zones import NodeMark, ZoneEntry, ZonesDocument
from rebalancer.engine import Evaluation
from rebalancer.model.moves import Memory, Reference, Target
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.reasons import State
from rebalancer.planning.fates import Fates
from rebalancer.planning.scope.settling import SettlingNodes

_MOST_ZONES: Final = 24
_MARKS: Final = {
    NodeState.NOT_READY: NodeMark.NOT_READY,
    NodeState.CORDONED: NodeMark.CORDONED,
    NodeState.SETTLING: NodeMark.SETTLING,
}
_NEVER: Final = frozenset({State.INFEASIBLE, State.UNFIXABLE})
_NO_NODES: Final = frozenset[str]()

_ByWorkload = Mapping[Reference, Counter[str]]
"""Pods by workload and zone."""


class _Move(NamedTuple):
    """A pod that moves or will move: from `node` to where its replacement is (`landed`) or may land (`targets`)."""

    uid: str
    workload: Reference
    node: str
    kind: MoveKind
    landed: str | None
    targets: Sequence[Target]


class _Pods(NamedTuple):
    """The pods of workloads, those with a decided eviction, and those whose decided eviction is not blocked."""

    held: _ByWorkload
    decided: _ByWorkload
    going: _ByWorkload


class _Bounds(NamedTuple):
    """The pods of each zone against the bounds."""

    goal: Counter[str]
    """The most pods that the zone may hold; empty where no rule bounds zones."""
    above: Counter[str]
    """The pods above their bounds."""
    blocked: Counter[str]
    """Pods above the bounds without a decided eviction, where the violation cannot be repaired."""
    later: Counter[str]
    """Pods above the bounds without a decided eviction, where the violation can be repaired."""
    excess: Counter[str]
    """How many replacements may land there, by their predictions, beyond what the bounds leave room for."""


class _Landing(NamedTuple):
    nodes: Collection[str]
    zones: Collection[str]


def zones_document(
    evaluation: Evaluation, memory: Memory, fates: Fates, chosen: Collection[Reference] | None = None
) -> ZonesDocument:
    """Count nodes and pods by zone: of the workloads that are violated or have moves, or of the `chosen` among them."""
    return _Zones(evaluation, memory, fates, chosen).document()


class _Zones:
    def __init__(
        self, evaluation: Evaluation, memory: Memory, fates: Fates, chosen: Collection[Reference] | None
    ) -> None:
        self._evaluation, self._view, self._memory = evaluation, evaluation.view, memory
        drawn = None if chosen is None else frozenset(chosen)
        found = violated_rules(evaluation.assessment, evaluation.inputs.policy)
        self._rules = [one for one in found if drawn is None or drawn.issuperset(one[0])]
        self._moves = [one for one in self._find_moves(fates) if drawn is None or one.workload in drawn]
        self._key = choose_zone_key((rule.key for _, rule in self._rules), self._view)
        self._zone_of: Mapping[str, str] = self._view.nodes.values(self._key) if self._key else {}
        self._landings: dict[Hashable, _Landing] = {}

    def document(self) -> ZonesDocument:
        workloads = {workload for names, _ in self._rules for workload in names}
        workloads.update(move.workload for move in self._moves)
        counted, (landings, received) = self._count_pods(workloads), self._find_landings()
        bounds, pods = self._add_bounds(counted, landings), _add_up(counted.held)
        leaving = Counter((self._zone(move.node), move.kind) for move in self._moves)
        arriving = _add_up(landings) - bounds.excess
        marks = self._mark_nodes({one.node for one in self._moves if one.kind is not MoveKind.BLOCKED}, received)
        names = {*(zone for zone, _ in (*marks, *leaving)), *pods, *arriving, *bounds.goal}
        names.update(self._zones_without_nodes())
        listed = nsmallest(_MOST_ZONES, names, key=lambda name: (-pods[name], -arriving[name], not name, name))
        settled, undecided = self._find_last_ends(), pods - _add_up(counted.decided)

        def make(name: str) -> ZoneEntry:
            # A rule may count pods of other workloads, too.
            blocked = min(bounds.blocked[name], undecided[name])
            later = min(bounds.later[name], undecided[name] - blocked)
            return ZoneEntry(
                name=name,
                marks={mark: number for mark in NodeMark if (number := marks[name, mark])},
                settles_at=settled.get(name),
                pods=pods[name],
                staying=undecided[name] - blocked - later,
                moving=leaving[name, MoveKind.MOVING],
                waiting=leaving[name, MoveKind.WAITING] + later,
                blocked=leaving[name, MoveKind.BLOCKED] + blocked,
                arriving=arriving[name],
                above=bounds.above[name],
                goal=bounds.goal[name] if bounds.goal else None,
            )

        return ZonesDocument(
            key=self._key,
            nodes=len(self._view.nodes.by_name),
            zones=tuple(map(make, sorted(listed, key=lambda name: (not name, name)))),
            more_zones=len(names) - len(listed),
        )

    def _zone(self, node: str | None) -> str:
        return self._zone_of.get(node or "", "")

    # Pods

    def _count_pods(self, workloads: Collection[Reference]) -> _Pods:
        decided = {move.uid: move.kind is not MoveKind.BLOCKED for move in self._moves}
        counted = _Pods(defaultdict(Counter), defaultdict(Counter), defaultdict(Counter))
        for member in chain(members(self._view), stray_controllers(self._view)):
            if member.reference in workloads:
                for pod in member.pods:
                    if pod.node in self._view.nodes.by_name:
                        zone = self._zone(pod.node)
                        counted.held[member.reference][zone] += 1
                        if pod.uid in decided:
                            counted.decided[member.reference][zone] += 1
                            counted.going[member.reference][zone] += decided[pod.uid]
        return counted

    def _add_bounds(self, counted: _Pods, landings: _ByWorkload) -> _Bounds:
        plan = self._evaluation.plan
        states = StateReasons(plan)
        of_zones = [
            (rule.state(states).state in _NEVER, workloads, rule, most)
            for workloads, rule in self._rules
            if rule.key == self._key and (most := rule.bounds.max) is not None
        ]
        component_of = {one: part.name for part in plan.components for one in part.workloads}
        left = Counter({name: numbers.later for name, numbers in group_numbers(plan).items()})
        under_way = Counter(move.workload for move in self._memory.in_flight)
        sums = _Bounds(*(Counter[str]() for _ in _Bounds._fields))
        bounded: dict[Reference, Collection[str]] = {}
        for never, workloads, rule, most in sorted(of_zones, key=lambda one: (one[0], -one[2].above)):
            if not bounded.keys().isdisjoint(workloads):
                continue
            bounded.update(dict.fromkeys(workloads, rule.counts))
            component = next((component_of[one] for one in workloads if one in component_of), "")
            missing = sum(under_way[one] for one in workloads)  # not counted anywhere, so the bound may be lower
            for zone, pods in rule.counts.items():
                above = max(0, pods - most)
                rest = max(0, above - _sum_of(counted.decided, workloads, zone))
                later = min(rest, left[component])  # fewer if pods without a node will fill up other zones
                left[component] -= later
                room = max(0, most - pods + _sum_of(counted.going, workloads, zone) + missing)
                sums.goal[zone] += most
                sums.above[zone] += above
                sums.blocked[zone] += rest if never else 0
                sums.later[zone] += later
                # No placement is within the bounds of a rule that cannot be repaired.
                sums.excess[zone] += 0 if never else max(0, _sum_of(landings, workloads, zone) - room)
        for workload, by_zone in counted.held.items() if bounded else ():
            domains = bounded.get(workload, ())
            sums.goal.update({zone: pods for zone, pods in by_zone.items() if zone not in domains})
        return sums

    # Moves

    def _find_moves(self, fates: Fates) -> Iterator[_Move]:
        """Yield the moves under way, then planned moves in the order of the plan."""
        under_way = set[str]()
        pods = self._view.snapshot.pod
        for move in self._memory.in_flight:
            under_way.add(move.uid)
            replacement = pods.get(move.replacement) if move.replacement else None
            landed = replacement.node if replacement is not None else None
            yield _Move(move.uid, move.workload, move.node, MoveKind.MOVING, landed, move.targets)
        for fate in fates.rows:
            pod, eviction = fate.eviction.pod, fate.eviction
            if pod.uid not in under_way:
                yield _Move(pod.uid, eviction.workload, pod.node or "", move_kind(fate), None, eviction.targets)

    def _find_landings(self) -> tuple[_ByWorkload, Collection[str]]:
        """Return how many replacements may land in each zone, and the nodes that they have landed or may land on."""
        landings: defaultdict[Reference, Counter[str]] = defaultdict(Counter)
        received = set[str]()
        for move in self._moves:
            if move.landed is not None:
                received.add(move.landed)
            elif move.kind is not MoveKind.BLOCKED:
                landing = self._landing(move.targets)
                received.update(landing.nodes)
                landings[move.workload].update(landing.zones)
        return landings, received

    def _landing(self, targets: Sequence[Target]) -> _Landing:
        known = tuple(targets)
        if known not in self._landings:
            self._landings[known] = self._find_landing(known)
        return self._landings[known]

    def _find_landing(self, targets: Sequence[Target]) -> _Landing:
        """Return where a replacement may land: the nodes, if the targets name few, and the zones."""
        by_key = {target.topology_key: target.values for target in targets}
        zones = by_key.get(self._key) if self._key else ("",)
        is_few = 0 < len(by_key.get(HOSTNAME, ())) <= MOST_LANDINGS
        if not by_key or not (is_few or zones is None):
            return _Landing(_NO_NODES, zones or ())
        nodes = find_nodes(targets, self._view)
        return _Landing(nodes if is_few else _NO_NODES, zones or {self._zone(node) for node in nodes})

    # Nodes

    def _mark_nodes(self, losing: Collection[str], receiving: Collection[str]) -> Counter[tuple[str, NodeMark]]:
        """Count the nodes by zone and mark."""
        moved = {**dict.fromkeys(receiving, NodeMark.RECEIVING), **dict.fromkeys(losing, NodeMark.LOSING)}
        marks = Counter(
            (self._zone(name), _MARKS.get(node_state(node, self._ends)) or moved.get(name, NodeMark.UNCHANGED))
            for name, node in self._view.nodes.by_name.items()
        )
        for loss in self._memory.lost:
            if loss.key == self._key:
                lack = lack_of(loss, self._view.snapshot)
                marks[loss.value, NodeMark.LOST] += len(lack.gone) + lack.unnamed
        return +marks

    @cached_property
    def _ends(self) -> Mapping[str, datetime]:
        evaluation = self._evaluation
        return SettlingNodes(self._view, evaluation.inputs.policy, self._memory, evaluation.assessment).ends

    def _find_last_ends(self) -> Mapping[str, datetime]:
        """Return when the last settling node of each zone has settled."""
        last: dict[str, datetime] = {}
        for name, end in self._ends.items():
            node = self._view.nodes.by_name.get(name)
            if node is not None and node_state(node, self._ends) is NodeState.SETTLING:
                zone = self._zone(name)
                last[zone] = max(end, last.get(zone, end))
        return last

    def _zones_without_nodes(self) -> Iterator[str]:
        """Yield the known domains without nodes."""
        for row in self._evaluation.assessment.domains_without_nodes:
            if row.topology_key == self._key:
                yield row.domain.value


def _sum_of(counts: _ByWorkload, workloads: Iterable[Reference], zone: str) -> int:
    return sum(counts[one][zone] for one in workloads if one in counts)


def _add_up(counts: _ByWorkload) -> Counter[str]:
    """Return the pods of all workloads by zone."""
    total = Counter[str]()
    for by_zone in counts.values():
        total.update(by_zone)
    return total
