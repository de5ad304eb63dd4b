"""The cluster in which manifests would be deployed: as it is now, and after their workloads are deployed.

Existing workloads get the manifest's replicas and template. If their template changes, their pods are gone and have to
be placed again, as at the end of a rollout.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from msgspec import structs

from rebalancer.creation.defaults import apply_defaults
from rebalancer.creation.replacement import REPLACING_KINDS, replacement
from rebalancer.lint.manifest import MOST_SCALED, Manifest, Manifests
from rebalancer.lint.quota_usage import recharge
from rebalancer.model.cluster import Namespace
from rebalancer.model.labels import Labels
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.pods import OwnerReference, Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.resilience.loss import NODE_OWNERS, lose
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.scheduling.rejections import reject_nodes
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

_HASH: Final = "pod-template-hash"
_NEW: Final = "lint"
"""The revision of a Deployment's new pods, a word that no controller generates as a hash."""

_TOP: Final = "Deployment"


@dataclass(frozen=True)
class Ground:
    """A cluster and manifests; `profile` is the scheduler profile."""

    snapshot: Snapshot
    manifests: Manifests
    profile: Profile = DEFAULT_PROFILE

    @cached_property
    def now(self) -> View:
        """The cluster as it is."""
        return View(self.snapshot, self.profile)

    @cached_property
    def deployed(self) -> View:
        """The cluster in which all manifests are deployed, while their new pods have no node yet."""
        return View(self._deploy({}), self.profile)

    @cached_property
    def scaled(self) -> View | None:
        """`deployed` at the largest sizes that autoscalers may choose; None if these are not larger than deployed."""
        more = {
            workload: min(number, MOST_SCALED)
            for workload, manifest in self.by_workload.items()
            if (number := self.most(workload)) is not None and min(number, MOST_SCALED) > manifest.replicas
        }
        return View(self._deploy(more), self.profile) if more else None

    def most(self, workload: Reference) -> int | None:
        """Return the most replicas that an autoscaler of a manifest or of the cluster may choose; None without one."""
        name = workload.kind, workload.name
        written = self.manifests.most.get((workload.namespace, *name)) or self.manifests.most.get(("", *name))
        there = (
            one.max_replicas
            for one in self.snapshot.autoscalers
            if (one.namespace, one.target_kind, one.target_name) == (workload.namespace, *name)
        )
        return written or next(there, None)

    @cached_property
    def empty(self) -> View:
        """The same nodes without any pod."""
        return View(replace(self.snapshot, pods=()), self.profile)

    def count_domains(self, manifest: Manifest, key: str) -> int:
        """Return how many domains of a key have a node that admits a manifest's pods, even if the node is full."""
        owner = self.find_owner(manifest)
        if owner is None:
            return 0
        rejected = reject_nodes(_sample(owner, self.now), self.empty)
        left = self.empty.nodes.names.difference(*(one.nodes for one in rejected))
        return len({value for node, value in self.empty.nodes.values(key).items() if node in left})

    def find_rollout(self, manifest: Manifest) -> tuple[Workload, Sequence[Pod]] | None:
        """Return the owner of a rollout's new pods, and the live old pods; None if there is no rollout."""
        if manifest not in self._rollouts:
            self._rollouts[manifest] = self._find_rollout(manifest)
        return self._rollouts[manifest]

    @cached_property
    def _rollouts(self) -> dict[Manifest, tuple[Workload, Sequence[Pod]] | None]:
        return {}

    def _find_rollout(self, manifest: Manifest) -> tuple[Workload, Sequence[Pod]] | None:
        owner, known = self.find_owner(manifest), self._there.get(reference_of(manifest))
        if owner is None or known is None or owner.uid in self.snapshot.workload:
            return None
        owners = known.uid, *(one.uid for one in self._below.get(known.uid, ()))
        pods = (pod for uid in owners for pod in self.snapshot.pods_of.get(uid, ()))
        return owner, [pod for pod in pods if not (pod.finished or pod.terminating)]

    def find_live(self, manifest: Manifest) -> Workload | None:
        """Return the live workload that a manifest describes; None if the cluster has none."""
        return self._there.get(reference_of(manifest))

    @cached_property
    def settled(self) -> View:
        """The cluster as it is after the terminating pods have ended."""
        return lose(self.now, frozenset(), Phase.GONE).after

    @cached_property
    def lasting(self) -> View:
        """`settled` without pods that may end by themselves.

        These are pods of Jobs, of other controllers, or without an owner.
        """
        kinds = REPLACING_KINDS | NODE_OWNERS
        pods = (placed.pod for placed in self.settled.placed_pods())
        ending = [pod for pod in pods if pod.owner is None or pod.owner.kind not in kinds]
        return self.settled.without(ending) if ending else self.settled

    @cached_property
    def changing(self) -> frozenset[Reference]:
        """The workloads of the manifests whose pods change, by number or by template."""
        found = set()
        for reference, manifest in self.by_workload.items():
            owner = self.find_owner(manifest)
            there = self.snapshot.workload.get(owner.uid) if owner is not None else None
            if owner is not None and (there is None or there.replicas != owner.replicas):
                found.add(reference)
        return frozenset(found)

    def make_pod(self, owner: Workload, ordinal: int = 0) -> Pod | Unpredictable:
        """Return a new pod as the controller of its owner creates it, or why the new pod is not known."""
        pod = _sample(owner, self.now, ordinal)
        return replacement(pod, View(replace(self.snapshot, nodes=(), pods=(pod,), workloads=(owner,)), self.profile))

    def find_owner(self, manifest: Manifest) -> Workload | None:
        """Return the owner of a manifest's new pods."""
        if reference_of(manifest) not in self.by_workload or manifest.workload is None:
            return None
        return [*self._owners(manifest, manifest.workload)][-1]

    @cached_property
    def scaled_down(self) -> Reference | None:
        """The first workload of the manifests that keeps some, but not all, of today's pods; None if there is none."""
        for reference in sorted(self.changing):
            owner = self.find_owner(self.by_workload[reference])
            assert owner is not None
            pods = [pod for pod in self.snapshot.pods_of.get(owner.uid, ()) if not (pod.finished or pod.terminating)]
            if 0 < owner.replicas < len(pods):
                return reference
        return None

    @cached_property
    def _there(self) -> Mapping[Reference, Workload]:
        return {Reference(one.namespace, one.kind, one.name): one for one in self.snapshot.workloads}

    @cached_property
    def _below(self) -> Mapping[str, Sequence[Workload]]:
        """The workloads that another workload owns, by that owner's UID."""
        found = defaultdict[str, list[Workload]](list)
        for one in self.snapshot.workloads:
            if one.owner is not None:
                found[one.owner.uid].append(one)
        return found

    def _deploy(self, replicas: Mapping[Reference, int]) -> Snapshot:
        snapshot, manifests = self.snapshot, self.by_workload
        made: list[Workload] = []
        samples: list[Pod] = []
        gone: set[str] = set()
        for workload, manifest in manifests.items():
            known = self._there.get(workload)
            assert manifest.workload is not None
            number = replicas.get(workload, manifest.replicas)
            owners = list(self._owners(manifest, structs.replace(manifest.workload, replicas=number)))
            made += owners
            if known is not None:
                gone |= {known.uid, *(one.uid for one in self._below.get(known.uid, ()))}
            if owners[-1].uid not in snapshot.workload and owners[-1].replicas:
                samples.append(_sample(owners[-1], self.now))
        without = gone.difference(one.uid for one in made if one.replicas)
        names = {one.name for one in snapshot.namespaces}
        missing = dict.fromkeys(one.namespace for one in manifests if one.namespace not in names)
        left = [pod for pod in snapshot.pods if pod.owner is None or pod.owner.uid not in without]
        ended = [pod for uid in without for pod in snapshot.pods_of.get(uid, ()) if not pod.finished]
        return replace(
            recharge(snapshot, ended, samples),
            pods=(*left, *samples),
            workloads=(*(one for one in snapshot.workloads if one.uid not in gone), *made),
            namespaces=(*snapshot.namespaces, *map(_namespace, missing)),
        )

    def _owners(self, manifest: Manifest, written: Workload) -> Iterator[Workload]:
        """Yield the workload and, for a Deployment, its ReplicaSet. The last one owns the pods."""
        known = self._there.get(reference_of(manifest))
        uid = known.uid if known is not None else f"{_NEW}/{reference_of(manifest)}"
        most = MOST_SCALED if self.snapshot.nodes else written.replicas
        own = structs.replace(written, uid=uid, namespace=namespace_of(manifest), replicas=min(written.replicas, most))
        assert own.template is not None
        if manifest.kind != _TOP:
            same = known is not None and known.template is not None and known.template.spec == own.template.spec
            yield own if same else structs.replace(own, uid=f"{uid}/{_NEW}")
            return
        yield own
        below = self._below.get(uid, ())
        current = next((one for one in below if one.replicas and _has_template(one, own.template)), None)
        if current is not None:
            yield structs.replace(current, replicas=own.replicas)
            return
        yield structs.replace(
            own,
            kind="ReplicaSet",
            name=f"{own.name}-{_NEW}",
            uid=f"{uid}/{_NEW}",
            template=structs.replace(own.template, labels=Labels({**own.template.labels, _HASH: _NEW})),
            revision=_NEW,
            owner=OwnerReference(group="apps", kind=_TOP, name=own.name, uid=uid),
        )

    @cached_property
    def by_workload(self) -> dict[Reference, Manifest]:
        """The manifests of workloads whose pods are replaced; of several for one workload, the last."""
        return {reference_of(one): one for one in self.manifests.workloads if is_placed(one)}


