"""Each rule of required podAntiAffinity in one state: who conflicts, how many are in excess, what has no placement."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from rebalancer.assessment.anti_affinity.evaluate import NODES_NOT_READ, evaluate_anti_affinity, find_terms_of
from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.pods import OwnerReference, Pod, PodPhase
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from tests.build import a_cluster, away_from, with_anti_affinity, with_node, without_node
from tests.scheduling.build import pod

Terms = Mapping[str, Sequence[PodAffinityTerm]]

APART: Terms = {"web": [away_from("web")]}
WEB, BATCH = Reference("default", "Deployment", "web"), Reference("default", "Deployment", "batch")


def two_apps(web: Mapping[str, int], batch: Mapping[str, int], terms: Terms) -> Snapshot:
    builder = a_cluster("abcd", 1, web)
    builder.deployment("batch", on=batch)
    return with_anti_affinity(builder.snapshot(), terms)


def one_app(on: Mapping[str, int], terms: Terms = APART, zones: str = "abc") -> Snapshot:
    return with_anti_affinity(a_cluster(zones, 1, on).snapshot(), terms)


def changed(snapshot: Snapshot, number: int, **fields: Any) -> Snapshot:
    """Return the cluster with other fields of one pod."""
    pods = [*snapshot.pods]
    pods[number] = structs.replace(pods[number], **fields)
    return replace(snapshot, pods=tuple(pods))


def only(snapshot: Snapshot) -> EvaluatedTerm:
    (one,) = evaluate_anti_affinity(View(snapshot))
    return one


def excess(snapshot: Snapshot) -> Mapping[str, int]:
    """Return the pods in excess by domain, of all terms."""
    return {
        conflict.domain: conflict.excess for one in evaluate_anti_affinity(View(snapshot)) for conflict in one.conflicts
    }


def test_all_but_one_of_the_pods_of_a_node_are_in_excess() -> None:
    one = only(one_app({"a-1": 3, "b-1": 1}, zones="abcd"))
    assert (one.state, one.excess, one.workloads) == (State.VIOLATED, 2, (WEB,))
    (conflict,) = one.conflicts
    assert (conflict.domain, conflict.excess, [len(side.pods) for side in conflict.sides]) == ("a-1", 2, [3])
    assert one.separation == (4, 4, 2)
    assert one.message == "2 pods in excess; 2 domains are free"


def test_a_pod_on_each_node_satisfies_it() -> None:
    one = only(one_app({"a-1": 1, "b-1": 1}))
    assert (one.state, one.excess, one.conflicts, one.separation, one.message) == (State.SATISFIED, 0, (), None, "")


def test_more_pods_than_domains_are_infeasible_with_their_numbers() -> None:
    one = only(one_app({"a-1": 2, "b-1": 2}))
    assert (one.state, one.excess, one.separation) == (State.INFEASIBLE, 2, (4, 3, 1))
    assert one.message == ("2 pods in excess; 4 pods need a domain each, and 3 domains admit them; 1 domain is free")


def test_a_cordoned_node_admits_no_pod() -> None:
    snapshot = with_node(one_app({"a-1": 2, "b-1": 1}), "c-1", unschedulable=True)
    assert only(snapshot).separation == (3, 2, 0)


def test_a_node_without_the_key_takes_any_number() -> None:
    """So that nothing conflicts there, and no number of pods is infeasible."""
    snapshot = with_node(one_app({"a-1": 2, "b-1": 3}), "b-1", labels=Labels({}))
    one = only(snapshot)
    assert (excess(snapshot), one.state, one.separation) == ({"a-1": 1}, State.VIOLATED, (5, None, None))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({"batch": [away_from("web")]}, 1),
        ({"web": [away_from("batch")]}, 1),
        ({"web": [away_from("batch")], "batch": [away_from("web")]}, 1),
    ],
)
def test_either_side_may_declare_it_and_the_smaller_one_is_in_excess(terms: Terms, expected: int) -> None:
    """Three batch pods and one web pod share a node: the web pod alone would have to move."""
    snapshot = two_apps({"a-1": 1, "c-1": 1}, {"a-1": 3}, terms)
    evaluated = evaluate_anti_affinity(View(snapshot))
    assert [one.excess for one in evaluated] == [expected] * len(terms)
    for one in evaluated:
        assert [(side.workload, len(side.pods)) for side in one.conflicts[0].sides] == [(BATCH, 3), (WEB, 1)]
        assert one.concerned == {WEB, BATCH}
    assert list(find_terms_of(WEB, evaluated)) == list(evaluated)


def test_a_terminating_pod_violates_nothing_and_keeps_its_domain() -> None:
    """Neither on a node with another one, nor where it is the only one: that node is not free yet."""
    snapshot = one_app({"a-1": 2, "b-1": 2, "c-1": 1}, zones="abcd")
    leaving = changed(changed(snapshot, 3, deleted=snapshot.taken_at), 4, deleted=snapshot.taken_at)
    assert excess(leaving) == {"a-1": 1}
    assert only(leaving).separation == (3, 4, 1)


@pytest.mark.parametrize("terms", [{"web": [away_from("web")]}, {"web": [away_from("batch"), away_from("web")]}])
def test_a_terminating_pod_that_only_declares_the_term_keeps_its_domain_too(terms: Terms) -> None:
    snapshot = one_app({"a-1": 2, "b-1": 1}, terms)
    relabelled = changed(snapshot, 2, deleted=snapshot.taken_at, labels=Labels({"app": "old"}))
    (one,) = [one for one in evaluate_anti_affinity(View(relabelled)) if one.violated]
    assert one.separation == (2, 3, 1)


def test_a_terminating_pod_that_is_only_selected_keeps_its_domain_too() -> None:
    snapshot = one_app({"a-1": 2})
    leaving = pod({"app": "web"}, "b-1", deleted=snapshot.taken_at)
    assert only(replace(snapshot, pods=(*snapshot.pods, leaving))).separation == (2, 3, 1)


def test_pods_on_nodes_that_are_gone_need_no_domain() -> None:
    snapshot = one_app({"a-1": 2, "b-1": 1})
    assert only(changed(snapshot, 2, node="gone")).separation == (2, 3, 2)


def test_of_several_workloads_that_declare_a_term_all_or_none_of_their_pods_stay() -> None:
    """Two pods of each of two workloads avoid the same three pods: three would have to move."""
    builder = a_cluster("ab", 1, {"a-1": 3})
    for name in ("one", "two"):
        builder.deployment(name, on={"a-1": 2})
    one = only(with_anti_affinity(builder.snapshot(), {name: [away_from("web")] for name in ("one", "two")}))
    assert ([workload.name for workload in one.workloads], one.excess) == (["one", "two"], 3)


def test_one_that_declares_a_term_and_one_that_it_selects_are_two_although_others_are_both() -> None:
    """The term of web selects web alone; batch declares the same one, and shares a node with a web pod of nobody."""
    snapshot = two_apps({"a-1": 1}, {"b-1": 1}, {"web": [away_from("web")], "batch": [away_from("web")]})
    assert excess(replace(snapshot, pods=(*snapshot.pods, pod({"app": "web"}, "b-1")))) == {"b-1": 1}


@pytest.mark.parametrize("phase", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_finished_pods_do_not_count(phase: PodPhase) -> None:
    assert excess(changed(one_app({"a-1": 2}), 0, phase=phase)) == {}


def test_pods_without_a_node_do_not_count() -> None:
    snapshot = one_app({"a-1": 2})
    assert excess(replace(snapshot, pods=(snapshot.pods[0], without_node(snapshot.pods[1])))) == {}


def test_whoever_owns_them_pods_count() -> None:
    """Those of a DaemonSet, and those of nobody, each known by its own name."""
    snapshot = two_apps({"a-1": 1, "b-1": 1}, {}, {"web": [away_from("agent")]})
    owner = OwnerReference(group="apps", kind="DaemonSet", name="agent", uid="agent")
    agents = [pod({"app": "agent"}, "a-1", owner=owner, name="agent-1"), pod({"app": "agent"}, "b-1", name="bare")]
    one = only(replace(snapshot, pods=(*snapshot.pods, *agents)))
    assert one.concerned == {
        WEB,
        Reference("default", "DaemonSet", "agent"),
        Reference("default", "Pod", "bare"),
    }


def test_a_null_selector_selects_nobody_and_an_empty_one_everybody() -> None:
    for selector, expected in ((None, {}), (LabelSelector(), {"a-1": 1})):
        term = PodAffinityTerm(topology_key=HOSTNAME, selector=selector)
        snapshot = two_apps({"a-1": 1}, {"a-1": 1, "b-1": 2}, {"web": [term]})
        assert excess(snapshot) == expected
    assert only(two_apps({"a-1": 1}, {}, {"web": [structs.replace(away_from("web"), selector=None)]})).selected == (
        "no pod (labelSelector is null)"
    )


@pytest.mark.parametrize(
    ("fields", "reaches", "text"),
    [
        ({}, False, "pods that match app=web"),
        ({"namespaces": ("other",)}, True, "pods that match app=web in namespace other"),
        (
            {
                "namespaces": ("nowhere",),
                "namespace_selector": LabelSelector.of({"kubernetes.io/metadata.name": "other"}),
            },
            True,
            "pods that match app=web in namespace nowhere, namespaces that match kubernetes.io/metadata.name=other",
        ),
        ({"namespace_selector": LabelSelector()}, True, "pods that match app=web in every namespace"),
    ],
)
def test_namespaces_and_their_selector_are_a_union(fields: Mapping[str, Any], reaches: bool, text: str) -> None:
    builder = a_cluster("ab", 1)
    builder.deployment("guard", on={"a-1": 1})
    builder.deployment("web", on={"a-1": 1}, namespace="other")
    one = only(with_anti_affinity(builder.snapshot(), {"guard": [away_from("web", **fields)]}))
    assert (one.violated, one.selected) == (reaches, text)


def test_an_empty_selector_is_named() -> None:
    term = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector())
    assert only(one_app({"a-1": 1}, {"web": [term]})).selected == "every pod"


def revisions() -> Snapshot:
    """Return a rollout: an old and a new pod on one node."""
    builder = a_cluster("abc", 1, {"a-1": 2})
    snapshot = builder.snapshot()
    (below,) = (owner for owner in snapshot.workloads if owner.kind == "ReplicaSet")
    newer = structs.replace(below, name="web-new", uid="new")
    reference = OwnerReference(group="apps", kind="ReplicaSet", name="web-new", uid="new")
    fresh = structs.replace(
        snapshot.pods[1], owner=reference, labels=Labels({"app": "web", "pod-template-hash": "new"})
    )
    pods: tuple[Pod, ...] = (snapshot.pods[0], fresh)
    made = replace(snapshot, pods=pods, workloads=(*snapshot.workloads, newer))
    return with_anti_affinity(made, {"web": [away_from("web")]})


def test_two_revisions_of_a_deployment_are_left_alone() -> None:
    snapshot = revisions()
    assert excess(snapshot) == {}
    third = structs.replace(snapshot.pods[1], name="third", uid="third")
    assert excess(replace(snapshot, pods=(*snapshot.pods, third))) == {"a-1": 1}


def test_two_replica_sets_of_nobody_conflict() -> None:
    snapshot = revisions()
    alone = tuple(structs.replace(owner, owner=None) for owner in snapshot.workloads)
    assert excess(replace(snapshot, workloads=alone)) == {"a-1": 1}


def test_match_label_keys_are_in_the_selector_of_the_pod() -> None:
    """The term of each revision is one of its own; only pods of one revision conflict."""
    hashed = [
        structs.replace(away_from("web"), selector=LabelSelector.of({"app": "web", "pod-template-hash": name}))
        for name in ("1", "2")
    ]
    snapshot = one_app({"a-1": 2, "b-1": 1})
    pods = [
        structs.replace(
            one,
            labels=Labels({"app": "web", "pod-template-hash": name}),
            spec=structs.replace(
                one.spec, pod_affinity=structs.replace(one.spec.pod_affinity, anti_required=(hashed[int(name) - 1],))
            ),
        )
        for one, name in zip(snapshot.pods, "112", strict=True)
    ]
    violated, satisfied = sorted(
        evaluate_anti_affinity(View(replace(snapshot, pods=tuple(pods)))), key=lambda one: one.state is State.SATISFIED
    )
    assert (violated.excess, satisfied.excess) == (1, 0)


def test_without_nodes_nothing_is_known() -> None:
    one = only(replace(one_app({"a-1": 2}), nodes=(), unknown=frozenset({"Node"})))
    assert (one.state, one.message, one.violated) == (State.UNKNOWN, NODES_NOT_READ, False)


def test_a_profile_without_the_filter_has_no_terms() -> None:
    profile = Profile(filters_off=frozenset({"InterPodAffinity"}))
    assert evaluate_anti_affinity(View(one_app({"a-1": 2}), profile)) == ()


def test_of_other_namespaces_those_are_evaluated_that_concern_the_scope() -> None:
    builder = a_cluster("ab", 1, {"a-1": 2})
    builder.deployment("guard", on={"a-1": 1}, namespace="other")
    terms = {"web": [away_from("web")], "guard": [away_from("web", namespaces=("default",)), away_from("none")]}
    snapshot = with_anti_affinity(builder.snapshot(), terms)
    inside = replace(snapshot, scope=frozenset({"default"}))
    assert [one.namespace for one in evaluate_anti_affinity(View(inside))] == ["default", "other"]
    elsewhere = replace(snapshot, scope=frozenset({"third"}))
    assert evaluate_anti_affinity(View(elsewhere)) == ()


@pytest.mark.parametrize(
    ("share", "selector", "known"),
    [
        (1, LabelSelector.of({"app": "web"}), True),
        (0, LabelSelector.of({"app": "web"}), False),
        (1, LabelSelector(), False),
    ],
)
def test_what_is_beyond_the_share_of_a_namespace_is_not_evaluated(
    share: int, selector: LabelSelector, known: bool
) -> None:
    """A selector without a value is compared with every set of labels, and counts as often."""
    terms = {"web": [structs.replace(away_from("web"), selector=selector)]}
    (one,) = evaluate_anti_affinity(View(two_apps({"a-1": 2}, {"b-1": 1}, terms)), share)
    assert (one.state is not State.UNKNOWN) == known
    assert ("operations that a namespace has" in one.message) == (not known)


def test_pods_to_be_grouped_count_too() -> None:
    """Twenty of them as an operation; 15 are declaring and selected, which are 30."""
    snapshot = one_app({"a-1": 15})
    assert [one.state for one in evaluate_anti_affinity(View(snapshot), 1)] == [State.UNKNOWN]
    assert [one.state for one in evaluate_anti_affinity(View(snapshot), 2)] == [State.INFEASIBLE]
