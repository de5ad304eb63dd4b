"""The changes by an operator or an outage to a simulated cluster, as flags and scenario files write them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from msgspec import structs

from rebalancer.admission.pause import Pause
from rebalancer.model.labels import Labels
from rebalancer.simulator import HOSTNAME, SimulatedCluster

_Apply = Callable[[SimulatedCluster], None]

_KINDS: Final = {"deployment": "Deployment", "statefulset": "StatefulSet", "replicaset": "ReplicaSet"}
_LARGEST: Final = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change, as it is written, and its effect.

    The effect raises ValueError if the cluster does not allow the change.
    """

    text: str
    apply: _Apply
    wait: timedelta | None = None
    """How long to wait after the change; None means until nothing moves any more."""
    after: timedelta | None = None
    """When to make the change, counted from the start; None means when the step before it has ended."""
    in_repair: bool = False
    """Whether `after` is counted from the first eviction instead."""
    says: str = ""
    """The words with which the story tells the change."""


def parse_change(verb: str, text: str) -> Change:
    """Read the text of a flag; `verb` is its name without dashes. ValueError says what was expected."""
    return Change(text=f"{verb} {text}", apply=VERBS[verb](text))


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
    """Add a node with the given labels.

    Its size, other labels and taints are those of the node with the most of these labels.
    """
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


def _pause(text: str) -> _Apply:
    by, colon, reason = text.partition(": ")
    if not by or not colon or not reason:
        raise ValueError(f"found {text!r}, expected BY: REASON such as 'alice: zone b is upgraded'")
    return _set_pause(Pause(by=by, reason=reason))


def _set_pause(pause: Pause | None) -> _Apply:
    def apply(cluster: SimulatedCluster) -> None:
        cluster.pause = pause

    return apply


VERBS: Final[Mapping[str, Callable[[str], _Apply]]] = {
    "remove-node": _name_node(lambda cluster, name: cluster.nodes.remove(name)),
    "add-node": _add_node,
    "cordon": _name_node(lambda cluster, name: cluster.nodes.cordon(name)),
    "remove-domain": _name_domain(lambda cluster, key, value: cluster.nodes.remove_domain(key, value)),
    "restore-domain": _name_domain(lambda cluster, key, value: cluster.nodes.restore_domain(key, value)),
    "scale": _scale,
    "pause": _pause,
    "resume": lambda _: _set_pause(None),
}
