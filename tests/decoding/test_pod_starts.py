"""Why a pod does not run, as its kubelet says it, and how long it may take to end."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED
from rebalancer.decoding.lists import decode
from rebalancer.decoding.reduction import reduce_object
from rebalancer.model.pods import NO_SANDBOX, Pod

METADATA = {"name": "web-1", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
READY = {"type": "Ready", "status": "True"}


def ready(status: str, at: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, "lastTransitionTime": f"2026-01-02T{at}Z"}


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "app", "state": {"waiting": {"reason": reason, "message": "with a password in it"}}}


def decoded(status: dict[str, Any], **spec: Any) -> list[Pod]:
    """Return the pod as a server sends it, and as a dump of the cluster has it."""
    kind = KIND_NAMED["Pod"]
    spec = {"nodeName": "a-1", "containers": [{"name": "app"}], **spec}
    text = json.dumps({"metadata": METADATA, "spec": spec, "status": status}).encode()
    reduced = reduce_object(kind, msgspec.Raw(text))
    assert b"password" not in reduced
    return [decode(kind, data, Interner()) for data in (text, reduced)]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ""),
        ({"containerStatuses": [waiting("ImagePullBackOff")]}, "ImagePullBackOff"),
        ({"containerStatuses": [waiting("ContainerCreating")]}, ""),
        ({"containerStatuses": [{"name": "a", "state": {"running": {}}}, waiting("ErrImagePull")]}, "ErrImagePull"),
        (
            {"initContainerStatuses": [waiting("CrashLoopBackOff")], "containerStatuses": [waiting("PodInitializing")]},
            "CrashLoopBackOff",
        ),
        ({"containerStatuses": [waiting("CreateContainerError")], "conditions": [READY]}, ""),
        ({"conditions": [{"type": "PodReadyToStartContainers", "status": "False"}]}, NO_SANDBOX),
        ({"conditions": [{"type": "PodReadyToStartContainers", "status": "True"}]}, ""),
        (
            {
                "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}],
                "containerStatuses": [waiting("ImagePullBackOff")],
            },
            "ImagePullBackOff",
        ),
        ({"containerStatuses": [{"name": "app", "state": None}]}, ""),
        ({"phase": "Failed", "reason": "TopologyAffinityError"}, "TopologyAffinityError"),
        ({"phase": "Failed", "reason": "OutOfcpu"}, "OutOfcpu"),
        ({"phase": "Running", "reason": "OutOfcpu"}, ""),
        ({"phase": "Failed", "reason": "Evicted"}, ""),
    ],
)
def test_why_a_pod_does_not_run(status: dict[str, Any], expected: str) -> None:
    """The reason, and not the message beside it; none of a pod that is Ready or merely starts."""
    assert [pod.start_failure for pod in decoded(status)] == [expected] * 2


def test_what_the_kubelet_says_is_not_in_a_dump() -> None:
    """It may name what is nobody else's business; of a container that runs, or a pod that is Ready, nothing is said."""
    failing = decoded({"containerStatuses": [waiting("ErrImagePull")]})
    assert [pod.start_message for pod in failing] == ["with a password in it", ""]
    for status in (
        {"containerStatuses": [waiting("ContainerCreating")]},
        {"containerStatuses": [waiting("ErrImagePull")], "conditions": [READY]},
    ):
        assert [pod.start_message for pod in decoded(status)] == ["", ""]


