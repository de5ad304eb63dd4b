"""The Nodes document: first the nodes that take no pods, why, and until when; then all other nodes."""

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
from rebalancer.model.motion import NodeChange
from rebalancer.model.moves import Memory
from rebalancer.model.nodes import ZONE, Node
from rebalancer.model.words import name_list
from rebalancer.planning.scope.leaving_nodes import LeavingNodes, NoTarget
from rebalancer.planning.scope.settling import SettlingNodes
from rebalancer.policy import Policy
from rebalancer.scheduling.node_index import REPELLING

_MOST: Final = 100
_ANY: Final = "pods"
_TAKING: Final = frozenset({NodeState.READY, NodeState.SETTLING})
_ORDER: Final = {state: rank for rank, state in enumerate(NodeState)}


class NodeEntry(CamelCaseStruct, frozen=True, kw_only=True):
    """A node and its pods.

    `why` says why no replacement lands on it, or only those that tolerate its taints; "" if any may. `since` is when
    that began, or since when the node is Ready; null if not known.

    `until` is when a settling node has settled if nothing changes, null in any other state. `takes` says which pods it
    takes then, "" if none.
    """

    name: Text
    zone: str
    state: NodeState
    why: str
    since: datetime | None
    until: datetime | None
    pods: Number
    takes: str = ""


class NodesDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """Up to a hundred selected nodes, first those that take no pods; `more` is the number of selected nodes not listed.

    `states` counts the selected nodes by state.
    """

    states: Mapping[NodeState, Annotated[int, Meta(ge=1)]]
    nodes: tuple[NodeEntry, ...]
    more: Number


def nodes_document(evaluation: Evaluation, memory: Memory, search: str = "", only: str = "") -> NodesDocument:
    """List the nodes whose name or zone has `search` in it, or the node of the name `only`."""
    view, wanted = evaluation.view, search.lower()
    settling = SettlingNodes(view, evaluation.inputs.policy, memory, evaluation.assessment)
    ends, refusals = settling.ends, LeavingNodes(view).refusals
    states = {
        node.name: node_state(node, ends)
        for node in view.nodes.by_name.values()
        if (only in {"", node.name}) and (wanted in node.name.lower() or wanted in node.labels.get(ZONE, "").lower())
    }
    first = nsmallest(_MOST, states, key=lambda name: (_ORDER[states[name]], name))
    return NodesDocument(
        states=dict(sorted(Counter(states.values()).items(), key=lambda item: _ORDER[item[0]])),
        nodes=tuple(
            _entry(view.nodes.by_name[name], states[name], settling, refusals.get(name), evaluation) for name in first
        ),
        more=len(states) - len(first),
    )


def _entry(
    node: Node, state: NodeState, settling: SettlingNodes, refusal: NoTarget | None, evaluation: Evaluation
) -> NodeEntry:
    held, policy = settling.held.get(node.name), evaluation.inputs.policy
    end = settling.ends[node.name] if state is NodeState.SETTLING else None
    why = [] if state is NodeState.READY else [_why(node, state, held, settling.neighbours.get(node.name))]
    takes = ""
    if state in _TAKING:
        takes = _takes(node) if refusal is None else ""
        if refusal is not None:
            why.append(f"no replacement is to land on it: {refusal.of_node}")
        elif state is NodeState.READY and takes != _ANY:
            why.append(f"it takes only {takes}")
    return NodeEntry(
        name=node.name,
        zone=node.labels.get(ZONE, ""),
        state=state,
        why="; ".join(why),
        since=_settles_since(end, held, policy) if end is not None else _since(node),
        until=end,
        pods=len(evaluation.view.pods_on(node.name)),
        takes=takes if end is not None else "",
    )


def _takes(node: Node) -> str:
    """Return which pods a node takes: its taints repel pods that do not tolerate them."""
    taints = [f"{taint}:{taint.effect}" for taint in node.taints if taint.effect in REPELLING]
    return f"{_ANY} that tolerate {name_list(taints)}" if taints else _ANY


def _why(node: Node, state: NodeState, held: UnsettledDomain | None, near: NodeChange | None) -> str:
    match state:
        case NodeState.NOT_READY:
            return "its Ready condition is not True"
        case NodeState.CORDONED if node.draining:
            return f"it is cordoned, and drained ({node.draining})"
        case NodeState.CORDONED:
            return f"it is cordoned by {node.cordoned_by}" if node.cordoned_by else "it is cordoned"
        case _:
            if held is not None:
                return held.sentence
            return f"near it {near} (nodes.settle)" if near is not None else "it has changed lately (nodes.settle)"


def _settles_since(end: datetime, held: UnsettledDomain | None, policy: Policy) -> datetime:
    """Return since when a node settles: since its domain began to change, or since the node's last change."""
    return held.motion.since if held is not None else end - policy.nodes.settle


def _since(node: Node) -> datetime | None:
    return node.ready_since if node.takes_pods else node.lost_since
