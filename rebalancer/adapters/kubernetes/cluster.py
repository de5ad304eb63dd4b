"""The real cluster behind the control loop's port: one reflector for each kind, and the writes."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import is_
from threading import Lock, Thread
from typing import TypeGuard, TypeVar

import msgspec

from rebalancer.adapters.kubernetes.configmaps import ControlMap, StatusMap, find_pause
from rebalancer.adapters.kubernetes.deletion_costs import find_missing_restriction, patch_cost
from rebalancer.adapters.kubernetes.endpoint_slices import ServiceSlices
from rebalancer.adapters.kubernetes.events import API_VERSIONS, Recorder
from rebalancer.adapters.kubernetes.evictions import evict
from rebalancer.adapters.kubernetes.listing import FORBIDDEN, server_version
from rebalancer.adapters.kubernetes.owner_kinds import OwnerWatches
from rebalancer.adapters.kubernetes.pages import read_pages
from rebalancer.adapters.kubernetes.reflector import STALE_AFTER, Contents, Reflector
from rebalancer.adapters.kubernetes.scaling import Scaling
from rebalancer.adapters.kubernetes.standstill import Standstill
from rebalancer.adapters.kubernetes.surge_map import SurgeMap
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.admission.pause import Pause
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import (
    AUTOSCALERS,
    ENDPOINT_SLICES,
    KIND_NAMED,
    KINDS,
    NODE_POOLS,
    OPTIONAL_KINDS,
    PODS,
    WEBHOOKS,
    ResourceKind,
)
from rebalancer.decoding.lists import UnreadableList, decode, make_snapshot
from rebalancer.model.cluster import Version
from rebalancer.model.creation import WebhookConfiguration, find_needed_services
from rebalancer.model.events import Event, Regarding
from rebalancer.model.moves import Move, Reference
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import OPTIONAL, Fault, Snapshot
from rebalancer.model.words import format_duration, plural
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.ports import (
    Document,
    EvictionAnswer,
    PatchAnswer,
    ReadFailedError,
    ReadForbiddenError,
    ReplicaCount,
    SaveAnswer,
    ScaleAnswer,
    ScaleReading,
    place_pods,
)
from rebalancer.prevention.plan import PodPatch

T = TypeVar("T")

FAILING_AFTER = 10.0
"""Seconds for which a watch may fail before its objects count as stale."""

_CHECK_SECONDS = 1.0
"""How long reading the kill switch, a workload right before a step, or the pod of a move may take."""

_COUNT_SECONDS = 5.0
"""How long each page of a workload's pods may take."""

