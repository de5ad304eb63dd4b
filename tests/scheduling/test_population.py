"""Which placed pods have affinity that may mean pods of a namespace."""

from msgspec import structs

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import LabelSelector
from rebalancer.model.pods import PodSpec
from rebalancer.scheduling.view import View
from tests.scheduling.build import HOSTNAME, node, pod, snapshot


def test_affinity_reaches_only_the_namespaces_that_it_means() -> None:
    """A pod that was placed in another namespace, with affinity to its own class there, means nobody here."""
    term = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"a": "b"}))
    other = structs.replace(
        pod({"a": "b"}, on="n1", namespace="there"), spec=PodSpec(pod_affinity=PodAffinity(anti_required=(term,)))
    )
    moved = View(snapshot([node("n1"), node("n2")], [other])).with_placed(other, "n2")
    assert list(moved.affine_towards("here")) == []
    assert len(list(moved.affine_towards("there"))) == 1


def test_affinity_that_names_another_namespace_reaches_it() -> None:
    """Of a pod in a namespace that is not asked about, also in a state in which nothing of it has changed."""
    term = PodAffinityTerm(
        topology_key=HOSTNAME, selector=LabelSelector.of({"a": "b"}), namespaces=("here",), namespace_selector=None
    )
    other = structs.replace(
        pod({"c": "d"}, on="n1", namespace="there"), spec=PodSpec(pod_affinity=PodAffinity(anti_required=(term,)))
    )
    view = View(snapshot([node("n1"), node("n2")], [other]))
    assert [namespace for namespace, _, _ in view.affine_towards("here")] == ["there"]
