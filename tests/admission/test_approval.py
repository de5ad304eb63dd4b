"""Mode Approve: what is proposed, what an approval lets through, and when it ends."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from rebalancer.admission.admit import Admission, AdmissionContext, AwaitsApproval, InLaterSteps, NotProposed, admit
from rebalancer.admission.approval import MOST_PROPOSED, approved_part, find_proposal, plan_hash, propose
from rebalancer.admission.memory import update_memory
from rebalancer.admission.pause import Pause
from rebalancer.model.approvals import Proposal
from rebalancer.model.moves import NO_MEMORY, Memory, MoveState
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.planning.eviction import Eviction, Preempted
from rebalancer.planning.fates import NO_FATES, Fates, Goes, Waits
from rebalancer.planning.plan import Plan
from rebalancer.policy import Amount, Mode, Policy
from rebalancer.scheduling.unpredictable import Unpredictable
from tests.admission.test_admit import assess_and_plan, reasons, rules
from tests.build import with_evictions
from tests.tracking.build import move

POLICY = rules(Mode.APPROVE)
SNAPSHOT, ASSESSMENT, PLAN = assess_and_plan(POLICY)
NOW = SNAPSHOT.taken_at
TTL = POLICY.plan_ttl
MINUTE = timedelta(minutes=1)


def cycle(
    memory: Memory = NO_MEMORY,
    *,
    later: timedelta = timedelta(0),
    plan: Plan = PLAN,
    policy: Policy = POLICY,
    **fields: Any,
) -> tuple[Admission, Memory]:
    """Run admission once; return its answer and the memory for the next cycle."""
    context = AdmissionContext(policy=policy, mode=Mode.APPROVE, now=NOW + later)
    context = replace(context, **fields)
    admission = admit(plan, SNAPSHOT, update_memory(memory, ASSESSMENT, plan, NOW + later), context)
    return admission, structs.replace(memory, proposal=admission.proposal)


def uids(evictions: Sequence[Eviction]) -> list[str]:
    return [eviction.pod.uid for eviction in evictions]


def steps(plan: Plan) -> list[tuple[Eviction, ...]]:
    return [tuple(evictions) for _, evictions in groupby(plan.fates.going, key=lambda eviction: eviction.step)]


def proposed(**fields: Any) -> Memory:
    """Return the memory after a first cycle, in which everything was proposed."""
    memory = cycle()[1]
    assert memory.proposal is not None
    return structs.replace(memory, proposal=structs.replace(memory.proposal, **fields))


def proposal_of(memory: Memory) -> Proposal:
    assert memory.proposal is not None
    return memory.proposal


def test_nothing_is_admitted_before_a_person_approves() -> None:
    """What mode Evict would admit is proposed, and waits with the plan's hash and the time until which it may."""
    evicting = admit(
        PLAN,
        SNAPSHOT,
        update_memory(NO_MEMORY, ASSESSMENT, PLAN, NOW),
        AdmissionContext(policy=POLICY, mode=Mode.EVICT, now=NOW),
    )
    admission, memory = cycle()
    proposal = proposal_of(memory)
    assert admission.fates.going == ()
    assert (
        list(proposal.uids)
        == uids(evicting.fates.going)
        == uids([waiting.eviction for waiting in admission.fates.kept])
    )
    assert {waiting.refusal for waiting in admission.fates.kept} == {AwaitsApproval(proposal.hash, NOW + TTL)}
    assert reasons(admission) == {Reason.AWAITING_APPROVAL}


def test_a_proposal_stays_the_same_from_cycle_to_cycle() -> None:
    """A person has time to read it, although in mode Evict another step would be first in each cycle.

    A process that has run fewer cycles proposes the same.
    """
    policy = rules(Mode.APPROVE, per_cycle=Amount(value=3))
    memory = cycle(policy=policy)[1]
    proposal = proposal_of(memory)
    assert len(proposal.uids) == 3
    causes = set()
    for turn in range(1, 5):
        assert proposal_of(cycle(turn=turn, policy=policy)[1]) == proposal
        admission, memory = cycle(memory, later=turn * MINUTE, turn=turn, policy=policy)
        assert (admission.fates.going, memory.proposal) == ((), proposal)
        awaiting = [waiting for waiting in admission.fates.kept if waiting.reason is Reason.AWAITING_APPROVAL]
        causes |= {waiting.refusal for waiting in awaiting}
    assert causes == {AwaitsApproval(proposal.hash, NOW + policy.plan_ttl), InLaterSteps(proposal.hash)}


