"""The model preempts what the real kube-scheduler preempts: the same node, the same pods.

Drawn clusters that are full (`tests/fidelity/preemption_scenes.py`), each from its seed, with two pods one after the
other. `make thorough` plays 100 more; the figures are printed; docs/results.md has the last ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from rebalancer.scheduling.preemption import PreemptionOutlook
from tests.cluster.test_fidelity import ready
from tests.fidelity.preemption import PreemptionArena, preemption_arena
from tests.fidelity.preemption_scenes import preemption_scene

ORDINARY = 15
THOROUGH = 100
FIRST_THOROUGH_SEED = 1000


@pytest.fixture(scope="module")
def scheduler() -> Iterator[PreemptionArena]:
    ready()
    with preemption_arena() as made:
        yield made


def describe(outlook: PreemptionOutlook | None) -> str:
    if outlook is None:
        return "a node is feasible"
    if not outlook.outcomes:
        return f"nothing preempted: {outlook.obstacle}"
    if not outlook.complete:
        return "preempted, not every outcome known"
    return "preempted, certain" if outlook.certain else "preempted, one of several outcomes"


def play(scheduler: PreemptionArena, seeds: range) -> Counter[str]:
    results: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in seeds:
        for trial in scheduler.preempt(preemption_scene(seed)):
            outlook = trial.prediction.preemption
            results[describe(outlook)] += 1
            outcomes = outlook.outcomes if outlook is not None else ()
            results["victims"] += max((len(outcome.victims) for outcome in outcomes), default=0)
            results["with violated budgets"] += any(outcome.violations for outcome in outcomes)
            wrong += trial.wrong
    lines = "\n".join(f"  {what}: {number}" for what, number in sorted(results.items()))
    print(f"\nseeds {seeds.start} to {seeds.stop - 1}, differences: {len(wrong)}\n{lines}")
    assert not wrong, "\n".join(wrong)
    return results


def test_node_and_victims_are_those_of_the_scheduler(scheduler: PreemptionArena) -> None:
    """15 full clusters: the node for which the pod is nominated, and the pods that are deleted for it."""
    results = play(scheduler, range(ORDINARY))
    assert results["preempted, certain"] > 0
    assert results["with violated budgets"] > 0


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_many_clusters_agree(scheduler: PreemptionArena) -> None:
    """100 full clusters without a difference."""
    results = play(scheduler, range(FIRST_THOROUGH_SEED, FIRST_THOROUGH_SEED + THOROUGH))
    assert results["preempted, one of several outcomes"] > 0
