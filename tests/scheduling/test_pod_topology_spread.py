"""Counting for topology spread, where a naive count goes wrong."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.affinity import NodeAffinity, Toleration
from rebalancer.model.cluster import Service, Version
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.nodes import Node
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec
from rebalancer.model.spread import SpreadConstraint
from rebalancer.model.workloads import Workload
from rebalancer.scheduling.pod_topology_spread import (
    Counts,
    Origin,
    PodTopologySpread,
    constraints_of,
    counts,
    eligibility,
    ineffective,
)
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.spread_constraints import derive_default_selector
from rebalancer.scheduling.view import View
from tests.drawing import examples
from tests.scheduling.build import HOSTNAME, NOW, ZONE, node, pod, selector, snapshot, spread, taint, term

WEB = selector(app="web")
EVERYTHING = LabelSelector()


def zones(*names: str) -> list[Node]:
    return [node(f"{name}-1", {ZONE: name}) for name in names]


def webs(**per_node: int) -> list[Pod]:
    return [pod({"app": "web"}, on=name.replace("_", "-")) for name, count in per_node.items() for _ in range(count)]


def web(*constraints: SpreadConstraint, **fields: Any) -> Pod:
    spec = PodSpec(spread=constraints or (spread(selects=WEB),), **fields)
    return pod({"app": "web"}, spec=spec)


def first(incoming: Pod, view: View) -> Counts:
    constraints = constraints_of(incoming, view)
    return counts((constraints.hard or constraints.soft)[0], incoming, view)


def by_zone(incoming: Pod, nodes: list[Node], pods: list[Pod]) -> Mapping[str, int]:
    return dict(first(incoming, View(snapshot(nodes, pods))).by_domain)


def letters(incoming: Pod, view: View) -> str:
    """S, U or X (unresolvable) for each node in order."""
    spread_filter = PodTopologySpread(incoming, view)
    verdicts = {"Success": "S", "Unschedulable": "U", "UnschedulableAndUnresolvable": "X"}
    return "".join(verdicts[spread_filter.verdict(name).code.value] for name in view.nodes.by_name)


def test_counts_are_values() -> None:
    """Those of equal clusters are equal, in views of their own; a pod more on a node is a difference."""

    def counted(**per_node: int) -> Counts:
        return first(web(), View(snapshot(zones("a", "b"), webs(**per_node))))

    assert counted(a_1=2, b_1=1) == counted(a_1=2, b_1=1)
    assert hash(counted(a_1=2, b_1=1)) == hash(counted(a_1=2, b_1=1))
    assert counted(a_1=2, b_1=1) != counted(a_1=2)
    assert counted() != {}


RACK = spread("rack", selects=WEB, affinity="Ignore")
AB = NodeAffinity(required=(term((ZONE, "In", ("a", "b"))),))
FEW = web(spread(selects=WEB, min_domains=3))
STRANGER = pod({"app": "db"}, spec=PodSpec(spread=(spread(selects=WEB),)))
VERDICTS = [
    ("the null selector matches nothing and blocks nothing", web(spread(selects=None)), "a:5 b:0", "SS"),
    ("the empty one with a match label key counts", web(spread(selects=EVERYTHING, keys=("app",))), "a:5 b:0", "US"),
    ("an empty zone is a domain", web(), "a:1 b:1 c:0", "UUS"),
    ("a node outside the affinity in a low zone still passes this filter", web(node_affinity=AB), "a:1 b:1 c:0", "SSS"),
    ("too few domains make the minimum zero", FEW, "a:1 b:1", "UU"),
    ("too few domains admit until each holds maxSkew", FEW, "a:0 b:0", "SS"),
    ("a pod that does not match itself adds nothing", STRANGER, "a:2 b:1 c:0 d:3", "USSU"),
    ("no new pod may widen a skew", web(spread(selects=WEB, max_skew=2)), "a:1 b:3 c:3", "SUU"),
    # No node carries both keys, so nothing is eligible; the zone constraint passes and the rack key is missing.
    ("the first failure in list order decides the code", web(spread(selects=WEB), RACK), "a:1 b:0", "XX"),
]


@pytest.mark.parametrize(
    ("incoming", "counts", "expected"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS]
)
def test_what_the_filter_says_of_each_zone(incoming: Pod, counts: str, expected: str) -> None:
    """Each zone has one node; `counts` are the pods on it."""
    held = {zone: int(number) for zone, number in (part.split(":") for part in counts.split())}
    pods = webs(**{f"{zone}_1": number for zone, number in held.items()})
    assert letters(incoming, View(snapshot(zones(*held), pods))) == expected


class TestWhichPodsCount:
    @pytest.mark.parametrize(
        ("fields", "counted"),
        [
            ({"deleted": NOW}, 0),
            ({"phase": PodPhase.SUCCEEDED}, 0),
            ({"phase": PodPhase.FAILED}, 0),
            ({"namespace": "other"}, 0),
            ({"phase": PodPhase.PENDING}, 1),
            ({"ready": False}, 1),
            ({"mirror": True}, 1),
            ({"evicted_at": NOW}, 1),
        ],
    )
    def test_terminating_finished_and_foreign_pods_do_not_and_bound_ones_do(
        self, fields: dict[str, Any], counted: int
    ) -> None:
        existing = pod({"app": "web"}, on="a-1", **fields)
        assert by_zone(web(), zones("a", "b"), [existing]) == {"a": counted, "b": 0}

    def test_unscheduled_pods_count_nowhere(self) -> None:
        assert by_zone(web(), zones("a", "b"), [pod({"app": "web"}), *webs(a_1=1)]) == {"a": 1, "b": 0}

    def test_pods_of_a_deleted_node_do_not_and_its_zone_is_no_domain(self) -> None:
        assert by_zone(web(), zones("a"), [*webs(a_1=1), pod({"app": "web"}, on="gone")]) == {"a": 1}

    def test_the_label_a_pod_has_now_decides(self) -> None:
        assert by_zone(web(), zones("a"), [pod({"app": "db"}, on="a-1")]) == {"a": 0}


class TestSelectors:
    @pytest.mark.parametrize(
        ("version", "expected"),
        [(Version(1, 30), "SS"), (Version(1, 36), "SS"), (Version(1, 37), "SS"), (Version(1, 38), "US")],
    )
    def test_the_empty_selector_counts_nobody_until_the_fix(self, version: Version, expected: str) -> None:
        view = View(snapshot(zones("a", "b"), webs(a_1=5), version=version))
        incoming = web(spread(selects=EVERYTHING))
        assert letters(incoming, view) == expected
        assert ineffective(constraints_of(incoming, view).hard[0], view) == (expected == "SS")

    def test_tainted_domains_count_for_min_domains_in_no_release(self) -> None:
        """With nodeTaintsPolicy Honor the skew leaves them out; where they counted, the minimum would not be 0."""
        nodes = [*zones("a", "b"), node("c-1", {ZONE: "c"}, taints=(taint("k"),))]
        incoming = web(spread(selects=WEB, min_domains=3, taints="Honor"))
        for minor in (30, 37, 38):
            counted = first(incoming, View(snapshot(nodes, webs(a_1=2, b_1=1), version=Version(1, minor))))
            assert (counted.minimum, counted.floor_at_zero, dict(counted.by_domain)) == (0, True, {"a": 2, "b": 1})
        proposed = View(snapshot(nodes, webs(a_1=2, b_1=1)))
        proposed.rules = replace(proposed.rules, tainted_domains_count=True)
        counted = first(incoming, proposed)
        assert (counted.minimum, counted.floor_at_zero, dict(counted.by_domain)) == (1, False, {"a": 2, "b": 1})

    def test_match_label_keys_narrow_to_the_pods_own_value(self) -> None:
        old = [pod({"app": "web", "hash": "1"}, on="a-1") for _ in range(3)]
        spec = PodSpec(spread=(spread(selects=WEB, keys=("hash",)),))
        counted = first(pod({"app": "web", "hash": "2"}, spec=spec), View(snapshot(zones("a", "b"), old)))
        assert dict(counted.by_domain) == {"a": 0, "b": 0}
        assert counted.constraint.origin is Origin.MERGED

    def test_a_match_label_key_that_the_pod_lacks_is_ignored(self) -> None:
        incoming = web(spread(selects=WEB, keys=("missing",)))
        assert by_zone(incoming, zones("a"), webs(a_1=2)) == {"a": 2}

    def test_merging_by_the_api_server_changes_nothing(self) -> None:
        nodes, labels = zones("a", "b"), {"app": "web", "hash": "1"}
        merged = PodSpec(spread=(spread(selects=selector(app="web", hash="1"), keys=("hash",)),))
        unmerged = PodSpec(spread=(spread(selects=WEB, keys=("hash",)),))
        view = View(snapshot(nodes, [pod(labels, on="a-1")]))
        assert constraints_of(pod(labels, spec=merged), view) == constraints_of(pod(labels, spec=unmerged), view)

    def test_a_relabelled_pod_with_a_merged_selector_matches_nobody(self) -> None:
        spec = PodSpec(spread=(spread(selects=selector(app="web", hash="1"), keys=("hash",)),))
        counted = first(
            pod({"app": "web", "hash": "2"}, spec=spec),
            View(snapshot(zones("a", "b"), [pod({"app": "web", "hash": h}, on="a-1") for h in "12"])),
        )
        assert counted.self_match == 0
        assert counted.maximum == 0

    def test_not_in_matches_pods_without_the_label(self) -> None:
        written = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}
        existing = [pod({}, on="a-1"), pod({"tier": "x"}, on="a-1"), pod({"tier": "y"}, on="a-1")]
        assert by_zone(web(spread(selects=selector(written))), zones("a"), existing) == {"a": 2}

    def test_a_selector_of_several_values_matches_each(self) -> None:
        written = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}
        existing = [pod({"app": name}, on="a-1") for name in ("web", "api", "db")]
        assert by_zone(web(spread(selects=selector(written))), zones("a"), existing) == {"a": 2}


class TestEligibleNodes:
    def test_a_node_without_the_key_is_unresolvable_and_its_pods_do_not_count(self) -> None:
        nodes = [*zones("a", "b"), node("c-1", {"zon": "b"})]
        view = View(snapshot(nodes, webs(a_1=2, b_1=1, c_1=1)))
        assert letters(web(), view) == "USX"
        assert dict(first(web(), view).by_domain) == {"a": 2, "b": 1}

    def test_the_empty_string_is_a_domain(self) -> None:
        assert by_zone(web(), [node("x", {ZONE: ""}), *zones("a")], webs(x=1)) == {"": 1, "a": 0}

    def test_a_tainted_zone_stays_a_domain_unless_taints_are_honoured(self) -> None:
        nodes = [*zones("a", "b"), node("c-1", {ZONE: "c"}, taints=(taint("gpu"),))]
        view = View(snapshot(nodes, webs(a_1=1, b_1=1)))
        assert letters(web(), view) == "UUS"
        assert letters(web(spread(selects=WEB, taints="Honor")), view) == "SSS"

    @pytest.mark.parametrize(
        ("effect", "domain"), [("PreferNoSchedule", True), ("NoSchedule", False), ("NoExecute", False)]
    )
    def test_honoured_taints_are_those_that_repel(self, effect: str, domain: bool) -> None:
        nodes = [node("a-1", {ZONE: "a"}, taints=(taint("k", effect),))]
        incoming = web(spread(selects=WEB, taints="Honor"))
        assert by_zone(incoming, nodes, webs(a_1=1)) == ({"a": 1} if domain else {})

    def test_a_toleration_for_another_effect_does_not_help(self) -> None:
        nodes = [node("a-1", {ZONE: "a"}, taints=(taint("k", "NoExecute"),))]
        tolerations = (Toleration(key="k", operator="Exists", effect="NoSchedule"),)
        assert by_zone(web(spread(selects=WEB, taints="Honor"), tolerations=tolerations), nodes, []) == {}

    def test_only_the_tainted_nodes_pods_drop_out_of_a_zone(self) -> None:
        nodes = [*zones("a", "b"), node("a-2", {ZONE: "a"}, taints=(taint("k"),))]
        pods = webs(a_1=1, a_2=3, b_1=1)
        assert by_zone(web(spread(selects=WEB, taints="Honor")), nodes, pods) == {"a": 1, "b": 1}
        assert by_zone(web(), nodes, pods) == {"a": 4, "b": 1}

    def test_a_cordoned_node_stays_a_domain_even_honoured_until_its_taint_is_set(self) -> None:
        nodes = [*zones("a"), node("b-1", {ZONE: "b"}, unschedulable=True)]
        assert by_zone(web(spread(selects=WEB, taints="Honor")), nodes, []) == {"a": 0, "b": 0}

    def test_node_affinity_is_honoured_by_default(self) -> None:
        nodes = [node("a-1", {ZONE: "a", "disk": "ssd"}), node("a-2", {ZONE: "a"}), *zones("b")]
        affinity = NodeAffinity(selector=Labels({"disk": "ssd"}))
        pods = webs(a_1=1, a_2=3, b_1=1)
        assert by_zone(web(node_affinity=affinity), nodes, pods) == {"a": 1}
        ignoring = web(spread(selects=WEB, affinity="Ignore"), node_affinity=affinity)
        assert by_zone(ignoring, nodes, pods) == {"a": 4, "b": 1}

    def test_every_hard_key_is_needed_and_soft_keys_are_not(self) -> None:
        nodes = [node("a-1", {ZONE: "a", "rack": "1"}), node("b-1", {ZONE: "b"})]
        pods = webs(a_1=1, b_1=5)
        assert by_zone(web(spread(selects=WEB), spread("rack", selects=WEB)), nodes, pods) == {"a": 1}
        assert by_zone(web(spread(selects=WEB), spread("rack", selects=WEB, soft=True)), nodes, pods) == {
            "a": 1,
            "b": 5,
        }

    def test_pods_that_see_the_same_nodes_share_one_eligibility(self) -> None:
        view = View(snapshot(zones("a", "b")))
        one, two = web(), web(tolerations=(Toleration(operator="Exists"),))
        constraint = constraints_of(one, view).hard[0]
        assert eligibility(constraint, one, view) is eligibility(constraint, two, view)


class TestMinimum:
    def test_too_few_domains_make_it_zero(self) -> None:
        view = View(snapshot(zones("a", "b"), webs(a_1=1, b_1=1)))
        assert first(web(spread(selects=WEB, min_domains=3)), view).minimum == 0

    def test_only_eligible_domains_count_towards_min_domains(self) -> None:
        affinity = NodeAffinity(required=(term((ZONE, "In", ("a", "b", "c"))),))
        view = View(snapshot(zones(*"abcde"), webs(a_1=1, b_1=1, c_1=1)))
        assert first(web(spread(selects=WEB, min_domains=4), node_affinity=affinity), view).minimum == 0

    def test_at_rest_a_skew_may_be_legal(self) -> None:
        view = View(snapshot(zones(*"abc"), webs(a_1=1, b_1=3, c_1=3)))
        assert not first(web(spread(selects=WEB, max_skew=2)), view).violated

    def test_no_eligible_node_at_all_counts_as_zero(self) -> None:
        counted = first(web(node_affinity=NodeAffinity(required=())), View(snapshot(zones("a"), webs(a_1=2))))
        assert (dict(counted.by_domain), counted.minimum, counted.maximum, counted.skew) == ({}, 0, 0, 0)

    def test_a_value_that_is_no_domain_has_no_count(self) -> None:
        counted = first(web(), View(snapshot(zones("a"))))
        with pytest.raises(KeyError):
            counted.by_domain["nowhere"]

    def test_counts_include_the_empty_domains(self) -> None:
        counted = first(web(), View(snapshot(zones("a", "b"), webs(a_1=2))))
        assert repr(counted.by_domain) == "{'a': 2, 'b': 0}"


class TestSkew:
    @pytest.mark.parametrize(("allowed", "violated"), [(1, True), (2, False)])
    def test_it_is_the_greatest_count_less_the_minimum(self, allowed: int, violated: bool) -> None:
        view = View(snapshot(zones("a", "b", "c"), webs(a_1=4, b_1=2, c_1=3)))
        row = first(web(spread(selects=WEB, max_skew=allowed)), view)
        assert (row.maximum, row.minimum, row.skew, row.violated) == (4, 2, 2, violated)
        assert [row.skew_of(zone) for zone in "abc"] == [2, 0, 1]


class TestSeveralConstraints:
    def test_hard_and_soft_of_one_key_are_two_constraints(self) -> None:
        view = View(snapshot(zones("a")))
        constraints = constraints_of(web(spread(selects=WEB), spread(selects=WEB, soft=True)), view)
        assert (len(constraints.hard), len(constraints.soft)) == (1, 1)

    def test_nodes_of_equal_hostname_are_one_domain(self) -> None:
        nodes = [node("a", {HOSTNAME: "same"}), node("b", {HOSTNAME: "same"})]
        view = View(snapshot(nodes, webs(a=1, b=2)))
        assert dict(first(web(spread(HOSTNAME, selects=WEB)), view).by_domain) == {"same": 3}


class TestDefaults:
    def owned(self, kind: str = "ReplicaSet", group: str = "apps") -> tuple[Pod, Workload]:
        owner = OwnerReference(group=group, kind=kind, name="web", uid="u")
        workload = Workload(group=group, kind=kind, namespace="default", name="web", uid="u", selector=WEB, created=NOW)
        return pod({"app": "web"}, owner=owner), workload

    def test_a_replica_sets_pod_gets_the_systems_soft_ones(self) -> None:
        incoming, workload = self.owned()
        constraints = constraints_of(incoming, View(snapshot(zones("a"), workloads=[workload])))
        assert constraints.hard == ()
        assert [(constraint.key, constraint.max_skew, constraint.origin) for constraint in constraints.soft] == [
            (HOSTNAME, 3, Origin.DEFAULT),
            (ZONE, 5, Origin.DEFAULT),
        ]
        assert constraints.soft[0].selector == WEB

    @pytest.mark.parametrize(("kind", "group"), [("Job", "batch"), ("DaemonSet", "apps")])
    def test_other_owners_give_none(self, kind: str, group: str) -> None:
        """Owners of other kinds add nothing to the default selector."""
        incoming, workload = self.owned(kind, group)
        assert constraints_of(incoming, View(snapshot(zones("a"), workloads=[workload]))) == ((), ())

    def test_an_owner_that_is_not_known_or_selects_nothing_gives_none(self) -> None:
        incoming, workload = self.owned()
        without_selector = structs.replace(workload, selector=None)
        assert constraints_of(incoming, View(snapshot(zones("a")))) == ((), ())
        assert constraints_of(incoming, View(snapshot(zones("a"), workloads=[without_selector]))) == ((), ())

    def test_services_that_select_the_pod_are_joined(self) -> None:
        services = [
            Service(namespace="default", name="a", selector=Labels({"app": "web"})),
            Service(namespace="default", name="b", selector=Labels({"tier": "front"})),
            Service(namespace="default", name="c", selector=Labels({"app": "other"})),
            Service(namespace="default", name="d", selector=None),
            Service(namespace="elsewhere", name="e", selector=Labels({"x": "y"})),
        ]
        incoming = pod({"app": "web", "tier": "front", "x": "y"})
        constraints = constraints_of(incoming, View(snapshot(zones("a"), services=services)))
        assert constraints.soft[0].selector == selector(app="web", tier="front")

    def test_any_constraint_of_the_pods_own_switches_them_off(self) -> None:
        incoming, workload = self.owned()
        view = View(snapshot(zones("a"), workloads=[workload]))
        with_soft = pod({"app": "web"}, spec=PodSpec(spread=(spread(selects=WEB, soft=True),)), owner=incoming.owner)
        constraints = constraints_of(with_soft, view)
        assert constraints.hard == ()
        assert [constraint.origin for constraint in constraints.soft] == [Origin.OWN]

    def test_a_profiles_list_replaces_them_and_may_be_hard(self) -> None:
        incoming, workload = self.owned()
        profile = Profile(default_constraints=(spread(ZONE, 1),))
        view = View(snapshot(zones("a", "b"), webs(a_1=1), workloads=[workload]), profile)
        assert letters(incoming, view) == "US"

    def test_an_empty_list_switches_them_off(self) -> None:
        incoming, workload = self.owned()
        view = View(snapshot(zones("a"), workloads=[workload]), Profile(default_constraints=()))
        assert constraints_of(incoming, view) == ((), ())


@examples(200)
@given(
    st.lists(st.none() | st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3), max_size=6),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3),
)
def test_the_services_of_a_pod_are_those_whose_every_label_it_has(
    selectors: list[dict[str, str] | None], labels: dict[str, str]
) -> None:
    """However many a namespace has: they are found by a label, and compared whole."""
    services = tuple(
        Service(namespace="default", name=str(number), selector=None if one is None else Labels(one))
        for number, one in enumerate(selectors)
    )
    expected = {
        requirement
        for one in selectors
        if one is not None and one.items() <= labels.items()
        for requirement in LabelSelector.of(one).requirements
    }
    view = View(snapshot(zones("a"), services=services))
    assert set(derive_default_selector(pod(labels), view).requirements) == expected
