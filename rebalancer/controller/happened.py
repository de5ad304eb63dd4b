"""The occurrences of a step of the loop: compares the states before and after it, and the event between them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from msgspec import structs

from rebalancer.account.ended import Requirements
from rebalancer.account.happened import (
    ClusterPolicyChanged,
    ClusterPolicyRefused,
    FindSubjects,
    Occurrence,
    PauseChanged,
    Paused,
    RequestAnswered,
    Subject,
    find_anti_affinity_changes,
    find_approvals,
    find_capacity,
    find_deadlocked,
    find_ended,
    find_granted,
    find_group_changes,
    find_guards,
    find_late,
    find_limit_changes,
    find_motion,
    find_others,
    find_overdue,
    find_prevention,
    find_resilience_changes,
    find_rights,
    find_subjects,
    find_surges,
    find_team_changes,
    find_team_problems,
    find_violations,
    find_whole,
    find_zones,
)
from rebalancer.account.people import Acts, find_people
from rebalancer.admission.standing import NO_OUTCOME
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import (
    Answered,
    ApprovalRead,
    InForce,
    Leading,
    LoopEvent,
    LoopState,
    PauseRead,
    PolicyAuthorRead,
    PolicyLoaded,
    PolicyRefused,
    PreventionReported,
    Reported,
    ResilienceReported,
    SurgesReported,
    TeamPoliciesRead,
)
from rebalancer.model.history import Author
from rebalancer.model.moves import DomainName, Memory, make_token
from rebalancer.model.nodes import ZONE
from rebalancer.policy.merging import UNREAD
from rebalancer.tracking.zones import find_zone_keys


def note_happened(before: LoopState, event: LoopEvent, after: LoopState, now: datetime) -> LoopState:
    """Return the state after a step with what has happened in it, and with what is reported then.

    Occurrences that only an answer shows are already in the state.
    """
    after, declared = _find_declared(after, event, now)
    cycle = after.cycle if after.cycle is not before.cycle else None
    seen: Iterator[Occurrence] = iter(())
    reported = after.reported
    if cycle is not None:
        seen, reported = _find_seen(before.reported, cycle)
    happened = (
        *after.happened,
        *seen,
        *_find_moves(before, event, after),
        *(_find_of_cycle(before, cycle, after) if cycle is not None else ()),
        *_find_said(before, event, after),
        *_find_reported(before, event, after),
        *declared,
        *_find_of_process(before, event, after),
        *find_guards(before.guards, after.guards),
        *(find_rights(before.queue.rights, after.queue.rights) if after.leadership.leads else ()),
    )
    return replace(after, happened=happened, reported=reported) if happened or cycle is not None else after


def _find_seen(before: Reported, cycle: Cycle) -> tuple[Iterator[Occurrence], Reported]:
    """Find changes in the placement, and return the updated record of what has been reported."""
    assessment = cycle.assessment
    limits, limits_reported = find_limit_changes(before.limits, assessment.limits, cycle.causes)
    terms, terms_reported = find_anti_affinity_changes(before.anti_affinity, assessment.anti_affinity, cycle.causes)
    pods, deadlocked = find_deadlocked(before.deadlocked, assessment.deadlocks)
    reported = replace(
        before,
        violated=frozenset(make_token(group.spread.name) for group in assessment.violated),
        limits=limits_reported,
        anti_affinity=terms_reported,
        deadlocked=deadlocked,
        unsettled=assessment.unsettled_domains,
    )
    return chain(find_group_changes(before.violated, assessment, cycle.causes), limits, terms, pods), reported


def _find_moves(before: LoopState, event: LoopEvent, after: LoopState) -> Iterator[Occurrence]:
    """Find which requests were granted or have ended.

    A new leader compares with the memory of the last leader, because its own earlier actions were reported then.
    """
    if isinstance(event, Leading):
        if event.leads:
            yield from find_late(event.memory.moves, after.memory.moves)
    elif after.memory.moves is not before.memory.moves:
        yield from find_granted(before.memory.moves, after.memory.moves)
        yield from find_ended(before.memory.moves, after.memory.moves)


def _find_of_cycle(before: LoopState, cycle: Cycle, after: LoopState) -> Iterator[Occurrence]:
    """Find the other occurrences of a cycle."""
    yield from find_overdue(before.memory.moves, cycle.memory.moves)
    yield from _find_zones(before.memory, cycle, after.memory)
    yield from find_violations(before.memory, after.memory, _subjects(before.cycle, cycle, after.in_force.policy_since))
    yield from find_others(before.memory.evicted_by_others, cycle.assessment.evicted_by_others)
    yield from find_motion(before.reported.unsettled, cycle.assessment.unsettled_domains)
    if cycle.capacity is not None:
        yield from find_capacity(cycle.capacity.decision)
    proposals = before.memory.proposal, cycle.memory.proposal
    yield from find_approvals(*proposals, cycle.plan, cycle.context.policy, cycle.context.now)
    whole = before.cycle.admission.whole if before.cycle is not None else NO_OUTCOME
    yield from find_whole(whole, cycle.admission.whole, after.in_force.written, after.acts.written_author)


def _find_zones(before: Memory, cycle: Cycle, after: Memory) -> Iterator[Occurrence]:
    """Find the zones that were lost, or are back."""
    lost = [DomainName(loss.key, loss.value) for loss in before.lost]
    nodes = cycle.snapshot.nodes
    there = {one for one in lost if any(node.labels.get(one.topology_key) == one.value for node in nodes)}
    return find_zones(before, after, {ZONE, *find_zone_keys(cycle.context.policy)}, there)


def _subjects(before: Cycle | None, cycle: Cycle, policy_since: datetime) -> FindSubjects:
    """Return a function that finds a violated subject in the new or else the last cycle, and why it was dropped."""

    def find(tokens: frozenset[str]) -> Mapping[str, Subject]:
        found = dict(find_subjects(cycle.assessment, cycle.causes, tokens))
        if before is None:
            return found
        policy = cycle.evaluation.inputs.policy
        asked = tokens - found.keys() if policy is before.evaluation.inputs.policy else tokens
        last = find_subjects(before.assessment, before.causes, asked) if asked else {}
        if not last:
            return found
        required = Requirements(cycle.assessment, cycle.view, policy, policy_since)
        for token, subject in last.items():
            if token not in found:
                found[token] = subject._replace(dropped=required.find_dropped(subject.evaluated))
            elif isinstance(subject.evaluated, EvaluatedLimit) and isinstance(
                now := found[token].evaluated, EvaluatedLimit
            ):
                found[token] = found[token]._replace(dropped=required.find_relaxed(subject.evaluated, now))
        return found

    return find


def _find_said(before: LoopState, event: LoopEvent, after: LoopState) -> Iterator[Occurrence]:
    """Find declarations by people: a policy, a team policy, a pause. Only a leader reports them."""
    if not after.leadership.leads:
        return
    old, new = before.in_force, after.in_force
    match event:
        case PolicyLoaded() if event.policy.hash != old.policy.cluster.hash or old.policy_error:
            yield ClusterPolicyChanged(event.policy.hash, after.mode)
            yield from _find_team_changes(old, new)
        case PolicyRefused() if event.message != old.policy_error:
            yield ClusterPolicyRefused(old.policy.cluster.hash, event.message)
        case TeamPoliciesRead():
            yield from _find_team_changes(old, new)
        case Leading() | PauseRead():
            is_new = isinstance(event, Leading) or new.pause != old.pause
            if new.pause is not None and is_new:
                yield Paused(new.pause)
            if isinstance(event, Leading):
                yield from find_team_problems(new.team_problems)
        case _:
            pass


def _find_reported(before: LoopState, event: LoopEvent, after: LoopState) -> Iterator[Occurrence]:
    """Find reports of the workers beside the loop. Only a leader passes them on."""
    if not after.leadership.leads:
        return
    match event:
        case PreventionReported():
            yield from find_prevention(before.reported.prevention, event.report)
        case ResilienceReported():
            yield from find_resilience_changes(before.reported.resilience, after.reported.resilience)
        case SurgesReported():
            yield from find_surges(event.report)
        case _:
            pass


def _find_of_process(before: LoopState, event: LoopEvent, after: LoopState) -> Iterator[Occurrence]:
    """Find the occurrences that every process reports, leader or not."""
    if isinstance(event, Answered):
        yield RequestAnswered(event.answer.result)
    if after.in_force.pause != before.in_force.pause:
        yield PauseChanged(before.in_force.pause, after.in_force.pause)


def _find_declared(state: LoopState, event: LoopEvent, now: datetime) -> tuple[LoopState, Sequence[Occurrence]]:
    """Find declarations by people that the history lacks, and note that it has them now.

    A new leader compares with the memory of the last leader.
    """
    if not state.process.history_name:
        return state, ()
    acts = _take_act(state.acts, event)
    if acts is not state.acts:
        state = replace(state, acts=acts)
    if not state.leadership.leads:
        return state, ()
    in_force, memory = state.in_force, state.memory
    known = replace(
        acts,
        approved=in_force.approved,
        written=in_force.written,
        policy=in_force.policy.cluster.hash,
        policy_error=in_force.policy_error,
        policy_missing=in_force.policy_missing,
        rights=state.queue.rights,
    )
    declared, noted = find_people(memory.noted, known, now)
    if noted != memory.noted:
        state = replace(state, memory=structs.replace(memory, noted=noted))
    return state, declared


def _take_act(acts: Acts, event: LoopEvent) -> Acts:
    """Take a declaration by people from an event; a pause counts as the watch shows it, with who ended it."""
    match event:
        case PauseRead(author=Author()):
            return replace(acts, pause=event.pause, pause_author=event.author)
        case ApprovalRead():
            return replace(acts, approval_author=event.author, written_author=event.written_author)
        case PolicyLoaded() | PolicyRefused() | PolicyAuthorRead():
            return replace(acts, policy_author=event.author)
        case _:
            return acts


def _find_team_changes(old: InForce, new: InForce) -> Sequence[Occurrence]:
    known = {namespace: reading for namespace, reading in old.teams.items() if reading != UNREAD}
    return find_team_changes(known, new.teams, old.team_problems, new.team_problems)
