"""The Explanation document: why a pod or a workload is, or is not, moved, as questions with answers.

Each answer is worked out by the functions that the controller itself uses; nothing is explained that was not decided.
"""

from collections.abc import Iterator, Mapping, Sequence

from rebalancer.advice import constraints
from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Eviction, Plan
from rebalancer.planning.scope.components import current_counts
from rebalancer.policy import LimitAction
from rebalancer.reporting.documents import API_VERSION, Text, Written
from rebalancer.reporting.expected_counts import after, decided
from rebalancer.reporting.keys import key_text, short
from rebalancer.reporting.phrases import broken, change, limit_change, listed, many, repair_takes, sureness
from rebalancer.reporting.prediction import outcome
from rebalancer.reporting.state_reasons import StateReasons
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
    found, limits = _groups_of(reference, assessment), _limits_of(reference, assessment)
    node = view.nodes.by_name.get(pod.node or "")
    labels = node.labels if node is not None else {}
    path = [*_standing(found, limits, labels, StateReasons(plan)), *_replaced(pod, view)]
    verdict, reason, planned = _fate(pod, reference, plan, _wrong(found, limits))
    path += [planned, *_repair(reference, plan, view.snapshot), *_pasted(reference, found, limits, plan)]
    return ExplanationDocument(object=f"pod {pod}", verdict=verdict, reason=reason, path=tuple(path))


def explain_workload(
    reference: Reference, assessment: Assessment, plan: Plan, snapshot: Snapshot
) -> ExplanationDocument:
    """Explain a workload: how it is spread, what is planned for it, and what stands in the way."""
    found, limits = _groups_of(reference, assessment), _limits_of(reference, assessment)
    path = [*_standing(found, limits, {}, StateReasons(plan)), *_repair(reference, plan, snapshot)]
    going = [each.pod.name for each in plan.evictions if each.workload == reference]
    waiting = [each for each in plan.waiting if each.eviction.workload == reference]
    reason: str | None = waiting[0].reason if waiting and not going else None
    evidence = listed(going) if going else listed(each.eviction.pod.name for each in waiting)
    path.append(
        Answer(
            question="What is planned?",
            answer=f"{many(len(going), 'eviction')} now, {len(waiting)} later",
            evidence=evidence,
        )
    )
    for group in plan.groups:
        if reference in group.workloads and group.reason is not None:
            reason = reason or group.reason
            path.append(Answer(question="Why not more?", answer=group.reason, evidence=group.message))
    path += [*_refusals(reference, plan), *_pasted(reference, found, limits, plan)]
    verdict = MOVES if going else WAITS if waiting else STAYS
    return ExplanationDocument(object=str(reference), verdict=verdict, reason=reason, path=tuple(path))


def _refusals(reference: Reference, plan: Plan) -> Iterator[Answer]:
    """Yield the pods that stay, those of equal reason together."""
    staying: dict[tuple[str, str], list[str]] = {}
    for refusal in plan.refusals:
        if refusal.workload == reference and refusal.pod is not None:
            staying.setdefault((refusal.reason, refusal.message), []).append(refusal.pod)
    for (reason, message), pods in staying.items():
        yield Answer(question=f"Why not {listed(pods)}?", answer=reason, evidence=message)


def _groups_of(reference: Reference, assessment: Assessment) -> Sequence[EvaluatedGroup]:
    return [judged for judged in assessment.groups if reference in judged.group.workloads]


def _limits_of(reference: Reference, assessment: Assessment) -> Sequence[EvaluatedLimit]:
    return [each for each in assessment.limits if any(part.member.reference == reference for part in each.parts)]


def _standing(
    found: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], labels: Mapping[str, str], verdicts: StateReasons
) -> Iterator[Answer]:
    """Yield how every constraint and every limit stands."""
    if not found:
        yield _nothing_asked()
    for judged in found:
        for each in (*judged.hard, *judged.soft):
            yield _constraint(each, verdicts.of_constraint(judged, each).state, labels)
    for limit in limits:
        name = f"{limit.group}/{limit.limit} ({limit.rule.bound} per {limit.topology_key}, {key_text(limit.key)})"
        holds = limit.state is State.SATISFIED
        sure = (
            "guaranteed by the pods' own constraints" if holds else "the pods' own constraints, once they hold, mend it"
        )
        state = verdicts.of_limit(limit).state
        answer = f"{state}; {sure}" if limit.guaranteed else str(state)
        yield Answer(question=f"Does the limit {name} hold?", answer=answer, evidence=limit.message)


def _repair(reference: Reference, plan: Plan, snapshot: Snapshot) -> Iterator[Answer]:
    """Yield what the repair takes, with its proof, and how everything stands after what is decided."""
    every = decided(plan)
    for group in plan.groups:
        if reference not in group.workloads or not (group.evictions or every.get(group.name)):
            continue
        evictions = every.get(group.name, ())
        before, then = current_counts(group.component), after(group, evictions, snapshot)
        lines = [f"{short(key)} {change(counts, then.get(key, {}))}" for key, counts in before.items()]
        lines += [limit_change(limit, evictions, snapshot) for limit in broken(group.limits)]
        part = f"{many(len(evictions), 'eviction')} to repair a part"
        yield Answer(
            question="What does the repair take?",
            answer=repair_takes(group) if group.evictions else part,
            evidence="\n".join(lines),
        )


