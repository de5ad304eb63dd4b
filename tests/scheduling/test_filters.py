"""Each filter but the spread one: what it admits, the scheduler's own words for what it rejects."""

from dataclasses import replace
from typing import Any

import pytest

from rebalancer.model.affinity import (
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    TaintEffect,
    Toleration,
)
from rebalancer.model.cluster import Namespace, Version
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.nodes import Node
from rebalancer.model.pods import HostPort, OwnerReference, Pod, PodSpec, Resources
from rebalancer.model.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from rebalancer.scheduling.feasibility import FILTERS, feasible, static_feasible
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.verdicts import Code
from rebalancer.scheduling.view import View
from tests.scheduling.build import HOSTNAME, NOW, ZONE, changed, node, pod, selector, snapshot, spread, taint, term

CORDON = "node.kubernetes.io/unschedulable"


def rejection(incoming: Pod, view: View, name: str) -> tuple[str | None, str]:
    """Return the plugin that rejects a node, and its words."""
    result = predict(incoming, view).node[name]
    plugin = result.rejected_by
    return plugin, result.verdicts[plugin].message if plugin else ""


def asking(**fields: Any) -> Pod:
    return pod({"app": "web"}, spec=PodSpec(**fields))


def test_filters_are_in_the_schedulers_order() -> None:
    assert [plugin.name for plugin in FILTERS] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]


class TestCordonsAndTaints:
    def test_a_cordoned_node_is_closed_with_or_without_its_taint(self) -> None:
        view = View(snapshot([node("a"), node("b", unschedulable=True)]))
        assert feasible(pod(), view) == {"a"}
        assert rejection(pod(), view, "b") == ("NodeUnschedulable", "node(s) were unschedulable")

    def test_a_toleration_of_the_taint_opens_it(self) -> None:
        view = View(snapshot([node("b", unschedulable=True, taints=(taint(CORDON),))]))
        assert feasible(asking(tolerations=(Toleration(key=CORDON, operator="Exists"),)), view) == {"b"}

    @pytest.mark.parametrize(
        ("toleration", "admitted"),
        [
            (Toleration(key="k", value="v"), True),
            (Toleration(key="k", value="w"), False),
            (Toleration(key="k", operator="Exists"), True),
            (Toleration(operator="Exists"), True),
            (Toleration(key="k", operator="Exists", effect=TaintEffect.NO_EXECUTE), False),
            (Toleration(key="k", value="v", effect=TaintEffect.NO_SCHEDULE), True),
            (Toleration(key="j", operator="Exists"), False),
        ],
    )
    def test_tolerations_match_key_value_and_effect(self, toleration: Toleration, admitted: bool) -> None:
        view = View(snapshot([node("a", taints=(taint("k", value="v"),))]))
        assert bool(feasible(asking(tolerations=(toleration,)), view)) == admitted

    def test_the_reason_named_the_taint_until_1_34(self) -> None:
        nodes = [node("a", taints=(taint("k", value="v"),))]
        assert rejection(pod(), View(snapshot(nodes)), "a")[1] == "node(s) had untolerated taint(s)"
        older = View(snapshot(nodes, version=Version(1, 34)))
        assert rejection(pod(), older, "a")[1] == "node(s) had untolerated taint {k: v}"


class TestNodeName:
    def test_a_node_that_the_manifest_names_is_the_only_one(self) -> None:
        view = View(snapshot([node("a"), node("b"), node("c", unschedulable=True)]))
        named = asking(node_name="a")
        assert feasible(named, view) == {"a"}
        assert feasible(pod(), view) == {"a", "b"}
        assert rejection(named, view, "b") == ("NodeName", "node(s) didn't match the requested node name")
        assert predict(named, view).node["b"].verdict.code is Code.UNRESOLVABLE
        assert rejection(named, view, "c")[0] == "NodeUnschedulable"

    def test_a_name_that_no_node_has_rejects_them_all(self) -> None:
        expected = "0/2 nodes are available: 2 node(s) didn't match the requested node name."
        assert predict(asking(node_name="z"), View(snapshot([node("a"), node("b")]))).failure == expected

    def test_where_a_pod_runs_is_not_what_it_asks_for(self) -> None:
        assert feasible(pod(on="a"), View(snapshot([node("a"), node("b")]))) == {"a", "b"}

    def test_a_profile_can_switch_it_off(self) -> None:
        view = View(snapshot([node("a"), node("b")]), Profile(filters_off=frozenset({"NodeName"})))
        assert feasible(asking(node_name="a"), view) == {"a", "b"}


