"""Objects reduced to the fields that are read, in the form of Kubernetes: safe to hand to somebody else.

An object is decoded into its shape in `wire` or `creation_wire`, and written from that. These shapes have no field for
environment variables, commands, secrets, certificates or data. The shapes of `wire` have all annotations; only the
annotations that are read remain.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from rebalancer.decoding import wire
from rebalancer.decoding.kinds import ResourceKind
from rebalancer.decoding.metadata import decode_annotations, decode_namespace_annotations

KNOWN_KINDS: Final = "rebalancer.dev/kinds"
"""The annotation of a reduced list that names the kinds it contains, those without any object too."""

_VALUES_READ: Final = frozenset(
    {
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "storageclass.kubernetes.io/is-default-class",
    }
)
_PRESENCE_READ: Final = frozenset({"kubernetes.io/config.mirror", "pv.kubernetes.io/bind-completed"})


def reduce_object(kind: ResourceKind, data: bytes | msgspec.Raw) -> bytes:
    """Return an object with only the fields that are read; raise msgspec.ValidationError if it is malformed."""
    shape = _reduce_metadata(kind.decoder.decode(data))
    head = msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.name})
    return head[:-1] + b"," + msgspec.json.encode(shape)[1:]


def reduced_list(items: Iterable[bytes], kinds: Iterable[str], taken_at: str) -> Iterator[bytes]:
    """Yield a List of reduced objects in pieces; `taken_at` is its time in RFC 3339, "" if it is not known."""
    metadata: dict[str, Any] = {"annotations": {KNOWN_KINDS: ",".join(sorted(kinds))}}
    if taken_at:
        metadata["creationTimestamp"] = taken_at
    yield b'{"apiVersion":"v1","kind":"List","metadata":' + msgspec.json.encode(metadata) + b',"items":['
    for number, item in enumerate(items):
        yield (b",\n" if number else b"\n") + item
    yield b"\n]}\n"


def _reduce_metadata(shape: Any) -> Any:
    """Remove the annotations that are not read from an object, its pod template and its claim templates."""
    changes: dict[str, Any] = {"metadata": _without_private(shape.metadata)}
    spec = getattr(shape, "spec", None)
    template = getattr(spec, "template", None)
    spec_changes: dict[str, Any] = {}
    if template is not None and template.metadata is not None:
        spec_changes["template"] = structs.replace(template, metadata=_without_private(template.metadata))
    claims = getattr(spec, "volume_claim_templates", None)
    if claims:
        spec_changes["volume_claim_templates"] = [
            structs.replace(claim, metadata=_without_private(claim.metadata)) for claim in claims
        ]
    if spec is not None and spec_changes:
        changes["spec"] = structs.replace(spec, **spec_changes)
    return structs.replace(shape, **changes)


def _without_private(
    metadata: wire.Metadata | wire.TemplateMetadata | wire.BareMetadata,
) -> wire.Metadata | wire.TemplateMetadata | wire.BareMetadata:
    if isinstance(metadata, wire.BareMetadata):
        return metadata
    annotations = _read_annotations(metadata.annotations or {})
    if isinstance(metadata, wire.NamespaceMetadata):
        annotations = dict(decode_namespace_annotations(metadata.annotations))
    changes: dict[str, Any] = {"annotations": annotations or None}
    if isinstance(metadata, wire.NodeMetadata):
        changes["managed_fields"] = None  # names of programs and people, which are private
    return structs.replace(metadata, **changes)


def _read_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    return {
        **decode_annotations(annotations),
        **{key: text for key, text in annotations.items() if key in _VALUES_READ},
        **{key: "" for key in annotations if key in _PRESENCE_READ},
    }
