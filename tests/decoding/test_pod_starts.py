"""Why a pod does not run, as its kubelet says it, and how long it may take to end."""

import json
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
            {
                "initContainerStatuses": [waiting("CrashLoopBackOff")],
                "containerStatuses": [waiting("PodInitializing")],
            },
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
    ],
)
def test_why_a_pod_does_not_run(status: dict[str, Any], expected: str) -> None:
    """The reason, and not the message beside it; none of a pod that is Ready or merely starts."""
    assert [pod.start_failure for pod in decoded(status)] == [expected] * 2


@pytest.mark.parametrize(("spec", "seconds"), [({}, 30), ({"terminationGracePeriodSeconds": 604800}, 604800)])
def test_how_long_a_pod_may_take_to_end(spec: dict[str, Any], seconds: int) -> None:
    assert [pod.grace_seconds for pod in decoded({}, **spec)] == [seconds] * 2


@pytest.mark.parametrize("seconds", [0, None])
def test_a_pod_that_ends_at_once_or_as_by_default(seconds: int | None) -> None:
    grace = 30 if seconds is None else seconds
    assert [pod.grace_seconds for pod in decoded({}, terminationGracePeriodSeconds=seconds)] == [grace] * 2
