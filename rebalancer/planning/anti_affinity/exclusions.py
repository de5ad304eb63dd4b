"""Exclusions: a term of podAntiAffinity over the pod classes of one component, domain by domain.

A pod of a class declares the term, is selected by it, or both. For the scheduler it does not matter which pod declares
the term. The pods of the component that may share a domain are one side: all pods that only declare the term, all pods
that are only selected, or a single pod that does both. Pods of no class stay, so they decide which sides are left:

    a-0: 3 batch pods that declare it, 1 api pod that it selects     3 | 1 may stay: 1 is in excess
    b-0: a pod without an owner that it selects, 3 batch pods        0 may stay: 3 are in excess
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rebalancer.assessment.anti_affinity.excess import Part
from rebalancer.assessment.anti_affinity.result import DeclaredBy, EvaluatedTerm
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.pods import Pod
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

Counts = tuple[int, int, int]
"""Pods by `Part`."""

NOBODY: Counts = (0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """A term over the pod classes that it concerns, by number.

    `domain` maps the nodes with the key to their domains; other nodes take any number. `staying` are pods of no class
    by domain. `source` is the violated term that is repaired; None for a term that only has to be kept. If `source` is
    a preferred term, nothing is excluded: pairs in one domain cost their weight.
    """

    key: str
    domain: Mapping[str, str]
    parts: Mapping[int, Part]
    staying: Mapping[str, Counts] = field(default_factory=dict)
    source: EvaluatedTerm | None = None

    @property
    def is_mutual(self) -> bool:
        """Whether all of its pods exclude each other: a domain then holds at most one."""
        return all(part is Part.BOTH for part in self.parts.values())

    def find_sides(self, domain: str) -> Sequence[Part]:
        """Return which sides of a domain the staying pods allow."""
        declaring, selected, both = self.staying.get(domain, NOBODY)
        if both or (declaring and selected):
            return ()
        if declaring or selected:
            return (Part.DECLARES if declaring else Part.SELECTED,)
        return tuple(Part)

    def count(self, pods: Iterable[tuple[int, str, int]]) -> Mapping[str, Counts]:
        """Count pods, given by class, node and number, by domain; pods that stay are not counted."""
        held: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for number, node, many in pods:
            part = self.parts.get(number)
            if part is not None and node in self.domain:
                held[self.domain[node]][part] += many
        return {domain: (counts[0], counts[1], counts[2]) for domain, counts in held.items()}

    def excess(self, held: Mapping[str, Counts]) -> int:
        """Return the fewest of the counted pods that would have to leave their domains."""
        return sum(self.excess_in(domain, counts) for domain, counts in held.items())

    def cost(self, held: Mapping[str, Counts]) -> int:
        """Return the weights over the ordered pairs in one domain, including staying pods."""
        return sum(self.cost_in(domain, held.get(domain, NOBODY)) for domain in held.keys() | self.staying.keys())

    def cost_in(self, domain: str, counts: Counts) -> int:
        """Return the weights of one domain."""
        assert self.source is not None, "a preferred term has a source"
        declaring, selected, both = map(sum, zip(counts, self.staying.get(domain, NOBODY), strict=True))
        return self.source.weight * ((declaring + both) * (selected + both) - both)

    def excess_in(self, domain: str, counts: Counts) -> int:
        """Return the fewest of one domain's pods that must leave it."""
        kept = [min(counts[side], 1) if side is Part.BOTH else counts[side] for side in self.find_sides(domain)]
        return sum(counts) - max(kept, default=0)


def find_terms(violated: Iterable[EvaluatedTerm], pods: Iterable[Pod | Unpredictable]) -> Sequence[DeclaredBy]:
    """Return the violated terms and the terms that next pods declare, each once."""
    terms = dict.fromkeys(term.declared for term in violated)
    for pod in pods:
        if not isinstance(pod, Unpredictable):
            declared = pod.spec.pod_affinity.anti_required
            terms.update(dict.fromkeys(DeclaredBy(pod.namespace, term) for term in declared))
    return tuple(terms)


def find_exclusions(
    terms: Iterable[DeclaredBy],
    violated: Iterable[EvaluatedTerm],
    samples: Sequence[Pod],
    class_of: Mapping[str, int],
    view: View,
) -> tuple[Exclusion, ...]:
    """Return the exclusions by these terms among pod classes, each given by its next pod.

    `violated` terms are to be repaired; `class_of` has the classes of the pods that the violated terms count, by UID.
    """
    sources = {term.declared: term for term in violated}
    exclusions = []
    for declared in terms:
        found = ((number, find_part(declared, sample, view)) for number, sample in enumerate(samples))
        parts = {number: part for number, part in found if part is not None}
        source = sources.get(declared)
        if source is not None or _exclude(parts.values()):
            key = declared.term.topology_key
            domain = view.nodes.values(key)
            foreign = any(samples[number].namespace != declared.namespace for number in parts)
            staying = _count_staying(source, parts, domain, class_of, foreign=foreign) if source is not None else {}
            exclusions.append(Exclusion(key=key, domain=domain, parts=parts, staying=staying, source=source))
    return tuple(exclusions)


def find_part(declared: DeclaredBy, pod: Pod, view: View) -> Part | None:
    """Return the part of a pod in a term that a namespace's pods declare; None if it has none."""
    namespace, term, weight = declared
    declares = pod.namespace == namespace and _declares(pod, term, weight)
    if selects(term, namespace, pod, view):
        return Part.BOTH if declares else Part.SELECTED
    return Part.DECLARES if declares else None


def _declares(pod: Pod, term: PodAffinityTerm, weight: int) -> bool:
    affinity = pod.spec.pod_affinity
    if not weight:
        return term in affinity.anti_required
    return any(one.weight == weight and one.term == term for one in affinity.anti_preferred)


def _exclude(parts: Iterable[Part]) -> bool:
    """Return whether pods of these parts keep each other away."""
    known = set(parts)
    return Part.BOTH in known or {Part.DECLARES, Part.SELECTED} <= known


def _count_staying(
    source: EvaluatedTerm,
    parts: Mapping[int, Part],
    domain: Mapping[str, str],
    class_of: Mapping[str, int],
    *,
    foreign: bool,
) -> Mapping[str, Counts]:
    """Count the pods of a term that no move changes, by domain: they stay, or their replacement has another part.

    For a term between namespaces (`foreign`) only selected pods are counted. Otherwise a namespace could have pods of
    other namespaces evicted: it would bind a pod to their node and let it declare a term against them.
    """
    staying: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for part, pods in source.participants:
        for pod in pods:
            where = domain.get(pod.node or "")
            number = class_of.get(pod.uid)
            if foreign and part is not Part.SELECTED:
                continue
            if where is not None and (number is None or parts.get(number) is not part):
                staying[where][part] += 1
    return {where: (counts[0], counts[1], counts[2]) for where, counts in staying.items()}
