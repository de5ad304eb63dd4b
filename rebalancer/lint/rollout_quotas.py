"""Which new pods of a rollout the quotas of its namespace admit while old pods are left.

Each new pod counts, even without a node. The usage of an old pod is returned once the pod is gone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rebalancer.creation.quotas import find_charges, name_quota, quotas_of
from rebalancer.model.pods import Pod
from rebalancer.model.quantities import format_amount
from rebalancer.model.snapshot import Snapshot

Refuse = Callable[[Sequence[Pod], int], str]
"""A function that returns why the quotas admit no further pod, "" if they admit one.

Its arguments are the remaining old pods and the number of new pods.
"""


class _Limit(NamedTuple):
    """A resource of a quota: what is used and returned.

    `used` is the usage before the rollout, `returned` what each old pod returns, by UID, and `requested` what a new pod
    needs.
    """

    quota: str
    resource: str
    hard: int
    used: int
    returned: dict[str, int]
    requested: int


def read_quotas(old: Sequence[Pod], new: Pod, snapshot: Snapshot) -> Refuse:
    """Return what the quotas of a rollout's namespace allow."""
    limits = []
    for quota in quotas_of(new.namespace, snapshot):
        hard, used = dict(quota.hard), dict(quota.used)
        returned = {pod.uid: {one.resource: one.returned for one in find_charges(quota, pod, new)} for pod in old}
        for one in find_charges(quota, new, new):
            by_pod = {uid: amounts.get(one.resource, 0) for uid, amounts in returned.items()}
            name, at = name_quota(quota), one.resource
            limits.append(_Limit(name, at, hard[at], used.get(at, 0), by_pod, one.requested))

    def refuse(left: Sequence[Pod], number: int) -> str:
        for one in limits:
            stays = sum(one.returned[pod.uid] for pod in left)
            needed = one.used - sum(one.returned.values()) + stays + (number + 1) * one.requested
            if needed > one.hard:
                amounts = [format_amount(one.resource, amount) for amount in (one.hard, needed)]
                return f"{one.quota} limits {one.resource} to {amounts[0]}, and one more new pod needs {amounts[1]}"
        return ""

    return refuse