def test_restarts_are_those_of_a_pod_that_was_never_ready() -> None:
    """Of all its containers; the pods of an owner share their spec however often they have restarted."""
    statuses = {
        "initContainerStatuses": [{"name": "init", "restartCount": 1}],
        "containerStatuses": [{"name": "app", "restartCount": 3}, {"name": "proxy"}],
    }
    starting = {**statuses, "startTime": "2026-01-02T03:04:05Z", "conditions": [ready("False", "03:04:05")]}
    once_ready = {**starting, "conditions": [ready("False", "04:00:00")]}
    assert [pod.restarts for pod in decoded(starting)] == [4, 4]
    assert [pod.restarts for pod in decoded(once_ready)] == [0, 0]
    assert [pod.restarts for pod in decoded({**starting, "conditions": [READY]})] == [0, 0]
    intern, kind = Interner(), KIND_NAMED["Pod"]
    spec = {"nodeName": "a-1", "containers": [{"name": "app"}, {"name": "proxy"}]}
    made = [
        decode(kind, json.dumps({"metadata": METADATA, "spec": spec, "status": status}).encode(), intern)
        for status in (starting, {**starting, "containerStatuses": [waiting("CrashLoopBackOff")]})
    ]
    assert made[0].spec is made[1].spec


def test_the_image_of_the_container_that_does_not_run() -> None:
    """By the container's name: kubelets list containers in another order than the spec does."""
    spec = {
        "initContainers": [{"name": "setup", "image": "setup:1"}],
        "containers": [{"name": "app", "image": "app:1"}, {"name": "proxy", "image": "proxy:1"}],
    }
    running = {"name": "proxy", "state": {"running": {}}}
    pulling = {"containerStatuses": [running, waiting("ErrImagePull")]}
    assert [pod.failed_image for pod in decoded(pulling, **spec)] == ["app:1"] * 2
    init = {"initContainerStatuses": [{**waiting("ErrImagePull"), "name": "setup"}]}
    assert [pod.failed_image for pod in decoded(init, **spec)] == ["setup:1"] * 2
    unknown = {"containerStatuses": [{**waiting("ErrImagePull"), "name": "other"}]}
    assert [pod.failed_image for pod in decoded(unknown, **spec)] == [""] * 2
    for status in ({"containerStatuses": [running]}, {**pulling, "conditions": [READY]}):
        assert [pod.failed_image for pod in decoded(status, **spec)] == [""] * 2


def condition(kind: str, status: str, minute: int | None = None) -> dict[str, Any]:
    at = {} if minute is None else {"lastTransitionTime": f"2026-01-02T03:{minute:02}:00Z"}
    return {"type": kind, "status": status, **at}


SANDBOX = "PodReadyToStartContainers"
BOUND = condition("PodScheduled", "True", 10)
STARTED = {"startTime": "2026-01-02T03:11:00Z"}


@pytest.mark.parametrize(
    ("status", "minute"),
    [
        pytest.param({}, None, id="nothing is said"),
        pytest.param(
            {"conditions": [BOUND, condition(SANDBOX, "False", 12)], **STARTED}, 12, id="the condition's time"
        ),
        pytest.param({"conditions": [BOUND, condition(SANDBOX, "False")], **STARTED}, 11, id="the start's"),
        pytest.param({"conditions": [BOUND, condition(SANDBOX, "False")]}, 10, id="that of the binding"),
        pytest.param({"conditions": [condition(SANDBOX, "False")]}, 4, id="that of the creation"),
        pytest.param({"conditions": [BOUND, condition(SANDBOX, "True", 12)]}, None, id="it has one"),
        pytest.param({"conditions": [READY, condition(SANDBOX, "False", 12)]}, None, id="it is Ready"),
        pytest.param({"phase": "Succeeded", "conditions": [condition(SANDBOX, "False", 12)]}, None, id="it has run"),
        pytest.param({"phase": "Failed", "conditions": [condition(SANDBOX, "False", 12)]}, None, id="it has failed"),
        pytest.param({"phase": "Failed", "reason": "OutOfpods", "conditions": [BOUND], **STARTED}, 11, id="rejected"),
        pytest.param({"phase": "Failed", "reason": "OutOfpods", "conditions": [BOUND]}, 10, id="rejected, once bound"),
    ],
)
def test_since_when_a_pod_has_not_started_or_when_it_was_rejected(status: dict[str, Any], minute: int | None) -> None:
    moment = None if minute is None else datetime(2026, 1, 2, 3, minute, 5 if minute == 4 else 0, tzinfo=UTC)
    assert [pod.unstarted_since for pod in decoded(status)] == [moment] * 2
    assert [pod.unstarted_since for pod in decoded(status, nodeName="")] == [None] * 2