def _pasted(
    reference: Reference, found: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], plan: Plan
) -> Iterator[Answer]:
    """Yield the constraints that would force what is only wished for now, to be pasted into the pod template."""
    question = "Which constraint would force it?"
    wished = [constraints.of_soft(each) for judged in found for each in judged.soft if each.counts.violated]
    wished += [constraints.of_limit(each) for each in limits if each.state is State.VIOLATED and not each.guaranteed]
    together, others = constraints.together(each for each in wished if each is not None)
    if together:
        this = "this one" if len(together) == 1 else "these"
        gives = "; ".join(each.gives for each in together)
        yield Answer(question=question, answer=f"with {this} {gives}", evidence=constraints.written(together))
    for each in others:
        instead = f"Which one instead over {short(each.topology_key)}, for the pods with {each.selector}?"
        yield Answer(question=instead, answer=f"with this one {each.gives}", evidence=constraints.written([each]))
    unforced = [each for each in plan.groups if each.reason is Reason.NOT_FORCED and reference in each.workloads]
    if unforced and not together:
        loose = (
            "its constraints are hard already; domains of equal size, or a larger maxSkew, leave the scheduler a way"
        )
        yield Answer(question=question, answer="none", evidence=loose)


def _nothing_asked() -> Answer:
    return Answer(
        question="What does the scheduler want of it?",
        answer="nothing",
        evidence="no topology spread constraint applies",
    )


def _constraint(each: EvaluatedConstraint, state: State, labels: Mapping[str, str]) -> Answer:
    constraint, counted = each.constraint, each.counts
    action = "hard" if constraint.hard else f"soft, {constraint.origin}"
    counts = sorted(counted.by_domain.items(), key=lambda item: (-item[1], item[0]))
    shown = " ".join(f"{value or '(empty)'}:{count}" for value, count in counts[:_MOST])
    more = f" and {len(counts) - _MOST} more" if len(counts) > _MOST else ""
    here = labels.get(constraint.key)
    return Answer(
        question=f"Does {constraint.key} (maxSkew {constraint.max_skew}, {action}) hold?",
        answer=f"{state}: skew {counted.skew}",
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
    return "; ".join(f"{plugin} rejects {listed(sorted(names))}" for plugin, names in rejected.items())


def _wrong(found: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit]) -> str:
    """Say how it comes that a pod stays which nothing refused."""
    acted = [limit for limit in limits if limit.state is State.VIOLATED and limit.action is LimitAction.EVICT]
    if acted or any(judged.violated for judged in found):
        return "the repair does without it"
    told = [f"{limit.group}/{limit.limit}" for limit in limits if limit.state is not State.SATISFIED]
    return f"nothing is evicted for {listed(told)}" if told else "nothing it counts for is violated"


def _fate(pod: Pod, reference: Reference, plan: Plan, otherwise: str) -> tuple[str, str | None, Answer]:
    question = "Is it evicted?"
    for eviction in plan.evictions:
        if eviction.pod.uid == pod.uid:
            evidence = f"{eviction.message}\n{_landing(eviction)}"
            return MOVES, eviction.cause, Answer(question=question, answer="now", evidence=evidence)
    for waiting in plan.waiting:
        if waiting.eviction.pod.uid == pod.uid:
            return WAITS, waiting.reason, Answer(question=question, answer=waiting.reason, evidence=waiting.message)
    for refusal in plan.refusals:
        if refusal.workload == reference and refusal.pod in {None, pod.name}:
            return STAYS, refusal.reason, Answer(question=question, answer=refusal.reason, evidence=refusal.message)
    for group in plan.groups:
        if reference in group.workloads and group.reason is not None:
            return STAYS, group.reason, Answer(question=question, answer=group.reason, evidence=group.message)
    going = [each.pod.name for each in plan.evictions if each.workload == reference]
    instead = f": {listed(going)} {'goes' if len(going) == 1 else 'go'} instead" if going else ""
    return STAYS, None, Answer(question=question, answer="no", evidence=f"{otherwise}{instead}")


def _landing(eviction: Eviction) -> str:
    places = ", ".join(f"{short(each.topology_key)} {listed(each.values)}" for each in eviction.targets if each.values)
    return f"its replacement lands in {places or 'any node that fits'}: {sureness(eviction)}"


def explanation_text(document: ExplanationDocument) -> str:
    """Show an explanation."""
    reason = f" ({document.reason})" if document.reason else ""
    lines = [f"{document.object}: {document.verdict}{reason}"]
    for each in document.path:
        lines += ["", each.question, f"  {each.answer}"]
        lines += [f"  {line}" for line in each.evidence.splitlines()]
    return "\n".join([*lines, ""])
