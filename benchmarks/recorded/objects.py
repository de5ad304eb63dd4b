"""Kubernetes objects of a made state, with all that real ones have: a pod takes about 8 KB of JSON.

Pods of one workload differ in a few texts of fixed length, so that a pod is written once for each workload, in JSON and
in protobuf, and the texts are exchanged for each pod (`Template`). Made-up texts that vary have the same length: a
length that changed would change the lengths of all that contains it in protobuf.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.recorded.states import HOSTNAME, NAMESPACES, ZONE, ZONES, State, Workload, zone_of

SINCE: Final = "2026-01-01T00:00:00Z"
READY_SINCE: Final = "2026-01-01T00:01:00Z"
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own for suffixes of names."""

SUFFIX: Final = "@SUF@"
UID: Final = "@UID@UID@UI@"
NODE: Final = "@NODE@@@@@"
HOST_IP: Final = "@HOST@HOST@HOS@"
POD_IP: Final = "@PODI@PODI@POD@"
VERSION: Final = "@VERSION@"
_PLACES: Final = (SUFFIX, UID, NODE, HOST_IP, POD_IP, VERSION)
_SPLIT: Final = re.compile("|".join(map(re.escape, _PLACES)).encode())

Object = dict[str, Any]


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:05}"


def claim_name(workload: Workload, replica: str) -> str:
    """Return the name of the claim of a pod."""
    return f"data-{workload.name}-{replica}"


def address(first: int, number: int) -> str:
    """Return an address whose text always has the same length."""
    return f"1{first:02}.{100 + number // 10_000 % 100}.{100 + number // 100 % 100}.{100 + number % 100}"


def suffix(number: int) -> str:
    """Return five characters, others for each number."""
    text = ""
    for _ in range(5):
        number, digit = divmod(number, len(ALPHABET))
        text = ALPHABET[digit] + text
    return text


@dataclass(frozen=True)
class Template:
    """An encoded pod, cut at the places where pods differ; `places` are the texts to exchange, in order."""

    parts: tuple[bytes, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, encoded: bytes) -> "Template":
        """Cut an encoded object."""
        places = [_PLACES.index(match.group().decode()) for match in _SPLIT.finditer(encoded)]
        return cls(tuple(_SPLIT.split(encoded)), tuple(places))

    def fill(self, texts: Sequence[bytes]) -> bytes:
        """Return the object of one pod; `texts` are in the order of `_PLACES`."""
        pieces = [self.parts[0]]
        for part, place in zip(self.parts[1:], self.places, strict=True):
            pieces += (texts[place], part)
        return b"".join(pieces)


def pod_texts(replica: int, node: int, number: int) -> tuple[bytes, ...]:
    """Return what is one pod's own; `number` is its place among all pods."""
    texts = (
        suffix(replica),
        f"{number:012x}",
        node_name(node),
        address(10, node),
        address(11, number),
        str(100_000_000 + number),
    )
    assert all(len(text) == len(place) for text, place in zip(texts, _PLACES, strict=True)), texts
    return tuple(text.encode() for text in texts)


def _metadata(namespace: str, name: str, labels: Mapping[str, str], **more: Any) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    uid = f"{abs(hash_of(f'{namespace}/{name}')):032x}"
    metadata["uid"] = f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}"
    metadata["resourceVersion"] = "100000001"
    metadata["creationTimestamp"] = SINCE
    if labels:
        metadata["labels"] = dict(labels)
    return {**metadata, **more}


def hash_of(text: str) -> int:
    """Return a number for a text, the same in every process."""
    return int.from_bytes(text.encode()[-15:], "big")


def _fields(value: Any) -> Object:
    """Return a value's fields as managedFields list them."""
    owned: Object = {}
    for key, item in value.items():
        if isinstance(item, dict):
            owned[f"f:{key}"] = {".": {}, **_fields(item)}
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            owned[f"f:{key}"] = {_list_key(entry): {".": {}, **_fields(entry)} for entry in item}
        else:
            owned[f"f:{key}"] = {}
    return owned


def _list_key(entry: Object) -> str:
    name = next(key for key in ("name", "type", "mountPath", "key", "topologyKey", "ip", "uid", *entry) if key in entry)
    return f"k:{json.dumps({name: entry[name]}, separators=(',', ':'))}"


def _managed(manager: str, value: Object, subresource: str = "") -> Object:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": SINCE, "fieldsType": "FieldsV1"}
    return {**entry, "fieldsV1": _fields(value), **({"subresource": subresource} if subresource else {})}


def _labels(workload: Workload) -> Object:
    return {"app": workload.name, "app.kubernetes.io/part-of": "shop", "team": workload.namespace}


def _revision(workload: Workload) -> str:
    return f"{workload.name}-6b7c9d8f5c"


