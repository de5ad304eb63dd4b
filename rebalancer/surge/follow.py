"""The next action of a surge, from its record and the present cluster, so that any leader continues it after a crash.

Only the record is stored. `spec.replicas` is `count` before the scale-up and after the scale-down, and `count + added`
in between; any other number has another author, and stays. A phase is stored before its changes are written. So in
Marking, `count` means that replicas were not raised yet, and in Waiting, that somebody has lowered them. If a number
may have two authors, the worker asks the API server before it acts.

The ReplicaSet controller deletes pods that are not Ready before it considers any cost, and reads costs from a cache. So
pods go only when every pod has been Ready for a while, and some seconds after the last mark. The caller measures these
times by a monotonic clock, so the next leader begins to count anew.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rebalancer.model.deletion_costs import SURGE_COST, is_foreign
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import plural
from rebalancer.model.workloads import Workload
from rebalancer.policy import RepairBy
from rebalancer.surge.record import Ending, Phase, Surge

CACHE_LAG: Final = 10.0
"""Seconds after the last mark until the ReplicaSet controller has seen it."""

_SEEN: Final = "the ReplicaSet controller has seen the deletion costs"

LATE: Final = timedelta(minutes=2)
"""How long the API server may still carry out a request whose answer was lost, as for evictions."""

MARKED_WITHIN: Final = timedelta(minutes=1)
"""After the decision to take added pods back, how long to wait for their marks."""


class Store(NamedTuple):
    """Store this new record, and look again."""

    surge: Surge


class Mark(NamedTuple):
    """Give this pod a deletion cost; None removes Rebalancer's own cost."""

    pod: Pod
    cost: int | None


class Scale(NamedTuple):
    """Change the workload's replicas, if their number has not changed."""

    before: int
    after: int


class Close(NamedTuple):
    """Delete the record, because nothing of the surge is left."""

    ending: Ending


class Wait(NamedTuple):
    """Do nothing yet; `why` completes the sentence "it waits until …". `unready`: it waits for Ready pods."""

    why: str
    unready: bool = False


Act = Store | Mark | Scale | Close | Wait


class Stood(NamedTuple):
    """For how many seconds the caller has seen all marks right, and all pods Ready."""

    marks: float
    ready: float


def follow(surge: Surge, snapshot: Snapshot, rules: RepairBy, now: datetime, stood: Stood) -> Act:
    """Return the next action."""
    seen = _Seen(surge, snapshot)
    if surge.phase is Phase.UNMARKING:
        return _unmark(surge, seen)
    ended = _find_ending(surge, seen, rules, now)
    if ended is not None:
        return ended
    match surge.phase:
        case Phase.MARKING:
            return _mark(surge, seen)
        case Phase.ADDING:
            return _add(surge, seen, rules, now)
        case Phase.WAITING:
            return _await_ready(surge, seen, rules, now, stood)
        case Phase.REMOVING:
            return _remove(surge, seen)
        case _:
            return _take_back(surge, seen, now, stood)


