"""What the API server's admission plugins add to a pod, as far as it affects scheduling."""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, PreferredPodTerm, TaintEffect, Toleration
from rebalancer.model.labels import LabelSelector, Operator, SelectorRequirement
from rebalancer.model.pods import PodSpec
from rebalancer.scheduling.view import View

DEFAULT_TOLERATIONS: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{problem}", operator="Exists", effect=TaintEffect.NO_EXECUTE, seconds=300)
    for problem in ("not-ready", "unreachable")
)
"""Tolerations that the DefaultTolerationSeconds plugin adds."""


def apply_defaults(spec: PodSpec, labels: Mapping[str, str], view: View) -> PodSpec:
    """Return the spec of a pod template with the API server's defaults, as far as the snapshot has them.

    Applied: the priority of its class (or of the default class), matchLabelKeys, the default tolerations.
    `next_requests` finds what it requests, `node_selectors` which nodes it may use.
    """
    spec = merge_label_keys(spec, labels)
    classes = view.snapshot.priority_classes
    chosen = next((priority_class for priority_class in classes if priority_class.name == spec.priority_class), None)
    if not spec.priority_class:
        chosen = next((priority_class for priority_class in classes if priority_class.default), None)
    if chosen is not None:
        spec = structs.replace(
            spec, priority_class=chosen.name, priority=chosen.value, preempts=chosen.preempts and spec.preempts
        )
    missing = [
        toleration
        for toleration in DEFAULT_TOLERATIONS
        if not any(have.key == toleration.key for have in spec.tolerations)
    ]
    return structs.replace(spec, tolerations=(*spec.tolerations, *missing))


def merge_label_keys(spec: PodSpec, labels: Mapping[str, str]) -> PodSpec:
    """Write matchLabelKeys and mismatchLabelKeys into the selectors, as the API server does on creation.

    API servers from 1.34 on do this for spread constraints; earlier schedulers do it themselves, to the same effect.
    """
    affinity = spec.pod_affinity
    if not any(constraint.match_label_keys for constraint in spec.spread) and not _has_label_keys(affinity):
        return spec
    spread = tuple(
        structs.replace(
            constraint, selector=_add_requirements(constraint.selector, constraint.match_label_keys, (), labels)
        )
        for constraint in spec.spread
    )
    return structs.replace(
        spec,
        spread=spread,
        pod_affinity=PodAffinity(
            required=tuple(_merge_into_term(term, labels) for term in affinity.required),
            preferred=tuple(PreferredPodTerm(e.weight, _merge_into_term(e.term, labels)) for e in affinity.preferred),
            anti_required=tuple(_merge_into_term(term, labels) for term in affinity.anti_required),
            anti_preferred=tuple(
                PreferredPodTerm(e.weight, _merge_into_term(e.term, labels)) for e in affinity.anti_preferred
            ),
        ),
    )


def _has_label_keys(affinity: PodAffinity) -> bool:
    preferred = (weighted.term for weighted in (*affinity.preferred, *affinity.anti_preferred))
    terms = (*affinity.required, *affinity.anti_required, *preferred)
    return any(term.match_label_keys or term.mismatch_label_keys for term in terms)


def _merge_into_term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _add_requirements(term.selector, term.match_label_keys, term.mismatch_label_keys, labels)
    return structs.replace(term, selector=selector)


def _add_requirements(
    selector: LabelSelector | None, keys: tuple[str, ...], mismatching: tuple[str, ...], labels: Mapping[str, str]
) -> LabelSelector | None:
    if selector is None:
        return None
    added = [SelectorRequirement(key, Operator.IN, (labels[key],)) for key in keys if key in labels]
    added += [SelectorRequirement(key, Operator.NOT_IN, (labels[key],)) for key in mismatching if key in labels]
    return LabelSelector.of(None, (*selector.requirements, *added)) if added else selector
