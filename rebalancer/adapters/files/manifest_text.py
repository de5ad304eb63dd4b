"""The text of manifests below their objects: its depth, its numbers, duplicate keys, its lines.

It is read as kubectl reads it. Kubectl accepts more than YAML: equal keys (the last value counts), and JSON's escapes.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import yaml

from rebalancer.lint.manifest import Path

DEEPEST: Final = 64
TOO_DEEP: Final = f"nested deeper than {DEEPEST} levels"
TAG: Final = "tag:yaml.org,2002:"
_SURROGATES: Final = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})")
"""Two escapes that are one character in JSON, and no character in YAML."""

_OCTAL: Final = re.compile(r"[-+]?0\d+\Z")
_LARGEST: Final = 2**63
"""No field of an object has an integer from here on."""

_FIRST: Final = frozenset({"apiVersion", "kind"})
"""The keys with which each object begins."""


def join_surrogates(text: str) -> str:
    """Return a text with each pair of JSON escapes that is one character replaced by that character."""
    if not text.lstrip().startswith("{"):
        return text
    return _SURROGATES.sub(lambda found: found[1] + json.loads(f'"{found[2]}"'), text)


class Scanned(NamedTuple):
    """How many documents a text has, up to a value nested too deep; `too_deep` is that value's line, 0 if none."""

    documents: int
    end: int | None = None
    too_deep: int = 0


def scan(text: str) -> Scanned:
    """Count documents until one is nested too deep, because the parser makes its tree by recursion."""
    documents = depth = start = 0
    with suppress(yaml.YAMLError):  # reported where the tree is made
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            mark = event.start_mark
            assert mark is not None
            match event:
                case yaml.DocumentStartEvent():
                    documents, start = documents + 1, mark.index
                case yaml.CollectionStartEvent():
                    depth += 1
                    if depth > DEEPEST + 1:
                        return Scanned(documents, start, mark.line + 1)
                case yaml.CollectionEndEvent():
                    depth -= 1
    return Scanned(documents)


def find_duplicates(node: yaml.Node, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of keys that a mapping has twice, with the message on each; `<<` may be repeated.

    YAML forbids it. Source: `setMapIndex` of `sigs.k8s.io/yaml/goyaml.v2/decode.go`, which is not strict for kubectl.
    """
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == f"{TAG}merge":
            continue
        line = key.start_mark.line + 1
        if key.value in lines:
            between = "; are these two documents without --- between them?" if not depth and key.value in _FIRST else ""
            where = f"key {key.value} of line {lines[key.value]} is there again"
            yield line, f"{where}: kubectl takes the last value, and other tools refuse the file{between}"
        lines[key.value] = line


def read_scalar(node: yaml.ScalarNode) -> Any:
    """Return a value of JSON's types; other values, such as times, stay text."""
    text = str(node.value)
    match node.tag.removeprefix(TAG):
        case "null":
            return None
        case "bool":
            return text.lower() in {"true", "yes", "on"}
        case "int":
            return _integer(text)
        case "float" if "." in text and text.replace(".", "", 1).lstrip("+-").isdigit():
            return float(text)
        case _:
            return text


def _integer(text: str) -> int | str:
    """Return an integer as kubectl reads it, such as 0x1f, 017 and 1_000; text where it is no number of 64 bits.

    Source: `resolve` of `sigs.k8s.io/yaml/goyaml.v2/resolve.go`.
    """
    digits = text.replace("_", "")
    try:
        value = int(digits, 8 if _OCTAL.match(digits) else 0)
    except ValueError:  # 1:30, or too many digits
        return text
    return value if abs(value) < _LARGEST else text


def find_line_of(root: yaml.Node, path: Path) -> int:
    """Return the line of a field, or, if the field is absent, that of the nearest field around it."""
    node, line = root, root.start_mark.line
    for step in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, child) for key, child in reversed(node.value) if key.value == step), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line
        else:
            break
    return line + 1
