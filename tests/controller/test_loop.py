"""The loop, step by step: what arrives between two evictions takes effect before the next."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from rebalancer.account.happened import RequestAnswered, TeamPolicyRefused
from rebalancer.admission.admit import Overload, RequestsRefused, ServerOverloaded
from rebalancer.admission.memory import RATE_WINDOW
from rebalancer.admission.pause import Pause
from rebalancer.controller.account import find_account
from rebalancer.controller.evictions import queue_evictions
from rebalancer.controller.loop import step
from rebalancer.controller.run_once import RunOnce
from rebalancer.controller.sender import PLAN_VALID_FOR
from rebalancer.controller.state import (
    Answered,
    ApprovalRead,
    CycleDue,
    Evict,
    Held,
    InForce,
    Leading,
    LoopEvent,
    LoopRequest,
    LoopState,
    NotSent,
    PauseRead,
    PolicyLoaded,
    PolicyRefused,
    ProcessFacts,
    Publish,
    Save,
    Saved,
    Stopping,
)
from rebalancer.controller.status import status_document
from rebalancer.documents.events import EventObjects, events_of
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.events import Regarding
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import FailedPrediction, Memory, MoveState, SentRequest
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.fates import NO_FATES
from rebalancer.policy import Amount, Budgets, Mode
from rebalancer.ports import Denial, EvictionAnswer, EvictionResult, PlacedPod, ReplicaCount
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.tracking.backoff import FIRST_WAIT
from tests.build import a_cluster, a_state
from tests.controller.simulated import eager, skewed

BUDGETS = Budgets(max_unavailable=Amount(value=9), per_workload=Amount(value=9))
EVICTING = eager(budgets=BUDGETS)
MAP = Regarding(kind="ConfigMap", namespace="rebalancer-system", name="rebalancer-policy")
APPROVAL = Regarding(kind="ConfigMap", namespace="rebalancer-system", name="rebalancer-approval")
SWITCH = Regarding(kind="ConfigMap", namespace="rebalancer-system", name="rebalancer-control")


SNAPSHOT = skewed([[3, 3], [3, 3], [0, 0]], budget=None).snapshot()
NOW = SNAPSHOT.taken_at
ALLOWING = DisruptionBudget(
    namespace="default",
    name="web",
    selector=LabelSelector(),
    generation=1,
    observed_generation=1,
    allowed=9,
    current_healthy=4,
    desired_healthy=2,
    expected=12,
)
"""A budget that has allowed nine evictions."""
CYCLE = (CycleDue(snapshot=SNAPSHOT), Saved())
SECOND = timedelta(seconds=1)


PARTS = ("in_force", "process", "leadership", "queue", "capacity", "reported")


def led(**fields: object) -> LoopState:
    """Return the state of a leader, with other fields in it or in one of its parts."""
    process = ProcessFacts(policy_object=MAP, pause_object=SWITCH)
    state = a_state(EVICTING, NOW, process=process)
    for name, value in fields.items():
        part = next((part for part in PARTS if hasattr(getattr(state, part), name)), None)
        changed = {name: value} if part is None else {part: replace(getattr(state, part), **{name: value})}
        state = replace(state, **changed)
    return state


def after(state: LoopState, *events: LoopEvent) -> tuple[LoopState, tuple[LoopRequest, ...]]:
    """Return the state after some events, and what the last of them asks for."""
    requests: tuple[LoopRequest, ...] = ()
    for event in events:
        state, requests = step(state, event, NOW)
    return state, requests


def evicting() -> tuple[LoopState, Evict]:
    """Return a loop in the middle of its evictions: one requested, three more in the queue."""
    state, requests = after(led(), *CYCLE)
    (requested,) = (request for request in requests if isinstance(request, Evict))
    assert len(state.queue.evictions) == 3
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
    assert state.queue.evictions == ()


@pytest.mark.parametrize("result", sorted(set(EvictionResult) - {EvictionResult.EVICTED, EvictionResult.GONE}))
def test_an_answer_that_was_not_planned_for(result: EvictionResult) -> None:
    """Anything but a grant ends the step: the rest waits for a plan on what is."""
    state, requested = evicting()
    state, requests = after(state, answered(requested, result))
    assert "Evict" not in kinds(requests)
    assert state.queue.evictions == ()
    expected = MoveState.PLANNED if result is EvictionResult.UNKNOWN else MoveState.REFUSED
    assert [move.state for move in state.memory.moves] == [expected]


def test_a_pod_that_was_gone_already() -> None:
    """A pod that somebody else removed is nobody's failure: the next eviction is requested."""
    state, requested = evicting()
    state, requests = after(state, answered(requested, EvictionResult.GONE))
    assert kinds(requests) == ["Evict"]
    assert MoveState.GONE in {move.state for move in state.memory.moves}


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


DENIED = EvictionAnswer(
    EvictionResult.REFUSED, "HTTP 429: denied", denial=Denial("admission webhook guard", "not now", is_temporary=True)
)


