"""How fast counting, feasibility and supposed states are. Run: `python -m pytest benchmarks/test_scheduling.py -s`.

The claims compare with other work done in the same process, so that they hold on a slow or busy machine too; the
seconds are printed.
"""

import gc
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from benchmarks.scheduling_states import REPLICAS, large
from benchmarks.timing import seconds
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.pod_topology_spread import constraints_of, counts
from rebalancer.scheduling.scoring import best, best_of_all
from rebalancer.scheduling.view import View


@pytest.fixture(scope="module")
def full() -> tuple[Snapshot, list[Pod]]:
    made = large(nodes=5000, workloads=5000)
    # As the controller does after its first list: the collector need not walk through pods that stay.
    gc.collect()
    gc.freeze()
    return made


def full_skew(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[int, int]:
    """Count every constraint of every workload from nothing; returns (constraints, violated)."""
    view = View(snapshot)
    results = [counts(constraint, pod, view) for pod in pods for constraint in constraints_of(pod, view).hard]
    return len(results), sum(counted.violated for counted in results)


def test_full_skew_of_10_000_constraints(benchmark: Any, full: tuple[Snapshot, list[Pod]]) -> None:
    snapshot, pods = full
    number, _ = benchmark.pedantic(full_skew, args=(snapshot, pods), rounds=5, warmup_rounds=1)
    assert (number, len(snapshot.pods), len(snapshot.nodes)) == (10_000, 150_000, 5000)


def test_counting_costs_a_few_looks_at_each_pod(full: tuple[Snapshot, list[Pod]]) -> None:
    """Not constraints times pods: all skew costs less than 50 plain walks over the pods that read four fields."""
    snapshot, pods = full

    def walk() -> int:
        return sum(1 for pod in snapshot.pods if pod.node and pod.labels and pod.namespace and pod.deleted is None)

    skew, walked = seconds(lambda: full_skew(snapshot, pods)), seconds(walk)
    print(f"\nfull skew {skew:.3f} s, one walk over the pods {walked:.4f} s: {skew / walked:.1f} walks")
    assert skew < 50 * walked


def test_cost_grows_in_proportion_to_the_cluster() -> None:
    small, large_one = large(nodes=1000, workloads=1000), large(nodes=4000, workloads=4000)
    ratio = seconds(lambda: full_skew(*large_one)) / seconds(lambda: full_skew(*small))
    print(f"\nfour times the cluster: {ratio:.1f} times the time")
    assert ratio < 8


def test_a_supposed_state_costs_a_thousandth_of_a_new_one(full: tuple[Snapshot, list[Pod]]) -> None:
    snapshot, _ = full
    view = View(snapshot)
    pods = snapshot.pods[:100]
    view.terminating(pods[:1])

    def step_through() -> None:
        state = view
        for pod in pods:
            state = state.terminating([pod])

    stepping, building = seconds(step_through) / len(pods), seconds(lambda: View(snapshot))
    print(f"\none supposed state {stepping * 1e6:.0f} µs, a new view {building * 1e3:.0f} ms")
    assert stepping * 1000 < building


def test_feasibility_in_a_supposed_state(benchmark: Any, full: tuple[Snapshot, list[Pod]]) -> None:
    """One pod against 5,000 nodes with 150,000 pods, each time in another state."""
    snapshot, _ = full
    view = View(snapshot)
    victim = snapshot.pods[0]
    newcomer = structs.replace(victim, uid="new", node=None)
    feasible(newcomer, view)

    def once() -> frozenset[str]:
        return feasible(newcomer, view.terminating([victim]))

    assert 0 < len(benchmark(once)) <= 5000 - (REPLICAS - 1) // 2


def test_the_best_of_any_sample_costs_less_than_scoring_every_node(full: tuple[Snapshot, list[Pod]]) -> None:
    """20 pods with a soft zone and a soft host name constraint, each in another state of 5,000 nodes."""
    snapshot, pods = full
    view = View(snapshot)
    states = [(soften(pod), view.without([pod])) for pod in pods[:20]]
    nodes = view.nodes.names

    def by_samples() -> list[int]:
        return [len(best(pod, state, nodes)) for pod, state in states]

    first = seconds(by_samples, times=1)
    sampled = seconds(by_samples)
    scored = seconds(lambda: [best_of_all(pod, state, nodes) for pod, state in states])
    print(f"\nof any sample {sampled * 50:.1f} ms a pod, first {first * 50:.1f}; every node {scored * 50:.1f} ms a pod")
    assert max(by_samples()) < len(nodes)
    assert sampled < scored


def soften(pod: Pod) -> Pod:
    """Return a pod to be placed whose constraints are soft."""
    soft = WhenUnsatisfiable.SCHEDULE_ANYWAY
    spread = tuple(structs.replace(constraint, when_unsatisfiable=soft) for constraint in pod.spec.spread)
    return structs.replace(pod, uid=f"{pod.uid} new", node=None, spec=structs.replace(pod.spec, spread=spread))
