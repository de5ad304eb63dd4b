"""What a scale-down of one workload would delete and leave: question, answer and evidence."""

from collections.abc import Iterator
from typing import NamedTuple

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.controllers import members
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.visible import visible_lines
from rebalancer.model.workloads import pod_ordinal
from rebalancer.policy import Policy, ScaleDownPrevention
from rebalancer.prevention.findings import describe_risk, find_risks
from rebalancer.prevention.groups import CHOOSING_KINDS, PodGroup, find_pod_groups
from rebalancer.prevention.plan import GroupResult, evaluate_group, is_selected
from rebalancer.scheduling.view import View

_QUESTION = "What would a scale-down leave?"
_MOST = 8
"""The most numbers of replicas that are listed."""


class ScaleDownAnswer(NamedTuple):
    """One question about scale-downs, its answer and the evidence for it."""

    question: str
    answer: str
    evidence: str


def explain_scale_downs(
    workload: Reference, view: View, assessment: Assessment, policy: Policy
) -> Iterator[ScaleDownAnswer]:
    """Yield what a scale-down of a workload would leave; nothing if no rule counts its pods, or with Off."""
    if policy.prevention.scale_down is ScaleDownPrevention.OFF:
        return
    mine = [member for member in members(view) if member.reference == workload and member.owner is not None]
    kinds = {member.owner.kind for member in mine if member.owner is not None}
    for kind in sorted(kinds - CHOOSING_KINDS - {"StatefulSet"}):
        evidence = f"a {kind} deletes its pods by itself; deletion costs have no effect"
        yield ScaleDownAnswer(_QUESTION, "not known", evidence)
    for group in find_pod_groups(
        view, assessment, policy, NO_MEMORY, frozenset({*CHOOSING_KINDS, "StatefulSet"}), workload
    ):
        if group.owner.kind == "StatefulSet":
            yield _explain_stateful_set(group)
        else:
            yield _explain_group(evaluate_group(group, policy, view.snapshot.taken_at), view, policy)


def _explain_group(result: GroupResult, view: View, policy: Policy) -> ScaleDownAnswer:
    order, size = result.steering.order, result.group.problem.size
    lines = [describe_risk(risk, policy) for risk in find_risks([result], view, policy)]
    if order.price.violated:
        proof = "no order leaves fewer" if order.proved else f"another order may leave {order.gap} fewer"
        lines.append(
            f"The best order violates a rule at {order.price.violated} of {size - 1} smaller numbers of pods ({proof})."
        )
    if not is_selected(result.group.owner.namespace, result.group.member.pods, policy):
        lines.append("Its order is not kept: prevention.namespaces or prevention.selector does not select it.")
    elif result.unsteered is not None:
        lines.append(result.unsteered.sentence)
    violated = sum(amount > 0 for amount in result.steering.present[1:-1])
    answer = (
        f"skew is possible at {violated} of the {size - 1} smaller numbers of pods"
        if violated
        else "pods that are spread"
    )
    return ScaleDownAnswer(_QUESTION, answer, visible_lines(lines))


def _explain_stateful_set(group: PodGroup) -> ScaleDownAnswer:
    """Say which numbers of replicas satisfy the rules; a StatefulSet always deletes the highest ordinals."""
    first = group.owner.first_ordinal
    ordinals = {number: pod_ordinal(pod.name) - first for number, pod in enumerate(group.pods)}
    good = []
    for replicas in range(1, group.problem.size):
        remaining = [number for number, ordinal in ordinals.items() if ordinal < replicas]
        if len(remaining) == replicas and not group.problem.excess_of(remaining):
            good.append(replicas)
    shown = ", ".join(map(str, good[-_MOST:])) or "no smaller number"
    more = f" and {len(good) - _MOST} smaller ones" if len(good) > _MOST else ""
    return ScaleDownAnswer(
        _QUESTION,
        f"the pods with the lowest ordinals; with {shown}{more} replicas they are spread",
        "a StatefulSet deletes the highest ordinals first; deletion costs have no effect. "
        "`rebalancer suggest` lists replica counts that can be scaled through",
    )
