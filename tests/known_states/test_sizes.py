"""Sizes without a placement: three nodes in zones of two and one, node and zone hard, an autoscaler up to eight.

Five pods are placed, 1,2 and 2. The sixth finds no node: by zone it must be 3 and 3, by node 1 to 2 on each.
"""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from rebalancer.model.reasons import FindingKind
from tests.cli.files import ready_nodes
from tests.control_plane.manifests import HOSTNAME, ZONE, spread
from tests.control_plane.resources import Manifest
from tests.known_states.build import State, deployment, make, namespace

PLACED: Final = ("a-0", "a-1", "a-1", "b-0", "b-0")
LABELS: Final = {"app": "web"}


def horizontal(most: int, least: int = 1, name: str = "web-load") -> Manifest:
    """Return a HorizontalPodAutoscaler of the Deployment."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    fields = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
    return make("autoscaling/v2", "HorizontalPodAutoscaler", name, spec=fields)


def constraints(node: dict[str, Any] | None = None, zone: dict[str, Any] | None = None) -> list[Manifest]:
    """Return the two constraints, with other fields for each."""
    return [spread(HOSTNAME, labels=LABELS, **(node or {})), spread(ZONE, labels=LABELS, **(zone or {}))]


def state(
    *more: Manifest,
    on: Sequence[str] = PLACED,
    nodes: dict[str, int] | None = None,
    spreads: list[Manifest] | None = None,
) -> State:
    """Return the state, with other objects, nodes and constraints."""
    made = ready_nodes(nodes or {"a": 2, "b": 1})
    rules = constraints() if spreads is None else spreads
    return State(*made, namespace("shop"), *deployment(on=on, topologySpreadConstraints=rules), *more)


def find(made: State, policy: str = "") -> str:
    """Return what is found of sizes, "" if nothing is."""
    return "\n".join(finding.message for finding in made.find(FindingKind.SIZES_WITHOUT_PLACEMENT, policy))


def test_a_workload_that_may_be_scaled_to_zero_is_judged_from_one_pod_on() -> None:
    assert find(state(horizontal(6, least=0))) == find(state(horizontal(6, least=1))) != ""


def test_the_sixth_pod_is_known_to_find_no_node_before_it_comes() -> None:
    assert find(state(horizontal(6))) == (
        "HorizontalPodAutoscaler shop/web-load may scale it to 6 replicas: no placement of 6 satisfies its hard "
        "constraints. kubernetes.io/hostname (maxSkew 1) and topology.kubernetes.io/zone (maxSkew 1) forbid it "
        "together, whatever capacity there is. Raise maxSkew over kubernetes.io/hostname to 2: then each size has a "
        "placement"
    )


def test_a_size_behind_one_without_a_placement_is_not_reached() -> None:
    """Seven have the placement 2,2 and 3: pods come one by one, and the sixth waits."""
    said = find(state(horizontal(8)))
    assert "no placement of 6, 8 satisfies its hard constraints" in said
    assert "and pods that are placed one by one do not reach 7 from where they are now" in said


def test_the_most_replicas_are_named_and_where_the_evaluation_ends() -> None:
    said = find(state(horizontal(2000)))
    assert "may scale it to 2000 replicas (sizes above 1000 are not evaluated): " in said
    assert "may scale it to 1000 replicas: " in find(state(horizontal(1000)))


def test_of_two_autoscalers_the_one_with_more_replicas_counts() -> None:
    few, many = horizontal(4, name="few"), horizontal(8, name="many")
    for both in ((few, many), (many, few)):
        assert "HorizontalPodAutoscaler shop/many may scale it to 8 replicas: " in find(state(*both))


def test_the_change_is_the_first_that_is_enough_for_all_sizes() -> None:
    """Up to 12, maxSkew 2 over one of the keys leaves 10 or 9 without a placement; a node more in zone b does not."""
    assert "Add a node in zone b: then each size has a placement" in find(state(horizontal(12)))


def test_a_size_that_the_autoscaler_does_not_choose_does_not_matter() -> None:
    assert find(state(horizontal(5))) == ""
    assert "no placement of 8 satisfies" in find(state(horizontal(8, least=8)))


@pytest.mark.parametrize(
    "spreads",
    [constraints({"soft": True}), constraints(zone={"soft": True}), constraints()[:1], constraints()[1:]],
    ids=["node soft", "zone soft", "node alone", "zone alone"],
)
def test_one_hard_constraint_alone_leaves_no_size_without_a_placement(spreads: list[Manifest]) -> None:
    assert find(state(horizontal(30), spreads=spreads)) == ""


def test_zones_of_equal_numbers_of_nodes_have_a_placement_for_every_size() -> None:
    assert find(state(horizontal(30), nodes={"a": 2, "b": 2})) == ""


def test_without_an_autoscaler_of_pods_nothing_is_said() -> None:
    assert find(state()) == ""


class TestNodesThatMayBeAdded:
    """Where an autoscaler adds nodes, their number decides nothing."""

    def node_pool(self, **labels: str) -> Manifest:
        spec = {"template": {"metadata": {"labels": labels}, "spec": {"requirements": [], "taints": []}}}
        return make("karpenter.sh/v1", "NodePool", "general", None, spec=spec)

    def test_a_node_pool(self) -> None:
        assert find(state(horizontal(6), self.node_pool())) == ""

    def test_a_node_of_a_pool(self) -> None:
        made = state(horizontal(6))
        made.get("Node", "a-0")["metadata"]["labels"]["karpenter.sh/nodepool"] = "general"
        assert find(made) == ""

    def test_a_mark_of_the_cluster_autoscaler(self) -> None:
        made = state(horizontal(6))
        taint = {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}
        made.get("Node", "a-0")["spec"]["taints"] = [taint]
        assert find(made) == ""

    def test_a_workload_that_is_called_so(self) -> None:
        scaler = deployment("aws-cluster-autoscaler", ("a-0",), topologySpreadConstraints=None)
        assert find(state(horizontal(6), *scaler)) == ""

    def test_a_policy_that_requests_capacity(self) -> None:
        assert find(state(horizontal(6)), "capacity: {mode: Observe}") == ""

    def test_zones_are_evaluated_all_the_same(self) -> None:
        """MinDomains 3 of two zones: each takes one pod, and no autoscaler is known to bring a third zone."""
        rules = constraints(zone={"minDomains": 3})[1:]
        made = state(horizontal(4), self.node_pool(), on=("a-0", "b-0"), spreads=rules)
        assert "no placement of 3-4 satisfies" in find(made)
        assert "topology.kubernetes.io/zone (maxSkew 1, minDomains 3 with 2 there) forbids it" in find(made)

    def test_but_not_those_that_may_come(self) -> None:
        """The policy declares zone c."""
        rules = constraints(zone={"minDomains": 3})[1:]
        made = state(horizontal(4), self.node_pool(), on=("a-0", "b-0"), spreads=rules)
        assert find(made, f"topology: {{domains: {{{ZONE}: [a, b, c]}}}}") == ""


class TestNodesThatTakeNoPods:
    """A tainted node in zone b, which the constraints count."""

    def tainted(self, key: str, **fields: str) -> State:
        """Return the state in which b-0 has a taint, and b-1 has none."""
        made = state(
            horizontal(6), on=("a-0", "b-1"), nodes={"a": 1, "b": 2}, spreads=constraints({**fields}, {**fields})[:1]
        )
        made.get("Node", "b-0")["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"}]
        return made

    def test_it_keeps_the_minimum_down_for_good(self) -> None:
        said = find(self.tainted("team"))
        assert "no placement of 3-6 satisfies" in said
        assert "Set nodeTaintsPolicy and nodeAffinityPolicy of its constraints to Honor: then each size" in said

    def test_a_node_that_does_not_count_does_not(self) -> None:
        assert find(self.tainted("team", nodeTaintsPolicy="Honor")) == ""

    def test_a_taint_that_comes_and_goes_says_nothing_of_sizes(self) -> None:
        assert find(self.tainted("node.kubernetes.io/not-ready")) == ""
        assert find(self.tainted("node.kubernetes.io/not-ready", nodeTaintsPolicy="Honor")) == ""

    def test_a_node_that_does_not_count_for_now_may_count_again(self) -> None:
        """Without a-1 both zones have one node; with it all is as in the other tests, which nobody can say now."""
        honor = {"nodeTaintsPolicy": "Honor"}
        made = state(horizontal(6), on=("a-0", "b-0"), spreads=constraints(honor, honor))
        made.get("Node", "a-1")["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        assert find(made) == ""

    def test_it_counts_for_its_zone(self) -> None:
        """Zone a has one open node, zone b another; nodes that count are three."""
        made = state(horizontal(6), on=("a-0", "b-1"), nodes={"a": 1, "b": 2})
        made.get("Node", "b-0")["spec"]["taints"] = [{"key": "team", "effect": "NoSchedule"}]
        assert "no placement of 3-6 satisfies" in find(made)


class TestPodsOfOthers:
    def test_they_count_where_they_are(self) -> None:
        """Another Deployment under the same labels has two pods in zone b; those of `web` are on a-0 and a-1.

        Three more are 2,1 and 2 in all; a fourth makes six, which have no placement here.
        """
        other = deployment("other", ("b-0", "b-0"), app="web", labels={"tier": "x"}, topologySpreadConstraints=None)
        made = state(horizontal(6), *other, on=("a-0", "a-1"))
        assert "no placement of 4, 6 satisfies" in find(made)
        assert "do not reach 5 from" in find(made)

    def test_of_its_own_pods_those_that_the_constraints_do_not_count_are_not_mistaken_for_theirs(self) -> None:
        """One of `web` on b-0 has lost the label; the two that count there are of others."""
        tier = {"tier": "x"}
        rules = [spread(HOSTNAME, labels=tier), spread(ZONE, labels=tier)]
        web = deployment(on=("a-0", "a-1", "b-0"), labels=tier, topologySpreadConstraints=rules)
        del web[-1]["metadata"]["labels"]["tier"]
        other = deployment("other", ("b-0", "b-0"), labels=tier, topologySpreadConstraints=None)
        made = State(*ready_nodes({"a": 2, "b": 1}), namespace("shop"), *web, *other, horizontal(6))
        assert "no placement of 6 satisfies" in find(made), "eight in all"
        assert "do not reach 5 from" in find(made), "seven in all"

    def test_constraints_that_count_different_pods_are_left_out(self) -> None:
        rules = [spread(HOSTNAME, labels=LABELS), spread(ZONE, labels={})]
        assert find(state(horizontal(6), spreads=rules)) == ""

    def test_constraints_that_do_not_count_its_own_pods_are_left_out(self) -> None:
        rules = [spread(HOSTNAME, labels={"app": "x"}), spread(ZONE, labels={"app": "x"})]
        assert find(state(horizontal(6), spreads=rules)) == ""


def test_two_templates_of_one_workload_are_a_rollout_about_which_nothing_is_said() -> None:
    older = deployment(on=("a-0",), revision="88aa", topologySpreadConstraints=constraints()[:1])[1:]
    made = state(horizontal(6))
    top = made.get("Deployment", "web")
    for item in older:
        item["metadata"]["name"] += "-old"
        item["metadata"]["uid"] += "-old"
    older[0]["metadata"]["ownerReferences"][0]["uid"] = top["metadata"]["uid"]
    older[1]["metadata"]["ownerReferences"][0] |= {
        "name": older[0]["metadata"]["name"],
        "uid": older[0]["metadata"]["uid"],
    }
    assert find(made.add(*older)) == ""


def test_pods_that_crowd_a_node_keep_others_away_also_where_every_size_has_a_placement() -> None:
    """Five on a-0: zone b takes one on each node, then neither zone takes another."""
    made = state(horizontal(12), on=("a-0",) * 5, nodes={"a": 2, "b": 2})
    assert "pods that are placed one by one do not reach 8-12 from where they are now" in find(made)


def test_keys_that_do_not_nest_are_left_out() -> None:
    """Racks r, s and t; r is in both zones."""
    rack = "example.com/rack"
    rules = [spread(rack, labels=LABELS), spread(ZONE, labels=LABELS)]
    made = state(horizontal(12), on=("a-0",), nodes={"a": 3, "b": 1}, spreads=rules)
    for node, value in {"a-0": "r", "a-1": "s", "a-2": "t", "b-0": "r"}.items():
        made.get("Node", node)["metadata"]["labels"][rack] = value
    assert find(made) == ""
