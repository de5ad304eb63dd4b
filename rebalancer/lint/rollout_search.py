"""Whether a rolling update can end in a cluster, and whether it can wedge: a search over the states between its steps.

Problem: new pods are placed while old pods still run, on any node that admits them, and the controller deletes old pods
meanwhile.

Idea: a state is how many old and new pods are on each node. A step places a new pod on any node that admits it, or
deletes an old pod, as surge and unavailable allow. Where neither is possible the rollout wedges. Nodes without a
difference are interchangeable, and so are the pods of one revision; only their numbers count. Every path ends in a
wedge only if no state with all new pods is reached, whichever old pods are deleted, so all of them are tried. Some path
wedges if the controller's own order of deletion leads to a wedge. A StatefulSet has no surge, one unavailable pod, and
a fixed order: from the highest ordinal down.

Example: one node for two pods, two old pods, surge 1, unavailable 0. No node takes the first new pod, and no old pod
may go. With unavailable 1 an old pod goes, a new pod takes its place, and the rollout ends.

Cost: one application of the filters for each state, at most `MOST_STATES` in a search.

Source: `pkg/controller/deployment/rolling.go`, `pkg/controller/statefulset/stateful_set_control.go`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from rebalancer.lint.alike import number_alike
from rebalancer.lint.rollout_quotas import Refuse
from rebalancer.model.deletion_costs import deletion_cost
from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View

MOST_STATES: Final = 200
"""The most states of a search, not counting those of one straight path, which has a state for each step."""

MOST_PODS: Final = 60
"""Only rollouts with up to this many pods are searched; with more, each state takes too long."""

_Key = tuple[tuple[int, tuple[int, ...]], ...]
"""The numbers of a rollout's pods by node; equal numbers mean interchangeable nodes or interchangeable pods."""

_NEW: Final = -1


class State(NamedTuple):
    """Which old pods are left, which new pods are on which node, and the resulting cluster."""

    left: tuple[Pod, ...]
    placed: tuple[tuple[Pod, str], ...]
    view: View


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A rolling update: `old` pods, all Ready, and as many `new` pods in the order in which they are created.

    `view` is the cluster before it. At most `surge` pods may be surplus and `unavailable` pods missing. With `in_order`
    the first of the old pods goes first, otherwise any old pod. `refuse` returns why the API server admits no further
    new pod, "" if it admits one.
    """

    view: View
    old: tuple[Pod, ...]
    new: tuple[Pod, ...]
    surge: int
    unavailable: int
    refuse: Refuse
    in_order: bool = False

    @property
    def start(self) -> State:
        """The state before the first step."""
        return State(self.old, (), self.view)

    def has_ended(self, state: State) -> bool:
        """Return whether all pods are new."""
        return not state.left and len(state.placed) == len(self.new)

    def may_take(self, state: State) -> bool:
        """Return whether an old pod may go."""
        return bool(state.left) and len(state.left) + len(state.placed) > len(self.new) - self.unavailable

    def may_create(self, state: State) -> bool:
        """Return whether a further new pod may be created beside those that have a node."""
        number = len(state.placed)
        wanted = min(len(self.new), len(self.new) + self.surge - len(state.left))
        return number < wanted and not self.refuse(state.left, number)

    @cached_property
    def _alike(self) -> Mapping[str, int]:
        """A number for each node; nodes with equal numbers are interchangeable for the pods of this rollout."""
        return number_alike(self.view, self.old, self.new[0], len(self.new))

    @cached_property
    def _classes(self) -> Mapping[str, int]:
        """A number for each old pod; pods with equal numbers have the same revision and equal requests."""
        numbers: dict[object, int] = {}
        found = {}
        for pod in self.old:
            owner = pod.owner.uid if pod.owner is not None else ""
            key = pod.uid if self.in_order else (owner, pod.labels, pod.requests, deletion_cost(pod))
            found[pod.uid] = numbers.setdefault(key, len(numbers))
        return found

    def key_of(self, state: State) -> _Key:
        """Return a key that is equal for equal states."""
        return tuple(sorted((self._alike[node], tuple(sorted(pods))) for node, pods in self._count(state).items()))

    def choose_unlike_pods(self, pods: Iterable[Pod]) -> Iterable[Pod]:
        """Return one old pod for each set of the given pods that are interchangeable and on the same node."""
        return {(pod.node, self._classes[pod.uid]): pod for pod in pods}.values()

    def choose_unlike_nodes(self, nodes: Iterable[str], state: State) -> Iterable[str]:
        """Return one node for each set of the given nodes that are interchangeable and have equal pods."""
        there = self._count(state)
        return {(self._alike[node], tuple(sorted(there.get(node, ())))): node for node in sorted(nodes)}.values()

    def _count(self, state: State) -> Mapping[str, Sequence[int]]:
        there = defaultdict[str, list[int]](list)
        for pod in state.left:
            there[str(pod.node)].append(self._classes[pod.uid])
        for _, node in state.placed:
            there[node].append(_NEW)
        return there


class Search(NamedTuple):
    """The result of a search: the state that was searched for, the wedged states, and whether it was complete."""

    found: State | None
    wedged: Sequence[State]
    complete: bool


def find_end(rollout: Rollout) -> Search:
    """Search for a path on which a rollout ends, whichever old pods are deleted."""
    return _search(rollout, rollout.has_ended, any_order=True)


def find_wedge(rollout: Rollout) -> Search:
    """Search for a path on which a rollout wedges, if old pods are deleted in the controller's order."""
    return _search(rollout, lambda state: is_wedged(state, rollout), any_order=False)


