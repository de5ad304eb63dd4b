"""How long the bounds of lost zones take. Run: `python -m pytest benchmarks/test_resilience.py -s`.

150,000 pods on 5,001 nodes; each of three zones is lost, silent and gone. Compared with what `rebalancer report`
evaluates of the same cluster in the same process.
"""

import gc
import resource
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from benchmarks.planning_states import zone_returned
from benchmarks.timing import seconds
from rebalancer.assessment.findings import find_findings
from rebalancer.cli.main import collect_rarely
from rebalancer.controller.resilience import compute_elsewhere
from rebalancer.documents.document import json_chunks
from rebalancer.documents.report import every_workload, report_document
from rebalancer.engine import evaluate
from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import ZONE
from rebalancer.model.pods import Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import reference_of
from rebalancer.planning.planner import find_relaxations
from rebalancer.policy import default_policy
from rebalancer.resilience.bounds import find_bounds
from rebalancer.resilience.changes import find_all_changes
from rebalancer.resilience.demands import find_demands
from rebalancer.resilience.loss import lose
from rebalancer.resilience.rows import find_resilience
from rebalancer.resilience.transport import Answer, Question
from rebalancer.scheduling.view import View

POLICY = default_policy()


@pytest.fixture(autouse=True)
def _as_the_process_does() -> Iterator[None]:
    """Let the collector work as it does in the process (`cli.main`)."""
    before = gc.get_threshold()
    collect_rarely()
    yield
    gc.set_threshold(*before)


def report(snapshot: Snapshot) -> int:
    """Evaluate and write what `report -o json` does, from nothing; return how many characters."""
    evaluation = evaluate(replace(snapshot), POLICY)
    assessment, plan, view = evaluation.assessment, evaluation.plan, evaluation.view
    findings = find_findings(view, assessment, ())
    relaxations = find_relaxations(plan)
    memory = evaluation.inputs.memory
    document = report_document(
        assessment, plan, evaluation.causes, findings, every_workload, None, relaxations, view, memory=memory
    )
    return sum(map(len, json_chunks(document)))


def lose_zones(snapshot: Snapshot) -> Counter[str]:
    """Bound what is left of each service in each loss, from nothing; count what is said."""
    view = View(replace(snapshot))
    said = Counter[str]()
    for nodes in view.nodes.groups(ZONE).values():
        for phase in Phase:
            loss = lose(view, nodes, phase)
            for service, found in zip(loss.services, find_bounds(loss), strict=True):
                said["whole"] += found.guaranteed >= service.wanted
                said["short"] += found.possible < service.wanted
                said["not bounded"] += found.unknown is not None
    return said


def peak(function: Callable[[], object]) -> int:
    """Return the most memory that a function takes, in mebibytes."""
    gc.collect()
    tracemalloc.start()
    function()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most >> 20


def mixed(snapshot: Snapshot, used: float) -> Snapshot:
    """Return the cluster with pods of many sizes, and nodes so large that this part of each zone is requested."""
    random = Random(1)
    owners, specs = [], {}
    for owner in snapshot.workloads:
        assert owner.template is not None
        size = Resources(cpu=random.randint(20, 400), memory=random.randint(2**25, 2**29))
        specs[owner.uid] = structs.replace(owner.template.spec, requests=size)
        template = structs.replace(owner.template, requests=size, spec=specs[owner.uid])
        owners.append(structs.replace(owner, template=template))
    pods = []
    for pod in snapshot.pods:
        assert pod.owner is not None
        spec = specs[pod.owner.uid]
        pods.append(structs.replace(pod, spec=spec, requests=spec.requests))
    amounts = zip(*[(pod.requests.cpu, pod.requests.memory) for pod in pods], strict=True)
    cpu, memory = (round(sum(each) / len(snapshot.nodes) / used) for each in amounts)
    nodes = [structs.replace(node, allocatable=Resources(cpu=cpu, memory=memory)) for node in snapshot.nodes]
    return replace(snapshot, nodes=tuple(nodes), pods=tuple(pods), workloads=tuple(owners))


def test_zones_of_equal_services() -> None:
    """Everything is proved by sums: whole where the nodes are gone, a third short while they are silent."""
    snapshot = zone_returned(nodes=5001, workloads=5000, filled=3)
    assert lose_zones(snapshot) == {"whole": 15_000, "short": 15_000, "not bounded": 0}
    bounds, reported = seconds(lambda: lose_zones(snapshot)), seconds(lambda: report(snapshot))
    print(f"\nbounds {bounds:.2f} s, report {reported:.2f} s: {bounds / reported:.1f} times")
    assert bounds < 5 * reported


