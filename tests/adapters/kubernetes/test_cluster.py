"""The real cluster behind the loop's port: staleness, stored documents, UIDs of events."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes import cluster as clusters
from rebalancer.adapters.kubernetes import reflector as reflectors
from rebalancer.adapters.kubernetes import transport as transports
from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.adapters.kubernetes.configmaps import StatusMap
from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.reflector import Reflector
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport, connect
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.decoding.kinds import OPTIONAL_KINDS
from rebalancer.model.cluster import NEWEST
from rebalancer.model.creation import EndpointSlice
from rebalancer.model.events import Event, EventReason, Regarding
from rebalancer.model.moves import Reference
from rebalancer.model.snapshot import OPTIONAL
from rebalancer.ports import STATUS_BYTES, Document, PlacedPod, ReadFailedError, ReplicaCount, SaveAnswer
from tests.adapters.kubernetes.fake_server import ApiServer, answer, begin_stream, chunk, served, write_kubeconfig
from tests.controller.waiting import until

STATUS = "/api/v1/namespaces/ns/configmaps/rebalancer-status"


def test_the_status_is_created_then_patched() -> None:
    """Stored documents can be loaded; unchanged documents are not written again."""
    maps = ApiServer()
    with served(maps) as transport:
        status = StatusMap(transport, "ns")
        assert status.load("a") == ""
        assert status.save((Document("a", "1"), Document("b", "2"))) == SaveAnswer()
        assert status.save((Document("a", "1"), Document("b", "2"))) == SaveAnswer()
        assert status.load("a") == "1"
        assert status.save((Document("a", "3"),)) == SaveAnswer()
        assert maps.data(STATUS) == {"a": "3"}
    assert [method for method, _ in maps.requests] == ["GET", "POST", "GET", "PATCH"]


def test_a_memory_that_does_not_fit_replaces_nothing() -> None:
    """A first document that is too large is reported as not stored and nothing is written; a later one is left out."""
    maps = ApiServer()
    large = "x" * (STATUS_BYTES + 1)
    with served(maps) as transport:
        status = StatusMap(transport, "ns")
        assert not status.save((Document("memory", "old"),)).problem
        answered = status.save((Document("memory", large), Document("status", "s")))
        assert answered == SaveAnswer("memory has 294913 bytes, the ConfigMap may have 294912")
        assert maps.data(STATUS) == {"memory": "old"}
        assert not status.save((Document("memory", "new"), Document("plan", large), Document("status", "s"))).problem
        assert maps.data(STATUS) == {"memory": "new", "status": "s"}
        maps.answers["PATCH", STATUS] = 500, "broken"
        assert "broken" in status.save((Document("memory", "newer"),)).problem


def test_a_deposed_leader_overwrites_nothing() -> None:
    """A write replaces only the version that this process knows; until it has read the newer one it writes nothing."""
    maps = ApiServer()
    with served(maps) as transport:
        old, new = StatusMap(transport, "ns"), StatusMap(transport, "ns")
        assert old.save((Document("memory", "of the old leader"),)) == SaveAnswer()
        assert new.load("memory") == "of the old leader"
        assert new.save((Document("memory", "of the new leader"),)) == SaveAnswer()
        for _ in range(2):
            answered = old.save((Document("memory", "overwritten"),))
            assert (answered.conflict, "HTTP 409" in answered.problem) == (True, True)
        assert maps.data(STATUS) == {"memory": "of the new leader"}
        assert old.load("memory") == "of the new leader"
        assert old.save((Document("memory", "merged"),)) == SaveAnswer()
        never = StatusMap(transport, "ns")
        assert never.save((Document("memory", "by who has never read it"),)).conflict
        del maps.objects[STATUS]
        assert old.save((Document("memory", "deleted since"),)).conflict


def test_what_others_wrote_into_the_metadata_stays() -> None:
    """`kubectl apply` compares with its annotation, and deployment tools find their objects by their labels."""
    written: list[dict[str, Any]] = []
    types: list[str] = []
    metadata = {"name": "rebalancer-status", "uid": "u1", "resourceVersion": "7", "labels": {"of": "a tool"}}

    def handle(request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if body:
            written.append(json.loads(body))
            types.append(request.headers["Content-Type"])
        data = written[-1]["data"] if written else {}
        answer(request, 200, {"metadata": metadata, "data": data})

    with served(handle) as transport:
        status = StatusMap(transport, "ns")
        assert status.load("memory") == ""
        for text in ("1", "2"):
            assert status.save((Document("memory", text),)) == SaveAnswer()
    assert written == [
        {"metadata": {"resourceVersion": "7"}, "data": {"memory": text}, "binaryData": {"memory": None}}
        for text in ("1", "2")
    ]
    assert types == ["application/merge-patch+json"] * 2


@pytest.mark.parametrize("exists", [False, True])
def test_a_missing_status_that_may_not_be_created_is_explained(exists: bool) -> None:
    """In a sentence with the command that helps; where the object exists the server's own words are better."""
    server = ApiServer()
    server.answers = dict.fromkeys(
        (("POST", STATUS.rpartition("/")[0]), ("PATCH", STATUS)), (403, "configmaps is forbidden")
    )
    if exists:
        server.put(STATUS)
    with served(server) as transport:
        status = StatusMap(transport, "ns")
        assert status.load("memory") == ""
        answered = status.save((Document("memory", "1"),))
    if exists:
        assert "configmaps is forbidden" in answered.problem
    else:
        assert answered.problem == (
            "ConfigMap ns/rebalancer-status does not exist, and this account has no right to create it; run: "
            "kubectl create configmap rebalancer-status --namespace ns"
        )
    assert answered.conflict is not exists, "once somebody has created it, it must be read before it is written"


