"""The state in which nodes that are silent already have been silent for some minutes.

Pods on them are not deleted at once, and nobody knows whether their nodes come back. Until then nothing is certain of
their owners. Changes are computed for the state that follows if the nodes stay silent: the pods are terminating, their
owners create others, and the nodes take none.

Pods that may stay are left as they are: pods that tolerate their node's taint without an end, and pods of StatefulSets,
which do not replace terminating pods.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from msgspec import structs

from rebalancer.creation.replacement import REPLACING_KINDS
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from rebalancer.resilience.left_there import find_left_there
from rebalancer.resilience.loss import NODE_OWNERS
from rebalancer.scheduling.view import UNREACHABLE, View


class Settled(NamedTuple):
    """A state, and how many of its nodes are assumed to stay silent; with 0 it is the current state."""

    view: View
    silent: int = 0


def settle(view: View) -> Settled:
    """Return the state some minutes from now if the nodes that are not Ready stay so."""
    snapshot = view.snapshot
    silent = {node.name for node in snapshot.nodes if not node.ready}
    staying = {pod.uid for pod in find_left_there(view, silent)}
    owners = {owner.uid: owner for owner in snapshot.workloads}
    leaving = {
        pod.uid: _leave(pod, owners.get(pod.owner.uid) if pod.owner is not None else None, view)
        for pod in snapshot.pods
        if pod.node in silent and pod.uid not in staying and _is_deleted(pod, owners)
    }
    if not leaving:
        return Settled(view)
    pods = tuple(leaving.get(pod.uid, pod) for pod in snapshot.pods)
    nodes = tuple(_silence(node, silent) for node in snapshot.nodes)
    return Settled(View(replace(snapshot, pods=pods, nodes=nodes), view.profile, view.clock), len(silent))


def _is_deleted(pod: Pod, owners: dict[str, Workload]) -> bool:
    """Return whether a pod is about to be deleted and its owner, if any, replaces it without waiting for its end."""
    if pod.finished or pod.terminating or pod.mirror:
        return False
    if pod.owner is None:
        return True
    owner = owners.get(pod.owner.uid)
    return pod.owner.kind not in NODE_OWNERS | {"StatefulSet"} and (owner is None or not owner.keeps_pods)


def _leave(pod: Pod, owner: Workload | None, view: View) -> Pod:
    """Return a pod as terminating. For a Job's pod, which nothing counts as missing, return the pod that follows it."""
    if pod.owner is None or (owner is not None and (owner.kind in REPLACING_KINDS or owner.is_foreign)):
        return structs.replace(pod, deleted=view.snapshot.taken_at)
    return structs.replace(pod, node=None)


def _silence(node: Node, silent: Collection[str]) -> Node:
    """Return a node that takes no pods, not even those that tolerate its taints, because they would not run there."""
    if node.name not in silent:
        return node
    taints = (*node.taints, *(taint for taint in UNREACHABLE if taint not in node.taints))
    return structs.replace(node, taints=taints, pods=0)
