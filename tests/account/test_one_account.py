"""One account: whatever has happened since a cycle, no two screens or documents say different things of an eviction."""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.account.account import Account
from rebalancer.account.numbers import group_numbers, plan_numbers
from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.page_address import PageAddress
from rebalancer.adapters.web.page_view import PageView
from rebalancer.adapters.web.routes import Request
from rebalancer.admission.admit import NotLasting, Overload, Paused
from rebalancer.admission.pause import Pause
from rebalancer.admission.rates import TooManyInFlight
from rebalancer.admission.rights import Rights
from rebalancer.capacity.evaluated import evaluate_once
from rebalancer.capacity.gate import CapacityHeld
from rebalancer.cli.acting import Acting
from rebalancer.controller.account import find_account
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.evictions import drop_queue, queue_evictions
from rebalancer.controller.loop import step
from rebalancer.controller.state import (
    Answered,
    ApprovalRead,
    CycleDue,
    Evict,
    LoopEvent,
    LoopState,
    PauseRead,
    ProcessFacts,
    RightsRead,
    Saved,
)
from rebalancer.controller.status import status_document
from rebalancer.documents.document import to_json
from rebalancer.documents.explanation import STAYS, explain_pod, explain_workload
from rebalancer.documents.history import history_entry
from rebalancer.documents.overview import VIOLATIONS, RowState
from rebalancer.documents.page import PageDocument
from rebalancer.documents.plan import PlannedGroup, mark_moving, plan_document
from rebalancer.documents.plan_notes import find_notes
from rebalancer.documents.state_reasons import limit_workloads
from rebalancer.documents.status import StatusDocument
from rebalancer.documents.waits import RepairWait
from rebalancer.engine import Evaluation
from rebalancer.model.history import EntryKind
from rebalancer.model.moves import Memory, MoveState, Reference
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import format_rest
from rebalancer.planning.fates import Fates, Never, UnderWay, Waits
from rebalancer.planning.plan import Plan
from rebalancer.policy import Mode, Policy
from rebalancer.policy.sections import Nodes
from rebalancer.ports import Denial, EvictionAnswer, EvictionResult
from rebalancer.reporting.headline import headlines
from rebalancer.reporting.text.explanation import explanation_text
from rebalancer.reporting.text.plan import PlanOptions, plan_text
from rebalancer.reporting.text.report import report_text
from rebalancer.reporting.text.status import status_text
from rebalancer.simulator import ZONE, SimulatedCluster
from tests.admission.test_admit import assess_and_plan, rules
from tests.build import a_cluster, a_policy, a_state
from tests.controller.cycles import cycle_of
from tests.controller.simulated import Simulation, eager
from tests.drawing import examples
from tests.planning.clusters import returned
from tests.reporting.test_plan_numbers import clusters
from tests.reports import cycle_report, page_of, rows_of, state_of
from tests.tracking.build import move

ANSWERS = (
    EvictionAnswer(EvictionResult.EVICTED),
    EvictionAnswer(EvictionResult.BUDGET, "a budget"),
    EvictionAnswer(EvictionResult.REFUSED, denial=Denial("Webhook guard.example.com", "not now")),
    EvictionAnswer(EvictionResult.REFUSED, denial=Denial("Webhook guard.example.com", "later", is_temporary=True)),
    EvictionAnswer(EvictionResult.FORBIDDEN, "no right"),
    EvictionAnswer(EvictionResult.THROTTLED, retry_after=5),
    EvictionAnswer(EvictionResult.UNKNOWN),
    EvictionAnswer(EvictionResult.GONE),
)
NEVER = State.INFEASIBLE, State.UNFIXABLE
BROKEN = {State.VIOLATED, State.INFEASIBLE, State.UNFIXABLE}
SHOWN: list[tuple[PageDocument, datetime]] = []
ROUTES = page_routes(lambda *_, **__: SHOWN[-1][0], local=False, now=lambda: SHOWN[-1][1])
"""Made once: compiling the page's template takes longer than all checks of a state."""


