"""The checker finds every kind of breach that is planted in a good history, and nothing in the good one."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.faults.availability import follow_absences
from tests.faults.checker import INVARIANTS, VIEW_SECONDS, check
from tests.faults.evidence import describe
from tests.faults.history import Exchange, Frozen, History, Pause, PodChange, Workload, Write
from tests.faults.history import Final as FinalState
from tests.faults.requests import Target
from tests.faults.schedule import Fault

LEASE: Final = Target(verb="patch", resource="leases", name="rebalancer")
STATUS: Final = Target(verb="patch", resource="configmaps", name="rebalancer-status")
REPLICAS: Final = 4
BETWEEN: Final = 2.0
"""Seconds between two evictions of the good history."""


def lease(at: float, process: str = "one.1", holder: str = "one") -> Exchange:
    return Exchange(
        id=f"lease {at}", process=process, target=LEASE, begun=at, forwarded=True, code=200, answered=at + 0.01,
        delivered=200, holder=holder,
    )  # fmt: skip


def status(at: float, process: str = "one.1") -> Exchange:
    return Exchange(
        id=f"status {at}", process=process, target=STATUS, begun=at, forwarded=True, code=200, answered=at + 0.01,
        delivered=200,
    )  # fmt: skip


def eviction(at: float, uid: str, process: str = "one.1", **fields: Any) -> Exchange:
    target = Target(verb="create", resource="pods/eviction", name=f"web-{uid}")
    answer = {"forwarded": True, "code": 201, "answered": at + 0.05, "delivered": 201} | fields
    return Exchange(id=f"eviction {at}", process=process, target=target, begun=at, uid=uid, **answer)


def logged(exchange: Exchange) -> Write:
    target = exchange.target
    return Write(
        id=exchange.id, verb=target.verb, resource=target.resource, name=target.name, code=exchange.code,
        uid=exchange.uid,
    )  # fmt: skip


class Changes:
    """The changes of pods, in any order."""

    def __init__(self) -> None:
        self.all: list[PodChange] = []

    def add(self, at: float, uid: str, *, ready: bool = False, terminating: bool = False, gone: bool = False) -> None:
        state = PodChange(version=0, at=at, uid=uid, name=f"web-{uid}", ready=ready, terminating=terminating, gone=gone)
        self.all.append(state)

    def numbered(self) -> tuple[PodChange, ...]:
        """Return them as the server numbers them."""
        ordered = sorted(self.all, key=lambda change: change.at)
        return tuple(dataclasses.replace(change, version=number) for number, change in enumerate(ordered, start=1))

    def start(self) -> None:
        for number in range(REPLICAS):
            self.add(-5.0, f"old-{number}", ready=True)

    def evict(self, at: float, uid: str, replacement: str) -> None:
        """Let a pod go and its replacement be Ready a second later."""
        self.add(at, uid, ready=True, terminating=True)
        self.add(at + 0.01, replacement)
        self.add(at + 0.3, uid, ready=True, terminating=True, gone=True)
        self.add(at + 1.0, replacement, ready=True)


def good_history(*, between: float = BETWEEN) -> History:
    """Return two evictions one after the other, by the leader, at most one pod unavailable."""
    changes = Changes()
    changes.start()
    exchanges = [lease(0.5)]
    for number in range(2):
        at = 1.0 + number * between
        exchanges += [eviction(at, f"old-{number}"), status(at + 0.1), lease(at + 0.5)]
        changes.evict(at + 0.02, f"old-{number}", f"new-{number}")
    return History(
        workload=Workload(replicas=REPLICAS, max_unavailable=1, budget=1, minimum=2),
        exchanges=tuple(sorted(exchanges, key=lambda exchange: exchange.begun)),
        writes=tuple(logged(exchange) for exchange in exchanges),
        changes=changes.numbered(),
        lease_seconds=4.0,
        final=FinalState(placement={"a": 2, "b": 2}),
    )


def invariants(history: History) -> set[str]:
    return {breach.invariant for breach in check(history)}


def insert(history: History, *more: Exchange) -> History:
    """Return the history with more requests, which the audit log has too."""
    exchanges = sorted([*history.exchanges, *more], key=lambda exchange: exchange.begun)
    writes = (*history.writes, *map(logged, more))
    return dataclasses.replace(history, exchanges=tuple(exchanges), writes=writes)


def bound(history: History, **bounds: int) -> History:
    return dataclasses.replace(history, workload=dataclasses.replace(history.workload, **bounds))


def without_uid(history: History) -> History:
    return insert(history, eviction(1.5, ""))


def by_a_process_that_never_led(history: History) -> History:
    return insert(history, eviction(1.5, "x", "two.1", code=429, delivered=429))


def before_the_lease(history: History) -> History:
    return insert(history, eviction(0.4, "x", code=429, delivered=429))


def after_the_lease_ran_out(history: History) -> History:
    return insert(history, eviction(8.0, "x", code=429, delivered=429))


def after_a_takeover(history: History) -> History:
    return insert(history, lease(2.0, "two.1", "two"), lease(2.9, "two.1", "two"))


def after_its_release(history: History) -> History:
    return insert(history, lease(2.0, holder=""))


def a_deposed_leader_saves(history: History) -> History:
    return insert(history, lease(5.0, "two.1", "two"), status(5.5))


def beyond_max_unavailable(_: History) -> History:
    return good_history(between=0.5)


def beside_pods_of_other_causes(history: History) -> History:
    """Make a pod unready by itself, for longer than any view may lag, before another is evicted."""
    return with_unready(history, 1.0 - VIEW_SECONDS - 0.5)


def with_unready(history: History, at: float) -> History:
    changes = Changes()
    changes.all = list(history.changes)
    changes.add(at, "old-3", ready=False)
    return dataclasses.replace(history, changes=changes.numbered())


def a_pod_that_never_goes(history: History) -> History:
    return bound(insert(history, eviction(1.2, "old-3")), minimum=3)


def evicted_twice(history: History) -> History:
    return bound(insert(history, eviction(1.2, "old-0")), minimum=3)


def more_than_the_minimum(history: History) -> History:
    return bound(history, minimum=1)


def a_deletion(history: History) -> History:
    foreign = Write(id="x", verb="delete", resource="pods", name="web-old-0", code=200)
    return dataclasses.replace(history, writes=(*history.writes, foreign))


def a_write_of_another_config_map(history: History) -> History:
    foreign = Write(id="x", verb="update", resource="configmaps", name="rebalancer-control", code=403)
    return dataclasses.replace(history, writes=(*history.writes, foreign))


def a_new_config_map(history: History) -> History:
    """Show it as the server's log does, without a name: only the verb says that it is not the status."""
    foreign = Write(id="x", verb="create", resource="configmaps", name="", code=403)
    return dataclasses.replace(history, writes=(*history.writes, foreign))


