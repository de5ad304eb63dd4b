"""Moves: the evictions of the rebalancer, from the request to the verified replacement, and what is stored of them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, field, structs

from rebalancer.model.approvals import Proposal, StandingApproval
from rebalancer.model.breaker import CLOSED, BreakerState
from rebalancer.model.history import Entry, Noted
from rebalancer.model.losses import DomainLoss
from rebalancer.model.moments import ALWAYS, Moment
from rebalancer.model.motion import DomainMotion, NodeChange
from rebalancer.model.reasons import NOT_FOUND, Cause, ViolationCause
from rebalancer.model.words import name_list, name_of_key, plural, short_key

MAX_FAILED_PREDICTIONS = 3
"""Failed predictions in a row after which no more repair by prediction is planned for a group."""

_NOT_ARRIVED: Final[Mapping[str, Any]] = {
    "awaited_since": None,
    "uncreated": None,
    "bound_since": None,
    "arrived": False,
    "counted": False,
    "unstarted": None,
    "own": UNSET,
    "victim_seen": None,
}
"""Fields about a move's arrival, which only admission reads."""


def make_token(name: str) -> str:
    """Return a short name of a group or limit, the same in every process, so that a memory of thousands stays small."""
    return blake2b(name.encode(), digest_size=8).hexdigest()


def make_place(name: str) -> str:
    """Return an even shorter name of a node or namespace: two places with one name share a rate (a mere delay)."""
    return blake2b(name.encode(), digest_size=4).hexdigest()


class Reference(Struct, frozen=True, gc=False, order=True):
    """A workload by name, as documents and messages show it."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.kind})"


class MoveState(StrEnum):
    """The state of a move. The transitions are in `tracking.moves`."""

    PLANNED = "planned"
    """The eviction is stored and about to be requested, is requested, or its answer was lost."""
    EVICTED = "evicted"
    """The API server granted the eviction; no replacement has been observed yet."""
    PENDING = "pending"
    """The replacement exists and is not Ready."""
    VERIFIED = "verified"
    """The replacement is Ready where it was predicted."""
    INEFFECTIVE = "ineffective"
    """The replacement is Ready somewhere else."""
    LOST = "lost"
    """No replacement was created, or it did not become Ready in time."""
    OVERTAKEN = "overtaken"
    """Its owner was scaled down, rolled out or deleted since, and wants no replacement: the prediction is void."""
    REFUSED = "refused"
    """The API server refused the eviction: nothing was moved."""
    GONE = "gone"
    """The API server no longer knows the pod: somebody else, or a request whose answer was lost, removed it."""

    @property
    def over(self) -> bool:
        """Whether this state is final, except for a refused move with `deferred_until`."""
        return self not in _IN_FLIGHT


NEVER_GRANTED = frozenset({MoveState.REFUSED, MoveState.GONE})
"""States of a request that moved nothing; another leader's request for the same pod may have moved it."""

_IN_FLIGHT = frozenset({MoveState.PLANNED, MoveState.EVICTED, MoveState.PENDING})


class OwnFailure(StrEnum):
    """A cause in its own namespace that keeps a replacement from running: it says nothing about the cluster."""

    OBJECT = "object"
    """A quota, a LimitRange, a Pod Security level or a missing service account refuses the pod."""
    IMAGE = "image"
    """Its image cannot be pulled, runs in no other namespace, and the registry serves others."""
    TEMPLATE = "template"
    """It crashes, and no pod of its template has run."""


class Target(Struct, frozen=True, gc=False):
    """Where a replacement is predicted: for one topology key, the domains in which it may be placed."""

    topology_key: str
    values: tuple[str, ...]


