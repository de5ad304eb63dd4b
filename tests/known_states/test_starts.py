"""Nodes that the scheduler chooses and on which nothing starts: no sandbox, or their kubelet rejects what is bound."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from rebalancer.model.reasons import FindingKind, Reason
from tests.cli.files import ready_nodes
from tests.control_plane.resources import Manifest
from tests.known_states.build import State, bound, cluster, deployment, minutes_ago, rejected, unready

EVICTED: Final = ["shop/web-0"]
STARTS_NOTHING: Final = {Reason.NOTHING_STARTS_THERE}


def stuck_on_c(*minutes: float, state: State | None = None) -> State:
    """Return the usual state with pods of another workload on c-0 that have had no sandbox for so long."""
    return with_jobs([partial(bound, minutes=ago, sandbox=False) for ago in minutes], state)


def rejected_on_c(*minutes: float, reason: str = "UnexpectedAdmissionError") -> State:
    """Return the same with pods that the kubelet of c-0 has rejected."""
    return with_jobs([partial(rejected, minutes=ago, reason=reason) for ago in minutes])


def with_jobs(changes: list[Callable[[Manifest], None]], state: State | None = None) -> State:
    state = state or cluster(deployment())
    state.add(*jobs("jobs", *["c-0"] * len(changes)))
    for pod, change in zip(state.pods("jobs"), changes, strict=True):
        change(pod)
    return state


def jobs(name: str, *on: str, **fields: Any) -> list[Manifest]:
    """Return a workload that may run everywhere."""
    return deployment(name, on, topologySpreadConstraints=[], **fields)


def add_started(state: State, minutes: float, **fields: Any) -> State:
    """Add a pod of a third workload that was bound to c-0 then, and runs."""
    state.add(*jobs("other", "c-0", **fields))
    bound(state.pods("other")[0], minutes)
    return state


def assert_refused(state: State, *named: str) -> None:
    outcome = state.plan()
    assert (outcome.evicted, outcome.reasons) == ([], STARTS_NOTHING)
    (finding,) = state.find(FindingKind.NOTHING_STARTS_THERE)
    assert (finding.object, [str(one) for one in finding.workloads]) == ("Node c-0", ["shop/jobs (Deployment)"])
    for text in named:
        assert text in outcome.refusals[Reason.NOTHING_STARTS_THERE]
        assert text in finding.message


def assert_evicted(state: State) -> None:
    assert state.plan().evicted == EVICTED
    assert state.find(FindingKind.NOTHING_STARTS_THERE) == []


class TestWithoutSandbox:
    def test_a_node_that_starts_no_pod_takes_none(self) -> None:
        named = "3 pods on it without a sandbox since 2026-05-04 11:20:00Z", "shop/jobs-0", "cordon it"
        assert_refused(stuck_on_c(40, 40, 40), *named)

    def test_pods_of_several_workloads_show_it_too(self) -> None:
        state = stuck_on_c(15).add(*jobs("other", "c-0"))
        bound(state.pods("other")[0], 10, sandbox=False)
        assert state.plan().reasons == STARTS_NOTHING

    @pytest.mark.parametrize("minutes", [(40,), (9, 9, 9), (40, 9)], ids=["one", "all lately", "one of them lately"])
    def test_one_slow_pod_does_not_show_it(self, minutes: tuple[float, ...]) -> None:
        assert_evicted(stuck_on_c(*minutes))

    def test_slow_pulls_do_not_show_it(self) -> None:
        state = stuck_on_c(40, 40)
        for pod in state.pods("jobs"):
            pod["status"]["conditions"][-1]["status"] = "True"
        assert_evicted(state)

    def test_neither_do_pods_of_a_kubelet_that_does_not_say(self) -> None:
        assert_evicted(with_jobs([partial(bound, minutes=40, sandbox=None)] * 2))

    def test_nor_pods_that_end(self) -> None:
        state = stuck_on_c(40, 40)
        for pod in state.pods("jobs"):
            pod["metadata"]["deletionTimestamp"] = minutes_ago(1)
        assert_evicted(state)

    def test_nor_pods_that_have_run_to_their_end(self) -> None:
        state = stuck_on_c(40, 40)
        for pod in state.pods("jobs"):
            pod["status"]["phase"] = "Succeeded"
        assert_evicted(state)

    def test_running_pods_that_have_lost_their_sandbox_show_it(self) -> None:
        """As after a restart of the node."""
        state = stuck_on_c(12, 12)
        for pod in state.pods("jobs"):
            pod["metadata"]["creationTimestamp"] = minutes_ago(2000)
            pod["status"]["phase"] = "Running"
        assert_refused(add_started(state, 1000))


class TestContradicted:
    def test_a_pod_that_was_bound_later_and_runs(self) -> None:
        assert_evicted(add_started(stuck_on_c(40, 30), 35))

    def test_one_whose_image_is_pulled(self) -> None:
        state = add_started(stuck_on_c(40, 40), 20)
        state.pods("other")[0]["status"]["phase"] = "Pending"
        assert_evicted(state)

    def test_one_that_has_run_to_its_end(self) -> None:
        state = add_started(stuck_on_c(40, 40), 20)
        state.pods("other")[0]["status"]["phase"] = "Succeeded"
        assert_evicted(state)

    def test_one_that_was_bound_before_proves_nothing(self) -> None:
        assert_refused(add_started(stuck_on_c(40, 40), 41))

    def test_one_that_was_made_before_and_bound_later_does(self) -> None:
        state = add_started(stuck_on_c(40, 40), 20)
        state.pods("other")[0]["metadata"]["creationTimestamp"] = minutes_ago(60)
        assert_evicted(state)

    def test_one_on_the_network_of_the_node_proves_nothing(self) -> None:
        assert_refused(add_started(stuck_on_c(40, 40), 20, hostNetwork=True))

    def test_a_static_pod_is_not_bound(self) -> None:
        state = add_started(stuck_on_c(40, 40), 20)
        state.pods("other")[0]["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        assert_refused(state)

    def test_one_that_ran_and_failed(self) -> None:
        state = add_started(stuck_on_c(40, 40), 20)
        status = state.pods("other")[0]["status"]
        status |= {"phase": "Failed", "reason": "Evicted"}
        status["conditions"].append({"type": "PodReadyToStartContainers", "status": "False"})
        assert_evicted(state)

    def test_a_workload_whose_pods_start_on_no_node_is_to_blame_though_nothing_else_was_bound(self) -> None:
        """As one with a Secret that does not exist, in a cluster where nothing happens."""
        state = cluster(deployment()).add(*jobs("jobs", "a-0", "b-0", "c-0", "c-0"))
        for pod in state.pods("jobs"):
            bound(pod, 40, sandbox=False)
        assert state.plan().evicted == EVICTED
        state.add(*jobs("others", "c-0"))
        bound(state.pods("others")[0], 40, sandbox=False)
        assert state.plan().reasons == STARTS_NOTHING, "pods of two workloads do not start there"

    def test_a_workload_whose_pods_do_not_start_elsewhere_either_is_to_blame(self) -> None:
        """As one with a Secret that does not exist, while its nodes start other pods."""
        state = stuck_on_c(40, 40)
        state.pods("jobs")[0]["spec"]["nodeName"] = "b-0"
        state.add(*jobs("jobs2", "c-0"))
        bound(state.pods("jobs2")[0], 40, sandbox=False)
        assert state.plan().reasons == STARTS_NOTHING
        state.add(*jobs("other", "b-0"))
        bound(state.pods("other")[0], 30)
        assert_evicted(state)


class TestRejected:
    @pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "OutOfcpu", "OutOfexample.com/gpu", "NodeAffinity"])
    def test_a_node_that_rejects_pods_takes_none(self, reason: str) -> None:
        assert_refused(rejected_on_c(9, 2, reason=reason), f"rejected 2 pods since 2026-05-04 11:51:00Z ({reason})")

    @pytest.mark.parametrize("reason", ["PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch", "NodePorts"])
    def test_what_a_pod_asks_for_says_nothing_of_others(self, reason: str) -> None:
        assert rejected_on_c(9, 5, 2, reason=reason).plan().evicted == EVICTED

    @pytest.mark.parametrize("minutes", [(2,), (11, 2), (11, 11, 11)], ids=["once", "once lately", "long ago"])
    def test_one_rejection_of_the_last_minutes_does_not_show_it(self, minutes: tuple[float, ...]) -> None:
        assert_evicted(rejected_on_c(*minutes))

    @pytest.mark.parametrize("reason", ["Evicted", "DeadlineExceeded", "SysctlForbidden", "NodeShutdown", ""])
    def test_pods_that_failed_otherwise_do_not(self, reason: str) -> None:
        assert_evicted(rejected_on_c(9, 2, reason=reason))

    def test_a_pod_that_started_later_contradicts_it(self) -> None:
        assert_evicted(add_started(rejected_on_c(9, 5), 2))

    def with_own(self, *minutes: float, state: State | None = None) -> State:
        """Return the usual state with pods of its own workload that c-0 has rejected, and one of another one there."""
        state = add_started(state or cluster(deployment()), 1)
        for at, ago in enumerate(minutes):
            pod = json.loads(json.dumps(state.get("Pod", "web-0")))
            pod["metadata"] |= {"name": f"web-rejected-{at}", "uid": f"rejected-{at}"}
            pod["spec"]["nodeName"] = "c-0"
            rejected(pod, ago, "TopologyAffinityError")
            state.add(pod)
        return state

    def test_a_node_that_starts_others_goes_on_to_reject_what_it_has_rejected(self) -> None:
        state = self.with_own(9, 5)
        outcome = state.plan()
        assert (outcome.evicted, outcome.reasons) == ([], STARTS_NOTHING)
        said = outcome.refusals[Reason.NOTHING_STARTS_THERE]
        assert "no pod of this workload starts there: its kubelet has rejected 2 pods" in said
        assert "no pod of their owner that was bound later has started" in said
        assert state.find(FindingKind.NOTHING_STARTS_THERE) == []
        assert self.with_own(5).plan().evicted == EVICTED
        assert self.with_own(12, 11).plan().evicted == EVICTED

    def test_so_does_one_on_which_only_their_owners_pods_have_no_sandbox(self) -> None:
        state = add_started(cluster(deployment(on=[*["a-0"] * 5, "b-0", "c-0", "c-0"])), 1)
        for name in ("web-6", "web-7"):
            bound(state.get("Pod", name), 20, sandbox=False)
        assert state.plan().reasons == STARTS_NOTHING
        bound(state.get("Pod", "web-7"), 19)
        assert Reason.NOTHING_STARTS_THERE not in state.plan().reasons

    @pytest.mark.parametrize(("minutes", "refused"), [(3, False), (20, True)])
    def test_until_it_starts_one_of_these(self, minutes: float, refused: bool) -> None:
        state = self.with_own(9, 5, state=cluster(deployment(on=[*["a-0"] * 4, "b-0", "c-0"])))
        bound(state.get("Pod", "web-5"), minutes)
        assert (state.plan().reasons == STARTS_NOTHING) == refused
        assert bool(state.plan().evicted) != refused

    def test_a_rejection_and_a_slow_pod_are_no_two_of_a_sort(self) -> None:
        state = rejected_on_c(9)
        state.add(*jobs("other", "c-0"))
        bound(state.pods("other")[0], 20, sandbox=False)
        assert_evicted(state)


class TestTargets:
    def test_a_node_that_takes_no_replacement_delays_nothing(self) -> None:
        """One without starts in a zone that is full as it is; the finding is there all the same."""
        state = stuck_on_c(40, 40)
        for pod in state.pods("jobs"):
            pod["spec"]["nodeName"] = "a-0"
        assert state.plan().evicted == EVICTED
        (finding,) = state.find(FindingKind.NOTHING_STARTS_THERE)
        assert finding.object == "Node a-0"

    def test_a_cordoned_or_tainted_one_neither_where_another_takes_it(self) -> None:
        taint = {"key": "broken", "effect": "NoSchedule"}
        cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        for spec in ({"taints": [taint]}, {"unschedulable": True, "taints": [cordon]}):
            state = stuck_on_c(40, 40, state=State(*ready_nodes({"c": 2}), *cluster(deployment()).items[:2]))
            state.add(*cluster(deployment()).items[3:])
            assert state.plan().reasons == STARTS_NOTHING
            state.get("Node", "c-0")["spec"] = spec
            assert state.plan().evicted == EVICTED
            assert len(state.find(FindingKind.NOTHING_STARTS_THERE)) == 1

    def test_repairs_of_other_workloads_go_on(self) -> None:
        state = stuck_on_c(40, 40).add(*deployment("shelf", ["a-0", "a-0", "c-0"], nodeSelector={"shelf": "yes"}))
        for name in ("a-0", "b-0"):
            state.get("Node", name)["metadata"]["labels"]["shelf"] = "yes"
        outcome = state.plan()
        assert (outcome.evicted, outcome.reasons) == (["shop/shelf-0"], STARTS_NOTHING)

    def test_the_finding_needs_nothing_to_repair(self) -> None:
        state = cluster(deployment(on=["a-0", "b-0", "c-0"]))
        assert len(stuck_on_c(40, 40, state=state).find(FindingKind.NOTHING_STARTS_THERE)) == 1

    def test_an_unready_pod_that_runs_is_no_witness(self) -> None:
        assert_evicted(with_jobs([unready] * 2))
