"""The controllers of the simulated cluster that create and delete pods, and the controller of Deployments.

They watch pods and owners, and reconcile an owner once after a delay. A ReplicaSet or ReplicationController creates a
new pod as soon as a pod is terminating. A StatefulSet's pods have ordinals: a new pod is created only after the old pod
of its ordinal is removed. A foreign owner with a template acts like a ReplicaSet. A foreign owner that defines each pod
recreates a pod, as it was, once the pod is gone. A Deployment sets the replicas of its ReplicaSet, and adds up the
statuses of all its ReplicaSets.

A rollout that begins in the simulation goes on to its end (`rollouts`). A rollout in the first snapshot does not go on.
Source: `pkg/controller/replicaset/replica_set.go` (manageReplicas),
`pkg/controller/statefulset/stateful_set_control.go` (processReplica, processCondemned).
"""

from abc import ABC, abstractmethod
from collections import Counter

from msgspec import structs

from rebalancer.creation.replacement import NODE_LABELS
from rebalancer.model.labels import Labels
from rebalancer.model.pods import OwnerReference, Pod, PodPhase
from rebalancer.model.workloads import Workload, is_beyond, pod_ordinal
from rebalancer.prevention.controller_order import sort_for_deletion
from rebalancer.simulator.pod_factory import PodFactory
from rebalancer.simulator.rollouts import find_outdated, read_revision, shift_replicas
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.trace import TraceKind
from rebalancer.simulator.watch import follow


