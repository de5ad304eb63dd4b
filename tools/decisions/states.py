"""Drawn clusters as `kubectl get -o json` prints them, each with a policy and the controller's memory.

They are built from Kubernetes' own documents without using the planner, so that any version of it can plan these
states.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
NAMESPACE = "shop"
NOW = "2026-01-06T08:00:00Z"
_BORN = "2026-01-05T08:00:00Z"

Json = dict[str, Any]


@dataclass(frozen=True)
class DrawnState:
    """One cluster: its name, its objects, its policy, and the memory of each of its groups."""

    name: str
    objects: bytes
    policy: bytes
    failed_predictions: int = 0
    """Failed predictions of each group in a row."""
    extra: bool = False
    """Whether an extra eviction was promised."""
    moving: bool = False
    """Whether a move is in flight."""


@dataclass
class _Cluster:
    random: Random
    items: list[Json] = field(default_factory=list)
    nodes: dict[str, Json] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    serial: int = 0
    stuck: float = 0.0
    unready: float = 0.0
    waiting: float = 0.0

    def uid(self) -> str:
        self.serial += 1
        return f"00000000-0000-4000-8000-{self.serial:012x}"

    def add_node(self, name: str, zone: str, rack: str, cpu: int, *, cordoned: bool) -> None:
        labels = {HOST: name, ZONE: zone, RACK: rack}
        item: Json = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": self.uid(), "creationTimestamp": _BORN, "labels": labels},
            "spec": {"unschedulable": True} if cordoned else {},
            "status": {
                "allocatable": {"cpu": f"{cpu}m", "memory": "128Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _BORN}],
            },
        }
        self.items.append(item)
        self.nodes[name] = item
        self.free[name] = cpu

    def add_nodes(self, zones: int, most: int, cpus: list[int], *, cordoned: float = 0.0) -> None:
        choice = self.random
        sizes = [choice.randint(1, most)] * zones if choice.random() < 0.4 else []
        for zone in range(zones):
            for number in range(sizes[zone] if sizes else choice.randint(1, most)):
                rack = f"r{zone}{number % 2}"
                name = f"{'abcdef'[zone]}-{number:02}"
                self.add_node(name, f"z{zone}", rack, choice.choice(cpus), cordoned=choice.random() < cordoned)

    def domain(self, node: str, key: str) -> str:
        return str(self.nodes[node]["metadata"]["labels"][key])

    def add_owner(self, kind: str, name: str, labels: Mapping[str, str], spec: Json, replicas: int) -> Json:
        """Add a StatefulSet, or a Deployment with its ReplicaSet; return the reference that its pods carry."""
        template = {"metadata": {"labels": dict(labels)}, "spec": spec}
        uid = self.uid()
        meta = {"name": name, "namespace": NAMESPACE, "uid": uid, "generation": 1, "creationTimestamp": _BORN}
        status = {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas}
        selector = {"matchLabels": {"app": name}}
        body: Json = {"replicas": replicas, "selector": selector, "template": template}
        if kind == "StatefulSet":
            revisions = {"currentRevision": f"{name}-1", "updateRevision": f"{name}-1"}
            # Under OrderedReady a pod that is not Ready would hold back all pods above it, and little would be decided.
            body |= {"serviceName": name, "podManagementPolicy": "Parallel"}
            self.items.append(
                {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body, "status": status | revisions}
            )
            return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
        self.items.append({"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body, "status": status})
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": True}
        hashed = {**labels, "pod-template-hash": "abc"}
        set_uid = self.uid()
        self.items.append(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    **meta,
                    "name": f"{name}-abc",
                    "uid": set_uid,
                    "labels": hashed,
                    "ownerReferences": [owner],
                },
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name, "pod-template-hash": "abc"}},
                    "template": {"metadata": {"labels": hashed}, "spec": spec},
                },
                "status": status,
            }
        )
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"{name}-abc",
            "uid": set_uid,
            "controller": True,
        }

    def add_pod(self, owner: Json, number: int, labels: Mapping[str, str], spec: Json, node: str | None) -> None:
        choice = self.random
        own = dict(labels) | ({"pod-template-hash": "abc"} if owner["kind"] == "ReplicaSet" else {})
        annotations = {}
        if choice.random() < self.stuck:
            annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
        if choice.random() < 0.1:
            annotations["controller.kubernetes.io/pod-deletion-cost"] = str(choice.randint(-5, 5))
        ready = node is not None and choice.random() >= self.unready
        born = f"2026-01-05T08:{choice.randint(0, 59):02}:00Z"
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": born}
        placed = {"nodeName": node} if node else {}
        self.items.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{owner['name']}-{number:02}",
                    "namespace": NAMESPACE,
                    "uid": self.uid(),
                    "creationTimestamp": born,
                    "labels": own,
                    "annotations": annotations,
                    "ownerReferences": [owner],
                },
                "spec": {**spec, **placed, "priority": choice.choice([0, 0, 0, 100])},
                "status": {"phase": "Running" if node else "Pending", "conditions": [condition] if node else []},
            }
        )

    def add_budget(self, name: str, selector: Json, healthy: int, expected: int, desired: int) -> None:
        self.items.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "uid": self.uid(),
                    "generation": 1,
                    "creationTimestamp": _BORN,
                },
                "spec": {"minAvailable": desired, "selector": selector},
                "status": {
                    "currentHealthy": healthy,
                    "desiredHealthy": desired,
                    "disruptionsAllowed": max(0, healthy - desired),
                    "expectedPods": expected,
                    "observedGeneration": 1,
                    "conditions": [],
                },
            }
        )

    def list(self) -> bytes:
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "uid": self.uid(), "creationTimestamp": _BORN, "labels": {}},
            "spec": {},
            "status": {"phase": "Active"},
        }
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": [namespace, *self.items]}).encode()


def _constraint(key: str, skew: int, labels: Mapping[str, str], *, hard: bool = True, domains: int = 0) -> Json:
    made: Json = {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(labels)},
    }
    if domains:
        made["minDomains"] = domains
    return made


def _spec(cpu: int, constraints: list[Json]) -> Json:
    return {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "app", "resources": {"requests": {"cpu": f"{cpu}m", "memory": "16Mi"}}}],
        "topologySpreadConstraints": constraints,
    }


def _policy(choice: Random, groups: str = "", *, soft: bool = False, tight: bool = False) -> bytes:
    unavailable, per_workload = ("100%", "100%")
    if tight:
        unavailable, per_workload = choice.choice(["1", "2", "25%", "4"]), choice.choice(["10%", "50%", "100%"])
    act_on = "[DoNotSchedule, ScheduleAnyway]" if soft else "[DoNotSchedule]"
    return (
        "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\nmode: Evict\n"
        f"spread: {{actOn: {act_on}, for: 0s}}\n"
        f"budgets: {{maxUnavailable: {unavailable}, perWorkload: {per_workload}}}\n"
        "eligibility: {minAge: 0s, minReplicas: 1}\nnodes: {settle: 0s}\n"
        f"groups: [{groups}]\n"
    ).encode()


def _skewed(cluster: _Cluster, pods: int, cpu: int) -> list[str | None]:
    """Choose nodes for pods as in a skewed cluster; None where there is no capacity, or by chance."""
    choice = cluster.random
    names = sorted(cluster.nodes)
    mode = choice.choice(["any", "few", "zone", "fullest"])
    if mode == "few":
        names = choice.sample(names, max(1, len(names) // 2))
    elif mode == "zone":
        lost = choice.choice(sorted({cluster.domain(name, ZONE) for name in names}))
        names = [name for name in names if cluster.domain(name, ZONE) != lost] or names
    chosen: list[str | None] = []
    for _ in range(pods):
        open_ = [name for name in names if cluster.free[name] >= cpu]
        if not open_ or choice.random() < cluster.waiting:
            chosen.append(None)
            continue
        name = open_[min(len(open_) - 1, int(choice.expovariate(0.5)))] if mode == "fullest" else choice.choice(open_)
        cluster.free[name] -= cpu
        chosen.append(name)
    return chosen


def _add_workload(cluster: _Cluster, name: str, labels: Mapping[str, str], spec: Json, nodes: list[str | None]) -> None:
    choice = cluster.random
    kind = choice.choice(["Deployment", "StatefulSet"])
    labels = {"app": name, **labels}
    owner = cluster.add_owner(kind, name, labels, spec, len(nodes))
    for number, node in enumerate(nodes):
        cluster.add_pod(owner, number, labels, spec, node)


def _spread(choice: Random, labels: Mapping[str, str], *, hard: bool = True) -> list[Json]:
    keys = choice.choice([[ZONE], [HOST], [ZONE, HOST], [ZONE, HOST], [ZONE, HOST], [ZONE, RACK, HOST]])
    return [
        _constraint(
            key,
            choice.choice([1, 1, 1, 2, 3]),
            labels,
            hard=hard,
            domains=choice.choice([0] * 14 + [2, 4]) if key == ZONE and hard else 0,
        )
        for key in keys
    ]


def _single_class(choice: Random, cluster: _Cluster) -> bytes:
    cluster.add_nodes(choice.randint(1, 4), choice.randint(1, 4), [64_000, 64_000, 1000], cordoned=0.05)
    for number in range(choice.randint(1, 2)):
        cpu = 200
        labels = {"tier": f"t{number}"}
        spec = _spec(cpu, _spread(choice, labels))
        _add_workload(cluster, f"web{number}", labels, spec, _skewed(cluster, choice.randint(2, 20), cpu))
    return _policy(choice)


def _large(choice: Random, cluster: _Cluster) -> bytes:
    cluster.add_nodes(choice.randint(2, 4), 20, [64_000])
    for number in range(choice.randint(1, 6)):
        labels = {"tier": f"t{number}"}
        spec = _spec(200, _spread(choice, labels))
        _add_workload(cluster, f"web{number}", labels, spec, _skewed(cluster, choice.randint(10, 80), 200))
    return _policy(choice)


def _multi_class(choice: Random, cluster: _Cluster) -> bytes:
    cluster.add_nodes(choice.randint(2, 3), 3, [500, 1000, 2000, 16_000])
    for number in range(choice.randint(2, 4)):
        cpu = choice.choice([100, 200, 300, 700])
        labels = {"all": "yes", **({"one": "yes"} if choice.random() < 0.5 else {})}
        own = {"app": f"w{number}"}
        constraints = [
            _constraint(key, choice.choice([1, 1, 2]), choice.choice([own, {"all": "yes"}, {"all": "yes"}]))
            for key in (ZONE, HOST)
            if choice.random() < 0.75
        ]
        spec = _spec(cpu, constraints)
        nodes = _skewed(cluster, choice.randint(1, 5), cpu)
        if choice.random() < 0.3:
            spec["affinity"] = {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": HOST, "labelSelector": {"matchLabels": own}}
                    ]
                }
            }
            nodes = [*dict.fromkeys(nodes)]
        _add_workload(cluster, f"w{number}", labels, spec, nodes)
    return _policy(choice)


def _limits(choice: Random, cluster: _Cluster) -> bytes:
    cluster.add_nodes(choice.randint(1, 4), 3, [64_000, 2000])
    groups = []
    for number in range(choice.randint(1, 2)):
        labels = {"tier": f"t{number}"}
        constraints = _spread(choice, labels, hard=choice.random() < 0.5) if choice.random() < 0.6 else []
        spec = _spec(200, constraints)
        nodes = _skewed(cluster, choice.randint(2, 14), 200)
        _add_workload(cluster, f"web{number}", labels, spec, nodes)
        bounds = ['maxShare: "<1/3"', 'maxShare: "<=1/2"', "maxPods: 2", "maxPods: 4", "maxSkew: 1", "minPods: 1"]
        limits = ", ".join(
            f"{{name: l{index}, topologyKey: {choice.choice([ZONE, HOST])}, {choice.choice(bounds)},"
            f" action: {choice.choice(['Evict', 'Evict', 'Alert'])}}}"
            for index in range(choice.randint(1, 2))
        )
        flight = choice.choice(["", "", "disruption: {maxInFlight: 1}, "])
        groups.append(
            f"{{name: g{number}, selector: {{matchLabels: {{tier: t{number}}}}}, {flight}limits: [{limits}]}}"
        )
    return _policy(choice, ", ".join(groups))


def _budgets(choice: Random, cluster: _Cluster) -> bytes:
    cluster.add_nodes(choice.randint(2, 3), 4, [64_000])
    for number in range(choice.randint(1, 3)):
        labels = {"tier": f"t{number}"}
        spec = _spec(200, _spread(choice, labels))
        nodes = _skewed(cluster, choice.randint(3, 14), 200)
        _add_workload(cluster, f"web{number}", labels, spec, nodes)
        placed = sum(node is not None for node in nodes)
        for budget in range(choice.choice([0, 1, 1, 1, 2])):
            desired = max(0, len(nodes) - choice.randint(0, 3))
            cluster.add_budget(f"pdb{number}{budget}", {"matchLabels": labels}, placed, len(nodes), desired)
    return _policy(choice, tight=True)


def _soft(choice: Random, cluster: _Cluster) -> bytes:
    cluster.add_nodes(choice.randint(2, 3), 3, [64_000, 4000])
    for number in range(choice.randint(1, 2)):
        labels = {"tier": f"t{number}"}
        spec = _spec(200, _spread(choice, labels, hard=choice.random() < 0.2))
        _add_workload(cluster, f"web{number}", labels, spec, _skewed(cluster, choice.randint(2, 10), 200))
    return _policy(choice, soft=True)


def _uneven(choice: Random, cluster: _Cluster) -> bytes:
    """Draw zones of unequal size under tight constraints: where the search, not the certificate, must answer."""
    for zone in range(choice.randint(2, 3)):
        for number in range(choice.randint(1, 4)):
            cluster.add_node(f"{'abc'[zone]}-{number:02}", f"z{zone}", f"r{zone}", 64_000, cordoned=False)
    labels = {"tier": "t"}
    constraints = [_constraint(ZONE, choice.choice([1, 2]), labels), _constraint(HOST, choice.choice([1, 2]), labels)]
    nodes = _skewed(cluster, choice.randint(4, 18), 200)
    _add_workload(cluster, "web", labels, _spec(200, constraints), nodes)
    return _policy(choice, tight=choice.random() < 0.5)


_FAMILIES = {
    "single-class": (_single_class, 500),
    "uneven": (_uneven, 500),
    "large": (_large, 150),
    "multi-class": (_multi_class, 500),
    "limits": (_limits, 400),
    "budgets": (_budgets, 300),
    "soft": (_soft, 150),
}
"""How each family is drawn, and how many of it."""


def drawn_states(part: int = 1) -> Iterator[DrawnState]:
    """Yield every state, or one in `part` of each family. State n of a family never depends on `part`."""
    for family, (draw, number) in _FAMILIES.items():
        for seed in range(0, number, part):
            choice = Random(f"{family} {seed}")
            cluster = _Cluster(choice)
            cluster.stuck = choice.choice([0.0, 0.0, 0.1, 0.3])
            cluster.unready = choice.choice([0.0, 0.0, 0.1])
            cluster.waiting = choice.choice([0.0, 0.0, 0.1])
            policy = draw(choice, cluster)
            yield DrawnState(
                name=f"{family}/{seed}",
                objects=cluster.list(),
                policy=policy,
                failed_predictions=seed % 4,
                extra=seed % 5 == 1,
                moving=seed % 7 == 2,
            )
