"""Fields that all objects share: labels, annotations, owners, selectors."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from rebalancer.decoding import bounds, wire
from rebalancer.decoding.errors import MalformedObject, parse_choice
from rebalancer.model.labels import NO_LABELS, Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.pods import OwnerReference
from rebalancer.model.workloads import name_kind

REQUESTER = "openshift.io/requester"
UNDATED = datetime(1970, 1, 1, tzinfo=UTC)
"""Creation time of an object without one, as in hand-written files: old enough for every rule of age."""

_ANNOTATION_PREFIXES = (
    "rebalancer.dev/",
    "descheduler.alpha.kubernetes.io/",
    "cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
)
_ANNOTATIONS = frozenset(
    {
        "controller.kubernetes.io/pod-deletion-cost",
        "deployment.kubernetes.io/revision",
        "openshift.io/node-selector",
        "scheduler.alpha.kubernetes.io/node-selector",
    }
)

_WITHOUT_VALUES = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})
_LABEL_OPERATORS = frozenset({Operator.IN, Operator.NOT_IN}) | _WITHOUT_VALUES


def decode_labels(source: Mapping[str, str] | None) -> Labels:
    """Make a label set."""
    return Labels(source) if source else NO_LABELS


def decode_annotations(source: Mapping[str, str] | None) -> Labels:
    """Make a label set of only those annotations that are read: the others can be large and private."""
    if not source:
        return NO_LABELS
    relevant = {
        key: bounds.shorten_annotation(key, value)
        for key, value in source.items()
        if key in _ANNOTATIONS or key.startswith(_ANNOTATION_PREFIXES)
    }
    return Labels(relevant) if relevant else NO_LABELS


def decode_namespace_annotations(source: Mapping[str, str] | None) -> Labels:
    """Make a label set of the annotations of a namespace that are read.

    OpenShift's quotas over several namespaces select by any annotation; of these only who has requested it is read.
    """
    requester = (source or {}).get(REQUESTER)
    read = decode_annotations(source)
    return Labels({**read, REQUESTER: requester}) if requester else read


def find_controller(references: Iterable[wire.OwnerReference] | None) -> OwnerReference | None:
    """Return the owner that has `controller: true`."""
    for reference in references or ():
        if reference.controller:
            group = bounds.shorten(reference.api_version.rpartition("/")[0], bounds.LONGEST_NAME)
            kind = name_kind(bounds.shorten(reference.kind, bounds.LONGEST_KIND), group)
            name = bounds.shorten(reference.name, bounds.LONGEST_NAME)
            uid = bounds.shorten(reference.uid, bounds.LONGEST_NAME)
            return OwnerReference(group=group, kind=kind, name=name, uid=uid)
    return None


def find_target_kind(target: wire.ScaleTarget) -> str:
    """Return the kind of an autoscaler's target, as workloads have it. Without a group it is a Kubernetes kind."""
    group = target.api_version.rpartition("/")[0]
    return name_kind(target.kind, group) if target.api_version else target.kind


def find_owning_pod(references: Iterable[wire.OwnerReference] | None) -> str:
    """Return the UID of the pod that is the only owner of an object, "" if there are other owners or none.

    The garbage collector deletes an object when its last owner is gone, a controller or not; while another one exists
    it stays. Source: `pkg/controller/garbagecollector/garbagecollector.go` (attemptToDeleteItem).
    """
    owners = {(reference.api_version, reference.kind, reference.uid) for reference in references or ()}
    if len(owners) != 1:
        return ""
    ((api_version, kind, uid),) = owners
    return uid if (api_version, kind) == ("v1", "Pod") else ""


def get_creation_time(metadata: wire.Metadata) -> datetime:
    """Return when an object was created, UNDATED if a hand-written file lacks the time."""
    return metadata.creation_timestamp or UNDATED


def find_last_change(source: Iterable[wire.ManagedFields] | None) -> datetime | None:
    """Return when an object, apart from its status, was last changed; None without managed fields.

    Source: the field manager of `k8s.io/apiserver` gives each entry the time of its last change.
    """
    times = [entry.time for entry in source or () if entry.time is not None and entry.subresource != "status"]
    return max(times, default=None)


def decode_selector(source: wire.LabelSelector | None, field: str) -> LabelSelector | None:
    """Convert a label selector to the model's; null stays None."""
    if source is None:
        return None
    expressions = tuple(
        decode_requirement(expression, f"{field}.matchExpressions[{position}]", _LABEL_OPERATORS)
        for position, expression in enumerate(source.match_expressions or ())
    )
    return LabelSelector.of(source.match_labels, expressions)


def decode_requirement(
    source: wire.Expression, field: str, operators: Iterable[Operator] = Operator
) -> SelectorRequirement:
    """Convert one expression to the model's, with the API server's rules on operators and values."""
    operator = parse_choice(Operator, source.operator, f"{field}.operator")
    if operator not in operators:
        raise MalformedObject(f"{field}.operator", f"{source.operator!r} is allowed in node selectors only")
    values = tuple(sorted(set(source.values or ())))
    if operator in _WITHOUT_VALUES and values:
        raise MalformedObject(f"{field}.values", f"{operator} takes no values")
    if operator in {Operator.IN, Operator.NOT_IN} and not values:
        raise MalformedObject(f"{field}.values", f"{operator} needs at least one value")
    if operator in {Operator.GT, Operator.LT} and len(values) != 1:
        raise MalformedObject(f"{field}.values", f"{operator} needs exactly one value")
    return SelectorRequirement(source.key, operator, values)
