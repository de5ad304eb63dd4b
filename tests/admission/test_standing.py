"""The approval of a whole plan: what it lets go, how it is counted, when it ends."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from rebalancer.admission.admit import (
    Admission,
    AdmissionContext,
    ApprovalUnread,
    AwaitsApproval,
    BeyondApproval,
    NotProposed,
    Paused,
    admit,
)
from rebalancer.admission.approval import propose
from rebalancer.admission.lasting import Approved, ThenApproval, find_approved, outlast_waits
from rebalancer.admission.memory import update_memory
from rebalancer.admission.rates import RateReached, TooManyInFlight
from rebalancer.admission.rights import RightMissing, Rights
from rebalancer.admission.standing import (
    MOST_CONSUMED,
    MOST_COVERED,
    NO_OUTCOME,
    charge,
    count_taken,
    discharge,
    find_coverage,
    is_in_force,
    name_workload,
)
from rebalancer.admission.written import NOT_READ, NOTHING_WRITTEN, WholeApproval, Written, unreadable
from rebalancer.engine import evaluate
from rebalancer.model.approvals import StandingApproval
from rebalancer.model.breaker import BreakerCause, BreakerState, OpenCause
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import NO_MEMORY, Memory, MoveState, Reference, make_token
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.eviction import Eviction, Preempted
from rebalancer.planning.fates import Fates, Goes, Waits
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.policy import Amount, Mode, Policy
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.simulator import HOSTNAME, ZONE
from tests.admission.test_admit import rules
from tests.build import a_cluster, with_evictions
from tests.tracking.build import move

POLICY = rules(Mode.APPROVE)
NAMES = ("api", "cart", "web")


def three(*, stateful: bool = False) -> Snapshot:
    """Three workloads of one namespace, four evictions each."""
    blueprint = a_cluster("abc", 2)
    for name in NAMES:
        on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
        add = blueprint.stateful_set if stateful else blueprint.deployment
        add(name, on=on, spread={ZONE: 1, HOSTNAME: 1}, namespace="shop")
    return blueprint.snapshot()


SNAPSHOT = three()
_EVALUATION = evaluate(SNAPSHOT, POLICY)
ASSESSMENT, PLAN = _EVALUATION.assessment, _EVALUATION.plan
NOW = SNAPSHOT.taken_at
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


class Desk:
    """Cycles of admission over one cluster, and what was sent: as the loop stores it, without a loop."""

    def __init__(self, policy: Policy = POLICY, snapshot: Snapshot = SNAPSHOT, plan: Plan = PLAN) -> None:
        self.policy, self.snapshot, self.plan = policy, snapshot, plan
        self.memory: Memory = NO_MEMORY
        self.now = NOW
        self.written = NOTHING_WRITTEN
        self.sent: list[Eviction] = []
        self.admission = Admission()

    def cycle(self, *, later: timedelta = MINUTE, assessment: Any = ASSESSMENT, **fields: Any) -> Admission:
        """Run admission, and store what it lets go as requested and granted."""
        self.now += later
        memory = update_memory(self.memory, assessment, self.plan, self.now)
        context = AdmissionContext(
            policy=self.policy, mode=self.policy.mode, now=self.now, written=self.written, **{"approved": "", **fields}
        )
        self.admission = admit(self.plan, self.snapshot, memory, context)
        memory = structs.replace(memory, proposal=self.admission.proposal, **self.admission.whole.stored)
        for eviction in self.admission.fates.going:
            memory = charge(memory, eviction.pod.uid, count_taken(eviction))
        self.memory = memory
        self.sent += self.admission.fates.going
        return self.admission

    def approve(self, evictions: int = 12, until: timedelta = HOUR, **fields: Any) -> WholeApproval:
        """Write the approval of the plan that waits."""
        assert self.memory.proposal is not None
        approval = WholeApproval(plan=self.memory.proposal.hash, evictions=evictions, until=self.now + until, **fields)
        self.written = Written(approval=approval)
        return approval

    @property
    def standing(self) -> StandingApproval:
        assert self.memory.standing
        return self.memory.standing

    @property
    def end(self) -> str:
        """Why an approval has ended in the last cycle."""
        return self.admission.whole.ended.why if self.admission.whole.ended is not None else ""


def a_desk(evictions: int = 12, **fields: Any) -> Desk:
    """Return a desk at which the plan was proposed and is approved; no cycle has read that yet."""
    desk = Desk()
    desk.cycle()
    desk.approve(evictions, **fields)
    return desk


def started() -> Desk:
    """Return a desk at which four evictions of an approval of twelve were made, and the plan has the others."""
    desk = a_desk(4)
    desk.cycle()
    more = structs.replace(desk.standing, evictions=12)
    desk.memory = structs.replace(desk.memory, standing=more, proposal=None)
    desk.plan = with_evictions(PLAN, tuple(one for one in PLAN.fates.going if one not in desk.sent))
    return desk


def uids(evictions: Sequence[Eviction]) -> list[str]:
    return [eviction.pod.uid for eviction in evictions]


def only(*names: str, plan: Plan = PLAN) -> Plan:
    """Return the plan with the evictions of these workloads alone."""
    return with_evictions(plan, tuple(one for one in plan.fates.going if one.workload.name in names))


def parts(plan: Plan, number: int) -> Plan:
    """Return the plan with the first evictions of each step alone."""
    taken: dict[int, list[Eviction]] = {}
    for eviction in plan.fates.going:
        taken.setdefault(eviction.step, []).append(eviction)
    return with_evictions(plan, tuple(one for step in taken.values() for one in step[:number]))


def test_later_steps_go_without_another_question() -> None:
    """Only one pod of each workload is proposed; what follows in the same repairs was approved with it."""
    desk = Desk(plan=parts(PLAN, 1))
    desk.cycle()
    assert desk.memory.proposal is not None
    assert len(desk.memory.proposal.uids) == 3
    desk.approve(12)
    desk.cycle()
    desk.plan = with_evictions(PLAN, tuple(one for one in PLAN.fates.going if one not in desk.sent))
    admission = desk.cycle()
    assert (len(admission.fates.going), len(desk.sent), desk.standing.left) == (9, 12, 0)
    assert set(admission.approved_by.values()) == {desk.standing.plan}
    assert admission.proposal is None


def test_nothing_goes_before_it_was_read() -> None:
    """A new leader does not know yet whether somebody has withdrawn it; nor does it end then."""
    desk = started()
    first, known = desk.standing, desk.written
    desk.written = NOT_READ
    assert not is_in_force(first, NOT_READ, desk.now)
    admission = desk.cycle()
    assert (admission.fates.going, admission.proposal) == ((), None)
    assert {waiting.refusal for waiting in admission.fates.kept} == {ApprovalUnread(first.plan)}
    assert "not known yet whether the approval" in str(ApprovalUnread(first.plan))
    assert desk.standing == first
    desk.written = known
    assert is_in_force(first, known, desk.now)
    assert not is_in_force(first, known, first.until)
    assert len(desk.cycle().fates.going) == 8


def test_no_more_goes_than_is_approved() -> None:
    """The rest is proposed again at once, in whole steps; what is left of a step waits for it."""
    desk = a_desk(6)
    admission = desk.cycle()
    assert len(admission.fates.going) == 6
    waits = {waiting.eviction.pod.uid: waiting.refusal for waiting in admission.fates.kept}
    groups = {one.group for one in admission.fates.going}
    assert desk.memory.proposal is not None
    for eviction in PLAN.fates.going:
        if eviction in admission.fates.going:
            continue
        refusal = waits[eviction.pod.uid]
        if eviction.group in groups:
            assert refusal == BeyondApproval(desk.standing.plan, 6)
            assert str(refusal).startswith(
                f"the approval of plan {desk.standing.plan} has 6 evictions left, for earlier"
            )
        else:
            assert isinstance(refusal, AwaitsApproval)
            assert eviction.pod.uid in desk.memory.proposal.uids
    assert desk.standing.left == 0


def test_a_step_goes_whole_or_not_at_all() -> None:
    """Where what is left is less than it needs, nothing of it goes, and it is proposed again."""
    first = PLAN.fates.going[0]
    step = [one for one in PLAN.fates.going if one.step == first.step]
    pair = structs.replace(first.repair, needed=3)
    desk = Desk(plan=with_evictions(PLAN, tuple(structs.replace(one, repair=pair) for one in step)))
    desk.cycle()
    desk.approve(2)
    assert desk.cycle().fates.going == ()
    assert desk.memory.proposal is not None
    assert set(uids(step)) == set(desk.memory.proposal.uids)


def test_another_violation_asks_again() -> None:
    """One that was not there when the plan was proposed waits for an approval of its own, and the others go on."""
    desk = Desk(plan=structs.replace(only("web"), components=tuple(c for c in PLAN.components if "web" in c.name)))
    desk.cycle()
    desk.approve(12)
    desk.plan = PLAN
    admission = desk.cycle()
    assert {one.workload.name for one in admission.fates.going} == {"web"}
    assert {type(waiting.refusal) for waiting in admission.fates.kept} == {AwaitsApproval}
    assert desk.memory.proposal is not None
    step = desk.cycle(approved=desk.memory.proposal.hash)
    assert {one.workload.name for one in desk.sent} == set(NAMES)
    hashes = {eviction.workload.name: step.approved_by.get(eviction.pod.uid) for eviction in step.fates.going}
    assert hashes["web"] == desk.standing.plan
    assert hashes["api"] == hashes["cart"] == desk.memory.proposal.hash


def test_another_violation_of_the_same_workload_asks_again() -> None:
    """Its pods are approved for the violations that the plan had, and for no others."""
    desk = started()
    repairs = tuple(
        structs.replace(repair, workloads=("shop/deployment/api", "shop/deployment/cart", "shop/deployment/web"))
        for repair in desk.standing.coverage.repairs
        if "shop/deployment/web" not in repair.workloads
    )
    coverage = structs.replace(desk.standing.coverage, repairs=repairs)
    desk.memory = structs.replace(desk.memory, standing=structs.replace(desk.standing, coverage=coverage))
    admission = desk.cycle()
    assert admission.fates.going
    assert "web" not in {one.workload.name for one in admission.fates.going}
    assert {waiting.eviction.workload.name for waiting in admission.fates.kept} == {"web"}


def test_what_is_not_possible_when_it_is_proposed_is_not_covered() -> None:
    """A violation that has not lasted is not approved with the others, and one that waits for a step is."""
    lasting = [
        structs.replace(one, repair=structs.replace(one.repair, lasting=HOUR)) if one.workload.name == "api" else one
        for one in PLAN.fates.going
    ]
    refusal = Unpredictable(Reason.BLOCKED_BY_BUDGET, "a test")
    rows = [Waits(one, refusal) if one.workload.name == "cart" else Goes(one) for one in lasting]
    desk = Desk(plan=structs.replace(PLAN, fates=Fates(tuple(rows))))
    desk.cycle()
    assert desk.memory.proposal is not None
    assert desk.memory.proposal.coverage
    repairs = desk.memory.proposal.coverage.repairs
    assert [(repair.workloads, repair.evictions) for repair in repairs] == [
        (("shop/deployment/cart",), 4),
        (("shop/deployment/web",), 4),
    ] or {repair.workloads for repair in repairs} == {("shop/deployment/cart",), ("shop/deployment/web",)}


@pytest.mark.parametrize(
    ("fields", "going"),
    [
        ({"workloads": ("shop/deployment/web",)}, {"web"}),
        ({"namespaces": ("shop",)}, set(NAMES)),
        ({"workloads": ("shop/deployment/web", "shop/deployment/api")}, {"web", "api"}),
    ],
)
def test_it_may_be_restricted(fields: dict[str, Any], going: set[str]) -> None:
    desk = a_desk(**fields)
    assert {one.workload.name for one in desk.cycle().fates.going} == going


def test_pods_that_are_preempted_count() -> None:
    """The worst outcome counts, and pods of workloads that nobody has approved are not preempted."""
    web = [one for one in PLAN.fates.going if one.workload.name == "web"][:1]
    victims = tuple(pod for pod in SNAPSHOT.pods if pod.name.startswith("cart"))[:3]
    preempts = (Preempted("c-1", victims), Preempted("c-2", victims[:1]))
    whole = with_evictions(
        PLAN, [structs.replace(one, repair=structs.replace(one.repair, preempts=preempts)) for one in web]
    )
    desk = Desk(plan=whole)
    desk.cycle()
    assert desk.memory.proposal is not None
    assert desk.memory.proposal.coverage
    (repair,) = desk.memory.proposal.coverage.repairs
    assert (repair.workloads, repair.evictions) == (("shop/deployment/cart", "shop/deployment/web"), 7)
    desk.approve(3)
    assert desk.cycle().fates.going == ()

    desk = Desk(plan=whole)
    desk.cycle()
    desk.approve(7)
    assert len(desk.cycle().fates.going) == 1
    assert desk.standing.left == 3

    desk = Desk(plan=with_evictions(PLAN, tuple(web)))
    desk.cycle()
    desk.approve(7)
    desk.plan = whole
    assert desk.cycle().fates.going == ()

    stray = structs.replace(victims[0], owner=None)
    alone = (Preempted("c-1", (stray,)),)
    desk = Desk(
        plan=with_evictions(PLAN, [structs.replace(web[0], repair=structs.replace(web[0].repair, preempts=alone))])
    )
    desk.cycle()
    assert desk.memory.proposal is not None
    assert desk.memory.proposal.coverage
    assert f"shop/pod/{stray.name}" in desk.memory.proposal.coverage.repairs[0].workloads


def test_a_detour_is_a_part_of_what_the_plan_needs() -> None:
    detour = Unpredictable(Reason.NOT_PREDICTABLE, "a test")
    components = tuple(structs.replace(one, detour=detour) for one in PLAN.components)
    coverage = find_coverage(structs.replace(PLAN, components=components), SNAPSHOT, ())
    assert [repair.evictions for repair in coverage.repairs] == [5, 5, 5]


def test_of_a_repair_in_part_the_decided_evictions_count() -> None:
    """What evictions cannot repair is no part of the number."""
    components = tuple(structs.replace(one, state=State.INFEASIBLE) for one in PLAN.components)
    coverage = find_coverage(structs.replace(parts(PLAN, 2), components=components), SNAPSHOT, ())
    assert [repair.evictions for repair in coverage.repairs] == [2, 2, 2]


def test_what_it_covers_is_bounded() -> None:
    """The memory is bounded; what does not fit is proposed later."""
    component = PLAN.components[0]
    going = next(one for one in PLAN.fates.going if one.group == component.name)
    names = tuple(Reference("shop", "Deployment", f"w-{number}") for number in range(MOST_COVERED + 10))

    def plan(per_component: int) -> Plan:
        components, evictions = [], []
        for number in range(0, len(names), per_component):
            spread = structs.replace(component.groups[0].spread, workloads=names[number : number + per_component])
            groups = (structs.replace(component.groups[0], spread=spread),)
            members = structs.replace(component.component, groups=groups, workloads=spread.workloads)
            one = structs.replace(component, component=members)
            components.append(one)
            evictions.append(structs.replace(going, repair=structs.replace(going.repair, group=one.name)))
        return structs.replace(with_evictions(PLAN, evictions), components=tuple(components))

    for per_component in (1, 50):
        coverage = find_coverage(plan(per_component), SNAPSHOT, ())
        workloads = {name for repair in coverage.repairs for name in repair.workloads}
        assert len(coverage.repairs) <= MOST_COVERED
        assert 0 < len(workloads) <= MOST_COVERED


# Its end


def _withdraw(desk: Desk) -> None:
    desk.written = NOTHING_WRITTEN


def _write_another(desk: Desk) -> None:
    assert desk.written.approval is not None
    desk.written = Written(approval=structs.replace(desk.written.approval, evictions=13))


def _spoil(desk: Desk) -> None:
    desk.written = unreadable("a test")


def _wait(desk: Desk) -> None:
    desk.now = desk.standing.until


def _change_policy(desk: Desk) -> None:
    desk.policy = rules(Mode.APPROVE, per_minute=Amount(value=99))


def _change_mode(desk: Desk) -> None:
    desk.policy = rules(Mode.EVICT)


def _lose_zone(desk: Desk) -> None:
    lost = {"b-1", "b-2"}
    nodes = (structs.replace(node, ready=False) if node.name in lost else node for node in desk.snapshot.nodes)
    desk.snapshot = replace(desk.snapshot, nodes=tuple(nodes))


def _roll_out(desk: Desk) -> None:
    owners = []
    for owner in desk.snapshot.workloads:
        is_set = owner.kind == "ReplicaSet" and owner.name.startswith("web")
        owners.append(structs.replace(owner, uid="another") if is_set else owner)
    desk.snapshot = replace(desk.snapshot, workloads=tuple(owners))


def _delete(desk: Desk) -> None:
    owners = tuple(owner for owner in desk.snapshot.workloads if owner.name != "web")
    desk.snapshot = replace(desk.snapshot, workloads=owners)


ENDS: list[tuple[Callable[[Desk], None], str]] = [
    (_withdraw, "it is withdrawn: approval.yaml was removed"),
    (_write_another, "it is withdrawn: approval.yaml is another one"),
    (_spoil, "it is withdrawn: approval.yaml cannot be read"),
    (_wait, "its time was over at "),
    (_change_policy, "the policy has changed"),
    (_change_mode, "the mode is Evict"),
    (_lose_zone, "zone b has lost its last Ready node"),
    (_roll_out, "the template of shop/deployment/web has changed"),
    (_delete, "shop/deployment/web is gone"),
]


@pytest.mark.parametrize(("change", "why"), ENDS, ids=[change.__name__.strip("_") for change, _ in ENDS])
def test_it_ends(change: Callable[[Desk], None], why: str) -> None:
    """Nothing goes by it any more, and it does not come back when the change is undone."""
    desk = started()
    before = desk.policy, desk.snapshot, desk.written
    change(desk)
    admission = desk.cycle(later=timedelta(0))
    assert desk.end.startswith(why)
    assert desk.memory.standing is UNSET
    assert set(admission.approved_by) == set()
    assert admission.fates.going == () or desk.policy.mode is Mode.EVICT
    desk.policy, desk.snapshot, desk.written = before
    assert desk.cycle().fates.going == ()
    assert desk.memory.standing is UNSET


@pytest.mark.parametrize("change", [_lose_zone, _roll_out])
def test_a_stale_view_ends_nothing(change: Callable[[Desk], None]) -> None:
    """It says nothing about the cluster; nothing goes meanwhile."""
    desk = started()
    change(desk)
    assert desk.cycle(stale="a test").fates.going == ()
    assert desk.standing.plan
    _withdraw(desk)
    desk.cycle(stale="a test")
    assert desk.end


@pytest.mark.parametrize("stateful", [False, True])
def test_what_changes_no_template_does_not_end_it(stateful: bool) -> None:
    """Replicas, statuses and labels of workloads; pods that come and go."""
    snapshot = three(stateful=stateful)
    plan = evaluate(snapshot, POLICY).plan
    desk = Desk(snapshot=snapshot, plan=plan)
    desk.cycle()
    desk.approve(12)
    owners = tuple(
        structs.replace(owner, replicas=owner.replicas + 1, ready=0, resource_version="7")
        for owner in snapshot.workloads
    )
    desk.snapshot = replace(snapshot, workloads=owners)
    assert desk.cycle().fates.going


def test_a_template_without_a_revision_is_compared_itself() -> None:
    """As that of an owner of another kind: its controller names no revision."""
    snapshot = three()
    owners = tuple(
        structs.replace(owner, revision="", uid=f"{owner.name}-top", owner=None)
        for owner in snapshot.workloads
        if owner.kind == "Deployment"
    )
    desk = Desk(snapshot=replace(snapshot, workloads=owners))
    desk.cycle()
    desk.approve(4)
    desk.cycle()
    changed = tuple(
        structs.replace(owner, template=structs.replace(owner.template, annotations={"a": "b"}))
        if owner.name == "web" and owner.template is not None
        else owner
        for owner in owners
    )
    desk.snapshot = replace(snapshot, workloads=changed)
    desk.cycle()
    assert desk.end == "the template of shop/deployment/web has changed"


def test_a_zone_that_was_lost_before_may_come_back_and_not_go_again() -> None:
    desk = Desk()
    _lose_zone(desk)
    desk.cycle()
    desk.approve(30)
    desk.cycle()
    assert desk.standing.coverage.zones == ("a", "c")
    lost, desk.snapshot = desk.snapshot, SNAPSHOT
    desk.cycle()
    assert desk.end == ""
    assert list(desk.standing.coverage.zones) == ["a", "b", "c"]
    desk.snapshot = lost
    desk.cycle()
    assert desk.end == "zone b has lost its last Ready node"


def test_a_node_of_a_zone_may_be_lost() -> None:
    desk = started()
    desk.snapshot = replace(SNAPSHOT, nodes=tuple(node for node in SNAPSHOT.nodes if node.name != "b-1"))
    desk.cycle()
    assert desk.end == ""


def test_it_ends_when_its_number_is_used_up_and_known_to_be() -> None:
    """While an eviction is under way it may still be refused, and then be made again."""
    desk = a_desk(1)
    desk.cycle()
    (eviction,) = desk.sent
    under_way = move(eviction.pod.uid, desk.now, approval=desk.standing.plan, group=eviction.group)
    desk.memory = structs.replace(desk.memory, moves=(under_way,))
    desk.cycle()
    assert (desk.end, desk.standing.left) == ("", 0)
    desk.memory = structs.replace(desk.memory, moves=(structs.replace(under_way, state=MoveState.VERIFIED),))
    desk.cycle()
    assert desk.end == "all 1 eviction that it allows are made"


def test_it_ends_when_what_it_covers_is_satisfied() -> None:
    """The same constraint, violated again, is another violation."""
    desk = a_desk(30, workloads=("shop/deployment/web",))
    desk.cycle()
    eviction = desk.sent[0]
    repaired = structs.replace(
        PLAN, components=tuple(c for c in PLAN.components if c.name != eviction.group), fates=Fates()
    )
    satisfied = replace(ASSESSMENT, groups=tuple(g for g in ASSESSMENT.groups if g.spread.name != eviction.group))
    desk.plan = repaired
    under_way = move(eviction.pod.uid, desk.now, approval=desk.standing.plan, group=eviction.group)
    desk.memory = structs.replace(desk.memory, moves=(under_way,))
    desk.cycle(assessment=satisfied)
    assert desk.standing.coverage.repairs, "the evicted pod is not counted yet"
    desk.memory = structs.replace(desk.memory, moves=(structs.replace(under_way, state=MoveState.VERIFIED),))
    desk.cycle(assessment=satisfied)
    assert desk.end == "nothing that it covers is violated any more"
    desk.plan = PLAN
    assert desk.cycle().fates.going == ()


# What serves once


def test_it_serves_once() -> None:
    """The same file approves nothing again, not even a proposal with the same hash, and another process knows it."""
    desk = a_desk(2)
    proposal = desk.memory.proposal
    desk.cycle()
    _withdraw_and_back = desk.written
    _withdraw(desk)
    desk.cycle()
    desk.memory = structs.replace(desk.memory, proposal=proposal)
    desk.written = _withdraw_and_back
    assert desk.cycle().fates.going == ()
    assert (desk.memory.standing, desk.admission.whole.problem) == (UNSET, "")
    assert _withdraw_and_back.id in (desk.memory.consumed or ())


def test_few_identities_are_stored() -> None:
    desk = a_desk(2)
    old = tuple(str(number) for number in range(MOST_CONSUMED))
    desk.memory = structs.replace(desk.memory, consumed=old)
    desk.cycle()
    assert desk.memory.consumed == (*old[1:], desk.standing.id)


def _expire(desk: Desk) -> None:
    assert desk.written.approval is not None
    desk.written = Written(approval=structs.replace(desk.written.approval, until=desk.now))


def _mistype(desk: Desk) -> None:
    assert desk.written.approval is not None
    desk.written = Written(approval=structs.replace(desk.written.approval, plan="0" * 16))


def _approve_step(desk: Desk) -> None:
    assert desk.memory.proposal is not None
    desk.memory = structs.replace(desk.memory, proposal=structs.replace(desk.memory.proposal, approved=True))


def _propose_as_before(desk: Desk) -> None:
    assert desk.memory.proposal is not None
    desk.memory = structs.replace(desk.memory, proposal=structs.replace(desk.memory.proposal, coverage=UNSET))


def _restrict(desk: Desk) -> None:
    assert desk.written.approval is not None
    desk.written = Written(approval=structs.replace(desk.written.approval, namespaces=("bank",)))


NONE: list[tuple[Callable[[Desk], None], str]] = [
    (_expire, "its time was over at "),
    (_mistype, "plan 0000000000000000 does not wait for approval; the plan that waits is "),
    (_approve_step, "was approved already, without its later steps"),
    (_propose_as_before, "is not stored; approve it with --step, or wait for the next plan"),
    (_restrict, "repairs nothing of its workloads and namespaces"),
    (_spoil, "cannot be read"),
    (_lose_zone, "zone b has lost its last Ready node"),
    (_roll_out, "the template of shop/deployment/web has changed"),
]


@pytest.mark.parametrize(("change", "why"), NONE, ids=[change.__name__.strip("_") for change, _ in NONE])
def test_it_says_why_it_approves_nothing(change: Callable[[Desk], None], why: str) -> None:
    """And is not used up by that."""
    desk = a_desk()
    change(desk)
    admission = desk.cycle()
    assert why in admission.whole.problem
    assert admission.whole.problem.startswith("approval.yaml ")
    assert (desk.memory.standing, desk.memory.consumed) == (UNSET, UNSET)
    assert desk.memory.proposal is not None
    assert set(uids(admission.fates.going)) <= set(desk.memory.proposal.uids if desk.memory.proposal.approved else ())


def test_a_plan_that_is_approved_does_not_wait() -> None:
    """Of a plan that is carried out the hash is not offered as the one that waits."""
    desk = a_desk()
    _approve_step(desk)
    _mistype(desk)
    assert desk.cycle().whole.problem.endswith("plan 0000000000000000 does not wait for approval")
    desk.memory = NO_MEMORY
    assert "does not wait for approval" in desk.cycle().whole.problem


def test_another_approval_begins_when_one_ends() -> None:
    """A plan that is proposed meanwhile covers what is left of the first one, too."""
    desk = a_desk(6)
    desk.cycle()
    first = desk.standing
    desk.plan = with_evictions(PLAN, tuple(one for one in PLAN.fates.going if one not in desk.sent))
    desk.approve(12)
    admission = desk.cycle()
    assert desk.end == "it is withdrawn: approval.yaml is another one"
    assert admission.whole.begun
    assert len(admission.fates.going) == 6
    assert desk.standing.plan != first.plan


def test_in_other_modes_nothing_begins() -> None:
    desk = a_desk()
    desk.policy = rules(Mode.OBSERVE)
    assert desk.cycle().whole == NO_OUTCOME


# How it is counted


def test_a_repair_of_a_covered_and_of_a_new_violation_is_not_covered() -> None:
    """Nobody has approved the new one; the same repair without it goes on."""
    desk, sent = started(), len(started().sent)
    plan = desk.plan
    desk.plan = structs.replace(plan, components=tuple(map(with_another, plan.components)))
    desk.cycle()
    assert len(desk.sent) == sent
    desk.plan = plan
    desk.cycle()
    assert len(desk.sent) > sent


def with_another(component: ComponentPlan) -> ComponentPlan:
    """Return the repair with a second violation."""
    group = component.groups[0]
    other = structs.replace(group, spread=structs.replace(group.spread, name=f"another {group.spread.name}"))
    part = structs.replace(component.component, groups=(*component.groups, other))
    return structs.replace(component, component=part)


def test_the_same_pod_is_charged_once() -> None:
    """Its eviction may be requested again; one that was not sent is not charged, unless a leader before may have."""
    desk = a_desk(5, workloads=("shop/deployment/web",))
    desk.cycle()
    eviction = desk.sent[0]
    again = charge(desk.memory, eviction.pod.uid, 1)
    assert again.standing == desk.standing
    assert discharge(again, eviction.pod.uid).standing == structs.replace(
        desk.standing, spent=tuple(part for part in desk.standing.spent if part[0] != make_token(eviction.pod.uid))
    )
    repeated = structs.replace(desk.memory, moves=(move(eviction.pod.uid, NOW, unexecuted=True),))
    assert discharge(repeated, eviction.pod.uid) is repeated
    assert charge(NO_MEMORY, eviction.pod.uid, 1) is NO_MEMORY
    assert discharge(NO_MEMORY, eviction.pod.uid) is NO_MEMORY
    desk.plan = with_evictions(PLAN, (eviction,))
    assert uids(desk.cycle().fates.going) == [eviction.pod.uid]
    assert desk.standing.left == 1


def test_what_goes_at_once_is_not_held_back_by_what_waits() -> None:
    """What is left of the number is not reserved for a repair that waits."""
    desk = a_desk(4)
    first = desk.plan.fates.going[0].group
    rows = [
        structs.replace(one, repair=structs.replace(one.repair, lasting=HOUR)) if one.group == first else one
        for one in PLAN.fates.going
    ]
    desk.plan = with_evictions(PLAN, rows)
    going = desk.cycle().fates.going
    assert len(going) == 4
    assert first not in {one.group for one in going}


def test_a_probe_is_one_that_is_approved() -> None:
    """While the cluster does not replace pods, only something approved shows whether it does again."""
    held = OpenCause(cause=BreakerCause.REPLACEMENTS, part=2, total=3, bound=50, since=NOW, last=NOW, note="a test")
    late = move("gone", NOW, uncreated="a test", namespace="shop2")
    for approve in (True, False):
        desk = a_desk(12, workloads=("shop/deployment/web",))
        if not approve:
            desk.written = NOTHING_WRITTEN
        desk.memory = structs.replace(desk.memory, moves=(late,))
        admission = desk.cycle(later=2 * MINUTE, breaker=BreakerState((held,)))
        assert [one.workload.name for one in admission.fates.going] == (["web"] if approve else [])


@given(st.data())
def test_never_more_than_approved_whatever_is_planned(data: st.DataObject) -> None:
    """Only the violations and workloads of the plan, whole steps, at most the number, and nothing after the end."""
    desk = Desk()
    desk.plan = parts(only(*data.draw(st.sets(st.sampled_from(NAMES), min_size=1))), data.draw(st.integers(1, 4)))
    proposed = {one.group for one in desk.plan.fates.going}
    desk.cycle()
    number = data.draw(st.integers(1, 12))
    restricted = data.draw(st.sampled_from([(), ("shop/deployment/web",)]))
    approval = desk.approve(number, until=timedelta(minutes=data.draw(st.integers(1, 12))), workloads=restricted)
    over = False
    by_approval: set[str] = set()
    for _ in range(data.draw(st.integers(1, 8))):
        gone = set(uids(desk.sent))
        evictions = [one for one in PLAN.fates.going if one.pod.uid not in gone]
        needed = data.draw(st.integers(1, 3))
        drawn = data.draw(st.lists(st.sampled_from(evictions), unique=True)) if evictions else []
        order = sorted(drawn, key=lambda one: one.step)
        repairs = {one.step: structs.replace(one.repair, needed=needed) for one in order}
        counts = {step: sum(one.step == step for one in order) for step in repairs}
        desk.plan = with_evictions(
            PLAN, tuple(structs.replace(one, repair=repairs[one.step]) for one in order if counts[one.step] >= needed)
        )
        act = data.draw(st.sampled_from(["go on", "go on", "go on", "remove", "again", "stale", "restart", "unread"]))
        if act in {"remove", "again"}:
            desk.written = Written(approval=approval) if act == "again" else NOTHING_WRITTEN
            over = over or (act == "remove" and bool(desk.memory.standing))
        known = desk.written
        if act == "unread":
            desk.written = NOT_READ
        admission = desk.cycle(stale="a test" if act == "stale" else "")
        desk.written = known
        over = over or desk.now >= approval.until
        by_approval |= {uid for uid, plan in admission.approved_by.items() if uid in uids(admission.fates.going)}
        assert not (over and admission.fates.going)
        assert not (act in {"stale", "unread", "remove"} and admission.fates.going)
        for eviction in admission.fates.going:
            assert admission.approved_by[eviction.pod.uid] == approval.plan
            assert eviction.group in proposed
            assert not restricted or name_workload(eviction.workload) in restricted
        steps: dict[int, int] = {}
        for eviction in admission.fates.going:
            steps[eviction.step] = steps.get(eviction.step, 0) + 1
        assert all(count >= needed for count in steps.values())
    assert len(by_approval) == len(desk.sent) <= number


def test_what_goes_by_an_approval_is_known() -> None:
    """Covered repairs whole, of a plan that is approved step by step its evictions; nobody has approved the rest."""
    nobody = approved(NO_MEMORY)
    first, *others = PLAN.fates.evictions
    assert not any(map(nobody.covers, PLAN.fates.evictions))
    desk = a_desk(12, workloads=("shop/deployment/web",))
    desk.cycle()
    covered = approved(desk.memory)
    assert {one.workload.name for one in PLAN.fates.evictions if covered.covers(one)} == {"web"}
    proposal = propose([first], POLICY, NOW)
    assert proposal is not None
    assert not approved(structs.replace(NO_MEMORY, proposal=proposal)).covers(first)
    step = approved(structs.replace(NO_MEMORY, proposal=structs.replace(proposal, approved=True)))
    assert step.covers(first)
    assert not any(step.covers(one) for one in others if one.pod.uid not in proposal.uids)
    assert find_approved(PLAN, desk.memory, Mode.EVICT) is None


def test_what_waits_goes_on_when_the_last_of_all_waits_is_over() -> None:
    """What keeps it back stays named where nobody has approved it; what is approved waits as long as by itself."""
    first = PLAN.fates.evictions[0]
    wait = Waits(first, Paused("an incident", NOW + timedelta(minutes=5)))
    later = Paused("another one", NOW + timedelta(minutes=9))
    covered, nobody = Approved((), {first.pod.uid}), Approved((), ())

    def outlasted(common: Refusal | None, known: Approved | None) -> object:
        (row,) = outlast_waits(Fates((wait,)), common, Rights(), known, NOW).rows
        return row

    assert outlasted(later, None) == outlasted(later, covered) == Waits(first, later)
    for common, message, minute in ((later, "another one", "09"), (None, "an incident", "05")):
        end = f"when it is 2026-01-01 00:{minute}:00Z"
        assert outlasted(common, nobody) == Waits(first, ThenApproval(Reason.PAUSED, message, end))
    for known in (covered, None):
        assert outlasted(None, known) == wait


def test_a_missing_right_outlasts_what_ends_at_a_moment() -> None:
    """A rate, and a pause with an end; a pause without one is said first, and other namespaces have the right."""
    first = PLAN.fates.evictions[0]
    place = first.pod.namespace
    soon, later = (NOW + timedelta(minutes=number) for number in (5, 9))
    lacks = Rights(everywhere=False, missing={place: NOW})
    for own in (Paused("an incident", soon), RateReached("perMinute", 1, timedelta(seconds=9))):
        for common in (None, Paused("an incident", soon), Paused("another one", later)):
            (row,) = outlast_waits(Fates((Waits(first, own),)), common, lacks, None, NOW).rows
            not_before = common.until if common is not None else None
            assert row == Waits(first, RightMissing(place, True, not_before))
            assert str(row.refusal.end.event).endswith(
                f", and it is {not_before:%Y-%m-%d %H:%M:%SZ}" if not_before else f"may evict in {place}"
            ), "granting the right alone does not let it go"
        (row,) = outlast_waits(Fates((Waits(first, own),)), Paused("for good"), lacks, None, NOW).rows
        assert row == Waits(first, Paused("for good"))
        elsewhere = Rights(everywhere=False, missing={"elsewhere": NOW})
        assert outlast_waits(Fates((Waits(first, own),)), None, elsewhere, None, NOW).rows == (Waits(first, own),)


@pytest.mark.parametrize(
    ("refusal", "event"),
    [
        (TooManyInFlight(9), "when a move in flight has ended, and somebody approves it"),
        (NotProposed("1f"), "when plan 1f has ended, and it is proposed and somebody approves it"),
        (Paused("an incident"), ""),
    ],
)
def test_what_nobody_has_approved_does_not_go_on_with_an_event(refusal: Refusal, event: str) -> None:
    """It is proposed then; what does not end by itself still does not, and what is approved goes on with the event."""
    first = PLAN.fates.evictions[0]
    wait = Waits(first, refusal)
    (row,) = outlast_waits(Fates((wait, Goes(first))), None, Rights(), Approved((), ()), NOW).kept
    assert (row.reason, str(row.refusal), row.refusal.end.event) == (refusal.reason, str(refusal), event)
    for known in (Approved((), {first.pod.uid}), None):
        assert outlast_waits(Fates((wait,)), None, Rights(), known, NOW).kept == (wait,)


def approved(memory: Memory) -> Approved:
    known = find_approved(PLAN, memory, Mode.APPROVE)
    assert known is not None
    return known
