"""Steps on the real nodes: where the scheduler's own rules place a replacement.

Problem: if pods are of several classes, or no step is forced, classes of equal nodes are not precise enough. Idea:
follow every outcome on the view itself. The victim is gone, or still terminating; pending pods are placed in the order
of the scheduling queue, each on every feasible node (then a step is forced), or on every top-scoring node (then it is
predicted).

Example: web-3 is evicted from zone a. Two nodes of zone c score best for its replacement: both outcomes are followed.
On one of them a pending pod of db then finds no node, so web-3 is a step only if a second eviction frees that pod.

Cost: in nodes examined, bounded by `SearchLimits.lookahead_nodes`.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct, structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.pods import Pod
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.search.driver import Flaw, StepGoal, first_good, rest_states, worst_rest
from rebalancer.planning.search.limits import SearchBudget, SearchLimitReached, SearchLimits
from rebalancer.planning.search.report import Attempt, Method, Tally
from rebalancer.planning.single_class.placement import is_no_worse
from rebalancer.scheduling.place import Choose, any_feasible, candidate_nodes, next_placement, queue, top_scoring
from rebalancer.scheduling.sampling import ALWAYS_EXAMINED
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

Deltas = Mapping[Hashable, int]
"""Pods more or fewer than now, by cell."""


class LookaheadModel(Protocol):
    """What a search asks about a component: how many evictions a state needs, and which pods to try.

    Pods are counted by cell: a node, or a class and a node.
    """

    @property
    def pods(self) -> PodPartition:
        """The component's pods."""

    @property
    def most_choices(self) -> int:
        """Nodes among which the scheduler may choose for one pod; more are too many to follow."""

    @property
    def may_wait(self) -> bool:
        """Whether a replacement may wait for a node until another eviction of the repair frees one."""

    @property
    def min_evictions(self) -> int | None:
        """The minimum of the component; None if no placement is within all bounds."""

    def cell(self, pod: Pod, node: str) -> Hashable:
        """Return the cell of a pod on a node."""

    def is_within(self, deltas: Deltas, pending: Sequence[Pod], goal: int, *, quick: bool) -> bool:
        """Return whether a state with these pods pending needs at most `goal` evictions; `quick`: without solving."""

    def sum_of_minima(self, deltas: Deltas) -> int:
        """Return the sum of what each bound requires by itself."""

    def excess(self, deltas: Deltas) -> tuple[int, ...]:
        """Return by how much each bound is exceeded."""

    def candidates(self, deltas: Deltas, gone: frozenset[str]) -> Sequence[Victim]:
        """Return one pod for each distinct choice in a state, most promising first, without the UIDs `gone`."""

    def has_capacity(self, pod: Pod, node: str) -> bool:
        """Return whether a node has capacity for a pod beside the capacity that is reserved for others."""

    def distinct_nodes(self, deltas: Deltas, nodes: Iterable[str]) -> Iterable[str]:
        """Return one node for each class of nodes that no bound tells apart in a state."""


class ViewState(NamedTuple):
    """A state of the search: the view, the pending pods, and the evicted pods that may still be terminating."""

    view: View
    deltas: tuple[tuple[Hashable, int], ...]
    waiting: tuple[Pod, ...]
    gone: tuple[Pod, ...]


class PredictedStep(Struct, frozen=True, gc=False):
    """A victim, and the nodes on which the replacements may be placed.

    `concurrent` is how many evictions may be under way at once, including evictions that may have to follow.
    """

    victim: Victim
    concurrent: int
    nodes: frozenset[str]


class _NotFollowed(Exception):  # noqa: N818  # a signal: the outcomes of this victim are not known
    """A pod may be placed on too many nodes, or where capacity is reserved for others."""


def lookahead_step(
    view: View,
    model: LookaheadModel,
    goal: StepGoal,
    budget: SearchBudget,
    limits: SearchLimits,
    *,
    choose: Choose,
    quick: bool = False,
) -> tuple[PredictedStep | None, Attempt]:
    """Return a victim whose every outcome reaches the goal (None if not found), and the attempt.

    `choose` is the scheduler's rule: with `any_feasible` the step is forced, with `top_scoring` it is predicted. If a
    replacement is stuck, further evictions may have to follow; these are searched, too, unless `quick`.
    """
    search = _Lookahead(view, model, goal, budget, limits, choose=choose, quick=quick)
    step = search.step()
    return step, search.tally.attempt(Method.PARTIAL if goal is StepGoal.PARTIAL else Method.LOOKAHEAD)


