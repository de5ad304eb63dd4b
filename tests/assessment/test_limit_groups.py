"""Pods are gathered into the policy's groups: by owner or by labels, in their namespaces, each pod once in a group."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.limit_groups import LimitGroup, desired_pods, find_limit_groups
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Basis, NamespaceFilter, PolicyGroup, Selector
from rebalancer.scheduling.view import View
from tests.assessment.redis import CLUSTER, COMMON, SHARD, machines, redis
from tests.scheduling.build import pod, snapshot

NODES = machines("a", 3)


def gathered(cluster: Snapshot, **fields: Any) -> tuple[LimitGroup, ...]:
    group = PolicyGroup(**{"name": "g", "selector": Selector(), **fields})
    return find_limit_groups(View(cluster), (group,))


def names(group: LimitGroup) -> list[str]:
    return [pod.name for pod in group.pods]


def two_clusters() -> Snapshot:
    one = redis(NODES, [("a1", "a2"), ("a3", None)])
    two = redis(NODES, [("a1", "a1")], cluster="two")
    return replace(one, pods=(*one.pods, *two.pods), workloads=(*one.workloads, *two.workloads))


def test_by_label() -> None:
    """One group for each combination of values; waiting pods are in it, and it knows its owners."""
    first, second = gathered(two_clusters(), group_by=(CLUSTER,))
    assert (first.namespace, first.key, names(first)) == (
        "cache",
        {CLUSTER: "one"},
        ["one-0-0", "one-0-1", "one-1-0", "one-1-1"],
    )
    assert first.owners == (Reference("cache", "StatefulSet", "one-0"), Reference("cache", "StatefulSet", "one-1"))
    assert second.key == {CLUSTER: "two"}
    assert first.name == f"group g cache {CLUSTER}=one"


def test_pods_are_grouped_by_the_values_of_several_labels() -> None:
    keys = [dict(group.key) for group in gathered(two_clusters(), group_by=(CLUSTER, SHARD))]
    assert keys == [{CLUSTER: "one", SHARD: f"one-{n}"} for n in (0, 1)] + [{CLUSTER: "two", SHARD: "two-0"}]


def test_by_workload_with_a_selector() -> None:
    """Only the pods that it matches, each with their own workload."""
    groups = gathered(two_clusters(), selector=Selector(match_labels={CLUSTER: "two"}))
    assert [(dict(group.key), names(group)) for group in groups] == [
        ({"workload": "StatefulSet/two-0"}, ["two-0-0", "two-0-1"])
    ]
    masters = gathered(two_clusters(), selector=Selector(match_labels={"redis-role": "master"}))
    assert [names(group) for group in masters] == [["one-0-0"], ["one-1-0"], ["two-0-0"]]


def test_only_in_its_namespaces() -> None:
    """`exclude` wins."""
    assert gathered(two_clusters(), namespaces=NamespaceFilter(exclude=("ca*",))) == ()
    assert len(gathered(two_clusters(), namespaces=NamespaceFilter(include=("cache",)))) == 3


def test_equal_values_in_two_namespaces_are_two_groups() -> None:
    pods = [pod(COMMON, "a1", namespace=namespace, name="p") for namespace in ("x", "y")]
    groups = gathered(snapshot(NODES, pods), group_by=("cloud.netease.com/app",))
    assert [group.namespace for group in groups] == ["x", "y"]


def test_the_order_of_the_cluster_does_not_matter() -> None:
    """The same pods in any order give the same groups in the same order."""
    cluster = two_clusters()
    turned = replace(cluster, pods=cluster.pods[::-1], workloads=cluster.workloads[::-1])
    for keys in (("Workload",), (CLUSTER,), (SHARD, CLUSTER)):
        wanted = [(group.name, names(group)) for group in gathered(cluster, group_by=keys)]
        assert [(group.name, names(group)) for group in gathered(turned, group_by=keys)] == wanted


values = st.sampled_from(["", "x", "y"])


@given(st.lists(st.dictionaries(st.sampled_from("ab"), values), max_size=8), st.sampled_from([("a",), ("a", "b")]))
def test_each_pod_is_in_the_one_group_of_its_values(labels: Sequence[dict[str, str]], keys: tuple[str, ...]) -> None:
    """Regrouped pod by pod; a pod that lacks a label is in none, an empty value is a value."""
    pods = [pod(own, name=f"p{number}") for number, own in enumerate(labels)]
    wanted: dict[Labels, list[str]] = {}
    for member in pods:
        if all(key in member.labels for key in keys):
            wanted.setdefault(Labels({key: member.labels[key] for key in keys}), []).append(member.name)
    groups = gathered(snapshot(NODES, pods), group_by=keys)
    assert {group.key: sorted(names(group)) for group in groups} == wanted


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4))
def test_a_total_is_what_the_owners_want(owners: list[tuple[int, int]]) -> None:
    """However many pods each of them has now; if none wants any, those that are still there."""
    shards = [(None,) * living for living, _ in owners]
    cluster = redis(NODES, shards)
    wanted = [
        structs.replace(workload, replicas=replicas)
        for workload, (_, replicas) in zip(cluster.workloads, owners, strict=True)
    ]
    groups = gathered(replace(cluster, workloads=tuple(wanted)), group_by=(CLUSTER,))
    living, desired = sum(here for here, _ in owners), sum(replicas for _, replicas in owners)
    if not groups:
        assert living == desired == 0
        return
    (group,) = groups
    assert desired_pods(group.parts, Basis.DESIRED, group.population) == (desired or living)
    assert desired_pods(group.parts, Basis.LIVE, group.population) == living
