"""What the clock, the mode and the rates let through."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.admit import (
    Admission,
    AdmissionContext,
    BackingOff,
    BreakerOpen,
    EvictionUndecided,
    NotAllowed,
    NotLasting,
    Overload,
    Paused,
    RefusedByAdmission,
    ServerOverloaded,
    Stale,
    admit,
)
from rebalancer.admission.memory import MOST_IN_FLIGHT, update_memory
from rebalancer.admission.opening import OutsideWindow
from rebalancer.admission.pause import Pause
from rebalancer.admission.rates import RateReached, TooManyInFlight
from rebalancer.admission.rights import RightMissing, Rights
from rebalancer.admission.slow_start import ReplacementNotCreated
from rebalancer.assessment.assess import Assessment
from rebalancer.engine import evaluate
from rebalancer.model.breaker import BreakerCause, BreakerState, OpenCause
from rebalancer.model.moves import (
    NO_MEMORY,
    ExtraEviction,
    FailedPrediction,
    Memory,
    MoveState,
    SentRequest,
    make_place,
    make_token,
)
from rebalancer.model.reasons import Cause, Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.policy import (
    NO_TEAM_POLICY,
    Amount,
    Budgets,
    Mode,
    Policy,
    Spread,
    TeamBudgets,
    TeamPolicies,
    TeamReading,
    Window,
    merge,
)
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.tracking.backoff import record_failure, record_refusal
from rebalancer.tracking.moves import ANSWER_TIMEOUT
from tests.build import a_cluster, with_evictions, with_node, with_nodes
from tests.controller.simulated import eager
from tests.tracking.build import move

PLENTY: dict[str, Amount] = dict.fromkeys(
    ("max_unavailable", "per_workload", "per_cycle", "per_node", "per_namespace", "per_minute"), Amount(value=100)
)


def rules(mode: Mode = Mode.EVICT, *, lasting: int = 0, **budgets: Amount) -> Policy:
    spread = Spread(for_=timedelta(seconds=lasting))
    return eager(mode, budgets=Budgets(**{**PLENTY, **budgets}), spread=spread)


def skewed() -> Snapshot:
    """Two workloads in two namespaces, four evictions each, one from each of four nodes."""
    blueprint = a_cluster("abc", 2)
    for namespace in ("one", "two"):
        on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
        blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1}, namespace=namespace)
    return blueprint.snapshot()


def assess_and_plan(policy: Policy) -> tuple[Snapshot, Assessment, Plan]:
    snapshot = skewed()
    evaluation = evaluate(snapshot, policy)
    return snapshot, evaluation.assessment, evaluation.plan


def admitted(policy: Policy, memory: Memory = NO_MEMORY, *, later: int = 0, **fields: Any) -> Admission:
    snapshot, assessment, made = assess_and_plan(policy)
    now = snapshot.taken_at
    memory = update_memory(memory, assessment, made, now)
    context = AdmissionContext(policy=policy, mode=policy.mode, now=now + timedelta(seconds=later), **fields)
    return admit(made, snapshot, memory, context)


def reasons(admission: Admission) -> set[Reason]:
    return {waiting_eviction.reason for waiting_eviction in admission.fates.kept}


@pytest.mark.parametrize(
    ("lasting", "failed", "said"),
    [(0, 0, Reason.NODE_SETTLING), (3600, 0, Reason.NOT_PERSISTENT), (30, 0, Reason.NODE_SETTLING)]
    + [(lasting, 3, Reason.BACK_OFF) for lasting in (0, 3600)],
)
def test_what_waits_for_nodes_waits_for_what_ends_last(lasting: int, failed: int, said: Reason) -> None:
    """It is not said to go on when nodes have settled where the violation has to last longer, or nothing is tried."""
    policy = rules(lasting=lasting)
    policy = policy.model_copy(update={"nodes": Nodes(settle=timedelta(minutes=5))})
    snapshot = skewed()
    joined = {name: {"ready_since": snapshot.taken_at - timedelta(minutes=1)} for name in ("c-1", "c-2")}
    evaluation = evaluate(with_nodes(snapshot, joined), policy)
    made, now = evaluation.plan, snapshot.taken_at
    names = [component.name for component in made.components]
    failures = tuple(FailedPrediction(name, failed, now) for name in names if failed)
    context = AdmissionContext(policy=policy, mode=policy.mode, now=now)
    admission = admit(made, evaluation.inputs.snapshot, Memory(failed_predictions=failures), context)
    assert {wait.reason for wait in made.fates.kept} == {Reason.NODE_SETTLING}
    assert not admission.fates.going
    assert reasons(admission) == {said}


def test_everything_goes_where_nothing_speaks_against_it() -> None:
    """Eight planned, eight admitted, in the plan's order."""
    admission = admitted(rules())
    assert len(admission.fates.going) == 8
    assert admission.fates.kept == ()
    planned = assess_and_plan(rules())[2].fates.going
    order = [(eviction.step, eviction.pod.uid) for eviction in admission.fates.going]
    assert order == [(eviction.step, eviction.pod.uid) for eviction in planned]


