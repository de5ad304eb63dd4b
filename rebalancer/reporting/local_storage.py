"""How many pods local volumes keep from being evicted, and how to allow it, in one line.

By default every pod with an emptyDir stays, so that a cluster of such pods is hardly repaired. Who reads a plan or a
report must see that at a glance, not deduce it from the single refusals.
"""

from collections.abc import Iterable

from rebalancer.model.pods import LocalStorage
from rebalancer.model.reasons import Reason
from rebalancer.model.words import plural
from rebalancer.planning.plan import PlanRefusal
from rebalancer.planning.scope.eligibility import SAFE_TO_EVICT, LocalVolumes, local_storage_fields


def local_storage_line(refusals: Iterable[PlanRefusal]) -> str:
    """Count the pods that stay for their local volumes and say how to allow their eviction; "" if there are none."""
    pods = 0
    kinds: set[LocalStorage] = set()
    for refused in refusals:
        cause = refused.refusal
        if isinstance(cause, LocalVolumes):
            pods += 1
            kinds.update(volume.kind for volume in cause.volumes)
    if not pods:
        return ""
    return (
        f"{Reason.LOCAL_STORAGE}: {plural(pods, 'pod')} {'is' if pods == 1 else 'are'} not evicted because of local "
        f"volumes. To allow it, set {local_storage_fields(kinds)} to Allow in the policy, or annotate the "
        f'{"pod" if pods == 1 else "pods"} {SAFE_TO_EVICT}: "true".'
    )
