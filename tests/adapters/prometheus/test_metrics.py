"""What a scrape shows."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rebalancer.adapters.prometheus import (
    METRICS,
    ConstraintSamples,
    CycleSamples,
    DomainSamples,
    LimitSamples,
    Metric,
    Metrics,
    MoveOutcome,
    Phase,
    PlanParts,
    Type,
    WatchSamples,
    WorkloadSamples,
)
from rebalancer.adapters.prometheus.metrics import parse_request
from rebalancer.model.breaker import BreakerCause
from rebalancer.model.reasons import FindingKind, Reason, State
from rebalancer.policy import Mode
from rebalancer.ports import EvictionResult

AT = datetime(2026, 1, 1, tzinfo=UTC)
WEB = ConstraintSamples(
    namespace="shop",
    workload_kind="Deployment",
    workload="web",
    topology_key="topology.kubernetes.io/zone",
    when_unsatisfiable="DoNotSchedule",
    skew=3,
    max_skew=1,
    state=State.VIOLATED,
)
REDIS = LimitSamples(
    group="redis",
    limit="node-third",
    namespace="cache",
    key="one",
    topology_key="kubernetes.io/hostname",
    share=0.5,
    headroom=-1,
    state=State.VIOLATED,
    severity="critical",
    worst="node-1",
)
LEADING = CycleSamples(
    leader=True,
    mode=Mode.EVICT,
    paused=True,
    breaker_causes=frozenset({BreakerCause.UNREADY_ZONE}),
    memory_saved=False,
    plan_pending=3,
    policy_read_at=AT,
    team_policies={"pay": False, "shop": True},
    cycle_ended_at=AT,
    constraints=(WEB,),
    limits=(REDIS,),
    replacements=(
        WorkloadSamples(namespace="shop", workload_kind="Deployment", workload="web", wrong=True),
        WorkloadSamples(namespace="shop", workload_kind="StatefulSet", workload="db", wrong=False),
    ),
    domains_without_nodes=(
        DomainSamples(
            namespace="shop", workload_kind="Deployment", workload="web", topology_key="z", domain="c", headroom=-5
        ),
        DomainSamples(
            namespace="shop", workload_kind="Deployment", workload="db", topology_key="z", domain="c", headroom=0
        ),
    ),
    scale_downs=(WorkloadSamples(namespace="shop", workload_kind="Deployment", workload="web", wrong=True),),
    prevention_left=6,
    prevention_stopped=True,
    findings={FindingKind.REPLACEMENT_BLOCKED: 1},
    plan_parts=PlanParts(now=1, waiting=3, later=1, blocked=2),
    minimum_evictions=4,
    in_flight=2,
    refusals={Reason.TOO_YOUNG: 3},
)


def full(leads: Callable[[], bool] = lambda: True) -> Metrics:
    """Everything that there is to show is shown."""
    metrics = Metrics(watches=lambda: (WatchSamples(kind="Pod", age=1.5, objects=12),), leads=leads)
    metrics.publish(LEADING)
    metrics.count_request("GET", "/api/v1/pods", 200)
    with metrics.time_phase(Phase.PLAN):
        pass
    return metrics


def text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def series(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Return values by name and label values, these in the order of the declaration."""
    declared = {metric.name: metric.labels for metric in METRICS}
    samples = {}
    for family in text_string_to_metric_families(text(metrics)):
        for sample in family.samples:
            labels = declared.get(sample.name, tuple(sample.labels))
            samples[sample.name, *(sample.labels[label] for label in labels)] = sample.value
    return samples


def values(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in series(metrics).items() if key[0] == name}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_declared_metric_is_exported_as_declared(metric: Metric) -> None:
    """Name, help, type and labels of the exposition are those of the declaration."""
    families = {family.name: family for family in text_string_to_metric_families(text(full()))}
    family = families[metric.name.removesuffix("_total")]
    assert (family.type, family.documentation) == (metric.type, metric.help)
    assert family.samples
    for sample in family.samples:
        assert set(sample.labels) - {"le"} == set(metric.labels)


def test_nothing_is_exported_that_is_not_declared() -> None:
    exported = set(re.findall(r"^# TYPE (\S+)", text(full()), re.MULTILINE))
    assert {name for name in exported if name.startswith("rebalancer_")} == {metric.name for metric in METRICS}


