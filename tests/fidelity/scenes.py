"""Random clusters and pods to be placed in them, from a seed.

Three families. *equal*: equal nodes in two to four zones, pods of one size. *mixed*: nodes of four sizes, unlabelled
and tainted ones, cordons, eight shapes of requests, every kind of affinity, images, terminating pods, a second
namespace, every option of a spread constraint. *wild*: all of that, and ports, volumes, extended resources, pods that
are being resized, sidecars, requests of the pod as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.resources import Manifest
from tests.fidelity import volumes

FAMILIES: Final = ("equal", "mixed", "wild")
KINDS: Final = ("hard", "soft", "both", "default", "none")
RACK: Final = "example.test/rack"
DISK: Final = "example.test/disk"
GENERATION: Final = "example.test/generation"
GPU: Final = "example.test/gpu"
APPS: Final = ("web", "api", "db")
OTHER_NAMESPACE: Final = "other"
SIZES: Final = (("4", "8Gi"), ("8", "32Gi"), ("16", "64Gi"), ("32", "64Gi"))
SHAPES: Final[Sequence[dict[str, str]]] = (
    {},
    {"cpu": "500m"},
    {"memory": "1Gi"},
    {"cpu": "100m", "memory": "128Mi"},
    {"cpu": "250m", "memory": "512Mi"},
    {"cpu": "1", "memory": "1Gi"},
    {"cpu": "2", "memory": "6Gi"},
    {"cpu": "3", "memory": "2Gi"},
)
EQUAL_SHAPES: Final[Sequence[dict[str, str]]] = (
    {"cpu": "250m", "memory": "1Gi"},
    {"cpu": "500m", "memory": "1Gi"},
    {"cpu": "1", "memory": "2Gi"},
    {"cpu": "1", "memory": "4Gi"},
)
IMAGES: Final = ("example.test/big:1", "example.test/middle", "example.test/small:2")


@dataclass(kw_only=True)
class Scene:
    """A cluster, and pods that come one after the other. `terminating` names pods that are deleted but stay."""

    seed: int
    family: str
    others: list[Manifest] = field(default_factory=list)
    nodes: list[Manifest] = field(default_factory=list)
    pods: list[Manifest] = field(default_factory=list)
    terminating: list[str] = field(default_factory=list)
    newcomers: list[tuple[str, Manifest]] = field(default_factory=list)
    """(kind of spreading, pod)."""


def scene(seed: int, *, family: str = "", newcomers: int = 4) -> Scene:
    """Make the scene of a seed; families take turns."""
    made = Scene(seed=seed, family=family or FAMILIES[seed % len(FAMILIES)])
    return _Maker(made, Random(seed)).make(newcomers)


class _Maker:
    def __init__(self, made: Scene, random: Random) -> None:
        self.scene = made
        self.random = random
        self.equal = made.family == "equal"
        self.wild = made.family == "wild"
        self.zones = random.randint(2, 4) if self.equal else random.randint(0 if self.wild else 1, 4)
        self.shape = random.choice(EQUAL_SHAPES)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def make(self, newcomers: int) -> Scene:
        random = self.random
        count = random.randint(3, 20) if not self.wild else random.randint(2, 30)
        self.scene.nodes = [self._node(number) for number in range(count)]
        self.scene.others.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
            }
        )
        self.scene.others.append(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": "owner", "namespace": "default"},
                "spec": {
                    "replicas": 0,
                    "selector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["x"]}]},
                    "template": {
                        "metadata": {"labels": {"tier": "x"}},
                        "spec": {"containers": [{"name": "app", "image": IMAGES[0]}]},
                    },
                },
            }
        )
        density = random.choice((0.5, 1, 2, 3) if self.wild else (1, 2, 4, 6))
        crowded = [random.random() ** 2 for _ in range(count)]
        for number in range(round(count * density)):
            where = random.choices(range(count), weights=[0.1 + node for node in crowded])[0]
            self._existing(number, f"n{where:02}")
        if self.wild:
            self.scene.others += [*volumes.classes(), volumes.driver(random)]
        self.scene.newcomers = [self._newcomer(number) for number in range(newcomers)]
        if self.wild and self.chance(0.3):
            volumes.limit_nodes(self.scene, random)
        return self.scene

    def _node(self, number: int) -> Manifest:
        random, name = self.random, f"n{number:02}"
        labels = {HOSTNAME: name}
        if self.zones and (self.equal or self.chance(0.93)):
            labels[ZONE] = f"z{number % self.zones if self.equal else random.randrange(self.zones)}"
        cpu, memory = ("16", "64Gi") if self.equal else random.choice(SIZES)
        amounts = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
        taints = [] if self.equal else self._taints()
        spec: dict[str, Any] = {"taints": taints}
        if self.chance(0.04 if self.equal else 0.12):
            spec["unschedulable"] = True
            if self.chance(0.5):
                # Usually the controller adds this taint; a moment earlier it is not there yet.
                taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        if not self.equal:
            self._label(labels)
        if self.wild:
            self._bend(labels, amounts)
        images = [
            {"names": [image if ":" in image else f"{image}:latest"], "sizeBytes": size * 2**20}
            for image, size in zip(IMAGES, (700, 300, 10), strict=True)
            if not self.equal and self.chance(0.3)
        ]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"capacity": amounts, "allocatable": amounts, "images": images},
        }

    def _taints(self) -> list[dict[str, str]]:
        chosen = []
        if self.chance(0.1):
            chosen.append({"key": "dedicated", "value": self.random.choice("ab"), "effect": "NoSchedule"})
        if self.chance(0.1):
            chosen.append({"key": "shaky", "effect": "PreferNoSchedule"})
        if self.wild and self.chance(0.04):
            chosen.append({"key": "broken", "effect": "NoExecute"})
        return chosen

    def _label(self, labels: dict[str, str]) -> None:
        if self.chance(0.7):
            labels[RACK] = f"r{self.random.randrange(3)}"
        if self.chance(0.8):
            labels[DISK] = self.random.choice(("ssd", "hdd"))
        if self.chance(0.6):
            labels[GENERATION] = str(self.random.randint(1, 9))

    def _bend(self, labels: dict[str, str], amounts: dict[str, str]) -> None:
        """Make a node odd: no host name, one that another has too, an empty zone, few pods, extended resources."""
        if self.chance(0.05):
            del labels[HOSTNAME]
        elif self.chance(0.05):
            labels[HOSTNAME] = "twin"
        if self.chance(0.03):
            labels[ZONE] = ""
        if self.chance(0.1):
            amounts["pods"] = str(self.random.randint(1, 3))
        if self.chance(0.3):
            amounts[GPU] = str(self.random.randint(1, 4))

    def _existing(self, number: int, node: str) -> None:
        pod = self._pod(f"e{number}")
        pod["spec"]["nodeName"] = node
        if not self.equal and self.chance(0.1):
            pod["spec"]["affinity"] = self._pod_affinity()
        self.scene.pods.append(pod)
        if self.wild and self.chance(0.15):
            volumes.give(self.scene, pod, self.random)
        if not self.equal and self.chance(0.1):
            self.scene.terminating.append(pod["metadata"]["name"])
        elif self.wild and self.chance(0.1):
            self._resize(pod)

    def _resize(self, pod: Manifest) -> None:
        """Put the pod into an in-place resize: its actual and allocated resources differ from its requests."""
        if self.chance(0.5):
            another = {"name": "other", "image": IMAGES[1], "resources": {"requests": dict(self.random.choice(SHAPES))}}
            pod["spec"]["containers"].append(another)
            pod["spec"].pop("resources", None)  # it must not be less than what the containers ask for
        pod["status"] = {
            "phase": "Running",
            "containerStatuses": [self._resized(container) for container in pod["spec"]["containers"]],
        }
        if self.chance(0.3):
            pod["status"] |= {
                "resources": {"requests": dict(self.random.choice(SHAPES))},
                "allocatedResources": dict(self.random.choice(SHAPES)),
            }
        if self.chance(0.3):
            pod["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]

    def _resized(self, container: Manifest) -> Manifest:
        """Return the status of a container; its kubelet may leave out what it has promised, and what there is."""
        status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
        }
        if self.chance(0.8):
            status["resources"] = {"requests": dict(self.random.choice(SHAPES))}
        if self.chance(0.8):
            status["allocatedResources"] = dict(self.random.choice(SHAPES))
        return status

    def _pod(self, name: str) -> Manifest:
        random = self.random
        requests = self.shape if self.equal else random.choice(SHAPES)
        labels = {"app": random.choice(APPS) if self.chance(0.6) else "web"}
        if not self.equal:
            labels |= {"hash": random.choice("12")} if self.chance(0.5) else {}
            labels |= {"tier": random.choice("xy")} if self.chance(0.5) else {}
        container: dict[str, Any] = {
            "name": "app",
            "image": random.choice(IMAGES) if not self.equal else IMAGES[0],
            "resources": {"requests": dict(requests)},
        }
        spec: dict[str, Any] = {"containers": [container]}
        if self.wild:
            self._complicate(spec, container)
        namespace = OTHER_NAMESPACE if not self.equal and self.chance(0.1) else "default"
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": spec,
        }

    def _complicate(self, spec: dict[str, Any], container: dict[str, Any]) -> None:
        random = self.random
        if self.chance(0.15):
            ip = random.choice(("", "127.0.0.1", "127.0.0.2"))
            port = {
                "containerPort": 80,
                "hostPort": random.choice((8080, 8081)),
                "protocol": random.choice(("TCP", "UDP")),
            }
            container["ports"] = [{**port, **({"hostIP": ip} if ip else {})}]
        if self.chance(0.1):
            container["resources"]["requests"]["ephemeral-storage"] = f"{random.choice((1, 20, 60))}Gi"
        if self.chance(0.1):
            container["resources"]["requests"][GPU] = container["resources"].setdefault("limits", {})[GPU] = "1"
        if self.chance(0.15):
            extra = {"name": "init", "image": IMAGES[2], "resources": {"requests": dict(random.choice(SHAPES))}}
            spec["initContainers"] = [extra | ({"restartPolicy": "Always"} if self.chance(0.5) else {})]
        if self.chance(0.1):
            spec["containers"].append({"name": "side", "image": IMAGES[1], "resources": {"requests": {"cpu": "100m"}}})
        if self.chance(0.15):
            # At least what the containers ask for together, or the server refuses it.
            spec["resources"] = {
                "requests": random.choice(({"cpu": "8", "memory": "16Gi"}, {"cpu": "8"}, {"memory": "16Gi"}))
            }

    def _newcomer(self, number: int) -> tuple[str, Manifest]:
        random = self.random
        kind = random.choice(KINDS)
        pod = self._pod(f"new{number}")
        spec = pod["spec"]
        if kind != "none" or self.chance(0.5):
            pod["metadata"]["labels"]["app"] = "web"
            pod["metadata"]["namespace"] = "default"
        if kind == "none":
            pod["metadata"]["labels"]["app"] = "solo"
        if kind == "default" and self.wild and self.chance(0.5):
            # Found through its owner, or through the service and its owner together.
            pod["metadata"]["labels"] |= {"tier": "x"} | ({"app": "db"} if self.chance(0.5) else {})
            pod["metadata"]["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": "u", "controller": True}
            ]
        if kind in {"hard", "soft", "both"}:
            spec["topologySpreadConstraints"] = self._constraints(kind)
        if not self.equal:
            self._bind_to_nodes(spec)
        if self.wild and self.chance(0.2):
            volumes.give(self.scene, pod, random)
        return kind, pod

    def _constraints(self, kind: str) -> list[dict[str, Any]]:
        made, random = [], self.random
        actions = {"hard": ["DoNotSchedule"], "soft": ["ScheduleAnyway"]}.get(kind, ["DoNotSchedule", "ScheduleAnyway"])
        for action in actions:
            keys = [ZONE, HOSTNAME] if self.equal or self.chance(0.8) else [ZONE, HOSTNAME, RACK]
            chosen = random.sample(keys, k=1 if self.chance(0.6) else 2)
            made += [self._constraint(key, action) for key in chosen]
        random.shuffle(made)
        return made

    def _constraint(self, key: str, action: str) -> dict[str, Any]:
        random = self.random
        made: dict[str, Any] = {
            "topologyKey": key,
            "whenUnsatisfiable": action,
            "maxSkew": random.choice((1, 1, 1, 2, 3)),
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        if self.equal:
            return made
        if self.chance(0.15):
            expression = {"key": "tier", "operator": random.choice(("In", "NotIn")), "values": ["x"]}
            made["labelSelector"] = {"matchExpressions": [expression]}
        elif self.chance(0.05):
            made["labelSelector"] = {}
        elif self.chance(0.05):
            del made["labelSelector"]
        if "labelSelector" in made and self.chance(0.15):
            made["matchLabelKeys"] = ["hash"]
        if action == "DoNotSchedule" and self.chance(0.15):
            made["minDomains"] = random.randint(1, 5)
        if self.chance(0.2):
            made["nodeAffinityPolicy"] = random.choice(("Honor", "Ignore"))
        if self.chance(0.3):
            made["nodeTaintsPolicy"] = random.choice(("Honor", "Ignore"))
        return made

    def _bind_to_nodes(self, spec: dict[str, Any]) -> None:
        random = self.random
        if self.chance(0.15):
            spec["nodeSelector"] = {DISK: random.choice(("ssd", "hdd"))}
        affinity: dict[str, Any] = {}
        if self.chance(0.15):
            terms = [self._node_term() for _ in range(random.choice((1, 1, 2)))]
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self.chance(0.15):
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": random.randint(1, 100), "preference": self._node_term()}
                for _ in range(random.choice((1, 2)))
            ]
        whole = {"nodeAffinity": affinity} if affinity else {}
        if self.chance(0.3):
            whole |= self._pod_affinity()
        if whole:
            spec["affinity"] = whole
        tolerations = [
            {"key": "dedicated", "operator": "Equal", "value": "a"},
            {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
            {"operator": "Exists"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            {"key": "shaky", "operator": "Exists", "effect": "PreferNoSchedule"},
        ]
        if self.chance(0.25):
            spec["tolerations"] = random.sample(tolerations, k=random.choice((1, 1, 2)))

    def _node_term(self) -> dict[str, Any]:
        random = self.random
        zones = random.sample([f"z{number}" for number in range(4)], k=2)
        if self.wild and self.chance(0.1):
            name = f"n{random.randrange(30):02}"
            return {
                "matchFields": [{"key": "metadata.name", "operator": random.choice(("In", "NotIn")), "values": [name]}]
            }
        expression: dict[str, Any] = random.choice(
            (
                {"key": ZONE, "operator": "In", "values": zones},
                {"key": ZONE, "operator": "NotIn", "values": zones[:1]},
                {"key": RACK, "operator": "Exists"},
                {"key": DISK, "operator": "DoesNotExist"},
                {"key": GENERATION, "operator": "Gt", "values": ["4"]},
                {"key": GENERATION, "operator": "Lt", "values": ["5"]},
            )
        )
        return {"matchExpressions": [expression]}

    def _pod_affinity(self) -> dict[str, Any]:
        random = self.random
        side = random.choice(("podAffinity", "podAntiAffinity", "podAntiAffinity"))
        made: dict[str, Any] = {}
        if self.chance(0.5):
            made["requiredDuringSchedulingIgnoredDuringExecution"] = [
                self._pod_term() for _ in range(random.choice((1, 1, 2)))
            ]
        else:
            made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": random.randint(1, 100), "podAffinityTerm": self._pod_term()}
                for _ in range(random.choice((1, 2)))
            ]
        return {side: made}

    def _pod_term(self) -> dict[str, Any]:
        random = self.random
        made: dict[str, Any] = {
            "topologyKey": random.choice((ZONE, HOSTNAME, HOSTNAME, RACK)),
            "labelSelector": {"matchLabels": {"app": random.choice((*APPS, "solo"))}},
        }
        if self.chance(0.1):
            made["namespaces"] = [random.choice((OTHER_NAMESPACE, "default"))]
        if self.chance(0.1):
            made["namespaceSelector"] = random.choice(({}, {"matchLabels": {"team": "other"}}))
        if self.chance(0.1):
            made["labelSelector"] = {}
        if self.chance(0.1):
            made[random.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["hash"]
        return made
