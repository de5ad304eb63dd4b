"""Topology keys that no node of the cluster has."""

from collections.abc import Iterator

from rebalancer.assessment.name_hints import nearest_key
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.keys import replace_key, topology_keys
from rebalancer.lint.manifest import Manifest, Path
from rebalancer.model.spread import WhenUnsatisfiable


def check_domains(ground: Ground) -> Iterator[Finding]:
    """Yield the topology keys in rules that no node has. It is an error if such a rule then admits no node."""
    there = frozenset[str]().union(*(node.labels for node in ground.snapshot.nodes))
    for manifest in ground.manifests.workloads:
        for path, key in topology_keys(manifest):
            if key not in there:
                yield _missing(manifest, path, key, nearest_key(key, there))


def _missing(manifest: Manifest, path: Path, key: str, meant: str | None) -> Finding:
    hard = manifest.find((*path[:-1], "whenUnsatisfiable")) == WhenUnsatisfiable.DO_NOT_SCHEDULE
    together = "podAffinity" in path and "requiredDuringSchedulingIgnoredDuringExecution" in path
    effect = "no pod finds a node" if hard or together else "the rule does nothing"
    return Finding(
        rule=Rule.MISSING_DOMAINS,
        severity=Severity.ERROR if (hard or together) and manifest.replicas else Severity.WARNING,
        manifest=manifest,
        path=path,
        message=f"no node of the cluster has the label {key}: {effect}{f'; did you mean {meant}?' if meant else ''}",
        patch=replace_key(manifest, path, meant) if meant else (),
    )