def test_names_follow_the_conventions() -> None:
    """Counters end in _total and nothing else does; no label of histograms' own; every help is a sentence."""
    for metric in METRICS:
        assert re.fullmatch(r"rebalancer_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.type is Type.COUNTER)
        assert "le" not in metric.labels
        assert metric.help.endswith(".")
        assert bool(metric.buckets) == (metric.type is Type.HISTOGRAM)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_process_tells_of_itself_too() -> None:
    exported = text(full())
    assert "process_resident_memory_bytes" in exported
    assert "python_gc_objects_collected_total" in exported


def test_samples_become_series() -> None:
    metrics = full()
    labels = ("shop", "Deployment", "web", "topology.kubernetes.io/zone", "DoNotSchedule")
    assert values(metrics, "rebalancer_constraint_skew") == {labels: 3}
    assert values(metrics, "rebalancer_constraint_max_skew") == {labels: 1}
    states = values(metrics, "rebalancer_constraint_state")
    assert states == {(*labels, state): float(state is State.VIOLATED) for state in State}
    limit = ("redis", "node-third", "cache", "one", "kubernetes.io/hostname")
    assert values(metrics, "rebalancer_limit_share_ratio") == {limit: 0.5}
    assert values(metrics, "rebalancer_limit_headroom") == {limit: -1}
    states = values(metrics, "rebalancer_limit_state")
    assert states == {(*limit, "critical", state): float(state is State.VIOLATED) for state in State}
    assert values(metrics, "rebalancer_limit_worst_domain") == {(*limit, "node-1"): 1}
    assert values(metrics, "rebalancer_replacement_blocked") == {
        ("shop", "Deployment", "web"): 1,
        ("shop", "StatefulSet", "db"): 0,
    }
    findings = values(metrics, "rebalancer_findings")
    assert findings == {(kind,): float(kind is FindingKind.REPLACEMENT_BLOCKED) for kind in FindingKind}
    assert values(metrics, "rebalancer_planned_evictions") == {(): 5}
    assert values(metrics, "rebalancer_plan_evictions") == {
        ("now",): 1,
        ("waiting",): 3,
        ("later",): 1,
        ("blocked",): 2,
    }
    assert values(metrics, "rebalancer_minimum_evictions") == {(): 4}
    assert values(metrics, "rebalancer_in_flight") == {(): 2}
    assert values(metrics, "rebalancer_paused") == {(): 1}
    breaker = values(metrics, "rebalancer_breaker_open")
    assert breaker == {(cause,): float(cause is BreakerCause.UNREADY_ZONE) for cause in BreakerCause}
    assert values(metrics, "rebalancer_plan_pending") == {(): 3}
    assert values(metrics, "rebalancer_memory_saved") == {(): 0}
    assert values(metrics, "rebalancer_mode") == {("Observe",): 0, ("Approve",): 0, ("Evict",): 1}
    assert values(metrics, "rebalancer_last_cycle_timestamp_seconds") == {(): AT.timestamp()}
    assert values(metrics, "rebalancer_watch_age_seconds") == {("Pod",): 1.5}
    assert values(metrics, "rebalancer_cache_objects") == {("Pod",): 12}


def test_a_reason_that_does_not_apply_is_zero_not_absent() -> None:
    refusals = values(full(), "rebalancer_refusals")
    assert refusals == {(reason,): 3.0 * (reason is Reason.TOO_YOUNG) for reason in Reason}


def test_a_workload_that_is_gone_leaves_no_series() -> None:
    metrics = full()
    metrics.publish(replace(LEADING, constraints=(), limits=()))
    assert not values(metrics, "rebalancer_constraint_skew")
    assert not values(metrics, "rebalancer_constraint_state")
    for name in ("share_ratio", "headroom", "state", "worst_domain"):
        assert not values(metrics, f"rebalancer_limit_{name}")


def test_a_domain_is_named_only_while_it_breaks_the_limit() -> None:
    """Node names are in no other series, and in at most a thousand of these: those furthest beyond."""
    metrics = Metrics()
    metrics.publish(replace(LEADING, limits=(replace(REDIS, headroom=0, state=State.SATISFIED),)))
    assert not values(metrics, "rebalancer_limit_worst_domain")
    assert values(metrics, "rebalancer_limit_share_ratio")
    many = tuple(replace(REDIS, key=f"k{number}", headroom=-1 - number) for number in range(1_200))
    metrics.publish(replace(LEADING, limits=many))
    named = values(metrics, "rebalancer_limit_worst_domain")
    assert len(named) == 1_000
    assert {labels[3] for labels in named} == {f"k{number}" for number in range(200, 1_200)}


@pytest.mark.parametrize("state", [State.VIOLATED, State.UNFIXABLE, State.INFEASIBLE])
def test_a_broken_limit_names_its_worst_domain_whatever_can_be_done(state: State) -> None:
    """And exactly one state is 1."""
    metrics = Metrics()
    metrics.publish(replace(LEADING, limits=(replace(REDIS, state=state),)))
    assert [labels[-1] for labels in values(metrics, "rebalancer_limit_worst_domain")] == ["node-1"]
    shown = values(metrics, "rebalancer_limit_state")
    assert [labels[-1] for labels, value in shown.items() if value] == [state]


def test_a_limit_without_domains_has_no_share() -> None:
    """Absent is not 0."""
    metrics = Metrics()
    metrics.publish(replace(LEADING, limits=(replace(REDIS, share=None, worst=None, state=State.INFEASIBLE),)))
    assert not values(metrics, "rebalancer_limit_share_ratio")
    assert not values(metrics, "rebalancer_limit_worst_domain")
    assert values(metrics, "rebalancer_limit_state")


def test_a_very_large_cluster_shows_the_broken_and_the_worst() -> None:
    """Above 10,000 workloads the number of series no longer grows with the cluster."""

    def labelled(name: str) -> set[str]:
        return {labels[column] for labels in values(metrics, name)}

    metrics = Metrics()
    fine = [replace(REDIS, key=f"k{number:05}", headroom=1 + number, state=State.SATISFIED) for number in range(11_000)]
    broken = [replace(REDIS, key=f"b{number}") for number in range(7)]
    column = 3
    metrics.publish(replace(LEADING, limits=tuple(fine[:9_993] + broken)))
    assert len(labelled("rebalancer_limit_headroom")) == 10_000
    metrics.publish(replace(LEADING, limits=tuple(fine + broken)))
    expected = {f"b{number}" for number in range(7)} | {f"k{number:05}" for number in range(1_000)}
    assert labelled("rebalancer_limit_headroom") == labelled("rebalancer_limit_state") == expected
    column = 2
    held = [replace(WEB, workload=f"w{number:05}", skew=0, state=State.SATISFIED) for number in range(11_000)]
    metrics.publish(replace(LEADING, constraints=(*held, WEB)))
    assert labelled("rebalancer_constraint_skew") == {"web"} | {f"w{number:05}" for number in range(1_000)}


def test_only_the_leader_shows_the_cluster() -> None:
    """A sum over all replicas counts the cluster once; what a replica says of itself it always says."""
    metrics = full()
    led = {key[0] for key in series(metrics)}
    metrics.publish(replace(LEADING, leader=False))
    missing = led - {key[0] for key in series(metrics)}
    assert missing == {metric.name for metric in METRICS if metric.leader_only}
    assert values(metrics, "rebalancer_leader") == {(): 0}


def test_a_lease_that_has_run_out_shows_at_once() -> None:
    """Also while the loop waits for an API server that does not answer, and publishes nothing."""
    leads = True
    metrics = full(lambda: leads)
    assert values(metrics, "rebalancer_leader") == {(): 1}
    leads = False
    assert values(metrics, "rebalancer_leader") == {(): 0}
    assert not {key[0] for key in series(metrics)} & {metric.name for metric in METRICS if metric.leader_only}


def test_two_templates_of_one_workload_make_one_series_the_worse() -> None:
    """Prometheus refuses a scrape in which a series comes twice."""
    worse = replace(WEB, skew=4, max_skew=1)
    for order in ((WEB, worse), (worse, WEB)):
        metrics = Metrics()
        metrics.publish(replace(LEADING, constraints=order))
        assert text(metrics).count("rebalancer_constraint_skew{") == 1
        assert list(values(metrics, "rebalancer_constraint_skew").values()) == [4]


def test_counters_begin_at_zero_for_every_value() -> None:
    """So the first eviction after a start is an increase, not a beginning."""
    metrics = Metrics()
    assert values(metrics, "rebalancer_evictions_total") == {(result,): 0 for result in EvictionResult}
    assert values(metrics, "rebalancer_moves_total") == {(outcome,): 0 for outcome in MoveOutcome}
    assert values(metrics, "rebalancer_cycle_duration_seconds_count") == {(phase,): 0 for phase in Phase}


def test_what_happens_is_counted() -> None:
    """Evictions, moves and requests are counted by their labels."""
    metrics = Metrics()
    metrics.count_eviction(EvictionResult.EVICTED)
    metrics.count_eviction(EvictionResult.EVICTED)
    metrics.count_move(MoveOutcome.LOST)
    metrics.count_request("POST", "/api/v1/namespaces/shop/pods/web-1/eviction", 429)
    assert values(metrics, "rebalancer_evictions_total")["evicted",] == 2
    assert values(metrics, "rebalancer_moves_total")["lost",] == 1
    assert values(metrics, "rebalancer_api_requests_total") == {("create", "pods/eviction", "429"): 1}


def test_a_phase_is_timed() -> None:
    """The duration of a phase is observed in its histogram."""
    metrics = Metrics()
    with metrics.time_phase(Phase.ASSESS):
        pass
    assert values(metrics, "rebalancer_cycle_duration_seconds_count")["assess",] == 1


def test_there_are_no_series_about_when_counters_were_made() -> None:
    assert "_created" not in text(full())


def test_two_processes_in_one_do_not_meet() -> None:
    first, second = Metrics(), Metrics()
    first.count_eviction(EvictionResult.GONE)
    assert values(second, "rebalancer_evictions_total")["gone",] == 0


def test_before_the_first_cycle_there_are_no_times() -> None:
    metrics = Metrics()
    metrics.publish(CycleSamples(leader=True))
    assert not values(metrics, "rebalancer_last_cycle_timestamp_seconds")
    assert not values(metrics, "rebalancer_policy_last_reload_timestamp_seconds")


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/api/v1/pods", "list", "pods"),
        ("GET", "/api/v1/namespaces", "list", "namespaces"),
        ("GET", "/api/v1/namespaces/shop", "get", "namespaces"),
        ("GET", "/api/v1/namespaces/shop/configmaps", "list", "configmaps"),
        ("GET", "/api/v1/namespaces/shop/configmaps/status", "get", "configmaps"),
        ("PATCH", "/api/v1/namespaces/shop/configmaps/status", "patch", "configmaps"),
        ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction", "create", "pods/eviction"),
        ("GET", "/apis/apps/v1/replicasets", "list", "replicasets"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", "create", "events"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/rebalancer", "update", "leases"),
        ("GET", "/version", "get", ""),
        ("GET", "/api", "get", ""),
        ("GET", "/apis/apps/v1", "get", ""),
        ("OPTIONS", "/version", "options", ""),
    ],
)
def test_requests_are_named_as_kubernetes_names_them(method: str, path: str, verb: str, resource: str) -> None:
    """Without the names of objects: the number of series does not grow with the cluster."""
    assert parse_request(method, path) == (verb, resource)


def test_of_too_many_domains_without_nodes_those_are_exported_that_matter() -> None:
    """A thousand series, the largest excess first; by name where it is equal."""
    rows = tuple(
        DomainSamples(
            namespace="shop",
            workload_kind="Deployment",
            workload=f"web-{number:04}",
            topology_key="zone",
            domain="c",
            headroom=-3 if number == 1_500 else -1 if number % 2 else 0,
        )
        for number in range(2_000)
    )
    metrics = full()
    metrics.publish(replace(LEADING, domains_without_nodes=rows))
    exported = values(metrics, "rebalancer_domain_without_nodes")
    assert len(exported) == 1_000
    assert exported["shop", "Deployment", "web-1500", "zone", "c"] == 1
    assert sum(exported.values()) == 1_000
    metrics.publish(LEADING)
    assert values(metrics, "rebalancer_domain_without_nodes") == {
        ("shop", "Deployment", "web", "z", "c"): 1,
        ("shop", "Deployment", "db", "z", "c"): 0,
    }
    metrics.publish(replace(LEADING, leader=False))
    assert not values(metrics, "rebalancer_domain_without_nodes")
