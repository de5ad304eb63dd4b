"""Kubernetes JSON becomes the model; what is malformed costs itself and nothing else."""

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KINDS, PODS
from rebalancer.decoding.lists import (
    FileContents,
    UnreadableList,
    decode_file,
    decode_items,
    make_snapshot,
    open_page,
)
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.pods import HostPort, LocalStorage, LocalVolume, Pod, PodPhase, Resources
from rebalancer.model.snapshot import Fault
from rebalancer.model.spread import InclusionPolicy, WhenUnsatisfiable
from rebalancer.model.workloads import Workload

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web"},
        "annotations": {"rebalancer.dev/exclude": "true", "secret/thing": "x"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "x"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r1", "controller": True},
        ],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [
            {
                "name": "a",
                "image": "img:1",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi", "example.com/gpu": "2"}},
                "ports": [
                    {"hostPort": 80},
                    {"hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"},
                    {"containerPort": 1},
                ],
            },
            {"name": "b", "image": "img:2"},
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "nodeTaintsPolicy": "Honor",
                "minDomains": 3,
                "matchLabelKeys": ["hash"],
            }
        ],
        "volumes": [
            {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "t", "emptyDir": {}},
        ],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:05:00Z"}],
    },
}


@pytest.mark.parametrize(
    ("volume", "kind"),
    [
        ({"emptyDir": {}}, LocalStorage.EMPTY_DIR),
        ({"emptyDir": {"medium": "", "sizeLimit": "1Gi"}}, LocalStorage.EMPTY_DIR),
        ({"emptyDir": {"medium": "HugePages-2Mi"}}, LocalStorage.EMPTY_DIR),
        ({"emptyDir": {"medium": "Memory"}}, None),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, LocalStorage.EPHEMERAL),
        ({"hostPath": {"path": "/var/log"}}, LocalStorage.HOST_PATH),
        ({"persistentVolumeClaim": {"claimName": "data"}}, None),
        ({"configMap": {"name": "settings"}}, None),
        ({"projected": {"sources": []}}, None),
        ({"secret": {"secretName": "tls"}}, None),
    ],
)
def test_volumes_whose_data_stays_on_the_node(volume: dict[str, Any], kind: LocalStorage | None) -> None:
    """An emptyDir in memory is none, nor is anything that another node can read again."""
    pod = decode_file(FileContents.of(listed(changed("spec.volumes", [{"name": "v", **volume}])))).objects["pods"][0]
    assert isinstance(pod, Pod)
    assert pod.local_volumes == ((LocalVolume("v", kind),) if kind is not None else ())


def listed(*items: Any, kind: str = "List") -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {}, "items": items}).encode()


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the pod with one field changed; the path's parts are separated by dots."""
    pod = deepcopy(POD)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = pod
    for part in parents:
        target = target[part]
    target[last] = value
    return pod


