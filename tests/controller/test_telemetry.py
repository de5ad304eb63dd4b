"""What the process shows of itself to probes."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler

import pytest

from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.adapters.kubernetes.reflector import Reflector
from rebalancer.adapters.kubernetes.transport import RequestRefused
from rebalancer.controller.state import InForce, LoopState, Queue
from rebalancer.controller.telemetry import Telemetry
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.locations import Address
from rebalancer.model.cluster import NEWEST
from rebalancer.policy import default_policy
from tests.adapters.kubernetes.fake_server import ApiServer, answer, served
from tests.controller.test_gauges import STATE
from tests.reports import rows_of


class Part:
    """A part of the process whose thread lives until `end`."""

    def __init__(self, name: str) -> None:
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.ending.wait, name=name, daemon=True)

    def end(self) -> None:
        self.ending.set()
        self.thread.join(5)


@pytest.fixture
def shown() -> Iterator[tuple[Telemetry, KubernetesCluster]]:
    """Give the telemetry of a process whose watches have not been started, and its cluster."""

    def refuse(request: BaseHTTPRequestHandler) -> None:
        answer(request, 403, {"message": "forbidden"})

    with served(refuse) as transport:
        control = Reflector(transport, CONFIG_MAPS, namespace="home", name="control")
        cluster = KubernetesCluster(transport, namespace="home", instance="me", version=NEWEST, control=control)
        telemetry = Telemetry(cluster, Address("127.0.0.1", 0), transport, interval=60)
        telemetry.start()
        yield telemetry, cluster
        telemetry.stop()
        cluster.stop()


def ask(telemetry: Telemetry, path: str) -> tuple[int, str]:
    assert telemetry._web is not None
    with closing(http.client.HTTPConnection(*telemetry._web.address, timeout=5)) as connection:
        connection.request("GET", path)
        answered = connection.getresponse()
        return answered.status, answered.read().decode()


def test_a_process_whose_threads_have_not_started_is_alive(shown: tuple[Telemetry, KubernetesCluster]) -> None:
    telemetry, _ = shown
    telemetry.watch_threads(Part("lease"), None)
    assert ask(telemetry, "/healthz") == (200, "ok\n")


def test_the_watches_of_one_kind_in_several_namespaces_are_one_series() -> None:
    """The oldest counts: a namespace that nothing is heard of must not hide behind another one."""
    with served(lambda request: answer(request, 403, {})) as transport:
        control = Reflector(transport, CONFIG_MAPS, namespace="home", name="control")
        cluster = KubernetesCluster(
            transport, namespace="home", instance="me", version=NEWEST, control=control, scope=frozenset({"a", "b"})
        )
        deployments = [watch for watch in cluster.watches if watch.kind.name == "Deployment"]
        assert len(deployments) == 2
        deployments[0]._known_at -= 1000
        readings = list(Telemetry(cluster, None, transport, interval=60)._read_watches())
        assert len({reading.kind for reading in readings}) == len(readings)
        (reading,) = [reading for reading in readings if reading.kind == "Deployment"]
        assert reading.age > 999
        cluster.stop()


def test_what_a_namespace_refuses_for_itself_does_not_count_for_the_breaker() -> None:
    """Neither do events, whatever is answered, nor what is refused since the namespace is deleted, or by a webhook.

    Nor do kinds that are optional: an update may come before its rights. Nor does what is written for people alone, a
    question about rights, or a status that does not exist: while it does not, nothing is evicted anyway.
    """
    terminating = {"details": {"causes": [{"reason": "NamespaceTerminating"}]}}
    denied = {"message": 'admission webhook "guard" denied the request: not now'}
    answers = {
        "/apis/events.k8s.io/v1/namespaces/shop/events": (500, {}),
        "/api/v1/resourcequotas": (403, {}),
        "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices": (500, {}),
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": (500, {}),
        "/api/v1/namespaces/ops/configmaps/rebalancer-policy-valid": (404, {}),
        "/api/v1/namespaces/ops/configmaps": (403, {}),
        "/api/v1/gone": (403, terminating),
        "/api/v1/denied": (403, denied),
        "/api/v1/pods": (403, {}),
        "/api/v1/namespaces/ops/configmaps/rebalancer-status": (500, {}),
    }
    server = ApiServer()
    server.answers = {("POST", path): answered for path, answered in answers.items()}
    with served(server) as transport:
        control = Reflector(transport, CONFIG_MAPS, namespace="home", name="control")
        cluster = KubernetesCluster(transport, namespace="home", instance="me", version=NEWEST, control=control)
        telemetry = Telemetry(cluster, None, transport, interval=60)
        counts = []
        for path in answers:
            with pytest.raises(RequestRefused):
                transport.request("POST", path)
            counts.append(telemetry.requests.read(timedelta(minutes=1)))
        cluster.stop()
    assert [(count.total, count.failed) for count in counts] == [*[(0, 0)] * 6, (1, 0), (2, 0), (3, 1), (4, 2)]


def test_the_end_of_a_thread_is_a_failure_of_liveness(shown: tuple[Telemetry, KubernetesCluster]) -> None:
    """A process without the thread that reads its policy or renews its lease must be restarted."""
    telemetry, _ = shown
    lease, policy = Part("lease"), Part("policy")
    telemetry.watch_threads(lease, policy)
    for part in (lease, policy):
        part.thread.start()
    assert ask(telemetry, "/healthz")[0] == 200
    policy.end()
    status, text = ask(telemetry, "/healthz")
    assert (status, text.splitlines()[1]) == (503, "[-]threads failed: ended: policy")
    lease.end()


def test_the_threads_of_the_cluster_are_among_them(shown: tuple[Telemetry, KubernetesCluster]) -> None:
    """The thread of events, and one for each watch."""
    telemetry, cluster = shown
    cluster.reflectors["Pod"].start()
    assert ask(telemetry, "/healthz")[0] == 200
    cluster.stop()
    assert "[-]threads failed: ended: events, reflect-pods" in ask(telemetry, "/healthz")[1]


def series(telemetry: Telemetry) -> set[str]:
    return {line for line in ask(telemetry, "/metrics")[1].splitlines() if line.startswith("rebalancer_")}


def test_before_the_loop_has_begun_nobody_leads_and_no_policy_was_read(
    shown: tuple[Telemetry, KubernetesCluster],
) -> None:
    telemetry, _ = shown
    first = series(telemetry)
    assert {"rebalancer_leader 0.0", 'rebalancer_mode{mode="Observe"} 1.0'} <= first
    assert not [line for line in first if line.startswith("rebalancer_policy_last_reload_timestamp_seconds")]
    telemetry.changed(STATE)
    (read_at,) = [
        line for line in series(telemetry) if line.startswith("rebalancer_policy_last_reload_timestamp_seconds")
    ]
    assert float(read_at.split()[1]) == STATE.in_force.policy_since.timestamp()


def test_a_lease_that_has_run_out_shows_at_once(shown: tuple[Telemetry, KubernetesCluster]) -> None:
    """Also while the loop waits for an API server that does not answer. And a state that does not lead shows so too."""
    telemetry, _ = shown
    leads = True
    telemetry._leads = lambda: leads
    telemetry.changed(STATE)
    assert "rebalancer_leader 1.0" in series(telemetry)
    leads = False
    held = series(telemetry)
    assert "rebalancer_leader 0.0" in held
    assert not {line for line in held if line.startswith(("rebalancer_constraint", "rebalancer_findings"))}
    leads = True
    telemetry.changed(replace(STATE, leadership=replace(STATE.leadership, leads=False)))
    assert "rebalancer_leader 0.0" in series(telemetry)


def test_the_findings_of_a_cycle_are_counted_as_long_as_it_is_the_last(
    shown: tuple[Telemetry, KubernetesCluster],
) -> None:
    """Whoever leads again has none before its first cycle."""
    telemetry, _ = shown
    for state, number in ((STATE, 1), (replace(STATE, cycle=None), 0)):
        telemetry.changed(state)
        assert f'rebalancer_findings{{kind="DomainWithoutNodes"}} {number}.0' in series(telemetry)


@pytest.mark.parametrize(("problem", "saved"), [("", True), ("HTTP 403", False)])
def test_a_memory_that_is_not_saved_is_measured(problem: str, saved: bool) -> None:
    """It holds back every eviction, so an alert reports it."""
    state = LoopState(
        in_force=InForce(policy=default_policy(), policy_since=datetime(2026, 1, 1, tzinfo=UTC)),
        queue=Queue(unsaved=problem),
    )
    assert rows_of(state, "rebalancer_memory_saved") == {(): saved}
