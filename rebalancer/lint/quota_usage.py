"""The usage of quotas once today's pods are gone and new pods are pending.

In a snapshot, `used` counts only today's pods.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from rebalancer.creation.quotas import Quota, find_charges, quotas_of
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot


def recharge(snapshot: Snapshot, gone: Sequence[Pod], made: Sequence[Pod]) -> Snapshot:
    """Return a snapshot whose quotas count the pods that are `made`, but not the pods that are `gone`."""
    if not snapshot.quotas and not snapshot.cluster_quotas:
        return snapshot
    changes = dict[Quota, Counter[str]]()
    for sign, pods in ((-1, gone), (1, made)):
        for pod in pods:
            for quota in quotas_of(pod.namespace, snapshot):
                counts = changes.setdefault(quota, Counter())
                for one in find_charges(quota, pod, pod):
                    counts[one.resource] += sign * one.requested
    return replace(
        snapshot,
        quotas=tuple(structs.replace(one, used=_add(one, changes)) for one in snapshot.quotas),
        cluster_quotas=tuple(structs.replace(one, used=_add(one, changes)) for one in snapshot.cluster_quotas),
    )


def _add(quota: Quota, changes: dict[Quota, Counter[str]]) -> tuple[tuple[str, int], ...]:
    used, more = dict(quota.used), changes.get(quota, Counter[str]())
    return tuple((name, used.get(name, 0) + more[name]) for name in dict.fromkeys((*used, *more)))
