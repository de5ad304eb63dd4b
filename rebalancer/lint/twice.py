"""The same object twice among the manifests: if both are deployed, the last one wins."""

from collections.abc import Iterator

from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.manifest import ROOT, Manifest, Manifests


def check_twice(manifests: Manifests) -> Iterator[Finding]:
    """Yield each object that has the group, kind, namespace and name of an earlier one."""
    first_of: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests.every:
        name = manifest.find(("metadata", "name"))
        if not manifest.kind or not isinstance(name, str):
            continue
        group = str(manifest.find(("apiVersion",)) or "").rpartition("/")[0]
        first = first_of.setdefault((group, manifest.kind, manifest.namespace, name), manifest)
        if first is not manifest:
            yield Finding(
                rule=Rule.DUPLICATE_OBJECT,
                severity=Severity.WARNING,
                manifest=manifest,
                path=ROOT,
                message=f"the same object is at {first.file}:{first.find_line(ROOT)}: where both are deployed, the "
                "last one is in force",
            )
