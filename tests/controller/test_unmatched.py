"""The controller logs what its policy names and the cluster lacks: once, not with every cycle."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.controller.state import PolicyLoaded, TeamPoliciesRead
from rebalancer.controller.telemetry import Telemetry
from rebalancer.locations import Address
from rebalancer.policy import (
    NO_TEAM_POLICY,
    Amount,
    Limit,
    Policy,
    PolicyGroup,
    Selector,
    TeamBudgets,
    TeamPolicies,
    TeamPolicy,
    TeamReading,
    default_policy,
)
from rebalancer.policy.teams import TeamGroup
from rebalancer.simulator import ZONE, SimulatedCluster
from tests.adapters.kubernetes.fake_server import served
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

LISTING = TeamPolicies(namespaces=("default",))


def of_group(name: str, **fields: Any) -> Policy:
    return eager(groups=(PolicyGroup(name=name, selector=Selector(), **fields),))


Starting = Callable[[Policy], Simulation]


@pytest.fixture
def running() -> Iterator[Starting]:
    """Start a controller whose observer is the process's own, over the simulated cluster."""
    with served(lambda _: None) as transport, ExitStack() as ending:

        def start(policy: Policy) -> Simulation:
            cluster = SimulatedCluster(a_cluster("ab", 1, {"a-1": 1, "b-1": 1}).snapshot())
            telling = Telemetry(cast("KubernetesCluster", cluster), Address("127.0.0.1", 0), transport, interval=60)
            telling.start()
            ending.callback(telling.stop)
            return Simulation(cluster, policy, telling)

        yield start


def warned(simulation: Simulation, cycles: int) -> list[str]:
    with capture_logs() as logs:
        simulation.cycles(cycles)
    return [entry["what"] for entry in logs if entry["event"] == "policy references objects that do not exist"]


def test_an_edit_of_a_team_policy_logs_nothing_again(running: Starting) -> None:
    """Only what it references newly: hundreds of teams may edit theirs."""
    simulation = running(of_group("own", group_by=("shard",)).model_copy(update={"team_policies": LISTING}))

    def warned_after(team: TeamPolicy) -> list[str]:
        simulation.runner.tell(TeamPoliciesRead(teams={"default": TeamReading(policy=team)}))
        return warned(simulation, 2)

    assert len(warned_after(NO_TEAM_POLICY)) == 1
    budgets = TeamBudgets(per_namespace=Amount(value=1))
    assert warned_after(NO_TEAM_POLICY.model_copy(update={"budgets": budgets})) == []
    groups = (TeamGroup(name="new", selector=Selector(), group_by=("tier",)),)
    assert warned_after(NO_TEAM_POLICY.model_copy(update={"groups": groups})) == [
        "group default/new: groupBy tier is a label of no pod that is selected"
    ]


def test_it_is_logged_once_for_a_policy(running: Starting) -> None:
    """Several cycles of one policy log it once; another policy logs it again."""
    simulation = running(of_group("first", group_by=("shard",)))
    reported = "groupBy shard is a label of no pod that is selected"
    assert warned(simulation, 3) == [f"group first: {reported}"]
    simulation.runner.tell(PolicyLoaded(policy=of_group("second", group_by=("shard",))))
    assert warned(simulation, 2) == [f"group second: {reported}"]
    simulation.runner.tell(PolicyLoaded(policy=of_group("second", group_by=("app",))))
    assert warned(simulation, 2) == []


def test_it_is_logged_again_when_it_comes_back(running: Starting) -> None:
    """A missing domain is logged again after it was there; with fewer nodes it is still the same warning."""
    limits = [
        Limit(name=name, topology_key=key, max_pods=9, domains=("b",)) for name, key in (("l", ZONE), ("r", "rack"))
    ]
    simulation = running(of_group("all", limits=tuple(limits)))
    rack, zone = "topologyKey rack is a label of none of 2 nodes", f"domains b is the {ZONE} of no node"
    assert warned(simulation, 2) == [f"group all, limit r: {rack}"]
    nodes = simulation.cluster.nodes
    for _ in range(2):
        nodes.remove("b-1")
        assert warned(simulation, 2) == [f"group all, limit l: {zone}"]
        nodes.restore("b-1")
        assert warned(simulation, 2) == []


def test_the_shipped_policy_says_nothing(running: Starting) -> None:
    assert warned(running(default_policy()), 2) == []