class _Seen:
    """What a snapshot shows of a surge."""

    def __init__(self, surge: Surge, snapshot: Snapshot) -> None:
        self._surge = surge
        self._snapshot = snapshot
        self.workload: Workload | None = snapshot.workload.get(surge.uid)
        pods = tuple(snapshot.pods_of.get(surge.owner, ()))
        self.pods: Sequence[Pod] = pods
        self.living = [pod for pod in pods if not pod.terminating and not pod.finished]
        self.marked = [pod for pod in self.living if pod.own_deletion_cost == SURGE_COST]

    @property
    def replicas(self) -> int:
        """How many replicas the workload wants."""
        assert self.workload is not None
        return self.workload.replicas

    @property
    def victims(self) -> Iterator[Pod]:
        """The victims that still exist."""
        uids = {one.uid for one in self._surge.victims}
        return (pod for pod in self.living if pod.uid in uids)

    @property
    def is_rolled_out(self) -> bool:
        """Whether pods of another template are created, or the owner of the surge's pods is gone."""
        owner = self._snapshot.workload.get(self._surge.owner)
        if owner is None or self.workload is None:
            return True
        others = self._snapshot.owned_by.get(self.workload.uid, ())
        return any(one.uid != owner.uid and one.replicas for one in others) or self._has_other_template(owner)

    def _has_other_template(self, owner: Workload) -> bool:
        top = self.workload
        if top is None or top.uid == owner.uid or top.template is None or owner.template is None:
            return False
        return top.template.spec != owner.template.spec

    @property
    def is_autoscaled(self) -> bool:
        """Whether an autoscaler sets its replicas."""
        return (self._surge.namespace, self._surge.kind, self._surge.name) in self._snapshot.autoscalers_of

    def find_changed_marks(self) -> Iterator[Mark]:
        """Yield the changes of marks that are needed so that the scale-down removes the added pods, not the victims.

        A pod is marked before another is unmarked, because the next leader finds the record by the marks.
        """
        victims = {one.uid for one in self._surge.victims}
        others = [pod for pod in self.living if pod.uid not in victims and not is_foreign(pod)]
        newest = sorted(others, key=lambda pod: (pod.created, pod.uid), reverse=True)
        surplus = {pod.uid for pod in newest[: max(0, len(self.living) - self._surge.count)]}
        if surplus:
            yield from (Mark(pod, SURGE_COST) for pod in self.living if pod.uid in surplus and pod not in self.marked)
            yield from (Mark(pod, None) for pod in self.marked if pod.uid not in surplus)

    def find_unready(self) -> str:
        """Return which pods are missing or not Ready, "" if all are Ready."""
        if len(self.living) != self._surge.most:
            return f"all {self._surge.most} pods are there ({len(self.living)} now)"
        unready = sorted(pod.name for pod in self.living if not pod.ready)
        if not unready:
            return ""
        return f"pod {unready[0]} is Ready" + (f", and {len(unready) - 1} more" if unready[1:] else "")

    def find_refusing_budget(self, rules: RepairBy) -> str:
        """Return the budget that would refuse to evict the victims while the added pods exist, "" for none."""
        if rules.overrides_budgets_in(self._surge.namespace):
            return ""
        selection, going = self._snapshot.budget_selection, list(self.victims)
        for budget in {one for pod in going for one in selection.budgets_of(pod)}:
            pods = selection.pods_of(budget)
            leaves = sum(pod in pods for pod in going)
            healthy = sum(pod.ready and not pod.terminating for pod in pods) - leaves
            if healthy < budget.desired_of(max(budget.expected, len(pods))):
                return f"PodDisruptionBudget {budget} lets {plural(leaves, 'pod')} go"
        return ""


def _find_ending(surge: Surge, seen: _Seen, rules: RepairBy, now: datetime) -> Act | None:
    """Return the ending that outside changes force on a surge, None if there is none."""
    if seen.workload is None:
        return _end(surge, Ending.WORKLOAD_GONE)
    if seen.replicas not in _numbers_of(surge):
        return _end(surge, Ending.SCALED)
    if seen.is_autoscaled:
        return _end(surge, Ending.AUTOSCALED)
    if surge.phase is Phase.TAKING_BACK or (surge.phase is Phase.REMOVING and seen.replicas == surge.count):
        return None
    if seen.is_rolled_out:
        return _give_up(surge, Ending.ROLLED_OUT, now)
    is_too_large = surge.phase in {Phase.MARKING, Phase.ADDING} and surge.added > rules.max_surge
    if is_too_large or not rules.adds_in(surge.namespace):
        return _give_up(surge, Ending.NOT_WANTED, now)
    if now < surge.until:
        return None
    if surge.phase in {Phase.WAITING, Phase.REMOVING} and not (seen.find_unready() or seen.find_refusing_budget(rules)):
        return None
    return _give_up(surge, Ending.NOT_BEGUN if surge.phase is Phase.MARKING else Ending.TIMED_OUT, now)


