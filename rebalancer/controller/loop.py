"""The loop as a step function: `step(state, event, now) -> (state, requests)`.

This module and those that it calls make all decisions; threads only bring events and carry out requests. So a run can
be simulated, replayed and shrunk. An event between two eviction requests (a pause, a lost lease, a new policy, the end
of the process) takes effect before the next request.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from msgspec import structs

from rebalancer.admission.admit import AdmissionContext
from rebalancer.admission.guards import NO_ANSWERS, take_answers
from rebalancer.admission.surges import count_surges
from rebalancer.admission.written import NOT_READ
from rebalancer.assessment.assess import find_unreported_ends
from rebalancer.controller.capacity import CapacityStage, uses_capacity
from rebalancer.controller.cycle import CycleInputs, run_cycle
from rebalancer.controller.evictions import (
    drop_queue,
    handle_answer,
    handle_saved,
    handle_unsent,
    queue_evictions,
    request_evictions,
    save_if_leading,
)
from rebalancer.controller.happened import note_happened
from rebalancer.controller.history import note_step
from rebalancer.controller.placeholders import (
    handle_created,
    queue_placeholders,
    release_placeholders,
    request_placeholders,
)
from rebalancer.controller.state import (
    Answered,
    ApprovalRead,
    CapacityQueue,
    CycleDue,
    GuardsRead,
    HistoryStored,
    Leading,
    LoopEvent,
    LoopState,
    NotSent,
    PauseRead,
    PlaceholdersCreated,
    PolicyAuthorRead,
    PolicyLoaded,
    PolicyRefused,
    PreventionReported,
    Publish,
    Requests,
    ResilienceReported,
    RightsRead,
    Saved,
    Stopping,
    SurgesReported,
    TeamPoliciesRead,
    Watched,
)
from rebalancer.documents.events import events_of
from rebalancer.engine import Stopwatch, without_stopwatch
from rebalancer.history.outbox import forget_stored
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy, TeamReading, merge, select_team_namespaces
from rebalancer.policy.merging import UNREAD
from rebalancer.prevention.report import NO_REPORT
from rebalancer.resilience.worst import NOTHING_COMPUTED
from rebalancer.surge.report import NO_SURGES
from rebalancer.tracking.motion import Look
from rebalancer.tracking.moves import merge_memory, note_remaining
from rebalancer.tracking.track import watch


def step(
    state: LoopState, event: LoopEvent, now: datetime, stopwatch: Stopwatch = without_stopwatch
) -> tuple[LoopState, Requests]:
    """Return the state after an event, and the requests that follow from it, in order."""
    following, requests = _handle(replace(state, happened=()), event, now, stopwatch)
    following = note_happened(state, event, following, now)
    published = _publish(following)
    return note_step(state, event, following, now), (*published, *requests)


def _publish(state: LoopState) -> Requests:
    objects = state.process.event_objects
    return tuple(Publish(event=event) for occurrence in state.happened for event in events_of(occurrence, objects))


# Many branches: one for each event.
def _handle(  # noqa: C901, PLR0912  # one case for each event
    state: LoopState, event: LoopEvent, now: datetime, stopwatch: Stopwatch
) -> tuple[LoopState, Requests]:
    if state.in_force.pause is not None and not state.in_force.pause.holds(now):
        state = replace(state, in_force=replace(state.in_force, pause=None))  # it ends by itself
    match event:
        case CycleDue():
            return _handle_cycle(state, event, now, stopwatch)
        case Watched():
            return _handle_watched(state, event, now), ()
        case Saved():
            saved, evictions = handle_saved(state, event, now)
            following, placeholders = request_placeholders(saved)
            return following, (*placeholders, *evictions)
        case Answered():
            return handle_answer(state, event, now)
        case NotSent():
            return handle_unsent(state, event, now)
        case PolicyLoaded():
            return _handle_policy(state, event, now), ()
        case PolicyRefused():
            in_force = replace(state.in_force, policy_error=event.message, policy_missing=event.missing)
            return replace(state, in_force=in_force), ()
        case PolicyAuthorRead():
            return state, ()  # `note_happened` takes it
        case TeamPoliciesRead():
            return _put_in_force(state, state.in_force.policy.cluster, event.teams, now), ()
        case HistoryStored():
            return replace(state, memory=forget_stored(state.memory, event.stored)), ()
        case Leading():
            return _handle_leading(state, event, now), ()
        case PauseRead():
            return _handle_pause(state, event, now)
        case ApprovalRead():
            in_force = replace(state.in_force, approved=event.approved, written=event.written)
            return replace(state, in_force=in_force), ()
        case GuardsRead():
            return _handle_guards(state, event), ()
        case RightsRead():
            return _handle_rights(state, event), ()
        case PlaceholdersCreated():
            return handle_created(state, event), ()
        case PreventionReported():
            return replace(state, reported=replace(state.reported, prevention=event.report)), ()
        case SurgesReported():
            following = replace(state, reported=replace(state.reported, surges=event.report))
            memory = count_surges(state.memory, event.report, now)
            return replace(following, memory=memory), save_if_leading(state) if memory != state.memory else ()
        case ResilienceReported():
            if not state.leadership.leads or event.term != state.leadership.term:  # from a term that is over
                return state, ()
            return replace(state, reported=replace(state.reported, resilience=event.report)), ()
        case Stopping():
            following, requests = request_evictions(
                replace(state, leadership=replace(state.leadership, stopping=True)), now
            )
            following, released = release_placeholders(following)
            return following, (*requests, *released, *save_if_leading(following))


def _handle_leading(state: LoopState, event: Leading, now: datetime) -> LoopState:
    """Begin with the memory that the last leader saved and without an earlier snapshot; or end."""
    state = drop_queue(state)
    if not event.leads:
        return replace(
            state,
            leadership=replace(state.leadership, leads=False),
            reported=replace(state.reported, prevention=NO_REPORT, resilience=NOTHING_COMPUTED, surges=NO_SURGES),
        )
    # This process's own request is still unanswered, and the answer says more than the read of the pod.
    under_way = {request.uid for request in state.queue.under_way}
    memory = note_remaining(merge_memory(state.memory, event.memory), event.remaining - under_way)
    violated = frozenset(token for token, _ in memory.seen)
    # Only the last leader's saved observations were reported, not those of this process since then.
    unsettled = find_unreported_ends(event.memory, state.in_force.policy, now)
    limits = dict.fromkeys(violated, State.VIOLATED)
    return replace(
        state,
        leadership=replace(state.leadership, leads=True, term=event.term),
        memory=memory,
        queue=replace(state.queue, unsaved=""),
        capacity=CapacityQueue(refused=state.capacity.refused),
        reported=replace(
            state.reported,
            violated=violated,
            limits=limits,
            unsettled=unsettled,
            resilience=NOTHING_COMPUTED,
            surges=NO_SURGES,
        ),
        guards=NO_ANSWERS,
        cycle=None,
        before=None,
    )


def _handle_cycle(state: LoopState, event: CycleDue, now: datetime, stopwatch: Stopwatch) -> tuple[LoopState, Requests]:
    if not state.leadership.leads:
        return state, ()
    state = _suspend_unread(state, event.snapshot, now)
    context = AdmissionContext(
        policy=state.in_force.policy,
        mode=state.mode,
        now=now,
        stale=event.stale,
        unsaved=state.queue.unsaved,
        overload=state.queue.overload,
        forbidden=state.queue.forbidden,
        rights=state.queue.rights,
        turn=state.turn,
        pause=state.in_force.pause,
        approved=state.in_force.approved,
        written=state.in_force.written if event.knows_approval else NOT_READ,
        at_once=state.process.at_once,
        requests=event.requests,
        guards=state.guards,
        read_at=event.read_at,
    )
    state = drop_queue(state)
    last = state.cycle
    inputs = CycleInputs(
        snapshot=event.snapshot,
        profile=state.in_force.profile,
        memory=state.memory,
        context=context,
        before=state.before,
        look=state.look,
        known=last.evaluation if last is not None else None,
        capacity=_find_capacity(state, event),
        evicted=event.evicted,
        surging=frozenset(one.surge.owner for one in state.reported.surges.under_way),
        effect=last.effect if last is not None else None,
    )
    cycle = run_cycle(inputs, stopwatch)
    following = replace(
        state,
        cycle=cycle,
        # Nothing is followed on a stale view: changes show when the next fresh view is compared.
        before=state.before if event.stale else cycle.snapshot,
        read_at=event.read_at,
        turn=state.turn + 1,
        look=state.look if event.stale else Look(event.snapshot.node, now),
        memory=cycle.memory,
        # Evictions not requested yet are under way, too, because a step's effect shows after its end.
        guards=replace(cycle.admission.guards, quiet_since=None) if cycle.fates.going else cycle.admission.guards,
    )
    following = queue_placeholders(following, cycle)
    # Nothing is requested yet, because the memory must be saved first, and the time read again after planning.
    return queue_evictions(following, () if state.leadership.stopping else cycle.fates.going, now)


def _handle_watched(state: LoopState, event: Watched, now: datetime) -> LoopState:
    """Follow nodes while another process leads, because a new leader has no other source for their changes."""
    if state.leadership.leads:
        return state
    in_force = state.in_force
    memory = watch(state.memory, state.look, event.snapshot, in_force.policy, now, in_force.profile)
    return replace(state, memory=memory, look=Look(event.snapshot.node, now))


def _find_capacity(state: LoopState, event: CycleDue) -> CapacityStage | None:
    """Return the part of the cycle that requests capacity; None if it is off and no request or placeholder is left."""
    if not uses_capacity(state.in_force.policy, state.memory, event.snapshot):
        return None
    return CapacityStage(
        namespace=state.in_force.policy.capacity.namespace,
        seen=event.snapshot,
        reading=event.capacity,
        creating=state.capacity.creating,
        refused=state.capacity.refused,
        last=state.cycle.capacity if state.cycle is not None else None,
    )


def _handle_policy(state: LoopState, event: PolicyLoaded, now: datetime) -> LoopState:
    known = event.policy.hash == state.in_force.policy.cluster.hash
    if known and not state.in_force.policy_error:
        return replace(state, in_force=replace(state.in_force, profile=event.profile))
    in_force = replace(state.in_force, profile=event.profile, policy_error="", policy_missing=False, policy_since=now)
    following = replace(state, in_force=in_force)
    return _put_in_force(following, event.policy, state.in_force.teams, now)


def _put_in_force(state: LoopState, cluster: Policy, teams: Mapping[str, TeamReading], now: datetime) -> LoopState:
    """Merge a cluster policy with team policies; evictions admitted under earlier policies wait for a new plan."""
    merged = merge(cluster, teams)
    following = replace(state, in_force=replace(state.in_force, teams=teams, team_problems=merged.problems))
    if merged.policy.hash == state.in_force.policy.hash:
        return following
    following = replace(following, in_force=replace(following.in_force, policy=merged.policy, policy_since=now))
    return drop_queue(following, finish_steps=following.mode is not Mode.OBSERVE)


def _suspend_unread(state: LoopState, snapshot: Snapshot, now: datetime) -> LoopState:
    """Evict nothing in a namespace whose team policy has not been read yet, because it may forbid evictions.

    This is so after the cluster policy has listed a namespace, and in a new namespace.
    """
    home = state.process.pause_object.namespace if state.process.pause_object is not None else ""
    cluster = state.in_force.policy.cluster
    populated = filter(snapshot.covers, snapshot.pods_in.keys() - state.in_force.teams.keys())
    unread = select_team_namespaces(cluster, populated, home)
    if not unread:
        return state
    return _put_in_force(state, cluster, {**state.in_force.teams, **dict.fromkeys(unread, UNREAD)}, now)


def _handle_pause(state: LoopState, event: PauseRead, now: datetime) -> tuple[LoopState, Requests]:
    """Apply a pause, its change or its end; evictions admitted before wait for a new plan.

    If the pause was read right before a request, the watch brings its author later. The history stores it with the
    memory, which is saved with the waiting evictions in any case.
    """
    pause = event.pause if event.pause is not None and event.pause.holds(now) else None
    if pause == state.in_force.pause:
        is_news = event.author is not None and not state.queue.evictions
        return state, save_if_leading(state) if is_news else ()
    following = drop_queue(replace(state, in_force=replace(state.in_force, pause=pause)))
    return following, save_if_leading(following)


def _handle_rights(state: LoopState, event: RightsRead) -> LoopState:
    """Take the namespaces where this account may evict; a refusal is over once the right is back."""
    over = {space for space in state.queue.rights.missing if event.rights.allows(space)}
    forbidden = {space: message for space, message in state.queue.forbidden.items() if space not in over}
    state = replace(state, queue=replace(state.queue, rights=event.rights, forbidden=forbidden))
    components = state.cycle.plan.components if over and state.cycle is not None else ()
    groups = {one.name for one in components if one.component.namespace in over}
    kept = tuple(one for one in state.memory.refused if one.group not in groups or one.refuser or one.words)
    return replace(state, memory=structs.replace(state.memory, refused=kept)) if groups else state


def _handle_guards(state: LoopState, event: GuardsRead) -> LoopState:
    """Take answers about the guards in force.

    A bad answer has nothing to drop: a step that good answers admit is requested at once, and while it is under way no
    guard is asked.
    """
    if not state.leadership.leads or event.guards != state.in_force.policy.guards:
        return state
    return replace(state, guards=take_answers(state.guards, event.guards, event.answers, event.at))