def test_an_eviction_that_admission_control_refuses_is_blocked_not_failed() -> None:
    """The events have the webhook's words; its group waits a minute, then two, or as long as the webhook asks."""
    state, requested = evicting()
    state, requests = after(state, Answered(uid=requested.move.uid, answer=DENIED))
    notes = [request.event.note for request in requests if isinstance(request, Publish)]
    assert (reasons(requests), notes[0]) == (
        {"EvictionBlocked"},
        "admission webhook guard refused the eviction: not now",
    )
    (refused,) = state.memory.refused
    pod = f"{requested.move.namespace}/{requested.move.pod}"
    assert (refused.refuser, refused.words, refused.pod) == ("admission webhook guard", "not now", pod)
    assert refused.wait == timedelta(minutes=1)
    (move,) = (move for move in state.memory.moves if move.uid == requested.move.uid)
    assert (move.state, move.deferred_until) == (MoveState.REFUSED, refused.next_try)
    (entry,) = status_document(state, "me", "file").refused_evictions
    assert (entry.pod, entry.times, entry.next_try) == (pod, 1, refused.next_try)
    _, slower = evicting()
    answer = msgspec.structs.replace(DENIED, retry_after=90.0)
    state, _ = after(evicting()[0], Answered(uid=slower.move.uid, answer=answer))
    assert state.memory.refused[0].wait == timedelta(seconds=90)


@pytest.mark.parametrize("result", [EvictionResult.BUDGET, EvictionResult.STALE])
def test_what_the_plan_counted_on_is_named_where_a_budget_refuses(result: EvictionResult) -> None:
    """In the event, and in what the group waits for: the budget as the plan knew it, and what the API server says."""
    snapshot = replace(SNAPSHOT, budgets=(ALLOWING,))
    state, requests = after(led(), CycleDue(snapshot=snapshot), Saved())
    (requested,) = (request for request in requests if isinstance(request, Evict))
    state, requests = after(state, answered(requested, result))
    (note, *_) = (request.event.note for request in requests if isinstance(request, Publish))
    pod = requested.move
    assert note == (
        f"the plan counted on PodDisruptionBudget {ALLOWING} to allow 9 evictions (4 of 2 healthy pods required); the "
        "API server says: as scripted"
    )
    assert [refused.words for refused in state.memory.refused] == [note]
    assert [refused.refuser for refused in state.memory.refused] == [""]
    assert str(RequestsRefused(1, timedelta(seconds=10), note)).startswith(
        f"the last 1 eviction request for it was not granted: {note}; next attempt in"
    )
    state, requested = evicting()
    state, requests = after(state, answered(requested, result))
    (note, *_) = (request.event.note for request in requests if isinstance(request, Publish))
    assert note.startswith(f"the plan counted on no PodDisruptionBudget to select pod {pod.namespace}/")


def test_a_long_answer_of_a_budget_is_cut() -> None:
    state, requested = evicting()
    answer = EvictionAnswer(EvictionResult.BUDGET, "x" * 1_000)
    state, _ = after(state, Answered(uid=requested.move.uid, answer=answer))
    (refused,) = state.memory.refused
    assert (len(refused.words), refused.words[-1]) == (480, "…")


def test_the_status_names_the_optional_kinds_that_may_not_be_listed() -> None:
    """Without another kind that is unknown: that one is needed, and staleness says so."""
    snapshot = replace(SNAPSHOT, unknown=frozenset({"ResourceQuota", "LimitRange", "Service"}))
    state, _ = after(led(), CycleDue(snapshot=snapshot))
    assert status_document(state, "me", "file").forbidden_kinds == ("LimitRange", "ResourceQuota")
    assert status_document(led(), "me", "file").forbidden_kinds == ()


def test_a_refused_eviction_that_is_carried_out_is_reported_as_a_move() -> None:
    """Also if one snapshot shows the pod gone and its replacement Ready; while the pod is there the group waits."""
    state, requested = evicting()
    state, _ = after(state, Answered(uid=requested.move.uid, answer=DENIED))
    later = NOW + timedelta(seconds=20)
    there, requests = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=later)), later)
    assert there.cycle is not None
    assert {waiting.reason for waiting in there.cycle.fates.kept} == {"RefusedByAdmission"}
    assert (there.queue.evictions, "MoveVerified" in reasons(requests)) == ((), False)
    victim = SNAPSHOT.pod[requested.move.uid]
    replacement = msgspec.structs.replace(victim, uid="new", name="web-new", node="c-1", created=later)
    pods = (*(pod for pod in SNAPSHOT.pods if pod.uid != victim.uid), replacement)
    moved, requests = step(there, CycleDue(snapshot=replace(SNAPSHOT, taken_at=later, pods=pods)), later)
    assert "MoveVerified" in reasons(requests)
    assert MoveState.VERIFIED in {move.state for move in moved.memory.moves}
    assert moved.memory.refused == ()


def test_an_eviction_that_is_refused_for_good_is_not_waited_for() -> None:
    """Only 429 says that the pod may go a little later."""
    state, requested = evicting()
    for_good = msgspec.structs.replace(DENIED, denial=Denial("admission webhook guard", "never"))
    state, _ = after(state, Answered(uid=requested.move.uid, answer=for_good))
    assert [move.deferred_until for move in state.memory.moves if move.uid == requested.move.uid] == [None]


def test_a_missing_right_is_known_by_namespace_until_another_answer() -> None:
    """Admission says why evictions wait there; what was not allowed may be allowed the next time."""
    state, requested = evicting()
    refused, _ = after(state, answered(requested, EvictionResult.FORBIDDEN))
    assert refused.queue.forbidden == {requested.move.namespace: "as scripted"}
    other = replace(state, queue=replace(state.queue, forbidden={**refused.queue.forbidden, "elsewhere": "no right"}))
    granted, _ = after(other, answered(requested))
    assert granted.queue.forbidden == {"elsewhere": "no right"}


