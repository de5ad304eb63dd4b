"""Violations that exist only because a node has just changed: a wrong label must not move a pod.

A constraint or limit is evaluated three times: with the nodes as they are now, as they were before the changes of the
last `nodes.settle` and, for nodes that changed several times, as they were before their last change. A violation that
exists in all three, by the same pods in the same domains, waits for nothing. A violation that is new, greater, or by
other pods waits until the change has lasted.

Without the last changes, a label that is wrong, right and wrong again would count as a lasting violation as soon as its
first change is older than `nodes.settle`: the value before that window is the wrong value.

Labels decide which nodes form a domain. If a constraint honours taints, lost and uncordoned nodes matter, too. A pod
that no node admits since a change waits as well. Labels change seldom. Nodes are lost and come back all the time, so a
component waits for these at most `nodes.settle` in all.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property

from msgspec import structs

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.limits.evaluate import evaluate_limits
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.motion import NodeChange, NodeEvent
from rebalancer.model.moves import PlanningMemory, make_token
from rebalancer.model.nodes import NOT_READY, Node
from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import InclusionPolicy
from rebalancer.model.words import format_duration
from rebalancer.planning.scope.components import Component
from rebalancer.policy import Policy
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.node_unschedulable import CORDONED
from rebalancer.scheduling.pod_topology_spread import counts
from rebalancer.scheduling.view import View

_TRANSIENT = NOT_READY | {CORDONED.key}
"""Keys of the taints that follow a cordon, and a node's being not Ready."""


class CountsInMotion(Refusal):
    """The violation appeared or grew when a node changed: its repair waits until the change has lasted."""

    reason = Reason.NODE_SETTLING
    ends_at = "until"
    change: NodeChange
    settle: timedelta
    until: datetime

    def __str__(self) -> str:
        return (
            f"the violation appeared or grew when a node changed ({self.change}); waiting until the change has lasted "
            f"for nodes.settle ({format_duration(self.settle)})"
        )


class RecentChanges:
    """The changes of nodes that have not lasted, and what would be violated without them."""

    def __init__(self, view: View, policy: Policy, memory: PlanningMemory) -> None:
        self._view = view
        self._policy = policy
        self._memory = memory
        self._waiting = dict(memory.settling)

    def refuse(self, component: Component, stuck: frozenset[str]) -> Refusal | None:
        """Return why a component with a violation or a `stuck` pod waits because a node has changed."""
        now, settle = self._view.clock.now, self._policy.nodes.settle
        if self._labels.unknown is not None:
            return self._wait(self._labels.unknown, self._labels.unknown.at + settle)
        if self._labels.changes and not self._labels.have_lasted(component, stuck):
            last = self._labels.find_last(component)
            return self._wait(last, min(now, last.at) + settle)
        if self._taints.changes and not self._taints.have_lasted(component, stuck):
            last = self._taints.find_last(component)
            first = self._waiting.get(make_token(component.name), now)
            return self._wait(last, min(now, last.at, first) + settle)
        return None

    def _wait(self, change: NodeChange, until: datetime) -> Refusal | None:
        if self._view.clock.has_passed(until):
            return None
        return CountsInMotion(change, self._policy.nodes.settle, until)

    @cached_property
    def _labels(self) -> "_Changes":
        return _Changes(self._view, self._policy, self._memory, {NodeEvent.RELABELLED})

    @cached_property
    def _taints(self) -> "_Changes":
        events = {NodeEvent.CORDONED, NodeEvent.UNREADY, NodeEvent.UNCORDONED}
        return _Changes(self._view, self._policy, self._memory, events)


