"""Makes the Map document of one cycle: its lanes, their pods against the bounds, and where pods move.

Groups, limits, evictions and nodes are visited once each, and only the nodes are sorted. Only the shown lanes are
written out. So a map of thousands of workloads takes little longer than finding the worst of them.

A move has one number everywhere: the `step` of its repair in the Plan document. The numbers are no order. An eviction
under way keeps its number while it is still in the plan; later it has none.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from rebalancer.account.happened import find_since
from rebalancer.account.losses import Lack, lack_of
from rebalancer.assessment.assess import EvaluatedConstraint, UnsettledDomain
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.bounds import DomainBounds
from rebalancer.documents.document import workload_name
from rebalancer.documents.evaluated_rules import Rule, constraint_rule, limit_rule, violated_rules
from rebalancer.documents.map import (
    DomainState,
    MapDocument,
    MapDomain,
    MapLane,
    MapLoss,
    MapMove,
    MapNode,
    MapRule,
    MapZone,
    MoveKind,
    NodeState,
    move_kind,
)
from rebalancer.documents.overview import Overview
from rebalancer.documents.plan import number_steps
from rebalancer.documents.state_reasons import StateReasons, limit_workloads
from rebalancer.engine import Evaluation
from rebalancer.model.moves import DomainName, Memory, Move, ObservedChange, Reference, Target, make_token
from rebalancer.model.nodes import HOSTNAME, ZONE, Node
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import get_known_time
from rebalancer.model.words import constraint_name, limit_name
from rebalancer.planning.eviction import Outlook
from rebalancer.planning.fates import Fate, Fates, Never, Waits
from rebalancer.planning.scope.settling import SettlingNodes
from rebalancer.scheduling.view import View
from rebalancer.tracking.changes import domain_subject

MOST_LANDINGS: Final = 4
"""Up to this many nodes on which a replacement may land are named; if there are more, only their zones are."""

_MOST_CANDIDATES: Final = 1_000
"""With more nodes in its domains, a replacement may land on too many nodes to list, so they are not searched for."""


class MapSize(NamedTuple):
    """The most that a map lists: lanes, nodes, zones, and domains and moves of a lane."""

    lanes: int = 12
    nodes: int = 60
    zones: int = 24
    domains: int = 30
    moves: int = 30


WHOLE: Final = MapSize()
_STORED: Final = MapSize(lanes=6, nodes=30, zones=12, domains=12, moves=6)
_STORED_BYTES: Final = 8 * 1024
"""Most bytes of a stored map, which has no spaces: a larger map loses its nodes, and then lanes."""

_NOTHING: Final = frozenset[str]()


class _Lane(NamedTuple):
    workloads: tuple[Reference, ...]
    rules: Sequence[Rule]
    """The lane's rules, violated rules first."""

    @property
    def rule(self) -> Rule:
        return self.rules[0]

    @property
    def rank(self) -> tuple[bool, int, int, tuple[Reference, ...]]:
        return not self.rule.violated, -self.rule.above, -self.rule.short, self.workloads


class _Landing(NamedTuple):
    nodes: tuple[str, ...]
    zones: tuple[str, ...]


def map_document(
    evaluation: Evaluation,
    memory: Memory,
    *,
    fates: Fates | None = None,
    chosen: Collection[Reference] | None = None,
    satisfied: bool = True,
    size: MapSize = WHOLE,
    overview: Overview | None = None,
) -> MapDocument:
    """Draw the violated workloads and those with moves, or the `chosen` ones with all their rules.

    Without `satisfied`, draw only the chosen workloads that are violated or move, with the rules that they violate.

    `memory` has the moves in flight and the start of violations. Without `fates`, the evictions that may go now by the
    plan count as moving. `overview` belongs to the evaluation; if None, it is made here.
    """
    drawn = None if chosen is None else frozenset(chosen)
    if overview is None:
        overview = Overview(evaluation.assessment, evaluation.plan, StateReasons(evaluation.plan))
    stuck = overview.find_stuck(_find_moving(memory, fates))
    is_whole = satisfied and drawn is not None
    return _Map(evaluation, memory, fates, drawn, stuck, satisfied=is_whole, size=size).document()


def _find_moving(memory: Memory, fates: Fates | None) -> frozenset[Reference]:
    """Return the workloads with a pod whose eviction is under way or may go now."""
    going = () if fates is None else fates.let_go
    return frozenset([*(move.workload for move in memory.in_flight), *(eviction.workload for eviction in going)])


