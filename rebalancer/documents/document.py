"""What all documents share: field types, the camelCase base and the encodings.

JSON Schemas (`config/*.schema.json`) are generated from the declarations, so shape and description cannot differ.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rebalancer.assessment.sizes.layout import join_sizes
from rebalancer.model.moves import Reference
from rebalancer.model.visible import visible_json
from rebalancer.model.yaml_text import dump_yaml

API_VERSION = "rebalancer.dev/v1alpha1"

_ENTRIES = 100
"""This many entries of a list are encoded at once."""

Text = Annotated[str, Meta(min_length=1)]
Number = Annotated[int, Meta(ge=0)]
Counts = Mapping[str, Number]


class CamelCaseStruct(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Base: camelCase, fields in the order of declaration. No garbage collection: documents have no cycles."""


LeftOut = Mapping[str, Annotated[int, Meta(ge=1)]]
"""By name of a list, how many rows it has lost because the document would have been too large (`fit_json`)."""


class WorkloadName(CamelCaseStruct, frozen=True, kw_only=True):
    """A workload, without its namespace."""

    kind: Text
    name: Text


class SizeRange(CamelCaseStruct, frozen=True, kw_only=True):
    """The sizes from `first` to `last`, both included."""

    first: Annotated[int, Meta(ge=1)]
    last: Annotated[int, Meta(ge=1)]


def list_ranges(sizes: Sequence[int]) -> tuple[SizeRange, ...]:
    """Write sizes as ranges."""
    return tuple(SizeRange(first=first, last=last) for first, last in join_sizes(sizes))


def workload_name(reference: Reference) -> WorkloadName:
    """Name a workload within its namespace."""
    return WorkloadName(kind=reference.kind, name=reference.name)


def to_json(document: Struct) -> bytes:
    """Encode a document as JSON; equal documents give equal bytes."""
    return f"{_encode(document, '')}\n".encode()


def fit_json(document: CamelCaseStruct, lists: Sequence[str], most: int) -> bytes:
    """Encode a document as JSON of at most `most` bytes, if dropping rows of `lists` (fields) is enough.

    The longest list loses the last half of its rows, until the document fits or no rows are left. The document's field
    `left_out` counts the lost rows; other numbers still count all.
    """
    names = dict(zip(document.__struct_fields__, document.__struct_encode_fields__, strict=True))
    text, left = to_json(document), dict[str, int]()
    while len(text) > most:
        sizes = {name: len(msgspec.json.encode(rows)) for name in lists if (rows := getattr(document, name))}
        if not sizes:
            break
        name = max(sizes, key=sizes.__getitem__)
        rows = getattr(document, name)
        kept = rows[: len(rows) // 2]
        left[names[name]] = left.get(names[name], 0) + len(rows) - len(kept)
        document = msgspec.structs.replace(document, left_out=left, **{name: kept})
        text = to_json(document)
    return text


def json_chunks(document: Struct) -> Iterator[str]:
    """Yield what `to_json` returns in pieces, a hundred entries of a list at a time.

    For a plan of 150,000 pods, 50 MiB of text, `to_json` needs another 100 MiB.
    """
    kind, before = type(document), "{"
    for name, field in sorted(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)):
        value = getattr(document, field)
        yield f"{before}\n  {_encode(name, '')}: "
        before = ","
        if isinstance(value, tuple) and value:
            for start in range(0, len(value), _ENTRIES):
                entries = _encode(value[start : start + _ENTRIES], "  ")
                yield f"{',' if start else '['}{entries[1:-4]}"  # without the brackets: "[" and "\n  ]"
            yield "\n  ]"
        else:
            yield _encode(value, "  ")
    yield "\n}\n"


def _encode(value: object, indent: str) -> str:
    text = visible_json(msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2).decode())
    return text.replace("\n", f"\n{indent}") if indent else text


def to_yaml(document: Struct) -> str:
    """Encode a document as YAML."""
    plain = msgspec.json.decode(msgspec.json.encode(document))
    return dump_yaml(plain, allow_unicode=True, width=120)


def document_schema(document: type[Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a document type.

    All fields are required because all are written. Their defaults are for documents of an older release.
    """
    schema = msgspec.json.schema(document)
    fields = [name for name in document.__struct_encode_fields__ if name not in {"apiVersion", "kind"}]
    schema["$defs"][document.__name__]["required"] = fields
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