def test_a_cluster_that_cannot_be_watched_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nothing was listed, and soon after every watch has begun to fail."""
    assert clusters.FAILING_AFTER == 10
    monkeypatch.setattr(clusters, "FAILING_AFTER", 1.0)
    server = ApiServer()
    with served(server) as transport:
        cluster = make_cluster(transport)
        server.answers = {("WATCH", watch.kind.path): (500, "etcd trouble") for watch in cluster.watches}
        server.answers["WATCH", STATUS.rpartition("/")[0]] = 500, "etcd trouble"
        assert "not listed yet" in cluster.staleness()
        cluster.start()
        limit = time.monotonic() + 16
        while "the watch has failed for" not in cluster.staleness():
            assert time.monotonic() < limit
            time.sleep(0.05)
        assert cluster.synced
        cluster.stop()


def test_after_a_stop_everything_is_stale_until_it_was_listed_again() -> None:
    """Whoever asks first notices it; a kind that may not be listed, or fails, holds nothing but itself."""
    server = ApiServer()
    now = [0.0]
    with served(server) as transport:
        cluster = make_cluster(transport)
        cluster._standstill._clock = lambda: now[0]
        cluster.notice_stops(10.0)
        cluster.start()
        until(lambda: cluster.synced and not cluster.staleness(), "the first lists")
        lists = [request for request in server.requests if request[0] == "GET"]
        for path in ("/api/v1/pods", "/api/v1/resourcequotas"):
            server.answers["GET", path] = 503, "not now"
        now[0] += 9.0
        assert cluster.staleness() == ""
        now[0] += 45.0
        assert "not listed again since the process was stopped for 45s" in cluster.staleness()
        until(lambda: cluster.staleness().startswith("Pod: "), "all others but the pods")
        del server.answers["GET", "/api/v1/pods"]
        until(lambda: cluster.staleness().startswith("ResourceQuota: "), "the pods")
        del server.answers["GET", "/api/v1/resourcequotas"]
        until(lambda: cluster.staleness() == "", "the quotas")
        again = [request for request in server.requests if request[0] == "GET"][len(lists) :]
        assert {path for _, path in again} >= {path for _, path in lists}, "every kind is listed again"
        cluster.stop()


class SilentNodes:
    """A server without bookmarks, whose watches deliver a bookmark all the time, but that of nodes nothing."""

    def __init__(self) -> None:
        self.nodes: dict[str, bool] = {"n1": True}
        """The nodes, and whether each is schedulable."""
        self.code = 200
        """What lists of nodes are answered with."""
        self.over = threading.Event()
        self.requests: list[str] = []
        """Lists and watches of nodes."""

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        kind = request.path.partition("?")[0].rpartition("/")[2]
        is_watch = "watch=" in request.path
        if kind == "nodes":
            self.requests.append("watch" if is_watch else "list")
        if not is_watch:
            items = [self._node(name) for name in self.nodes] if kind == "nodes" else []
            body = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}
            answer(request, self.code if kind == "nodes" else 200, body)
            return
        begin_stream(request)
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}
        while not self.over.wait(0.05):
            if kind != "nodes":
                chunk(request, json.dumps(bookmark).encode() + b"\n")

    def _node(self, name: str) -> dict[str, Any]:
        metadata = {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
        return {"metadata": metadata, "spec": {"unschedulable": not self.nodes[name]}, "status": {}}


@contextmanager
def watching(server: SilentNodes, monkeypatch: pytest.MonkeyPatch, stale_after: float) -> Iterator[KubernetesCluster]:
    monkeypatch.setattr(reflectors, "STALE_AFTER", stale_after)
    with served(server) as transport:
        cluster = make_cluster(transport)
        RUNNING.append(cluster)
        cluster.start()
        until(lambda: cluster.synced, "the lists")
        yield cluster
        server.over.set()
        cluster.stop()


def test_a_quiet_kind_without_bookmarks_is_listed_and_stays_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence of a kind that nobody changes makes nothing stale: it is compared with a list each time."""
    server = SilentNodes()
    with watching(server, monkeypatch, 2.0) as cluster:
        before = cluster.snapshot(datetime.now(UTC))
        seen = set()
        limit = time.monotonic() + 7
        while server.requests.count("list") < 5:
            assert time.monotonic() < limit
            seen.add(cluster.staleness())
            time.sleep(0.01)
        assert seen == {""}
        assert cluster.snapshot(datetime.now(UTC)).holds_same(before), "equal objects are the very same"


