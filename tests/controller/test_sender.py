"""What is read afresh before an eviction is sent, and what holds it back."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rebalancer.admission.admit import Overload
from rebalancer.admission.pause import Pause
from rebalancer.controller.kill_switch import ANSWER_SERVES, ANSWER_USABLE
from rebalancer.controller.sender import PLAN_VALID_FOR, Sender
from rebalancer.controller.state import Answered, Clocks, Evict, Held, LoopEvent, NotSent, PauseRead
from rebalancer.model.moves import Move, Reference
from rebalancer.ports import (
    EvictionAnswer,
    EvictionResult,
    PlacedPod,
    ReadFailedError,
    ReadForbiddenError,
    ReplicaCount,
    place_pods,
)
from rebalancer.simulator import SimulatedCluster
from tests.controller.test_loop import SNAPSHOT
from tests.tracking.build import move

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEB = Reference("default", "Deployment", "web")
AS_IT_IS = ReplicaCount(12, 12)


class Shaky(SimulatedCluster):
    """A cluster whose kill switch answers as the test says."""

    def __init__(self) -> None:
        super().__init__(SNAPSHOT)
        self.time = 0.0
        self.reads = 0
        self.takes = 0.0
        self.broken = ""
        self.stale = ""
        self.hidden: set[str] = set()
        self.extra: dict[str, PlacedPod] = {}
        """What is read of the pods is without these UIDs, and with these pods."""
        self.answers: list[EvictionAnswer] = []
        """Of the next evictions, in the place of the cluster's."""

    def evict(self, move: Move) -> EvictionAnswer:
        return self.answers.pop() if self.answers else super().evict(move)

    def read_pause(self) -> Pause | None:
        self.reads += 1
        self.time += self.takes
        if self.broken:
            raise ReadFailedError(self.broken)
        return self.pause

    def count_replicas(self, workload: Reference) -> ReplicaCount:
        if workload.name == "forbidden":
            raise ReadForbiddenError("deployments is forbidden")
        if workload.name == "unreadable":
            raise ReadFailedError("HTTP 500")
        count = super().count_replicas(workload)
        pods = {uid: pod for uid, pod in (count.pods or {}).items() if uid not in self.hidden}
        return ReplicaCount(count.wanted, count.ready, {**pods, **self.extra})

    def staleness(self) -> str:
        return self.stale


class Sending:
    def __init__(self, *, leads: bool = True) -> None:
        self.cluster = Shaky()
        self.events: list[LoopEvent] = []
        self.sender = Sender(
            cluster=self.cluster,
            find_objection=lambda *_: "" if leads else "this process no longer leads",
            clocks=Clocks(now=lambda: NOW, monotonic=lambda: self.cluster.time),
            tell=self.events.append,
        )

    def send(self, expected: tuple[tuple[Reference, ReplicaCount], ...] = (), index: int = 0) -> Answered | NotSent:
        return self.sender.send(Evict(move=victim(index), term=1, expected=expected), read_at=self.cluster.time)


def victim(index: int) -> Move:
    pod = SNAPSHOT.pods[index]
    return move(pod.uid, NOW, namespace=pod.namespace, pod=pod.name)


def test_a_request_is_sent() -> None:
    """With no pause, the lease, and as many Ready pods as planned."""
    outcome = Sending().send(((WEB, AS_IT_IS),))
    assert isinstance(outcome, Answered)
    assert outcome.answer.result is EvictionResult.EVICTED


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        (((WEB, ReplicaCount(12, 13)),), "12 pods of default/web (Deployment) are Ready, 13 when it was planned"),
        (((WEB, ReplicaCount(9, 9)),), "default/web (Deployment) wants 12 pods, 9 when it was planned"),
        (((WEB, AS_IT_IS), (Reference("default", "Deployment", "unreadable"), AS_IT_IS)), "HTTP 500"),
        (((Reference("default", "Deployment", "gone"), AS_IT_IS),), "default/gone (Deployment): not found"),
    ],
)
def test_pods_that_are_not_as_planned(expected: tuple[tuple[Reference, ReplicaCount], ...], why: str) -> None:
    """Where a workload was scaled, fewer pods are Ready than planned, or nobody can say, the group waits for a plan."""
    outcome = Sending().send(expected)
    assert isinstance(outcome, NotSent)
    assert (why in outcome.why, outcome.held) == (True, Held.GROUP)


