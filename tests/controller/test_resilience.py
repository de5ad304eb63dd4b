"""What a lost domain leaves is computed beside the loop, told by events when it changes, and shown by every screen."""

import gc
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from rebalancer.controller.loop import step
from rebalancer.controller.resilience import FIRST_SECONDS, SECONDS, ResilienceWorker
from rebalancer.controller.state import Clocks, CycleDue, Leading, LoopEvent, LoopState, Publish, ResilienceReported
from rebalancer.controller.status import status_document
from rebalancer.model.events import EventReason
from rebalancer.model.nodes import ZONE
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, Resilience
from rebalancer.reporting.text.status import status_text
from rebalancer.resilience.__main__ import compute
from rebalancer.resilience.demands import find_demands
from rebalancer.resilience.transport import Answer, Question
from rebalancer.resilience.worst import NOTHING_COMPUTED, ResilienceReport, find_worst
from rebalancer.simulator import HOSTNAME
from tests.build import a_cluster, a_state, with_cpu, with_node
from tests.controller.simulated import eager
from tests.reports import rows_of

LOST, REGAINED = EventReason.RESILIENCE_LOST, EventReason.RESILIENCE_REGAINED
GUARANTEED = "rebalancer_resilience_guaranteed"
POLICY = eager(resilience=Resilience(require="majority"))


def shop(*, more: bool = False) -> Snapshot:
    """Return two pods of six in each of three zones."""
    blueprint = a_cluster("abc")
    blueprint.deployment("web", on={"a-1": 2, "b-1": 2, "c-1": 2}, cpu=500)
    if more:
        blueprint.deployment("db", on={"a-1": 1}, cpu=100)
    return blueprint.snapshot()


def uneven(*, room: bool) -> Snapshot:
    """Return six pods of which one zone has four: without room two are left when that is lost."""
    blueprint = a_cluster("abc")
    blueprint.deployment("web", on={"a-1": 4, "b-1": 1, "c-1": 1}, cpu=500)
    return with_cpu(blueprint.snapshot(), 4_000 if room else 500, "b-1", "c-1")


def cycle_of(snapshot: Snapshot, policy: Policy = POLICY, *, stale: str = "") -> LoopState:
    """Return the state of a leader after a cycle."""
    state, _ = step(a_state(policy, snapshot.taken_at), CycleDue(snapshot=snapshot, stale=stale), snapshot.taken_at)
    return state


def report_of(snapshot: Snapshot, policy: Policy = POLICY) -> ResilienceReport:
    cycle = cycle_of(snapshot, policy).cycle
    assert cycle is not None
    worst = find_worst(cycle.view, find_demands(policy, cycle.assessment.pod_groups))
    return ResilienceReport(as_of=snapshot.taken_at, worst=worst)


def tell(state: LoopState, *reports: ResilienceReport) -> tuple[LoopState, Sequence[Publish]]:
    """Return the state after some reports, and the events of the last one."""
    events: Sequence[Publish] = ()
    for report in reports:
        state, requests = step(state, ResilienceReported(report=report, term=state.leadership.term), shop().taken_at)
        events = [request for request in requests if isinstance(request, Publish)]
    return state, events


class Worker:
    """A worker whose clock, state and answers are in the test's hand."""

    def __init__(self, state: LoopState, *, takes: float = 0.0, fails: bool = False) -> None:
        self.state, self.takes, self.fails, self.problem = state, takes, fails, ""
        self.time = 0.0
        self.asked: list[Question] = []
        self.told: list[ResilienceReport] = []
        clocks = Clocks(now=lambda: state.in_force.policy_since, monotonic=lambda: self.time)
        self.worker = ResilienceWorker(
            get_state=lambda: self.state, tell=self._tell, clocks=clocks, compute=self._compute
        )

    def _compute(self, question: Question, _: threading.Event) -> Answer:
        self.asked.append(question)
        self.time += self.takes
        if self.fails:
            raise OSError("no memory for a process")
        return Answer(problem=self.problem) if self.problem else compute(question)

    def _tell(self, event: LoopEvent) -> None:
        assert isinstance(event, ResilienceReported)
        self.told.append(event.report)

    def look(self, at: float) -> int:
        """Look at a time; return how often it was computed until then."""
        self.time = max(self.time, at)
        self.worker.look()
        return len(self.asked)


