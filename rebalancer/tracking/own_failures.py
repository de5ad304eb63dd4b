"""Who has caused that a replacement is not created or does not run: its own namespace, or the cluster.

A failure is the namespace's own only if its cause lies there. There are three such causes:

* An object of the namespace refuses the pod: a quota, a LimitRange, a Pod Security level, a missing service account.

* The pod's image cannot be pulled while the registry serves others.

* The pod crashes, and its template never ran.

Webhooks, policies, registries and nodes are the cluster's, and so is every doubtful case.

A pod of another namespace proves that the registry serves others, if it runs an image of that registry and is no older
than the first pod that lacks its image. It must be in the same zone, since the network may have failed for one zone.
Its own image must be new on its node, because a present image is not pulled again, and the node does not say whether an
earlier pod left it. If pods of several namespaces lack images on one node, that node itself must be served. An image
that runs in another namespace is available, so the image itself is not at fault.

A template never ran, as far as is known, if the evicted pod had another template and no other pod of this template has
run.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET, UnsetType, structs

from rebalancer.model.creation import ResourceQuota
from rebalancer.model.moves import Move, OwnFailure
from rebalancer.model.nodes import BETA_ZONE, ZONE
from rebalancer.model.pods import Pod, PodPhase, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, pod_ordinal
from rebalancer.scheduling.image_locality import normalize_image_name

_OF_NAMESPACE: Final = re.compile(
    r'(pods "[^"]*" is forbidden: )?\[?'
    r"(exceeded quota: |failed quota: |violates PodSecurity |error looking up service account "
    r"|(maximum|minimum) \S+ (usage|limit|request) per (Container|Pod) "
    r"|\S+ max limit to request ratio per (Container|Pod) )"
)
"""The API server's words when the namespace's own objects prevent a pod's creation.

These objects are its ResourceQuota, its LimitRange, its Pod Security level and its ServiceAccounts. Messages of
webhooks and policies begin with other words. Source: `plugin/pkg/admission/resourcequota`, `limitranger` and
`serviceaccount`, `staging/src/k8s.io/pod-security-admission`.
"""

_IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})
"""Waiting reasons of a container whose image cannot be pulled."""

_CRASH: Final = frozenset(
    {"CrashLoopBackOff", "RunContainerError", "CreateContainerError", "CreateContainerConfigError"}
)
"""Waiting reasons of a container that has its image but does not run."""

_DEFAULT_REGISTRY: Final = "docker.io"
"""The registry of an image whose name does not begin with a host."""


def find_other_template(pod: Pod, owner: Workload | None) -> str | UnsetType:
    """Return the revision of a pod's template if its owner's next pod is of another revision; else UNSET."""
    following = owner.revision_at(pod_ordinal(pod.name)) if owner is not None else ""
    return pod.revision if pod.revision and following and pod.revision != following else UNSET


def note_own_failure(move: Move, snapshot: Snapshot) -> Move:
    """Return a move that says who caused its replacement to be overdue, as a snapshot shows.

    A container's state between two attempts to start says nothing. A failed move keeps its verdict.
    """
    if not move.overdue:
        own = move.own_failure if move.state.over else None
    elif move.uncreated is None and not _find_failing(move, snapshot):
        own = move.own_failure if move.unstarted in _IMAGE | _CRASH else None
    else:
        own = find_own_failure(move, snapshot)
    return move if own is move.own_failure else structs.replace(move, own=own or UNSET)


def find_own_failure(move: Move, snapshot: Snapshot) -> OwnFailure | None:
    """Return the cause in its namespace that keeps a move's replacement from running; None if it is the cluster's."""
    if move.uncreated is not None:
        return OwnFailure.OBJECT if _is_refused_by_object(move, move.uncreated, snapshot) else None
    pod = _find_failing(move, snapshot)
    if pod is None:
        return None
    if pod.start_failure in _CRASH:
        return OwnFailure.TEMPLATE if _never_ran(move, pod, snapshot) else None
    is_own = _lacks_image_alone(pod, snapshot) and _is_registry_serving(pod, snapshot)
    return OwnFailure.IMAGE if is_own else None


def is_in_doubt(move: Move, snapshot: Snapshot) -> bool:
    """Return whether a failure is its namespace's own only if the registry serves others, which may not be known."""
    pod = _find_failing(move, snapshot) if move.uncreated is None else None
    return pod is not None and _lacks_image_alone(pod, snapshot)


def _find_failing(move: Move, snapshot: Snapshot) -> Pod | None:
    """Return the replacement of a move if its kubelet says now why it does not run."""
    pod = snapshot.pod.get(move.replacement)
    return pod if pod is not None and pod.start_failure else None


def _is_refused_by_object(move: Move, message: str, snapshot: Snapshot) -> bool:
    """Return whether an object of the namespace refuses a pod: by the message or, without a message, the objects."""
    if message:
        return _OF_NAMESPACE.match(message) is not None
    owner = snapshot.workload.get(move.owner_uid)
    return owner is not None and (_lacks_account(owner, snapshot) or _is_full(owner, snapshot))