def test_memory() -> None:
    """As much as the report takes, and half more at most."""
    snapshot = zone_returned(nodes=5001, workloads=5000, filled=3)
    bounds, reported = peak(lambda: lose_zones(snapshot)), peak(lambda: report(snapshot))
    print(f"\nbounds {bounds} MiB, report {reported} MiB")
    assert bounds < 1.5 * reported


@pytest.mark.parametrize(("used", "unbounded"), [(0.4, 0), (0.5, 0), (0.6, 15_000)])
def test_zones_of_services_of_many_sizes(used: float, unbounded: int) -> None:
    """5,000 different requests: sums prove all up to half of what there is, and say where they do not."""
    snapshot = mixed(zone_returned(nodes=5001, workloads=5000, filled=3), used)
    said = Counter[str]()
    bounds, reported = seconds(lambda: said.update(lose_zones(snapshot)), times=1), seconds(lambda: report(snapshot))
    print(f"\n{used:.0%} requested: {bounds:.2f} s, {bounds / reported:.1f} times the report; {dict(said)}")
    assert said == {"whole": 15_000 - unbounded, "short": 15_000, "not bounded": unbounded}
    assert bounds < 12 * reported


def test_zones_of_equal_services_that_do_not_fit() -> None:
    """Three quarters of each zone are requested: programs over equal nodes are made for some, and no more."""
    snapshot = zone_returned(nodes=5001, workloads=5000, filled=3)
    small = Resources(cpu=4_000, memory=2**38)
    snapshot = replace(snapshot, nodes=tuple(structs.replace(node, allocatable=small) for node in snapshot.nodes))
    said = Counter[str]()
    bounds, reported = seconds(lambda: said.update(lose_zones(snapshot)), times=1), seconds(lambda: report(snapshot))
    print(f"\n{bounds:.2f} s, {bounds / reported:.1f} times the report; {dict(said)}")
    assert said["short"] == 15_000
    assert bounds < 12 * reported


def test_cycles_beside_the_other_process() -> None:
    """Cycles of 150,000 pods take hardly longer while another process computes the same losses, and what both hold."""
    snapshot = zone_returned(nodes=5001, workloads=5000, filled=3)
    evaluation = evaluate(snapshot, POLICY)
    demands = find_demands(POLICY, evaluation.assessment.pod_groups)
    question = Question(snapshot=evaluation.view.snapshot, profile=evaluation.view.profile, demands=demands)
    alone = seconds(lambda: evaluate(replace(snapshot), POLICY), times=5)
    answers: list[Answer] = []
    ending = threading.Event()
    thread = threading.Thread(target=lambda: answers.append(compute_elsewhere(question, ending)))
    thread.start()
    sending = seconds(lambda: evaluate(replace(snapshot), POLICY), times=1)
    beside = seconds(lambda: evaluate(replace(snapshot), POLICY), times=3)
    assert thread.is_alive()
    thread.join()
    assert answers[0].worst is not None
    # Of the other process it counts what this one had when it began, if that is more.
    own, other = (resource.getrusage(who).ru_maxrss >> 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"\na cycle {alone:.2f} s, {sending:.2f} s while the snapshot is sent, {beside:.2f} s beside it")
    print(f"{beside / alone:.2f} times; {own} MiB here, at most {other} MiB there")
    assert beside < 1.5 * alone


def test_changes_of_a_workload_that_is_named() -> None:
    """All kinds are tried: nodeTaintsPolicy: Honor holds, and a maxSkew of half its pods."""
    snapshot = zone_returned(nodes=5001, workloads=5000, filled=3)
    view = View(replace(snapshot))
    workload = reference_of(snapshot.workloads[0])
    losses = [*find_resilience(view, [ZONE], tuple(Phase), workload.__eq__)]
    found = []
    taken = seconds(lambda: found.append(find_all_changes(view, [ZONE], tuple(Phase), losses, named=True)), times=1)
    ((changes,), _) = found[0]
    print(f"\n{taken:.1f} s: {changes.changes}")
    assert changes.complete
    assert len(changes.changes) == 2
    assert taken < 120
