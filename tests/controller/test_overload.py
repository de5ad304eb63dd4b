"""An overloaded API server, over whole runs: after a 429 nothing is requested of it for as long as it asked."""

from datetime import timedelta

import pytest

from rebalancer.admission.admit import ServerOverloaded
from rebalancer.controller.sender import OVERLOAD_WAIT
from rebalancer.model.moves import Move
from rebalancer.model.reasons import Reason
from rebalancer.ports import EvictionAnswer, EvictionResult
from rebalancer.simulator import ZONE, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

NAMESPACES, WORKLOADS = 3, 2
"""Of each workload one pod has to go to the empty zone."""


class Overloaded(SimulatedCluster):
    """Answers one of the eviction requests, counted from 1, with 429; notes when each was sent."""

    overloaded_at: int
    retry_after: float
    sent: list[float]

    def evict(self, move: Move) -> EvictionAnswer:
        self.sent.append(self.seconds())
        if len(self.sent) == self.overloaded_at:
            return EvictionAnswer(EvictionResult.THROTTLED, "too many requests", retry_after=self.retry_after)
        return super().evict(move)


@pytest.mark.parametrize("retry_after", [0.0, 7.0, 95.0])
@pytest.mark.parametrize("overloaded_at", [1, 2, NAMESPACES * WORKLOADS])
def test_nothing_is_requested_until_the_time_that_the_server_asked_for(overloaded_at: int, retry_after: float) -> None:
    """No step is begun or stored, in any namespace, and each says for how long it waits; then all are repaired."""
    builder = a_cluster("abc", nodes=2)
    for number in range(NAMESPACES * WORKLOADS):
        on, namespace = {"a-1": 1, "a-2": 1, "b-1": 1}, f"shop-{number % NAMESPACES}"
        builder.deployment(f"web-{number}", namespace=namespace, on=on, spread={ZONE: 1})
    cluster = Overloaded(builder.snapshot(), seed=overloaded_at)
    cluster.overloaded_at, cluster.retry_after, cluster.sent = overloaded_at, retry_after, []
    simulation = Simulation(cluster, eager())
    while len(cluster.sent) < overloaded_at:
        simulation.cycles(1, apart=1.0)
    asked, moves = cluster.sent[-1], {move.uid for move in simulation.runner.state.memory.moves}
    assert len(cluster.sent) == overloaded_at
    wait = max(OVERLOAD_WAIT, retry_after)
    while cluster.seconds() < asked + wait:
        simulation.cycles(1, apart=1.0)
        assert {move.uid for move in simulation.runner.state.memory.moves} <= moves
        assert simulation.runner.state.cycle is not None
        admission = simulation.runner.state.cycle.admission
        assert admission.fates.going == ()
        said = simulation.runner.state.cycle.plan.made_at
        for waiting in admission.fates.kept:  # a rate may be used up for longer
            assert waiting.reason is Reason.RATE_LIMITED
            end = waiting.refusal.end.until(said)
            left = timedelta(seconds=asked + wait - cluster.seconds() - 1.0)
            assert isinstance(waiting.refusal, ServerOverloaded) or end is None or end - said >= left
    assert len(cluster.sent) == overloaded_at
    simulation.cycles(200, apart=1.0)
    assert simulation.evictions == NAMESPACES * WORKLOADS
    assert len(cluster.sent) == NAMESPACES * WORKLOADS + 1
