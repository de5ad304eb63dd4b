"""Pods by node: what they use, and which of them have affinity that may mean pods of a namespace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, UnreadTerms
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.pods import PodPhase, PodSpec, Resources
from rebalancer.scheduling.node_index import NodeIndex
from rebalancer.scheduling.view import View
from tests.drawing import examples
from tests.scheduling.build import HOSTNAME, NOW, node, pod, snapshot


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


def test_pods_in_any_order_count_on_their_own_nodes() -> None:
    """Whether pods that are alike follow each other or not; a finished pod is on no node, a terminating one is."""
    large = Resources(cpu=500, extended=(("gpu", 1),))
    alike = [pod({"a": "b"}, on=name, spec=PodSpec(requests=Resources(cpu=100))) for name in ("n1", "n1", "n2")]
    other = pod({"c": "d"}, on="n1", spec=PodSpec(requests=large))
    ending = structs.replace(alike[0], uid="ending", deleted=NOW)
    ended = structs.replace(other, uid="ended", phase=PodPhase.SUCCEEDED)
    several = [alike[0], other, alike[1], ended, ending, structs.replace(other, uid="more", node="n2"), alike[2]]
    for pods in (several, several[::-1]):
        view = View(snapshot([node("n1"), node("n2")], [structs.replace(placed, scored=(0, 0)) for placed in pods]))
        assert view.live("default", LabelSelector.of({"a": "b"})) == {"n1": 2, "n2": 1}
        assert view.present("default", LabelSelector.of({"a": "b"})) == {"n1": 3, "n2": 1}
        assert sorted(placed.uid for placed in view.pods_on("n1")) == sorted(
            [alike[0].uid, alike[1].uid, other.uid, "ending"]
        )
        assert (view.used("n1").pods, view.used("n1").cpu, view.used("n1").extended) == (4, 800, {"gpu": 1})
        assert (view.used("n2").pods, view.used("n2").cpu, view.used("n2").extended) == (2, 600, {"gpu": 1})


def test_nodes_are_sorted_by_name_whether_they_are_few_or_many() -> None:
    index = NodeIndex([node(f"n{number:02}") for number in reversed(range(30))])
    assert index.in_order(frozenset({"n03", "n02"})) == ["n02", "n03"]
    assert index.in_order(index.names) == sorted(index.names)


def test_the_pods_of_an_owner_are_counted_by_their_labels_where_no_others_have_these() -> None:
    """Not where a pod more has them, where one has moved, or where a pod's node is unknown."""
    labels = Labels({"a": "b"})
    pods = [pod(labels, on=name) for name in ("n1", "n2")]
    view = View(snapshot([node("n1"), node("n2")], pods))
    assert view.live_alike("default", labels, 2) == {"n1": 1, "n2": 1}
    assert view.live_alike("default", labels, 1) is None
    assert view.live_alike("elsewhere", labels, 2) is None
    assert view.with_placed(pods[0], "n2").live_alike("default", labels, 2) is None
    lost = View(snapshot([node("n1"), node("n2")], [*pods, pod({"c": "d"}, on="n3")]))
    assert lost.live_alike("default", labels, 2) is None
    assert lost.nodes.by_value(HOSTNAME, lost.live("default", LabelSelector.of({"a": "b"}))) == {"n1": 1, "n2": 1}


def test_terms_of_a_namespace_that_are_not_read_reach_as_far_as_all_of_them_together() -> None:
    """Of two pods whose terms are about one label, one reaches a namespace by its name, and the other its own."""
    label = frozenset({("app", "web")})
    named = UnreadTerms(everywhere=False, own=False, namespaces=frozenset({"two"}), labels=label)
    own = UnreadTerms(everywhere=False, own=True, namespaces=frozenset(), labels=label)
    pods = [
        pod({}, "n", namespace="one", spec=PodSpec(unread="many", pod_affinity=PodAffinity(unread=terms)))
        for terms in (named, own, own)
    ]
    view = View(snapshot([node("n")], pods))
    found = {space: view.find_unread(pod({"app": "web"}, namespace=space)) for space in ("one", "two", "three")}
    assert found == {"one": "one", "two": "one", "three": None}


keys, values = st.sampled_from("abc"), st.sampled_from("xy")
conditions = st.builds(
    SelectorRequirement,
    keys,
    st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]),
    st.lists(values, min_size=1, max_size=2, unique=True).map(sorted).map(tuple),
)


@examples(300)
@given(st.lists(conditions, max_size=3), st.lists(st.dictionaries(keys, values, max_size=3), max_size=6))
def test_the_pods_that_a_selector_counts_are_found_by_its_labels(
    selector: list[SelectorRequirement], labels: list[dict[str, str]]
) -> None:
    """By a value or by a key that it requires, as if it were compared with each pod."""
    pods = [pod(own, on=f"n{number}") for number, own in enumerate(labels)]
    view = View(snapshot([node(f"n{number}") for number in range(6)], pods))
    chosen = LabelSelector.of(None, selector)
    assert view.live("default", chosen) == {one.node: 1 for one in pods if chosen.matches(one.labels)}


def test_labels_that_no_pod_has_are_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 pods with 16 terms each about labels that nobody has made 5 million comparisons in a cycle."""
    compared = []
    matches = LabelSelector.matches

    def note(own: LabelSelector, labels: Labels) -> bool:
        compared.append(labels)
        return matches(own, labels)

    monkeypatch.setattr(LabelSelector, "matches", note)
    view = View(snapshot([node("n1")], [pod({"app": str(number), "tier": "x"}, on="n1") for number in range(100)]))
    for condition in ("nobody-has", "app"):
        exists = SelectorRequirement(condition, Operator.EXISTS)
        both = LabelSelector.of({"app": "7"} if condition == "app" else None, [exists])
        view.present("default", both)
    assert len(compared) == 1
