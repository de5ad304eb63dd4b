"""The same snapshot gives the same bytes, whatever the hash seed of the process and whatever else is planned."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from rebalancer.documents.document import to_json
from rebalancer.documents.plan import plan_document
from rebalancer.engine import evaluate
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster
from tests.planning.scenes import Constraint, Scene, Work

_WRITE = "import sys; from tests.planning.test_determinism import written; sys.stdout.buffer.write(written())"


def single_class() -> Snapshot:
    """Return three workloads of equal pods: some that the certificate covers, some that are searched."""
    blueprint = a_cluster("abc", 4)
    on = {"a-1": 2, "a-2": 2, "a-3": 1, "b-1": 2, "b-2": 2}
    blueprint.deployment("returned", on=on, spread={ZONE: 1, HOSTNAME: 2})
    blueprint.deployment("searched", on={"a-1": 3, "b-2": 3, "b-3": 1, "c-1": 2}, spread={ZONE: 2, HOSTNAME: 1})
    blueprint.deployment("crowded", on={"a-1": 6, "b-1": 6}, spread={ZONE: 1, HOSTNAME: 1})
    return blueprint.snapshot()


def multi_class() -> Scene:
    """Return two workloads of different size under one selector, a limit over both, many equal answers."""
    spread = Constraint(key=ZONE, max_skew=1, label="all"), Constraint(key=HOSTNAME, max_skew=2, label="all")
    return Scene(
        nodes={f"{zone}{number}": (zone, 4000) for zone in "abc" for number in range(3)},
        works=(
            Work(name="small", cpu=100, labels=frozenset({"all"}), on={"a0": 2, "a1": 1, "b0": 1}, constraints=spread),
            Work(name="large", cpu=700, labels=frozenset({"all"}), on={"a0": 1, "a2": 1, "b1": 2}, constraints=spread),
        ),
        limits=(("all", ZONE, 3),),
    )


def document(snapshot: Snapshot, policy: Policy) -> bytes:
    """Plan and return the document."""
    return to_json(plan_document(evaluate(snapshot, policy).plan, snapshot))


def clusters() -> list[tuple[Snapshot, Policy]]:
    scene = multi_class()
    return [(single_class(), scene.policy()), (scene.snapshot(), scene.policy())]


def written() -> bytes:
    """Plan both clusters and return the documents."""
    return b"".join(document(snapshot, policy) for snapshot, policy in clusters())


def test_the_same_bytes_in_every_process() -> None:
    """Components of one class and of several: a process with another hash seed writes the same plan, byte for byte."""
    here = written()
    assert here.count(b'"step"') > 3, "there is something to plan"
    assert here == written()
    root = Path(__file__).parents[2]
    for seed in ("0", "1", "4242"):
        process = subprocess.run(
            [sys.executable, "-c", _WRITE],
            check=True,
            capture_output=True,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
        )
        assert process.stdout == here, f"PYTHONHASHSEED={seed}"


def test_two_plans_at_once_are_those_of_one_after_the_other() -> None:
    """Planning is pure and re-entrant: two threads that plan different snapshots in turns write the same bytes."""
    one, other = clusters()
    alone = [document(*one), document(*other)]
    rounds, barrier = 4, Barrier(2)

    def plan_in_turns(first: tuple[Snapshot, Policy], second: tuple[Snapshot, Policy]) -> list[bytes]:
        documents = []
        for _ in range(rounds):
            barrier.wait()
            documents += [document(*first), document(*second)]
        return documents

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that each is interrupted thousands of times
    try:
        with ThreadPoolExecutor(2) as threads:
            straight = threads.submit(plan_in_turns, one, other)
            reversed_ = threads.submit(plan_in_turns, other, one)
            assert straight.result() == alone * rounds
            assert reversed_.result() == alone[::-1] * rounds
    finally:
        sys.setswitchinterval(interval)