def test_a_silent_watch_that_misses_changes_is_stale_though_its_lists_are_fresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the list shows is in the snapshot; the view is fresh again once two lists in a row have shown no more."""
    server = SilentNodes()
    with watching(server, monkeypatch, 1.0) as cluster:
        server.nodes = {"n2": False}
        until(lambda: "Node: the watch did not deliver 2 changes" in cluster.staleness(), "the first comparison")
        assert [(node.name, node.unschedulable) for node in cluster.snapshot(datetime.now(UTC)).nodes] == [("n2", True)]
        for missed in (3, 4):
            server.nodes["n2"] = not server.nodes["n2"]
            until(lambda: f"did not deliver {missed} changes" in cluster.staleness(), "the next comparison")  # noqa: B023
        lists = server.requests.count("list")
        until(lambda: not cluster.staleness(), "two equal lists")
        assert server.requests.count("list") == lists + 2
        assert cluster.reflectors["Node"].age < 1.0


def test_how_long_a_watch_is_silent_is_said_in_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every other duration: 3m25s, not 205s."""
    with watching(SilentNodes(), monkeypatch, 60.0) as cluster:
        monkeypatch.setattr(Reflector, "age", 205.4)
        monkeypatch.setattr(Reflector, "is_stale", True)
        assert cluster.staleness().endswith(": no watch event from the API server for 3m25s")
        monkeypatch.setattr(Reflector, "failing", 205.4)
        assert ": the watch has failed for 3m25s: " in cluster.staleness()


def test_a_silent_watch_that_cannot_be_compared_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contents age on, whatever is tried; one list that is answered makes them fresh."""
    server = SilentNodes()
    with watching(server, monkeypatch, 1.0) as cluster:
        server.code = 503
        until(lambda: "Node: no watch event from the API server for" in cluster.staleness(), "the silence to be seen")
        server.code = 200
        until(lambda: not cluster.staleness(), "a list")


def test_a_named_cluster_wins_over_the_pods_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod, KUBECONFIG and --kubeconfig still say which cluster is meant."""
    file = write_kubeconfig(tmp_path)
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t")
    (account / "ca.crt").write_text("c")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.9")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert connect().host == "http://127.0.0.1:1"
    assert connect(kubeconfig=str(file)).host == "http://127.0.0.1:1"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ClusterError, match="none"):
        connect()
    assert transports.READ_TIMEOUT > 0