def test_what_is_approved_is_admitted_and_nothing_else() -> None:
    """The other evictions of the plan wait until the approved ones are carried out."""
    whole = proposed()
    first = steps(PLAN)[0]
    part = structs.replace(proposal_of(whole), uids=tuple(uids(first)))
    memory = structs.replace(whole, proposal=part)
    admission, memory = cycle(memory, later=MINUTE, approved=part.hash)
    assert uids(admission.fates.going) == uids(first)
    assert {waiting.refusal for waiting in admission.fates.kept} == {NotProposed(part.hash)}
    assert len(admission.fates.kept) == len(PLAN.fates.going) - len(first)
    assert proposal_of(memory) == structs.replace(part, approved=True, since=NOW + MINUTE)


def test_what_an_earlier_release_has_proposed_has_no_later_steps() -> None:
    """Nobody knows what it covers: the rest waits until that plan has ended."""
    whole = proposed(coverage=UNSET)
    part = structs.replace(proposal_of(whole), uids=tuple(uids(steps(PLAN)[0])))
    admission, memory = cycle(structs.replace(whole, proposal=part), later=MINUTE)
    assert (admission.fates.going, memory.proposal) == ((), part)
    waits = {waiting.eviction.pod.uid: waiting.refusal for waiting in admission.fates.kept}
    assert waits == {
        uid: AwaitsApproval(part.hash, NOW + TTL) if uid in part.uids else NotProposed(part.hash)
        for uid in uids(PLAN.fates.going)
    }


def test_what_a_proposal_has_no_place_for_waits_for_its_approval_and_not_for_a_rate() -> None:
    """The rate is used up by nothing that was sent: no time would let it go, however long nobody approves."""
    policy, memory = rules(Mode.APPROVE, per_cycle=Amount(value=1)), NO_MEMORY
    for turn in range(3):
        admission, memory = cycle(memory, later=turn * MINUTE, policy=policy, turn=turn)
        proposal = proposal_of(memory)
        assert {waiting.eviction.pod.uid: waiting.refusal for waiting in admission.fates.kept} == {
            uid: AwaitsApproval(proposal.hash, NOW + TTL) if uid in proposal.uids else InLaterSteps(proposal.hash)
            for uid in uids(PLAN.fates.going)
        }
        assert len(proposal.uids) == 1


def test_another_hash_approves_nothing() -> None:
    admission, memory = cycle(proposed(), approved="0123456789abcdef")
    assert admission.fates.going == ()
    assert not proposal_of(memory).approved


def test_the_rates_hold_for_what_is_approved_too() -> None:
    """What they do not allow now is carried out in the next cycles, without a new approval."""
    policy = rules(Mode.APPROVE, per_minute=Amount(value=3))
    memory = proposed(policy=policy.hash)
    admission, memory = cycle(memory, policy=policy, approved=proposal_of(memory).hash)
    assert len(admission.fates.going) == 3
    assert reasons(admission) == {Reason.RATE_LIMITED}
    left = with_evictions(PLAN, tuple(e for e in PLAN.fates.going if e not in admission.fates.going))
    again, memory = cycle(memory, later=2 * MINUTE, plan=left, policy=policy)
    assert len(again.fates.going) == 3
    assert proposal_of(memory).since == NOW + 2 * MINUTE, "it made progress"


