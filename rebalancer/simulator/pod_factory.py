"""Makes the next pod of an owner.

The planner and the simulator call the same function (`creation.replacement`), so a simulated controller makes exactly
the pod that a plan expects. The template of a revision does not change, so one prototype is made for each owner and
revision.
"""

from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.labels import Labels
from rebalancer.model.pods import OwnerReference, Pod, PodPhase
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, pod_ordinal
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from rebalancer.simulator.state import ClusterState

_REFUSED = frozenset({Reason.TEMPLATE_REFUSED, Reason.UNKNOWN_OWNER})
"""The reasons for which no pod is made: the API server refuses such pods, or there is no template."""


class PodFactory:
    """Makes pods from prototypes, one for each owner and each revision at which the owner creates pods."""

    def __init__(self, state: ClusterState, first: Snapshot) -> None:
        self._state = state
        self._first = first
        self._known: dict[tuple[str, str], Pod | None] = {}

    def next_pod(self, owner: Workload, name: str) -> Pod | None:
        """Make the next pod of an owner, without storing it; None if the API server would refuse it."""
        key = owner.uid, owner.revision_at(pod_ordinal(name))
        if key not in self._known:
            self._known[key] = self._make_prototype(owner, name)
        prototype = self._known[key]
        if prototype is None or owner.namespace in self._state.refused_pods:
            return None
        made = structs.replace(prototype, name=name, uid=self._state.uid(), created=self._state.stamp)
        return _add_ordinal(made, owner) if owner.kind == "StatefulSet" else made

    def _make_prototype(self, owner: Workload, name: str) -> Pod | None:
        siblings = [pod for pod in self._state.store.pods.of(owner.uid) if not pod.finished]
        phantom = Pod(
            namespace=owner.namespace,
            name=name,
            uid="",
            created=self._state.stamp,
            owner=OwnerReference(group=owner.group, kind=owner.kind, name=owner.name, uid=owner.uid),
        )
        state = Snapshot(
            taken_at=self._state.event_queue.now,
            pods=siblings,
            workloads=(owner,),
            priority_classes=self._first.priority_classes,
        )
        made = replacement(phantom, View(state))
        if isinstance(made, Unpredictable):
            if made.reason in _REFUSED or not (siblings or owner.template):
                return None
            # The owner would create it nevertheless; only its node cannot be predicted.
            made = _copy_spec(phantom, owner, siblings)
        return structs.replace(
            made,
            annotations=owner.template.annotations if owner.template is not None else made.annotations,
            local_volumes=next((sibling.local_volumes for sibling in siblings if sibling.local_volumes), ()),
        )


def _copy_spec(phantom: Pod, owner: Workload, siblings: list[Pod]) -> Pod:
    if siblings:
        like = siblings[0]
        return structs.replace(
            phantom, labels=like.labels, spec=like.spec, requests=like.spec.requests, scored=like.scored
        )
    assert owner.template is not None
    template = owner.template
    return structs.replace(
        phantom, labels=template.labels, spec=template.spec, requests=template.requests, scored=template.scored
    )


def _add_ordinal(pod: Pod, owner: Workload) -> Pod:
    """Add what depends on a StatefulSet pod's ordinal: two labels, and claims of its own."""
    labels = Labels(
        {
            **pod.labels,
            "statefulset.kubernetes.io/pod-name": pod.name,
            "apps.kubernetes.io/pod-index": str(pod_ordinal(pod.name)),
        }
    )
    template = owner.template
    own = tuple(f"{claim}-{pod.name}" for claim in template.claim_templates) if template is not None else ()
    shared = template.claims if template is not None else ()
    return structs.replace(pod, labels=labels, claims=(*shared, *own), phase=PodPhase.PENDING)
