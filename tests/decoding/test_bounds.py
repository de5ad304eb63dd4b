"""Of a pod that is larger than the API's rules for names and keys allow, or than is read, nothing unbounded is kept."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.decoding.bounds import (
    LONGEST_ANNOTATION,
    LONGEST_KEY,
    LONGEST_KIND,
    LONGEST_NAME,
    LONGEST_TEXT,
    LONGEST_VOLUME_LIST,
    MOST_TERMS,
)
from rebalancer.decoding.constraints import decode_pod_affinity
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED
from rebalancer.decoding.lists import decode_items, open_page
from rebalancer.decoding.wire import Affinity
from rebalancer.decoding.wire import PodSpec as WireSpec
from rebalancer.model.cluster import Namespace
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.unpredictable import unpredictable
from rebalancer.scheduling.view import View
from tests.decoding.test_lists import changed, listed
from tests.drawing import examples
from tests.scheduling.build import node, pod, snapshot

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
ON_A = {"key": "zone", "operator": "In", "values": ["a"]}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
WEIGHTED = {"weight": 1, "podAffinityTerm": TERM}

LISTS: dict[str, Callable[[int], tuple[str, Any]]] = {
    "topologySpreadConstraints": lambda n: (
        "spec.topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule"} for i in range(n)],
    ),
    "podAffinity.required": lambda n: ("spec.affinity", {"podAffinity": {REQUIRED: [TERM] * n}}),
    "podAntiAffinity.required": lambda n: ("spec.affinity", {"podAntiAffinity": {REQUIRED: [TERM] * n}}),
    "podAffinity.preferred": lambda n: ("spec.affinity", {"podAffinity": {PREFERRED: [WEIGHTED] * n}}),
    "podAntiAffinity.preferred": lambda n: ("spec.affinity", {"podAntiAffinity": {PREFERRED: [WEIGHTED] * n}}),
}
"""Of each list that whoever creates a pod may write, its place in a pod and a value with so many entries."""


def decoded(path: str, value: Any) -> Pod:
    page = decode_items(KIND_NAMED["Pod"], open_page(listed(changed(path, value))), Interner())
    assert not page.faults
    (read,) = page.objects
    assert isinstance(read, Pod)
    return read


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_read_up_to_its_bound_and_beyond_it_nothing_of_the_pods_terms(name: str) -> None:
    """64 entries are read; with 65 the pod has no constraint, affinity or toleration, and says which list it is."""
    full, over = (decoded(*LISTS[name](number)).spec for number in (MOST_TERMS, MOST_TERMS + 1))
    assert full.unread == ""
    assert full.spread
    assert name.partition(".")[0] in over.unread
    assert "65 entries" in over.unread
    assert (over.spread, over.tolerations, over.node_affinity) == ((), (), PodSpec().node_affinity)
    affinity = over.pod_affinity
    assert (affinity.required, affinity.preferred, affinity.anti_required, affinity.anti_preferred) == ((),) * 4
    assert (affinity.unread is not None) == (name == "podAntiAffinity.required")
    assert over.requests == full.requests


@pytest.mark.parametrize(
    ("path", "bound", "word"),
    [
        ("metadata.ownerReferences.1.kind", LONGEST_KIND, "kind"),
        ("metadata.ownerReferences.1.name", LONGEST_NAME, "name"),
        ("spec.topologySpreadConstraints.0.topologyKey", LONGEST_KEY, "topologyKey"),
    ],
)
def test_a_text_is_read_up_to_the_bound_of_the_api(path: str, bound: int, word: str) -> None:
    """A kind, a name and a label's key of the greatest length are read; of a longer one the pod says so."""
    full, over = decoded(path, "x" * bound), decoded(path, "x" * 300_000)
    assert full.spec.unread == ""
    assert word in over.spec.unread
    assert "300,000 characters" in over.spec.unread
    assert over.owner is not None
    assert len(over.owner.kind) <= LONGEST_KIND
    assert len(over.owner.name) <= LONGEST_NAME


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.topologySpreadConstraints.0.labelSelector", {"matchLabels": {f"k{i}": "v" * 60 for i in range(2_000)}}),
        ("spec.nodeSelector", {f"k{i}": "v" * 60 for i in range(2_000)}),
        ("spec.tolerations", [{"key": "k", "operator": "Equal", "value": "v" * 100_000}]),
        ("spec.tolerations", [{"key": f"k{i}", "operator": "Exists"} for i in range(3_000)]),
        ("spec.affinity", {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ON_A]}] * 3_000}}}),
    ],
)
def test_few_terms_that_are_large_are_not_read_either(path: str, value: Any) -> None:
    """One selector with thousands of labels costs as much as thousands of terms."""
    assert "bytes" in decoded(path, value).spec.unread


