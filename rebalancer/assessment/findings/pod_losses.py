"""Whether a deleted pod can be replaced, from the counts of its workload's constraints alone.

If a pod is deleted its domain holds one pod less. The minimum falls by one if that domain was an emptiest domain. For
every other filter a deletion only helps: it frees capacity and ends anti-affinity. So a node that passes all filters
but PodTopologySpread now, and PodTopologySpread with the new counts, takes the replacement.

Example: zones a, b, c hold 2,2,2 with maxSkew 1. Without a pod of c the minimum is 1, so that only c is open.

Cost: linear in pods and constraints; for each pod at most `_TRIED` nodes are tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import chain, islice
from typing import Final, NamedTuple

from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import FILTERS, admissible, iterate_nominated_nodes, prepare_filters
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread, ineffective
from rebalancer.scheduling.view import View

_TRIED: Final = 64
"""Nodes tried for one pod."""

_DOMAINS: Final = 8
"""Nodes are searched for in this many of the emptiest domains."""

_FEW: Final = 64
"""Constraints with more domains are not searched for open ones."""


_OTHER_FILTERS: Final = tuple(plugin for plugin in FILTERS if plugin is not PodTopologySpread)


class _Seen(NamedTuple):
    """The domain that a deleted pod left, None if the constraint did not count it, and the minimum without it."""

    left: str | None
    minimum: int


class PodLosses:
    """Losses of one owner's pods. `next_pod` replaces each pod; `hard` are the counts of its hard constraints."""

    def __init__(self, next_pod: Pod, hard: Sequence[Counts], view: View) -> None:
        self._next_pod = next_pod
        self._hard = hard
        self._view = view
        self._takers = admissible(next_pod, view)
        self._values = [view.nodes.values(counts.constraint.key) for counts in hard]
        # Workloads of one group share the counts, and need not all match the selector.
        self._adds = [int(_selects(counts, next_pod.labels)) for counts in hard]
        self._coarsest = min(range(len(hard)), key=lambda at: len(hard[at].by_domain), default=None)
        self._counted: dict[int, list[bool]] = {}
        self._passing: dict[str, bool] = {}
        self._known_takers: list[str] = []

    def undecided(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return the pods without a node that surely takes their replacement.

        Required affinity may lose the pod that it needs, and nominated pods may take capacity; then no node is certain.
        """
        if not self._monotone:
            return list(pods)
        if self._find_taker([_Seen(None, counts.minimum) for counts in self._hard]):
            # This node takes the replacement of every pod whose deletion changes no minimum, as for most pods.
            pods = [pod for pod in pods if self._may_lower_minimum(pod)]
        return [pod for pod in pods if not self._find_taker(self._after(pod))]

    def _may_lower_minimum(self, pod: Pod) -> bool:
        node = pod.node or ""
        return any(values.get(node) in lowest for values, lowest in self._lowest)

    @cached_property
    def _lowest(self) -> list[tuple[Mapping[str, str], set[str]]]:
        """The domains at the minimum, for each constraint whose minimum is above 0."""
        return [
            (values, {value for value, held in counts.by_domain.filled.items() if held == counts.minimum})
            for counts, values in zip(self._hard, self._values, strict=True)
            if counts.minimum > 0
        ]

    def _find_taker(self, seen: Sequence[_Seen]) -> bool:
        """Return whether some node takes a replacement with these counts."""
        if any(self._open(node, seen) for node in self._known_takers):
            return True
        for node in islice(self._candidates(seen), _TRIED):
            if self._open(node, seen) and self._passes(node):
                self._known_takers.append(node)
                return True
        return False

    def is_blocked(self, pod: Pod) -> bool:
        """Return whether the counts show that no node can take the replacement.

        They show it if no open domain of the coarsest constraint has a node that takes such pods.
        """
        if self._coarsest is None:
            return False
        counts, (left, minimum) = self._hard[self._coarsest], self._after(pod)[self._coarsest]
        domains = counts.by_domain
        if len(domains) > _FEW or not self._all_counted:
            return False
        most_held = counts.constraint.max_skew + minimum - self._adds[self._coarsest]
        open_to = [value for value in domains if domains[value] - (value == left) <= most_held]
        return not any(self._nodes(value) for value in open_to)

    @cached_property
    def _all_counted(self) -> bool:
        """Whether every node that takes such pods is in a counted domain; other domains count as empty, so are open."""
        assert self._coarsest is not None
        return self._takers <= self._hard[self._coarsest].eligible.nodes

    @cached_property
    def _monotone(self) -> bool:
        affinity = self._next_pod.spec.pod_affinity
        return not affinity.required and not any(True for _ in iterate_nominated_nodes(self._next_pod, self._view))

    def _after(self, pod: Pod) -> list[_Seen]:
        counted = self._counted.get(id(pod.labels))
        if counted is None:
            counted = self._counted[id(pod.labels)] = [
                self._matches(constraint_counts, pod.labels) for constraint_counts in self._hard
            ]
        seen: list[_Seen] = []
        node = pod.node or ""
        for constraint_counts, values, counts in zip(self._hard, self._values, counted, strict=True):
            if counts and node in constraint_counts.eligible.nodes:
                left = values[node]
                lower = (
                    constraint_counts.minimum > 0
                    and constraint_counts.by_domain.filled[left] == constraint_counts.minimum
                )
                seen.append(_Seen(left, constraint_counts.minimum - lower))
            else:
                seen.append(_Seen(None, constraint_counts.minimum))
        return seen

    def _matches(self, counts: Counts, labels: Labels) -> bool:
        return _selects(counts, labels) and not ineffective(counts.constraint, self._view)

    def _open(self, node: str, seen: Sequence[_Seen]) -> bool:
        """Return whether every constraint admits a node with these counts."""
        for counts, values, adds, (left, minimum) in zip(self._hard, self._values, self._adds, seen, strict=True):
            value = values.get(node)
            if value is None:
                return False
            held = counts.by_domain.filled.get(value, 0) - (value == left)
            if held + adds - minimum > counts.constraint.max_skew:
                return False
        return True

    def _passes(self, node: str) -> bool:
        """Return whether a node passes all other filters."""
        known = self._passing.get(node)
        if known is None:
            known = self._passing[node] = all(
                other.refusal is None and bool(other.verdict(node)) for other in self._others
            )
        return known

    @cached_property
    def _others(self) -> Sequence[Filter]:
        return prepare_filters(self._next_pod, self._view, _OTHER_FILTERS)

    def _candidates(self, seen: Sequence[_Seen]) -> Iterator[str]:
        """Yield nodes that take such pods, nodes of the emptiest domains of the coarsest constraint first."""
        if self._coarsest is None:
            yield from (node for node in self._view.nodes.by_name if node in self._takers)
            return
        counts, left = self._hard[self._coarsest], seen[self._coarsest].left
        if left is not None and seen[self._coarsest].minimum < counts.minimum:
            yield from self._nodes(left)
        filled = counts.by_domain.filled
        most_held = counts.constraint.max_skew + seen[self._coarsest].minimum - self._adds[self._coarsest]
        inside = (value for value in self._emptiest if filled.get(value, 0) - (value == left) <= most_held)
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
        # Workloads with the same eligible nodes share these objects, so the result is computed once for all of them.
        key = ("takers of a domain", id(eligible), id(takers), value)
        return self._view.memo(key, lambda: tuple(sorted(eligible.domains[value] & takers)))


def _selects(counts: Counts, labels: Labels) -> bool:
    selector = counts.constraint.selector
    return selector is not None and selector.matches(labels)
