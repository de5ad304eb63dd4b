"""The pod that an owner would create in place of an evicted pod.

It is made from the owner's current template, not from the evicted pod; from an older template only if a StatefulSet's
partition says so. Its spec is `next_spec.make_next`.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from rebalancer.creation.defaults import merge_label_keys
from rebalancer.creation.mutating_policies import find_unshown_policy
from rebalancer.creation.next_requests import AS_CREATED
from rebalancer.creation.next_spec import find_witness, make_next
from rebalancer.model.labels import Labels
from rebalancer.model.nodes import REGION, ZONE
from rebalancer.model.pods import REVISION_LABELS, Pod, PodPhase
from rebalancer.model.reasons import Reason
from rebalancer.model.runs import Run
from rebalancer.model.workloads import PodTemplate, Workload, pod_ordinal
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.view import View

_CREATED: Final = attrgetter("created")

QUEUE_LABELS: Final = ("kueue.x-k8s.io/managed", "kueue.x-k8s.io/queue-name")
"""Labels of pods that a queueing system manages: its webhook gates each pod until there is quota."""
NODE_LABELS: Final = frozenset({ZONE, REGION})
REPLACING_KINDS: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
"""Kinds that create a new pod for an evicted one, on any node where it fits."""


def replacement(pod: Pod, view: View) -> Pod | Unpredictable:
    """Return the pod that would replace this pod after its eviction, without a node, or why it is not known.

    A ReplicaSet creates it at once, while the old pod is still terminating. A StatefulSet's has the old pod's name and
    claims and is created only after the old pod is deleted. The caller chooses the state in which it is scheduled
    (`View.terminating`, `View.without`).
    """
    owner = view.snapshot.owner_of(pod)
    if owner is None:
        return Unpredictable(Reason.UNKNOWN_OWNER, "it has no known owner that would create a replacement")
    if owner.kind not in REPLACING_KINDS and not owner.is_foreign:
        return Unpredictable(
            Reason.UNKNOWN_OWNER, f"its owner {owner} is of a kind whose replacements are not modelled"
        )
    queue = next((key for key in QUEUE_LABELS if key in pod.labels or key in owner.labels), None)
    if queue is not None:
        return Unpredictable(
            Reason.NOT_PREDICTABLE,
            f"it is labelled {queue}: Kueue gates its replacement until it is admitted again, which may be never. "
            "Evictions are for its queue to decide",
        )
    refused = check_template(_template_for(pod, owner))
    if refused is not None:
        return refused
    made = _make_replacement(pod, owner, view)
    if isinstance(made, Unpredictable):
        return made
    return unpredictable(made, view) or made


def _make_replacement(pod: Pod, owner: Workload, view: View) -> Pod | Unpredictable:
    template, revision = _template_for(pod, owner), owner.revision_at(pod_ordinal(pod.name))
    siblings = _live_pods_of(pod, owner, template, revision, view)
    made = make_next(owner, template, siblings, view)
    if isinstance(made, Unpredictable):
        return made
    stateful = owner.kind == "StatefulSet" or owner.keeps_pods
    if owner.is_foreign and template is not None and not set(pod.claims) <= set(template.claims):
        return Unpredictable(
            Reason.NOT_PREDICTABLE,
            f"it has volumes that the template of its owner {owner} does not name: whether its replacement gets them "
            "only that owner's controller knows",
        )
    if not stateful and any(_is_ephemeral(pod, claim, view) for claim in pod.claims):
        return Unpredictable(Reason.NOT_PREDICTABLE, "it has ephemeral volumes, and the new ones do not exist yet")
    labelled = siblings[0] if siblings else pod
    new = Pod(
        namespace=pod.namespace,
        name=pod.name if stateful else f"{owner.name}-(new)",
        uid=f"{pod.uid}+",
        labels=_make_labels(template.labels if template is not None else labelled.labels, pod, owner, revision),
        spec=made.spec,
        phase=PodPhase.PENDING,
        created=view.snapshot.taken_at,
        owner=pod.owner,
        claims=pod.claims if stateful or template is None else template.claims,
        requests=made.spec.requests,
        scored=made.scored,
        requested=made.requested,
        least=made.least,
    )
    return find_unshown_policy(new, find_witness(siblings), view.snapshot) or new


def _is_ephemeral(pod: Pod, claim: str, view: View) -> bool:
    volume_claim = view.snapshot.claim.get((pod.namespace, claim))
    return volume_claim is not None and volume_claim.owner_uid == pod.uid


def _template_for(pod: Pod, owner: Workload) -> PodTemplate | None:
    """Return the template of the pod's replacement; None if a partition keeps it at an older template.

    The older template is in a ControllerRevision, which is not read; live pods show it.
    """
    return None if pod_ordinal(pod.name) in owner.held_back else owner.template


def _live_pods_of(pod: Pod, owner: Workload, template: PodTemplate | None, revision: str, view: View) -> Sequence[Pod]:
    """Return live pods of the replacement's template, one of each run of equal pods; this pod first if it matches.

    It is the newest pod of a run or, if that was changed after its creation, the newest unchanged pod.
    """
    first = [pod] if not pod.finished and is_of_template(pod, template, revision) else []
    if owner.keeps_pods:
        return first
    # A plan of a StatefulSet of 2,000 pods with claims takes 170 times as long if each pod is compared with all others.
    newest = view.memo(
        ("newest", owner.uid, revision, template is None),
        lambda: tuple(_find_newest(view.snapshot.runs_of.get(owner.uid, ()), template, revision)),
    )
    return [*first, *newest]


def _find_newest(runs: Sequence[Run], template: PodTemplate | None, revision: str) -> Iterator[Pod]:
    for run in runs:
        if not run.pods[0].finished and is_of_template(run.pods[0], template, revision):
            yield from _newest(run.pods)


def _newest(pods: Sequence[Pod]) -> Iterator[Pod]:
    yield max(pods, key=_CREATED)
    unchanged = [pod for pod in pods if pod.generation <= AS_CREATED]
    if unchanged and len(unchanged) < len(pods):
        yield max(unchanged, key=_CREATED)


def is_of_template(pod: Pod, template: PodTemplate | None, revision: str) -> bool:
    """Say whether a pod was made from a template of an owner."""
    if revision:
        return any(pod.labels.get(key) == revision for key in REVISION_LABELS)
    if template is None:
        return True
    # Owners without a revision (a ReplicationController, a bare ReplicaSet): compare what placement depends on.
    wanted = merge_label_keys(template.spec, pod.labels)
    return (
        template.labels.items() <= pod.labels.items()
        and wanted.spread == merge_label_keys(pod.spec, pod.labels).spread
        and wanted.node_affinity == pod.spec.node_affinity
        and wanted.pod_affinity == merge_label_keys(pod.spec, pod.labels).pod_affinity
        and set(template.spec.tolerations) <= set(pod.spec.tolerations)
    )


def check_template(template: PodTemplate | None) -> Unpredictable | None:
    """Return why the API server would refuse the pods of a template that it accepted, None if it would not.

    It refuses them if a key is in the selector and in `matchLabelKeys`, and the pod carries the label.
    """
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


def _make_labels(written: Labels, pod: Pod, owner: Workload, revision: str) -> Labels:
    """Return the labels of the new pod: the template's, and those that the owner itself adds.

    A live pod's labels are not used if the template is known. They include roles that were set at run time, and the
    zone and region of its node, which the API server adds when it binds a pod (1.35 and newer).
    """
    labels = written
    if not NODE_LABELS.isdisjoint(written):
        labels = Labels({key: value for key, value in written.items() if key not in NODE_LABELS})
    if owner.kind != "StatefulSet":
        return labels
    own = {"statefulset.kubernetes.io/pod-name": pod.name, "apps.kubernetes.io/pod-index": pod.name.split("-")[-1]}
    revised = {"controller-revision-hash": revision} if revision else {}
    return Labels({**labels, **own, **revised})
