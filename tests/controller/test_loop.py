"""The loop, step by step: what arrives between two evictions takes effect before the next."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder
from rebalancer.admission.pause import Pause
from rebalancer.controller.evictions import PLAN_VALID_FOR
from rebalancer.controller.loop import step
from rebalancer.controller.run_once import RunOnce
from rebalancer.controller.state import (
    Answered,
    CycleDue,
    Evict,
    Leading,
    LoopEvent,
    LoopRequest,
    LoopState,
    NotSent,
    PauseRead,
    PolicyLoaded,
    PolicyRefused,
    Publish,
    Save,
    Stopping,
)
from rebalancer.model.events import Regarding
from rebalancer.model.moves import MoveState
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Amount, Budgets, Mode
from rebalancer.ports import EvictionAnswer, EvictionResult
from tests.controller.simulated import eager

BUDGETS = Budgets(max_unavailable=Amount(value=9), per_workload=Amount(value=9))
EVICTING = eager(budgets=BUDGETS)
MAP = Regarding(kind="ConfigMap", namespace="rebalancer-system", name="rebalancer-policy")
SWITCH = Regarding(kind="ConfigMap", namespace="rebalancer-system", name="rebalancer-control")


def skewed() -> Snapshot:
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    blueprint.deployment("web", on={"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}, spread={ZONE: 1, HOSTNAME: 1})
    return blueprint.snapshot()


SNAPSHOT = skewed()
NOW = SNAPSHOT.taken_at


def led(**fields: object) -> LoopState:
    state = LoopState(policy=EVICTING, policy_since=NOW, policy_object=MAP, pause_object=SWITCH)
    return replace(step(state, Leading(leads=True), NOW)[0], **fields)  # type: ignore[arg-type]


def after(state: LoopState, *events: LoopEvent) -> tuple[LoopState, tuple[LoopRequest, ...]]:
    """Return the state after some events, and what the last of them asks for."""
    requests: tuple[LoopRequest, ...] = ()
    for event in events:
        state, requests = step(state, event, NOW)
    return state, requests


def evicting() -> tuple[LoopState, Evict]:
    """Return a loop in the middle of its evictions: one asked for, three more in the queue."""
    state, requests = after(led(), CycleDue(snapshot=SNAPSHOT))
    (requested,) = (request for request in requests if isinstance(request, Evict))
    assert len(state.queue) == 3
    return state, requested


def answered(requested: Evict, result: EvictionResult = EvictionResult.EVICTED) -> Answered:
    return Answered(uid=requested.move.uid, answer=EvictionAnswer(result, "as scripted"))


def kinds(requests: tuple[LoopRequest, ...]) -> list[str]:
    return [type(request).__name__ for request in requests]


def reasons(requests: tuple[LoopRequest, ...]) -> set[str]:
    return {request.event.reason for request in requests if isinstance(request, Publish)}


def test_one_at_a_time() -> None:
    """The next eviction is requested when the last one is answered; the status is saved at the end."""
    state, requested = evicting()
    uids = [requested.move.uid]
    while True:
        state, requests = step(state, answered(requested), NOW)
        assert reasons(requests) == {"Evicted"}
        following = [request for request in requests if isinstance(request, Evict)]
        if not following:
            break
        (requested,) = following
        uids.append(requested.move.uid)
    assert len(set(uids)) == 4
    assert isinstance(requests[-1], Save)
    assert {move.state for move in state.memory.in_flight} == {MoveState.EVICTED}
    assert len(state.memory.sent) == 4


@pytest.mark.parametrize(
    "event",
    [
        Leading(leads=False),
        Stopping(),
        PolicyLoaded(policy=eager(Mode.OBSERVE)),
        PolicyLoaded(policy=eager(budgets=Budgets())),
        PauseRead(pause=Pause()),
        PauseRead(pause=Pause(until=NOW + timedelta(seconds=1))),
    ],
    ids=["leadership lost", "stopping", "observe", "another policy", "paused", "paused for a second"],
)
def test_what_arrives_between_two_evictions(event: LoopEvent) -> None:
    """No further eviction is requested."""
    state, requested = evicting()
    state, _ = after(state, event)
    state, requests = after(state, answered(requested))
    assert "Evict" not in kinds(requests)
    assert state.queue == ()


@pytest.mark.parametrize("result", set(EvictionResult) - {EvictionResult.EVICTED, EvictionResult.GONE})
def test_an_answer_that_was_not_planned_for(result: EvictionResult) -> None:
    """Anything but a grant ends the step: the rest waits for a plan on what is."""
    state, requested = evicting()
    state, requests = after(state, answered(requested, result))
    assert "Evict" not in kinds(requests)
    assert state.queue == ()
    expected = MoveState.PLANNED if result is EvictionResult.UNKNOWN else MoveState.REFUSED
    assert [move.state for move in state.memory.moves] == [expected]


def test_a_pod_that_was_gone_already() -> None:
    """A pod that somebody else removed is nobody's failure: the next eviction is requested."""
    state, requested = evicting()
    _, requests = after(state, answered(requested, EvictionResult.GONE))
    assert kinds(requests) == ["Save", "Evict"]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (EvictionResult.BUDGET, "EvictionBlocked"),
        (EvictionResult.FORBIDDEN, "EvictionFailed"),
        (EvictionResult.UNKNOWN, "EvictionFailed"),
    ],
)
def test_events_of_answers(result: EvictionResult, reason: str) -> None:
    """The result of an eviction is published on the pod and on its workload."""
    state, requested = evicting()
    _, requests = after(state, answered(requested, result))
    about = [request.event.regarding.kind for request in requests if isinstance(request, Publish)]
    assert (reasons(requests), about) == ({reason}, ["Pod", "Deployment"])