def a_replacement_of_the_status(history: History) -> History:
    """Show a write that the Role does not allow: it would drop what others have written into it."""
    foreign = Write(id="x", verb="update", resource="configmaps", name="rebalancer-status", code=200)
    return dataclasses.replace(history, writes=(*history.writes, foreign))


def after_a_pause(history: History) -> History:
    return dataclasses.replace(history, pauses=(Pause(stored=1.5, lifted=4.0),))


def a_pod_left_pending(history: History) -> History:
    return dataclasses.replace(history, final=FinalState(pending=("web-new-1",)))


def a_skew_left(history: History) -> History:
    return dataclasses.replace(history, final=FinalState(repaired=False, placement={"a": 3, "b": 1}))


PLANTED: Final[dict[Callable[[History], History], str]] = {
    without_uid: "without uid",
    by_a_process_that_never_led: "without lease",
    before_the_lease: "without lease",
    after_the_lease_ran_out: "without lease",
    after_a_takeover: "without lease",
    after_its_release: "without lease",
    a_deposed_leader_saves: "status without lease",
    beyond_max_unavailable: "beyond max unavailable",
    beside_pods_of_other_causes: "beyond max unavailable",
    a_pod_that_never_goes: "without effect",
    evicted_twice: "evicted twice",
    more_than_the_minimum: "too many",
    a_deletion: "foreign writes",
    a_write_of_another_config_map: "foreign writes",
    a_new_config_map: "foreign writes",
    a_replacement_of_the_status: "foreign writes",
    after_a_pause: "while paused",
    a_pod_left_pending: "pending",
    a_skew_left: "unrepaired",
}


