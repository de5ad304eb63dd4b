"""Converts the bytes of a file in JSON or YAML to JSON documents; the error for any other file says what it is.

JSON is passed on unchanged, since files of large clusters are JSON; documents may follow each other, in lines or not.
YAML is loaded by libyaml and written as JSON: the same code decodes the objects of both. Either may be within gzip.
"""

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec
import yaml

from rebalancer.model.words import plural

_CHUNK: Final = 2**20
_BEGINNINGS_OF_JSON: Final = (b"{", b"[")
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_TEXTS: Final = (_TIMESTAMP, "tag:yaml.org,2002:value")
"""Times and `=`, which stay text: YAML 1.1 reads `=` as another type, and kubectl prints it for Prometheus' kinds."""
_GZIP: Final = b"\x1f\x8b"
_UNREAD: Final = {
    _GZIP: ("compressed by gzip", "gunzip -c"),
    b"PK\x03\x04": ("a zip archive", "unzip -p"),
    b"BZh": ("compressed by bzip2", "bunzip2 -c"),
    b"\xfd7zXZ\0": ("compressed by xz", "xz -dc"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "zstd -dc"),
}
"""Unread formats by their first bytes: the name of the format, and the command that prints the content."""
_ERROR_OUTPUT: Final = re.compile(rb"((Warning: |[IWEF][0-9]{4} )[^\n]*\n\s*)+[{\[]")
"""The standard error of kubectl before its JSON: warnings of the server, and lines of klog, which begin with a date."""
_TRAILING: Final = re.compile(r"trailing characters \(byte ([0-9]+)\)\Z")
_LOGS: Final = b"==== START logs"


class UnreadableSnapshot(ValueError):  # noqa: N818  # it names what the file is, as callers read it
    """The file is not a snapshot of a cluster; the message names the file, what it is, and what is expected."""


class _YamlLoader(yaml.CSafeLoader):
    """Leaves times as text, because the decoder knows which fields are times and YAML only guesses."""


_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _TEXTS]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_documents(data: bytes, source: str) -> list[bytes]:
    """Return a file's documents as JSON; raise UnreadableSnapshot if there are none."""
    is_gzip = data.startswith(_GZIP)
    if is_gzip:
        data = _decompress(data, source)
    _check_decompressed(data, source, is_gzip=is_gzip)
    if data.startswith(_UTF_16):
        raise UnreadableSnapshot(
            f"{source} is UTF-16, as PowerShell's > writes it; expected UTF-8 (use kubectl … | Out-File -Encoding utf8)"
        )
    data = data.removeprefix(codecs.BOM_UTF8)
    _check_text(data, source)
    beginning = data[:_CHUNK].lstrip()
    if not beginning:
        raise UnreadableSnapshot(f"{source} is empty; expected what kubectl get … -o json prints")
    if _ERROR_OUTPUT.match(beginning):
        raise UnreadableSnapshot(
            f"{source} has warnings of kubectl before its JSON, as 2>&1 adds them; expected JSON alone (kubectl get … "
            "-o json 2>/dev/null)"
        )
    return _divide(data, source) if beginning.startswith(_BEGINNINGS_OF_JSON) else list(_from_yaml(data, source))


def _decompress(data: bytes, source: str) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableSnapshot(f"{source} begins as gzip does, and cannot be decompressed ({error})") from None


def _check_decompressed(data: bytes, source: str, *, is_gzip: bool) -> None:
    """Refuse files not compressed exactly once by gzip, and name the command that makes them readable."""
    for magic, (what, command) in _UNREAD.items():
        if data.startswith(magic):
            within, use = (" within gzip", "gunzip -c") if is_gzip else ("", command)
            raise UnreadableSnapshot(f"{source} is {what}{within}; expected text or gzip (use {use} FILE > OTHER)")


def _divide(data: bytes, source: str) -> list[bytes]:
    """Return the JSON documents of a text, one after the other; mostly there is only one."""
    documents: list[bytes] = []
    rest: bytes | memoryview = data
    while True:
        try:
            msgspec.json.decode(rest, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            trailing = _TRAILING.search(str(error))
            if trailing is None:
                raise UnreadableSnapshot(f"{source}: {_describe_broken(data, documents, error)}") from None
            end = int(trailing[1]) - 1  # it counts from 1
            documents.append(bytes(rest[:end]))
            rest = memoryview(rest)[end:]
        else:
            return [*documents, data if rest is data else bytes(rest)]


def _describe_broken(data: bytes, documents: list[bytes], error: msgspec.DecodeError) -> str:
    """Say what is wrong with JSON; between documents there may be the logs of `kubectl cluster-info dump`."""
    if _LOGS in data:
        return (
            "it has logs between its documents, as kubectl cluster-info dump prints them; write them to a folder, and "
            "name that: kubectl cluster-info dump --all-namespaces --output-directory=DIR"
        )
    after = f" after {plural(len(documents), 'document')}" if documents else ""
    return f"it is invalid JSON ({error}){after}"


def _check_text(data: bytes, source: str) -> None:
    """Refuse binary data, chunk by chunk, so that a large file is not in memory twice."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    pieces = memoryview(data)
    try:
        for start in range(0, len(data), _CHUNK):
            text = decoder.decode(pieces[start : start + _CHUNK], final=start + _CHUNK >= len(data))
            if "\0" in text:
                raise UnreadableSnapshot(f"{source} is binary; expected what kubectl get … -o json prints, as text")
    except UnicodeDecodeError as error:
        raise UnreadableSnapshot(f"{source} is not UTF-8 ({error.reason}); expected text in UTF-8") from None


def _from_yaml(data: bytes, source: str) -> Iterator[bytes]:
    try:
        for document in yaml.load_all(data, Loader=_YamlLoader):
            if document is not None:  # what is left after a last `---`
                yield msgspec.json.encode(document)
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UnreadableSnapshot(f"{source}{where}: neither JSON nor YAML ({error.problem})") from None
    except yaml.YAMLError as error:
        raise UnreadableSnapshot(f"{source}: neither JSON nor YAML ({error})") from None
    except Exception as error:  # noqa: BLE001  # PyYAML raises what its conversions raise: AttributeError, KeyError
        raise UnreadableSnapshot(f"{source}: this YAML cannot be represented as JSON ({error})") from None