def test_observing() -> None:
    """In Observe everything waits."""
    admission = admitted(rules(Mode.OBSERVE))
    assert (admission.fates.going, reasons(admission)) == ((), {Reason.OBSERVE_ONLY})


@pytest.mark.parametrize("mode", list(Mode))
def test_a_pause(mode: Mode) -> None:
    """While it holds everything waits for it, in any mode, and the message is the pause's own."""
    pause = Pause(until=skewed().taken_at + timedelta(seconds=60), reason="an upgrade", by="alice")
    admission = admitted(rules(mode), pause=pause, later=59, at_once=True)
    assert (admission.fates.going, reasons(admission)) == ((), {Reason.PAUSED})
    assert {waiting.refusal for waiting in admission.fates.kept} == {Paused(pause.message, pause.until)}


@pytest.mark.parametrize("breaker", [False, True])
def test_a_replacement_that_is_not_created_stops_its_namespace_alone(breaker: bool) -> None:
    """Whatever the workload. An open breaker would hide why: the moves that it counts fail for the same reason."""
    overdue = move("x", skewed().taken_at, namespace="one", state=MoveState.EVICTED, uncreated="exceeded quota")
    at = overdue.requested_at
    cause = OpenCause(cause=BreakerCause.FAILED_MOVES, part=5, total=5, bound=20, since=at, last=at)
    state = BreakerState((cause,) if breaker else ())
    admission = admitted(rules(), Memory(moves=(overdue,)), breaker=state)
    assert {one.pod.namespace for one in admission.fates.going} == (set() if breaker else {"two"})
    held = {waits.refusal for waits in admission.fates.kept if waits.reason is Reason.CANNOT_CREATE}
    assert held == {ReplacementNotCreated(overdue.workload, "x", "exceeded quota")}
    assert sum(waits.reason is Reason.CANNOT_CREATE for waits in admission.fates.kept) == 4


def test_a_pause_that_is_over() -> None:
    """It holds nothing back."""
    pause = Pause(until=skewed().taken_at + timedelta(seconds=60))
    assert len(admitted(rules(), pause=pause, later=60).fates.going) == 8


def test_stale_knowledge() -> None:
    """On a view that cannot be trusted nothing is done."""
    admission = admitted(rules(), stale="Pod: nothing heard for 400s")
    assert (admission.fates.going, reasons(admission)) == ((), {Reason.STALE_DATA})
    assert admission.fates.kept[0].refusal == Stale("Pod: nothing heard for 400s")


NOON = Window(schedule="0 12 * * *", duration=timedelta(hours=1))


def test_outside_of_all_windows() -> None:
    """Everything waits, also with `--once`, and the cause says which window opens when."""
    policy = rules().model_copy(update={"windows": (NOON,)})
    midnight = skewed().taken_at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    start = skewed().taken_at
    at_noon = int((midnight + timedelta(hours=12) - start).total_seconds())
    admission = admitted(policy, later=at_noon - 1, at_once=True)
    assert (admission.fates.going, reasons(admission)) == ((), {Reason.OUTSIDE_WINDOW})
    cause = OutsideWindow(midnight + timedelta(hours=12), "0 12 * * *", "UTC")
    assert {waiting.refusal for waiting in admission.fates.kept} == {cause}
    for inside in (at_noon, at_noon + 3599):
        assert len(admitted(policy, later=inside).fates.going) == 8
    assert reasons(admitted(policy, later=at_noon + 3600)) == {Reason.OUTSIDE_WINDOW}


