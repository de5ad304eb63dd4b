"""The quick start's section on kind, word for word, on containerds and kubelets of its own."""

import json
import time
from pathlib import Path

import pytest

from tests.cluster.controller import NAMESPACE, USER
from tests.cluster.test_pages import as_a_reader
from tests.cluster.test_quick_start import INSTALLS
from tests.control_plane.api import wait_until
from tests.control_plane.settling import pod_ready
from tests.nodes.controller import Installation, logged_at, process_of, started_at
from tests.nodes.real_nodes import RealNodes
from tests.pages import CONTROLLER, QUICK_START, Place, check, checkout, commands

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]


@pytest.fixture
def installation(real_nodes: RealNodes, tmp_path: Path) -> Installation:
    """Return a shell beside the new cluster: this is the first test of the folder."""
    top = tmp_path / "checkout"
    top.mkdir()
    checkout(top)
    return Installation(real_nodes, as_a_reader(real_nodes.plane, tmp_path), top)


def test_the_quick_start_ends_with_a_repaired_workload(installation: Installation) -> None:
    """Exactly two evictions, both verified; every command prints what the page shows; no pod was ever unhealthy."""
    began = time.monotonic()
    todo = [
        command for command in commands(QUICK_START) if command.place is Place.CLUSTER or command.needs == CONTROLLER
    ]
    first = [command.text for command in todo].index(INSTALLS) + 1
    for command in todo[:first]:
        check(command, installation.run(command.text))
    installed = time.monotonic()
    seconds, fewest = installation.await_repair("web")
    assert fewest >= 5
    assert len(installation.evictions("web")) == len(installation.plane.audit.evictions(USER)) == 2

    def verified() -> bool:
        events = installation.api.list("/api/v1/namespaces/shop/events")
        moves = [event for event in events if event["reason"] == "MoveVerified"]
        return len([event for event in moves if event["involvedObject"]["kind"] == "Pod"]) == 2

    wait_until(verified, what="two verified moves", timeout=30)
    wait_until(lambda: all(map(pod_ready, installation.pods())), what="both replicas to be Ready", timeout=30)
    print(f"\ninstalled after {installed - began:.0f} s; repaired {seconds:.0f} s later")
    listening = []
    for pod in installation.pods():
        lines = [json.loads(line) for line in installation.log(pod).splitlines()]
        assert [line for line in lines if line["level"] not in {"info", "debug"}] == []
        (line,) = [line for line in lines if line["event"] == "listening"]
        listening.append(logged_at(line) - started_at(process_of(pod)))
    print(f"listening after {', '.join(f'{seconds:.1f} s' for seconds in listening)}")
    shown = installation.run(f"kubectl exec -n {NAMESPACE} deploy/rebalancer -- rebalancer status")
    assert "Plan: nothing to evict" in shown
    time.sleep(5)  # the page's commands come one cycle later
    for command in todo[first:]:
        check(command, installation.run(command.text))
    assert installation.warnings(NAMESPACE) == []
    assert len(installation.plane.audit.evictions(USER)) == 2
