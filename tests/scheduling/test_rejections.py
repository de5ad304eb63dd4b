"""Nodes are counted by what rejects them as FailedScheduling counts them, and what would open them does."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm, PodAffinity, PodAffinityTerm, Toleration
from rebalancer.model.labels import LabelSelector, Operator, SelectorRequirement
from rebalancer.model.nodes import Node
from rebalancer.model.pods import HostPort, OwnerReference, Pod, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.openings import admitted_by_spread, find_opening, find_relaxed_constraint
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.rejections import Rejection, count_rejections, describe_rejections, reject_nodes
from rebalancer.scheduling.view import View
from tests.drawing import examples
from tests.scheduling.build import HOSTNAME, ZONE, node, pod, selector, snapshot, spread, taint

PORT = HostPort("0.0.0.0", "TCP", 8080)  # not bound to
SMALL = Resources(cpu=100, memory=2**20, ephemeral_storage=2**30)
FAR = SelectorRequirement("far", Operator("Exists"), ())


def counted(made: Snapshot, coming: Pod) -> list[str]:
    view = View(made)
    return [str(row) for row in count_rejections(reject_nodes(coming, view))]


def only(on: Node, coming: Pod, *others: Pod) -> list[str]:
    """Return what is said of one node."""
    return counted(snapshot([on], list(others)), coming)


@pytest.mark.parametrize(
    ("on", "spec", "others", "said"),
    [
        (node("a", unschedulable=True), PodSpec(), [], "1 is cordoned"),
        (node("a"), PodSpec(node_name="b"), [], "1 is not the node that it names"),
        (node("a", taints=(taint("gpu"),)), PodSpec(), [], "1 has the taint gpu"),
        (node("a", taints=(taint("gpu", value="a100"),)), PodSpec(), [], "1 has the taint gpu=a100"),
        (node("a", taints=(taint("node.kubernetes.io/not-ready"),)), PodSpec(), [], "1 is not Ready"),
        (
            node("a"),
            PodSpec(node_affinity=NodeAffinity(required=(NodeSelectorTerm((FAR,)),))),
            [],
            "1 does not match its node affinity",
        ),
        (
            node("a"),
            PodSpec(
                node_affinity=NodeAffinity(
                    required=(NodeSelectorTerm((), (SelectorRequirement("metadata.name", Operator("In"), ("b",)),)),)
                )
            ),
            [],
            "1 is not named by its node affinity",
        ),
        (
            node("a"),
            PodSpec(host_ports=(PORT,)),
            [pod(on="a", spec=PodSpec(host_ports=(PORT,)))],
            "1 has its host port taken",
        ),
        (node("a", pods=0), PodSpec(), [], "1 runs as many pods as it may"),
        (node("a", allocatable=SMALL), PodSpec(requests=Resources(cpu=200)), [], "1 has not enough cpu"),
        (node("a"), PodSpec(spread=(spread(),)), [], "1 lacks the label of a spread constraint"),
        (
            node("a"),
            PodSpec(
                pod_affinity=PodAffinity(
                    required=(PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"app": "db"})),)
                )
            ),
            [],
            "1 is ruled out by its pod affinity",
        ),
    ],
)
def test_one_node_and_several(on: Node, spec: PodSpec, others: Sequence[Pod], said: str) -> None:
    coming = pod({"app": "web"}, spec=spec)
    assert only(on, coming, *others) == [said]
    twin = structs.replace(on, name="c", labels=on.labels)
    both = counted(
        snapshot([on, twin], [*others, *(structs.replace(one, uid="x", node="c") for one in others)]), coming
    )
    (text,) = both
    assert text.startswith("2 ")


def test_a_node_may_lack_several_things() -> None:
    coming = pod(spec=PodSpec(requests=Resources(cpu=200, memory=2**30)))
    assert only(node("a", allocatable=SMALL), coming) == ["1 has not enough cpu", "1 has not enough memory"]


def test_the_only_node_is_no_number() -> None:
    rows = [Rejection("NodeResourcesFit", "Insufficient cpu", 1), Rejection("NodeResourcesFit", "Too many pods", 1)]
    assert describe_rejections(1, rows) == "the only node has not enough cpu and runs as many pods as it may"
    assert describe_rejections(2, rows) == "of 2 nodes 1 has not enough cpu, 1 runs as many pods as it may"
    assert describe_rejections(0, []) == "no node is there"


def test_other_words_are_the_schedulers() -> None:
    assert str(Rejection("VolumeZone", "node(s) had no available volume zone", 3)) == "3 had no available volume zone"


def test_a_claim_that_is_missing_rejects_every_node() -> None:
    coming = pod(claims=("data",))
    made = snapshot([node("a"), node("b")])
    assert counted(made, coming) == ['2 are ruled out: persistentvolumeclaim "data" not found']
    assert reject_nodes(coming, View(made), nodes=frozenset()) == []


def test_a_node_that_is_promised_to_another_pod() -> None:
    """It is full once the nominated pod has arrived; of nodes that are not asked about nothing is said."""
    takes = PodSpec(requests=Resources(cpu=80))
    made = snapshot([node("a", allocatable=SMALL), node("b", pods=0)], [pod(spec=takes, nominated_node="a")])
    coming = pod(spec=takes)
    assert counted(made, coming) == ["1 has not enough cpu", "1 runs as many pods as it may"]
    view = View(made)
    assert [row.nodes for row in reject_nodes(coming, view, nodes=frozenset({"b"}))] == [{"b"}]
    roomy = snapshot([node("a", pods=1)], [pod(nominated_node="a", spec=PodSpec(priority=1)), pod(on="a")])
    assert counted(roomy, pod()) == ["1 runs as many pods as it may"]


@st.composite
def states(draw: st.DrawFn) -> tuple[Snapshot, Pod]:
    """Draw up to six nodes in two zones, a few pods on them, and one that is to come."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 6)))]
    taints = st.sampled_from([(), (), (taint("gpu"),), (taint("gpu"), taint("node.kubernetes.io/not-ready"))])
    nodes = [
        node(
            name,
            draw(st.sampled_from([{ZONE: "a"}, {ZONE: "b"}, {}])),
            unschedulable=draw(st.booleans()),
            taints=draw(taints),
            allocatable=draw(st.sampled_from([SMALL, Resources(cpu=1000, memory=2**30)])),
            pods=draw(st.sampled_from([1, 110])),
        )
        for name in names
    ]
    labels = {"app": "web"}
    pods = [
        pod(labels, on, spec=draw(st.sampled_from([PodSpec(), PodSpec(host_ports=(PORT,))])))
        for on in draw(st.lists(st.sampled_from(names), max_size=5))
    ]
    constraint = spread(
        draw(st.sampled_from([ZONE, HOSTNAME, "rack"])),
        draw(st.integers(1, 2)),
        selects=LabelSelector.of(labels),
        min_domains=draw(st.sampled_from([None, 3])),
    )
    spec: dict[str, Any] = {"requests": draw(st.sampled_from([Resources(cpu=50), Resources(cpu=200, memory=2**25)]))}
    if draw(st.booleans()):
        spec["spread"] = (constraint,)
    if draw(st.booleans()):
        spec["tolerations"] = (Toleration(key="gpu", operator="Exists"),)
    if draw(st.booleans()):
        spec["host_ports"] = (PORT,)
    return snapshot(nodes, pods), pod(labels, spec=PodSpec(**spec))