def test_a_late_answer_changes_nothing() -> None:
    """An answer to a move that is not known is passed over."""
    state = led()
    assert after(state, Answered(uid="unknown", answer=EvictionAnswer(EvictionResult.EVICTED))) == (state, ())


def test_who_does_not_lead_does_nothing() -> None:
    """A standby neither plans nor writes."""
    state = LoopState(policy=EVICTING, policy_since=NOW)
    assert after(state, CycleDue(snapshot=SNAPSHOT)) == (state, ())
    assert after(state, Stopping())[1] == ()


def test_stale_views() -> None:
    """On a view that cannot be trusted nothing is evicted, and the cycle says why."""
    state, requests = after(led(), CycleDue(snapshot=SNAPSHOT, stale="Pod: nothing heard for 400s"))
    assert "Evict" not in kinds(requests)
    assert state.cycle is not None
    assert {waiting_eviction.reason for waiting_eviction in state.cycle.admission.waiting} == {"StaleData"}


def test_violations_are_published_once() -> None:
    """Cycle after cycle of an unchanged violation make one event, its end makes another."""
    observing = led(policy=eager(Mode.OBSERVE))
    state, requests = after(observing, CycleDue(snapshot=SNAPSHOT))
    assert reasons(requests) == {"SkewViolated"}
    state, requests = after(state, CycleDue(snapshot=SNAPSHOT), CycleDue(snapshot=SNAPSHOT))
    assert reasons(requests) == set()
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    on = {f"{zone}-{number}": 2 for zone in "abc" for number in (1, 2)}
    blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1})
    _, requests = after(state, CycleDue(snapshot=blueprint.snapshot()))
    assert reasons(requests) == {"SkewRecovered"}


def test_policies() -> None:
    """A new policy is published, the same one is not; an invalid one is published once, and the last stays in force."""
    state, requests = after(led(), PolicyLoaded(policy=EVICTING))
    assert requests == ()
    state, requests = after(state, PolicyRefused(message="policy.yaml:3: …"))
    assert (reasons(requests), state.policy, state.policy_error) == ({"PolicyInvalid"}, EVICTING, "policy.yaml:3: …")
    state, requests = after(state, PolicyRefused(message="policy.yaml:3: …"))
    assert requests == ()
    state, requests = after(state, PolicyLoaded(policy=EVICTING))
    assert (reasons(requests), state.policy_error) == ({"PolicyReloaded"}, "")
    state, requests = after(state, PolicyLoaded(policy=eager(Mode.OBSERVE)))
    assert (reasons(requests), state.mode) == ({"PolicyReloaded"}, Mode.OBSERVE)


