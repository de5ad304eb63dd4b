"""A guard against slowness: times are compared with reference work of the same run, never with seconds.

Each bound has a margin to what was measured, so that a busy machine does not exceed it, and a pass over all pods for
each workload does.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.planning_states import zone_returned
from benchmarks.recorded import objects
from benchmarks.recorded.states import SCENARIOS
from benchmarks.timing import seconds
from rebalancer.assessment.anti_affinity.evaluate import evaluate_anti_affinity
from rebalancer.assessment.assess import assess
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode_items, open_page
from rebalancer.engine import evaluate
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy
from rebalancer.scheduling.view import View

ROOT = Path(__file__).resolve().parents[2]
POLICY = default_policy()


def page(workloads: int) -> bytes:
    """Return a page of pods as the API server sends them, 25 of each workload."""
    state = SCENARIOS["zone-returned"](102, 30 * workloads)
    items = [
        objects.Template.of(json.dumps(objects.pod(workload)).encode()).fill(objects.pod_texts(replica, node, replica))
        for workload in state.workloads
        for replica, node in enumerate(workload.nodes[:25])
    ]
    return b'{"metadata":{},"items":[' + b",".join(items) + b"]}"


def compare_decoding() -> None:
    """Print the seconds that 500 pods take to be decoded, and to be parsed by the standard library."""
    data = page(20)
    assert len(decode_items(PODS, open_page(data), Interner()).objects) == 500
    decoded = seconds(lambda: decode_items(PODS, open_page(data), Interner()), times=5)
    parsed = seconds(lambda: json.loads(data), times=5)
    print(decoded, parsed)


def test_decoding_a_page_of_pods_takes_less_than_parsing_it() -> None:
    """A third of the standard library's parser alone, at most: what pods of an owner share is converted once.

    In a process of its own: the parser takes half as long where much else is in memory already.
    """
    command = [sys.executable, "-c", f"from {__name__} import compare_decoding; compare_decoding()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    decoded, parsed = map(float, done.stdout.split())
    print(f"\n500 pods decoded {decoded * 1000:.1f} ms, parsed by json {parsed * 1000:.1f} ms")
    assert decoded < parsed / 3


def plan_from_nothing(snapshot: Snapshot) -> float:
    began = time.process_time()
    evaluate(replace(snapshot), POLICY)
    return time.process_time() - began


def with_budgets(snapshot: Snapshot) -> Snapshot:
    """Return all pods in one namespace, with a budget for each workload; all of them require another label, too."""
    budgets = [
        DisruptionBudget(
            namespace="ns0",
            name=workload.name,
            selector=LabelSelector.of({"a-part": "server", "app": workload.name}),
            allowed=1,
            desired_healthy=workload.replicas - 1,
            observed_generation=1,
        )
        for workload in snapshot.workloads
    ]
    pods = []
    for pod in snapshot.pods:
        labels = Labels({**pod.labels, "a-part": "server"})
        pods.append(structs.replace(pod, namespace="ns0", labels=labels))
    workloads = [structs.replace(workload, namespace="ns0") for workload in snapshot.workloads]
    return replace(snapshot, pods=pods, workloads=workloads, budgets=budgets)


@pytest.mark.parametrize("change", [lambda snapshot: snapshot, with_budgets], ids=["plain", "budgets"])
def test_planning_grows_with_the_pods(change: Callable[[Snapshot], Snapshot]) -> None:
    """Eight times the cluster takes at most sixteen times as long; with the square of the pods it were sixty-four."""
    small = change(zone_returned(nodes=150, workloads=150))
    large = change(zone_returned(nodes=1200, workloads=1200))
    few = min(plan_from_nothing(small) for _ in range(3))
    ratios = (plan_from_nothing(large) / few for _ in range(2))
    assert any(ratio < 16 for ratio in ratios)  # a second time only if the first was disturbed


def with_terms(snapshot: Snapshot, key: str) -> Snapshot:
    """Return the cluster in which each workload keeps its pods apart over a key."""
    terms = {
        workload.name: PodAffinity(
            anti_required=(PodAffinityTerm(topology_key=key, selector=LabelSelector.of({"app": workload.name})),)
        )
        for workload in snapshot.workloads
    }
    specs: dict[tuple[str, int], PodSpec] = {}
    pods = []
    for pod in snapshot.pods:
        app = pod.labels["app"]
        spec = specs.setdefault((app, id(pod.spec)), structs.replace(pod.spec, pod_affinity=terms[app]))
        pods.append(structs.replace(pod, spec=spec))
    return replace(snapshot, pods=tuple(pods))


def compare_anti_affinity(snapshot: Snapshot) -> float:
    """Return what anti-affinity takes of an assessment, as a part of the rest, in one run of it."""
    view = View(replace(snapshot))
    whole = seconds(lambda: assess(View(replace(snapshot)), POLICY, NO_MEMORY), times=1)
    assess(view, POLICY, NO_MEMORY)
    own = seconds(lambda: evaluate_anti_affinity(view), times=1)
    return own / (whole - own)


def test_a_host_name_term_of_each_workload_costs_little_of_an_assessment() -> None:
    """A fifth more at most: 1,000 workloads of 30 pods; the least of several runs."""
    snapshot = with_terms(zone_returned(nodes=1000, workloads=1000), HOSTNAME)
    assert min(compare_anti_affinity(snapshot) for _ in range(5)) < 0.2


def test_violated_anti_affinity_grows_with_the_pods() -> None:
    """All pods of each workload share two zones: ten times the workloads take less than twenty times as long."""
    few, many = (View(with_terms(zone_returned(nodes=100, workloads=workloads), ZONE)) for workloads in (40, 400))
    assert {one.excess for one in evaluate_anti_affinity(many)} == {28}
    times = [seconds(lambda view=view: evaluate_anti_affinity(view)) for view in (few, many)]  # type: ignore[misc]
    assert times[1] < 20 * times[0]
