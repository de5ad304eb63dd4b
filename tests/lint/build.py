"""Manifests for tests: Deployments and what belongs to them, as text, and the findings of it."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import yaml
from msgspec import structs

from rebalancer.adapters.files.manifests import read_manifests
from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule
from rebalancer.lint.manifest import Manifests
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
OWN: Mapping[str, Any] = {"matchLabels": {"app": "web"}}


def spread(key: str = ZONE, max_skew: int = 1, *, hard: bool = True, **fields: Any) -> dict[str, Any]:
    """Return a spread constraint over the workload's own pods."""
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {"topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": action, "labelSelector": OWN, **fields}


def term(key: str = HOST, **fields: Any) -> dict[str, Any]:
    """Return a term of affinity or anti-affinity to the workload's own pods."""
    return {"topologyKey": key, "labelSelector": OWN, **fields}


def affinity(together: Sequence[Any] = (), apart: Sequence[Any] = ()) -> dict[str, Any]:
    """Return required terms."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"podAffinity": {required: [*together]}, "podAntiAffinity": {required: [*apart]}}


def deployment(
    replicas: int | None = 3, *, kind: str = "Deployment", labels: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a Deployment `shop/web`; `strategy` and `selector` are its own, the other fields its template's."""
    own = {name: spec.pop(name) for name in ("strategy", "updateStrategy") if name in spec}
    chosen = spec.pop("selector", OWN)
    count = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            **count,
            **own,
            "selector": chosen,
            "template": {
                "metadata": {"labels": dict(labels or {"app": "web"})},
                "spec": {"containers": [{"name": "web", "image": "web"}], **spec},
            },
        },
    }


def budget(name: str = "web", **spec: Any) -> dict[str, Any]:
    """Return a PodDisruptionBudget over the workload's pods."""
    metadata = {"name": name, "namespace": "shop"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"selector": OWN, **spec},
    }


def autoscaler(least: int, most: int) -> dict[str, Any]:
    """Return a HorizontalPodAutoscaler of the Deployment `shop/web`."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most},
    }


def as_written(snapshot: Snapshot, made: Mapping[str, Any]) -> Snapshot:
    """Return a cluster in which the workload of a manifest has that template's spec already: it is no rollout."""
    (manifest,) = manifests(text(made)).workloads
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    spec = manifest.workload.template.spec

    def write(one: Workload) -> Workload:
        if one.template is None or one.name.split("-")[0] != manifest.name:
            return one
        return structs.replace(one, template=structs.replace(one.template, spec=spec))

    return replace(snapshot, workloads=tuple(map(write, snapshot.workloads)))


def text(*objects: Mapping[str, Any]) -> str:
    return yaml.safe_dump_all([msgspec.to_builtins(one) for one in objects], sort_keys=False)


def manifests(written: str, file: str = "web.yaml") -> Manifests:
    return Manifests.of(read_manifests(written, file))


def findings(*objects: Mapping[str, Any]) -> Sequence[Finding]:
    return lint(manifests(text(*objects)))


def found(rule: Rule, *objects: Mapping[str, Any]) -> list[Finding]:
    """Return what one rule finds."""
    return [one for one in findings(*objects) if one.rule is rule]


def patched(value: Mapping[str, Any], finding: Finding) -> dict[str, Any]:
    """Return an object after a finding's patch, applied as RFC 6902 says."""
    changed = copy.deepcopy(dict(value))
    for operation in finding.patch:
        *way, last = operation.path
        target: Any = changed
        for step in way:
            target = target[step]
        if operation.op == "remove":
            del target[last]
        elif isinstance(target, list) and operation.op == "add":
            target.insert(int(last), operation.value)
        else:
            assert operation.op == "add" or last in target
            target[last] = operation.value
    return changed
