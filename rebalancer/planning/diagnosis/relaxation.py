"""The smallest relaxation that makes an infeasible component of several pod classes feasible.

Problem: no placement satisfies everything; which other numbers of replicas, or which one relaxed bound, would allow a
placement? Idea: the feasible numbers have gaps, so bisection cannot find them; one integer program finds the least
change. The program has two more nodes, which no requirement counts. One holds the pods that might be added: each added
pod leaves it. The other is full of blockers: for each removed pod a blocker leaves it. So the fewest evictions of that
program are the least change. A placement on the real nodes shows that each returned change is feasible. The solver also
proves that no smaller change is feasible; otherwise `limit_reached` is set.

Example of a result: 5 replicas of shop/db, or maxSkew 2 over the zones.

Cost: bounded by `SearchLimits.relaxation_columns`. A relaxation is computed when it is read, once for a plan.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from msgspec import Struct, structs

from rebalancer.assessment.controllers import PodController
from rebalancer.model.moves import Reference
from rebalancer.model.words import plural
from rebalancer.planning.diagnosis.slack import (
    RelaxedBound,
    SharedBound,
    most_slack,
    relax,
    relaxed_bound,
    shared_bounds,
)
from rebalancer.planning.multi_class.classes import PodClass, PodClasses
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.scope.requirements import depends_on_pod_count, requirement_for_count
from rebalancer.planning.search.limits import SearchLimits

_RESERVE, _REMOVED, _ASIDE = "\0reserve", "\0removed", "\0aside"
"""Names of the program's additional nodes; no real node has them."""

Change = Mapping[int, int]
"""The change of each pod class's number of pods, by the number of the class; negative: fewer pods."""

_MOST_NAMED = 3
"""Up to this many workloads are named; with more only the pods are counted."""


class ReplicaChange(Struct, frozen=True, gc=False):
    """A workload, the replicas that it would have, and how many `more` than now (negative: fewer)."""

    workload: Reference
    replicas: int
    more: int


class Relaxation(Struct, frozen=True, gc=False):
    """The least change of replicas, and the one bound to relax. Each alone makes the component feasible.

    Both are empty if unknown. `limit_reached`: a smaller change may exist.
    """

    replicas: tuple[ReplicaChange, ...] = ()
    bound: RelaxedBound | None = None
    limit_reached: bool = False

    def __str__(self) -> str:
        """Say what would make the component feasible, after a semicolon; "" if nothing is known."""
        options = [self._replicas_text] if self.replicas else []
        options += [str(self.bound)] if self.bound is not None else []
        if not options:
            return ""
        limit = "; the search limit was reached, so something nearer may exist" if self.limit_reached else ""
        return f"; feasible with {', or with '.join(options)}{limit}"

    @property
    def _replicas_text(self) -> str:
        """Name workloads with their changed numbers of replicas; for many workloads only by how much they change."""
        changes = self.replicas
        if len(changes) > _MOST_NAMED:
            added = sum(max(0, change.more) for change in changes)
            removed = sum(max(0, -change.more) for change in changes)
            counts = [f"{number} {word}" for number, word in ((removed, "fewer"), (added, "more")) if number]
            return f"{' and '.join(counts)} pods in {len(changes)} workloads"
        return " and ".join(f"{plural(change.replicas, 'replica')} of {change.workload}" for change in changes)


class Relaxable:
    """An infeasible component, whose relaxation is computed when first read, since it costs integer programs."""

    def __init__(self, search: Callable[[], Relaxation]) -> None:
        self._search = search

    @cached_property
    def relaxation(self) -> Relaxation:
        """The smallest relaxation that makes the component feasible."""
        return self._search()


Relaxations = Mapping[str, Relaxation]
"""The relaxations of infeasible components, by the component's name."""

NO_RELAXATIONS: Final[Relaxations] = {}


def find_relaxation(classes: PodClasses, limits: SearchLimits) -> Relaxation:
    """Return the smallest relaxation of an infeasible component."""
    search = _Search(classes, limits)
    change, bound = search.least_replica_change(), search.least_relaxed_bound()
    replicas = search.replica_changes(search.simpler(change))
    return Relaxation(replicas, bound, search.limit_reached and bool(replicas or bound))


