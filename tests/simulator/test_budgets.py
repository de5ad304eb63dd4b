"""Disruption budgets and the Eviction API."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.labels import LabelSelector
from rebalancer.ports import EvictionResult
from rebalancer.simulator import START, ClusterBuilder, Faults, SimulatedCluster, TraceKind
from tests.build import without_node
from tests.simulator.build import EVERYWHERE, PROMPT, budget, cluster, happened, move, pods, web


@pytest.mark.parametrize(
    ("replicas", "rule", "desired", "allowed"),
    [
        (7, {"max_unavailable": "30%"}, 4, 3),
        (7, {"min_available": "50%"}, 4, 3),
        (3, {"min_available": "67%"}, 3, 0),
        (10, {"max_unavailable": "25%"}, 7, 3),
        (6, {"max_unavailable": 0}, 6, 0),
        (6, {"max_unavailable": 9}, 0, 6),
        (6, {"min_available": 4}, 4, 2),
        (6, {"min_available": 6}, 6, 0),
    ],
)
def test_percentages_round_up(replicas: int, rule: dict[str, Any], desired: int, allowed: int) -> None:
    def described(builder: ClusterBuilder) -> None:
        builder.deployment("web", on={"a-1": replicas})
        builder.budget("web", **rule)

    status = budget(cluster(described))
    assert (status.desired_healthy, status.allowed, status.current_healthy) == (desired, allowed, replicas)
    assert status.expected == replicas


def changed(first: SimulatedCluster, **fields: Any) -> SimulatedCluster:
    return SimulatedCluster(replace(first.snapshot(START), **fields), timings=PROMPT)


def test_the_status_follows_the_pods_a_little_later() -> None:
    simulated = cluster(web)
    simulated.evict(move(next(iter(pods(simulated).values()))))
    assert (budget(simulated).allowed, budget(simulated).current_healthy) == (1, 12)
    simulated.advance(0.6)
    assert (budget(simulated).allowed, budget(simulated).current_healthy) == (1, 11)
    simulated.advance(10)
    assert (budget(simulated).allowed, budget(simulated).current_healthy) == (2, 12)


def test_no_more_is_granted_than_the_budget_has() -> None:
    simulated = cluster(web)
    answers = [simulated.evict(move(pod)).result for pod in pods(simulated).values()]
    assert answers == [EvictionResult.EVICTED] * 2 + [EvictionResult.BUDGET] * 10
    assert len(happened(simulated, TraceKind.EVICTED)) == 2


def test_a_refusal_says_what_the_budget_needs() -> None:
    simulated = cluster(web)
    first, second, third = list(pods(simulated).values())[:3]
    simulated.evict(move(first))
    simulated.evict(move(second))
    assert "web needs 10 healthy pods and has 12 currently" in simulated.evict(move(third)).message


def test_expected_pods_follow_the_scale_of_the_deployment() -> None:
    simulated = cluster(web)
    simulated.scale("default", "Deployment", "web", 20)
    simulated.advance(0.6)
    assert (budget(simulated).expected, budget(simulated).desired_healthy, budget(simulated).allowed) == (20, 18, 0)


def test_a_pod_whose_controller_has_no_scale_fails_the_status() -> None:
    first = cluster(web)
    snapshot = first.snapshot(START)
    owner = snapshot.pods[0].owner
    assert owner is not None
    stranger = structs.replace(snapshot.pods[0], owner=structs.replace(owner, kind="Job", uid="job"))
    simulated = changed(first, pods=(stranger, *snapshot.pods[1:]))
    simulated.advance(1)
    assert (budget(simulated).synced, budget(simulated).allowed) == (False, 0)
    assert simulated.evict(move(snapshot.pods[5])).result is EvictionResult.BUDGET


def test_a_budget_that_was_just_changed_grants_nothing() -> None:
    first = cluster(web)
    simulated = changed(first, budgets=(structs.replace(budget(first), generation=2),))
    victim = move(next(iter(pods(simulated).values())))
    assert simulated.evict(victim).result is EvictionResult.STALE
    simulated.advance(1)
    assert simulated.evict(victim).result is EvictionResult.EVICTED


def test_several_budgets_over_one_pod_refuse_it_for_good() -> None:
    def described(builder: ClusterBuilder) -> None:
        web(builder)
        builder.budget("second", app="web", max_unavailable=1)

    simulated = cluster(described)
    answer = simulated.evict(move(next(iter(pods(simulated).values()))))
    assert answer.result is EvictionResult.FAILED
    assert "more than one PodDisruptionBudget" in answer.message


def test_a_budget_without_selector_selects_nobody() -> None:
    first = cluster(web)
    null = DisruptionBudget(namespace="default", name="null", max_unavailable=0)
    simulated = changed(first, budgets=(null,))
    assert simulated.evict(move(next(iter(pods(simulated).values())))).result is EvictionResult.EVICTED


def test_an_empty_selector_selects_the_namespace() -> None:
    first = cluster(web)
    everything = DisruptionBudget(namespace="default", name="all", selector=LabelSelector(), max_unavailable=0)
    simulated = changed(first, budgets=(everything,))
    simulated.advance(1)
    assert simulated.evict(move(next(iter(pods(simulated).values())))).result is EvictionResult.BUDGET


def test_a_wrong_uid_evicts_nobody_and_still_costs_a_disruption_for_two_minutes() -> None:
    simulated = cluster(web)
    victim = next(iter(pods(simulated).values()))
    assert simulated.evict(move(victim, uid="another")).result is EvictionResult.CONFLICT
    assert not happened(simulated, TraceKind.EVICTED)
    assert budget(simulated).allowed == 1
    simulated.advance(119)
    assert (budget(simulated).allowed, budget(simulated).current_healthy) == (1, 11)
    simulated.advance(5)
    assert (budget(simulated).allowed, budget(simulated).disrupted) == (2, ())


def test_a_pod_that_is_gone_is_gone() -> None:
    simulated = cluster(web)
    victim = next(iter(pods(simulated).values()))
    simulated.evict(move(victim))
    assert simulated.evict(move(victim)).result is EvictionResult.EVICTED
    simulated.advance(10)
    assert simulated.evict(move(victim)).result is EvictionResult.GONE
    assert len(happened(simulated, TraceKind.EVICTED)) == 1


def test_pending_pods_go_without_their_budget() -> None:
    first = cluster(web)
    snapshot = first.snapshot(START)
    pending = without_node(snapshot.pods[0])
    simulated = changed(first, pods=(pending, *snapshot.pods[1:]), budgets=(structs.replace(budget(first), allowed=0),))
    assert simulated.evict(move(pending)).result is EvictionResult.EVICTED
    assert pending.name not in pods(simulated)


@pytest.mark.parametrize(
    ("always", "healthy", "result"),
    [
        (False, 10, EvictionResult.EVICTED),
        (False, 9, EvictionResult.BUDGET),
        (True, 9, EvictionResult.EVICTED),
    ],
)
def test_unready_pods_go_freely_while_enough_others_are_healthy(
    always: bool, healthy: int, result: EvictionResult
) -> None:
    first = cluster(web)
    snapshot = first.snapshot(START)
    unready = [structs.replace(pod, ready=False) for pod in snapshot.pods[healthy:]]
    tight = structs.replace(budget(first), always_allow=always)
    simulated = changed(first, pods=(*snapshot.pods[:healthy], *unready), budgets=(tight,))
    simulated.advance(1)
    assert (budget(simulated).current_healthy, budget(simulated).allowed) == (healthy, 0)
    assert simulated.evict(move(unready[0])).result is result
    assert simulated.evict(move(snapshot.pods[0])).result is EvictionResult.BUDGET


def test_lost_answers_leave_it_open_what_was_done() -> None:
    simulated = cluster(lambda builder: builder.deployment("web", on=EVERYWHERE), faults=Faults(lost_answers=1.0))
    answers = {simulated.evict(move(pod)).result for pod in pods(simulated).values()}
    assert answers == {EvictionResult.UNKNOWN}
    assert 0 < len(happened(simulated, TraceKind.EVICTED)) < 12


def test_a_throttled_request_does_nothing() -> None:
    simulated = cluster(web, faults=Faults(throttled=1.0))
    assert simulated.evict(move(next(iter(pods(simulated).values())))).result is EvictionResult.THROTTLED
    assert not happened(simulated, TraceKind.EVICTED)
    assert budget(simulated).allowed == 2


def test_an_evicted_pod_carries_the_reason_of_its_end() -> None:
    simulated = cluster(web)
    victim = next(iter(pods(simulated).values()))
    simulated.evict(move(victim))
    evicted = pods(simulated)[victim.name]
    assert evicted.evicted_at is not None
    assert evicted.deleted == simulated.now + timedelta(seconds=30)