def test_a_late_answer_changes_nothing() -> None:
    """An answer to a move that is not known is counted, and passed over."""
    state = led()
    late = Answered(uid="unknown", answer=EvictionAnswer(EvictionResult.EVICTED))
    counted = replace(state, happened=(RequestAnswered(EvictionResult.EVICTED),))
    assert after(state, late) == (counted, (Save(),))


def test_who_does_not_lead_does_nothing() -> None:
    """A standby neither plans nor writes."""
    state = LoopState(in_force=InForce(policy=EVICTING, policy_since=NOW))
    assert after(state, CycleDue(snapshot=SNAPSHOT)) == (state, ())
    assert after(state, Stopping())[1] == ()


def test_stale_views() -> None:
    """On a view that cannot be trusted nothing is evicted, and the cycle says why."""
    state, requests = after(led(), CycleDue(snapshot=SNAPSHOT, stale="Pod: nothing heard for 400s"))
    assert "Evict" not in kinds(requests)
    assert state.cycle is not None
    assert {waiting_eviction.reason for waiting_eviction in state.cycle.fates.kept} == {"StaleData"}


def test_moves_are_not_followed_on_a_stale_view() -> None:
    """It says nothing about what became of an eviction, however long ago that was; the next view that is none does."""
    requested, _ = after(led(), CycleDue(snapshot=SNAPSHOT))
    (uid, *_) = [move.uid for move in requested.memory.in_flight]
    granted, _ = after(requested, Saved(), Answered(uid=uid, answer=EvictionAnswer(EvictionResult.EVICTED)))
    before = {move.uid: move for move in granted.memory.moves}
    later = NOW + timedelta(hours=1)
    stale, _ = step(granted, CycleDue(snapshot=SNAPSHOT, stale="Pod: nothing heard for 400s"), later)
    assert {move.uid: move for move in stale.memory.moves}[uid] == before[uid]
    fresh, _ = step(stale, CycleDue(snapshot=SNAPSHOT), later)
    assert {move.uid: move for move in fresh.memory.moves}[uid] != before[uid]


def test_a_replacement_that_came_while_the_view_was_stale_is_found() -> None:
    """It was not in the last view that was not stale; that the owner was scaled meanwhile hides it no more."""
    requested, _ = after(led(), CycleDue(snapshot=SNAPSHOT))
    (move, *_) = requested.memory.in_flight
    granted, _ = after(requested, Saved(), Answered(uid=move.uid, answer=EvictionAnswer(EvictionResult.EVICTED)))
    victim = SNAPSHOT.pod[move.uid]
    others = tuple(pod for pod in SNAPSHOT.pods if pod.uid != move.uid)
    arrived = msgspec.structs.replace(victim, uid="new", name="web-new", created=NOW)
    scaled = tuple(msgspec.structs.replace(one, replicas=one.replicas + 1) for one in SNAPSHOT.workloads)
    later = replace(SNAPSHOT, pods=(*others, arrived), workloads=scaled)
    state, _ = after(granted, CycleDue(snapshot=later, stale="silent"), CycleDue(snapshot=later))
    assert {one.uid: one.replacement for one in state.memory.moves}[move.uid] == "new"


def test_violations_are_published_once() -> None:
    """Cycle after cycle of an unchanged violation make one event, its end makes another."""
    observing = led(policy=eager(Mode.OBSERVE))
    state, requests = after(observing, CycleDue(snapshot=SNAPSHOT))
    assert reasons(requests) == {"SkewViolated"}
    state, requests = after(state, CycleDue(snapshot=SNAPSHOT), CycleDue(snapshot=SNAPSHOT))
    assert reasons(requests) == set()
    on = {f"{zone}-{number}": 2 for zone in "abc" for number in (1, 2)}
    _, requests = after(state, CycleDue(snapshot=a_cluster("abc", 2, on, spread={ZONE: 1, HOSTNAME: 1}).snapshot()))
    assert reasons(requests) == {"SkewRecovered"}


def test_policies() -> None:
    """A new policy is published, the same one is not; an invalid one is published once, and the last stays in force."""
    state, requests = after(led(), PolicyLoaded(policy=EVICTING))
    assert requests == ()
    state, requests = after(state, PolicyRefused(message="policy.yaml:3: …"))
    assert (reasons(requests), state.in_force.policy, state.in_force.policy_error) == (
        {"PolicyInvalid"},
        EVICTING,
        "policy.yaml:3: …",
    )
    state, requests = after(state, PolicyRefused(message="policy.yaml:3: …"))
    assert requests == ()
    state, requests = after(state, PolicyLoaded(policy=EVICTING))
    assert (reasons(requests), state.in_force.policy_error) == ({"PolicyReloaded"}, "")
    state, requests = after(state, PolicyLoaded(policy=eager(Mode.OBSERVE)))
    assert (reasons(requests), state.mode) == ({"PolicyReloaded"}, Mode.OBSERVE)


def test_the_problems_of_a_policy_are_one_line_of_an_event() -> None:
    """A line each where they are shown as a list; a note is one line."""
    _, requests = after(led(policy=EVICTING), PolicyRefused(message="policy.yaml:3: a\npolicy.yaml:4: b"))
    (event,) = (request.event for request in requests if isinstance(request, Publish))
    assert event.note.endswith(" stays in force: policy.yaml:3: a; policy.yaml:4: b")
    (team,) = events_of(TeamPolicyRefused("shop", "rules.yaml:1: a\nrules.yaml:2: b"), EventObjects())
    assert team.note == "the team policy is not in force as written: rules.yaml:1: a; rules.yaml:2: b"


