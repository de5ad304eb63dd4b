"""What the required terms of a template say of its own pods: which domains hold at most one, or only one holds any."""

from collections.abc import Iterator, Sequence
from typing import Final

from rebalancer.lint.manifest import Manifest, Path
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.workloads import PodTemplate

TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which pods of two revisions of a Deployment differ."""


def own_terms(manifest: Manifest, *, apart: bool) -> Iterator[tuple[Path, PodAffinityTerm]]:
    """Yield the required terms that concern the template's own pods: anti-affinity if `apart`, else affinity."""
    workload = manifest.workload
    if workload is None or workload.template is None or manifest.template is None:
        return
    affinity = workload.template.spec.pod_affinity
    kind = "podAntiAffinity" if apart else "podAffinity"
    at = (*manifest.template, "spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution")
    for number, term in enumerate(affinity.anti_required if apart else affinity.required):
        if _concerns(term, workload.template, manifest.namespace):
            yield (*at, number), term


def _concerns(term: PodAffinityTerm, template: PodTemplate, namespace: str) -> bool:
    """Return whether a term's pods are those of its own template, whatever labels a namespace has."""
    if term.selector is None or not term.selector.matches(template.labels):
        return False
    if term.mismatch_label_keys:
        return False
    if term.namespaces or term.namespace_selector is not None:
        selects_all = term.namespace_selector is not None and term.namespace_selector.matches({})
        return namespace in term.namespaces or selects_all
    return True


def splits_revisions(keys: Sequence[str]) -> bool:
    """Return whether matchLabelKeys tell the pods of two revisions apart."""
    return TEMPLATE_HASH in keys