@pytest.mark.parametrize("fields", [{"pause": Pause()}, {"stale": "old"}, {"unsaved": "HTTP 409"}])
def test_other_obstacles_hold_back_what_is_approved(fields: dict[str, Any]) -> None:
    """An approval overrules nothing; the proposal and its approval outlast the obstacle."""
    memory = proposed()
    held, memory = cycle(memory, approved=proposal_of(memory).hash, **fields)
    assert held.fates.going == ()
    assert Reason.AWAITING_APPROVAL not in reasons(held)
    assert proposal_of(memory).approved
    assert len(cycle(memory)[0].fates.going) == len(PLAN.fates.going)


def test_nothing_new_is_proposed_while_evictions_are_held_back() -> None:
    """A person could not have it carried out."""
    admission, memory = cycle(pause=Pause())
    assert memory.proposal is None
    assert reasons(admission) == {Reason.PAUSED}


@pytest.mark.parametrize("approved", [False, True])
def test_a_proposal_expires(approved: bool) -> None:
    """Not approved, or approved and without progress: after `planTTL` the same evictions are a new plan."""
    memory = proposed(approved=approved)
    old = proposal_of(memory)
    same = cycle(memory, later=TTL - timedelta(seconds=1), pause=Pause())[1]
    assert proposal_of(same).hash == old.hash
    admission, memory = cycle(memory, later=TTL, approved=old.hash)
    assert proposal_of(memory).hash != old.hash, "an approval serves once"
    assert (proposal_of(memory).uids, proposal_of(memory).approved) == (old.uids, False)
    assert admission.fates.going == ()


def test_a_clock_that_was_ahead_does_not_delay_the_end() -> None:
    memory = proposed(since=NOW + 10 * TTL)
    assert proposal_of(cycle(memory)[1]).since == NOW


def test_another_policy_ends_a_proposal() -> None:
    """It was approved under other rules."""
    memory = proposed(approved=True)
    admission, after = cycle(memory, policy=rules(Mode.APPROVE, per_cycle=Amount(value=7)))
    assert admission.fates.going == ()
    assert proposal_of(after).hash != proposal_of(memory).hash


def test_planning_that_wants_something_else_ends_a_proposal() -> None:
    """A pod that is gone, or that need not move any more, makes it another plan."""
    memory = proposed()
    less = with_evictions(PLAN, PLAN.fates.going[1:])
    after = cycle(memory, plan=less)[1]
    assert proposal_of(after).hash != proposal_of(memory).hash
    assert list(proposal_of(after).uids) == uids(less.fates.going)
    nothing = structs.replace(PLAN, fates=NO_FATES)
    assert cycle(memory, plan=nothing)[1].proposal is None


def test_a_budget_that_is_used_up_for_a_moment_does_not_end_a_proposal() -> None:
    """Its evictions are still what planning has decided."""
    memory = proposed()
    blocked = cycle(pause=Pause())[0].fates.kept[0].refusal
    waiting = tuple(Waits(eviction, blocked) for eviction in PLAN.fates.going)
    admission, after = cycle(memory, plan=structs.replace(PLAN, fates=Fates(waiting)))
    assert after.proposal == memory.proposal
    assert admission.fates == Fates(waiting)


def test_an_approved_plan_lasts_until_nothing_of_it_is_left_to_do() -> None:
    """While one of its evictions is in flight the rest may come back into the plan; then the next one is proposed."""
    memory = proposed(approved=True, uids=("gone",))
    old = proposal_of(memory)
    moving = structs.replace(memory, moves=(move("gone", NOW),))
    admission, after = cycle(moving)
    assert (admission.fates.going, proposal_of(after).hash) == ((), old.hash)
    done = structs.replace(memory, moves=(move("gone", NOW, state=MoveState.VERIFIED),))
    assert proposal_of(cycle(done, later=MINUTE)[1]).uids == tuple(uids(PLAN.fates.going))