PODS = place_pods(SNAPSHOT.pods)
VICTIM, OTHER, THIRD = (SNAPSHOT.pods[index].uid for index in range(3))


def without(*uids: str) -> dict[str, PlacedPod]:
    return {uid: pod for uid, pod in PODS.items() if uid not in uids}


@pytest.mark.parametrize(
    ("planned", "difference"),
    [
        ({**PODS, "uid": PlacedPod("web-x", "b-1")}, "pod web-x is gone, it was on node b-1"),
        ({**PODS, "uid": PlacedPod("web-x", "")}, "pod web-x is gone, it was on no node"),
        (
            {**PODS, OTHER: PlacedPod("web-y", "elsewhere")},
            f"pod web-y is on node {PODS[OTHER].node}, it was on node elsewhere",
        ),
        (
            {**without(OTHER), "uid": PlacedPod("web-x", "b-1")},
            "pod web-x is gone, it was on node b-1",
        ),
    ],
)
def test_pods_that_are_not_where_the_plan_assumes_them(planned: dict[str, PlacedPod], difference: str) -> None:
    """As many may be Ready as planned, and the plan is wrong all the same: a cycle is to follow at once."""
    outcome = Sending().send(((WEB, ReplicaCount(12, 12, planned)),))
    assert isinstance(outcome, NotSent)
    assert outcome.why == f"default/web (Deployment): {difference} when it was planned; waiting for the next plan"
    assert (outcome.held, outcome.plans_again) == (Held.GROUP, True)


def test_a_pod_more_than_the_owner_wants_is_of_somebody_else() -> None:
    """A rollout has begun, say: none of the plan's pods is gone yet, and there is one that it does not know."""
    sending = Sending()
    sending.cluster.extra = {"uid": PlacedPod("web-new", "c-1")}
    outcome = sending.send(((WEB, ReplicaCount(12, 12, PODS)),))
    assert isinstance(outcome, NotSent)
    assert "pod web-new on node c-1 was not there" in outcome.why


@pytest.mark.parametrize(
    "planned",
    [
        PODS,
        {**PODS, OTHER: PlacedPod(PODS[OTHER].name, "")},
        without(OTHER),
        without(OTHER, THIRD),
        None,
    ],
    ids=["the same", "bound since", "a replacement", "two replacements", "not known"],
)
def test_what_a_repair_changes_itself_does_not_hold_it(planned: dict[str, PlacedPod] | None) -> None:
    """Replacements of what we have evicted, as many as the owner lacks, and pods that have got a node."""
    assert isinstance(Sending().send(((WEB, ReplicaCount(12, 10, planned)),)), Answered)


def test_a_victim_that_is_gone_is_for_the_server_to_say() -> None:
    """Its eviction has the UID, so that it evicts nothing else; its replacement is none too many."""
    sending = Sending()
    sending.cluster.hidden = {VICTIM}
    sending.cluster.extra = {"uid": PlacedPod("web-new", "c-1")}
    assert isinstance(sending.send(((WEB, ReplicaCount(12, 12, PODS)),)), Answered)


def test_a_workload_that_may_not_be_read_is_no_right_to_evict() -> None:
    """The roles give both together, so that the answer is the API server's to an eviction without the right."""
    outcome = Sending().send(((Reference("default", "Deployment", "forbidden"), AS_IT_IS),))
    assert isinstance(outcome, Answered)
    assert outcome.answer == EvictionAnswer(EvictionResult.FORBIDDEN, "deployments is forbidden")


