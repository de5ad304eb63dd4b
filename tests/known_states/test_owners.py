"""What an owner does in place of an evicted pod: it rolls out, waits, scales, or deletes others along with it."""

import pytest

from rebalancer.model.reasons import Reason
from tests.control_plane.resources import Manifest
from tests.known_states.build import (
    CROWDED,
    State,
    cluster,
    deployment,
    make,
    owned_by,
    replica_set,
    stateful_set,
    unready,
)


class TestOnDelete:
    """Under `updateStrategy: OnDelete` every pod that is created has the newest template."""

    def rolled_out_to(self, *revisions: str) -> State:
        return cluster(stateful_set("es-data", updateStrategy={"type": "OnDelete"}, revisions=revisions))

    def test_a_rollout_that_somebody_carries_out_by_hand_is_not_carried_on(self) -> None:
        said = self.rolled_out_to("old", "new", "old", "old").plan().assert_kept(Reason.ROLLOUT_IN_PROGRESS)
        for named in ("OnDelete", "pod es-data-0", "es-data-old", "es-data-new"):
            assert named in said

    def test_once_all_pods_have_the_newest_template_it_is_repaired(self) -> None:
        assert self.rolled_out_to("new", "new", "new", "new").plan().evicted == ["shop/es-data-0"]


class TestCanary:
    """Two ReplicaSets of one owner have pods; the owner is of a kind that the file does not contain."""

    def canary(self, pods: int, replicas: int) -> State:
        top = make("argoproj.io/v1alpha1", "Rollout", "checkout")
        stable = replica_set("checkout-stable", CROWDED, top, app="checkout")
        newer = replica_set("checkout-canary", ["b-0"] * pods, top, app="checkout", revision="77c9")
        newer[0]["spec"]["replicas"] = replicas
        # The constraint is about the pods of one revision, as the template of a canary usually has it.
        for item in (*stable, *newer):
            spec = item["spec"]["template"]["spec"] if item["kind"] == "ReplicaSet" else item["spec"]
            spec["topologySpreadConstraints"][0]["matchLabelKeys"] = ["pod-template-hash"]
        return cluster(stable, newer)

    def test_while_a_canary_is_paused_none_of_the_stable_pods_is_evicted(self) -> None:
        said = self.canary(pods=1, replicas=1).plan().assert_kept(Reason.ROLLOUT_IN_PROGRESS)
        assert "Rollout checkout" in said
        assert "checkout-canary" in said

    def test_once_the_canary_is_scaled_to_zero_it_is_repaired(self) -> None:
        assert self.canary(pods=0, replicas=0).plan().evicted == ["shop/checkout-stable-0"]


class TestOrderedReady:
    """A StatefulSet creates no pod while one of a lower ordinal is not Ready."""

    def waiting(self, policy: str) -> State:
        """Return three pods in zone a of which the first is the only one that is not Ready; it is in b."""
        state = cluster(stateful_set("zk", ["b-0", "a-0", "a-0", "a-0"], podManagementPolicy=policy))
        unready(state.get("Pod", "zk-0"))
        return state

    def test_while_a_lower_ordinal_is_not_ready_none_above_it_is_evicted(self) -> None:
        said = self.waiting("OrderedReady").plan().assert_kept(Reason.CANNOT_CREATE)
        assert "OrderedReady" in said
        assert "pod zk-0 is not Ready" in said

    def test_under_parallel_they_are_created_at_once(self) -> None:
        assert self.waiting("Parallel").plan().evicted == ["shop/zk-1"]