class ViewMoves:
    """What can happen on a view without a new eviction: the next pod of the queue is placed, on each possible node.

    `choose` is the scheduler's rule. `visited` are the nodes on which pods may be placed, collected since the set was
    last cleared.
    """

    def __init__(self, model: LookaheadModel, choose: Choose, budget: SearchBudget, limits: SearchLimits) -> None:
        self._model = model
        self._choose = choose
        self._budget = budget
        self._limits = limits
        self.visited: set[str] = set()

    def key(self, state: ViewState) -> Hashable:
        """Return the pods by cell and the pending pods: states that agree in both are equal."""
        return state.deltas, tuple([pod.uid for pod in state.waiting])

    def successors(self, state: ViewState) -> Sequence[ViewState]:
        """Return the states after the next placement; none where no waiting pod finds a node."""
        placed = next_placement(queue(state.waiting), lambda pod: self._nodes(pod, state))
        if placed is None:
            return ()
        _, pod, nodes = placed
        rest = tuple([other for other in state.waiting if other is not pod])
        return [
            ViewState(
                state.view.with_placed(pod, node),
                change_cell(state.deltas, self._model.cell(pod, node), 1),
                rest,
                state.gone,
            )
            for node in nodes
        ]

    def _nodes(self, pod: Pod, state: ViewState) -> Sequence[str]:
        """Return the nodes on which a pod may be placed, whether the victims are gone or still terminating."""
        nodes = self._candidates(pod, state.view)
        terminating = [gone for gone in state.gone if gone.owner is not None and gone.owner.kind != "StatefulSet"]
        if terminating:
            present = state.view
            for ghost in terminating:
                present = present.with_placed(ghost, ghost.node or "")
            nodes |= self._candidates(pod, present.terminating(terminating))
        self.visited |= nodes
        self._budget.spend(self._cost(len(nodes), state.view))
        # Other pods may have taken reserved capacity by then, so the pod's place is not known.
        if not all(self._model.has_capacity(pod, node) for node in nodes):
            raise _NotFollowed
        ordered = sorted(nodes)
        # After the last pod only the bounds count; before that, nodes with equal bounds may score differently for the
        # next pod.
        last = len(state.waiting) == 1 and _is_large(state.view)
        if self._choose is any_feasible or last:
            ordered = list(self._model.distinct_nodes(dict(state.deltas), ordered))
        if len(ordered) > self._model.most_choices:
            raise _NotFollowed
        return ordered

    def _candidates(self, pod: Pod, view: View) -> frozenset[str]:
        feasible, chosen = candidate_nodes(pod, view, self._choose)
        limits = self._limits
        sets = len(view.nodes.by_name) // limits.nodes_per_set_operation
        self._budget.spend(limits.lookahead_pod + sets + self._cost(len(feasible), view))
        return frozenset(chosen)

    def _cost(self, nodes: int, view: View) -> int:
        if not _is_large(view):
            return nodes
        limits = self._limits
        return nodes // (limits.nodes_per_group if self._choose is top_scoring else limits.nodes_per_listing)


def _is_large(view: View) -> bool:
    """Return whether the scheduler may score only some of the nodes, which gives it many choices."""
    return len(view.nodes.by_name) >= ALWAYS_EXAMINED


