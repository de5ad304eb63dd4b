"""The states of the closed loop are what their titles say."""

import pytest

from tests.closed_loop.scenario import UNBOUND, Scenario
from tests.closed_loop.scenarios import (
    BUDGETED,
    DEADLOCK,
    EXAMPLES,
    FALLS_SHORT,
    LIMITED,
    LIMITS,
    RANDOM,
    over,
    random_clusters,
)
from tests.planning.states import satisfied

FORCEABLE = (*FALLS_SHORT, *EXAMPLES, *RANDOM, *BUDGETED)
EVERY = (*FORCEABLE, DEADLOCK, *LIMITS, *LIMITED)


def at_rest(scenario: Scenario) -> bool:
    return satisfied(scenario.counts, scenario.zone or UNBOUND, scenario.host or UNBOUND)


def test_scenarios_share_no_name_and_no_node() -> None:
    """No two share a namespace, a node or a zone."""
    names = [scenario.name for scenario in EVERY]
    nodes = [node for scenario in EVERY for zone in scenario.names for node in zone]
    assert len(set(names)) == len(names)
    assert len(set(nodes)) == len(nodes)


@pytest.mark.parametrize("scenario", EVERY, ids=lambda scenario: scenario.name)
def test_pods_are_placed_as_counted(scenario: Scenario) -> None:
    """Every node has as many pods as its count says, whatever workloads they belong to."""
    pods = [pod for workload in scenario.make(scenario) for pod in workload.pods]
    there = [pod["spec"]["nodeName"] for pod in pods]
    assert [[there.count(node) for node in zone] for zone in scenario.names] == scenario.counts
    assert len(scenario.pod_names) == len(pods) + (scenario.late is not None)


@pytest.mark.parametrize("scenario", FORCEABLE, ids=lambda scenario: scenario.name)
def test_something_is_to_be_repaired(scenario: Scenario) -> None:
    """The constraints are violated wherever an eviction is needed, and nowhere else."""
    assert at_rest(scenario) == (scenario.distance == 0)


@pytest.mark.parametrize("scenario", [*LIMITS, *LIMITED], ids=lambda scenario: scenario.name)
def test_nothing_but_the_limit_is_violated(scenario: Scenario) -> None:
    """The hard constraints hold; a node holds a third or more, and a place for what is over exists."""
    nodes = [held for zone in scenario.counts for held in zone]
    assert at_rest(scenario)
    assert 3 * max(nodes) >= sum(nodes)
    assert scenario.distance == over(scenario.counts) > 0
    assert (sum(nodes) - 1) // 3 * len(nodes) >= sum(nodes)


def test_random_ones_are_the_same_everywhere() -> None:
    """A seed always gives the same state."""
    assert random_clusters(200, 30, budget=True) == BUDGETED
    assert BUDGETED[0].title == "3 | 0,0 maxSkew 2 and 1, PodDisruptionBudget maxUnavailable 2"
