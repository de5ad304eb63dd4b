"""Kubernetes objects as protobuf, encoded by the `generated.proto` files of k8s.io/api.

The peer's client requests protobuf first, so that a server with JSON alone would make it look slow. The files are read
where Go stores the modules that the peer is built from. Values are those of JSON: the fields are named alike.
"""

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.control_plane.build import MODULES, MissingPart

MAGIC: Final = b"k8s\x00"
CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"

_FILES: Final = {
    "k8s.io/api": (
        "core/v1",
        "apps/v1",
        "policy/v1",
        "storage/v1",
        "scheduling/v1",
    ),
    "k8s.io/apimachinery": ("pkg/apis/meta/v1", "pkg/runtime"),
}
_MESSAGE: Final = re.compile(r"^message (\w+) \{")
_FIELD: Final = re.compile(
    r"^\s+(optional|repeated|map<string, *(?P<map>[.\w]+)>) *(?P<type>[.\w]+)? +(?P<name>\w+) = (?P<number>\d+);"
)
_INLINE: Final = frozenset({"volumeSource", "handler", "persistentVolumeSource", "localObjectReference"})
"""Fields without a name of their own in JSON."""

_VARINT, _BYTES = 0, 2


@dataclass(frozen=True)
class _Field:
    name: str
    number: int
    kind: str
    repeated: bool
    is_map: bool


@cache
def _messages() -> Mapping[str, tuple[_Field, ...]]:
    """Return the fields of every message by its full name."""
    messages: dict[str, tuple[_Field, ...]] = {}
    for module, folders in _FILES.items():
        root = _find_module(module)
        for folder in folders:
            package = f"{module}/{folder}".replace("/", ".")
            text = (root / folder / "generated.proto").read_text(encoding="utf-8")
            messages |= dict(_read_messages(text, f".{package}."))
    return messages


def _find_module(module: str) -> Path:
    """Return the folder of a module of the peer's; MissingPart without Go."""
    go = shutil.which("go")
    if go is None:
        raise MissingPart(f"no Go here to find {module}, which describes Kubernetes' protobuf")
    command = [go, "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(command, cwd=MODULES / "descheduler", capture_output=True, text=True, check=True)
    if not done.stdout.strip():
        raise MissingPart(f"the module {module} is not downloaded: run `go mod download` in tools/control-plane")
    return Path(done.stdout.strip())


def _read_messages(text: str, package: str) -> Iterator[tuple[str, tuple[_Field, ...]]]:
    name = ""
    fields: list[_Field] = []
    for line in text.splitlines():
        if start := _MESSAGE.match(line):
            name, fields = start[1], []
        elif line.startswith("}") and name:
            yield package + name, tuple(fields)
            name = ""
        elif name and (match := _FIELD.match(line)):
            kind = match["map"] or match["type"]
            kind = kind if kind.startswith(".") or kind in _SCALARS else package + kind
            fields.append(
                _Field(
                    match["name"], int(match["number"]), kind, line.lstrip().startswith("repeated"), bool(match["map"])
                )
            )


def encode(kind: str, value: Mapping[str, Any]) -> bytes:
    """Encode an object of a message such as `.k8s.io.api.core.v1.Pod`."""
    parts: list[bytes] = []
    for field in _messages()[kind]:
        if field.name in value:
            parts += _encode_field(field, value[field.name])
        elif field.name in _INLINE:
            parts.append(_delimited(field.number, encode(field.kind, value)))
    return b"".join(parts)


def _encode_field(field: _Field, value: Any) -> Iterable[bytes]:
    if field.is_map:
        for key, item in value.items():
            entry = _delimited(1, key.encode()) + _encode_value(field.kind, 2, item)
            yield _delimited(field.number, entry)
    elif field.repeated:
        for item in value:
            yield _encode_value(field.kind, field.number, item)
    else:
        yield _encode_value(field.kind, field.number, value)


def _encode_value(kind: str, number: int, value: Any) -> bytes:
    if kind in {"int32", "int64", "bool"}:
        return _varint(number << 3 | _VARINT) + _varint(int(value))
    if kind == "double":
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    if kind in {"string", "bytes"}:
        return _delimited(number, value.encode())
    special = _SPECIAL.get(kind.rpartition(".")[2])
    return _delimited(number, special(value) if special is not None else encode(kind, value))


def _encode_time(value: str) -> bytes:
    return _encode_value("int64", 1, int(datetime.fromisoformat(value).timestamp())) + _encode_value("int32", 2, 0)


def _encode_quantity(value: str) -> bytes:
    return _encode_value("string", 1, value)


def _encode_int_or_string(value: int | str) -> bytes:
    if isinstance(value, int):
        return _encode_value("int64", 1, 0) + _encode_value("int32", 2, value)
    return _encode_value("int64", 1, 1) + _encode_value("string", 3, value)


def _encode_fields(value: Mapping[str, Any]) -> bytes:
    return _encode_value("string", 1, json.dumps(value, separators=(",", ":")))


_SCALARS: Final = frozenset({"string", "bytes", "bool", "int32", "int64", "double"})
_SPECIAL: Final[dict[str, Any]] = {
    "Time": _encode_time,
    "MicroTime": _encode_time,
    "Quantity": _encode_quantity,
    "IntOrString": _encode_int_or_string,
    "FieldsV1": _encode_fields,
}


def list_message(group_version: str, kind: str) -> str:
    """Return the full name of a message by group and version in the form of a folder, such as `core/v1`."""
    return f".k8s.io.api.{group_version.replace('/', '.')}.{kind}"


def wrap_list(api_version: str, kind: str, metadata: Mapping[str, Any], items: Iterable[bytes]) -> bytes:
    """Return an answer with a list of encoded objects, in the envelope that Kubernetes puts around each answer."""
    raw = _delimited(1, encode(".k8s.io.apimachinery.pkg.apis.meta.v1.ListMeta", metadata))
    raw += b"".join(_delimited(2, item) for item in items)
    return wrap(api_version, kind, raw)


def wrap(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return an answer with one encoded object."""
    kind_of = _delimited(1, api_version.encode()) + _delimited(2, kind.encode())
    return MAGIC + _delimited(1, kind_of) + _delimited(2, raw) + _delimited(3, b"") + _delimited(4, b"")


def _delimited(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
