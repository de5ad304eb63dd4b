"""Nodes that are equal for everything in a component: a few stand for all of them.

Problem: a term over the host name has thousands of domains, nearly all of them empty. Idea: pods may exchange their
places on nodes that are alike. The search follows one such node for each placed pod; a program that repairs a term
needs one empty node for each pod that may come. Example: two pods share one node of 5,000 and one moves; in each of
three zones one empty node is enough. Cost: in proportion to the nodes.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from rebalancer.assessment.anti_affinity.excess import Part
from rebalancer.planning.anti_affinity.exclusions import Exclusion
from rebalancer.planning.multi_class.classes import Cell, PodClasses


class AlikeNodes:
    """Tells the nodes of a component apart."""

    def __init__(self, classes: PodClasses) -> None:
        self._classes = classes
        self._repairs = any(exclusion.source is not None for exclusion in classes.exclusions)
        self._counts = [pod_class.counts for pod_class in classes.classes]
        parts: list[Callable[[str], object]] = []
        for requirement in classes.requirements:
            if requirement.domains < len(requirement.nodes):
                parts.append({node: requirement.domain.get(node) for node in requirement.nodes}.get)
            else:
                parts.append(requirement.nodes.__contains__)
        for exclusion in classes.exclusions:
            parts += _tell_apart(exclusion)
        parts += [_find_most(number, classes).get for number in range(len(classes.classes))]
        self._parts = [*parts, *[others.get for others in classes.others]]

    def key(self, node: str, changes: Mapping[Cell, int]) -> Hashable:
        """Return a value that is equal for nodes that are equal for every requirement, every term and every pod class.

        `changes` are the pods added (or removed, if negative), compared with now.
        """
        held = [counts.get(node, 0) for counts in self._counts]
        if changes:
            held = [count + changes.get((number, node), 0) for number, count in enumerate(held)]
        return (*held, *[part(node) for part in self._parts])

    def find_needed(self) -> Iterable[str]:
        """Return the nodes that a program needs: all nodes or, if a term is repaired, only some of the alike nodes.

        Each coming pod has its own alike node, so sharing a node does not matter. Without a term all nodes are kept,
        because fewer nodes would change the choice among equally good placements and thus the pods that move.
        """
        classes = self._classes.classes
        nodes = sorted({node for pod_class in classes for node in pod_class.cap})
        if not self._repairs:
            return nodes
        coming = self._classes.total - sum(sum(pod_class.fixed.values()) for pod_class in classes)
        seen = Counter[Hashable]()
        needed = []
        for node in nodes:
            key = self.key(node, {})
            seen[key] += 1
            if seen[key] <= coming or any(counts.get(node, 0) for counts in self._counts):
                needed.append(node)
        return needed


def _tell_apart(exclusion: Exclusion) -> Iterator[Callable[[str], object]]:
    """Yield what distinguishes nodes for a term: a domain of several nodes and, for a repaired term, the key.

    Nodes where staying pods keep others away have capacity 0 for these.
    """
    if len(set(exclusion.domain.values())) < len(exclusion.domain):
        yield exclusion.domain.get
    if exclusion.source is not None:
        yield exclusion.domain.__contains__


def _find_most(number: int, classes: PodClasses) -> Mapping[str, int]:
    """Return how many pods of a class each node can hold, as far as the repaired terms allow."""
    pod_class = classes.classes[number]
    alone = [
        exclusion.domain
        for exclusion in classes.exclusions
        if exclusion.source is not None and exclusion.parts.get(number) is Part.BOTH
    ]
    if not alone:
        return pod_class.cap
    return {
        node: min(cap, max(1, pod_class.counts.get(node, 0))) if any(node in domain for domain in alone) else cap
        for node, cap in pod_class.cap.items()
    }