def _numbers_of(surge: Surge) -> set[int]:
    """Return the numbers of replicas that the surge, or the time before it, explains."""
    match surge.phase:
        case Phase.MARKING:
            return {surge.count}
        case Phase.WAITING:
            return {surge.most}
        case _:
            return {surge.count, surge.most}


def _end(surge: Surge, ending: Ending) -> Store:
    return Store(surge.enter(Phase.UNMARKING, ending=ending))


def _give_up(surge: Surge, ending: Ending, now: datetime) -> Store:
    late = now + LATE if surge.phase is Phase.ADDING else None
    return Store(surge.enter(Phase.TAKING_BACK, ending=ending, until=now + MARKED_WITHIN, late=late))


def _mark(surge: Surge, seen: _Seen) -> Act:
    victims = list(seen.victims)
    if len(victims) < len(surge.victims) or not all(pod.ready for pod in victims):
        return _end(surge, Ending.VICTIM_GONE)
    unmarked = _find_unmarked(seen)
    return Mark(unmarked, SURGE_COST) if unmarked is not None else Store(surge.enter(Phase.ADDING))


def _find_unmarked(seen: _Seen) -> Pod | None:
    return next((pod for pod in seen.victims if pod.own_deletion_cost != SURGE_COST), None)


def _add(surge: Surge, seen: _Seen, rules: RepairBy, now: datetime) -> Act:
    if seen.replicas == surge.count:
        return Scale(surge.count, surge.most)
    return Store(surge.enter(Phase.WAITING, until=now + rules.timeout))


def _await_ready(surge: Surge, seen: _Seen, rules: RepairBy, now: datetime, stood: Stood) -> Act:
    if len(list(seen.victims)) < len(surge.victims):
        return _give_up(surge, Ending.VICTIM_GONE, now)
    unready = seen.find_unready()
    if unready:
        return Wait(unready, unready=True)
    refusing = seen.find_refusing_budget(rules)
    if refusing:
        return Wait(refusing)
    if _find_unmarked(seen) is not None:
        return _give_up(surge, Ending.UNMARKED, now)
    if stood.ready < rules.settle.total_seconds():
        return Wait("all pods have been Ready for repair.settle")
    return Wait(_SEEN) if stood.marks < CACHE_LAG else Store(surge.enter(Phase.REMOVING))


def _remove(surge: Surge, seen: _Seen) -> Act:
    if seen.replicas == surge.most:
        # A pod that is no longer Ready would go in place of a marked one.
        if seen.find_unready():
            return Store(surge.enter(Phase.WAITING))
        return Scale(surge.most, surge.count)
    if len(seen.living) > surge.count:
        return Wait("the surplus pods are deleted")
    return _end(surge, Ending.MISPREDICTED if any(True for _ in seen.victims) else Ending.DONE)


def _take_back(surge: Surge, seen: _Seen, now: datetime, stood: Stood) -> Act:
    """Remove the added pods, not the victims: removing only some victims may worsen another rule.

    If a rollout began, wait for nothing, because it replaces all these pods.
    """
    if seen.replicas != surge.most:
        if surge.late is not None and now < surge.late:
            return Wait("the API server has forgotten a scale-up whose answer was lost")
        return Store(surge.enter(Phase.UNMARKING))
    if not seen.is_rolled_out:
        changed = next(seen.find_changed_marks(), None)
        if changed is not None:
            return changed
        if stood.marks < CACHE_LAG:
            return Wait(_SEEN)
    return Scale(surge.most, surge.count)


def _unmark(surge: Surge, seen: _Seen) -> Act:
    if seen.marked:
        return Mark(seen.marked[0], None)
    assert surge.ending is not None, "a surge that ends has an ending"
    return Close(surge.ending)
