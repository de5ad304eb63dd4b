"""Slow start: few moves are under way at first, and more with every replacement that arrives.

Some failures between an eviction and a running replacement are invisible beforehand: a webhook refuses pods, the
controller manager is frozen, a registry does not answer. With slow start these cost a few pods, not one of every
workload. `tracking.arrivals` says when a replacement has arrived, `tracking.windows` how the windows grow. A move
without progress for two minutes takes a place of its namespace alone: one tenant's pods do not hold up all others.

A step that needs several concurrent evictions may exceed a window, once nothing else is under way there. To give it a
turn, nothing overtakes it after `PATIENCE`. In some repairs a replacement waits without a node until the next step has
made its place. If no node admits that replacement, it does not hold back the next step.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rebalancer.model.facts import End, Refusal
from rebalancer.model.moves import Memory, Move, MoveState, OwnFailure, Reference, StartWindow, make_token
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import plural
from rebalancer.planning.eviction import Eviction
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View
from rebalancer.tracking.arrivals import is_under_way, keeps_cluster_place
from rebalancer.tracking.windows import first_size

PATIENCE: Final = timedelta(minutes=2)


_OWN: Final[Mapping[OwnFailure, str]] = {
    OwnFailure.OBJECT: "its quota, LimitRange, Pod Security level or service account refuses the pod",
    OwnFailure.IMAGE: "no other namespace runs the image, and the registry serves others",
    OwnFailure.TEMPLATE: "no pod of this template has run",
}


def _describe_own(own: OwnFailure | None, namespace: str) -> str:
    """Return the sentence that says whose failure it is, "" if it is the cluster's or not known."""
    if own is None:
        return ""
    return f". Evictions in other namespaces go on, because the cause is in namespace {namespace}: {_OWN[own]}"


class ReplacementNotCreated(Refusal):
    """A workload of the namespace has no pod in place of an evicted one; `failure` says why, "" if nobody does.

    `own` is the cause within the namespace, None if the failure is the cluster's.
    """

    reason = Reason.CANNOT_CREATE
    ends = "when {self.workload} has a pod in place of {self.pod}"
    workload: Reference
    pod: str
    failure: str
    own: OwnFailure | None = None

    def __str__(self) -> str:
        namespace = self.workload.namespace
        missing = f"{self.workload} has no pod in place of {self.pod}, which was evicted"
        held = f"nothing is evicted in namespace {namespace} until it has one{_describe_own(self.own, namespace)}"
        if not self.failure:
            return (
                f"{missing}; {held}. See kubectl get events -n {namespace} for the reason, or scale the workload down"
            )
        return f"{missing}: {self.failure}; {held}. Allow the pod to be created, or scale the workload down"


def not_created(move: Move) -> Refusal:
    """Return why nothing is evicted in the namespace of a move whose replacement is overdue."""
    return ReplacementNotCreated(move.workload, move.pod, move.uncreated or "", move.own_failure)


class ReplacementNotRunning(Refusal):
    """The replacement of an evicted pod was created and does not run; `why` is its kubelet's message.

    The pod's workload waits.
    """

    reason = Reason.SLOW_START
    ends = "when the replacement of pod {self.pod} runs"
    workload: Reference
    pod: str
    why: str
    """What the kubelet of the replacement says."""
    holds_namespace: bool
    """Whether the whole namespace waits: several of its workloads have this failure."""
    own: OwnFailure | None = None
    """The cause within the namespace, None if the failure is the cluster's."""

    def __str__(self) -> str:
        namespace = "the namespace (several of its workloads fail like this)"
        return (
            f"the replacement of pod {self.pod} of {self.workload} does not run: {self.why}. Until it runs, no more "
            f"pods of {namespace if self.holds_namespace else 'this workload'} are evicted"
            f"{_describe_own(self.own, self.workload.namespace)}"
        )


