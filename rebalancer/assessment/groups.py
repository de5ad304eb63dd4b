"""Groups: workloads whose next pods would be judged by the same constraints over the same nodes.

A group's constraints are those that its owners' *next* pod will carry, since an eviction is answered by that pod. What
older pods still carry binds nobody any more.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rebalancer.model.affinity import Toleration
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload
from rebalancer.scheduling.node_index import RequiredAffinity, required_part
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.spread_constraints import Constraints, constraints_of
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_Key = tuple[str, Constraints, RequiredAffinity | None, tuple[Toleration, ...]]


@dataclass(frozen=True, kw_only=True)
class Member:
    """One owner in a group: the workload people know it by, its living pods, and the pod it would make next.

    `owner` is None for pods that no known controller replaces; they count, and stay where they are.
    """

    reference: Reference
    owner: Workload | None
    top: Workload | None
    pods: tuple[Pod, ...]
    """Bound or not; neither terminating nor finished."""
    next_pod: Pod | Unpredictable


@dataclass(frozen=True, kw_only=True)
class Group:
    """Owners that share constraints and eligibility. `sample` is a pod that stands for all their next pods."""

    namespace: str
    constraints: Constraints
    sample: Pod
    members: tuple[Member, ...]

    @cached_property
    def workloads(self) -> tuple[Reference, ...]:
        """The workloads by name, sorted, each once."""
        return tuple(sorted({member.reference for member in self.members}))

    @property
    def name(self) -> str:
        """A name that stays the same from cycle to cycle: its workloads and its constraints' keys."""
        keys = ",".join(f"{each.key}:{each.max_skew}" for each in (*self.constraints.hard, *self.constraints.soft))
        workloads = ",".join(f"{each.kind}/{each.name}" for each in self.workloads)
        return f"{self.namespace} {workloads} {keys}"


def groups(view: View) -> tuple[Group, ...]:
    """Find every group with a constraint, hard or soft, in a stable order."""
    found: defaultdict[_Key, list[tuple[Pod, Member]]] = defaultdict(list)
    for member in _members(view):
        sample = member.pods[0] if isinstance(member.next_pod, Unpredictable) else member.next_pod
        constraints = constraints_of(sample, view)
        if constraints.hard or constraints.soft:
            affinity = required_part(sample.spec.node_affinity)
            key = (sample.namespace, constraints, affinity, sample.spec.tolerations)
            found[key].append((sample, member))
    made = [
        Group(
            namespace=namespace,
            constraints=constraints,
            sample=entries[0][0],
            members=tuple(member for _, member in entries),
        )
        for (namespace, constraints, _, _), entries in found.items()
    ]
    return tuple(sorted(made, key=lambda group: (group.namespace, group.workloads, group.name)))


def _members(view: View) -> Iterator[Member]:
    """Yield the owners that have living pods, ordered by name, then the pods that nobody known owns."""
    snapshot = view.snapshot
    for owner in sorted(snapshot.workloads, key=lambda each: (each.namespace, each.kind, each.name)):
        pods = tuple(_living(snapshot, owner.uid))
        if pods:
            top = snapshot.top_owner_of(pods[0])
            yield Member(
                reference=_reference(top or owner),
                owner=owner,
                top=top,
                pods=pods,
                next_pod=replacement(pods[0], view),
            )
    yield from _unowned(view)


def _living(snapshot: Snapshot, uid: str) -> list[Pod]:
    pods = [pod for pod in snapshot.pods_of.get(uid, ()) if not pod.terminating and not pod.finished]
    return sorted(pods, key=lambda pod: pod.name)


def _unowned(view: View) -> Iterator[Member]:
    """Yield pods with constraints of their own that no known workload owns, one by one."""
    snapshot = view.snapshot
    for pod in snapshot.pods:
        if not pod.spec.spread or pod.terminating or pod.finished or snapshot.owner_of(pod) is not None:
            continue
        owner = pod.owner
        reference = (
            Reference(pod.namespace, owner.kind, owner.name) if owner else Reference(pod.namespace, "Pod", pod.name)
        )
        yield Member(reference=reference, owner=None, top=None, pods=(pod,), next_pod=pod)


def _reference(workload: Workload) -> Reference:
    return Reference(workload.namespace, workload.kind, workload.name)