class TestLeader:
    """Each pod leads a group of workers, which are a StatefulSet."""

    def led(self, *, by_pod: bool, by_set: bool) -> State:
        """Return the groups; the workers are owned by their leader, by the object that made both, or by both."""
        group = make("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "llm")
        state = cluster(stateful_set("llm"))
        for leader in state.pods("llm"):
            name = leader["metadata"]["name"]
            workers = stateful_set(name, [leader["spec"]["nodeName"]] * 2, topologySpreadConstraints=None)
            owners = [*(owned_by(leader) if by_pod else ()), *(owned_by(group) if by_set else ())]
            workers[0]["metadata"]["ownerReferences"] = owners
            workers[0]["spec"]["ordinals"] = {"start": 1}
            for number, worker in enumerate(workers[1:], start=1):
                worker["metadata"] |= {"name": f"{name}-{number}", "uid": f"{name}-{number}"}
            state.add(*workers)
        return state

    def test_a_pod_whose_workers_would_be_deleted_with_it_stays(self) -> None:
        said = self.led(by_pod=True, by_set=False).plan().assert_kept(Reason.NOT_EVICTABLE)
        assert "it owns StatefulSet llm-0" in said
        assert "2 pods" in said

    @pytest.mark.parametrize(("by_pod", "by_set"), [(False, True), (True, True), (False, False)])
    def test_workers_that_have_another_owner_or_none_outlive_it(self, by_pod: bool, by_set: bool) -> None:
        """The garbage collector deletes what has lost its last owner."""
        assert self.led(by_pod=by_pod, by_set=by_set).plan().evicted == ["shop/llm-0"]


class TestReplicaFailure:
    """The ReplicaSet could not create its last pod."""

    MESSAGE = 'pods "web-" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4'

    def failing(self, status: str, reason: str = "FailedCreate") -> State:
        state = cluster(deployment())
        condition = {"type": "ReplicaFailure", "status": status, "reason": reason, "message": self.MESSAGE}
        state.get("ReplicaSet", "web")["status"]["conditions"] = [condition]
        return state

    def test_the_reason_is_the_api_servers_own_message(self) -> None:
        said = self.failing("True").plan().assert_kept(Reason.CANNOT_CREATE)
        assert f"ReplicaSet web cannot create pods: {self.MESSAGE}" in said

    def test_it_is_so_where_pods_are_missing_too(self) -> None:
        """Not that a rollout is under way: nothing is."""
        state = self.failing("True")
        for kind in ("Deployment", "ReplicaSet"):
            state.get(kind, "web")["spec"]["replicas"] = 5
        outcome = state.plan()
        assert outcome.evicted == []
        assert self.MESSAGE in outcome.refusals[Reason.CANNOT_CREATE]

    @pytest.mark.parametrize(("status", "reason"), [("False", "FailedCreate"), ("True", "FailedDelete")])
    def test_a_failure_that_is_over_or_is_none_of_creating_stops_nothing(self, status: str, reason: str) -> None:
        assert self.failing(status, reason).plan().evicted == ["shop/web-0"]


class TestPartition:
    """A rolling update that stops at a partition."""

    def updated(self, partition: int, *revisions: str) -> State:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
        return cluster(stateful_set("db", updateStrategy=strategy, revisions=revisions))

    def test_a_rollout_that_has_ended_at_its_partition_is_no_reason_to_wait(self) -> None:
        """Pods below the partition come back as they are."""
        assert self.updated(2, "old", "old", "new", "new").plan().evicted == ["shop/db-0"]

    def test_one_that_has_not_reached_its_partition_is(self) -> None:
        said = self.updated(1, "old", "old", "new", "new").plan().assert_kept(Reason.ROLLOUT_IN_PROGRESS)
        assert "StatefulSet" in said


class TestAutoscaler:
    """A HorizontalPodAutoscaler of the Deployment."""

    def scaled(self, least: int, most: int = 9) -> State:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        scaler: Manifest = make(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "web-load",
            spec={"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most},
        )
        return cluster(deployment(), [scaler])

    def test_a_deployment_below_the_least_number_is_about_to_be_scaled(self) -> None:
        said = self.scaled(6).plan().assert_kept(Reason.ROLLOUT_IN_PROGRESS)
        assert "HorizontalPodAutoscaler shop/web-load" in said
        assert "minReplicas is 6" in said

    @pytest.mark.parametrize(("least", "most"), [(4, 9), (2, 9), (1, 4), (0, 4)])
    def test_one_within_its_bounds_is_repaired(self, least: int, most: int) -> None:
        assert self.scaled(least, most).plan().evicted == ["shop/web-0"]
