"""What a pod asks of its place: affinity, tolerations, spread constraints."""

from rebalancer.decoding import wire
from rebalancer.decoding.errors import MalformedObject, one_of
from rebalancer.decoding.metadata import labels, requirement, selector
from rebalancer.model.affinity import (
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    PreferredPodTerm,
    TaintEffect,
    Toleration,
)
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable

_TOLERATION_OPERATORS = frozenset({"Equal", "Exists", "Lt", "Gt"})


def node_affinity(spec: wire.PodSpec) -> NodeAffinity:
    """Read nodeSelector and node affinity."""
    found = spec.affinity.node_affinity if spec.affinity else None
    if found is None:
        return NodeAffinity(selector=labels(spec.node_selector))
    field = "spec.affinity.nodeAffinity"
    required = found.required_during_scheduling_ignored_during_execution
    preferred = found.preferred_during_scheduling_ignored_during_execution or ()
    return NodeAffinity(
        selector=labels(spec.node_selector),
        required=node_terms(required, f"{field}.required…"),
        preferred=tuple(
            PreferredNodeTerm(each.weight, node_term(each.preference, f"{field}.preferred…[{position}]"))
            for position, each in enumerate(preferred)
        ),
    )


def node_terms(found: wire.NodeSelector | None, field: str) -> tuple[NodeSelectorTerm, ...] | None:
    """Read a node selector; None where there is none."""
    if found is None:
        return None
    return tuple(
        node_term(each, f"{field}.nodeSelectorTerms[{position}]")
        for position, each in enumerate(found.node_selector_terms or ())
    )


def node_term(found: wire.NodeSelectorTerm, field: str) -> NodeSelectorTerm:
    """Read one node selector term."""
    expressions = tuple(
        requirement(each, f"{field}.matchExpressions[{position}]")
        for position, each in enumerate(found.match_expressions or ())
    )
    fields = tuple(
        requirement(each, f"{field}.matchFields[{position}]") for position, each in enumerate(found.match_fields or ())
    )
    return NodeSelectorTerm(expressions, fields)


def pod_affinity(spec: wire.PodSpec) -> PodAffinity:
    """Read pod affinity and anti-affinity."""
    if spec.affinity is None:
        return PodAffinity()
    towards, against = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
    required, preferred = _pod_terms(towards, "spec.affinity.podAffinity")
    anti_required, anti_preferred = _pod_terms(against, "spec.affinity.podAntiAffinity")
    return PodAffinity(
        required=required, preferred=preferred, anti_required=anti_required, anti_preferred=anti_preferred
    )


def _pod_terms(
    found: wire.PodAffinity | None, field: str
) -> tuple[tuple[PodAffinityTerm, ...], tuple[PreferredPodTerm, ...]]:
    if found is None:
        return (), ()
    required = found.required_during_scheduling_ignored_during_execution or ()
    preferred = found.preferred_during_scheduling_ignored_during_execution or ()
    return (
        tuple(_pod_term(each, f"{field}.required…[{position}]") for position, each in enumerate(required)),
        tuple(
            PreferredPodTerm(each.weight, _pod_term(each.pod_affinity_term, f"{field}.preferred…[{position}]"))
            for position, each in enumerate(preferred)
        ),
    )


def _pod_term(found: wire.PodAffinityTerm, field: str) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=found.topology_key,
        selector=selector(found.label_selector, f"{field}.labelSelector"),
        namespaces=tuple(sorted(found.namespaces or ())),
        namespace_selector=selector(found.namespace_selector, f"{field}.namespaceSelector"),
        match_label_keys=tuple(found.match_label_keys or ()),
        mismatch_label_keys=tuple(found.mismatch_label_keys or ()),
    )


def tolerations(spec: wire.PodSpec) -> tuple[Toleration, ...]:
    """Read the tolerations."""
    read = []
    for position, each in enumerate(spec.tolerations or ()):
        field = f"spec.tolerations[{position}]"
        operator = each.operator or "Equal"
        if operator not in _TOLERATION_OPERATORS:
            raise MalformedObject(f"{field}.operator", f"{operator!r} is not one of Equal, Exists, Lt, Gt")
        if each.effect:
            one_of(TaintEffect, each.effect, f"{field}.effect")
        if not each.key and operator != "Exists":
            raise MalformedObject(f"{field}.operator", "must be Exists where no key is named")
        read.append(Toleration(key=each.key, operator=operator, value=each.value, effect=each.effect))
    return tuple(read)


def spread(spec: wire.PodSpec) -> tuple[SpreadConstraint, ...]:
    """Read the topology spread constraints, in their order: the first that fails decides the verdict's code."""
    read = []
    for position, each in enumerate(spec.topology_spread_constraints or ()):
        field = f"spec.topologySpreadConstraints[{position}]"
        if each.max_skew < 1:
            raise MalformedObject(f"{field}.maxSkew", f"{each.max_skew} is below 1")
        if not each.topology_key:
            raise MalformedObject(f"{field}.topologyKey", "is empty")
        if each.min_domains is not None and each.min_domains < 1:
            raise MalformedObject(f"{field}.minDomains", f"{each.min_domains} is below 1")
        affinity, taints = each.node_affinity_policy, each.node_taints_policy
        read.append(
            SpreadConstraint(
                topology_key=each.topology_key,
                max_skew=each.max_skew,
                when_unsatisfiable=one_of(WhenUnsatisfiable, each.when_unsatisfiable, f"{field}.whenUnsatisfiable"),
                selector=selector(each.label_selector, f"{field}.labelSelector"),
                min_domains=each.min_domains,
                node_affinity_policy=one_of(InclusionPolicy, affinity or "Honor", f"{field}.nodeAffinityPolicy"),
                node_taints_policy=one_of(InclusionPolicy, taints or "Ignore", f"{field}.nodeTaintsPolicy"),
                match_label_keys=tuple(each.match_label_keys or ()),
            )
        )
    return tuple(read)