def test_the_process_can_only_restrain() -> None:
    """`--mode Observe` holds whatever the policy says, `--mode Evict` allows nothing that the policy does not."""
    assert led(furthest_mode=Mode.OBSERVE).mode is Mode.OBSERVE
    assert led(policy=eager(Mode.OBSERVE), furthest_mode=Mode.EVICT).mode is Mode.OBSERVE
    _, requests = after(led(furthest_mode=Mode.OBSERVE), CycleDue(snapshot=SNAPSHOT))
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
    blueprint = a_cluster("abc", 2)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}, spread={ZONE: 1, HOSTNAME: 1})
    return blueprint.snapshot()


REFUSALS = set(EvictionResult) - {EvictionResult.EVICTED, EvictionResult.GONE, EvictionResult.THROTTLED}


@pytest.mark.parametrize("result", sorted(REFUSALS))
def test_one_refusal_does_not_starve_the_others(result: EvictionResult) -> None:
    """After any answer about one workload the next one has its turn, and the refused one waits longer each time."""
    alone = led(policy=eager(budgets=BUDGETS.model_copy(update={"parallel": 1})))
    state, requests = after(alone, CycleDue(snapshot=two_workloads()), Saved())
    (requested,) = (request for request in requests if isinstance(request, Evict))
    state, requests = after(state, answered(requested, result))
    (following,) = (request for request in requests if isinstance(request, Evict))
    assert following.move.workload != requested.move.workload
    assert [(refused.group, refused.times) for refused in state.memory.refused] == [(requested.move.group, 1)]
    state, _ = after(state, answered(following), *CYCLE)
    assert state.cycle is not None
    assert state.memory.failed_predictions == (), "no prediction was wrong"


def test_a_move_is_remembered_before_it_is_sent() -> None:
    """Evictions are requested once the memory is saved that knows them, and it is saved once for a cycle."""
    state, requests = after(led(), CycleDue(snapshot=SNAPSHOT))
    assert "Evict" not in kinds(requests)
    assert kinds(requests)[-1] == "Save"
    assert len(state.memory.in_flight) == 4, "all of the cycle at once, in one request"
    _, requests = after(state, Saved())
    assert kinds(requests) == ["Evict"]


def test_an_eviction_that_was_held_back_is_no_move() -> None:
    """What was not sent leaves no trace but the end of the queue, and who no longer leads writes nothing."""
    state, requested = evicting()
    dropped, requests = after(state, NotSent(uid=requested.move.uid, why="stale", term=0, held=Held.STEPS))
    assert (dropped.queue.evictions, dropped.memory.moves, kinds(requests)) == ((), (), ["Save"])
    assert dropped.memory.sent == ()
    _, requests = after(state, Leading(leads=False), NotSent(uid=requested.move.uid, why="no longer leading", term=0))
    assert requests == ()


@pytest.mark.parametrize("result", EvictionResult)
def test_only_what_may_have_been_granted_costs_the_spare(result: EvictionResult) -> None:
    """A repair that may take one eviction above the minimum has not taken it where the pod is known to have stayed."""
    state, first = evicting()
    eviction = state.queue.evictions[0]
    repair = msgspec.structs.replace(eviction.repair, extra=True, goal=1)
    state, _ = after(state, answered(first))
    extra = msgspec.structs.replace(eviction, repair=repair)
    state, _ = queue_evictions(replace(state, queue=replace(state.queue, evictions=(), under_way=())), (extra,), NOW)
    state, requests = after(state, Saved())
    (requested,) = (request for request in requests if isinstance(request, Evict))
    assert [(spare.uid, spare.goal) for spare in state.memory.extra_evictions] == [(requested.move.uid, 1)]
    state, _ = after(state, answered(requested, result))
    stayed = {"budget", "stale", "throttled", "forbidden", "refused", "failed"}
    assert bool(state.memory.extra_evictions) is (result not in stayed)


def test_an_old_plan_is_not_carried_on() -> None:
    """Where an answer took long, the rest of the queue waits for a plan on what is."""
    state, requested = evicting()
    state, requests = step(state, answered(requested), NOW + PLAN_VALID_FOR * 2)
    assert "Evict" not in kinds(requests)
    assert state.queue.evictions == ()


def test_moves_remember_few_targets() -> None:
    """A key with thousands of domains is not kept with every move."""
    on = {f"{zone}-{number}": 1 for zone in "ab" for number in range(1, 13)}
    state, _ = after(led(), CycleDue(snapshot=a_cluster("abc", 20, on, spread={ZONE: 1, HOSTNAME: 1}).snapshot()))
    assert {target.topology_key for move in state.memory.moves for target in move.targets} == {ZONE}


def test_a_pod_whose_eviction_is_requested_again_is_one_move() -> None:
    """After a refusal the same pod may be chosen again; its move is not there twice."""
    state, requested = evicting()
    state, _ = after(state, answered(requested, EvictionResult.BUDGET))
    later = NOW + timedelta(minutes=5)
    state, _ = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=later)), later)
    state, requests = step(state, Saved(), later)
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
    assert (state.in_force.pause, kinds(requests)) == (None, ["Save"])