def test_an_open_breaker() -> None:
    """Everything waits, also with `--once`, for a cause that has its numbers."""
    now = skewed().taken_at
    cause = OpenCause(cause=BreakerCause.UNREADY_NODES, part=3, total=10, bound=20, since=now, last=now)
    admission = admitted(rules(), breaker=BreakerState((cause,)), later=30, at_once=True)
    assert (admission.fates.going, reasons(admission)) == ((), {Reason.BREAKER_OPEN})
    expected = BreakerOpen((cause,), now + timedelta(seconds=30), timedelta(minutes=5))
    assert {waiting.refusal for waiting in admission.fates.kept} == {expected}
    closed = rules().model_copy(update={"windows": (Window(schedule="0 0 29 2 *", duration=timedelta(seconds=1)),)})
    assert reasons(admitted(closed, breaker=BreakerState((cause,)))) == {Reason.OUTSIDE_WINDOW}


def test_what_people_have_decided_is_named_before_a_window() -> None:
    """A pause, the mode Observe, and stale data come first: the window would not change anything then."""
    closed = {"windows": (Window(schedule="0 0 29 2 *", duration=timedelta(seconds=1)),)}
    evict, observe = (rules(mode).model_copy(update=closed) for mode in (Mode.EVICT, Mode.OBSERVE))
    assert reasons(admitted(evict)) == {Reason.OUTSIDE_WINDOW}
    assert reasons(admitted(evict, pause=Pause())) == {Reason.PAUSED}
    assert reasons(admitted(observe)) == {Reason.OBSERVE_ONLY}
    assert reasons(admitted(evict, stale="Pod: nothing heard for 400s")) == {Reason.STALE_DATA}


@pytest.mark.parametrize(("later", "goes"), [(0, False), (119, False), (120, True)])
def test_a_violation_must_last(later: int, goes: bool) -> None:
    """`spread.for` counts from the cycle that first saw the violation."""
    admission = admitted(rules(lasting=120), later=later)
    assert bool(admission.fates.going) is goes
    assert reasons(admission) == (set() if goes else {Reason.NOT_PERSISTENT})


@pytest.mark.parametrize(
    ("cause", "field"), [(Cause.SKEW_VIOLATED, "spread.for"), (Cause.SHARE_LIMIT_VIOLATED, "the limit's for")]
)
def test_a_violation_that_must_last_names_the_field_that_says_so(cause: Cause, field: str) -> None:
    policy = rules(lasting=120)
    snapshot, _, made = assess_and_plan(policy)
    evictions = tuple(
        structs.replace(eviction, repair=structs.replace(eviction.repair, cause=cause)) for eviction in made.fates.going
    )
    context = AdmissionContext(policy=policy, mode=policy.mode, now=snapshot.taken_at)
    admission = admit(with_evictions(made, evictions), snapshot, NO_MEMORY, context)
    assert admission.fates.kept[0].refusal == NotLasting(timedelta(0), field, timedelta(seconds=120))


def test_at_once() -> None:
    """`run --once` does not wait for it."""
    assert len(admitted(rules(lasting=120), at_once=True).fates.going) == 8


def test_what_recovers_begins_anew() -> None:
    """A group that was right in between has not been violated all the time, nor missed; its repair may spare anew."""
    snapshot, assessment, made = assess_and_plan(rules())
    now = snapshot.taken_at
    first = update_memory(NO_MEMORY, assessment, made, now)
    assert {since for _, since in first.seen} == {now}
    remaining = update_memory(first, assessment, made, now + timedelta(hours=1))
    assert {since for _, since in remaining.seen} == {now}
    names = sorted(group.name for group in made.components)
    held = structs.replace(
        record_refusal(record_failure(remaining, names[0], now), names[0], now, timedelta(minutes=1)),
        extra_evictions=tuple(ExtraEviction(name, 1) for name in names),
    )
    assert update_memory(held, assessment, made, now) == held
    assert update_memory(held, Assessment(groups=()), structs.replace(made, components=()), now) == NO_MEMORY