@pytest.mark.parametrize(("code", "unknown"), [(200, set()), (404, set()), (403, {"NodePool"}), (500, set())])
def test_node_pools_are_read_where_they_are_served(code: int, unknown: set[str]) -> None:
    """A command reads them once; the controller watches them. Nothing waits for them, and nothing else is stale."""
    server, pools = ApiServer(), "/apis/karpenter.sh/v1/nodepools"
    server.put(f"{pools}/general", spec={"template": {"spec": {}}})
    if code != 200:
        server.answers = dict.fromkeys((("GET", pools), ("WATCH", pools)), (code, "not here"))
    expected = ["general"] if code == 200 else []
    with served(server) as transport:
        now = datetime.now(UTC)
        once = read_once(transport, now)
        assert [made.name for made in once.node_pools] == expected
        assert once.unknown == unknown
        cluster = make_cluster(transport)
        cluster.start()
        limit = time.monotonic() + 20
        try:
            # Nothing waits for optional kinds: their lists may come after the cluster is synced.
            while not (cluster.synced and cluster.snapshot(now).known == once.known):
                assert time.monotonic() < limit, (cluster.staleness(), cluster.snapshot(now).known)
                time.sleep(0.02)
            assert [made.name for made in cluster.snapshot(now).node_pools] == expected
            assert (cluster.staleness(), cluster.forbidden()) == ("", "")
            assert cluster.snapshot(now).unknown == unknown
            assert once.known == OPTIONAL - (set() if code == 200 else {"NodePool"})
        finally:
            cluster.stop()
        before, after = (cluster.snapshot(moment) for moment in (now, now + timedelta(seconds=1)))
        assert after.holds_same(before), "nothing was received in between"
        assert after.taken_at - before.taken_at == timedelta(seconds=1)
        cluster.reflectors["Pod"].synced.clear()
        assert not cluster.snapshot(now).holds_same(before), "pods are not known any more"


def test_only_workloads_are_read_by_namespace() -> None:
    """Owners, budgets and services of the scope, pods and nodes of all; what may not be read is left out alone."""
    server, refused = ApiServer(), "/apis/apps/v1/namespaces/gone/deployments"
    server.answers = dict.fromkeys((("GET", refused), ("WATCH", refused)), (403, "deployments is forbidden"))
    for name in ("shop", "gone", "other"):
        server.put(f"/api/v1/namespaces/{name}")
        path = f"/apis/apps/v1/namespaces/{name}/statefulsets/web"
        server.put(path, metadata={"namespace": name, "uid": path}, spec={"replicas": 1})
    with served(server) as transport:
        cluster = make_cluster(transport, scope=frozenset({"shop", "gone", "shpo"}))
        now = datetime.now(UTC)
        assert cluster.snapshot(now).scope == frozenset(), "nothing is assessed before it is read"
        cluster.start()
        limit = time.monotonic() + 20
        while not cluster.synced or cluster.snapshot(now).scope != frozenset({"shop"}):
            assert time.monotonic() < limit, cluster.staleness()
            time.sleep(0.02)
        made = cluster.snapshot(now)
        assert (cluster.staleness(), cluster.forbidden()) == ("", "")
        watched = [(watch.kind.name, watch.has_listed) for watch in cluster.watches]
        cluster.stop()
    assert (watched.count(("Deployment", True)), watched.count(("Deployment", False))) == (2, 1)
    assert [workload.namespace for workload in made.workloads] == ["shop"], "and none of the namespace left out"
    assert made.unknown == frozenset()
    gone, misspelt = map(str, made.faults)
    assert gone.startswith("Namespace gone: its workloads are left out: ")
    assert "deployments is forbidden" in gone
    assert misspelt == "Namespace shpo: its workloads are left out: there is no such namespace"
    lists = {path for method, path in server.requests if (method, path) not in server.answers}
    inside = {path.rsplit("/", 1)[1] for path in lists if "/namespaces/shop/" in path}
    assert inside == {
        *("deployments", "replicasets", "statefulsets", "replicationcontrollers", "services", "poddisruptionbudgets"),
        *("resourcequotas", "limitranges", "serviceaccounts", "horizontalpodautoscalers", "verticalpodautoscalers"),
        "podgroups",
    }
    everywhere = {path.rsplit("/", 1)[1] for path in lists if "/namespaces/" not in path}
    assert {"pods", "nodes", "namespaces", "persistentvolumeclaims"} <= everywhere
    assert not everywhere & inside


DECIDERS = sorted(OPTIONAL - {"EndpointSlice"})


