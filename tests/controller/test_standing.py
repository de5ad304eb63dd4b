"""The approval of a whole plan in the real loop on the simulated cluster: counted, withdrawn, taken over by others."""

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.adapters.web import page_routes
from rebalancer.adapters.web.routes import Request
from rebalancer.admission.pause import Pause
from rebalancer.admission.written import NOTHING_WRITTEN, WholeApproval, Written, format_approval, read_written
from rebalancer.controller.evictions import queue_evictions, request_evictions
from rebalancer.controller.state import ApprovalRead, Evict, PauseRead
from rebalancer.controller.status import status_document
from rebalancer.documents.history import history_entry
from rebalancer.model.approvals import StandingApproval
from rebalancer.model.history import NOBODY, Author
from rebalancer.model.moves import Move
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Amount, Budgets, Mode
from rebalancer.ports import Denial, EvictionAnswer, EvictionResult
from rebalancer.reporting.text.status import status_text
from rebalancer.simulator import ZONE, ClusterBuilder, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.drawing import examples
from tests.reports import page_of, rows_of

LEFT = "rebalancer_approved_evictions_left"

ABOVE = {"web": 4, "api": 3, "cart": 2}
"""How many evictions each workload needs: together nine."""

WIDE = Budgets(
    max_unavailable=Amount(value=9),
    per_workload=Amount(value=9),
    per_cycle=Amount(value=9),
    per_minute=Amount(value=60),
)


