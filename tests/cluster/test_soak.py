"""Thousands of cycles one after the other, while pods and Jobs come and go: the process does not grow."""

import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.api import Api, ApiError, wait_until
from tests.control_plane.layout import deployment, lay_out, nodes, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane

COMMAND = (sys.executable, "-m", "tests.cluster.launch", "--interval=0.05")
WARM_UP = 0.2
"""The share of the cycles after which everything that is stored once is stored."""
JOBS_AT_A_TIME = 20
JOB_EVERY = 4.0
"""Seconds. The garbage collector sends 20 requests a second and takes several for each of the ten pods of a Job."""
SCALED_DOWN_AT_A_TIME = 5
PARALLEL = 4
"""`budgets.parallel`: each eviction under way has a connection, which is kept for the next one."""


class Sample(NamedTuple):
    """What the process has."""

    cycles: float
    resident: int
    """KiB."""
    threads: int
    files: int
    pods: int
    """In the cluster: what has to be remembered grows with them."""


@pytest.mark.thorough
@pytest.mark.timeout(4 * 3600)
def test_ten_thousand_cycles_with_ten_thousand_pods(cluster: ControlPlane, tmp_path: Path) -> None:
    """After the warm-up the memory grows by less than 1 %, threads and open files not at all."""
    samples = soak(cluster, tmp_path, cycles=10_000, workloads=200, replicas=50, scaling_every=8.0)
    first, last = compare(samples, pods=1.02)
    assert last.resident < 1.01 * first.resident


def test_two_hundred_cycles(cluster: ControlPlane, tmp_path: Path) -> None:
    """The same with 600 pods, of which up to 50 are scaled down and 200 of Jobs; too short to tell a growth by 1 %."""
    samples = soak(cluster, tmp_path, cycles=200, workloads=20, replicas=30, scaling_every=2.0)
    first, last = compare(samples, pods=1.5, connections=PARALLEL)
    assert last.resident < 1.1 * first.resident


