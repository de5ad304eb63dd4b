"""Remedies that fit their cause: what is advised is what the API server, the policy and the state allow."""

from typing import Any

import pytest

from rebalancer.documents.remedies import Violation, find_revision_label, remedy
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import FindingKind, Reason, ViolationCause
from rebalancer.planning.diagnosis.closed_nodes import NoSuchNode
from rebalancer.planning.scope.eligibility import OwnerKindNotListed
from rebalancer.policy import Owner
from tests.cli.files import MADE
from tests.control_plane.manifests import ZONE
from tests.control_plane.resources import Manifest
from tests.known_states.build import (
    State,
    assert_evicted,
    cluster,
    deployment,
    make,
    over_zones,
    owned_by,
    stateful_set,
)

NO_SCALE = "jobs.batch does not implement the scale subresource"


def budget(expected: int, allowed: int, reason: str, message: str, **spec: Any) -> Manifest:
    """Return a budget over the pods of shop/web, and what its controller says of it."""
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}
    return make(
        "policy/v1",
        "PodDisruptionBudget",
        "web",
        generation=1,
        spec={"selector": {"matchLabels": {"app": "web"}}, **spec},
        status={
            "observedGeneration": 1,
            "expectedPods": expected,
            "currentHealthy": expected,
            "desiredHealthy": expected - allowed,
            "disruptionsAllowed": allowed,
            "conditions": [condition],
        },
    )