def collection(kind: str, namespace: str = "") -> str:
    """Return the path of a list of an optional kind."""
    found = next(one for one in OPTIONAL_KINDS if one.name == kind)
    return found.path_in(namespace) if namespace else found.path


RUNNING: list[KubernetesCluster] = []


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """End what a failed test leaves behind: its watches would write into the logs of others."""
    yield
    while RUNNING:
        RUNNING.pop().stop()


def started(cluster: KubernetesCluster) -> KubernetesCluster:
    """Begin to watch, and wait until every kind has been answered: a connection may be refused on a busy machine."""
    RUNNING.append(cluster)
    cluster.start()
    until(lambda: cluster.synced and all(_is_answered(reflector) for reflector in cluster._all), "the lists")
    return cluster


def _is_answered(reflector: Reflector) -> bool:
    return reflector.has_listed or "no response" not in reflector.error


def test_without_the_rights_of_this_version_it_runs_as_before() -> None:
    """One line for each kind that may not be listed, and none of them is known; what is not served is not mentioned."""
    server, unserved = ApiServer(), {"NodePool", "VerticalPodAutoscaler", "ClusterResourceQuota"}
    for kind in DECIDERS:
        refusal = (404, "not found") if kind in unserved else (403, f"{kind} is forbidden")
        server.answers |= dict.fromkeys((("GET", collection(kind)), ("WATCH", collection(kind))), refusal)
    now, refused = datetime.now(UTC), set(DECIDERS) - unserved
    with served(server) as transport, capture_logs() as logs:
        cluster = started(make_cluster(transport))
        made, once = cluster.snapshot(now), read_once(transport, now)
        assert (cluster.staleness(), cluster.forbidden()) == ("", "")
        cluster.stop()
    assert made.known == once.known == frozenset()
    assert made.unknown == once.unknown == refused
    said = [entry for entry in logs if entry["event"] != "watch failed"]
    assert sorted(entry["kind"] for entry in said) == sorted(refused)
    assert {entry["event"] for entry in said} == {"not allowed to list"}
    assert all(f"{entry['kind']} is forbidden" in entry["error"] for entry in said)


def test_in_a_scope_a_kind_is_known_where_it_may_be_listed_in_each_namespace() -> None:
    """A right that one namespace lacks is missing there; the workloads of that namespace are read all the same."""
    server = ApiServer()
    quotas = {name: collection("ResourceQuota", name) for name in ("shop", "cart")}
    for name in ("shop", "cart"):
        server.put(f"/api/v1/namespaces/{name}")
        server.put(f"{quotas[name]}/pods", metadata={"namespace": name}, spec={"hard": {"pods": "9"}})
    server.answers = dict.fromkeys((("GET", quotas["cart"]), ("WATCH", quotas["cart"])), (403, "forbidden"))
    with served(server) as transport:
        cluster = started(make_cluster(transport, scope=frozenset({"shop", "cart"})))
        made = cluster.snapshot(datetime.now(UTC))
        cluster.stop()
    assert made.scope == frozenset({"shop", "cart"})
    assert [quota.namespace for quota in made.quotas] == ["shop"]
    assert made.known == OPTIONAL - {"ResourceQuota"}
    assert made.unknown == {"ResourceQuota"}


def test_a_kind_whose_watch_has_long_been_silent_is_not_known_any_more() -> None:
    """A quota of long ago is no reason, for nothing and against nothing; a pool is there as it was."""
    server, pools = ApiServer(), collection("NodePool")
    server.put("/api/v1/namespaces/shop")
    server.put(
        f"{collection('ResourceQuota', 'shop')}/pods", metadata={"namespace": "shop"}, spec={"hard": {"pods": "9"}}
    )
    server.put(f"{pools}/general", spec={"template": {"spec": {}}})
    with served(server) as transport:
        cluster = started(make_cluster(transport))
        now = datetime.now(UTC)
        assert len(cluster.snapshot(now).quotas) == 1
        for reflector in cluster._optional:
            reflector._known_at -= 2 * reflectors.STALE_AFTER
        made = cluster.snapshot(now)
        cluster.stop()
    assert (made.quotas, [pool.name for pool in made.node_pools]) == ((), ["general"])
    assert made.known == {"NodePool", "HorizontalPodAutoscaler"}


