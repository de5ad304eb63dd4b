"""What a scrape of the controller shows: every metric as it is declared, with the values of a state of the loop."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rebalancer.adapters.prometheus import Counter, Histogram, Metric, Metrics
from rebalancer.admission.guards import GuardAnswer, GuardState, Verdict
from rebalancer.admission.pause import Pause
from rebalancer.assessment.anti_affinity.result import Conflict, EvaluatedTerm
from rebalancer.assessment.sizes.layout import SizeVerdict
from rebalancer.controller.counters import API_REQUESTS, GUARD_ERRORS, WORKLOAD_EVICTIONS
from rebalancer.controller.gauge_view import GaugeView, WatchReading
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, LoopState
from rebalancer.controller.telemetry import METRICS
from rebalancer.model.cluster import Autoscaler
from rebalancer.model.moves import Memory, MoveState, OthersEvictions, Reference
from rebalancer.model.reasons import FindingKind, Reason, State
from rebalancer.policy import Mode, Topology
from rebalancer.prevention.report import PreventionReport
from rebalancer.resilience.demands import find_demands
from rebalancer.resilience.worst import ResilienceReport, find_worst
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.surge.record import Phase
from rebalancer.surge.report import SurgeReport
from tests.build import a_cluster, a_state, away_from, with_anti_affinity
from tests.controller.simulated import eager
from tests.reports import export, rows_of, view_of
from tests.surge.build import START, under_way
from tests.tracking.build import move

SINCE = START - timedelta(minutes=1)
WEB, DB = Reference("default", "Deployment", "web"), Reference("default", "Deployment", "db")


def full_state() -> LoopState:
    """Return the state of a leader in which every gauge has a row."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("web", on={"a-1": 3, "a-2": 3, "b-1": 1}, spread={ZONE: 1})
    blueprint.deployment("db", on={"a-1": 1, "b-2": 1}, spread={ZONE: 3})
    scaler = Autoscaler(namespace="default", name="web", target_kind="Deployment", target_name="web", max_replicas=9)
    apart = with_anti_affinity(blueprint.snapshot(), {"db": [away_from("db")]})
    snapshot = replace(apart, autoscalers=(scaler,))
    now = snapshot.taken_at
    policy = eager(topology=Topology(domains={ZONE: frozenset({"c"})}), slow_start=True)
    beside = OthersEvictions(workload=DB, since=now, last=now, number=2, pods=("db-1", "db-2"))
    before = replace(a_state(policy, now), memory=Memory(evicted_by_others=(beside,)))
    state, _ = step(before, CycleDue(snapshot=snapshot), now + timedelta(minutes=1))
    overdue = move("lost", now, state=MoveState.EVICTED, uncreated="quota", workload=DB)
    state = replace(state, memory=structs.replace(state.memory, moves=(overdue,)))
    state = replace(state, in_force=replace(state.in_force, team_problems={"pay": "line 1"}, pause=Pause()))
    guards = GuardState(answers=(GuardAnswer("errors", Verdict.BAD, "the query returned 1 series"),), wanted=True)
    state = replace(state, guards=guards)
    report = PreventionReport(left=6, stopped="no", evaluated=(DB, WEB), risky=frozenset({WEB}))
    worst = find_worst(View(snapshot), find_demands(policy, ()))
    left = ResilienceReport(as_of=now, worst=worst)
    surges = SurgeReport(under_way=(under_way(), under_way(uid="db", begun=SINCE, phase=Phase.ADDING)))
    return replace(state, reported=replace(state.reported, prevention=report, resilience=left, surges=surges))


STATE = full_state()


def full(*, leads: bool = True) -> Metrics[GaugeView]:
    """Return metrics in which everything that is declared has a series."""
    metrics = export(replace(view_of(STATE), leads=leads, watches=(WatchReading("Pod", 1.5, 12),)))
    metrics.counter(API_REQUESTS).labels("list", "pods", "200").inc()
    metrics.counter(GUARD_ERRORS).labels("errors").inc()
    metrics.counter(WORKLOAD_EVICTIONS).labels("shop", "Deployment", "web", "SkewViolated").inc()
    return metrics


def text(metrics: Metrics[GaugeView]) -> str:
    return generate_latest(metrics.registry).decode()


