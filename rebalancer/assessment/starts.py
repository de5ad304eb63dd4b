"""Nodes on which nothing starts: recently bound pods have no sandbox, or the kubelet rejects them.

Problem: such a node is Ready, and the scheduler still chooses it. Possible faults: it has no address left, its runtime
hangs, its devices or NUMA nodes are not as their plugins report, or its labels or capacity are not as in its Node
object.

Idea: pods without a sandbox for `LONG` are witnesses, and so are pods that their kubelet has rejected within `LATELY`.
A pod that was bound later than a witness and has started contradicts it. If the pods of one owner do not start on a
node that starts other pods, the fault is theirs (a Secret that does not exist, a device that only they request), and
they are no witnesses on any node. But for pods of that owner, the node counts as one where nothing starts until one of
them has started.

`SEVERAL` witnesses of one sort are needed. One pod may wait for its own volume or Secret. And single rejections happen
in every busy cluster, if two programs decide about one capacity within a second. Those are not repeated, while a node
that differs from its object rejects the next pod, too.

Example: three pods have been bound to c-0 for 40 minutes, and PodReadyToStartContainers is False for all three. A pod
that was bound 30 minutes ago and runs would contradict all three.

If only one owner's pods do not start on several nodes, they say nothing about other owners' pods, either. Nor does a
rejection because of the pod's own requests: its operating system, a port of its node.

Cost: one pass over the pods for the witnesses; only if there are some, a second pass for pods that have started.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.words import name_list, plural
from rebalancer.scheduling.view import View

LONG: Final = timedelta(minutes=10)
"""No node takes this long to make a sandbox; images are pulled afterwards."""

LATELY: Final = timedelta(minutes=10)
"""How long a rejection says something about a node."""

SEVERAL: Final = 2

_OF_THE_POD: Final = frozenset({"NodePorts", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch"})
"""Rejections because of the pod's own requests, which say nothing about another owner's pods."""

_Starts = Mapping[tuple[str | None, str], datetime]
"""When the last started pod was bound, by node and owner, "" for any owner."""


class NothingStarts(Refusal):
    """A node does not start, or rejects, the pods that were bound to it lately, and may take a replacement.

    `rejections` are the kubelet's reasons, empty if the pods wait for a sandbox. `own`: it starts pods of other owners.
    """

    reason = Reason.NOTHING_STARTS_THERE
    ends = "when node {self.node} starts pods, or is cordoned"
    node: str
    pods: tuple[str, ...]
    since: datetime
    rejections: tuple[str, ...] = ()
    own: bool = False

    @property
    def sentence(self) -> str:
        """Which pods do not start there, since when, and what to do."""
        number, since = plural(len(self.pods), "pod"), f"{self.since:%Y-%m-%d %H:%M:%SZ}"
        if self.rejections:
            what = f"its kubelet has rejected {number} since {since} ({name_list(self.rejections)})"
        else:
            what = f"{number} on it without a sandbox since {since} (PodReadyToStartContainers is False)"
        later = "no pod of their owner that was" if self.own else "no pod"
        return (
            f"{what}, and {later} bound later has started: {name_list(self.pods)}. Repair the node, or cordon it until "
            "it starts pods; kubectl describe pod says why these do not start"
        )

    def __str__(self) -> str:
        nothing = "no pod of this workload" if self.own else "nothing"
        return f"node {self.node} may take a replacement, and {nothing} starts there: {self.sentence}"


class NodeWithoutStarts(Struct, frozen=True):
    """A node on which nothing starts, and the pods that show it; `owner` is the owner concerned, "" for all pods."""

    refusal: NothingStarts
    pods: tuple[Pod, ...]
    owner: str = ""


def find_nodes_without_starts(view: View) -> tuple[NodeWithoutStarts, ...]:
    """Return the nodes on which nothing starts, then the nodes on which one owner's pods do not, by name."""
    witnesses = [pod for pod in view.snapshot.unstarted if pod.node in view.nodes.by_name and _is_witness(pod, view)]
    if len(witnesses) < SEVERAL:
        return ()
    latest = _find_latest_starts(view.snapshot.pods, {pod.node for pod in witnesses})
    blamed = {_get_owner(pod) for pod in witnesses if _is_contradicted(pod, latest, "")}
    blamed |= {_get_owner(pod) for pod in witnesses if pod.start_failure in _OF_THE_POD}
    blamed |= set(_find_alone(witnesses))
    of_node: dict[tuple[str, str, bool], list[Pod]] = {}
    for pod in witnesses:
        owner = _get_owner(pod) if _get_owner(pod) in blamed else ""
        if not owner or not _is_contradicted(pod, latest, owner):
            of_node.setdefault((owner, pod.node or "", pod.finished), []).append(pod)
    found = {
        (owner, node): NodeWithoutStarts(_describe(node, pods, own=bool(owner)), tuple(pods), owner)
        for (owner, node, _), pods in sorted(of_node.items(), key=lambda item: len(item[1]))
        if len(pods) >= SEVERAL
    }
    return tuple(found[key] for key in sorted(found))


def _find_alone(witnesses: Iterable[Pod]) -> Iterator[str]:
    """Yield the owners whose pods do not start on several nodes where all other owners' pods do."""
    owners_on: defaultdict[str | None, set[str]] = defaultdict(set)
    for pod in witnesses:
        owners_on[pod.node].add(_get_owner(pod))
    nodes_of: defaultdict[str, list[set[str]]] = defaultdict(list)
    for owners in owners_on.values():
        for owner in owners:
            nodes_of[owner].append(owners)
    for owner, sharing in nodes_of.items():
        if len(sharing) > 1 and all(len(owners) == 1 for owners in sharing):
            yield owner


def _is_witness(pod: Pod, view: View) -> bool:
    if pod.terminating:
        return False
    if pod.finished:
        return not view.clock.has_lasted(_get_since(pod), LATELY)
    return view.clock.has_lasted(_get_since(pod), LONG)


def _get_since(pod: Pod) -> datetime:
    assert pod.unstarted_since is not None, "it has not started"
    return pod.unstarted_since


def _get_owner(pod: Pod) -> str:
    return pod.owner.uid if pod.owner is not None else pod.uid


def _is_contradicted(pod: Pod, latest: _Starts, owner: str) -> bool:
    return _get_since(pod) < latest.get((pod.node, owner), _get_since(pod))


def _find_latest_starts(pods: Iterable[Pod], nodes: Collection[str | None]) -> _Starts:
    """Return when the last-bound pod that has started was bound, by node and owner.

    A pod on the network of its node proves nothing, because it needs no address. Nor does a static pod, which is not
    bound.
    """
    latest: dict[tuple[str | None, str], datetime] = {}
    for pod in pods:
        if pod.node in nodes and pod.started and not pod.spec.host_network and not pod.mirror:
            bound_at = pod.bound_at or pod.created
            for key in ((pod.node, ""), (pod.node, _get_owner(pod))):
                latest[key] = max(bound_at, latest.get(key, bound_at))
    return latest


def _describe(node: str, pods: Sequence[Pod], *, own: bool) -> NothingStarts:
    rejections = {pod.start_failure for pod in pods if pod.finished}
    return NothingStarts(
        node=node,
        pods=tuple(sorted(map(str, pods))),
        since=min(map(_get_since, pods)),
        rejections=tuple(sorted(rejections)),
        own=own,
    )