def test_nothing_is_admitted_while_paused() -> None:
    """A cycle plans as ever and says what it waits for; after the end of the pause it goes on."""
    pause = Pause(until=NOW + timedelta(seconds=10))
    state, requests = after(led(pause=pause), CycleDue(snapshot=SNAPSHOT))
    assert "Evict" not in kinds(requests)
    assert state.cycle is not None
    assert {waiting_eviction.reason for waiting_eviction in state.cycle.fates.kept} == {"Paused"}
    assert len(state.cycle.fates.kept) == 4
    state, _ = step(state, CycleDue(snapshot=SNAPSHOT), NOW + timedelta(seconds=10))
    state, requests = step(state, Saved(), NOW + timedelta(seconds=10))
    assert "Evict" in kinds(requests)
    assert state.in_force.pause is None


def test_a_pause_that_was_over_when_it_was_read() -> None:
    """A pause that is over is none: not in the state, not published, and a repair under way goes on."""
    state, requested = evicting()
    state, requests = after(state, PauseRead(pause=Pause(until=NOW)))
    assert (state.in_force.pause, requests) == (None, ())
    assert "Evict" in kinds(after(state, answered(requested))[1])


def test_who_begins_to_lead_tells_of_the_pause() -> None:
    """Standbys know it and say nothing; neither do they write."""
    state = LoopState(in_force=InForce(policy=EVICTING, policy_since=NOW), process=ProcessFacts(pause_object=SWITCH))
    state, requests = after(state, PauseRead(pause=Pause()))
    assert (state.in_force.pause, requests) == (Pause(), ())
    assert reasons(after(state, Leading(leads=True))[1]) == {"RebalancePaused"}
    state, _ = after(state, PauseRead(pause=Pause(until=NOW + timedelta(seconds=1))))
    state, requests = step(state, Leading(leads=True), NOW + timedelta(seconds=1))
    assert (state.in_force.pause, requests) == (None, ()), "one that is over by then is none"


def notes(requests: tuple[LoopRequest, ...]) -> list[str]:
    """Return the events on the approval's ConfigMap."""
    published = [request.event for request in requests if isinstance(request, Publish)]
    return [f"{event.reason}: {event.note}" for event in published if event.regarding == APPROVAL]


def test_a_plan_is_proposed_approved_and_carried_out() -> None:
    """Each is an event with the plan's hash, once; the approved evictions are requested after the memory is saved."""
    approving = led(policy=eager(Mode.APPROVE, budgets=BUDGETS), approval_object=APPROVAL)
    state, requests = after(approving, CycleDue(snapshot=SNAPSHOT))
    proposal = state.memory.proposal
    assert proposal is not None
    end = f"{NOW + state.in_force.policy.plan_ttl:%Y-%m-%d %H:%M:%SZ}"
    (note,) = notes(requests)
    how = f"rebalancer approve {proposal.hash}"
    assert note.startswith(
        f"PlanProposed: plan {proposal.hash} of 4 evictions waits for approval until {end}: {how}. It "
    )
    assert " from a-1 to zone c, node c-1/c-2, " in note
    assert state.queue.evictions == ()
    state, requests = after(state, Saved(), CycleDue(snapshot=SNAPSHOT))
    assert notes(requests) == []
    state, requests = after(state, Saved(), ApprovalRead(approved=proposal.hash))
    assert requests == ()
    state, requests = after(state, CycleDue(snapshot=SNAPSHOT))
    assert notes(requests) == [f"PlanApproved: plan {proposal.hash} of 4 evictions is approved and is carried out"]
    assert tuple(eviction.pod.uid for eviction in state.queue.evictions) == proposal.uids
    assert "Evict" in kinds(after(state, Saved())[1])


@pytest.mark.parametrize(
    ("approved", "what"), [(False, "was not approved"), (True, "was approved and made no progress")]
)
def test_the_end_of_a_plan_is_published(approved: bool, what: str) -> None:
    """With the hash of the old plan, before the new one."""
    approving = led(policy=eager(Mode.APPROVE, budgets=BUDGETS), approval_object=APPROVAL)
    state, _ = after(approving, CycleDue(snapshot=SNAPSHOT), Saved())
    old = state.memory.proposal
    assert old is not None
    memory = msgspec.structs.replace(state.memory, proposal=msgspec.structs.replace(old, approved=approved))
    state, requests = step(
        replace(state, memory=memory), CycleDue(snapshot=SNAPSHOT), NOW + state.in_force.policy.plan_ttl
    )
    expired, proposed = notes(requests)
    assert expired == f"PlanExpired: plan {old.hash} of 4 evictions {what} in time"
    assert proposed.startswith("PlanProposed: plan ")
    state, requests = after(state, PolicyLoaded(policy=EVICTING), CycleDue(snapshot=SNAPSHOT))
    assert (notes(requests), state.memory.proposal) == ([], None), "another mode is no expiry"


def test_what_was_sent_before_a_pause_is_followed_to_its_end() -> None:
    """The answer to a request that was under way counts; only what comes after waits."""
    state, requested = evicting()
    state, requests = after(state, PauseRead(pause=Pause()), answered(requested))
    assert [move.state for move in state.memory.moves] == [MoveState.EVICTED]
    assert reasons(requests) == {"Evicted"}


def evictions(requests: tuple[LoopRequest, ...]) -> list[Evict]:
    return [request for request in requests if isinstance(request, Evict)]