class _Search:
    """One search for a relaxation, with the rest of its budget."""

    def __init__(self, classes: PodClasses, limits: SearchLimits) -> None:
        self._bare = _unplaced(classes, {})
        self._limits = limits
        self._left = limits.relaxation_columns
        self.limit_reached = False
        self._scalable = [
            number for number, pod_class in enumerate(classes.classes) if _is_scalable(classes, pod_class)
        ]

    def least_replica_change(self) -> Change:
        """Return the least change of the numbers of replicas; empty if none was found."""
        if not self._bare.requirements:  # only anti-affinity: the refusal names the numbers
            return {}
        if 2 * _columns(self._bare) > self._left:  # a change that cannot be checked is not returned
            self.limit_reached = True
            return {}
        return self._least_change(self._scalable, self._bare.total)

    def simpler(self, change: Change) -> Change:
        """Return a change of one class alone that is no larger, if such a change is found."""
        if len(change) < 2:
            return change
        size = sum(map(abs, change.values()))
        alone = (self._least_change([number], size) for number in self._scalable)
        return next((single for single in alone if single), change)

    def replica_changes(self, change: Change) -> tuple[ReplicaChange, ...]:
        """Return the workloads, sorted, and how many replicas each would have."""
        shares = [share for number, more in change.items() for share in _divide(self._bare.classes[number], more)]
        changes = [ReplicaChange(member.reference, _replicas(member) + more, more) for member, more in shares]
        return tuple(sorted(changes, key=lambda changed: (changed.workload, changed.replicas)))

    def _least_change(self, scalable: Sequence[int], most: int) -> Change:
        """Return the least change of some classes' numbers, each by at most `most` pods; empty if there is none."""
        if not scalable:
            return {}
        solution = self._solve(_in_full(_changeable(self._bare, scalable, most)))
        if isinstance(solution, Unsolved):
            return {}
        self.limit_reached |= solution.evictions > solution.bound
        after = {
            number: sum(solution.placed.get((number, node), 0) for node in self._bare.classes[number].cap)
            for number in scalable
        }
        more = {number: pods - self._bare.classes[number].total for number, pods in after.items()}
        change = {number: pods for number, pods in more.items() if pods}
        return change if self._is_feasible(_in_full(_unplaced(self._bare, change))) else {}

    def least_relaxed_bound(self) -> RelaxedBound | None:
        """Return the one bound that needs the least relaxation while all other bounds stay."""
        most_of = {
            shared: min(self._limits.relaxation_pods, most_slack(self._bare, shared))
            for shared in shared_bounds(self._bare)
        }
        for shared, most in most_of.items():
            if most and self._is_feasible(relax(self._bare, shared, 1)):
                return relaxed_bound(self._bare, shared, 1)
        best: tuple[int, SharedBound] | None = None
        for shared, most in most_of.items():
            least = self._least_slack(shared, most if best is None else min(most, best[0] - 1))
            if least:
                best = least, shared
        return relaxed_bound(self._bare, best[1], best[0]) if best is not None else None

    def _least_slack(self, shared: SharedBound, most: int) -> int:
        """Return by how many more pods than one a bound must be relaxed, at most `most`; 0 if that is not enough.

        Relaxing more never hurts, so bisection finds the least.
        """
        if most < 2 or not self._is_feasible(relax(self._bare, shared, most)):
            return 0
        low, high = 1, most
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_feasible(relax(self._bare, shared, middle)):
                high = middle
            else:
                low = middle
        return high

    def _is_feasible(self, classes: PodClasses) -> bool:
        return isinstance(self._solve(classes), Solution)

    def _solve(self, classes: PodClasses) -> Solution | Unsolved:
        columns = _columns(classes)
        solution: Solution | Unsolved = Unsolved.LIMIT_REACHED
        if columns <= self._left:
            solution = solve(classes, self._limits, work=self._limits.relaxation_work)
        self._left -= columns
        if solution is Unsolved.LIMIT_REACHED:
            # The next program would take as long and reach the limit too.
            self._left, self.limit_reached = 0, True
        return solution


def _columns(classes: PodClasses) -> int:
    return sum(len(pod_class.cap) for pod_class in classes.classes)


def _unplaced(classes: PodClasses, change: Change) -> PodClasses:
    """Return the pods, some more or fewer of a class, as if none had a node yet."""
    changed = [
        replace(pod_class, counts={}, fixed={}, movable={}, pending=pod_class.total + change.get(number, 0))
        for number, pod_class in enumerate(classes.classes)
    ]
    return replace(classes, classes=tuple(changed))


def _in_full(classes: PodClasses) -> PodClasses:
    """Restore the limits as written; a repair aims at less if they cannot be satisfied."""
    requirements = [requirement_for_count(requirement, 0) or requirement for requirement in classes.requirements]
    return replace(classes, requirements=tuple(requirements))


def _replicas(member: PodController) -> int:
    assert member.owner is not None, "pods without an owner are of no class"
    return member.owner.replicas


def _is_scalable(classes: PodClasses, pod_class: PodClass) -> bool:
    """Return whether the requirements are known for another number of a class's pods."""
    counted = pod_class.total == sum(map(_replicas, pod_class.members))
    return counted and not any(depends_on_pod_count(classes.requirements[number]) for number in pod_class.requirements)


def _changeable(bare: PodClasses, scalable: Sequence[int], most: int) -> PodClasses:
    """Return a component whose evictions stand for added or removed pods. Each owner keeps at least one pod.

    The capacity that pods of several classes share is left out; each class has its own limit on each node.
    """
    fewer = {
        number: min(most, sum(_replicas(member) - 1 for member in bare.classes[number].members)) for number in scalable
    }
    full, removal = sum(fewer.values()), len(bare.requirements)
    changed = [
        replace(
            pod_class,
            counts={_RESERVE: most},
            cap={**pod_class.cap, _RESERVE: most, _REMOVED: fewer[number]},
            requirements=pod_class.requirements | {removal},
        )
        if number in fewer
        else pod_class
        for number, pod_class in enumerate(bare.classes)
    ]
    blockers = replace(
        bare.classes[0],
        counts={_REMOVED: full},
        cap={_REMOVED: full, _ASIDE: full},
        pending=0,
        requirements=frozenset({removal}),
    )
    place = structs.replace(
        bare.requirements[0],
        key="",
        domain={_REMOVED: ""},
        nodes=frozenset({_REMOVED}),
        counted={},
        domains=1,
        bound=Bound(cap=full),
    )
    return replace(
        bare,
        classes=(*changed, blockers),
        requirements=(*bare.requirements, place),
        others=(*bare.others, {}),
        view=None,
    )


def _divide(pod_class: PodClass, more: int) -> list[tuple[PodController, int]]:
    """Divide a change among as few owners of a class as possible, those with most pods first."""
    shares, left = [], more
    for member in sorted(pod_class.members, key=lambda member: (-_replicas(member), member.reference)):
        part = max(left, 1 - _replicas(member))
        if part:
            shares.append((member, part))
        left -= part
    return shares