def test_a_repair_waits_for_nodes_that_settle_once() -> None:
    """When it first waited is stored, not anew at each plan that waits, until the group needs no repair."""
    policy = rules().model_copy(update={"nodes": Nodes(settle=timedelta(minutes=5))})
    snapshot = skewed()
    settling = with_node(snapshot, "c-1", ready_since=snapshot.taken_at)
    first = evaluate(settling, policy)
    assessment, waits = first.assessment, first.plan
    now = snapshot.taken_at
    memory = update_memory(NO_MEMORY, assessment, waits, now)
    assert memory.settling == tuple(sorted((make_token(group.name), now) for group in waits.components))
    for later in (waits, assess_and_plan(rules())[2]):  # one plan waits, in the other all nodes have settled
        following = update_memory(memory, assessment, later, now + timedelta(minutes=1))
        assert following.settling == memory.settling
    assert not evaluate(settling, policy, memory=memory).plan.fates.going
    over = structs.replace(memory, settling=tuple((token, now - timedelta(minutes=5)) for token, _ in memory.settling))
    assert len(evaluate(settling, policy, memory=over).plan.fates.going) == 8
    ahead = structs.replace(memory, settling=tuple((token, now + timedelta(hours=1)) for token, _ in memory.settling))
    assert update_memory(ahead, assessment, waits, now).settling == memory.settling
    satisfied = structs.replace(waits, components=())
    assert update_memory(memory, Assessment(groups=()), satisfied, now) == NO_MEMORY


@pytest.mark.parametrize(
    ("budget", "allowed"),
    [
        ({"per_cycle": Amount(value=3)}, 3),
        ({"per_minute": Amount(value=5)}, 5),
        ({"per_node": Amount(value=1)}, 4),
        ({"per_namespace": Amount(value=2)}, 4),
        ({"per_namespace": Amount(value=25, percent=True)}, 6),
        ({"per_cycle": Amount(value=0)}, 0),
    ],
)
def test_rates(budget: dict[str, Amount], allowed: int) -> None:
    """Each rate lets a prefix of every step through and names itself to the rest."""
    admission = admitted(rules(Mode.EVICT, lasting=0, **budget))
    assert len(admission.fates.going) == allowed
    assert reasons(admission) == {Reason.RATE_LIMITED}
    assert len(admission.fates.kept) == 8 - allowed
    ((field, _),) = budget.items()
    name = Budgets.model_fields[field].alias
    causes = [waiting.refusal for waiting in admission.fates.kept]
    assert {cause.budget for cause in causes if isinstance(cause, RateReached)} == {name}
    assert all(isinstance(cause, RateReached) for cause in causes)


def test_the_last_minute_counts() -> None:
    """What was sent a moment ago counts towards perMinute, what was sent before that does not."""
    now = skewed().taken_at
    sent = tuple(SentRequest(now - timedelta(seconds=age)) for age in (90, 59, 1))
    admission = admitted(rules(per_minute=Amount(value=5)), structs.replace(NO_MEMORY, sent=sent))
    assert len(admission.fates.going) == 3


@pytest.mark.parametrize("interval", [10, 60, 600])
@pytest.mark.parametrize(
    ("budget", "node", "namespace", "allowed"),
    [
        ({"per_cycle": Amount(value=3)}, "elsewhere", "elsewhere", 1),
        ({"per_node": Amount(value=1)}, "b-2", "elsewhere", 1),
        ({"per_namespace": Amount(value=3)}, "elsewhere", "one", 4),
    ],
)
def test_rates_hold_for_time_not_for_cycles(
    budget: dict[str, Amount], node: str, namespace: str, allowed: int, interval: int
) -> None:
    """What was sent within the interval, at most a minute, counts in every cycle; the next one is due when it ends."""
    now = skewed().taken_at
    policy = rules(Mode.EVICT, lasting=0, **budget).model_copy(update={"interval": timedelta(seconds=interval)})
    window = timedelta(seconds=min(interval, 60))
    for age, counts in ((window - timedelta(seconds=1), True), (window, False)):
        sent = tuple(SentRequest(now - age, make_place(node), make_place(namespace)) for _ in range(2))
        admission = admitted(policy, structs.replace(NO_MEMORY, sent=sent))
        assert reasons(admission) == {Reason.RATE_LIMITED}
        ((_, amount),) = budget.items()
        without = {"per_cycle": 3, "per_node": 4, "per_namespace": 6}[next(iter(budget))]
        assert len(admission.fates.going) == (allowed if counts else without), amount
        assert admission.next_try == now + (timedelta(seconds=1) if counts else window)


def test_a_rate_of_zero_frees_at_no_time() -> None:
    admission = admitted(rules(per_cycle=Amount(value=0)))
    assert admission.next_try is None


