"""Reads manifests as people write them, and as kustomize and `helm template` print them: YAML or JSON, many documents.

Unlike in a snapshot, each field keeps its line, and each unreadable object is a finding of its own: a mistake in one
file does not hide the others. Lines are looked up in the tree of the parser, only when they are shown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import yaml

from rebalancer.adapters.files.manifest_text import (
    DEEPEST,
    TAG,
    TOO_DEEP,
    find_duplicates,
    find_line_of,
    join_surrogates,
    read_scalar,
    scan,
)
from rebalancer.decoding import wire
from rebalancer.decoding.errors import MalformedObject
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED, KINDS, OPTIONAL_KINDS
from rebalancer.decoding.lists import decode
from rebalancer.decoding.workloads import decode_deployment
from rebalancer.lint.manifest import ONE_EACH, ROOT, Manifest, Path
from rebalancer.model.cluster import Autoscaler, DisruptionBudget
from rebalancer.model.creation import LimitRange
from rebalancer.model.snapshot import Fault
from rebalancer.model.workloads import BUILT_IN, Workload

_MOST_VALUES: Final = 1_000_000
"""Values in a file; values of anchors count at each use. A file of 2,000 Deployments has a tenth of this."""

_IGNORE: Final = re.compile(r"#\s*rebalancer-lint:\s*ignore=([\w-]+(?:\s*,\s*[\w-]+)*)")
_TEMPLATE_BRACES: Final = re.compile(r"\{\{.*\}\}")

_TEMPLATE: Final[Path] = ("spec", "template")
_TEMPLATES: Final[Mapping[str, Path]] = {
    "Pod": ROOT,
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where a kind has its pod template, unless at `spec.template`."""

_GROUPS: Final[Mapping[str, str]] = {
    **BUILT_IN,
    "ConfigMap": "",
    "CronJob": "batch",
    "DaemonSet": "apps",
    "HorizontalPodAutoscaler": "autoscaling",
    "Job": "batch",
    "LimitRange": "",
    "Pod": "",
    "PodDisruptionBudget": "policy",
}
"""The API groups of the kinds that rules know in detail. A kind of the same name in another group is different."""

_Read = Workload | DisruptionBudget | Autoscaler | LimitRange
_OTHERS: Final = {
    kind.name: kind
    for kind in (*KINDS, *OPTIONAL_KINDS)
    if kind.name in {"PodDisruptionBudget", "HorizontalPodAutoscaler", "LimitRange"}
}
"""Kinds without pods that matter here."""


def read_manifests(text: str, file: str) -> Iterator[Manifest]:
    """Yield the objects of a file; an unreadable object has a `problem`. Other documents are skipped."""
    lines = text.split("\n")
    text = join_surrogates(text)
    scanned = scan(text)
    reader = _Reader(file, lines, scanned.documents)
    try:
        for root in yaml.compose_all(text[: scanned.end], Loader=yaml.CSafeLoader):
            yield from reader.read(root)
        if scanned.too_deep:
            yield reader.unreadable(scanned.too_deep, TOO_DEEP)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        yield reader.unreadable(line, f"not valid YAML: {error.problem}{_hint(lines)}")
    except yaml.YAMLError as error:
        yield reader.unreadable(1, f"not valid YAML: {error}")
    except _NoManifestError as error:
        yield reader.unreadable(error.line, f"{error}{_hint(lines)}")


def _hint(lines: Sequence[str]) -> str:
    if any(_TEMPLATE_BRACES.search(line) for line in lines):
        return "; this is a template of a chart: give what helm template prints"
    return ""