def names(metrics: Metrics[GaugeView]) -> set[str]:
    """Return the names of the controller's own families."""
    return {
        name for name in re.findall(r"^# TYPE (\S+)", text(metrics), re.MULTILINE) if name.startswith("rebalancer_")
    }


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_declared_metric_is_exported_as_declared(metric: Metric) -> None:
    """Name, help, type and labels of the exposition are those of the declaration; the values are among those listed."""
    families = {family.name: family for family in text_string_to_metric_families(text(full()))}
    family = families[metric.name.removesuffix("_total")]
    assert (family.type, family.documentation) == (metric.type, metric.help)
    assert family.samples
    for sample in family.samples:
        assert set(sample.labels) - {"le"} == set(metric.labels)
        assert not metric.values or sample.labels[metric.labels[-1]] in metric.values


def test_nothing_is_exported_that_is_not_declared() -> None:
    assert names(full()) == {metric.name for metric in METRICS}


def test_names_follow_the_conventions() -> None:
    """Counters end in _total and nothing else does; no label of histograms' own; every help is a sentence."""
    for metric in METRICS:
        assert re.fullmatch(r"rebalancer_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == isinstance(metric, Counter)
        assert "le" not in metric.labels
        assert metric.help.endswith(".")
        assert not isinstance(metric, Histogram) or metric.buckets
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_only_the_leader_shows_the_cluster() -> None:
    """A sum over all replicas counts the cluster once; what a replica says of itself it always says."""
    assert names(full()) - names(full(leads=False)) == {metric.name for metric in METRICS if metric.leader_only}
    assert "rebalancer_leader 0.0" in text(full(leads=False))


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("limit_headroom", {("workloads", "zone-half", "default", "Deployment/web", ZONE): -3}),
        ("constraint_skew", {(*structs.astuple(WEB), ZONE, "DoNotSchedule"): 5}),
        ("constraint_max_skew", {(*structs.astuple(WEB), ZONE, "DoNotSchedule"): 1}),
        ("domain_without_nodes", {(*structs.astuple(WEB), ZONE, "c"): 1, (*structs.astuple(DB), ZONE, "c"): 0}),
        ("scale_down_unsafe", {structs.astuple(WEB): 1, structs.astuple(DB): 0}),
        ("sizes_without_placement", {structs.astuple(WEB): 0}),
        ("replacement_blocked", {structs.astuple(WEB): 0, structs.astuple(DB): 0}),
        ("anti_affinity_violations", {(*structs.astuple(DB), HOSTNAME): 0}),
        ("evicted_by_others", {structs.astuple(DB): 2}),
        ("prevention_left", {(): 6}),
        ("surges_under_way", {(Phase.WAITING,): 1, (Phase.ADDING,): 1}),
        ("surge_oldest_timestamp_seconds", {(): SINCE.timestamp()}),
        ("prevention_stopped", {(): 1}),
        ("replacements_overdue", {(): 1}),
        ("in_flight", {(): 1}),
        ("guard_good", {("errors",): 0}),
        ("slow_start_window", {(): 2}),
        ("paused", {(): 1}),
        ("memory_saved", {(): 1}),
        ("mode", {(Mode.EVICT,): 1}),
        ("team_policy_valid", {("pay",): 0}),
        ("capacity_placeholders", {(): 0}),
        ("findings", {(FindingKind.DOMAIN_WITHOUT_NODES,): 1}),
        ("last_cycle_timestamp_seconds", {(): (STATE.in_force.policy_since + timedelta(minutes=1)).timestamp()}),
        ("policy_last_reload_timestamp_seconds", {(): STATE.in_force.policy_since.timestamp()}),
    ],
)
def test_a_state_of_the_loop_becomes_rows(name: str, rows: Mapping[tuple[str, ...], float]) -> None:
    """Counted by hand: seven pods over two zones, six of them in one; one move whose replacement was not created."""
    assert rows.items() <= rows_of(STATE, f"rebalancer_{name}").items()


