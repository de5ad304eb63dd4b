"""Faults of the model, planted on purpose: each as the right model with one rule changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from msgspec import structs

from rebalancer.decoding import resources, wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode
from rebalancer.model.containers import Resized
from rebalancer.model.pods import Pod
from rebalancer.model.storage import CSINode
from rebalancer.scheduling import node_volume_limits, volume_binding
from rebalancer.scheduling import view as views
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.scoring import SCORERS, Scorer
from rebalancer.scheduling.view import View
from tests.fidelity.arena import Trial
from tests.fidelity.comparison import differences
from tests.fidelity.scenes import Scene

Fault = Callable[[Trial, Scene], list[str]]
"""What a faulty model's prediction of a trial differs in from the scheduler's decision."""


def compare(trial: Trial, view: View) -> list[str]:
    return differences(predict(trial.prediction.pod, view), trial.decision, view)


def with_rule(name: str, value: Any) -> Fault:
    """Return the model with another value of one of `versions.VersionRules`."""

    def play(trial: Trial, _: Scene) -> list[str]:
        wrong = replace(trial.view.rules, **{name: value})
        with patch.object(views, "get_version_rules", lambda _: wrong):
            return compare(trial, View(trial.view.snapshot, trial.view.profile))

    return play


def with_score(name: str, fake: Scorer) -> Fault:
    """Return the model with another score of a plugin."""

    def play(trial: Trial, _: Scene) -> list[str]:
        with patch.dict(SCORERS, {name: fake}):
            return compare(trial, View(trial.view.snapshot, trial.view.profile))

    return play


def with_patch(module: Any, name: str, fake: Callable[..., Any]) -> Fault:
    """Return the model with another function."""

    def play(trial: Trial, _: Scene) -> list[str]:
        view = View(trial.view.snapshot, trial.view.profile)
        with patch.object(module, name, fake):
            return compare(trial, view)

    return play


def with_pods(module: Any, name: str, fake: Callable[..., Any]) -> Fault:
    """Return the model that reads pods with another function."""

    def play(trial: Trial, scene: Scene) -> list[str]:
        with patch.object(module, name, fake):
            read = {pod["metadata"]["name"]: decode(PODS, json.dumps(pod).encode(), Interner()) for pod in scene.pods}
        snapshot = trial.view.snapshot
        pods = [structs.replace(pod, resized=charge_of(read.get(pod.name), pod)) for pod in snapshot.pods]
        return compare(trial, View(replace(snapshot, pods=pods), trial.view.profile))

    return play


def charge_of(read: Any, pod: Pod) -> Any:
    """Return what the faulty model takes a pod for: that of a scene as it reads it, a newcomer as it is."""
    return (read.resized or (read.requests, read.scored)) if isinstance(read, Pod) else pod.resized


def without_status(requested: Any, _: wire.PodStatus) -> Resized:
    every = requested.containers
    return Resized(allocated=every, actual=every, reported=(False,) * len(every))


def without_level(requested: Any, status: wire.PodStatus) -> Resized:
    read = _READ_RESIZED(requested, status)
    return structs.replace(read, pod_allocated=None, pod_actual=None, pod_reported=False)


def feasible_always(_: wire.PodStatus) -> bool:
    return False


def prefer_used(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Prefer the volume that is used most."""
    right = _SCORE(pod, view, nodes)
    return None if right is None else {node: 100 - score for node, score in right.items()}


def count_missing_as_free(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Count a node without a volume as one that is free."""
    right = _SCORE(pod, view, nodes)
    return None if right is None else {node: score or 100 for node, score in right.items()}


def find_nodes_without(filter_: Any, driver: str, *, limited: bool = False) -> frozenset[str]:
    """Take a node without a CSINode for one that has every driver."""
    unknown = frozenset(name for name in filter_._view.nodes.names if name not in filter_._view.snapshot.csi_node)
    return _FIND_NODES_WITH(filter_, driver, limited=limited) | (frozenset() if limited else unknown)


def find_limited_nodes(filter_: Any, driver: str, *, limited: bool = False) -> frozenset[str]:
    """Take a driver without a limit for one that is missing."""

    def has(node: CSINode) -> bool:
        return any(name == driver and count == 1 for name, count, _ in node.drivers)

    if limited:
        return _FIND_NODES_WITH(filter_, driver, limited=True)
    return frozenset(node.name for node in filter_._view.snapshot.csi_nodes if has(node))


_READ_RESIZED = resources.read_resized
_SCORE = volume_binding.score
_FIND_NODES_WITH = node_volume_limits.NodeVolumeLimits._find_nodes_with

FAULTS: Final[Mapping[str, Fault]] = {
    "resizes: each container's most is summed up": with_rule("resizes_summed", False),
    "resizes: the status is not read": with_pods(resources, "read_resized", without_status),
    "resizes: the pod as a whole is left out": with_pods(resources, "read_resized", without_level),
    "resizes: an infeasible one counts": with_pods(resources, "_is_infeasible", feasible_always),
    "storage: not scored": with_rule("storage_scored", False),
    "storage: more use is better": with_score("VolumeBinding", prefer_used),
    "storage: a volume that is still to be made is free": with_score("VolumeBinding", count_missing_as_free),
    "drivers: never required": with_rule("drivers_required", False),
    "drivers: a node without a CSINode has them": with_patch(
        node_volume_limits.NodeVolumeLimits, "_find_nodes_with", find_nodes_without
    ),
    "drivers: only those with a limit of one are there": with_patch(
        node_volume_limits.NodeVolumeLimits, "_find_nodes_with", find_limited_nodes
    ),
}


def find_first(trials: Iterable[tuple[int, Trial, Scene]]) -> Mapping[str, int]:
    """Return after how many clusters each fault is found; a fault that is not found is absent.

    `trials` come with the number of their cluster, from 1 on.
    """
    found: dict[str, int] = {}
    for number, trial, scene in trials:
        for name, fault in FAULTS.items():
            if name not in found and fault(trial, scene):
                found[name] = number
    return found