class Run:
    """A leader that runs a cycle, and what happens to it after that, each event a second after the one before."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memory: Memory) -> None:
        self.now = snapshot.taken_at
        self.state = a_state(policy, self.now, process=ProcessFacts(history_name="one"))
        self.state = replace(self.state, memory=memory)
        self.asked: list[Evict] = []
        self.snapshot = snapshot

    def take(self, event: LoopEvent) -> None:
        self.state, requests = step(self.state, event, self.now)
        self.asked += [request for request in requests if isinstance(request, Evict)]
        self.now += timedelta(seconds=1)

    def begin(self, held: frozenset[int]) -> None:
        """Run a cycle; the gate of capacity holds these evictions of those that go."""
        self.take(CycleDue(snapshot=self.snapshot))
        cycle = self.state.cycle
        assert cycle is not None
        chosen = {one.pod.uid for number, one in enumerate(cycle.fates.going) if number in held}
        if chosen:
            fates = cycle.fates.hold(lambda one: CapacityHeld() if one.pod.uid in chosen else None)
            self.state = replace(drop_queue(self.state), cycle=replace(cycle, fates=fates))
            self.state, _ = queue_evictions(self.state, fates.going, self.now)

    def answer(self, answer: EvictionAnswer) -> None:
        """Answer the first request that has no answer yet."""
        if self.asked:
            overload = Overload(until=answer.retry_after) if answer.result is EvictionResult.THROTTLED else None
            self.take(Answered(uid=self.asked.pop(0).move.uid, answer=answer, overload=overload))


@given(
    drawn=clusters(),
    mode=st.sampled_from([Mode.EVICT, Mode.EVICT, Mode.EVICT, Mode.APPROVE, Mode.OBSERVE]),
    approves=st.booleans(),
    spans=st.tuples(st.sampled_from([0, 0, 60]), st.sampled_from([0, 0, 60]), st.sampled_from([0, 0, 60])),
    overdue=st.sampled_from([False, False, True]),
    capacity=st.frozensets(st.integers(0, 3), max_size=2),
    first=st.tuples(st.sampled_from([False, False, True]), st.sampled_from([0, 0, 300])),
    events=st.lists(
        st.one_of(
            st.sampled_from(ANSWERS),
            st.sampled_from([Saved(), Saved(problem="no space left")]),
            st.sampled_from([None, Pause(by="alice")]),
            st.integers(1, 600),
        ),
        max_size=6,
    ),
)
@examples(500)
def test_no_two_screens_say_different_things(
    drawn: tuple[Snapshot, Policy],
    mode: Mode,
    approves: bool,
    spans: tuple[int, int, int],
    overdue: bool,
    capacity: frozenset[int],
    first: tuple[bool, int],
    events: Sequence[EvictionAnswer | Saved | Pause | int | None],
) -> None:
    """After a cycle and after each thing that happens: answers, pauses, a memory that is not saved, an approval."""
    (snapshot, policy), (lasting, age, settle), (lacks, paused) = drawn, spans, first
    spread = policy.spread.model_copy(update={"for_": timedelta(seconds=lasting)})
    policy = policy.model_copy(update={"mode": mode, "spread": spread})
    created = snapshot.taken_at - timedelta(minutes=59)
    young = tuple(structs.replace(pod, created=created) for pod in snapshot.pods)
    joined = snapshot.taken_at - timedelta(seconds=10)
    nodes = tuple(structs.replace(node, ready_since=joined) for node in snapshot.nodes)
    snapshot = replace(snapshot, pods=young, nodes=nodes)
    policy = policy.model_copy(update={"nodes": Nodes(settle=timedelta(seconds=settle))})
    eligibility = policy.eligibility.model_copy(update={"min_age": timedelta(minutes=age)})
    policy = policy.model_copy(update={"eligibility": eligibility})
    lost = move("lost", snapshot.taken_at, namespace="default", state=MoveState.EVICTED, uncreated="quota")
    run = Run(snapshot, policy, Memory(moves=(lost,) if overdue else ()))
    if lacks and mode is not Mode.OBSERVE:
        missing = {pod.namespace: run.now for pod in snapshot.pods}
        run.take(RightsRead(rights=Rights(everywhere=False, missing=missing)))
    if paused:
        run.take(PauseRead(pause=Pause(until=run.now + timedelta(seconds=paused), by="bob")))
    run.begin(capacity)
    check_ends(run)
    check_blocked(run.state)
    if approves and run.state.memory.proposal is not None:
        run.take(ApprovalRead(approved=run.state.memory.proposal.hash))
        run.begin(capacity)
    check(run)
    for event in (Saved(), *events):
        match event:
            case EvictionAnswer():
                run.answer(event)
            case Saved():
                run.take(event)
            case int():
                run.take(PauseRead(pause=Pause(until=run.now + timedelta(seconds=event), by="bob")))
            case _:
                run.take(PauseRead(pause=event))
        check(run)


def check(run: Run) -> None:
    """Check all that is said of a state."""
    check_fates(run.state)
    check_numbers(run.state, run.now)
    check_waits(run.state)
    check_counted(run.state)
    check_lists(run.state)
    check_past(run.state)
    check_foretold(run)
    check_words(run.state, run.now)
    check_marks(run.state)


def check_fates(state: LoopState) -> None:
    """Each decided eviction has one fate; where one of a repair goes or is under way, the repair does not wait."""
    cycle = state.cycle
    assert cycle is not None
    account = find_account(state, cycle)
    decided = [one.pod.uid for one in account.fates.evictions]
    assert len(set(decided)) == len(decided)
    assert sorted(decided) == sorted(one.pod.uid for one in cycle.plan.fates.evictions)
    kept = {one.eviction.pod.uid for one in cycle.fates.kept}
    assert kept.isdisjoint(one.pod.uid for one in account.fates.let_go), "nobody lets one go that was kept back"
    in_flight = {one.uid for one in state.memory.in_flight}
    for fate in account.fates.rows:
        assert isinstance(fate, UnderWay) == (fate.eviction.pod.uid in in_flight)
    active = {one.group for one in account.fates.let_go}
    assert active.isdisjoint(name for name, repair in account.repairs.items() if repair.wait is not None)
    if state.mode is Mode.OBSERVE or state.in_force.pause is not None:
        assert not account.fates.going
    asked = {one.eviction.pod.uid for one in cycle.fates.kept if one.reason is Reason.AWAITING_APPROVAL}
    said = {one.eviction.pod.uid for one in account.fates.kept if one.reason is Reason.AWAITING_APPROVAL}
    assert said <= asked, "what keeps it back first stays named"
    waits = [repair.wait for repair in account.waits if repair.wait is not None and repair.wait.first is None]
    assert not any(wait.refusal.reason is Reason.AWAITING_APPROVAL for wait in waits)


def check_numbers(state: LoopState, now: datetime) -> None:
    """Status, text, page and metrics have the same numbers, and the same next moment."""
    cycle = state.cycle
    assert cycle is not None
    status, page = status_document(state, "one", "policy.yaml"), page_of(state)
    figures = status.figures
    assert figures is not None
    assert page.overview is not None
    assert page.overview.figures == figures
    assert page.status == status
    in_flight = {one.uid for one in state.memory.in_flight}
    begun = sum(one.pod.uid in in_flight for one in cycle.plan.fates.going)
    assert figures.waiting == plan_numbers(cycle.plan).evictions - begun
    assert figures.waiting == status.plan.evictions >= status.plan.minimum
    assert figures.moving == len(status.in_flight) == rows_of(state, "rebalancer_in_flight")[()]
    assert {reason: float(number) for reason, number in status.refusals.items()} == {
        row[0]: number for row, number in rows_of(state, "rebalancer_refusals").items()
    }
    check_parts(state, page, begun, now)
    kept = Counter(str(fate.reason) for fate in find_account(state, cycle).fates.kept)
    assert kept <= Counter(status.refusals), "a pause is counted at once"
    pods = len(cycle.snapshot.pods)
    assert all(number <= pods + len(cycle.snapshot.workloads) for number in status.refusals.values())
    text = status_text(status, now)
    words = text.replace("\xa0", " ").replace("\n", " ")
    said = re.search(r"(\d+) to be evicted(, (?:next|a wait ends) in \S+)?", words)
    assert said is not None
    assert int(said[1]) == figures.waiting
    if "Nothing is violated, nothing moves" in words:
        assert all(wait.violated for wait in status.waits), "what is to be repaired is not passed over"
    planned = re.search(r"Plan: (?:(\d+) evictions? \(|nothing to evict;)", words)
    assert planned is not None
    assert int(planned[1] or 0) == figures.waiting, "an eviction that was made is in flight, and in the plan no more"
    comes = figures.next_at is not None and figures.next_at > now
    word = "a wait ends" if figures.may_go_sooner else "next"
    assert (said[2] or "") == (f", {word} in {format_rest(figures.next_at - now)}" if comes and figures.next_at else "")
    assert not comes or figures.waiting, "what is next where nothing is to be evicted?"
    check_attention(page_of(state, selection=VIOLATIONS), now)
    SHOWN[:] = [(page, now)]
    document = json.loads(ROUTES["/status.json"](Request({})).body)
    assert document["status"]["figures"] == json.loads(to_json(status))["figures"] == document["overview"]["figures"]


def check_parts(state: LoopState, page: PageDocument, begun: int, now: datetime) -> None:
    """Metrics have the page's parts of the plan: what waits is not now; what was requested since is in flight."""
    totals = page.totals
    assert totals is not None
    title = PageView(page, PageAddress("/", {}), now).plan_title
    said = {name: int(number) for number, name in re.findall(r"(\d+) (sent|now|waiting|later)\b", title)}
    assert said.get("sent", 0) == begun, "what was sent is not said to go now"
    assert sum(said.values()) - begun == page.status.plan.evictions, "the title counts what the tile counts"
    parts = {"now": totals.now - begun, "waiting": totals.waiting, "later": totals.later, "blocked": totals.blocked}
    assert rows_of(state, "rebalancer_plan_evictions") == {(part,): number for part, number in parts.items()}
    assert rows_of(state, "rebalancer_planned_evictions") == {(): page.status.plan.evictions}
    assert rows_of(state, "rebalancer_minimum_evictions") == {(): page.status.plan.minimum}


