"""On which nodes replacements would not run."""

from rebalancer.model.pods import PodSpec
from rebalancer.planning.scope.unable_nodes import NodeUnable, refuse_unable
from rebalancer.scheduling.view import View
from tests.scheduling.build import node, pod, snapshot

SYSTEM = "kubernetes.io/os"
VIEW = View(snapshot([node("a", {SYSTEM: "linux"}), node("b", {SYSTEM: "windows"}), node("c", {SYSTEM: "windows"})]))


def refused(system: str, *capacity: str, landings: frozenset[str] = VIEW.nodes.names) -> str | None:
    """Return the node on which replacements of this system would not run; these have capacity for them."""
    sample = pod(spec=PodSpec(os=system))
    refusal = refuse_unable([(sample, frozenset(capacity))], VIEW, lambda nodes: nodes & landings)
    assert refusal is None or isinstance(refusal, NodeUnable)
    return refusal.node if refusal is not None else None


def test_the_first_node_of_another_system_is_named() -> None:
    assert refused("linux", "a", "b", "c") == "b"
    assert refused("windows", "a", "b", "c") == "a"


def test_nodes_without_capacity_for_these_pods_are_targets_of_others() -> None:
    """A step may move pods of several systems, each to nodes of its own."""
    assert refused("linux", "a") is None
    assert refused("windows", "b", "c") is None


def test_nodes_on_which_none_may_land_do_not_matter() -> None:
    assert refused("linux", "a", "b", "c", landings=frozenset("a")) is None


def test_pods_that_do_not_say_may_run_everywhere() -> None:
    assert refused("", "a", "b", "c") is None