def test_exactly_one_state_of_a_limit_is_1() -> None:
    """And every violated limit names its worst domain."""
    states = rows_of(STATE, "rebalancer_limit_state")
    limits = rows_of(STATE, "rebalancer_limit_headroom")
    assert len(states) == len(limits)
    violated = {labels for labels, headroom in limits.items() if headroom < 0}
    assert {labels[:-1] for labels in rows_of(STATE, "rebalancer_limit_worst_domain")} == violated
    assert {labels[:5] for labels in states if labels[-1] != State.SATISFIED} >= violated


def test_a_bare_pod_has_no_series() -> None:
    """It is in the report; names of pods are no labels."""
    pod = Reference("default", "Pod", "web-1")
    report = PreventionReport(evaluated=(pod, WEB))
    rows = rows_of(replace(STATE, reported=replace(STATE.reported, prevention=report)), "rebalancer_scale_down_unsafe")
    assert rows == {structs.astuple(WEB): 0}


def test_of_several_terms_over_a_key_the_worst_is_exported_and_none_that_is_not_evaluated() -> None:
    assert STATE.cycle is not None
    (term,) = STATE.cycle.assessment.anti_affinity
    worse = structs.replace(term, conflicts=(Conflict("a-1", 2, ()),), term=away_from("db", HOSTNAME))
    name = "rebalancer_anti_affinity_violations"

    def rows(*terms: EvaluatedTerm) -> Mapping[tuple[str, ...], float]:
        assert STATE.cycle is not None
        assessment = replace(STATE.cycle.assessment, anti_affinity=terms)
        evaluation = replace(STATE.cycle.evaluation, assessment=assessment)
        return rows_of(replace(STATE, cycle=replace(STATE.cycle, evaluation=evaluation)), name)

    assert rows(term, worse) == {(*structs.astuple(DB), HOSTNAME): 2}
    assert rows(structs.replace(term, unknown="why")) == {}
    bare = Reference("default", "Pod", "web-1")
    assert rows(structs.replace(term, workloads=(bare,))) == {}
    assert rows_of(replace(STATE, cycle=None), name) == {}


def test_sizes_without_a_placement_are_counted_with_those_that_pods_do_not_reach() -> None:
    assert STATE.cycle is not None
    (sizes,) = STATE.cycle.assessment.sizes
    found = structs.replace(sizes, verdict=SizeVerdict((6, 8), (7,)))
    assessment = replace(STATE.cycle.assessment, sizes=(found,))
    evaluation = replace(STATE.cycle.evaluation, assessment=assessment)
    state = replace(STATE, cycle=replace(STATE.cycle, evaluation=evaluation))
    assert rows_of(state, "rebalancer_sizes_without_placement") == {structs.astuple(WEB): 3}
    assert rows_of(replace(STATE, cycle=None), "rebalancer_sizes_without_placement") == {}


def test_of_too_many_domains_without_nodes_those_are_exported_that_matter() -> None:
    """A thousand series, those first whose constraint would be violated."""
    assert STATE.cycle is not None
    (row,) = [row for row in STATE.cycle.assessment.domains_without_nodes if row.workloads == (WEB,)]
    rows = [
        structs.replace(
            row, workloads=(Reference("default", "Deployment", f"w{number:04}"),), skew=row.max_skew + number % 2
        )
        for number in range(2_000)
    ]
    assessment = replace(STATE.cycle.assessment, domains_without_nodes=tuple(rows))
    evaluation = replace(STATE.cycle.evaluation, assessment=assessment)
    state = replace(STATE, cycle=replace(STATE.cycle, evaluation=evaluation))
    exported = rows_of(state, "rebalancer_domain_without_nodes")
    assert exported == {
        ("default", "Deployment", f"w{number:04}", ZONE, "c"): 1 for number in range(2_000) if number % 2
    }


def test_before_the_first_cycle_a_leader_shows_no_violation_and_no_time_of_a_cycle() -> None:
    """The numbers are 0: nothing is planned, nothing refused."""
    state = replace(STATE, cycle=None)
    for name in ("last_cycle_timestamp_seconds", "constraint_skew", "limit_state", "limit_worst_domain", "refusals"):
        assert rows_of(state, f"rebalancer_{name}") == {}
    assert rows_of(state, "rebalancer_planned_evictions") == {(): 0}
    exported = text(export(view_of(state)))
    assert exported.count("rebalancer_refusals{") == len(Reason)