def stored_map(evaluation: Evaluation, memory: Memory, fates: Fates, overview: Overview) -> MapDocument | None:
    """Draw the violated and moving workloads in a map that is small enough to be stored; None if there are none."""
    drawn = map_document(evaluation, memory, fates=fates, size=_STORED, overview=overview)
    if _is_large(drawn):
        drawn = map_document(evaluation, memory, fates=fates, size=_STORED._replace(nodes=0), overview=overview)
    while drawn.lanes and _is_large(drawn):
        drawn = msgspec.structs.replace(drawn, lanes=drawn.lanes[:-1], more=drawn.more + 1)
    return drawn if drawn.lanes else None


def _is_large(drawn: MapDocument) -> bool:
    return len(msgspec.json.encode(drawn)) > _STORED_BYTES


class _Map:
    def __init__(
        self,
        evaluation: Evaluation,
        memory: Memory,
        fates: Fates | None,
        chosen: frozenset[Reference] | None,
        stuck: frozenset[Reference],
        *,
        satisfied: bool,
        size: MapSize,
    ) -> None:
        self._view, self._assessment, self._plan = evaluation.view, evaluation.assessment, evaluation.plan
        self._policy = evaluation.inputs.policy
        self._memory, self._size = memory, size
        self._fates = evaluation.plan.fates if fates is None else fates
        self._satisfied, self._stuck = satisfied, stuck
        self._since = find_since(memory)
        self._states = StateReasons(self._plan)
        self._steps = number_steps(self._plan)
        lanes = self._find_lanes(chosen)
        self._more = max(0, len(lanes) - size.lanes)
        self._lanes = nsmallest(size.lanes, lanes, key=lambda lane: lane.rank)
        self._key = choose_zone_key((rule.key for lane in self._lanes for rule in lane.rules), self._view)
        self._zone_of: Mapping[str, str] = self._view.nodes.values(self._key) if self._key else {}
        self._landings: dict[Hashable, _Landing] = {}

    def document(self) -> MapDocument:
        moves = self._find_moves()
        by_node = [_count_by_node(lane.rule.source, self._view) for lane in self._lanes]
        of_lanes = [[move for workload in lane.workloads for move in moves.get(workload, ())] for lane in self._lanes]
        concerned = {name for counts in by_node for name in counts}
        concerned.update(name for lane in of_lanes for move in lane for name in _nodes_of(move))
        listed = self._list_nodes(concerned)
        by_zone = [self._count_by_zone(counts) for counts in by_node]
        held = {zone for counts in by_zone for zone in counts}
        held.update(zone for lane in of_lanes for move in lane for zone in move.to_zones)
        held.update(self._losses)
        zones, more_zones = self._make_zones(listed, held)
        names = [zone.name for zone in zones]
        return MapDocument(
            at=get_known_time(self._plan.made_at),
            key=self._key,
            zones=zones,
            more_zones=more_zones,
            lanes=tuple(
                self._make_lane(lane, _among(listed, counts), _among(names, in_zones), lane_moves)
                for lane, counts, in_zones, lane_moves in zip(self._lanes, by_node, by_zone, of_lanes, strict=True)
            ),
            more=self._more,
        )

    # Lanes

    def _find_lanes(self, chosen: frozenset[Reference] | None) -> Sequence[_Lane]:
        if chosen is not None and self._satisfied:
            return self._lanes_of(chosen)
        lanes = self._violated_lanes()
        moving = {move.workload for move in self._memory.in_flight}
        moving.update(eviction.workload for eviction in self._plan.fates.evictions)
        moving.difference_update(workload for lane in lanes for workload in lane.workloads)
        found = [*lanes, *(self._lanes_of(moving) if moving else ())]
        return found if chosen is None else [lane for lane in found if not chosen.isdisjoint(lane.workloads)]

    def _violated_lanes(self) -> Sequence[_Lane]:
        """Return the lanes with their violated hard constraints, soft constraints in `spread.actOn`, and limits."""
        lanes: dict[tuple[Reference, ...], list[Rule]] = {}
        for workloads, rule in violated_rules(self._assessment, self._policy):
            lanes.setdefault(workloads, []).append(rule)
        return [_Lane(*lane) for lane in lanes.items()]

    def _lanes_of(self, workloads: Collection[Reference]) -> Sequence[_Lane]:
        """Return the lanes of these workloads, with all their rules."""
        chosen = frozenset(workloads)
        lanes: dict[tuple[Reference, ...], list[Rule]] = {}
        for group in self._assessment.groups:
            if not chosen.isdisjoint(group.workloads):
                rules = [constraint_rule(group, evaluated) for evaluated in (*group.hard, *group.soft)]
                lanes.setdefault(group.workloads, []).extend(rules)
        namespaces = {workload.namespace for workload in chosen}
        for limit in self._assessment.limits:
            if limit.namespace in namespaces and not chosen.isdisjoint(limit_workloads(limit)):
                lanes.setdefault(tuple(sorted(limit_workloads(limit))), []).append(limit_rule(limit))
        return [_Lane(names, sorted(rules, key=lambda rule: not rule.violated)) for names, rules in lanes.items()]

    def _make_lane(
        self, lane: _Lane, nodes: Mapping[str, int], zones: Mapping[str, int], moves: Sequence[MapMove]
    ) -> MapLane:
        rule = self._make_rule(lane.rule)
        return MapLane(
            topology_key=rule.topology_key,
            what=rule.what,
            state=rule.state,
            reason=rule.reason,
            domains=rule.domains,
            more_domains=rule.more_domains,
            since=rule.since,
            stuck=not self._stuck.isdisjoint(lane.workloads),
            namespace=lane.workloads[0].namespace,
            workloads=tuple(map(workload_name, lane.workloads)),
            zones=zones,
            nodes={name: count for name, count in nodes.items() if count},
            moves=tuple(moves[: self._size.moves]),
            more_moves=max(0, len(moves) - self._size.moves),
            others=tuple(map(self._make_rule, lane.rules[1:])) if self._satisfied else (),
        )

    def _make_rule(self, rule: Rule) -> MapRule:
        standing, counts = rule.state(self._states), rule.counts
        empty = (name for name in counts if name not in counts.filled)
        names = (*counts.filled, *islice(empty, self._size.domains))  # thousands of empty ones are alike
        every = {name: _domain(counts[name], rule.bounds) for name in names}
        listed = nlargest(self._size.domains, every, key=lambda name: _weight(every[name]))
        return MapRule(
            topology_key=rule.key,
            what=_describe(rule.source),
            state=standing.state,
            reason=standing.reason,
            domains={name: every[name] for name in sorted(listed)},
            more_domains=len(counts) - len(listed),
            since=self._since.get(make_token(_name(rule))) if rule.violated else None,
        )

    # Zones and nodes

    def _count_by_zone(self, by_node: Mapping[str, int]) -> Mapping[str, int]:
        counted = Counter[str]()
        for name, count in by_node.items():
            counted[self._zone_of.get(name, "")] += count
        return counted

    def _list_nodes(self, concerned: Collection[str]) -> Collection[str]:
        """Return the nodes to list: all, only those with pods or moves of a lane, or none."""
        known = self._view.nodes.by_name
        if len(known) <= self._size.nodes:
            return known
        there = [name for name in concerned if name in known]
        return there if len(there) <= self._size.nodes else ()

    def _make_zones(self, listed: Collection[str], held: Collection[str]) -> tuple[tuple[MapZone, ...], int]:
        nodes: dict[str, list[Node]] = {name: [] for name in self._zones_without_nodes()}
        for node in self._view.nodes.by_name.values():
            nodes.setdefault(self._zone_of.get(node.name, ""), []).append(node)
        names = nsmallest(self._size.zones, nodes, key=lambda name: (name not in held, not name, name))
        ends = SettlingNodes(self._view, self._policy, self._memory, self._assessment).ends
        shown = frozenset(listed)
        in_order = sorted(names, key=lambda name: (not name, name))
        return tuple(self._make_zone(name, nodes[name], shown, ends) for name in in_order), len(nodes) - len(names)

    def _zones_without_nodes(self) -> Iterator[str]:
        """Yield the domains that a lane's rule counts, or would count if they had a node."""
        for lane in self._lanes:
            if lane.rule.key == self._key:
                yield from lane.rule.counts
        for row in self._assessment.domains_without_nodes:
            if row.topology_key == self._key:
                yield row.domain.value
        yield from self._losses

    def _make_zone(
        self, name: str, nodes: Sequence[Node], shown: Collection[str], ends: Mapping[str, datetime]
    ) -> MapZone:
        states = {node.name: node_state(node, ends) for node in nodes}
        loss, unsettled = self._losses.get(name), self._unsettled.get(DomainName(self._key, name))
        gone: Sequence[str] = loss.gone if loss is not None else ()
        states.update(dict.fromkeys(gone, NodeState.LOST))
        if shown and len(states) <= self._size.nodes:
            shown = {*shown, *gone}
        return MapZone(
            name=name,
            nodes=tuple(
                MapNode(
                    name=node,
                    state=states[node],
                    until=ends[node] if states[node] is NodeState.SETTLING else None,
                )
                for node in sorted(shown & states.keys())
            ),
            folded=dict(sorted(Counter(state for node, state in states.items() if node not in shown).items())),
            ready=sum(node.takes_pods for node in nodes),
            cordoned=sum(node.ready and node.unschedulable for node in nodes),
            of=len(states) + (loss.unnamed if loss is not None else 0),
            back=self._find_return(name),
            unsettled_until=unsettled.until if unsettled is not None else None,
            unsettled_at_most=unsettled is not None and unsettled.motion.lasting,
            lost=None
            if loss is None
            else MapLoss(at=loss.at, whole=loss.whole, nodes=loss.number, pods=loss.lost.pods),
        )

    @cached_property
    def _losses(self) -> Mapping[str, Lack]:
        """What each zone has lost, by zone."""
        snapshot = self._view.snapshot
        return {lost.value: lack_of(lost, snapshot) for lost in self._memory.lost if lost.key == self._key}

    @cached_property
    def _unsettled(self) -> Mapping[DomainName, UnsettledDomain]:
        return {DomainName(one.motion.key, one.motion.value): one for one in self._assessment.unsettled_domains}

    def _find_return(self, name: str) -> datetime | None:
        """Return when a lost domain came back, None if it has lost nodes since then or at that time."""
        subject, loss = domain_subject(self._key, name), self._losses.get(name)
        returned = self._changes.get((ViolationCause.DOMAIN_RETURNED, subject))
        back = min(returned.back_at, returned.at) if returned is not None and returned.back_at is not None else None
        gone = self._changes.get((ViolationCause.NODE_LOST, subject))
        lost = [gone.at if gone is not None else None, loss.lost.until if loss is not None else None]
        return None if back is not None and any(at is not None and at >= back for at in lost) else back

    @cached_property
    def _changes(self) -> Mapping[tuple[ViolationCause, str], ObservedChange]:
        """The last observed change for each cause and subject."""
        return {(change.cause, change.subject): change for change in self._memory.changes}

    # Moves

    def _find_moves(self) -> Mapping[Reference, Sequence[MapMove]]:
        """Return the moves of the lanes by workload: moves under way, then planned moves in the order of the plan."""
        shown = {workload for lane in self._lanes for workload in lane.workloads}
        decided = (fate for fate in self._fates.rows if fate.eviction.workload in shown)
        planned = {one.eviction.pod.uid: one for one in decided}
        moves: dict[Reference, list[MapMove]] = {}
        for move in self._memory.in_flight:
            if move.workload in shown:
                known = planned.pop(move.uid, None)
                moves.setdefault(move.workload, []).append(self._move_under_way(move, known))
        for one in planned.values():
            moves.setdefault(one.eviction.workload, []).append(self._planned_move(one))
        return moves

    def _move_under_way(self, move: Move, planned: Fate | None) -> MapMove:
        replacement = self._view.snapshot.pod.get(move.replacement) if move.replacement else None
        landing = self._landing(move.targets, None)
        return MapMove(
            step=self._step(planned) if planned is not None else None,
            pod=move.pod,
            node=move.node,
            zone=self._zone_of.get(move.node, ""),
            kind=MoveKind.MOVING,
            landed=replacement.node if replacement is not None else None,
            to_nodes=landing.nodes,
            to_zones=landing.zones,
        )

    def _planned_move(self, planned: Fate) -> MapMove:
        eviction = planned.eviction
        node = eviction.pod.node or ""
        landing = self._landing(eviction.targets, eviction.repair.outlook)
        return MapMove(
            step=self._step(planned),
            pod=eviction.pod.name,
            node=node,
            zone=self._zone_of.get(node, ""),
            kind=move_kind(planned),
            reason=planned.reason if isinstance(planned, Waits) else None,
            to_nodes=landing.nodes,
            to_zones=landing.zones,
        )

    def _step(self, planned: Fate) -> int | None:
        return None if isinstance(planned, Never) else self._steps[planned.eviction.group]

    def _landing(self, targets: Sequence[Target], outlook: Outlook | None) -> _Landing:
        """Return where a replacement may land: the nodes, if they are known and few, and the zones."""
        known = tuple(targets), id(outlook)
        landing = self._landings.get(known)
        if landing is None:
            landing = self._landings[known] = self._find_landing(targets, outlook)
        return landing

    def _find_landing(self, targets: Sequence[Target], outlook: Outlook | None) -> _Landing:
        if not targets:
            return _Landing((), ())
        nodes = find_nodes(targets, self._view)
        few = outlook is not None and len(nodes) <= _MOST_CANDIDATES
        known = outlook.landings(nodes) if outlook is not None and few else _NOTHING
        if not known and any(target.topology_key == HOSTNAME for target in targets):
            known = nodes
        zones = next((target.values for target in targets if target.topology_key == self._key), None)
        if zones is None:
            zones = tuple(sorted({self._zone_of.get(name, "") for name in known or nodes}))
        return _Landing(tuple(sorted(known)) if len(known) <= MOST_LANDINGS else (), zones)