def test_the_process_can_only_restrain() -> None:
    """`--mode Observe` holds whatever the policy says, `--mode Evict` allows nothing that the policy does not."""
    assert led(limit=Mode.OBSERVE).mode is Mode.OBSERVE
    assert led(policy=eager(Mode.OBSERVE), limit=Mode.EVICT).mode is Mode.OBSERVE
    _, requests = after(led(limit=Mode.OBSERVE), CycleDue(snapshot=SNAPSHOT))
    assert "Evict" not in kinds(requests)


def test_until_done() -> None:
    """`--once` ends at once where nothing is violated, and after a few looks where nothing can be done."""
    quiet = RunOnce()
    assert not quiet.is_done(led())
    state, _ = after(led(policy=eager(Mode.OBSERVE)), CycleDue(snapshot=SNAPSHOT))
    assert [quiet.is_done(state) for _ in range(3)] == [False, False, True]
    busy, _ = evicting()
    assert not any(RunOnce().is_done(busy) for _ in range(5))


def two_workloads() -> Snapshot:
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}, spread={ZONE: 1, HOSTNAME: 1})
    return blueprint.snapshot()


def test_one_refusal_does_not_starve_the_others() -> None:
    """After a refusal that will not pass, the next workload has its turn, and the refused one backs off."""
    state, requests = after(led(), CycleDue(snapshot=two_workloads()))
    (requested,) = (request for request in requests if isinstance(request, Evict))
    state, requests = after(state, answered(requested, EvictionResult.FORBIDDEN))
    (following,) = (request for request in requests if isinstance(request, Evict))
    assert following.move.workload != requested.move.workload
    assert [(miss.group, miss.times) for miss in state.memory.failed_predictions] == [(requested.move.group, 1)]


def test_a_move_is_remembered_before_it_is_sent() -> None:
    """Each request to evict comes right after one to save, and the state saved knows the move."""
    state, requests = after(led(), CycleDue(snapshot=SNAPSHOT))
    assert kinds(requests)[-3:] == ["Save", "Evict", "Save"]
    assert len(state.memory.in_flight) == 1


def test_an_eviction_that_was_held_back_is_no_move() -> None:
    """What was not sent leaves no trace but the end of the queue, and who no longer leads writes nothing."""
    state, requested = evicting()
    dropped, requests = after(state, NotSent(uid=requested.move.uid, why="stale"))
    assert (dropped.queue, dropped.memory.moves, kinds(requests)) == ((), (), ["Save"])
    assert dropped.memory.sent == ()
    _, requests = after(state, Leading(leads=False), NotSent(uid=requested.move.uid, why="no longer leading"))
    assert requests == ()


@pytest.mark.parametrize("result", EvictionResult)
def test_only_what_may_have_been_granted_costs_the_spare(result: EvictionResult) -> None:
    """A repair that may take one eviction above the minimum has not taken it where the pod is known to have stayed."""
    state, first = evicting()
    eviction = state.queue[0]
    repair = msgspec.structs.replace(eviction.repair, extra=True, goal=1)
    queue = (msgspec.structs.replace(eviction, repair=repair),)
    state, requests = after(replace(state, queue=queue), answered(first))
    (requested,) = (request for request in requests if isinstance(request, Evict))
    assert [(spare.uid, spare.goal) for spare in state.memory.extra_evictions] == [(requested.move.uid, 1)]
    state, _ = after(state, answered(requested, result))
    stayed = {"budget", "stale", "throttled", "forbidden", "failed"}
    assert bool(state.memory.extra_evictions) is (result not in stayed)


def test_an_old_plan_is_not_carried_on() -> None:
    """Where an answer took long, the rest of the queue waits for a plan on what is."""
    state, requested = evicting()
    state, requests = step(state, answered(requested), NOW + PLAN_VALID_FOR * 2)
    assert "Evict" not in kinds(requests)
    assert state.queue == ()