class Controller(ABC):
    """The controller of one or more kinds of owners whose pods it creates itself.

    `pods` and `workloads` are what the controller has seen so far.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        name = type(self).__name__
        self.pods = follow(state, state.store.pods, f"{name} pods")
        self.workloads = follow(state, state.store.workloads, f"{name} workloads")
        self.pods.listeners.append(self._pod_changed)
        self.workloads.listeners.append(self._workload_changed)
        for workload in self.workloads:
            self._enqueue(workload)

    @abstractmethod
    def handles(self, owner: Workload) -> bool:
        """Return whether the controller creates the pods of an owner."""

    @abstractmethod
    def reconcile(self, owner: Workload) -> None:
        """Create and delete pods of an owner, and write its status, by what the controller has seen of them."""

    def _write_status(self, seen: Workload, reported: Workload) -> None:
        """Write a status to the stored owner.

        If the controller has not seen the latest number of replicas, the status does not count as observed.
        """
        stored = self._state.store.workloads.get(seen.uid)
        if stored is None:
            return
        written = structs.replace(
            stored,
            current=reported.current,
            ready=reported.ready,
            updated=reported.updated,
            creation_failure=reported.creation_failure,
            observed=stored.replicas == seen.replicas,
        )
        if written != stored:
            self._state.store.workloads.put(written)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        owner = self.workloads.get(pod.owner.uid) if pod is not None and pod.owner is not None else None
        if owner is not None:
            self._enqueue(owner)

    def _workload_changed(self, _: Workload | None, after: Workload | None) -> None:
        if after is not None and not after.observed:
            self._enqueue(after)

    def _enqueue(self, owner: Workload) -> None:
        if self.handles(owner) and owner.deleted is None:
            delay = self._state.timings.reconciling.draw(self._state.random)
            self._state.event_queue.after(delay, lambda: self._act(owner.uid), key=f"owner {owner.uid}")

    def _act(self, uid: str) -> None:
        owner = self.workloads.get(uid)
        assert owner is not None
        self.reconcile(owner)


class ReplicaSets(Controller):
    """The controller of all ReplicaSets and ReplicationControllers, and of foreign owners with a template."""

    def __init__(self, state: ClusterState, pod_factory: PodFactory) -> None:
        self._above = {workload.owner.uid for workload in state.store.workloads if workload.owner is not None}
        super().__init__(state)
        self._pod_factory = pod_factory
        self.expected: dict[str, set[str]] = {}
        """For each owner, the UIDs of pods whose creation or deletion by the controller it has not seen yet."""

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is not None and pod.owner is not None and (before is None or after is None or after.terminating):
            self.expected.get(pod.owner.uid, set()).discard(pod.uid)
        super()._pod_changed(before, after)

    def handles(self, owner: Workload) -> bool:
        """Return whether all pods of an owner are made from its template."""
        if owner.is_foreign:
            return owner.template is not None and owner.uid not in self._above
        return owner.kind in {"ReplicaSet", "ReplicationController"}

    def reconcile(self, owner: Workload) -> None:
        """Create or delete pods until the number of active pods equals the number of replicas.

        Do nothing before the controller has seen its last changes. Source: `pkg/controller/controller_utils.go`
        (ControllerExpectations).
        """
        self._adopt(owner)
        active = [pod for pod in self.pods.of(owner.uid) if _is_active(pod)]
        self._report(owner, active)
        expected = self.expected.setdefault(owner.uid, set())
        if expected:
            return
        if len(active) > owner.replicas:
            for pod in self._sort_for_deletion(owner, active)[: len(active) - owner.replicas]:
                expected.add(pod.uid)
                self._state.delete(pod)
        for _ in range(owner.replicas - len(active)):
            made = self._pod_factory.next_pod(owner, self._state.generate_pod_name(owner.namespace, owner.name))
            if made is None:
                return
            self._state.note(TraceKind.CREATED, f"Pod {made}")
            expected.add(made.uid)
            self._state.store.pods.put(made)

    def _adopt(self, owner: Workload) -> None:
        """Make the owner the controller of all pods that its selector matches and that have no controller."""
        reference = OwnerReference(group=owner.group, kind=owner.kind, name=owner.name, uid=owner.uid)
        for seen in self.pods.of(""):
            pod = self._state.store.pods.get(seen.uid)
            if (
                pod is not None
                and pod.owner is None
                and pod.namespace == owner.namespace
                and _is_active(pod)
                and owner.selector is not None
                and owner.selector.matches(pod.labels)
            ):
                self._state.note(TraceKind.ADOPTED, f"Pod {pod}", f"by {owner}")
                self._state.store.pods.put(structs.replace(pod, owner=reference))

    def _report(self, owner: Workload, active: list[Pod]) -> None:
        """Write the status as the real controller does.

        It has the state before the controller's own changes, and why pods cannot be created.
        """
        count, ready = len(active), sum(pod.ready for pod in active)
        failure = self._state.refused_pods.get(owner.namespace, "") if count < owner.replicas else ""
        reported = structs.replace(owner, current=count, ready=ready, updated=count, creation_failure=failure)
        self._write_status(owner, reported)

    def _sort_for_deletion(self, owner: Workload, active: list[Pod]) -> list[Pod]:
        """Return surplus pods in the order in which they are deleted."""
        related: list[str] = []  # the pods of a ReplicaSet without a Deployment are not counted by node
        if owner.owner is not None:
            above = owner.owner.uid
            related = [
                workload.uid
                for workload in self.workloads
                if workload.owner is not None and workload.owner.uid == above and workload.kind == owner.kind
            ]
        crowds = Counter(pod.node for uid in related for pod in self.pods.of(uid) if _is_active(pod))
        return sort_for_deletion(active, crowds, self._state.event_queue.now)


def _is_active(pod: Pod) -> bool:
    return not pod.terminating and not pod.finished


class StatefulSets(Controller):
    """The controller of all StatefulSets."""

    def __init__(self, state: ClusterState, pod_factory: PodFactory) -> None:
        super().__init__(state)
        self._pod_factory = pod_factory

    def handles(self, owner: Workload) -> bool:
        """Return whether an owner is a StatefulSet."""
        return owner.kind == "StatefulSet"

    def reconcile(self, owner: Workload) -> None:
        """Create the pod with the lowest missing ordinal; only if all pods are Ready, delete surplus pods."""
        numbered = {pod_ordinal(pod.name): pod for pod in self.pods.of(owner.uid)}
        self._report(owner, list(numbered.values()))
        in_turn = not owner.parallel
        for number in owner.ordinals:
            pod = numbered.get(number)
            if pod is None:
                self._create(owner, number)
            elif pod.finished:
                self._state.delete(pod)
            if in_turn and (pod is None or pod.terminating or not pod.ready):
                return
        for number in sorted((number for number in numbered if is_beyond(number, owner)), reverse=True):
            pod = numbered[number]
            self._state.delete(pod)
            if in_turn:
                return
        outdated = find_outdated(owner, numbered) if owner.uid in self._state.updates else None
        if outdated is not None:
            self._state.delete(outdated)

    def _create(self, owner: Workload, number: int) -> None:
        made = self._pod_factory.next_pod(owner, f"{owner.name}-{number}")
        # A pod of another owner may have the name: the API server refuses a second one.
        if made is not None and self._state.store.pods.named(made.namespace, made.name) is None:
            self._state.note(TraceKind.CREATED, f"Pod {made}")
            self._state.store.pods.put(made)

    def _report(self, owner: Workload, pods: list[Pod]) -> None:
        """Write the status.

        `replicas` and `readyReplicas` count terminating pods; `updatedReplicas` counts neither these nor pods that the
        partition keeps at an older revision.
        """
        reported = structs.replace(
            owner,
            current=len(pods),
            ready=sum(pod.ready for pod in pods),
            updated=sum(not pod.terminating and pod_ordinal(pod.name) not in owner.held_back for pod in pods),
        )
        self._write_status(owner, reported)


class PodSets(Controller):
    """The controllers of foreign owners that define each pod: they recreate a deleted pod as it was."""

    def __init__(self, state: ClusterState) -> None:
        self._defined: dict[str, dict[str, Pod]] = {}
        super().__init__(state)
        for owner in self.workloads:
            if self.handles(owner):
                self._defined[owner.uid] = {pod.name: pod for pod in self.pods.of(owner.uid)}

    def handles(self, owner: Workload) -> bool:
        """Return whether the owner's pods come back as they were."""
        return owner.keeps_pods

    def reconcile(self, owner: Workload) -> None:
        """Create each missing pod once the pod of its name is removed."""
        present = {pod.name: pod for pod in self.pods.of(owner.uid)}
        ready = sum(pod.ready for pod in present.values())
        self._write_status(owner, structs.replace(owner, current=len(present), ready=ready, updated=len(present)))
        for name, defined in self._defined.get(owner.uid, {}).items():
            if self._state.store.pods.named(owner.namespace, name) is None:
                self._state.note(TraceKind.CREATED, f"Pod {defined}")
                self._state.store.pods.put(
                    structs.replace(
                        defined,
                        uid=self._state.uid(),
                        created=self._state.stamp,
                        labels=Labels({key: defined.labels[key] for key in defined.labels.keys() - NODE_LABELS}),
                        node=None,
                        nominated_node=None,
                        phase=PodPhase.PENDING,
                        ready=False,
                        ready_since=None,
                        deleted=None,
                        evicted_at=None,
                        starting_since=None,
                        unready_since=None,
                        unstarted_since=None,
                        bound_at=None,
                        started_at=None,
                        preempted=False,
                        has_sandbox=None,
                        start_failure="",
                        failed_image="",
                        generation=1,
                    )
                )


