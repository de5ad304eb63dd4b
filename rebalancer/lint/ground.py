"""The cluster in which manifests would be deployed, and the same with what they ask for.

Workloads that are there already have the manifest's replicas and template then. Where the template is another one than
theirs, their pods are gone and have to be placed anew: that is how a rollout ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from msgspec import structs

from rebalancer.creation.replacement import REPLACING_KINDS
from rebalancer.lint.manifest import Manifest, Manifests
from rebalancer.model.cluster import Namespace
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import OwnerReference, Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.rejections import reject_nodes
from rebalancer.scheduling.view import View

_HASH: Final = "pod-template-hash"
_NEW: Final = "lint"
"""The revision of a Deployment's new pods: no hash that a controller makes is such a word."""

_TOP: Final = "Deployment"


@dataclass(frozen=True)
class Ground:
    """A cluster and manifests; `profile` is how its scheduler places pods."""

    snapshot: Snapshot
    manifests: Manifests
    profile: Profile = DEFAULT_PROFILE

    @cached_property
    def now(self) -> View:
        """The cluster as it is."""
        return View(self.snapshot, self.profile)

    @cached_property
    def deployed(self) -> View:
        """The cluster in which all manifests are deployed, and their new pods wait for a node."""
        return View(_deploy(self.snapshot, [*self.by_workload.values()]), self.profile)

    @cached_property
    def empty(self) -> View:
        """The same nodes without any pod."""
        return View(replace(self.snapshot, pods=()), self.profile)

    def count_domains(self, manifest: Manifest, key: str) -> int:
        """Return how many domains of a key have a node that takes a manifest's pods, whatever runs there."""
        owner = self._owner_of(manifest)
        if owner is None:
            return 0
        rejected = reject_nodes(_sample(owner, self.snapshot), self.empty)
        left = self.empty.nodes.names.difference(*(one.nodes for one in rejected))
        return len({value for node, value in self.empty.nodes.values(key).items() if node in left})

    def in_first_step(self, manifest: Manifest, surge: int) -> View | None:
        """Return the cluster in which a rollout has begun: so many new pods wait, and all old ones run.

        None where there is no rollout: the workload is not there, or has this template.
        """
        owner = self._owner_of(manifest)
        known = self._there.get(reference_of(manifest))
        if owner is None or known is None or owner.uid in {one.uid for one in self.snapshot.workloads}:
            return None
        new = structs.replace(owner, replicas=surge)
        pods = (*self.snapshot.pods, _sample(new, self.snapshot))
        return View(replace(self.snapshot, workloads=(*self.snapshot.workloads, new), pods=pods), self.profile)

    def _owner_of(self, manifest: Manifest) -> Workload | None:
        """Return the owner of a manifest's new pods."""
        if reference_of(manifest) not in self.by_workload or manifest.workload is None:
            return None
        return [*_owners(manifest, manifest.workload, self._there.get(reference_of(manifest)), self.snapshot)][-1]

    @cached_property
    def _there(self) -> Mapping[Reference, Workload]:
        return _workloads_of(self.snapshot)

    @cached_property
    def by_workload(self) -> dict[Reference, Manifest]:
        """The manifests of workloads whose pods are replaced, the last one of each."""
        return {
            reference_of(one): one
            for one in self.manifests.workloads
            if one.kind in REPLACING_KINDS or one.kind == _TOP
        }


def is_new(owner: Workload) -> bool:
    """Return whether an owner is of a manifest and not of the cluster."""
    return owner.uid.endswith(f"/{_NEW}")


def reference_of(manifest: Manifest) -> Reference:
    """Return the name of a manifest's workload in its cluster."""
    return Reference(namespace_of(manifest), manifest.kind, manifest.name)


def namespace_of(manifest: Manifest) -> str:
    """Return the namespace where it is deployed: `default` where it says none."""
    return manifest.namespace or "default"


