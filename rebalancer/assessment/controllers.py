"""Pod controllers: the owners of pods, each with its living pods and the pod that it would create next."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct

from rebalancer.creation.replacement import REPLACING_KINDS, replacement
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.runs import Run, join_pods
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.scheduling.node_index import NodeCounts
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_NAME: Final = attrgetter("name")

_NODE_OWNERS: Final = frozenset({"DaemonSet", "Node"})
"""Owners whose pods belong to their nodes: no scheduler chooses where they run."""


class PodController(Struct, frozen=True, kw_only=True, gc=False):
    """One owner of pods: the workload that people know it by, its living pods, and its next pod.

    `owner` is None for pods that no known controller replaces: they are counted but never evicted.
    """

    reference: Reference
    owner: Workload | None
    top: Workload | None
    pods: tuple[Pod, ...]
    """Bound or not; neither terminating nor finished."""
    next_pod: Pod | Unpredictable
    labels: Labels | None = None
    """The labels of its pods, if all pods share them and have a node; else None."""

    @property
    def sample(self) -> Pod | None:
        """The next pod, or a living pod if the next pod is not predictable; None for an owner without pods."""
        if not isinstance(self.next_pod, Unpredictable):
            return self.next_pod
        return self.pods[0] if self.pods else None


def members(view: View) -> tuple[PodController, ...]:
    """Return the owners that have living pods, by namespace, kind and name."""
    return view.memo("members", lambda: tuple(_members(view)))


def _members(view: View) -> Iterator[PodController]:
    snapshot = view.snapshot
    for owner in sorted(snapshot.workloads, key=lambda workload: (workload.namespace, workload.kind, workload.name)):
        runs = [run for run in snapshot.runs_of.get(owner.uid, ()) if run.living]
        if runs:
            pods = tuple(sorted(join_pods(runs), key=_NAME))
            top = snapshot.top_owner_of(pods[0])
            yield PodController(
                reference=reference_of(top or owner),
                owner=owner,
                top=top,
                pods=pods,
                next_pod=replacement(pods[0], view),
                labels=_shared_labels(runs),
            )


def _shared_labels(runs: Sequence[Run]) -> Labels | None:
    labels = runs[0].pods[0].labels
    for run in runs:
        if run.pods[0].labels is not labels or len(run.nodes) < len(run.pods):
            return None
    return labels


def count_members_pods(member: PodController, view: View) -> NodeCounts | None:
    """Count an owner's pods by node from the counts of their labels, if no other pods share these labels.

    None if each pod would have to be visited.
    """
    if member.labels is None:
        return None
    return view.live_alike(member.pods[0].namespace, member.labels, len(member.pods))


def unowned_pods(view: View) -> tuple[Pod, ...]:
    """Return the living pods, of the snapshot's scope and in its order, that no known workload owns."""
    return view.memo("unowned", lambda: tuple(_unowned(view.snapshot)))


def _unowned(snapshot: Snapshot) -> Iterator[Pod]:
    known = snapshot.workload
    owned = sum(len(run.pods) for uid, runs in snapshot.runs_of.items() if uid in known for run in runs)
    if owned < len(snapshot.pods):
        for pod in snapshot.covered_pods:
            if (pod.owner is None or pod.owner.uid not in known) and not pod.terminating and not pod.finished:
                yield pod


def stray_controllers(view: View) -> Iterator[PodController]:
    """Yield a controller for the living pods of each unknown owner, and for each pod without an owner.

    Pods that belong to their nodes (DaemonSets, static pods) are left out.
    """
    pods_by_owner: defaultdict[Reference, list[Pod]] = defaultdict(list)
    for pod in unowned_pods(view):
        if pod.owner is None or pod.owner.kind not in _NODE_OWNERS:
            pods_by_owner[stray_reference(pod)].append(pod)
    for reference in sorted(pods_by_owner):
        pods = tuple(sorted(pods_by_owner[reference], key=lambda pod: pod.name))
        yield PodController(reference=reference, owner=None, top=None, pods=pods, next_pod=pods[0])


def controllers_without_pods(view: View) -> Iterator[PodController]:
    """Yield the owners that should have pods but have none."""
    present = {member.owner.uid for member in members(view) if member.owner is not None}
    missing = Unpredictable(Reason.NOT_PREDICTABLE, "it has no pod")
    snapshot = view.snapshot
    for owner in snapshot.workloads:
        if owner.replicas and owner.kind in REPLACING_KINDS and owner.uid not in present and owner.template is not None:
            top = snapshot.top_of(owner)
            yield PodController(reference=reference_of(top), owner=owner, top=top, pods=(), next_pod=missing)


def find_reference(pod: Pod, view: View) -> Reference:
    """Return the workload that people know a pod by."""
    top = view.snapshot.top_owner_of(pod)
    return reference_of(top) if top is not None else stray_reference(pod)


def stray_reference(pod: Pod) -> Reference:
    """Return the reference of a pod's owner, known or not, else of the pod itself."""
    if pod.owner is None:
        return Reference(pod.namespace, "Pod", pod.name)
    return Reference(pod.namespace, pod.owner.kind, pod.owner.name)
