"""A cluster whose every name is hostile, every place of an object where a text is read, and what no output may have."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from rebalancer.decoding.kinds import KINDS, OPTIONAL_KINDS, ResourceKind
from tests.cli.test_snapshot import EXAMPLE, planted

MARK: Final = "FORGED"
"""What a name begins a line with, if it can."""

HOSTILE: Final = f"\x1b[2J\x1b[31m\r\n{MARK}\t\x7f\x85{MARK}\u2028{MARK}\u202e\u200b\U000e0001{MARK}-"
"""The beginning of every name; kube-apiserver takes all of it in the kind and the name of an owner, and in a key."""

HOSTILE_TEXTS: Final = st.text(
    st.sampled_from(
        "\x00\x07\x08\t\n\x0b\x0c\r\x1b\x7f\x85\x9b\xad\u061c\u200b\u2028\u2029\u202e\u2066\ufeff\ufffe\U000e0001a "
    ),
    min_size=1,
    max_size=6,
).map(lambda text: f"{text}\n{MARK}")

KEY: Final = "example.com/rack"
OWNER: Final = "orders"
_OBEYED: Final = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_COLOR: Final = re.compile(r"\x1b\[[0-9]+m")
_OURS: Final = re.compile(r"kubernetes\.io|k8s\.io|pod-template-hash|controller-revision-hash|statefulset\.")
_HEADS: Final = {"apiVersion", "kind"}

Place = Callable[[Any, str], Any]
"""Returns an object with a text in a place of it."""


def check_clean(text: str, *, color: bool = False) -> None:
    """Nothing in a text is obeyed but our line breaks, and our colours where there are some; no name begins a line."""
    shown = _COLOR.sub("", text) if color else text
    assert {character for character in shown if unicodedata.category(character) in _OBEYED} <= {"\n"}
    assert [line for line in shown.split("\n") if line.lstrip(" \"'|-?:").startswith(MARK)] == []


def strings_in(value: object) -> Iterator[str]:
    """Yield every text of a document, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from (*strings_in(key), *strings_in(one))
    elif isinstance(value, list):
        for one in value:
            yield from strings_in(one)


# A cluster


def ordinary_cluster() -> dict[str, Any]:
    """Return a List with objects of every kind, and pods of an owner of a foreign kind, which a key of ours spreads."""
    made = planted(json.loads(Path(EXAMPLE).read_text(encoding="utf-8")))
    for item in made["items"]:
        item["metadata"].get("annotations", {}).pop("kubernetes.io/config.mirror", None)
        if item["kind"] == "Node":
            item["metadata"]["labels"][KEY] = f"rack-{item['metadata']['name'][0]}"
    running = next(item for item in made["items"] if item["kind"] == "Pod" and item["spec"].get("nodeName") == "a-0")
    reference = {"apiVersion": "example.com/v1", "kind": "Database", "name": OWNER, "uid": OWNER, "controller": True}
    for number in range(4):
        pod = json.loads(json.dumps(running))
        pod["metadata"] |= {"name": f"{OWNER}-{number}", "uid": f"{OWNER}-{number}", "ownerReferences": [reference]}
        pod["metadata"]["labels"] = {"app": OWNER}
        pod["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": KEY,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": OWNER}},
            }
        ]
        made["items"].append(pod)
    have = {item["kind"] for item in made["items"]}
    made["items"] += [
        {"kind": kind.name, "apiVersion": kind.api_version, **_example(_shape_of(kind))}
        for kind in (*KINDS, *OPTIONAL_KINDS)
        if kind.name not in have
    ]
    return made


def hostile_cluster() -> dict[str, Any]:
    """Return the same cluster with other names: each begins with `HOSTILE`, wherever it stands.

    Only its namespaces keep theirs: the policy excludes one whose name no pattern matches.
    """
    made = ordinary_cluster()
    names = {OWNER, KEY, "Database"}
    for item in made["items"]:
        metadata = item["metadata"]
        names |= {metadata["name"], metadata.get("uid", "")}
        for key, value in metadata.get("labels", {}).items():
            names |= {text for text in (key, value) if not _OURS.search(key)}
    zones = {
        item["metadata"]["labels"]["topology.kubernetes.io/zone"] for item in made["items"] if item["kind"] == "Node"
    }
    renamed: dict[str, Any] = _rename({"items": made["items"]}, (names | zones) - {"", "shop"})
    return {**made, **renamed}