def test_independent_groups_are_evicted_from_in_parallel() -> None:
    """Up to `budgets.parallel` requests are under way, one of a group; the next of a group follows its answer."""
    state, requests = after(led(), CycleDue(snapshot=two_workloads()), Saved())
    first, second = evictions(requests)
    assert first.move.group != second.move.group
    state, requests = after(state, answered(second))
    (following,) = evictions(requests)
    assert following.move.group == second.move.group
    assert {request.uid for request in state.queue.under_way} == {first.move.uid, following.move.uid}


def test_a_plan_that_took_too_long_is_not_begun() -> None:
    """The time is read again after planning: what was planned on an old snapshot is not sent, and leaves no move."""
    state, _ = after(led(), CycleDue(snapshot=SNAPSHOT))
    state, requests = step(state, Saved(), NOW + timedelta(seconds=45))
    assert evictions(requests) == []
    assert (state.queue.evictions, state.memory.moves, state.memory.sent) == ((), (), ())


def with_needed(state: LoopState, needed: int) -> LoopState:
    """Return the state with a step of four evictions that is none with fewer than `needed`."""
    changed = [
        msgspec.structs.replace(eviction, repair=msgspec.structs.replace(eviction.repair, needed=needed))
        for eviction in state.queue.evictions
    ]
    return replace(state, queue=replace(state.queue, evictions=tuple(changed)))


@pytest.mark.parametrize(
    ("event", "torn"),
    [
        (Stopping(), False),
        (PolicyLoaded(policy=eager(budgets=Budgets())), False),
        (PolicyLoaded(policy=eager(Mode.OBSERVE)), True),
        (PauseRead(pause=Pause()), True),
        (Leading(leads=False), True),
        (None, False),
    ],
    ids=["stopping", "another policy", "observe", "paused", "leadership lost", "an old plan"],
)
def test_what_a_step_requires_is_finished(event: LoopEvent | None, torn: bool) -> None:  # a column
    """A step that has begun is sent as far as it is a step; only a pause, a lost lease and the mode tear it."""
    state, _ = after(led(), CycleDue(snapshot=SNAPSHOT))
    state, requests = after(with_needed(state, 3), Saved())
    sent = evictions(requests)
    if event is not None:
        state, _ = after(state, event)
    later = NOW if event is not None else NOW + 2 * PLAN_VALID_FOR
    while state.queue.under_way:
        state, requests = step(state, answered(sent[-1]), later)
        sent += evictions(requests)
    assert len(sent) == (1 if torn else 3)
    assert len(state.memory.moves) == len(sent), "what was not sent is no move"
    assert all(request.expected == () for request in sent[1:]), "nothing may hold the rest of a step back"


TORN = [
    (Held.GROUP, 3),
    (Held.STEPS, 2),
    (Held.ALL, 0),
]


@pytest.mark.parametrize(("held", "left"), TORN)
def test_what_another_group_may_tear(held: Held, left: int) -> None:
    """A begun step loses what it requires only to what holds everything: a pause, the lease, the mode, the switch."""
    state, _ = after(led(), CycleDue(snapshot=two_workloads()))
    state, requests = after(with_needed(state, 3), Saved())
    first, other = evictions(requests)
    dropped, _ = after(state, NotSent(uid=other.move.uid, why="a reason", term=0, held=held))
    assert sum(eviction.group == first.move.group for eviction in dropped.queue.evictions) == left
    assert not [eviction for eviction in dropped.queue.evictions if eviction.group == other.move.group]


def test_a_request_of_an_earlier_term_holds_back_nothing_of_this_one() -> None:
    """It hung while another process led; its move is resolved by what is seen, as one without an answer."""
    state, _ = after(led(), CycleDue(snapshot=two_workloads()))
    state, requests = after(with_needed(state, 3), Saved())
    first, other = evictions(requests)
    state = replace(state, leadership=replace(state.leadership, term=1))
    following, _ = after(state, NotSent(uid=other.move.uid, why="no longer leads", term=0, held=Held.ALL))
    assert following.memory.moves == state.memory.moves
    left = {eviction.pod.uid for eviction in following.queue.evictions} | {
        request.uid for request in following.queue.under_way
    }
    assert left == {eviction.pod.uid for eviction in state.queue.evictions} | {first.move.uid}


def test_three_silent_namespaces_tear_no_step() -> None:
    """What a begun step requires is sent; no other begins."""
    state, _ = after(led(), CycleDue(snapshot=two_workloads()))
    state, requests = after(with_needed(state, 3), Saved())
    first, other = evictions(requests)
    state = replace(state, queue=replace(state.queue, silent=frozenset({"one", "two"})))
    state, _ = after(state, answered(other, EvictionResult.UNKNOWN))
    assert [eviction.group for eviction in state.queue.evictions] == [first.move.group] * 2


def test_what_is_read_before_a_step() -> None:
    """The pods of the snapshot, and as many of them Ready, less those that were evicted since."""
    state, first = evicting()
    pods = {pod.uid: PlacedPod(pod.name, pod.node or "") for pod in SNAPSHOT.pods}
    assert first.expected == ((first.move.workload, ReplicaCount(12, 12, pods)),)
    state, requests = after(state, answered(first))
    (second,) = evictions(requests)
    del pods[first.move.uid]
    assert second.expected == ((first.move.workload, ReplicaCount(12, 11, pods)),)


