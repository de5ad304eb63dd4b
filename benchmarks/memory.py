"""How much memory the controller's process takes: `python -m benchmarks.memory` prints a row for each number of pods.

Pods come as the API server sends them, in pages of 500, and are stored as the watches store them. Then a zone has come
back empty: the whole cluster is evaluated, every repair planned, and the plan's document made, as a cycle does. That is
the most that one cycle takes. The requests in the Helm chart's README follow from it. Each size runs in a process
of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.planning_states import zone_returned
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode_items, open_page
from rebalancer.documents.document import to_json
from rebalancer.documents.plan import plan_document
from rebalancer.engine import evaluate
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy

SIZES = (1_500, 15_000, 60_000, 150_000)
REPLICAS = 30
"""Pods of a workload, and of a node."""

PAGE = 500


def pages(pods: Sequence[Pod]) -> Iterator[bytes]:
    """Yield the pods as pages of a list, with what pods commonly have besides what is read of them."""
    for start in range(0, len(pods), PAGE):
        items = [as_sent(pod) for pod in pods[start : start + PAGE]]
        yield json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}).encode()


def as_sent(pod: Pod) -> dict[str, Any]:
    owner = pod.owner
    assert owner is not None
    since = "2020-01-01T00:00:00Z"
    reference = {"apiVersion": "apps/v1", "kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}
    container = {
        "name": "main",
        "image": f"registry.example/{owner.name}:1",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "env": [{"name": f"VARIABLE_{number}", "value": f"value {number}"} for number in range(20)],
    }
    constraints = [
        {
            "topologyKey": constraint.topology_key,
            "maxSkew": constraint.max_skew,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": owner.name}},
        }
        for constraint in pod.spec.spread
    ]
    return {
        "metadata": {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "labels": dict(pod.labels),
            "creationTimestamp": since,
            "resourceVersion": "1",
            "ownerReferences": [reference],
        },
        "spec": {"nodeName": pod.node, "containers": [container], "topologySpreadConstraints": constraints},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
        },
    }


def decode(pods: Sequence[Pod]) -> list[Pod]:
    """Decode pages one by one, with one interner, as a watch does."""
    intern = Interner()
    return [pod for page in pages(pods) for pod in decode_items(PODS, open_page(page), intern).objects]


def measure(size: int) -> str:
    """Return the row of one size."""
    count = size // REPLICAS
    made = zone_returned(nodes=count, workloads=count, replicas=REPLICAS)
    workloads, nodes, taken_at = made.workloads, made.nodes, made.taken_at
    snapshot = Snapshot(taken_at=taken_at, nodes=nodes, pods=decode(made.pods), workloads=workloads)
    del made
    policy = default_policy()
    result = evaluate(snapshot, policy).plan
    document = plan_document(result, snapshot)
    written = len(to_json(document))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{size:7}  {count:6}  {document.totals.evictions:9}  {written / 2**20:8.1f}  {most:7.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--pods", type=int, help="this number only, in this process")
    options = parser.parse_args(arguments)
    if options.pods:
        print(measure(options.pods))
        return
    print("   pods   nodes  evictions  plan MiB  at most MiB")
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.memory", "--pods", str(size)]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip(), flush=True)


if __name__ == "__main__":
    main()
