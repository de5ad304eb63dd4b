"""Workloads whose pods have more constraints, terms or text than is read, or than `eligibility.maxTerms`: they stay."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rebalancer.assessment.controllers import members
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Reference
from rebalancer.model.pods import PodSpec
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.view import View


class TooManyTerms(Refusal):
    """A pod has more constraints or terms of one kind than eligibility.maxTerms."""

    reason = Reason.TOO_LARGE
    field: str
    number: int
    most: int

    def __str__(self) -> str:
        return f"spec.{self.field} has {self.number} entries; eligibility.maxTerms is {self.most}"


class TooLarge(NamedTuple):
    """A workload whose pods are too large, and in which respect."""

    workload: Reference
    why: str


def refuse_terms(spec: PodSpec, most: int) -> TooManyTerms | None:
    """Return why a pod of this spec may not move if one of its lists has more than `most` entries."""
    for field, entries in _list_terms(spec):
        if len(entries) > most:
            return TooManyTerms(field, len(entries), most)
    return None


def _list_terms(spec: PodSpec) -> Iterator[tuple[str, Sequence[object]]]:
    pods = spec.pod_affinity
    yield "topologySpreadConstraints", spec.spread
    yield "affinity.podAffinity.required…", pods.required
    yield "affinity.podAffinity.preferred…", pods.preferred
    yield "affinity.podAntiAffinity.required…", pods.anti_required
    yield "affinity.podAntiAffinity.preferred…", pods.anti_preferred


def find_too_large(view: View, most: int) -> Iterator[TooLarge]:
    """Yield the workloads whose pods have more entries than are read, or more than `most` in a list."""
    for member in members(view):
        spec = member.pods[0].spec
        why = spec.unread or str(refuse_terms(spec, most) or "")
        if why:
            yield TooLarge(member.reference, why)
