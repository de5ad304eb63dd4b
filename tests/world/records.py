"""The promises about records: what is stored of evictions, what people have approved, how a move is said to end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rebalancer.admission.standing import name_workload
from rebalancer.admission.written import WholeApproval
from rebalancer.documents.memory import parse_memory
from rebalancer.model.approvals import Proposal
from rebalancer.model.moves import Memory, Move, MoveState
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from rebalancer.simulator.state import ClusterState
from tests.world.hub import Hub

REPLACING_SECONDS = 60.0
"""After an eviction: how long its move must be stored while its owner lacks Ready pods."""

UNANSWERED_SECONDS = 100.0
"""How long an eviction that took place must not be stored as one that did not, whatever its answer was."""

CLOCK_ERROR = 100.0
"""Seconds by which the clock of a process may be off."""

SEEN_WITHIN = 60.0
"""Seconds within which a process has noticed what happened to an owner."""


WITHDRAWN_SECONDS = 20.0
"""After an approval was withdrawn: how long a watch, and a request that has begun, may take."""


_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass
class _Whole:
    """An approval of a whole plan: its bounds, how many pods were evicted by it, and when it was withdrawn."""

    evictions: int = 0
    until: datetime = _LONG_AGO
    workloads: set[str] = field(default_factory=set)
    ends: list[float] = field(default_factory=list)
    taken: int = 0


class Records:
    """Follows what is stored; `breach` takes the sentence of a broken promise."""

    def __init__(self, state: ClusterState, hub: Hub, breach: Callable[[str], None]) -> None:
        self._state, self._hub, self._breach = state, hub, breach
        self.stored = Memory()
        self.granted: dict[str, float] = {}
        """When the evictions that took place did, by UID."""
        self.moves: list[Move] = []
        """These evictions."""
        self._blind: set[str] = set()
        """UIDs of those whose sender had a silent watch: pods created since then are all as new as the replacement."""
        self._owners: dict[str, list[float]] = {}
        """The same by the UIDs of the pods' owners."""
        self._created: dict[str, float] = {}
        self._disturbed: dict[str, float] = {}
        """When an owner was scaled last, or lost a pod otherwise than by an eviction of ours, by UID."""
        self._first_planned: dict[str, datetime] = {}
        """When each pod's eviction was first stored as planned, by its own process's clock."""
        self._given_up: set[str] = set()
        """UIDs of moves that were stored as refused before anything was granted: a stopped process may still send."""
        self._proposals: dict[str, Proposal] = {}
        self._approved: set[str] = set()
        """UIDs of the pods that somebody has approved."""
        self._whole: dict[str, _Whole] = {}
        """The approvals of whole plans that have counted, by the plan's hash."""
        self._current: WholeApproval | None = None
        state.store.pods.listeners.append(self._pod_changed)
        state.store.workloads.listeners.append(self._workload_changed)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is None and after is not None:
            self._created[after.uid] = self._hub.seconds
            return
        goes = after is None or (after.terminating and after.evicted_at is None)
        if goes and before is not None and not before.terminating and before.evicted_at is None:
            self.is_disturbed(before)

    def _workload_changed(self, before: Workload | None, after: Workload | None) -> None:
        if before is None or after is None or before.replicas != after.replicas:
            workload = after or before
            assert workload is not None
            self._disturbed[workload.uid] = self._hub.seconds

    def is_granted(self, move: Move, stale_for: float) -> None:
        """Note an eviction that took place; `stale_for` is how old the view of its sender was, in seconds."""
        if stale_for > 0:
            self._blind.add(move.uid)
        if move.uid in self.granted:
            self._breach(f"{move.pod} was evicted twice")
        self.granted[move.uid] = self._hub.seconds
        self.moves.append(move)
        self._count_taken(move)
        self._owners.setdefault(move.owner_uid, []).append(self._hub.seconds)

    def is_disturbed(self, pod: Pod) -> None:
        """Note that somebody else takes a pod from its owner."""
        if pod.owner is not None:
            self._disturbed[pod.owner.uid] = self._hub.seconds

    # What is stored

    def saves(self, who: str, text: str, moves: Sequence[Move], *, holds_lease: bool) -> None:
        """Check what is stored by a process with these moves: one that is in flight may only vanish with its end.

        Those that have ended are left out of a memory that is too large. How they ended is checked all the same.
        """
        memory = parse_memory(text)
        ended = {move.uid for move in moves if move.state.over}
        known = {move.uid for move in memory.moves}
        lost = {move.pod for move in moves if move.uid not in known | ended}
        lost |= {move.pod for move in self.stored.in_flight if move.uid not in known | ended and self._is_open(move)}
        if lost:
            holder = "holds" if holds_lease else "does not hold"
            pods = ", ".join(sorted(lost))
            self._breach(f"{who}, which {holder} the lease, stores a memory without the moves of {pods}")
        for move in moves:
            if move.state is not MoveState.REFUSED:
                continue
            if move.uid not in self.granted:
                self._given_up.add(move.uid)
            elif move.uid not in self._given_up and self._hub.seconds - self.granted[move.uid] < UNANSWERED_SECONDS:
                self._breach(f"{who} stores the eviction of {move.pod} as refused, and it took place")
        if memory.proposal is not None:
            self._proposals[memory.proposal.hash] = memory.proposal
        self.stored = memory
        for move in memory.moves:
            self._first_planned.setdefault(move.uid, move.requested_at)

    def find_undecided(self, move: Move) -> Move | None:
        """Return a stored move of the same workload that may still be carried out, None for a repeated request."""
        if self._first_planned.get(move.uid) != move.requested_at:
            return None
        same = (one for one in self.stored.unexecuted if one.workload == move.workload and one.uid != move.uid)
        return next(same, None)

    def _granted_at(self, move: Move) -> float:
        return self.granted.get(move.uid, -1e9)

    def _is_open(self, move: Move) -> bool:
        """Return whether an eviction took place, and its owner still lacks a pod."""
        pod = self._state.store.pods.get(move.uid)
        if pod is not None and pod.terminating and move.uid in self.granted:
            return True
        return self._hub.seconds - self._granted_at(move) < REPLACING_SECONDS and not self._is_complete(move.owner_uid)

    def _is_complete(self, owner_uid: str) -> bool:
        owner = self._state.store.workloads.get(owner_uid)
        pods = self._state.store.pods.of(owner_uid)
        return owner is None or sum(pod.ready and not pod.terminating for pod in pods) >= owner.replicas

    # How moves end

    def ends(self, who: str, move: Move, stale_for: float) -> None:
        """Check how a process says that a move ended; `stale_for` is how old its view is, in seconds."""
        if move.state is MoveState.LOST and self._is_complete(move.owner_uid) and stale_for < SEEN_WITHIN:
            self._breach(f"{who} takes the replacement of {move.pod} for lost, and its owner has all its pods")
        granted = self._granted_at(move)
        if stale_for > 0:
            return  # it has not seen what happened
        if move.uid not in self.granted or self._disturbed.get(move.owner_uid, -1e9) > granted - SEEN_WITHIN:
            return  # its owner has created and deleted pods for other reasons too
        if move.state is MoveState.OVERTAKEN:
            self._breach(f"{who} awaits no replacement of {move.pod}, and its owner was not changed")
        if move.state in {MoveState.VERIFIED, MoveState.INEFFECTIVE} and move.uid not in self._blind:
            # Replacements of one owner are as good as each other, so the first eviction of a series counts.
            first = min(moment for moment in self._owners[move.owner_uid] if moment > granted - REPLACING_SECONDS)
            if self._created.get(move.replacement, -1e9) < first:
                self._breach(f"{who} takes a pod for the replacement of {move.pod} that was there before its eviction")

    # Approvals

    def approves(self, hash_: str) -> None:
        """Note an approval; it counts if it is of the proposal that is stored, and that one has not expired."""
        proposal = self.stored.proposal
        if proposal is not None and proposal.hash == hash_ and not proposal.approved:
            self._approved.update(proposal.uids)

    def writes(self, approval: WholeApproval | None) -> None:
        """Note what is written about whole plans: it counts if the plan waits, and ends what was written before."""
        now, proposal = self._hub.seconds, self.stored.proposal
        if self._current is not None and self._current != approval and self._current.plan in self._whole:
            self._whole[self._current.plan].ends.append(now)
        self._current = approval
        if approval is None or proposal is None or proposal.hash != approval.plan or proposal.approved:
            return
        repairs = proposal.coverage.repairs if proposal.coverage else ()
        workloads = {workload for repair in repairs for workload in repair.workloads}
        whole = self._whole.setdefault(approval.plan, _Whole())
        # One that is written over at once may have been read or not: either may count.
        whole.evictions, whole.until = max(whole.evictions, approval.evictions), max(whole.until, approval.until)
        whole.workloads.update(filter(approval.includes, workloads))
        whole.ends.clear()

    @property
    def taken_by_whole(self) -> int:
        """How many pods were evicted by approvals of whole plans."""
        return sum(whole.taken for whole in self._whole.values())

    def is_approved(self, move: Move) -> bool:
        """Return whether somebody has approved an eviction, whether or not that has ended since."""
        return move.uid in self._approved or self._find_lack(move) == ""

    def _find_lack(self, move: Move) -> str:
        """Say why an eviction is in no approval of a whole plan, "" if it is in one."""
        whole = self._whole.get(move.approval or "")
        if whole is None:
            return "nobody has approved"
        # A memory that is too large is stored without what the proposal covers: then only the leader knows it.
        return (
            "its workload is not approved"
            if whole.workloads and name_workload(move.workload) not in whole.workloads
            else ""
        )

    def _find_breach(self, move: Move) -> str:
        """Say why an eviction is in no approval of a whole plan that is in force now, "" if it is in one."""
        if lack := self._find_lack(move):
            return lack
        whole = self._whole[move.approval or ""]
        late = [moment for moment in whole.ends if self._hub.seconds - moment > WITHDRAWN_SECONDS]
        return "it was withdrawn" if late else ""

    def _count_taken(self, move: Move) -> None:
        """No approval takes away more pods than it allows."""
        whole = self._whole.get(move.approval or "")
        if whole is None or move.uid in self._approved:
            return
        whole.taken += 1
        if whole.taken > whole.evictions:
            self._breach(f"{move.pod} is eviction {whole.taken} by an approval of {whole.evictions}")
        if (self._state.event_queue.now - whole.until).total_seconds() > CLOCK_ERROR:
            self._breach(f"{move.pod} was evicted after the time of its approval, {whole.until}")
