"""The workload above a ReplicaSet: its Deployment, or another owner that makes ReplicaSets of one set of pods.

Such a one is a Rollout of Argo. An operator's object that owns several workloads is none: its selector, if it has one,
does not select the pods of each. Where it was not read, its ReplicaSets say so: those of one workload select the same
pods but for the hash of a template.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rebalancer.model.labels import LabelSelector, SelectorRequirement
from rebalancer.model.workloads import Workload

_TEMPLATE_HASH: Final = "pod-template-hash"
"""The end of the keys of labels by which the ReplicaSets of one workload differ; Argo's has a prefix."""


def find_tops(workloads: Iterable[Workload], known: Mapping[str, Workload]) -> Mapping[str, Workload]:
    """Return the workloads above ReplicaSets by the UIDs of these; `known` are all workloads by UID."""
    tops: dict[str, Workload] = {}
    without: defaultdict[str, list[Workload]] = defaultdict(list)
    for owner in workloads:
        if owner.owner is None or owner.kind != "ReplicaSet":
            continue
        above = known.get(owner.owner.uid)
        if above is not None and (above.kind == "Deployment" or _selects_pods_of(above, owner)):
            tops[owner.uid] = above
        elif above is None and owner.owner.kind != "Deployment":
            without[owner.owner.uid].append(owner)
    for replica_sets in without.values():
        tops |= _infer_top(replica_sets)
    return tops


def _selects_pods_of(above: Workload, owner: Workload) -> bool:
    labels = owner.template.labels if owner.template is not None else owner.labels
    return above.selector is not None and not above.selector.empty and above.selector.matches(labels)


def _infer_top(replica_sets: Sequence[Workload]) -> Mapping[str, Workload]:
    """Return a workload of one owner's ReplicaSets, made of what they say, for each; none where they are several."""
    selectors = {_without_hash(owner.selector) for owner in replica_sets}
    reference = replica_sets[0].owner
    if len(selectors) > 1 or reference is None:
        return {}
    first = replica_sets[0]
    inferred = Workload(
        group=reference.group,
        kind=reference.kind,
        namespace=first.namespace,
        name=reference.name,
        uid=reference.uid,
        selector=selectors.pop(),
        replicas=sum(owner.replicas for owner in replica_sets),
        current=sum(owner.replicas for owner in replica_sets),
        ready=sum(owner.ready for owner in replica_sets),
        updated=sum(owner.replicas for owner in replica_sets),
        created=min(owner.created for owner in replica_sets),
    )
    return {owner.uid: inferred for owner in replica_sets}


def _without_hash(selector: LabelSelector | None) -> LabelSelector | None:
    return LabelSelector(tuple(_keep_labels(selector))) if selector is not None else None


def _keep_labels(selector: LabelSelector) -> Iterator[SelectorRequirement]:
    for requirement in selector.requirements:
        if not requirement.key.endswith(_TEMPLATE_HASH):
            yield requirement