def check_attention(page: PageDocument, now: datetime) -> None:
    """Compare the heading over the rows with the figures: what is violated, and what else moves, is counted once."""
    overview = page.overview
    assert overview is not None
    assert overview.violated == overview.figures.violated
    assert bool(overview.rows) == bool(overview.workloads)
    moving = overview.workloads - overview.violated
    states = [{one.state for one in row.limits} | {one.state for one in row.constraints} for row in overview.rows]
    rows = [row for row, known in zip(overview.rows, states, strict=True) if not BROKEN & known]
    assert all(row.moving for row in rows)
    assert bool(rows) >= bool(moving)
    SHOWN[:] = [(page, now)]
    html = ROUTES["/"](Request({})).body.decode()
    head = re.sub("<[^>]*>", " ", html.partition('id="attention">')[2].partition("</header>")[0])
    parts = f"{overview.violated} violated" + (f", {moving} moving within" if moving else "")
    said = f"Needs attention: {overview.workloads}" + (f" {parts}" if overview.rows else "")
    assert " ".join(head.split()).startswith(said)
    (figure,) = re.findall(r'Violated</span><span class="number">(\d+)<', html)
    assert int(figure) == overview.violated


def check_waits(state: LoopState) -> None:
    """Nothing goes on before a pause ends; a wait says the same in every place, and there is one of each repair."""
    status, page = status_document(state, "one", "policy.yaml"), page_of(state)
    pause = state.in_force.pause
    ends = [wait.until for wait in status.waits] + ([status.figures.next_at] if status.figures is not None else [])
    if pause is not None:
        assert all(end is None or (pause.until is not None and end >= pause.until) for end in ends)
    if state.mode is Mode.OBSERVE or state.queue.rights.missing:
        assert not any(ends)
    check_standing(state, status)
    assert page.overview is not None
    assert state.cycle is not None
    check_next(state, status)
    proposal, standing = state.memory.proposal, state.memory.standing
    if state.mode is Mode.APPROVE and not standing and (proposal is None or not proposal.approved):
        for wait in status.waits:
            assert wait.until is None
            assert not wait.ends_with or "approve" in wait.ends_with, "nobody has approved it"
    repairs = find_account(state, state.cycle).repairs.values()
    under_way = {one for repair in repairs if repair.under_way for one in repair.component.workloads}
    waits = [wait for wait in status.waits if not is_of_limit(wait, state.cycle)]
    said = {(wait.namespace, wait.workloads): wait for wait in waits}
    assert len(said) == len(waits)
    for row in page.overview.rows:
        if row.wait is not None and len(status.waits) < 20:
            assert row.wait == said[row.wait.namespace, row.wait.workloads]
        if row.state is RowState.WAITING and row.wait is None:
            named = {Reference(row.namespace, one.kind, one.name) for one in row.workloads}
            assert row.needed or not named or named & under_way, "it goes now, or another's pod moves for it"


