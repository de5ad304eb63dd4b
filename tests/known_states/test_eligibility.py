"""What keeps a pod where it is: volumes, annotations, features that are not predicted, a node that is leaving."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rebalancer.model.reasons import FindingKind, Reason
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.resources import Manifest
from tests.known_states.build import (
    CROWDED,
    Outcome,
    State,
    bound,
    bound_claim,
    cluster,
    csi_driver,
    deployment,
    make,
    pod_group,
    stateful_set,
    storage_class,
    unbound_claim,
)


class TestVolumes:
    def database(self, *reach: Mapping[str, str] | None) -> State:
        """Return a StatefulSet whose pods have volumes that the nodes with these labels can attach."""
        state = cluster(stateful_set("db", claims=["data"]), [storage_class()])
        for ordinal, labels in enumerate(reach):
            state.add(*bound_claim(f"data-db-{ordinal}", labels))
        return state

    def test_pods_with_volumes_of_one_node_stay(self) -> None:
        self.database(*({HOSTNAME: node} for node in CROWDED)).plan().assert_kept(Reason.VOLUME_PINNED)

    def test_pods_with_volumes_of_one_zone_stay(self) -> None:
        self.database(*({ZONE: node[0]} for node in CROWDED)).plan().assert_kept(Reason.VOLUME_PINNED)

    def test_pods_with_volumes_that_every_zone_reaches_are_moved(self) -> None:
        assert self.database(None, None, None, None).plan().evicted == ["shop/db-0"]

    def test_the_one_pod_of_a_zone_whose_volume_reaches_further_is_moved(self) -> None:
        assert self.database({ZONE: "a"}, None, {ZONE: "a"}, {ZONE: "b"}).plan().evicted == ["shop/db-1"]

    def test_of_pods_whose_volumes_reach_some_zones_one_goes_that_must_land_in_the_empty_one(self) -> None:
        """Volumes of a and b would come back to a or b; c is the only zone that takes a volume of a and c."""
        outcome = self.database({ZONE: "a b"}, {ZONE: "a c"}, {ZONE: "a"}, {ZONE: "b c"}).plan()
        assert outcome.evicted == ["shop/db-1"]
        assert "1 of 3 nodes" in outcome.refusals[Reason.VOLUME_PINNED], "that of zone a"

    def test_pods_whose_volumes_do_not_reach_the_empty_zone_stay(self) -> None:
        self.database({ZONE: "a b"}, {ZONE: "a b"}, {ZONE: "a"}, {ZONE: "b"}).plan().assert_kept(Reason.VOLUME_PINNED)

    def test_two_volumes_in_turn_are_not_certain_to_fill_the_empty_zone(self) -> None:
        """That of b could go to c, and one of a to b: the scheduler may as well leave the first where it was."""
        outcome = self.database({ZONE: "a b"}, {ZONE: "a b"}, {ZONE: "a"}, {ZONE: "b c"}).plan()
        assert outcome.evicted == []
        assert Reason.NOT_FORCED in outcome.reasons

    def test_labels_of_a_volume_that_name_several_zones(self) -> None:
        """As the plugins in the tree of Kubernetes wrote them."""
        state = self.database(*[None] * 4)
        for ordinal, named in enumerate(("a__b", "a__b", "a__c", "b")):
            state.get("PersistentVolume", f"pv-data-db-{ordinal}")["metadata"]["labels"] = {ZONE: named}
        assert state.plan().evicted == ["shop/db-2"]

    @pytest.mark.parametrize(("zones", "evicted"), [("ac", ["shop/db-0"]), ("ab", []), ("a", [])])
    def test_volumes_that_are_not_made_yet_can_be_made_in_some_zones(self, zones: str, evicted: list[str]) -> None:
        """Of which c is one, or none is that takes another pod."""
        state = cluster(stateful_set("db", claims=["data"]), [storage_class(zones=zones)])
        state.add(*(unbound_claim(f"data-db-{ordinal}") for ordinal in range(4)), *bound_claim("other", None))
        outcome = state.plan()
        assert outcome.evicted == evicted
        assert outcome.reasons == (set() if evicted else {Reason.VOLUME_PINNED})

    @pytest.mark.parametrize(("zones", "evicted"), [("a c", ["shop/web-0"]), ("a b", [])])
    def test_pods_that_share_a_volume_of_some_zones(self, zones: str, evicted: list[str]) -> None:
        """The pods of a Deployment, whose replacements have other names, all have it."""
        shared = [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}]
        files = bound_claim("files", {ZONE: zones}, mode="ReadWriteMany")
        state = cluster(deployment(volumes=shared), files, [storage_class()])
        assert state.plan().evicted == evicted
        state.get("Pod", "web-2")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
        assert state.plan().evicted == evicted

    def test_no_pod_goes_while_one_with_volumes_is_missing(self) -> None:
        """It is not known where its replacement can go."""
        state = self.database(*({ZONE: "a c"} for _ in CROWDED))
        state.items.remove(state.get("Pod", "db-3"))
        assert state.plan().evicted == []

    def test_pods_that_share_a_volume_that_many_nodes_may_mount_are_moved(self) -> None:
        shared = [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}]
        files = bound_claim("files", None, mode="ReadWriteMany")
        assert cluster(deployment(volumes=shared), files, [storage_class()]).plan().evicted == ["shop/web-0"]

    def sharing(self, *others: Manifest, on: Sequence[str] = ("a-0", "a-0", "a-0")) -> State:
        """Return a Deployment whose pods share a ReadWriteOnce volume that every node reaches."""
        shared = [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}]
        return cluster(deployment(on=on, volumes=shared), bound_claim("files", None), [storage_class(), *others])

    def assert_kept(self, state: State) -> str:
        refusal = state.plan().assert_kept(Reason.VOLUME_PINNED)
        assert "PersistentVolumeClaim shop/files) is attached to node a-0" in refusal
        assert state.find(FindingKind.SHARED_VOLUME_NOT_ATTACHED) == []
        return refusal

    def test_pods_that_share_a_volume_of_one_node_stay_on_it(self) -> None:
        """The scheduler would place a replacement elsewhere, where it waits for the volume."""
        assert "or read CSIDrivers: disks.test may attach nothing" in self.assert_kept(self.sharing())

    @pytest.mark.parametrize("spec", [{}, {"attachRequired": True}, {"attachRequired": None}])
    def test_a_driver_attaches_unless_it_says_otherwise(self, spec: Mapping[str, Any]) -> None:
        assert "CSIDriver" not in self.assert_kept(self.sharing(csi_driver(spec=spec)))
        another = csi_driver("other.test", spec={"attachRequired": False})
        assert "CSIDriver" not in self.assert_kept(self.sharing(another))

    def test_pods_that_share_what_is_attached_nowhere_are_moved_with_a_warning(self) -> None:
        state = self.sharing(csi_driver(spec={"attachRequired": False}))
        assert state.plan().evicted == ["shop/web-0", "shop/web-1"]
        (finding,) = state.find(FindingKind.SHARED_VOLUME_NOT_ATTACHED)
        assert finding.object == "PersistentVolumeClaim shop/files"
        assert [str(one) for one in finding.workloads] == ["shop/web (Deployment)"]
        assert (
            "3 pods use it, it is ReadWriteOnce, and CSIDriver disks.test has attachRequired: false" in finding.message
        )

    def test_pods_that_run_with_it_on_several_nodes_show_that_it_is_attached_nowhere(self) -> None:
        state = self.sharing(on=CROWDED)
        assert state.plan().evicted == ["shop/web-0"]
        bound(state.get("Pod", "web-3"), 60, sandbox=False)
        self.assert_kept(state)

    @pytest.mark.parametrize(
        ("source", "kept"),
        [("awsElasticBlockStore", True), ("gcePersistentDisk", True), ("iscsi", True), ("nfs", False)],
    )
    def test_disks_of_kubernetes_own_drivers_are_attached_too(self, source: str, kept: bool) -> None:
        state = self.sharing()
        spec = state.get("PersistentVolume", "pv-files")["spec"]
        del spec["csi"]
        spec[source] = {"server": "nfs.test", "path": "/"}
        if kept:
            assert "CSIDriver" not in self.assert_kept(state)
        else:
            assert state.plan().evicted == ["shop/web-0", "shop/web-1"]

    def test_volumes_of_single_pods_have_no_warning(self) -> None:
        state = self.database(None, None, None, None).add(csi_driver(spec={"attachRequired": False}))
        assert state.plan().evicted == ["shop/db-0"]
        assert state.find(FindingKind.SHARED_VOLUME_NOT_ATTACHED) == []

    def test_nor_have_those_that_many_nodes_may_mount(self) -> None:
        state = self.sharing(csi_driver(spec={"attachRequired": False}))
        state.get("PersistentVolume", "pv-files")["spec"]["accessModes"] = ["ReadWriteOnce", "ReadWriteMany"]
        assert state.plan().evicted == ["shop/web-0", "shop/web-1"]
        assert state.find(FindingKind.SHARED_VOLUME_NOT_ATTACHED) == []


class TestAnnotations:
    def annotated(self, key: str, value: str, pods: Sequence[str]) -> Outcome:
        state = cluster(deployment())
        for name in pods:
            state.get("Pod", name)["metadata"]["annotations"] = {key: value}
        return state.plan()

    KEYS = (
        ("karpenter.sh/do-not-disrupt", "true"),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    )

    @pytest.mark.parametrize(("key", "value"), KEYS)
    def test_a_pod_that_nobody_may_disrupt_stays_and_another_one_goes(self, key: str, value: str) -> None:
        outcome = self.annotated(key, value, ["web-0", "web-1"])
        assert (outcome.evicted, outcome.reasons) == (["shop/web-2"], {Reason.EXCLUDED})
        assert f"it is annotated {key}: {value}" in outcome.refusals[Reason.EXCLUDED]

    @pytest.mark.parametrize(("key", "value"), KEYS)
    def test_where_all_of_a_zone_may_not_be_disrupted_nothing_is_evicted(self, key: str, value: str) -> None:
        outcome = self.annotated(key, value, ["web-0", "web-1", "web-2"])
        assert outcome.evicted == []
        assert f"annotated {key}: {value}" in outcome.refusals[Reason.EXCLUDED]

    @pytest.mark.parametrize(
        ("key", "value"),
        [("karpenter.sh/do-not-disrupt", "false"), ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true")],
    )
    def test_the_other_value_keeps_none(self, key: str, value: str) -> None:
        assert self.annotated(key, value, ["web-0", "web-1", "web-2"]).evicted == ["shop/web-0"]

    def test_a_do_not_disrupt_for_a_time_ends(self) -> None:
        """Karpenter counts it from the pod's creation on."""
        key = "karpenter.sh/do-not-disrupt"
        assert self.annotated(key, "1h", ["web-0", "web-1", "web-2"]).evicted == ["shop/web-0"]
        assert self.annotated(key, "99999h", ["web-0", "web-1", "web-2"]).evicted == []

    def test_a_pod_with_scratch_data_goes_where_it_is_said_to_be_safe(self) -> None:
        def planned(*safe: str) -> Outcome:
            state = cluster(deployment(volumes=[{"name": "cache", "emptyDir": {}}]))
            for name in safe:
                annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
                state.get("Pod", name)["metadata"]["annotations"] = annotations
            return state.plan()

        assert planned("web-2").evicted == ["shop/web-2"]
        refused = planned()
        assert refused.evicted == []
        assert "volume cache (emptyDir)" in refused.refusals[Reason.LOCAL_STORAGE]


