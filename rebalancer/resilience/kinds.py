"""Services with about equal requests for the same nodes, and what these nodes have room for: columns, made once a kind.

One resource blocks a node for a pod: other pods and the service's own have taken its free amount, but for less than one
request. Take a currency that values each resource by a weight of at most 1 for what one pod requests. A blocked node
then costs at least its worth by its cheapest resource; a pod pays at most what its dearest request is worth. So the sum
of all payments bounds how many nodes are blocked. Any weights are sound; good weights value resources by how scarce
they are. A request that is too large is sound, too: a pod with less is blocked later, and pays less. The largest
request of a kind counts.

numpy multiplies thousands of kinds with thousands of nodes. highspy needs it anyway; it is loaded as late.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from rebalancer.resilience.competition import Competition

if TYPE_CHECKING:
    import numpy as np

_SCARCER: Final = (0.7, 0.4, 0.2, 0.1)
"""Factors by which a resource's value falls below its share of the free amounts."""

_ENDLESS: Final = 1e12

Region = tuple[str, frozenset[str]] | None
"""The values of a key that name some nodes; None for all nodes."""


class Nodes:
    """The nodes that remain, as columns."""

    def __init__(self, competition: Competition) -> None:
        import numpy as np  # noqa: PLC0415  # most clusters never need it

        self.numpy: Final[Any] = np
        self._competition = competition
        self.names: Final = competition.nodes
        wide = max(1, len(competition.resources))
        rows = np.array([competition.free[name] or (0,) for name in self.names], dtype=float)
        equal, self.which = np.unique(rows.reshape(-1, wide), axis=0, return_inverse=True)
        self.equal: Final = equal
        self._within: dict[tuple[str, str], bool] = {}
        self._codes: dict[str, tuple[Sequence[str], Any]] = {}

    def values(self, key: str) -> Mapping[str, str]:
        """Return the value of a key by node; for "" each node's own name."""
        return self._competition.loss.after.nodes.values(key) if key else self._own_names

    def has_few(self, key: str, most: int) -> bool:
        """Return whether the number of a key's values is small enough."""
        return len(self._competition.loss.after.nodes.groups(key)) <= most

    def are_nodes(self, key: str) -> bool:
        """Return whether each node has its own value of a key."""
        named, _ = self.codes(key)
        return len(named) == len(self.names)

    def are_within(self, key: str, outer: str) -> bool:
        """Return whether every domain of one key lies within one domain of another."""
        if key == outer:
            return True
        known = key, outer
        if known not in self._within:
            (named, codes), (_, around) = self.codes(key), self.codes(outer)
            inside = codes < len(named)
            pairs = self.numpy.unique(self.numpy.stack((codes[inside], around[inside])), axis=1)
            self._within[known] = pairs.shape[1] == len(named)
        return self._within[known]

    @cached_property
    def _own_names(self) -> Mapping[str, str]:
        return {name: name for name in self.names}

    def codes(self, key: str) -> tuple[Sequence[str], "np.ndarray[Any, Any]"]:
        """Return the values of a key, and for each node the number of its value; the highest number means no value."""
        if key not in self._codes:
            values = self.values(key)
            named = list(dict.fromkeys(values[name] for name in self.names if name in values))
            number = {value: at for at, value in enumerate(named)}
            codes = [number[values[name]] if name in values else len(named) for name in self.names]
            self._codes[key] = named, self.numpy.array(codes, dtype=int)
        return self._codes[key]