def held_back(reason: Reason, *, by: str = "") -> Plan:
    """Return a plan that holds back all that was proposed; `by` is the group of an eviction that is possible."""
    refusal = Unpredictable(reason, "a test")
    waiting = tuple(Waits(eviction, refusal) for eviction in PLAN.fates.going)
    pod = structs.replace(PLAN.fates.going[0].pod, uid="another", name="another")
    repair = structs.replace(PLAN.fates.going[0].repair, group=by)
    possible = (structs.replace(PLAN.fates.going[0], pod=pod, repair=repair),) if by else ()
    return structs.replace(PLAN, fates=Fates((*map(Goes, possible), *waiting)))


def test_an_approved_plan_that_waits_for_what_is_not_approved_ends() -> None:
    """The budget counts another pod of the same workload first: both would wait for each other until it expires."""
    memory = proposed(approved=True)
    plan = held_back(Reason.BLOCKED_BY_BUDGET, by=PLAN.fates.going[0].group)
    admission, after = cycle(memory, later=MINUTE, plan=plan)
    assert admission.fates.going == ()
    assert (proposal_of(after).uids, proposal_of(after).approved) == (("another",), False)


@pytest.mark.parametrize(
    ("plan", "fields"),
    [
        (held_back(Reason.BLOCKED_BY_BUDGET), {}),
        (held_back(Reason.BLOCKED_BY_BUDGET, by="another group"), {}),
        (held_back(Reason.NODE_SETTLING, by=PLAN.fates.going[0].group), {}),
        (held_back(Reason.BLOCKED_BY_BUDGET, by=PLAN.fates.going[0].group), {"stale": "no watch event"}),
    ],
    ids=["nothing else is possible", "another workload is", "no budget holds it back", "nothing can be sent"],
)
def test_an_approved_plan_that_is_held_back_for_a_while_stays(plan: Plan, fields: dict[str, Any]) -> None:
    """What is possible elsewhere is proposed later; an approval is not lost between two evictions."""
    memory = proposed(approved=True)
    admission, after = cycle(memory, later=MINUTE, plan=plan, **fields)
    assert admission.fates.going == ()
    assert after.proposal == memory.proposal


def test_an_approved_plan_of_which_nothing_can_be_done_does_not_stop_other_workloads() -> None:
    """After two minutes without any of it what is possible elsewhere is proposed; without that it stays."""
    memory = proposed(approved=True)
    plan = held_back(Reason.BLOCKED_BY_BUDGET, by="another group")
    assert cycle(memory, later=1.9 * MINUTE, plan=plan)[1].proposal == memory.proposal
    _, after = cycle(memory, later=2 * MINUTE, plan=plan)
    assert (proposal_of(after).uids, proposal_of(after).approved) == (("another",), False)
    assert cycle(memory, later=2 * MINUTE, plan=held_back(Reason.BLOCKED_BY_BUDGET))[1].proposal == memory.proposal


def test_an_approved_plan_with_an_eviction_in_flight_stays() -> None:
    """Its budget is free again afterwards."""
    memory = structs.replace(proposed(approved=True), moves=(move(PLAN.fates.going[0].pod.uid, NOW),))
    plan = held_back(Reason.BLOCKED_BY_BUDGET, by=PLAN.fates.going[0].group)
    assert cycle(memory, later=MINUTE, plan=plan)[1].proposal == memory.proposal


def test_steps_that_begin_with_other_pods_are_another_plan() -> None:
    """The rest of an approved plan cannot be carried out then, and would hold back everything until it expires."""
    last = tuple(step[-1].pod.uid for step in steps(PLAN))
    memory = proposed(approved=True, uids=last)
    admission, after = cycle(memory, later=MINUTE)
    assert (admission.fates.going, proposal_of(after).uids) == ((), tuple(uids(PLAN.fates.going)))
    first = proposed(approved=True, uids=(last[0], PLAN.fates.going[0].pod.uid))
    assert uids(cycle(first)[0].fates.going) == [PLAN.fates.going[0].pod.uid]


