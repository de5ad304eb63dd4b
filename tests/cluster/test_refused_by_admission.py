"""What admission control refuses on purpose is no failure: it is named, repeated slowly, and holds no other back."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from rebalancer.adapters.kubernetes.evictions import evict
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.ports import EvictionResult
from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, Controller, install, policy, rebalancer
from tests.cluster.eviction_webhook import NAME, EvictionWebhook
from tests.cluster.test_namespaces import ALL_AT_ONCE, lay_out_skewed, repaired
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import deployment, lay_out, nodes, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.tracking.build import move

HELD, HEALTHY = "held", "healthy"
REASON: Final = "RefusedByAdmission"
WORKLOADS: Final = 4
STATUS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"
BUDGET: Final = "1 pod not ready in zone-a, budget is 0"


def entries(api: Api) -> list[dict[str, Any]]:
    """Return the evictions that admission control refused, by the stored status."""
    document = json.loads(api.get(STATUS).get("data", {}).get("status.json", "{}"))
    refused: list[dict[str, Any]] = document.get("refusedEvictions", [])
    return refused


def evictions(controller: Controller) -> Counter[str]:
    """Count the eviction requests by result, as the metric does."""
    samples = controller.metrics()
    counts = {
        result.value: int(samples[f'rebalancer_evictions_total{{result="{result}"}}']) for result in EvictionResult
    }
    return Counter({result: count for result, count in counts.items() if count})


def requests_of(plane: ControlPlane, space: str) -> Counter[str]:
    """Count the controller's eviction requests in a namespace by Deployment."""
    return Counter(
        request.name.rpartition("-")[0] for request in plane.audit.evictions(user=USER) if request.namespace == space
    )


def check_named(
    plane: ControlPlane, tmp_path: Path, refuser: str, words: str, number: int = WORKLOADS
) -> list[datetime]:
    """Check that commands say who refused, why, and when it is tried again; return these times."""
    access = ("--kubeconfig", str(plane.kubeconfig()), "--policy", str(tmp_path / "policy.yaml"))
    expected = rf"{re.escape(refuser)} refused the eviction: {re.escape(words)}; tried again at \d\d:\d\d:\d\dZ"
    document = json.loads(rebalancer("plan", "-o", "json", "-n", HELD, *access).stdout)
    totals = document["totals"]
    print("plan totals", totals)
    assert (totals["now"], totals["waiting"]) == (0, number)
    assert {entry["for"] for entry in document["waiting"]} == {REASON}
    assert all(re.fullmatch(expected, entry["message"]) for entry in document["waiting"])
    text = " ".join(rebalancer("plan", "-n", HELD, *access).stdout.decode().split())
    assert "0 pods to move now" in text
    print(re.search(expected, text))
    assert re.search(expected, text)
    explained = json.loads(rebalancer("explain", "deployment/web-0", "-n", HELD, "-o", "json", *access).stdout)
    assert (explained["verdict"], explained["reason"]) == ("Waits", REASON)
    assert any(re.fullmatch(expected, answer["evidence"]) for answer in explained["path"])
    status = rebalancer("status", *access[:2]).stdout.decode()
    assert len(re.findall(rf"{REASON}: {HELD}/web-", status)) == number
    assert re.search(expected, " ".join(status.split()))
    return [datetime.fromisoformat(entry["nextTry"]) for entry in entries(plane.api)]


def check_no_failure(plane: ControlPlane, controller: Controller, number: int = WORKLOADS) -> None:
    """Check that nothing counts as failed, by metric, events and breaker, and that others were repaired at once."""
    counts = evictions(controller)
    print("evictions", dict(counts))
    assert counts.keys() <= {"refused", "evicted"}
    assert not [name for name, value in controller.metrics().items() if "breaker_open" in name and value]
    wait_until(lambda: len(reported(plane.api)) == 2 * number, what="an event on each pod and workload", timeout=30)
    assert set(reported(plane.api)) == {"EvictionBlocked"}