class TestNotPredicted:
    def assert_refused(self, spec: Mapping[str, Any], reason: Reason, named: str) -> None:
        assert named in cluster(deployment(**spec)).plan().assert_kept(reason)

    def test_pods_that_a_queue_admits_stay(self) -> None:
        state = cluster(deployment())
        for pod in state.pods():
            pod["metadata"]["labels"]["kueue.x-k8s.io/managed"] = "true"
        assert "kueue.x-k8s.io/managed" in state.plan().assert_kept(Reason.NOT_PREDICTABLE)

    def test_pods_with_claims_for_devices_stay(self) -> None:
        claim = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
        self.assert_refused({"resourceClaims": [claim]}, Reason.NOT_PREDICTABLE, "resourceClaims")

    def with_devices(self, resource: str, *names: str, on: Sequence[str] = ()) -> Outcome:
        """Plan pods that ask for a resource: DeviceClasses stand for `names`, and the nodes `on` state it."""
        asked = {"requests": {"cpu": "1", resource: "1"}, "limits": {resource: "1"}}
        state = cluster(deployment(containers=[{"name": "main", "image": "app", "resources": asked}]))
        for number, name in enumerate(names):
            spec = {"extendedResourceName": name} if name else {}
            state.add(make("resource.k8s.io/v1", "DeviceClass", f"class-{number}", None, spec=spec))
        for name in on:
            state.get("Node", name)["status"]["allocatable"][resource] = "8"
        return state.plan()

    @pytest.mark.parametrize("on", [(), ("a-0", "b-0")])
    def test_where_devices_may_meet_a_resource_nodes_that_do_not_state_it_may_still_have_it(
        self, on: Sequence[str]
    ) -> None:
        """Of which of them are free, only claims tell; that no node has one (or zone c has none) would be wrong."""
        said = self.with_devices("example.com/gpu", "", "example.com/gpu", on=on).assert_kept(Reason.NOT_PREDICTABLE)
        assert "example.com/gpu comes from a DeviceClass" in said

    def test_the_resources_that_a_device_class_stands_for_by_its_name_too(self) -> None:
        outcome = self.with_devices("deviceclass.resource.kubernetes.io/any")
        assert outcome.reasons == {Reason.NOT_PREDICTABLE}

    @pytest.mark.parametrize("classes", [(), ("",), ("example.com/other",), ("example.com/gpu",)])
    def test_what_every_node_states_is_counted_there(self, classes: Sequence[str]) -> None:
        outcome = self.with_devices("example.com/gpu", *classes, on=("a-0", "b-0", "c-0"))
        assert outcome.evicted == ["shop/web-0"]

    def test_pods_that_need_a_declared_feature_of_nodes_stay(self) -> None:
        main = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
        rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
        for more, evicted in (({"restartPolicyRules": rules}, []), ({}, ["shop/web-0"])):
            outcome = cluster(deployment(containers=[{**main, **more}])).plan()
            assert outcome.evicted == evicted
            assert outcome.reasons == (set() if evicted else {Reason.NOT_PREDICTABLE})

    def test_pods_of_another_scheduler_stay(self) -> None:
        self.assert_refused({"schedulerName": "batch"}, Reason.OTHER_SCHEDULER, "batch")