class Move(Struct, frozen=True, gc=False, kw_only=True):
    """One eviction."""

    uid: str
    """The victim's UID; it identifies the move."""
    namespace: str
    pod: str
    node: str
    workload: Reference
    owner_uid: str
    """The UID of the victim's controller."""
    replicas: int = 0
    """How many pods its owner wanted then."""
    template: str | UnsetType = UNSET
    """The revision of the victim's template if its owner now creates pods of another revision, else UNSET."""
    group: str = ""
    """The name of the group that the eviction repairs."""
    cause: Cause
    targets: tuple[Target, ...] = ()
    state: MoveState = MoveState.PLANNED
    requested_at: Moment = field(name="asked_at")
    """The JSON key is older than the attribute's name."""
    changed_at: Moment
    replacement: str = ""
    """UID of the pod that replaced it, once it is observed."""
    awaited_since: Moment | None = None
    """Since when snapshots show that its owner can create the replacement and has not; else None."""
    uncreated: str | None = None
    """Set while the replacement is not created in time: the reason, "" if not known; else None."""
    bound_since: Moment | None = None
    """Since when snapshots have shown the replacement bound to a node without a reason why it does not run."""
    arrived: bool = False
    """Whether the replacement has arrived: it is Ready, or has been bound for some time without a known trouble."""
    counted: bool = False
    """Whether its arrival has let the windows of slow start grow: a pod that crashes and runs again counts once."""
    unstarted: str | None = None
    """Set while a replacement was created and does not run: why."""
    own: OwnFailure | UnsetType = UNSET
    """The cause in its namespace that keeps an overdue replacement from running; mostly UNSET, and not stored."""
    victim_seen: Moment | None = None
    """When the evicted pod was last seen to end within its grace period, if that is longer than a minute."""
    deferred_until: Moment | None = None
    """Set if admission control refused the eviction with code 429: when it is requested again.

    Until then the program that refused it may remove the pod itself, as KubeVirt does.
    """
    unexecuted: bool = False
    """Whether a new leader has read a planned move's pod at the API server: it was there, and not terminating.

    The leader before may have ended before it requested the eviction, or the API server may still carry it out.
    """
    repeats: Moment | None = None
    """If this eviction repeats an unexecuted move: that move's `requested_at`, when the last leader had stored it.

    If the repeated request is refused or not sent, the first request may still be carried out.
    """
    approval: str | UnsetType = UNSET
    """In mode Approve the hash of the plan whose approval covered its request."""
    ready_at: Moment | UnsetType = UNSET
    """When its replacement became Ready, by the pod's own status, maybe long before a leader's snapshot shows it."""

    @property
    def in_flight(self) -> bool:
        """Whether it is not over, and its pod counts as evicted."""
        return not self.state.over and not self.unexecuted

    @property
    def own_failure(self) -> OwnFailure | None:
        """The cause in its namespace that keeps the replacement from running; None if the cluster is, or nothing is."""
        return self.own or None

    @property
    def overdue(self) -> bool:
        """Whether the replacement should be there by now: it was not created, or does not run."""
        return self.uncreated is not None or self.unstarted is not None


class SentRequest(Struct, frozen=True, gc=False, order=True, array_like=True):
    """An eviction that was sent, for the rates: when, and the places of its node and namespace (`make_place`)."""

    at: Moment
    node: str = ""
    namespace: str = ""


class FailedPrediction(Struct, frozen=True, gc=False):
    """How often in a row a replacement of a group was not placed as predicted, and when that last happened."""

    group: str
    times: int
    last: Moment


class RefusedRequest(Struct, frozen=True, gc=False):
    """How often in a row a request for a group was not granted, when that last happened, and how long to wait then.

    If admission control refused the last request, `refuser` says who did, `words` why, and `pod` is NAMESPACE/NAME of
    the pod. If a budget did, `words` are what the plan had counted on. Otherwise they are "".
    """

    group: str
    times: int
    last: Moment
    wait: timedelta
    refuser: str = ""
    words: str = ""
    pod: str = ""

    @property
    def next_try(self) -> datetime:
        """When a request for the group may be sent again."""
        return self.last + self.wait


class ZoneSeen(Struct, frozen=True, gc=False, order=True):
    """When nodes of a domain were last observed; `zone` is a value of the label `key`."""

    key: str
    zone: str
    last: Moment


class ObservedChange(Struct, frozen=True, gc=False, omit_defaults=True):
    """An observed change that can cause a violation; `subject` is a workload's name or a domain, KEY=VALUE.

    `deleted`: at least one of the nodes that a domain lost no longer exists, so that it will not be seen to come back.
    `back_at` is when a domain that had been lost as a whole came back. It is null if the domain had never lost more
    than a part, was only cordoned, or is new.
    """

    cause: ViolationCause
    subject: str
    at: Moment
    deleted: bool = False
    back_at: Moment | None = None


class StartWindow(Struct, frozen=True, gc=False, kw_only=True, order=True):
    """How many moves may be under way at once: in a namespace, or in the cluster (namespace "").

    `limited`: the last admission refused evictions because of it. `moved_at` is when the last move was requested there.
    """

    namespace: str = ""
    size: int
    limited: bool = False
    moved_at: Moment


