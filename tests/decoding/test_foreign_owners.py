"""Of an owner whose shape is not known, numbers, selector and template are read where there are any."""

import json
from typing import Any

import pytest

from rebalancer.adapters.files import SnapshotFile, read_snapshot, reduce_snapshots
from rebalancer.decoding.foreign_owners import Scale
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import make_owner_kind
from rebalancer.decoding.lists import decode
from rebalancer.decoding.reduction import reduced_list
from rebalancer.model.cluster import NEWEST
from rebalancer.model.snapshot import Fault, Snapshot
from rebalancer.model.workloads import Workload

WAITING = {"status": {"phase": "Pending"}}
CONTAINERS = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}


def read(spec: Any, status: Any = None, scale: Scale | None = None) -> Workload | Fault:
    kind = make_owner_kind("CloneSet", "apps.kruise.io", "v1", "clonesets", scale=scale)
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "generation": 7}
    made = decode(kind, json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode(), Interner())
    assert isinstance(made, Workload | Fault)
    return made


def owner(spec: Any, status: Any = None, scale: Scale | None = None) -> Workload:
    made = read(spec, status, scale)
    assert isinstance(made, Workload), made
    return made


@pytest.mark.parametrize(
    ("spec", "path", "replicas"),
    [
        ({"replicas": 3}, ".spec.replicas", 3),
        ({"replicas": 0}, ".spec.replicas", 0),
        ({"size": {"wanted": 5}, "replicas": 3}, ".spec.size.wanted", 5),
        ({"pods": [{}, {}]}, ".spec.replicas", 2),
        ({"pods": [{}, {}], "replicas": 4}, ".spec.replicas", 4),
    ],
)
def test_replicas_are_where_the_scale_has_them_else_the_pods_that_are_listed(
    spec: Any, path: str, replicas: int
) -> None:
    assert owner(spec, scale=Scale(replicas=path)).replicas == replicas


@pytest.mark.parametrize("spec", [None, {}, {"replicas": "many"}, {"replicas": -1}, {"replicas": True}, {"pods": 3}])
def test_without_a_number_the_object_is_malformed_and_the_field_is_named(spec: Any) -> None:
    made = read(spec)
    assert isinstance(made, Fault)
    assert "spec.replicas: expected the number of pods" in made.message
    assert str(made).startswith("CloneSet shop/web")


@pytest.mark.parametrize(
    ("spec", "status", "selector"),
    [
        ({"selector": {"matchLabels": {"app": "web"}}}, None, "app=web"),
        ({"selector": "app=web"}, None, None),
        ({}, {"text": "app=web, tier == front"}, "app=web,tier=front"),
        ({}, {"text": "app in (web)"}, None),
        ({}, {"text": ""}, None),
        ({}, {"text": 3}, None),
        ({"selector": {"matchLabels": {"app": 3}}}, None, None),
        ({"selector": {"other": {}}}, {"text": "app=web"}, "app=web"),
    ],
)
def test_a_selector_is_that_of_the_spec_or_of_the_scale(spec: Any, status: Any, selector: str | None) -> None:
    made = owner({**spec, "replicas": 1}, status, Scale(selector=".status.text"))
    assert (str(made.selector) if made.selector is not None else None) == selector


@pytest.mark.parametrize(
    ("template", "known"),
    [
        (CONTAINERS, True),
        (None, False),
        ({"spec": {"nodeSets": []}}, False),
        ({"spec": None}, False),
        ({}, False),
    ],
)
def test_only_a_template_of_pods_is_one(template: Any, known: bool) -> None:
    made = owner({"replicas": 1, "template": template})
    assert (made.template is not None) is known
    assert made.keeps_pods is not known
    assert made.template is None or made.template.requests.cpu == 1000


@pytest.mark.parametrize(
    "template",
    [
        "template",
        [CONTAINERS],
        {"spec": {"containers": "all"}},
        {"spec": []},
        {"spec": {**CONTAINERS["spec"], "topologySpreadConstraints": [{"maxSkew": "1"}]}},
    ],
)
def test_a_template_that_cannot_be_read_is_none_of_pods_that_come_back_as_they_are(template: Any) -> None:
    made = read({"replicas": 1, "template": template})
    assert isinstance(made, Fault)
    assert made.message.startswith("spec.template: expected a template of pods")


def test_an_owner_without_a_namespace_is_not_read() -> None:
    """Its pods may be in several, each with rules of its own."""
    snapshot, _ = load(
        {
            "apiVersion": "agents.example/v1",
            "kind": "Agent",
            "metadata": {"name": "a", "uid": "a"},
            "spec": {"replicas": 1},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "a-0",
                "namespace": "shop",
                "ownerReferences": [
                    {"apiVersion": "agents.example/v1", "kind": "Agent", "name": "a", "uid": "a", "controller": True}
                ],
            },
            **WAITING,
        },
    )
    assert not snapshot.workloads
    assert "metadata.namespace: expected one" in snapshot.unread_owners["Agent.agents.example /a"]


