"""Ground in motion: nodes that have changed lately, and domains that lose nodes, as the memory stores them."""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rebalancer.model.moments import Moment

LEAST_WINDOW: Final = timedelta(minutes=1)
"""The shortest window in which the nodes that a domain loses are counted."""

LONGEST_UNSETTLED: Final = timedelta(hours=1)
"""How long nothing is moved into a domain that loses nodes, at most."""


class NodeEvent(StrEnum):
    """What has become of a node."""

    CORDONED = "cordoned"
    UNREADY = "unready"
    DELETED = "deleted"
    UNCORDONED = "uncordoned"
    RELABELLED = "relabelled"
    """Its value of a topology key is another."""

    @property
    def is_loss(self) -> bool:
        """Whether it takes pods no more."""
        return self in _LOSSES


_LOSSES: Final = frozenset({NodeEvent.CORDONED, NodeEvent.UNREADY, NodeEvent.DELETED})


class NodeChange(Struct, frozen=True, gc=False, array_like=True):
    """A change of a node that was observed. Nothing on the object says when an uncordon or a change of a label was.

    `node` is "" where more labels have changed than are stored: then any may have. For a loss, `key` and `value` are
    one of its domains (a row for each, at least one), and `by` is who has cordoned it, where that is known. For a
    change of a label they are its key and the value before, None where it had none.
    """

    at: Moment
    node: str
    event: NodeEvent
    key: str = ""
    value: str | None = None
    by: str = ""


class DomainMotion(Struct, frozen=True, gc=False, kw_only=True):
    """A domain that has lost many of its nodes within a short time, without an autoscaler's mark on them.

    `had` is how many nodes took pods there before, `lost` how many of them do no more or did not for a while. `nodes`
    are some of these, by name; `events` and `by` say what became of them and who cordoned them.
    """

    key: str
    value: str
    since: Moment
    """When the first node was lost."""
    until: Moment
    """When the last one was."""
    moved: Moment
    """When a node was last lost or came back, or a new one took the place of the last one that was missing."""
    lasting: bool
    """Whether so many of them are there and take no pods still."""
    had: int
    lost: int
    nodes: tuple[str, ...] = ()
    events: tuple[NodeEvent, ...] = ()
    by: tuple[str, ...] = ()

    @property
    def latest_end(self) -> Moment:
        """When replacements may land in the domain again, whatever it does until then."""
        return self.since + LONGEST_UNSETTLED

    def settles_at(self, window: timedelta) -> Moment:
        """Return from when on replacements may land in the domain again if nothing changes."""
        return self.latest_end if self.lasting else min(self.latest_end, self.moved + window)
