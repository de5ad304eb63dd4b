"""What floods of one namespace cost the others: `python -m benchmarks.floods` prints a row for each.

The others are 25,000 workloads of six pods on 4,500 nodes, of which sixty are to be repaired. All objects come as the
API server sends them, in pages of 500 that are halved while they are larger than what one answer may be; another
process writes them, so that memory is that of reading and evaluating alone. Then the cluster is evaluated and the
plan's document made, as a cycle does. Each row is a process of its own; a ratio is to the row without a flood.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED
from rebalancer.decoding.lists import decode_items, make_snapshot, open_page
from rebalancer.documents.document import to_json
from rebalancer.documents.plan import plan_document
from rebalancer.engine import evaluate
from rebalancer.model.cluster import NEWEST
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.reasons import Reason
from rebalancer.policy import default_policy

NODES: Final = 4_500
WORKLOADS: Final = 25_000
PAGE: Final = 500
ANSWER: Final = 16 * 1024 * 1024
"""Bytes that a page may have: it is asked for again with fewer objects."""
SINCE: Final = "2026-11-01T00:00:00Z"
AT: Final = datetime(2026, 11, 2, tzinfo=UTC)

Object = dict[str, Any]
Objects = Iterator[tuple[str, Object]]
"""Objects with their kinds."""


def node(number: int) -> Object:
    """Return a node of one of three zones."""
    name = f"n{number}"
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": SINCE,
            "labels": {HOSTNAME: name, ZONE: f"z{number % 3}", "kubernetes.io/os": "linux"},
        },
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "500"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}],
        },
    }


def constraint(key: str, labels: Mapping[str, str]) -> Object:
    """Return a hard constraint."""
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }


def workload(space: str, name: str, on: list[int], labels: Mapping[str, str], **spec: Any) -> Objects:
    """Yield a ReplicaSet and its pods on nodes."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}}
    whole = {"containers": [container], **spec}
    common = {"namespace": space, "creationTimestamp": SINCE}
    template = {"metadata": {"labels": labels}, "spec": whole}
    yield (
        "ReplicaSet",
        {
            "metadata": {**common, "name": name, "uid": f"{space}-{name}"},
            "spec": {"replicas": len(on), "selector": {"matchLabels": labels}, "template": template},
            "status": {"replicas": len(on), "readyReplicas": len(on), "observedGeneration": 1},
        },
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"{space}-{name}", "controller": True}
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": SINCE} for kind in ("PodScheduled", "Ready")]
    for number, place in enumerate(on):
        metadata = {**common, "name": f"{name}-{number}", "uid": f"{space}-{name}-{number}", "labels": labels}
        yield (
            "Pod",
            {
                "metadata": {**metadata, "ownerReferences": [owner]},
                "spec": {**whole, "nodeName": f"n{place}"},
                "status": {"phase": "Running", "startTime": SINCE, "conditions": conditions},
            },
        )