def test_a_step_that_needs_two_goes_whole_or_not_at_all() -> None:
    """A step of two concurrent evictions is not admitted where the rate allows only one."""
    policy = rules(per_namespace=Amount(value=1))
    snapshot, assessment, made = assess_and_plan(policy)
    pairs = {eviction.step: structs.replace(eviction.repair, needed=2) for eviction in made.fates.going}
    paired = with_evictions(
        made, tuple(structs.replace(eviction, repair=pairs[eviction.step]) for eviction in made.fates.going)
    )
    now = snapshot.taken_at
    context = AdmissionContext(policy=policy, mode=policy.mode, now=now)
    admission = admit(paired, snapshot, update_memory(NO_MEMORY, assessment, made, now), context)
    assert admission.fates.going == ()
    assert len(admission.fates.kept) == 8
    enough = rules(per_cycle=Amount(value=3))
    admission = admit(paired, snapshot, NO_MEMORY, replace(context, policy=enough))
    assert len(admission.fates.going) == 3, "what was given back is there for others"


def test_what_holds_everything() -> None:
    """A memory that was not saved, and an overloaded server for as long as it asks."""
    admission = admitted(rules(), unsaved="HTTP 409")
    assert (admission.fates.going, reasons(admission)) == ((), {Reason.MEMORY_NOT_SAVED})
    overload = Overload(until=45.0)
    admission = admitted(rules(), overload=overload, read_at=42.0)
    assert {waiting.refusal for waiting in admission.fates.kept} == {ServerOverloaded(timedelta(seconds=3))}
    for read_at in (45.0, 46.0):
        assert len(admitted(rules(), overload=overload, read_at=read_at).fates.going) == 8


@pytest.mark.parametrize("is_open", [False, True])
def test_evictions_that_are_not_allowed_wait_in_their_namespace(*, is_open: bool) -> None:
    """With the API server's message, also while the refused requests hold the breaker open; a pause is said first."""
    _, _, made = assess_and_plan(rules())
    now = skewed().taken_at
    cause = OpenCause(cause=BreakerCause.API_ERRORS, part=5, total=9, bound=20, since=now, last=now)
    breaker = BreakerState((cause,) if is_open else ())
    memory = NO_MEMORY
    for group in made.components:
        memory = record_refusal(memory, group.name, now, timedelta(minutes=1))
    message = "pods is forbidden"
    spaces = {eviction.pod.namespace for eviction in made.fates.going}
    forbidden = dict.fromkeys(spaces, message)
    admission = admitted(rules(), memory, forbidden=forbidden, breaker=breaker)
    causes = {waiting.refusal for waiting in admission.fates.kept}
    assert (admission.fates.going, causes) == ((), {NotAllowed(message, timedelta(minutes=1))})
    assert reasons(admission) == {Reason.FORBIDDEN}
    elsewhere = admitted(rules(), memory, forbidden={"elsewhere": message}, breaker=breaker)
    assert reasons(elsewhere) == {Reason.BREAKER_OPEN if is_open else Reason.BACK_OFF}
    assert reasons(admitted(rules(), memory, forbidden=forbidden, breaker=breaker, pause=Pause())) == {Reason.PAUSED}


def test_evictions_that_admission_control_refused_wait_in_their_group() -> None:
    """With the refuser's name and words, and the time of the next request; other groups go on."""
    _, _, made = assess_and_plan(rules())
    now, name = skewed().taken_at, made.components[0].name
    minute = timedelta(minutes=1)
    memory = record_refusal(NO_MEMORY, name, now, minute, refuser="admission webhook guard", words="not now")
    admission = admitted(rules(), memory)
    assert {waiting.refusal for waiting in admission.fates.kept} == {
        RefusedByAdmission("admission webhook guard", "not now", now + minute)
    }
    assert {waiting.eviction.group for waiting in admission.fates.kept} == {name}
    assert {eviction.group for eviction in admission.fates.going} == {group.name for group in made.components} - {name}
    again = record_refusal(memory, name, now, minute)
    assert Reason.BACK_OFF in reasons(admitted(rules(), again)), "the last answer was another one"


