"""What limits cost on top of the skew. Run: `python -m pytest benchmarks/test_limits.py -s`.

150,000 pods of 5,000 Deployments on 5,000 nodes, with the shipped group: every workload, by node and by zone.
"""

import gc
from dataclasses import replace

import pytest
from msgspec import structs

from benchmarks.scheduling_states import REPLICAS, large
from benchmarks.timing import seconds
from rebalancer.assessment.assess import assess
from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.limit_groups import find_limit_groups
from rebalancer.assessment.limits.evaluate import evaluate_limits
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.pods import OwnerReference
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.policy import default_policy
from rebalancer.scheduling.view import View

WORKLOADS = 5_000


@pytest.fixture(scope="module")
def full() -> Snapshot:
    snapshot, _ = large(nodes=5_000, workloads=WORKLOADS)
    owners, pods = [], []
    for number in range(WORKLOADS):
        own = snapshot.pods[number * REPLICAS : (number + 1) * REPLICAS]
        template = PodTemplate(labels=own[0].labels, spec=own[0].spec, requests=own[0].requests)
        top, below = (
            Workload(
                group="apps",
                kind=kind,
                namespace=own[0].namespace,
                name=f"w{number}",
                uid=f"{kind}-{number}",
                template=template,
                replicas=REPLICAS,
                created=snapshot.taken_at,
                owner=OwnerReference(group="apps", kind="Deployment", name=f"w{number}", uid=f"Deployment-{number}")
                if kind == "ReplicaSet"
                else None,
            )
            for kind in ("Deployment", "ReplicaSet")
        )
        owners += [top, below]
        reference = OwnerReference(group="apps", kind="ReplicaSet", name=below.name, uid=below.uid)
        pods += [structs.replace(pod, owner=reference) for pod in own]
    made = replace(snapshot, pods=pods, workloads=owners)
    gc.collect()
    gc.freeze()
    return made


def limits_of(view: View) -> list[EvaluatedLimit]:
    policy = default_policy()
    knowledge = DomainKnowledge.of(view, policy, NO_MEMORY)
    result = evaluate_limits(find_limit_groups(view, policy.groups), view, NO_MEMORY, knowledge)
    return [limit for limit in result if limit.state is not State.SATISFIED]


def test_limits_cost_less_than_the_skew(full: Snapshot) -> None:
    """10,000 limits judged on top of what an assessment works out anyway, in less time than that takes."""
    without = default_policy().model_copy(update={"groups": ()})
    rest = seconds(lambda: assess(View(full), without, NO_MEMORY).violated)
    view = View(full)
    judged = assess(view, default_policy(), NO_MEMORY)
    assert (len(judged.pod_groups), len(judged.limits)) == (WORKLOADS, 2 * WORKLOADS)
    limits = seconds(lambda: limits_of(view))
    print(f"\nlimits {limits:.3f} s on top of {rest:.3f} s: {2 * WORKLOADS} limits, {len(full.pods)} pods")
    assert limits < rest