def others() -> Objects:
    """Yield the nodes and the workloads that everything is about."""
    for number in range(NODES):
        yield "Node", node(number)
    for number in range(WORKLOADS):
        zones = 2 if number < 60 else 3  # the first have no pod in the third zone
        on = [3 * ((number * 7 + replica) % (NODES // 3)) + replica % zones for replica in range(6)]
        labels = {"app": f"w{number}"}
        yield from workload("shop", f"w{number}", on, labels, topologySpreadConstraints=[constraint(ZONE, labels)])


def constraints() -> Objects:
    """Yield forty pods of 3,000 constraints."""
    for number in range(40):
        labels = {"app": f"e{number}"}
        own = [constraint(f"example.com/key-{one}", labels) for one in range(3_000)]
        yield from workload("evil", f"e{number}", [number], labels, topologySpreadConstraints=own)


def terms() -> Objects:
    """Yield forty pods of 3,000 terms of anti-affinity that reach every namespace."""
    for number in range(40):
        own = [
            {
                "topologyKey": HOSTNAME,
                "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [{"key": f"k{number}-{one}", "operator": "Exists"}]},
            }
            for one in range(3_000)
        ]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": own}}
        yield from workload("evil", f"e{number}", [number], {"app": f"e{number}"}, affinity=affinity)


def singles() -> Objects:
    """Yield 5,000 workloads of one pod, each with a constraint over zones and one over nodes."""
    for number in range(5_000):
        labels = {"app": f"e{number}"}
        own = [constraint(ZONE, labels), constraint(HOSTNAME, labels)]
        yield from workload("evil", f"e{number}", [number % NODES], labels, topologySpreadConstraints=own)


def joined() -> Objects:
    """Yield 300 workloads that count each other's pods, in a ring, and are lopsided."""
    for number in range(300):
        own, following = f"pair{number}", f"pair{(number + 1) % 300}"
        spread = [constraint(ZONE, {own: "1"}), constraint(HOSTNAME, {following: "1"})]
        on = [3 * ((number + replica) % (NODES // 3)) + replica % 2 for replica in range(4)]
        labels = {"app": f"e{number}", own: "1", following: "1"}
        yield from workload("evil", f"e{number}", on, labels, topologySpreadConstraints=spread)


FLOODS: Final[Mapping[str, Callable[[], Objects]]] = {
    "none": lambda: iter(()),
    "40 pods of 3,000 constraints": constraints,
    "40 pods of 3,000 terms of anti-affinity": terms,
    "5,000 workloads of one pod": singles,
    "300 joined workloads": joined,
}


def write_pages(flood: str, folder: Path) -> None:
    """Write the pages of the lists, a file each, named by kind."""
    number = count()
    for source in (others(), FLOODS[flood]()):
        while part := list(islice(source, PAGE)):
            for kind in sorted({kind for kind, _ in part}):
                for page in divide([item for of, item in part if of == kind]):
                    (folder / f"{next(number):06}-{kind}").write_bytes(page)


def divide(items: list[Object]) -> Iterator[bytes]:
    """Yield the pages of objects, none of them larger than an answer may be."""
    page = json.dumps({"kind": "List", "metadata": {}, "items": items}).encode()
    if len(page) <= ANSWER or len(items) == 1:
        yield page
    else:
        half = len(items) // 2
        yield from divide(items[:half])
        yield from divide(items[half:])


def measure(folder: Path) -> tuple[float, float, int, int]:
    """Return the seconds of an evaluation, MiB of memory, evictions of the others, and what is too costly."""
    intern, objects = Interner(), dict[str, list[Any]]()
    for file in sorted(folder.iterdir()):
        kind = KIND_NAMED[file.name.partition("-")[2]]
        objects.setdefault(kind.field, []).extend(decode_items(kind, open_page(file.read_bytes()), intern).objects)
    snapshot = make_snapshot(objects, taken_at=AT, known=frozenset(KIND_NAMED), version=NEWEST)
    evaluate(snapshot, default_policy())  # what is imported and stored once
    began = time.perf_counter()
    made = evaluate(snapshot, default_policy())
    to_json(plan_document(made.plan, snapshot))
    seconds = time.perf_counter() - began
    planned = sum(one.eviction.pod.namespace == "shop" for one in made.plan.fates.kept)
    planned += sum(one.pod.namespace == "shop" for one in made.plan.fates.going)
    costly = sum(one.reason is Reason.NAMESPACE_TOO_COSTLY for one in made.plan.refusals)
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, planned, costly


def in_process(work: Callable[[], Any]) -> Any:
    """Return what is done in a process of its own."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, json.dumps(work()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        answer = file.read()
    if os.waitstatus_to_exitcode(os.wait()[1]):
        sys.exit(1)
    return json.loads(answer)


def main() -> None:
    """Measure and print."""
    print(
        "| flood of one namespace | cycle (s) | ratio | memory (MiB) | ratio | evictions of the others | too costly |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    alone: tuple[float, float] | None = None
    for flood in FLOODS:
        with TemporaryDirectory() as folder:
            in_process(partial(write_pages, flood, Path(folder)))
            seconds, memory, planned, costly = in_process(partial(measure, Path(folder)))
        alone = alone or (seconds, memory)
        print(
            f"| {flood} | {seconds:.2f} | {seconds / alone[0]:.2f} | {memory:.0f} | {memory / alone[1]:.2f} "
            f"| {planned} | {costly} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
