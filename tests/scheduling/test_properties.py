"""What must hold for every cluster: order and strangers change nothing, indexes and fast paths change nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.cluster import Namespace, Service
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import feasible, prepare_filters
from rebalancer.scheduling.inter_pod_affinity import find_repelled_values
from rebalancer.scheduling.node_index import REPELLING, required_part, tolerates
from rebalancer.scheduling.pod_topology_spread import constraints_of, counts
from rebalancer.scheduling.predict import Prediction, predict
from rebalancer.scheduling.scoring import best
from rebalancer.scheduling.spread_constraints import EffectiveConstraint
from rebalancer.scheduling.view import View
from tests.drawing import examples
from tests.fidelity.offline import decoded
from tests.fidelity.scenes import FAMILIES, scene
from tests.scheduling.build import NOW, changed, pod

clusters = st.builds(
    lambda seed, family: decoded(scene(seed, family=family, newcomers=3)),
    st.integers(min_value=0, max_value=2**32),
    st.sampled_from(FAMILIES),
)
Cluster = tuple[Snapshot, list[Pod]]


def describe(prediction: Prediction) -> Mapping[str, Any]:
    """Everything a prediction says of nodes, whatever their order."""
    return {
        "nodes": {node.name: (dict(node.verdicts), dict(node.scores), node.total) for node in prediction.nodes},
        "candidates": prediction.candidates,
        "failure": prediction.failure,
        "certain": prediction.certain,
    }


def shuffled(items: Sequence[Any], seed: int) -> list[Any]:
    return Random(seed).sample(items, k=len(items))


@examples(60)
@given(cluster=clusters, seed=st.integers())
def test_the_order_of_pods_and_nodes_changes_nothing(cluster: Cluster, seed: int) -> None:
    state, newcomers = cluster
    other = replace(
        state,
        pods=shuffled(state.pods, seed),
        nodes=shuffled(state.nodes, seed),
        services=shuffled(state.services, seed),
        volumes=sorted(state.volumes, key=lambda volume: volume.name),
    )
    for newcomer in newcomers:
        assert describe(predict(newcomer, View(state))) == describe(predict(newcomer, View(other)))


@examples(60)
@given(cluster=clusters)
def test_a_namespace_nobody_means_changes_nothing(cluster: Cluster) -> None:
    state, newcomers = cluster
    means_all = any(
        term.namespace_selector is not None
        for pod in (*state.pods, *newcomers)
        for affinity in [pod.spec.pod_affinity]
        for term in (
            *affinity.required,
            *affinity.anti_required,
            *(preferred.term for preferred in (*affinity.preferred, *affinity.anti_preferred)),
        )
    )
    if means_all:
        return
    strangers = [pod({"app": "web"}, on=node.name, namespace="strangers") for node in state.nodes]
    crowded = [replace_count(node, len(state.pods) + len(strangers)) for node in state.nodes]
    other = replace(
        state,
        pods=(*state.pods, *strangers),
        nodes=crowded,
        namespaces=(*state.namespaces, Namespace(name="strangers")),
        services=(*state.services, Service(namespace="strangers", name="s", selector=Labels({"app": "web"}))),
    )
    for newcomer in newcomers:
        assert describe(predict(newcomer, View(replace(state, nodes=crowded)))) == describe(
            predict(newcomer, View(other))
        )


def replace_count(node: Any, more: int) -> Any:
    """Return the node with capacity for that many more pods, so that their number alone decides nothing."""
    return changed(node, pods=node.pods + more)


@examples(60)
@given(cluster=clusters)
def test_counting_by_index_equals_counting_one_by_one(cluster: Cluster) -> None:
    state, newcomers = cluster
    view = View(state)
    for newcomer in newcomers:
        constraints = constraints_of(newcomer, view)
        for constraint in (*constraints.hard, *constraints.soft):
            assert dict(counts(constraint, newcomer, view).by_domain) == by_hand(constraint, newcomer, view)


def by_hand(constraint: EffectiveConstraint, newcomer: Pod, view: View) -> Mapping[str, int]:
    """Count as one would with the specification at hand and no thought of speed."""
    by_domain: dict[str, int] = {}
    affinity = required_part(newcomer.spec.node_affinity)
    for node in view.snapshot.nodes:
        if not all(key in node.labels for key in constraint.required_keys):
            continue
        if constraint.node_affinity_policy == "Honor" and affinity is not None:
            selected = affinity.selector.items() <= node.labels.items()
            terms = affinity.required
            if not selected or (
                terms is not None
                and not any(
                    (term.expressions or term.fields)
                    and all(expression.matches(node.labels) for expression in term.expressions)
                    and all(field.matches({"metadata.name": node.name}) for field in term.fields)
                    for term in terms
                )
            ):
                continue
        if constraint.node_taints_policy == "Honor" and any(
            taint.effect in REPELLING and not tolerates(newcomer.spec.tolerations, taint) for taint in node.taints
        ):
            continue
        matching = sum(
            1
            for pod in view.snapshot.pods
            if pod.node == node.name
            and pod.namespace == newcomer.namespace
            and pod.deleted is None
            and not pod.finished
            and constraint.selector is not None
            and not constraint.selector.empty
            and constraint.selector.matches(pod.labels)
        )
        value = node.labels[constraint.key]
        by_domain[value] = by_domain.get(value, 0) + matching
    return by_domain


@examples(60)
@given(cluster=clusters)
def test_the_fast_paths_say_what_the_long_ones_say(cluster: Cluster) -> None:
    state, newcomers = cluster
    view = View(state)
    for newcomer in newcomers:
        prediction = predict(newcomer, view)
        passing = {node.name for node in prediction.nodes if node.feasible}
        assert feasible(newcomer, view) == passing == prediction.feasible
        assert best(newcomer, view, prediction.feasible) == prediction.candidates
        for prepare_filter in prepare_filters(newcomer, view):
            one_by_one = {
                name for name in view.nodes.names if prepare_filter.refusal is None and prepare_filter.verdict(name)
            }
            assert prepare_filter.admit(view.nodes.names) == one_by_one, prepare_filter.name


@examples(60)
@given(cluster=clusters, data=st.data())
def test_a_supposed_state_equals_the_same_state_observed(cluster: Cluster, data: st.DataObject) -> None:
    state, newcomers = cluster
    view = View(state)
    pods = {pod.uid: pod for pod in state.pods}
    names = sorted(view.nodes.names)
    for _ in range(data.draw(st.integers(1, 6), label="moves")):
        chosen = data.draw(st.sampled_from([*state.pods, *newcomers[1:]]), label="pod")
        match data.draw(st.sampled_from(("gone", "placed", "terminating")), label="move"):
            case "gone":
                view = view.without([chosen])
                pods.pop(chosen.uid, None)
            case "placed":
                node = data.draw(st.sampled_from(names), label="node")
                view = view.with_placed(chosen, node)
                pods[chosen.uid] = changed(chosen, node=node, deleted=None)
            case _ if chosen.uid in pods:
                view = view.terminating([pods[chosen.uid]])
                pods[chosen.uid] = changed(pods[chosen.uid], deleted=NOW)
            case _:
                pass
    observed = View(replace(state, pods=tuple(pods.values())))
    assert describe(predict(newcomers[0], view)) == describe(predict(newcomers[0], observed))
    assert {placed_pod.pod.uid: (placed_pod.node, placed_pod.terminating) for placed_pod in view.placed_pods()} == {
        placed_pod.pod.uid: (placed_pod.node, placed_pod.terminating) for placed_pod in observed.placed_pods()
    }


@examples(60)
@given(cluster=clusters, data=st.data())
def test_looking_anti_affinity_up_by_label_finds_all_of_it(cluster: Cluster, data: st.DataObject) -> None:
    """The index gives the same result as evaluating every term of every pod, also in hypothetical states."""
    state, newcomers = cluster
    gone = data.draw(st.lists(st.sampled_from(state.pods), unique_by=lambda node: node.uid)) if state.pods else []
    view = View(state).without(gone)
    for newcomer in newcomers:
        if state.nodes:
            view = view.with_placed(newcomer, data.draw(st.sampled_from(state.nodes)).name)
    for newcomer in (*newcomers, *gone):
        naive: dict[str, set[str]] = {}
        for placed in view.placed_pods():
            for term in placed.pod.spec.pod_affinity.anti_required:
                value = view.nodes.values(term.topology_key).get(placed.node or "")
                if value is not None and selects(term, placed.pod.namespace, newcomer, view):
                    naive.setdefault(term.topology_key, set()).add(value)
        assert {key: values for key, values in find_repelled_values(newcomer, view).items() if values} == naive
