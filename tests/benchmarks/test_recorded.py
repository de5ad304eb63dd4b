"""A recorded server is what its made state says: the measurements of docs/results.md rest on it."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recorded import objects
from benchmarks.recorded.live import LiveCluster
from benchmarks.recorded.pages import INDEX, VERSION, record
from benchmarks.recorded.protobuf import CONTENT_TYPE, MAGIC
from benchmarks.recorded.server import served
from benchmarks.recorded.states import SCENARIOS, ZONES, State, zone_of, zone_returned
from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import Transport, connect
from rebalancer.model.snapshot import Snapshot
from tests.control_plane.build import MissingPart
from tests.drawing import sampled

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, for the certificate, is missing")

NODES, PODS = 60, 1500


@pytest.fixture(scope="module", params=sampled(SCENARIOS))
def state(request: pytest.FixtureRequest) -> State:
    return SCENARIOS[request.param](NODES, PODS)


@pytest.fixture(scope="module")
def folder(state: State, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recorded")
    try:
        record(state, made)
    except MissingPart as missing:
        pytest.skip(str(missing))
    return made


@pytest.fixture(scope="module")
def transport(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transport]:
    with served(folder, tmp_path_factory.mktemp("server")) as kubeconfig:
        connected = connect(kubeconfig=str(kubeconfig))
        yield connected
        connected.close()


@pytest.fixture(scope="module")
def snapshot(transport: Transport) -> Snapshot:
    return read_once(transport, datetime(2026, 1, 2, tzinfo=UTC))


def test_every_pod_is_read_on_its_node(state: State, snapshot: Snapshot) -> None:
    """Over TLS, page by page, the snapshot has the workloads and placements of the made state, without a fault."""
    assert not snapshot.faults
    assert not snapshot.unknown
    assert len(snapshot.nodes) == NODES
    planned = Counter((w.name, objects.node_name(node)) for w in state.workloads for node in w.nodes)
    read = Counter((pod.labels["app"], pod.node) for pod in snapshot.pods)
    assert read == planned
    assert len({pod.uid for pod in snapshot.pods}) == state.pods
    owners = Counter(owner.name for pod in snapshot.pods if (owner := snapshot.top_owner_of(pod)) is not None)
    assert owners == {workload.name: len(workload.nodes) for workload in state.workloads}


def test_pods_are_as_large_as_real_ones(folder: Path) -> None:
    """A pod takes seven to ten KB of JSON, a sixth of it or more managedFields."""
    (start, length), *_ = json.loads((folder / INDEX).read_text(encoding="utf-8"))["/api/v1/pods"]["json"]
    with (folder / "pages.json").open("rb") as file:
        file.seek(start)
        pods = json.loads(file.read(length))["items"]
    sizes = [len(json.dumps(pod, separators=(",", ":"))) for pod in pods]
    assert min(sizes) > 7_000
    assert max(sizes) < 10_000
    managed = [len(json.dumps(pod["metadata"]["managedFields"], separators=(",", ":"))) for pod in pods]
    assert sum(managed) > sum(sizes) / 6


def test_protobuf_says_the_same_as_json(transport: Transport, state: State) -> None:
    """The envelope is Kubernetes', and the pages have the names of all pods."""
    if state.pods > PODS + NODES:
        pytest.skip("one size is enough")
    data, token = b"", ""
    while True:
        query = {"limit": "500", **({"continue": token} if token else {})}
        page = _get_protobuf(transport, query)
        assert page.startswith(MAGIC)
        data += page
        token = str(int(token or 0) + 1)
        if int(token) * 500 >= state.pods:
            break
    for workload in state.workloads:
        assert workload.name.encode() in data
    assert data.count(b"v1.42.0") >= state.pods


def _get_protobuf(transport: Transport, query: dict[str, str]) -> bytes:
    client: Any = transport
    headers = {"Accept": f"{CONTENT_TYPE},application/json"}
    request = client.param_serialize("GET", "/api/v1/pods", query_params=list(query.items()), header_params=headers)
    response = client.call_api(*request).response
    assert response.headers["Content-Type"] == CONTENT_TYPE
    data: bytes = response.data
    return data


def test_a_watch_resumes_and_is_at_rest_after_the_last_change(folder: Path, tmp_path: Path) -> None:
    """Ten pods come and go in twenty changes; whoever has fifteen gets five, then bookmarks of the last version."""
    asked = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": str(int(VERSION) + 15)}
    with served(folder, tmp_path, events=1000, churn=10) as kubeconfig:
        transport = connect(kubeconfig=str(kubeconfig))
        response = transport.stream("/api/v1/pods", query=asked, read_timeout=30.0)
        chunks, sent = response.stream(amt=None), b""
        while b"BOOKMARK" not in sent:
            sent += next(chunks)
        response.close()
        transport.close()
    events = [json.loads(line) for line in sent.splitlines()]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) - int(VERSION) for event in events]
    assert versions == [16, 17, 18, 19, 20, 20]
    assert events[-1]["type"] == "BOOKMARK"


def test_an_evicted_pod_is_replaced_where_its_workload_has_the_fewest() -> None:
    """The watch shows both, once; another UID evicts nothing, and a lost node holds nothing any more."""
    live = LiveCluster(zone_returned(NODES, PODS))
    events = live.watch("pods")
    assert json.loads(next(events))["type"] == "BOOKMARK"
    pod = json.loads(live.list_pods("team-00", "app=w00000"))["items"][0]["metadata"]
    assert not live.evict("team-00", pod["name"], "another")
    assert live.evict("team-00", pod["name"], pod["uid"])
    assert not live.evict("team-00", pod["name"], pod["uid"])
    gone, new = (json.loads(next(events)) for _ in range(2))
    assert (gone["type"], gone["object"]["metadata"]["uid"]) == ("DELETED", pod["uid"])
    assert new["type"] == "ADDED"
    node = new["object"]["spec"]["nodeName"]
    assert zone_of(int(node.rpartition("-")[2])) == ZONES - 1
    assert json.loads(next(events))["type"] == "BOOKMARK"
    live.lose(int(node.rpartition("-")[2]))
    left = json.loads(live.list_pods("team-00", "app=w00000"))["items"]
    assert len(left) == 30
    assert node not in {item["spec"]["nodeName"] for item in left}
    assert len(json.loads(live.figures())["evictions"]) == 1
