"""Placeholders in the loop: created and deleted once the memory is saved, and released when the process ends.

The memory is saved first, so that the next leader knows what a Job is for. The leader deletes a Job that no request in
the memory names. The functions decide, as parts of the loop. `PlaceholderJobs` carries out their requests, in the
caller's thread.
"""

from collections.abc import Callable
from dataclasses import replace

import structlog
from msgspec import structs

from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import (
    CreatePlaceholders,
    DeletePlaceholders,
    LoopState,
    PlaceholdersCreated,
    Requests,
)
from rebalancer.policy import Capacity
from rebalancer.ports import Placeholders

_log = structlog.get_logger("rebalancer")


def queue_placeholders(state: LoopState, cycle: Cycle) -> LoopState:
    """Store which placeholders a cycle wants to be created and deleted."""
    outcome = cycle.capacity
    if outcome is None:
        return replace(state, capacity=replace(state.capacity, to_create=(), to_delete=(), refused={}))
    return replace(
        state,
        capacity=replace(state.capacity, to_create=outcome.decision.created, to_delete=outcome.unneeded, refused={}),
    )


def request_placeholders(state: LoopState) -> tuple[LoopState, Requests]:
    """Request what is queued, after an attempt to save the memory; without a saved memory nothing is created."""
    if not state.leadership.leads or not (state.capacity.to_create or state.capacity.to_delete):
        return state, ()
    creating, deleting = state.capacity.to_create, state.capacity.to_delete
    following = replace(state, capacity=replace(state.capacity, to_create=(), to_delete=()))
    if state.queue.unsaved and creating:
        tokens = {placeholder.token for placeholder in creating}
        others = tuple(request for request in state.memory.capacity if request.token not in tokens)
        memory = structs.replace(state.memory, capacity=others)
        following, creating = replace(following, memory=memory), ()
    requests: list[CreatePlaceholders | DeletePlaceholders] = []
    if creating:
        following = replace(
            following,
            capacity=replace(following.capacity, creating=frozenset(placeholder.name for placeholder in creating)),
        )
        requests.append(CreatePlaceholders(placeholders=creating, term=state.leadership.term))
    if deleting:
        requests.append(DeletePlaceholders(names=deleting))
    return following, tuple(requests)


def handle_created(state: LoopState, event: PlaceholdersCreated) -> LoopState:
    """Record the refused placeholders, for the next cycle."""
    return replace(state, capacity=replace(state.capacity, creating=frozenset(), refused=event.refused))


def release_placeholders(state: LoopState) -> tuple[LoopState, Requests]:
    """End all requests for capacity because the process ends; the next leader begins anew."""
    names = tuple(sorted({name for request in state.memory.capacity for name in request.placeholders}))
    if not state.leadership.leads or not names:
        return state, ()
    memory = structs.replace(state.memory, capacity=())
    following = replace(state, capacity=replace(state.capacity, to_create=(), to_delete=()), memory=memory)
    return following, (DeletePlaceholders(names=names),)


class PlaceholderJobs:
    """Carries out the loop's requests about placeholders; `find_objection` is that of `Sender`."""

    def __init__(self, jobs: Placeholders | None, find_objection: Callable[[int], str]) -> None:
        self._jobs = jobs
        self._find_objection = find_objection

    def create(self, request: CreatePlaceholders, rules: Capacity) -> PlaceholdersCreated:
        """Create placeholders one by one until one is refused; the next cycle then releases the created ones."""
        refused: dict[str, str] = {}
        for placeholder in request.placeholders:
            if placeholder.token in refused or self._jobs is None or self._find_objection(request.term):
                continue
            try:
                problem = self._jobs.create_placeholder(placeholder, rules)
            except Exception as error:  # noqa: BLE001  # else the loop would wait for the answer for ever
                _log.exception("placeholder without a result", job=placeholder.name)
                problem = f"{type(error).__name__}: {error}"
            _log.info("placeholder", job=placeholder.name, result=problem or "created")
            if problem:
                refused[placeholder.token] = problem
        return PlaceholdersCreated(refused=refused)

    def delete(self, request: DeletePlaceholders, rules: Capacity) -> None:
        if self._jobs is not None:
            for name in request.names:
                self._jobs.delete_placeholder(rules.namespace, name)
                _log.info("placeholder", job=name, result="deleted")