def _name(rule: Rule) -> str:
    """Return the name under which the memory stores since when a rule is violated."""
    if isinstance(rule.source, EvaluatedLimit):
        return rule.source.name
    assert rule.group is not None, "a constraint is one of a group"
    return rule.group.spread.name


def _describe(source: EvaluatedConstraint | EvaluatedLimit) -> str:
    if isinstance(source, EvaluatedLimit):
        return limit_name(f"{source.group}/{source.limit}", source.rule.bound, source.topology_key)
    return constraint_name(source.topology_key, source.max_skew, hard=source.constraint.hard)


def _count_by_node(source: EvaluatedConstraint | EvaluatedLimit, view: View) -> Mapping[str, int]:
    """Return the pods that a rule counts by node."""
    if isinstance(source, EvaluatedConstraint):
        return source.counts.by_node
    values, counted = view.nodes.values(source.topology_key), source.counts
    return Counter(pod.node for pod in source.pods if pod.node is not None and values.get(pod.node) in counted.filled)


def _domain(pods: int, bounds: DomainBounds) -> MapDomain:
    return MapDomain(pods=pods, min=bounds.min, max=bounds.max, state=_domain_state(pods, bounds))


def _domain_state(pods: int, bounds: DomainBounds) -> DomainState:
    if bounds.max is not None and pods > bounds.max:
        return DomainState.ABOVE
    if pods < bounds.min:
        return DomainState.SHORT
    return DomainState.FULL if pods == bounds.max else DomainState.ROOM


