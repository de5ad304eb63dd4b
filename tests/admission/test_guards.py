"""Guards: a step begins when each has been good for its `for` since the last step, what is unknown is not good."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.admit import Admission, AdmissionContext, admit
from rebalancer.admission.guards import (
    ANSWERS_SERVE,
    ASKED_EVERY,
    LONGEST_GAP,
    NO_ANSWERS,
    GuardAnswer,
    GuardNotGood,
    GuardNotLasting,
    GuardState,
    GuardsUnanswered,
    StepFirst,
    StepUnderWay,
    Vector,
    Verdict,
    calls_for_decision,
    judge,
    next_question,
    take_answers,
)
from rebalancer.model.approvals import Proposal
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import NO_MEMORY, Memory, MoveState
from rebalancer.model.pods import Resources
from rebalancer.model.reasons import Reason
from rebalancer.policy import Amount, Budgets, Expect, Guard, Guards, Mode, Policy, Prometheus
from tests.admission.test_slow_start import NOW, PLAN, PLENTY, SNAPSHOT, admitted, causes, needing, under_way
from tests.build import with_evictions, without_node
from tests.controller.simulated import eager

INTERVAL = timedelta(seconds=60)


def guards(*lasting: int) -> Guards:
    """Return guards named 0, 1, …, of these seconds each."""
    queries = tuple(
        Guard(name=str(number), query="errors > 5", present="up == 1", for_=timedelta(seconds=seconds))
        for number, seconds in enumerate(lasting)
    )
    return Guards(prometheus=Prometheus(url="http://prometheus:9090"), queries=queries)


ONE = guards(30)


def ruled(by: Guards = ONE, **budgets: Any) -> Policy:
    return eager(budgets=Budgets(**{**PLENTY, **budgets}), guards=by)


def answer(name: str = "0", verdict: Verdict = Verdict.GOOD) -> GuardAnswer:
    return GuardAnswer(name, verdict, "the query returned nothing")


def good_since(at: float, until: float, by: Guards = ONE) -> GuardState:
    """Return the state after good answers at both times."""
    answers = [answer(guard.name) for guard in by.queries]
    first = take_answers(replace(NO_ANSWERS, quiet_since=0.0), by, answers, at)
    return take_answers(first, by, answers, until)


def passed(state: GuardState, *, at: float, by: Guards = ONE, memory: Memory = NO_MEMORY, **fields: Any) -> Admission:
    return admitted(memory, policy=ruled(by), guards=state, read_at=at, **fields)


def waits_for(admission: Admission) -> set[Refusal]:
    assert not admission.fates.going
    assert {one.reason for one in admission.fates.kept} == {Reason.AWAITING_GUARDS}
    return causes(admission)  # type: ignore[return-value]


def test_without_guards_nothing_waits_for_them() -> None:
    admission = admitted(policy=ruled(Guards()))
    assert len(admission.fates.going) == len(PLAN.fates.going)
    assert not admission.guards.wanted


def test_before_the_first_answer_nothing_goes_and_the_question_is_due_at_once() -> None:
    admission = passed(NO_ANSWERS, at=100.0)
    assert waits_for(admission) == {GuardsUnanswered()}
    assert next_question(admission.guards, ONE, INTERVAL) == 100.0


def test_one_step_goes_when_the_answers_were_good_for_long_enough() -> None:
    """Not a moment earlier; the others say which one goes first."""
    early = passed(good_since(100.0, 129.0), at=129.5)
    assert waits_for(early) == {GuardNotLasting("0", timedelta(seconds=29), timedelta(seconds=30))}
    (gone,) = passed(good_since(100.0, 130.0), at=130.5).fates.going
    admission = passed(good_since(100.0, 130.0), at=130.5)
    assert causes(admission) == {StepFirst(gone.workload)}
    assert len(admission.fates.kept) == len(PLAN.fates.going) - 1


def test_a_step_of_several_evictions_goes_whole() -> None:
    admission = passed(good_since(0.0, 40.0), at=40.0, made=needing(3, "team-0", "team-1", "team-2"))
    assert len(admission.fates.going) == 3
    assert len({one.group for one in admission.fates.going}) == 1


@pytest.mark.parametrize("verdict", [Verdict.BAD, Verdict.ERROR])
def test_a_bad_answer_holds_everything_and_says_what_came_back(verdict: Verdict) -> None:
    by = guards(0, 0)
    state = take_answers(good_since(0.0, 50.0, by), by, [answer("0"), answer("1", verdict)], 51.0)
    assert waits_for(passed(state, at=51.0, by=by)) == {GuardNotGood("1", "the query returned nothing")}


def test_after_a_bad_answer_the_time_begins_anew() -> None:
    """Of that guard alone."""
    by = guards(30, 5)
    state = take_answers(good_since(0.0, 50.0, by), by, [answer("0"), answer("1", Verdict.BAD)], 55.0)
    state = take_answers(state, by, [answer("0"), answer("1")], 60.0)
    assert waits_for(passed(state, at=60.0, by=by)) == {GuardNotLasting("1", timedelta(0), timedelta(seconds=5))}
    state = take_answers(state, by, [answer("0"), answer("1")], 65.0)
    assert passed(state, at=65.0, by=by).fates.going


def test_where_nothing_was_asked_for_long_nobody_knows_how_it_was() -> None:
    assert not passed(good_since(0.0, LONGEST_GAP + 1), at=LONGEST_GAP + 1).fates.going
    assert passed(good_since(0.0, LONGEST_GAP), at=LONGEST_GAP).fates.going


def test_an_answer_serves_for_as_long_as_a_plan() -> None:
    state = good_since(0.0, 40.0)
    assert passed(state, at=40.0 + ANSWERS_SERVE).fates.going
    assert waits_for(passed(state, at=41.0 + ANSWERS_SERVE)) == {GuardsUnanswered()}


def test_answers_about_other_guards_say_nothing() -> None:
    other = guards(31)
    assert waits_for(passed(good_since(0.0, 40.0), at=40.0, by=other)) == {GuardsUnanswered()}
    state = take_answers(good_since(0.0, 40.0), other, [answer()], 45.0)
    assert waits_for(passed(state, at=45.0, by=other)) == {GuardNotLasting("0", timedelta(0), timedelta(seconds=31))}


def test_the_time_begins_when_the_last_step_has_ended() -> None:
    """Until then nothing is asked; a restart or a step that begins ends the quiet."""
    moving = Memory(moves=(under_way("x", "elsewhere"),))
    busy = passed(good_since(0.0, 40.0), at=40.0, memory=moving)
    assert waits_for(busy) == {StepUnderWay()}
    assert busy.next_try is not None, "time alone may end it"
    assert next_question(busy.guards, ONE, INTERVAL) is None
    quiet = passed(busy.guards, at=50.0)
    assert waits_for(quiet) == {GuardsUnanswered()}
    assert quiet.guards.quiet_since == 50.0
    state = take_answers(quiet.guards, ONE, [answer()], 55.0)
    assert waits_for(passed(state, at=55.0)) == {GuardNotLasting("0", timedelta(seconds=5), timedelta(seconds=30))}


def test_a_replacement_that_no_node_admits_keeps_nothing_of_its_own_repair() -> None:
    """The next step may be what makes its place; with a canary, too. Other workloads wait for it."""
    first = next(one for one in PLAN.fates.going if one.pod.namespace == "team-0")
    sample = next(pod for pod in SNAPSHOT.pods if pod.namespace == "team-0")
    spec = structs.replace(sample.spec, requests=Resources(cpu=10_000_000))
    pending = without_node(sample, "r", spec=spec)
    fields = {"workload": first.workload, "group": first.group, "state": MoveState.PENDING, "replacement": "r"}
    waits = structs.replace(under_way("x", "team-0", **fields), owner_uid=first.owner_uid)
    for canary in (0, 1):
        known: dict[str, Any] = {"policy": ruled(canary=canary), "guards": good_since(0.0, 40.0), "read_at": 40.0}
        known["snapshot"] = replace(SNAPSHOT, pods=(*SNAPSHOT.pods, pending))
        admission = admitted(Memory(moves=(waits,)), **known)
        assert [one.group for one in admission.fates.going] == [first.group]
        others = with_evictions(PLAN, tuple(one for one in PLAN.fates.going if one.group != first.group))
        elsewhere = admitted(Memory(moves=(waits,)), made=others, **known)
        assert waits_for(elsewhere) == {StepUnderWay()}


def test_a_move_that_is_over_or_overdue_is_under_way_no_longer() -> None:
    for fields in ({"state": MoveState.VERIFIED}, {"unstarted": "CrashLoopBackOff"}):
        memory = Memory(moves=(under_way("x", "elsewhere", **fields),))
        assert passed(good_since(0.0, 40.0), at=40.0, memory=memory).fates.going


def test_what_something_else_holds_asks_nothing() -> None:
    limited = admitted(policy=ruled(per_minute=Amount(value=0)), guards=NO_ANSWERS, read_at=1.0)
    assert {one.reason for one in limited.fates.kept} == {Reason.RATE_LIMITED}
    for admission in (limited, admitted(policy=ruled(), stale="old", guards=NO_ANSWERS, read_at=1.0)):
        assert not admission.guards.wanted
        assert next_question(admission.guards, ONE, INTERVAL) is None


def test_what_the_guards_hold_uses_no_rate_and_no_window() -> None:
    """So every eviction waits for the guards, although the rate allows a single one, and slow start two."""
    policy = eager(budgets=Budgets(**{**PLENTY, "per_cycle": Amount(value=1)}), slow_start=True, guards=ONE)
    held = admitted(policy=policy, guards=NO_ANSWERS, read_at=1.0)
    assert causes(held) == {GuardsUnanswered()}, "not RateLimited, nor SlowStart"
    assert not any(window.limited for window in held.windows)


def test_a_proposal_needs_no_guard_and_carrying_it_out_does() -> None:
    """A person is asked first; nothing is asked of Prometheus before the approval."""
    context = AdmissionContext(policy=ruled(), mode=Mode.APPROVE, now=NOW, at_once=True, read_at=1.0)
    proposed = admit(PLAN, SNAPSHOT, NO_MEMORY, context)
    assert proposed.proposal is not None
    assert not proposed.guards.wanted
    approved = structs.replace(NO_MEMORY, proposal=structs.replace(proposed.proposal, approved=True))
    assert isinstance(approved.proposal, Proposal)
    carried = admit(PLAN, SNAPSHOT, approved, context)
    assert not carried.fates.going
    assert carried.guards.wanted
    good = replace(context, guards=good_since(0.0, 40.0), read_at=40.0)
    assert len(admit(PLAN, SNAPSHOT, approved, good).fates.going) == 1


def test_questions_come_at_the_end_of_the_time_and_rarely_before() -> None:
    """Every ten seconds while good, after an interval while not."""
    by = guards(4, 25)
    wanted = replace(good_since(0.0, 0.0, by), wanted=True)
    assert next_question(wanted, by, INTERVAL) == ASKED_EVERY
    assert next_question(replace(wanted, asked_at=20.0), by, INTERVAL) == 25.0
    assert next_question(replace(wanted, asked_at=25.0), by, INTERVAL) == 25.0 + ASKED_EVERY
    assert next_question(replace(wanted, quiet_since=1.0), by, INTERVAL) == 1.0
    assert next_question(wanted, guards(4), INTERVAL) == 0.0
    bad = take_answers(wanted, by, [answer("0", Verdict.ERROR), answer("1")], 7.0)
    assert next_question(bad, by, INTERVAL) == 67.0


@given(
    st.lists(st.tuples(st.integers(1, 80), st.booleans(), st.booleans()), max_size=12),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(0, 40),
)
def test_a_step_begins_only_after_a_good_run_of_each_guard(
    asked: Sequence[tuple[int, bool, bool]], first: int, second: int, later: int
) -> None:
    """By the definition: for each guard the answers of the last `for`, without a gap, were good since the last step."""
    by = guards(first, second)
    state, at, history = replace(NO_ANSWERS, quiet_since=0.0), 0.0, []
    for seconds, *good in asked:
        at += seconds
        history.append((at, good))
        verdicts = [answer(str(index), Verdict.GOOD if fine else Verdict.BAD) for index, fine in enumerate(good)]
        state = take_answers(state, by, verdicts, at)

    def lasts(index: int, required: int) -> bool:
        begun = following = None
        for moment, good in reversed(history):
            if not good[index] or (following is not None and following - moment > LONGEST_GAP):
                break
            begun = following = moment
        return begun is not None and at - begun >= required

    expected = bool(history) and later <= ANSWERS_SERVE and lasts(0, first) and lasts(1, second)
    assert bool(passed(state, at=at + later, by=by).fates.going) == expected


@pytest.mark.parametrize(
    ("expect", "found", "present", "verdict"),
    [
        (Expect.EMPTY, 0, 1, Verdict.GOOD),
        (Expect.EMPTY, 0, 0, Verdict.BAD),
        (Expect.EMPTY, 1, None, Verdict.BAD),
        (Expect.NOT_EMPTY, 1, None, Verdict.GOOD),
        (Expect.NOT_EMPTY, 0, None, Verdict.BAD),
    ],
)
def test_answers_are_judged_by_what_is_expected(
    expect: Expect, found: int, present: int | None, verdict: Verdict
) -> None:
    """Nothing is good news only while the data is there."""
    guard = Guard(name="errors", query="x", expect=expect, present="y" if expect is Expect.EMPTY else None)
    first = Vector(found, '{code="500"} 7' if found else "")
    said = judge(guard, first, Vector(present, "up{} 1" if present else "") if present is not None else None)
    assert (said.name, said.verdict) == ("errors", verdict)
    assert said.message.startswith("the query returned nothing" if not found else "the query returned 1 series, first ")


def test_answers_make_a_cycle_only_where_they_decide_something() -> None:
    """The first ones, those that turn bad or good again, and those that have been good for long enough."""
    early, late = good_since(0.0, 10.0), good_since(0.0, 30.0)
    bad = take_answers(early, ONE, [answer(verdict=Verdict.BAD)], 20.0)
    worse = take_answers(bad, ONE, [answer(verdict=Verdict.ERROR)], 25.0)
    assert calls_for_decision(NO_ANSWERS, NO_ANSWERS)
    assert not calls_for_decision(early, good_since(0.0, 20.0))
    assert calls_for_decision(early, late)
    assert calls_for_decision(early, bad)
    assert not calls_for_decision(bad, worse)
    assert calls_for_decision(worse, take_answers(worse, ONE, [answer()], 28.0))
    assert not calls_for_decision(early, replace(late, quiet_since=None)), "a step is under way"