def check_standing(state: LoopState, status: StatusDocument) -> None:
    """No wait names an end that does not help: a pause, or mode Observe, outlasts it; the numbers have its reason."""
    pause, observes = state.in_force.pause, state.mode is Mode.OBSERVE
    if pause is None and not observes:
        return
    assert state.cycle is not None
    last = pause.until if pause is not None and not observes else None
    waiting = find_account(state, state.cycle).fates.waiting
    for fate in waiting:
        end = fate.refusal.end
        assert_lasts(end.until(state.cycle.plan.made_at), end.event, last)
    for wait in status.waits:
        if not wait.stuck:
            assert_lasts(wait.until, wait.ends_with, last)
    # After a pause or a change of the mode the numbers are the last cycle's until the next one.
    context = state.cycle.context
    if context.mode is state.mode and (observes or context.pause == pause):
        reasons = Counter(fate.reason for fate in waiting)
        assert all(status.refusals[reason] >= number for reason, number in reasons.items())


def check_next(state: LoopState, status: StatusDocument) -> None:
    """Say when the next eviction is only where no repair goes on, or may go on with an event, before it."""
    assert state.cycle is not None
    if status.figures is None or status.figures.next_at is None or status.figures.may_go_sooner:
        return
    for repair in find_account(state, state.cycle).repairs.values():
        if repair.needed:
            assert repair.wait is not None
            assert repair.wait.until is not None or not repair.wait.refusal.end.event
    headings = [one.text for one in headlines(status, status.figures, state.cycle.context.now)]
    assert not any("a wait ends" in heading for heading in headings)


