"""Evaluates every required term of podAntiAffinity that living pods declare, as the scheduler's filter sees it.

Pods are grouped by term and domain, never by pairs. First they are grouped by the counts, which the spread constraints
share. Then, in domains with pods of both sides, they are grouped by owner. The cost is linear in the pods that a term
concerns; the cost of all terms of a namespace is bounded, as for constraints.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.assessment.anti_affinity.declared import DeclaredTerm, find_declared, find_workloads
from rebalancer.assessment.anti_affinity.excess import Part, Share, count_excess, find_conflicting
from rebalancer.assessment.anti_affinity.result import Conflict, EvaluatedTerm, Participants, Separation, Side
from rebalancer.assessment.anti_affinity.selected import SelectedPods
from rebalancer.assessment.anti_affinity.separation import OwnPods, find_separation
from rebalancer.assessment.constraint_costs import SHARE, names_a_value
from rebalancer.assessment.controllers import PodController, find_reference, members
from rebalancer.model.affinity import TermKind
from rebalancer.model.labels import LabelSelector, SelectorRequirement
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.runs import Run
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import is_on
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.view import View

NODES_NOT_READ: Final = "no node was read: which pods share a domain is not known"

_PODS_OF_AN_OPERATION: Final = 20
"""How many pods are grouped by domain in the time of one operation."""


def evaluate_anti_affinity(view: View, share: int = SHARE) -> tuple[EvaluatedTerm, ...]:
    """Evaluate the terms, in an order independent of the pods' order; none if the scheduler ignores terms."""
    return _evaluate(view, TermKind.REQUIRED, share)


def evaluate_preferred(view: View, share: int = SHARE) -> tuple[EvaluatedTerm, ...]:
    """Evaluate the preferred terms: by counting alone, whether pods cost more than they have to."""
    return _evaluate(view, TermKind.PREFERRED, share)


def _evaluate(view: View, kind: TermKind, share: int) -> tuple[EvaluatedTerm, ...]:
    if not is_on(InterPodAffinity, view):
        return ()
    return tuple(sorted(_Terms(view, share).evaluate(kind), key=_order))


def _order(evaluated: EvaluatedTerm) -> tuple[object, ...]:
    term = evaluated.term
    return (
        evaluated.namespace,
        evaluated.workloads,
        term.topology_key,
        *_order_selector(term.selector),
        term.namespaces,
        *_order_selector(term.namespace_selector),
        term.match_label_keys,
        term.mismatch_label_keys,
        evaluated.weight,
    )


def _order_selector(selector: LabelSelector | None) -> tuple[bool, tuple[SelectorRequirement, ...]]:
    return (True, selector.requirements) if selector is not None else (False, ())


class _Alike(NamedTuple):
    """The pods of a run in one domain, and their part in a term."""

    share: Share
    pods: Sequence[Pod]


