"""How fast planning is. Run: `python -m pytest benchmarks/test_planning.py -s`.

The claims compare with other work done in the same process, so that they hold on a slow or busy machine too; the
seconds of processor time are printed.
"""

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.planning_states import uneven, zone_returned
from benchmarks.timing import seconds
from rebalancer.cli.main import collect_rarely
from rebalancer.engine import evaluate
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.policy import default_policy
from rebalancer.scheduling.pod_topology_spread import constraints_of, counts
from rebalancer.scheduling.view import View

POLICY = default_policy()


@pytest.fixture(autouse=True)
def _as_the_process_does() -> Iterator[None]:
    """Let the collector work as it does in the process (`cli.main`)."""
    before = gc.get_threshold()
    collect_rarely()
    yield
    gc.set_threshold(*before)


def plan_from_nothing(snapshot: Snapshot) -> Plan:
    """Assess and plan from nothing: without what a snapshot has found out about itself before."""
    return evaluate(replace(snapshot), POLICY).plan


def full_skew(snapshot: Snapshot) -> int:
    """Count every constraint of every workload from nothing, and do nothing else."""
    view = View(replace(snapshot))
    samples = {pod.labels: pod for pod in snapshot.pods}.values()
    return sum(
        counts(constraint, pod, view).violated for pod in samples for constraint in constraints_of(pod, view).hard
    )


def test_a_zone_returned() -> None:
    """150,000 pods on 5,001 nodes, 50,000 evictions with proof: at most fifteen times what counting alone costs."""
    snapshot = zone_returned(nodes=5001, workloads=5000)
    plan = plan_from_nothing(snapshot)
    assert plan.lower_bound == sum(group.evictions for group in plan.components) == 50_000
    assert len(plan.fates.going) + len(plan.fates.kept) == 50_000
    planned, counted = seconds(lambda: plan_from_nothing(snapshot)), seconds(lambda: full_skew(snapshot))
    print(f"\nassess and plan {planned:.2f} s, counting alone {counted:.2f} s: {planned / counted:.1f} times")
    assert planned < 15 * counted


def test_a_zone_returned_with_max_skew_2() -> None:
    """The same with maxSkew 2 on the zones, where the scheduler has a choice: no search, and no slower."""
    snapshot = zone_returned(nodes=5001, workloads=5000, zone_skew=2)
    plan = plan_from_nothing(snapshot)
    assert plan.lower_bound == sum(group.evictions for group in plan.components) == 45_000
    assert len(plan.fates.going) + len(plan.fates.kept) == 45_000
    planned, counted = seconds(lambda: plan_from_nothing(snapshot)), seconds(lambda: full_skew(snapshot))
    print(f"\nmaxSkew 2 {planned:.2f} s, counting alone {counted:.2f} s: {planned / counted:.1f} times")
    assert planned < 15 * counted


def test_balanced() -> None:
    """A balanced cluster of that size costs little more than counting."""
    snapshot = zone_returned(nodes=5001, workloads=5000, filled=3)
    assert plan_from_nothing(snapshot).components == ()
    planned, counted = seconds(lambda: plan_from_nothing(snapshot)), seconds(lambda: full_skew(snapshot))
    print(f"\nbalanced {planned:.2f} s, counting alone {counted:.2f} s: {planned / counted:.1f} times")
    assert planned < 6 * counted


def test_a_full_target_zone_costs_a_bounded_part_more_than_an_empty_one() -> None:
    """Where the zone that came back has no capacity, saying so is as fast as planning would be, but for the examples.

    Of the first 300 workloads it is said why every node rejects a pod of theirs (`diagnosis_nodes_of_plan`).
    """
    empty, full = zone_returned(nodes=5001, workloads=5000), zone_returned(nodes=5001, workloads=5000, full=True)
    assert not plan_from_nothing(full).fates.going
    into_empty, into_full = seconds(lambda: plan_from_nothing(empty)), seconds(lambda: plan_from_nothing(full))
    print(f"\ninto an empty zone {into_empty:.2f} s, into a full one {into_full:.2f} s")
    assert into_full < 3 * into_empty


def test_cost_grows_in_proportion_to_the_cluster() -> None:
    """Four times the cluster takes about four times as long."""
    small, large = zone_returned(nodes=1002, workloads=1000), zone_returned(nodes=4008, workloads=4000)
    ratio = seconds(lambda: plan_from_nothing(large)) / seconds(lambda: plan_from_nothing(small))
    print(f"\nfour times the cluster: {ratio:.1f} times the time")
    assert ratio < 8


@pytest.mark.parametrize("nodes", [999, 1000])
def test_one_large_workload(nodes: int) -> None:
    """One workload of 3,000 pods on 1,000 nodes is planned within what counting 150,000 pods costs."""
    one, many = zone_returned(nodes=nodes, workloads=1, replicas=3000), zone_returned(nodes=5001, workloads=5000)
    planned, counted = seconds(lambda: plan_from_nothing(one)), seconds(lambda: full_skew(many), times=1)
    print(f"\n3,000 pods on {nodes} nodes {planned:.3f} s")
    assert planned < counted


def test_one_of_equal_repairs_is_searched() -> None:
    """150 equal workloads that need the search are planned nearly as fast as 150 that need none."""
    sure, searched = (zone_returned(501, 150, 12, zones=4, zone_skew=skew) for skew in (1, 2))
    plan = plan_from_nothing(searched)
    assert len({eviction.workload for eviction in plan.fates.going}) == 150
    without, once = seconds(lambda: plan_from_nothing(sure)), seconds(lambda: plan_from_nothing(searched))
    print(f"\n150 equal workloads without a search {without:.3f} s, with one {once:.3f} s")
    assert once < 3 * without


def test_repairs_that_need_the_search() -> None:
    """200 workloads of which none is certain: a step is proved for most, in time that grows with their number."""
    some, more = uneven(50), uneven(200)
    plan = plan_from_nothing(more)
    stepping = {eviction.workload for eviction in plan.fates.going} | {
        waiting.eviction.workload for waiting in plan.fates.kept
    }
    few, many = seconds(lambda: plan_from_nothing(some), times=2), seconds(lambda: plan_from_nothing(more), times=2)
    print(
        f"\n{len(plan.components)} workloads that need the search {many:.2f} s: {plan.lower_bound} evictions needed, "
        f"{len(plan.fates.going)} now, steps for {len(stepping)}; a quarter of them {few:.2f} s"
    )
    assert 2 * len(stepping) > len(plan.components)
    assert many < 8 * few
