"""Surges are told by events, by the history and by the status, each once and by whoever leads."""

from datetime import timedelta

import pytest

from rebalancer.admission.pause import Pause
from rebalancer.controller.loop import step
from rebalancer.controller.state import Leading, LoopState, PauseRead, ProcessFacts, Publish, SurgesReported
from rebalancer.controller.status import status_document
from rebalancer.documents.history import history_document
from rebalancer.model.events import Event, EventReason
from rebalancer.reporting.text.history import history_text
from rebalancer.reporting.text.status import status_text
from rebalancer.surge.record import Ending, Phase
from rebalancer.surge.report import Ended, Refused, SurgeReport
from tests.build import a_state
from tests.controller.test_workload_evictions import telemetry
from tests.surge.build import START, Played, a_surge, surging, under_way

LATER = START + timedelta(minutes=2)
RECORDED = ProcessFacts(history_name="pod-1")


def leader() -> LoopState:
    return a_state(surging(), START, process=RECORDED)


def tell(state: LoopState, *reports: SurgeReport) -> tuple[LoopState, list[Event]]:
    """Return the state after some reports, and the events about them."""
    events: list[Event] = []
    for report in reports:
        state, requests = step(state, SurgesReported(report=report), LATER)
        events += [request.event for request in requests if isinstance(request, Publish)]
    return state, events


def shown(state: LoopState) -> str:
    return status_text(status_document(state, "test", "test"), LATER)


def test_a_surge_that_begins_is_an_event_on_its_workload_and_one_that_is_known_is_not() -> None:
    known = SurgeReport(under_way=(under_way(),))
    state, events = tell(leader(), known._replace(begun=(a_surge(),)), known)
    (event,) = events
    assert (event.reason, event.type) == (EventReason.SURGE_BEGAN, "Normal")
    assert (str(event.regarding), event.regarding.uid) == ("shop/web (Deployment)", "uid-web")
    assert event.note == "adds 2 pods to 6; once all are Ready, web-1 and web-2 go"
    assert [entry.kind for entry in state.memory.outbox if entry.kind == "Surged"] == []


@pytest.mark.parametrize("ending", Ending)
def test_each_ending_is_one_event_and_a_warning_where_somebody_should_look(ending: Ending) -> None:
    _, (event,) = tell(leader(), SurgeReport(ended=(Ended(a_surge(), ending),)), SurgeReport())
    assert event.reason is EventReason.SURGE_ENDED
    assert (event.type == "Warning") is (ending in {Ending.MISPREDICTED, Ending.TIMED_OUT})
    if ending is Ending.DONE:
        assert event.note == "added 2 pods, then web-1 and web-2 went"
    else:
        assert event.note == f"the surge of 2 pods in place of web-1 and web-2 has ended: {ending.sentence}"


def test_the_history_has_one_entry_for_each_surge_that_has_ended() -> None:
    ended = (Ended(a_surge(), Ending.DONE), Ended(a_surge(name="db", added=1), Ending.TIMED_OUT))
    state, _ = tell(leader(), SurgeReport(ended=ended), SurgeReport())
    entries = [entry for entry in state.memory.outbox if entry.kind == "Surged"]
    document = history_document(entries, total=2)
    done, late = document.entries
    assert (done.what, done.number, done.outcome, done.seconds) == ("web-1, web-2", 2, "Done", 120)
    assert done.went_well
    assert not late.went_well
    text = history_text(document)
    assert "Surged  shop/web (Deployment): added 2 pods, then web-1, web-2 went; it took 2m" in text
    assert (
        "shop/db (Deployment): the surge of 1 pod in place of web-1, web-2 has ended: not all pods were Ready" in text
    )


def test_each_ending_is_counted_once_by_the_leader() -> None:
    metrics, _ = telemetry()
    state = leader()
    for report in (SurgeReport(ended=(Ended(a_surge(), Ending.DONE), Ended(a_surge(), Ending.SCALED))), SurgeReport()):
        state, _ = step(state, SurgesReported(report=report), LATER)
        metrics.changed(state)
    follower, _ = step(state, Leading(leads=False), LATER)
    metrics.changed(
        step(follower, SurgesReported(report=report._replace(ended=(Ended(a_surge(), Ending.DONE),))), LATER)[0]
    )
    registry = metrics._metrics.registry
    counts = {ending: registry.get_sample_value("rebalancer_surges_total", {"ending": ending}) for ending in Ending}
    assert counts == {ending: float(ending in {Ending.DONE, Ending.SCALED}) for ending in Ending}