def test_it_is_computed_some_time_after_the_first_cycle_and_again_when_something_has_changed() -> None:
    made = Worker(cycle_of(shop()))
    assert [made.look(at) for at in (0, FIRST_SECONDS - 1, FIRST_SECONDS, 500)] == [0, 0, 1, 1]
    made.state = cycle_of(shop(more=True))
    assert [made.look(at) for at in (501, 502)] == [2, 2]
    assert [report.worst for report in made.told] == [report_of(shop()).worst, report_of(shop(more=True)).worst]


def test_what_takes_long_is_computed_seldom() -> None:
    """Of ten seconds one at most, and a minute is the least."""
    made = Worker(cycle_of(shop()), takes=20)
    made.look(0)
    assert made.look(FIRST_SECONDS) == 1
    made.state = cycle_of(shop(more=True))
    assert [made.look(FIRST_SECONDS + at) for at in (SECONDS, 199, 201)] == [1, 1, 2]


def test_where_nodes_have_changed_it_is_computed_soon() -> None:
    """What was computed is of another cluster; ten times as long as it took is the least in any case."""
    made = Worker(cycle_of(shop()))
    assert [made.look(at) for at in (0, FIRST_SECONDS)] == [0, 1]
    made.state = cycle_of(with_node(shop(), "c-1", ready=False))
    assert [made.look(FIRST_SECONDS + at) for at in (4, 5)] == [1, 2]
    made.takes = 3
    made.state = cycle_of(shop())
    assert [made.look(FIRST_SECONDS + at) for at in (10, 20)] == [3, 3]
    made.state = cycle_of(with_node(shop(), "b-1", ready=False))
    assert [made.look(FIRST_SECONDS + at) for at in (39, 41)] == [3, 4]


def test_a_view_that_is_out_of_date_is_not_computed_nor_without_leading() -> None:
    made = Worker(cycle_of(shop(), stale="Pod: silent"))
    assert [made.look(at) for at in (0, FIRST_SECONDS)] == [0, 0]
    made.state = cycle_of(shop())
    made.state = replace(made.state, leadership=replace(made.state.leadership, leads=False))
    assert [made.look(at) for at in (200, 300)] == [0, 0]


def test_an_answer_that_does_not_come_leaves_the_last_one_with_the_reason() -> None:
    made = Worker(cycle_of(shop()))
    assert [made.look(at) for at in (0, FIRST_SECONDS)] == [0, 1]
    made.problem, made.state = "no memory", cycle_of(shop(more=True))
    assert made.look(FIRST_SECONDS + SECONDS) == 2
    assert made.told[1] == replace(made.told[0], problem="no memory")
    state, _ = tell(made.state, made.told[1])
    text = status_text(status_document(state, "test", "test"), shop().taken_at)
    assert "It cannot be computed: no memory." in text
    assert "Not computed yet: 1 workload." in text


def test_without_keys_nothing_is_computed_nor_shown() -> None:
    state = cycle_of(shop(), eager(resilience=Resilience(keys=())))
    made = Worker(state)
    assert [made.look(at) for at in (0, FIRST_SECONDS)] == [0, 0]
    assert made.told == [NOTHING_COMPUTED]
    assert status_document(state, "test", "test").resilience is None


def test_each_change_is_one_event_and_what_was_not_computed_before_has_not_changed() -> None:
    """Without room two of six are left once a is lost: fewer than the four that are more than half."""
    good, bad = report_of(uneven(room=True)), report_of(uneven(room=False))
    state = cycle_of(uneven(room=True))
    assert tell(state, bad)[1] == []
    (event,) = [one.event for one in tell(state, good, bad)[1]]
    assert (event.reason, str(event.regarding)) == (LOST, "default/web (Deployment)")
    assert event.note.startswith("if zone a is lost (silent), 2 of 6 pods are left for certain, 4 are required: ")
    assert tell(state, good, bad, bad)[1] == []
    (event,) = [one.event for one in tell(state, bad, good)[1]]
    assert (event.reason, event.note) == (REGAINED, "whichever zone is lost, at least 6 of 6 pods are left for certain")


