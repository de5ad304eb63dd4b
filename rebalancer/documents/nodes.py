"""The Nodes document: which nodes take no pods, why, and until when; then the others."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from heapq import nsmallest
from typing import Annotated, Final

from msgspec import Meta

from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.documents.cluster_map import node_state
from rebalancer.documents.document import CamelCaseStruct, Number, Text
from rebalancer.documents.map import NodeState
from rebalancer.engine import Evaluation
from rebalancer.model.moves import Memory
from rebalancer.model.nodes import ZONE, Node
from rebalancer.planning.scope.settling import SettlingNodes
from rebalancer.policy import Policy

_MOST: Final = 100
_ORDER: Final = {state: rank for rank, state in enumerate(NodeState)}


class NodeEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """A node and its pods.

    `why` says why no replacement lands on it, "" of a ready one. `since` is when that began, or since when it is Ready;
    null where it is not known. `until` is when it has settled if nothing changes, null in any other state.
    """

    name: Text
    zone: str
    state: NodeState
    why: str
    since: datetime | None
    until: datetime | None
    pods: Number


class NodesDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """The first hundred of the selected nodes, those first that take no pods; `more` is the number of others.

    `states` counts the selected nodes by state.
    """

    states: Mapping[NodeState, Annotated[int, Meta(ge=1)]]
    nodes: tuple[NodeEntry, ...]
    more: Number


def nodes_document(evaluation: Evaluation, memory: Memory, search: str = "", only: str = "") -> NodesDocument:
    """List the nodes whose name or zone has `search` in it, or the node of the name `only`."""
    view, wanted = evaluation.view, search.lower()
    policy = evaluation.inputs.policy
    settling = SettlingNodes(view, policy, memory, evaluation.assessment)
    ends, held = settling.ends, settling.held
    states = {
        node.name: node_state(node, ends)
        for node in view.nodes.by_name.values()
        if (only in {"", node.name}) and (wanted in node.name.lower() or wanted in node.labels.get(ZONE, "").lower())
    }
    first = nsmallest(_MOST, states, key=lambda name: (_ORDER[states[name]], name))
    return NodesDocument(
        states=dict(sorted(Counter(states.values()).items(), key=lambda item: _ORDER[item[0]])),
        nodes=tuple(
            NodeEntry(
                name=name,
                zone=view.nodes.by_name[name].labels.get(ZONE, ""),
                state=states[name],
                why=_why(view.nodes.by_name[name], states[name], held.get(name)),
                since=_settles_since(ends[name], held.get(name), policy)
                if states[name] is NodeState.SETTLING
                else _since(view.nodes.by_name[name]),
                until=ends[name] if states[name] is NodeState.SETTLING else None,
                pods=len(view.pods_on(name)),
            )
            for name in first
        ),
        more=len(states) - len(first),
    )


def _why(node: Node, state: NodeState, held: UnsettledDomain | None) -> str:
    match state:
        case NodeState.NOT_READY:
            return "its Ready condition is not True"
        case NodeState.CORDONED if node.draining:
            return f"it is cordoned, and drained ({node.draining})"
        case NodeState.CORDONED:
            return f"it is cordoned by {node.cordoned_by}" if node.cordoned_by else "it is cordoned"
        case NodeState.SETTLING if held is not None:
            return held.sentence
        case NodeState.SETTLING:
            return "it, or a node of its zone, has changed lately (nodes.settle)"
        case NodeState.READY | NodeState.LOST:
            return ""


def _settles_since(end: datetime, held: UnsettledDomain | None, policy: Policy) -> datetime:
    """Return when what a node settles after began: its domain's motion, or the last change."""
    return held.motion.since if held is not None else end - policy.nodes.settle


def _since(node: Node) -> datetime | None:
    return node.ready_since if node.takes_pods else node.lost_since
