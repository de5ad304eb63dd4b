"""Reads the YAML text of policies and of the scheduler's configuration to plain values with their lines.

PyYAML's own constructor uses the last of two equal keys, accepts several documents and loses the lines of values, so
the values are made here from its node tree. They are of JSON's types, plus `UnsupportedScalar` for other scalars. Depth
and number of values are bounded before anything is expanded, because anchors can expand a short text to billions of
values.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]

_DEEPEST = 32
_MOST_VALUES = 25_000
_TOO_DEEP = f"nested deeper than {_DEEPEST} levels; expected fewer than ten"
_TOO_MANY = f"more than {_MOST_VALUES:,} values, those of anchors counted at each use"
_TAG = "tag:yaml.org,2002:"
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})\Z")
_TEXTS = frozenset({"str", "timestamp", "merge", "value"})
_SCALARS = _TEXTS | {"null", "bool", "int", "float"}
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class UnsupportedScalar:
    """A scalar of a type that no field has, such as 1.5, 0x10 or 1:30."""

    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """The line of a value, and its text if YAML converts it (`off` becomes false)."""

    line: int
    text: str | None = None


@dataclass(slots=True)
class Tree:
    """A document: its value, the place of each path in it, and its YAML errors."""

    value: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[tuple[int, Path, str]] = field(default_factory=list)


class UnreadableError(Exception):
    """The text is not a single YAML mapping; no further errors can be found."""

    def __init__(self, *, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(line, message)


class EmptyError(UnreadableError):
    """The text has no value."""

    def __init__(self) -> None:
        super().__init__(line=1, message="the file is empty")


class _BoundedLoader(yaml.SafeLoader):
    """PyYAML's composer with bounds: unbounded, it recurses for each level and takes ten seconds for a megabyte."""

    depth = 0
    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        self.nodes += 1
        if self.depth > _DEEPEST:
            raise UnreadableError(line=self.line + 1, message=_TOO_DEEP)
        if self.nodes > _MOST_VALUES:
            raise UnreadableError(line=self.line + 1, message=_TOO_MANY)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_tree(text: str) -> Tree:
    """Read one YAML document whose top level is a mapping; raise UnreadableError for anything else."""
    root = _compose(text)
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _TAG + "null"):
        raise EmptyError
    line = root.start_mark.line + 1
    if not isinstance(root, yaml.MappingNode) or root.tag != _TAG + "map":
        message = (
            f"found {_describe_node(root)} at the top level; expected a mapping that begins with apiVersion and kind"
        )
        raise UnreadableError(line=line, message=message)
    expansion = _Expansion()
    expansion.tree.places[()] = Place(line)
    expansion.tree.value = expansion.mapping(root, path=(), depth=1)
    return expansion.tree


def _compose(text: str) -> yaml.Node | None:
    try:
        loader = _BoundedLoader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UnreadableError(line=line, message=f"not valid YAML: character #x{error.character:04x}") from None
    try:
        root = loader.get_node() if loader.check_node() else None
        if loader.check_node():
            second = loader.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]  # untyped in the stubs
            raise UnreadableError(line=second, message="a second document begins here; expected one in a file")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark or loader.get_mark()
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise UnreadableError(line=mark.line + 1, message=f"not valid YAML: {what}") from None
    except (ValueError, OverflowError):  # PyYAML lets these through for escapes beyond Unicode, "\U00110000"
        raise UnreadableError(line=loader.line + 1, message="not valid YAML: no such character") from None
    finally:
        loader.dispose()
    return root


def _describe_node(node: yaml.Node) -> str:
    match node:
        case yaml.MappingNode():
            return "a mapping"
        case yaml.SequenceNode():
            return "a list"
        case _:
            return "text" if node.tag == _TAG + "str" else "a single value"