class _Terms:
    """The terms of one snapshot."""

    def __init__(self, view: View, share: int) -> None:
        self._view, self._share = view, share
        self._selected = SelectedPods(view)
        self._used: defaultdict[str, int] = defaultdict(int)
        """Operations spent, by namespace."""

    def evaluate(self, kind: TermKind) -> Iterator[EvaluatedTerm]:
        """Yield the terms of a kind that concern a namespace whose workloads were read."""
        declared = find_declared(self._view, kind)
        return filter(self._is_covered, self._relate([(one, self._evaluate(one)) for one in declared]))

    def _is_covered(self, term: EvaluatedTerm) -> bool:
        covers = self._view.snapshot.covers
        return covers(term.namespace) or any(covers(workload.namespace) for workload in term.concerned)

    def _relate(self, evaluated: Sequence[tuple[DeclaredTerm, EvaluatedTerm]]) -> Iterator[EvaluatedTerm]:
        """Add the participants to satisfied terms that concern pods of violated terms: no move may violate them."""
        samples = {one.owner.uid: one.pods[0] for _, term in evaluated for one in term.members if one.owner is not None}
        for declared, term in evaluated:
            if not samples or term.violated or term.unknown or not self._concerns(declared, samples):
                yield term
                continue
            participants = self._gather_participants(declared)
            members = tuple(self._find_members(participants))
            yield structs.replace(term, participants=participants, members=members)

    def _concerns(self, declared: DeclaredTerm, samples: Mapping[str, Pod]) -> bool:
        """Return whether some sample pods, given by the UID of their owner, declare a term or are selected by it."""
        if declared.term.selector is None:
            return False
        owners = (run.pods[0].owner for run in declared.runs)
        if any(owner is not None and owner.uid in samples for owner in owners):
            return True
        return any(selects(declared.term, declared.namespace, pod, self._view) for pod in samples.values())

    def _evaluate(self, declared: DeclaredTerm) -> EvaluatedTerm:
        workloads = find_workloads(declared.runs, self._view)
        bare = EvaluatedTerm(
            namespace=declared.namespace, term=declared.term, weight=declared.weight, workloads=workloads
        )
        unknown = self._find_unknown(declared)
        shared = self._find_shared(declared) if not unknown else ()
        if shared:
            unknown = self._spend(declared.namespace, self._count_pods(declared) // _PODS_OF_AN_OPERATION)
        if unknown or not shared:
            return structs.replace(bare, unknown=unknown)
        if declared.weight:
            cost, least = self._find_cost(declared, shared), self._find_least(declared)
            if cost <= least:
                return structs.replace(bare, cost=cost, least=cost)
            bare = structs.replace(bare, cost=cost, least=least)
        conflicts = tuple(self._find_conflicts(declared, shared))
        participants = self._gather_participants(declared) if conflicts else ()
        return structs.replace(
            bare,
            conflicts=conflicts,
            separation=self._find_separation(declared) if conflicts else None,
            participants=participants,
            members=tuple(self._find_members(participants)),
        )

    def _find_cost(self, declared: DeclaredTerm, shared: Collection[str]) -> int:
        """Return the weights over the ordered pairs in one domain: the first declares the term, it selects the second.

        5 pods that select each other on one node, weight 10     5 x 4 x 10 = 200
        """
        namespace, term, weight, runs, _ = declared
        values = self._view.nodes.values(term.topology_key)
        selected = self._selected.count(namespace, term)
        declaring, both = Counter[str](), Counter[str]()
        for run in runs:
            domains = [values[node] for node in run.nodes if node in values]
            declaring.update(domains)
            if selects(term, namespace, run.pods[0], self._view):
                both.update(domains)
        return weight * sum(declaring[domain] * selected[domain] - both[domain] for domain in shared)

    def _find_least(self, declared: DeclaredTerm) -> int:
        """Return a lower bound of the cost: that of pods which select exactly each other, spread evenly."""
        namespace, term, weight, runs, _ = declared
        own = sum(len(run.nodes) for run in runs)
        needs = self._find_separation(declared)
        if needs is None or needs.domains is None or not needs.domains:
            return 0
        if sum(self._selected.count(namespace, term).values()) > own or needs.pods < own:
            return 0
        even, more = divmod(own, needs.domains)
        return weight * (more * (even + 1) * even + (needs.domains - more) * even * (even - 1))

    def _find_unknown(self, declared: DeclaredTerm) -> str:
        """Say why a term is not evaluated ("" if it is): no node was read, or its namespace has used its share."""
        if "Node" in self._view.snapshot.unknown:
            return NODES_NOT_READ
        selector = declared.term.selector
        if selector is None:
            return ""
        places = self._selected.namespaces(declared.namespace, declared.term)
        if names_a_value(selector):
            return self._spend(declared.namespace, len(places))
        return self._spend(declared.namespace, sum(max(1, self._view.count_label_sets(place)) for place in places))

    def _count_pods(self, declared: DeclaredTerm) -> int:
        selected = self._selected.count(declared.namespace, declared.term)
        return sum(selected.values()) + sum(len(run.nodes) for run in declared.runs)

    def _spend(self, namespace: str, operations: int) -> str:
        """Add operations of a namespace, and say whether they exceed its share."""
        self._used[namespace] += operations
        if self._used[namespace] <= self._share:
            return ""
        return (
            f"the podAntiAffinity terms of namespace {namespace} take more than the {self._share:,} operations that a "
            "namespace has in a cycle. Use fewer terms, and selectors that name a label's value"
        )

    def _find_shared(self, declared: DeclaredTerm) -> Collection[str]:
        """Return the domains with a pod that declares the term and another pod that it may select."""
        namespace, term, _, runs, _ = declared
        selected = self._selected.count(namespace, term)
        if not selected:
            return ()
        own = [selects(term, namespace, run.pods[0], self._view) for run in runs]
        if all(own) and max(selected.values()) == 1:  # the usual case: the declaring pods are also selected
            return ()
        values = self._view.nodes.values(term.topology_key)
        declaring = Counter(values[node] for run in runs for node in run.nodes if node in values)
        # If the term selects every pod that declares it, a single pod is counted twice.
        least = 2 if all(own) else 1
        return {
            domain for domain, number in declaring.items() if domain in selected and number + selected[domain] > least
        }

    def _find_conflicts(self, declared: DeclaredTerm, shared: Collection[str]) -> Iterator[Conflict]:
        """Yield the conflicts of these domains."""
        by_domain: defaultdict[str, list[_Alike]] = defaultdict(list)
        for part, run in self._find_runs(declared):
            owner, workload = self._find_owner(run)
            for domain, pods in self._selected.divide(declared.term.topology_key, run).items():
                if domain in shared:
                    by_domain[domain].append(_Alike(Share(part, owner, workload, len(pods)), pods))
        for domain in sorted(by_domain):
            alike = by_domain[domain]
            conflicting = {*find_conflicting([one.share for one in alike])}
            if conflicting:
                sides = self._find_sides([one for one in alike if one.share in conflicting])
                yield Conflict(domain, count_excess(one.share for one in alike), sides)

    def _find_runs(self, declared: DeclaredTerm) -> Iterator[tuple[Part, Run]]:
        """Yield the runs of living pods that declare a term, that it selects, or both."""
        selected = self._selected.find_runs(declared.namespace, declared.term)
        chosen, own = {id(run) for run in selected}, {id(run) for run in declared.runs}
        for run in {id(run): run for run in (*declared.runs, *selected)}.values():
            yield Part.SELECTED if id(run) not in own else Part.BOTH if id(run) in chosen else Part.DECLARES, run

    def _gather_participants(self, declared: DeclaredTerm) -> tuple[Participants, ...]:
        """Return the participants of a term by owner and part."""
        gathered: defaultdict[tuple[str, str, Part], list[Pod]] = defaultdict(list)
        for part, run in self._find_runs(declared):
            owner = run.pods[0].owner
            gathered[run.pods[0].namespace, owner.uid if owner is not None else "", part].extend(run.pods)
        return tuple(
            Participants(part, tuple(sorted(pods, key=lambda pod: pod.name)))
            for (_, _, part), pods in sorted(gathered.items(), key=lambda entry: entry[0])
        )

    def _find_members(self, participants: Sequence[Participants]) -> Iterator[PodController]:
        """Yield the owners of these pods, each once, as far as they are known."""
        by_uid = self._view.memo(
            "members by UID", lambda: {one.owner.uid: one for one in members(self._view) if one.owner is not None}
        )
        owners = (pods[0].owner for _, pods in participants)
        for uid in dict.fromkeys(owner.uid for owner in owners if owner is not None):
            if uid in by_uid:
                yield by_uid[uid]

    def _find_owner(self, run: Run) -> tuple[str, Reference | None]:
        """Return the owner of some pods, and the workload, whose ReplicaSets may be several owners."""
        owner = run.pods[0].owner
        return (owner.uid, find_reference(run.pods[0], self._view)) if owner is not None else ("", None)

    def _find_sides(self, alike: Sequence[_Alike]) -> tuple[Side, ...]:
        """Return the pods by workload and by name."""
        pods_by_side: defaultdict[tuple[Reference, bool], list[Pod]] = defaultdict(list)
        for share, pods in alike:
            declares = share.part is not Part.SELECTED
            if pods[0].owner is not None:
                pods_by_side[find_reference(pods[0], self._view), declares].extend(pods)
            else:
                for pod in pods:
                    pods_by_side[find_reference(pod, self._view), declares].append(pod)
        return tuple(
            Side(workload, declares, tuple(sorted(pods, key=lambda pod: pod.name)))
            for (workload, declares), pods in sorted(pods_by_side.items(), key=lambda entry: entry[0])
        )

    def _find_separation(self, declared: DeclaredTerm) -> Separation | None:
        """Return what the pods need that declare the term and are selected by it, None without such pods."""
        namespace, term, _, runs, terminating = declared
        exists = self._view.nodes.by_name.__contains__
        own = [
            OwnPods(run.pods[0], sum(map(exists, run.nodes)), *self._find_owner(run))
            for run in runs
            if selects(term, namespace, run.pods[0], self._view)
        ]
        if not own:
            return None
        values = self._view.nodes.values(term.topology_key)
        declaring = (values[node] for run in (*runs, *terminating) for node in run.nodes if node in values)
        occupied = self._selected.find_occupied(namespace, term).union(declaring)
        return find_separation(own, term.topology_key, occupied, self._view)


def find_terms_of(workload: Reference, evaluated: Sequence[EvaluatedTerm]) -> Sequence[EvaluatedTerm]:
    """Return the terms that a workload declares, and the terms by which its pods conflict with others."""
    return [one for one in evaluated if workload in one.workloads or workload in one.concerned]