def test_a_pod() -> None:
    """Every field that somebody reads arrives, and annotations that nobody reads do not."""
    pod = decode_file(FileContents.of(listed(POD))).objects["pods"][0]
    assert isinstance(pod, Pod)
    assert (pod.namespace, pod.name, pod.uid, pod.node, pod.resource_version) == ("shop", "web-1", "u1", "n1", "7")
    assert pod.labels == Labels(app="web")
    assert pod.annotations == {"rebalancer.dev/exclude": "true"}
    assert pod.owner is not None
    assert (pod.owner.group, pod.owner.kind, pod.owner.uid) == ("apps", "ReplicaSet", "r1")
    assert pod.requests == Resources(cpu=100, memory=64 * 2**20, extended=(("example.com/gpu", 2),))
    assert pod.scored == (200, 264 * 2**20), "100m and 200Mi for the container without requests"
    assert pod.spec.host_ports == (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "UDP", 81))
    assert pod.claims == ("data", "web-1-e")
    assert (pod.phase, pod.ready, pod.mirror) == (PodPhase.RUNNING, True, False)
    assert pod.local_volumes == (LocalVolume("e", LocalStorage.EPHEMERAL), LocalVolume("t", LocalStorage.EMPTY_DIR))
    assert pod.ready_since == datetime(2026, 1, 2, 3, 5, tzinfo=UTC)
    spread = pod.spec.spread[0]
    assert (spread.max_skew, spread.topology_key, spread.min_domains, spread.match_label_keys) == (
        2,
        "zone",
        3,
        ("hash",),
    )
    assert spread.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    assert (spread.node_affinity_policy, spread.node_taints_policy) == (InclusionPolicy.HONOR, InclusionPolicy.HONOR)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("spec.containers.0.resources.requests.cpu", "1x", ["spec.containers[0].resources.requests.cpu", "1x"]),
        (
            "spec.containers.0.resources.requests.cpu",
            "-1",
            ["spec.containers[0].resources.requests.cpu", "-1", "negative"],
        ),
        ("spec.topologySpreadConstraints.0.maxSkew", 0, ["spec.topologySpreadConstraints[0].maxSkew", "0"]),
        ("spec.topologySpreadConstraints.0.maxSkew", "1", ["spec.topologySpreadConstraints[0].maxSkew", "int"]),
        (
            "spec.topologySpreadConstraints.0.whenUnsatisfiable",
            "Maybe",
            ["whenUnsatisfiable", "Maybe", "DoNotSchedule"],
        ),
        ("spec.topologySpreadConstraints.0.topologyKey", "", ["spec.topologySpreadConstraints[0].topologyKey"]),
        ("spec.topologySpreadConstraints.0.minDomains", 0, ["spec.topologySpreadConstraints[0].minDomains"]),
        (
            "spec.topologySpreadConstraints.0.labelSelector",
            {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]},
            ["spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator", "Near"],
        ),
        (
            "spec.topologySpreadConstraints.0.labelSelector",
            {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
            ["matchExpressions[0].values", "In"],
        ),
        (
            "spec.topologySpreadConstraints.0.labelSelector",
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
            ["matchExpressions[0].operator", "Gt"],
        ),
        ("spec.tolerations", [{"operator": "Near"}], ["spec.tolerations[0].operator", "Near"]),
        ("spec.tolerations", [{"operator": "Equal"}], ["spec.tolerations[0].operator", "Exists"]),
        ("spec.tolerations", [{"key": "a", "effect": "Never"}], ["spec.tolerations[0].effect", "Never"]),
        ("status.phase", "Sleeping", ["status.phase", "Sleeping"]),
        ("metadata.creationTimestamp", "2026-01-02T03:04:05", ["metadata.creationTimestamp", "timezone"]),
        ("status.conditions.0.lastTransitionTime", "yesterday", ["status.conditions[0].lastTransitionTime"]),
        ("metadata.labels", {"a": 1}, ["metadata.labels", "str"]),
        ("spec", 5, ["spec", "int"]),
    ],
)
def test_a_malformed_pod_is_left_out(path: str, value: Any, words: list[str]) -> None:
    """The fault names object, field and value; the pods beside it are read."""
    gathered = decode_file(FileContents.of(listed(changed(path, value), changed("metadata.uid", "u2"))))
    assert [pod.name for pod in gathered.objects["pods"]] == ["web-1"]
    fault = gathered.faults[0]
    assert (fault.kind, fault.namespace, fault.name) == ("Pod", "shop", "web-1")
    for word in words:
        assert word in str(fault)


def test_a_pod_without_a_name_is_left_out() -> None:
    """Even an object that does not say who it is costs only itself."""
    gathered = decode_file(
        FileContents.of(listed({"kind": "Pod", "metadata": {}}, {"kind": "Pod", "metadata": 5}, POD))
    )
    assert len(gathered.faults) == 2
    assert len(gathered.objects["pods"]) == 1
    assert str(gathered.faults[1]).startswith("Pod (unnamed): ")


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"{}", b'{"items": 5}', b"\xff\xfe", b"kind: List"])
def test_what_is_no_list(data: bytes) -> None:
    """A document that is no list is an error of its own, not an empty cluster."""
    with pytest.raises(UnreadableList):
        decode_file(FileContents.of(data))


def test_absent_is_not_empty() -> None:
    """A kind that a mixed list does not mention is unknown; an empty list of a kind says that there is none."""
    decoded = decode_file(FileContents.of(listed(POD, {"kind": "Secret", "metadata": {"name": "x"}})))
    gathered = make_snapshot(decoded.objects, taken_at=datetime.now(UTC), known=decoded.kinds)
    assert gathered.unknown == {kind.name for kind in KINDS} - {"Pod"}
    assert decode_file(FileContents.of(listed(kind="NodeList"))).kinds == {"Node"}


def test_pages() -> None:
    """A page says where the list goes on, and its items need no kind."""
    item = {key: value for key, value in POD.items() if key not in {"kind", "apiVersion"}}
    data = json.dumps({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [item, {"metadata": {}}]})
    page = decode_items(PODS, open_page(data.encode()), Interner())
    assert (len(page.objects), page.resource_version, page.continue_token) == (1, "9", "more")
    assert isinstance(page.faults[0], Fault)


