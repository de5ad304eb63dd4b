"""Pods that are not Ready, under budgets: the Eviction API lets some of them go that it would refuse if they were."""

from typing import Any, Final

import pytest

from rebalancer.model.reasons import Reason
from tests.control_plane.resources import Manifest
from tests.known_states.build import State, cluster, deployment, make, minutes_ago, stateful_set

ONE_AT_A_TIME: Final = 'budgets: {maxUnavailable: 1, perWorkload: "100%"}\n'


def budget(healthy: int = 3, desired: int = 3, expected: int = 4, **spec: Any) -> Manifest:
    """Return a budget over the pods of `web` as its controller has computed it."""
    return make(
        "policy/v1",
        "PodDisruptionBudget",
        "web",
        generation=1,
        spec={"selector": {"matchLabels": {"app": "web"}}, "minAvailable": desired, **spec},
        status={
            "observedGeneration": 1,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired),
        },
    )


def not_ready(pod: Manifest, *, since: float = 60, started: float = 120) -> None:
    """Let a pod have started and become unready so many minutes ago; it was never Ready if both are the same."""
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": minutes_ago(started)},
        {"type": "Ready", "status": "False", "lastTransitionTime": minutes_ago(since)},
    ]
    pod["metadata"]["creationTimestamp"] = minutes_ago(started)
    pod["status"] = {"phase": "Running", "startTime": minutes_ago(started), "conditions": conditions}


def with_one_unready(*more: Manifest, at: int = 0, **times: float) -> State:
    """Return the crowded state, in which one pod of zone a is not Ready."""
    state = cluster(deployment(), more)
    not_ready(state.pods()[at], **times)
    return state


@pytest.mark.parametrize("at", [0, 1])
def test_it_goes_first_while_as_many_as_required_are_healthy(at: int) -> None:
    assert with_one_unready(budget(), at=at).plan().evicted == [f"shop/web-{at}"]


