"""What a template's required terms mean for its own pods: a domain holds at most one, or one domain holds all."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rebalancer.lint.manifest import Manifest, Path
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.spread import SpreadConstraint
from rebalancer.model.workloads import PodTemplate

TEMPLATE_HASH: Final = "pod-template-hash"
"""The label whose values differ between the revisions of a Deployment's pods."""

_INDEX: Final = frozenset({"batch.kubernetes.io/job-completion-index"})
_OF_EACH_POD: Final[Mapping[str, frozenset[str]]] = {
    "StatefulSet": frozenset({"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}),
    "Job": _INDEX,
    "CronJob": _INDEX,
}
"""The labels whose values controllers make different for each pod."""


def own_terms(manifest: Manifest, *, apart: bool) -> Iterator[tuple[Path, PodAffinityTerm]]:
    """Yield the required terms that select the template's own pods: anti-affinity if `apart`, else affinity."""
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
    """Return whether a term selects pods of its own template, whatever labels the namespace has."""
    if term.selector is None or not term.selector.matches(template.labels):
        return False
    if term.mismatch_label_keys:
        return False
    if term.namespaces or term.namespace_selector is not None:
        selects_all = term.namespace_selector is not None and term.namespace_selector.matches({})
        return namespace in term.namespaces or selects_all
    return True


def splits_revisions(keys: Sequence[str]) -> bool:
    """Return whether matchLabelKeys distinguish the pods of two revisions."""
    return TEMPLATE_HASH in keys


def tells_pods_apart(manifest: Manifest, counted: PodAffinityTerm | SpreadConstraint) -> bool:
    """Return whether matchLabelKeys name a label that differs for each pod, so that a pod counts only itself."""
    return not _OF_EACH_POD.get(manifest.kind, frozenset()).isdisjoint(counted.match_label_keys)


def counts_own_alone(manifest: Manifest, counted: PodAffinityTerm | SpreadConstraint) -> bool:
    """Return whether a term or constraint certainly counts all pods of the manifest together, and no other pods.

    It does if it requires all labels of the workload's selector, because no other workload's pods have them.
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
