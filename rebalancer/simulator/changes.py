"""What an operator or an outage does to a simulated cluster, as flags and scenario files write it.

A scenario is YAML: `steps`, each with one change and the text of its flag, and with `wait` for how long to wait after
it instead of until nothing moves:

    steps:
      - removeDomain: topology.kubernetes.io/zone=c
      - {cordon: a-1, wait: 10m}
      - restoreDomain: topology.kubernetes.io/zone=c
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from msgspec import structs

from rebalancer.assessment.name_hints import nearest_name
from rebalancer.model.labels import Labels
from rebalancer.policy import parse_duration
from rebalancer.simulator import HOSTNAME, SimulatedCluster
from rebalancer.yaml_tree import Tree, UnreadableError, read_tree

_Apply = Callable[[SimulatedCluster], None]

_KINDS: Final = {"deployment": "Deployment", "statefulset": "StatefulSet", "replicaset": "ReplicaSet"}
_LARGEST: Final = 100_000
_ALLOWED: Final = 1024 * 1024
"""Bytes of a scenario."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One change: how it was written, and what it does; ValueError where the cluster does not allow it.

    `wait` is how long to wait after it, None: until nothing moves any more.
    """

    text: str
    apply: _Apply
    wait: timedelta | None = None


class _StepError(Exception):
    """A step is not what it must be."""


class ScenarioError(Exception):
    """A scenario cannot be read; the text names the line."""


def parse_change(verb: str, text: str) -> Change:
    """Read the text of a flag, `verb` without its dashes; ValueError says what was expected."""
    return Change(text=f"{verb} {text}", apply=_VERBS[verb](text))


def load_scenario(data: bytes, source: str) -> list[Change]:
    """Read a scenario; ScenarioError names `source` and line of the first problem."""
    try:
        tree = read_tree(_decode(data))
    except UnreadableError as error:
        raise ScenarioError(f"{source}:{error.line}: {error.message}") from None
    if tree.problems:
        line, _, message = tree.problems[0]
        raise ScenarioError(f"{source}:{line}: {message}")
    return list(_read_steps(tree, source))


def _decode(data: bytes) -> str:
    if len(data) > _ALLOWED:
        raise UnreadableError(line=1, message=f"the file has {len(data):,} bytes; expected at most {_ALLOWED:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError(line=1, message="expected text in UTF-8") from None


def _read_steps(tree: Tree, source: str) -> Iterator[Change]:
    for name in tree.value:
        if name != "steps":
            raise ScenarioError(f"{source}:{tree.places[(name,)].line}: found {name}, expected steps only")
    steps = tree.value.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ScenarioError(f"{source}:1: expected steps, a list of changes")
    for number, step in enumerate(steps):
        try:
            yield _read_step(step)
        except _StepError as error:
            raise ScenarioError(f"{source}:{tree.places[('steps', number)].line}: {error}") from None


def _read_step(step: object) -> Change:
    names = {_camel_case(verb): verb for verb in _VERBS}
    expected = f"one of {', '.join(names)}"
    if not isinstance(step, Mapping):
        raise _StepError(f"found {step!r}, expected a mapping with {expected}")
    written: dict[str, Any] = dict(step)
    wait = written.pop("wait", None)
    unknown = [name for name in written if name not in names]
    if unknown:
        near = nearest_name(unknown[0], [*names, "wait"])
        raise _StepError(f"found {unknown[0]}, expected {expected}{f'; did you mean {near}?' if near else ''}")
    if len(written) != 1:
        raise _StepError(f"found {len(written)} changes in one step, expected {expected}")
    ((name, text),) = written.items()
    if not isinstance(text, str):
        raise _StepError(f"{name}: found {text!r}, expected text as its flag takes it")
    try:
        change = parse_change(names[name], text)
    except ValueError as error:
        raise _StepError(f"{name}: {error}") from None
    if wait is None:
        return change
    if not isinstance(wait, str):
        raise _StepError(f"wait: found {wait!r}, expected a duration such as 10m")
    try:
        return Change(text=change.text, apply=change.apply, wait=parse_duration(wait))
    except ValueError as error:
        raise _StepError(f"wait: found {wait!r}, {error}") from None


def _camel_case(verb: str) -> str:
    first, *others = verb.split("-")
    return first + "".join(word.capitalize() for word in others)


# The changes


def _name_node(change: Callable[[SimulatedCluster, str], None]) -> Callable[[str], _Apply]:
    def parse(text: str) -> _Apply:
        if not re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", text):
            raise ValueError(f"found {text!r}, expected the name of a node")
        return lambda cluster: change(cluster, text)

    return parse


def _name_domain(change: Callable[[SimulatedCluster, str, str], None]) -> Callable[[str], _Apply]:
    def parse(text: str) -> _Apply:
        key, value = _parse_label(text)
        return lambda cluster: change(cluster, key, value)

    return parse


def _parse_label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError(f"found {text!r}, expected KEY=VALUE such as topology.kubernetes.io/zone=a")
    return key, value


def _add_node(text: str) -> _Apply:
    name, equals, labels = text.partition("=")
    if not name or not equals:
        raise ValueError(f"found {text!r}, expected NAME=LABEL=VALUE,… such as a-9=topology.kubernetes.io/zone=a")
    given = dict(_parse_label(label) for label in labels.split(","))
    return lambda cluster: _add_like(cluster, name, given)


def _add_like(cluster: SimulatedCluster, name: str, given: Mapping[str, str]) -> None:
    """Add a node like the one that has most of the given labels: its size, its other labels and its taints."""
    nodes = cluster.snapshot(cluster.now).nodes
    if not nodes:
        raise ValueError("the cluster has no node that a new one could be like")

    def rank(labels: Mapping[str, str]) -> int:
        return sum(labels.get(key) == value for key, value in given.items())

    like = min(nodes, key=lambda node: (-rank(node.labels), len(node.taints), node.name))
    labels = Labels({**like.labels, HOSTNAME: name, **given})
    cluster.nodes.add(structs.replace(like, name=name, labels=labels))


def _scale(text: str) -> _Apply:
    match = re.fullmatch(r"([^/=]+)/([^/=]+)/([^/=]+)=([0-9]{1,6})", text)
    if match is None or match[2].lower() not in _KINDS or int(match[4]) > _LARGEST:
        raise ValueError(
            f"found {text!r}, expected NAMESPACE/KIND/NAME=REPLICAS such as shop/deployment/web=3, "
            f"{_LARGEST} replicas at most"
        )
    namespace, kind, name, replicas = match[1], _KINDS[match[2].lower()], match[3], int(match[4])
    return lambda cluster: cluster.scale(namespace, kind, name, replicas)


_VERBS: Final[Mapping[str, Callable[[str], _Apply]]] = {
    "remove-node": _name_node(lambda cluster, name: cluster.nodes.remove(name)),
    "add-node": _add_node,
    "cordon": _name_node(lambda cluster, name: cluster.nodes.cordon(name)),
    "remove-domain": _name_domain(lambda cluster, key, value: cluster.nodes.remove_domain(key, value)),
    "restore-domain": _name_domain(lambda cluster, key, value: cluster.nodes.restore_domain(key, value)),
    "scale": _scale,
}
