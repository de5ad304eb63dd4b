"""What would do where pods of several kinds cannot all stand right: other numbers of replicas, or one bound eased.

What is named would do, shown by an arrangement on the nodes as they are. That nothing nearer would is proved as well,
or it is said that the search was cut short. Numbers that would do have gaps, so nothing is halved: one program finds
the least change. It knows two places more, which nothing else counts. One keeps the pods that might be added, and each
that is added leaves it; the other is full of blockers, one of which leaves it for each pod that is taken away. So the
fewest evictions of that program are the least change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from rebalancer.assessment.spread_groups import PodController
from rebalancer.planning.diagnosis.slack import SharedBound, eased, farthest, rules, words
from rebalancer.planning.multi_class.classes import MultiClassProblem, PodClass
from rebalancer.planning.multi_class.milp import SOLVE_BUDGET
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.scope.requirements import depends_on_pod_count, requirement_for_count

_CELLS = 25_000
"""How many columns all programs of one search may have together: a bound in numbers, so that every machine answers
alike. Small components are searched to the end, of huge ones nothing is said."""

_EFFORT = SOLVE_BUDGET // 6
"""What each of them may take."""

_MOST_EASED = 8
"""By how much a bound is eased at the most: what needs more is not what somebody would write instead."""

_MOST_NAMED = 3
_RESERVE, _REMOVED, _ASIDE = "\0reserve", "\0removed", "\0aside"
"""Places that no node is called."""

Change = Mapping[int, int]
"""How many pods more, or fewer, of a kind, by its number."""


def find_relaxation(mixed: MultiClassProblem) -> str:
    """Say what would do instead of these numbers or of what is asked; "" where nothing was found."""
    search = _Search(mixed)
    change, bound = search.numbers(), search.bound()
    cut = "; the search for the nearest was cut short" if search.cut else ""
    found = [each for each in (search.told(search.simpler(change)), bound) if each]
    return f"{', or '.join(found)} would do{cut}" if found else ""


class _Search:
    """One search, and what is left of what it may cost."""

    def __init__(self, mixed: MultiClassProblem) -> None:
        self._bare = _unplaced(mixed, {})
        self._left = _CELLS
        self.cut = False
        self._scalable = [number for number, kind in enumerate(mixed.classes) if _scalable(mixed, kind)]

    def numbers(self) -> Change:
        """Return the least change of the numbers of replicas; empty where none was found."""
        if 2 * _cells(self._bare) > self._left:  # an answer that cannot be checked is none
            self.cut = True
            return {}
        return self._least_change(self._scalable, sum(map(_total, self._bare.classes)))

    def simpler(self, change: Change) -> Change:
        """Return a change of one kind alone that is no larger, if there is one and it is found."""
        if len(change) < 2:
            return change
        size = sum(map(abs, change.values()))
        found = (self._least_change([number], size) for number in self._scalable)
        return next((each for each in found if each), change)

    def told(self, change: Change) -> str:
        """Name the workloads, and how many replicas each would have."""
        return _told([each for number, more in change.items() for each in _shared(self._bare.classes[number], more)])

    def _least_change(self, scalable: Sequence[int], most: int) -> Change:
        """Return the least change of some kinds' numbers, each by at most `most` pods; empty where there is none."""
        if not scalable:
            return {}
        found = self._solved(_in_full(_changeable(self._bare, scalable, most)))
        if isinstance(found, Unsolved):
            return {}
        self.cut |= found.evictions > found.bound
        after = {
            number: sum(found.stand.get((number, node), 0) for node in self._bare.classes[number].cap)
            for number in scalable
        }
        more = {number: many - _total(self._bare.classes[number]) for number, many in after.items()}
        change = {number: many for number, many in more.items() if many}
        return change if self._would_do(_in_full(_unplaced(self._bare, change))) else {}

    def bound(self) -> str:
        """Name the one bound that is to be eased by the least, all others as they are."""
        given = {rule: min(_MOST_EASED, farthest(self._bare, rule)) for rule in rules(self._bare)}
        for rule, most in given.items():
            if most and self._would_do(eased(self._bare, rule, 1)):
                return words(self._bare, rule, 1)
        best: tuple[int, SharedBound] | None = None
        for rule, most in given.items():
            least = self._least_easing(rule, most if best is None else min(most, best[0] - 1))
            if least:
                best = least, rule
        return words(self._bare, best[1], best[0]) if best is not None else ""

    def _least_easing(self, rule: SharedBound, most: int) -> int:
        """Return by how much more than one a bound must be eased, `most` at the most; 0 where that is not enough.

        Easing more never hurts, so halving finds the least.
        """
        if most < 2 or not self._would_do(eased(self._bare, rule, most)):
            return 0
        low, high = 1, most
        while high - low > 1:
            middle = (low + high) // 2
            if self._would_do(eased(self._bare, rule, middle)):
                high = middle
            else:
                low = middle
        return high

    def _would_do(self, mixed: MultiClassProblem) -> bool:
        return isinstance(self._solved(mixed), Solution)

    def _solved(self, mixed: MultiClassProblem) -> Solution | Unsolved:
        cells = _cells(mixed)
        found = solve(mixed, effort=_EFFORT) if cells <= self._left else Unsolved.GIVEN_UP
        self._left -= cells
        if found is Unsolved.GIVEN_UP:
            # The next would take as long, and tell as little.
            self._left, self.cut = 0, True
        return found