@pytest.mark.parametrize("note", ["", 'the first of "items":[', "x" * 5_000])
@pytest.mark.parametrize("fields", [("metadata", "items"), ("items", "metadata")])
def test_the_token_of_a_page_is_found_wherever_it_is(note: str, fields: tuple[str, str]) -> None:
    """Before the objects or after them, beside a text that looks like their beginning, and behind a long one."""
    metadata = {"annotations": {"note": note}, "resourceVersion": "9", "continue": "more"}
    parts = {"metadata": metadata, "items": [POD, POD]}
    page = open_page(json.dumps({field: parts[field] for field in fields}, separators=(",", ":")).encode())
    assert (page.resource_version, page.continue_token, len(page.items)) == ("9", "more", 2)


def test_a_malformed_object_changes_nothing_of_the_others_of_its_page() -> None:
    """Although the objects of such a page are decoded one by one, those of others together."""
    others = [{**POD, "metadata": {**POD["metadata"], "name": f"web-{number}"}} for number in range(3)]
    malformed = {**POD, "spec": {**POD["spec"], "containers": "none"}}
    alone = decode_items(PODS, open_page(listed(*others)), Interner())
    beside = decode_items(PODS, open_page(listed(others[0], malformed, *others[1:])), Interner())
    assert (beside.objects, len(beside.faults)) == (alone.objects, 1)
    assert [pod.name for pod in alone.objects] == ["web-0", "web-1", "web-2"]


def long_page(*pods: Mapping[str, Any]) -> bytes:
    """Return a page as the API server writes it, of several parts: metadata first, no space, and a line break."""
    listing = {"metadata": {"resourceVersion": "9"}, "items": pods}
    data = json.dumps(listing, separators=(",", ":")).encode() + b"\n"
    assert len(data) > 4 * 128 * 1024
    return data


@pytest.mark.parametrize(
    "beside",
    [
        {},
        {"annotations": {"last-applied": '[{"metadata":{}},{"metadata":{}},{"metadata":{}}]]}'}},
        {"managedFields": [{"metadata": {"name": "no object"}}] * 500},
    ],
)
def test_a_long_page_is_the_same_pods_as_short_ones(beside: Mapping[str, Any]) -> None:
    """Whatever looks like the beginning of an object within one, and wherever a malformed one is."""
    metadata, rest = POD["metadata"], {"spec": POD["spec"], "status": POD["status"], "more": "x" * 2_000}
    pods = [{"metadata": {**metadata, "name": f"web-{number}", **beside}, **rest} for number in range(400)]
    malformed = {**pods[0], "spec": {**POD["spec"], "containers": "none"}}
    alone = [decode_items(PODS, open_page(listed(pod)), Interner()).objects[0] for pod in pods]
    whole = decode_items(PODS, open_page(long_page(*pods)), Interner())
    assert (whole.objects, whole.faults) == (alone, [])
    for place in (0, 123, 400):
        page = decode_items(PODS, open_page(long_page(*pods[:place], malformed, *pods[place:])), Interner())
        assert (page.objects, len(page.faults)) == (alone, 1)


def test_a_page_that_is_cut_off_or_goes_on_is_no_list() -> None:
    """However many of its objects are whole."""
    data = long_page(*[{**POD, "more": "x" * 2_000}] * 400)
    for other in (data[:-2], data[:-3], data[:-200_000], data + b"x", data + data):
        with pytest.raises(UnreadableList):
            decode_items(PODS, open_page(other), Interner())


def test_a_template_names_a_required_node_and_a_pod_the_node_where_it_runs() -> None:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "r1", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {**POD["spec"], "nodeName": "n1"}}},
    }
    decoded = decode_file(FileContents.of(listed(POD, owner))).objects
    (pod,), (workload,) = decoded["pods"], decoded["workloads"]
    assert isinstance(pod, Pod)
    assert (pod.node, pod.spec.node_name) == ("n1", None)
    assert isinstance(workload, Workload)
    assert workload.template is not None
    assert workload.template.spec.node_name == "n1"


