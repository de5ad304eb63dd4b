"""Pods that others evict, as `kubectl get` shows them: the rest of the workload waits, as long as it may."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from rebalancer.model.reasons import Reason
from tests.cli.files import ready_nodes
from tests.known_states.build import NOW, State, cluster, deployment

PASSING = 30
"""Seconds of the grace period, after which the pod is gone."""


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def disrupted(reason: str = "EvictionByEvictionAPI", status: str = "True", ago: int = 5) -> State:
    """Return the state in which the pod of zone b terminates, with the condition of so many seconds ago."""
    state = cluster(deployment())
    pod: dict[str, Any] = state.pods()[-1]
    at = NOW - timedelta(seconds=ago)
    pod["metadata"] |= {"deletionTimestamp": stamp(NOW + timedelta(seconds=PASSING)), "deletionGracePeriodSeconds": 60}
    pod["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": status, "reason": reason, "lastTransitionTime": stamp(at)}
    )
    return state


def test_nothing_more_is_moved_until_the_replacement_is_ready() -> None:
    outcome = disrupted().plan()
    assert outcome.evicted == []
    assert outcome.refusals[Reason.EVICTED_BY_OTHERS].startswith(
        "1 pod (web-3) of shop/web (Deployment) was evicted by others, or by a rebalancer in this cluster, since "
        "2026-05-04 11:59:55Z: only the API server's audit log says who evicted them"
    )
    assert outcome.refusals[Reason.EVICTED_BY_OTHERS].endswith("at most until 12:09:55Z")


def test_it_is_not_waited_for_longer_than_ten_minutes() -> None:
    assert disrupted(ago=599).plan().evicted == []
    assert disrupted(ago=600).plan().evicted


@pytest.mark.parametrize(
    "reason", ["PreemptionByScheduler", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet", ""]
)
def test_what_nobody_requested_is_no_eviction(reason: str) -> None:
    assert disrupted(reason).plan().evicted


def test_a_condition_that_was_taken_back_is_no_eviction() -> None:
    assert disrupted(status="False").plan().evicted


def test_a_drain_is_named() -> None:
    """The zone has another node."""
    state = disrupted().add(*ready_nodes({"b": 2})[1:])
    state.get("Node", "b-0")["spec"]["unschedulable"] = True
    assert ": node b-0 is being drained. " in state.plan().refusals[Reason.EVICTED_BY_OTHERS]