class PodEnding(Refusal):
    """An evicted pod of the same workload takes long to end."""

    reason = Reason.SLOW_START
    ends = "when pod {self.pod} is gone"
    pod: str

    def __str__(self) -> str:
        return f"waiting for pod {self.pod} of the same workload, which is still terminating"


def overdue_replacement(move: Move, *, holds_namespace: bool) -> Refusal:
    """Return why evictions wait for a move whose replacement is overdue, or whose victim takes long to end."""
    if move.uncreated is not None:
        return not_created(move)
    if move.unstarted is None:
        return PodEnding(move.pod)
    return ReplacementNotRunning(move.workload, move.pod, move.unstarted, holds_namespace, move.own_failure)


class WindowFull(Refusal):
    """Slow start allows no more replacements under way at once, in a namespace or in the cluster ("").

    `under_way` moves count already; `going` evictions go first.
    """

    reason = Reason.SLOW_START
    namespace: str
    allowed: int
    under_way: int
    going: int = 0

    def _end(self) -> End:
        which = "the replacement" if self.under_way + self.going == 1 else "one of the replacements"
        return End(event=f"when {which} {'before it' if self.going else 'under way'} has arrived", of_move=True)

    def __str__(self) -> str:
        where = f"namespace {self.namespace}" if self.namespace else "the cluster"
        requested = f"{self.under_way} {'is' if self.under_way == 1 else 'are'} under way"
        first = f"{plural(self.going, 'eviction')} {'goes' if self.going == 1 else 'go'} first"
        places = " and ".join(part for part, number in ((requested, self.under_way), (first, self.going)) if number)
        which = "other" if self.going else "the last"
        return (
            f"waiting for the replacements of {which} evictions to arrive: {places}. At first few evictions may go at "
            f"once (slow start), now {self.allowed} in {where}"
        )


class StepQueued(Refusal):
    """A step of another workload has waited for long to evict `needed` pods at once, and goes first."""

    reason = Reason.SLOW_START
    ends = "when the evictions of {self.workload} have been requested"
    workload: Reference
    needed: int

    def __str__(self) -> str:
        return (
            f"{self.workload} goes first, because it has waited long for {plural(self.needed, 'concurrent eviction')}"
        )


class WindowUse(NamedTuple):
    """How many moves may be under way at once, and how many are."""

    at_once: int
    under_way: int


class WindowUses(NamedTuple):
    """The use of slow start's windows: the cluster's, and those of namespaces in which evictions wait for it."""

    cluster: WindowUse
    namespaces: Mapping[str, WindowUse]


def describe_windows(memory: Memory, snapshot: Snapshot, now: datetime) -> WindowUses:
    """Return how the windows of slow start are used."""
    windows = Windows(memory, snapshot, now, known=memory.windows, enabled=True)
    limited = sorted(window.namespace for window in memory.windows if window.limited and window.namespace)
    return WindowUses(windows.use(""), {namespace: windows.use(namespace) for namespace in limited})


def find_unplaceable(memory: Memory, snapshot: Snapshot, view: View | None) -> frozenset[str]:
    """Return the UIDs of moves whose replacement waits for a node while no node admits it.

    `view` is the snapshot's view, None: it is made when needed.
    """
    waiting = [
        (move.uid, pod)
        for move in memory.moves
        if move.state is MoveState.PENDING
        and (pod := snapshot.pod.get(move.replacement)) is not None
        and pod.node is None
    ]
    if not waiting:
        return frozenset()
    state = View(snapshot) if view is None else view
    return frozenset(uid for uid, pod in waiting if not feasible(pod, state))