def test_a_process_that_does_not_lead_tells_nothing_and_forgets_what_it_knew() -> None:
    good, bad = report_of(uneven(room=True)), report_of(uneven(room=False))
    state, _ = tell(cycle_of(uneven(room=True)), good)
    state, _ = step(state, Leading(leads=False), shop().taken_at)
    assert state.reported.resilience == NOTHING_COMPUTED
    assert tell(state, good, bad)[1] == []


def test_metrics_status_and_page_have_the_same_worst_losses() -> None:
    snapshot = uneven(room=False)
    state, _ = tell(cycle_of(snapshot), report_of(snapshot))
    web = ("default", "Deployment", "web", ZONE, "silent")
    assert rows_of(state, GUARANTEED)[web] == 2
    assert rows_of(state, "rebalancer_resilience_wanted")[web] == 6
    assert rows_of(state, "rebalancer_resilience_holds")[web] == 0
    document = status_document(state, "test", "test").resilience
    assert document is not None
    (loss,) = document.losses
    assert (loss.workload.name, loss.domain, loss.guaranteed, loss.wanted, loss.required) == ("web", "a", 2, 6, 4)
    text = status_text(status_document(state, "test", "test"), snapshot.taken_at + timedelta(minutes=2))
    assert "IF A ZONE IS LOST" in text
    assert "(2m ago) 0 of 1 workload would keep for certain what is required, whichever zone were lost." in text
    assert "default/web (Deployment)" in text


@pytest.mark.parametrize("key", [ZONE, HOSTNAME])
def test_only_the_keys_of_the_policy_are_lost(key: str) -> None:
    made = Worker(cycle_of(shop(), eager(resilience=Resilience(keys=(key,)))))
    made.look(0)
    made.look(FIRST_SECONDS)
    assert {loss.key for loss in made.told[0].worst.losses} == {key}


def test_an_answer_of_a_term_that_is_over_is_not_taken() -> None:
    """It comes while another process leads, or when this one leads again."""
    good = report_of(uneven(room=True))
    state = cycle_of(uneven(room=True))
    over = replace(state, leadership=replace(state.leadership, term=state.leadership.term + 1))
    late = ResilienceReported(report=good, term=state.leadership.term)
    assert step(over, late, shop().taken_at)[0].reported.resilience == NOTHING_COMPUTED
    known, _ = tell(state, good)
    again, _ = step(known, Leading(leads=True, term=7), shop().taken_at)
    assert again.reported.resilience == NOTHING_COMPUTED


def test_workloads_without_pods_are_among_those_that_are_counted() -> None:
    """One that lacks all of them has less than is required, and the others still hold."""
    blueprint = a_cluster("abc")
    blueprint.deployment("web", on={"a-1": 1, "b-1": 1})
    blueprint.deployment("none", on={}, replicas=3, cpu=100_000)
    snapshot = blueprint.snapshot()
    state, _ = tell(cycle_of(snapshot), report_of(snapshot))
    document = status_document(state, "test", "test").resilience
    assert document is not None
    assert (document.workloads, document.holding, document.not_computed) == (2, 1, 0)


def test_a_process_that_cannot_be_had_is_a_problem_and_is_not_tried_again_at_once() -> None:
    made = Worker(cycle_of(shop()), fails=True)
    assert [made.look(at) for at in (0, FIRST_SECONDS)] == [0, 1]
    made.state = cycle_of(shop(more=True))
    assert [made.look(FIRST_SECONDS + at) for at in (1, SECONDS)] == [1, 2]
    assert made.told[0].problem == "no other process can be asked: no memory for a process"


def test_what_waits_for_an_answer_holds_no_cluster() -> None:
    """The controller may have a new cycle meanwhile, and the old one's pods are to be freed."""
    made = Worker(cycle_of(shop()))
    alive: list[bool] = []

    def compute_and_look(question: Question, _: threading.Event) -> Answer:
        answer, view = compute(question), weakref.ref(question.snapshot)
        del question
        made.asked.clear()
        made.state = cycle_of(shop(more=True))
        gc.collect()
        alive.append(view() is not None)
        return answer

    made.worker = ResilienceWorker(
        get_state=lambda: made.state,
        tell=made.told.append,  # type: ignore[arg-type]
        clocks=Clocks(now=lambda: made.state.in_force.policy_since, monotonic=lambda: made.time),
        compute=compute_and_look,
    )
    made.worker.look()
    made.time = FIRST_SECONDS
    made.worker.look()
    assert alive == [False]