class _Expansion:
    """The conversion of nodes to values. It continues after a problem, so that all problems are reported together."""

    def __init__(self) -> None:
        self.tree = Tree()
        self._values = 0

    def value(self, node: yaml.Node, *, path: Path, depth: int) -> Any:
        line = self._enter(node, depth=depth)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, path=path, depth=depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return self._sequence(node, path=path, depth=depth)
        if isinstance(node, yaml.ScalarNode) and node.tag.removeprefix(_TAG) in _SCALARS:
            return self._scalar(node, path=path)
        self._note(line, path, f"found the tag {node.tag!r}; expected a plain value, mapping or list")
        return UnsupportedScalar(str(node.tag))

    def mapping(self, node: yaml.MappingNode, *, path: Path, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        seen: dict[str, int] = {}
        for key, child in self._iterate_own(node, path=path):
            line = key.start_mark.line + 1
            if key.value in seen:
                message = f"found twice; the first is on line {seen[key.value]}; expected one"
                self._note(line, (*path, key.value), message)
                continue
            seen[key.value] = line
            result[key.value] = self._member(key, child, path=path, depth=depth)
        for key, child in self._merge_values(node, path=path, depth=depth):
            if key.value not in result:
                result[key.value] = self._member(key, child, path=path, depth=depth)
        return result

    def _member(self, key: yaml.Node, child: yaml.Node, *, path: Path, depth: int) -> Any:
        inner = (*path, key.value)
        self.tree.places[inner] = Place(key.start_mark.line + 1)
        return self.value(child, path=inner, depth=depth + 1)

    def _iterate_own(self, node: yaml.MappingNode, *, path: Path) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        for key, child in node.value:
            if key.tag == _TAG + "merge":
                continue
            if isinstance(key, yaml.ScalarNode) and key.tag == _TAG + "str":
                yield key, child
                continue
            plain = isinstance(key, yaml.ScalarNode) and str(key.value).isalnum()
            message = (
                f'found the key {key.value}; expected text, "{key.value}" in quotes'
                if plain
                else "found a key that is not text; expected text"
            )
            self._note(key.start_mark.line + 1, path, message)

    def _merge_values(self, node: yaml.MappingNode, *, path: Path, depth: int) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield the entries that `<<` merges; of several mappings, the first has precedence."""
        self._enter(node, depth=depth)
        merges = [(key, child) for key, child in node.value if key.tag == _TAG + "merge"]
        for key, _ in merges[1:]:
            self._note(key.start_mark.line + 1, (*path, "<<"), "found twice; expected one with a list")
        for key, child in merges[:1]:
            for source in child.value if isinstance(child, yaml.SequenceNode) else (child,):
                if not isinstance(source, yaml.MappingNode):
                    message = "expected a mapping or a list of mappings"
                    self._note(key.start_mark.line + 1, (*path, "<<"), message)
                    continue
                yield from self._iterate_own(source, path=path)
                yield from self._merge_values(source, path=path, depth=depth + 1)

    def _sequence(self, node: yaml.SequenceNode, *, path: Path, depth: int) -> list[Any]:
        result = []
        for index, child in enumerate(node.value):
            inner = (*path, index)
            self.tree.places[inner] = Place(child.start_mark.line + 1)
            result.append(self.value(child, path=inner, depth=depth + 1))
        return result

    def _scalar(self, node: yaml.ScalarNode, *, path: Path) -> Any:
        text, kind = str(node.value), node.tag.removeprefix(_TAG)
        if kind in _TEXTS:
            return text
        self.tree.places[path] = Place(self.tree.places[path].line, text)
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        if kind == "int" and _DECIMAL.match(text):
            return int(text)
        return UnsupportedScalar(text)

    def _enter(self, node: yaml.Node, *, depth: int) -> int:
        """Count a node and return its line; raise UnreadableError beyond the bounds on depth and number."""
        line = node.start_mark.line + 1
        self._values += 1
        if depth > _DEEPEST:
            raise UnreadableError(line=line, message=_TOO_DEEP)
        if self._values > _MOST_VALUES:
            raise UnreadableError(line=line, message=_TOO_MANY)
        return line

    def _note(self, line: int, path: Path, message: str) -> None:
        self.tree.problems.append((line, path, message))