class TestNodeAffinity:
    nodes = (
        node("a", {"cpu": "4", "disk": "ssd"}),
        node("b", {"cpu": "10", "disk": "hdd"}),
        node("c", {"cpu": "many"}),
    )

    @pytest.mark.parametrize(
        ("expression", "admitted"),
        [
            (("disk", "In", ("ssd",)), "a"),
            (("disk", "NotIn", ("ssd",)), "bc"),
            (("disk", "Exists", ()), "ab"),
            (("disk", "DoesNotExist", ()), "c"),
            (("cpu", "Gt", ("5",)), "b"),
            (("cpu", "Lt", ("5",)), "a"),
        ],
    )
    def test_every_operator(self, expression: tuple[str, str, tuple[str, ...]], admitted: str) -> None:
        """Each operator of a node selector selects the nodes that Kubernetes documents."""
        incoming = asking(node_affinity=NodeAffinity(required=(term(expression),)))
        assert feasible(incoming, View(snapshot(self.nodes))) == set(admitted)

    def test_terms_are_alternatives_and_the_node_selector_comes_on_top(self) -> None:
        terms = (term(("disk", "In", ("ssd",))), term(("cpu", "Gt", ("5",))))
        view = View(snapshot(self.nodes))
        assert feasible(asking(node_affinity=NodeAffinity(required=terms)), view) == {"a", "b"}
        both = NodeAffinity(selector=Labels({"disk": "hdd"}), required=terms)
        assert feasible(asking(node_affinity=both), view) == {"b"}

    def test_an_empty_term_and_no_term_select_nothing(self) -> None:
        view = View(snapshot(self.nodes))
        assert feasible(asking(node_affinity=NodeAffinity(required=(NodeSelectorTerm(),))), view) == set()
        assert feasible(asking(node_affinity=NodeAffinity(required=())), view) == set()

    def named(self, operator: Operator, name: str) -> Pod:
        fields = (SelectorRequirement("metadata.name", operator, (name,)),)
        return asking(node_affinity=NodeAffinity(required=(NodeSelectorTerm((), fields),)))

    def test_fields_name_nodes_and_the_other_nodes_are_not_examined(self) -> None:
        nodes = [node("a"), node("b", taints=(taint("k"),))]
        view = View(snapshot(nodes))
        assert feasible(self.named(Operator.IN, "a"), view) == {"a"}
        assert feasible(self.named(Operator.NOT_IN, "a"), View(snapshot([node("a"), node("c")]))) == {"c"}
        expected = ("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]")
        assert rejection(self.named(Operator.IN, "a"), view, "b") == expected

    def test_nodes_that_are_not_examined_are_counted_from_1_32(self) -> None:
        """Until 1.31 the message is silent about them, even where nothing else remains to be said."""
        nodes = [node("a", unschedulable=True), node("b")]
        for name, counted, silent in (
            (
                "a",
                " 1 node(s) didn't satisfy plugin(s) [NodeAffinity], 1 node(s) were unschedulable.",
                " 1 node(s) were unschedulable.",
            ),
            ("gone", " 2 node(s) didn't satisfy plugin(s) [NodeAffinity].", ""),
        ):
            for minor, reasons in ((32, counted), (31, silent)):
                view = View(snapshot(nodes, version=Version(1, minor)))
                failure = predict(self.named(Operator.IN, name), view).failure
                assert failure == f"0/2 nodes are available:{reasons}"

    @pytest.mark.parametrize(("key", "values"), [("metadata.namespace", ("a",)), ("metadata.name", ("a", "b"))])
    @pytest.mark.parametrize("operator", [Operator.IN, Operator.NOT_IN])
    def test_fields_that_the_api_server_refuses_select_nothing(
        self, operator: Operator, key: str, values: tuple[str, ...]
    ) -> None:
        terms = (NodeSelectorTerm((), (SelectorRequirement(key, operator, values),)),)
        assert feasible(asking(node_affinity=NodeAffinity(required=terms)), View(snapshot(self.nodes))) == set()

    def test_contradicting_names_refuse_the_pod(self) -> None:
        fields = tuple(SelectorRequirement("metadata.name", Operator.IN, (name,)) for name in "ab")
        incoming = asking(node_affinity=NodeAffinity(required=(NodeSelectorTerm((), fields),)))
        prediction = predict(incoming, View(snapshot([node("a"), node("b")])))
        assert prediction.failure == "0/2 nodes are available: pod affinity terms conflict."

    def test_affinity_that_the_profile_adds_is_enforced(self) -> None:
        profile = Profile(added_affinity=NodeAffinity(required=(term(("disk", "In", ("ssd",))),)))
        view = View(snapshot(self.nodes), profile)
        assert feasible(pod(), view) == {"a"}
        assert rejection(pod(), view, "b")[1] == "node(s) didn't match scheduler-enforced node affinity"


