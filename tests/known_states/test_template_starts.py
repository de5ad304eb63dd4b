"""Templates whose newest pod does not start: no Ready pod of it goes, unless the fault is a node's.

A Deployment of four pods in zone a and one in zone b, whose last pod has been waiting for an hour in zone b.
"""

from typing import Any

import pytest

from rebalancer.model.reasons import Reason
from tests.cli.files import ready_nodes
from tests.control_plane.resources import Manifest
from tests.known_states.build import EARLIER, State, bound, cluster, deployment, minutes_ago, unready

ON = ("a-0", "a-0", "a-0", "a-0", "b-0", "b-0")
"""Two of them have to go to zone c."""


def state(*others: list[Manifest], name: str = "web") -> State:
    """Return the Deployment beside others; its pods but the last one are of days ago."""
    made = cluster(deployment(name, ON), *others)
    for pod in made.pods(f"{name}-")[:-1]:
        pod["metadata"]["creationTimestamp"] = EARLIER
    return made


def fail(pod: Manifest, reason: str = "ImagePullBackOff", minutes: float = 60, **container: Any) -> None:
    """Let a pod not have started since then; its kubelet says why, "" while its container runs between two crashes."""
    bound(pod, minutes, sandbox=True)
    waiting = {"waiting": {"reason": reason, "message": "registry.test says no"}} if reason else {"running": {}}
    unready(pod)
    pod["status"] |= {
        "phase": "Pending",
        "conditions": [{**one, "lastTransitionTime": minutes_ago(minutes)} for one in pod["status"]["conditions"]],
        "containerStatuses": [{"name": "app", "ready": False, "restartCount": 0, "state": waiting, **container}],
    }


def failing(reason: str = "ImagePullBackOff", **fields: Any) -> State:
    made = state()
    fail(made.pods("web-5")[0], reason, **fields)
    return made


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CrashLoopBackOff"]
)
def test_no_ready_pod_goes_whose_replacement_would_not_start(reason: str) -> None:
    said = failing(reason).plan().assert_kept(Reason.TEMPLATE_DOES_NOT_START)
    newest = "web-5 on node b-0, the newest pod of the same template, has not started since 2026-05-04 11:00:00Z"
    assert f"{newest} ({reason}: registry.test says no)" in said


def test_a_crash_is_one_between_two_of_them() -> None:
    failing("", restartCount=7).plan().assert_kept(Reason.TEMPLATE_DOES_NOT_START)
    assert failing("").plan().evicted


def test_a_pod_that_is_starting_is_no_witness() -> None:
    assert failing("ContainerCreating").plan().evicted


def test_a_pod_that_was_ready_once_says_nothing_of_its_template() -> None:
    made = failing("CrashLoopBackOff", restartCount=7)
    for condition in made.pods("web-5")[0]["status"]["conditions"]:
        condition["lastTransitionTime"] = minutes_ago(5)
    assert made.plan().evicted


def test_it_ends_when_a_later_pod_is_ready() -> None:
    made = failing()
    made.pods("web-0")[0]["metadata"]["creationTimestamp"] = minutes_ago(5)
    assert made.plan().evicted


def test_a_later_pod_on_the_same_node_shows_that_what_is_lacking_has_gone_since() -> None:
    made = failing()
    made.pods("web-4")[0]["metadata"]["creationTimestamp"] = minutes_ago(5)
    made.plan().assert_kept(Reason.TEMPLATE_DOES_NOT_START)
    crashing = failing("CrashLoopBackOff", restartCount=7)
    crashing.pods("web-4")[0]["metadata"]["creationTimestamp"] = minutes_ago(5)
    assert crashing.plan().evicted


def test_a_later_pod_elsewhere_beside_one_on_the_same_node_shows_nothing_more() -> None:
    made = failing()
    for name in ("web-0", "web-4"):
        made.pods(name)[0]["metadata"]["creationTimestamp"] = minutes_ago(5)
    made.plan().assert_kept(Reason.TEMPLATE_DOES_NOT_START)


def test_it_ends_when_the_pod_is_gone_or_going() -> None:
    made = failing()
    made.pods("web-5")[0]["metadata"]["deletionTimestamp"] = minutes_ago(1)
    assert Reason.TEMPLATE_DOES_NOT_START not in made.plan().reasons


def test_an_unready_pod_may_go() -> None:
    """The one that crashes is in the fullest zone: it goes first."""
    made = cluster(deployment(on=("a-0", "a-0", "a-0", "b-0")))
    for pod in made.pods("web-")[1:]:
        pod["metadata"]["creationTimestamp"] = EARLIER
    fail(made.pods("web-0")[0], "CrashLoopBackOff", restartCount=9)
    assert made.plan().evicted == ["shop/web-0"]


def test_pods_of_several_owners_that_fail_on_one_node_alone_are_its_fault() -> None:
    made = state(deployment("api", ("b-0", "c-0"), topologySpreadConstraints=[]))
    for name in ("web-5", "api-0"):
        fail(made.pods(name)[0])
    assert made.plan().evicted


def test_what_fails_elsewhere_for_another_reason_does_not_excuse_a_node() -> None:
    """In a large cluster some pod always fails somewhere."""
    others = deployment("api", ("b-0", "c-0"), topologySpreadConstraints=[])
    made = state(others, deployment("job", ("c-0",), topologySpreadConstraints=[]))
    for name in ("web-5", "api-0", "job-0"):
        fail(made.pods(name)[0])
    assert made.plan().evicted


def test_pods_that_fail_on_several_nodes_are_nobodys_nodes_fault() -> None:
    """As when a registry is down."""
    made = state(deployment("api", ("b-0", "c-0"), topologySpreadConstraints=[]))
    for name in ("web-5", "api-0", "api-1"):
        fail(made.pods(name)[0])
    assert made.plan().evicted == []


def test_a_pod_without_a_sandbox_or_on_a_lost_node_is_no_witness() -> None:
    made = state()
    bound(made.pods("web-5")[0], 60, sandbox=False)
    assert Reason.TEMPLATE_DOES_NOT_START not in made.plan().reasons
    lost = failing()
    lost.get("Node", "b-0")["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert Reason.TEMPLATE_DOES_NOT_START not in lost.plan().reasons


def test_another_template_or_workload_is_not_concerned() -> None:
    made = state(deployment("api", ("a-0", "b-0"), topologySpreadConstraints=[]))
    made.add(*ready_nodes({"b": 2})[1:])
    fail(made.pods("api-1")[0])
    assert made.plan().evicted