class _Lookahead:
    """One search over one model, with one rule for the scheduler's choice."""

    def __init__(
        self,
        view: View,
        model: LookaheadModel,
        goal: StepGoal,
        budget: SearchBudget,
        limits: SearchLimits,
        *,
        choose: Choose,
        quick: bool,
    ) -> None:
        self._view = view
        self._model = model
        self._goal = goal
        self._budget = budget
        self._limits = limits
        self._quick = quick
        self._forced = choose is any_feasible
        self._moves = ViewMoves(model, choose, budget, limits)
        self._start = ViewState(view, (), (*model.pods.waiting, *_uncreated(model.pods)), ())
        self._reached_alone = model.sum_of_minima({}), len(self._start.waiting)
        self._excess = model.excess({})
        self._values: dict[Hashable, int] = {}
        self.tally = Tally()

    def step(self) -> PredictedStep | None:
        try:
            self._budget.spend(self._limits.lookahead_start)
            if self._goal is StepGoal.PARTIAL:
                self._reached_alone = self._reach_alone()
            good = first_good(self._first_evictions(), lambda after: self._settle(after, 1), self.tally)
        except (SearchLimitReached, _NotFollowed):
            self._budget.note_limit()
            self.tally.limit_reached()
            return None
        return None if good is None else PredictedStep(good[0], good[2], frozenset(self._moves.visited))

    def _reach_alone(self) -> tuple[int, int]:
        """Return the best that the scheduler reaches without an eviction, as the sum of minima and the pending pods."""
        rests = rest_states(self._start, self._moves)
        return min((self._model.sum_of_minima(dict(rest.deltas)), len(rest.waiting)) for rest in rests)

    def _first_evictions(self) -> Iterator[tuple[Victim, ViewState]]:
        for victim, after in self._evictions(self._start):
            self._moves.visited.clear()
            yield victim, after

    def _evictions(self, state: ViewState) -> Iterator[tuple[Victim, ViewState]]:
        """Yield each candidate whose replacement is predictable, and the state after its eviction."""
        gone = frozenset([pod.uid for pod in state.gone])
        for victim in self._model.candidates(dict(state.deltas), gone):
            pod = victim.pod
            made = replacement(pod, self._view)
            # If its requests are not known, neither are its scores, and it may be placed on any node that admits it.
            if isinstance(made, Unpredictable) or (made.least is not None and not self._forced):
                self.tally.rejected(Flaw.UNKNOWN)
                continue
            yield (
                victim,
                ViewState(
                    state.view.without([pod]),
                    change_cell(state.deltas, self._model.cell(pod, pod.node or ""), -1),
                    # The new pod is the youngest, so it is behind the pods that are pending already.
                    (*state.waiting, made),
                    (*state.gone, pod),
                ),
            )

    def _settle(self, state: ViewState, evictions: int) -> int:
        """Return the most concurrent evictions until all rest states are good, or a flaw."""
        try:
            return worst_rest(rest_states(state, self._moves), lambda end: self._value(end, evictions))
        except _NotFollowed:
            self._budget.note_limit()
            return Flaw.UNKNOWN

    def _value(self, end: ViewState, evictions: int) -> int:
        key = self._moves.key(end), evictions
        known = self._values.get(key)
        if known is None:
            self._values[key] = Flaw.PENDING
            flaw = self._flaw(end, evictions)
            known = self._values[key] = 1 if flaw is None and not end.waiting else self._free(end, evictions, flaw)
        return known

    def _free(self, end: ViewState, evictions: int, flaw: Flaw | None) -> int:
        """Search for an eviction that frees a stuck pod; return the number of concurrent evictions then, or a flaw."""
        if flaw is not None:
            return flaw
        if not self._model.may_wait:
            return Flaw.PENDING
        limits = self._limits
        if any(pod.claims for pod in end.waiting):
            return Flaw.PENDING  # nothing is planned while a pod with volumes of its own has no node
        if self._quick or len(end.waiting) >= limits.concurrent or evictions >= limits.lookahead_chain:
            return Flaw.PENDING
        good = first_good(self._evictions(end), lambda after: self._settle(after, evictions + 1), Tally())
        return Flaw.PENDING if good is None else max(good[2], len(end.waiting) + 1)

    # Many branches: goals of the whole repair or of a part, each with and without pending pods.
    def _flaw(self, end: ViewState, evictions: int) -> Flaw | None:
        """Return why a rest state misses the goal; None also if its pending pods may still change that."""
        model, deltas, pending = self._model, dict(end.deltas), len(end.waiting)
        fewest = model.min_evictions
        partial = self._goal is StepGoal.PARTIAL
        if fewest is None and not partial:
            return Flaw.NOT_NEARER
        if partial and fewest and not self._is_within(end, deltas, fewest - evictions):
            return Flaw.NOT_NEARER
        if not pending and not is_no_worse(model.excess(deltas), self._excess):
            return Flaw.WORSE
        if partial or fewest is None:
            nearer = bool(pending) or (model.sum_of_minima(deltas), 0) < self._reached_alone
            return None if nearer else Flaw.NOT_NEARER
        goal = fewest - evictions + (self._goal is StepGoal.ONE_EXTRA)
        if not self._is_within(end, deltas, goal):
            return Flaw.NOT_NEARER
        return None if pending or goal < fewest or self._start.waiting else Flaw.NOT_NEARER

    def _is_within(self, end: ViewState, deltas: Deltas, goal: int) -> bool:
        return self._model.is_within(deltas, end.waiting, goal, quick=self._quick)


def _uncreated(pods: PodPartition) -> Iterator[Pod]:
    """Yield the pods that owners have still to create."""
    for sample, times in pods.uncreated:
        for number in range(times):
            yield structs.replace(sample, uid=f"{sample.uid}{number}", node=None)


def change_cell(deltas: tuple[tuple[Hashable, int], ...], cell: Hashable, by: int) -> tuple[tuple[Hashable, int], ...]:
    """Return the deltas after adding `by` pods to one cell."""
    counted = Counter(dict(deltas))
    counted[cell] += by
    return tuple(sorted([(other, number) for other, number in counted.items() if number], key=repr))