def test_a_step_does_not_begin_on_an_old_plan() -> None:
    """However the clock was set meanwhile; what a step requires that has begun is sent all the same."""
    late, read_at = Evict(move=victim(0), term=1, expected=((WEB, AS_IT_IS),)), -PLAN_VALID_FOR.total_seconds() - 0.1
    outcome = Sending().sender.send(late, read_at)
    assert isinstance(outcome, NotSent)
    assert (outcome.why, outcome.held) == ("its plan is too old; waiting for the next one", Held.GROUP)
    assert isinstance(Sending().sender.send(replace(late, expected=()), read_at), Answered)


def test_an_overloaded_server_is_left_alone_at_once() -> None:
    """Before the loop has heard its answer; a step that has begun is finished."""
    sending = Sending()
    sending.cluster.answers = [EvictionAnswer(EvictionResult.THROTTLED, "too many", retry_after=8.0)]
    answered = sending.send(((WEB, AS_IT_IS),))
    assert isinstance(answered, Answered)
    assert answered.overload == Overload(until=8.0), "the loop waits by the same value"
    sending.cluster.time = 7.9
    outcome = sending.send(((WEB, AS_IT_IS),))
    assert isinstance(outcome, NotSent)
    assert (outcome.why, outcome.held) == ("the API server is overloaded; waiting for 0s more", Held.STEPS)
    assert isinstance(sending.send(()), Answered)
    sending.cluster.time = 8.0
    assert isinstance(sending.send(((WEB, ReplicaCount(12, 11)),), index=1), Answered)


def test_a_stale_watch_holds_everything() -> None:
    """No step begins on a view that cannot be trusted; one that has begun is finished."""
    sending = Sending()
    sending.cluster.stale = "Pod: nothing heard for 200s"
    outcome = sending.send(((WEB, AS_IT_IS),))
    assert outcome == NotSent(uid=victim(0).uid, why="Pod: nothing heard for 200s", term=1, held=Held.STEPS)
    assert isinstance(sending.send(()), Answered)


def test_a_pause_that_no_watch_has_reported() -> None:
    """It is read from the object itself, holds the request, and the loop learns of it."""
    sending = Sending()
    sending.cluster.pause = Pause(reason="an upgrade")
    outcome = sending.send()
    assert isinstance(outcome, NotSent)
    assert outcome.held is Held.ALL
    assert sending.events == [PauseRead(pause=Pause(reason="an upgrade"))]


def test_a_pause_that_is_over() -> None:
    """It holds nothing, whoever has left it in the object."""
    sending = Sending()
    sending.cluster.pause = Pause(until=NOW)
    assert isinstance(sending.send(), Answered)
    assert isinstance(sending.send(index=1), Answered)
    assert (sending.events, sending.cluster.reads) == ([], 1)


def test_a_kill_switch_that_cannot_be_read_holds() -> None:
    """An error holds, and so does an answer that took so long that a pause may have been stored a second ago."""
    sending = Sending()
    sending.cluster.broken = "connection refused"
    outcome = sending.send()
    assert isinstance(outcome, NotSent)
    assert (outcome.held, "connection refused" in outcome.why) == (Held.ALL, True)
    slow = Sending()
    slow.cluster.takes = ANSWER_USABLE + 0.1
    outcome = slow.send()
    assert isinstance(outcome, NotSent)
    assert "the answer took 0.9s" in outcome.why


def test_an_answer_serves_for_half_a_second() -> None:
    """Requests within it do not read again; the next one after it does, and so does one after a failure."""
    sending = Sending()
    sending.send()
    sending.cluster.time += ANSWER_SERVES / 2
    sending.send(index=1)
    assert sending.cluster.reads == 1
    sending.cluster.time += ANSWER_SERVES / 2
    sending.cluster.pause = Pause()
    assert isinstance(sending.send(index=2), NotSent)
    sending.cluster.pause = None
    assert isinstance(sending.send(index=2), Answered)
    assert sending.cluster.reads == 3


def test_who_does_not_lead_sends_nothing() -> None:
    """A lease can run out between the loop's decision and the request."""
    outcome = Sending(leads=False).send()
    assert outcome == NotSent(uid=victim(0).uid, why="this process no longer leads", term=1, held=Held.ALL)