class TestLeavingNodes:
    """An autoscaler has tainted a node that it removes, or a condition says that a node is drained."""

    REMOVED = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")

    def tainted(self, node: str, key: str, effect: str = "NoSchedule") -> Outcome:
        state = cluster(deployment())
        state.get("Node", node)["spec"]["taints"] = [{"key": key, "effect": effect}]
        return state.plan()

    @pytest.mark.parametrize("key", REMOVED)
    def test_pods_of_a_node_that_is_removed_are_not_evicted_besides(self, key: str) -> None:
        """They leave anyway, and are placed anew."""
        assert "node a-0" in self.tainted("a-0", key).assert_kept(Reason.NODE_LEAVING)

    @pytest.mark.parametrize("key", REMOVED)
    def test_nothing_is_evicted_to_a_node_that_is_removed(self, key: str) -> None:
        assert self.tainted("c-0", key).evicted == []

    def test_nothing_is_evicted_to_a_node_that_may_be_removed_soon(self) -> None:
        """The scheduler would only prefer others, and there is none in zone c."""
        said = self.tainted("c-0", "DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule").assert_kept(
            Reason.NODE_LEAVING
        )
        assert "node c-0" in said

    def drained(self, node: str, condition: str, status: str = "True", *, cordoned: bool = False) -> Outcome:
        state = cluster(deployment())
        changed = state.get("Node", node)
        changed["status"]["conditions"].append({"type": condition, "status": status})
        if cordoned:
            taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
            changed["spec"] |= {"unschedulable": True, "taints": [taint]}
        return state.plan()

    @pytest.mark.parametrize("condition", ["DrainInProgress", "Drained", "GracefulNodeShutdownInProgress"])
    def test_nothing_is_evicted_to_a_node_that_is_drained(self, condition: str) -> None:
        """Its administrator has set the condition; kube-scheduler does not heed it."""
        said = self.drained("c-0", condition).assert_kept(Reason.NODE_LEAVING)
        assert f"node c-0 may take a replacement, and its condition {condition}" in said

    @pytest.mark.parametrize(
        ("condition", "status"),
        [("DrainInProgress", "False"), ("Drained", "Unknown"), ("MaintenancePlanned", "True"), ("Ready", "True")],
    )
    def test_other_conditions_say_nothing_about_leaving(self, condition: str, status: str) -> None:
        assert self.drained("c-0", condition, status).evicted == ["shop/web-0"]

    def test_a_drained_node_that_is_cordoned_takes_no_pods_anyway(self) -> None:
        outcome = self.drained("b-0", "DrainInProgress", cordoned=True)
        assert outcome.evicted == ["shop/web-0"]

    def test_a_taint_of_another_kind_that_only_prefers_others_stops_nothing(self) -> None:
        assert self.tainted("c-0", "spot.test/interruptible", "PreferNoSchedule").evicted == ["shop/web-0"]


