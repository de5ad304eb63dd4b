"""EvictedByOthers: who evicts beside the rebalancer is named, for workloads with a constraint or a limit."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.assessment.findings import find_findings
from rebalancer.engine import evaluate
from rebalancer.model.moves import NO_MEMORY, Memory, OthersEvictions, Reference
from rebalancer.model.reasons import FindingKind
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, default_policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE, ClusterBuilder
from tests.build import a_cluster, a_policy
from tests.planning.clusters import nodes

WEB = Reference("default", "Deployment", "web")
LIMITED = """
groups:
  - name: plain
    selector: {matchLabels: {app: plain}}
    limits: [{name: half, topologyKey: topology.kubernetes.io/zone, maxShare: <=1/2}]
"""


def shop() -> ClusterBuilder:
    builder = a_cluster("abc", 1, {"a-1": 2, "b-1": 2, "c-1": 2}, spread={ZONE: 1})
    builder.deployment("plain", on={"a-1": 1, "b-1": 1})
    return builder


def told(snapshot: Snapshot, memory: Memory, policy: Policy | None = None) -> list[tuple[str, str]]:
    view = View(snapshot)
    findings = find_findings(view, assess(view, policy or default_policy(), memory), ())
    return [(one.object, one.message) for one in findings if one.kind is FindingKind.EVICTED_BY_OTHERS]


@pytest.mark.parametrize(
    ("name", "policy", "is_told"),
    [
        ("web", "groups: []", True),
        ("plain", LIMITED, True),
        ("plain", "groups: []", False),
        ("plain", "groups: []\nspread: {actOn: [DoNotSchedule, ScheduleAnyway]}", True),
        ("gone", LIMITED, False),
    ],
)
def test_a_workload_that_a_constraint_or_limit_concerns_is_named(name: str, policy: str, is_told: bool) -> None:
    """A soft one, as the scheduler's own defaults are, where the policy acts on it."""
    snapshot = shop().snapshot()
    workload = Reference("default", "Deployment", name)
    first, last = snapshot.taken_at - timedelta(minutes=3), snapshot.taken_at
    pods = tuple(f"{name}-{number}" for number in range(3))
    run = OthersEvictions(workload=workload, since=first, last=last, number=45, pods=pods, elsewhere=True)
    found = told(snapshot, Memory(evicted_by_others=(run,)), a_policy(policy))
    expected = (
        f"45 pods ({name}-0, {name}-1, {name}-2 and 42 more) of {workload} were evicted by others since "
        f"{first:%Y-%m-%d %H:%M:%SZ}, the last at {last:%H:%M:%SZ}: only the API server's audit log says who "
        "evicted them; let only one program evict pods of the workload"
    )
    assert found == ([(str(workload), expected)] if is_told else [])


def test_a_file_tells_of_pods_that_are_being_evicted_and_a_drain_is_named() -> None:
    """Without the memory of a controller, which would know its own."""
    snapshot = nodes(shop().snapshot(), lambda node: structs.replace(node, unschedulable=node.name == "a-1"))
    (victim, *_) = (pod for pod in snapshot.pods if pod.node == "a-1" and pod.labels["app"] == "web")
    at = snapshot.taken_at - timedelta(seconds=20)
    evicted = structs.replace(victim, evicted_at=at, deleted=snapshot.taken_at)
    read = replace(snapshot, pods=tuple(evicted if pod is victim else pod for pod in snapshot.pods))
    made = evaluate(read, default_policy())
    (one,) = made.assessment.evicted_by_others
    assert str(one).startswith(
        f"1 pod ({victim.name}) of default/web (Deployment) was evicted by others, or by a rebalancer in this cluster, "
        f"since {at:%Y-%m-%d %H:%M:%SZ}: node a-1 is being drained. "
    )
    assert one.until == at + timedelta(minutes=10)
    assert evaluate(read, default_policy(), memory=NO_MEMORY).assessment.evicted_by_others == ()