class Kind:
    """Services on the same places; each requests at most these amounts, and at least `least`."""

    def __init__(self, nodes: Nodes, requests: Sequence[int], least: Sequence[int], places: frozenset[str]) -> None:
        self._nodes, self._numpy = nodes, nodes.numpy
        self.requests: Final = requests
        self.places: Final = places
        self._least = least
        self._asked = [at for at, amount in enumerate(requests) if amount]
        self.mask: Final = self._numpy.array([name in places for name in nodes.names], dtype=bool)
        self._found: dict[object, Any] = {}

    @cached_property
    def _relative(self) -> Any:
        """How many pods block each distinct node, for each resource that they request."""
        asked = [self.requests[at] for at in self._asked]
        return ((self._nodes.equal[:, self._asked] + 1) / asked - 1).clip(0)

    @cached_property
    def fit(self) -> Any:
        """How many pods of the kind fit on each node that nothing else uses."""
        if not self._asked:
            return self.mask * _ENDLESS
        fitting = self._nodes.equal[:, self._asked] // [self._least[at] for at in self._asked]
        return fitting.min(axis=1)[self._nodes.which] * self.mask

    def fit_by(self, key: str) -> tuple[Sequence[str], Any]:
        """Return the values of a key, and how many pods fit on the nodes of each.

        The last entry is for nodes without a value.
        """
        if ("fit", key) not in self._found:
            named, codes = self._nodes.codes(key)
            made = self._numpy.bincount(codes, weights=self.fit, minlength=len(named) + 1)
            self._found["fit", key] = named, made.tolist()
        found: tuple[Sequence[str], Any] = self._found["fit", key]
        return found

    def fit_inside(self, region: Region) -> float:
        """Return how many pods fit the nodes of a region."""
        if region is None:
            return float(self.fit.sum())
        named, fit = self.fit_by(region[0])
        return float(sum(many for value, many in zip(named, fit, strict=False) if value in region[1]))

    def count_open(self, key: str, closed: Collection[str]) -> float:
        """Return how many pods are placed at most if each open domain of a key takes one."""
        named, fit = self.fit_by(key)
        if ("open", key) not in self._found:
            self._found["open", key] = {value for value, many in zip(named, fit, strict=False) if many}
        open_ = self._found["open", key]
        return float(len(open_) - sum(value in open_ for value in closed) + fit[-1])

    def reaches(self, key: str, value: str) -> bool:
        """Return whether any of the kind's places is in the domain with this value of a key."""
        if ("reached", key) not in self._found:
            named, codes = self._nodes.codes(key)
            chosen = self._numpy.unique(codes[self.mask]).tolist()
            self._found["reached", key] = {named[at] for at in chosen if at < len(named)}
        return value in self._found["reached", key]

    @cached_property
    def weights(self) -> Sequence[Any]:
        """The weight of each resource that one pod requests, at most 1, for each valuation that is tried."""
        numpy = self._numpy
        if not self._asked:
            return [numpy.ones(0)]
        total = (self._relative[self._nodes.which] * self.mask[:, None]).sum(axis=0)
        if not total.all():
            return []
        ways = [numpy.ones(len(self._asked))]
        for at in range(len(self._asked) if len(self._asked) > 1 else 0):
            for factor in _SCARCER:
                ways.append(numpy.ones(len(self._asked)))
                ways[-1][at] = factor
        return [worth / worth.max() for worth in (way / total for way in ways)]

    def prices(self, way: int, requests: "np.ndarray[Any, Any]") -> Any:
        """Return for each pod the most that it pays, from its requests."""
        if not self._asked:
            return self._numpy.zeros(len(requests))
        asked = [self.requests[at] for at in self._asked]
        return (requests[:, self._asked] / asked * self.weights[way]).max(axis=1)

    def worth(self, way: int) -> Any:
        """Return for each node the value that blocks it under one valuation; 0 if it is no place of the kind."""
        if ("worth", way) not in self._found:
            if not self._asked:
                self._found["worth", way] = self.mask * _ENDLESS
            else:
                cheapest = (self._relative * self.weights[way]).min(axis=1)
                self._found["worth", way] = cheapest[self._nodes.which] * self.mask
        return self._found["worth", way]

    def inside(self, way: int, region: Region) -> Any:
        """Return for each node the value that blocks it; 0 for nodes outside a region."""
        worth = self.worth(way)
        if region is None:
            return worth
        key = "inside", way, region
        if key not in self._found:
            named, codes = self._nodes.codes(region[0])
            chosen = self._numpy.array([*[value in region[1] for value in named], False])
            self._found[key] = worth * chosen[codes]
        return self._found[key]

    def total(self, way: int, region: Region) -> float:
        """Return the value that blocks all nodes of a region together."""
        key = "total", way, region
        if key not in self._found:
            self._found[key] = float(self.inside(way, region).sum())
        total: float = self._found[key]
        return total

    def by_domain(self, way: int, region: Region, key: str) -> tuple[Mapping[str, float], Sequence[float]]:
        """Return for each domain what blocks its nodes in a region, and the sums of the n most expensive domains."""
        known = "domains", way, region, key
        if known not in self._found:
            named, codes = self._nodes.codes(key)
            sums = self._numpy.bincount(codes, weights=self.inside(way, region), minlength=len(named) + 1)[:-1].tolist()
            dearest = [0.0, *accumulate(sorted(sums, reverse=True))]
            self._found[known] = dict(zip(named, sums, strict=True)), dearest
        found: tuple[Mapping[str, float], Sequence[float]] = self._found[known]
        return found
