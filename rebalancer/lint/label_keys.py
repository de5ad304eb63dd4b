"""Keys both in matchLabelKeys and in the labelSelector beside it: pods that have such a label are refused.

From 1.34 on the API server accepts such keys in a template, merges the label into the selector of each new pod, and
then refuses the pod because the key is there twice. Earlier API servers refuse the template.

Source: `strategy.go` of `pkg/registry/core/pod` (mutateTopologySpreadConstraints) and
`pkg/apis/core/validation/validation.go` (ValidateMatchLabelKeysAndMismatchLabelKeys).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rebalancer.lint.finding import Finding, Operation, Rule, Severity
from rebalancer.lint.keys import topology_keys
from rebalancer.lint.manifest import Manifest, Path
from rebalancer.lint.terms import TEMPLATE_HASH

_REVISION: Final = "controller-revision-hash"
_ADDED: Final[Mapping[str, frozenset[str]]] = {
    "Deployment": frozenset({TEMPLATE_HASH}),
    "StatefulSet": frozenset({_REVISION, "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}),
    "DaemonSet": frozenset({_REVISION}),
}
"""The labels that controllers add to the pods of a template."""


def check_label_keys(manifest: Manifest) -> Iterator[Finding]:
    """Yield the constraints and terms of affinity because of which the API server refuses the pods."""
    if manifest.workload is None or manifest.workload.template is None:
        return
    carried = manifest.workload.template.labels.keys() | _ADDED.get(manifest.kind, frozenset())
    for (*way, _), _ in topology_keys(manifest):
        at = tuple(way)
        both = find_in_both(manifest, at, manifest.find((*at, "labelSelector")))
        if refused := [key for key in both if key in carried]:
            verb = "it" if manifest.kind == "Pod" else "its pods"
            are = "is" if len(refused) == 1 else "are"
            yield Finding(
                rule=Rule.REFUSED_VALUE,
                severity=Severity.ERROR,
                manifest=manifest,
                path=(*at, "matchLabelKeys"),
                message=f"{', '.join(refused)} {are} in both matchLabelKeys and labelSelector: the API server refuses "
                f"{verb}",
                patch=drop_keys(manifest, at, refused),
            )


def find_in_both(manifest: Manifest, at: Path, selector: Any) -> Sequence[str]:
    """Return the keys that are both in the selector and in the matchLabelKeys of the constraint or term at a path."""
    keys = manifest.find((*at, "matchLabelKeys"))
    if not isinstance(keys, list) or not isinstance(selector, Mapping):
        return []
    named = {*(selector.get("matchLabels") or ()), *(one["key"] for one in selector.get("matchExpressions") or ())}
    return [key for key in keys if key in named]


def drop_keys(manifest: Manifest, at: Path, dropped: Sequence[str]) -> tuple[Operation, ...]:
    """Return the operation that removes keys from matchLabelKeys; they are superfluous if the selector names them."""
    path = (*at, "matchLabelKeys")
    left = [key for key in manifest.find(path) or () if key not in dropped]
    if not dropped:
        return ()
    return (Operation("replace", path, left),) if left else (Operation("remove", path),)
