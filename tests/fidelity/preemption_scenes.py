"""Crowded clusters, and pods of high priority that fit only where others go; from a seed.

In a third of them nodes and pods are equal, so that priorities, numbers and times decide between nodes. The nodes, the
affinities, ports and constraints are those of `tests/fidelity/scenes.py`. Added are priorities, times of start of which
some are equal and some missing, budgets with a status, and pods until the nodes are full.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from tests.control_plane.resources import Manifest
from tests.fidelity.scenes import OTHER_NAMESPACE, Scene, scene

PRIORITIES: Final = {"negative": -50, "low": 10, "middle": 20, "high": 1000}
"""Priority classes and their values; pods without one have 0."""

MIXED: Final = ("", "", "", "negative", "negative", "low", "low", "low", "low", "middle", "middle", "high")
"""The classes of pods that are there, "" for none."""

SELECTORS: Final[tuple[dict[str, Any] | None, ...]] = (
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"tier": "x"}},
    {"matchLabels": {"hash": "1"}},
    {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]},
    {},
    None,
)


def priority_classes() -> list[Manifest]:
    """Return the priority classes that the scenes use."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    patient = {**head, "metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"}
    return [patient, *({**head, "metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items())]


def preemption_scene(seed: int) -> Scene:
    """Make the scene of a seed: a cluster of 3 to 30 nodes, and two pods one after the other."""
    random = Random(seed)
    made = scene(seed, family=random.choice(("equal", "mixed", "wild")), newcomers=2)
    for node in made.nodes:
        _fill(made, node, random)
    for pod in made.pods:
        _give_priority(pod, ("", "low", "middle") if made.family == "equal" else MIXED, random)
    for number, (_, pod) in enumerate(made.newcomers):
        pod["metadata"]["name"] = f"urgent-{seed}-{number}"  # the log of one scene may end in the next
        _make_urgent(pod, random)
    made.others += [_budget(number, made, random) for number in range(random.randint(1, 7))]
    return made


def _fill(made: Scene, node: Manifest, random: Random) -> None:
    """Put small pods on a node until most of its CPUs are requested."""
    name, whole = node["metadata"]["name"], int(node["status"]["allocatable"]["cpu"])
    equal = made.family == "equal"
    left = whole if equal else whole * random.uniform(0.7, 1.0)
    while left > 0 and len(made.pods) < 150:
        cpu = 4 if equal else random.choice((1, 2, 4, 6))
        left -= cpu
        labels = {"app": random.choice(("web", "db", "cache"))}
        labels |= {"tier": random.choice("xy")} if random.random() < 0.5 else {}
        labels |= {"hash": random.choice("12")} if random.random() < 0.3 else {}
        container: dict[str, Any] = {
            "name": "app",
            "image": "fill",
            "resources": {"requests": {"cpu": str(cpu), "memory": "1Gi"}},
        }
        if random.random() < 0.1:
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        made.pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"f{len(made.pods)}",
                    "namespace": OTHER_NAMESPACE if random.random() < 0.15 else "default",
                    "labels": labels if random.random() < 0.95 else {},
                },
                "spec": {"nodeName": name, "containers": [container]},
            }
        )


def _give_priority(pod: Manifest, classes: Sequence[str], random: Random) -> None:
    """Give a pod one of the priorities, and a time of start."""
    chosen = random.choice(classes)
    if chosen:
        pod["spec"]["priorityClassName"] = chosen
    if random.random() < 0.9:
        start = f"2026-01-01T00:00:{random.randrange(40):02}Z"
        pod["status"] = {"phase": "Running"} | pod.get("status", {}) | {"startTime": start}


def _make_urgent(pod: Manifest, random: Random) -> None:
    """Give a pod that is to be placed a priority, and requests that few nodes have free."""
    spec = pod["spec"]
    spec["priorityClassName"] = random.choice((*["high"] * 12, *["middle"] * 4, *["low"] * 3, "patient"))
    if random.random() < 0.8:
        spec.pop("resources", None)  # those of the pod as a whole must not be less
        spec["containers"][0]["resources"]["requests"]["cpu"] = str(random.choice((3, 5, 7, 9)))


def _budget(number: int, made: Scene, random: Random) -> Manifest:
    selector = random.choice(SELECTORS)
    disrupted = [pod["metadata"]["name"] for pod in random.sample(made.pods, len(made.pods) // 2)]
    status: dict[str, Any] = {
        "observedGeneration": 1,
        "disruptionsAllowed": random.choice((0, 0, 0, 1, 1, 2)),
        "currentHealthy": 5,
        "desiredHealthy": 4,
        "expectedPods": 5,
    }
    if random.random() < 0.3:
        status["disruptedPods"] = dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"b{number}", "namespace": OTHER_NAMESPACE if random.random() < 0.2 else "default"},
        "spec": {"maxUnavailable": 1} | ({} if selector is None else {"selector": selector}),
        "status": status,
    }
