"""What the replacement of an evicted pod uses of a node, and what other pods leave of it.

Zone c, where it must go, has a node with 1 CPU.
"""

from typing import Any

import pytest

from rebalancer.model.reasons import Reason
from tests.cli.files import placed
from tests.control_plane.resources import Manifest
from tests.known_states.build import (
    State,
    assert_evicted,
    assert_no_room,
    cluster,
    containers,
    deployment,
    make,
    owned_by,
)


class TestRequests:
    """What a pod requests is not always the sum of its containers."""

    def requesting(self, **spec: Any) -> State:
        return cluster(deployment(**spec), c="1")

    def started_first(self, **fields: str) -> State:
        first = [{**container, **fields} for container in containers("800m", name="first")]
        return self.requesting(initContainers=first, containers=containers("500m"))

    def test_a_sidecar_runs_beside_the_containers(self) -> None:
        """An init container with `restartPolicy: Always`: 800m and 500m."""
        assert_no_room(self.started_first(restartPolicy="Always"))

    def test_an_init_container_has_ended_when_they_start(self) -> None:
        """800m or 500m."""
        assert_evicted(self.started_first())

    def test_an_init_container_runs_beside_the_sidecars_before_it(self) -> None:
        """600m and 500m, then 600m and 100m."""
        (sidecar,) = containers("600m", name="proxy")
        (migration,) = containers("500m", name="migration")
        sidecar["restartPolicy"] = "Always"
        apart = {"containers": containers("100m")}
        assert_no_room(self.requesting(initContainers=[sidecar, migration], **apart))
        assert_evicted(self.requesting(initContainers=[migration, sidecar], **apart))

    def test_requests_of_the_pod_as_a_whole_replace_those_of_its_containers(self) -> None:
        several = containers("100m", "100m")
        assert_no_room(self.requesting(containers=several, resources={"requests": {"cpu": "1500m"}}))
        assert_evicted(self.requesting(containers=several, resources={"requests": {"cpu": "900m"}}))
        assert_evicted(self.requesting(containers=several))

    @pytest.mark.parametrize(("overhead", "fits"), [("800m", False), ("300m", True)])
    def test_the_overhead_of_its_runtime_class_is_added(self, overhead: str, fits: bool) -> None:
        """Templates do not have it: the API server writes it into each pod."""
        runtime = make(
            "node.k8s.io/v1", "RuntimeClass", "sandbox", None, handler="run", overhead={"podFixed": {"cpu": overhead}}
        )
        state = cluster(deployment(runtimeClassName="sandbox", cpu="500m"), [runtime], c="1")
        for pod in state.pods():
            pod["spec"]["overhead"] = {"cpu": overhead}
        (assert_evicted if fits else assert_no_room)(state)

    def test_it_is_added_where_the_file_has_no_runtime_classes(self) -> None:
        state = cluster(deployment(runtimeClassName="sandbox", cpu="500m"), c="1")
        for pod in state.pods():
            pod["spec"]["overhead"] = {"cpu": "800m"}
        assert_no_room(state)


class TestOtherPods:
    """Another pod requests 950m of the node in zone c, where the replacement needs 100m."""

    def beside(self, **status: Any) -> State:
        job = make("batch/v1", "Job", "report", spec={}, status={})
        pod: Manifest = placed("report-x1", "c-0", namespace="shop", labels={"job-name": "report"}, cpu="950m")
        pod["metadata"]["ownerReferences"] = owned_by(job)
        pod["spec"]["restartPolicy"] = "Never"
        pod["status"] |= status
        return cluster(deployment(), [pod], c="1")

    def test_a_job_that_runs_takes_the_room(self) -> None:
        assert_no_room(self.beside())

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_job_that_has_ended_has_released_it(self, phase: str) -> None:
        assert_evicted(self.beside(phase=phase, conditions=[]))

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_pod_that_has_ended_is_not_counted(self, phase: str) -> None:
        """Though it has the labels that the constraint selects: all zones would have three."""
        state = cluster(deployment())
        for at, node in enumerate(("b-0", "b-0", "c-0", "c-0", "c-0")):
            ended: Manifest = placed(f"run-{at}", node, namespace="shop", labels={"app": "web"})
            ended["status"] = {"phase": phase}
            state.add(ended)
        assert_evicted(state)


class TestNominated:
    """A pod has preempted others on the node in zone c, and is about to be bound there."""

    def preempting(self, cpu: str) -> State:
        waiting: Manifest = placed("urgent", None, namespace="shop", labels={"app": "urgent"}, cpu="950m")
        waiting["spec"]["priority"] = 1000
        waiting["status"]["nominatedNodeName"] = "c-0"
        return cluster(deployment(), [waiting], cpu="1", c=cpu)

    def test_the_room_that_it_needs_is_not_taken(self) -> None:
        assert self.preempting("1").plan().evicted == []

    def test_a_node_with_room_for_both_takes_both(self) -> None:
        assert_evicted(self.preempting("2"))


class TestGated:
    """A pod with scheduling gates is in no queue, and takes no capacity."""

    def with_other(self, *, gated: bool) -> State:
        """Return the usual state, with room for one pod in zone c, and a pod of another workload without a node."""
        state = cluster(
            deployment(cpu="1"), deployment("batch", ["a-0", None], topologySpreadConstraints=[]), cpu="4", c="1"
        )
        pod = state.get("Pod", "batch-1")
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
        if gated:
            pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
        return state

    def test_it_does_not_keep_a_repair_from_the_room_that_it_may_want_later(self) -> None:
        assert self.with_other(gated=True).plan().evicted == ["shop/web-0"]

    def test_one_that_the_scheduler_looks_at_does(self) -> None:
        self.with_other(gated=False).plan().assert_kept(Reason.GROUP_IN_FLIGHT)
