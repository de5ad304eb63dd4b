"""The reason that is printed is the scheduler's: one pod of each drawn state is deleted, and its events are read.

A batch is a cluster of nine nodes, of which those of zone c are closed in different ways, and ten workloads that lack a
pod in zone c. What is printed of each counts nodes by filter; FailedScheduling of the replacement does so, too. Each
remedy that is printed is carried out in a simulated cluster, which is repaired then.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pytest
from msgspec import structs

from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.engine import evaluate
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.plan import ComponentPlan
from rebalancer.policy import load_policy
from rebalancer.simulator import SimulatedCluster
from tests.control_plane.api import Api, in_parallel, wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, node, pod, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, object_path
from tests.controller.simulated import Simulation, eager

PER_BATCH: Final = 10
POLICY: Final = load_policy(
    b"apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\nmode: Evict\nspread: {for: 0s}\nnodes: {settle: 0s}\n"
    b'budgets: {maxUnavailable: "100%", perWorkload: "100%"}\neligibility: {minAge: 0s, minReplicas: 1}\ngroups: []\n',
    source="policy.yaml",
)
KEPT: Final = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
SLOW: Final = {"key": "slow", "effect": "NoSchedule"}
TOLERATED: Final = {"key": "dedicated", "operator": "Exists"}
PORT: Final = [{"containerPort": 80, "hostPort": 8080}]
SMALL_CPU, SMALL_MEMORY = "250m", "160Mi"


class Batch(NamedTuple):
    """Nodes, pods that stand in the way, and workloads, each in a namespace of its own."""

    nodes: Sequence[Manifest]
    fillers: Sequence[Manifest]
    workloads: Sequence[Workload]


def draw(choice: random.Random, number: int) -> Batch:
    """Draw a batch: in zone c each node has something that rejects most pods, elsewhere some have."""
    nodes, fillers = [], []
    for zone in "abc":
        for index in range(3):
            name, closed = f"{zone}-{index}", zone == "c"
            how = choice.choice(["cordon", "taint", "slow", "cpu", "memory", "pods"] if closed else ["", "", "cordon"])
            nodes.append(
                node(
                    name,
                    zone=zone,
                    unschedulable=how == "cordon",
                    taints={"taint": [KEPT], "slow": [SLOW]}.get(how, []),
                    cpu=SMALL_CPU if how == "cpu" else "32",
                    memory=SMALL_MEMORY if how == "memory" else "128Gi",
                    pods=1 if how == "pods" else 110,
                    labels={"disk": choice.choice(["ssd", "hdd"]) if closed else "ssd"},
                )
            )
            if closed:
                port: dict[str, Any] = {"containers": [{"name": "app", "image": "registry.test/app", "ports": PORT}]}
                fillers.append(
                    pod(
                        f"filler-{name}",
                        on=name,
                        namespace="fillers",
                        cpu="200m",
                        memory="128Mi",
                        **(port if choice.random() < 0.5 else {}),
                    )
                )
    with_port = choice.randrange(PER_BATCH)
    return Batch(nodes, fillers, [draw_workload(choice, f"r{number}-{at}", at == with_port) for at in range(PER_BATCH)])


def draw_workload(choice: random.Random, space: str, with_port: bool) -> Workload:
    """Draw three pods in zone a and two in zone b, each on a node of its own."""
    spec: dict[str, Any] = {"topologySpreadConstraints": [spread(ZONE, labels={"app": "web"})]}
    if choice.random() < 0.3:
        spec["tolerations"] = [TOLERATED]
    if choice.random() < 0.3:
        spec["nodeSelector"] = {"disk": "ssd"}
    cpu, memory = choice.choice([("100m", "64Mi"), ("200m", "64Mi"), ("100m", "128Mi"), ("200m", "128Mi")])
    if with_port:
        requests = {"requests": {"cpu": cpu, "memory": memory}}
        spec["containers"] = [{"name": "app", "image": "registry.test/app", "ports": PORT, "resources": requests}]
    on = ["a-0", "a-1", "a-2", "b-0", "b-1"]
    return deployment("web", on, namespace=space, labels={"app": "web"}, cpu=cpu, memory=memory, **spec)


def check(plane: ControlPlane, numbers: Sequence[int]) -> int:
    """Play some batches; return how many states were unfixable and read."""
    read, remedies = 0, Counter[str]()
    for number in numbers:
        batch = draw(random.Random(f"reasons {number}"), number)
        lay_out(plane, [*batch.nodes, *batch.fillers, *batch.workloads])
        snapshot = read_once(connect(kubeconfig=str(plane.kubeconfig())), datetime.now(UTC))
        components = evaluate(snapshot, POLICY).plan.components
        shown = [one for one in components if isinstance(one.refusal, NodesTakeNoMore) and one.refusal.pod]
        in_parallel(lambda one: delete(plane.api, one), shown)
        for component in shown:
            compare(plane.api, component)
            refusal = component.refusal
            assert isinstance(refusal, NodesTakeNoMore)
            if refusal.remedy:
                remedies[refusal.remedy.split()[0]] += 1
                assert is_repaired_by(refusal.remedy, snapshot, space_of(component)), refusal
        read += len(shown)
        clear(plane, batch)
    print(f"{read} unfixable states, remedies that helped: {dict(remedies)}")
    assert remedies, "no remedy was tried"
    return read


def space_of(component: ComponentPlan) -> str:
    return component.workloads[0].namespace


def delete(api: Api, component: ComponentPlan) -> None:
    assert isinstance(component.refusal, NodesTakeNoMore)
    space = space_of(component)
    api.delete(f"/api/v1/namespaces/{space}/pods/{component.refusal.pod}", grace_seconds=0)


def compare(api: Api, component: ComponentPlan) -> None:
    """Compare the filters and numbers that are printed with those of the replacement's event."""
    refusal, space = component.refusal, space_of(component)
    assert isinstance(refusal, NodesTakeNoMore)
    printed = Counter[str]()
    for rejection in refusal.rejections:
        printed[rejection.reason] += rejection.nodes
        assert str(rejection) in str(refusal)
    # The scheduler may see the replacement before it sees that the pod is gone, and looks again then.
    expected = refusal.nodes, printed
    wait_until(
        lambda: any(parse(message) == expected for message in failures(api, space)),
        what=f"the scheduler to say of a pod in {space} that {refusal}; it says {failures(api, space)}",
    )


