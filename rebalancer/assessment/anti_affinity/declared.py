"""The terms that living pods declare, each once for all pods of a namespace that share the term."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rebalancer.assessment.controllers import find_reference
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, TermKind
from rebalancer.model.moves import Reference
from rebalancer.model.runs import Run
from rebalancer.scheduling.population import NO_AFFINITY
from rebalancer.scheduling.view import View


class DeclaredTerm(NamedTuple):
    """A term of the pods of a namespace, and the runs of living and of terminating pods that declare it.

    `weight` is a preferred term's, 0 for a required term.
    """

    namespace: str
    term: PodAffinityTerm
    weight: int
    runs: list[Run]
    terminating: list[Run]


def find_declared(view: View, kind: TermKind) -> Sequence[DeclaredTerm]:
    """Return the terms of a kind that living pods declare, in the order of the pods."""
    declared: dict[tuple[str, PodAffinityTerm, int], DeclaredTerm] = {}
    required = kind is TermKind.REQUIRED
    for run in view.snapshot.runs:
        pod = run.pods[0]
        affinity = pod.spec.pod_affinity
        if affinity is NO_AFFINITY or pod.finished:
            continue
        if not (affinity.anti_required if required else affinity.anti_preferred):
            continue
        for term, weight in dict.fromkeys(_read_terms(affinity, required=required)):
            key = pod.namespace, term, weight
            known = declared.get(key)
            if known is None:
                known = declared[key] = DeclaredTerm(*key, [], [])
            (known.terminating if pod.terminating else known.runs).append(run)
    return [one for one in declared.values() if one.runs]


def _read_terms(affinity: PodAffinity, *, required: bool) -> Iterator[tuple[PodAffinityTerm, int]]:
    if required:
        yield from ((term, 0) for term in affinity.anti_required)
    else:
        yield from ((one.term, one.weight) for one in affinity.anti_preferred if one.weight)


def find_workloads(runs: Sequence[Run], view: View) -> tuple[Reference, ...]:
    """Return the workloads of some pods by name, each once."""
    return tuple(sorted(set(_iterate_workloads(runs, view))))


def _iterate_workloads(runs: Sequence[Run], view: View) -> Iterator[Reference]:
    for run in runs:
        # Each pod without an owner is a workload of its own, even if such pods are alike.
        for pod in run.pods[:1] if run.pods[0].owner is not None else run.pods:
            yield find_reference(pod, view)
