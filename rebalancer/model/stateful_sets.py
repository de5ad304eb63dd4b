"""The pods that a StatefulSet, or a foreign owner like it, waits for before it creates higher ordinals.

Source: `pkg/controller/statefulset/stateful_set_control.go` (processReplica).
"""

from collections.abc import Iterable, Mapping

from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload, pod_ordinal


def find_awaited(owner: Workload, pods: Iterable[Pod]) -> tuple[int, Pod | None] | None:
    """Return the lowest ordinal whose pod is missing or not lastingly Ready, with that pod; `pods` are all the owner's.

    None if it waits for no pod, as always under Parallel. How long a pod must have been Ready (minReadySeconds) is
    ignored, because that time passes by itself.
    """
    if owner.kind == "StatefulSet" and owner.parallel:
        return None
    by_ordinal = {pod_ordinal(pod.name): pod for pod in pods}
    if owner.kind != "StatefulSet":  # a foreign owner may leave ordinals out
        return _find_foreign(by_ordinal) if owner.ordered else None
    for ordinal in owner.ordinals:
        pod = by_ordinal.get(ordinal)
        if pod is None or pod.terminating or pod.finished or not pod.ready:
            return ordinal, pod
    return None


def _find_foreign(by_ordinal: Mapping[int, Pod]) -> tuple[int, Pod | None] | None:
    for ordinal, pod in sorted(by_ordinal.items()):
        if pod.terminating or pod.finished or not pod.ready:
            return ordinal, pod
    return None
