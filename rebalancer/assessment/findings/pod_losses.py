"""What the constraints of a workload see when one of its pods has gone, worked out from the counts alone.

Where a pod vanishes, its domain holds one less, and the minimum falls by one if that domain was an emptiest one. All
else that a filter looks at only gets better: room is freed and anti-affinity lifted. So a node that passes every filter
but PodTopologySpread now, and that one by this arithmetic, takes the replacement.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import chain, islice
from typing import Final, NamedTuple

from rebalancer.assessment.findings.finding import list_names
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import admissible, iterate_nominated_nodes, prepare_filters
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread, ineffective
from rebalancer.scheduling.view import View

_TRIED: Final = 64
"""Nodes that are tried for one pod."""

_DOMAINS: Final = 8
"""Of the emptiest domains, in which they are looked for."""

_FEW: Final = 64
"""Domains of a constraint up to which it is asked which of them are open."""


class _Seen(NamedTuple):
    """What one constraint sees: the value that a pod has left, None if it was not counted, and the minimum then."""

    left: str | None
    minimum: int


class PodLosses:
    """The losses of one owner's pods. `coming` is the pod that takes a place, `hard` what its constraints count."""

    def __init__(self, coming: Pod, hard: Sequence[Counts], view: View) -> None:
        self._coming = coming
        self._hard = hard
        self._view = view
        self._takers = admissible(coming, view)
        self._values = [view.nodes.values(each.constraint.key) for each in hard]
        # Workloads of one group share the counts, and need not all match the selector.
        self._adds = [int(_selects(each, coming.labels)) for each in hard]
        self._coarsest = min(range(len(hard)), key=lambda at: len(hard[at].by_domain), default=None)
        self._counted: dict[int, list[bool]] = {}
        self._passing: dict[str, bool] = {}
        self._refuges: list[str] = []

    def unsure(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return those of the pods for whose replacement no node is found that surely takes it.

        Required affinity may lose what it asks for, and pods that were promised a node may take the room: then no node
        is sure.
        """
        if not self._monotone:
            return list(pods)
        if self._refuge([_Seen(None, each.minimum) for each in self._hard]):
            # It takes the replacement of whichever pod leaves the minima as they are, which is that of most.
            pods = [pod for pod in pods if self._may_lower(pod)]
        return [pod for pod in pods if not self._refuge(self._after(pod))]

    def _may_lower(self, pod: Pod) -> bool:
        node = pod.node or ""
        return any(values.get(node) in lowest for values, lowest in self._lowest)

    @cached_property
    def _lowest(self) -> list[tuple[Mapping[str, str], set[str]]]:
        """For each minimum above 0 the domains that have it."""
        return [
            (values, {value for value, held in each.by_domain.filled.items() if held == each.minimum})
            for each, values in zip(self._hard, self._values, strict=True)
            if each.minimum > 0
        ]

    def _refuge(self, seen: Sequence[_Seen]) -> bool:
        """Say whether a node is known, or found, that takes a replacement then."""
        if any(self._open(node, seen) for node in self._refuges):
            return True
        for node in islice(self._candidates(seen), _TRIED):
            if self._open(node, seen) and self._passes(node):
                self._refuges.append(node)
                return True
        return False

    def closed(self, pod: Pod) -> str:
        """Say why no node can take the replacement, "" where the counts do not show it.

        The domains that the coarsest constraint leaves open have no node that takes such pods at all.
        """
        if self._coarsest is None:
            return ""
        each, (left, minimum) = self._hard[self._coarsest], self._after(pod)[self._coarsest]
        domains = each.by_domain
        if len(domains) > _FEW or not self._all_counted:
            return ""
        room = each.constraint.max_skew + minimum - self._adds[self._coarsest]
        open_to = sorted(value for value in domains if domains[value] - (value == left) <= room)
        if any(self._nodes(value) for value in open_to):
            return ""
        key = each.constraint.key
        return (
            f"{key} (maxSkew {each.constraint.max_skew}) admits {list_names(open_to) or 'no domain'} only, and no node "
            "there takes such pods: they are cordoned, tainted or left out by its affinity. Let them take pods again, "
            "or set nodeTaintsPolicy: Honor"
        )

    @cached_property
    def _all_counted(self) -> bool:
        """Whether each node that takes such pods is of a domain; a value that is none counts as empty, so is open."""
        assert self._coarsest is not None
        return self._takers <= self._hard[self._coarsest].eligible.nodes

    @cached_property
    def _monotone(self) -> bool:
        affinity = self._coming.spec.pod_affinity
        return not affinity.required and not any(True for _ in iterate_nominated_nodes(self._coming, self._view))

    def _after(self, pod: Pod) -> list[_Seen]:
        counted = self._counted.get(id(pod.labels))
        if counted is None:
            counted = self._counted[id(pod.labels)] = [self._matches(each, pod.labels) for each in self._hard]
        seen: list[_Seen] = []
        node = pod.node or ""
        for each, values, counts in zip(self._hard, self._values, counted, strict=True):
            if counts and node in each.eligible.nodes:
                left = values[node]
                lower = each.minimum > 0 and each.by_domain.filled[left] == each.minimum
                seen.append(_Seen(left, each.minimum - lower))
            else:
                seen.append(_Seen(None, each.minimum))
        return seen

    def _matches(self, each: Counts, labels: Labels) -> bool:
        return _selects(each, labels) and not ineffective(each.constraint, self._view)

    def _open(self, node: str, seen: Sequence[_Seen]) -> bool:
        """Say whether every constraint admits a node then."""
        for each, values, adds, (left, minimum) in zip(self._hard, self._values, self._adds, seen, strict=True):
            value = values.get(node)
            if value is None:
                return False
            held = each.by_domain.filled.get(value, 0) - (value == left)
            if held + adds - minimum > each.constraint.max_skew:
                return False
        return True

    def _passes(self, node: str) -> bool:
        """Say whether a node passes all other filters now."""
        known = self._passing.get(node)
        if known is None:
            known = self._passing[node] = all(
                each.refusal is None and bool(each.verdict(node)) for each in self._others
            )
        return known

    @cached_property
    def _others(self) -> list[Filter]:
        return [each for each in prepare_filters(self._coming, self._view) if each.name != PodTopologySpread.name]

    def _candidates(self, seen: Sequence[_Seen]) -> Iterator[str]:
        """Yield nodes that take such pods, those of the emptiest domains of the coarsest constraint first."""
        if self._coarsest is None:
            yield from (node for node in self._view.nodes.by_name if node in self._takers)
            return
        each, left = self._hard[self._coarsest], seen[self._coarsest].left
        if left is not None and seen[self._coarsest].minimum < each.minimum:
            yield from self._nodes(left)
        filled = each.by_domain.filled
        room = each.constraint.max_skew + seen[self._coarsest].minimum - self._adds[self._coarsest]
        inside = (value for value in self._emptiest if filled.get(value, 0) - (value == left) <= room)
        yield from chain.from_iterable(map(self._nodes, inside))

    @cached_property
    def _emptiest(self) -> Sequence[str]:
        assert self._coarsest is not None
        counts = self._hard[self._coarsest]
        domains, filled = counts.eligible.domains, counts.by_domain.filled
        if len(filled) < len(domains):
            return list(islice((value for value in domains if value not in filled), _TRIED))
        return nsmallest(_DOMAINS, filled, key=lambda value: (filled[value], value))

    def _nodes(self, value: str) -> Sequence[str]:
        """Return the nodes of a domain of the coarsest constraint that take such pods, by name."""
        assert self._coarsest is not None
        eligible, takers = self._hard[self._coarsest].eligible, self._takers
        # Workloads that see the same nodes share these objects: worked out once for all of them.
        key = ("takers of a domain", id(eligible), id(takers), value)
        return self._view.memo(key, lambda: tuple(sorted(eligible.domains[value] & takers)))


def _selects(each: Counts, labels: Labels) -> bool:
    selector = each.constraint.selector
    return selector is not None and selector.matches(labels)