def test_a_memory_that_was_not_saved() -> None:
    """Nothing is sent that the next leader would not know; the plan says so until the memory is saved again."""
    state, requests = after(led(), CycleDue(snapshot=SNAPSHOT), Saved(problem="the disk is full"))
    assert evictions(requests) == []
    assert state.memory.moves == ()
    state, requests = after(state, CycleDue(snapshot=SNAPSHOT))
    assert state.cycle is not None
    (reason,) = {waiting.reason for waiting in state.cycle.fates.kept}
    assert (reason, kinds(requests)) == ("MemoryNotSaved", ["Save"])
    state, requests = after(state, Saved(), *CYCLE)
    assert len(evictions(requests)) == 1


def in_namespaces(number: int) -> Snapshot:
    blueprint = a_cluster("abc", 2)
    for index in range(number):
        on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
        blueprint.deployment("web", namespace=f"team-{index}", on=on, spread={ZONE: 1, HOSTNAME: 1})
    return blueprint.snapshot()


def test_silence_in_three_namespaces_holds_everything() -> None:
    """One or two namespaces without an answer may have a sick webhook; three say that the API server is sick."""
    budgets = BUDGETS.model_copy(update={"per_node": Amount(value=99)})
    state, requests = after(led(policy=eager(budgets=budgets)), CycleDue(snapshot=in_namespaces(6)), Saved())
    sent = evictions(requests)
    assert len({request.move.namespace for request in sent}) == EVICTING.budgets.parallel
    for request in sent[:2]:
        state, requests = after(state, answered(request, EvictionResult.UNKNOWN))
        sent += evictions(requests)
    assert len({request.move.namespace for request in sent}) == 6, "the fifth and the sixth had their turn"
    assert state.queue.evictions
    state, requests = after(state, answered(sent[2], EvictionResult.UNKNOWN))
    assert state.queue.evictions == ()
    assert len(state.memory.moves) == 6


def test_an_overloaded_server_is_left_alone() -> None:
    """Nothing is sent to it for as long as it asks; every plan until then says why."""
    budgets = BUDGETS.model_copy(update={"per_node": Amount(value=99)})
    state, requests = after(led(policy=eager(budgets=budgets)), CycleDue(snapshot=two_workloads()), Saved())
    first, second = evictions(requests)
    overloaded = EvictionAnswer(EvictionResult.THROTTLED, "too many requests", retry_after=20)
    state, requests = after(state, Answered(uid=first.move.uid, answer=overloaded, overload=Overload(until=20.0)))
    assert (state.queue.evictions, evictions(requests)) == ((), [])
    state, _ = after(state, answered(second))
    for seconds, reasons_then in ((19, {"RateLimited"}), (20, {"BackOff"})):
        now = NOW + timedelta(seconds=seconds)
        snapshot = replace(two_workloads(), taken_at=now)
        later, _ = step(state, CycleDue(snapshot=snapshot, read_at=float(seconds)), now)
        assert later.cycle is not None
        waiting = {one.reason for one in later.cycle.fates.kept if one.eviction.group == first.move.group}
        assert waiting == reasons_then or (seconds == 20 and not waiting)


@pytest.mark.parametrize("set_by", [timedelta(hours=-6), timedelta(hours=6)])
def test_a_clock_that_is_set_changes_no_overload(set_by: timedelta) -> None:
    """The wait is by the clock that only increases: neither shorter nor longer."""
    state, requests = after(led(), CycleDue(snapshot=two_workloads()), Saved())
    (first, _) = evictions(requests)
    overloaded = EvictionAnswer(EvictionResult.THROTTLED, "too many requests", retry_after=20)
    state, _ = after(state, Answered(uid=first.move.uid, answer=overloaded, overload=Overload(until=20.0)))
    now = NOW + set_by
    for seconds, waits in ((19.0, True), (20.0, False)):
        later, _ = step(state, CycleDue(snapshot=replace(two_workloads(), taken_at=now), read_at=seconds), now)
        assert later.cycle is not None
        assert (ServerOverloaded(timedelta(seconds=1)) in {one.refusal for one in later.cycle.fates.kept}) == waits


def test_the_account_says_at_once_that_the_server_is_overloaded() -> None:
    """Of the groups that are not refused themselves too, with the cycle in which the answer came still the last."""
    state, requests = after(led(), CycleDue(snapshot=two_workloads(), read_at=3.0), Saved())
    (first, _) = evictions(requests)
    overloaded = EvictionAnswer(EvictionResult.THROTTLED, "too many requests", retry_after=20)
    state, _ = after(state, Answered(uid=first.move.uid, answer=overloaded, overload=Overload(until=23.5)))
    assert state.cycle is not None
    assert find_account(state, state.cycle).common == ServerOverloaded(timedelta(seconds=20.5))


def test_a_clock_that_was_set_back_prolongs_no_back_off() -> None:
    """A group whose request was refused waits from the first cycle on, not until the clock is where it was."""
    state, requested = evicting()
    state, _ = after(state, answered(requested, EvictionResult.BUDGET))
    then = NOW - timedelta(hours=6)
    for seconds, waits in ((0, True), (9, True), (11, False)):
        now = then + timedelta(seconds=seconds)
        state, _ = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=now)), now)
        assert state.cycle is not None
        assert ("BackOff" in {one.reason for one in state.cycle.fates.kept}) is waits


def test_a_clock_that_was_set_back_prolongs_no_wait_after_a_failed_prediction() -> None:
    """It waits for five minutes from the first cycle on, not until the clock is where it was."""
    _, requested = evicting()
    failed = FailedPrediction(requested.move.group, 1, NOW)
    state = led(memory=Memory(failed_predictions=(failed,)))
    then = NOW - timedelta(hours=6)
    for passed, waits in ((timedelta(0), True), (FIRST_WAIT - SECOND, True), (FIRST_WAIT, False)):
        now = then + passed
        state, _ = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=now)), now)
        assert state.cycle is not None
        assert ("BackOff" in {one.reason for one in state.cycle.fates.kept}) is waits


