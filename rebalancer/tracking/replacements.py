"""Which new pod replaces an evicted pod, and whether any will.

The clocks of the controller and the API server never agree exactly, so a replacement is never recognised by comparing
its creation with the time of the request. It is the oldest pod of its owner that was not in the previous snapshot: the
next pod replaces one that was lost since. If the watch of pods was silent at the request, the replacement of a pod lost
earlier may be mistaken for this pod's. Then the prediction may wrongly count as failed.

The first snapshot after a change of leader has no predecessor. There the owner's counts say how many replacements
already exist: the youngest pods, since creation times come from one clock.

An owner that was scaled down, rolled out or deleted since may want no pod in place of the evicted one. It has overtaken
the move: no replacement is expected any more, and no prediction has failed.
"""

from collections import Counter
from collections.abc import Iterable

from rebalancer.model.moves import Move, MoveState
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.stateful_sets import find_awaited
from rebalancer.model.workloads import pod_ordinal

_STAYED = frozenset({MoveState.PLANNED, MoveState.REFUSED})
"""States in which the evicted pod may still be one of its owner's pods."""

_AT_ONCE = frozenset({"Deployment", "ReplicaSet", "ReplicationController"})
"""Workloads whose controllers replace a pod as soon as it has a deletionTimestamp."""


def waits_for_end(move: Move) -> bool:
    """Return whether an owner may create the replacement only once the evicted pod is gone, as a StatefulSet does.

    A foreign controller may do the same and is then not late.
    """
    return move.workload.kind not in _AT_ONCE


class Replacements:
    """The pods of a snapshot that can replace the victims of `moves`; `before` is the snapshot of the last cycle.

    Each pod is the replacement of one move.
    """

    def __init__(self, moves: Iterable[Move], before: Snapshot | None, snapshot: Snapshot) -> None:
        self._before = before
        self._snapshot = snapshot
        self._claimed = {move.replacement for move in moves}
        self._victims = {move.uid for move in moves if move.state not in _STAYED}
        self._waiting = Counter(move.owner_uid for move in moves if move.state is MoveState.EVICTED)

    def await_one(self, move: Move) -> None:
        """Note that a victim is gone: its owner has one more replacement to create."""
        self._victims.add(move.uid)
        self._waiting[move.owner_uid] += 1

    def present(self, uid: str) -> Pod | None:
        """Return a replacement that was found before; None if it is gone or terminating."""
        pod = self._snapshot.pod.get(uid)
        return None if pod is None or pod.terminating or pod.finished else pod

    def claim(self, move: Move) -> Pod | None:
        """Return the replacement of a move and keep it from all others, None if there is none yet.

        A watch that still shows the victim unchanged lags, so a new pod in it was created before the eviction.
        """
        if self._shows_victim(move):
            return None
        pods = [pod for pod in self._remaining_pods(move) if pod.uid not in self._claimed]
        if move.workload.kind == "StatefulSet":  # the replacement has the victim's name, which no other pod has
            new = [pod for pod in pods if pod.name == move.pod]
        elif self._before is not None:
            new = [pod for pod in pods if pod.uid not in self._before.pod]
        elif self._was_scaled(move):
            new = []
        else:
            existing = self._waiting[move.owner_uid] - max(0, self._missing(move))
            new = sorted(pods, key=lambda pod: (pod.created, pod.uid), reverse=True)[: max(0, existing)]
        if not new:
            return None
        replacement = min(new, key=lambda pod: (pod.created, pod.name))
        self._claimed.add(replacement.uid)
        self._waiting[move.owner_uid] -= 1
        return replacement

    def is_overtaken(self, move: Move) -> bool:
        """Return whether the owner will create no replacement: it has all the pods that it wants, or is deleted.

        As long as the watch shows the victim unchanged, it lags, and the move must still overlay the victim.
        """
        if self._shows_victim(move):
            return False
        owner = self._snapshot.workload.get(move.owner_uid)
        return owner is None or owner.deleted is not None or self._missing(move) <= 0

    def can_be_created(self, move: Move) -> bool:
        """Return whether, as far as the watch shows, the victim no longer prevents its replacement."""
        if waits_for_end(move):
            return all(pod.name != move.pod for pod in self._snapshot.pods_of.get(move.owner_uid, ()))
        return not self._shows_victim(move)

    def awaits_another(self, move: Move) -> bool:
        """Return whether a replacement that is to come waits for a pod of a lower ordinal, as a StatefulSet's may."""
        owner = self._snapshot.workload[move.owner_uid]
        awaited = find_awaited(owner, self._snapshot.pods_of.get(owner.uid, ()))
        return awaited is not None and awaited[0] < pod_ordinal(move.pod)

    def _shows_victim(self, move: Move) -> bool:
        victim = self._snapshot.pod.get(move.uid)
        return victim is not None and not victim.terminating

    def _was_scaled(self, move: Move) -> bool:
        owner = self._snapshot.workload.get(move.owner_uid)
        return owner is None or owner.replicas != move.replicas

    def _missing(self, move: Move) -> int:
        """Return how many pods the owner has still to create; negative if it has too many."""
        owner = self._snapshot.workload.get(move.owner_uid)
        return (owner.replicas if owner is not None else 0) - len(self._remaining_pods(move))

    def _remaining_pods(self, move: Move) -> list[Pod]:
        """Return the owner's pods that are not terminating, without victims that a watch still shows."""
        return [
            pod
            for pod in self._snapshot.pods_of.get(move.owner_uid, ())
            if pod.uid not in self._victims and not pod.terminating and not pod.finished
        ]