def test_no_more_in_flight_than_the_memory_holds() -> None:
    """Beyond that number evictions wait, as by a rate; one that admission control deferred may be in flight at once."""
    number = MOST_IN_FLIGHT - 3
    now = skewed().taken_at
    moves = tuple(move(f"other-{index}", now, namespace="elsewhere") for index in range(number))
    admission = admitted(rules(), structs.replace(NO_MEMORY, moves=moves))
    assert len(admission.fates.going) == 3
    deferred = structs.replace(moves[0], state=MoveState.REFUSED, deferred_until=now)
    assert len(admitted(rules(), structs.replace(NO_MEMORY, moves=(deferred, *moves[1:]))).fates.going) == 3
    assert {waiting.refusal for waiting in admission.fates.kept} == {TooManyInFlight(MOST_IN_FLIGHT)}
    assert reasons(admission) == {Reason.RATE_LIMITED}


def test_steps_take_turns() -> None:
    """In each cycle another step is first, so that a rate does not always serve the same one."""
    few = rules(per_cycle=Amount(value=1))
    firsts = [admitted(few, turn=turn).fates.going[0].group for turn in range(4)]
    assert firsts[0] != firsts[1]
    assert firsts[:2] == firsts[2:]


def test_a_team_sends_fewer_evictions_in_its_namespace_alone() -> None:
    """The message names the team policy's budget."""
    cluster = rules().model_copy(update={"team_policies": TeamPolicies(namespaces=("one",))})
    team = NO_TEAM_POLICY.model_copy(update={"budgets": TeamBudgets(per_namespace=Amount(value=1))})
    admission = admitted(merge(cluster, {"one": TeamReading(policy=team)}).policy)
    assert sorted(eviction.pod.namespace for eviction in admission.fates.going) == ["one", *["two"] * 4]
    assert {waiting.refusal for waiting in admission.fates.kept} == {
        RateReached("perNamespace of the team policy", 1, timedelta(minutes=1)),
        RateReached("perNamespace of the team policy", 1, is_behind=True),
    }


def of_last_leader(*numbers: int, namespace: str = "one", **fields: Any) -> Memory:
    """Return the memory of a new leader that has found the pods of these evictions of the plan's first step."""
    snapshot, _, made = assess_and_plan(rules())
    step = [one for one in made.fates.going if one.pod.namespace == namespace]
    moves = [
        move(
            step[number].pod.uid,
            snapshot.taken_at - timedelta(seconds=15),
            namespace=namespace,
            node=step[number].pod.node or "",
            workload=step[number].workload,
            group=step[number].group,
            unexecuted=True,
        )
        for number in numbers
    ]
    return Memory(moves=tuple(moves), **fields)


def test_of_an_eviction_that_may_still_be_carried_out_only_the_same_pod_goes() -> None:
    """The rest of its workload waits until two minutes after the request; other workloads do not."""
    memory = of_last_leader(0)
    (unexecuted,) = memory.moves
    admission = admitted(rules(), memory)
    assert [one.pod.uid for one in admission.fates.going if one.pod.namespace == "one"] == [unexecuted.uid]
    assert sum(one.pod.namespace == "two" for one in admission.fates.going) == 4
    until = unexecuted.requested_at + ANSWER_TIMEOUT
    undecided = EvictionUndecided(unexecuted.pod, until)
    assert [one.refusal for one in admission.fates.kept] == [undecided] * 3
    assert admission.next_try == until


@pytest.mark.parametrize(
    ("repeated", "needed", "goes"),
    [
        pytest.param([0, 1, 2, 3], 1, 4, id="the same step"),
        pytest.param([0, 1], 2, 2, id="as many of it as it needs at once"),
        pytest.param([0], 2, 0, id="fewer than it needs at once"),
        pytest.param([1], 1, 0, id="another pod comes first"),
    ],
)
def test_a_step_goes_as_far_as_its_pods_are_the_same(repeated: list[int], needed: int, goes: int) -> None:
    snapshot, assessment, made = assess_and_plan(rules())
    evictions = tuple(
        structs.replace(one, repair=structs.replace(one.repair, needed=needed)) for one in made.fates.going
    )
    now = snapshot.taken_at
    memory = update_memory(of_last_leader(*repeated), assessment, made, now)
    context = AdmissionContext(policy=rules(), mode=Mode.EVICT, now=now)
    admission = admit(with_evictions(made, evictions), snapshot, memory, context)
    assert sum(one.pod.namespace == "one" for one in admission.fates.going) == goes
    assert sum(isinstance(one.refusal, EvictionUndecided) for one in admission.fates.kept) == 4 - goes