def pod_spec(workload: Workload) -> Object:
    """Return the spec of a workload's pods as in its template."""
    own = {"matchLabels": {"app": workload.name}}
    mounts = [
        {"name": "tls", "mountPath": "/etc/tls", "readOnly": True},
        {"name": "config", "mountPath": "/etc/app", "readOnly": True},
    ]
    env: list[Object] = [{"name": f"FEATURE_{number:02}", "value": f"value of feature {number}"} for number in range(8)]
    env.append({"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}})
    probe = {
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    container = {
        "name": "main",
        "image": f"registry.example/shop/{workload.name}:v1.42.0",
        "args": ["--listen=:8080", "--log-format=json"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": env,
        "resources": {
            "requests": {"cpu": workload.cpu, "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "volumeMounts": mounts,
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
    }
    spec: Object = {
        "volumes": [
            # No emptyDir, though many pods have one: the peer leaves such pods alone unless it is told otherwise.
            {"name": "tls", "secret": {"secretName": f"{workload.name}-tls", "defaultMode": 420}},
            {"name": "config", "configMap": {"name": f"{workload.name}-config", "defaultMode": 420}},
        ],
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": workload.name,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000},
        "schedulerName": "default-scheduler",
        **workload.pod,
    }
    constraints = [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}
        for key, skew in workload.spread
    ]
    return {**spec, "topologySpreadConstraints": constraints} if constraints else spec


def pod(workload: Workload) -> Object:
    """Return the pod of a workload with placeholders where its pods differ."""
    stateful = workload.kind == "StatefulSet"
    owner = workload.name if stateful else _revision(workload)
    labels = {**_labels(workload), **({} if stateful else {"pod-template-hash": "6b7c9d8f5c"})}
    reference = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet" if stateful else "ReplicaSet",
        "name": owner,
        "uid": _metadata(workload.namespace, owner, {})["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    spec = pod_spec(workload)
    token = {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        ],
        "defaultMode": 420,
    }
    spec["volumes"] = [*spec["volumes"], {"name": "kube-api-access-x7k2p", "projected": token}]
    if workload.claims:
        claim = {"claimName": claim_name(workload, SUFFIX)}
        spec["volumes"].append({"name": "data", "persistentVolumeClaim": claim})
    tolerations = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for name in ("not-ready", "unreachable")
    ]
    written = dict(spec)
    spec |= {"nodeName": NODE, "tolerations": tolerations, "priority": 0, "enableServiceLinks": True}
    spec["preemptionPolicy"] = "PreemptLowerPriority"
    status = _pod_status(workload)
    metadata = _metadata(
        workload.namespace,
        f"{owner}-{SUFFIX}",
        labels,
        annotations={"checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
        ownerReferences=[reference],
        uid=f"00000000-0000-4000-8000-{UID}",
        resourceVersion=VERSION,
    )
    by_controller = {"metadata": {"labels": labels, "ownerReferences": [reference]}, "spec": written}
    metadata["managedFields"] = [
        _managed("kube-controller-manager", by_controller),
        _managed("kubelet", {"status": status}, "status"),
    ]
    return {"metadata": metadata, "spec": spec, "status": status}


def _pod_status(workload: Workload) -> Object:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    container = {
        "name": "main",
        "state": {"running": {"startedAt": READY_SINCE}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example/shop/{workload.name}:v1.42.0",
        "imageID": f"registry.example/shop/{workload.name}@{digest}",
        "containerID": f"containerd://{digest[7:]}",
        "started": True,
    }
    return {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": READY_SINCE} for kind in kinds],
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": POD_IP,
        "podIPs": [{"ip": POD_IP}],
        "startTime": SINCE,
        "containerStatuses": [container],
        "qosClass": "Burstable",
    }


def node(number: int) -> Object:
    """Return the manifest of a Ready node, its zone by its number."""
    name = node_name(number)
    labels = {
        HOSTNAME: name,
        ZONE: f"zone-{zone_of(number)}",
        "topology.kubernetes.io/region": "region-1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m7.16xlarge",
    }
    offer = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    kinds = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    status = {
        "capacity": offer,
        "allocatable": offer,
        "conditions": [
            {"type": kind, "status": status, "lastTransitionTime": SINCE, "lastHeartbeatTime": SINCE}
            for kind, status in kinds.items()
        ],
        "addresses": [{"type": "InternalIP", "address": address(10, number)}, {"type": "Hostname", "address": name}],
        "images": [
            {"names": [f"registry.example/shop/w{image:05}:v1.42.0"], "sizeBytes": 50_000_000} for image in range(40)
        ],
    }
    metadata = _metadata("", name, labels)
    metadata["managedFields"] = [_managed("kubelet", {"metadata": {"labels": labels}, "status": status}, "status")]
    return {"metadata": metadata, "spec": {"podCIDR": "10.0.0.0/24"}, "status": status}


def owners(workload: Workload) -> Iterator[tuple[str, Object]]:
    """Yield the objects above a workload's pods: plural and object."""
    labels = _labels(workload)
    count = len(workload.nodes)
    status = {"replicas": count, "readyReplicas": count, "observedGeneration": 1}
    if workload.kind == "StatefulSet":
        template = {"metadata": {"labels": labels}, "spec": pod_spec(workload)}
        spec = {"replicas": count, "selector": {"matchLabels": {"app": workload.name}}, "template": template}
        spec["serviceName"] = workload.name
        spec["updateStrategy"] = {"type": "RollingUpdate"}
        if workload.claims:
            claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
            spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
        whole = {**status, "updatedReplicas": count, "currentReplicas": count}
        yield "statefulsets", _managed_object(workload, workload.name, labels, spec, whole)
        return
    template = {"metadata": {"labels": labels}, "spec": pod_spec(workload)}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": workload.name}}, "template": template}
    deployment = _managed_object(workload, workload.name, labels, spec, {**status, "updatedReplicas": count})
    deployment["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    yield "deployments", deployment
    hashed = {**labels, "pod-template-hash": "6b7c9d8f5c"}
    selector = {"matchLabels": {"app": workload.name, "pod-template-hash": "6b7c9d8f5c"}}
    spec = {
        "replicas": count,
        "selector": selector,
        "template": {"metadata": {"labels": hashed}, "spec": pod_spec(workload)},
    }
    replica_set = _managed_object(workload, _revision(workload), hashed, spec, status)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name, "controller": True}
    replica_set["metadata"]["ownerReferences"] = [{**reference, "uid": deployment["metadata"]["uid"]}]
    replica_set["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    yield "replicasets", replica_set


def _managed_object(workload: Workload, name: str, labels: Object, spec: Object, status: Object) -> Object:
    metadata = _metadata(workload.namespace, name, labels, generation=1)
    metadata["managedFields"] = [
        _managed("kubectl", {"spec": spec}),
        _managed("controller", {"status": status}, "status"),
    ]
    return {"metadata": metadata, "spec": spec, "status": status}


def volumes(workload: Workload) -> Iterator[tuple[str, Object]]:
    """Yield the claims of a workload's pods, and the volumes that bind them to the zones of their nodes."""
    if not workload.claims:
        return
    size, modes = {"storage": "10Gi"}, ["ReadWriteOnce"]
    for replica, number in enumerate(workload.nodes):
        name = claim_name(workload, suffix(replica))
        volume = f"pv-{workload.namespace}-{name}"
        zone = {"key": ZONE, "operator": "In", "values": [f"zone-{zone_of(number)}"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
        claim = {
            "accessModes": modes,
            "resources": {"requests": size},
            "volumeName": volume,
            "storageClassName": "disk",
        }
        yield (
            "persistentvolumeclaims",
            {
                "metadata": _metadata(workload.namespace, name, {}),
                "spec": claim,
                "status": {"phase": "Bound"},
            },
        )
        yield (
            "persistentvolumes",
            {
                "metadata": _metadata("", volume, {}),
                "spec": {
                    "capacity": size,
                    "accessModes": modes,
                    "storageClassName": "disk",
                    "claimRef": {"namespace": workload.namespace, "name": name},
                    "csi": {"driver": "disk.example", "volumeHandle": volume},
                    "nodeAffinity": {"required": terms},
                },
                "status": {"phase": "Bound"},
            },
        )


def others(state: State) -> Iterator[tuple[str, Object]]:
    """Yield every object of a state but its pods: plural and object."""
    for number in range(state.nodes):
        yield "nodes", node(number)
        drivers = [{"name": "disk.example", "nodeID": node_name(number), "topologyKeys": [ZONE]}]
        yield "csinodes", {"metadata": _metadata("", node_name(number), {}), "spec": {"drivers": drivers}}
    for number in range(NAMESPACES):
        name = f"team-{number:02}"
        named = _metadata("", name, {"kubernetes.io/metadata.name": name})
        yield "namespaces", {"metadata": named, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
        yield "priorityclasses", {"metadata": _metadata("", name, {}), "value": value}
    disk = {"metadata": _metadata("", "disk", {}), "provisioner": "disk.example"}
    yield "storageclasses", {**disk, "volumeBindingMode": "WaitForFirstConsumer"}
    for position, workload in enumerate(state.workloads):
        yield from owners(workload)
        yield from volumes(workload)
        metadata = _metadata(workload.namespace, workload.name, _labels(workload))
        yield (
            "services",
            {
                "metadata": metadata,
                "spec": {"selector": {"app": workload.name}, "clusterIP": "None", "ports": [{"port": 80}]},
            },
        )
        if position % 2 == 0:
            count = len(workload.nodes)
            status = {"currentHealthy": count, "desiredHealthy": count - 1, "expectedPods": count}
            yield (
                "poddisruptionbudgets",
                {
                    "metadata": metadata,
                    "spec": {"selector": {"matchLabels": {"app": workload.name}}, "maxUnavailable": 1},
                    "status": {**status, "disruptionsAllowed": 1, "observedGeneration": 1},
                },
            )


assert ZONES < 10  # the names of zones have one digit
