"""The nodes that a group's constraints see, divided by its keys: worked out once for all groups that see the same.

Thousands of workloads stand on the same thousands of nodes. What depends on the nodes alone is kept here, so that a
group costs time in proportion to its own pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from rebalancer.scheduling.view import View

NODE_LEVEL = ""
"""Stands for the key of the nodes' own level; no label has this name."""

DomainPath = tuple[str, ...]
"""The values of the coarser keys, from the coarsest on; empty where there is one level only."""


class Topology:
    """Eligible nodes under `keys`, from the coarsest on; on the last level every node is a domain of its own."""

    def __init__(self, nodes: frozenset[str], keys: tuple[str, ...], view: View) -> None:
        self.nodes = nodes
        self.keys = keys
        by_name = view.nodes.by_name
        coarse, last = keys[:-1], keys[-1]
        self.path: dict[str, DomainPath] = {}
        """Where each node lies."""
        self.last: dict[str, str] = {}
        """Its domain on the last level: the label's value, or its name where that level has no key."""
        self.members: dict[DomainPath, list[str]] = {}
        """Nodes by where they lie, sorted by name."""
        known: dict[DomainPath, DomainPath] = {}
        for name in sorted(nodes):
            labels = by_name[name].labels
            path = tuple(labels[key] for key in coarse)
            path = known.setdefault(path, path)
            self.path[name] = path
            self.last[name] = labels.get(last, name)
            self.members.setdefault(path, []).append(name)
        self._cordoned = view.nodes.cordoned

    @cached_property
    def cordoned(self) -> frozenset[tuple[int, str]]:
        """The domains of coarse levels, as (level, value), of which every node is cordoned."""
        closed: dict[tuple[int, str], bool] = {}
        for path, members in self.members.items():
            whole = self._cordoned.issuperset(members)
            for level, value in enumerate(path):
                closed[level, value] = closed.get((level, value), True) and whole
        return frozenset(domain for domain, whole in closed.items() if whole)

    def values(self, level: int) -> Iterable[str]:
        """Return every domain of a coarse level."""
        return dict.fromkeys(path[level] for path in self.members)


class Topologies:
    """All grounds of one view, made when first asked for."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._grounds: dict[tuple[frozenset[str], tuple[str, ...]], Topology] = {}
        self._divided: dict[tuple[frozenset[str], str, str], bool] = {}
        self._equal: dict[tuple[int, int], tuple[frozenset[str], frozenset[str], bool]] = {}

    def ground(self, nodes: frozenset[str], keys: tuple[str, ...]) -> Topology:
        """Return the ground of these nodes under keys of which each divides the one before."""
        found = self._grounds.get((nodes, keys))
        if found is None:
            found = self._grounds[nodes, keys] = Topology(nodes, keys, self._view)
        return found

    def equal(self, one: frozenset[str], other: frozenset[str]) -> bool:
        """Say whether two sets are equal; of the same two objects, which most groups share, it is found out once."""
        if one is other:
            return True
        known = self._equal.get((id(one), id(other)))
        if known is None:
            # Both are kept beside the answer: their identities are not given to others as long as it lives.
            known = self._equal[id(one), id(other)] = one, other, one == other
        return known[2]

    def crossing(self, nodes: frozenset[str], keys: Sequence[str]) -> tuple[str, str] | None:
        """Return the first two neighbouring keys of which the finer one's domains reach across the coarser one's."""
        for coarse, fine in pairwise(keys):
            if not self._divides(nodes, coarse, fine):
                return coarse, fine
        return None

    def _divides(self, nodes: frozenset[str], coarse: str, fine: str) -> bool:
        key = (nodes, coarse, fine)
        found = self._divided.get(key)
        if found is None:
            found = self._divided[key] = _nested(self._view.nodes.values(fine), self._view.nodes.values(coarse), nodes)
        return found


def _nested(fine: Mapping[str, str], coarse: Mapping[str, str], nodes: Iterable[str]) -> bool:
    above: dict[str, str] = {}
    return all(above.setdefault(fine[name], coarse[name]) == coarse[name] for name in nodes)
