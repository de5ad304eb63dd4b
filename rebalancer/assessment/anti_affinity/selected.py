"""The living pods that a term selects, by domain; looked up once for all terms with the same selection."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Final

from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import Pod
from rebalancer.model.runs import Run
from rebalancer.scheduling.affinity_terms import find_namespaces
from rebalancer.scheduling.node_index import NodeCounts
from rebalancer.scheduling.view import View

_NOBODY: Final[Mapping[str, int]] = {}

_Selection = tuple[LabelSelector, tuple[str, ...]]
"""A selector and the namespaces in which it selects."""


class SelectedPods:
    """The living pods of a snapshot, as terms select them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._namespaces: dict[object, tuple[str, ...]] = {}
        self._counts: dict[tuple[str, _Selection], Mapping[str, int]] = {}
        self._runs: dict[_Selection, Sequence[Run]] = {}
        self._by_domain: dict[tuple[str, int], Mapping[str, Sequence[Pod]]] = {}

    def namespaces(self, namespace: str, term: PodAffinityTerm) -> tuple[str, ...]:
        """Return the namespaces with pods that a term of a pod of this namespace may select."""
        if not term.namespaces and term.namespace_selector is None:
            return (namespace,)
        key = term.namespaces, term.namespace_selector
        found = self._namespaces.get(key)
        if found is None:
            found = self._namespaces[key] = tuple(sorted(find_namespaces(term, namespace, self._view)))
        return found

    def count(self, namespace: str, term: PodAffinityTerm) -> Mapping[str, int]:
        """Count the selected pods by domain; pods on nodes without the key are left out."""
        if term.selector is None:
            return _NOBODY
        key = term.topology_key, (term.selector, self.namespaces(namespace, term))
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = self._count(*key)
        return counts

    def _count(self, key: str, selection: _Selection) -> Mapping[str, int]:
        selector, namespaces = selection
        total: dict[str, int] = {}
        for namespace in namespaces:
            counts = self._count_carrying(key, self._view.live(namespace, selector))
            if len(namespaces) == 1:
                return counts
            for domain, number in counts.items():
                total[domain] = total.get(domain, 0) + number
        return total

    def _count_carrying(self, key: str, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Add up, by domain, the pods on nodes that carry the key."""
        values = self._view.nodes.values(key)
        if len(values) < len(self._view.nodes.by_name):
            carrying = (repeat(name, number) for name, number in counts.items() if name in values)
            counts = NodeCounts([*chain.from_iterable(carrying)])
        return self._view.nodes.by_value(key, counts)

    def find_occupied(self, namespace: str, term: PodAffinityTerm) -> frozenset[str]:
        """Return the domains that hold a selected pod, even a terminating one."""
        assert term.selector is not None  # a term that selects nobody has no conflict
        values, present = self._view.nodes.values(term.topology_key), self._view.present
        places = self.namespaces(namespace, term)
        nodes = chain.from_iterable(present(place, term.selector) for place in places)
        return frozenset(values[node] for node in nodes if node in values)

    def find_runs(self, namespace: str, term: PodAffinityTerm) -> Sequence[Run]:
        """Return the runs of pods that a term selects."""
        assert term.selector is not None  # a term that selects nobody has no conflict
        key = term.selector, self.namespaces(namespace, term)
        runs = self._runs.get(key)
        if runs is None:
            by_labels = self._runs_by_labels
            runs = self._runs[key] = [
                run
                for place in key[1]
                for labels in self._view.find_label_sets(place, term.selector)
                for run in by_labels.get((place, labels), ())
            ]
        return runs

    @cached_property
    def _runs_by_labels(self) -> Mapping[tuple[str, Labels], Sequence[Run]]:
        by_labels: defaultdict[tuple[str, Labels], list[Run]] = defaultdict(list)
        for run in self._view.snapshot.runs:
            if run.living:
                by_labels[run.pods[0].namespace, run.pods[0].labels].append(run)
        return by_labels

    def divide(self, key: str, run: Run) -> Mapping[str, Sequence[Pod]]:
        """Return the pods of a run by domain; pods on nodes without the key are left out."""
        by_domain = self._by_domain.get((key, id(run)))
        if by_domain is None:
            by_domain = self._by_domain[key, id(run)] = self._divide(self._view.nodes.values(key), run.pods)
        return by_domain

    def _divide(self, values: Mapping[str, str], pods: Sequence[Pod]) -> Mapping[str, Sequence[Pod]]:
        by_domain: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            domain = values.get(pod.node) if pod.node is not None else None
            if domain is not None:
                by_domain[domain].append(pod)
        return by_domain
