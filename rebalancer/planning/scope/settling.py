"""Nodes on which a replacement should not land yet: they are not Ready, or have become Ready lately.

They stay in the model, since the scheduler counts them and may place pods on them; so a step waits where one of its
replacements may land on such a node, and no other step does. In an autoscaled cluster nodes join all the time, so a
component waits for nodes that have become Ready at most `nodes.settle` in all: from then on until it is repaired these
count like any other. A node that is not Ready is waited for as long as it is a target.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cached_property

from rebalancer.model.moves import make_token
from rebalancer.model.reasons import Reason
from rebalancer.planning.causes import NodeNotReady, NodeSettling, Refusal
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View


class SettlingNodes:
    """The nodes of one view that are not Ready or settle; `waiting` is since when components wait, by token."""

    def __init__(self, view: View, policy: Policy, waiting: Mapping[str, datetime]) -> None:
        self._nodes = view.snapshot.nodes
        self._by_name = view.nodes.by_name
        self._clock = view.clock
        self._settle = policy.nodes.settle
        self._waiting = waiting

    @cached_property
    def names(self) -> frozenset[str]:
        """The nodes' names."""
        now, settle = self._clock.now, self._settle
        return frozenset(
            node.name
            for node in self._nodes
            if not node.ready or (node.ready_since is not None and now - node.ready_since < settle)
        )

    def refuse(self, component: str, landings: Collection[str]) -> Refusal | None:
        """Return why a step waits of which a replacement may land on these nodes, all of them of `names`; or None."""
        for name in sorted(landings):
            if not self._by_name[name].ready:
                return Refusal(Reason.NODE_SETTLING, NodeNotReady(name))
        if not landings:
            return None
        now, settle = self._clock.now, self._settle
        since, last = max((self._by_name[name].ready_since or now, name) for name in landings)
        # A time in the future, from another clock, must not delay anything without end: no wait begins later than now.
        until = min(now, since, self._waiting.get(make_token(component), now)) + settle
        if self._clock.has_passed(until):
            return None
        return Refusal(Reason.NODE_SETTLING, NodeSettling(last, since, settle, until))