def test_a_clock_that_was_set_back_prolongs_no_rate() -> None:
    """What was sent in the last minute counts for a minute from the first cycle on."""
    policy = eager(budgets=BUDGETS.model_copy(update={"per_minute": Amount(value=4)}))
    state = led(policy=policy, memory=Memory(sent=(SentRequest(NOW),) * 4))
    then = NOW - timedelta(hours=6)
    for passed, waits in ((timedelta(0), True), (RATE_WINDOW - SECOND, True), (RATE_WINDOW, False)):
        now = then + passed
        state, _ = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=now)), now)
        assert state.cycle is not None
        assert ({one.reason for one in state.cycle.fates.kept} == {"RateLimited"}) is waits


def test_a_group_waits_as_long_as_the_server_asks() -> None:
    """An answer with Retry-After, about one group: for that time and no shorter one it is not requested again."""
    state, requested = evicting()
    still_busy = EvictionAnswer(EvictionResult.STALE, "still being processed by the server", retry_after=25)
    state, _ = after(state, Answered(uid=requested.move.uid, answer=still_busy))
    for seconds, waits in ((24, True), (25, False)):
        now = NOW + timedelta(seconds=seconds)
        later, _ = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=now)), now)
        assert later.cycle is not None
        assert ("BackOff" in {one.reason for one in later.cycle.fates.kept}) is waits


def test_another_group_is_first_in_each_cycle() -> None:
    """So a group whose requests hang or are refused cannot be first for ever."""
    state, requests = after(led(), CycleDue(snapshot=two_workloads()), Saved())
    first = evictions(requests)[0]
    state, _ = after(led(turn=state.turn), CycleDue(snapshot=two_workloads()), Saved())
    assert state.queue.under_way[0].group != first.move.group


def test_the_next_leader_requests_at_once_what_was_stored_and_never_requested() -> None:
    """The same pods, which it has read; what it could not read counts as evicted until it is known."""
    stored, _ = after(led(), CycleDue(snapshot=SNAPSHOT))
    planned = [move.uid for move in stored.memory.moves]
    assert len(planned) == 4
    later = NOW + 20 * SECOND
    for remaining in (planned, planned[:1], []):
        state, _ = after(led(), Leading(leads=True, memory=stored.memory, remaining=frozenset(remaining)))
        assert [move.uid for move in state.memory.unexecuted] == remaining
        state, _ = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=later)), later)
        assert state.cycle is not None
        assert {one.pod.uid for one in state.cycle.fates.going} == set(remaining)
    state, _ = after(led(), Leading(leads=True, memory=stored.memory, remaining=frozenset(planned)))
    state, _ = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=later)), later)
    assert {(move.uid, move.requested_at) for move in state.memory.in_flight} == {(uid, later) for uid in planned}


def test_the_answer_to_a_request_of_its_own_is_waited_for() -> None:
    """Who leads again with a request under way does not request that eviction again, whatever the pod was."""
    state, requested = evicting()
    uid = requested.move.uid
    saved = state.memory
    state, _ = after(state, Leading(leads=False), Leading(leads=True, memory=saved, remaining=frozenset({uid})))
    assert uid in {move.uid for move in state.memory.in_flight}


def test_once_waits_for_what_may_still_be_carried_out() -> None:
    """`run --once` does not end while an eviction of the last process is undecided."""
    stored, _ = after(led(), CycleDue(snapshot=SNAPSHOT))
    unexecuted = msgspec.structs.replace(stored.memory.moves[0], uid="another", unexecuted=True)
    state, _ = after(led(memory=Memory(moves=(unexecuted,))), CycleDue(snapshot=SNAPSHOT))
    once = RunOnce()
    quiet = replace(state, memory=Memory(moves=(unexecuted,)))
    assert state.cycle is not None
    idle = replace(state.cycle, fates=NO_FATES)
    assert not any(once.is_done(replace(quiet, cycle=idle)) for _ in range(10))
    assert any(once.is_done(replace(quiet, cycle=idle, memory=Memory())) for _ in range(10))


@pytest.mark.parametrize("result", [EvictionResult.BUDGET, EvictionResult.FAILED, None])
def test_a_repeated_request_without_effect_leaves_what_may_be_carried_out(result: EvictionResult | None) -> None:
    """Refused, or not sent (None): the request of the last leader may still be carried out, so its workload waits."""
    stored, _ = after(led(), CycleDue(snapshot=SNAPSHOT))
    planned = frozenset(move.uid for move in stored.memory.moves)
    state, _ = after(led(), Leading(leads=True, memory=stored.memory, remaining=planned))
    later = NOW + 20 * SECOND
    state, _ = step(state, CycleDue(snapshot=replace(SNAPSHOT, taken_at=later)), later)
    state, requests = step(state, Saved(), later)
    (repeated,) = (request for request in requests if isinstance(request, Evict))
    uid = repeated.move.uid
    event = NotSent(uid=uid, why="not Ready", term=repeated.term) if result is None else answered(repeated, result)
    state, _ = step(state, event, later)
    assert {move.uid for move in state.memory.unexecuted} == planned
    assert {move.requested_at for move in state.memory.unexecuted} == {NOW}
