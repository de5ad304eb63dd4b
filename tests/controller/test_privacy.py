"""Nothing private is shown by the controller: not in its log, events, metrics, stored documents or status page."""

import json
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from rebalancer.adapters.files import read_snapshot
from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.routes import Request
from rebalancer.cli.logs import configure_logs
from rebalancer.controller.status import status_documents
from rebalancer.model.cluster import NEWEST
from rebalancer.simulator import SimulatedCluster, TraceKind
from tests.cli.test_snapshot import EXAMPLE, PRIVATE, planted
from tests.controller.simulated import Simulation, eager
from tests.reports import export, page_of, view_of


@pytest.mark.parametrize("unreadable", [False, True])
def test_what_is_planted_in_objects_is_never_shown(unreadable: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Environment, arguments, probes, Secrets' names, annotations, managed fields and statuses.

    In a whole repair, and where an object cannot be read: the log says which, and nothing is evicted.
    """
    objects = planted(json.loads(Path(EXAMPLE).read_text(encoding="utf-8")))
    for item in objects["items"]:
        item["metadata"].get("annotations", {}).pop(
            "kubernetes.io/config.mirror", None
        )  # a mirror pod is never evicted
    malformed = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "bad", "namespace": "shop", "labels": 3, "annotations": {"token": f"{PRIVATE}token"}},
        "spec": {"containers": [{"name": "c", "env": [{"name": "PASSWORD", "value": f"{PRIVATE}env"}]}]},
    }
    text = json.dumps({**objects, "items": [*objects["items"], *([malformed] if unreadable else [])]})
    assert text.count(PRIVATE) > 100
    snapshot, warnings = read_snapshot(text.encode(), version=NEWEST, at=None, source="cluster")
    assert any("Pod shop/bad" in warning for warning in warnings) == unreadable
    configure_logs(level="debug", form="json")
    simulation = Simulation(SimulatedCluster(snapshot, seed=1), eager())
    simulation.cycles(6)
    state = simulation.runner.state
    cycle = state.cycle
    assert cycle is not None
    metrics = export(view_of(state))
    page = page_of(state)
    routes = page_routes(lambda *_, **__: page, local=False, now=lambda: cycle.context.now)
    output = capsys.readouterr()
    shown = {
        "warnings": "\n".join(warnings),
        "log": output.out + output.err,
        "events": "\n".join(
            f"{entry.object} {entry.detail}" for entry in simulation.cluster.trace if entry.kind is TraceKind.EVENT
        ),
        "metrics": generate_latest(metrics.registry).decode(),
        "page": routes["/"](Request({})).body.decode(),
        "page as JSON": routes["/status.json"](Request({})).body.decode(),
        "stored": "\n".join(document.text for document in status_documents(state, "one", "policy.yaml")),
    }
    assert [name for name, content in shown.items() if PRIVATE in content] == []
    assert ("Evicted: " in shown["events"]) != unreadable
    assert ("Pod shop/bad" if unreadable else "eviction") in shown["log"]
    assert all("web" in shown[name] for name in ("events", "metrics", "page", "page as JSON", "stored"))