def check_ends(run: Run) -> None:
    """Nothing is said to go on, or to be waited for, that the budgets stop for ever once the nodes have settled."""
    cycle = run.state.cycle
    assert cycle is not None
    policy, memory = run.state.in_force.policy, cycle.evaluation.inputs.memory
    settled = evaluate_once(
        run.snapshot, policy.model_copy(update={"nodes": Nodes(settle=timedelta())}), run.state.in_force.profile, memory
    )
    after = {one.name for one in settled.plan.components if one.reason is Reason.STEP_EXCEEDS_BUDGET}
    for name, repair in find_account(run.state, cycle).repairs.items():
        if name in after:
            assert repair.component.state is State.UNFIXABLE
            assert repair.wait is not None
            assert (repair.wait.until, repair.wait.refusal.end.event) == (None, "")


def is_of_limit(wait: RepairWait, cycle: Cycle) -> bool:
    """Return whether a row is of a limit that no placement satisfies; a repair in part has a row of its own."""
    return wait.stuck and wait.message in {one.message for one in cycle.assessment.limits if one.state in NEVER}


def check_blocked(state: LoopState) -> None:
    """Status, page, plan and explanation have one number and one word for what is blocked; none of it "waits"."""
    cycle = state.cycle
    assert cycle is not None
    status, page = status_document(state, "one", "policy.yaml"), page_of(state)
    document = mark_moving(plan_document(cycle.plan, cycle.snapshot), state.memory.moves)
    groups = {(one.namespace, one.workloads): one for one in document.groups}
    assert page.overview is not None
    stuck = {(one.namespace, one.workloads) for one in status.waits if one.stuck and not is_of_limit(one, cycle)}
    for wait in status.waits:
        group = groups.get((wait.namespace, wait.workloads))
        if group is None or is_of_limit(wait, cycle):
            assert (wait.stuck, wait.evictions, wait.then) == (True, 0, None), "no placement satisfies a limit"
            continue
        assert (wait.blocked, wait.evictions) == (group.blocked, group.evictions)
        if not group.now + group.waiting:
            assert wait.stuck == group.is_stuck
        assert wait.without_node == group.without_node
        if len(group.workloads) == 1:
            said = explain(group, cycle)
            assert (f", {group.blocked} blocked" in said) == bool(group.blocked)
            assert ("0 now, 0 waiting" in said) >= wait.stuck
    for row in page.overview.rows:
        if row.wait is not None and (row.wait.namespace, row.wait.workloads) in stuck and row.constraints:
            assert row.state is not RowState.WAITING
    for fate in (one for one in cycle.plan.fates.kept if isinstance(one, Never)):
        explained = explain_pod(fate.eviction.pod, cycle.evaluation.view, cycle.assessment, cycle.plan)
        assert explained.verdict == STAYS
    text = status_text(status, cycle.context.now)
    waiting = text.partition("\nWAITING\n")[2].partition("\n\n")[0]
    assert "blocked" not in re.sub(r"\d+ of them blocked", "", waiting)


