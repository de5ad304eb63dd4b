"""The Plan document of a proposal: what a person approves, or has approved, whatever holds it back at the moment."""

import json

import pytest
from hypothesis import given
from structlog.testing import capture_logs

from rebalancer.controller.cycle import Cycle
from rebalancer.documents.plan import proposal_document
from rebalancer.model.approvals import Proposal
from rebalancer.policy import Mode
from rebalancer.simulator import SimulatedCluster
from tests.controller.simulated import Simulation, eager
from tests.drawing import examples
from tests.planning.clusters import returned
from tests.reporting.test_plan_numbers import states


@given(states())
@examples(100)
def test_each_repair_of_a_proposal_has_a_step_of_its_own(cycle: Cycle) -> None:
    """By which its evictions are found: planning numbers only those of which something goes now."""
    plan, now = cycle.plan, cycle.context.now
    uids = tuple(eviction.pod.uid for eviction in plan.fates.evictions)
    proposal = Proposal(hash="0a1b", policy="9f3a", since=now, uids=uids, preempted=())
    document = proposal_document(plan, proposal, now, cycle.snapshot)
    groups = {group.step: group for group in document.groups}
    assert len(groups) == len(document.groups)
    assert [one.uid for one in document.evictions] == list(uids)
    for eviction in document.evictions:
        group = groups[eviction.step]
        assert (group.namespace, eviction.workload in group.workloads) == (eviction.namespace, True)


def played(simulation: Simulation, cycles: int, apart: float = 10.0) -> Cycle:
    """Run cycles, and return the last one."""
    with capture_logs():
        simulation.cycles(cycles, apart=apart)
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    return cycle


def test_a_proposal_says_what_it_changes_when_a_zone_is_lost_computed_once() -> None:
    """While it waits, each cycle has the numbers of the first; the next proposal has its own."""
    simulation = Simulation(SimulatedCluster(returned(), seed=1), eager(Mode.APPROVE))
    first = played(simulation, 1)
    document = json.loads(first.plan_json)
    assert first.effect is not None
    assert document["planHash"] == first.effect.hash
    (row, *_) = document["resilience"]["rows"]
    assert row["guaranteedAfter"] > row["guaranteedBefore"]
    later = played(simulation, 3)
    assert later is not first
    assert later.effect is first.effect
    other = played(simulation, 2, apart=3_600)
    assert other.effect is not None
    assert other.effect.hash != first.effect.hash
    assert other.effect is not first.effect


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.EVICT])
def test_where_nobody_approves_nothing_is_computed(mode: Mode) -> None:
    cycle = played(Simulation(SimulatedCluster(returned(), seed=1), eager(mode)), 1)
    assert cycle.effect is None
    assert json.loads(cycle.plan_json)["resilience"] is None