def test_a_malformed_object_of_an_optional_kind_is_a_fault() -> None:
    """It is reported like any other, and the others of its kind are known."""
    server = ApiServer()
    for name, pods in (("good", "9"), ("broken", "many")):
        path = f"{collection('ResourceQuota', 'shop')}/{name}"
        server.put(path, metadata={"namespace": "shop"}, spec={"hard": {"pods": pods}})
    with served(server) as transport:
        cluster = started(make_cluster(transport))
        for made in (cluster.snapshot(datetime.now(UTC)), read_once(transport, datetime.now(UTC))):
            assert [quota.name for quota in made.quotas] == ["good"]
            (fault,) = made.faults
            assert (fault.kind, fault.namespace, fault.name) == ("ResourceQuota", "shop", "broken")
            assert "ResourceQuota" in made.known
        cluster.stop()


RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"


def gated() -> ApiServer:
    """Return a server with a webhook that must answer, whose Service has a ready endpoint, and one that need not."""
    server = ApiServer()
    webhooks = [
        {
            "name": name,
            "rules": [RULE],
            "failurePolicy": policy,
            "clientConfig": {"service": {"namespace": namespace, "name": "gate"}},
        }
        for name, policy, namespace in (("must", "Fail", "shop"), ("may", "Ignore", "elsewhere"))
    ]
    server.put(f"{collection('ValidatingWebhookConfiguration')}/gate", webhooks=webhooks)
    labels = {"kubernetes.io/service-name": "gate"}
    server.put(f"{SLICES}/gate-1", metadata={"namespace": "shop", "labels": labels}, endpoints=[{}])
    return server


def test_slices_are_listed_of_the_services_that_must_answer() -> None:
    """By the label of the Service, in its namespace, and not again within half a minute."""
    server, lists = gated(), list[str]()

    def handle(request: BaseHTTPRequestHandler) -> None:
        if "/endpointslices" in request.path:
            lists.append(request.path)
        server(request)

    now = datetime.now(UTC)
    expected = [EndpointSlice(namespace="shop", name="gate-1", service="gate", ready=1)]
    with served(handle) as transport:
        assert list(read_once(transport, now).endpoint_slices) == expected
        cluster = started(make_cluster(transport))
        made = cluster.snapshot(now)
        assert list(made.endpoint_slices) == expected
        assert made.known == OPTIONAL
        assert cluster.snapshot(now).holds_same(made), "nothing was received in between"
        cluster.stop()
    path, _, query = lists[0].partition("?")
    assert (path, parse_qs(query)["labelSelector"]) == (SLICES, ["kubernetes.io/service-name=gate"])
    assert lists == [lists[0]] * 2, "once by each"


@pytest.mark.parametrize(("code", "unknown"), [(403, {"EndpointSlice"}), (404, set()), (500, set())])
def test_slices_that_cannot_be_listed_are_unknown(code: int, unknown: set[str]) -> None:
    """In one line; a right that is missing is named like any other."""
    server = gated()
    server.answers["GET", SLICES] = code, "no slices"
    now = datetime.now(UTC)
    with served(server) as transport, capture_logs() as logs:
        once = read_once(transport, now)
        cluster = started(make_cluster(transport))
        for made in (once, cluster.snapshot(now), cluster.snapshot(now)):
            assert made.known == OPTIONAL - {"EndpointSlice"}
            assert made.unknown == unknown
            assert not made.endpoint_slices
        cluster.stop()
    (said,) = [entry for entry in logs if entry.get("kind") == "EndpointSlice"]
    assert said["event"] == ("not allowed to list" if code == 403 else "not listed")
    assert "no slices" in said["error"]


def test_without_the_webhooks_no_slices_are_known() -> None:
    """Which Services must answer is not known then either."""
    server, path = gated(), collection("MutatingWebhookConfiguration")
    server.answers = dict.fromkeys((("GET", path), ("WATCH", path)), (404, "not here"))
    with served(server) as transport:
        cluster = started(make_cluster(transport))
        for made in (cluster.snapshot(datetime.now(UTC)), read_once(transport, datetime.now(UTC))):
            assert made.known == OPTIONAL - {"MutatingWebhookConfiguration", "EndpointSlice"}
        cluster.stop()


