"""Drawn manifests and nodes for them, as dictionaries: what lint is held against real servers and simulated ones with.

Every cluster has a namespace and nodes of its own, which a label and the node selector of every template tie together.
Some objects have a mistake for which the API server refuses them.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import yaml

from rebalancer.adapters.files.manifests import read_manifests
from rebalancer.lint.manifest import Manifests
from rebalancer.model.snapshot import Snapshot
from tests.closed_loop.scenario import LABEL
from tests.control_plane.manifests import HOSTNAME, ZONE, namespace, node, pdb, spread
from tests.control_plane.resources import Manifest

IMAGE: Final = "example.test/app:"
HASH: Final = "pod-template-hash"

STRATEGIES: Final[Sequence[Mapping[str, Any] | None]] = (
    None,
    None,
    {"maxSurge": 1, "maxUnavailable": 0},
    {"maxSurge": 1, "maxUnavailable": 0},
    {"maxSurge": 0, "maxUnavailable": 1},
    {"maxSurge": "25%", "maxUnavailable": "25%"},
    {"maxSurge": "100%", "maxUnavailable": 0},
    {"maxSurge": 0, "maxUnavailable": "30%"},
    {"maxSurge": 1, "maxUnavailable": "10%"},
    {"maxUnavailable": "50%"},
    {"maxSurge": 2},
)

BUDGETS: Final[Sequence[Mapping[str, Any]]] = (
    {"min_available": 0},
    {"min_available": 1},
    {"min_available": 2},
    {"min_available": 3},
    {"min_available": "50%"},
    {"min_available": "100%"},
    {"max_unavailable": 0},
    {"max_unavailable": 1},
    {"max_unavailable": 1},
    {"max_unavailable": "0%"},
    {"max_unavailable": "25%"},
    {"max_unavailable": "100%"},
)


MISTAKEN: Final = 0.2
"""The share of objects with a mistake."""


CPUS: Final = ("100m", "500m", "1", "1500m", "3")

RESIZED: Final = 0.4
"""The share of rollouts that draw another request of CPU."""


@dataclass(frozen=True)
class Cluster:
    """Nodes, and the objects that are to be deployed there."""

    name: str
    nodes: tuple[Manifest, ...]
    objects: tuple[Manifest, ...]

    @property
    def workloads(self) -> Sequence[Manifest]:
        """Deployments and StatefulSets."""
        return [one for one in self.objects if one["kind"] in {"Deployment", "StatefulSet"}]

    @property
    def manifests(self) -> Manifests:
        """The objects as lint reads them."""
        text = yaml.safe_dump_all(map(copy.deepcopy, self.objects), sort_keys=False)
        return Manifests(tuple(read_manifests(text, f"{self.name}.yaml")))

    def zone_of(self, name: str) -> str:
        """Return the zone of a node."""
        return next(str(one["metadata"]["labels"][ZONE]) for one in self.nodes if one["metadata"]["name"] == name)

    def nodes_of(self, zone: str) -> Sequence[str]:
        """Return the names of the nodes of a zone."""
        return [one["metadata"]["name"] for one in self.nodes if one["metadata"]["labels"][ZONE] == zone]

    def with_new_image(self, name: str) -> "Cluster":
        """Return the same with another image in the template of a workload, of some with another request of CPU."""
        changed = copy.deepcopy(self.objects)
        for one in changed:
            if one["kind"] in {"Deployment", "StatefulSet"} and one["metadata"]["name"] == name:
                (container,) = one["spec"]["template"]["spec"]["containers"]
                container["image"] = f"{IMAGE}2"
                if (drawn := Random(f"{self.name}/{name}")).random() < RESIZED:
                    container["resources"]["requests"]["cpu"] = drawn.choice(CPUS)
        return replace(self, objects=changed)

    def part_of(self, snapshot: Snapshot) -> Snapshot:
        """Return its part of what the server says."""
        return replace(
            snapshot,
            nodes=tuple(one for one in snapshot.nodes if one.labels.get(LABEL) == self.name),
            pods=tuple(one for one in snapshot.pods if one.namespace == self.name),
            workloads=tuple(one for one in snapshot.workloads if one.namespace == self.name),
        )


def draw_cluster(seed: int) -> Cluster:
    """Return a cluster of 2 to 4 zones, 1 to 3 workloads and up to 2 budgets."""
    random, name = Random(seed), f"lint{seed}"
    nodes = tuple(_nodes(random, name))
    zones = sorted({one["metadata"]["labels"][ZONE] for one in nodes})
    workloads = [_workload(random, name, f"web{number}", zones) for number in range(random.randint(1, 3))]
    for one in workloads:
        if "podAntiAffinity" in one["spec"]["template"]["spec"].get("affinity", {}) and random.random() < 0.4:
            one["spec"]["replicas"] = random.choice([len(zones), len(nodes)])
    budgets = [_budget(random, name, f"budget{number}", workloads) for number in range(random.randint(0, 2))]
    for made, mistakes in ((workloads, MISTAKES), (budgets, BUDGET_MISTAKES)):
        for one in made:
            if random.random() < MISTAKEN:
                random.choice(mistakes)(one)
    return Cluster(name, nodes, (namespace(name), *workloads, *budgets))


def _nodes(random: Random, name: str) -> Iterator[Manifest]:
    for zone in "abcd"[: random.randint(2, 4)]:
        for number in range(random.randint(1, 3)):
            yield node(
                f"{name}-{zone}-{number}",
                zone=f"{name}-{zone}",
                cpu=random.choice(["16", "16", "16", "4", "2"]),
                labels={LABEL: name},
                unschedulable=random.random() < 0.08,
            )


def _workload(random: Random, of: str, name: str, zones: Sequence[str]) -> Manifest:
    kind = random.choice(["Deployment", "Deployment", "StatefulSet"])
    labels = {"app": name, "of": "shop"}
    selector = {LABEL: of} | ({ZONE: random.choice(zones)} if random.random() < 0.1 else {})
    requests = {"cpu": random.choice(CPUS), "memory": "64Mi"}
    container = {"name": "app", "image": f"{IMAGE}1", "resources": {"requests": requests}}
    pods = {"terminationGracePeriodSeconds": 1, "nodeSelector": selector, "containers": [container]}
    if constraints := _spread(random, name):
        pods["topologySpreadConstraints"] = constraints
    if affinity := _affinity(random, name):
        pods["affinity"] = affinity
    own: dict[str, Any] = {"replicas": random.randint(1, 6), "selector": {"matchLabels": {"app": name}}}
    if kind == "StatefulSet":
        own |= {"serviceName": name, "podManagementPolicy": random.choice(["OrderedReady", "Parallel"])}
    elif random.random() < 0.08:
        own["strategy"] = {"type": "Recreate"}
    elif (update := random.choice(STRATEGIES)) is not None:
        own["strategy"] = {"type": "RollingUpdate", "rollingUpdate": dict(update)}
    own["template"] = {"metadata": {"labels": labels}, "spec": pods}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": of}, "spec": own}


def _spread(random: Random, app: str) -> list[dict[str, Any]]:
    made = []
    choices = [(ZONE, False), (HOSTNAME, False), (ZONE, True), (HOSTNAME, True)]
    for key, soft in random.sample(choices, random.choice([0, 1, 1, 2])):
        fields: dict[str, Any] = {}
        if not soft and random.random() < 0.2:
            fields["minDomains"] = random.randint(2, 4)
        if random.random() < 0.25:
            fields["matchLabelKeys"] = [HASH]
        if random.random() < 0.3:
            fields["nodeTaintsPolicy"] = "Honor"
        made.append(spread(key, labels={"app": app}, max_skew=random.randint(1, 2), soft=soft, **fields))
    return made


def _affinity(random: Random, app: str) -> dict[str, Any]:
    made = {}
    for kind, chance in (("podAntiAffinity", 0.35), ("podAffinity", 0.12)):
        if random.random() < chance:
            term: dict[str, Any] = {
                "topologyKey": random.choice([HOSTNAME, HOSTNAME, ZONE]),
                "labelSelector": {"matchLabels": {"app": app}},
            }
            if random.random() < 0.15:
                term["matchLabelKeys"] = [HASH]
            made[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return made


def _budget(random: Random, of: str, name: str, workloads: Sequence[Manifest]) -> Manifest:
    apps = [{"app": one["metadata"]["name"]} for one in workloads]
    return pdb(name, random.choice([*apps, *apps, {"of": "shop"}]), namespace=of, **random.choice(BUDGETS))


def _miss_template(workload: Manifest) -> None:
    workload["spec"]["selector"] = {"matchLabels": {"app": "other"}}


def _repeat_constraint(workload: Manifest) -> None:
    app = workload["metadata"]["name"]
    workload["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        spread(labels={"app": app}, max_skew=skew) for skew in (1, 2)
    ]


def _soften(workload: Manifest) -> None:
    app = workload["metadata"]["name"]
    constraint = spread(labels={"app": app}, soft=True, minDomains=2)
    workload["spec"]["template"]["spec"]["topologySpreadConstraints"] = [constraint]


def _write_text(workload: Manifest) -> None:
    workload["spec"]["replicas"] = str(workload["spec"]["replicas"])


def _write_number(workload: Manifest) -> None:
    workload["spec"]["template"]["metadata"]["labels"]["app"] = 1


def _write_no_quantity(workload: Manifest) -> None:
    workload["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "half"


def _misspell(workload: Manifest) -> None:
    app = workload["metadata"]["name"]
    constraint = spread("topology.kubernetes.io/zones", labels={"app": app})
    workload["spec"]["template"]["spec"]["topologySpreadConstraints"] = [constraint]


def _count_others(workload: Manifest) -> None:
    workload["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread(labels={"app": "others"})]


def _allow_no_step(workload: Manifest) -> None:
    if workload["kind"] == "Deployment":
        workload["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}


def _allow_more_than_all(workload: Manifest) -> None:
    if workload["kind"] == "Deployment":
        workload["spec"]["strategy"] = {"rollingUpdate": {"maxUnavailable": "150%"}}


def _allow_no_skew(workload: Manifest) -> None:
    app = workload["metadata"]["name"]
    workload["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread(labels={"app": app}, max_skew=0)]


def _say_both(budget: Manifest) -> None:
    budget["spec"] |= {"minAvailable": 1, "maxUnavailable": 1}


def _keep_half(budget: Manifest) -> None:
    budget["spec"] = {"selector": budget["spec"]["selector"], "minAvailable": "half"}


BUDGET_MISTAKES: Final = (_say_both, _keep_half)

MISTAKES: Final = (
    _miss_template,
    _repeat_constraint,
    _soften,
    _write_text,
    _write_number,
    _write_no_quantity,
    _misspell,
    _count_others,
    _allow_no_step,
    _allow_more_than_all,
    _allow_no_skew,
)
