"""Pods without a node, of workloads that a constraint or a limit concerns: why the scheduler does not place them.

A constraint counts placed pods only, so a workload may be Satisfied while one of its pods finds no node.
"""

from collections import defaultdict
from collections.abc import Collection

from msgspec import Struct

from rebalancer.assessment.controllers import find_reference
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.words import plural
from rebalancer.scheduling.predict import predict
from rebalancer.scheduling.view import View


class WaitingPods(Struct, frozen=True, kw_only=True):
    """Pods of one workload that wait for a node for one reason, in the scheduler's words.

    `gated`: they are held back on purpose (schedulingGates), and the scheduler does not visit them.
    """

    workload: Reference
    pods: tuple[str, ...]
    message: str
    gated: bool = False


def find_waiting_pods(view: View, concerned: Collection[Reference]) -> tuple[WaitingPods, ...]:
    """Return the pods of these workloads that have no node, by workload; equal pods are evaluated once."""
    messages: dict[tuple[str, Labels, PodSpec, tuple[str, ...]], str] = {}
    waiting: defaultdict[tuple[Reference, str, bool], list[str]] = defaultdict(list)
    for pod in view.snapshot.unplaced:
        workload = find_reference(pod, view)
        if workload not in concerned:
            continue
        alike = (pod.namespace, pod.labels, pod.spec, pod.claims)
        if alike not in messages:
            messages[alike] = _describe(pod, view)
        waiting[workload, messages[alike], pod.spec.gated].append(pod.name)
    return tuple(
        WaitingPods(workload=workload, pods=tuple(sorted(names)), message=message, gated=gated)
        for (workload, message, gated), names in sorted(waiting.items())
    )


def _describe(pod: Pod, view: View) -> str:
    prediction = predict(pod, view)
    if prediction.unpredictable is not None:
        return prediction.unpredictable.message
    if prediction.failure:
        return prediction.failure
    fit = len(prediction.feasible)
    return f"{plural(fit, 'node')} {'fits' if fit == 1 else 'fit'}: kube-scheduler has not placed it yet"