def soak(
    plane: ControlPlane, folder: Path, *, cycles: int, workloads: int, replicas: int, scaling_every: float
) -> list[Sample]:
    """Run so many cycles under churn, until something was evicted; return samples, one each second."""
    per_zone = -(-workloads * replicas // 180)
    by_zone = nodes({"a": per_zone, "b": per_zone, "c": per_zone})
    names = [f"{zone}-{number}" for number in range(per_zone) for zone in "abc"]  # the zones in turn: nothing is skewed
    install(plane, "base", "evict")
    lay_out(
        plane,
        [
            *by_zone,
            *(
                deployment(
                    f"web-{number}",
                    [names[(number + index) % len(names)] for index in range(replicas)],
                    namespace=f"shop-{number % 10}",
                    topologySpreadConstraints=[spread(ZONE, labels={"app": f"web-{number}"})],
                )
                for number in range(workloads)
            ),
        ],
        timeout=600,
    )
    samples: list[Sample] = []
    text = policy("Evict", budgets={"maxUnavailable": "20%", "perWorkload": "100%", "perNode": 50})
    with (
        Controller(plane, folder, text, command=COMMAND) as controller,
        Churn(plane.api, names, workloads, replicas, scaling_every),
    ):
        controller.wait_for("cycle", count=1, timeout=120)
        assert controller.process is not None
        while not samples or samples[-1].cycles < cycles:
            time.sleep(1)
            samples.append(measure(controller, controller.process.pid))
        wait_until(lambda: plane.audit.evictions(user=USER), what="an eviction", timeout=60)
        evictions = len(plane.audit.evictions(user=USER))
        print(f"\n{samples[-1].cycles:.0f} cycles in {len(samples)} s, {evictions} evictions")
    return samples


def measure(controller: Controller, process: int) -> Sample:
    """Read what the process has; its metrics are scraped, as Prometheus would."""
    metrics = controller.metrics()
    folder = Path(f"/proc/{process}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return Sample(
        cycles=metrics['rebalancer_cycle_duration_seconds_count{phase="assess"}'],
        resident=int(status["VmRSS"].split()[0]),
        threads=int(status["Threads"]),
        files=len(list((folder / "fd").iterdir())),
        pods=int(metrics['rebalancer_cache_objects{kind="Pod"}']),
    )


def compare(samples: Sequence[Sample], *, pods: float, connections: int = 0) -> tuple[Sample, Sample]:
    """Return the medians of a quarter after the warm-up and of the last quarter; threads and files must not grow.

    What they tell holds for a cluster that has not grown by more than `pods`, a factor.

    Their number rises and falls with what happens to be under way: a leak shows where the fewest of the end are
    more than the most after the warm-up. `connections` may be opened later than that, and are kept.
    """
    last = samples[-1].cycles
    begin = [sample for sample in samples if WARM_UP <= sample.cycles / last < WARM_UP + 0.25]
    end = [sample for sample in samples if sample.cycles / last >= 0.75]
    first, final = (Sample(*(statistics.median(column) for column in zip(*part, strict=True))) for part in (begin, end))
    print(f"after the warm-up {first}, at the end {final}, growth {final.resident / first.resident - 1:+.2%}")
    assert final.pods < pods * first.pods, "the cluster has grown: pods of Jobs are not deleted as fast as they come"
    assert min(sample.threads for sample in end) <= max(sample.threads for sample in begin)
    assert min(sample.files for sample in end) <= max(sample.files for sample in begin) + connections
    return first, final


class Churn:
    """What goes on in the cluster while the block lasts.

    Jobs come and go, pods are deleted, nodes cordoned, and Deployments scaled down, which leaves them skewed, and up.
    """

    def __init__(self, api: Api, nodes: Sequence[str], workloads: int, replicas: int, scaling_every: float) -> None:
        self._api, self._nodes = api, nodes
        self._workloads, self._replicas = workloads, replicas
        self._dice = random.Random("soak")
        self._cordoned = ""
        self._ended = threading.Event()
        self._errors: list[Exception] = []
        works = (
            (self._run_job, JOB_EVERY),
            (self._delete_pods, 5.0),
            (self._scale, scaling_every),
            (self._cordon, 10.0),
        )
        self._threads = [threading.Thread(target=self._repeat, args=work) for work in works]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; what went wrong in between is an error."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        assert self._errors == []

    def _repeat(self, work: Callable[[int], None], seconds: float) -> None:
        number = 0
        while not self._ended.wait(seconds):
            number += 1
            try:
                work(number)
            except ApiError as error:
                if error.code not in {404, 409}:  # somebody else has changed or deleted it meanwhile
                    self._errors.append(error)
                    return

    def _run_job(self, number: int) -> None:
        self._api.create(make_job(f"job-{number}"))
        old = number - JOBS_AT_A_TIME
        if old > 0:
            self._api.delete(f"/apis/batch/v1/namespaces/shop-0/jobs/job-{old}", missing_ok=True)

    def _delete_pods(self, _: int) -> None:
        path = f"/api/v1/namespaces/shop-{self._dice.randrange(10)}/pods"
        pods = self._api.list(path, labels="batch!=true")
        for pod in self._dice.sample(pods, k=min(3, len(pods))):
            self._api.delete(f"{path}/{pod['metadata']['name']}", missing_ok=True)

    def _scale(self, number: int) -> None:
        """Scale one Deployment down, and up again the one that was scaled down a while ago."""
        for turn, replicas in ((number, self._replicas * 2 // 3), (number - SCALED_DOWN_AT_A_TIME, self._replicas)):
            chosen = turn % self._workloads
            path = f"/apis/apps/v1/namespaces/shop-{chosen % 10}/deployments/web-{chosen}"
            self._api.patch(path, {"spec": {"replicas": replicas}})

    def _cordon(self, _: int) -> None:
        if self._cordoned:
            self._api.patch(f"/api/v1/nodes/{self._cordoned}", {"spec": {"unschedulable": None}})
        self._cordoned = "" if self._cordoned else self._dice.choice(self._nodes)
        if self._cordoned:
            self._api.patch(f"/api/v1/nodes/{self._cordoned}", {"spec": {"unschedulable": True}})


def make_job(name: str) -> dict[str, Any]:
    """Return a Job of ten pods."""
    container = {
        "name": "main",
        "image": "registry.test/job",
        "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}},
    }
    template = {
        "metadata": {"labels": {"batch": "true"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"parallelism": 10, "completions": 10, "template": template}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "shop-0"},
        "spec": spec,
    }