def test_two_kinds_of_one_name_are_two_where_both_have_an_owner_of_one_name() -> None:
    first, second = (
        of_pods("postgresql.cnpg.io/v1", "Cluster", replicas=1),
        of_pods("other.example/v1", "Cluster", replicas=2),
    )
    assert [str(owner) for owner in load(*first)[0].workloads] == ["shop/web (Cluster)"]
    assert sorted(str(owner) for owner in load(*first, *second)[0].workloads) == [
        "shop/web (Cluster.other.example)",
        "shop/web (Cluster.postgresql.cnpg.io)",
    ]


@pytest.mark.parametrize(
    ("kind", "policy", "ordered"),
    [
        ("StatefulSet", None, True),
        ("StatefulSet", "OrderedReady", True),
        ("StatefulSet", "Parallel", False),
        ("CloneSet", None, False),
        ("CloneSet", "OrderedReady", True),
    ],
)
def test_a_kind_like_a_stateful_set_creates_its_pods_in_order(kind: str, policy: str | None, ordered: bool) -> None:
    (owner,) = load(*of_pods("apps.kruise.io/v1", kind, replicas=1, podManagementPolicy=policy))[0].workloads
    assert owner.ordered is ordered


@pytest.mark.parametrize(("written", "seconds"), [(300, 300), (None, 600), ("5m", 600)])
def test_a_progress_deadline_is_read_where_it_is_a_number(written: object, seconds: int) -> None:
    (owner,) = load(*of_pods("argoproj.io/v1alpha1", "Rollout", replicas=1, progressDeadlineSeconds=written))[
        0
    ].workloads
    assert owner.progress_deadline_seconds == seconds


def test_a_status_counts_where_it_says_something() -> None:
    made = owner({"replicas": 3})
    assert (made.current, made.ready, made.updated, made.observed, made.paused) == (3, 3, 3, True, False)
    status = {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 0, "observedGeneration": "6"}
    made = owner({"replicas": 3, "paused": True}, status)
    assert (made.current, made.ready, made.updated, made.observed, made.paused) == (2, 1, 0, False, True)
    made = owner({"replicas": 3}, {"replicas": "many", "currentPods": 2, "observedGeneration": 7})
    assert (made.current, made.updated, made.observed) == (3, 2, True)


def of_pods(api_version: str, kind: str, **spec: Any) -> list[dict[str, Any]]:
    """Return an owner and a pod of it."""
    metadata = {"name": "web", "namespace": "shop", "uid": f"{api_version}-{kind}"}
    reference = {"apiVersion": api_version, "kind": kind, "name": "web", "uid": metadata["uid"], "controller": True}
    pod = {
        "name": f"{kind.lower()}-{api_version.partition('/')[0]}-0",
        "namespace": "shop",
        "uid": f"pod-{api_version}-{kind}",
        "ownerReferences": [reference],
    }
    return [
        {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec},
        {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": {"containers": [{"name": "app"}]}, **WAITING},
    ]


def load(*items: dict[str, Any]) -> tuple[Snapshot, bytes]:
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    return read_snapshot(data, version=NEWEST, at=None, source="file")[0], data


def test_of_a_file_only_what_controls_pods_is_read() -> None:
    items = of_pods("apps.kruise.io/v1", "CloneSet", replicas=1)
    other = {"apiVersion": "cert.example/v1", "kind": "Certificate", "metadata": {"name": "c"}, "spec": {"replicas": 1}}
    snapshot, _ = load(*items, other, *of_pods("batch/v1", "Job", parallelism=1))
    assert [str(owner) for owner in snapshot.workloads] == ["shop/web (CloneSet)"]
    assert not snapshot.unread_owners
    assert not snapshot.faults


def test_an_owner_of_a_file_without_a_number_is_no_warning_and_its_reason_is_kept() -> None:
    """The policy may not list it at all: an Argo Workflow, say."""
    snapshot, _ = load(*of_pods("argoproj.io/v1", "Workflow"))
    assert not snapshot.faults
    assert list(snapshot.unread_owners) == ["Workflow.argoproj.io shop/web"]


def test_a_foreign_kind_of_a_name_of_ours_is_named_with_its_group() -> None:
    snapshot, _ = load(
        *of_pods("apps.kruise.io/v1", "StatefulSet", replicas=1), *of_pods("apps/v1", "StatefulSet", replicas=1)
    )
    assert [str(owner) for owner in snapshot.workloads] == [
        "shop/web (StatefulSet)",
        "shop/web (StatefulSet.apps.kruise.io)",
    ]
    assert {pod.owner.kind for pod in snapshot.pods if pod.owner} == {"StatefulSet", "StatefulSet.apps.kruise.io"}


def test_a_reduced_file_has_the_same_owners() -> None:
    template = {"metadata": {"annotations": {"private": "x"}}, **CONTAINERS}
    items = of_pods("apps.kruise.io/v1", "CloneSet", replicas=2, template=template, secret="x")
    snapshot, data = load(*items)
    reduced, kinds, faults, _ = reduce_snapshots([SnapshotFile("file", data)])
    assert not faults
    dump = b"".join(reduced_list(reduced, kinds, ""))
    assert b"secret" not in dump
    assert b"private" not in dump
    again = read_snapshot(dump, version=NEWEST, at=None, source="dump")[0]
    assert list(again.workloads) == list(snapshot.workloads)