def _lacks_account(owner: Workload, snapshot: Snapshot) -> bool:
    if "ServiceAccount" not in snapshot.known or owner.template is None:
        return False
    return owner.template.service_account not in snapshot.service_account_names.get(owner.namespace, ())


def _is_full(owner: Workload, snapshot: Snapshot) -> bool:
    """Return whether a quota has no place for another pod of an owner, by its status and by the existing pods.

    The status may be out of date, because the controller manager has to subtract evicted pods first.
    """
    if owner.template is None:
        return False
    needed = _measure(owner.template.requests)
    there = Counter[str]()
    for pod in snapshot.pods_in.get(owner.namespace, ()):
        if not pod.finished and not pod.terminating:
            there.update(_measure(pod.requests))
    return any(_exceeds(quota, needed, there) for quota in snapshot.quotas_in.get(owner.namespace, ()))


def _exceeds(quota: ResourceQuota, needed: Mapping[str, int], there: Mapping[str, int]) -> bool:
    """Return whether `needed`, added to the existing pods, exceeds a quota without scopes."""
    used = dict(quota.used)
    return not quota.scopes and any(
        needed.get(name, 0) > max(0, hard - min(used.get(name, 0), there[name])) for name, hard in quota.hard
    )


def _measure(requests: Resources) -> dict[str, int]:
    """Return what a pod uses of quotas, by the quotas' resource names."""
    return {
        "pods": 1,
        "count/pods": 1,
        "cpu": requests.cpu,
        "requests.cpu": requests.cpu,
        "memory": requests.memory,
        "requests.memory": requests.memory,
    }


def _never_ran(move: Move, pod: Pod, snapshot: Snapshot) -> bool:
    """Return whether, as far as is known, no pod of the crashing replacement's template has ever run."""
    template = pod.revision
    if pod.owner is None or not template or move.template in {UNSET, template}:
        return False
    others = (other for other in snapshot.pods_of.get(pod.owner.uid, ()) if other.uid != pod.uid)
    return not any(other.revision == template and (other.ready or _is_running(other)) for other in others)


def _is_running(pod: Pod) -> bool:
    """Return whether all containers of a pod have their images and run."""
    return pod.phase is PodPhase.RUNNING and not pod.start_failure


def _lacks_image_alone(pod: Pod, snapshot: Snapshot) -> bool:
    """Return whether a pod lacks an image that no other namespace runs."""
    if pod.start_failure not in _IMAGE or not pod.failed_image:
        return False
    image = _canonical(pod.failed_image)
    return not any(
        image in map(_canonical, run.pods[0].spec.images) and any(map(_is_running, run.pods))
        for run in snapshot.runs
        if run.pods[0].namespace != pod.namespace
    )


def _is_registry_serving(pod: Pod, snapshot: Snapshot) -> bool:
    """Return whether the registry has served another namespace since the image that a pod lacks was first missing.

    The image is missing since the creation of the first pod in the namespace that lacks it; only pods near that pod
    count.
    """
    registry = _find_registry(pod.failed_image)
    return any(
        _is_new(image, other, lacking, snapshot)
        for lacking in snapshot.pods_in[pod.namespace]
        if lacking.start_failure in _IMAGE and lacking.failed_image == pod.failed_image
        for other in _find_newer(lacking, snapshot)
        for image in other.spec.images
        if _find_registry(image) == registry
    )


def _find_newer(pod: Pod, snapshot: Snapshot) -> Iterator[Pod]:
    """Yield the pods of other namespaces that run near a pod and are no older."""
    here = snapshot.pods_on.get(pod.node or "", ())
    shared = any(other.start_failure in _IMAGE and other.namespace != pod.namespace for other in here)
    zone = _find_zone(pod, snapshot)
    for other in snapshot.pods:
        if other.created >= pod.created and other.namespace != pod.namespace and _is_running(other):
            is_near = other.node == pod.node if shared else _find_zone(other, snapshot) == zone
            if is_near:
                yield other


def _find_zone(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return the zone of a pod's node, "" without the label; None if the node is not known."""
    node = snapshot.node.get(pod.node or "")
    return None if node is None else node.labels.get(ZONE, node.labels.get(BETA_ZONE, ""))


def _is_new(image: str, other: Pod, pod: Pod, snapshot: Snapshot) -> bool:
    """Return whether no pod on the node of `other` had the image before `pod` was created."""
    name = _canonical(image)
    return not any(
        earlier.created < pod.created and name in map(_canonical, earlier.spec.images)
        for earlier in snapshot.pods_on.get(other.node or "", ())
    )


def _canonical(image: str) -> str:
    """Return the full name of an image: with its registry and its tag."""
    named = normalize_image_name(image)
    registry = _find_registry(image)
    if named.startswith(f"{registry}/"):
        named = named[len(registry) + 1 :]
    if registry == _DEFAULT_REGISTRY and "/" not in named:
        named = f"library/{named}"
    return f"{registry}/{named}"


def _find_registry(image: str) -> str:
    """Return the host that an image is pulled from (`reference.ParseNormalizedNamed` of distribution)."""
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host else _DEFAULT_REGISTRY