def test_texts_that_are_kept_are_cut_where_they_end_in_an_ellipsis() -> None:
    """Images, the scheduler's name and annotations are kept for comparison, each up to a bound."""
    long = "x" * 300_000
    image = decoded("spec.containers.0.image", long).spec.images[0]
    scheduler = decoded("spec.schedulerName", long).spec.scheduler
    volumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    kept = decoded("metadata.annotations", {"rebalancer.dev/exclude": long, volumes: long}).annotations
    texts = (image, scheduler, kept["rebalancer.dev/exclude"], kept[volumes])
    assert [*map(len, texts)] == [LONGEST_TEXT, LONGEST_NAME, LONGEST_ANNOTATION, LONGEST_VOLUME_LIST]
    assert all(text.endswith("…") for text in texts)


KEYS, VALUES, NAMESPACES = st.sampled_from("abc"), st.sampled_from("xy"), ("one", "two", "three")


@st.composite
def selectors(draw: st.DrawFn) -> dict[str, Any]:
    expressions = []
    for key in draw(st.lists(KEYS, max_size=2)):
        operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")))
        values = draw(st.lists(VALUES, min_size=1, max_size=2)) if operator.endswith("In") else []
        expressions.append({"key": key, "operator": operator, **({"values": values} if values else {})})
    return {"matchLabels": draw(st.dictionaries(KEYS, VALUES, max_size=2)), "matchExpressions": expressions}


@st.composite
def terms(draw: st.DrawFn) -> dict[str, Any]:
    optional = {
        "labelSelector": draw(st.none() | selectors()),
        "namespaces": draw(st.none() | st.lists(st.sampled_from(NAMESPACES), max_size=2)),
        "namespaceSelector": draw(st.none() | st.just({}) | st.just({"matchLabels": {"team": "one"}})),
    }
    return {"topologyKey": "zone", **{name: value for name, value in optional.items() if value is not None}}


@examples(300)
@given(
    st.lists(terms(), min_size=1, max_size=3),
    st.dictionaries(KEYS, VALUES),
    st.sampled_from(NAMESPACES),
)
def test_whatever_pod_an_unread_term_selects_is_not_predictable(
    written: list[dict[str, Any]], labels: dict[str, str], namespace: str
) -> None:
    """Terms that repel a pod when they are read are found by what is kept of them when they are not."""
    affinity = {"podAntiAffinity": {REQUIRED: written}}
    unread = decoded("spec.affinity", {"podAntiAffinity": {REQUIRED: written * (MOST_TERMS + 1)}})
    read = decode_pod_affinity(WireSpec(affinity=msgspec.convert(affinity, Affinity)))
    other = pod({}, "n", namespace="one", spec=unread.spec)
    asked = pod(labels, namespace=namespace)
    spaces = tuple(Namespace(name=name, labels=Labels({"team": name})) for name in NAMESPACES)
    view = View(snapshot([node("n")], [other], namespaces=spaces))
    selected = any(selects(term, "one", asked, view) for term in read.anti_required)
    assert not selected or unpredictable(asked, view) is not None


@pytest.mark.parametrize(
    ("term", "labels", "namespace", "concerned"),
    [
        ({"labelSelector": {"matchLabels": {"a": "x"}}}, {"a": "y"}, "one", False),
        ({"labelSelector": {"matchLabels": {"a": "x"}}}, {"a": "x"}, "two", False),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, {"b": "x"}, "one", False),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, {"a": "x"}, "one", True),
        ({"labelSelector": {}, "namespaces": ["two"]}, {"a": "x"}, "three", False),
        ({"labelSelector": {}, "namespaces": ["two"]}, {"a": "x"}, "two", True),
        ({"labelSelector": {}, "namespaceSelector": {}}, {}, "three", True),
        ({}, {"a": "x"}, "one", False),
    ],
)
def test_a_pod_that_no_unread_term_can_select_is_predicted(
    term: dict[str, Any], labels: dict[str, str], namespace: str, concerned: bool
) -> None:
    """Thousands of terms about other labels or namespaces do not hold back a tenant's neighbours."""
    entries = [{"topologyKey": "zone", **term}] * (MOST_TERMS + 1)
    unread = decoded("spec.affinity", {"podAntiAffinity": {REQUIRED: entries}})
    view = View(snapshot([node("n")], [pod({}, "n", namespace="one", spec=unread.spec)]))
    assert (unpredictable(pod(labels, namespace=namespace), view) is not None) == concerned


def test_more_labels_than_are_kept_stand_for_any_pod() -> None:
    """What is kept of the terms of one pod is bounded, too; beyond it every pod of the namespaces is concerned."""
    entries = [
        {
            "topologyKey": "zone",
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": [f"{i}"]}]},
        }
        for i in range(4_097)
    ]
    unread = decoded("spec.affinity", {"podAntiAffinity": {REQUIRED: entries}}).spec.pod_affinity.unread
    assert unread is not None
    assert unread.labels == frozenset({None})
    names = [{**TERM, "namespaces": [f"n{i}"]} for i in range(4_097)]
    unread = decoded("spec.affinity", {"podAntiAffinity": {REQUIRED: names}}).spec.pod_affinity.unread
    assert unread is not None
    assert (unread.everywhere, unread.namespaces) == (True, frozenset())