@examples(400)
@given(state=states())
def test_the_numbers_are_those_of_the_schedulers_message(state: tuple[Snapshot, Pod]) -> None:
    made, coming = state
    view = View(made)
    rejected = reject_nodes(coming, view)
    left = view.nodes.names.difference(*(row.nodes for row in rejected))
    assert left == feasible(coming, view)
    if left:
        return
    numbers = Counter[str]()
    for row in count_rejections(rejected):
        numbers[row.reason] += row.nodes
    parts = sorted(f"{number} {reason}" for reason, number in numbers.items())
    assert predict(coming, view).failure == f"0/{len(made.nodes)} nodes are available: {', '.join(parts)}."


@examples(400)
@given(state=states())
def test_what_would_open_nodes_does(state: tuple[Snapshot, Pod]) -> None:
    """Carried out as it is said, it lets a node take the pod."""
    made, coming = state
    view = View(made)
    rejected = reject_nodes(coming, view)
    if feasible(coming, view):
        return
    text = find_opening(rejected, admitted_by_spread(coming, view), coming, view)
    if not text:
        return
    assert feasible(coming, View(_carried_out(text, made)))


def _carried_out(text: str, made: Snapshot) -> Snapshot:
    name = text.split(", or tolerate it", maxsplit=1)[0].rsplit(maxsplit=1)[-1]
    (one,) = [each for each in made.nodes if each.name == name]
    if text.startswith("uncordon"):
        changed = structs.replace(one, unschedulable=False)
    elif text.startswith("bring back"):
        changed = structs.replace(one, taints=tuple(each for each in one.taints if "ready" not in each.key))
    elif text.startswith("remove the taint gpu"):
        changed = structs.replace(one, taints=tuple(each for each in one.taints if each.key != "gpu"))
    else:
        assert text.startswith("free ")
        return replace(made, pods=tuple(each for each in made.pods if each.node != name))
    nodes = tuple(changed if each is one else each for each in made.nodes)
    return replace(made, nodes=nodes)