def is_placed(manifest: Manifest) -> bool:
    """Return whether a manifest's pods are placed in the cluster; for other kinds, the places are not known."""
    return manifest.kind in REPLACING_KINDS or manifest.kind == _TOP


def reference_of(manifest: Manifest) -> Reference:
    """Return a reference to the workload of a manifest in its cluster."""
    return Reference(namespace_of(manifest), manifest.kind, manifest.name)


def namespace_of(manifest: Manifest) -> str:
    """Return the namespace where a manifest is deployed: `default` if it names none."""
    return manifest.namespace or "default"


def _namespace(name: str) -> Namespace:
    return Namespace(name=name, labels=Labels({"kubernetes.io/metadata.name": name}))


def _has_template(owner: Workload, template: PodTemplate) -> bool:
    if owner.template is None or owner.template.spec != template.spec:
        return False
    return {key: value for key, value in owner.template.labels.items() if key != _HASH} == dict(template.labels)


def _sample(owner: Workload, view: View, ordinal: int = 0) -> Pod:
    """Return a pending pod of an owner; all pods of the owner are alike, except for names with the ordinal.

    The pod is as the API server makes it: the selectors include what `matchLabelKeys` adds.
    """
    assert owner.template is not None
    template, name = owner.template, f"{owner.name}-{ordinal}"
    return Pod(
        namespace=owner.namespace,
        name=name,
        uid=f"{owner.uid}/{ordinal}",
        labels=template.labels,
        annotations=template.annotations,
        spec=apply_defaults(template.spec, template.labels, view),
        created=view.snapshot.taken_at,
        owner=OwnerReference(group=owner.group, kind=owner.kind, name=owner.name, uid=owner.uid),
        claims=(*template.claims, *(f"{claim}-{name}" for claim in template.claim_templates)),
        requests=template.requests,
        scored=template.scored,
        requested=template.requested,
    )
