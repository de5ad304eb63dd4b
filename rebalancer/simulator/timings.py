"""The durations of a simulated cluster's actions, and its faults."""

from random import Random
from typing import NamedTuple

from msgspec import Struct


class Span(NamedTuple):
    """A range of seconds from which a duration is drawn."""

    shortest: float
    longest: float

    def draw(self, random: Random) -> float:
        """Draw a duration in seconds."""
        return random.uniform(self.shortest, self.longest)


class Timings(Struct, frozen=True, kw_only=True):
    """How many seconds each action takes; the defaults describe a healthy cluster of moderate size."""

    starting: Span = Span(2.0, 10.0)
    """From a pod's binding until the pod is Ready."""
    stopping: Span = Span(1.0, 5.0)
    """From a pod's deletion until it is removed."""
    reconciling: Span = Span(0.01, 0.2)
    """From a change until the owner's controller reconciles the owner."""
    counting: Span = Span(0.05, 1.0)
    """From a change until a disruption budget's status is updated."""
    informing: Span = Span(0.0, 0.0)
    """From a change until the scheduler and the owners' controllers see it; each sees changes in order."""
    placing: float = 0.02
    """The time that the scheduler takes for one pod."""
    binding: Span = Span(0.0, 0.0)
    """From the scheduler's decision until the pod is bound; the scheduler places other pods meanwhile."""
    collecting: float = 40.0
    """From a node's removal until its pods are deleted."""


class Faults(Struct, frozen=True, kw_only=True):
    """Faults between a client and the simulated API server; by default there are none."""

    lost_answers: float = 0.0
    """The share of eviction requests that get no response; half of these are carried out."""
    throttled: float = 0.0
    """The share of eviction requests that the server refuses with status 429."""
    watch_delay: float = 0.0
    """The delay of snapshots, in seconds."""