def test_several_nodes_where_one_is_not_enough() -> None:
    """Those are tried one by one, then together; of many only the first say what they lack."""
    nodes = [node(f"n{number}", allocatable=SMALL) for number in range(5)]
    others = [pod(on=one.name, requests=Resources(cpu=60), spec=PodSpec(requests=Resources(cpu=60))) for one in nodes]
    coming = pod(spec=PodSpec(requests=Resources(cpu=90)))
    view = View(snapshot(nodes, others))
    rejected = reject_nodes(coming, view)
    together = find_opening(rejected, view.nodes.names, coming, view, lambda opened: len(opened) == 5)
    assert together == "free 50m cpu on n0, 50m cpu on n1, 50m cpu on n2 and likewise on 2 more"
    assert find_opening(rejected, view.nodes.names, coming, view, lambda _: False) == ""


def test_nothing_is_freed_that_does_not_go() -> None:
    """A node that is too small, pods of its own owner, of a DaemonSet and static ones."""
    takes: dict[str, Any] = {"requests": Resources(cpu=60), "spec": PodSpec(requests=Resources(cpu=60))}
    own = OwnerReference(group="apps", kind="ReplicaSet", name="web", uid="w")
    daemon = OwnerReference(group="apps", kind="DaemonSet", name="agent", uid="d")
    for other, freed in (
        (pod(on="a", **takes), True),
        (pod(on="a", owner=own, **takes), False),
        (pod(on="a", owner=daemon, **takes), False),
        (pod(on="a", mirror=True, **takes), False),
    ):
        view = View(snapshot([node("a", allocatable=SMALL)], [other]))
        for cpu, fits in ((90, freed), (101, False)):
            coming = pod(owner=own, spec=PodSpec(requests=Resources(cpu=cpu)))
            assert bool(find_opening(reject_nodes(coming, view), view.nodes.names, coming, view)) is fits
    for pods, freed in ((1, True), (0, False)):
        view = View(snapshot([node("a", pods=pods)], [pod(on="a")] if pods else []))
        said = find_opening(reject_nodes(pod(), view), view.nodes.names, pod(), view)
        assert said == ("free 1 place on a" if freed else "")


def test_what_is_used_of_other_resources_is_freed() -> None:
    have = Resources(cpu=1000, memory=2**30, ephemeral_storage=100, extended=(("gpu", 1),))
    for needs, said in (
        (Resources(ephemeral_storage=60), "free 20 ephemeral-storage on a"),
        (Resources(extended=(("gpu", 1),)), "free 1 gpu on a"),
        (Resources(memory=2**30), "free 1Mi memory on a"),
    ):
        used = Resources(memory=2**20, ephemeral_storage=60, extended=(("gpu", 1),))
        other = pod(on="a", requests=used, spec=PodSpec(requests=used))
        view = View(snapshot([node("a", allocatable=have)], [other]))
        coming = pod(spec=PodSpec(requests=needs))
        assert find_opening(reject_nodes(coming, view), view.nodes.names, coming, view) == said