class TestCapacity:
    small = Resources(cpu=1000, memory=1000, ephemeral_storage=1000, extended=(("gpu", 1),))

    def needing(self, **amounts: Any) -> Pod:
        return asking(requests=Resources(**amounts))

    @pytest.mark.parametrize(
        ("amounts", "words"),
        [
            ({"cpu": 501}, "Insufficient cpu"),
            ({"memory": 501}, "Insufficient memory"),
            ({"ephemeral_storage": 501}, "Insufficient ephemeral-storage"),
            ({"extended": (("gpu", 1),)}, "Insufficient gpu"),
            ({"extended": (("tpu", 1),)}, "Insufficient tpu"),
            ({"cpu": 501, "memory": 501}, "Insufficient cpu, Insufficient memory"),
        ],
    )
    def test_what_is_short_is_named(self, amounts: dict[str, Any], words: str) -> None:
        half = Resources(cpu=500, memory=500, ephemeral_storage=500, extended=(("gpu", 1),))
        there = pod(on="a", spec=PodSpec(requests=half))
        view = View(snapshot([node("a", allocatable=self.small)], [there]))
        assert rejection(self.needing(**amounts), view, "a") == ("NodeResourcesFit", words)

    def test_an_exact_fit_fits_and_an_unrequested_resource_is_never_short(self) -> None:
        there = pod(on="a", spec=PodSpec(requests=Resources(cpu=500, memory=2000)))
        view = View(snapshot([node("a", allocatable=self.small)], [there]))
        assert feasible(self.needing(cpu=500), view) == {"a"}
        assert feasible(self.needing(memory=1), view) == set()

    def test_a_full_node_takes_no_pod_even_if_it_asks_for_nothing(self) -> None:
        view = View(snapshot([node("a", pods=1)], [pod(on="a")]))
        assert rejection(pod(), view, "a") == ("NodeResourcesFit", "Too many pods")

    def test_terminating_pods_use_their_resources_until_they_are_deleted(self) -> None:
        there = pod(on="a", spec=PodSpec(requests=Resources(cpu=800)))
        view = View(snapshot([node("a", allocatable=self.small)], [there]))
        assert feasible(self.needing(cpu=500), view.terminating([there])) == set()
        assert feasible(self.needing(cpu=500), view.without([there])) == {"a"}

    def test_a_hypothetical_state_has_its_own_free_capacity(self) -> None:
        nodes = [node("a", allocatable=self.small), node("b", allocatable=self.small)]
        view = View(snapshot(nodes))
        incoming = self.needing(cpu=800)
        assert feasible(incoming, view) == {"a", "b"}
        assert feasible(changed(incoming, uid="next"), view.with_placed(incoming, "a")) == {"b"}

    def test_a_resource_that_the_profile_ignores_is_not_checked(self) -> None:
        profile = Profile(ignored_resources=frozenset({"gpu"}), ignored_resource_groups=frozenset({"x.test"}))
        view = View(snapshot([node("a")]), profile)
        assert feasible(self.needing(extended=(("gpu", 1), ("x.test/y", 1))), view) == {"a"}
        assert feasible(self.needing(extended=(("z.test/y", 1),)), view) == set()


