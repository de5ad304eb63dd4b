"""Owners of kinds that Kubernetes itself does not have: their pods move where the policy lists the kind."""

import pytest

from rebalancer.model.reasons import Reason
from tests.control_plane.resources import Manifest
from tests.known_states.build import (
    CROWDED,
    State,
    clone_set,
    cluster,
    deployment,
    make,
    owned_by,
    pod_set,
    replica_set,
    stateful_set,
)

LISTED = "CloneSet.apps.kruise.io, StrimziPodSet.core.strimzi.io, StatefulSet.apps.kruise.io"


def planned(state: State, owners: str = LISTED) -> list[str]:
    return state.plan(owners=owners).evicted


class TestListed:
    """A kind in `eligibility.owners` is repaired as a ReplicaSet is."""

    def test_an_owner_with_a_template_is_repaired(self) -> None:
        assert planned(cluster(clone_set())) == ["shop/web-0"]

    def test_an_owner_that_defines_its_pods_is_repaired(self) -> None:
        assert planned(cluster(pod_set())) == ["shop/web-0"]

    @pytest.mark.parametrize("state", [clone_set(), pod_set()], ids=["template", "pods"])
    def test_an_owner_that_is_not_listed_is_not_touched(self, state: list[Manifest]) -> None:
        said = cluster(state).plan().assert_kept(Reason.UNKNOWN_OWNER)
        owner = state[0]
        listed = f"{owner['kind']}.{owner['apiVersion'].partition('/')[0]}"
        assert f"eligibility.owners does not list {listed}" in said

    def test_a_listed_owner_that_the_file_does_not_have_is_not_known(self) -> None:
        said = cluster(clone_set()[1:]).plan(owners=LISTED).assert_kept(Reason.UNKNOWN_OWNER)
        assert "its owner, CloneSet web, is not known" in said

    def test_one_that_does_not_say_how_many_pods_it_wants_is_named_with_the_field(self) -> None:
        state = cluster(clone_set())
        del state.get("CloneSet", "web")["spec"]["replicas"]
        outcome = state.plan(owners=LISTED)
        assert outcome.evicted == []
        assert "is not known: spec.replicas: expected the number of pods" in outcome.refusals[Reason.UNKNOWN_OWNER]

    def test_a_foreign_stateful_set_is_another_kind_than_kubernetes_own(self) -> None:
        state = clone_set()
        for item in state:
            if item["kind"] == "CloneSet":
                item |= {"kind": "StatefulSet", "apiVersion": "apps.kruise.io/v1beta1"}
        for pod in state[1:]:
            pod["metadata"]["ownerReferences"] = owned_by(state[0])
        assert planned(cluster(state)) == ["shop/web-0"]
        assert "StatefulSet.apps.kruise.io" in cluster(state).plan().refusals[Reason.UNKNOWN_OWNER]


