"""What one cycle of the controller takes, and what a watch event takes to be stored.

    python -m benchmarks.cycles [--far]

Seconds of processor time, the least of several runs, in one process. `--far` adds the far end: 130,000 nodes and
1,000,000 pods, made in memory, with its peak of memory.
"""

import argparse
import gc
import json
import os
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from multiprocessing import get_context

from msgspec import structs

from benchmarks.component_states import shards
from benchmarks.planning_states import zone_returned
from benchmarks.recorded import objects
from benchmarks.recorded.states import SCENARIOS
from benchmarks.timing import seconds
from rebalancer.admission.admit import AdmissionContext
from rebalancer.cli.main import collect_rarely
from rebalancer.controller.cycle import Cycle, CycleInputs, run_cycle
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode
from rebalancer.engine import evaluate
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy, default_policy
from rebalancer.scheduling.profile import DEFAULT_PROFILE

NODES, WORKLOADS = 5001, 5000
FAR_NODES, FAR_WORKLOADS = 130_000, 33_334
EVENTS = 20_000


def cycle(snapshot: Snapshot, policy: Policy, last: Cycle | None = None) -> Cycle:
    """Run one cycle."""
    return run_cycle(
        CycleInputs(
            snapshot=snapshot,
            profile=DEFAULT_PROFILE,
            memory=last.memory if last is not None else NO_MEMORY,
            context=AdmissionContext(policy=policy, mode=Mode.OBSERVE, now=snapshot.taken_at),
            before=last.snapshot if last is not None else None,
            known=last.evaluation if last is not None else None,
        )
    )


def from_nothing(snapshot: Snapshot, policy: Policy) -> None:
    """Assess and plan without what a snapshot has found out about itself before."""
    evaluate(replace(snapshot), policy)


def measure_planning() -> None:
    """Print assess and plan for all, 150,000 pods."""
    states = {
        "balanced": zone_returned(NODES, WORKLOADS, filled=3),
        "zone returned": zone_returned(NODES, WORKLOADS),
        "full zone": zone_returned(NODES, WORKLOADS, full=True),
    }
    for name, snapshot in states.items():
        taken = seconds(partial(from_nothing, snapshot, default_policy()))
        print(f"assess and plan, 150,000 pods, {name}: {taken:.2f} s")


def measure_cycles() -> None:
    """Print a cycle of 150,000 pods after a change, and one with the store unchanged."""
    policy = default_policy()
    snapshot = zone_returned(NODES, WORKLOADS)
    first = cycle(snapshot, policy)
    # Twice: a zone that is seen for the first time is news for the memory.
    second = cycle(snapshot.at(snapshot.taken_at + timedelta(seconds=60)), policy, first)
    later = snapshot.at(snapshot.taken_at + timedelta(seconds=120))
    changed = replace(later, pods=(structs.replace(later.pods[0], ready=False), *later.pods[1:]))
    print(f"a cycle, 150,000 pods, a pod changed: {seconds(lambda: cycle(replace(changed), policy, second)):.2f} s")
    print(f"a cycle, 150,000 pods, nothing changed: {seconds(lambda: cycle(later, policy, second), 5):.3f} s")
    few = one_violated(snapshot)
    made = cycle(few, policy)
    print(f"the plan's document for the status, 1 of 5,000 violated: {seconds(lambda: _plan_json(made)):.2f} s")


def one_violated(returned: Snapshot) -> Snapshot:
    """Return the balanced cluster with the first workload's pods as where a zone has returned."""
    spread = zone_returned(NODES, WORKLOADS, filled=3)
    first = {pod.uid: pod for pod in returned.pods if pod.labels == returned.pods[0].labels}
    return replace(spread, pods=[first.get(pod.uid, pod) for pod in spread.pods])


def _plan_json(made: Cycle) -> int:
    made.__dict__.pop("plan_json", None)
    return len(made.plan_json)


def measure_shards() -> None:
    """Print a cycle of 66 shards of two on 100 nodes after a zone came back, from nothing."""
    scene = shards(1)
    snapshot, policy = scene.snapshot(), scene.policy()
    cycle(snapshot, policy)  # imports the solver
    print(f"a cycle, 66 shards of two on 100 nodes: {seconds(lambda: cycle(replace(snapshot), policy)):.2f} s")


def measure_events() -> None:
    """Print how long a watch event of a pod takes from its bytes to its record, in a store of 1,000 workloads."""
    state = SCENARIOS["zone-returned"](1002, 30_000)
    templates = [objects.Template.of(json.dumps(objects.pod(workload)).encode()) for workload in state.workloads]
    texts = [objects.pod_texts(number % 30, number % 1002, number) for number in range(EVENTS)]
    events = [templates[number * 7919 % len(templates)].fill(own) for number, own in enumerate(texts)]
    intern = Interner()
    for event in events[: EVENTS // 4]:
        decode(PODS, event, intern)
    taken = seconds(lambda: [decode(PODS, event, intern) for event in events])
    size = len(events[0]) / 1000
    print(f"a watch event of {size:.1f} KB, {len(templates):,} workloads in any order: {taken / EVENTS * 1e6:.0f} us")


def measure_far() -> None:
    """Print the far end, each state in a process of its own: the next one would find the memory of the first."""
    for name, filled in (("balanced", 3), ("zone returned", 2)):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            print(process.submit(_measure_far, name, filled).result(), flush=True)


def _measure_far(name: str, filled: int) -> str:
    collect_rarely()
    snapshot = zone_returned(FAR_NODES, FAR_WORKLOADS, filled=filled)
    gc.freeze()
    began = time.process_time()
    from_nothing(snapshot, default_policy())
    taken = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = f"{FAR_NODES:,} nodes, {len(snapshot.pods):,} pods"
    return f"assess and plan, {size}, {name}: {taken:.1f} s, peak {peak:.0f} MiB"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cycles", description=__doc__)
    parser.add_argument("--far", action="store_true")
    options = parser.parse_args(arguments)
    collect_rarely()
    print(f"load {' '.join(f'{value:.1f}' for value in os.getloadavg())}")
    measure_planning()
    measure_cycles()
    measure_shards()
    measure_events()
    if options.far:
        measure_far()


if __name__ == "__main__":
    main()