class TestPodGroups:
    """What `spec.schedulingGroup` keeps in place: kube-scheduler places such pods by rules that are not predicted."""

    def grouped(self, *others: Manifest) -> State:
        return cluster(deployment(schedulingGroup={"podGroupName": "train"}), others)

    def assert_kept(self, state: State, reason: Reason, *words: str) -> None:
        outcome = state.plan()
        assert (outcome.evicted, outcome.reasons) == ([], {reason})
        assert all(word in outcome.refusals[reason] for word in words), outcome.refusals

    def test_a_group_that_may_only_be_disrupted_as_a_whole_stays_and_is_named(self) -> None:
        group = ("disruptionMode of PodGroup shop/train is All",)
        self.assert_kept(self.grouped(pod_group("all")), Reason.POD_GROUP_DISRUPTION, *group)

    @pytest.mark.parametrize("mode", ["single", None])
    def test_where_each_pod_may_go_the_placement_is_still_not_predictable(self, mode: str | None) -> None:
        self.assert_kept(self.grouped(pod_group(mode)), Reason.NOT_PREDICTABLE, "schedulingGroup")

    def test_a_group_that_was_not_read_may_be_one_that_goes_as_a_whole(self) -> None:
        words = ("PodGroup shop/train was not read", "podgroups of scheduling.k8s.io/v1beta1")
        self.assert_kept(self.grouped(), Reason.POD_GROUP_DISRUPTION, *words)

    def test_so_may_one_that_does_not_exist(self) -> None:
        other = pod_group("single")
        other["metadata"]["name"] = "other"
        self.assert_kept(self.grouped(other), Reason.POD_GROUP_DISRUPTION, "PodGroup shop/train does not exist")

    def test_one_of_another_namespace_is_another_one(self) -> None:
        other = pod_group("single")
        other["metadata"]["namespace"] = "store"
        self.assert_kept(self.grouped(other), Reason.POD_GROUP_DISRUPTION, "PodGroup shop/train does not exist")

    def test_a_group_of_another_api_group_says_nothing(self) -> None:
        """Other schedulers have PodGroups too: `scheduling.x-k8s.io`, `scheduling.volcano.sh`."""
        other = {**pod_group("single"), "apiVersion": "scheduling.x-k8s.io/v1alpha1"}
        self.assert_kept(self.grouped(other), Reason.POD_GROUP_DISRUPTION, "PodGroup shop/train was not read")

    def test_the_reference_of_kubernetes_1_35_is_not_predictable_either(self) -> None:
        reference = {"name": "train", "podGroup": "workers"}
        self.assert_kept(cluster(deployment(workloadRef=reference)), Reason.NOT_PREDICTABLE, "workloadRef")

    def test_an_older_pod_of_such_a_group_does_not_hold_the_others(self) -> None:
        """A webhook has put it into the group; the template has none, nor have the newest pods."""
        first = cluster(deployment()).plan().evicted
        state = cluster(deployment(), [pod_group("all")])
        for pod in state.pods():
            if pod["metadata"]["name"] in {name.partition("/")[2] for name in first}:
                pod["spec"]["schedulingGroup"] = {"podGroupName": "train"}
                pod["metadata"]["creationTimestamp"] = "2019-01-01T00:00:00Z"
        outcome = state.plan()
        assert outcome.evicted
        assert not set(outcome.evicted) & set(first)
        assert "PodGroup shop/train is All" in outcome.refusals[Reason.POD_GROUP_DISRUPTION]