class Windows:
    """The windows of slow start, counted down as evictions are admitted; `known` windows go on, others begin anew.

    If slow start is off (`enabled`), they refuse nothing.
    """

    def __init__(
        self,
        memory: Memory,
        snapshot: Snapshot,
        now: datetime,
        *,
        known: Iterable[StartWindow],
        enabled: bool,
        unplaceable: Collection[str] = (),
    ) -> None:
        self._enabled = enabled
        self.sizes = {window.namespace: window.size for window in known} if enabled else {}
        self.under_way = Counter[str]()
        self._unplaceable: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By group: how many moves under way have a replacement that no node admits."""
        moves = [move for move in memory.moves if is_under_way(move, snapshot, now)]
        for move in moves:
            for namespace in ("", move.namespace) if keeps_cluster_place(move, now) else (move.namespace,):
                self.under_way[namespace] += 1
                self._unplaceable[move.group][namespace] += move.uid in unplaceable
        self._requested = self.under_way.copy()
        self._unexecuted = memory.unexecuted_pods & {move.uid for move in moves}
        """Pods that are counted as under way already: a new request for such a pod is no further move."""
        self.limited: set[str] = set()
        """The namespaces whose window has refused an eviction, and "" for the cluster's."""
        self.refused: set[str] = set()
        """Groups, by token, whose step of several concurrent evictions waits for these windows."""
        self._now = now
        self._queued = dict(memory.queued)
        self._first: Eviction | None = None

    def size(self, namespace: str) -> int:
        """Return how many moves may be under way at once, in a namespace or in the cluster ("")."""
        return self.sizes.get(namespace, first_size(namespace))

    def use(self, namespace: str) -> WindowUse:
        """Return how a window is used."""
        return WindowUse(self.size(namespace), self.under_way[namespace])

    def waits_long(self, step: Sequence[Eviction]) -> bool:
        """Return whether nothing may overtake a step any more."""
        since = self._queued.get(make_token(step[0].group))
        return self._enabled and step[0].needed > 1 and since is not None and self._now - since >= PATIENCE

    def take(self, evictions: Sequence[Eviction]) -> Refusal | None:
        """Count evictions of one step as under way, all of them or none; return why they have to wait."""
        if not self._enabled:
            return None
        if self._first is not None:
            self._queue(evictions)
            return StepQueued(self._first.workload, self._first.needed)
        further = [eviction for eviction in evictions if eviction.pod.uid not in self._unexecuted]
        if not further:
            return None
        wanted = Counter(eviction.pod.namespace for eviction in further)
        wanted[""] = len(further)
        own = self._unplaceable[evictions[0].group]
        full = [
            space
            for space, number in sorted(wanted.items())
            if not self._fits(space, number, len(evictions), own[space])
        ]
        if not full:
            self.under_way.update(wanted)
            return None
        self.limited.update(full)
        self._queue(evictions)
        if self.waits_long(evictions):
            self._first = evictions[0]
        space = full[0]
        requested = self._requested[space]
        return WindowFull(space, self.size(space), requested, self.under_way[space] - requested)

    def give_back(self, evictions: Sequence[Eviction]) -> None:
        """Count taken evictions that wait for something else as not under way."""
        further = [eviction for eviction in evictions if eviction.pod.uid not in self._unexecuted]
        if self._enabled and further:
            self.under_way.subtract([*(eviction.pod.namespace for eviction in further), *[""] * len(further)])

    def _queue(self, evictions: Sequence[Eviction]) -> None:
        """Note that a step waits if it needs all of these evictions at once; other steps go on one by one."""
        if len(evictions) > 1:
            self.refused.add(make_token(evictions[0].group))

    def _fits(self, namespace: str, number: int, needed: int, own: int) -> bool:
        """Say whether a window allows more; `own` of the moves under way wait for this very step."""
        under_way = self.under_way[namespace] - own
        return under_way + number <= self.size(namespace) or (needed > 1 and under_way == 0)

    def queued_since(self, waiting: Iterable[str]) -> tuple[tuple[str, datetime], ...]:
        """Return since when each step that needs several concurrent evictions has waited for slow start.

        `waiting` are the groups of steps that were not admitted. A step that a rate or stale data held back before slow
        start has waited, too.
        """
        earlier = self._queued.keys() & set(map(make_token, waiting))
        tokens = sorted(self.refused | earlier) if self._enabled else ()
        return tuple((token, min(self._now, self._queued.get(token, self._now))) for token in tokens)
