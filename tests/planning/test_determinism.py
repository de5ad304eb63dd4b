"""The same snapshot gives the same bytes, whatever the hash seed of the process."""

import os
import subprocess
import sys
from pathlib import Path

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder
from rebalancer.assessment.assess import assess
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.planner import plan
from rebalancer.policy import Policy
from rebalancer.reporting.documents.document import to_json
from rebalancer.reporting.documents.plan import plan_document
from rebalancer.scheduling.view import View
from tests.planning.scenes import Asked, Scene, Work

_WRITE = "import sys; from tests.planning.test_determinism import written; sys.stdout.buffer.write(written())"


def uniform() -> Snapshot:
    """Three workloads of equal pods: some that the certificate speaks for, some that are searched."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 4)
    held = {"a-1": 2, "a-2": 2, "a-3": 1, "b-1": 2, "b-2": 2}
    blueprint.deployment("returned", on=held, spread={ZONE: 1, HOSTNAME: 2})
    blueprint.deployment("searched", on={"a-1": 3, "b-2": 3, "b-3": 1, "c-1": 2}, spread={ZONE: 2, HOSTNAME: 1})
    blueprint.deployment("crowded", on={"a-1": 6, "b-1": 6}, spread={ZONE: 1, HOSTNAME: 1})
    return blueprint.snapshot()


def mixed() -> Scene:
    """Return two workloads of different size under one selector, a limit over both, many equal answers."""
    spread = Asked(key=ZONE, max_skew=1, label="all"), Asked(key=HOSTNAME, max_skew=2, label="all")
    return Scene(
        nodes={f"{zone}{number}": (zone, 4000) for zone in "abc" for number in range(3)},
        works=(
            Work(name="small", cpu=100, labels=frozenset({"all"}), on={"a0": 2, "a1": 1, "b0": 1}, asked=spread),
            Work(name="large", cpu=700, labels=frozenset({"all"}), on={"a0": 1, "a2": 1, "b1": 2}, asked=spread),
        ),
        limits=(("all", ZONE, 3),),
    )


def _written(snapshot: Snapshot, policy: Policy) -> bytes:
    view = View(snapshot)
    return to_json(plan_document(plan(view, assess(view, policy, NO_MEMORY), policy, NO_MEMORY), snapshot))


def written() -> bytes:
    """Plan both and return the documents."""
    scene = mixed()
    return _written(uniform(), scene.policy()) + _written(scene.snapshot(), scene.policy())


def test_the_same_bytes_in_every_process() -> None:
    """Uniform and mixed components: a process with another hash seed writes the same plan, byte for byte."""
    here = written()
    assert here.count(b'"step"') > 3, "there is something to plan"
    assert here == written()
    root = Path(__file__).parents[2]
    for seed in ("0", "1", "4242"):
        found = subprocess.run(
            [sys.executable, "-c", _WRITE],
            check=True,
            capture_output=True,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
        )
        assert found.stdout == here, f"PYTHONHASHSEED={seed}"