class Deployments:
    """The controller of all Deployments."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        state.store.workloads.listeners.append(self._changed)
        for workload in state.store.workloads:
            self._changed(None, workload)

    def _changed(self, _: Workload | None, after: Workload | None) -> None:
        if after is None:
            return
        if after.kind == "Deployment":
            if not after.observed:
                self._enqueue(after.uid)
        elif after.owner is not None and after.owner.kind == "Deployment":
            self._enqueue(after.owner.uid)

    def _enqueue(self, uid: str) -> None:
        delay = self._state.timings.reconciling.draw(self._state.random)
        self._state.event_queue.after(delay, lambda: self._reconcile(uid), key=f"deployment {uid}")

    def _reconcile(self, uid: str) -> None:
        workloads = self._state.store.workloads
        deployment = workloads.get(uid)
        below = [workload for workload in workloads if workload.owner is not None and workload.owner.uid == uid]
        if deployment is None or not below:
            return
        newest = max(below, key=_rank_by_age)
        alive = [replica_set for replica_set in below if replica_set.replicas] or [newest]
        update = self._state.updates.get(uid)
        if update is not None:
            old = sorted((one for one in below if one is not newest), key=_rank_by_age)
            for changed in shift_replicas(deployment, newest, old, update):
                workloads.put(changed)
        elif len(alive) == 1 and alive[0].replicas != deployment.replicas:
            workloads.put(structs.replace(alive[0], replicas=deployment.replicas, observed=False))
        reported = structs.replace(
            deployment,
            current=sum(replica_set.current for replica_set in below),
            ready=sum(replica_set.ready for replica_set in below),
            updated=newest.current,
            observed=True,
        )
        if reported != deployment:
            workloads.put(reported)


def _rank_by_age(replica_set: Workload) -> tuple[int, float]:
    """Return the sort key by which a Deployment's newest ReplicaSet comes last."""
    return read_revision(replica_set), replica_set.created.timestamp()