class TestBudgetsThatAreNotComputed:
    """SyncFailed: the budget allows nothing, and no number in it changes that."""

    def state(self, expected: int = 0, reason: str = "SyncFailed", message: str = NO_SCALE, **spec: Any) -> State:
        fields = spec or {"maxUnavailable": "50%"}
        return cluster(deployment(), [budget(expected, expected // 2, reason, message, **fields)])

    def test_the_reason_is_what_its_controller_says_and_the_remedy_is_another_selector(self) -> None:
        said = self.state().plan().assert_kept(Reason.STEP_EXCEEDS_BUDGET)
        assert f"PodDisruptionBudget shop/web could not be computed (SyncFailed: {NO_SCALE})" in said
        assert "Narrow its selector to pods whose controllers have the scale subresource" in said
        assert "Raise" not in said
        assert "never allows" not in said

    def test_so_is_that_of_one_that_was_computed_before(self) -> None:
        said = self.state(expected=4).plan().assert_kept(Reason.BLOCKED_BY_BUDGET)
        assert f"(SyncFailed: {NO_SCALE}). Narrow its selector" in said

    def test_a_number_of_pods_needs_no_controller(self) -> None:
        said = self.state(expected=4, message="the lister is gone", minAvailable=2).plan()
        assert "(SyncFailed: the lister is gone). Correct what it names" in said.assert_kept(Reason.BLOCKED_BY_BUDGET)

    def test_without_a_message_the_condition_is_named(self) -> None:
        said = self.state(expected=4, message="").plan().assert_kept(Reason.BLOCKED_BY_BUDGET)
        assert said.endswith("could not be computed; see its DisruptionAllowed condition")

    def test_it_is_found_and_its_workload_named(self) -> None:
        (finding,) = self.state().find(FindingKind.BUDGET_NOT_COMPUTED)
        assert finding.object == "PodDisruptionBudget shop/web"
        assert finding.message.startswith(f"could not be computed (SyncFailed: {NO_SCALE}): no pod can be evicted")
        assert [str(workload) for workload in finding.workloads] == ["shop/web (Deployment)"]
        (bare,) = self.state(message="").find(FindingKind.BUDGET_NOT_COMPUTED)
        assert "(SyncFailed)" in bare.message
        assert not self.state().find(FindingKind.BUDGET_ALWAYS_ZERO)

    def test_one_that_allows_evictions_is_no_obstacle(self) -> None:
        state = self.state(4, "SufficientPods", "")
        assert_evicted(state)
        assert not state.find(FindingKind.BUDGET_NOT_COMPUTED)

    def test_one_that_never_allows_any_is_raised_as_before(self) -> None:
        state = self.state(0, "InsufficientPods", "", maxUnavailable=0)
        said = state.plan().assert_kept(Reason.STEP_EXCEEDS_BUDGET)
        assert "PodDisruptionBudget shop/web never allows any. Raise its maxUnavailable" in said
        assert not state.find(FindingKind.BUDGET_NOT_COMPUTED)
        assert len(state.find(FindingKind.BUDGET_ALWAYS_ZERO)) == 1

    @pytest.mark.parametrize("reason", [Reason.STEP_EXCEEDS_BUDGET, Reason.BLOCKED_BY_BUDGET])
    def test_a_report_advises_no_number_for_it(self, reason: Reason) -> None:
        named = ("PodDisruptionBudget shop/web",)
        violation = Violation(reason, None, ZONE, {"a": 2, "b": 0})
        failed = violation._replace(failed_budgets=named)
        assert remedy(failed) == "Correct what keeps PodDisruptionBudget shop/web from being computed."
        assert remedy(failed._replace(reason=Reason.NO_CAPACITY)) == Reason.NO_CAPACITY.remedy
        assert remedy(violation) == reason.remedy


class TestRevisions:
    """matchLabelKeys needs the label that the pods of this kind of owner have."""

    def advice(self, *kinds: str, reason: Reason | None = Reason.ROLLOUT_IN_PROGRESS) -> str:
        label = find_revision_label([Reference("shop", kind, "web") for kind in kinds])
        return remedy(Violation(reason, ViolationCause.ROLLOUT, ZONE, {"a": 2, "b": 0}, revision_label=label))

    def test_a_stateful_sets_is_its_revision_and_a_deployments_its_template(self) -> None:
        assert "matchLabelKeys: [controller-revision-hash]" in self.advice("StatefulSet")
        assert "matchLabelKeys: [pod-template-hash]" in self.advice("Deployment", "Deployment")

    @pytest.mark.parametrize(
        "kinds", [["ReplicationController"], ["CloneSet.apps.kruise.io"], ["ReplicaSet"], ["Deployment", "StatefulSet"]]
    )
    def test_without_one_label_of_all_only_waiting_is_advised(self, kinds: list[str]) -> None:
        assert self.advice(*kinds) == "Wait for the rollout to finish; a paused one has to be resumed."

    @pytest.mark.parametrize("reason", [None, Reason.NODE_SETTLING, Reason.PAUSED])
    def test_nobody_is_told_to_wait_for_a_rollout_that_planning_does_not_see(self, reason: Reason | None) -> None:
        """It remains the cause of what it has left, long after its end."""
        for kind in ("Deployment", "CloneSet.apps.kruise.io"):
            assert "Wait" not in self.advice(kind, reason=reason)
            assert "evictions repair the spread" in self.advice(kind, reason=reason)


class TestOwnersThatCannotBeListed:
    """What the policy refuses is not advised."""

    @pytest.mark.parametrize("kind", ["DaemonSet.apps.kruise.io", "Node.longhorn.io", "Deployment.apps"])
    def test_a_kind_that_the_policy_refuses_is_not_advised(self, kind: str) -> None:
        with pytest.raises(ValueError, match="expected"):
            Owner.of(kind)
        said = str(OwnerKindNotListed(kind))
        assert said.startswith(f"eligibility.owners cannot list {kind}: expected")
        assert "add it" not in said

    @pytest.mark.parametrize("kind", ["CloneSet.apps.kruise.io", "StatefulSet", "Job.batch"])
    def test_others_may_be_added(self, kind: str) -> None:
        assert Owner.of(kind).kind == kind.partition(".")[0]
        assert str(OwnerKindNotListed(kind)).endswith("add it to allow the eviction")


class TestLabelsThatNodesHave:
    """That no node has a label is said only where it is so."""

    def said(self, **spec: Any) -> list[str]:
        state = cluster(deployment(**spec))
        return [finding.message for finding in state.find(FindingKind.TOO_FEW_DOMAINS)]

    def test_nodes_that_a_selector_excludes_have_the_label_all_the_same(self) -> None:
        (message,) = self.said(nodeSelector={"disk": "fast"})
        assert message.startswith(
            f"3 of 3 nodes have the label {ZONE} of its constraint, but none of these counts for it"
        )
        assert "node selector" in message

    def test_one_node_in_the_singular(self) -> None:
        state = cluster(deployment(nodeSelector={"disk": "fast"}))
        for name in ("b-0", "c-0"):
            del state.get("Node", name)["metadata"]["labels"][ZONE]
        (finding,) = state.find(FindingKind.TOO_FEW_DOMAINS)
        assert finding.message.startswith(f"1 of 3 nodes has the label {ZONE}")

    def test_a_label_that_no_node_has_is_said_to_be_on_none(self) -> None:
        state = cluster(deployment())
        for name in ("a-0", "b-0", "c-0"):
            del state.get("Node", name)["metadata"]["labels"][ZONE]
        (finding,) = state.find(FindingKind.TOO_FEW_DOMAINS)
        assert finding.message.startswith(f"no node that counts for its constraint over {ZONE} has this label")

    def test_nothing_is_said_where_nodes_count(self) -> None:
        assert self.said() == []


class TestClaimsThatAreGoingOrGone:
    """Of a claim that no replacement can use the reason says so; who reads it must save the data first."""

    def state(self, *, volumes: bool = True) -> State:
        state = cluster(stateful_set("db", claims=["data"]))
        for ordinal in range(4):
            name, volume = f"data-db-{ordinal}", f"v-{ordinal}"
            fields = {"accessModes": ["ReadWriteOnce"], "storageClassName": "net"}
            bound = {"pv.kubernetes.io/bind-completed": "yes"}
            status = {"phase": "Bound"}
            state.add(
                make(
                    "v1",
                    "PersistentVolumeClaim",
                    name,
                    annotations=bound,
                    spec={"volumeName": volume, **fields},
                    status=dict(status),
                )
            )
            if volumes:
                spec = {**fields, "capacity": {"storage": "1Gi"}, "csi": {"driver": "net.test", "volumeHandle": volume}}
                state.add(make("v1", "PersistentVolume", volume, None, spec=spec, status=dict(status)))
        return state.add(make("storage.k8s.io/v1", "StorageClass", "net", None, provisioner="net.test"))

    def claim(self, state: State, ordinal: int) -> Manifest:
        return state.get("PersistentVolumeClaim", f"data-db-{ordinal}")

    def test_claims_that_every_node_reaches_let_the_pod_go(self) -> None:
        assert self.state().plan().evicted == ["shop/db-0"]

    def test_one_that_is_being_deleted_goes_with_its_last_pod(self) -> None:
        state = self.state()
        for ordinal in range(3):
            self.claim(state, ordinal)["metadata"]["deletionTimestamp"] = MADE
        said = state.plan().assert_kept(Reason.VOLUME_PINNED)
        assert "its PersistentVolumeClaim data-db-0 is being deleted, and goes with the last pod that uses it" in said
        assert "Save the data before that pod goes" in said

    def test_one_that_is_lost_has_no_volume_any_more(self) -> None:
        state = self.state()
        for ordinal in range(3):
            self.claim(state, ordinal)["status"]["phase"] = "Lost"
            state.items.remove(state.get("PersistentVolume", f"v-{ordinal}"))
        said = state.plan().assert_kept(Reason.VOLUME_PINNED)
        assert "its PersistentVolumeClaim data-db-0 is Lost, since PersistentVolume v-0 is gone" in said
        assert "save the data and replace the claim" in said

    def test_others_of_the_same_workload_go_instead(self) -> None:
        state = self.state()
        self.claim(state, 0)["metadata"]["deletionTimestamp"] = MADE
        assert state.plan().evicted == ["shop/db-1"]

    def test_that_of_an_ephemeral_volume_is_the_pods_own(self) -> None:
        """It goes with each pod, and the replacement gets another one."""
        state = cluster(deployment())
        pod = state.pods()[1]
        pod["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
        claim = make("v1", "PersistentVolumeClaim", "web-0-scratch", ownerReferences=owned_by(pod), spec={})
        claim["metadata"]["deletionTimestamp"] = MADE
        said = str(state.add(claim).plan())
        assert "is being deleted" not in said


class TestZonesWithoutTheKindOfNode:
    """A zone that has no node of the kind that the pods need is named: nothing that becomes free there helps."""

    GPU = "nvidia.com/gpu"

    def devices(self, zones: str, taken: str = "", key: str = ZONE) -> State:
        """Return pods with a device each, in a cluster that has devices in these zones, in some no free ones."""
        requests = {"requests": {"cpu": "1", self.GPU: "1"}, "limits": {self.GPU: "1"}}
        spec: dict[str, Any] = {
            "containers": [{"name": "train", "image": "registry.test/train:1", "resources": requests}],
            "topologySpreadConstraints": [over_zones({"app": "web"}, topologyKey=key)],
        }
        state = cluster(deployment(**spec))
        for zone in zones:
            state.get("Node", f"{zone}-0")["status"]["allocatable"][self.GPU] = "4"
        for zone in taken:
            holder = deployment("holder", [f"{zone}-0"] * 4, **{**spec, "topologySpreadConstraints": []})
            state.add(*holder)
        return state

    def test_devices_that_no_node_of_it_offers(self) -> None:
        said = self.devices("ab").plan().assert_kept(Reason.NO_CAPACITY)
        assert "; zone c has no node with nvidia.com/gpu: add one there" in said

    def test_where_it_has_some_the_replacement_goes_there(self) -> None:
        assert_evicted(self.devices("abc"))

    def test_where_they_are_taken_capacity_is_what_lacks(self) -> None:
        said = self.devices("abc", taken="c").plan().assert_kept(Reason.NO_CAPACITY)
        assert "has not enough nvidia.com/gpu" in said
        assert "no node with" not in said

    def test_a_host_is_no_zone(self) -> None:
        said = self.devices("ab", key="kubernetes.io/hostname").plan().assert_kept(Reason.NO_CAPACITY)
        assert "no node with" not in said

    @pytest.mark.parametrize("policy", ["Ignore", "Honor"])
    def test_nodes_that_the_pods_select(self, policy: str) -> None:
        """Where the constraint honours the selector the zone does not count, and nothing keeps the pods."""
        constraint = over_zones({"app": "web"}, nodeAffinityPolicy=policy)
        state = cluster(deployment(nodeSelector={"disk": "fast"}, topologySpreadConstraints=[constraint]))
        for zone in "ab":
            state.get("Node", f"{zone}-0")["metadata"]["labels"]["disk"] = "fast"
        if policy == "Honor":
            assert_evicted(state)
            return
        said = state.plan().assert_kept(Reason.NODES_REJECT)
        assert "; zone c has no node that matches its node selector and affinity: add or label one there" in said

    def test_several_zones_in_the_plural(self) -> None:
        assert (
            str(NoSuchNode(ZONE, ("b", "c"), self.GPU)) == "zone b, c have no node with nvidia.com/gpu: add one there"
        )
