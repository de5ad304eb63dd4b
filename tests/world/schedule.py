"""What a seed draws to happen, as data: so a run can be repeated with a part of it left out.

Every disturbance has random numbers of its own, and each replica too: leaving one out changes none of the others. Many
begin with a request instead of a moment, because most of what can go wrong lies within the seconds of an eviction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

CHAOS, QUIET = 1800.0, 1500.0
"""Seconds with disturbances, and seconds without in which everything has to come right."""

REST = 2100.0
"""Seconds after that, in which what has come right is left alone."""

FIRST = 30.0
"""Seconds before the first disturbance."""

_CLUSTER_EVERY, _NETWORK_EVERY = 130.0, 90.0
"""Mean seconds between two disturbances of the cluster, and between two of network and processes."""

_TRIGGERS = ("", "evict", "granted", "control", "status")
"""When a disturbance begins: at once, or with the next eviction, granted eviction, read of the kill switch, save."""


class Planned(NamedTuple):
    """One disturbance: by name, from a moment on, `delay` seconds after the next request of the kind `trigger`."""

    at: float
    name: str
    trigger: str
    delay: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What is left of a run: numbers of disturbances, None for all; fewer replicas; less time."""

    disturbances: tuple[int, ...] | None = None
    replicas: int | None = None
    chaos: float = CHAOS
    quiet: float = QUIET
    rest: float = REST

    @property
    def flags(self) -> str:
        """The arguments of `python -m tests.world` that cut a run so."""
        base = WHOLE if self.rest == REST else BRIEF
        parts = ["--brief"] if base is BRIEF else []
        if self.disturbances is not None:
            parts.append(f"--only {','.join(map(str, self.disturbances)) or '-'}")
        if self.replicas is not None:
            parts.append(f"--replicas {self.replicas}")
        if self.chaos != base.chaos:
            parts.append(f"--chaos {self.chaos:g}")
        return " ".join(parts)


WHOLE = Cut()

BRIEF = Cut(chaos=CHAOS / 2, quiet=900, rest=300)
"""35 minutes: for very many seeds, at less than half the price."""


def draw_schedule(seed: int, cluster: Sequence[str], network: Sequence[str]) -> list[Planned]:
    """Draw the disturbances of a run from the names of those of the cluster and those of network and processes."""
    random = Random(f"{seed} schedule")
    planned = [
        *_draw(random, cluster, _CLUSTER_EVERY, triggered=0.4),
        *_draw(random, network, _NETWORK_EVERY, triggered=0.6),
    ]
    return sorted(planned)


def _draw(random: Random, names: Sequence[str], every: float, *, triggered: float) -> list[Planned]:
    planned = []
    moment = FIRST + random.expovariate(1 / every)
    while names and moment < CHAOS:
        trigger = random.choice(_TRIGGERS) if random.random() < triggered else ""
        delay = random.choice([0.0, random.random(), random.random() * 5]) if trigger else 0.0
        planned.append(Planned(moment, random.choice(names), trigger, delay, random.getrandbits(32)))
        moment += random.expovariate(1 / every)
    return planned