def check_counted(state: LoopState) -> None:
    """Compare figure and list of what cannot be repaired; workloads whose pods wait for a node violate nothing."""
    status = status_document(state, "one", "policy.yaml")
    assert state.cycle is not None
    assert status.figures is not None
    overview, stuck = state.cycle.overview, [one for one in status.waits if one.stuck]
    account = find_account(state, state.cycle)
    counted = overview.find_stuck(account.moving.keys())
    assert len(counted) == status.figures.unrepairable
    listed = [
        {Reference(one.namespace, workload.kind, workload.name) for workload in one.workloads}
        for one in stuck
        if not one.without_node
    ]
    assert all(not counted.isdisjoint(workloads) for workloads in listed), "what is listed is counted"
    if len(status.waits) < 20:
        assert counted <= frozenset().union(*listed), "what is counted is listed"
    check_stuck_plan(state.cycle, counted)
    violated = {workload for group in state.cycle.assessment.groups if group.violated for workload in group.workloads}
    for wait in status.waits:
        if wait.without_node:
            assert not wait.violated
            assert violated.isdisjoint(Reference(wait.namespace, one.kind, one.name) for one in wait.workloads)
    text = status_text(status, state.cycle.context.now)
    assert ("\nCANNOT BE REPAIRED NOW\n" in text) == bool(listed)
    assert ("\nPODS WAIT FOR A NODE\n" in text) == any(one.without_node for one in stuck)


def check_stuck_plan(cycle: Cycle, counted: Collection[Reference]) -> None:
    """Limits that no placement satisfies count as such whatever is evicted, and the plan names them all."""
    hopeless = {one for limit in cycle.assessment.limits if limit.state in NEVER for one in limit_workloads(limit)}
    certain = {one for limit in cycle.assessment.limits if limit.state is NEVER[0] for one in limit_workloads(limit)}
    assert certain <= set(counted)
    document = plan_document(cycle.plan, cycle.snapshot, beside=find_notes(cycle.plan, cycle.assessment))
    helped = [one for one in document.groups if any(limit.reason for limit in one.limits)]
    rows = [(one.namespace, one.workloads) for one in document.stuck]
    rows += [(one.namespace, one.workloads) for one in helped]
    assert hopeless <= {Reference(namespace, one.kind, one.name) for namespace, several in rows for one in several}
    text = plan_text(document)
    assert "Nothing to repair" not in text or not hopeless
    assert all(str(limit.reason) in text for limit in cycle.assessment.limits if limit.state in NEVER)


def explain(group: PlannedGroup, cycle: Cycle) -> str:
    """Say which of the pods of a group of one workload are evicted, as `rebalancer explain` does."""
    (workload,) = group.workloads
    reference = Reference(group.namespace, workload.kind, workload.name)
    document = explain_workload(reference, cycle.assessment, cycle.plan, cycle.snapshot)
    return next(one.answer for one in document.path if one.question == "Which of its pods are evicted?")


def check_lists(state: LoopState) -> None:
    """On the page each pod is in one list: it moves, is let go, or waits, there with the reason of its fate."""
    cycle = state.cycle
    assert cycle is not None
    account, page = find_account(state, cycle), page_of(state)
    fates = {fate.eviction.pod.uid: fate for fate in account.fates.rows}
    waits = {one.uid: one for one in page.waiting}
    assert waits.keys().isdisjoint(one.uid for one in page.evictions)
    assert waits.keys() == {
        uid for uid, fate in fates.items() if isinstance(fate, Waits) and not isinstance(fate, Never)
    }
    assert {one.uid for one in page.evictions} == {one.pod.uid for one in account.fates.let_go}
    assert page.totals is not None
    assert (page.totals.now, page.totals.waiting) == (len(page.evictions), len(page.waiting))
    assert waits.keys().isdisjoint(one.uid for one in page.status.in_flight)
    for uid, one in waits.items():
        fate = fates[uid]
        assert isinstance(fate, Waits)
        assert (one.for_, one.message) == (fate.reason, fate.refusal.timeless)


def check_foretold(run: Run) -> None:
    """Compare what a command says from the stored memory and status with what the next cycle decides."""
    state, snapshot = run.state, replace(run.snapshot, taken_at=run.now)
    if drop_queue(state).memory.moves != state.memory.moves:
        return  # what is not requested yet is planned anew by a cycle, and stands as requested in what is stored
    if state.queue.forbidden:
        return  # a second later the API server is asked whether the right is there, and the status names where not
    status = status_document(state, "one", "policy.yaml")
    evaluation = evaluate_once(snapshot, state.in_force.policy, state.in_force.profile, state.memory)
    planned = Acting(str, status).admit(evaluation)
    check_planned(run, planned, evaluation)
    foretold = planned.fates
    if state.mode is Mode.OBSERVE:
        # What mode Evict would send is said: a pause alone, like the mode, is no reason to foresee nothing.
        evicting = state.in_force.policy.model_copy(update={"mode": Mode.EVICT})
        state = replace(state, in_force=replace(state.in_force, policy=evicting, pause=None))
    read_at = (run.now - run.snapshot.taken_at).total_seconds()
    following, _ = step(replace(state, turn=0), CycleDue(snapshot=snapshot, read_at=read_at), run.now)
    assert following.cycle is not None
    assert reasons_of(foretold) == reasons_of(find_account(following, following.cycle).fates)


