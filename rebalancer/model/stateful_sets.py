"""For which of its pods a StatefulSet waits before it creates those of higher ordinals.

Source: `pkg/controller/statefulset/stateful_set_control.go` (processReplica).
"""

from collections.abc import Iterable

from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload, pod_ordinal


def find_awaited(owner: Workload, pods: Iterable[Pod]) -> tuple[int, Pod | None] | None:
    """Return the lowest ordinal whose pod is not there and Ready to stay, with that pod; `pods` are all of the owner's.

    None where it waits for none, as always under Parallel. For how long a pod must have been Ready (minReadySeconds) is
    left out: that passes by itself.
    """
    if owner.kind != "StatefulSet" or owner.parallel:
        return None
    by_ordinal = {pod_ordinal(pod.name): pod for pod in pods}
    for ordinal in owner.ordinals:
        pod = by_ordinal.get(ordinal)
        if pod is None or pod.terminating or pod.finished or not pod.ready:
            return ordinal, pod
    return None
