"""One group on its real nodes: the arrangement with names, and the way back from a class to a pod.

Searches work on classes of equal places; this module knows which node and which pod is meant in the end, and chooses
the cheapest victim among equals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from rebalancer.assessment.groups import Member
from rebalancer.model.pods import Pod
from rebalancer.planning.arrangement import Bound, Bounds, Inner, Leaf, Path, Place, inner

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

Cost = tuple[int, int, bool, float, str]


@dataclass(frozen=True)
class Victim:
    """A pod that may move, and the workload it belongs to."""

    pod: Pod
    member: Member

    @property
    def cost(self) -> Cost:
        """What it costs to move it; the lowest goes first: least important, cheapest to delete, unready, youngest."""
        text = self.pod.annotations.get(_DELETION_COST, "0")
        try:
            deletion = int(text)
        except ValueError:
            deletion = 0  # the API server refuses such a value, an old object may still carry it
        return self.pod.spec.priority, deletion, self.pod.ready, -self.pod.created.timestamp(), self.pod.name


@dataclass
class Site:
    """One node: its domains from the coarsest on, its pods of the group, and how many it can hold.

    `last` is its domain on the last level, where every node is one of its own: the label's value, not the node's name.
    """

    node: str
    domains: tuple[str, ...]
    last: str
    count: int
    cap: int
    movable: list[Victim]
    leaving: int = 0

    @property
    def every(self) -> tuple[str, ...]:
        """Its domains on all levels."""
        return (*self.domains, self.last)

    @property
    def leaf(self) -> Leaf:
        """The node as the search sees it."""
        return self.count, self.count - len(self.movable) - self.leaving, self.cap, self.leaving


@dataclass
class _Domain:
    """A domain of a coarser key, with its parts."""

    parts: "dict[str, _Domain | Site]" = field(default_factory=dict)
    place: Place | None = None

    def seen(self) -> Place:
        """Return the domain as the search sees it; kept until something in it changes."""
        if self.place is None:
            self.place = inner(part.leaf if isinstance(part, Site) else part.seen() for part in self.parts.values())
        return self.place


class Layout:
    """The tree of one group. `keys` are the topology keys of the levels; the last level is always the node."""

    def __init__(self, sites: Sequence[Site], keys: tuple[str, ...], bounds: tuple[Bound, ...]) -> None:
        self.keys = keys
        self.bounds: Bounds = bounds
        self.sites = {site.node: site for site in sites}
        self._root = _Domain()
        for site in sites:
            domain = self._root
            for value in site.domains:
                part = domain.parts.setdefault(value, _Domain())
                assert isinstance(part, _Domain)
                domain = part
            domain.parts[site.node] = site

    @property
    def root(self) -> Inner:
        """The arrangement as the search sees it."""
        return cast("Inner", self._root.seen())

    def best(self, path: Path) -> tuple[Site, Victim]:
        """Return the cheapest victim among all nodes of the class that a path describes."""
        found = [(victim.cost, site.node, site, victim) for site in self._sites(path) for victim in site.movable]
        _, _, site, victim = min(found, key=lambda each: each[:2])
        return site, victim

    def _sites(self, path: Path) -> Iterator[Site]:
        level: list[_Domain] = [self._root]
        for place in path[:-1]:
            level = [
                part
                for domain in level
                for part in domain.parts.values()
                if isinstance(part, _Domain) and part.seen() == place
            ]
        for domain in level:
            for part in domain.parts.values():
                if isinstance(part, Site) and part.leaf == path[-1]:
                    yield part

    def mark(self, site: Site, victim: Victim) -> None:
        """Note that a pod is to leave its node."""
        site.movable.remove(victim)
        site.leaving += 1
        self._changed(site)

    def _changed(self, site: Site) -> None:
        domain = self._root
        domain.place = None
        for value in site.domains:
            part = domain.parts[value]
            assert isinstance(part, _Domain)
            domain = part
            domain.place = None

    def counts(self) -> tuple[Mapping[str, int], ...]:
        """Count the pods that stay, by domain, for each level."""
        found: tuple[dict[str, int], ...] = tuple({} for _ in self.keys)
        for site in self.sites.values():
            for level, value in zip(found, site.every, strict=True):
                level[value] = level.get(value, 0) + site.count - site.leaving
        return found