def check_planned(run: Run, plan: Plan, evaluation: Evaluation) -> None:
    """`plan` and `explain` promise nothing before a pause ends, and nothing at all without one or in mode Observe."""
    pause, observes = run.state.in_force.pause, run.state.mode is Mode.OBSERVE
    if not observes and (pause is None or not pause.holds(plan.made_at)):
        return
    document = plan_document(plan, run.snapshot)
    rows = [(one.until, one.ends_with) for one in document.waiting]
    rows += [(one.until, one.ends_with) for one in document.groups if one.state == State.VIOLATED]
    last = pause.until if pause is not None and not observes else None
    for until, event in rows:
        assert_lasts(until, event, last, observes=observes)
    if last is None:
        texts = [plan_text(document, PlanOptions(wide=True))]
        texts += [
            explanation_text(explain_workload(reference, evaluation.assessment, plan, run.snapshot))
            for component in plan.components
            if component.state is State.VIOLATED
            for reference in component.workloads
        ]
        assert not any("goes on " in text or "at the earliest" in text for text in texts)


def assert_lasts(until: datetime | None, event: str, last: datetime | None, *, observes: bool = False) -> None:
    """Nothing ends before what keeps everything back does, `last`, None: never; a right may be missing longer."""
    if last is None:
        assert (until, event) == (None, "")
    elif until is not None:
        assert until >= last
    else:
        # A plan is approved after that moment, and a right is granted, at no known time.
        assert not event or "when it is " in event or "may evict" in event


def reasons_of(fates: Fates) -> Mapping[str, Reason | None]:
    # The answer 429 makes both waits, for as long: which of them ends last is a matter of a moment.
    alike = {Reason.BACK_OFF: Reason.RATE_LIMITED}
    reasons = {fate.eviction.pod.uid: fate.reason if isinstance(fate, Waits) else None for fate in fates.rows}
    return {uid: alike.get(reason, reason) if reason is not None else None for uid, reason in reasons.items()}


def check_past(state: LoopState) -> None:
    """No pod is said to be evicted whose eviction was refused, or that was gone before."""
    for entry in map(history_entry, state.memory.outbox):
        if entry.kind == EntryKind.MOVED and entry.outcome in {MoveState.REFUSED, MoveState.GONE}:
            assert f"evicted {entry.pod}" not in entry.text


_SPAN = r"(?:\d+[dhms])+"
_NOUNS = ("pods", "workloads", "evictions", "nodes", "zones", "limits", "constraints", "violations", "requests")
_CONTRADICTIONS = {
    "two spans in one line": re.compile(rf"goes on in {_SPAN}.*({_SPAN} left|attempt in {_SPAN})"),
    "a plural of one": re.compile(
        r"(?<![\d.,/:-])1 (pods|workloads|evictions|nodes|zones|limits|constraints|violations)\b"
    ),
    "none of some is not": re.compile(r"\b0 of \d+ \w+ not satisfied"),
    "what is violated is guaranteed": re.compile(r"Violated +\w+ +yes"),
}
"""What no line of any screen may say, by what is wrong with it."""


def check_marks(state: LoopState) -> None:
    """Compare a map's marks of what cannot be repaired with the figures: no "x web" beside "0 cannot be repaired".

    While a pod goes that may be requested or refused since, only that: the figures are newer than a stored map.
    """
    page, cycle = page_of(state), state.cycle
    assert cycle is not None
    assert page.overview is not None
    assert page.map is not None
    number = page.overview.figures.unrepairable
    for drawn in (page.map, cycle.stored_map):
        lanes = [lane for lane in drawn.lanes if lane.stuck] if drawn is not None else []
        assert number or not lanes
    if not find_account(state, cycle).fates.let_go and not state.memory.in_flight and not page.map.more:
        assert bool(number) == any(lane.stuck for lane in page.map.lanes)


