"""Which nodes the next pod may use, by annotations of its namespace and by its RuntimeClass."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.creation.node_selectors import Plugin, heeds
from rebalancer.creation.replacement import replacement
from rebalancer.model.affinity import NodeAffinity, Toleration
from rebalancer.model.cluster import Namespace
from rebalancer.model.creation import RuntimeClass
from rebalancer.model.labels import NO_LABELS, Labels
from rebalancer.model.nodes import Node
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

NOW = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
KEYS = ("scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector")
FAST = Labels({"disk": "fast"})
NODES = (Node(name="a", labels=FAST, created=NOW), Node(name="b", created=NOW))


def a_pod(namespace: str = "shop", name: str = "web-1", selector: Labels = NO_LABELS, kind: str = "ReplicaSet") -> Pod:
    return Pod(
        namespace=namespace,
        name=name,
        uid=f"{namespace}/{name}",
        labels=Labels({"pod-template-hash": "1"}),
        spec=PodSpec(node_affinity=NodeAffinity(selector=selector)),
        node="a",
        phase=PodPhase.RUNNING,
        created=NOW - HOUR,
        owner=OwnerReference(group="apps", kind=kind, name="web", uid=f"{namespace}-owner"),
    )


def a_namespace(text: str, *, key: str = KEYS[0], name: str = "shop", changed: datetime | None = None) -> Namespace:
    return Namespace(name=name, annotations=Labels({key: text}), changed=changed)


def an_owner(written: Labels = NO_LABELS, runtime_class: str = "") -> Workload:
    spec = PodSpec(runtime_class=runtime_class, node_affinity=NodeAffinity(selector=written))
    return Workload(
        group="apps",
        kind="ReplicaSet",
        namespace="shop",
        name="web",
        uid="shop-owner",
        created=NOW,
        revision="1",
        template=PodTemplate(spec=spec),
    )


def next_pod(
    *pods: Pod,
    namespaces: tuple[Namespace, ...] = (),
    written: Labels = NO_LABELS,
    runtime_class: str = "",
    **objects: Any,
) -> Pod | Unpredictable:
    fields = {"nodes": NODES, **objects}
    owner = an_owner(written, runtime_class)
    snapshot = Snapshot(taken_at=NOW, pods=pods, workloads=(owner,), namespaces=namespaces, **fields)
    return replacement(pods[0], View(snapshot))


def selector_of(made: Pod | Unpredictable) -> Labels:
    assert isinstance(made, Pod), made
    return made.spec.node_affinity.selector


@pytest.mark.parametrize("key", KEYS)
def test_what_pods_of_any_namespace_show_counts_in_every_one(key: str) -> None:
    other = a_namespace("zone=x", key=key, name="other")
    shown = a_pod("other", selector=Labels({"zone": "x"}))
    plain = Namespace(name="plain")
    made = next_pod(a_pod(), shown, namespaces=(plain, a_namespace("disk=fast", key=key), other))
    assert selector_of(made) == FAST


def test_a_pod_that_has_it_already_keeps_its_own() -> None:
    pod = a_pod(selector=FAST)
    assert next_pod(pod, namespaces=(a_namespace("disk=fast"),)) is not None
    assert selector_of(next_pod(pod, namespaces=(a_namespace("disk=fast"),))) is pod.spec.node_affinity.selector


def test_a_pod_without_it_that_is_younger_than_the_annotation_shows_that_nobody_heeds_it() -> None:
    older = a_namespace("disk=fast", changed=NOW - 2 * HOUR)
    assert selector_of(next_pod(a_pod(), namespaces=(older,))) == {}


@pytest.mark.parametrize("changed", [None, NOW], ids=["nobody knows when it was made", "it is younger than the pods"])
def test_else_it_is_not_known_and_said_so(changed: datetime | None) -> None:
    made = next_pod(a_pod(), namespaces=(a_namespace("disk=fast", changed=changed),))
    assert isinstance(made, Unpredictable)
    assert KEYS[0] in made.message


def test_but_where_all_nodes_have_the_labels_it_does_not_matter() -> None:
    made = next_pod(a_pod(), namespaces=(a_namespace("disk=fast"),), nodes=NODES[:1])
    assert selector_of(made) == {}


def test_a_template_that_contradicts_it_is_refused_by_the_api_server() -> None:
    slow = Labels({"disk": "slow"})
    other = a_namespace("zone=x", name="other")
    shown = a_pod("other", selector=Labels({"zone": "x"}))
    made = next_pod(a_pod(selector=slow), shown, namespaces=(a_namespace("disk=fast"), other), written=slow)
    assert isinstance(made, Unpredictable)
    assert made.reason is Reason.TEMPLATE_REFUSED
    assert "disk=slow" in made.message
    assert "disk=fast" in made.message


def test_a_pod_whose_template_has_the_labels_itself_shows_nothing() -> None:
    mine = a_pod(selector=FAST, name="web-2")
    older = a_namespace("disk=fast", changed=NOW - 2 * HOUR)
    assert selector_of(next_pod(mine, namespaces=(older,), written=FAST)) == FAST
    assert heeds(KEYS[0], Snapshot(taken_at=NOW, pods=(mine,), workloads=(an_owner(FAST),), namespaces=(older,))) is (
        Plugin.UNKNOWN
    )


def test_pods_of_daemon_sets_and_without_an_owner_show_nothing() -> None:
    older = a_namespace("disk=fast", changed=NOW - 2 * HOUR, name="other")
    pods = (a_pod("other", kind="DaemonSet"), a_pod("shop"))
    assert isinstance(next_pod(pods[1], pods[0], namespaces=(a_namespace("disk=fast"), older)), Unpredictable)


@pytest.mark.parametrize("text", ["", "nonsense", ","])
def test_an_annotation_that_names_no_labels_adds_none(text: str) -> None:
    assert selector_of(next_pod(a_pod(), namespaces=(a_namespace(text),))) == {}


def test_the_runtime_class_adds_its_selector_and_tolerations() -> None:
    toleration = Toleration(key="kata", operator="Exists")
    known = RuntimeClass(name="kata", node_selector=FAST, tolerations=(toleration,))
    pod = a_pod()
    with_class = structs.replace(pod, spec=PodSpec(runtime_class="kata"))
    made = next_pod(with_class, runtime_class="kata", runtime_classes=(known,))
    assert selector_of(made) == FAST
    assert isinstance(made, Pod)
    assert made.spec.tolerations == (toleration,)
    again = structs.replace(pod, spec=made.spec)
    assert isinstance(kept := next_pod(again, runtime_class="kata", runtime_classes=(known,)), Pod)
    assert kept.spec is made.spec
