"""What the controller's containers use on a kubelet, by their cgroups, held against what the Deployment requests."""

import time
from collections.abc import Iterator

import pytest

from tests.nodes.controller import Installation, container_folder
from tests.nodes.test_trouble import shell

__all__ = ["shell"]

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

MINUTES = 10


def working_set(installation: Installation) -> Iterator[float]:
    """Yield the MiB that the kubelet counts for each container: without files that the kernel can drop."""
    for pod in installation.pods():
        folder = container_folder("memory", pod)
        lines = (folder / "memory.stat").read_text().splitlines()
        inactive = next(int(line.split()[1]) for line in lines if line.startswith("total_inactive_file "))
        yield (int((folder / "memory.usage_in_bytes").read_text()) - inactive) / 2**20


def processor_seconds(installation: Installation) -> list[float]:
    """Return the time of processors that each container has used."""
    folders = [container_folder("cpuacct", pod) for pod in installation.pods()]
    return [int((folder / "cpuacct.usage").read_text()) / 1e9 for folder in folders]


def test_ten_minutes_stay_within_the_requests(shell: Installation) -> None:
    """Of memory and of processors, with a cycle every five seconds; a small cluster, so that this is the least."""
    shell.install()
    shell.run("kubectl apply -f docs/examples/kind/web.yaml")
    shell.await_repair("web")
    before, began, largest = processor_seconds(shell), time.monotonic(), 0.0
    while time.monotonic() - began < MINUTES * 60:
        largest = max(largest, *working_set(shell))
        time.sleep(5)
    spent = time.monotonic() - began
    cores = max((after - used) / spent for after, used in zip(processor_seconds(shell), before, strict=True))
    print(f"\n{MINUTES} minutes: at most {largest:.0f} MiB, {cores * 1000:.0f} m of a processor")
    (container,) = shell.pods()[0]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "256Mi"}
    assert largest < 256
    assert cores < 0.1
