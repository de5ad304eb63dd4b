"""What sizes without a placement cost of a cycle. Run: `python -m pytest benchmarks/test_sizes.py -s`.

150,000 pods of 5,000 Deployments on 5,000 nodes, each with a hard constraint over zones and one over nodes, and with a
HorizontalPodAutoscaler up to twice its replicas.
"""

from dataclasses import replace

import pytest

from benchmarks.scheduling_states import REPLICAS
from benchmarks.test_limits import full
from benchmarks.timing import seconds
from rebalancer.assessment.assess import assess, find_sizes
from rebalancer.assessment.findings import find_findings
from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.sizes.layout import evaluate_sizes
from rebalancer.engine import evaluate
from rebalancer.model.cluster import Autoscaler
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy
from rebalancer.scheduling.view import View

__all__ = ["full"]  # a fixture

SHARE = 0.05
"""The most of a cycle that sizes may cost."""


@pytest.fixture(scope="module")
def autoscaled(full: Snapshot) -> Snapshot:
    """Return the cluster with autoscalers of all workloads."""
    scalers = [
        Autoscaler(
            namespace=owner.namespace,
            name=owner.name,
            target_kind=owner.kind,
            target_name=owner.name,
            max_replicas=2 * REPLICAS,
        )
        for owner in full.workloads
        if owner.kind == "Deployment"
    ]
    return replace(full, autoscalers=scalers)


def test_sizes_cost_at_most_a_twentieth_of_a_cycle(autoscaled: Snapshot) -> None:
    """By processor time in one run: evaluation and findings. The first cycle, in which nothing is known, is printed."""
    policy = default_policy()
    assessed = assess(View(autoscaled), policy, NO_MEMORY)
    assert len(assessed.sizes) == len(autoscaled.autoscalers)
    view = View(autoscaled)
    groups = assess(view, policy, NO_MEMORY).groups
    knowledge = DomainKnowledge.of(view, policy, NO_MEMORY)
    evaluate_sizes.cache_clear()
    first = seconds(lambda: find_sizes(groups, view, policy, knowledge), times=1)
    later = seconds(lambda: find_sizes(groups, view, policy, knowledge), times=9)
    cycle = seconds(lambda: evaluate(autoscaled, policy), times=2)
    cycle += seconds(lambda: find_findings(View(autoscaled), assessed, ()), times=2)
    wrong = sum(sizes.verdict.number > 0 for sizes in assessed.sizes)
    print(
        f"\nsizes {later:.2f} s of a cycle of {cycle:.2f} s ({later / cycle:.1%}); first {first:.2f} s; {wrong} found"
    )
    assert later < SHARE * cycle