class TestPorts:
    @pytest.mark.parametrize(
        ("taken", "wanted", "free"),
        [
            (("0.0.0.0", "TCP", 80), ("127.0.0.1", "TCP", 80), False),
            (("127.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), False),
            (("127.0.0.1", "TCP", 80), ("127.0.0.2", "TCP", 80), True),
            (("0.0.0.0", "UDP", 80), ("0.0.0.0", "TCP", 80), True),
            (("0.0.0.0", "TCP", 81), ("0.0.0.0", "TCP", 80), True),
        ],
    )
    def test_every_address_collides_with_each(
        self, taken: tuple[str, str, int], wanted: tuple[str, str, int], free: bool
    ) -> None:
        view = View(snapshot([node("a")], [pod(on="a", spec=PodSpec(host_ports=(HostPort(*taken),)))]))
        assert bool(feasible(asking(host_ports=(HostPort(*wanted),)), view)) == free


class TestPodAffinity:
    def avoiding(self, key: str = HOSTNAME, **fields: Any) -> PodAffinity:
        selected = fields.pop("selects", selector(app="web"))
        return PodAffinity(anti_required=(PodAffinityTerm(topology_key=key, selector=selected, **fields),))

    def joining(self) -> PodAffinity:
        return PodAffinity(required=(PodAffinityTerm(topology_key=ZONE, selector=selector(app="web")),))

    def zones(self) -> list[Node]:
        return [node("a1", {ZONE: "a"}), node("a2", {ZONE: "a"}), node("b1", {ZONE: "b"}), node("x")]

    def test_anti_affinity_closes_the_whole_domain_but_no_node_without_the_key(self) -> None:
        view = View(snapshot(self.zones(), [pod({"app": "web"}, on="a1")]))
        incoming = asking(pod_affinity=self.avoiding(ZONE))
        assert feasible(incoming, view) == {"b1", "x"}
        assert rejection(incoming, view, "a2")[1] == "node(s) didn't match pod anti-affinity rules"

    def test_it_holds_the_other_way_round_too(self) -> None:
        there = pod({"app": "db"}, on="a1", spec=PodSpec(pod_affinity=self.avoiding(ZONE)))
        view = View(snapshot(self.zones(), [there]))
        assert feasible(pod({"app": "web"}), view) == {"b1", "x"}
        assert (
            rejection(pod({"app": "web"}), view, "a1")[1] == "node(s) didn't satisfy existing pods anti-affinity rules"
        )
        assert feasible(pod({"app": "api"}), view) == {"a1", "a2", "b1", "x"}

    def test_a_terminating_neighbour_still_repels_and_one_that_is_gone_does_not(self) -> None:
        there = pod({"app": "web"}, on="a1", spec=PodSpec(pod_affinity=self.avoiding()))
        view = View(snapshot([node("a1")], [there]))
        incoming = asking(pod_affinity=self.avoiding())
        assert feasible(incoming, view.terminating([there])) == set()
        assert feasible(incoming, view.without([there])) == {"a1"}
        assert feasible(pod({"app": "web"}), view.terminating([there])) == set()

    def test_affinity_wants_company_and_the_first_of_a_group_may_start_it(self) -> None:
        incoming = asking(pod_affinity=self.joining())
        view = View(snapshot(self.zones(), [pod({"app": "web"}, on="a1")]))
        assert feasible(incoming, view) == {"a1", "a2"}
        assert rejection(incoming, view, "b1")[1] == "node(s) didn't match pod affinity rules"
        assert feasible(incoming, View(snapshot(self.zones()))) == {"a1", "a2", "b1"}
        stranger = pod({"app": "db"}, spec=PodSpec(pod_affinity=self.joining()))
        assert feasible(stranger, View(snapshot(self.zones()))) == set()

    def test_one_pod_must_match_all_affinity_terms(self) -> None:
        affinity = PodAffinity(
            required=tuple(
                PodAffinityTerm(topology_key=HOSTNAME, selector=selector({"matchLabels": labels}))
                for labels in ({"app": "web"}, {"tier": "x"})
            )
        )
        pods = [pod({"app": "web"}, on="a1"), pod({"tier": "x"}, on="a1"), pod({"app": "web", "tier": "x"}, on="b1")]
        assert feasible(asking(pod_affinity=affinity), View(snapshot(self.zones(), pods))) == {"b1"}

    @pytest.mark.parametrize(
        ("fields", "repelled"),
        [
            ({}, {"default"}),
            ({"namespaces": ("other",)}, {"other"}),
            ({"namespace_selector": selector(team="x")}, {"other"}),
            ({"namespace_selector": selector({})}, {"default", "other"}),
            ({"namespaces": ("default",), "namespace_selector": selector(team="x")}, {"default", "other"}),
        ],
    )
    def test_namespaces_of_a_term_are_named_selected_or_its_own(
        self, fields: dict[str, Any], repelled: set[str]
    ) -> None:
        namespaces = [Namespace(name="default"), Namespace(name="other", labels=Labels({"team": "x"}))]
        for namespace in ("default", "other"):
            there = pod({"app": "web"}, on="a1", namespace=namespace)
            view = View(snapshot([node("a1")], [there], namespaces=namespaces))
            assert bool(feasible(asking(pod_affinity=self.avoiding(**fields)), view)) == (namespace not in repelled)
            holder = pod(on="a1", spec=PodSpec(pod_affinity=self.avoiding(**fields)))
            view = View(snapshot([node("a1")], [holder], namespaces=namespaces))
            assert bool(feasible(pod({"app": "web"}, namespace=namespace), view)) == (namespace not in repelled)

    def test_a_null_selector_matches_nobody(self) -> None:
        view = View(snapshot([node("a1")], [pod({"app": "web"}, on="a1")]))
        assert feasible(asking(pod_affinity=self.avoiding(selects=None)), view) == {"a1"}


class TestVolumes:
    def claim(self, name: str = "data", **fields: Any) -> PersistentVolumeClaim:
        return PersistentVolumeClaim(namespace="default", name=name, **fields)

    def zoned(self, name: str = "pv", zone: str = "a", **fields: Any) -> PersistentVolume:
        return PersistentVolume(name=name, node_affinity=(term((ZONE, "In", (zone,))),), **fields)

    def nodes(self) -> list[Node]:
        return [node("a1", {ZONE: "a"}), node("b1", {ZONE: "b"}), node("x")]

    def user(self, *claims: str, **fields: Any) -> Pod:
        return pod(claims=claims or ("data",), **fields)

    def view(self, *claims: PersistentVolumeClaim, **fields: Any) -> View:
        return View(snapshot(self.nodes(), fields.pop("pods", ()), claims=claims, **fields))

    def test_a_bound_volume_ties_the_pod_to_its_nodes(self) -> None:
        view = self.view(self.claim(volume="pv", bound=True), volumes=[self.zoned()])
        assert feasible(self.user(), view) == {"a1"}
        assert rejection(self.user(), view, "b1")[1] == "node(s) didn't match PersistentVolume's node affinity"
        older = View(replace(view.snapshot, version=Version(1, 32)))
        assert rejection(self.user(), older, "b1")[1] == "node(s) had volume node affinity conflict"

    def test_a_volume_without_affinity_is_reached_from_everywhere(self) -> None:
        view = self.view(self.claim(volume="pv", bound=True), volumes=[PersistentVolume(name="pv")])
        assert feasible(self.user(), view) == {"a1", "b1", "x"}

    @pytest.mark.parametrize(
        ("labels", "admitted"),
        [
            ({ZONE: "a"}, {"a1", "x"}),
            ({ZONE: "a__b"}, {"a1", "b1", "x"}),
            ({"failure-domain.beta.kubernetes.io/zone": "b"}, {"b1", "x"}),
            ({ZONE: "a__"}, {"a1", "b1", "x"}),
        ],
    )
    def test_zone_labels_of_a_volume_hold_where_nodes_have_any(
        self, labels: dict[str, str], admitted: set[str]
    ) -> None:
        volume = PersistentVolume(name="pv", labels=Labels(labels))
        assert feasible(self.user(), self.view(self.claim(volume="pv", bound=True), volumes=[volume])) == admitted

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            (None, 'persistentvolumeclaim "data" not found'),
            ({"deleted": True}, 'persistentvolumeclaim "data" is being deleted'),
            ({}, "pod has unbound immediate PersistentVolumeClaims"),
            ({"storage_class": "now"}, "pod has unbound immediate PersistentVolumeClaims"),
            ({"volume": "pv"}, "pod has unbound immediate PersistentVolumeClaims"),
            ({"volume": "pv", "bound": True}, 'persistentvolume "pv" not found'),
        ],
    )
    def test_a_claim_that_cannot_serve_refuses_the_pod(self, fields: dict[str, Any] | None, words: str) -> None:
        claims = [] if fields is None else [self.claim(**fields)]
        prediction = predict(self.user(), self.view(*claims, storage_classes=[StorageClass(name="now")]))
        assert prediction.failure == f"0/3 nodes are available: {words}."
        assert not any(node.feasible for node in prediction.nodes)

    def test_a_delayed_claim_goes_where_its_class_may_make_volumes(self) -> None:
        kind = StorageClass(
            name="later", provisioner="p", delayed=True, allowed_topologies=(term((ZONE, "In", ("b",))),)
        )
        view = self.view(self.claim(storage_class="later"), storage_classes=[kind])
        assert feasible(self.user(), view) == {"b1"}
        assert rejection(self.user(), view, "a1")[1] == "node(s) didn't find available persistent volumes to bind"

    def test_a_delayed_claim_that_has_settled_on_a_node_stays_there(self) -> None:
        kind = StorageClass(name="later", provisioner="p", delayed=True)
        view = self.view(self.claim(storage_class="later", selected_node="a1"), storage_classes=[kind])
        assert feasible(self.user(), view) == {"a1"}

    @pytest.mark.parametrize(
        ("fields", "admitted"),
        [
            ({}, {"a1"}),
            ({"phase": "Bound"}, set()),
            ({"capacity": 0}, set()),
            ({"claim": ("default", "data"), "phase": "Bound"}, {"a1"}),
            ({"claim": ("default", "other")}, set()),
            ({"access_modes": ()}, set()),
            ({"volume_mode": "Block"}, set()),
            ({"deleted": True}, set()),
            ({"storage_class": "else"}, set()),
            ({"labels": Labels({"tier": "y"})}, set()),
        ],
    )
    def test_without_a_provisioner_a_fitting_volume_must_be_there(
        self, fields: dict[str, Any], admitted: set[str]
    ) -> None:
        kind = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", delayed=True)
        fields = {
            "storage_class": "local",
            "phase": "Available",
            "capacity": 10,
            "access_modes": ("ReadWriteOnce",),
            "labels": Labels({"tier": "x"}),
            **fields,
        }
        claim = self.claim(
            storage_class="local", request=10, access_modes=("ReadWriteOnce",), selector=selector(tier="x")
        )
        assert (
            feasible(self.user(), self.view(claim, storage_classes=[kind], volumes=[self.zoned(**fields)])) == admitted
        )

    def test_two_claims_need_two_volumes(self) -> None:
        kind = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", delayed=True)
        claims = [self.claim(name, storage_class="local") for name in ("one", "two")]
        volumes = [
            self.zoned("pv-a", "a", storage_class="local", phase="Available"),
            self.zoned("pv-b1", "b", storage_class="local", phase="Available"),
            self.zoned("pv-b2", "b", storage_class="local", phase="Available"),
        ]
        view = self.view(*claims, storage_classes=[kind], volumes=volumes)
        assert feasible(self.user("one", "two"), view) == {"b1"}

    def test_a_claim_for_one_pod_has_one_user(self) -> None:
        claim = self.claim(volume="pv", bound=True, access_modes=("ReadWriteOncePod",))
        there = self.user(on="a1")
        view = self.view(claim, volumes=[PersistentVolume(name="pv")], pods=[there])
        assert feasible(self.user(), view.terminating([there])) == set()
        used = "ReadWriteOncePod access mode"
        reason = f"node(s) unavailable due to PersistentVolumeClaim with {used} already in-use by another pod"
        assert rejection(self.user(), view, "b1") == ("VolumeRestrictions", reason)
        older = View(replace(view.snapshot, version=Version(1, 33)))
        reason = f"node has pod using PersistentVolumeClaim with the same name and {used}"
        assert rejection(self.user(), older, "b1") == ("VolumeRestrictions", reason)
        assert feasible(self.user(), view.without([there])) == {"a1", "b1", "x"}

    def test_a_driver_attaches_so_many_volumes_and_one_twice_counts_once(self) -> None:
        claims = [self.claim(name, volume=name, bound=True) for name in ("one", "two")]
        volumes = [PersistentVolume(name=name, driver="d", handle=name) for name in ("one", "two")]
        limited = [CSINode(name="a1", drivers=(("d", 1, ()), ("e", None, ())))]
        view = self.view(*claims, volumes=volumes, csi_nodes=limited, pods=[self.user("one", on="a1")])
        assert feasible(self.user("two"), view) == {"b1", "x"}
        assert rejection(self.user("two"), view, "a1") == ("NodeVolumeLimits", "node(s) exceed max volume count")
        assert feasible(self.user("one"), view) == {"a1", "b1", "x"}
        larger = View(replace(view.snapshot, csi_nodes=(CSINode(name="a1", drivers=(("d", 2, ()),)),)))
        assert feasible(self.user("two"), larger) == {"a1", "b1", "x"}

    def test_a_driver_may_keep_its_pods_from_nodes_without_it(self) -> None:
        """From 1.37 on, by `preventPodSchedulingIfMissing` of its CSIDriver."""
        claims = [self.claim("one", volume="one", bound=True)]
        volumes = [PersistentVolume(name="one", driver="d", handle="one")]
        there = [CSINode(name="a1", drivers=(("d", None, ()),)), CSINode(name="b1", drivers=(("e", None, ()),))]
        for keeps, minor, admitted in (
            (True, 37, {"a1"}),
            (True, 36, {"a1", "b1", "x"}),
            (False, 37, {"a1", "b1", "x"}),
        ):
            drivers = [CSIDriver(name="d", keeps_pods_from_nodes_without=keeps)]
            made = self.view(*claims, volumes=volumes, csi_nodes=there, csi_drivers=drivers)
            view = View(replace(made.snapshot, version=Version(1, minor)))
            assert feasible(self.user("one"), view) == admitted
            assert {name for name in ("a1", "b1", "x") if not rejection(self.user("one"), view, name)[0]} == admitted
            if len(admitted) == 1:
                words = "d CSI driver is not installed on the node"
                assert rejection(self.user("one"), view, "x") == ("NodeVolumeLimits", words)

    @pytest.mark.parametrize(
        ("fields", "publishes", "known"),
        [
            ({"storage_class": "later"}, True, False),
            ({"storage_class": "later"}, False, True),
            ({"storage_class": "other"}, True, True),
            ({"storage_class": "later", "volume": "pv", "bound": True}, True, True),
        ],
    )
    def test_where_a_driver_publishes_capacity_a_new_volume_is_not_predicted(
        self, fields: dict[str, Any], publishes: bool, known: bool
    ) -> None:
        kind = StorageClass(name="later", provisioner="d", delayed=True)
        drivers = [CSIDriver(name="d", publishes_capacity=publishes)]
        view = self.view(self.claim(**fields), storage_classes=[kind], csi_drivers=drivers)
        why = predict(self.user(), view).unpredictable
        words = "a volume of it would be made by d, whose CSIStorageCapacity objects are not read"
        assert (str(why) if why is not None else None) == (None if known else words)
        assert predict(self.user("missing"), view).unpredictable is None


