"""Whatever names have in them, nothing that the controller shows or stores is obeyed, and no name begins a line."""

import io
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Final

import pytest
from msgspec import structs
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rebalancer.adapters.files import read_snapshot
from rebalancer.adapters.kubernetes.events import Recorder
from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.routes import Request
from rebalancer.cli.logs import configure_logs
from rebalancer.controller.runner import Runner
from rebalancer.controller.status import status_documents
from rebalancer.documents.history import TrendSample
from rebalancer.documents.overview import Selection
from rebalancer.documents.status import TeamPolicyStatus
from rebalancer.model.cluster import NEWEST
from rebalancer.model.events import Event
from rebalancer.model.visible import visible
from rebalancer.reporting.text.status import status_text
from rebalancer.simulator import SimulatedCluster
from tests.adapters.kubernetes.fake_server import ApiServer, served
from tests.controller.simulated import Simulation, eager
from tests.hostile import HOSTILE, check_clean, encoded, hostile_cluster, strings_in
from tests.reports import export, page_of, view_of

VIEWS: Final = {
    "overview": ("/", Selection()),
    "map table": ("/", Selection()),
    "zones table": ("/", Selection()),
    "workloads": ("/workloads", Selection()),
    "workload": ("/workload", Selection(workload=f"StatefulSet/{HOSTILE}db", namespace="shop")),
    "nodes": ("/nodes", Selection()),
    "node": ("/node", Selection(node=f"{HOSTILE}a-0")),
    "history": ("/history", Selection()),
}
TABLES: Final = {"map table": {"table": "map"}, "zones table": {"table": "zones"}}


class Cluster(SimulatedCluster):
    """One that keeps the events that are recorded."""

    events: list[Event]

    def record(self, event: Event) -> None:
        self.events.append(event)
        super().record(event)


class Texts(HTMLParser):
    """Collects what a page has between its tags, and in their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.isolated: list[str] = []
        self.heads: list[str] = []
        """What rows are named by."""
        self._within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within.append(tag)
        self.names += [value for _, value in attrs if value]

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.names.append(data)
        if "bdi" in self._within:
            self.isolated.append(data)
        if "th" in self._within:
            self.heads.append(data)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """Return a cluster with hostile names."""
    snapshot, warnings = read_snapshot(encoded(hostile_cluster()), version=NEWEST, at=None, source="cluster")
    assert not warnings
    made = Cluster(snapshot, seed=1)
    made.events = []
    return made


@pytest.fixture(scope="module")
def logged(cluster: Cluster) -> Iterator[tuple[Runner, str]]:
    """Repair it; return the controller, and what it logs on a console."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        console = io.StringIO()
        monkeypatch.setattr(sys, "stderr", console)
        configure_logs(level="debug", form="console")
        simulation = Simulation(cluster, eager())
        simulation.cycles(6)
        yield simulation.runner, console.getvalue()


def test_the_log_shows_names(logged: tuple[Runner, str]) -> None:
    """Each event in a line of its own."""
    _, log = logged
    check_clean(log)
    assert visible(HOSTILE) in log or repr(visible(HOSTILE))[1:-1] in log


@pytest.mark.parametrize("name", VIEWS)
def test_the_page_shows_names_and_isolates_them(logged: tuple[Runner, str], name: str) -> None:
    """In each view."""
    path, selection = VIEWS[name]
    runner, _ = logged
    page = page_of(runner.state, selection=selection)
    cycle = runner.state.cycle
    assert cycle is not None
    routes = page_routes(lambda *_, **__: page, local=False, now=lambda: cycle.context.now)
    query = {"workload": selection.workload, "node": selection.node, **TABLES.get(name, {})}
    body = routes[path](Request({key: value for key, value in query.items() if value})).body.decode()
    check_clean(body)
    texts = Texts()
    texts.feed(body)
    for text in texts.names:
        check_clean(text)
    if name != "history":
        assert [text for text in texts.isolated if visible(HOSTILE) in text]
    assert [text for text in texts.heads if visible(HOSTILE) in text and text not in texts.isolated] == []


def test_documents_have_names_as_they_are(logged: tuple[Runner, str]) -> None:
    """The page as JSON, and what is stored in the cluster."""
    runner, _ = logged
    page = page_of(runner.state)
    routes = page_routes(lambda *_, **__: page, local=False)
    texts = [routes["/status.json"](Request({})).body.decode()]
    texts += [document.text for document in status_documents(runner.state, "one", "policy.yaml") if document.text]
    for text in texts:
        check_clean(text)
    assert [text for text in strings_in(json.loads(texts[0])) if HOSTILE in text]


def test_metrics_show_names_and_have_no_series_twice(logged: tuple[Runner, str]) -> None:
    """A scrape is read as a whole, or not at all."""
    runner, _ = logged
    text = generate_latest(export(view_of(runner.state)).registry).decode()
    check_clean(text)
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    series = [(sample.name, *sorted(sample.labels.items())) for sample in samples]
    assert len(set(series)) == len(series)
    assert [one for one in samples if visible(HOSTILE) in "".join(one.labels.values())]


def test_events_show_names(logged: tuple[Runner, str], cluster: Cluster) -> None:
    """As they are published."""
    assert logged
    assert cluster.events
    server = ApiServer()
    with served(server) as transport:
        recorder = Recorder(transport, instance="pod-1")
        for event in cluster.events:
            recorder.record(event)
        recorder.close(timeout=30)
    texts = list(strings_in(list(server.objects.values())))
    for text in texts:
        check_clean(text)
    assert [text for text in texts if visible(HOSTILE) in text]


def test_a_value_is_shown_up_to_a_length_and_a_curve_whole(logged: tuple[Runner, str]) -> None:
    """A cut can be seen; one in a path would draw another curve."""
    runner, _ = logged
    start = datetime.now(UTC) - timedelta(hours=1)
    trend = tuple(
        TrendSample(at=start + timedelta(seconds=number), violated=number % 2, above=0, skew=0)
        for number in range(3_000)
    )
    page = structs.replace(page_of(runner.state), acting="x" * 10_000, trend=trend)
    body = page_routes(lambda *_, **__: page, local=False)["/"](Request({})).body.decode()
    assert f'<p class="acting">{"x" * 4_095}…</p>' in body
    (curve,) = re.findall(r'class="curve[^"]*" d="([^"]+)"', body)
    assert curve.count("V") > 1_000
    assert curve.endswith("H342")


def test_the_problems_of_a_policy_are_boxes_of_their_own(logged: tuple[Runner, str]) -> None:
    """The cluster's and a team's."""
    runner, _ = logged
    page = page_of(runner.state)
    team = TeamPolicyStatus(namespace="shop", error="c\nd")
    policy = structs.replace(page.status.policy, valid=False, error="a\nb", team_errors=(team,))
    shown = structs.replace(page, status=structs.replace(page.status, policy=policy))
    body = page_routes(lambda *_, **__: shown, local=False)["/"](Request({})).body.decode()
    boxes = re.findall(r'<p class="box bad" role="alert">([^<]*)</p>', body)
    assert boxes[:4] == [
        "A newer policy is refused, the last valid one stays in force: a",
        "b",
        "Team policy of shop: c",
        "d",
    ]
    lines = status_text(shown.status, datetime.now(UTC)).splitlines()
    assert [line for line in lines if line in boxes] == boxes[:4]
