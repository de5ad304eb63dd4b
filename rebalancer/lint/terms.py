"""What the required terms of a template say of its own pods: which domains hold at most one, or only one holds any."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rebalancer.lint.manifest import Manifest, Path
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.spread import SpreadConstraint
from rebalancer.model.workloads import PodTemplate

TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which pods of two revisions of a Deployment differ."""

_INDEX: Final = frozenset({"batch.kubernetes.io/job-completion-index"})
_OF_EACH_POD: Final[Mapping[str, frozenset[str]]] = {
    "StatefulSet": frozenset({"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}),
    "Job": _INDEX,
    "CronJob": _INDEX,
}
"""The labels to which controllers give a different value for each pod."""


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
    """Return whether a term's pods are those of its own template, for any labels of the namespace."""
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


def tells_pods_apart(manifest: Manifest, counted: PodAffinityTerm | SpreadConstraint) -> bool:
    """Return whether matchLabelKeys name a label that differs for each pod: a pod then counts itself alone."""
    return not _OF_EACH_POD.get(manifest.kind, frozenset()).isdisjoint(counted.match_label_keys)


def counts_own_alone(manifest: Manifest, counted: PodAffinityTerm | SpreadConstraint) -> bool:
    """Return whether a term or constraint is certain to count exactly the manifest's own pods, all of them together.

    It requires all labels of the workload's selector, by which no other workload has pods.
    """
    workload, selector = manifest.workload, counted.selector
    if workload is None or workload.template is None or selector is None or workload.selector is None:
        return False
    if isinstance(counted, PodAffinityTerm) and (counted.namespaces or counted.namespace_selector is not None):
        return False
    own, labels = workload.selector.requirements, workload.template.labels
    return (
        bool(own)
        and selector.matches(labels)
        and {*selector.requirements} >= {*own}
        and labels.keys() | {TEMPLATE_HASH} >= {*counted.match_label_keys}
    )
