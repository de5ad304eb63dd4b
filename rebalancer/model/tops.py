"""The workload above a ReplicaSet: its Deployment, or another owner that makes ReplicaSets of one set of pods.

A Rollout of Argo is such an owner, read or not. An operator's object that owns several workloads is not such an owner:
it also owns other kinds, or its ReplicaSets select different pods (not only by a template's hash), or its own selector
selects none of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rebalancer.model.labels import LabelSelector, SelectorRequirement
from rebalancer.model.workloads import Workload

_TEMPLATE_HASH: Final = "pod-template-hash"
"""The end of the keys of labels by which the ReplicaSets of one workload differ; Argo's has a prefix."""


def find_tops(workloads: Iterable[Workload], known: Mapping[str, Workload]) -> Mapping[str, Workload]:
    """Return the workloads above ReplicaSets by the ReplicaSets' UIDs; `known` are all workloads by UID."""
    tops: dict[str, Workload] = {}
    below: defaultdict[str, list[Workload]] = defaultdict(list)
    for owner in workloads:
        if owner.owner is None:
            continue
        above = known.get(owner.owner.uid)
        if above is not None and above.kind == "Deployment":
            tops[owner.uid] = above
        elif owner.owner.kind != "Deployment":
            below[owner.owner.uid].append(owner)
    for uid, owned in below.items():
        if not _are_one_workload(owned):
            continue
        above = known.get(uid)
        if above is None:
            above = _infer_top(owned)
        elif not all(_may_select(above, owner) for owner in owned):
            continue
        tops |= dict.fromkeys([owner.uid for owner in owned], above)
    return tops


def _are_one_workload(owned: Sequence[Workload]) -> bool:
    """Return whether an owner owns only ReplicaSets of one set of pods: templates apart, they select the same."""
    if any(owner.kind != "ReplicaSet" for owner in owned):
        return False
    return len({(owner.namespace, _without_hash(owner.selector)) for owner in owned}) == 1


def _may_select(above: Workload, owner: Workload) -> bool:
    """Return whether an owner's selector selects these pods; its selector may be unknown, as with a workloadRef."""
    labels = owner.template.labels if owner.template is not None else owner.labels
    return above.selector is None or (not above.selector.empty and above.selector.matches(labels))


def _infer_top(replica_sets: Sequence[Workload]) -> Workload:
    """Return a workload made of what the ReplicaSets of one owner say."""
    first = replica_sets[0]
    reference = first.owner
    assert reference is not None
    return Workload(
        group=reference.group,
        kind=reference.kind,
        namespace=first.namespace,
        name=reference.name,
        uid=reference.uid,
        selector=_without_hash(first.selector),
        replicas=sum(owner.replicas for owner in replica_sets),
        current=sum(owner.replicas for owner in replica_sets),
        ready=sum(owner.ready for owner in replica_sets),
        updated=sum(owner.replicas for owner in replica_sets),
        created=min(owner.created for owner in replica_sets),
    )


def _without_hash(selector: LabelSelector | None) -> LabelSelector | None:
    return LabelSelector(tuple(_keep_labels(selector))) if selector is not None else None


def _keep_labels(selector: LabelSelector) -> Iterator[SelectorRequirement]:
    for requirement in selector.requirements:
        if not requirement.key.endswith(_TEMPLATE_HASH):
            yield requirement