_NAMESPACE, _REPLICA_SET = "Namespace", "ReplicaSet"
BY_NAMESPACE = frozenset(
    {"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "PodDisruptionBudget", "Service"}
)
"""Kinds that need not be read in every namespace. Pods and their claims must be, because all of them use nodes."""
_WATCHED = tuple(kind for kind in OPTIONAL_KINDS if kind is not ENDPOINT_SLICES)
"""The watched optional kinds, without EndpointSlices: every Service has them, and hardly any matter."""


def _are_same(before: Sequence[object], parts: Sequence[object]) -> bool:
    return len(before) == len(parts) and before[0] == parts[0] and all(map(is_, before[1:], parts[1:]))


class KubernetesCluster:
    """A cluster that is watched as long as the process runs.

    Without a `version`, `read_version` must be called before the first snapshot. `control` watches the ConfigMap with
    the kill switch; while that watch is stale, so is the snapshot.

    Workloads are those of `scope`, the names of namespaces; None means all. A namespace is left out where its workloads
    may not be read, for example because it or its RoleBinding does not exist. This does not affect the others.

    Objects watched by `beside` are in no snapshot; after a stop of the process they are also listed again.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        instance: str,
        control: Reflector,
        version: Version | None = None,
        scope: frozenset[str] | None = None,
        beside: Sequence[Reflector] = (),
    ) -> None:
        self._transport = transport
        self._beside = beside
        self._version = version
        self._version_error = ""
        self._is_scoped = scope is not None
        self._recorder = Recorder(transport, instance=instance)
        self._status = StatusMap(transport, namespace)
        self._control = ControlMap(transport, namespace)
        self._scaling = Scaling(transport)
        self._surges = SurgeMap(transport, namespace)
        everywhere = [kind for kind in KINDS if scope is None or kind.name not in BY_NAMESPACE]
        self.reflectors = {kind.name: Reflector(transport, kind) for kind in everywhere}
        self.reflectors[CONFIG_MAPS.name] = control
        self._scoped = {name: _watch_namespace(transport, name) for name in sorted(scope or ())}
        self._optional = [
            Reflector(transport, kind, optional=True) for kind in _WATCHED if scope is None or not kind.namespaced
        ]
        self._scoped_optional = {name: _watch_optional(transport, name) for name in self._scoped}
        scoped = [reflector for watched in self._scoped.values() for reflector in watched]
        unneeded = [reflector for watched in self._scoped_optional.values() for reflector in watched]
        self._all = (*self.reflectors.values(), *self._optional, *scoped, *unneeded)
        self._owners = OwnerWatches(transport, scope, is_stale=_is_out_of_date)
        self._slices = ServiceSlices(transport)
        self._standstill = Standstill(self._renew)
        self._stood_still = 0.0
        """How many seconds the last stop of the process took."""
        self._last: tuple[tuple[object, ...], Snapshot] | None = None
        """The last snapshot, after the inputs that it was made from."""
        self._making = Lock()
        """Taken to make a snapshot: the loop makes them, and, while another process leads, each reader of the page."""

    def notice_stops(self, seconds: float) -> None:
        """From now on, list every kind again after the process was stopped or suspended for longer than this."""
        self._standstill.set_limit(seconds)

    def _renew(self, seconds: float) -> None:
        """Trust nothing that was received before: the process has just been stopped for this many seconds."""
        self._stood_still = seconds
        self._slices.forget()
        for reflector in (*self._all, *self._owners.watches, *self._beside):
            reflector.renew()

    def read_version(self) -> Version:
        """Request the API server's version; raise ClusterError where that fails. Until it is known, all is stale."""
        try:
            self._version = server_version(self._transport)
        except ClusterError as error:
            self._version_error = str(error)
            raise
        return self._version

    def follow_owners(self, kinds: Iterable[tuple[str, str]]) -> None:
        """From now on, watch only the foreign owners of these kinds and groups; nothing waits for these watches."""
        self._owners.follow(kinds)

    def start(self, observe: Callable[[object, object], None] | None = None) -> None:
        """Start to watch every kind; `observe` is called with each object before and after its change."""
        self._owners.observe = observe
        self._owners.start()
        for reflector in self._all:
            reflector.observe = observe
            reflector.start()
        self._slices.start()
        self._standstill.start()

    def stop(self, timeout: float = 2.0) -> None:
        """End every watch and publish the queued events within `timeout` seconds; the transport is unusable then."""
        deadline = time.monotonic() + timeout
        self._standstill.stop()
        for reflector in self._all:
            reflector.stop()
        self._owners.stop()
        self._slices.stop()
        self._recorder.close(timeout / 2)
        self._transport.interrupt()  # a list, or a watch without a header yet, does not end by itself
        for reflector in self._all:
            reflector.join(max(0.0, deadline - time.monotonic()))
        self._owners.join(max(0.0, deadline - time.monotonic()))
        self._slices.join(max(0.0, deadline - time.monotonic()))

    @property
    def watches(self) -> list[Reflector]:
        """All watches that a snapshot is made of, except for optional kinds."""
        return [*self.reflectors.values(), *(reflector for watched in self._scoped.values() for reflector in watched)]

    @property
    def threads(self) -> list[Thread]:
        """The threads that run from `start` to `stop`."""
        own = (self._recorder.thread, self._slices.thread, self._owners.thread, self._standstill.thread)
        return [*own, *(reflector.thread for reflector in self._all)]

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once; for an optional kind, a request is enough."""
        return self._owners.synced and all(reflector.synced.is_set() for reflector in self._all)

    def forbidden(self) -> str:
        """Return the error of a kind that this identity may not watch, "" if there is none; waiting does not help."""
        return next((reflector.error for reflector in self.reflectors.values() if reflector.status in FORBIDDEN), "")

    def staleness(self) -> str:
        """Say why the snapshot is stale, "" if it is not; optional kinds decide no placement.

        After a stop, every known kind must have been listed again, including optional kinds that can be listed.
        """
        if self._version is None:
            why = f" ({self._version_error})" if self._version_error else ""
            return f"the API server has not said its version yet{why}"
        self._standstill.check()
        read = {
            f"{reflector.kind.name} in {name}": reflector
            for name, watched in self._scoped.items()
            if self._is_read(name)
            for reflector in watched
        }
        for name, reflector in (self.reflectors | read).items():
            if why := self.staleness_of(name, reflector):
                return why
        behind = (
            reflector
            for reflector in (*self._all, *self._owners.watches)
            if reflector.is_behind and reflector.has_listed and reflector.failing <= FAILING_AFTER
        )
        return next(map(self._describe_behind, behind), "")

    def staleness_of(self, name: str, reflector: Reflector) -> str:
        """Say why the content of one watch is stale, "" if it is not."""
        if not reflector.synced.is_set():
            return f"{name}: not listed yet{f' ({reflector.error})' if reflector.error else ''}"
        if reflector.failing > FAILING_AFTER:
            return f"{name}: the watch has failed for {_span(reflector.failing)}: {reflector.error}"
        if reflector.is_behind:
            return self._describe_behind(reflector)
        if reflector.undelivered:
            return f"{name}: the watch did not deliver {plural(reflector.undelivered, 'change')} that a list shows"
        return f"{name}: no watch event from the API server for {_span(reflector.age)}" if reflector.is_stale else ""

    def _describe_behind(self, reflector: Reflector) -> str:
        return f"{reflector.kind.name}: not listed again since the process was stopped for {_span(self._stood_still)}"

    def snapshot(self, now: datetime) -> Snapshot:
        """Return all objects that the watches have received; without a change, return the last snapshot.

        It waits for EndpointSlices, for a second at most; from any thread.
        """
        with self._making:
            return self._make_snapshot(now)

    def _make_snapshot(self, now: datetime) -> Snapshot:
        assert self._version is not None
        # Checked before and after the contents are read: only kinds listed at both times are known.
        listed = {reflector for reflector in self._all if reflector.has_listed and not _is_out_of_date(reflector)}
        held, unread = self._read_watches()
        listed = {reflector for reflector in listed if reflector.has_listed}
        services = find_needed_services(_list_webhooks(held))
        slices = self._slices.read(services)
        forbidden = {reflector.kind.name for reflector in self._all if reflector.is_forbidden}
        known = self._list_known(listed, unread, of_all=slices.of_all)
        if slices.is_forbidden:
            forbidden.add(ENDPOINT_SLICES.name)
        missing = frozenset(forbidden & OPTIONAL)
        owners, unread_owners = self._owners.read()
        held += owners
        parts = (
            (known, missing, unread, unread_owners),
            *(part for _, contents in held for part in (contents.objects, contents.faults)),
            slices.contents,
        )
        if self._last is not None and _are_same(self._last[0], parts):
            self._last = parts, self._last[1].at(now)
            return self._last[1]
        objects: dict[str, list[object]] = {ENDPOINT_SLICES.field: list(slices.contents.objects)}
        for reflector, contents in held:
            objects.setdefault(reflector.kind.field, []).extend(contents.objects)
        faults = [fault for _, contents in held for fault in contents.faults]
        made = make_snapshot(
            objects,
            taken_at=now,
            known=known,
            version=self._version,
            faults=(*faults, *slices.contents.faults, *unread.values()),
            scope=frozenset(self._scoped.keys() - unread.keys()) if self._is_scoped else None,
            forbidden=missing,
        )
        made = replace(made, unread_owners=unread_owners)
        self._last = parts, made
        return made

    def _list_known(self, listed: Collection[Reflector], unread: Collection[str], *, of_all: bool) -> tuple[str, ...]:
        """Return the completely known kinds; `of_all`: the EndpointSlices of all needed Services are known."""
        known = (
            *(kind.name for kind in KINDS if self._is_known(kind.name)),
            *(kind.name for kind in _WATCHED if self._is_listed(kind, listed, unread)),
        )
        return (*known, ENDPOINT_SLICES.name) if of_all and {kind.name for kind in WEBHOOKS} <= set(known) else known

    def _read_watches(self) -> tuple[list[tuple[Reflector, Contents]], dict[str, Fault]]:
        """Return the contents of all watches, and the namespaces of the scope that are left out.

        The contents are read first, because a watch resets `has_listed` before it drops its objects.
        """
        required = [reflector for reflector in self.reflectors.values() if reflector.kind in KINDS]
        optional = [reflector for reflector in self._optional if not _is_out_of_date(reflector)]
        held = [(reflector, reflector.contents()) for reflector in (*optional, *required)]
        unread = {}
        for name, watched in self._scoped.items():
            optional = [reflector for reflector in self._scoped_optional[name] if not _is_out_of_date(reflector)]
            contents = [(reflector, reflector.contents()) for reflector in (*watched, *optional)]
            if self._is_read(name):
                held += contents
            else:
                unread[name] = self._describe_unread(name)
        return held, unread

    def _is_listed(self, kind: ResourceKind, listed: Collection[Reflector], unread: Collection[str]) -> bool:
        """Say whether an optional kind is known, in every namespace of the scope that is read."""
        scoped = [watched for name, watched in self._scoped_optional.items() if name not in unread]
        reflectors = (reflector for watched in (self._optional, *scoped) for reflector in watched)
        return all(reflector in listed for reflector in reflectors if reflector.kind is kind)

    def _is_known(self, kind: str) -> bool:
        return kind not in self.reflectors or self.reflectors[kind].synced.is_set()

    def _is_read(self, namespace: str) -> bool:
        exists = self.reflectors[_NAMESPACE].get("", namespace) is not None
        return exists and all(reflector.has_listed for reflector in self._scoped[namespace])

    def _describe_unread(self, namespace: str) -> Fault:
        errors = [reflector.error for reflector in self._scoped[namespace] if not reflector.has_listed]
        unknown = "not listed yet" if errors else "there is no such namespace"
        why = next((error for error in errors if error), unknown)
        return Fault(kind="Namespace", namespace=namespace, name="", message=f"its workloads are left out: {why}")

    def evict(self, move: Move) -> EvictionAnswer:
        """Request an eviction; see `evictions`."""
        return evict(self._transport, move)

    def patch_cost(self, patch: PodPatch) -> PatchAnswer:
        """Write or remove a pod's deletion cost; see `deletion_costs`."""
        return patch_cost(self._transport, patch)

    def find_missing_restriction(self, namespace: str, pod: str) -> str:
        """Return why this identity might change more of pods; see `deletion_costs`."""
        return find_missing_restriction(self._transport, namespace, pod)

    def read_scale(self, workload: Reference) -> ScaleReading | None:
        """Read a workload's replicas; see `scaling`."""
        return self._scaling.read_scale(workload)

    def set_replicas(self, workload: Reference, read: ScaleReading, replicas: int) -> ScaleAnswer:
        """Change a workload's replicas; see `scaling`."""
        return self._scaling.set_replicas(workload, read, replicas)

    def load_surges(self) -> str:
        """Return the records of surges; see `surge_map`."""
        return self._surges.load()

    def save_surges(self, text: str) -> str:
        """Replace the records of surges; see `surge_map`."""
        return self._surges.save(text)

    def record(self, event: Event) -> None:
        """Publish an event; see `events`. Workloads get their UID: `kubectl describe` selects events by it."""
        regarding = event.regarding
        if not regarding.uid or regarding.kind not in API_VERSIONS:
            event = msgspec.structs.replace(event, regarding=self._identify(regarding))
        self._recorder.record(event)

    def _identify(self, regarding: Regarding) -> Regarding:
        """Return what an event is about with its UID and API version, as far as they are known."""
        watched = (*self._all, *self._owners.watches)
        for reflector in watched:
            if reflector.kind.owner_name == regarding.kind:
                known = reflector.get(regarding.namespace, regarding.name)
                if uid := getattr(known, "uid", ""):
                    return msgspec.structs.replace(regarding, uid=uid, api_version=reflector.kind.api_version)
        for owner in self._replica_sets_of(regarding.namespace, regarding.kind, regarding.name):
            assert owner.owner is not None
            return msgspec.structs.replace(regarding, uid=owner.owner.uid)
        return regarding

    def _replica_sets_of(self, namespace: str, kind: str, name: str) -> list[Workload]:
        """Return the ReplicaSets of a workload that is not watched itself."""
        return [
            owned
            for reflector in self._replica_set_watches
            for owned in reflector.contents().objects
            if owned.namespace == namespace
            and owned.owner is not None
            and (owned.owner.kind, owned.owner.name) == (kind, name)
        ]

    @property
    def _replica_set_watches(self) -> list[Reflector]:
        return [reflector for reflector in self.watches if reflector.kind.name == _REPLICA_SET]

    def read_pause(self) -> Pause | None:
        """Read the kill switch from the API server, not from its watch."""
        try:
            config_map = self._control.read(timeout=_CHECK_SECONDS)
        except (ClusterError, msgspec.DecodeError) as error:
            raise ReadFailedError(str(error)) from error
        return find_pause(config_map) if config_map is not None else None

    def count_replicas(self, workload: Reference) -> ReplicaCount:
        """Read the wanted number of pods from a workload's spec, and its pods.

        A status may be a second old or more, and may count a pod as Ready that was just evicted, in place of a failed
        pod. So it only ever lowers the count.
        """
        kind = next((kind for kind in KINDS if kind.name == workload.kind), self._owners.find_kind(workload))
        if kind is not None:
            return self._count(kind, workload)
        # An owner of ReplicaSets, of any kind, is a workload, even if its kind is not read.
        below = self._replica_sets_of(workload.namespace, workload.kind, workload.name)
        if not below:
            raise ReadFailedError(
                f"the replicas of {workload} cannot be read: the rebalancer does not read objects of kind "
                f"{workload.kind}. Remove the kind from eligibility.owners"
            )
        counts = [self._count(KIND_NAMED[_REPLICA_SET], reference_of(owned)) for owned in below if owned.replicas]
        pods = [one.pods for one in counts if one.pods is not None]
        return ReplicaCount(
            wanted=sum(one.wanted for one in counts),
            ready=sum(one.ready for one in counts),
            pods={uid: pod for one in pods for uid, pod in one.items()} if len(pods) == len(counts) else None,
        )

    def _count(self, kind: ResourceKind, workload: Reference) -> ReplicaCount:
        path = f"{kind.path_in(workload.namespace)}/{workload.name}"
        try:
            answer = self._transport.request("GET", path, timeout=_CHECK_SECONDS)
            read = decode(kind, msgspec.Raw(answer), Interner())
        except RequestRefused as error:
            refusal = ReadForbiddenError if error.status in FORBIDDEN else ReadFailedError
            raise refusal(str(error)) from error
        except (ClusterError, msgspec.DecodeError) as error:
            raise ReadFailedError(str(error)) from error
        if not isinstance(read, Workload):
            raise ReadFailedError(f"{workload}: {read}")
        pods = self._list_pods(read)
        if pods is None:
            return ReplicaCount(wanted=read.replicas, ready=read.ready)
        ready = sum(pod.ready and not pod.terminating for pod in pods)
        own = [pod for pod in pods if not self._is_of_another(read, pod)]
        return ReplicaCount(wanted=read.replicas, ready=min(read.ready, ready), pods=place_pods(own))

    def _list_pods(self, workload: Workload) -> list[Pod] | None:
        """List a workload's own pods among those that it selects; None if they cannot be distinguished from others.

        If it has no selector, like some foreign owners, its pods are searched among all pods of the namespace.
        """
        selected = workload.selector is not None and not workload.selector.empty
        if not selected and not workload.is_foreign:
            return None
        owners = {workload.uid}
        if workload.is_foreign:
            below = self._replica_sets_of(workload.namespace, workload.kind, workload.name)
            owners |= {owned.uid for owned in below}
        pages = read_pages(
            self._transport,
            PODS,
            PODS.path_in(workload.namespace),
            query={"labelSelector": str(workload.selector)} if selected else {},
            timeout=_COUNT_SECONDS,
        )
        try:
            of_any = workload.kind == "Deployment"  # its selector selects only its own pods
            return [pod for page in pages for pod in page.objects if _is_pod_of(owners, pod, of_any=of_any)]
        except (ClusterError, UnreadableList) as error:
            raise ReadFailedError(str(error)) from error

    def _is_of_another(self, workload: Workload, pod: Pod) -> bool:
        """Return whether a pod's ReplicaSet belongs to another Deployment, whose selector also selects this pod."""
        if workload.kind != "Deployment" or pod.owner is None:
            return False
        known = (one.get(pod.namespace, pod.owner.name) for one in self._replica_set_watches)
        return any(
            isinstance(one, Workload) and one.owner is not None and one.owner.uid != workload.uid for one in known
        )

    def pod_remains(self, move: Move) -> bool:
        """List the pod of a move by name, from etcd: the account may list pods, but not get one."""
        pages = read_pages(
            self._transport,
            PODS,
            PODS.path_in(move.namespace),
            query={"fieldSelector": f"metadata.name={move.pod}"},
            timeout=_CHECK_SECONDS,
        )
        try:
            pods = [pod for page in pages for pod in page.objects if isinstance(pod, Pod)]
        except (ClusterError, UnreadableList) as error:
            raise ReadFailedError(str(error)) from error
        return any(pod.uid == move.uid and not pod.terminating for pod in pods)

    def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
        """Store documents in the status ConfigMap."""
        return self._status.save(documents)

    def load(self, key: str) -> str:
        return self._status.load(key)


def _is_out_of_date(reflector: Reflector) -> bool:
    """Return whether the content of an optional watch is out of date, so that its kind is unknown.

    Old content of node pools and autoscalers still counts, because they never prevent an eviction.
    """
    kept = reflector.kind in KINDS or reflector.kind in (NODE_POOLS, AUTOSCALERS)
    return not kept and (reflector.is_stale or reflector.failing > STALE_AFTER)


def _watch_namespace(transport: Transport, namespace: str) -> tuple[Reflector, ...]:
    kinds = (kind for kind in KINDS if kind.name in BY_NAMESPACE)
    return tuple(Reflector(transport, kind, namespace=namespace, optional=True) for kind in kinds)


def _watch_optional(transport: Transport, namespace: str) -> tuple[Reflector, ...]:
    kinds = (kind for kind in _WATCHED if kind.namespaced)
    return tuple(Reflector(transport, kind, namespace=namespace, optional=True) for kind in kinds)


def _list_webhooks(held: Iterable[tuple[Reflector, Contents]]) -> Iterator[WebhookConfiguration]:
    for reflector, contents in held:
        if reflector.kind in WEBHOOKS:
            yield from contents.objects


def _is_pod_of(owners: Collection[str], pod: object, *, of_any: bool) -> TypeGuard[Pod]:
    """Return whether it is a pod of these owners, or with `of_any` of any ReplicaSet."""
    if not isinstance(pod, Pod) or pod.owner is None:
        return False
    return pod.owner.uid in owners or (of_any and pod.owner.kind == "ReplicaSet")


def _span(seconds: float) -> str:
    return format_duration(timedelta(seconds=round(seconds)))