def test_a_list_of_slices_that_hangs_holds_no_snapshot_up() -> None:
    """It waits a second for them, and goes on without; once they come, they are known."""
    server, over = gated(), threading.Event()

    def handle(request: BaseHTTPRequestHandler) -> None:
        if "/endpointslices" in request.path:
            over.wait(20)
        server(request)

    now = datetime.now(UTC)
    with served(handle) as transport:
        cluster = started(make_cluster(transport))
        began = time.monotonic()
        made = cluster.snapshot(now)
        took = time.monotonic() - began
        over.set()
        assert made.known == OPTIONAL - {"EndpointSlice"}
        assert made.unknown == set()
        until(lambda: "EndpointSlice" in cluster.snapshot(now).known, "the answer")
        cluster.stop()
    assert took < 3


@pytest.mark.parametrize("kind", ["ConfigMap", "Deployment"])
def test_an_event_has_the_uid_of_the_object_it_is_about(kind: str) -> None:
    """`kubectl describe` selects events by it."""
    server, recorded = ApiServer(), list[Any]()
    server.answers["POST", "/apis/events.k8s.io/v1/namespaces/ns/events"] = recorded.append
    for collection in ("/api/v1/namespaces/ns/configmaps", "/apis/apps/v1/namespaces/ns/deployments"):
        server.put(f"{collection}/rebalancer-control", metadata={"namespace": "ns", "uid": "U1"})
    with served(server) as transport:
        cluster = make_cluster(transport)
        cluster.start()
        limit = time.monotonic() + 20
        while not cluster.synced:
            assert time.monotonic() < limit
            time.sleep(0.02)
        regarding = Regarding(kind=kind, namespace="ns", name="rebalancer-control")
        cluster.record(Event(reason=EventReason.REBALANCE_PAUSED, note="a test", regarding=regarding))
        while not recorded:
            assert time.monotonic() < limit
            time.sleep(0.02)
        cluster.stop()
    assert recorded[0]["regarding"]["uid"] == "U1"


def make_cluster(transport: Transport, **fields: Any) -> KubernetesCluster:
    """Return a cluster that watches nothing yet."""
    control = Reflector(transport, CONFIG_MAPS, namespace="ns", name="rebalancer-control")
    return KubernetesCluster(transport, namespace="ns", instance="i", version=NEWEST, control=control, **fields)


CART = "/apis/apps/v1/namespaces/shop/deployments/cart"


def owner(uid: str, ready: int) -> dict[str, Any]:
    """Return the fields of a workload of six."""
    metadata = {"name": "cart", "namespace": "shop", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"replicas": 6, "selector": {"matchLabels": {"app": "cart"}}, "template": {}}
    return {"metadata": metadata, "spec": spec, "status": {"readyReplicas": ready}}


@pytest.mark.parametrize("kind", ["Job", "CloneSet", "Rollout"])
def test_replicas_of_a_kind_that_is_not_read_are_an_error_with_a_way_out(kind: str) -> None:
    """The eviction is held back with this message; nothing is requested."""
    requests: list[str] = []
    with served(lambda request: requests.append(request.path)) as transport, pytest.raises(ReadFailedError) as caught:
        make_cluster(transport).count_replicas(Reference("shop", kind, "cart"))
    assert str(caught.value) == (
        f"the replicas of shop/cart ({kind}) cannot be read: the rebalancer does not read objects of kind {kind}. "
        "Remove the kind from eligibility.owners"
    )
    assert requests == []


