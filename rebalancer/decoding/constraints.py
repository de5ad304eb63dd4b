"""The scheduling constraints of a pod: affinity, tolerations, spread constraints."""

from collections.abc import Iterable

from msgspec import structs

from rebalancer.decoding import wire
from rebalancer.decoding.errors import MalformedObject, parse_choice
from rebalancer.decoding.metadata import decode_labels, decode_requirement, decode_selector
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


def decode_node_affinity(spec: wire.PodSpec) -> NodeAffinity:
    """Read nodeSelector and node affinity."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None:
        return NodeAffinity(selector=decode_labels(spec.node_selector))
    field = "spec.affinity.nodeAffinity"
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return NodeAffinity(
        selector=decode_labels(spec.node_selector),
        required=decode_node_terms(required, f"{field}.required…"),
        preferred=tuple(
            PreferredNodeTerm(term.weight, decode_node_term(term.preference, f"{field}.preferred…[{position}]"))
            for position, term in enumerate(preferred)
        ),
    )


def decode_node_terms(source: wire.NodeSelector | None, field: str) -> tuple[NodeSelectorTerm, ...] | None:
    """Read a node selector; None where there is none."""
    if source is None:
        return None
    return tuple(
        decode_node_term(term, f"{field}.nodeSelectorTerms[{position}]")
        for position, term in enumerate(source.node_selector_terms or ())
    )


def decode_node_term(source: wire.NodeSelectorTerm, field: str) -> NodeSelectorTerm:
    """Read one node selector term."""
    expressions = tuple(
        decode_requirement(expression, f"{field}.matchExpressions[{position}]")
        for position, expression in enumerate(source.match_expressions or ())
    )
    fields = tuple(
        decode_requirement(expression, f"{field}.matchFields[{position}]")
        for position, expression in enumerate(source.match_fields or ())
    )
    return NodeSelectorTerm(expressions, fields)


def decode_pod_affinity(spec: wire.PodSpec) -> PodAffinity:
    """Read pod affinity and anti-affinity."""
    if spec.affinity is None:
        return PodAffinity()
    towards, against = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
    required, preferred = _decode_pod_terms(towards, "spec.affinity.podAffinity")
    anti_required, anti_preferred = _decode_pod_terms(against, "spec.affinity.podAntiAffinity")
    return PodAffinity(
        required=required, preferred=preferred, anti_required=anti_required, anti_preferred=anti_preferred
    )


def _decode_pod_terms(
    affinity: wire.PodAffinity | None, field: str
) -> tuple[tuple[PodAffinityTerm, ...], tuple[PreferredPodTerm, ...]]:
    if affinity is None:
        return (), ()
    required = affinity.required_during_scheduling_ignored_during_execution or ()
    preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return (
        tuple(_decode_pod_term(term, f"{field}.required…[{position}]") for position, term in enumerate(required)),
        tuple(
            PreferredPodTerm(term.weight, _decode_pod_term(term.pod_affinity_term, f"{field}.preferred…[{position}]"))
            for position, term in enumerate(preferred)
        ),
    )


def _decode_pod_term(source: wire.PodAffinityTerm, field: str) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=source.topology_key,
        selector=decode_selector(source.label_selector, f"{field}.labelSelector"),
        namespaces=tuple(sorted(source.namespaces or ())),
        namespace_selector=decode_selector(source.namespace_selector, f"{field}.namespaceSelector"),
        match_label_keys=tuple(source.match_label_keys or ()),
        mismatch_label_keys=tuple(source.mismatch_label_keys or ()),
    )


def decode_tolerations(source: Iterable[Toleration] | None, field: str) -> tuple[Toleration, ...]:
    """Check the tolerations; their operator is Equal unless they name one."""
    read = []
    for position, toleration in enumerate(source or ()):
        at = f"{field}[{position}]"
        operator = toleration.operator or "Equal"
        if operator not in _TOLERATION_OPERATORS:
            raise MalformedObject(f"{at}.operator", f"{operator!r} is not one of Equal, Exists, Lt, Gt")
        if toleration.effect:
            parse_choice(TaintEffect, toleration.effect, f"{at}.effect")
        if not toleration.key and operator != "Exists":
            raise MalformedObject(f"{at}.operator", f"{operator!r} needs a key; without a key it must be Exists")
        read.append(structs.replace(toleration, operator=operator))
    return tuple(read)


def decode_spread(spec: wire.PodSpec) -> tuple[SpreadConstraint, ...]:
    """Read the topology spread constraints in order, because the first that fails decides the verdict's code."""
    read = []
    for position, constraint in enumerate(spec.topology_spread_constraints or ()):
        field = f"spec.topologySpreadConstraints[{position}]"
        if constraint.max_skew < 1:
            raise MalformedObject(f"{field}.maxSkew", f"{constraint.max_skew} must be at least 1")
        if not constraint.topology_key:
            raise MalformedObject(f"{field}.topologyKey", "must not be empty")
        if constraint.min_domains is not None and constraint.min_domains < 1:
            raise MalformedObject(f"{field}.minDomains", f"{constraint.min_domains} must be at least 1")
        affinity, taints = constraint.node_affinity_policy, constraint.node_taints_policy
        read.append(
            SpreadConstraint(
                topology_key=constraint.topology_key,
                max_skew=constraint.max_skew,
                when_unsatisfiable=parse_choice(
                    WhenUnsatisfiable, constraint.when_unsatisfiable, f"{field}.whenUnsatisfiable"
                ),
                selector=decode_selector(constraint.label_selector, f"{field}.labelSelector"),
                min_domains=constraint.min_domains,
                node_affinity_policy=parse_choice(InclusionPolicy, affinity or "Honor", f"{field}.nodeAffinityPolicy"),
                node_taints_policy=parse_choice(InclusionPolicy, taints or "Ignore", f"{field}.nodeTaintsPolicy"),
                match_label_keys=tuple(constraint.match_label_keys or ()),
            )
        )
    return tuple(read)