def is_wedged(state: State, rollout: Rollout) -> bool:
    """Return whether no further step is possible and the rollout has not ended."""
    return not rollout.has_ended(state) and next(_find_steps(state, rollout, any_order=True), None) is None


def _search(rollout: Rollout, is_sought: Callable[[State], bool], *, any_order: bool) -> Search:
    seen, stack, wedged = set[_Key](), [rollout.start], list[State]()
    most = MOST_STATES + len(rollout.old) + len(rollout.new)
    while stack:
        state = stack.pop()
        key = rollout.key_of(state)
        if key in seen:
            continue
        if len(seen) == most:
            return Search(None, wedged, complete=False)
        seen.add(key)
        if is_sought(state):
            return Search(state, wedged, complete=False)
        steps = list(_find_steps(state, rollout, any_order=any_order))
        if not steps and not rollout.has_ended(state):
            wedged.append(state)
        # An end is found sooner where pods are spread, a wedge where they are crowded.
        stack += sorted(steps, key=_count_together, reverse=any_order)
    return Search(None, wedged, complete=True)


def _count_together(state: State) -> int:
    """Return how crowded the nodes are with pods of a rollout; deleting a pod lowers the number."""
    crowds = Counter([*(pod.node for pod in state.left), *(node for _, node in state.placed)])
    return sum(many * many for many in crowds.values())


def _find_steps(state: State, rollout: Rollout, *, any_order: bool) -> Iterator[State]:
    """Yield the states that are one step away."""
    if rollout.may_create(state):
        pod = rollout.new[len(state.placed)]
        for node in rollout.choose_unlike_nodes(feasible(pod, state.view), state):
            yield State(state.left, (*state.placed, (pod, node)), state.view.with_placed(pod, node))
    if rollout.may_take(state):
        for gone in rollout.choose_unlike_pods(_find_next(state, rollout, any_order=any_order)):
            left = tuple(pod for pod in state.left if pod is not gone)
            yield State(left, state.placed, state.view.without((gone,)))


def _find_next(state: State, rollout: Rollout, *, any_order: bool) -> Sequence[Pod]:
    """Return the old pods that the controller may delete next, which are those that it ranks first.

    All old pods are Ready. Source: `pkg/controller/controller_utils.go` (ActivePodsWithRanks): the lowest deletion
    cost, then the most crowded node. The later criteria are not compared: how long pods have been Ready, and their
    UIDs.
    """
    if rollout.in_order:
        return state.left[:1]
    if any_order:
        return state.left
    crowds = Counter([*(pod.node for pod in state.left), *(node for _, node in state.placed)])
    ranks = {pod.uid: (deletion_cost(pod), -crowds[pod.node]) for pod in state.left}
    first = min(ranks.values())
    return [pod for pod in state.left if ranks[pod.uid] == first]