def _cells(mixed: MultiClassProblem) -> int:
    return sum(len(kind.cap) for kind in mixed.classes)


def _total(kind: PodClass) -> int:
    return sum(kind.counts.values()) + kind.pending


def _unplaced(mixed: MultiClassProblem, change: Change) -> MultiClassProblem:
    """Return the pods, some more or fewer of a kind, all of whose places are still to be found."""
    kinds = [
        replace(kind, counts={}, fixed={}, movable={}, pending=_total(kind) + change.get(number, 0))
        for number, kind in enumerate(mixed.classes)
    ]
    return replace(mixed, classes=tuple(kinds))


def _in_full(mixed: MultiClassProblem) -> MultiClassProblem:
    """Let limits ask for what they say, where they are out of reach and a repair aims at what comes near."""
    return replace(mixed, requirements=tuple(requirement_for_count(each, 0) or each for each in mixed.requirements))


def _replicas(member: PodController) -> int:
    assert member.owner is not None, "pods without an owner are of no kind"
    return member.owner.replicas


def _scalable(mixed: MultiClassProblem, kind: PodClass) -> bool:
    """Say whether it is known what is asked of another number of a kind's pods."""
    counted = _total(kind) == sum(map(_replicas, kind.members))
    return counted and not any(depends_on_pod_count(mixed.requirements[number]) for number in kind.requirements)


def _changeable(bare: MultiClassProblem, scalable: Sequence[int], most: int) -> MultiClassProblem:
    """Return the program whose evictions are pods that are added or taken away. One pod of an owner stays.

    Room is left out of it, but for each node's own.
    """
    fewer = {
        number: min(most, sum(_replicas(member) - 1 for member in bare.classes[number].members)) for number in scalable
    }
    full, removal = sum(fewer.values()), len(bare.requirements)
    kinds = [
        replace(
            kind,
            counts={_RESERVE: most},
            cap={**kind.cap, _RESERVE: most, _REMOVED: fewer[number]},
            requirements=kind.requirements | {removal},
        )
        if number in fewer
        else kind
        for number, kind in enumerate(bare.classes)
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
        many=1,
        max_skew=None,
        floor_at_zero=False,
        cap=full,
        least=0,
    )
    return replace(
        bare,
        classes=(*kinds, blockers),
        requirements=(*bare.requirements, place),
        others=(*bare.others, {}),
        view=None,
    )


def _shared(kind: PodClass, more: int) -> list[tuple[PodController, int]]:
    """Divide a change among the owners of a kind, as few as will do: those with most pods."""
    found, left = [], more
    for member in sorted(kind.members, key=lambda each: (-_replicas(each), each.reference)):
        part = max(left, 1 - _replicas(member))
        if part:
            found.append((member, part))
        left -= part
    return found


def _told(changes: Sequence[tuple[PodController, int]]) -> str:
    """Name workloads with the numbers of replicas that they would have; of many only by how much they change."""
    if len(changes) > _MOST_NAMED:
        added, removed = (sum(max(0, sign * more) for _, more in changes) for sign in (1, -1))
        how = [f"{many} {what}" for many, what in ((removed, "fewer"), (added, "more")) if many]
        return f"{' and '.join(how)} pods in {len(changes)} workloads"
    ordered = sorted((member.reference, _replicas(member) + more) for member, more in changes)
    return " and ".join(f"{many} replica{'' if many == 1 else 's'} of {workload}" for workload, many in ordered)