def lopsided(above: dict[str, int] = ABOVE) -> ClusterBuilder:
    """Build workloads without a pod in zone c, which they need that many evictions to fill."""
    blueprint = a_cluster("abc", 2)
    for name, number in above.items():
        on = {"a-1": number, "a-2": number, "b-1": number // 2, "b-2": number - number // 2}
        blueprint.deployment(name, on=on, spread={ZONE: 1}, namespace="shop")
    return blueprint


class Person:
    """Somebody who approves what a simulated controller proposes."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.written = NOTHING_WRITTEN

    def approve(self, evictions: int, lasting: timedelta = timedelta(hours=2), **fields: Any) -> WholeApproval:
        """Write the approval of the plan that waits, and let the controller read it."""
        proposal = self._simulation.runner.state.memory.proposal
        assert proposal is not None
        until = self._simulation.cluster.now + lasting
        approval = WholeApproval(plan=proposal.hash, evictions=evictions, until=until, by="ada", **fields)
        self.write(approval)
        return approval

    def write(self, approval: WholeApproval | None) -> None:
        """Write an approval, or remove the key."""
        self.written = read_written(format_approval(approval)) if approval is not None else NOTHING_WRITTEN
        self.tell()

    def tell(self) -> None:
        """Let the controller read what is written, as one that has begun does."""
        self._simulation.runner.tell(ApprovalRead(approved="", written=self.written))


def a_simulation(cluster: SimulatedCluster, **changes: Any) -> tuple[Simulation, Person]:
    simulation = Simulation(cluster, eager(Mode.APPROVE, **changes))
    return simulation, Person(simulation)


def standing_of(simulation: Simulation) -> StandingApproval | None:
    return simulation.runner.state.memory.standing or None


def test_a_whole_repair_is_approved_once() -> None:
    """Nine evictions over three workloads, step by step, by one approval; then it has ended, and the file is inert."""
    simulation, person = a_simulation(SimulatedCluster(lopsided().snapshot(), seed=1))
    simulation.cycles(2)
    assert simulation.evictions == 0
    approval = person.approve(9)
    simulation.cycles(40)
    memory = simulation.runner.state.memory
    assert simulation.evictions == 9
    assert standing_of(simulation) is None
    assert {move.approval for move in memory.moves} == {approval.plan}
    assert Counter(move.workload.name for move in memory.moves) == ABOVE
    person.tell()
    simulation.cycles(3)
    assert simulation.evictions == 9


def page_text(simulation: Simulation) -> str:
    """Return the overview that a browser is sent, without its tags."""
    now = simulation.cluster.now
    routes = page_routes(lambda *_, **__: page_of(simulation.runner.state), local=False, now=lambda: now)
    return unescape(re.sub(r"<[^>]*>", " ", routes["/"](Request({})).body.decode()))


def test_status_page_and_metric_say_how_much_is_left() -> None:
    """And what is wrong with an approval that approves nothing."""
    simulation, person = a_simulation(SimulatedCluster(lopsided().snapshot(), seed=1))
    simulation.cycles(1)
    approval = person.approve(9)
    simulation.cycles(1)
    status = status_document(simulation.runner.state, "pod-1", "policy.yaml")
    assert status.standing is not None
    assert (status.standing.plan, status.standing.by, status.standing.left) == (approval.plan, "ada", 7)
    for text in (status_text(status, simulation.cluster.now), page_text(simulation)):
        assert f"Approved with its later steps: plan {approval.plan}, 7 of 9 evictions left" in text
        assert "Approved by ada at 2026-01-01 00:00:10Z; ends in 1h59m" in text
        assert "At most 7 more pods are taken away by it." in text
    assert rows_of(simulation.runner.state, LEFT) == {(): 7}
    simulation.runner.tell(ApprovalRead(approved="", written=read_written("plan: [")))
    simulation.cycles(1)
    status = status_document(simulation.runner.state, "pod-1", "policy.yaml")
    assert rows_of(simulation.runner.state, LEFT) == {(): 0}
    assert (status.standing, status.approval_problem.partition(".yaml")[0]) == (None, "approval")
    for text in (status_text(status, simulation.cluster.now), page_text(simulation)):
        assert "No approval in force" in text
        assert "approval.yaml cannot be read, so it approves nothing." in text


def test_an_approval_may_be_of_less_than_the_plan() -> None:
    """By number, time or workload; the rest is proposed again."""
    for fields, most in (
        ({"evictions": 5}, 5),
        ({"evictions": 9, "workloads": ("shop/deployment/web",)}, 4),
        ({"evictions": 9, "namespaces": ("bank",)}, 0),
        ({"evictions": 9, "lasting": timedelta(seconds=5)}, 2),
    ):
        simulation, person = a_simulation(SimulatedCluster(lopsided().snapshot(), seed=1))
        simulation.cycles(1)
        first = person.approve(**fields)
        simulation.cycles(40)
        assert simulation.evictions == most
        proposal = simulation.runner.state.memory.proposal
        assert proposal is not None
        assert (proposal.approved, proposal.hash == first.plan) == (False, most == 0)


class KilledError(Exception):
    """The process ends."""


class Interrupting(SimulatedCluster):
    """Calls something while an eviction is under way: what the watches deliver then."""

    during: Callable[[int], None] = staticmethod(lambda _: None)
    asked = 0

    def evict(self, move: Move) -> EvictionAnswer:
        """Note the request."""
        self.asked += 1
        self.during(self.asked)
        return super().evict(move)


def test_after_it_is_withdrawn_only_the_request_under_way_is_carried_out() -> None:
    """The evictions that were admitted with it are forgotten, and charged to nobody."""
    cluster = Interrupting(lopsided().snapshot(), seed=1)
    simulation, person = a_simulation(cluster, budgets=WIDE)
    simulation.cycles(1)
    person.approve(9)
    cluster.during = lambda number: person.write(None) if number == 2 else None
    simulation.cycles(20)
    assert (cluster.asked, simulation.evictions) == (2, 2)
    assert standing_of(simulation) is None
    assert len(simulation.runner.state.memory.moves) == 2


def test_its_end_is_in_the_history() -> None:
    """Who has withdrawn it, where that is known; where nobody has, why it ended."""
    ends: dict[str, str] = {}
    for author in (Author(manager="kubectl-edit", at=1_767_225_600), NOBODY, None):
        simulation, person = a_simulation(SimulatedCluster(lopsided().snapshot(), seed=1))
        process = replace(simulation.runner.state.process, history_name="pod")
        simulation.runner.state = replace(simulation.runner.state, process=process)
        simulation.cycles(1)
        approval = person.approve(9, timedelta(minutes=1))
        simulation.cycles(1)
        if author is None:
            simulation.cluster.advance(120)
        else:
            simulation.runner.tell(ApprovalRead(approved="", written_author=author))
        simulation.cycles(2)
        entries = [history_entry(entry) for entry in simulation.runner.state.memory.outbox]
        (end,) = [entry for entry in entries if entry.kind == "ApprovalEnded"]
        before, _, why = end.text.partition(": ")
        assert re.fullmatch(
            rf"the approval of plan {approval.plan} with its later steps has ended, with \d evictions left", before
        )
        ends[end.who] = why
    gone = "it is withdrawn: approval.yaml was removed"
    assert ends.pop("").startswith("its time was over at ")
    assert ends == {
        "kubectl-edit": f"{gone}, by field manager kubectl-edit at 2026-01-01 00:00:00Z",
        "unknown": f"{gone}, by unknown",
    }


OTHER = "0123456789abcdef"
"""A plan that is not the approved one."""


@pytest.mark.parametrize(
    ("written", "declared", "who"), [("", "", "unknown"), ("", OTHER, "unknown"), (OTHER, OTHER, "admin")]
)
def test_nobody_who_approved_a_plan_is_said_to_have_removed_an_approval(written: str, declared: str, who: str) -> None:
    """No command removes one: who approved this plan, or another, stays declared. Another one has its own author."""
    simulation, person = a_simulation(SimulatedCluster(lopsided().snapshot(), seed=1))
    process = replace(simulation.runner.state.process, history_name="pod")
    simulation.runner.state = replace(simulation.runner.state, process=process)
    simulation.cycles(1)
    approval = person.approve(9)
    simulation.cycles(1)
    author = Author(who="admin", of=declared or approval.plan)
    there = Written(approval=structs.replace(approval, plan=written)) if written else NOTHING_WRITTEN
    simulation.runner.tell(ApprovalRead(approved="", written=there, written_author=author))
    simulation.cycles(2)
    (end,) = [entry for entry in simulation.runner.state.memory.outbox if entry.kind == "ApprovalEnded"]
    assert end.who == who


def test_what_is_forgotten_before_it_was_requested_is_not_charged() -> None:
    """A pause in the middle of a cycle: what was not sent is left of the approval."""
    cluster = Interrupting(lopsided().snapshot(), seed=1)
    simulation, person = a_simulation(cluster, budgets=WIDE)
    simulation.cycles(1)
    person.approve(9)
    pause = Pause()
    cluster.during = lambda number: simulation.runner.tell(PauseRead(pause=pause)) if number == 2 else None
    simulation.cycles(3)
    standing = standing_of(simulation)
    assert standing is not None
    assert (simulation.evictions, standing.left) == (2, 7)


def test_after_its_time_nothing_of_the_cycle_is_requested() -> None:
    """A cycle may take long; what it has admitted is not sent when the time is over."""
    cluster = SimulatedCluster(lopsided().snapshot(), seed=1)
    simulation, person = a_simulation(cluster, budgets=WIDE)
    simulation.cycles(1)
    person.approve(9, timedelta(hours=1))
    state = simulation.runner.state
    simulation.runner.drain()
    simulation.cycles(1)
    state = simulation.runner.state
    assert state.cycle is not None
    assert state.memory.standing
    queued, _ = queue_evictions(state, state.cycle.fates.going, cluster.now)
    assert queued.memory.standing
    later = structs.replace(queued.memory.standing, until=cluster.now)
    for memory, sent in ((queued.memory, True), (structs.replace(queued.memory, standing=later), False)):
        _, requests = request_evictions(replace(queued, memory=memory), cluster.now)
        assert any(isinstance(request, Evict) for request in requests) == sent


def test_the_next_leader_goes_on_within_the_number() -> None:
    """Wherever the last one ended: what it may have sent is charged, and nothing goes before the approval was read."""
    for killed_at in range(1, 6):

        def kill(number: int, at: int = killed_at) -> None:
            if number == at:
                raise KilledError

        cluster = Interrupting(lopsided().snapshot(), seed=1)
        simulation, person = a_simulation(cluster, budgets=WIDE)
        simulation.cycles(1)
        person.approve(5)
        cluster.during = kill
        with suppress(KilledError):
            simulation.cycles(1)
        cluster.during = lambda _: None
        before = simulation.evictions
        simulation.restart()
        simulation.cycles(2)
        assert simulation.evictions == before
        person.tell()
        simulation.cycles(40)
        assert simulation.evictions == 5
        gone = {pod.uid for pod in lopsided().snapshot().pods} - {pod.uid for pod in cluster.snapshot(cluster.now).pods}
        assert len(gone) == 5


def test_a_refused_eviction_does_not_count() -> None:
    """The budget of another program refuses it; it is made later by the same approval."""

    class Refusing(SimulatedCluster):
        refused = 0

        def evict(self, move: Move) -> EvictionAnswer:
            if self.refused < 3:
                self.refused += 1
                return EvictionAnswer(EvictionResult.BUDGET, "a test")
            return super().evict(move)

    cluster = Refusing(lopsided().snapshot(), seed=1)
    simulation, person = a_simulation(cluster)
    simulation.cycles(1)
    person.approve(9)
    simulation.cycles(80)
    assert (cluster.refused, simulation.evictions) == (3, 9)


def test_another_violation_waits_for_its_own_approval() -> None:
    """One that appears in the middle is proposed while the first repair goes on, and is not touched."""
    blueprint = lopsided()
    blueprint.deployment("late", on={"a-1": 2, "b-1": 2, "c-1": 2}, spread={ZONE: 1}, namespace="shop")
    cluster = SimulatedCluster(blueprint.snapshot(), seed=1)
    simulation, person = a_simulation(cluster)
    simulation.cycles(1)
    person.approve(20)
    simulation.cycles(8)
    for pod in cluster.snapshot(cluster.now).pods:
        if pod.name.startswith("late") and pod.node == "c-1":
            cluster.state.store.pods.put(structs.replace(pod, node="a-1"))
    simulation.cycles(60)
    memory = simulation.runner.state.memory
    assert Counter(move.workload.name for move in memory.moves) == ABOVE
    assert memory.proposal is not None
    assert memory.proposal.coverage
    asked = {workload for repair in memory.proposal.coverage.repairs for workload in repair.workloads}
    assert "shop/deployment/late" in asked


ACTS = ["wait", "wait", "approve", "approve", "remove", "again", "restart", "step"]


@given(
    st.dictionaries(st.sampled_from(sorted(ABOVE)), st.integers(1, 4), min_size=1),
    st.lists(st.tuples(st.sampled_from(ACTS), st.integers(1, 6)), max_size=14),
    st.integers(0, 2**32),
)
@examples(30)
def test_executed_never_exceeds_approved(above: dict[str, int], acts: list[tuple[str, int]], seed: int) -> None:
    """Whatever people write and when, and however often the controller begins again.

    Each file counts once, from when it is first written; each hash approves its own evictions.
    """
    cluster = SimulatedCluster(lopsided(above).snapshot(), seed=seed)
    simulation, person = a_simulation(cluster)
    allowed: dict[str, int] = {}
    written: list[WholeApproval] = []
    steps: set[str] = set()
    told = ""
    for act, number in acts:
        simulation.cycles(1, apart=20)
        proposal = simulation.runner.state.memory.proposal
        if act == "approve" and proposal is not None and not proposal.approved:
            restricted = ("shop/deployment/web",) if number == 6 else ()
            approval = person.approve(number, timedelta(seconds=40 * number), workloads=restricted)
            allowed.setdefault(approval.plan, number)
            written.append(approval)
        elif act == "remove":
            person.write(None)
        elif act == "again" and written:
            person.write(written[number % len(written)])
        elif act == "restart":
            simulation.restart()
            person.tell()
        elif act == "step" and proposal is not None and not proposal.approved:
            told = proposal.hash
            steps.update(proposal.uids)
            simulation.runner.tell(ApprovalRead(approved=told, written=person.written))
    simulation.cycles(6, apart=20)
    moves = simulation.runner.state.memory.moves
    taken = Counter(move.approval for move in moves if move.uid not in steps)
    assert all(number <= allowed.get(str(plan), 0) for plan, number in taken.items())
    before = {pod.uid for pod in lopsided(above).snapshot().pods}
    gone = before - {pod.uid for pod in cluster.snapshot(cluster.now).pods}
    assert len(gone - steps) <= sum(allowed.values())


class Late(SimulatedCluster):
    """The first eviction takes place later than its answer says: a webhook removes the pod itself, or it is lost."""

    first: Move | None = None
    shown: Snapshot | None = None
    """What the watch has until it delivers again."""

    def __init__(self, answer: EvictionAnswer, **fields: Any) -> None:
        super().__init__(lopsided().snapshot(), seed=1, **fields)
        self.before = {pod.uid for pod in super().snapshot(self.now).pods}
        self._answer = answer

    def evict(self, move: Move) -> EvictionAnswer:
        if self.first is not None:
            return super().evict(move)
        self.first = move
        if self._answer.result is EvictionResult.UNKNOWN:
            self.shown = super().snapshot(self.now)
            self.remove()
        return self._answer

    def remove(self) -> None:
        """Carry out the first eviction."""
        assert self.first is not None
        assert super().evict(self.first).result is EvictionResult.EVICTED

    def snapshot(self, now: datetime) -> Snapshot:
        return replace(self.shown, taken_at=now) if self.shown is not None else super().snapshot(now)

    @property
    def taken(self) -> int:
        """How many pods are gone."""
        return len(self.before - {pod.uid for pod in super().snapshot(self.now).pods})


@pytest.mark.parametrize(
    "answer",
    [
        EvictionAnswer(EvictionResult.REFUSED, "wait", denial=Denial("webhook kubevirt", "migrating", True)),
        EvictionAnswer(EvictionResult.UNKNOWN, "connection reset"),
    ],
)
def test_an_eviction_that_may_still_take_place_stays_charged(answer: EvictionAnswer) -> None:
    """However long it takes, and whatever is paused meanwhile: no more pods go than were approved."""
    cluster = Late(answer)
    simulation, person = a_simulation(cluster)
    simulation.cycles(1)
    person.approve(4)
    simulation.cycles(1)
    pause(simulation, Pause())
    simulation.cycles(14)
    if cluster.shown is None:
        cluster.remove()
    cluster.shown = None
    simulation.cycles(3)
    pause(simulation, None)
    simulation.cycles(60)
    assert 1 <= cluster.taken <= 4


def pause(simulation: Simulation, now: Pause | None) -> None:
    simulation.cluster.pause = now
    simulation.runner.tell(PauseRead(pause=now))


def test_however_many_are_refused_none_of_them_counts() -> None:
    """Thirty budgets allow nothing, in one cycle: all thirty may still be taken away."""

    class Refusing(SimulatedCluster):
        def evict(self, move: Move) -> EvictionAnswer:
            return EvictionAnswer(EvictionResult.BUDGET, "a test")

    blueprint = a_cluster("abc", 2)
    for number in range(30):
        on = {"a-1": 1, "a-2": 1, "b-1": 1}
        blueprint.deployment(f"w{number}", on=on, spread={ZONE: 1}, namespace=f"n{number}")
    most = Amount(value=1000)
    budgets = WIDE.model_copy(update={"per_cycle": most, "per_minute": most, "per_node": most, "slow_start": False})
    simulation, person = a_simulation(Refusing(blueprint.snapshot(), seed=1), budgets=budgets)
    simulation.cycles(1)
    person.approve(30)
    simulation.cycles(1)
    assert len(simulation.observer.answers) == 30
    standing = standing_of(simulation)
    assert standing is not None
    assert standing.left == 30


def test_nothing_goes_by_an_approval_that_may_have_been_withdrawn() -> None:
    """While its ConfigMap is not watched nobody knows; what was read before says nothing."""
    simulation, person = a_simulation(SimulatedCluster(lopsided().snapshot(), seed=1))
    simulation.cycles(1)
    person.approve(9)
    runner = simulation.runner
    runner._knows_approval = lambda: False
    simulation.cycles(3)
    assert simulation.evictions == 0
    runner._knows_approval = lambda: True
    simulation.cycles(1)
    assert simulation.evictions > 0


def test_right_before_a_request_a_withdrawn_approval_counts() -> None:
    """Whatever the cycle has let go."""
    simulation, person = a_simulation(SimulatedCluster(lopsided().snapshot(), seed=1))
    simulation.cycles(1)
    approval = person.approve(4)
    simulation.cycles(1)
    runner = simulation.runner
    term = runner.state.leadership.term
    assert runner._find_objection(term, approval.plan) == ""
    person.write(None)
    runner.drain()
    assert "is withdrawn" in runner._find_objection(term, approval.plan)
    assert runner._find_objection(term) == ""
