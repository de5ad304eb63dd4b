"""A standing approval: a person approves a whole repair once, up to a number of evictions and until a time.

A proposal has only the evictions that may go now; a repair goes on for many steps. A standing approval begins when the
file `approval.yaml` names the plan that waits. From then on an eviction goes without another question on three
conditions: it repairs violations of the plan, takes only pods of the plan's workloads, and stays within the number:

    plan of 9 evictions, 3 of them now    approved: 9    web 4, api 3, cart 2
    step 1: web-1 api-1 cart-1            left: 6
    step 2: web-2 api-2 cart-2            left: 3, the repair of cart is done: cart is covered no more
    ...
    anything else: proposed again

The number counts pods taken away: the evicted pod, and the pods that may be preempted for its replacement. Each is
charged before its eviction is requested, in the same write, so that the next leader continues from there. A refused
eviction is given back once a snapshot still shows the pod.

The approval ends at its time, and

* when the file is gone or replaced;
* when the policy, or the template of a covered workload, changes;
* when a zone has lost its last node;
* when the number is used up;
* when nothing that it covers is violated.

It is valid once: its identity is stored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, structs

from rebalancer.admission.written import APPROVAL_KEY, WholeApproval, Written
from rebalancer.model.approvals import Coverage, CoveredRepair, Proposal, StandingApproval
from rebalancer.model.moves import Memory, Move, Reference, make_token
from rebalancer.model.nodes import ZONE
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import plural
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.policy import Mode, Policy

MOST_CONSUMED: Final = 10
"""How many identities of approvals are stored, the last ones; older approvals name plans that no longer wait."""

MOST_COVERED: Final = 200
"""The most repairs, and the most workloads, that one approval covers, since they are stored."""


class Ended(NamedTuple):
    """A standing approval that has ended, and why."""

    standing: StandingApproval
    why: str


class Outcome(NamedTuple):
    """What has become of standing approvals in a cycle.

    `begun`: the standing approval came into force now. `problem` says why the file does not approve what it was written
    for.
    """

    standing: StandingApproval | None = None
    consumed: tuple[str, ...] = ()
    begun: bool = False
    ended: Ended | None = None
    problem: str = ""

    @property
    def stored(self) -> Mapping[str, object]:
        """The fields of the memory that the outcome sets."""
        return {"standing": self.standing or UNSET, "consumed": self.consumed or UNSET}


NO_OUTCOME: Final = Outcome()


class Circumstances(NamedTuple):
    """What a standing approval depends on beside the plan, the memory and the snapshot."""

    written: Written
    proposal: Proposal | None
    """The proposal in force before this cycle proposes anything."""
    policy: Policy
    mode: Mode
    now: datetime
    is_stale: bool


def name_workload(workload: Reference) -> str:
    """Write a workload as approvals name it: NAMESPACE/KIND/NAME, the kind in small letters."""
    return f"{workload.namespace}/{workload.kind.lower()}/{workload.name}"


def count_taken(eviction: Eviction) -> int:
    """Return how many pods an eviction takes away at most: the evicted pod, and pods that may be preempted for it."""
    return 1 + max((len(outcome.pods) for outcome in eviction.repair.preempts), default=0)


# What an approval covers


def find_coverage(plan: Plan, snapshot: Snapshot, waiting: Collection[str]) -> Coverage:
    """Return what an approval of a plan as a whole covers: the repairs that go on now, or once a step has ended.

    `waiting` components, by name, wait for something other than a step or a rate, and are left out.
    """
    repairs: list[CoveredRepair] = []
    workloads: set[str] = set()
    for component in plan.components:
        evictions = plan.fates.decided.get(component.name, ())
        if not evictions or component.name in waiting:
            continue
        repair = _cover(component, evictions, snapshot)
        if len(repairs) == MOST_COVERED or len(workloads.union(repair.workloads)) > MOST_COVERED:
            break
        repairs.append(repair)
        workloads.update(repair.workloads)
    templates = _templates(snapshot, workloads)
    return Coverage(repairs=tuple(repairs), templates=tuple(sorted(templates.items())), zones=_zones(snapshot))


def _cover(component: ComponentPlan, evictions: Sequence[Eviction], snapshot: Snapshot) -> CoveredRepair:
    whole = component.evictions if component.state is State.VIOLATED and component.evictions else len(evictions)
    names = map(name_workload, (*component.workloads, *(eviction.workload for eviction in evictions)))
    return CoveredRepair(
        component=make_token(component.name),
        violations=_violations(component),
        workloads=tuple(sorted({*names, *_preempted_workloads(evictions, snapshot)})),
        evictions=whole + (component.detour is not None) + sum(count_taken(one) - 1 for one in evictions),
    )


def _violations(component: ComponentPlan) -> tuple[str, ...]:
    """Return tokens of what a component violates."""
    groups = [group.spread.name for group in component.groups if group.violated]
    limits = [limit.name for limit in component.limits if limit.state is not State.SATISFIED]
    terms = [term.name for term in component.component.terms if term.violated]
    return tuple(make_token(name) for name in (groups + limits + terms) or [component.name])


def _preempted_workloads(evictions: Iterable[Eviction], snapshot: Snapshot) -> Iterator[str]:
    for eviction in evictions:
        for outcome in eviction.repair.preempts:
            yield from (_workload_of(pod, snapshot) for pod in outcome.pods)


def _workload_of(pod: Pod, snapshot: Snapshot) -> str:
    """Name the workload of a pod; a pod without a known workload stands for itself."""
    top = snapshot.top_owner_of(pod)
    return name_workload(reference_of(top) if top is not None else Reference(pod.namespace, "Pod", pod.name))


def _templates(snapshot: Snapshot, names: Collection[str]) -> dict[str, str]:
    """Return a token of the template of each of these workloads that exists."""
    found: dict[str, str] = {}
    for workload in snapshot.workloads:
        name = name_workload(reference_of(workload))
        if name in names:
            found[name] = _template_token(workload, snapshot)
    return found


def _template_token(workload: Workload, snapshot: Snapshot) -> str:
    """Return a token that differs after each change of a workload's template.

    Each template of a Deployment has its own ReplicaSet, that of a StatefulSet a revision; for others the template
    itself is used.
    """
    below = sorted(owned.uid for owned in snapshot.owned_by.get(workload.uid, ()) if owned.replicas)
    parts = (workload.uid, workload.revision, *below)
    if not below and not workload.revision:
        template = msgspec.json.encode(workload.template, enc_hook=str, order="deterministic")
        parts = (*parts, template.decode())
    return make_token("\n".join(parts))


def _zones(snapshot: Snapshot) -> tuple[str, ...]:
    """Name the zones that have a Ready node."""
    return tuple(sorted({node.labels[ZONE] for node in snapshot.nodes if node.ready and ZONE in node.labels}))


# Its life


def advance(plan: Plan, memory: Memory, snapshot: Snapshot, around: Circumstances) -> Outcome:
    """Return the standing approval of this cycle, which continues or begins, and the approval that has ended."""
    standing, ended = memory.standing or None, None
    if standing is not None:
        if not around.is_stale:
            standing = structs.replace(standing, coverage=_keep_violated(standing.coverage, plan, memory, snapshot))
        why = _find_end(standing, memory, snapshot, around)
        if why:
            ended = Ended(standing, why)
            standing = None
    consumed = memory.consumed or ()
    approval = around.written.approval
    if standing is not None or approval is None or approval.id in consumed or around.mode is not Mode.APPROVE:
        return Outcome(standing=standing, consumed=consumed, ended=ended, problem=around.written.problem)
    begun = _begin(approval, around)
    problem = begun if isinstance(begun, str) else _find_end(begun, memory, snapshot, around)
    if isinstance(begun, str) or problem:
        return Outcome(consumed=consumed, ended=ended, problem=f"{APPROVAL_KEY} approves nothing: {problem}")
    return Outcome(standing=begun, consumed=(*consumed, begun.id)[-MOST_CONSUMED:], begun=True, ended=ended)


def is_in_force(standing: StandingApproval, written: Written, now: datetime) -> bool:
    """Return whether nobody has withdrawn an approval, and its time is not over."""
    return written.is_read and written.id == standing.id and now < standing.until


def _begin(approval: WholeApproval, around: Circumstances) -> StandingApproval | str:
    """Return the written approval of the waiting plan, or why it approves nothing."""
    proposal = around.proposal
    if proposal is None or proposal.hash != approval.plan:
        other = f"; the plan that waits is {proposal.hash}" if proposal is not None and not proposal.approved else ""
        return f"plan {approval.plan} does not wait for approval{other}"
    if proposal.approved:
        return f"plan {approval.plan} was approved already, without its later steps"
    if not proposal.coverage:
        return f"what plan {approval.plan} repairs is not stored; approve it with --step, or wait for the next plan"
    repairs = (
        structs.replace(repair, workloads=tuple(filter(approval.includes, repair.workloads)))
        for repair in proposal.coverage.repairs
    )
    covered = tuple(repair for repair in repairs if repair.workloads)
    if not covered:
        return f"plan {approval.plan} repairs nothing of its workloads and namespaces"
    return StandingApproval(
        id=approval.id,
        plan=approval.plan,
        evictions=approval.evictions,
        until=approval.until,
        since=around.now,
        policy=proposal.policy,
        by=approval.by,
        coverage=structs.replace(proposal.coverage, repairs=covered),
    )


def _find_end(standing: StandingApproval, memory: Memory, snapshot: Snapshot, around: Circumstances) -> str:
    """Say why an approval has ended, "" if it has not; a stale view says nothing about the cluster."""
    written = around.written
    if around.mode is not Mode.APPROVE:
        return f"the mode is {around.mode}"
    if written.is_read and written.id != standing.id:
        if written.problem:
            return f"it is withdrawn: {written.problem}"
        return f"it is withdrawn: {APPROVAL_KEY} {'is another one' if written.approval is not None else 'was removed'}"
    if around.now >= standing.until:
        return f"its time was over at {standing.until:%Y-%m-%d %H:%M:%SZ}"
    if standing.policy != around.policy.cluster.hash:
        return "the policy has changed"
    return "" if around.is_stale else _find_change(standing, memory, snapshot)


def _find_change(standing: StandingApproval, memory: Memory, snapshot: Snapshot) -> str:
    """Say which change in the cluster ends an approval, "" if none does."""
    coverage = standing.coverage
    known = {workload for repair in coverage.repairs for workload in repair.workloads}
    templates = _templates(snapshot, known)
    for workload, token in coverage.templates:
        if workload in known and templates.get(workload) != token:
            return f"the template of {workload} has changed" if workload in templates else f"{workload} is gone"
    zones = _zones(snapshot)
    for zone in coverage.zones:
        if zone not in zones:
            return f"zone {zone} has lost its last Ready node"
    if any(move.approval == standing.plan and _is_open(move) for move in memory.moves):
        return ""
    if not standing.left:
        return f"all {plural(standing.evictions, 'eviction')} that it allows are made"
    return "" if coverage.repairs else "nothing that it covers is violated any more"


def _is_open(move: Move) -> bool:
    """Return whether the outcome of a move may still change."""
    return not move.state.over or move.deferred_until is not None


def _keep_violated(coverage: Coverage, plan: Plan, memory: Memory, snapshot: Snapshot) -> Coverage:
    """Return what is still covered; a violation that comes back after its end is a new violation.

    While an evicted pod is not counted and its replacement is not placed, a violation may look satisfied. A zone that
    has nodes again may be lost again.
    """
    seen = {token for token, _ in memory.seen}
    moving = {make_token(move.group) for move in memory.moves if _is_open(move)}
    present = {
        violation: make_token(component.name) for component in plan.components for violation in _violations(component)
    }
    repairs = []
    for repair in coverage.repairs:
        component = next((present[one] for one in repair.violations if one in present), repair.component)
        violations = tuple(one for one in repair.violations if one in seen or component in moving)
        if violations:
            repairs.append(structs.replace(repair, component=component, violations=violations))
    zones = tuple(sorted({*coverage.zones, *_zones(snapshot)}))
    return structs.replace(coverage, repairs=tuple(repairs), zones=zones)


# What it lets go


class Covered:
    """The evictions of a plan that a coverage includes; the approval of the whole plan lets these go."""

    def __init__(self, coverage: Coverage, plan: Plan, snapshot: Snapshot) -> None:
        violations = {violation for repair in coverage.repairs for violation in repair.violations}
        self._workloads = frozenset(workload for repair in coverage.repairs for workload in repair.workloads)
        self._components = frozenset(
            component.name for component in plan.components if violations.issuperset(_violations(component))
        )
        self._snapshot = snapshot

    def covers(self, eviction: Eviction) -> bool:
        """Return whether an eviction repairs a covered violation, and takes only pods of covered workloads."""
        workloads = {name_workload(eviction.workload), *_preempted_workloads([eviction], self._snapshot)}
        return eviction.group in self._components and self._workloads.issuperset(workloads)


class Allowance:
    """What a standing approval lets go in a cycle: a covered prefix of each step, up to the number left.

    `is_read`: whether it is known that nobody has withdrawn it; until then nothing goes.
    """

    def __init__(self, standing: StandingApproval, plan: Plan, snapshot: Snapshot, *, is_read: bool) -> None:
        self.plan = standing.plan
        self.is_read = is_read
        self.covers: Final = Covered(standing.coverage, plan, snapshot).covers
        self._spent = dict(standing.spent)
        self._left = standing.left

    def take(self, step: Sequence[Eviction]) -> tuple[Eviction, ...]:
        """Return the evictions of a step that are approved; empty if they are no step without the rest."""
        part: list[Eviction] = []
        taken = 0
        for eviction in step:
            # A pod whose eviction was already charged, and that stayed, is charged only once.
            more = max(0, count_taken(eviction) - self._spent.get(make_token(eviction.pod.uid), 0))
            if not self.covers(eviction) or taken + more > self._left:
                break
            part.append(eviction)
            taken += more
        if not part or len(part) < part[0].needed:
            return ()
        self._left -= taken
        return tuple(part)


def charge(memory: Memory, uid: str, taken: int) -> Memory:
    """Return the memory in which the standing approval has let this pod go, and is charged `taken` pods for it."""
    standing = memory.standing
    if not standing:
        return memory
    token = make_token(uid)
    spent = dict(standing.spent)
    spent[token] = max(taken, spent.get(token, 0))
    return structs.replace(memory, standing=structs.replace(standing, spent=tuple(spent.items())))


def discharge(memory: Memory, uid: str) -> Memory:
    """Return the memory after an eviction was not sent. If an earlier leader may have sent it, it stays charged."""
    return memory if any(move.uid == uid for move in memory.moves) else refund(memory, uid)


def refund(memory: Memory, uid: str) -> Memory:
    """Return the memory without the charge for an eviction that will never take place."""
    standing = memory.standing
    if not standing:
        return memory
    token = make_token(uid)
    spent = tuple(part for part in standing.spent if part[0] != token)
    return structs.replace(memory, standing=structs.replace(standing, spent=spent))