def test_when_a_pod_was_bound() -> None:
    at = datetime(2026, 1, 2, 3, 10, tzinfo=UTC)
    assert [pod.bound_at for pod in decoded({"conditions": [BOUND]})] == [at] * 2
    waits = condition("PodScheduled", "False", 10)
    assert [pod.bound_at for pod in decoded({"conditions": [waits]})] == [None] * 2


@pytest.mark.parametrize(
    ("phase", "sandbox", "started"),
    [
        ("Running", None, True),
        ("Running", "True", True),
        ("Running", "False", False),
        ("Pending", None, False),
        ("Pending", "True", True),
        ("Pending", "False", False),
        ("Succeeded", "False", True),
        ("Failed", "False", True),
        ("Failed", None, False),
    ],
)
def test_whether_a_pod_has_started(phase: str, sandbox: str | None, started: bool) -> None:
    conditions = [] if sandbox is None else [condition(SANDBOX, sandbox, 12)]
    assert [pod.started for pod in decoded({"phase": phase, "conditions": conditions})] == [started] * 2


@pytest.mark.parametrize(("spec", "seconds"), [({}, 30), ({"terminationGracePeriodSeconds": 604800}, 604800)])
def test_how_long_a_pod_may_take_to_end(spec: dict[str, Any], seconds: int) -> None:
    assert [pod.grace_seconds for pod in decoded({}, **spec)] == [seconds] * 2


@pytest.mark.parametrize("seconds", [0, None])
def test_a_pod_that_ends_at_once_or_as_by_default(seconds: int | None) -> None:
    grace = 30 if seconds is None else seconds
    assert [pod.grace_seconds for pod in decoded({}, terminationGracePeriodSeconds=seconds)] == [grace] * 2


@pytest.mark.parametrize(
    ("status", "since"),
    [
        ({"startTime": "2026-01-02T03:05:00Z"}, "03:05:00"),
        ({"startTime": "2026-01-02T03:05:00Z", "conditions": [ready("False", "03:05:02")]}, "03:05:00"),
        ({"startTime": "2026-01-02T03:05:00Z", "conditions": [ready("False", "03:05:03")]}, None),
        ({"startTime": "2026-01-02T03:05:00Z", "conditions": [ready("True", "03:05:00")]}, None),
        ({"conditions": [ready("False", "03:04:05")]}, "03:04:05"),
        ({"phase": "Succeeded", "startTime": "2026-01-02T03:05:00Z"}, None),
    ],
)
def test_since_when_a_pod_that_was_never_ready_has_been_starting(status: dict[str, Any], since: str | None) -> None:
    """Its kubelet changes the time of the condition once it is Ready, and again when it is no longer."""
    for pod in decoded(status):
        assert (pod.starting_since and f"{pod.starting_since:%H:%M:%S}") == since


def test_a_pod_without_a_node_is_not_starting() -> None:
    assert [pod.starting_since for pod in decoded({}, nodeName="")] == [None, None]


@pytest.mark.parametrize(
    ("condition", "preempted"),
    [
        ({"status": "True", "reason": "PreemptionByScheduler"}, True),
        ({"status": "False", "reason": "PreemptionByScheduler"}, False),
        ({"status": "True", "reason": "EvictionByEvictionAPI"}, False),
    ],
)
def test_what_preemption_goes_by(condition: dict[str, str], preempted: bool) -> None:
    """When the kubelet took the pod on, and whether the scheduler has chosen it to make room."""
    disrupted = {"type": "DisruptionTarget", "lastTransitionTime": "2026-01-02T03:05:00Z", **condition}
    for pod in decoded({"startTime": "2026-01-02T03:04:09Z", "conditions": [disrupted]}):
        assert (pod.started_at, pod.preempted) == (datetime(2026, 1, 2, 3, 4, 9, tzinfo=UTC), preempted)
    assert [(pod.started_at, pod.preempted) for pod in decoded({})] == [(None, False)] * 2