def test_a_proposal_has_whole_steps_and_at_most_200_evictions() -> None:
    """A step that would be cut below what it needs is left for the next one."""
    (step, *_) = steps(PLAN)
    long = [structs.replace(step[0], pod=structs.replace(step[0].pod, uid=str(number))) for number in range(250)]
    cut = propose(long, POLICY, NOW)
    assert cut is not None
    assert cut.uids == tuple(map(str, range(MOST_PROPOSED)))
    needs = structs.replace(step[0].repair, step=9, needed=60)
    pair = [structs.replace(eviction, repair=needs) for eviction in long[190:]]
    same = propose([*long[:190], *pair, *step], POLICY, NOW)
    assert same is not None
    assert same.uids == (*map(str, range(190)), *uids(step)[:10])
    assert propose([], POLICY, NOW) is None


@given(st.permutations(range(8)), st.integers(0, 8), st.integers(1, 4))
def test_the_approved_part_of_a_step_is_a_prefix_that_is_a_step(order: list[int], number: int, needed: int) -> None:
    """Never a pod that is not approved, never one after it, never fewer than the step needs."""
    repair = structs.replace(PLAN.fates.going[0].repair, needed=needed)
    step = [structs.replace(eviction, repair=repair) for eviction in PLAN.fates.going]
    chosen = {step[index].pod.uid for index in order[:number]}
    part = approved_part(step, Proposal(hash="", policy="", since=NOW, uids=tuple(sorted(chosen))))
    assert list(part) == step[: len(part)]
    assert set(uids(part)) <= chosen
    assert not part or len(part) >= needed
    prefix = next((index for index, e in enumerate(step) if e.pod.uid not in chosen), len(step))
    assert len(part) == (prefix if prefix >= needed else 0)


def test_a_hash_stands_for_evictions_order_policy_and_time() -> None:
    """Each of them makes it another plan; a pod's labels do not."""
    evictions = PLAN.fates.going
    hashes = {
        plan_hash(evictions, POLICY.hash, NOW),
        plan_hash(evictions[::-1], POLICY.hash, NOW),
        plan_hash(evictions[1:], POLICY.hash, NOW),
        plan_hash(evictions, "other", NOW),
        plan_hash(evictions, POLICY.hash, NOW + MINUTE),
        plan_hash(evictions, POLICY.hash),
    }
    assert len(hashes) == 6
    labelled = [structs.replace(e, pod=structs.replace(e.pod, labels={"new": "label"})) for e in evictions]
    assert plan_hash(labelled, POLICY.hash, NOW) in hashes


def test_without_a_proposal_there_is_nothing_to_approve() -> None:
    assert find_proposal(PLAN, NO_MEMORY, POLICY, "", NOW) is None


def test_other_modes_forget_the_proposal() -> None:
    """Back in mode Approve it is another plan."""
    assert cycle(proposed(approved=True), mode=Mode.OBSERVE)[1].proposal is None


def test_an_approval_is_for_the_pods_that_are_preempted_too() -> None:
    """Where others would go for the replacement, the plan is another one, and is not carried out."""
    first, second = [pod for pod in SNAPSHOT.pods if pod.uid not in uids(PLAN.fates.going)][:2]

    def preempting(*pods: Pod) -> Plan:
        outcome = Preempted("node", pods)
        evictions = [
            structs.replace(one, repair=structs.replace(one.repair, preempts=(outcome,)))
            for one in PLAN.fates.going[:1]
        ]
        return with_evictions(PLAN, tuple(evictions))

    plan = preempting(first)
    _, memory = cycle(plan=plan)
    proposal = proposal_of(memory)
    assert (proposal.uids, proposal.preempted) == ((plan.fates.going[0].pod.uid,), (first.uid,))
    assert plan_hash(plan.fates.going, POLICY.hash) != plan_hash(preempting(second).fates.going, POLICY.hash)
    approved = structs.replace(proposal, approved=True)
    assert len(approved_part(plan.fates.going, approved)) == 1
    assert approved_part(preempting(second).fates.going, approved) == ()
    assert approved_part(preempting(first, second).fates.going, approved) == ()
    assert find_proposal(preempting(second), memory, POLICY, "", NOW) is None
    assert find_proposal(plan, memory, POLICY, "", NOW) == proposal