class ExtraEviction(Struct, frozen=True, gc=False, order=True):
    """A step that may cost a group's repair one eviction more than the minimum; a repair may take one such step.

    The step did cost an extra eviction if the group needs more than `goal` evictions afterwards.
    """

    group: str
    goal: int
    uid: str = ""
    """UID of the victim; an eviction that is not granted costs nothing."""


class Drain(Struct, frozen=True, gc=False, order=True):
    """A node from which pods were evicted while it was cordoned or being removed; `by` says by whom, "" if unknown."""

    node: str
    by: str = ""

    def __str__(self) -> str:
        """Say what happens to the node."""
        return f"node {self.node} is being drained{f' by {self.by}' if self.by else ''}"


class OthersEvictions(Struct, frozen=True, gc=False, kw_only=True):
    """The evictions of a workload's pods that others requested in quick succession (`tracking.evicted`).

    `pods` are the names of the last of them, `drains` some of the nodes that were being drained.
    """

    workload: Reference
    since: Moment
    """When the first eviction was seen."""
    last: Moment
    """When the last eviction was seen."""
    number: int
    pods: tuple[str, ...]
    drains: tuple[Drain, ...] = ()
    elsewhere: bool = False
    """Whether some pods were on nodes that are not being drained."""
    perhaps_own: bool = False
    """Whether the rebalancer may have requested the evictions itself, because a snapshot from a file does not say."""

    def __str__(self) -> str:
        """Say which pods were evicted, when, and by whom."""
        more = f" and {self.number - len(self.pods)} more" if self.number > len(self.pods) else ""
        last = f", the last at {self.last:%H:%M:%SZ}" if self.last > self.since else ""
        own = ", or by a rebalancer in this cluster," if self.perhaps_own else ""
        who = [str(drain) for drain in self.drains]
        if self.elsewhere:
            who.append(
                "only the API server's audit log says who evicted them; let only one program evict pods of the workload"
            )
        return (
            f"{plural(self.number, 'pod')} ({name_list(self.pods)}{more}) of {self.workload} "
            f"{'was' if self.number == 1 else 'were'} evicted by others{own} since {self.since:%Y-%m-%d %H:%M:%SZ}"
            f"{last}: {'; '.join(who)}"
        )


class CapacityState(StrEnum):
    """The state of a request for capacity; a request that has ended has no state."""

    REQUESTED = "requested"
    """Its placeholders are to be created, or wait for nodes."""
    READY = "ready"
    """Its placeholders ran long enough: the repair goes on step by step."""


class DomainName(Struct, frozen=True, gc=False, order=True):
    """A domain: a value of a topology key."""

    topology_key: str
    value: str

    def __str__(self) -> str:
        """Write it as label selectors do."""
        return f"{self.topology_key}={self.value}"


def name_domains(domains: Iterable[DomainName]) -> str:
    """Name domains, grouped by key: `zone b, c and node n-1`."""
    by_key: dict[str, list[str]] = {}
    for domain in domains:
        by_key.setdefault(domain.topology_key, []).append(domain.value)
    return " and ".join(name_of_key(short_key(key), values) for key, values in by_key.items())


class CapacityRequest(Struct, frozen=True, gc=False, kw_only=True):
    """Capacity that was requested for the repair of some workloads.

    `token` identifies it from cycle to cycle. `placeholders` are the names of the Jobs that are to exist, `nodes` the
    nodes on which they ran when the capacity was ready.
    """

    token: str
    workloads: tuple[Reference, ...]
    domains: tuple[DomainName, ...]
    placeholders: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    state: CapacityState = CapacityState.REQUESTED
    since: Moment


class CapacityAttempt(Struct, frozen=True, gc=False, kw_only=True):
    """How often in a row capacity in a domain was requested for the same workloads, and when the last request ended.

    `failure` says why it failed, "" if it did not. A node that was gained and lost again counts as never gained.
    """

    token: str
    domain: DomainName
    times: int
    last: Moment
    failure: str = ""