def test_of_two_taints_one_is_no_remedy() -> None:
    """Of one key with two values, and of two keys; those of a node that is not Ready go together."""
    for taints, said in (
        ((taint("gpu", value="a"), taint("gpu", "NoExecute", "b")), ""),
        ((taint("gpu", value="a"), taint("other")), ""),
        ((taint("gpu", value="a"),), "remove the taint gpu=a from n, or tolerate it"),
        (
            (taint("node.kubernetes.io/unreachable"), taint("node.kubernetes.io/unreachable", "NoExecute")),
            "bring back n",
        ),
    ):
        view = View(snapshot([node("n", taints=taints)]))
        assert find_opening(reject_nodes(pod(), view), view.nodes.names, pod(), view) == said


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        (spread(max_skew=1), f"set nodeTaintsPolicy: Honor in its constraint over {ZONE}"),
        (spread("rack"), "correct the topologyKey rack, or label the nodes: none has it"),
        (spread(soft=True), ""),
    ],
)
def test_which_change_of_a_constraint_helps(constraint: Any, said: str) -> None:
    """Zone a has a pod, the node of zone b is cordoned."""
    written = structs.replace(constraint, selector=selector(app="web"))
    nodes = [
        node("a1", {ZONE: "a"}),
        node("b1", {ZONE: "b"}, unschedulable=True, taints=(taint("node.kubernetes.io/unschedulable"),)),
    ]
    full = [pod({"app": "web"}, "a1")]
    coming = pod({"app": "web"}, spec=PodSpec(spread=(written,)))
    assert find_relaxed_constraint(coming, View(snapshot(nodes, full))) == said


def test_fewer_domains_are_required_where_there_are_no_more() -> None:
    """Each of two zones holds a pod, and four are required."""
    nodes = [node("a1", {ZONE: "a"}), node("b1", {ZONE: "b"})]
    written = spread(selects=selector(app="web"), min_domains=4, taints="Honor")
    coming = pod({"app": "web"}, spec=PodSpec(spread=(written,)))
    full = [pod({"app": "web"}, name) for name in ("a1", "b1")]
    said = find_relaxed_constraint(coming, View(snapshot(nodes, full)))
    assert said == f"set minDomains: 2 in its constraint over {ZONE}"


def test_more_skew_is_tried_up_to_a_bound() -> None:
    """Zone b is full of other pods; a few more in zone a would do, or too many."""
    nodes = [node("a1", {ZONE: "a"}), node("b1", {ZONE: "b"}, pods=0)]
    written = spread(selects=selector(app="web"))
    coming = pod({"app": "web"}, spec=PodSpec(spread=(written,)))
    for held, said in ((2, f"set maxSkew: 3 in its constraint over {ZONE}"), (4, "")):
        full = [pod({"app": "web"}, "a1") for _ in range(held)]
        assert find_relaxed_constraint(coming, View(snapshot(nodes, full))) == said


def test_a_change_must_place_all_that_wait_beside_a_pod() -> None:
    """Zone b takes none; of two pods that wait the second needs a larger maxSkew, and of many none is named."""
    nodes = [node("a1", {ZONE: "a"}), node("b1", {ZONE: "b"}, pods=0)]
    written = spread(selects=selector(app="web"))
    coming = [pod({"app": "web"}, spec=PodSpec(spread=(written,))) for _ in range(23)]
    view = View(snapshot(nodes, [pod({"app": "web"}, "a1")]))
    assert find_relaxed_constraint(coming[0], view) == f"set maxSkew: 2 in its constraint over {ZONE}"
    assert find_relaxed_constraint(coming[0], view, coming[1:2]) == f"set maxSkew: 3 in its constraint over {ZONE}"
    assert find_relaxed_constraint(coming[0], view, coming[1:]) == ""
    assert find_relaxed_constraint(coming[0], view, [pod({"app": "web"})]) == ""


def test_a_reason_of_the_pod_is_not_said_of_its_nodes() -> None:
    unbound = "pod has unbound immediate PersistentVolumeClaims"
    assert str(Rejection("VolumeBinding", unbound, 3)) == f"3 are ruled out: {unbound}"
    assert str(Rejection("VolumeBinding", unbound, 1)) == f"1 is ruled out: {unbound}"