def _deploy(snapshot: Snapshot, manifests: Sequence[Manifest]) -> Snapshot:
    there = _workloads_of(snapshot)
    made: list[Workload] = []
    samples: list[Pod] = []
    gone: set[str] = set()
    for manifest in manifests:
        known = there.get(reference_of(manifest))
        assert manifest.workload is not None
        owners = list(_owners(manifest, manifest.workload, known, snapshot))
        made += owners
        if known is not None:
            gone |= {known.uid, *(one.uid for one in snapshot.workloads if _is_below(one, known))}
        if owners[-1].uid not in {one.uid for one in snapshot.workloads} and owners[-1].replicas:
            samples.append(_sample(owners[-1], snapshot))
    kept = {one.uid for one in made}
    pods = [pod for pod in snapshot.pods if pod.owner is None or pod.owner.uid not in gone - kept]
    names = {one.name for one in snapshot.namespaces}
    missing = dict.fromkeys(namespace_of(one) for one in manifests if namespace_of(one) not in names)
    return replace(
        snapshot,
        pods=(*pods, *samples),
        workloads=(*(one for one in snapshot.workloads if one.uid not in gone), *made),
        namespaces=(*snapshot.namespaces, *map(_namespace, missing)),
    )


def _workloads_of(snapshot: Snapshot) -> Mapping[Reference, Workload]:
    return {Reference(one.namespace, one.kind, one.name): one for one in snapshot.workloads}


def _is_below(workload: Workload, top: Workload) -> bool:
    return workload.owner is not None and workload.owner.uid == top.uid


def _namespace(name: str) -> Namespace:
    return Namespace(name=name, labels=Labels({"kubernetes.io/metadata.name": name}))


def _owners(manifest: Manifest, written: Workload, known: Workload | None, snapshot: Snapshot) -> Iterator[Workload]:
    """Yield the workload and, below a Deployment, its ReplicaSet: the last one owns the pods."""
    uid = known.uid if known is not None else f"{_NEW}/{reference_of(manifest)}"
    own = structs.replace(written, uid=uid, namespace=namespace_of(manifest))
    assert own.template is not None
    if manifest.kind != _TOP:
        same = known is not None and known.template is not None and known.template.spec == own.template.spec
        yield own if same or known is None else structs.replace(own, uid=f"{uid}/{_NEW}")
        return
    yield own
    below = [one for one in snapshot.workloads if known is not None and _is_below(one, known)]
    current = next((one for one in below if one.replicas and _has_template(one, own.template)), None)
    if current is not None:
        yield structs.replace(current, replicas=own.replicas)
        return
    labels = Labels({**own.template.labels, _HASH: _NEW})
    owner = OwnerReference(group="apps", kind=_TOP, name=own.name, uid=uid)
    yield structs.replace(
        own,
        kind="ReplicaSet",
        name=f"{own.name}-{_NEW}",
        uid=f"{uid}/{_NEW}",
        template=structs.replace(own.template, labels=labels),
        revision=_NEW,
        owner=owner,
    )


def _has_template(owner: Workload, template: PodTemplate) -> bool:
    if owner.template is None or owner.template.spec != template.spec:
        return False
    return {key: value for key, value in owner.template.labels.items() if key != _HASH} == dict(template.labels)


def _sample(owner: Workload, snapshot: Snapshot) -> Pod:
    """Return a first pod of an owner, which waits for a node: the others are as this one is."""
    assert owner.template is not None
    template = owner.template
    return Pod(
        namespace=owner.namespace,
        name=f"{owner.name}-0",
        uid=f"{owner.uid}/0",
        labels=template.labels,
        annotations=template.annotations,
        spec=template.spec,
        created=snapshot.taken_at,
        owner=OwnerReference(group=owner.group, kind=owner.kind, name=owner.name, uid=owner.uid),
        claims=(*template.claims, *(f"{claim}-{owner.name}-0" for claim in template.claim_templates)),
        requests=template.requests,
        scored=template.scored,
        requested=template.requested,
    )
