"""The Explanation document: why a pod or a workload is, or is not, moved, as questions with answers.

Each answer is worked out by the functions that the controller itself uses; nothing is explained that was not decided.
"""

from collections.abc import Iterable, Iterator, Sequence

from rebalancer.assessment.judgement import Assessment, Judged, JudgedGroup
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.planning.plans import Plan
from rebalancer.reporting.documents import API_VERSION, Text, Written
from rebalancer.reporting.prediction import outcome
from rebalancer.scheduling.predict import Prediction, predict
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

MOVES, WAITS, STAYS = "Moves", "Waits", "Stays"
_MOST = 5
"""So many names are shown; the rest is counted."""


class Answer(Written, frozen=True, kw_only=True):
    """One step on the way: what was asked, what was found, and what shows it."""

    question: Text
    answer: Text
    evidence: str


class ExplanationDocument(Written, frozen=True, kw_only=True):
    """An explanation. `verdict` is Moves, Waits or Stays, `reason` from the closed list where there is one."""

    api_version: str = API_VERSION
    kind: str = "Explanation"
    object: Text
    verdict: Text
    reason: str | None
    path: tuple[Answer, ...]


def explain_pod(pod: Pod, view: View, assessment: Assessment, plan: Plan) -> ExplanationDocument:
    """Explain a pod: what it is counted for, what would come in its place and where, and what is planned."""
    top = view.snapshot.top_owner_of(pod)
    reference = Reference(pod.namespace, top.kind, top.name) if top else Reference(pod.namespace, "Pod", pod.name)
    found = _groups_of(reference, assessment)
    node = view.nodes.by_name.get(pod.node or "")
    path = [answer for judged in found for answer in _constraints(judged, node.labels if node is not None else {})]
    if not found:
        path.append(_nothing_asked())
    path += _replaced(pod, view)
    verdict, reason, planned = _fate(pod, reference, plan, violated=any(judged.violated for judged in found))
    return ExplanationDocument(object=f"pod {pod}", verdict=verdict, reason=reason, path=(*path, planned))


def explain_workload(reference: Reference, assessment: Assessment, plan: Plan) -> ExplanationDocument:
    """Explain a workload: how it is spread, what is planned for it, and what stands in the way."""
    found = _groups_of(reference, assessment)
    path = [answer for judged in found for answer in _constraints(judged, {})] or [_nothing_asked()]
    going = [each.pod.name for each in plan.evictions if each.workload == reference]
    waiting = [each for each in plan.waiting if each.eviction.workload == reference]
    reason: str | None = waiting[0].reason if waiting and not going else None
    evidence = _named(going) if going else _named(each.eviction.pod.name for each in waiting)
    path.append(
        Answer(
            question="What is planned?",
            answer=f"{len(going)} evictions now, {len(waiting)} later",
            evidence=evidence,
        )
    )
    for group in plan.groups:
        if reference in group.judged.group.workloads and group.reason is not None:
            reason = reason or group.reason
            path.append(Answer(question="Why not more?", answer=group.reason, evidence=group.message))
    path += _refusals(reference, plan)
    verdict = MOVES if going else WAITS if waiting else STAYS
    return ExplanationDocument(object=str(reference), verdict=verdict, reason=reason, path=tuple(path))


def _refusals(reference: Reference, plan: Plan) -> Iterator[Answer]:
    """Yield the pods that stay, those of equal reason together."""
    staying: dict[tuple[str, str], list[str]] = {}
    for refusal in plan.refusals:
        if refusal.workload == reference and refusal.pod is not None:
            staying.setdefault((refusal.reason, refusal.message), []).append(refusal.pod)
    for (reason, message), pods in staying.items():
        yield Answer(question=f"Why not {_named(pods)}?", answer=reason, evidence=message)


def _groups_of(reference: Reference, assessment: Assessment) -> Sequence[JudgedGroup]:
    return [judged for judged in assessment.groups if reference in judged.group.workloads]


def _nothing_asked() -> Answer:
    return Answer(
        question="What does the scheduler want of it?",
        answer="nothing",
        evidence="no topology spread constraint applies",
    )


def _constraints(group: JudgedGroup, labels: dict[str, str]) -> Iterator[Answer]:
    for each in (*group.hard, *group.soft):
        yield _constraint(each, labels)


def _constraint(each: Judged, labels: dict[str, str]) -> Answer:
    constraint, counted = each.constraint, each.counts
    action = "hard" if constraint.hard else f"soft, {constraint.origin}"
    counts = sorted(counted.by_domain.items(), key=lambda item: (-item[1], item[0]))
    shown = " ".join(f"{value or '(empty)'}:{count}" for value, count in counts[:_MOST])
    more = f" and {len(counts) - _MOST} more" if len(counts) > _MOST else ""
    here = labels.get(constraint.key)
    return Answer(
        question=f"Does {constraint.key} (maxSkew {constraint.max_skew}, {action}) hold?",
        answer=f"{each.state}: skew {counted.skew}",
        evidence=f"{shown or 'no eligible domain'}{more}{f'; it counts for {here!r}' if here is not None else ''}",
    )


def _replaced(pod: Pod, view: View) -> Iterator[Answer]:
    question = "What would come in its place?"
    made = replacement(pod, view)
    if isinstance(made, Unpredictable):
        yield Answer(question=question, answer=made.reason, evidence=made.message)
        return
    gone = made.name == pod.name
    when = "once it is gone" if gone else "while it is still terminating"
    yield Answer(question=question, answer=f"a pod of the owner's current template, {when}", evidence=str(made))
    prediction = predict(made, view.without([pod]) if gone else view.terminating([pod]))
    yield Answer(question="Where would that land?", answer=outcome(prediction), evidence=_rejections(prediction))


def _rejections(prediction: Prediction) -> str:
    rejected: dict[str, list[str]] = {}
    for node in prediction.nodes:
        if node.rejected_by is not None:
            rejected.setdefault(node.rejected_by, []).append(node.name)
    return "; ".join(f"{plugin} rejects {_named(sorted(names))}" for plugin, names in rejected.items())


def _fate(pod: Pod, reference: Reference, plan: Plan, *, violated: bool) -> tuple[str, str | None, Answer]:
    question = "Is it evicted?"
    for eviction in plan.evictions:
        if eviction.pod.uid == pod.uid:
            return MOVES, eviction.cause, Answer(question=question, answer="now", evidence=eviction.message)
    for waiting in plan.waiting:
        if waiting.eviction.pod.uid == pod.uid:
            return WAITS, waiting.reason, Answer(question=question, answer=waiting.reason, evidence=waiting.message)
    for refusal in plan.refusals:
        if refusal.workload == reference and refusal.pod in {None, pod.name}:
            return STAYS, refusal.reason, Answer(question=question, answer=refusal.reason, evidence=refusal.message)
    for group in plan.groups:
        if reference in group.judged.group.workloads and group.reason is not None:
            return STAYS, group.reason, Answer(question=question, answer=group.reason, evidence=group.message)
    evidence = "the repair does without it" if violated else "nothing it counts for is violated"
    return STAYS, None, Answer(question=question, answer="no", evidence=evidence)


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_MOST]) + (f" and {len(listed) - _MOST} more" if len(listed) > _MOST else "")


def explanation_text(document: ExplanationDocument) -> str:
    """Show an explanation."""
    reason = f" ({document.reason})" if document.reason else ""
    lines = [f"{document.object}: {document.verdict}{reason}"]
    for each in document.path:
        lines += ["", each.question, f"  {each.answer}"]
        lines += [f"  {each.evidence}"] if each.evidence else []
    return "\n".join([*lines, ""])
