"""Moves: evictions of ours, from the request to the verdict on the replacement. What has to be remembered of them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from rebalancer.model.reasons import Cause, ViolationCause

Moment = Annotated[datetime, Meta(tz=True)]
"""A point in time that says its zone: one without, in a memory that somebody has edited, is not read."""


class Reference(Struct, frozen=True, gc=False, order=True):
    """A workload by name, as documents and messages show it."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        """Name it as messages do."""
        return f"{self.namespace}/{self.name} ({self.kind})"


class MoveState(StrEnum):
    """Where a move stands. The transitions are in `tracking.moves`."""

    PLANNED = "planned"
    """The eviction is asked for, or its answer was lost."""
    EVICTED = "evicted"
    """The API server granted it; no replacement is seen yet."""
    PENDING = "pending"
    """The replacement exists and is not Ready."""
    VERIFIED = "verified"
    """The replacement is Ready where it was foreseen."""
    INEFFECTIVE = "ineffective"
    """The replacement is Ready somewhere else."""
    LOST = "lost"
    """No replacement came, or it did not become Ready in time."""
    REFUSED = "refused"
    """The API server did not grant it: nothing was moved."""

    @property
    def over(self) -> bool:
        """Whether nothing more is to come."""
        return self in {MoveState.VERIFIED, MoveState.INEFFECTIVE, MoveState.LOST, MoveState.REFUSED}


class Target(Struct, frozen=True, gc=False):
    """Where a replacement is foreseen: for one topology key the values it may land on."""

    topology_key: str
    values: tuple[str, ...]


class Move(Struct, frozen=True, gc=False, kw_only=True):
    """One eviction. `uid` is the victim's and identifies the move; `owner_uid` that of its controller.

    `group` names the group that it was to repair.
    """

    uid: str
    namespace: str
    pod: str
    node: str
    workload: Reference
    owner_uid: str
    group: str = ""
    cause: Cause
    targets: tuple[Target, ...] = ()
    state: MoveState = MoveState.PLANNED
    asked_at: Moment
    changed_at: Moment
    replacement: str = ""
    """UID of the pod that took its place, once it is seen."""


MAX_FAILED_PREDICTIONS = 3
"""Moves of a group in a row that did not come out as foreseen, after which nothing is foreseen for it any more."""


class FailedPrediction(Struct, frozen=True, gc=False):
    """How often in a row the repair of a group did not come out as foreseen, and when that was last seen."""

    group: str
    times: int
    last: Moment


class ZoneSeen(Struct, frozen=True, gc=False, order=True):
    """When nodes of a zone were last there: a zone is a value of the label `key`."""

    key: str
    zone: str
    last: Moment


class ObservedChange(Struct, frozen=True, gc=False):
    """Something that was seen to happen and can upset a spread: to a workload, by name, or to a domain, KEY=VALUE."""

    cause: ViolationCause
    subject: str
    at: Moment


class ExtraEviction(Struct, frozen=True, gc=False, order=True):
    """A step that may cost a group's repair one eviction above the minimum; one such is all that a repair may take.

    It did cost it if the group is further from right than `goal` evictions afterwards.
    """

    group: str
    goal: int
    uid: str = ""
    """The victim's; an eviction that is not granted costs nothing."""


class Memory(Struct, frozen=True, kw_only=True):
    """All that must outlive a cycle. Kept in the status ConfigMap, empty for files.

    `moves` are those under way and the last that ended, oldest first. `seen` says since when each violated group has
    been violated, by the group's name. `sent` are the times of the evictions of the last minute. `misses` are of the
    groups that are violated still. `zones` are those of the last hour, for the limits that depend on their number.
    """

    moves: tuple[Move, ...] = ()
    seen: tuple[tuple[str, Moment], ...] = ()
    sent: tuple[Moment, ...] = ()
    failed_predictions: tuple[FailedPrediction, ...] = ()
    zones: tuple[ZoneSeen, ...] = ()
    extra_evictions: tuple[ExtraEviction, ...] = ()
    """Of groups that are violated still."""
    changes: tuple[ObservedChange, ...] = ()
    """Of the last hour, the newest last."""
    causes: tuple[tuple[str, ViolationCause], ...] = ()
    """Of what is violated still, by a short name."""

    @property
    def in_flight(self) -> tuple[Move, ...]:
        """The moves that are not over."""
        return tuple(move for move in self.moves if not move.state.over)


NO_MEMORY = Memory()
