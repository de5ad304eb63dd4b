"""An evaluated term of podAntiAffinity: which workloads declare it, and which pods conflict in which domains."""

from typing import NamedTuple

from msgspec import Struct

from rebalancer.assessment.anti_affinity.excess import Part
from rebalancer.assessment.controllers import PodController
from rebalancer.model.affinity import PodAffinityTerm, TermKind
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import Reference, make_token
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.model.words import name_list, plural


class Side(NamedTuple):
    """Pods of one workload that conflict with others of their domain, and whether they declare the term."""

    workload: Reference
    declares: bool
    pods: tuple[Pod, ...]


class Conflict(NamedTuple):
    """The pods of one domain that conflict with another pod there; `excess` is the fewest that must move."""

    domain: str
    excess: int
    sides: tuple[Side, ...]


class Separation(NamedTuple):
    """What a term needs that selects its own pods: for each of `pods` one of the `domains` that admit them.

    `free` counts the domains without a pod that keeps others away; even a terminating pod does so until it is gone.
    `domains` and `free` are None if a node that admits the pods lacks the key, since it takes any number.
    """

    pods: int
    domains: int | None
    free: int | None


class Participants(NamedTuple):
    """Living pods of one owner, or without one, that declare a term, are selected by it, or both, as `part` says."""

    part: Part
    pods: tuple[Pod, ...]


class DeclaredBy(NamedTuple):
    """A term, and the namespace of the pods that declare it; `weight` is 0 for a required term."""

    namespace: str
    term: PodAffinityTerm
    weight: int = 0


class EvaluatedTerm(Struct, frozen=True, kw_only=True, gc=False):
    """A term of the pods of one namespace, with its conflicts, by domain.

    `workloads` have pods that declare it, in the order of their names. `separation` is None if the term selects none of
    these pods, or is satisfied. `unknown` says why it is not evaluated.

    `participants` are all pods that it concerns, in any domain, and `members` their owners. A satisfied term has both
    only if pods of a violated term are among them.

    `weight` is a preferred term's, 0 for a required term. A preferred term's `cost` sums the weights over the ordered
    pairs of pods in one domain: the first declares the term, and it selects the second. `least` is a lower bound of the
    cost; the term has conflicts only if it costs more.
    """

    namespace: str
    term: PodAffinityTerm
    workloads: tuple[Reference, ...]
    conflicts: tuple[Conflict, ...] = ()
    separation: Separation | None = None
    participants: tuple[Participants, ...] = ()
    members: tuple[PodController, ...] = ()
    unknown: str = ""
    weight: int = 0
    cost: int = 0
    least: int = 0

    @property
    def kind(self) -> TermKind:
        """Whether the term is required or preferred."""
        return TermKind.PREFERRED if self.weight else TermKind.REQUIRED

    @property
    def declared(self) -> DeclaredBy:
        """The term and the namespace of the pods that declare it."""
        return DeclaredBy(self.namespace, self.term, self.weight)

    @property
    def excess(self) -> int:
        """The fewest pods that must move for this term: exact, if it is taken alone."""
        return sum(conflict.excess for conflict in self.conflicts)

    @property
    def violated(self) -> bool:
        return bool(self.conflicts)

    @property
    def state(self) -> State:
        """The state; Infeasible if the pods of a required term outnumber the domains."""
        if self.unknown:
            return State.UNKNOWN
        if not self.conflicts:
            return State.SATISFIED
        needs = self.separation
        outnumber = needs is not None and needs.domains is not None and needs.pods > needs.domains
        if outnumber and not self.weight:
            return State.INFEASIBLE
        return State.VIOLATED

    @property
    def concerned(self) -> frozenset[Reference]:
        """The workloads that declare it, and the workloads of the pods that conflict."""
        return frozenset(self.workloads).union(side.workload for conflict in self.conflicts for side in conflict.sides)

    def conflicts_with_others(self, pod: Pod) -> bool:
        """Return whether a pod conflicts with others by this term."""
        sides = (side for conflict in self.conflicts for side in conflict.sides)
        return any(other.uid == pod.uid for side in sides for other in side.pods)

    @property
    def token(self) -> str:
        """A name that does not change from cycle to cycle, nor from one revision of the term to the next.

        The name ignores labels that the API server has merged into the selector for matchLabelKeys and
        mismatchLabelKeys.
        """
        term, selector = self.term, self.term.selector
        if selector is not None:
            merged = {*term.match_label_keys, *term.mismatch_label_keys}
            selector = LabelSelector(tuple(one for one in selector.requirements if one.key not in merged))
        names = ",".join(f"{workload.kind}/{workload.name}" for workload in self.workloads)
        places = f"{','.join(term.namespaces)} {term.namespace_selector}"
        return make_token(f"antiAffinity {self.namespace} {names} {term.topology_key} {selector} {places}")

    @property
    def name(self) -> str:
        """A name that stays the same from cycle to cycle: its workloads, its key and its token."""
        names = ",".join(f"{workload.kind}/{workload.name}" for workload in self.workloads)
        kind = f"preferred {self.weight} " if self.weight else ""
        return f"{self.namespace} {names} {kind}antiAffinity {self.term.topology_key} {self.token}"

    @property
    def selected(self) -> str:
        """The selected pods, as a selector for `kubectl -l`, and their namespaces."""
        term = self.term
        if term.selector is None:
            return "no pod (labelSelector is null)"
        pods = "every pod" if term.selector.empty else f"pods that match {term.selector}"
        places = [f"namespace {name}" for name in term.namespaces]
        if term.namespace_selector is not None:
            selector = term.namespace_selector
            places.append("every namespace" if selector.empty else f"namespaces that match {selector}")
        return f"{pods} in {name_list(places)}" if places else pods

    @property
    def message(self) -> str:
        """Why the term is not satisfied, with the numbers; "" if it is."""
        if self.unknown:
            return self.unknown
        if not self.conflicts:
            return ""
        if self.weight:
            return f"the weights of its pairs in one domain add up to {self.cost}; the least possible is {self.least}"
        text = f"{plural(self.excess, 'pod')} in excess"
        needs = self.separation
        if needs is None or needs.domains is None or needs.free is None:
            return text
        if self.state is State.INFEASIBLE:
            admit = "admits" if needs.domains == 1 else "admit"
            text += f"; {needs.pods} pods need a domain each, and {plural(needs.domains, 'domain')} {admit} them"
        return f"{text}; {plural(needs.free, 'domain')} {'is' if needs.free == 1 else 'are'} free"
