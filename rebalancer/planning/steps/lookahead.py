"""Steps on the real nodes: what the scheduler will do with a replacement, looked at with its own rules.

Where pods are of several kinds, or where nothing forces them, classes of equal nodes do not tell enough. Here every
way is played through on the view itself: the victim gone, or still terminating; the pods that wait, in the order of the
queue; and for each of them every feasible node (`any_feasible`: then a step is forced), or every top-scoring one
(`any_best`: then it is predicted, docs/fidelity.md).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from rebalancer.model.pods import Pod
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.placement import is_no_worse
from rebalancer.planning.steps.forced import SearchBudget, StepGoal
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.place import queue
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.scoring import best
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_ATTEMPT = 1_000
"""What a search costs before it has looked at a node: ranking the victims."""

_OUT = 4
"""How many may be out at once where one eviction follows another; more never helped in trials."""

_CHAIN = 8
"""How many evictions may follow each other until everything has landed."""

_LOOK = 100
"""What finding the nodes for a pod costs at the least, in nodes looked at one by one."""

_SWIFT = 50
"""How many times faster nodes are sifted as sets than looked at one by one."""

Deltas = Mapping[Hashable, int]
"""Pods more or less than now, by cell."""


class Board(Protocol):
    """What a search must know of a component: how far a state is from right, and who might go."""

    @property
    def sorted(self) -> PodPartition:
        """The component's pods."""

    def cell(self, pod: Pod, node: str) -> Hashable:
        """Return where a pod stands, in the terms of the board."""

    @property
    def ways(self) -> int:
        """More nodes than this that a pod may get, none like another, are too many to follow."""

    @property
    def fewest(self) -> int | None:
        """How far the component is from right; None where nothing brings it there."""

    def within(self, deltas: Deltas, pending: Sequence[Pod], goal: int, *, hasty: bool) -> bool:
        """Say whether a state with these pods pending is at most so far from right; in haste, no if that takes long."""

    def alone(self, deltas: Deltas) -> int:
        """Return the sum of what each thing that is asked needs by itself."""

    def excess(self, deltas: Deltas) -> tuple[int, ...]:
        """Return by how much each thing that is asked is exceeded."""

    def candidates(self, deltas: Deltas, gone: frozenset[str]) -> Sequence[Victim]:
        """Return one pod for each choice there is in a state, the most promising first; `gone` are UIDs."""

    def has_room(self, pod: Pod, node: str) -> bool:
        """Say whether a node has room for a pod beside everything that is on its way elsewhere."""

    def alike(self, deltas: Deltas, nodes: Iterable[str]) -> Iterable[str]:
        """Return one node for each class of nodes that are alike for the board in a state."""


@dataclass(frozen=True)
class _Point:
    """A state on the way: who stands where, who waits, who has been evicted and may still be terminating."""

    view: View
    deltas: tuple[tuple[Hashable, int], ...]
    waiting: tuple[Pod, ...]
    gone: tuple[Pod, ...]


@dataclass(frozen=True)
class PredictedStep:
    """A victim, how many may have to be out at once with those that follow it, and where pods may land."""

    victim: Victim
    out: int
    landing: frozenset[str]


class _NotFollowed(Exception):  # noqa: N818  # a signal: nothing is known of this victim
    """A pod may land in too many ways, or where room is spoken for."""


def lookahead_step(
    view: View, board: Board, aim: StepGoal, effort: SearchBudget, *, forced: bool, hasty: bool = False
) -> PredictedStep | None:
    """Return a victim whose every outcome is what the aim promises; None if there is none.

    Where its replacement gets stuck, others may have to follow: they are looked for as well, unless in haste. Raises
    TooLarge when the effort is spent.
    """
    effort.spend(_ATTEMPT)
    search = _Search(view, board, aim, effort, forced=forced, hasty=hasty)
    for victim in board.candidates({}, frozenset()):
        search.landing.clear()
        try:
            out = search.out(search.evicted(search.start, victim), 1)
        except _NotFollowed:
            effort.cut_short()
            continue
        if out:
            return PredictedStep(victim, out, frozenset(search.landing))
    return None


