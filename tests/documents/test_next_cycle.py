"""A plan does not say "moves now" of what the controller does not send: each thing that keeps it back is said."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.admission.admit import AdmissionContext, NotLasting
from rebalancer.admission.approval import propose
from rebalancer.admission.misplaced import ReplacementMisplaced
from rebalancer.admission.pause import Pause
from rebalancer.admission.rates import TooManyInFlight
from rebalancer.admission.rights import RightMissing
from rebalancer.controller.status import status_document
from rebalancer.documents.next_cycle import foretell, foretell_plan
from rebalancer.documents.status import PauseStatus, StatusDocument
from rebalancer.documents.waits import WHOLE_CLUSTER, HoldStatus, NamespaceHold, RepairWait, describe_end, find_holds
from rebalancer.engine import evaluate
from rebalancer.model.breaker import BreakerCause, BreakerState, OpenCause
from rebalancer.model.moves import NO_MEMORY, Memory, Reference, SentRequest
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.fates import Fates
from rebalancer.policy import Amount, Mode
from tests.admission.test_admit import rules, skewed
from tests.build import a_state
from tests.scheduling.build import NOW

LATER = NOW + timedelta(minutes=5)
OPEN = OpenCause(cause=BreakerCause.UNREADY_NODES, part=5, total=9, bound=20, since=NOW, last=NOW)


def a_status(mode: Mode = Mode.EVICT, **fields: Any) -> StatusDocument:
    known = status_document(a_state(rules(), NOW), "one", "policy.yaml")
    return structs.replace(known, mode=mode, **fields)


def a_hold(reason: Reason) -> HoldStatus:
    return HoldStatus(scope=WHOLE_CLUSTER, reason=reason, message="why", since=None, until=LATER, ends_with="")


def foretold(status: StatusDocument, memory: Memory = NO_MEMORY) -> Fates:
    return foretell(evaluate(skewed(), rules(), memory=memory), status)


GUARDS = RepairWait(
    namespace="shop",
    workloads=(),
    reason=Reason.AWAITING_GUARDS,
    message="guard latency is not good: 1 series",
    until=None,
    ends_with="when guard latency is good again",
    usual=None,
    then=None,
)


@pytest.mark.parametrize(
    ("status", "memory", "reason"),
    [
        (a_status(paused=PauseStatus(until=LATER, reason="drill", by="alice")), NO_MEMORY, Reason.PAUSED),
        (a_status(missing_rights=("one", "two")), NO_MEMORY, Reason.FORBIDDEN),
        (a_status(stale="pods are not watched"), NO_MEMORY, Reason.STALE_DATA),
        (a_status(), Memory(breaker=BreakerState((OPEN,))), Reason.BREAKER_OPEN),
        (a_status(holds=(a_hold(Reason.MEMORY_NOT_SAVED),)), NO_MEMORY, Reason.MEMORY_NOT_SAVED),
        (a_status(holds=(a_hold(Reason.RATE_LIMITED),)), NO_MEMORY, Reason.RATE_LIMITED),
        (a_status(waits=(GUARDS,)), NO_MEMORY, Reason.AWAITING_GUARDS),
        (a_status(Mode.APPROVE), NO_MEMORY, Reason.AWAITING_APPROVAL),
    ],
)
def test_what_the_controller_keeps_back_waits(status: StatusDocument, memory: Memory, reason: Reason) -> None:
    fates = foretold(status, memory)
    assert not fates.going
    assert {fate.reason for fate in fates.kept} == {reason}


@pytest.mark.parametrize(("until", "reason"), [(None, Reason.BREAKER_OPEN), (10, Reason.RATE_LIMITED)])
def test_a_breaker_of_which_the_status_knows_no_end_outlasts_a_rate(until: int | None, reason: Reason) -> None:
    """That a bound was exceeded in the last cycle is some time ago for a command, and not over; a known end counts."""
    now, policy = skewed().taken_at, rules(per_minute=Amount(value=1))
    last = now - policy.breaker.clear_after + timedelta(seconds=10)
    memory = Memory(
        breaker=BreakerState((structs.replace(OPEN, since=last, last=last),)),
        sent=(SentRequest(now - timedelta(seconds=10), "", ""),),
    )
    end = now + timedelta(seconds=until) if until is not None else None
    hold = structs.replace(a_hold(Reason.BREAKER_OPEN), until=end, ends_with="" if end else "when no bound is exceeded")
    fates = foretell(evaluate(skewed(), policy, memory=memory), a_status(holds=(hold,)))
    assert {fate.reason for fate in fates.kept} == {reason}
    assert not fates.going


def test_without_a_hindrance_the_plan_goes_and_in_observe_it_says_what_would() -> None:
    planned = evaluate(skewed(), rules()).plan.fates
    assert foretold(a_status()).going == planned.going
    paused = PauseStatus(until=None, reason="", by="")
    assert foretold(a_status(Mode.OBSERVE, paused=paused)) == planned
    assert len(foretold(a_status(missing_rights=("elsewhere",))).going) == len(planned.going)


@pytest.mark.parametrize("sent", [0, 1])
def test_in_observe_moves_now_what_mode_evict_would_send(sent: int) -> None:
    """The rates count as they do there; a pause, like the mode, is no reason to foresee nothing."""
    memory = Memory(sent=(SentRequest(skewed().taken_at - timedelta(seconds=10), "", ""),) * sent)
    evaluation = evaluate(skewed(), rules(per_minute=Amount(value=1)), memory=memory)
    observing = a_status(Mode.OBSERVE, paused=PauseStatus(until=None, reason="", by=""))
    would = foretell_plan(evaluation, observing).fates
    assert would.going == foretell_plan(evaluation, a_status()).fates.going
    assert len(would.going) == 1 - sent
    assert {one.reason for one in would.waiting} == {Reason.RATE_LIMITED}
    assert not any(one.refusal.end.event or one.refusal.end.until(NOW) for one in would.waiting)


def test_only_a_plan_that_the_controller_has_proposed_has_a_name() -> None:
    """Nobody could approve another: its hash is of the moment at which a command has looked."""
    fates = foretold(a_status(Mode.APPROVE))
    assert {str(fate.refusal) for fate in fates.kept} == {
        "nobody has approved it; it is proposed when nothing else keeps it back"
    }
    slow = evaluate(skewed(), rules(per_minute=Amount(value=1)))
    assert {str(fate.refusal) for fate in foretell(slow, a_status(Mode.APPROVE)).kept} == {
        "nobody has approved it; it is proposed when nothing else keeps it back",
        "it belongs to the later steps of the plan that is proposed next, and goes if the plan is approved with them",
    }
    evaluation = evaluate(skewed(), rules())
    proposal = propose(evaluation.plan.fates.going, rules(), NOW)
    assert proposal is not None
    fates = foretold(a_status(Mode.APPROVE), Memory(proposal=proposal))
    assert all(f"plan {proposal.hash} " in str(fate.refusal) for fate in fates.kept)


def test_all_that_keeps_everything_back_is_stored_not_the_first_alone() -> None:
    """When a short pause is over, a command still knows that the memory is not saved."""
    pause = Pause(until=LATER, reason="drill", by="alice")
    context = AdmissionContext(policy=rules(), mode=Mode.EVICT, now=NOW, pause=pause, unsaved="no space left")
    assert [hold.reason for hold in find_holds(context, (), ())] == [Reason.PAUSED, Reason.MEMORY_NOT_SAVED]


def test_a_namespace_has_all_of_its_holds_and_first_what_ends_last() -> None:
    """A replacement elsewhere holds it for minutes, a missing right until somebody gives it."""
    context = AdmissionContext(policy=rules(), mode=Mode.EVICT, now=NOW)
    workload = Reference("shop", "Deployment", "cart")
    misplaced = ReplacementMisplaced(workload, "cart-1", (), (), LATER)
    sooner = ReplacementMisplaced(workload, "cart-2", (), (), NOW)
    of_namespaces = [
        NamespaceHold("web", NOW, misplaced),
        *(NamespaceHold("shop", NOW, one) for one in (sooner, misplaced, RightMissing("shop", True))),
    ]
    holds = find_holds(context, (), of_namespaces)
    assert [(hold.scope, hold.until, bool(hold.ends_with)) for hold in holds] == [
        ("namespace shop", None, True),
        ("namespace shop", LATER, False),
        ("namespace shop", NOW, False),
        ("namespace web", LATER, False),
    ]


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (a_status(paused=PauseStatus(until=None, reason="drill", by="alice")), (None, "")),
        (a_status(paused=PauseStatus(until=LATER, reason="drill", by="alice")), (LATER, "")),
        (a_status(Mode.OBSERVE), (None, "")),
        (
            a_status(Mode.APPROVE, paused=PauseStatus(until=LATER, reason="drill", by="alice")),
            (None, f"when it is {LATER:%Y-%m-%d %H:%M:%SZ}, and somebody approves it"),
        ),
    ],
)
def test_what_waits_for_something_else_goes_on_when_the_hold_ends(
    status: StatusDocument, end: tuple[datetime | None, str]
) -> None:
    """Evictions that planning holds back, and a component that waits without any: each ends with pause or approval."""
    evaluation = evaluate(skewed(), rules())
    plan = evaluation.plan
    for own in (TooManyInFlight(1), NotLasting(timedelta(), "spread.for", timedelta(seconds=1))):
        held = plan.fates.hold(lambda _, own=own: own)  # type: ignore[misc]
        components = tuple(structs.replace(one, refusal=own, state=State.VIOLATED) for one in plan.components)
        for fates in (held, Fates()):
            known = structs.replace(plan, fates=fates, components=components)
            said = foretell_plan(replace(evaluation, plan=known), status)
            refusals = [one.refusal for one in said.fates.kept] + [one.refusal for one in said.components]
            assert len(refusals) == len(fates.rows) + len(components)
            assert {describe_end(one, NOW) for one in refusals} == {end}
            if status.mode == Mode.OBSERVE:
                assert {one.reason for one in refusals if one is not None} == {own.reason}
                assert all(str(one).endswith("mode Observe evicts nothing") for one in refusals)
