"""Nodes that have changed lately, and domains that lose nodes, as the memory stores them."""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rebalancer.model.moments import Moment
from rebalancer.model.words import format_duration, name_list, plural

LEAST_WINDOW: Final = timedelta(minutes=1)
"""The shortest window in which the nodes that a domain loses are counted."""

LONGEST_UNSETTLED: Final = timedelta(hours=1)
"""How long nothing is moved into a domain that loses nodes, at most."""


class NodeEvent(StrEnum):
    """How a node has changed."""

    CORDONED = "cordoned"
    UNREADY = "unready"
    DELETED = "deleted"
    UNCORDONED = "uncordoned"
    RELABELLED = "relabelled"
    """The node's value of a topology key has changed."""

    @property
    def is_loss(self) -> bool:
        """Whether the node no longer takes pods after this event."""
        return self in _LOSSES


_LOSSES: Final = frozenset({NodeEvent.CORDONED, NodeEvent.UNREADY, NodeEvent.DELETED})

_VERBS: Final = {
    NodeEvent.CORDONED: "was cordoned",
    NodeEvent.UNREADY: "became not Ready",
    NodeEvent.UNCORDONED: "was uncordoned",
}
"""Verbs for the changes of nodes that a repair waits for; for a changed label the old value is named."""

_LOST_BY: Final = {
    NodeEvent.CORDONED: "cordoned",
    NodeEvent.UNREADY: "not Ready any more",
    NodeEvent.DELETED: "deleted",
}


class NodeChange(Struct, frozen=True, gc=False, array_like=True):
    """A change of a node that was observed: no object records when an uncordon or a change of a label was."""

    at: Moment
    node: str
    """The node's name, "" where more labels have changed than are stored: then any node may have changed."""
    event: NodeEvent
    key: str = ""
    """For a loss, the key of one of the node's domains (at least one row, one for each); for a label, its key."""
    value: str | None = None
    """For a loss, the domain; for a change of a label, the value before, None without one."""
    by: str = ""
    """For a loss, who has cordoned the node, if known."""

    def __str__(self) -> str:
        """Say what has become of the node, and when."""
        at = f"{self.at:%Y-%m-%d %H:%M:%SZ}"
        if not self.node:
            return f"more nodes were relabelled at {at} than can be stored"
        if self.event is NodeEvent.RELABELLED:
            was = "not there" if self.value is None else self.value or '""'
            return f"{self.key} of node {self.node} was {was} until {at}"
        return f"node {self.node} {_VERBS[self.event]} at {at}"


class DomainMotion(Struct, frozen=True, gc=False, kw_only=True):
    """A domain that has lost many of its nodes within a short time, without an autoscaler's mark on them.

    `had` is how many nodes took pods there before, `lost` how many of them stopped, even for a while. `nodes` are some
    of these, by name; `events` and `by` say what became of them and who cordoned them.
    """

    key: str
    value: str
    since: Moment
    """When the first node was lost."""
    until: Moment
    """When the last node was lost."""
    moved: Moment
    """When a node was last lost or came back, or a new node took the place of the last missing node."""
    lasting: bool
    """Whether so many lost nodes still exist without taking pods that the motion lasts."""
    had: int
    lost: int
    nodes: tuple[str, ...] = ()
    events: tuple[NodeEvent, ...] = ()
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say what has become of how many nodes, within what time, and who cordoned them."""
        return self._describe(f"{self.lost} of {plural(self.had, 'node')} of {self.key}={self.value}")

    @property
    def cause(self) -> str:
        """The same about a domain that has just been named."""
        return self._describe("its only node" if self.had == 1 else f"{self.lost} of its {self.had} nodes")

    def _describe(self, nodes: str) -> str:
        losses = " or ".join(_LOST_BY[event] for event in self.events)
        seconds = round((self.until - self.since).total_seconds())
        within = f" within {format_duration(timedelta(seconds=seconds))}" if seconds else ""
        by = f" by {name_list(self.by)}" if self.by else ""
        return f"{nodes} {'was' if self.lost == 1 else 'were'} {losses}{within}{by}"

    @property
    def latest_end(self) -> Moment:
        """When replacements may be placed in the domain again, whatever it does until then."""
        return self.since + LONGEST_UNSETTLED

    def settles_at(self, window: timedelta) -> Moment:
        """Return from when on replacements may be placed in the domain again if nothing changes."""
        return self.latest_end if self.lasting else min(self.latest_end, self.moved + window)
