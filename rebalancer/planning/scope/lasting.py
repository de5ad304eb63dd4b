"""What is to be repaired only because a node has changed a moment ago: a wrong label must not move a pod.

A constraint or limit is evaluated with the nodes as they are, as they were before the changes of the last
`nodes.settle`, and, where a node has changed several times, as they were before the last change of each. What is
violated with all of them, by the same pods in the same domains, waits for nothing. What is violated only now, or more
than it was, or by other pods, waits until the change has lasted. Without the last changes a label that is wrong, right
and wrong again would be a violation that has lasted as soon as its first change is older than `nodes.settle`: what it
was changed from since is the wrong value.

Labels decide which nodes make a domain; cordons and readiness do where a constraint honours the nodes' taints. A pod
that no node admits since then waits, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property

from msgspec import structs

from rebalancer.assessment.assess import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.limits.evaluate import evaluate_limits
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.labels import Labels
from rebalancer.model.motion import NodeChange, NodeEvent
from rebalancer.model.moves import Memory
from rebalancer.model.nodes import Node
from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import InclusionPolicy
from rebalancer.planning.causes import CountsInMotion, Refusal
from rebalancer.planning.scope.components import Component
from rebalancer.policy import Policy
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.pod_topology_spread import counts
from rebalancer.scheduling.view import View

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE)
_NOT_READY = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE)
_TRANSIENT = frozenset({_UNSCHEDULABLE.key, _NOT_READY.key, "node.kubernetes.io/unreachable"})
"""Keys of the taints that follow a cordon, and a node's being not Ready."""


class RecentChanges:
    """The changes of nodes that have not lasted, and what would be violated without them."""

    def __init__(self, view: View, policy: Policy, memory: Memory) -> None:
        self._view = view
        self._policy = policy
        self._memory = memory
        self._settle: timedelta = policy.nodes.settle

    def refuse(self, component: Component, stuck: frozenset[str]) -> Refusal | None:
        """Return why a component waits of which something is violated, or a pod `stuck`, since a node has changed."""
        if not self._changes or self._has_lasted(component, stuck):
            return None
        last = max(self._changes)
        until = min(self._view.clock.now, last.at) + self._settle
        return Refusal(Reason.NODE_SETTLING, CountsInMotion(last, self._settle, until))

    @cached_property
    def _changes(self) -> Sequence[NodeChange]:
        """The changes that have not lasted of nodes that exist."""
        clock, settle = self._view.clock, self._settle
        there = (change for change in self._memory.node_changes if change.node in self._view.nodes.by_name)
        return [change for change in there if not clock.has_passed(min(clock.now, change.at) + settle)]

    @cached_property
    def _labels_changed(self) -> bool:
        return any(change.event is NodeEvent.RELABELLED for change in self._changes)

    def _has_lasted(self, component: Component, stuck: frozenset[str]) -> bool:
        """Return whether all that is to be repaired of a component would be without the recent changes."""
        for evaluated in component.groups:
            if not all(self._has_constraint_lasted(evaluated, one) for one in (*evaluated.hard, *evaluated.soft)):
                return False
        if not all(map(self._has_limit_lasted, component.limits)):
            return False
        pods = (pod for pod in component.pods if pod.uid in stuck) if stuck else ()
        return not any(feasible(pod, before) for pod in pods for before in self._befores)

    def _has_constraint_lasted(self, group: EvaluatedGroup, evaluated: EvaluatedConstraint) -> bool:
        constraint = evaluated.constraint
        if not evaluated.counts.violated or constraint.when_unsatisfiable not in self._policy.spread.act_on:
            return True
        if not self._labels_changed and constraint.node_taints_policy is InclusionPolicy.IGNORE:
            return True
        now = evaluated.counts
        earlier = (counts(constraint, group.spread.sample, before) for before in self._befores)
        return all(one.skew >= now.skew and one.by_domain.filled == now.by_domain.filled for one in earlier)

    def _has_limit_lasted(self, limit: EvaluatedLimit) -> bool:
        if limit.state is State.SATISFIED or not self._labels_changed:
            return True
        return all(self._is_limit_violated(limit, before) for before in self._befores)

    def _is_limit_violated(self, limit: EvaluatedLimit, view: View) -> bool:
        """Return whether a limit is violated in a view, too, by the same pods and no less than it is now."""
        knowledge = DomainKnowledge.of(view, self._policy, self._memory)
        evaluated = evaluate_limits([limit.gathered], view, self._memory, knowledge)
        before = next((one for one in evaluated if one.name == limit.name), None)
        return before is not None and before.headroom <= limit.headroom and before.counts.filled == limit.counts.filled

    @cached_property
    def _befores(self) -> Sequence[View]:
        """The cluster with the nodes as they were before these changes, and before the last one of each node."""
        snapshot = self._view.snapshot
        views: list[View] = []
        first, last = self._find_earlier(self._changes), self._find_earlier(reversed(self._changes))
        for earlier in (first,) if first == last else (first, last):
            nodes = tuple(earlier.get(node.name, node) for node in snapshot.nodes)
            # Pods are counted by label with their nodes' labels at hand, so that no index may be shared.
            views.append(View(replace(snapshot, nodes=nodes), self._view.profile, self._view.clock))
        return views

    def _find_earlier(self, changes: Iterable[NodeChange]) -> Mapping[str, Node]:
        """Return the nodes as they were before the changes; of several ones of the same, before the first in order."""
        earlier: dict[str, Node] = {}
        undone: set[tuple[str, str]] = set()
        for change in changes:
            subject = change.node, change.key if change.event is NodeEvent.RELABELLED else ""
            if subject not in undone:
                undone.add(subject)
                earlier[change.node] = _undo(earlier.get(change.node, self._view.nodes.by_name[change.node]), change)
        return earlier


def _undo(node: Node, change: NodeChange) -> Node:
    """Return a node as it was before a change."""
    if change.event is NodeEvent.RELABELLED:
        labels = {key: value for key, value in node.labels.items() if key != change.key}
        return structs.replace(
            node, labels=Labels(labels if change.value is None else labels | {change.key: change.value})
        )
    taints = tuple(taint for taint in node.taints if taint.key not in _TRANSIENT)
    match change.event:
        case NodeEvent.UNCORDONED:
            return structs.replace(node, unschedulable=True, taints=(*taints, _UNSCHEDULABLE))
        case NodeEvent.READY:
            return structs.replace(node, ready=False, ready_since=None, taints=(*taints, _NOT_READY))
        case _:
            return structs.replace(node, unschedulable=False, ready=True, taints=taints)