class _NoManifestError(Exception):
    """The document is no manifest: it has too many values, too deep ones, or a key that is not text."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        self.line = node.start_mark.line + 1
        super().__init__(message)


class _Reader:
    """Reads the documents of one file."""

    def __init__(self, file: str, lines: Sequence[str], documents: int) -> None:
        self._file, self._lines, self._left = file, lines, documents
        self._ignores = {
            number: frozenset(re.split(r"\s*,\s*", found[1]))
            for number, line in enumerate(lines, 1)
            if "rebalancer-lint" in line and (found := _IGNORE.search(line))
        }
        self._intern = Interner()
        self._values = 0
        self._last = 0
        self._duplicates: list[tuple[int, str]] = []
        """The lines of keys that a mapping of the document has twice, with the message on each."""

    def unreadable(self, line: int, problem: str) -> Manifest:
        return Manifest(
            file=self._file, kind="", namespace="", name="", value=None, find_line=lambda _: line, problem=problem
        )

    def read(self, root: yaml.Node) -> Iterator[Manifest]:
        """Yield the objects of a document, and the items of a list one by one."""
        self._duplicates.clear()
        value = self._convert(root, 0)
        # A comment before a document belongs to it.
        ends = self._find_end(root)
        ignores = frozenset[str]().union(*(rules for line, rules in self._ignores.items() if self._last < line <= ends))
        self._last = ends
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            return
        for line, caution in self._duplicates[:1]:
            yield replace(self.unreadable(line, ""), caution=caution, ignores=ignores)
        yield from self._read_items(value, root, ROOT, ignores)

    def _read_items(
        self, value: dict[str, Any], root: yaml.Node, prefix: Path, ignores: frozenset[str]
    ) -> Iterator[Manifest]:
        """Yield an object, or the items of a list one by one, also of nested lists."""
        items = value.get("items")
        if not (value["kind"].endswith("List") and isinstance(items, list)):
            yield self._manifest(value, root, prefix, ignores)
            return
        for number, item in enumerate(items):
            if isinstance(item, dict) and isinstance(item.get("kind"), str):
                yield from self._read_items(item, root, (*prefix, "items", number), ignores)

    def _find_end(self, root: yaml.Node) -> int:
        """Return the last line of a document with the indented comments after it; the last document has all of them."""
        self._left -= 1
        if not self._left:
            return len(self._lines)
        while isinstance(root, yaml.CollectionNode) and root.value and not root.flow_style:
            last = root.value[-1]
            root = last[1] if isinstance(last, tuple) else last
        end = int(root.end_mark.line + (root.end_mark.column > 0))
        while end < len(self._lines) and self._lines[end].startswith((" ", "\t")):
            end += 1
        return end

    def _manifest(self, value: dict[str, Any], root: yaml.Node, prefix: Path, ignores: frozenset[str]) -> Manifest:
        group = _group_of(value)
        kind, metadata = value["kind"], value.get("metadata")
        kind = kind if group in {"", _GROUPS.get(kind, group)} else f"{kind}.{group}"
        names = metadata if isinstance(metadata, dict) else {}
        template = _TEMPLATES.get(kind, _TEMPLATE)
        template_at = template if _has_pods(value, template) else None
        read: _Read | str | None = None
        if kind in _OTHERS or template_at is not None:
            read = self._decode(value, kind, template_at)
        return Manifest(
            file=self._file,
            kind=kind,
            namespace=str(names.get("namespace") or ""),
            name=str(names.get("name") or names.get("generateName") or ""),
            value=value,
            find_line=lambda path: find_line_of(root, (*prefix, *path)),
            prefix=prefix,
            ignores=ignores,
            template=template_at if isinstance(read, Workload) else None,
            workload=read if isinstance(read, Workload) else None,
            budget=read if isinstance(read, DisruptionBudget) else None,
            autoscaler=read if isinstance(read, Autoscaler) else None,
            limit_range=read if isinstance(read, LimitRange) else None,
            problem=read if isinstance(read, str) else "",
        )

    def _decode(self, value: dict[str, Any], kind: str, template: Path | None) -> _Read | str:
        """Return the object as the model has it, or why it cannot be read."""
        if template is None or kind in BUILT_IN:
            known = _OTHERS.get(kind) or KIND_NAMED[kind]
            read: _Read | Fault = decode(known, msgspec.json.encode(_named(value)), self._intern)
            return read.message if isinstance(read, Fault) else read
        try:
            owner = msgspec.convert(_as_owner(value, kind, template), type=wire.Owner)
            return msgspec.structs.replace(decode_deployment(owner, self._intern), kind=kind, group=_group_of(value))
        except (msgspec.ValidationError, MalformedObject) as error:
            return str(error)

    def _convert(self, node: yaml.Node, depth: int) -> Any:
        """Make values of JSON's types; other values, such as times, stay text."""
        self._values += 1
        if depth > DEEPEST:
            raise _NoManifestError(node, TOO_DEEP)
        if self._values > _MOST_VALUES:
            raise _NoManifestError(node, f"more than {_MOST_VALUES:,} values, those of anchors counted at each use")
        if isinstance(node, yaml.ScalarNode):
            return read_scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self._convert(child, depth + 1) for child in node.value]
        made: dict[str, Any] = {}
        self._duplicates += find_duplicates(node, depth)
        for key, child in node.value:
            if key.tag == f"{TAG}merge":
                for source in child.value if isinstance(child, yaml.SequenceNode) else (child,):
                    merged = self._convert(source, depth + 1)
                    made = {**merged, **made} if isinstance(merged, dict) else made
            elif isinstance(key, yaml.ScalarNode):
                made[str(key.value)] = self._convert(child, depth + 1)
            else:
                raise _NoManifestError(key, "a key that is not text")
        return made


def _group_of(value: Mapping[str, Any]) -> str:
    return str(value.get("apiVersion") or "").rpartition("/")[0]


def _has_pods(value: Mapping[str, Any], template: Path) -> bool:
    """Return whether there is a pod template at a path: an object whose spec has containers."""
    for step in (*template, "spec"):
        inner = value.get(step) if isinstance(value, dict) else None
        if not isinstance(inner, dict):
            return False
        value = inner
    return isinstance(value.get("containers"), list)


def _named(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a name: an object with `generateName` has none yet."""
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return {**value, "metadata": {**metadata, "name": metadata.get("name") or metadata.get("generateName") or ""}}


def _as_owner(value: dict[str, Any], kind: str, template: Path) -> dict[str, Any]:
    """Return an object of another kind with the fields that owners share, as far as it has them."""
    inner: Any = value
    for step in template:
        inner = inner[step]
    spec = value.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if kind == "Pod":
        return {"metadata": _named(value)["metadata"], "spec": {"replicas": 1, "template": inner}}
    if kind == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    wanted = 0 if kind in ONE_EACH else spec.get("replicas", spec.get("parallelism", 1))
    if kind in {"Job", "CronJob"} and isinstance(most := spec.get("completions"), int) and isinstance(wanted, int):
        wanted = min(wanted, most)
    if kind == "Job":
        inner = _with_job_name(inner, _named(value)["metadata"]["name"])
    selector = spec.get("selector")
    is_selector = isinstance(selector, dict) and selector.keys() <= {"matchLabels", "matchExpressions"}
    return {
        "metadata": _named(value)["metadata"],
        "spec": {
            "replicas": wanted if isinstance(wanted, int) else 1,
            "template": inner,
            **({"selector": selector} if is_selector else {}),
        },
    }


def _with_job_name(template: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a Job's template with the labels that the API server adds.

    Source: `generateSelector` of `pkg/registry/batch/job/strategy.go`.
    """
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if not isinstance(labels, dict | None):
        return template
    added = {"job-name": name, "batch.kubernetes.io/job-name": name}
    return {**template, "metadata": {**metadata, "labels": {**(labels or {}), **added}}}
