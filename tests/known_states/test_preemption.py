"""Pods of higher priority: those that wait, and those that a repair would make wait."""

from typing import Any

import pytest

from rebalancer.model.reasons import Reason
from tests.cli.files import placed
from tests.control_plane.resources import Manifest
from tests.known_states.build import State, cluster, deployment, make

DISRUPTIONS = {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1}


def job(cpu: str) -> Manifest:
    """Return a pod that is in nobody's way but by its requests."""
    made: Manifest = placed("report-x1", "c-0", namespace="shop", labels={"job-name": "report"}, cpu=cpu)
    made["spec"]["priority"] = 0
    return made


def waiting(cpu: str, **spec: Any) -> Manifest:
    """Return a pod of high priority that has no node."""
    pod: Manifest = placed("urgent", None, namespace="shop", labels={"app": "urgent"}, cpu=cpu)
    pod["spec"] |= {"priority": 1000, **spec}
    return pod


def budget(job_name: str) -> Manifest:
    """Return a budget that allows no disruption of the pods of a job."""
    return make(
        "policy/v1",
        "PodDisruptionBudget",
        job_name,
        generation=1,
        spec={"selector": {"matchLabels": {"job-name": job_name}}, "minAvailable": 1},
        status={**DISRUPTIONS, "disruptionsAllowed": 0},
    )


class TestReplacementThatPreempts:
    """The repair needs a place in zone c, where a pod of lower priority has taken all."""

    def refusal(self, *others: Manifest, priority: int = 1000, **spec: Any) -> str:
        state = cluster(deployment(priority=priority, **spec), [job("950m"), *others], c="1")
        return state.plan().assert_kept(Reason.NO_CAPACITY).splitlines()[0]

    def test_nothing_is_evicted_and_it_is_said_which_pod_would_go(self) -> None:
        assert self.refusal(budget("other")) == (
            "if web-0 were evicted, no node would take its replacement: of 3 nodes 2 are ruled out by a spread "
            "constraint, 1 has not enough cpu; kube-scheduler would preempt shop/report-x1 on c-0. "
            "Free 50m cpu on c-0"
        )

    def test_the_budget_that_would_break_is_named(self) -> None:
        assert "preempt shop/report-x1 on c-0, more than PodDisruptionBudget shop/report allows" in self.refusal(
            budget("report")
        )

    def test_without_priority_or_with_the_policy_never_nothing_would_go(self) -> None:
        assert "preempt" not in self.refusal(priority=0)
        assert "preempt" not in self.refusal(preemptionPolicy="Never")


class TestPendingPodThatPreempts:
    """A pod of high priority has just been created, and no node admits it."""

    def state(self, cpu: str, **spec: Any) -> State:
        """Return a state in which the job has half of the node in zone c; a and b have too little for the pod."""
        return cluster(deployment(), [job("500m"), waiting(cpu, **spec)], cpu="900m", c="1")

    def test_the_place_that_it_is_about_to_take_is_not_taken(self) -> None:
        assert self.state("950m").plan().reasons == {Reason.GROUP_IN_FLIGHT}

    def test_one_that_does_not_preempt_takes_none(self) -> None:
        assert self.state("950m", preemptionPolicy="Never").plan().evicted == ["shop/web-0"]

    def test_one_that_fits_nowhere_in_any_case_takes_none(self) -> None:
        assert self.state("2").plan().evicted == ["shop/web-0"]

    @pytest.mark.parametrize("spec", [{"schedulerName": "other"}, {"resourceClaims": [{"name": "gpu"}]}])
    def test_one_that_may_wait_for_something_else_takes_none(self, spec: dict[str, Any]) -> None:
        assert self.state("950m", **spec).plan().evicted == ["shop/web-0"]

    def test_a_pod_that_it_may_preempt_is_waited_for(self) -> None:
        """Zone b has the node with the fewest pods: the scheduler takes that one."""
        outcome = cluster(deployment(), [job("500m"), waiting("1")], cpu="1", c="1").plan()
        assert outcome.evicted == []
        assert outcome.refusals[Reason.GROUP_IN_FLIGHT].splitlines()[0] == (
            "pod web-3 may be preempted on b-0 by shop/urgent, which is pending and fits nowhere else"
        )

    def test_while_its_victims_are_terminating_their_place_is_its_own(self) -> None:
        ending = job("500m")
        ending["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        promised = waiting("950m")
        promised["status"]["nominatedNodeName"] = "c-0"
        state = cluster(deployment(), [ending, promised], cpu="900m", c="1")
        assert state.plan().reasons == {Reason.GROUP_IN_FLIGHT}