class TestChanging:
    """While its controller is doing something else, nothing is evicted."""

    def changed(self, state: list[Manifest], **spec: object) -> State:
        state[0]["spec"] |= spec
        return cluster(state)

    def test_a_paused_one_waits(self) -> None:
        assert self.changed(clone_set(), paused=True).plan(owners=LISTED).reasons == {Reason.ROLLOUT_IN_PROGRESS}

    def test_one_that_is_scaled_waits(self) -> None:
        outcome = self.changed(clone_set(), replicas=6).plan(owners=LISTED)
        assert outcome.evicted == []
        assert Reason.ROLLOUT_IN_PROGRESS in outcome.reasons

    def test_one_whose_pods_are_not_those_of_its_template_waits(self) -> None:
        state = clone_set()
        state[0]["spec"]["template"]["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        assert cluster(state).plan(owners=LISTED).reasons == {Reason.ROLLOUT_IN_PROGRESS}

    def test_one_whose_pods_have_two_revisions_waits(self) -> None:
        state = clone_set()
        for at, pod in enumerate(state[1:]):
            pod["metadata"]["labels"]["controller-revision-hash"] = f"web-{at % 2}"
        assert cluster(state).plan(owners=LISTED).reasons == {Reason.ROLLOUT_IN_PROGRESS}

    def test_one_whose_status_is_of_an_older_generation_waits(self) -> None:
        state = clone_set()
        state[0]["metadata"]["generation"] = 2
        assert cluster(state).plan(owners=LISTED).reasons == {Reason.ROLLOUT_IN_PROGRESS}
        state[0]["status"]["observedGeneration"] = "2"  # some controllers write it as text
        assert planned(cluster(state)) == ["shop/web-0"]

    def test_one_that_says_that_pods_are_not_up_to_date_waits(self) -> None:
        state = pod_set()
        state[0]["status"]["currentPods"] = 3
        assert cluster(state).plan(owners=LISTED).reasons == {Reason.ROLLOUT_IN_PROGRESS}

    def test_pods_that_are_defined_differently_are_not_planned_as_one_class(self) -> None:
        state = pod_set()
        assert planned(cluster(state)) == ["shop/web-0"]
        for pod in state[2:]:
            pod["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        outcome = cluster(state).plan(owners=LISTED)
        assert outcome.evicted == ["shop/web-0"], "the one that the plan is of"
        assert "its StrimziPodSet defines each pod" in outcome.refusals[Reason.NOT_PREDICTABLE]

    def test_volumes_that_the_template_does_not_name_are_not_guessed(self) -> None:
        state = clone_set()
        for pod in state[1:]:
            claim = {"claimName": f"data-{pod['metadata']['name']}"}
            pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
        outcome = cluster(state).plan(owners=LISTED)
        assert outcome.evicted == []
        assert "volumes that the template" in outcome.refusals[Reason.NOT_PREDICTABLE]


class TestAboveReplicaSets:
    """Above a ReplicaSet an owner of any kind is the workload, where its ReplicaSets are of one workload."""

    def rollout(self, *, read: bool) -> State:
        top = make(
            "argoproj.io/v1alpha1",
            "Rollout",
            "pay",
            generation=1,
            spec={"replicas": 4, "selector": {"matchLabels": {"app": "pay"}}},
            status={"replicas": 4, "updatedReplicas": 4, "observedGeneration": "1"},
        )
        below = replica_set("pay-5f6d", CROWDED, top, app="pay")
        return cluster([top, *below] if read else below)

    @pytest.mark.parametrize("read", [True, False])
    def test_its_pods_move_since_their_controller_is_a_replica_set(self, read: bool) -> None:
        assert planned(self.rollout(read=read), "") == ["shop/pay-5f6d-0"]

    def test_a_paused_one_waits(self) -> None:
        state = self.rollout(read=True)
        state.get("Rollout", "pay")["spec"]["paused"] = True
        assert "Rollout" in state.plan().assert_kept(Reason.ROLLOUT_IN_PROGRESS)

    @pytest.mark.parametrize("read", [True, False])
    def test_an_autoscaler_of_it_counts(self, read: bool) -> None:
        scaler = make(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "pay",
            spec={
                "scaleTargetRef": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "pay"},
                "minReplicas": 6,
                "maxReplicas": 9,
            },
        )
        assert self.rollout(read=read).add(scaler).plan().reasons == {Reason.ROLLOUT_IN_PROGRESS}

    def test_an_aborted_one_is_its_replica_set(self) -> None:
        """What comes back is of the stable template, though no pod is of the newest one."""
        state = self.rollout(read=True)
        state.get("Rollout", "pay")["status"] |= {"updatedReplicas": 0, "observedGeneration": "1"}
        assert planned(state, "") == ["shop/pay-5f6d-0"]

    def test_one_with_a_reference_to_a_deployment_is_the_workload(self) -> None:
        state = self.rollout(read=True)
        state.get("Rollout", "pay")["spec"] = {"replicas": 4, "workloadRef": {"kind": "Deployment", "name": "pay"}}
        (component,) = state.evaluate().plan.components
        assert [str(workload) for workload in component.workloads] == ["shop/pay (Rollout)"]

    def test_an_operators_object_that_owns_two_workloads_is_none(self) -> None:
        operator = make("search.example/v1", "Cluster", "es", spec={"nodeSets": []})
        masters, data = stateful_set("es-master"), stateful_set("es-data")
        for owner in (masters[0], data[0]):
            owner["metadata"]["ownerReferences"] = owned_by(operator)
        assert sorted(planned(cluster([operator], masters, data), "")) == ["shop/es-data-0", "shop/es-master-0"]

    def test_a_deployment_is_repaired_as_before(self) -> None:
        assert planned(cluster(deployment()), "") == ["shop/web-0"]