@pytest.mark.parametrize(("allowed", "goes"), [(2, 2), (3, 3)])
def test_the_requests_for_the_same_pods_take_the_place_of_the_first_ones_in_the_rates(allowed: int, goes: int) -> None:
    """Else they would wait for a rate that they have used themselves; further pods wait for it."""
    memory = of_last_leader(0, 1)
    sent = tuple(SentRequest(one.requested_at, make_place(one.node), make_place("one")) for one in memory.moves)
    admission = admitted(rules(per_minute=Amount(value=allowed)), structs.replace(memory, sent=sent))
    repeated = {one.uid for one in memory.moves}
    assert repeated <= {one.pod.uid for one in admission.fates.going}
    assert len(admission.fates.going) == goes
    assert Reason.RATE_LIMITED in reasons(admission)


def test_a_step_that_a_rate_refuses_gives_back_what_it_has_not_taken() -> None:
    """Two of two concurrent evictions: the first repeats a request, for the second there is no place."""
    snapshot, assessment, made = assess_and_plan(rules())
    evictions = tuple(
        structs.replace(one, repair=structs.replace(one.repair, needed=2))
        for one in made.fates.going
        if one.pod.namespace == "one"
    )
    memory = of_last_leader(0, 1)
    first = memory.moves[0]
    sent = SentRequest(first.requested_at, make_place(first.node), make_place("one"))
    moves = (first, structs.replace(memory.moves[1], requested_at=first.requested_at - timedelta(minutes=1)))
    policy, now = rules(per_minute=Amount(value=1)), snapshot.taken_at
    memory = update_memory(Memory(moves=moves, sent=(sent,)), assessment, made, now)
    context = AdmissionContext(policy=policy, mode=Mode.EVICT, now=now)
    alone = admit(with_evictions(made, evictions), snapshot, memory, context)
    assert alone.fates.going == ()
    free = timedelta(seconds=45)
    turn = RateReached("perMinute", 1, free, waiting=2, last_at=now + free + timedelta(minutes=1))
    assert turn in {one.refusal for one in alone.fates.kept}


def test_what_may_be_carried_out_counts_among_the_moves_in_flight() -> None:
    """The memory has to hold it: with as many as it can hold, nothing more goes."""
    moves = tuple(move(f"x-{number}", skewed().taken_at, unexecuted=True) for number in range(MOST_IN_FLIGHT))
    elsewhere = tuple(structs.replace(one, workload=structs.replace(one.workload, namespace="three")) for one in moves)
    admission = admitted(rules(), Memory(moves=elsewhere))
    assert {one.refusal for one in admission.fates.kept} == {TooManyInFlight(MOST_IN_FLIGHT)}


def test_a_group_whose_replacement_was_not_placed_as_predicted_backs_off() -> None:
    """For five minutes after the first time; other groups do not."""
    snapshot, _, made = assess_and_plan(rules())
    failed = next(one.group for one in made.fates.going if one.pod.namespace == "one")
    admission = admitted(rules(), record_failure(NO_MEMORY, failed, snapshot.taken_at))
    assert {one.pod.namespace for one in admission.fates.going} == {"two"}
    assert {one.refusal for one in admission.fates.kept} == {BackingOff(1, timedelta(minutes=5))}


def play(allowed: int, sent: Sequence[int], waiting: int, *, seconds: int = 60) -> list[int | None]:
    """Return after how many seconds each that waits goes, second by second for so many; None: later."""
    times, gone = list(sent), list[int | None]()
    for second in range(seconds + 1):
        while len(gone) < waiting and sum(second - 60 < time for time in times) < allowed:
            times.append(second)
            gone.append(second)
    return gone + [None] * (waiting - len(gone))


@given(allowed=st.integers(1, 6), ages=st.lists(st.integers(0, 59), max_size=6), turn=st.integers(0, 1))
def test_each_repair_goes_on_with_what_a_rate_frees_at_the_earliest(allowed: int, ages: list[int], turn: int) -> None:
    """No repair has a time of its own, as nobody knows whose turn it will be; later evictions of one go after those."""
    now = skewed().taken_at
    sent = tuple(SentRequest(now - timedelta(seconds=age), "", "") for age in sorted(ages, reverse=True))
    fates = admitted(rules(per_minute=Amount(value=allowed)), Memory(sent=sent), turn=turn).fates
    gone = len(fates.going)
    for namespace in ("one", "two"):
        ends = [fate.refusal.end for fate in fates.kept if fate.eviction.pod.namespace == namespace]
        expected = play(allowed, [-age for age in ages] + [0] * gone, len(ends))
        assert [None if end.after is None else end.after.seconds for end in ends] == expected
        known = "when budgets.perMinute allows it, too"
        assert all(end.after is not None or end.event.startswith(known) for end in ends)


