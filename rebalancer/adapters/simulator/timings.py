"""How long things take in a simulated cluster, and what goes wrong in it."""

from random import Random
from typing import NamedTuple

from msgspec import Struct


class Span(NamedTuple):
    """Between so many and so many seconds, drawn anew each time."""

    shortest: float
    longest: float

    def draw(self, random: Random) -> float:
        """Draw a duration in seconds."""
        return random.uniform(self.shortest, self.longest)


class Timings(Struct, frozen=True, kw_only=True):
    """Seconds that each actor takes; the defaults are those of a healthy cluster of moderate size."""

    starting: Span = Span(2.0, 10.0)
    """From a pod's placement until it is Ready."""
    stopping: Span = Span(1.0, 5.0)
    """From a pod's deletion until it is gone."""
    reconciling: Span = Span(0.01, 0.2)
    """From a change until the owners' controllers act on it."""
    counting: Span = Span(0.05, 1.0)
    """From a change until a disruption budget's status shows it."""
    placing: float = 0.02
    """The scheduler's time for one pod."""
    collecting: float = 40.0
    """From a node's removal until its pods are deleted."""


class Faults(Struct, frozen=True, kw_only=True):
    """What goes wrong between a client and the simulated API server; nothing by default.

    `lost_answers` is the share of eviction requests that are never answered; every other one of them was carried out
    all the same. `throttled` is the share that the server answers with a plea for patience. `watch_delay` is by how
    many seconds snapshots lag behind.
    """

    lost_answers: float = 0.0
    throttled: float = 0.0
    watch_delay: float = 0.0