def test_a_good_history_has_no_breach() -> None:
    assert check(good_history()) == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_breach_is_found(plant: Callable[[History], History]) -> None:
    history = plant(good_history())
    assert PLANTED[plant] in invariants(history)
    assert all(str(breach) for breach in check(history))
    assert describe(history)


def test_every_invariant_has_a_planted_breach() -> None:
    """The budget is held by the same arithmetic as maxUnavailable, with a bound of its own."""
    generous = bound(beyond_max_unavailable(good_history()), max_unavailable=4)
    assert invariants(generous) == {"beyond budget"}
    assert {*PLANTED.values(), "beyond budget"} == set(INVARIANTS)


def test_what_others_do_in_the_flight_of_a_request_is_no_breach() -> None:
    """A pod that becomes unready just before the eviction cannot be known to the controller."""
    history = with_unready(good_history(), 1.0 - VIEW_SECONDS / 2)
    history = dataclasses.replace(
        history,
        changes=tuple(change for change in history.changes if change.at < 3.0),
        exchanges=tuple(exchange for exchange in history.exchanges if exchange.begun < 3.0),
    )
    assert check(history) == []


def test_the_request_under_way_at_a_takeover_is_no_breach() -> None:
    """It began while its process held the Lease; the server takes it later."""
    history = good_history()
    taken = insert(history, lease(5.0, "two.1", "two"), eviction(4.9, "x", code=429, delivered=429, answered=6.0))
    assert "without lease" not in invariants(taken)


def test_one_request_of_a_process_that_was_stopped_may_come_late() -> None:
    """It was between its check and its sending. A second one is a breach, and so is one that comes much later."""
    taken = insert(good_history(), lease(5.0, "two.1", "two"))
    taken = dataclasses.replace(taken, frozen=(Frozen(process="one.1", since=4.0, until=8.0),))
    late = insert(taken, eviction(8.1, "x", code=429, delivered=429))
    assert "without lease" not in invariants(late)
    assert "without lease" in invariants(insert(late, eviction(8.2, "y", code=429, delivered=429)))
    assert "without lease" in invariants(insert(taken, eviction(8.5, "x", code=429, delivered=429)))


def test_an_eviction_whose_answer_was_lost_is_counted() -> None:
    """The server has carried it out; the controller sees its pod go."""
    lost = [
        dataclasses.replace(exchange, delivered=0, fault=Fault.LOST) if exchange.uid == "old-1" else exchange
        for exchange in good_history().exchanges
    ]
    history = dataclasses.replace(good_history(), exchanges=tuple(lost))
    assert check(history) == []
    assert invariants(bound(history, minimum=1)) == {"too many"}


def test_a_pause_binds_after_a_second_and_until_it_is_lifted() -> None:
    for stored, lifted in ((2.1, 4.0), (1.5, 2.9)):
        history = dataclasses.replace(good_history(), pauses=(Pause(stored=stored, lifted=lifted),))
        assert "while paused" not in invariants(history)


def test_an_eviction_without_uid_is_found_in_the_audit_log_too() -> None:
    """A request that went past the proxy."""
    foreign = Write(id="x", verb="create", resource="pods/eviction", name="web-old-3", code=201)
    history = dataclasses.replace(good_history(), writes=(*good_history().writes, foreign))
    assert invariants(history) == {"without uid"}


def test_absences_are_counted_by_their_cause() -> None:
    """Ours until a new pod is Ready; a pod that is merely unready is others', until it recovers."""
    changes = Changes()
    changes.start()
    changes.add(1.0, "old-3", ready=False)
    changes.evict(2.0, "old-0", "new-0")
    changes.add(4.0, "old-3", ready=True)
    absences = follow_absences(changes.numbered(), {"old-0"}, REPLICAS)
    assert [(absence.at, absence.ours, absence.others) for absence in absences] == [
        (-5.0, 0, 0),
        (1.0, 0, 1),
        (2.0, 1, 1),
        (2.01, 1, 1),
        (2.3, 1, 1),
        (3.0, 0, 1),
        (4.0, 0, 0),
    ]
    assert [absence.evicted for absence in absences if absence.evicted] == ["old-0"]
