"""Reads owners of kinds outside of Kubernetes itself, whose shape is unknown.

The scale subresource of the CustomResourceDefinition says where the number of wanted pods is, as for the controller of
disruption budgets. In a file without the definition it is `.spec.replicas`. An object with a list of pods, like a
StrimziPodSet, wants these pods. The other fields are read at their paths in a Deployment, which most such kinds share;
they may be missing.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from rebalancer.decoding import wire
from rebalancer.decoding.errors import MalformedObject
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import (
    decode_annotations,
    decode_labels,
    decode_selector,
    find_controller,
    find_owning_pod,
    get_creation_time,
)
from rebalancer.decoding.pods import decode_template
from rebalancer.decoding.workloads import read_deadline
from rebalancer.model.workloads import Workload, name_kind

_SELECTORS: Final = (".status.selector", ".status.labelSelector")
"""Usual paths of the selector, for scale subresources that name none."""
_DEFAULT_POLICY: Final = {"StatefulSet": "OrderedReady"}
"""The default podManagementPolicy of kinds that resemble a kind of Kubernetes."""
_REQUIREMENT: Final = re.compile(r"\s*([^\s=!,()]+)\s*(?:=|==)\s*([^\s=!,()]*)\s*\Z")


class Scale(NamedTuple):
    """Where a kind's scale subresource has its numbers: paths such as `.spec.replicas`, "" if there is none."""

    replicas: str = ".spec.replicas"
    selector: str = ""


class _Source(wire.Wire, frozen=True):
    metadata: wire.Metadata
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


_SOURCE = msgspec.json.Decoder(_Source)


class OwnerReader:
    """Decodes the objects of one kind to `wire.ForeignOwner`; other fields are skipped."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def decode(self, data: bytes | msgspec.Raw) -> wire.ForeignOwner:
        """Return the fields that are read of an object; raise msgspec.ValidationError or MalformedObject."""
        source = _SOURCE.decode(data)
        spec, status = source.spec or {}, source.status or {}
        whole = {"spec": spec, "status": status}
        replicas = _find(whole, self._scale.replicas)
        if replicas is None and isinstance(spec.get("pods"), list):
            replicas = len(spec["pods"])
        return wire.ForeignOwner(
            metadata=source.metadata,
            spec=wire.ForeignSpec(
                replicas=_read_number(replicas),
                selector=self._read_selector(spec, whole),
                template=_read_template(spec.get("template")),
                paused=spec.get("paused") is True,
                pod_management_policy=str(spec.get("podManagementPolicy") or ""),
                progress_deadline_seconds=_read_number(spec.get("progressDeadlineSeconds")),
            ),
            status=wire.ForeignStatus(
                replicas=_read_number(status.get("replicas")),
                ready_replicas=_read_number(status.get("readyReplicas")),
                updated_replicas=_read_number(status.get("updatedReplicas", status.get("currentPods"))),
                observed_generation=_read_number(status.get("observedGeneration")),
            ),
        )

    def _read_selector(self, spec: Mapping[str, Any], whole: Mapping[str, Any]) -> wire.LabelSelector | None:
        written = spec.get("selector")
        if isinstance(written, dict) and written.keys() & {"matchLabels", "matchExpressions"}:
            selector: wire.LabelSelector | None = _convert(written, wire.LabelSelector)
            return selector
        paths = (self._scale.selector,) if self._scale.selector else _SELECTORS
        texts = (text for path in paths if isinstance(text := _find(whole, path), str))
        return _parse_selector(next(texts, ""))


def _find(whole: Mapping[str, Any], path: str) -> object:
    """Return the value at a path such as `.spec.replicas`; None where there is none."""
    value: object = whole
    for key in path.strip(".").split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _read_number(value: object) -> int | None:
    """Return a number from 0; some controllers write their generation as text."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _read_template(value: object) -> wire.PodTemplate | None:
    """Return a template of pods, None without one; templates of other objects have no containers.

    Raises MalformedObject for an unreadable template, because replacements may then differ from present pods.
    """
    if value is None:
        return None
    spec = value.get("spec") if isinstance(value, dict) else None
    if isinstance(value, dict) and (spec is None or (isinstance(spec, dict) and "containers" not in spec)):
        return None
    try:
        template: wire.PodTemplate = msgspec.convert(value, wire.PodTemplate)
    except msgspec.ValidationError as error:
        raise MalformedObject("spec.template", f"expected a template of pods: {error}") from None
    return template


def _convert(value: object, shape: type[Any]) -> Any:
    """Convert a value to a shape, None if it has another shape."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=shape)
    except msgspec.ValidationError:
        return None


def _parse_selector(text: str) -> wire.LabelSelector | None:
    """Read a selector of labels with values; None for any other."""
    matches = [_REQUIREMENT.match(part) for part in text.split(",")] if text.strip() else []
    labels = {match[1]: match[2] for match in matches if match is not None}
    return wire.LabelSelector(match_labels=labels) if labels and all(matches) else None


def decode_foreign_owner(source: wire.ForeignOwner, intern: Interner, *, kind: str, group: str) -> Workload:
    """Convert an owner to the model's; raise MalformedObject if its number of wanted pods is missing."""
    metadata, spec, status = source.metadata, source.spec, source.status
    if not metadata.namespace:
        raise MalformedObject("metadata.namespace", "expected one: pods of several namespaces are not planned together")
    replicas = spec.replicas
    if replicas is None:
        raise MalformedObject(
            "spec.replicas",
            "expected the number of pods, there or where a scale subresource names it",
        )
    return Workload(
        group=group,
        kind=name_kind(kind, group),
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        labels=intern(decode_labels(metadata.labels)),
        annotations=intern(decode_annotations(metadata.annotations)),
        selector=decode_selector(spec.selector, "spec.selector"),
        template=decode_template(spec.template, intern),
        replicas=replicas,
        current=_default(status.replicas, replicas),
        ready=_default(status.ready_replicas, replicas),
        updated=_default(status.updated_replicas, replicas),
        observed=_default(status.observed_generation, metadata.generation) >= metadata.generation,
        paused=spec.paused,
        progress_deadline_seconds=read_deadline(spec.progress_deadline_seconds),
        ordered=(spec.pod_management_policy or _DEFAULT_POLICY.get(kind, "")) == "OrderedReady",
        owner=find_controller(metadata.owner_references),
        owning_pod=find_owning_pod(metadata.owner_references),
        created=get_creation_time(metadata),
        deleted=metadata.deletion_timestamp,
    )


def _default(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
