"""Converts the bytes of a file in JSON or YAML to JSON; anything else is refused with what the file is.

JSON is passed on unchanged, since files of large clusters are JSON. YAML is loaded by libyaml and written as JSON: the
same code decodes the objects of both.
"""

import codecs
from typing import Final

import msgspec
import yaml

_CHUNK: Final = 2**20
_BEGINNINGS_OF_JSON: Final = (b"{", b"[")
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class UnreadableSnapshot(ValueError):  # noqa: N818  # it names what the file is, as callers read it
    """The file is not a snapshot of a cluster; the message names the file, what it is, and what is expected."""


class _YamlLoader(yaml.CSafeLoader):
    """Leaves times as they are written: the decoder knows which fields are times, YAML only guesses."""


_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def convert_to_json(data: bytes, source: str) -> bytes:
    """Return a file's document as JSON; raise UnreadableSnapshot where there is none."""
    if data.startswith(_UTF_16):
        raise UnreadableSnapshot(
            f"{source} is UTF-16, as PowerShell's > writes it; expected UTF-8 (use kubectl … | Out-File -Encoding utf8)"
        )
    data = data.removeprefix(codecs.BOM_UTF8)
    _check_text(data, source)
    beginning = data[:_CHUNK].lstrip()
    if not beginning:
        raise UnreadableSnapshot(f"{source} is empty; expected what kubectl get … -o json prints")
    return data if beginning.startswith(_BEGINNINGS_OF_JSON) else _from_yaml(data, source)


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


def _from_yaml(data: bytes, source: str) -> bytes:
    try:
        document = yaml.load(data, Loader=_YamlLoader)  # noqa: S506  # a safe loader, with less
        return msgspec.json.encode(document)
    except yaml.composer.ComposerError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        several = error.context is not None and "single document" in error.context
        problem = "another document begins: it has several YAML documents" if several else error
        raise UnreadableSnapshot(f"{source}{where}: {problem}; expected one, a List as kubectl get prints it") from None
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UnreadableSnapshot(f"{source}{where}: neither JSON nor YAML ({error.problem})") from None
    except yaml.YAMLError as error:
        raise UnreadableSnapshot(f"{source}: neither JSON nor YAML ({error})") from None
    except Exception as error:  # noqa: BLE001  # PyYAML raises what its conversions raise: AttributeError, KeyError
        raise UnreadableSnapshot(f"{source}: this YAML cannot be represented as JSON ({error})") from None