def check_words(state: LoopState, now: datetime) -> None:
    """No line of status, report or history contradicts itself."""
    cycle = state.cycle
    assert cycle is not None
    texts = [
        status_text(status_document(state, "one", "policy.yaml"), now),
        report_text(cycle_report(cycle)),
        *(history_entry(entry).text for entry in state.memory.outbox),
    ]
    for line in (line for text in texts for line in text.splitlines()):
        for wrong, pattern in _CONTRADICTIONS.items():
            assert not pattern.search(line), wrong


@given(seed=st.integers(0, 99))
@examples(10)
def test_the_heading_agrees_with_the_figures_until_a_repair_has_ended(seed: int) -> None:
    """Also when all is within its bounds again and the last replacement is not Ready yet: none is violated then."""
    simulation = Simulation(SimulatedCluster(returned(), seed=seed), eager())
    within = 0
    for _ in range(80):
        simulation.cycles(1, apart=1)
        page = page_of(simulation.runner.state, selection=VIOLATIONS)
        check_attention(page, simulation.cluster.now)
        assert page.overview is not None
        within += page.overview.workloads > page.overview.violated
    assert within


@given(
    lacks=st.booleans(),
    fields=st.sampled_from([{"max_unavailable": 0}, {"min_available": 3}, {"min_available": "100%"}]),
)
def test_a_remedy_names_a_field_that_the_budget_has(lacks: bool, fields: dict[str, int | str]) -> None:
    """Of a budget with minAvailable nobody can raise maxUnavailable."""
    blueprint = a_cluster("abc", 1)
    blueprint.deployment("web", on={"a-1": 3}, spread={ZONE: 1})
    blueprint.budget("web", **fields)  # type: ignore[arg-type]  # one of two fields, each with its type
    cycle = cycle_of(blueprint.snapshot(), a_policy() if lacks else a_policy("budgets: {maxUnavailable: 2}\n"))
    said = report_text(cycle_report(cycle)).replace("\n", " ")
    assert ("Raise its maxUnavailable" in said) == ("max_unavailable" in fields)
    assert ("Lower its minAvailable" in said) == ("min_available" in fields)


def test_a_constraint_of_which_nothing_was_counted_is_unknown_everywhere() -> None:
    """Nothing is satisfied by an empty count: the metric has the state that report and page have."""
    snapshot = a_cluster("a", 1, {"a-1": 2}, spread={"example.com/rack": 1}).snapshot()
    cycle = cycle_of(snapshot, a_policy())
    (constraint,) = cycle_report(cycle).constraints
    ((labels, value),) = rows_of(state_of(cycle), "rebalancer_constraint_state").items()
    assert (labels[-1], value, constraint.state) == ("Unknown", 1, "Unknown")


def test_where_a_repair_may_go_on_with_an_event_nobody_knows_when_the_next_eviction_is() -> None:
    """Also where one goes on; what does not end by itself comes before nothing."""
    _, _, plan = assess_and_plan(rules())
    lasting = NotLasting(timedelta(), "spread.for", timedelta(minutes=1))
    for other, is_sooner in ((lasting, False), (TooManyInFlight(1), True), (Paused("for good"), False), (None, True)):
        waits = {"one": lasting, "two": other}
        fates = plan.fates.hold(lambda eviction, waits=waits: waits[eviction.pod.namespace])  # type: ignore[misc]
        account = Account(plan=plan, numbers=group_numbers(plan), fates=fates, moves=())
        assert account.next_at == plan.made_at + timedelta(minutes=1)
        assert account.may_go_sooner is is_sooner


def young(snapshot: Snapshot, *names: str) -> Snapshot:
    """Make pods as young as the snapshot."""
    pods = (structs.replace(pod, created=snapshot.taken_at) if pod.name in names else pod for pod in snapshot.pods)
    return replace(snapshot, pods=tuple(pods))


def test_what_no_repair_wants_is_no_reason_why_something_is_not_evicted() -> None:
    """Of four pods one must go: three that are too young matter to nobody, a fourth one keeps it from going."""
    blueprint = a_cluster("ab")
    blueprint.deployment("web", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    names = [pod.name for pod in snapshot.pods if pod.node == "a-1"]
    policy = a_policy("mode: Evict\nspread: {for: 0s}\nnodes: {settle: 0s}\n")

    def counted(*of: str) -> int:
        made = young(snapshot, *of)
        state, _ = step(a_state(policy, made.taken_at), CycleDue(snapshot=made), made.taken_at)
        status = status_document(state, "test", "test")
        return status.refusals.get(Reason.TOO_YOUNG, 0)

    assert counted(*names[1:]) == 0
    assert counted(*names) == 3
