"""The loss of some nodes: what runs on, and which pods need another node, for all owners at once.

A loss has two phases. While the nodes are *silent*, their Node objects stay, tainted, and so do their domains. Their
pods are terminating; ReplicaSets replace them, StatefulSets do not. When they are *gone*, the Node objects are deleted,
their domains with them, and StatefulSets replace their pods, too. Neither happens at one moment: pods and nodes go one
by one, and pending pods are placed meanwhile.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from rebalancer.assessment.controllers import PodController, controllers_without_pods, members
from rebalancer.creation.replacement import REPLACING_KINDS
from rebalancer.model.facts import Fact
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.words import plural
from rebalancer.model.workloads import Workload
from rebalancer.resilience.left_there import NotDeleted, find_left_there
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

NODE_OWNERS: Final = frozenset({"DaemonSet", "Node"})


class ReplacedByAnother(Fact):
    """The pods belong to a controller that is not part of Kubernetes; only it decides whether it replaces lost pods."""

    owner: str

    def __str__(self) -> str:
        return f"only the controller of {self.owner} decides whether lost pods are replaced"


class CreatedInOrder(Fact):
    """A StatefulSet lacks pods while others are terminating: whether it creates them depends on their order."""

    owner: str

    def __str__(self) -> str:
        return f"{self.owner} lacks pods, and may create them only after its terminating pods are gone"


class OnNodesNotReady(Fact):
    """Pods of the service are on nodes outside the loss that are not Ready, and may not come back."""

    pods: int

    def __str__(self) -> str:
        are = "is" if self.pods == 1 else "are"
        pods = f"{plural(self.pods, 'pod')} {are} on other nodes that are not Ready"
        return f"{pods}, and the outcome depends on whether those come back"


@dataclass(frozen=True, kw_only=True)
class Service:
    """The pods of one owner, as a loss leaves them."""

    workload: Reference | None
    """None for pods without an owner and pods of Jobs, which compete for capacity but are not counted."""
    owner: Workload | None
    sample: Pod
    """The pod that replaces the lost pods, as far as it is known."""
    unknown: Fact | None
    """Why `sample` is not fully known, None where it is."""
    wanted: int
    """The owner's replicas."""
    now: int
    """Pods that are Ready on remaining nodes."""
    bound: int
    """Pods that are bound to remaining nodes, Ready or not, if these nodes are Ready."""
    lost: tuple[Pod, ...]
    """Pods that run on the lost nodes."""
    pending: int
    """Pods to place in this phase."""
    waiting: int
    """The `pending` pods that would be pending without the loss, too."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The loss of nodes in one phase: `before` is the state now, `after` the state once all lost pods are gone.

    `drained`: the nodes are cordoned and their pods evicted. In the model they are silent, but their pods do not stay
    terminating.
    """

    phase: Phase
    nodes: frozenset[str]
    before: View
    after: View
    services: tuple[Service, ...]
    left_there: Sequence[Pod] = ()
    """Lost pods that may stay on their silent nodes."""
    drained: bool = False

    @property
    def lasts(self) -> bool:
        """Whether lost pods stay terminating, so that the domains that they exclude stay excluded."""
        return self.phase is Phase.SILENT and not self.drained


def lose(view: View, nodes: frozenset[str], phase: Phase, *, drained: bool = False) -> Loss:
    """Return what is left when these nodes are silent or gone; terminating pods on Ready nodes have ended.

    Terminating pods on other nodes that are not Ready stay, and so do the exclusions that they cause. `drained` nodes
    are cordoned where silent nodes are tainted, and each of their pods is replaced.
    """
    ending = (pod for run in view.snapshot.runs if run.pods[0].terminating for pod in run.pods)
    staying_on = {*nodes, *(node.name for node in view.snapshot.nodes if not node.ready)}
    elsewhere = [pod for pod in ending if pod.node is not None and pod.node not in staying_on]
    there = view.without(elsewhere) if elsewhere else view
    after = there.with_unreachable(nodes) if phase is Phase.SILENT else there.without_nodes(nodes)
    lasts = phase is Phase.SILENT and not drained
    staying = find_left_there(view, nodes) if lasts else ()
    uids = {pod.uid for pod in staying}
    services = tuple(_with_staying(one, uids) for one in _find_services(view, nodes, lasts=lasts))
    return Loss(
        phase=phase, nodes=nodes, before=view, after=after, services=services, left_there=staying, drained=drained
    )


