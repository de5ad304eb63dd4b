"""The controller's safeguards, each of which can be taken out: then the world must find what it was for.

A safeguard is taken out by replacing the one function that it is. A promise that no such run breaks is not checked.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from rebalancer import engine
from rebalancer.admission import admit as admission
from rebalancer.admission import standing
from rebalancer.admission.approval import find_proposal
from rebalancer.controller import cycle, evictions, kill_switch, loop, runner, saver, sender
from rebalancer.controller import surge as surge_worker
from rebalancer.controller.election import Election
from rebalancer.controller.elector import Elector
from rebalancer.controller.evictions import handle_answer, handle_saved
from rebalancer.controller.kill_switch import KillSwitch
from rebalancer.controller.sender import Sender
from rebalancer.controller.state import Answered, Saved
from rebalancer.controller.status import status_documents
from rebalancer.controller.surge import SurgeWorker
from rebalancer.documents import memory as stored_memory
from rebalancer.model.moves import NO_MEMORY, MoveState
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.ports import EvictionResult, SaveAnswer, ScaleAnswer, ScaleResult
from rebalancer.simulator import SimulatedCluster
from rebalancer.surge import follow
from rebalancer.surge.record import Phase
from rebalancer.tracking import moves as tracking
from rebalancer.tracking.replacements import Replacements
from rebalancer.tracking.requests import sent_request
from tests.world.port import Port

Patch = Callable[[pytest.MonkeyPatch], None]


def _pause_is_read_before_a_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KillSwitch, "read", lambda _: None)


def _pause_is_read_again_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kill_switch, "ANSWER_SERVES", 60.0)


def _slow_answers_about_a_pause_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kill_switch, "ANSWER_USABLE", 60.0)


def _ready_pods_are_read_before_a_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evictions, "_expected", lambda state, eviction: ())


def _silent_watches_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Port, "staleness", lambda self: "")


def _memory_is_saved_before_requests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loop, "handle_saved", lambda state, event, now: handle_saved(state, Saved(), now))


def _memory_is_only_written_over_what_was_read(patch: pytest.MonkeyPatch) -> None:
    honest = Port.save

    def save(self: Any, documents: Any) -> SaveAnswer:
        self._version = self._api.version
        return honest(self, documents)

    patch.setattr(Port, "save", save)
    patch.setattr(runner.Runner, "_save", _save_without_asking)


def _save_without_asking(self: Any) -> list[Saved]:
    answer = self._cluster.save(status_documents(self.state, "", ""))
    return [Saved(problem=answer.problem)]


def _lease_runs_out_before_others_take_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Election, "leads", lambda self, at: self.renewed_at is not None)


def _memory_of_the_last_leader_is_read(patch: pytest.MonkeyPatch) -> None:
    honest = Elector._announce  # replaced on purpose

    def announce(self: Any) -> str:
        load = self._load_memory

        def forget() -> Any:
            load()
            return NO_MEMORY

        self._load_memory = forget
        try:
            return honest(self)
        finally:
            self._load_memory = load

    patch.setattr(Elector, "_announce", announce)


def _own_moves_overlay_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine, "overlay_moves", lambda snapshot, moves: snapshot)


def _unanswered_requests_count_as_sent(patch: pytest.MonkeyPatch) -> None:

    def handle(state: Any, event: Answered, now: Any) -> Any:
        if event.answer.result is EvictionResult.UNKNOWN:
            event = Answered(uid=event.uid, answer=msgspec.structs.replace(event.answer, result=EvictionResult.BUDGET))
        return handle_answer(state, event, now)

    patch.setattr(loop, "handle_answer", handle)


def _replacements_are_recognised_by_uid(patch: pytest.MonkeyPatch) -> None:
    def claim(self: Any, move: Any) -> Any:
        earliest = move.requested_at.replace(microsecond=0)
        pods = [pod for pod in self._remaining_pods(move) if pod.uid not in self._claimed and pod.created >= earliest]
        if pods:
            self._claimed.add(pods[0].uid)
        return pods[0] if pods else None

    patch.setattr(Replacements, "claim", claim)


def _overtaken_moves_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replacements, "is_overtaken", lambda self, move: False)


def _refused_groups_back_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evictions, "record_refusal", lambda memory, *_, **__: memory)


def _one_refusal_holds_one_group(patch: pytest.MonkeyPatch) -> None:
    """As if there were one queue: one request at a time, the same group first, and a refusal ends them all."""
    patch.setattr(evictions, "record_refusal", lambda memory, *_, **__: memory)
    patch.setattr(evictions, "_drop_group", lambda state, _: evictions.drop_queue(state))
    patch.setattr(
        evictions,
        "_next_eviction",
        lambda state: None if state.queue.under_way else next(iter(state.queue.evictions), None),
    )
    honest = admission.admit
    patch.setattr(
        cycle,
        "admit",
        lambda plan, snapshot, memory, context, view: honest(plan, snapshot, memory, replace(context, turn=0), view),
    )


def _old_plans_are_not_begun(patch: pytest.MonkeyPatch) -> None:
    for module in (evictions, sender):
        patch.setattr(module, "PLAN_VALID_FOR", timedelta(days=1))


def _begun_steps_are_finished(patch: pytest.MonkeyPatch) -> None:
    honest = evictions.drop_queue
    for module in (evictions, loop):
        patch.setattr(module, "drop_queue", lambda state, **_: honest(state))


def _workloads_keep_enough_pods(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BudgetLedger, "_workload_limit", lambda self, member, pod: None)


def _overloaded_servers_are_left_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evictions, "_hold_all", lambda state, *_: state)
    patch.setattr(Sender, "_check_overload", lambda *_: None)


def _moves_are_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evictions, "record_request", lambda memory, move, **_: _with_transient(memory, move))

    def documents(state: Any, *arguments: Any) -> Any:
        settled = tuple(move for move in state.memory.moves if move.state is not MoveState.PLANNED)
        known = replace(state, memory=msgspec.structs.replace(state.memory, moves=settled))
        return status_documents(known, *arguments)

    patch.setattr(saver, "status_documents", documents)


def _with_transient(memory: Any, move: Any) -> Any:
    others = tuple(other for other in memory.moves if other.uid != move.uid)
    return msgspec.structs.replace(memory, moves=(*others, move), sent=(*memory.sent, sent_request(move)))


def _lost_moves_are_not_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tracking, "REPLACEMENT_TIMEOUT", timedelta(seconds=5))


def _memory_stays_small(patch: pytest.MonkeyPatch) -> None:
    """As if violations were stored whole, however many there are; whatever else is large is left out."""
    of_violations = {stored_memory._shorten_since, stored_memory._drop_delaying}
    others = tuple(reduce for reduce in stored_memory._REDUCTIONS if reduce not in of_violations)
    patch.setattr(stored_memory, "_REDUCTIONS", others)


def _few_ended_moves_are_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tracking, "ENDED_MOVES_STORED", 10_000)


def _moves_in_flight_are_stored_whatever_else_is(patch: pytest.MonkeyPatch) -> None:

    def drop_moves(memory: Any) -> Any:
        return msgspec.structs.replace(memory, moves=())

    reductions = [
        drop_moves if reduce is stored_memory._drop_ended_moves else reduce for reduce in stored_memory._REDUCTIONS
    ]
    patch.setattr(stored_memory, "_REDUCTIONS", tuple(reductions))


def _events_are_not_lost_while_others_are_handled(patch: pytest.MonkeyPatch) -> None:
    def drain(self: Any) -> None:
        arrived = []
        while not self._inbox.empty():
            arrived.append(self._inbox.get())
        for event in arrived:
            self._take(event)
        while not self._inbox.empty():  # as if they had been handled too
            self._inbox.get()

    patch.setattr(runner.Runner, "drain", drain)


def _only_what_is_approved_is_admitted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "approved_part", lambda step, proposal: tuple(step))


def _approvals_are_of_the_present_proposal(patch: pytest.MonkeyPatch) -> None:
    honest = find_proposal

    def find(plan: Any, memory: Any, policy: Any, approved: str, now: Any) -> Any:
        current = memory.proposal.hash if memory.proposal is not None and approved else approved
        return honest(plan, memory, policy, current, now)

    patch.setattr(admission, "find_proposal", find)


def _what_a_whole_approval_allows_is_charged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evictions, "charge", lambda memory, *_: memory)


def _a_whole_approval_covers_its_workloads_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(standing.Covered, "covers", lambda *_: True)


def _a_whole_approval_ends_with_its_time(patch: pytest.MonkeyPatch) -> None:
    honest = standing._find_end

    def find(approval: Any, memory: Any, snapshot: Any, around: Any) -> str:
        late = approval.until + timedelta(days=1)
        return honest(msgspec.structs.replace(approval, until=late), memory, snapshot, around)

    patch.setattr(standing, "_find_end", find)
    for module in (evictions, runner):
        patch.setattr(module, "is_in_force", lambda approval, written, _: written.id == approval.id)


_ALL: tuple[Patch, ...] = (
    _pause_is_read_before_a_request,
    _pause_is_read_again_soon,
    _slow_answers_about_a_pause_hold,
    _ready_pods_are_read_before_a_step,
    _silent_watches_hold,
    _memory_is_saved_before_requests,
    _memory_is_only_written_over_what_was_read,
    _lease_runs_out_before_others_take_it,
    _memory_of_the_last_leader_is_read,
    _own_moves_overlay_the_snapshot,
    _unanswered_requests_count_as_sent,
    _replacements_are_recognised_by_uid,
    _overtaken_moves_end,
    _refused_groups_back_off,
    _one_refusal_holds_one_group,
    _old_plans_are_not_begun,
    _begun_steps_are_finished,
    _workloads_keep_enough_pods,
    _overloaded_servers_are_left_alone,
    _moves_are_stored,
    _lost_moves_are_not_forgotten,
    _memory_stays_small,
    _few_ended_moves_are_stored,
    _moves_in_flight_are_stored_whatever_else_is,
    _events_are_not_lost_while_others_are_handled,
    _only_what_is_approved_is_admitted,
    _approvals_are_of_the_present_proposal,
    _what_a_whole_approval_allows_is_charged,
    _a_whole_approval_covers_its_workloads_alone,
    _a_whole_approval_ends_with_its_time,
)
SAFEGUARDS = {patch.__name__.removeprefix("_").replace("_", " "): patch for patch in _ALL}


def _replicas_are_changed_as_they_were_read(patch: pytest.MonkeyPatch) -> None:
    def scale(self: Any, workload: Any, read: Any, replicas: int) -> ScaleAnswer:
        self.scale(workload.namespace, workload.kind, workload.name, replicas)
        return ScaleAnswer(ScaleResult.SCALED)

    patch.setattr(SimulatedCluster, "set_replicas", scale)


def _pods_that_go_are_marked_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follow, "_find_unmarked", lambda seen: None)


def _marks_are_given_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follow, "CACHE_LAG", 0.0)


def _all_pods_are_ready_before_any_goes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follow._Seen, "find_unready", lambda *_: "")
    patch.setattr(SurgeWorker, "_find_unready", lambda *_: "")


def _added_pods_are_taken_back(patch: pytest.MonkeyPatch) -> None:
    def leave(surge: Any, *_: Any) -> follow.Store:
        return follow.Store(msgspec.structs.replace(surge, phase=Phase.UNMARKING))

    patch.setattr(follow, "_take_back", leave)


def _numbers_of_others_stand(patch: pytest.MonkeyPatch) -> None:
    """As if whatever the replicas are now were the number that the surge has written."""

    def scale(self: Any, surge: Any, before: int, after: int) -> str:
        read = self._cluster.read_scale(surge.workload)
        return "" if read is None else self._cluster.set_replicas(surge.workload, read, after).message

    patch.setattr(SurgeWorker, "_scale", scale)


def _surges_are_stored_before_they_begin(patch: pytest.MonkeyPatch) -> None:
    def store(self: Any, records: Any) -> str:
        self._records = records
        return ""

    patch.setattr(SurgeWorker, "_store", store)


def _surges_heed_a_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SurgeWorker, "_find_last_obstacle", lambda _: "")


def _whose_a_number_is_is_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(surge_worker, "_is_of_others", lambda *_: False)


_OF_SURGES: tuple[Patch, ...] = (
    _whose_a_number_is_is_asked,
    _replicas_are_changed_as_they_were_read,
    _pods_that_go_are_marked_first,
    _marks_are_given_time,
    _all_pods_are_ready_before_any_goes,
    _added_pods_are_taken_back,
    _numbers_of_others_stand,
    _surges_are_stored_before_they_begin,
    _surges_heed_a_pause,
)
SURGE_SAFEGUARDS = {patch.__name__.removeprefix("_").replace("_", " "): patch for patch in _OF_SURGES}


@contextmanager
def without(name: str) -> Iterator[None]:
    """Take a safeguard out."""
    with pytest.MonkeyPatch.context() as patch:
        (SAFEGUARDS | SURGE_SAFEGUARDS)[name](patch)
        yield