class _Changes:
    """Recent changes of some kinds."""

    def __init__(self, view: View, policy: Policy, memory: PlanningMemory, events: Collection[NodeEvent]) -> None:
        self._view = view
        self._policy = policy
        self._memory = memory
        self._are_labels = NodeEvent.RELABELLED in events
        clock, settle = view.clock, policy.nodes.settle
        recent = [
            change
            for change in memory.node_changes
            if change.event in events and not clock.has_passed(min(clock.now, change.at) + settle)
        ]
        self.changes: Sequence[NodeChange] = [change for change in recent if change.node in view.nodes.by_name]
        """The changes of existing nodes, the newest last."""
        self.unknown = next((change for change in recent if not change.node), None)
        """Set if more labels have changed than are known."""

    def find_last(self, component: Component) -> NodeChange:
        """Return the last change of a node that holds pods of a component, else the last of all."""
        held = {pod.node for pod in component.pods}
        return next((change for change in reversed(self.changes) if change.node in held), self.changes[-1])

    def have_lasted(self, component: Component, stuck: frozenset[str]) -> bool:
        """Return whether everything to be repaired in a component would be violated without these changes."""
        for evaluated in component.groups:
            if not all(self._has_constraint_lasted(evaluated, one) for one in (*evaluated.hard, *evaluated.soft)):
                return False
        if self._are_labels and not all(map(self._has_limit_lasted, component.limits)):
            return False
        if self._are_labels and not all(map(self._has_term_lasted, component.terms)):
            return False
        pods = (pod for pod in component.pods if pod.uid in stuck) if stuck else ()
        return not any(feasible(pod, before) for pod in pods for before in self._befores)

    def _has_constraint_lasted(self, group: EvaluatedGroup, evaluated: EvaluatedConstraint) -> bool:
        constraint, now = evaluated.constraint, evaluated.counts
        if not now.violated or constraint.when_unsatisfiable not in self._policy.spread.act_on:
            return True
        if not self._are_labels and constraint.node_taints_policy is InclusionPolicy.IGNORE:
            return True
        earlier = (counts(constraint, group.spread.sample, before) for before in self._befores)
        return all(one.skew >= now.skew and one.by_domain.filled == now.by_domain.filled for one in earlier)

    def _has_limit_lasted(self, limit: EvaluatedLimit) -> bool:
        return limit.state is State.SATISFIED or all(self._is_limit_violated(limit, view) for view in self._befores)

    def _has_term_lasted(self, term: EvaluatedTerm) -> bool:
        """Return whether the pods that conflict by a term were in the same domains."""
        nodes = {pod.node or "" for conflict in term.conflicts for side in conflict.sides for pod in side.pods}
        key = term.term.topology_key
        now, befores = self._view.nodes.values(key), [before.nodes.values(key) for before in self._befores]
        return all(now[node] == before.get(node) for node in nodes for before in befores)

    def _is_limit_violated(self, limit: EvaluatedLimit, view: View) -> bool:
        """Return whether a limit is also violated in a view, by the same pods and at least as much as now."""
        knowledge = DomainKnowledge.of(view, self._policy, self._memory)
        evaluated = evaluate_limits([limit.gathered], view, self._memory, knowledge)
        before = next((one for one in evaluated if one.name == limit.name), None)
        return before is not None and before.headroom <= limit.headroom and before.counts.filled == limit.counts.filled

    @cached_property
    def _befores(self) -> Sequence[View]:
        """The cluster as it was before these changes, and before each node's last change."""
        snapshot = self._view.snapshot
        views: list[View] = []
        first, last = self._find_earlier(self.changes), self._find_earlier(reversed(self.changes))
        for earlier in (first,) if first == last else (first, last):
            nodes = tuple(earlier.get(node.name, node) for node in snapshot.nodes)
            # Indexes of pods by label depend on node labels, so the views share no index.
            views.append(View(replace(snapshot, nodes=nodes), self._view.profile, self._view.clock))
        return views

    def _find_earlier(self, changes: Iterable[NodeChange]) -> Mapping[str, Node]:
        """Return the nodes as they were before the changes; a node with several, as before the first in this order."""
        earlier: dict[str, Node] = {}
        undone: set[tuple[str, str]] = set()
        for change in changes:
            subject = change.node, change.key if self._are_labels else ""
            if subject not in undone:
                undone.add(subject)
                earlier[change.node] = _undo(earlier.get(change.node, self._view.nodes.by_name[change.node]), change)
        return earlier


def _undo(node: Node, change: NodeChange) -> Node:
    """Return a node as it was before a change."""
    if change.event is NodeEvent.RELABELLED:
        labels = {key: value for key, value in node.labels.items() if key != change.key}
        before = labels if change.value is None else labels | {change.key: change.value}
        return structs.replace(node, labels=Labels(before))
    taints = tuple(taint for taint in node.taints if taint.key not in _TRANSIENT)
    if change.event is NodeEvent.UNCORDONED:
        return structs.replace(node, unschedulable=True, taints=(*taints, CORDONED))
    return structs.replace(node, unschedulable=False, ready=True, taints=taints)