class PlanningMemory(Struct, frozen=True, kw_only=True):
    """The part of the memory that assessment and plan read; a plan stays valid while this part is equal.

    `moves` are those in progress and the last that ended, oldest first. `zones` are the domains seen within the hour,
    or within `topology.remember`: some limits depend on their number, and domains that have lost their nodes are
    reported.
    """

    moves: tuple[Move, ...] = ()
    failed_predictions: tuple[FailedPrediction, ...] = field(default=(), name="misses")
    """Failed predictions of groups that are still violated. The JSON key is older than the attribute's name."""
    zones: tuple[ZoneSeen, ...] = ()
    extra_evictions: tuple[ExtraEviction, ...] = field(default=(), name="spares")
    """Extra evictions of groups that are still violated."""
    changes: tuple[ObservedChange, ...] = ()
    """Changes of the last hour, the newest last."""
    causes: tuple[tuple[str, ViolationCause], ...] = ()
    """The causes of what is still violated, by token."""
    capacity: tuple[CapacityRequest, ...] = ()
    """Requests that have not ended."""
    settling: tuple[tuple[str, Moment], ...] = ()
    """When an unfinished repair first waited for a node to settle, by token."""
    node_changes: tuple[NodeChange, ...] = ()
    """Changes within `nodes.settle`, at least a minute, the newest last."""
    domains_in_motion: tuple[DomainMotion, ...] = ()
    """Domains that lose nodes, or have until a moment ago."""
    evicted_by_others: tuple[OthersEvictions, ...] = ()
    """Workloads whose pods others evict, or have until a moment ago; the workload that lost a pod last is last."""

    @property
    def in_flight(self) -> tuple[Move, ...]:
        """The moves that are not over, without unexecuted ones."""
        return tuple(move for move in self.moves if move.in_flight)

    @property
    def unexecuted(self) -> tuple[Move, ...]:
        """The planned moves whose pods a new leader has found as they were."""
        return tuple(move for move in self.moves if move.unexecuted)

    @property
    def unexecuted_pods(self) -> frozenset[str]:
        """The UIDs of their pods."""
        return frozenset(move.uid for move in self.unexecuted)


class Memory(PlanningMemory, frozen=True, kw_only=True):
    """Everything that must outlive a cycle. Stored in the status ConfigMap (key `memory.json`); empty for files.

    `seen` is since when each violated group has been violated, by the token of the group's name. `sent` are the
    evictions of the last minute.
    """

    seen: tuple[tuple[str, Moment], ...] = ()
    sent: tuple[SentRequest, ...] = field(default=(), name="requests")
    """The JSON key differs: under `sent` earlier releases stored the times alone."""
    refused: tuple[RefusedRequest, ...] = ()
    """Refused requests of groups that are still violated."""
    breaker: BreakerState = CLOSED
    """The state of the breaker after the last cycle."""
    proposal: Proposal | None = None
    """In mode Approve, the proposal in force."""
    standing: StandingApproval | UnsetType = UNSET
    """In mode Approve the approval of a whole plan that is carried out; not stored where there is none."""
    consumed: tuple[str, ...] | UnsetType = UNSET
    """Identities of the last approvals of whole plans that came into force: each comes into force once."""
    capacity_attempts: tuple[CapacityAttempt, ...] = ()
    """Attempts of the last days."""
    capacity_wanted: tuple[tuple[str, Moment], ...] = ()
    """The time since which a repair has lacked nothing but capacity, by token."""
    windows: tuple[StartWindow, ...] = ()
    """Windows of slow start that differ from the first windows, the cluster's first."""
    queued: tuple[tuple[str, Moment], ...] = ()
    """Since when a step that needs several concurrent evictions has waited for slow start, by token."""
    canaries: tuple[str, ...] = ()
    """Owners whose first moves were verified (`budgets.canary`), by token of the UID, while they are under repair."""
    replaced_at: Moment | None = None
    """When the last eviction was requested whose replacement proves that the cluster replaces pods."""
    outbox: tuple[Entry, ...] = ()
    """Entries of the history that are not known to be stored in its ConfigMaps, the oldest first."""
    noted: Noted = Noted()
    """What the history has."""
    lost: tuple[DomainLoss, ...] = ()
    """Zones that have lost nodes, and what these held."""

    @property
    def planning(self) -> PlanningMemory:
        """The part that assessment and plan read, for comparison, without fields that often change but do not matter.

        Left out are whether a replacement has arrived, when existing zones were seen, and unknown causes, since the
        same snapshot and changes give no cause again.
        """
        known = {name: getattr(self, name) for name in PlanningMemory.__struct_fields__}
        known["moves"] = tuple(structs.replace(move, **_NOT_ARRIVED) for move in self.moves)
        last = max((zone.last for zone in self.zones), default=ALWAYS)
        known["zones"] = tuple(structs.replace(zone, last=ALWAYS) if zone.last == last else zone for zone in self.zones)
        known["causes"] = tuple((token, cause) for token, cause in self.causes if cause not in NOT_FOUND)
        return PlanningMemory(**known)


NO_MEMORY = Memory()