@pytest.mark.parametrize(
    ("minor", "stated", "unread", "known"),
    [
        (37, "a", True, False),
        (36, "a", True, False),
        (35, "a", True, True),
        (37, "ab", True, True),
        (37, "a", False, True),
    ],
)
def test_where_device_classes_may_not_be_read_what_not_every_node_states_is_not_predicted(
    minor: int, stated: str, unread: bool, known: bool
) -> None:
    """With the rights of an earlier release, say: devices may meet a resource on the nodes that do not state it."""
    gpu = (("example.com/gpu", 1),)
    nodes = [node(name, allocatable=Resources(cpu=1000, extended=gpu if name in stated else ())) for name in "ab"]
    unknown = frozenset({"DeviceClass"} if unread else ())
    view = View(replace(snapshot(nodes), version=Version(1, minor), unknown=unknown))
    why = predict(pod(spec=PodSpec(requests=Resources(cpu=1, extended=gpu))), view).unpredictable
    words = "example.com/gpu may come from a DeviceClass on some nodes, and which devices are free there is not read"
    assert (None if why is None else str(why)) == (None if known else words)


class TestWhatAPlannerMayRelyOn:
    def test_static_feasibility_leaves_out_spread_and_the_pods_own_group(self) -> None:
        avoiding = PodAffinity(anti_required=(PodAffinityTerm(topology_key=HOSTNAME, selector=selector(app="web")),))
        spec = PodSpec(pod_affinity=avoiding, spread=(spread(selects=selector(app="web")),))
        mate = pod({"app": "web"}, on="a", spec=spec)
        other = pod({"app": "db"}, on="b", spec=PodSpec(pod_affinity=avoiding))
        view = View(snapshot([node("a", {ZONE: "a"}), node("b", {ZONE: "b"}), node("c", {ZONE: "a"})], [mate, other]))
        incoming = pod({"app": "web"}, spec=spec)
        assert feasible(incoming, view) == set()
        assert static_feasible(incoming, view, [mate]) == {"a", "c"}

    def test_the_group_is_the_pods_of_the_same_owner_where_none_is_given(self) -> None:
        avoiding = PodAffinity(anti_required=(PodAffinityTerm(topology_key=HOSTNAME, selector=selector(app="web")),))
        spec = PodSpec(pod_affinity=avoiding)
        owner = OwnerReference(group="apps", kind="ReplicaSet", name="web", uid="w")
        mate = pod({"app": "web"}, on="a", spec=spec, owner=owner)
        stranger = pod({"app": "web"}, on="b")
        view = View(snapshot([node("a"), node("b"), node("c")], [mate, stranger]))
        assert static_feasible(pod({"app": "web"}, spec=spec, owner=owner), view) == {"a", "c"}
        assert static_feasible(pod({"app": "web"}, spec=spec), view) == {"c"}

    def test_static_feasibility_without_pod_affinity_in_the_profile_repels_nobody(self) -> None:
        avoiding = PodAffinity(anti_required=(PodAffinityTerm(topology_key=HOSTNAME, selector=selector(app="web")),))
        state = snapshot([node("a")], [pod({"app": "web"}, on="a")])
        incoming = asking(pod_affinity=avoiding)
        assert static_feasible(incoming, View(state)) == set()
        assert static_feasible(incoming, View(state, Profile(filters_off=frozenset({"InterPodAffinity"})))) == {"a"}

    def test_filters_that_the_profile_switches_off_reject_nothing(self) -> None:
        nodes = [node("a", taints=(taint("k"),)), node("b", pods=0)]
        view = View(snapshot(nodes), Profile(filters_off=frozenset({"TaintToleration", "NodeResourcesFit"})))
        assert feasible(pod(), view) == {"a", "b"}
        assert predict(pod(), view).feasible == {"a", "b"}

    def test_a_promised_place_is_left_to_the_pod_it_was_promised_to(self) -> None:
        nodes = [node("a", pods=1), node("b", pods=1)]
        nominated = pod(name="first", nominated_node="a", spec=PodSpec(priority=5))
        view = View(snapshot(nodes, [nominated]))
        assert feasible(pod(), view) == {"b"}
        assert feasible(asking(priority=9), view) == {"a", "b"}
        assert feasible(nominated, view) == {"a"}
        assert feasible(pod(), view.with_placed(nominated, "b")) == {"a"}

    def test_reasons_of_a_nominated_node_count_its_nominated_pod(self) -> None:
        nominated = pod(name="first", nominated_node="a", spec=PodSpec(priority=5))
        view = View(snapshot([node("a", pods=1)], [nominated]))
        assert rejection(pod(), view, "a") == ("NodeResourcesFit", "Too many pods")
        assert predict(pod(), view).failure == "0/1 nodes are available: 1 Too many pods."

    def test_a_nominated_node_with_capacity_for_two_takes_another_pod(self) -> None:
        nominated = pod(name="first", nominated_node="a", spec=PodSpec(priority=5))
        view = View(snapshot([node("a", pods=2), node("b", unschedulable=True)], [nominated]))
        assert feasible(pod(), view) == predict(pod(), view).feasible == {"a"}

    def test_a_promise_opens_no_node_that_is_closed(self) -> None:
        nominated = pod(name="first", nominated_node="b", spec=PodSpec(priority=5))
        view = View(snapshot([node("a"), node("b", unschedulable=True)], [nominated]))
        assert feasible(pod(), view) == {"a"}


def test_nothing_is_available_without_nodes() -> None:
    assert predict(pod(created=NOW), View(snapshot([]))).failure == "no nodes available to schedule pods"