def test_it_goes_though_the_budget_never_allows_any_where_the_policy_is_always_allow() -> None:
    always = budget(healthy=3, desired=4, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert with_one_unready(always).plan().evicted == ["shop/web-0"]


def test_it_stays_where_fewer_are_healthy_than_required() -> None:
    """The budget is asked then, and the message says what would let it go."""
    outcome = with_one_unready(budget(healthy=3, desired=4, unhealthyPodEvictionPolicy="IfHealthyBudget")).plan()
    assert outcome.evicted == []
    assert "PodDisruptionBudget shop/web never allows any" in outcome.refusals[Reason.STEP_EXCEEDS_BUDGET]
    outcome = with_one_unready(budget(healthy=2, desired=3)).plan()
    assert outcome.evicted == []
    assert outcome.refusals[Reason.BLOCKED_BY_BUDGET].endswith(
        "2 of 4 pods healthy, 3 required. The pod is not Ready, and with unhealthyPodEvictionPolicy: AlwaysAllow the "
        "API would evict it without asking the budget"
    )


def test_a_budget_that_requires_none_is_asked() -> None:
    """Its controller may not have counted yet: `desiredHealthy` 0 proves nothing."""
    none = budget(healthy=0, desired=0)
    none["status"] |= {"disruptionsAllowed": 0}
    assert with_one_unready(none).plan().evicted == []


def test_a_pod_that_is_ready_asks_the_budget() -> None:
    """The unready pod is in zone b, from where none has to go."""
    outcome = with_one_unready(budget(unhealthyPodEvictionPolicy="AlwaysAllow"), at=3).plan()
    assert outcome.evicted == []
    assert "not Ready" not in outcome.refusals[Reason.BLOCKED_BY_BUDGET]


def test_it_takes_nothing_from_max_unavailable() -> None:
    """It is unavailable already. A second unready pod counts, for those that are Ready."""
    assert with_one_unready().plan(ONE_AT_A_TIME).evicted == ["shop/web-0"]
    outcome = with_one_unready(at=3).plan(ONE_AT_A_TIME)
    assert outcome.evicted == []
    assert "1 of 4 pods is unavailable" in outcome.refusals[Reason.BLOCKED_BY_BUDGET]


def test_max_unavailable_0_lets_nothing_go() -> None:
    assert with_one_unready().plan('budgets: {maxUnavailable: 0, perWorkload: "100%"}\n').evicted == []


def test_two_of_which_one_is_unready_go_together() -> None:
    """Five in one zone: the unready one takes nothing, one that is Ready takes what is allowed."""
    state = cluster(deployment(on=("a-0",) * 5 + ("b-0",)))
    not_ready(state.pods()[0])
    outcome = state.plan(ONE_AT_A_TIME)
    assert outcome.evicted == ["shop/web-0"]
    assert Reason.BLOCKED_BY_BUDGET in outcome.reasons, "the unready pod is the one that is unavailable"


@pytest.mark.parametrize(("minutes", "evicted"), [(9, []), (10, ["shop/web-0"])])
def test_one_that_was_never_ready_is_no_victim_within_its_progress_deadline(minutes: int, evicted: list[str]) -> None:
    """The other two of the zone may not go either: one is unavailable."""
    outcome = with_one_unready(since=minutes, started=minutes).plan(ONE_AT_A_TIME)
    assert outcome.evicted == evicted
    if not evicted:
        assert "1 of 4 pods is unavailable" in outcome.refusals[Reason.BLOCKED_BY_BUDGET]


def test_another_pod_goes_where_the_one_that_starts_may_not() -> None:
    assert with_one_unready(since=3, started=3).plan().evicted == ["shop/web-1"]


def test_one_that_starts_says_how_long_it_may() -> None:
    """All three of the zone are starting."""
    state = cluster(deployment())
    for pod in state.pods()[:3]:
        not_ready(pod, since=3, started=3)
    outcome = state.plan()
    assert outcome.evicted == []
    assert (
        "it has been starting for 3m and was never Ready; progressDeadlineSeconds of its owner gives it 10m"
        in outcome.refusals[Reason.STARTING]
    )


@pytest.mark.parametrize(("seconds", "evicted"), [(300, "shop/web-0"), (900, "shop/web-1")])
def test_the_deadline_is_the_deployments(seconds: int, evicted: str) -> None:
    state = with_one_unready(since=12, started=12) if seconds == 900 else with_one_unready(since=6, started=6)
    state.get("Deployment", "web")["spec"]["progressDeadlineSeconds"] = seconds
    assert state.plan().evicted == [evicted]


def test_a_stateful_set_has_ten_minutes() -> None:
    state = cluster(stateful_set(podManagementPolicy="Parallel"))
    not_ready(state.pods("db")[0], since=6, started=6)
    assert state.plan().evicted == ["shop/db-1"]
    not_ready(state.pods("db")[0], since=11, started=11)
    assert state.plan().evicted == ["shop/db-0"]


def test_one_that_was_ready_for_a_moment_is_a_victim_at_once() -> None:
    """It became unready a minute ago, and started four minutes ago."""
    assert with_one_unready(since=1, started=4).plan().evicted == ["shop/web-0"]


def test_a_pod_whose_containers_were_never_made_asks_no_budget() -> None:
    """The Eviction API deletes a Pending pod at once."""
    state = with_one_unready(budget(healthy=2, desired=3), since=20, started=20)
    state.pods()[0]["status"]["phase"] = "Pending"
    assert state.plan().evicted == ["shop/web-0"]


def test_a_group_counts_it_once() -> None:
    group = "groups: [{name: g, selector: {matchLabels: {app: web}}, disruption: {maxInFlight: 1}, limits: []}]\n"
    assert with_one_unready().plan(group).evicted == ["shop/web-0"]
    assert with_one_unready(at=3).plan(group).reasons >= {Reason.GROUP_IN_FLIGHT}