def reported(api: Api) -> list[str]:
    """Return the reasons of the events about evictions that were not granted."""
    events = api.list(f"/apis/events.k8s.io/v1/namespaces/{HELD}/events")
    return [event["reason"] for event in events if event["reason"] in {"EvictionBlocked", "EvictionFailed"}]


def test_a_zone_budget_that_refuses_for_a_while_delays_only_what_it_guards(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Others are repaired at once; its workloads have one request each, then a second one after a minute is granted."""
    install(cluster, "base", "evict")
    lay_out_skewed(cluster, HELD, WORKLOADS)
    lay_out_skewed_beside(cluster)
    refusal = {"code": 429, "message": BUDGET}
    with (
        EvictionWebhook(cluster, HELD, lambda _: refusal) as webhook,
        Controller(cluster, tmp_path, policy("Evict", budgets=ALL_AT_ONCE)) as controller,
    ):
        began = time.monotonic()
        wait_until(lambda: repaired(cluster.api, HEALTHY) == WORKLOADS, what="the repair of the others", timeout=30)
        print(f"others repaired after {time.monotonic() - began:.1f}s")
        wait_until(lambda: len(entries(cluster.api)) == WORKLOADS, what="the status to name all refusals", timeout=30)
        check_no_failure(cluster, controller)
        times = check_named(cluster, tmp_path, f"admission webhook {NAME}", BUDGET)
        assert len(times) == WORKLOADS
        assert set(requests_of(cluster, HELD).values()) == {1}
        webhook.decide = lambda _: None
        allowed = time.monotonic()
        wait_until(lambda: repaired(cluster.api, HELD) == WORKLOADS, what="the repair of all", timeout=90)
        print(f"repaired {time.monotonic() - allowed:.1f}s after the budget allowed it")
        wait_until(lambda: not entries(cluster.api), what="the status to name no refusal", timeout=30)
        assert evictions(controller) == {"refused": WORKLOADS, "evicted": 2 * WORKLOADS}
    assert Counter(requests_of(cluster, HELD).values()) == {2: WORKLOADS}
    granted = [request for request in cluster.audit.evictions(user=USER, code=201) if request.namespace == HELD]
    assert min(request.received for request in granted) >= min(times), "none was sent before the time that was named"


def lay_out_skewed_beside(cluster: ControlPlane, *, settle: bool = True) -> None:
    """Lay out as many Deployments where nothing is refused."""
    lay_out(
        cluster,
        [
            deployment(
                f"free-{index}",
                ["a-0", "a-1", "b-0", "b-1"],
                namespace=HEALTHY,
                topologySpreadConstraints=[spread(ZONE, labels={"app": f"free-{index}"})],
            )
            for index in range(WORKLOADS)
        ],
        settle=settle,
        timeout=120,
    )


def test_a_webhook_that_refuses_for_ever_is_no_missing_right(cluster: ControlPlane, tmp_path: Path) -> None:
    """403, as RBAC answers; the reason is the webhook's, the breaker stays shut, and it has no request each cycle.

    Others are repaired also when they become violated after all these refusals.
    """
    install(cluster, "base", "evict")
    number = 20
    lay_out_skewed(cluster, HELD, number)
    words = "pods of this namespace are not evicted"
    with (
        EvictionWebhook(cluster, HELD, lambda _: {"code": 403, "message": words}),
        Controller(cluster, tmp_path, policy("Evict", budgets=ALL_AT_ONCE, breaker={"apiErrors": "5%"})) as controller,
    ):
        wait_until(lambda: len(entries(cluster.api)) == number, what="the status to name all refusals", timeout=30)
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 3)
        assert controller.log("cycle")[-1]["waiting_for"] == {REASON: number}
        lay_out_skewed_beside(cluster, settle=False)
        wait_until(lambda: repaired(cluster.api, HEALTHY) == WORKLOADS, what="the repair of the others", timeout=30)
        check_no_failure(cluster, controller, number)
        check_named(cluster, tmp_path, f"admission webhook {NAME}", words, number)
    assert Counter(requests_of(cluster, HELD).values()) == {1: number}


@pytest.mark.invariant("refused-by-admission")
def test_a_pod_that_goes_after_its_eviction_was_refused_is_a_move(cluster: ControlPlane, tmp_path: Path) -> None:
    """As with KubeVirt, which answers 429, moves the virtual machine and removes the pod after 20 seconds.

    Both evictions of the workload are verified, with one request each, the second after the first replacement is Ready.
    """
    install(cluster, "base", "evict")
    spreads = [spread(ZONE, labels={"app": "vm"})]
    placed = ["a-0", "a-0", "a-1", "b-0", "b-0", "b-1"]
    vm = deployment("vm", placed, namespace=HELD, topologySpreadConstraints=spreads)
    lay_out(cluster, [*nodes({"a": 2, "b": 2, "c": 2}), vm])
    started: list[float] = []

    def evacuate(pod: str) -> dict[str, Any]:
        started.append(time.monotonic())
        path = f"/api/v1/namespaces/{HELD}/pods/{pod}"
        timer = threading.Timer(20, lambda: cluster.api.delete(path, missing_ok=True))
        timer.daemon = True
        timer.start()
        return {"code": 429, "message": f'Eviction triggered evacuation of VMI "{HELD}/{pod}"'}

    with (
        EvictionWebhook(cluster, HELD, evacuate) as webhook,
        Controller(cluster, tmp_path, policy("Evict", budgets=ALL_AT_ONCE)) as controller,
    ):
        verified = 'rebalancer_moves_total{outcome="verified"}'
        wait_until(lambda: controller.metrics()[verified] == 2, what="both moves to be verified", timeout=90)
        print(
            "requests", [f"{moment - started[0]:.1f}s" for moment in started], "evictions", dict(evictions(controller))
        )
        assert evictions(controller) == {"refused": 2}
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 2)
        assert not entries(cluster.api)
    assert len(set(webhook.requests)) == len(webhook.requests) == 2
    assert started[1] - started[0] >= 20
    pods = cluster.api.list(f"/api/v1/namespaces/{HELD}/pods")
    zones = Counter(pod["spec"]["nodeName"][0] for pod in pods if "deletionTimestamp" not in pod["metadata"])
    assert zones == {"a": 2, "b": 2, "c": 2}


@contextmanager
def admission_policy(
    plane: ControlPlane, space: str, words: str, expression: str = "request.userInfo.username == 'nobody'"
) -> Iterator[None]:
    """Let a ValidatingAdmissionPolicy refuse every eviction in a namespace, with 403.

    Nothing shows beforehand that an expression about who requests it is false.
    """
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
        },
        "validations": [{"expression": expression, "message": words, "reason": "Forbidden"}],
    }
    binding = {"policyName": "freeze", "validationActions": ["Deny"]}
    api = plane.api
    api.create({**kind, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "freeze"}, "spec": spec})
    api.create({**kind, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "freeze"}, "spec": binding})
    pod = api.list(f"/api/v1/namespaces/{space}/pods")[0]["metadata"]["name"]
    wait_until(lambda: api.evict(space, pod, dryRun=["All"]) == 403, what="the policy to be in force")
    try:
        yield
    finally:
        for collection in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            api.delete(f"/apis/admissionregistration.k8s.io/v1/{collection}/freeze")


@pytest.mark.invariant("refused-by-admission")
def test_a_validating_admission_policy_that_refuses_is_named(cluster: ControlPlane, tmp_path: Path) -> None:
    """Its 403 is not that of the authorizer."""
    install(cluster, "base", "evict")
    lay_out_skewed(cluster, HELD, WORKLOADS)
    lay_out_skewed_beside(cluster)
    words = "frozen until Monday"
    with (
        admission_policy(cluster, HELD, words),
        Controller(cluster, tmp_path, policy("Evict", budgets=ALL_AT_ONCE)) as controller,
    ):
        wait_until(lambda: repaired(cluster.api, HEALTHY) == WORKLOADS, what="the repair of the others", timeout=30)
        wait_until(lambda: len(entries(cluster.api)) == WORKLOADS, what="the status to name all refusals", timeout=30)
        check_no_failure(cluster, controller)
        check_named(cluster, tmp_path, "ValidatingAdmissionPolicy freeze", words)
    assert Counter(requests_of(cluster, HELD).values()) == {1: WORKLOADS}


@pytest.mark.invariant("refused-by-admission")
def test_a_policy_that_is_false_of_every_eviction_gets_no_request(cluster: ControlPlane, tmp_path: Path) -> None:
    """It is evaluated before; without it the workloads are repaired."""
    install(cluster, "base", "evict")
    lay_out_skewed(cluster, HELD, WORKLOADS)
    lay_out_skewed_beside(cluster)
    with Controller(cluster, tmp_path, policy("Observe", budgets=ALL_AT_ONCE)) as controller:
        with admission_policy(cluster, HELD, "frozen", "request.subResource != 'eviction'"):
            controller.wait_for("cycle", count=len(controller.log("cycle")) + 2)
            controller.policy_file.write_text(policy("Evict", budgets=ALL_AT_ONCE))
            wait_until(lambda: repaired(cluster.api, HEALTHY) == WORKLOADS, what="the repair of the others", timeout=30)
            controller.wait_for("cycle", count=len(controller.log("cycle")) + 3)
            assert requests_of(cluster, HELD) == Counter()
        wait_until(lambda: repaired(cluster.api, HELD) == WORKLOADS, what="the repair without the policy", timeout=60)


def _always(refusal: dict[str, Any], _: str) -> dict[str, Any]:
    return refusal


@pytest.mark.invariant("refused-by-admission")
def test_what_the_api_server_sends_is_distinguished(cluster: ControlPlane) -> None:
    """Webhooks that refuse with any code, and a policy, from one that is down and from the authorizer."""
    install(cluster, "base")
    lay_out(cluster, [*nodes({"a": 1}), deployment("web", ["a-0"], namespace=HELD)])
    (pod,) = cluster.api.list(f"/api/v1/namespaces/{HELD}/pods")
    victim = move(pod["metadata"]["uid"], datetime.now().astimezone(), namespace=HELD, pod=pod["metadata"]["name"])
    admin = connect(kubeconfig=str(cluster.kubeconfig()))
    words = "two\nlines"
    with EvictionWebhook(cluster, HELD, lambda _: None) as webhook:
        for code in (400, 403, 404, 409, 429, 500, 503):
            refusal = {"code": code, "message": words, "details": {"retryAfterSeconds": 7}}
            webhook.decide = partial(_always, refusal)
            answer = evict(admin, victim)
            print(code, answer)
            assert answer.denial is not None
            assert (answer.result, answer.retry_after) == (EvictionResult.REFUSED, 7.0)
            assert (answer.denial.refuser, answer.denial.words) == (f"admission webhook {NAME}", "two lines")
            assert answer.denial.is_temporary is (code == 429)
        webhook.decide = lambda _: {}
        assert evict(admin, victim).result is EvictionResult.REFUSED
        webhook.end()
        answer = evict(admin, victim)
        assert "failed calling webhook" in answer.message
        assert (answer.result, answer.denial) == (EvictionResult.UNKNOWN, None)
    observer = connect(kubeconfig=str(cluster.kubeconfig(ACCOUNT)))
    assert evict(observer, victim).result is EvictionResult.FORBIDDEN
    with admission_policy(cluster, HELD, "frozen"):
        assert evict(admin, victim).result is EvictionResult.REFUSED
        assert evict(observer, victim).result is EvictionResult.FORBIDDEN
    for transport in (admin, observer):
        transport.close()
    assert len(cluster.api.list(f"/api/v1/namespaces/{HELD}/pods")) == 1
