"""Nodes that are no target although the scheduler takes them for one: they leave, are cordoned, or lack something.

Beside each stands what must still move: where no replacement may land on such a node it stops nothing.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from rebalancer.model.reasons import FindingKind, Reason
from tests.cli.files import ready_nodes
from tests.control_plane.manifests import HOSTNAME
from tests.control_plane.resources import Manifest
from tests.known_states.build import (
    State,
    assert_evicted,
    bound_claim,
    cluster,
    csi_driver,
    deployment,
    make,
    over_zones,
    stateful_set,
    storage_class,
    unbound_claim,
)

ANY: Manifest = {"operator": "Exists"}
CORDON: Manifest = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
DRIVER = "disks.test"


def taint(state: State, node: str, key: str, effect: str = "NoSchedule", value: str = "") -> State:
    """Taint a node."""
    taints = state.get("Node", node)["spec"].setdefault("taints", [])
    taints.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return state


def cordon(state: State, *nodes: str) -> State:
    """Cordon nodes."""
    for node in nodes:
        state.get("Node", node)["spec"]["unschedulable"] = True
        taint(state, node, CORDON["key"])
    return state


def two_in_c(state: State) -> State:
    """Add a second node to zone c."""
    return state.add(*ready_nodes({"c": 2})[1:])


class TestToleratedForAWhile:
    """The taint manager evicts a pod when the shortest of its tolerations that match ends."""

    def tolerating(self, *tolerations: Manifest, node: str = "c-0", effect: str = "NoExecute") -> State:
        return taint(cluster(deployment(tolerations=list(tolerations))), node, "example.test/repair", effect, "soon")

    def limited(self, seconds: int, **fields: Any) -> Manifest:
        return {"operator": "Exists", "key": "example.test/repair", "tolerationSeconds": seconds, **fields}

    @pytest.mark.parametrize("seconds", [0, 60, 86_400])
    def test_nothing_is_sent_to_a_node_that_would_evict_it_again(self, seconds: int) -> None:
        said = self.tolerating(self.limited(seconds, effect="NoExecute")).plan().assert_kept(Reason.NODE_LEAVING)
        assert "node c-0 may take a replacement and has the taint example.test/repair=soon (NoExecute)" in said
        assert f"tolerate for {seconds} s" in said

    def test_a_toleration_without_a_limit_after_it_does_not_help(self) -> None:
        self.tolerating(self.limited(300), ANY).plan().assert_kept(Reason.NODE_LEAVING)

    def test_the_first_that_matches_counts(self) -> None:
        said = self.tolerating(self.limited(300), self.limited(30)).plan().assert_kept(Reason.NODE_LEAVING)
        assert "for 300 s" in said
        assert_evicted(self.tolerating(ANY, self.limited(300)))

    def test_of_several_taints_the_shortest_counts(self) -> None:
        state = self.tolerating(self.limited(300), self.limited(30, key="example.test/reboot"))
        taint(state, "c-0", "example.test/reboot", "NoExecute")
        assert "for 30 s" in state.plan().assert_kept(Reason.NODE_LEAVING)

    def test_a_toleration_without_a_limit_lets_pods_go_there(self) -> None:
        assert_evicted(self.tolerating(ANY))
        assert_evicted(self.tolerating({"key": "example.test/repair", "operator": "Equal", "value": "soon"}))

    def test_a_limit_concerns_taints_that_evict_alone(self) -> None:
        assert_evicted(self.tolerating(self.limited(300), ANY, effect="NoSchedule"))

    def test_a_limit_on_another_taint_says_nothing(self) -> None:
        default = {"operator": "Exists", "key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
        assert_evicted(self.tolerating({**default, "tolerationSeconds": 300}, ANY))

    def test_such_a_node_where_no_replacement_may_land_stops_nothing(self) -> None:
        assert_evicted(self.tolerating(self.limited(300), ANY, node="a-0"))


class TestLeaving:
    """Whether a node leaves or is in maintenance is the node's, not the pod's tolerance."""

    def tolerant(self, **spec: Any) -> State:
        return cluster(deployment(tolerations=[ANY], **spec))

    def test_nothing_is_sent_to_a_cordoned_zone_whatever_the_pods_tolerate(self) -> None:
        said = cordon(self.tolerant(), "c-0").plan().assert_kept(Reason.ZONE_IN_MAINTENANCE)
        assert "every node of topology.kubernetes.io/zone c is cordoned" in said

    def test_nothing_is_sent_to_one_cordoned_node_beside_another(self) -> None:
        said = cordon(two_in_c(self.tolerant()), "c-0").plan().assert_kept(Reason.NODE_LEAVING)
        assert "node c-0 may take a replacement, and it is cordoned, which the pods tolerate" in said

    def test_a_host_is_no_zone_in_maintenance(self) -> None:
        """Over host names each node is a domain: one that is cordoned is named as what it is."""
        over_hosts = [{**over_zones({"app": "web"}), "topologyKey": HOSTNAME}]
        on = ("a-0", "a-0", "a-0", "b-0")
        state = cordon(cluster(deployment(on=on, tolerations=[ANY], topologySpreadConstraints=over_hosts)), "c-0")
        state.plan().assert_kept(Reason.NODE_LEAVING)

    def test_its_pods_count_there(self) -> None:
        """Two in a, one in b, one in the cordoned c: nothing is violated, which it were without c."""
        on = ("a-0", "a-0", "b-0", "c-0")
        state = cordon(cluster(deployment(on=on, tolerations=[ANY])), "c-0")
        outcome = state.plan()
        assert (outcome.evicted, outcome.reasons) == ([], set())

    def test_pods_that_tolerate_it_leave_a_cordoned_node_for_another_zone(self) -> None:
        assert_evicted(cordon(self.tolerant(), "a-0"))

    def test_pods_that_do_not_tolerate_it_go_to_the_other_node(self) -> None:
        assert_evicted(cordon(two_in_c(cluster(deployment())), "c-0"))

    @pytest.mark.parametrize(
        ("key", "said"),
        [
            ("aws-node-termination-handler/spot-itn", "its spot instance is about to be taken back"),
            ("aws-node-termination-handler/scheduled-maintenance", "maintenance of its instance is scheduled"),
            ("cloud.google.com/impending-node-termination", "its instance is about to be terminated"),
            ("remediator.kubernetes.azure.com/unschedulable", "the cloud repairs or removes it"),
            ("node.kubernetes.io/out-of-service", "it is out of service"),
            ("weave.works/kured-node-reboot", "it is about to be rebooted"),
        ],
    )
    def test_nothing_is_sent_to_a_node_with_a_notice(self, key: str, said: str) -> None:
        assert said in taint(self.tolerant(), "c-0", key).plan().assert_kept(Reason.NODE_LEAVING)
        assert_evicted(taint(self.tolerant(), "b-0", key))

    @pytest.mark.parametrize(
        ("key", "said"),
        [
            ("node.cilium.io/agent-not-ready", "Cilium's agent is not ready there"),
            ("node.kubernetes.io/network-unavailable", "its network is not available"),
        ],
    )
    def test_nothing_is_sent_to_a_node_that_does_not_serve_pods(self, key: str, said: str) -> None:
        words = taint(self.tolerant(), "c-0", key).plan().assert_kept(Reason.NODE_SETTLING)
        assert said in words
        assert words.endswith("Wait, or repair the node")

    @pytest.mark.parametrize(("status", "stays"), [("True", True), ("False", False), ("Unknown", False)])
    def test_nothing_is_sent_to_a_node_that_reports_a_lasting_problem(self, status: str, stays: bool) -> None:
        state = cluster(deployment())
        state.get("Node", "c-0")["status"]["conditions"].append({"type": "ReadonlyFilesystem", "status": status})
        if stays:
            assert "condition ReadonlyFilesystem" in state.plan().assert_kept(Reason.NODE_SETTLING)
        else:
            assert_evicted(state)

    def test_the_policy_adds_taints(self) -> None:
        state = taint(self.tolerant(), "c-0", "example.test/evacuating")
        assert_evicted(state)
        adding = "nodes: {settle: 0s, leavingTaints: [example.test/evacuating]}\n"
        assert "nodes.leavingTaints" in state.plan(adding).assert_kept(Reason.NODE_LEAVING)
        assert taint(self.tolerant(), "b-0", "example.test/evacuating").plan(adding).evicted == ["shop/web-0"]

    @pytest.mark.parametrize(
        ("key", "remedy"),
        [
            ("cloud.google.com/impending-node-termination", "Wait until c-0 is back or gone"),
            ("node.cilium.io/agent-not-ready", "Wait until c-0 serves pods (taint node.cilium.io/agent-not-ready), or"),
            ("example.test/evacuating", "Wait until c-0 is back or gone"),
            ("example.test/batch", "Remove the taint example.test/batch from c-0, or tolerate it"),
        ],
    )
    def test_the_remedy_of_a_notice_is_to_wait(self, key: str, remedy: str) -> None:
        adding = "nodes: {settle: 0s, leavingTaints: [example.test/evacuating]}\n"
        assert remedy in taint(cluster(deployment()), "c-0", key).plan(adding).assert_kept(Reason.NODES_REJECT)


def drivers(*without: str) -> list[Manifest]:
    """Return a CSINode for each node; those of some do not name the driver."""
    return [
        make("storage.k8s.io/v1", "CSINode", node, None, spec={"drivers": [] if node in without else _driver(node)})
        for node in ("a-0", "b-0", "c-0")
    ]


def _driver(node: str) -> list[Manifest]:
    return [{"name": DRIVER, "nodeID": node, "topologyKeys": None}]


class TestDrivers:
    """A volume of a CSI driver is mounted where the driver runs."""

    def database(self, *without: str, unbound: bool = False) -> State:
        claims = [f"data-db-{ordinal}" for ordinal in range(4)]
        volumes = [[unbound_claim(claim)] if unbound else bound_claim(claim, None) for claim in claims]
        own = [item for part in (*volumes, bound_claim("other", None)) for item in part]
        kept: Mapping[str, Any] = {"podManagementPolicy": "Parallel"}
        state = cluster(stateful_set(claims=["data"], **kept), own, [csi_driver(), storage_class()], drivers(*without))
        state.get("StatefulSet", "db")["spec"]["podManagementPolicy"] = "Parallel"
        return state

    @pytest.mark.parametrize("unbound", [False, True])
    def test_nothing_goes_where_the_driver_is_not(self, unbound: bool) -> None:
        state = self.database("c-0", unbound=unbound)
        said = state.plan().assert_kept(Reason.NOT_PREDICTABLE)
        assert "node c-0 may take a replacement and does not have the CSI driver disks.test of claim data-db-" in said
        (finding,) = state.find(FindingKind.NODE_CANNOT_RUN)
        assert "disks.test" in finding.message

    def test_where_the_driver_runs_pods_go(self) -> None:
        assert self.database("a-0").plan().evicted
        assert self.database().plan().evicted
        assert self.database().find(FindingKind.NODE_CANNOT_RUN) == []

    def test_a_driver_that_no_node_names_says_nothing(self) -> None:
        assert self.database("a-0", "b-0", "c-0").plan().evicted

    def test_a_node_without_a_csinode_says_nothing(self) -> None:
        state = self.database()
        state.items.remove(state.get("CSINode", "c-0"))
        assert state.plan().evicted

    def test_an_inline_volume_needs_its_driver_too(self) -> None:
        volumes = [{"name": "secret", "csi": {"driver": DRIVER}}]
        said = cluster(deployment(volumes=volumes), drivers("c-0")).plan().assert_kept(Reason.NOT_PREDICTABLE)
        assert "CSI driver disks.test of an inline volume" in said
        assert_evicted(cluster(deployment(volumes=volumes), drivers("b-0")))
        assert_evicted(cluster(deployment(), drivers("c-0")))


class TestRuntimes:
    """What a node's runtime, or the node, says that it cannot do."""

    def with_class(self, **handlers: list[Manifest]) -> State:
        kata = make("node.k8s.io/v1", "RuntimeClass", "sandboxed", None, handler="kata")
        state = cluster(deployment(runtimeClassName="sandboxed"), [kata])
        for zone, of_node in handlers.items():
            state.get("Node", f"{zone}-0")["status"]["runtimeHandlers"] = of_node
        return state

    def test_nothing_goes_where_the_handler_is_not(self) -> None:
        state = self.with_class(a=[{"name": "kata"}], b=[{"name": "kata"}], c=[{"name": ""}, {"name": "runc"}])
        said = state.plan().assert_kept(Reason.NOT_PREDICTABLE)
        assert "node c-0 may take a replacement and does not have the runtime handler kata" in said
        (finding,) = state.find(FindingKind.NODE_CANNOT_RUN)
        assert finding.object == "shop/web (Deployment)"

    def test_where_the_handler_is_pods_go(self) -> None:
        assert_evicted(self.with_class(a=[{"name": "runc"}], c=[{"name": ""}, {"name": "kata"}]))

    def test_a_kubelet_that_lists_no_handlers_says_nothing(self) -> None:
        assert_evicted(self.with_class())

    def needing(self, status: Manifest, **spec: Any) -> State:
        state = cluster(deployment(**spec))
        state.get("Node", "c-0")["status"] |= status
        return state

    @pytest.mark.parametrize(
        ("feature", "spec", "status"),
        [
            (
                "supplementalGroupsPolicy",
                {"securityContext": {"supplementalGroupsPolicy": "Strict"}},
                {"features": {"supplementalGroupsPolicy": False}},
            ),
            (
                "userNamespaces",
                {"hostUsers": False},
                {"runtimeHandlers": [{"name": "", "features": {"userNamespaces": False}}]},
            ),
        ],
    )
    def test_nothing_goes_where_a_feature_is_false(self, feature: str, spec: Manifest, status: Manifest) -> None:
        said = self.needing(status, **spec).plan().assert_kept(Reason.NOT_PREDICTABLE)
        assert f"node c-0 may take a replacement and does not support {feature}" in said
        assert_evicted(self.needing(status))
        assert_evicted(self.needing({}, **spec))

    def test_a_feature_that_is_true_lets_pods_go(self) -> None:
        strict = {"supplementalGroupsPolicy": "Strict"}
        assert_evicted(self.needing({"features": {"supplementalGroupsPolicy": True}}, securityContext=strict))
        handlers = [{"name": "", "features": {"userNamespaces": True}}]
        assert_evicted(self.needing({"runtimeHandlers": handlers}, hostUsers=False))
        merged = {"supplementalGroupsPolicy": "Merge"}
        assert_evicted(self.needing({"features": {"supplementalGroupsPolicy": False}}, securityContext=merged))