@given(
    allowed=st.integers(1, 6),
    ages=st.lists(st.integers(0, 59), max_size=6),
    turn=st.integers(0, 1),
    lasting=st.sampled_from([0, 12, 50]),
)
def test_where_more_evictions_have_the_same_turn_than_the_rate_allows_it_is_said_how_many_wait(
    allowed: int, ages: list[int], turn: int, lasting: int
) -> None:
    """A rate of one a minute does not promise four evictions within one: "in 40 s" is read with how many share it."""
    now = skewed().taken_at
    sent = tuple(SentRequest(now - timedelta(seconds=age), "", "") for age in sorted(ages, reverse=True))
    fates = admitted(rules(per_minute=Amount(value=allowed), lasting=lasting), Memory(sent=sent), turn=turn).fates
    taken = [60 - age for age in ages] + [60] * len(fates.going)
    turns = [one.refusal for one in fates.kept if isinstance(one.refusal, RateReached) and one.refusal.left]
    for one in turns:
        assert one.left is not None
        said_until_then = sum(other.left is not None and other.left <= one.left for other in turns)
        free = allowed - sum(end > one.left.seconds for end in taken)
        *_, last = play(allowed, [end - 60 for end in taken], len(turns), seconds=600)
        assert last is not None
        shared = (
            f"budgets.perMinute allows {allowed}, and {len(turns)} evictions wait for it, the last not before "
            f"{now + timedelta(seconds=last):%Y-%m-%d %H:%M:%SZ}"
        )
        assert one.timeless == (shared if said_until_then > free else f"budgets.perMinute allows {allowed}")
        assert str(one).endswith("at the earliest" if said_until_then > free else "left")


def test_what_goes_together_waits_for_the_last_place_that_it_needs() -> None:
    """And for ever where the rate never allows so many."""
    snapshot, assessment, made = assess_and_plan(rules())
    now = snapshot.taken_at
    ages, needed = (50, 40), 2
    sent = tuple(SentRequest(now - timedelta(seconds=age), "", "") for age in ages)
    memory = update_memory(Memory(sent=sent), assessment, made, now)
    evictions = tuple(
        structs.replace(one, repair=structs.replace(one.repair, needed=needed)) for one in made.fates.going
    )
    for allowed, first in ((2, timedelta(seconds=20)), (1, None)):
        policy = rules(per_minute=Amount(value=allowed))
        context = AdmissionContext(policy=policy, mode=Mode.EVICT, now=now)
        kept = admit(with_evictions(made, evictions), snapshot, memory, context).fates.kept
        assert [fate.refusal.end.after for fate in kept[:2]] == [first, first]
        assert {fate.refusal.end.is_never for fate in kept} == {first is None}


def test_a_hold_beneath_a_right_that_is_missing_or_a_rate_ends_no_sooner() -> None:
    """Nothing goes "in 12 s" where somebody has to grant a right first, or a rate is used up for longer."""
    policy = rules(lasting=12, per_minute=Amount(value=1))
    (held,) = {fate.refusal for fate in admitted(rules(lasting=12)).fates.kept}
    assert held.end.after == timedelta(seconds=12)
    now = skewed().taken_at
    missing = Rights(everywhere=False, missing={"one": now, "two": now})
    lacking = admitted(rules(lasting=12), rights=missing)
    assert {fate.refusal for fate in lacking.fates.kept} == {RightMissing(name, True) for name in ("one", "two")}
    unasked = admitted(rules(lasting=12), rights=Rights(everywhere=False))
    assert reasons(unasked) == {Reason.FORBIDDEN}
    for age, left in ((20, 40), (50, 12)):
        memory = Memory(sent=(SentRequest(now - timedelta(seconds=age), "", ""),))
        fates = admitted(policy, memory).fates
        assert {fate.refusal.end.until(now) for fate in fates.kept} == {now + timedelta(seconds=left)}
