"""Topology keys that look like misspelled well-known keys, and outdated keys."""

from collections.abc import Iterator
from typing import Final

from rebalancer.assessment.name_hints import is_misspelling
from rebalancer.lint.finding import Finding, Operation, Rule, Severity
from rebalancer.lint.manifest import Manifest, Path
from rebalancer.model.nodes import HOSTNAME, ZONE

REGION: Final = "topology.kubernetes.io/region"

_WELL_KNOWN: Final = (HOSTNAME, ZONE, REGION)
"""Source: https://kubernetes.io/docs/reference/labels-annotations-taints/."""

_OUTDATED: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/hostname": HOSTNAME,
}
"""Source: the same page. Clouds still set the first two keys on some nodes; Kubernetes itself sets none of them."""

_OWN_PREFIXES: Final = ("kubernetes.io", "k8s.io")
"""Prefixes, and ends of prefixes, that only Kubernetes may use: an unknown key with one of them is a mistake."""


def check_keys(manifest: Manifest) -> Iterator[Finding]:
    """Yield the topology keys of a template that are probably misspelled."""
    for path, key in topology_keys(manifest):
        meant = _OUTDATED.get(key)
        what = f"is outdated: new nodes have {meant}" if meant else ""
        if meant is None:
            meant = next((known for known in _WELL_KNOWN if _is_meant(known, key)), None)
            what = f"is no well-known key; {meant} is"
        if meant is not None:
            yield Finding(
                rule=Rule.MISSPELT_KEY,
                severity=Severity.WARNING,
                manifest=manifest,
                path=path,
                message=f"topologyKey {key} {what}: {_describe_effect(path)}",
                patch=replace_key(manifest, path, meant),
            )


def replace_key(manifest: Manifest, path: Path, meant: str) -> tuple[Operation, ...]:
    """Return the operation that sets another topology key; none if two constraints would then have the same key."""
    *way, number, _ = path
    others = manifest.find(tuple(way)) if "topologySpreadConstraints" in way else ()
    action = manifest.find((*way, number, "whenUnsatisfiable"))
    if any((one.get("topologyKey"), one.get("whenUnsatisfiable")) == (meant, action) for one in others):
        return ()
    return (Operation("replace", path, meant),)


def _describe_effect(path: Path) -> str:
    """Say what a rule does with a key that no node has: a hard spread constraint admits no node."""
    if "topologySpreadConstraints" in path:
        return "a hard constraint over a key that no node has admits no node, a soft one does nothing"
    if "podAffinity" in path and "requiredDuringSchedulingIgnoredDuringExecution" in path:
        return "required affinity over a key that no node has admits no node"
    return "a rule over a key that no node has does nothing"


def _is_meant(known: str, key: str) -> bool:
    prefix = key.rpartition("/")[0]
    return (not prefix or prefix.endswith(_OWN_PREFIXES) or is_misspelling(known.rpartition("/")[0], prefix)) and (
        is_misspelling(known, key)
    )


def topology_keys(manifest: Manifest) -> Iterator[tuple[Path, str]]:
    """Yield the topology keys in a template's spread constraints, pod affinity and anti-affinity."""
    if manifest.template is None:
        return
    spec = (*manifest.template, "spec")
    for number, constraint in enumerate(manifest.find((*spec, "topologySpreadConstraints")) or ()):
        yield from _key_of(constraint, (*spec, "topologySpreadConstraints", number))
    for kind in ("podAffinity", "podAntiAffinity"):
        at = (*spec, "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution")
        for number, term in enumerate(manifest.find(at) or ()):
            yield from _key_of(term, (*at, number))
        at = (*spec, "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution")
        for number, term in enumerate(manifest.find(at) or ()):
            inner = term.get("podAffinityTerm") if isinstance(term, dict) else None
            yield from _key_of(inner, (*at, number, "podAffinityTerm"))


def _key_of(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict) and isinstance(value.get("topologyKey"), str):
        yield (*path, "topologyKey"), value["topologyKey"]
