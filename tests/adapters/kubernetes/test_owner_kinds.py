"""Kinds of foreign owners are found by discovery and their definition, and watched while the policy lists them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from rebalancer.adapters.files import read_snapshot
from rebalancer.adapters.kubernetes import owner_kinds
from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.adapters.kubernetes.listing import read_once, read_reduced
from rebalancer.adapters.kubernetes.owner_kinds import OwnerKindUnreadError, find_owner_kind
from rebalancer.adapters.kubernetes.reflector import Reflector
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.decoding.reduction import reduced_list
from rebalancer.model.cluster import NEWEST
from rebalancer.model.events import Event, EventReason, Regarding
from rebalancer.model.moves import Reference
from rebalancer.ports import PlacedPod, ReplicaCount
from tests.adapters.kubernetes.fake_server import ApiServer, served
from tests.controller.waiting import until

GROUP = "apps.kruise.io"
CLONE_SET = ("CloneSet", GROUP)
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clonesets.{GROUP}"
LIST = f"/apis/{GROUP}/v1alpha1/clonesets"
OBJECT = f"/apis/{GROUP}/v1alpha1/namespaces/shop/clonesets/web"
NOW = datetime(2026, 5, 4, tzinfo=UTC)


def a_server(*, scale: dict[str, str] | None = None, namespaced: bool = True) -> ApiServer:
    """Return a server with one CloneSet of three pods, which its definition calls `size` unless told otherwise."""
    server = ApiServer()
    server.answers["GET", f"/apis/{GROUP}"] = 200, {"preferredVersion": {"version": "v1alpha1"}}
    resources = [
        {"name": "clonesets", "kind": "CloneSet", "namespaced": namespaced},
        {"name": "clonesets/scale", "kind": "Scale", "namespaced": namespaced},
    ]
    server.answers["GET", f"/apis/{GROUP}/v1alpha1"] = 200, {"resources": resources}
    paths = {"specReplicasPath": ".spec.size", "labelSelectorPath": ".status.text"} if scale is None else scale
    subresources = {"scale": paths} if paths else {}
    versions = [{"name": "v1", "subresources": {}}, {"name": "v1alpha1", "subresources": subresources}]
    server.put(DEFINITION, spec={"versions": versions})
    server.put(
        OBJECT,
        apiVersion=f"{GROUP}/v1alpha1",
        kind="CloneSet",
        metadata={"namespace": "shop", "uid": "clones", "creationTimestamp": "2026-05-01T00:00:00Z"},
        spec={"size": 3},
        status={"text": "app=web,tier = front"},
    )
    return server


@contextmanager
def watching(server: ApiServer, *kinds: tuple[str, str]) -> Iterator[KubernetesCluster]:
    with served(server) as transport:
        control = Reflector(transport, CONFIG_MAPS, namespace="ns", name="rebalancer-control")
        cluster = KubernetesCluster(transport, namespace="ns", instance="i", version=NEWEST, control=control)
        cluster.follow_owners(kinds)
        cluster.start()
        try:
            until(lambda: cluster.synced, "the first lists")
            yield cluster
        finally:
            cluster.stop(5)


def names(cluster: KubernetesCluster) -> list[str]:
    return [str(owner) for owner in cluster.snapshot(NOW).workloads]


class TestFinding:
    def find(self, server: ApiServer) -> Any:
        with served(server) as transport:
            return find_owner_kind(transport, *CLONE_SET)

    def test_replicas_and_selector_are_where_the_scale_subresource_says(self) -> None:
        with served(a_server()) as transport:
            (owner,) = read_once_with_nodes(transport).workloads
        assert (owner.replicas, str(owner.selector)) == (3, "app=web,tier=front")

    @pytest.mark.parametrize("scale", [{}, {"labelSelectorPath": ".status.text"}])
    def test_without_a_scale_subresource_they_are_where_most_kinds_have_them(self, scale: dict[str, str]) -> None:
        server = a_server(scale=scale)
        server.objects[OBJECT]["spec"] = {"replicas": 4}
        with served(server) as transport:
            (owner,) = read_once_with_nodes(transport).workloads
        assert owner.replicas == 4

    def test_a_kind_without_a_definition_is_served_by_another_api_server(self) -> None:
        server = a_server()
        del server.objects[DEFINITION]
        assert self.find(server).path == LIST

    def test_what_is_not_served_is_named(self) -> None:
        server = a_server()
        del server.answers["GET", f"/apis/{GROUP}"]
        with pytest.raises(OwnerKindUnreadError, match=f"serves no group {GROUP}"):
            self.find(server)
        server.answers["GET", f"/apis/{GROUP}"] = 200, {"preferredVersion": {"version": "v1alpha1"}}
        server.answers["GET", f"/apis/{GROUP}/v1alpha1"] = 200, {"resources": []}
        with pytest.raises(OwnerKindUnreadError, match=f"serves no kind CloneSet in group {GROUP}"):
            self.find(server)

    def test_the_version_that_has_the_kind_need_not_be_the_one_that_its_group_prefers(self) -> None:
        """Of a group with several kinds the newest version of any is preferred."""
        server = a_server()
        versions = [{"version": "v1beta1"}, {"version": "v1alpha1"}]
        server.answers["GET", f"/apis/{GROUP}"] = 200, {"preferredVersion": versions[0], "versions": versions}
        server.answers["GET", f"/apis/{GROUP}/v1beta1"] = 200, {"resources": []}
        assert self.find(server).path == LIST

    def test_a_kind_without_namespaces_is_not_planned(self) -> None:
        with pytest.raises(OwnerKindUnreadError, match="has no namespace"):
            self.find(a_server(namespaced=False))

    def test_a_right_that_is_missing_is_named(self) -> None:
        server = a_server()
        server.answers["GET", DEFINITION] = 403
        with pytest.raises(
            OwnerKindUnreadError, match=f"not allowed to get CustomResourceDefinition clonesets.{GROUP}"
        ):
            self.find(server)


def read_once_with_nodes(transport: Transport) -> Any:
    return read_once(transport, NOW, [CLONE_SET])


class TestReadOnce:
    def test_a_kind_that_may_not_be_listed_is_known_as_such(self) -> None:
        server = a_server()
        server.answers["GET", LIST] = 403
        with served(server) as transport:
            snapshot = read_once_with_nodes(transport)
        assert not snapshot.workloads
        assert snapshot.unread_owners == {
            f"CloneSet.{GROUP}": f"not allowed to list clonesets.{GROUP}; grant the right with the component `owners`"
        }

    def test_a_dump_has_them_as_a_file_is_read(self) -> None:
        server = a_server()
        reference = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "clones"}
        server.put(
            "/api/v1/namespaces/shop/pods/web-0",
            metadata={
                "namespace": "shop",
                "uid": "pod",
                "creationTimestamp": "2026-05-01T00:00:00Z",
                "ownerReferences": [{**reference, "controller": True}],
            },
            spec={"containers": [{"name": "main"}], "nodeName": "a"},
            status={"phase": "Running"},
        )
        with served(server) as transport:
            live = read_once_with_nodes(transport)
            items, kinds, faults = read_reduced(transport, [CLONE_SET])
        assert not faults
        dump = b"".join(reduced_list(items, kinds, "2026-05-04T00:00:00Z"))
        read, _ = read_snapshot(dump, version=live.version, at=NOW, source="dump")
        assert list(read.workloads) == list(live.workloads)
        assert "CloneSet" not in json.loads(dump)["metadata"]["annotations"]["rebalancer.dev/kinds"]

    def test_one_that_is_malformed_or_a_group_that_does_not_answer_is_no_fault_of_the_cluster(self) -> None:
        server = a_server()
        server.objects[OBJECT]["spec"] = {}
        server.answers["GET", "/apis/argoproj.io"] = 200, b"no JSON"
        with served(server) as transport:
            snapshot = read_once(transport, NOW, [CLONE_SET, ("Rollout", "argoproj.io")])
        assert not snapshot.faults
        assert list(snapshot.unread_owners) == ["Rollout.argoproj.io", f"CloneSet.{GROUP} shop/web"]

    def test_a_dump_says_what_it_lacks(self) -> None:
        server = a_server()
        server.answers["GET", LIST] = 403
        with served(server) as transport:
            _, _, faults = read_reduced(transport, [CLONE_SET, ("Rollout", "argoproj.io")])
        assert [str(fault).partition(":")[0] for fault in faults] == [
            "Rollout.argoproj.io (unnamed)",
            f"CloneSet.{GROUP} (unnamed)",
        ]


class TestWatching:
    def test_a_listed_kind_is_watched(self) -> None:
        server = a_server()
        with watching(server, CLONE_SET) as cluster:
            until(lambda: names(cluster) == ["shop/web (CloneSet)"], "the owner")
            until(lambda: ("WATCH", LIST) in server.requests, "the watch, which follows the list")
            assert not cluster.snapshot(NOW).unread_owners

    def test_only_what_is_listed_is_watched_from_the_next_cycle_on(self) -> None:
        server = a_server()
        with watching(server) as cluster:
            assert names(cluster) == []
            assert all(GROUP not in path for _, path in server.requests)
            cluster.follow_owners([CLONE_SET])
            assert list(cluster.snapshot(NOW).unread_owners) == [f"CloneSet.{GROUP}"]
            until(lambda: names(cluster) == ["shop/web (CloneSet)"], "the owner")
            cluster.follow_owners([])
            assert names(cluster) == []

    def test_what_cannot_be_found_is_said_and_delays_nothing(self) -> None:
        server = a_server()
        server.answers["GET", LIST] = 403
        began = time.monotonic()
        with watching(server, CLONE_SET, ("Rollout", "argoproj.io")) as cluster:
            assert cluster.snapshot(NOW).unread_owners == {
                f"CloneSet.{GROUP}": f"not allowed to list clonesets.{GROUP}; grant the right with the component "
                "`owners`",
                "Rollout.argoproj.io": "the API server serves no group argoproj.io",
            }
            assert time.monotonic() - began < 10

    def test_one_that_is_malformed_keeps_its_own_pods_only(self) -> None:
        server = a_server()
        server.objects[OBJECT]["spec"] = {}
        with watching(server, CLONE_SET) as cluster:
            until(lambda: cluster.reflectors["Pod"].has_listed, "the lists")
            snapshot = cluster.snapshot(NOW)
            assert not snapshot.faults
            assert f"CloneSet.{GROUP} shop/web" in snapshot.unread_owners

    def test_a_kind_that_is_served_in_another_version_is_found_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(owner_kinds, "_AGAIN_SECONDS", 0.3)
        server = a_server()
        with watching(server, CLONE_SET) as cluster:
            until(lambda: bool(names(cluster)), "the owner")
            server.answers["GET", LIST] = server.answers["WATCH", LIST] = 404
            server.answers["GET", f"/apis/{GROUP}"] = 404
            until(lambda: "serves no group" in str(cluster.snapshot(NOW).unread_owners), "the loss")
            assert names(cluster) == []
            server.answers["GET", f"/apis/{GROUP}"] = 200, {"preferredVersion": {"version": "v1"}}
            server.answers["GET", f"/apis/{GROUP}/v1"] = server.answers["GET", f"/apis/{GROUP}/v1alpha1"]
            server.objects[OBJECT.replace("v1alpha1", "v1")] = {**server.objects[OBJECT], "spec": {"replicas": 2}}
            until(lambda: names(cluster) == ["shop/web (CloneSet)"], "the new version")
            assert cluster.snapshot(NOW).workloads[0].replicas == 2

    def test_of_two_kinds_of_one_name_that_is_counted_which_has_the_object(self) -> None:
        server = a_server()
        server.answers["GET", "/apis/other.io"] = 200, {"preferredVersion": {"version": "v1"}}
        resources = [{"name": "clonesets", "kind": "CloneSet", "namespaced": True}]
        server.answers["GET", "/apis/other.io/v1"] = 200, {"resources": resources}
        other = {**server.objects[OBJECT], "spec": {"replicas": 9}, "metadata": {**server.objects[OBJECT]["metadata"]}}
        other["metadata"] |= {"name": "cart", "uid": "cart"}
        server.objects["/apis/other.io/v1/namespaces/shop/clonesets/cart"] = other
        with watching(server, CLONE_SET, ("CloneSet", "other.io")) as cluster:
            until(lambda: len(names(cluster)) == 2, "both")
            wanted = [cluster.count_replicas(Reference("shop", "CloneSet", name)).wanted for name in ("web", "cart")]
        assert wanted == [3, 9]

    def test_replicas_right_before_a_step_are_counted_by_the_pods(self) -> None:
        server = a_server()
        reference = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "clones"}
        for at, ready in enumerate((True, True, False)):
            server.put(
                f"/api/v1/namespaces/shop/pods/web-{at}",
                metadata={
                    "namespace": "shop",
                    "uid": f"pod-{at}",
                    "creationTimestamp": "2026-05-01T00:00:00Z",
                    "ownerReferences": [{**reference, "controller": True}],
                },
                spec={"containers": [{"name": "main"}], "nodeName": "a"},
                status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
            )
        with watching(server, CLONE_SET) as cluster:
            until(lambda: bool(names(cluster)), "the owner")
            pods = {f"pod-{at}": PlacedPod(f"web-{at}", "a") for at in range(3)}
            assert cluster.count_replicas(Reference("shop", "CloneSet", "web")) == ReplicaCount(3, 2, pods)
            stranger = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": True}
            server.objects[OBJECT]["status"] = {}
            web = server.objects["/api/v1/namespaces/shop/pods/web-0"]
            web["metadata"] = {**web["metadata"], "ownerReferences": [stranger]}
            del pods["pod-0"]
            assert cluster.count_replicas(Reference("shop", "CloneSet", "web")) == ReplicaCount(3, 1, pods)

    def test_an_event_regards_the_owner_in_its_own_group(self) -> None:
        server = a_server()
        with watching(server, CLONE_SET) as cluster:
            until(lambda: bool(names(cluster)), "the owner")
            regarding = Regarding(kind="CloneSet", namespace="shop", name="web")
            cluster.record(Event(reason=EventReason.REBALANCE_PAUSED, note="n", regarding=regarding))
            events = "/apis/events.k8s.io/v1/namespaces/shop/events/"
            until(lambda: any(path.startswith(events) for path in server.objects), "the event")
        (event,) = (body for path, body in server.objects.items() if path.startswith(events))
        assert event["regarding"] == {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "CloneSet",
            "namespace": "shop",
            "name": "web",
            "uid": "clones",
        }


class TestAboveReplicaSets:
    """A workload above ReplicaSets that is not read is counted by these."""

    def test_it_is_counted_and_named_in_events_by_them(self) -> None:
        server = ApiServer()
        rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "pay", "uid": "rollout"}
        for name, replicas in (("pay-new", 2), ("pay-old", 0)):
            server.put(
                f"/apis/apps/v1/namespaces/shop/replicasets/{name}",
                metadata={
                    "namespace": "shop",
                    "uid": name,
                    "creationTimestamp": "2026-05-01T00:00:00Z",
                    "ownerReferences": [{**rollout, "controller": True}],
                },
                spec={"replicas": replicas, "selector": {"matchLabels": {"app": "pay"}}},
                status={"readyReplicas": replicas},
            )
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "pay-new", "uid": "pay-new"}
        server.put(
            "/api/v1/namespaces/shop/pods/pay-1",
            metadata={
                "namespace": "shop",
                "uid": "pod",
                "labels": {"app": "pay"},
                "creationTimestamp": "2026-05-01T00:00:00Z",
                "ownerReferences": [{**owner, "controller": True}],
            },
            spec={"containers": [{"name": "main"}], "nodeName": "a"},
            status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        )
        with watching(server) as cluster:
            pods = {"pod": PlacedPod("pay-1", "a")}
            assert cluster.count_replicas(Reference("shop", "Rollout", "pay")) == ReplicaCount(2, 1, pods)
            regarding = Regarding(kind="Rollout", namespace="shop", name="pay")
            cluster.record(Event(reason=EventReason.REBALANCE_PAUSED, note="n", regarding=regarding))
            events = "/apis/events.k8s.io/v1/namespaces/shop/events/"
            until(lambda: any(path.startswith(events) for path in server.objects), "the event")
        (event,) = (body for path, body in server.objects.items() if path.startswith(events))
        assert event["regarding"] == {"kind": "Rollout", "namespace": "shop", "name": "pay", "uid": "rollout"}