def _with_staying(service: Service, staying: Collection[str]) -> Service:
    if service.unknown is None and any(pod.uid in staying for pod in service.lost):
        return replace(service, unknown=NotDeleted())
    return service


def _find_services(view: View, nodes: Collection[str], *, lasts: bool) -> Iterator[Service]:
    served = set[str]()
    # A pod of a deleted Node object runs nowhere. It is deleted and replaced in a moment.
    left = {node.name: node.ready for node in view.snapshot.nodes if node.name not in nodes}
    for member in (*members(view), *controllers_without_pods(view)):
        owner = member.owner
        if owner is not None and (owner.kind in REPLACING_KINDS or owner.is_foreign):
            served.add(owner.uid)
            yield _make_service(member, owner, nodes, left, view.snapshot.taken_at, lasts=lasts)
    yield from _find_competitors(view, nodes, served)


def _make_service(
    member: PodController,
    owner: Workload,
    nodes: Collection[str],
    left: Mapping[str, bool],
    now: datetime,
    *,
    lasts: bool,
) -> Service:
    """Return one owner's pods as a loss leaves them.

    `left` says which nodes remain, and which of them are Ready. `lasts`: lost pods stay terminating.
    """
    lost = tuple(pod for pod in member.pods if pod.node in nodes)
    outside = [pod for pod in member.pods if pod.node in left]
    on_ready = [pod for pod in outside if pod.node is not None and left[pod.node]]
    doubtful = len(outside) - len(on_ready)
    missing = max(0, owner.replicas - len(outside) + doubtful)
    waiting = max(0, missing - len(lost))
    keeps = owner.kind == "StatefulSet" or owner.keeps_pods
    replaced = 0 if lasts and keeps else len(lost)
    sample, unknown = _find_sample(member, owner, now)
    if unknown is None and doubtful:
        unknown = OnNodesNotReady(doubtful)
    if unknown is None and owner.is_foreign:
        unknown = ReplacedByAnother(str(owner))
    if unknown is None and lasts and keeps and waiting:
        unknown = CreatedInOrder(str(owner))
    return Service(
        workload=member.reference,
        owner=owner,
        sample=sample,
        unknown=unknown,
        wanted=owner.replicas,
        now=sum(pod.ready for pod in on_ready),
        bound=len(outside) - doubtful,
        lost=lost,
        pending=min(missing, waiting + replaced),
        waiting=waiting,
    )


def _find_sample(member: PodController, owner: Workload, now: datetime) -> tuple[Pod, Fact | None]:
    """Return what is known of an owner's next pod, and why the rest is not."""
    if not isinstance(member.next_pod, Unpredictable):
        return member.next_pod, None
    if member.pods:
        return member.pods[0], member.next_pod
    assert owner.template is not None, "an owner without pods is known by its template"
    spec, labels = owner.template.spec, owner.template.labels
    made = Pod(
        namespace=owner.namespace,
        name=f"{owner.name}-",
        uid=f"{owner.uid}+",
        labels=labels,
        spec=spec,
        created=now,
        requests=spec.requests,
    )
    return made, member.next_pod


def _find_competitors(view: View, nodes: Collection[str], served: Collection[str]) -> Iterator[Service]:
    """Yield the pods that compete for capacity without being counted: pending pods, and lost pods of Jobs."""
    lost = [pod for node in sorted(nodes) for pod in view.pods_on(node) if not (pod.mirror or pod.finished)]
    again = [pod for pod in lost if pod.owner is not None and pod.owner.kind not in NODE_OWNERS]
    for pod in (*view.snapshot.unplaced, *again):
        if pod.owner is None or pod.owner.uid not in served:
            yield Service(
                workload=None,
                owner=None,
                sample=pod,
                unknown=None,
                wanted=0,
                now=0,
                bound=0,
                lost=() if pod.waiting else (pod,),
                pending=1,
                waiting=int(pod.waiting),
            )
