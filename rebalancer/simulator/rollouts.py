"""Rolling updates: a Deployment shifts replicas to its new ReplicaSet, a StatefulSet replaces its pods.

A rollout begins with `begin_rollout`. If the first snapshot shows a Deployment in the middle of a rollout, that rollout
does not go on, because a snapshot does not show the strategy. Not simulated: a pause, a deadline, and a second change
before the first rollout has ended.

Source: `pkg/controller/deployment/rolling.go` (reconcileNewReplicaSet, reconcileOldReplicaSets),
`pkg/controller/deployment/util/deployment_util.go` (NewRSNewReplicas),
`pkg/controller/statefulset/stateful_set_control.go` (updateStatefulSet).
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

from msgspec import structs

from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import REVISION_LABELS, OwnerReference, Pod
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.simulator.state import ClusterState, RollingUpdate

REVISION: Final = "deployment.kubernetes.io/revision"
_HASH: Final = "pod-template-hash"


def begin_rollout(state: ClusterState, workload: Workload, template: PodTemplate, update: RollingUpdate) -> None:
    """Give a Deployment or a StatefulSet another template; its controller does the rest."""
    state.updates[workload.uid] = update
    below = [one for one in state.store.workloads if one.owner is not None and one.owner.uid == workload.uid]
    number = 1 + max(map(read_revision, below), default=0)
    if workload.kind == "StatefulSet":
        revision = _make_hash(workload, workload.revision)
        changed = structs.replace(
            workload, template=template, current_revision=workload.revision, revision=revision, observed=False
        )
        state.store.workloads.put(changed)
        return
    revision = _make_hash(workload, str(number))
    labels = Labels({**template.labels, _HASH: revision})
    made = structs.replace(
        workload,
        kind="ReplicaSet",
        name=f"{workload.name}-{revision}",
        uid=state.uid(),
        labels=labels,
        annotations=Labels({REVISION: str(number)}),
        selector=LabelSelector.of({_HASH: revision}, workload.selector.requirements if workload.selector else ()),
        template=structs.replace(template, labels=labels),
        replicas=0,
        current=0,
        ready=0,
        updated=0,
        revision=revision,
        owner=OwnerReference(group=workload.group, kind=workload.kind, name=workload.name, uid=workload.uid),
        created=state.stamp,
        observed=False,
    )
    state.store.workloads.put(made)
    state.store.workloads.put(structs.replace(workload, template=template, observed=False))


def read_revision(replica_set: Workload) -> int:
    """Return a ReplicaSet's revision number; 0 if it has none."""
    revision = replica_set.annotations.get(REVISION, "")
    return int(revision) if revision.isdigit() else 0


def _make_hash(workload: Workload, revision: str) -> str:
    return sha256(f"{workload.namespace}/{workload.name}/{revision}".encode()).hexdigest()[:10]


def shift_replicas(
    deployment: Workload, new: Workload, old: Sequence[Workload], update: RollingUpdate
) -> Iterator[Workload]:
    """Yield the ReplicaSets whose numbers of replicas change: the new ReplicaSet or, if it does not grow, old ones.

    Of the old ReplicaSets, unready pods go first, if enough pods are Ready without them.
    """
    wanted, total = deployment.replicas, new.replicas + sum(one.replicas for one in old)
    grown = new.replicas + max(0, min(wanted + update.surge - total, wanted - new.replicas))
    if min(grown, wanted) != new.replicas:
        yield structs.replace(new, replicas=min(grown, wanted), observed=False)
        return
    least = wanted - update.unavailable
    most = total - least - (new.replicas - new.ready)
    if most <= 0:
        return
    left = {one.uid: one.replicas for one in old}
    for one in old:
        sick = min(max(0, one.replicas - one.ready), most)
        most -= sick
        left[one.uid] -= sick
    spare = new.ready + sum(one.ready for one in old) - least
    for one in old:
        gone = max(0, min(left[one.uid], spare))
        spare -= gone
        left[one.uid] -= gone
    for one in old:
        if left[one.uid] < one.replicas:
            yield structs.replace(one, replicas=left[one.uid], observed=False)


def find_outdated(owner: Workload, numbered: Mapping[int, Pod]) -> Pod | None:
    """Return the pod that a StatefulSet deletes next for its new template.

    None if the StatefulSet waits for a pod, or has updated all pods.
    """
    for number in reversed(owner.ordinals):
        pod = numbered.get(number)
        if number in owner.held_back or pod is None or pod.terminating:
            return None
        if not any(pod.labels.get(key) == owner.revision for key in REVISION_LABELS):
            return pod
        if not pod.ready:
            return None
    return None
