"""The gate between a plan that counts on the capacity of placeholders, and evictions into it.

The plan is made as if no placeholder existed. An eviction goes only if its replacement finds a node beside all
remaining placeholders, because then its capacity is really free. Otherwise the placeholders of the step are deleted
first, and the step waits for a later cycle. Nothing is stored between these cycles, because the pods on the nodes show
the state.

Example: four placeholders in zone c, a step of one eviction. The first cycle deletes one placeholder; the second finds
the capacity free, and evicts. A foreign pod that waits for a node and fits there keeps both from happening.

Bound: at most `_MOST_STATES` choices of the scheduler are followed for a step; a step with more goes pod by pod.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from rebalancer.creation.replacement import replacement
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import CapacityRequest, CapacityState
from rebalancer.model.placeholders import placeholder_name
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.words import plural
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_MOST_STATES: Final = 500


class CapacityBeingFreed(Refusal):
    """Placeholders are being deleted to make capacity for the replacement."""

    reason = Reason.AWAITING_CAPACITY
    ends = "when the placeholders are gone"
    placeholders: int

    def __str__(self) -> str:
        return f"{plural(self.placeholders, 'placeholder')} being deleted to make capacity for it"


class CapacityDisputed(Refusal):
    """A foreign pod waits for a node, and could take the capacity."""

    reason = Reason.AWAITING_CAPACITY
    ends = "when pod {self.pod} has a node"
    pod: str

    def __str__(self) -> str:
        return f"pod {self.pod} waits for a node and could take the capacity"


class CapacityHeld(Refusal):
    """The capacity that the replacement needs is held by placeholders for another repair, or no longer there."""

    reason = Reason.AWAITING_CAPACITY
    ends = "when the other repair has ended"

    def __str__(self) -> str:
        return "the capacity that it needs is held by placeholders for another repair, or is not free"


class CapacityIncomplete(Refusal):
    """Capacity was requested for the whole repair, and not all of it is there yet."""

    reason = Reason.AWAITING_CAPACITY
    ends = "when all placeholders run"

    def __str__(self) -> str:
        return "waiting until all capacity requested for its repair is there"


class Gate(Struct, frozen=True, kw_only=True):
    """The fates of evictions, and the names of the placeholders to delete first."""

    fates: Fates
    freed: tuple[str, ...] = ()


def pass_gate(fates: Fates, view: View, held: Sequence[Pod], requests: Iterable[CapacityRequest]) -> Gate:
    """Admit evictions whose capacity is free. `view` has the placeholders, `held` are the placeholders' pods."""
    requests = tuple(requests)
    if not held and not requests:
        return Gate(fates=fates)
    kept: dict[str, Refusal] = {}
    freed: list[str] = []
    for step in _split(fates.going):
        own = next((request for request in requests if step[0].workload in request.workloads), None)
        decided, refusal, free = _Step(view, held, own).decide(step)
        freed += free
        if refusal is not None:
            kept.update((eviction.pod.uid, refusal) for eviction in step[decided:])
        for eviction in step[:decided]:  # the next step must not count on the same capacity
            view = _occupy(view, eviction)
    return Gate(fates=fates.hold(lambda eviction: kept.get(eviction.pod.uid)), freed=tuple(freed))


def _split(evictions: Sequence[Eviction]) -> Iterator[Sequence[Eviction]]:
    """Yield the evictions of each group, in order."""
    by_group: dict[str, list[Eviction]] = {}
    for eviction in evictions:
        by_group.setdefault(eviction.group, []).append(eviction)
    yield from by_group.values()


def _occupy(view: View, eviction: Eviction) -> View:
    """Return the state with the replacement on its first possible node."""
    made = _placed_after(view, eviction)
    nodes = sorted(made[1]) if made is not None else ()
    return made[0].with_placed(made[2], nodes[0]) if made is not None and nodes else view


def _placed_after(view: View, eviction: Eviction) -> tuple[View, frozenset[str], Pod] | None:
    """Return the state after an eviction, the feasible nodes of the replacement, and the replacement."""
    new = replacement(eviction.pod, view)
    if isinstance(new, Unpredictable):
        return None
    # A ReplicaSet replaces it while it is terminating, a StatefulSet afterwards: the first has less capacity.
    after = view.without([eviction.pod]) if new.name == eviction.pod.name else view.terminating([eviction.pod])
    return after, feasible(new, after), new