def test_equal_specs_are_one_object() -> None:
    """Thousands of pods share a handful of specs and label sets."""
    pods = decode_file(FileContents.of(listed(POD, changed("metadata.uid", "u2")))).objects["pods"]
    assert pods[0].spec is pods[1].spec
    assert pods[0].labels is pods[1].labels


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"initContainers": [{"resources": {"requests": {"cpu": "1"}}}]}, 1000),
        ({"initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]}, 1100),
        (
            {
                "initContainers": [
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                    {"resources": {"requests": {"cpu": "500m"}}},
                ]
            },
            1500,
        ),
        ({"overhead": {"cpu": "10m"}}, 110),
        ({"resources": {"requests": {"cpu": "2"}}}, 2000),
        ({"containers": [{"resources": {"limits": {"cpu": "3"}}}]}, 3000),
        ({"containers": [{"resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}}]}, 1000),
    ],
)
def test_effective_requests(spec: dict[str, Any], expected: int) -> None:
    """Init containers run one by one, sidecars beside all, pod-level requests replace, overhead comes on top.

    A limit is a request where there is no other: of templates nobody has written that.
    """
    pod = deepcopy(POD)
    pod["spec"].update(spec)
    assert decode_file(FileContents.of(listed(pod))).objects["pods"][0].requests.cpu == expected


SIDECAR = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "70m"}}}


@pytest.mark.parametrize(
    ("init", "overhead", "expected"),
    [
        ([], {}, None),
        ([{"resources": {"requests": {"cpu": "1"}}}], {}, None),
        ([SIDECAR], {}, (200, 264 * 2**20)),
        ([SIDECAR, SIDECAR, SIDECAR], {"cpu": "10m"}, (220, 264 * 2**20)),
        ([SIDECAR, {"resources": {"requests": {"cpu": "250m", "memory": "300Mi"}}}], {}, (320, 300 * 2**20)),
        ([SIDECAR, {}, SIDECAR, SIDECAR], {"memory": "1Mi"}, (210, 265 * 2**20)),
    ],
)
def test_sidecars_as_init_containers(
    init: list[dict[str, Any]], overhead: dict[str, Any], expected: tuple[int, int] | None
) -> None:
    """Until 1.31 LeastAllocated compares what sidecars take together with the containers, and adds overhead."""
    pod = changed("spec.initContainers", init)
    pod["spec"]["overhead"] = overhead
    assert decode_file(FileContents.of(listed(pod))).objects["pods"][0].spec.scored_sidecars_as_init == expected


@pytest.mark.parametrize(("reason", "expected"), [("Deferred", 300), ("Infeasible", 200)])
def test_resize_in_place(reason: str, expected: int) -> None:
    """A container that is being resized counts the most of wish, allotment and fact; an infeasible wish not at all."""
    pod = changed("spec.containers.0.resources.requests", {"cpu": "300m"})
    pod["status"]["containerStatuses"] = [
        {"name": "a", "allocatedResources": {"cpu": "200m"}, "resources": {"requests": {"cpu": "100m"}}}
    ]
    pod["status"]["conditions"].append({"type": "PodResizePending", "status": "True", "reason": reason})
    assert decode_file(FileContents.of(listed(pod))).objects["pods"][0].requests.cpu == expected


def sized(cpu: str | None) -> dict[str, Any] | None:
    return None if cpu is None else {"requests": {"cpu": cpu}}


@pytest.mark.parametrize(
    ("statuses", "level", "infeasible", "before", "from_1_37"),
    [
        # Container a grows, the other one shrinks: 300 and 300 at most, but never more than 400 together.
        ({"a": ("300m", "300m"), "other": ("100m", "100m")}, None, False, 600, None),
        ({"a": ("300m", "100m"), "other": ("300m", "300m")}, None, False, 600, 600),
        # What its kubelet does not say is what was promised, or else what the spec asks for.
        ({"a": (None, "200m"), "other": ("100m", None)}, None, False, 400, 500),
        ({"a": (None, None)}, None, False, 400, 400),
        # An infeasible wish counts only where nothing else is known.
        ({"a": ("50m", "50m"), "other": ("100m", "100m")}, None, True, 150, 150),
        ({"a": ("50m", "50m")}, None, True, 350, 50),
        # The pod as a whole, if its kubelet says so.
        ({"a": ("300m", "300m"), "other": ("100m", "100m")}, ("700m", "500m"), False, 600, 700),
        ({"a": ("300m", "300m")}, ("50m", "60m"), True, 600, 60),
    ],
)
def test_resizes_of_several_containers(
    statuses: dict[str, tuple[str | None, str | None]],
    level: tuple[str, str] | None,
    infeasible: bool,
    before: int,
    from_1_37: int | None,
) -> None:
    """Until 1.36 each container counts with the most of three; from 1.37 on the most of three sums does."""
    pod = changed("spec.containers.0.resources.requests", {"cpu": "100m"})
    pod["spec"]["containers"].append({"name": "other", "image": "b", "resources": {"requests": {"cpu": "300m"}}})
    pod["status"]["containerStatuses"] = [
        {
            "name": name,
            **({"resources": sized(actual)} if actual else {}),
            **({"allocatedResources": {"cpu": promised}} if promised else {}),
        }
        for name, (actual, promised) in statuses.items()
    ]
    if level is not None:
        pod["status"] |= {"resources": sized(level[0]), "allocatedResources": {"cpu": level[1]}}
    if infeasible:
        pod["status"]["conditions"].append({"type": "PodResizePending", "status": "True", "reason": "Infeasible"})
    decoded = decode_file(FileContents.of(listed(pod))).objects["pods"][0]
    assert decoded.requests.cpu == before
    summed = decoded.requests if decoded.resized is None else decoded.resized[0]
    assert summed.cpu == (400 if from_1_37 is None else from_1_37)


@pytest.mark.parametrize(
    ("status", "infeasible", "before", "from_1_37"),
    [
        ({}, False, 500, 500),
        ({"resources": sized("700m"), "allocatedResources": {"cpu": "600m"}}, False, 700, 700),
        ({"resources": sized("300m"), "allocatedResources": {"cpu": "200m"}}, False, 500, 500),
        ({"resources": sized("300m"), "allocatedResources": {"cpu": "200m"}}, True, 300, 300),
        # Of what it has only limits are known.
        ({"resources": {"limits": {"cpu": "1"}}, "allocatedResources": {"cpu": "600m"}}, False, 600, 600),
        ({"resources": {}, "allocatedResources": {"cpu": "200m"}}, True, 200, 200),
        ({"allocatedResources": {"cpu": "600m"}}, False, 500, 500),
        ({"resources": {}}, True, 0, 0),
    ],
)
def test_resizes_of_the_pod_as_a_whole(status: dict[str, Any], infeasible: bool, before: int, from_1_37: int) -> None:
    """What its kubelet promised to the pod and what it has count, once the kubelet says anything of the latter."""
    pod = changed("spec.resources", sized("500m"))
    pod["status"] |= status
    if infeasible:
        pod["status"]["conditions"].append({"type": "PodResizePending", "status": "True", "reason": "Infeasible"})
    decoded = decode_file(FileContents.of(listed(pod))).objects["pods"][0]
    summed = decoded.requests if decoded.resized is None else decoded.resized[0]
    assert (decoded.requests.cpu, summed.cpu) == (before, from_1_37)


def test_a_resize_may_bring_a_resource_that_the_spec_does_not_name() -> None:
    """From 1.37 on it counts instead of what the containers ask for; before, it does not."""
    pod = changed("spec.resources", {"requests": {"memory": "1Gi"}})
    pod["spec"]["containers"][0]["resources"] = sized("500m")
    pod["status"] |= {"resources": {}, "allocatedResources": {"cpu": "200m"}}
    decoded = decode_file(FileContents.of(listed(pod))).objects["pods"][0]
    assert (decoded.requests.cpu, decoded.resized[0].cpu) == (500, 200)


def node_pool(**template: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {"disruption": {"consolidateAfter": "30s"}, "template": template},
    }


def test_a_node_pool() -> None:
    """Requirements with operators that are not read are left out: they are on numbers, not on domains."""
    pool = node_pool(
        metadata={"labels": {"team": "red"}},
        spec={
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b", "a"], "minValues": 1},
                {"key": "cpu", "operator": "Gte", "values": ["4"]},
            ],
            "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "starting", "effect": "NoExecute"}],
        },
    )
    decoded = decode_file(FileContents.of(listed(pool, POD)))
    snapshot = make_snapshot(decoded.objects, taken_at=datetime.now(UTC), known=decoded.kinds)
    (made,) = snapshot.node_pools
    assert made == NodePool(
        name="general",
        labels=Labels({"team": "red"}),
        requirements=(SelectorRequirement("topology.kubernetes.io/zone", Operator.IN, ("a", "b")),),
        taints=(Taint("dedicated", TaintEffect.NO_SCHEDULE, "x"),),
    )
    assert "NodePool" not in snapshot.unknown


def test_node_pools_of_other_projects_are_not_read_and_a_malformed_one_is_left_out() -> None:
    """By the item's own apiVersion, or by that of the list where items have none."""
    other = {"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool", "metadata": {"name": "x"}, "spec": 5}
    decoded = decode_file(FileContents.of(listed(other, node_pool(spec={"requirements": 5}))))
    assert (decoded.objects["node_pools"], [fault.kind for fault in decoded.faults]) == ([], ["NodePool"])
    bare = {"metadata": {"name": "general"}, "spec": {"template": {"spec": {}}}}
    of_api = {"kind": "NodePoolList", "apiVersion": "karpenter.sh/v1", "items": [bare]}
    assert decode_file(FileContents.of(json.dumps(of_api).encode())).objects["node_pools"] == [NodePool(name="general")]