def _weight(domain: MapDomain) -> tuple[int, int, int]:
    """Return a sort key: most pods above the bounds first, then most missing pods, then most pods."""
    above = domain.pods - domain.max if domain.max is not None else 0
    return max(0, above), max(0, domain.min - domain.pods), domain.pods


def find_nodes(targets: Sequence[Target], view: View) -> frozenset[str]:
    """Return the nodes in the domains of all targets; there must be at least one target."""
    groups = view.nodes.groups
    domains = [[groups(target.topology_key).get(value, _NOTHING) for value in target.values] for target in targets]
    return frozenset.intersection(*(_NOTHING.union(*of_key) for of_key in domains))


def choose_zone_key(keys: Iterable[str], view: View) -> str:
    """Choose the key of the zones among the rules' `keys`, but no key whose domains are single nodes."""
    known = set(keys) - {HOSTNAME}
    if not known or ZONE in known:
        return ZONE if view.nodes.values(ZONE) else ""
    return min(known, key=lambda key: (len(view.nodes.groups(key)), key))


def node_state(node: Node, ends: Mapping[str, datetime]) -> NodeState:
    """Return whether a node takes pods; `ends` is when each settling node has settled."""
    if not node.ready:
        return NodeState.NOT_READY
    if node.unschedulable:
        return NodeState.CORDONED
    return NodeState.SETTLING if node.name in ends else NodeState.READY


def _nodes_of(move: MapMove) -> Iterator[str]:
    yield from (name for name in (move.node, move.landed) if name)
    yield from move.to_nodes


def _among(names: Iterable[str], counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the counts of some names, in their order."""
    return {name: counts.get(name, 0) for name in names}
