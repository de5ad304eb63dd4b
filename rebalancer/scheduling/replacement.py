"""The pod that an owner would create in place of one that is evicted.

It is made from the owner's current template, not from the evicted pod. A live pod of that template is the better
witness, since admission has already filled in priority, overhead, default tolerations and a LimitRange's requests; only
where there is none is the template itself taken, with what can be known of admission applied.
"""

from typing import Final

from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.reasons import Reason
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.scheduling.admission import admitted, merged
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.view import View

REVISION_LABELS: Final = ("pod-template-hash", "controller-revision-hash")
OF_THE_NODE: Final = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
REPLACING: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
"""Kinds that put a new pod in an evicted one's place, wherever it fits."""


def replacement(pod: Pod, view: View) -> Pod | Unpredictable:
    """Return the pod that would come if this one were evicted, not placed yet; or why that is not known.

    A ReplicaSet's new pod comes at once, while the old one is still terminating; a StatefulSet's has the old one's name
    and claims and comes only when that is gone. Which state it meets is the caller's to say (`View.terminating`,
    `View.without`).
    """
    owner = view.snapshot.owner_of(pod)
    if owner is None:
        return Unpredictable(Reason.UNKNOWN_OWNER, "nothing that is known would create a new pod in its place")
    if owner.kind not in REPLACING:
        return Unpredictable(Reason.UNKNOWN_OWNER, f"how {owner} replaces its pods is not modelled")
    refused = refused_template(owner.template)
    if refused is not None:
        return refused
    made = _made(pod, owner, view)
    if isinstance(made, Unpredictable):
        return made
    return unpredictable(made, view) or made


def _made(pod: Pod, owner: Workload, view: View) -> Pod | Unpredictable:
    template = owner.template
    witness = _witness(pod, owner, view)
    if witness is not None:
        spec = witness.spec
        # What a live pod no longer shows: its gates are gone, and its node may be the scheduler's choice.
        if template is not None and (template.spec.gated or template.spec.node_name is not None):
            gated = spec.gated or template.spec.gated
            spec = structs.replace(spec, gated=gated, node_name=template.spec.node_name)
    elif template is not None:
        spec = admitted(template.spec, template.labels, view)
    else:
        return Unpredictable(Reason.NOT_PREDICTABLE, f"{owner} has no pod of its current template, nor is that known")
    stateful = owner.kind == "StatefulSet"
    if not stateful and any(_created_for(pod, claim, view) for claim in pod.claims):
        return Unpredictable(Reason.NOT_PREDICTABLE, "it has ephemeral volumes, and the new ones do not exist yet")
    return Pod(
        namespace=pod.namespace,
        name=pod.name if stateful else f"{owner.name}-(new)",
        uid=f"{pod.uid}+",
        labels=_labels(template.labels if template is not None else (witness or pod).labels, pod, owner),
        spec=spec,
        phase=PodPhase.PENDING,
        created=view.snapshot.taken_at,
        owner=pod.owner,
        claims=pod.claims if stateful or template is None else template.claims,
        requests=spec.requests,
        scored=witness.scored if witness is not None else spec.scored,
    )


def _created_for(pod: Pod, claim: str, view: View) -> bool:
    volume_claim = view.snapshot.claim.get((pod.namespace, claim))
    return volume_claim is not None and volume_claim.owner_uid == pod.uid


def _witness(pod: Pod, owner: Workload, view: View) -> Pod | None:
    """Return a live pod of the owner's current template: this one if it is, else another."""
    fitting = (
        sibling
        for sibling in (pod, *view.snapshot.pods_of.get(owner.uid, ()))
        if not sibling.finished and _current(sibling, owner)
    )
    first = next(fitting, None)
    # A pod that was resized in place no longer shows what the template asks for.
    if first is None or owner.template is None or first.spec.requests == owner.template.requests:
        return first
    return next((sibling for sibling in fitting if sibling.spec.requests == owner.template.requests), first)


def _current(pod: Pod, owner: Workload) -> bool:
    """Say whether a pod was made from the owner's current template."""
    template = owner.template
    if owner.revision:
        return any(pod.labels.get(key) == owner.revision for key in REVISION_LABELS)
    if template is None:
        return True
    # Owners without a revision (a ReplicationController, a bare ReplicaSet): compare what placement depends on.
    wanted = merged(template.spec, pod.labels)
    return (
        template.labels.items() <= pod.labels.items()
        and wanted.spread == merged(pod.spec, pod.labels).spread
        and wanted.node_affinity == pod.spec.node_affinity
        and wanted.pod_affinity == merged(pod.spec, pod.labels).pod_affinity
        and set(template.spec.tolerations) <= set(pod.spec.tolerations)
    )


def refused_template(template: PodTemplate | None) -> Unpredictable | None:
    """Say whether the API server would refuse the pods of a template that it accepted (docs/semantics.md)."""
    for constraint in template.spec.spread if template is not None else ():
        if not constraint.match_label_keys:
            continue
        named = (
            {requirement.key for requirement in constraint.selector.requirements}
            if constraint.selector is not None
            else set()
        )
        for key in constraint.match_label_keys:
            if template is not None and key in named and key in template.labels:
                return Unpredictable(
                    Reason.TEMPLATE_REFUSED,
                    f"{key} is in both matchLabelKeys and labelSelector: the API server refuses such pods",
                )
    return None


def _labels(written: Labels, pod: Pod, owner: Workload) -> Labels:
    """Return the labels of the new pod: the template's, and what the owner itself adds.

    Not those of a live pod: it carries roles that were set at run time, and the zone and region of its node, which the
    API server writes onto a pod when it is bound (1.35 and newer).
    """
    kept = written
    if not OF_THE_NODE.isdisjoint(written):
        kept = Labels({key: value for key, value in written.items() if key not in OF_THE_NODE})
    if owner.kind != "StatefulSet":
        return kept
    own = {"statefulset.kubernetes.io/pod-name": pod.name, "apps.kubernetes.io/pod-index": pod.name.split("-")[-1]}
    revision = {"controller-revision-hash": owner.revision} if owner.revision else {}
    return Labels({**kept, **own, **revision})