def test_moves_remember_few_targets() -> None:
    """A key with thousands of domains is not kept with every move."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 20)
    on = {f"{zone}-{number}": 1 for zone in "ab" for number in range(1, 13)}
    blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1})
    state, _ = after(led(), CycleDue(snapshot=blueprint.snapshot()))
    assert {target.topology_key for move in state.memory.moves for target in move.targets} == {ZONE}


def test_a_pod_whose_eviction_is_requested_again_is_one_move() -> None:
    """After a refusal the same pod may be chosen again; its move is not there twice."""
    state, requested = evicting()
    state, _ = after(state, answered(requested, EvictionResult.BUDGET))
    state, requests = after(state, CycleDue(snapshot=SNAPSHOT))
    (again,) = (request for request in requests if isinstance(request, Evict))
    assert again.move.uid == requested.move.uid
    state, _ = after(state, answered(again))
    assert [move.state for move in state.memory.moves if move.uid == requested.move.uid] == [MoveState.EVICTED]


def test_an_answer_after_leadership_was_lost_and_won() -> None:
    """The move is known still, whatever an older memory says."""
    state, requested = evicting()
    state, _ = after(state, Leading(leads=False), Leading(leads=True), answered(requested))
    assert [move.state for move in state.memory.moves] == [MoveState.EVICTED]


def test_a_pause_is_published_once_and_its_change_again() -> None:
    """With who, why and until when, on the ConfigMap that holds the switch; its end drops it from the status."""
    pause = Pause(reason="an upgrade", by="alice")
    state, requests = after(led(), PauseRead(pause=pause))
    (published,) = (request.event for request in requests if isinstance(request, Publish))
    assert (published.reason, published.regarding, published.note) == ("RebalancePaused", SWITCH, pause.message)
    assert kinds(requests)[-1] == "Save"
    assert after(state, PauseRead(pause=pause))[1] == ()
    state, requests = after(state, PauseRead(pause=Pause(reason="another")))
    assert reasons(requests) == {"RebalancePaused"}
    state, requests = after(state, PauseRead(pause=None))
    assert (state.pause, kinds(requests)) == (None, ["Save"])


def test_nothing_is_admitted_while_paused() -> None:
    """A cycle plans as ever and says what it waits for; after the end of the pause it goes on."""
    pause = Pause(until=NOW + timedelta(seconds=10))
    state, requests = after(led(pause=pause), CycleDue(snapshot=SNAPSHOT))
    assert "Evict" not in kinds(requests)
    assert state.cycle is not None
    assert {waiting_eviction.reason for waiting_eviction in state.cycle.admission.waiting} == {"Paused"}
    assert len(state.cycle.admission.waiting) == 4
    state, requests = step(state, CycleDue(snapshot=SNAPSHOT), NOW + timedelta(seconds=10))
    assert "Evict" in kinds(requests)
    assert state.pause is None


def test_a_pause_that_was_over_when_it_was_read() -> None:
    """A pause that is over is none: not in the state, not published, and a repair under way goes on."""
    state, requested = evicting()
    state, requests = after(state, PauseRead(pause=Pause(until=NOW)))
    assert (state.pause, requests) == (None, ())
    assert "Evict" in kinds(after(state, answered(requested))[1])


def test_who_begins_to_lead_tells_of_the_pause() -> None:
    """Standbys know it and say nothing; neither do they write."""
    state = LoopState(policy=EVICTING, policy_since=NOW, pause_object=SWITCH)
    state, requests = after(state, PauseRead(pause=Pause()))
    assert (state.pause, requests) == (Pause(), ())
    assert reasons(after(state, Leading(leads=True))[1]) == {"RebalancePaused"}
    state, _ = after(state, PauseRead(pause=Pause(until=NOW + timedelta(seconds=1))))
    state, requests = step(state, Leading(leads=True), NOW + timedelta(seconds=1))
    assert (state.pause, requests) == (None, ()), "one that is over by then is none"


def test_what_was_sent_before_a_pause_is_followed_to_its_end() -> None:
    """The answer to a request that was under way counts; only what comes after waits."""
    state, requested = evicting()
    state, requests = after(state, PauseRead(pause=Pause()), answered(requested))
    assert [move.state for move in state.memory.moves] == [MoveState.EVICTED]
    assert reasons(requests) == {"Evicted"}