class _Search:
    """The outcomes of one board under one rule for the scheduler's choice."""

    def __init__(
        self, view: View, board: Board, aim: StepGoal, effort: SearchBudget, *, forced: bool, hasty: bool
    ) -> None:
        self._view = view
        self._board = board
        self._aim = aim
        self._effort = effort
        self._forced = forced
        self._hasty = hasty
        found = board.sorted
        unborn = [
            structs.replace(sample, uid=f"{sample.uid}{number}", node=None)
            for sample, times in found.unborn
            for number in range(times)
        ]
        self.start = _Point(view, (), (*found.waiting, *unborn), ())
        self._alone = board.alone({}), len(self.start.waiting)
        self._excess = board.excess({})
        self._known: dict[Hashable, int] = {}
        self.landing: set[str] = set()
        """Where pods may land after the victim that was looked at last, and those that may follow it."""

    def evicted(self, point: _Point, victim: Victim) -> _Point | None:
        """Return the state after an eviction; None where what comes in its place is not known."""
        pod = victim.pod
        made = replacement(pod, self._view)
        if isinstance(made, Unpredictable):
            return None
        return _Point(
            point.view.without([pod]),
            _changed(point.deltas, self._board.cell(pod, pod.node or ""), -1),
            # The new pod is the youngest: it comes after those that wait already.
            (*point.waiting, made),
            (*point.gone, pod),
        )

    def out(self, point: _Point | None, evictions: int) -> int:
        """Return how many are out at the most until everything has landed well; 0 where it may end badly."""
        if point is None:
            return 0
        most = 0
        for end in self._rests(point):
            found = self._closed(end, evictions)
            if not found:
                return 0
            most = max(most, found)
        return most

    def _closed(self, end: _Point, evictions: int) -> int:
        key = end.deltas, tuple(pod.uid for pod in end.waiting), evictions
        if key not in self._known:
            self._known[key] = 0
            good = self._good(end, evictions)
            self._known[key] = 1 if good and not end.waiting else self._freed(end, evictions) if good else 0
        return self._known[key]

    def _freed(self, end: _Point, evictions: int) -> int:
        """Look for an eviction that frees what is stuck."""
        if self._hasty or len(end.waiting) >= _OUT or evictions >= _CHAIN:
            return 0
        for victim in self._board.candidates(dict(end.deltas), frozenset(pod.uid for pod in end.gone)):
            try:
                out = self.out(self.evicted(end, victim), evictions + 1)
            except _NotFollowed:
                self._effort.cut_short()
                continue
            if out:
                return max(out, len(end.waiting) + 1)
        return 0

    def _good(self, end: _Point, evictions: int) -> bool:
        """Say whether a state at rest is as good as the aim promises, or may still become so where pods wait."""
        deltas, pending = dict(end.deltas), len(end.waiting)
        fewest = self._board.fewest
        if self._aim is StepGoal.PART:
            if fewest and not self._within(end, fewest - evictions):
                return False
            return bool(pending) or (self._no_worse(deltas) and (self._board.alone(deltas), 0) < self._alone)
        if fewest is None or not (pending or self._no_worse(deltas)):
            return False
        goal = fewest - evictions + (self._aim is StepGoal.ALL_BUT_ONE)
        return self._within(end, goal) and (bool(pending) or goal < fewest or bool(self._alone[1]))

    def _within(self, end: _Point, goal: int) -> bool:
        return self._board.within(dict(end.deltas), end.waiting, goal, hasty=self._hasty)

    def _no_worse(self, deltas: Deltas) -> bool:
        return is_no_worse(self._board.excess(deltas), self._excess)

    def _rests(self, start: _Point) -> Iterator[_Point]:
        """Yield every state in which the scheduler can come to rest."""
        seen: set[Hashable] = set()
        open_ = [start]
        while open_:
            point = open_.pop()
            key = point.deltas, tuple(pod.uid for pod in point.waiting)
            if key in seen:
                continue
            seen.add(key)
            following = self._placed(point)
            if following is None:
                yield point
            else:
                open_ += following

    def _placed(self, point: _Point) -> list[_Point] | None:
        """Return the states after the next placement; None where no waiting pod finds a node."""
        for pod in queue(point.waiting):
            nodes = self._open(pod, point)
            if nodes:
                rest = tuple(each for each in point.waiting if each is not pod)
                return [
                    _Point(
                        point.view.with_placed(pod, node),
                        _changed(point.deltas, self._board.cell(pod, node), 1),
                        rest,
                        point.gone,
                    )
                    for node in nodes
                ]
        return None

    def _open(self, pod: Pod, point: _Point) -> Sequence[str]:
        """Return the nodes that a pod may get, the victims gone or not yet gone."""
        found = self._choice(pod, point.view)
        ghosts = [each for each in point.gone if each.owner is not None and each.owner.kind != "StatefulSet"]
        if ghosts:
            present = point.view
            for ghost in ghosts:
                present = present.with_placed(ghost, ghost.node or "")
            found = found | self._choice(pod, present.terminating(ghosts))
        self.landing |= found
        self._effort.spend(len(found))
        # Room that is spoken for may be gone by then: where the pod would land after all is not known.
        if not all(self._board.has_room(pod, node) for node in found):
            raise _NotFollowed
        ordered = sorted(found)
        if self._forced:
            ordered = list(self._board.alike(dict(point.deltas), ordered))
        if len(ordered) > self._board.ways:
            raise _NotFollowed
        return ordered

    def _choice(self, pod: Pod, view: View) -> frozenset[str]:
        nodes = feasible(pod, view)
        self._effort.spend(_LOOK + len(view.nodes.by_name) // _SWIFT + len(nodes))
        return nodes if self._forced or not nodes else best(pod, view, nodes)


def _changed(deltas: tuple[tuple[Hashable, int], ...], cell: Hashable, by: int) -> tuple[tuple[Hashable, int], ...]:
    found = Counter(dict(deltas))
    found[cell] += by
    return tuple(sorted(((each, number) for each, number in found.items() if number), key=repr))
