"""How many of the pods that wait for a node are a sign that the cluster is in trouble.

A Job whose pods wait for a type of node that the cluster does not have says nothing about the cluster's health, even
with many pods, because nothing could run them before. Waiting is a sign of trouble

* where a node has capacity for the pod: kube-scheduler has had the time to bind it, and has not. This is unknown for a
  pod that another scheduler places, or whose claims decide;
* where the pod replaces another that was lost with its node: the cluster could run it before.

    free     a: 3 pods, b: 1 pod, no gpu        100 pods that request a gpu       count 0
                                                2 pods and then 5 of another Job  count 2 + 2

The scheduling model evaluates the first pod of each owner and spec. The pods then share the free capacity of the nodes
that admit it, so that the place of one finished pod is not counted as free for a hundred pods. Constraints between
these pods are ignored, which may count too many pods, not too few. Cost: one evaluation for each owner and spec, each
of as many steps as there are nodes, and one step for each pod that counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from rebalancer.model.moves import ObservedChange
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.node_resources_fit import fits
from rebalancer.scheduling.node_usage import Usage, add_usage, get_charge
from rebalancer.scheduling.unpredictable import unpredictable
from rebalancer.scheduling.view import View

REPLACED_WITHIN: Final = timedelta(minutes=6)
"""From the loss of a node to the last of the pods that replace its pods.

A pod tolerates an unreachable node for 300 seconds (admission plugin DefaultTolerationSeconds); the garbage collector
of pods takes 40 to 60 more where the node is deleted.
"""

SEEN_WITHIN: Final = timedelta(minutes=1)
"""From a change in the cluster to the cycle that observes it, at most: the shipped `interval`."""


def count_troubled(
    waiting: Sequence[Pod], view: View, changes: Iterable[ObservedChange], ready_before: datetime
) -> int:
    """Return how many waiting pods are a sign of trouble.

    `changes` are the stored changes: they name the nodes that were lost within the last hour. Only nodes that became
    Ready before `ready_before` count, since the scheduler may not have had time to use later nodes.
    """
    lost = _Losses(view.snapshot, changes)
    classes: defaultdict[object, list[Pod]] = defaultdict(list)
    replacing = 0
    for pod in waiting:
        if lost.is_replaced_by(pod):
            replacing += 1
        else:
            classes[(pod.namespace, pod.owner.uid if pod.owner is not None else "", pod.spec)].append(pod)
    return replacing + _count_placeable(classes.values(), view, ready_before)


class _Losses:
    """The owners that have lost pods with their nodes, as far as the snapshot and the stored changes show."""

    def __init__(self, snapshot: Snapshot, changes: Iterable[ObservedChange]) -> None:
        self._snapshot = snapshot
        self._moments = sorted({change.at for change in changes if change.cause is ViolationCause.NODE_LOST})
        self._owners = _find_bereaved(snapshot)
        self._since: dict[str, datetime] = {}

    def is_replaced_by(self, pod: Pod) -> bool:
        """Return whether a pod replaces, or may replace, a pod that was lost with its node.

        Its owner has a pod on a node that is not Ready or does not exist. If the lost pods are already gone, the pod
        was created soon after a node was lost, for an owner that is older than the loss. Pods of a Job that was created
        later replace none, nor do pods that a Job created all at once.
        """
        if pod.owner is None:
            return False
        if pod.owner.uid in self._owners:
            return True
        # A loss is observed somewhat later than it happens, when its pods may already be replaced.
        lost = [at for at in self._moments if -SEEN_WITHIN <= pod.created - at <= REPLACED_WITHIN]
        return bool(lost) and self._has_existed_since(pod.owner.uid) < min(lost[-1], pod.created - SEEN_WITHIN)

    def _has_existed_since(self, owner: str) -> datetime:
        """Return the latest time at which an owner began to exist; of Jobs and other unread owners, pods show it."""
        if owner not in self._since:
            known = self._snapshot.workload.get(owner)
            moments = [pod.created for pod in self._snapshot.pods_of.get(owner, ())]
            self._since[owner] = min([*moments, known.created] if known is not None else moments)
        return self._since[owner]


def _find_bereaved(snapshot: Snapshot) -> frozenset[str]:
    """Return the UIDs of owners with a pod on a node that is not Ready or does not exist, unless it has succeeded.

    A pod's creator may name any node. On a node that never existed, no kubelet has taken the pod on.
    """
    ready = {node.name for node in snapshot.nodes if node.ready}
    samples = (run.pods[0] for run in snapshot.runs if not ready.issuperset(run.nodes))
    return frozenset(
        pod.owner.uid
        for pod in samples
        if pod.owner is not None
        and pod.phase is not PodPhase.SUCCEEDED
        and (pod.phase is not PodPhase.PENDING or pod.started_at is not None)
    )


def _count_placeable(classes: Iterable[Sequence[Pod]], view: View, ready_before: datetime) -> int:
    """Return how many of these pods find a node when placed together; each class has pods of one owner and spec."""
    taken: dict[str, Usage] = {}
    return sum(_fill(pods, view, taken, ready_before) for pods in classes)


def _fill(pods: Sequence[Pod], view: View, taken: dict[str, Usage], ready_before: datetime) -> int:
    """Place pods of one class one by one, node by node, and return how many are placed.

    `taken` is the usage of the nodes on which pods were placed before, and is updated.
    """
    if unpredictable(pods[0], view) is not None:
        return 0
    admitting = feasible(pods[0], view)
    if not admitting:
        return 0
    charge, requests, left = get_charge(pods[0], view.rules), pods[0].spec.requests, len(pods)
    for name, node in view.nodes.by_name.items():
        if name not in admitting or not node.ready or (node.ready_since or ready_before) > ready_before:
            continue
        used = taken.get(name) or view.used(name)
        while left and fits(requests, node, used):
            used, left = add_usage([(charge, 1)], used), left - 1
        taken[name] = used
        if not left:
            break
    return len(pods) - left