def _rename(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {
            HOSTILE + key if (key in names and "/" in key) or key == "app" else key: (
                one if key in _HEADS and one != "Database" else _rename(one, names)
            )
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_rename(one, names) for one in value]
    return HOSTILE + value if isinstance(value, str) and value in names else value


# Places


def places() -> Mapping[str, tuple[ResourceKind, Place]]:
    """Return every place of every kind where a text is read, by its path; of a structure that many have only one."""
    made: dict[str, tuple[ResourceKind, Place]] = {}
    seen: set[tuple[type, str]] = set()
    for kind in (*KINDS, *OPTIONAL_KINDS):
        for path, place in _places(_shape_of(kind), seen):
            made[kind.name + path] = kind, place
    return made


def with_text(document: dict[str, Any], kind: ResourceKind, place: Place, text: str) -> dict[str, Any]:
    """Return a List in which all objects of a kind have a text in a place."""
    items = [place(item, text) if item["kind"] == kind.name else item for item in document["items"]]
    return {**document, "items": items}


def _shape_of(kind: ResourceKind) -> inspect.Type:
    return inspect.type_info(cast("msgspec.json.Decoder[Any]", kind.decoder).type)


def _places(shape: inspect.Type, seen: set[tuple[type, str]]) -> Iterator[tuple[str, Place]]:
    match shape:
        case inspect.StrType():
            yield "", lambda value, text: f"{value}{text}" if isinstance(value, str) else text
        case inspect.UnionType(types=types):
            for one in types:
                yield from _places(one, seen)
        case inspect.ListType(item_type=item):
            for path, place in _places(item, seen):
                yield f"[]{path}", _in_list(item, place)
        case inspect.DictType(key_type=key, value_type=item):
            for path, place in _places(key, seen):
                yield f"{{key}}{path}", _as_key(item, place)
            for path, place in _places(item, seen):
                yield f"{{}}{path}", _in_dict(item, place)
        case inspect.StructType():
            yield from _field_places(shape, seen)


def _field_places(shape: inspect.StructType, seen: set[tuple[type, str]]) -> Iterator[tuple[str, Place]]:
    for field in shape.fields:
        if (shape.cls, field.name) in seen:
            continue
        if _holds_text_only(field.type):
            seen.add((shape.cls, field.name))
        known = set[tuple[type, str]]() if field.name == "metadata" else seen  # each kind has its own
        for path, place in _places(field.type, known):
            yield f".{field.encode_name}{path}", _in_field(shape, field.encode_name, place)


def _holds_text_only(shape: inspect.Type) -> bool:
    """Return whether a field has no structure below it, so that it is the same wherever its own structure is."""
    match shape:
        case inspect.StructType():
            return False
        case inspect.UnionType(types=types):
            return all(map(_holds_text_only, types))
        case inspect.ListType(item_type=item) | inspect.DictType(value_type=item):
            return _holds_text_only(item)
    return True


def _in_list(item: inspect.Type, place: Place) -> Place:
    return lambda value, text: [place(one, text) for one in (value or [_example(item)])]


def _as_key(item: inspect.Type, place: Place) -> Place:
    return lambda value, text: {**(value or {}), place("x", text): next(iter((value or {}).values()), _example(item))}


def _in_dict(item: inspect.Type, place: Place) -> Place:
    return lambda value, text: {key: place(one, text) for key, one in (value or {"x": _example(item)}).items()}


def _in_field(shape: inspect.StructType, name: str, place: Place) -> Place:
    def put(value: Any, text: str) -> Any:
        whole = value if isinstance(value, dict) else _example(shape)
        return {**whole, name: place(whole.get(name), text)}

    return put


def _example(shape: inspect.Type) -> Any:
    """Return the smallest value of a type."""
    match shape:
        case inspect.StructType(fields=fields):
            return {field.encode_name: _example(field.type) for field in fields if field.required}
        case inspect.UnionType(types=types):
            return _example(types[0])
        case inspect.ListType():
            return []
        case inspect.DictType() | inspect.RawType():
            return {}
        case inspect.StrType():
            return "x"
        case inspect.BoolType():
            return True
        case inspect.DateTimeType():
            return "2020-01-01T00:00:00Z"
    return 1


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return a document as the API server writes it."""
    return msgspec.json.encode(document)