def test_a_process_that_does_not_lead_tells_nothing_and_forgets_what_it_knew() -> None:
    state, _ = tell(leader(), SurgeReport(under_way=(under_way(),)))
    state, _ = step(state, Leading(leads=False), LATER)
    assert status_document(state, "test", "test").surges == ()
    assert tell(state, SurgeReport(ended=(Ended(a_surge(), Ending.DONE),)))[1] == []


def test_the_status_has_each_surge_with_what_it_waits_for() -> None:
    young = under_way("", uid="uid-db", name="db", begun=LATER, phase=Phase.MARKING, pods=6)
    state, _ = tell(leader(), SurgeReport(under_way=(young, under_way("until pod web-8 is Ready"))))
    first, second = status_document(state, "test", "test").surges
    assert (first.workload.name, first.phase, first.added, first.count, first.victims) == (
        "web", "Waiting", 2, 6, ("web-1", "web-2"),
    )  # fmt: skip
    assert (first.ready, first.pods, first.surplus, first.waits) == (6, 8, 2, "until pod web-8 is Ready")
    assert (second.workload.name, second.surplus) == ("db", 0)
    lines = shown(state).splitlines()
    row = next(line for line in lines if line.startswith("shop/web"))
    assert row.split("  ")[1:] != []
    for cell in ("2 pods", "web-1 and web-2 go", "Waiting", "6 of 8", "2m ago", "until pod web-8 is Ready"):
        assert cell in row
    assert "No surge begins or goes on" not in shown(state)


def test_without_surges_the_status_says_nothing_of_them() -> None:
    state, _ = tell(leader(), SurgeReport())
    assert "SURGES" not in shown(state)


def test_a_workload_that_somebody_else_declares_is_named_with_the_reason() -> None:
    refused = Refused(a_surge().workload, "Apply by argocd declares its replicas")
    text = shown(tell(leader(), SurgeReport(refused=(refused,)))[0])
    assert "SURGES\nNo pods are added to shop/web: Apply by argocd declares its replicas." in text


def test_a_pause_says_how_many_pods_it_leaves() -> None:
    pause = Pause(by="ada", reason="an upgrade")
    state, _ = step(leader(), PauseRead(pause=pause), START)
    stopped = SurgeReport(under_way=(under_way(pause.message),), stopped=pause.message)
    text = shown(tell(state, stopped)[0])
    assert f"No surge begins or goes on: {pause.message}." in text
    assert "2 pods more than wanted stay until the pause ends." in text
    assert text.count(pause.message) == 1, "here, not in each row"


def test_another_obstacle_says_how_many_pods_stay_until_it_is_gone() -> None:
    stopped = SurgeReport(under_way=(under_way("x", pods=7),), stopped="mode is Observe")
    assert "1 pod more than wanted stays until surges go on." in shown(tell(leader(), stopped)[0])
    none = SurgeReport(stopped="the records of surges cannot be read: 403")
    text = shown(tell(leader(), none)[0])
    assert "SURGES\nNo surge begins or goes on: the records of surges cannot be read: 403." in text
    assert "more than wanted" not in text


def test_a_surge_on_the_simulated_cluster_is_told_from_its_begin_to_its_end() -> None:
    played = Played()
    played.run(9)
    (surge,) = status_document(played.controller.state, "test", "test").surges
    assert (surge.phase, surge.pods, surge.ready, surge.surplus) == ("Waiting", 8, 6, 2)
    assert surge.waits.startswith("until pod web-")
    played.run(30)
    assert status_document(played.controller.state, "test", "test").surges == ()
    assert len(played.told("SurgeBegan")) == len(played.told("SurgeEnded")) == 1
    assert played.told("SurgeEnded")[0].startswith("added 2 pods, then web-")


def test_a_new_leader_goes_on_with_a_surge_without_telling_its_begin_again() -> None:
    played = Played()
    played.run(9)
    successor = Played()
    successor.cluster, first = played.cluster, successor.controller
    successor.controller = type(first)(played.cluster, surging(), name="other")
    successor.run(3)
    assert len(played.told("SurgeBegan")) == 1
    (surge,) = status_document(successor.controller.state, "test", "test").surges
    assert surge.added == 2
