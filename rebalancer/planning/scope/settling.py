"""Nodes on which a replacement should not be placed yet: they are not Ready, start nothing, or are in motion.

They stay in the model, since the scheduler counts them and may place pods on them. So a step waits only if one of its
replacements may be placed on such a node. A node has to settle after it becomes Ready, is uncordoned or gets another
value of a topology key. A node that was lost a moment ago takes no replacement, but its neighbours may be lost next. So
for the same time its zone settles, too, or, without a zone, its smallest domain.

In an autoscaled cluster nodes join all the time. So a component waits for nodes that have become Ready, and for the
neighbours of lost nodes, at most `nodes.settle` in all: after that, until the component is repaired, such nodes count
like any other. For nodes that were uncordoned or relabelled, for example in a maintenance that goes from node to node,
a component waits an hour at most. It waits for a node that is not Ready, or on which nothing starts, as long as the
node is a target, and for a domain in motion until the domain has settled.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain, islice
from typing import Final, NamedTuple

from rebalancer.assessment.assess import Assessment, UnsettledDomain
from rebalancer.model.facts import Refusal
from rebalancer.model.motion import LONGEST_UNSETTLED, NodeChange, NodeEvent
from rebalancer.model.moves import DomainName, PlanningMemory, make_token
from rebalancer.model.nodes import ZONE
from rebalancer.model.reasons import Reason
from rebalancer.model.words import format_duration
from rebalancer.planning.scope.components import Component
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View

_Chunks = Sequence[frozenset[str]]
"""Chunks of nodes: mostly the first chunk shows whether a replacement may be placed on any of thousands."""

_CHUNK: Final = 16


class NodeNotReady(Refusal):
    """A node that may take a replacement is not Ready."""

    reason = Reason.NODE_SETTLING
    ends = "when node {self.node} is Ready"
    node: str

    def __str__(self) -> str:
        return f"node {self.node} may take a replacement and is not Ready"


class NodeSettling(Refusal):
    """A node that may take a replacement has been Ready for less than nodes.settle; the step waits until `until`."""

    reason = Reason.NODE_SETTLING
    ends_at = "until"
    node: str
    since: datetime
    settle: timedelta
    until: datetime

    def __str__(self) -> str:
        return (
            f"node {self.node} may take a replacement and has been Ready only since {self.since:%Y-%m-%d %H:%M:%SZ}; "
            f"waiting until {self.until:%Y-%m-%d %H:%M:%SZ}, at most nodes.settle ({format_duration(self.settle)}) in "
            "all"
        )


class NodeChanged(Refusal):
    """A replacement may be placed on a node that was lately uncordoned, relabelled or lost, or near a lost node.

    `domain` is the domain of a lost node if the step waits for its neighbour; else None. The component waits at most
    `longest` in all.
    """

    reason = Reason.NODE_SETTLING
    ends_at = "until"
    change: NodeChange
    domain: DomainName | None
    longest: timedelta
    until: datetime

    def __str__(self) -> str:
        where = f"on node {self.change.node}" if self.domain is None else f"in {self.domain}"
        return (
            f"a replacement may land {where}: {self.change}; "
            f"waiting until {self.until:%Y-%m-%d %H:%M:%SZ}, at most {format_duration(self.longest)} in all"
        )


class _Wait(NamedTuple):
    """Since when a node settles, and the change that caused it; None if the node became Ready."""

    since: datetime
    node: str
    change: NodeChange | None = None
    domain: DomainName | None = None


def _divide(nodes: Collection[str]) -> _Chunks:
    names = sorted(nodes)
    return [frozenset(names[place : place + _CHUNK]) for place in range(0, len(names), _CHUNK)]


class SettlingNodes:
    """The nodes of one view that take no replacement yet; the memory has the time since which components wait."""

    def __init__(self, view: View, policy: Policy, memory: PlanningMemory, assessment: Assessment) -> None:
        self._nodes = view.nodes
        self._clock = view.clock
        self._settle = policy.nodes.settle
        self._waiting = dict(memory.settling)
        self._changes = memory.node_changes
        self._domains = assessment.unsettled_domains
        self._without_starts = assessment.nodes_without_starts

    @cached_property
    def _unready(self) -> frozenset[str]:
        return frozenset(name for name, node in self._nodes.by_name.items() if not node.ready)

    @cached_property
    def _waits(self) -> Sequence[tuple[_Wait, _Chunks]]:
        """The nodes that settle, each with its last reason, the newest first."""
        now, settle = self._clock.now, self._settle
        waits = {
            name: _Wait(node.ready_since, name)
            for name, node in self._nodes.by_name.items()
            if node.ready_since is not None and now - node.ready_since < settle
        }
        for name, wait in self._find_changed():
            if now - wait.since < settle and (name not in waits or waits[name].since <= wait.since):
                waits[name] = wait
        nodes: defaultdict[_Wait, list[str]] = defaultdict(list)
        for name, wait in waits.items():
            nodes[wait].append(name)
        newest = sorted(nodes, key=lambda wait: (wait.since, wait.node, wait.change is None), reverse=True)
        return [(wait, _divide(nodes[wait])) for wait in newest]

    @cached_property
    def ends(self) -> Mapping[str, datetime]:
        """Until when each settling node settles, if nothing changes: the node, and its domains."""
        return self._own_ends | {name: domain.until for name, domain in self.held.items()}

    @cached_property
    def held(self) -> Mapping[str, UnsettledDomain]:
        """For nodes that a domain in motion delays longer than their own changes do: that domain."""
        held: dict[str, UnsettledDomain] = {}
        for domain, chunks in self._unsettled:
            for name in chain.from_iterable(chunks):
                if name not in held and domain.until >= self._own_ends.get(name, domain.until):
                    held[name] = domain
        return held

    @cached_property
    def _own_ends(self) -> dict[str, datetime]:
        now, settle = self._clock.now, self._settle
        return {
            name: min(now, wait.since) + settle for wait, chunks in self._waits for chunk in chunks for name in chunk
        }

    @cached_property
    def neighbours(self) -> Mapping[str, NodeChange]:
        """For nodes that settle because of a lost neighbour, not their own change: what became of the neighbour."""
        return {
            name: wait.change
            for wait, chunks in self._waits
            if wait.change is not None and wait.domain is not None
            for name in chain.from_iterable(chunks)
        }

    def _find_changed(self) -> Iterator[tuple[str, _Wait]]:
        """Yield the nodes that settle after a change, the newest last, and the nodes that settle for a neighbour."""
        newest: dict[DomainName, NodeChange] = {}
        for change in self._changes:
            if not change.event.is_loss:
                yield change.node, _Wait(change.at, change.node, change)
            elif self._is_away(change) and change.value is not None:
                domain = DomainName(change.key, change.value)
                if self._neighbourhoods[change.node] == domain:
                    newest[domain] = change
        for domain, change in newest.items():
            for name in self._nodes.groups(domain.topology_key).get(domain.value, ()):
                yield name, _Wait(change.at, change.node, change, domain)

    def _is_away(self, change: NodeChange) -> bool:
        """Return whether a lost node may come back, and has not; a deleted node does not come back."""
        node = self._nodes.by_name.get(change.node)
        return change.event is not NodeEvent.DELETED and (node is None or not node.takes_pods)

    @cached_property
    def _neighbourhoods(self) -> Mapping[str, DomainName]:
        """The zone of each lost node, or the domain with the fewest nodes."""
        smallest: dict[str, tuple[bool, int, DomainName]] = {}
        for change in self._changes:
            if change.event.is_loss and change.value is not None:
                size = len(self._nodes.groups(change.key).get(change.value, ()))
                one = change.key != ZONE, size, DomainName(change.key, change.value)
                smallest[change.node] = min(smallest.get(change.node, one), one)
        return {node: domain for node, (_, _, domain) in smallest.items()}

    @cached_property
    def _unsettled(self) -> Sequence[tuple[UnsettledDomain, _Chunks]]:
        """The nodes of domains in motion; nodes that settle last are first."""
        last = sorted(self._domains, key=lambda one: (one.until, one.motion.key, one.motion.value), reverse=True)
        nodes = (self._nodes.groups(one.motion.key).get(one.motion.value, ()) for one in last)
        return [(one, _divide(of)) for one, of in zip(last, nodes, strict=True)]

    def find_waits(
        self, component: Component, find_landings: Callable[[frozenset[str]], Collection[str]]
    ) -> Iterator[Refusal]:
        """Yield what a step waits for, the last to end of each kind; nothing if it need not wait.

        `find_landings` returns which of some nodes may take one of its replacements.
        """
        for name in islice(sorted(find_landings(self._unready)) if self._unready else (), 1):
            yield NodeNotReady(name)
        stuck = self._find_stuck(component) if self._without_starts else {}
        for name in islice(sorted(find_landings(frozenset(stuck))) if stuck else (), 1):
            yield stuck[name]
        domain = next((cause for cause, nodes in self._unsettled if any(map(find_landings, nodes))), None)
        if domain is not None:
            yield domain
        wait = next((wait for wait, nodes in self._waits if any(map(find_landings, nodes))), None)
        refusal = self._wait(component.name, wait) if wait is not None else None
        if refusal is not None:
            yield refusal

    def _find_stuck(self, component: Component) -> Mapping[str, Refusal]:
        """Return the nodes on which nothing starts, or no pod of the component starts."""
        owners = {"", *(member.owner.uid for member in component.members if member.owner is not None)}
        return {node.refusal.node: node.refusal for node in self._without_starts if node.owner in owners}

    def _wait(self, component: str, wait: _Wait) -> Refusal | None:
        now, settle = self._clock.now, self._settle
        first = min(now, self._waiting.get(make_token(component), now))
        longest = settle if wait.change is None or wait.domain is not None else LONGEST_UNSETTLED
        # No wait begins later than now, since a future time from another clock must not delay anything forever.
        until = min(min(now, wait.since) + settle, first + longest)
        if self._clock.has_passed(until):
            return None
        if wait.change is None:
            return NodeSettling(wait.node, wait.since, settle, until)
        return NodeChanged(wait.change, wait.domain, longest, until)