def failures(api: Api, space: str) -> list[str]:
    events = api.list(f"/apis/events.k8s.io/v1/namespaces/{space}/events")
    return [entry["note"] for entry in events if entry["reason"] == "FailedScheduling"]


def parse(message: str) -> tuple[int, Counter[str]]:
    """Return the number of nodes and what rejects how many, without what is said of preemption."""
    head, _, rest = message.partition(": ")
    reasons = rest.partition(". ")[0].rstrip(".")
    counted = Counter[str]()
    for part in reasons.split(", "):
        number, _, reason = part.partition(" ")
        counted[reason] += int(number)
    return int(re.match(r"0/(\d+) nodes", head).group(1)), counted  # type: ignore[union-attr]


def is_repaired_by(remedy: str, snapshot: Snapshot, space: str) -> bool:
    """Carry a remedy out in a simulated cluster; return whether the workload is repaired there, alone."""
    alone = replace(
        snapshot,
        pods=tuple(one for one in snapshot.pods if one.namespace in {space, "fillers"}),
        workloads=tuple(one for one in snapshot.workloads if one.namespace == space),
    )
    cluster = SimulatedCluster(carry_out(remedy, alone))
    Simulation(cluster, eager(groups=())).cycles(10, apart=30)
    after = cluster.snapshot(cluster.now)
    values = {one.name: one.labels[ZONE] for one in after.nodes}
    counts = Counter(values[one.node] for one in after.pods_in[space] if one.node and not one.terminating)
    return sum(counts.values()) == 5 and max(counts.values()) - min(counts[zone] for zone in "abc") <= 1


def carry_out(remedy: str, snapshot: Snapshot) -> Snapshot:
    """Do what a remedy says: uncordon nodes, remove a taint, or take away the other pods of nodes."""
    named = set(re.findall(r"\b[abc]-\d\b", remedy))
    if remedy.startswith("Free"):
        pods = tuple(one for one in snapshot.pods if one.node not in named or one.namespace != "fillers")
        return replace(snapshot, pods=pods)
    nodes = []
    for one in snapshot.nodes:
        changed = one
        if one.name in named and remedy.startswith("Uncordon"):
            changed = structs.replace(one, unschedulable=False, taints=())
        elif one.name in named:
            assert remedy.startswith("Remove the taint")
            changed = structs.replace(one, taints=tuple(each for each in one.taints if str(each) != remedy.split()[3]))
        nodes.append(changed)
    return replace(snapshot, nodes=tuple(nodes))


def clear(plane: ControlPlane, batch: Batch) -> None:
    """Take everything of a batch away, so that the next one has nodes of its own."""
    api = plane.api
    owners = [workload.owners[-1] for workload in batch.workloads]
    in_parallel(lambda owner: api.delete(object_path(owner), missing_ok=True), owners)
    in_parallel(lambda one: api.delete(object_path(one), grace_seconds=0, missing_ok=True), batch.fillers)
    wait_until(lambda: not api.list("/api/v1/pods", labels="app=web"), what="the pods to go", timeout=120)
    wait_until(lambda: not api.list("/api/v1/namespaces/fillers/pods"), what="the fillers to go", timeout=60)
    in_parallel(lambda one: api.delete(f"/api/v1/nodes/{one['metadata']['name']}"), batch.nodes)


@pytest.mark.invariant("reasons")
def test_thirty_unfixable_states(cluster: ControlPlane) -> None:
    """The same filters and numbers; each remedy repairs the state."""
    assert check(cluster, range(5)) >= 30


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_three_hundred_unfixable_states(cluster: ControlPlane) -> None:
    """So in many more."""
    assert check(cluster, range(5, 60)) >= 300
