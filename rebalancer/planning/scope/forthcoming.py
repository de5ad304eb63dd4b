"""Pods of a namespace that have still to be created or placed, found by their labels.

A component waits while such a pod of another workload would change its counts. Thousands of pods could count for a
selector with a label and its value; only pods that have the label are compared:

    selector app=web,tier       app=web: 2 pods, app=db: 3,000 pods       2 pods are compared

Cost: the number of pods once, and for each requirement the pods that have its rarest label.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.planning.scope.requirements import Requirement, workload_label
from rebalancer.scheduling.affinity_terms import find_namespaces
from rebalancer.scheduling.view import View


class ForthcomingPod(NamedTuple):
    """A pod that waits for a node, or that its owner with `uid` has still to create; `refusal` names it.

    `terms` are its required podAntiAffinity.
    """

    uid: str
    labels: Labels
    workload: Reference
    refusal: Refusal
    terms: tuple[PodAffinityTerm, ...] = ()


class Forthcoming:
    """The forthcoming pods of one namespace, in the given order."""

    def __init__(self, pods: Iterable[ForthcomingPod]) -> None:
        self._pods = tuple(enumerate(pods))
        self._having: defaultdict[tuple[str, str], list[tuple[int, ForthcomingPod]]] = defaultdict(list)
        for entry in self._pods:
            for label in (*entry[1].labels.items(), workload_label(entry[1].workload)):
                self._having[label].append(entry)

    def find_counted(self, requirements: Iterable[Requirement], own: Collection[str]) -> Refusal | None:
        """Return the refusal of the first pod that a requirement counts; pods with the UIDs `own` are skipped."""
        counted = (self._find_first(requirement, own) for requirement in requirements)
        first = min((entry for entry in counted if entry is not None), key=lambda entry: entry[0], default=None)
        return None if first is None else first[1].refusal

    def find_concerned(self, term: EvaluatedTerm, own: Collection[str], view: View) -> Refusal | None:
        """Return the refusal of the first pod that declares a term or is selected by it; `own` pods are skipped."""
        for _, pod in self._pods:
            if pod.uid in own:
                continue
            selector = term.term.selector
            selected = selector is not None and selector.matches(pod.labels)
            covered = pod.workload.namespace in find_namespaces(term.term, term.namespace, view)
            if (selected and covered) or (pod.workload.namespace == term.namespace and term.term in pod.terms):
                return pod.refusal
        return None

    def _find_first(self, requirement: Requirement, own: Collection[str]) -> tuple[int, ForthcomingPod] | None:
        having = (self._having.get(label, ()) for label in requirement.required_labels())
        candidates: Sequence[tuple[int, ForthcomingPod]] = min(having, key=len, default=self._pods)
        return next(
            (
                entry
                for entry in candidates
                if entry[1].uid not in own and requirement.counts(entry[1].labels, entry[1].workload)
            ),
            None,
        )