class _Step:
    """The decision about the evictions of one group."""

    def __init__(self, view: View, held: Sequence[Pod], own: CapacityRequest | None) -> None:
        self._view = view
        self._held = held
        self._own = own
        self._states = 0

    # Many branches: what is free now, what becomes free by itself, what can be freed.
    def decide(self, step: Sequence[Eviction]) -> tuple[int, Refusal | None, list[str]]:
        """Return how many evictions may go, why the others wait, and the names of placeholders to delete first."""
        if self._own is not None and self._own.state is not CapacityState.READY:
            # The capacity that is free now is the one for which placeholders without a node were created.
            return 0, CapacityIncomplete(), []
        for number in dict.fromkeys((len(step), step[0].needed)):
            part = step[:number]
            if self._is_free(part, self._view):
                disputed = self._find_rival(part, self._view)
                if disputed is not None:
                    return 0, CapacityDisputed(str(disputed)), []
                return number, CapacityHeld() if number < len(step) else None, []
        leaving = self._leaving()
        if leaving:
            return 0, CapacityBeingFreed(len(leaving)), []
        for number in dict.fromkeys((len(step), step[0].needed)):
            opened = self._open(step[:number])
            if opened:
                view = self._view.without(opened)
                disputed = self._find_rival(step[:number], view)
                if disputed is not None:
                    return 0, CapacityDisputed(str(disputed)), []
                return 0, CapacityBeingFreed(len(opened)), [placeholder_name(pod) for pod in opened]
        return 0, CapacityHeld(), []

    def _leaving(self) -> list[Pod]:
        """Return the placeholders of the request that are being deleted."""
        if self._own is None:
            return []
        wanted = set(self._own.placeholders)
        return [
            pod
            for pod in self._held
            if pod.node in self._own.nodes and (pod.terminating or placeholder_name(pod) not in wanted)
        ]

    def _is_free(self, step: Sequence[Eviction], view: View) -> bool:
        """Return whether every replacement finds a node, for any choice of the scheduler for earlier ones."""
        self._states = 0
        return self._all_placed(step, view)

    def _all_placed(self, step: Sequence[Eviction], view: View) -> bool:
        if not step:
            return True
        self._states += 1
        made = _placed_after(view, step[0])
        if self._states > _MOST_STATES or made is None or not made[1] or not _is_predicted(step[0], made[1], view):
            return False
        after, nodes, new = made
        if len(step) == 1:
            return True
        return all(self._all_placed(step[1:], after.with_placed(new, node)) for node in sorted(nodes))

    def _open(self, step: Sequence[Eviction]) -> list[Pod]:
        """Return the fewest placeholders of the request, in order, without which the step finds its capacity."""
        if self._own is None:
            return []
        wanted = set(self._own.placeholders)
        left = sorted(
            (pod for pod in self._held if placeholder_name(pod) in wanted and not pod.terminating and pod.node),
            key=lambda pod: (pod.node or "", pod.name),
        )
        opened: list[Pod] = []
        for number in range(1, len(step) + 1):
            if self._is_free(step[:number], self._view.without(opened)):
                continue
            chosen = next(
                (pod for pod in left if self._is_free(step[:number], self._view.without([*opened, pod]))), None
            )
            if chosen is None:
                return []
            opened.append(chosen)
            left.remove(chosen)
        return opened

    def _find_rival(self, step: Sequence[Eviction], view: View) -> Pod | None:
        """Return a pod that is not ours, waits for a node, and could take a node that the step needs."""
        if self._own is None:
            return None
        made = _placed_after(view, step[0])
        owners = {eviction.owner_uid for eviction in step}
        held = {pod.uid for pod in self._held}
        for pod in self._view.snapshot.queued:
            foreign = pod.uid not in held and (pod.owner is None or pod.owner.uid not in owners)
            if foreign and made is not None and not feasible(pod, view).isdisjoint(made[1]):
                return pod
        return None


def _is_predicted(eviction: Eviction, nodes: Collection[str], view: View) -> bool:
    """Return whether all nodes are where the replacement was predicted: scores were computed without placeholders."""
    if eviction.forced:
        return True
    targets: Mapping[str, Collection[str]] = {target.topology_key: target.values for target in eviction.targets}
    return all(view.nodes.values(key).get(node) in values for key, values in targets.items() for node in nodes)
