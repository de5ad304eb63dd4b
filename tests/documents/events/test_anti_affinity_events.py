"""Events about required podAntiAffinity: when it becomes violated and when it has recovered, once each."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from rebalancer.account.happened import (
    MOST_TERMS,
    AntiAffinityRecovered,
    AntiAffinityViolated,
    find_anti_affinity_changes,
)
from rebalancer.assessment.anti_affinity.evaluate import evaluate_anti_affinity
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.causes import term_token
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue
from rebalancer.documents.events import EventObjects, events_of
from rebalancer.model.events import Event, EventReason
from rebalancer.model.labels import LabelSelector
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.view import View
from tests.build import a_cluster, a_state, away_from, with_anti_affinity
from tests.controller.simulated import eager
from tests.documents.events.build import about
from tests.reports import page_of


def a_snapshot(web: Mapping[str, int], batch: Mapping[str, int]) -> Snapshot:
    """Return web pods that avoid batch."""
    builder = a_cluster("abcde", 1, web)
    builder.deployment("batch", on=batch)
    return with_anti_affinity(builder.snapshot(), {"web": [away_from("batch")]})


def terms(web: Mapping[str, int], batch: Mapping[str, int]) -> Sequence[EvaluatedTerm]:
    return evaluate_anti_affinity(View(a_snapshot(web, batch)))


APART = terms({"a-1": 1}, {"b-1": 1})
TOGETHER = terms({"a-1": 1}, {"a-1": 2})


def test_it_is_reported_when_it_becomes_violated_and_when_it_has_recovered() -> None:
    """Once each, on the workloads of both sides, and on those that declare it."""
    begun, reported = find_anti_affinity_changes(frozenset(), TOGETHER, {})
    events = about(begun)
    assert [(event.reason, event.regarding.name) for event in events] == [
        (EventReason.ANTI_AFFINITY_VIOLATED, "web"),
        (EventReason.ANTI_AFFINITY_VIOLATED, "batch"),
    ]
    assert events[0].type == "Warning"
    assert events[0].note.startswith(
        "required podAntiAffinity of default/web (Deployment) over kubernetes.io/hostname to pods that match "
        "app=batch: 1 pod in excess (a-1: batch-"
    )
    assert events[0].note.endswith(" of default/web (Deployment))")
    assert find_anti_affinity_changes(reported, TOGETHER, {}) == ([], reported)
    ended, left = find_anti_affinity_changes(reported, APART, {})
    assert [(event.reason, event.regarding.name) for event in about(ended)] == [
        (EventReason.ANTI_AFFINITY_RECOVERED, "web")
    ]
    assert about(ended)[0].note.endswith("app=batch: no two pods share a domain")
    assert not left
    assert find_anti_affinity_changes(left, APART, {}) == ([], left)


def test_its_cause_is_named_where_it_is_known() -> None:
    (violated,) = TOGETHER
    for cause, end in ((ViolationCause.LABELS_CHANGED, "), cause LabelsChanged"), (ViolationCause.UNKNOWN, ")")):
        begun, _ = find_anti_affinity_changes(frozenset(), TOGETHER, {term_token(violated): cause})
        assert all(event.note.endswith(f" of default/web (Deployment){end}") for event in about(begun))


def test_what_is_gone_has_not_recovered_and_what_is_not_evaluated_stays() -> None:
    _, reported = find_anti_affinity_changes(frozenset(), TOGETHER, {})
    assert find_anti_affinity_changes(reported, (), {}) == ([], frozenset())
    unknown = evaluate_anti_affinity(View(a_snapshot({"a-1": 1}, {"a-1": 2})), 0)
    assert find_anti_affinity_changes(reported, unknown, {}) == ([], reported)


def test_a_rollout_that_ends_a_violation_is_a_recovery() -> None:
    """Its matchLabelKeys make the term of each revision another one; while one of both is violated nothing is new."""
    (violated,), (satisfied,) = TOGETHER, APART
    keys = ("pod-template-hash",)

    def of(evaluated: EvaluatedTerm, revision: str) -> EvaluatedTerm:
        selector = LabelSelector.of({"app": "batch", "pod-template-hash": revision})
        term = structs.replace(evaluated.term, selector=selector, match_label_keys=keys)
        return structs.replace(evaluated, term=term)

    old, new = of(violated, "1"), of(satisfied, "2")
    _, reported = find_anti_affinity_changes(frozenset(), [old], {})
    for both in ([old, new], [new, old]):
        assert find_anti_affinity_changes(reported, both, {}) == ([], reported)
    assert find_anti_affinity_changes(reported, [new], {}) == ([AntiAffinityRecovered(new)], frozenset())


def test_of_many_the_worst_are_reported_first_and_the_others_later() -> None:
    builder = a_cluster("a", 2)
    declared = {f"app-{number}": [away_from(f"app-{number}")] for number in range(MOST_TERMS + 5)}
    for number, name in enumerate(declared):
        builder.deployment(name, on={"a-1": 3 if number == MOST_TERMS else 2})
    evaluated = evaluate_anti_affinity(View(with_anti_affinity(builder.snapshot(), declared)))
    first, reported = find_anti_affinity_changes(frozenset(), evaluated, {})
    assert len(first) == MOST_TERMS
    assert first[0].evaluated.excess == 2
    second, reported = find_anti_affinity_changes(reported, evaluated, {})
    assert len(second) == 5
    assert find_anti_affinity_changes(reported, evaluated, {}) == ([], reported)


def test_of_many_conflicts_an_event_names_some() -> None:
    places = {f"{zone}-1": 1 for zone in "abcde"}
    (violated,) = terms(places, places)
    (event, _) = about([AntiAffinityViolated(violated, None)])
    assert "; c-1: " in event.note
    assert "and 2 more)" in event.note
    assert "d-1: " not in event.note


def test_a_leader_reports_it_in_the_cycle_in_which_it_changes() -> None:
    """Its status counts what is violated."""
    apart, together = a_snapshot({"a-1": 1}, {"b-1": 1}), a_snapshot({"a-1": 1}, {"a-1": 1})
    state = a_state(eager(), apart.taken_at)
    seen: list[list[EventReason]] = []
    numbers = []
    for snapshot in (together, together, apart, apart):
        state, _ = step(state, CycleDue(snapshot=snapshot), snapshot.taken_at)
        events: list[Event] = [event for one in state.happened for event in events_of(one, EventObjects())]
        figures = page_of(state).status.figures
        assert figures is not None
        numbers.append(figures.violated_anti_affinity)
        seen.append([event.reason for event in events if "podAntiAffinity" in event.note])
    violated, recovered = EventReason.ANTI_AFFINITY_VIOLATED, EventReason.ANTI_AFFINITY_RECOVERED
    assert seen == [[violated] * 2, [], [recovered], []]
    assert numbers == [1, 1, 0, 0]