def owned(name: str, *, kind: str = "ReplicaSet", uid: str = "rs", ready: bool = True, ends: bool = False) -> Any:
    """Return a pod of the owner."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "cart", "uid": uid, "controller": True}
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "cart"}, "ownerReferences": [owner]}
    if ends:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "main"}], "nodeName": "a-1"},
        "status": {"phase": "Running", "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("kind", "in_status", "expected", "names"),
    [
        ("Deployment", 5, 3, ["five", "four", "one", "two"]),
        ("Deployment", 2, 2, ["five", "four", "one", "two"]),
        ("StatefulSet", 5, 1, ["six"]),
    ],
)
def test_pods_are_counted_as_they_are_and_not_as_a_status_has_them(
    kind: str, in_status: int, expected: int, names: list[str]
) -> None:
    """On every page; a pod that terminates, is not Ready or somebody else's is none. A lower status holds.

    Those that do not terminate are named with their nodes, Ready or not, but none that has ended.
    """
    uid = "cart" if kind == "StatefulSet" else "deployment"
    pages = {
        "": [owned("one"), owned("two"), owned("three", ends=True)],
        "2": [owned("four", ready=False), owned("five"), owned("six", kind="StatefulSet", uid="cart")],
    }
    failed = owned("seven", ready=False)
    failed["status"]["phase"] = "Failed"
    pages[""].append(failed)
    queries: list[dict[str, list[str]]] = []

    def handle(request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        if not path.endswith("/pods"):
            answer(request, 200, owner(uid, in_status))
            return
        queries.append(parse_qs(query))
        token = queries[-1].get("continue", [""])[0]
        answer(request, 200, {"metadata": {"continue": "" if token else "2"}, "items": pages[token]})

    with served(handle) as transport:
        count = make_cluster(transport).count_replicas(Reference("shop", kind, "cart"))
    assert count == ReplicaCount(wanted=6, ready=expected, pods={name: PlacedPod(name, "a-1") for name in names})
    assert [query["labelSelector"] for query in queries] == [["app=cart"]] * 2


def test_pods_of_another_deployment_are_none_of_this_one() -> None:
    """Two Deployments whose selectors select the same pods would else find pods that no plan knows, for ever."""
    server = ApiServer()
    server.put(CART, **owner("cart", 6))
    for name, uid in (("mine", "cart"), ("theirs", "another")):
        above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": uid, "uid": uid, "controller": True}
        metadata = {"namespace": "shop", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        server.put(
            f"/apis/apps/v1/namespaces/shop/replicasets/{name}",
            metadata={**metadata, "ownerReferences": [above]},
            spec={"replicas": 1, "selector": {"matchLabels": {"app": "cart"}}},
        )
        pod = owned(f"pod-{name}", uid=name)
        pod["metadata"]["ownerReferences"][0]["name"] = name
        server.put(f"/api/v1/namespaces/shop/pods/pod-{name}", **pod)
    with served(server) as transport:
        cluster = make_cluster(transport)
        cluster.start()
        until(lambda: cluster.synced, "the watches")
        count = cluster.count_replicas(Reference("shop", "Deployment", "cart"))
        cluster.stop()
    assert count == ReplicaCount(6, 2, {"pod-mine": PlacedPod("pod-mine", "a-1")})


@pytest.mark.parametrize(("code", "body", "names"), [(503, "not now", "not now"), (200, b'{"items": [', "not a list")])
def test_pods_that_cannot_be_counted_are_an_error(code: int, body: Any, names: str) -> None:
    """The step waits, also where the answer is half a list."""
    server = ApiServer()
    server.put(CART, **owner("cart", 6))
    server.answers["GET", "/api/v1/namespaces/shop/pods"] = code, body
    with served(server) as transport, pytest.raises(ReadFailedError, match=names):
        make_cluster(transport).count_replicas(Reference("shop", "Deployment", "cart"))


def test_the_watches_of_a_silent_server_end_together() -> None:
    """Lists that wait for their answers are interrupted; their threads are not waited for one after the other."""
    silent = threading.Event()

    def handle(request: BaseHTTPRequestHandler) -> None:
        silent.wait(20)
        request.close_connection = True

    with served(handle) as transport:
        cluster = make_cluster(transport)
        cluster.start()
        time.sleep(0.2)
        began = time.monotonic()
        cluster.stop()
        assert time.monotonic() - began < 1.5
        silent.set()
    assert not any(thread.is_alive() for thread in cluster.threads)


def test_a_check_before_a_step_waits_for_a_second_at_most() -> None:
    """For the kill switch and for a workload: a server that says nothing delays a step, and no more."""
    silent = threading.Event()

    def handle(request: BaseHTTPRequestHandler) -> None:
        silent.wait(5)
        request.close_connection = True

    with served(handle) as transport:
        cluster = make_cluster(transport)
        for read in (cluster.read_pause, lambda: cluster.count_replicas(Reference("shop", "StatefulSet", "cart"))):
            began = time.monotonic()
            with pytest.raises(ReadFailedError, match="no response"):
                read()
            assert time.monotonic() - began < 1.5
        silent.set()
