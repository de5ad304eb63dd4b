"""The Explanation document: why a pod or a workload is, or is not, moved, as questions with answers and evidence.

The answers come from the assessment, the plan and the scheduler model that the controller uses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from rebalancer.account.account import find_undecided
from rebalancer.account.numbers import group_numbers
from rebalancer.advice import constraints
from rebalancer.advice.claims import ClaimRecipe, NoClaimRecipe
from rebalancer.assessment.anti_affinity.evaluate import find_terms_of
from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.controllers import stray_reference
from rebalancer.assessment.findings.domains import (
    describe_domain_without_nodes,
    describe_source,
    worst_rows,
)
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.creation.replacement import replacement
from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Text
from rebalancer.documents.domain_counts import FEW, find_filled
from rebalancer.documents.map import MapDocument
from rebalancer.documents.phrases import (
    NO_CONTROLLER,
    OR_ANOTHER,
    certainty,
    component_text,
    conflict_text,
    counts_change,
    eviction_text,
    key_text,
    limit_change,
    method_lines,
    prediction_summary,
    repair_cost,
    unsatisfied_limits,
    wait_end,
    why_no_fewer,
)
from rebalancer.documents.plan import search_attempt
from rebalancer.documents.state_reasons import (
    StateReason,
    StateReasons,
    is_constraint_unknown,
    is_limit_unknown,
)
from rebalancer.documents.surges import pods_go
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.visible import visible_lines
from rebalancer.model.words import name_list, plural, short_key
from rebalancer.model.workloads import pod_ordinal, reference_of
from rebalancer.planning.diagnosis.relaxation import NO_RELAXATIONS, Relaxations
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.expected_counts import expected_counts
from rebalancer.planning.fates import Never, Waits
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.planning.scope.components import current_counts
from rebalancer.planning.scope.victims import Victim, describe_difference
from rebalancer.planning.search.report import Method
from rebalancer.policy import LimitAction
from rebalancer.prevention.summary import ScaleDownAnswer
from rebalancer.scheduling.predict import Prediction, predict
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

MOVES, WAITS, STAYS, LEAVES = "Moves", "Waits", "Stays", "Leaves"

_OTHERS_BY_THEN = "Another pod may be chosen by then, as some that may not go now may go then"

_MOST = 5
"""Up to this many domains are listed; the rest are counted."""


class Answer(CamelCaseStruct, frozen=True, kw_only=True):
    """One question, its answer and the evidence for it."""

    question: Text
    answer: Text
    evidence: str


def _answer(question: str, answer: str, *evidence: str) -> Answer:
    """Return an answer; each piece of evidence is one line."""
    return Answer(question=question, answer=answer, evidence=visible_lines(evidence))


class ExplanationDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """An explanation. `verdict` is Moves, Waits, Stays, or Leaves for a pod that Kubernetes is about to delete.

    `reason` is from the closed list, null where there is none.

    For Moves, `idle` says why the controller does not move it, "" if it does. For Waits, `idle` says that no controller
    runs, "" if one does. `map` shows the workload with all its rules; null for a pod, and for a workload without
    constraints and limits.
    """

    api_version: str = API_VERSION
    kind: str = "Explanation"
    object: Text
    verdict: Text
    reason: str | None
    idle: str = ""
    path: tuple[Answer, ...]
    map: MapDocument | None = None


class ExplanationDetails(NamedTuple):
    """Details: relaxations of infeasible groups, the methods that the planner tried, what scale-downs would leave."""

    relaxations: Relaxations = NO_RELAXATIONS
    verbose: bool = False
    scale_downs: tuple[ScaleDownAnswer, ...] = ()
    blocked: Refusal | None = None
    """Why the controller evicts nothing in the namespace, None if it does."""
    claims: ClaimRecipe | NoClaimRecipe | None = None
    """The repair of a StatefulSet that is pinned by its volumes, None if that was not requested."""
    drawn: MapDocument | None = None
    """The map of the workload."""
    moving: frozenset[Reference] = frozenset()
    """The workloads of which pods are in flight."""
    find_idle: Callable[[], str] = str
    """Says why the controller makes no eviction that the plan allows now, "" if it does; the call may take seconds."""


NO_DETAILS = ExplanationDetails()


def explain_pod(
    pod: Pod, view: View, assessment: Assessment, plan: Plan, details: ExplanationDetails = NO_DETAILS
) -> ExplanationDocument:
    """Explain a pod: its constraints and limits, where its replacement would go, and what is planned."""
    top = view.snapshot.top_owner_of(pod)
    reference = reference_of(top) if top is not None else stray_reference(pod)
    groups, limits = _groups_of(reference, assessment), _limits_of(reference, assessment)
    node = view.nodes.by_name.get(pod.node or "")
    labels = node.labels if node is not None else {}
    if pod.node and node is None and "Node" not in view.snapshot.unknown:
        # No placement is predicted: the pod leaves together with the other pods of its node, in an unknown order.
        path = [_gone(pod), *_missing_domain_answers(reference, assessment)]
        path += _repair_answers(reference, plan, view.snapshot)
        return ExplanationDocument(object=f"pod {pod}", verdict=LEAVES, reason=None, path=tuple(path))
    states = StateReasons(plan, details.relaxations, details.moving)
    path = [
        *_state_answers(groups, limits, labels, states),
        *_anti_affinity_answers(reference, assessment, labels, states),
        *_missing_domain_answers(reference, assessment),
        *_replacement_answers(pod, view),
    ]
    terms = find_terms_of(reference, assessment.anti_affinity)
    conflicts = [states.for_term(one) for one in terms if one.conflicts_with_others(pod)]
    otherwise = _why_not_needed(groups, limits, conflicts)
    verdict, reason, answer = _eviction_answer(pod, reference, plan, view, details, otherwise)
    path += [
        answer,
        *_blocked_answers(details),
        *_repair_answers(reference, plan, view.snapshot),
        *_claim_answers(details),
        *_method_answers(reference, plan, details),
    ]
    path += _constraint_suggestions(reference, groups, limits, plan)
    idle = _find_idle(verdict, details.find_idle() if verdict in {MOVES, WAITS} else "")
    return ExplanationDocument(object=f"pod {pod}", verdict=verdict, reason=reason, idle=idle, path=tuple(path))


def explain_workload(
    reference: Reference,
    assessment: Assessment,
    plan: Plan,
    snapshot: Snapshot,
    details: ExplanationDetails = NO_DETAILS,
) -> ExplanationDocument:
    """Explain a workload: its constraints and limits, what is planned for it, and why not more."""
    groups, limits = _groups_of(reference, assessment), _limits_of(reference, assessment)
    states = StateReasons(plan, details.relaxations, details.moving)
    path = [
        *_state_answers(groups, limits, {}, states),
        *_anti_affinity_answers(reference, assessment, {}, states),
        *_missing_domain_answers(reference, assessment),
        *_repair_answers(reference, plan, snapshot),
    ]
    planned = _WorkloadPlan(reference, plan, details)
    path += [
        *planned.answers(),
        *_refusal_answers(reference, plan),
        *_claim_answers(details),
        *_blocked_answers(details),
        *_scale_down_answers(details),
        *_method_answers(reference, plan, details),
        *_constraint_suggestions(reference, groups, limits, plan),
    ]
    verdict = MOVES if planned.going else WAITS if planned.waits else STAYS
    return ExplanationDocument(
        object=str(reference),
        verdict=verdict,
        reason=planned.reason,
        idle=_find_idle(verdict, planned.idle),
        path=tuple(path),
        map=details.drawn if details.drawn is not None and details.drawn.lanes else None,
    )


def _find_idle(verdict: str, idle: str) -> str:
    """Return why nothing moves, if that matters for the verdict: without a controller, no wait ends."""
    return idle if verdict == MOVES or (verdict == WAITS and idle == NO_CONTROLLER) else ""


def _blocked_answers(details: ExplanationDetails) -> Iterator[Answer]:
    """Yield why nothing is evicted in the namespace; the reason also holds for evictions that are not planned now."""
    if details.blocked is not None:
        evidence = str(details.blocked)
        yield _answer("Is anything evicted in its namespace?", details.blocked.reason, evidence)


class _WorkloadPlan:
    """What is planned for the pods of one workload."""

    def __init__(self, reference: Reference, plan: Plan, details: ExplanationDetails) -> None:
        self.going = [eviction for eviction in plan.fates.going if eviction.workload == reference]
        self.waiting = [wait for wait in plan.fates.waiting if wait.eviction.workload == reference]
        self._obstacles = [
            group for group in plan.components if reference in group.workloads and group.reason is not None
        ]
        self._relaxations = details.relaxations
        self.idle = details.find_idle() if self.going or self.waiting or self._obstacles else ""
        self._made_at = plan.made_at
        self._undecided = reference in find_undecided(plan)
        self._moving = details.moving
        numbers = group_numbers(plan)
        self._blocked = sum(numbers[group.name].blocked for group in self._obstacles)

    @property
    def reason(self) -> str | None:
        """The cause of the evictions, else the reason why there are none."""
        if self.going:
            return self.going[0].cause
        return self.waiting[0].reason if self.waiting else next((one.reason for one in self._obstacles), None)

    @property
    def waits(self) -> bool:
        """Whether an eviction waits, or the repair goes on once moving pods have arrived."""
        return bool(self.waiting) or any(map(self._is_moving, self._obstacles))

    def _is_moving(self, group: ComponentPlan) -> bool:
        ends = group.refusal is not None and not group.refusal.end.is_never
        return ends and not self._moving.isdisjoint(group.workloads)

    def answers(self) -> Iterator[Answer]:
        """Yield which pods are evicted now, which wait and why, and why no other pods are evicted."""
        names = [eviction.pod.name for eviction in self.going or [wait.eviction for wait in self.waiting]]
        counts = f"{len(self.going)} now, {len(self.waiting)} waiting"
        counts += f", {self._blocked} blocked" if self._blocked else ""
        answer = f"{counts}; {self.idle}" if self.idle and self.going else counts
        another = f", {OR_ANOTHER}" if self.waiting and not self.going and self._undecided else ""
        yield _answer("Which of its pods are evicted?", answer, f"{name_list(names)}{another}")
        yield from _waiting_answers(self.waiting, self._made_at, self.idle)
        moving = {eviction.group for eviction in self.going}
        for group in self._obstacles:
            question = "Why is only part of it repaired?" if group.name in moving else "Why is it not repaired now?"
            evidence = component_text(group, self._relaxations)
            yield _answer(question, str(group.reason), evidence)
            waits = {wait.refusal for wait in self.waiting}
            goes_on = group.state is State.VIOLATED or self._is_moving(group)
            if goes_on and group.refusal is not None and group.refusal not in waits:
                yield _end_answer(group.refusal, self._made_at, self.idle)


def _waiting_answers(waiting: Sequence[Waits], made_at: datetime, idle: str) -> Iterator[Answer]:
    """Yield why evictions wait and until when; pods with equal reasons share an answer."""
    pods: dict[Refusal, list[str]] = {}
    for wait in waiting:
        pods.setdefault(wait.refusal, []).append(wait.eviction.pod.name)
    for refusal, names in pods.items():
        verb = "does" if len(names) == 1 else "do"
        yield _answer(f"Why {verb} {name_list(names)} wait?", refusal.reason, _wait_message(refusal, idle))
        yield _end_answer(refusal, made_at, idle)


def _wait_message(refusal: Refusal, idle: str) -> str:
    """Say why an eviction waits, and until when if something follows; `idle` is why nothing moves."""
    return refusal.timeless if idle == NO_CONTROLLER else str(refusal)


def _end_answer(refusal: Refusal, made_at: datetime, idle: str) -> Answer:
    """Say when a wait ends."""
    return _answer("When does that end?", wait_end(refusal, made_at, idle))


def _method_answers(reference: Reference, plan: Plan, details: ExplanationDetails) -> Iterator[Answer]:
    """Yield which method found the step of the workload's repair, and why other methods did not."""
    for group in plan.components:
        if details.verbose and reference in group.workloads and group.attempts:
            question = "Which method found the step?"
            yield _answer(
                question, group.method or "none", *method_lines(group.method, map(search_attempt, group.attempts))
            )


def _scale_down_answers(details: ExplanationDetails) -> Iterator[Answer]:
    for question, answer, evidence in details.scale_downs:
        yield _answer(question, answer, *evidence.split("\n"))


def _refusal_answers(reference: Reference, plan: Plan) -> Iterator[Answer]:
    """Yield why pods are not evicted; pods with equal reasons share an answer."""
    staying: dict[tuple[str, str], list[str]] = {}
    for refusal in plan.refusals:
        if refusal.workload == reference and refusal.pod is not None:
            staying.setdefault((refusal.reason, str(refusal.refusal)), []).append(refusal.pod)
    for (reason, message), pods in staying.items():
        yield _answer(f"Why not {name_list(pods)}?", reason, message)


def _claim_answers(details: ExplanationDetails) -> Iterator[Answer]:
    """Yield the claims to delete if volumes pin the pods, so that no eviction repairs the workload."""
    recipe = details.claims
    if recipe is not None:
        answer = f"giving up {name_list(recipe.claims)}" if isinstance(recipe, ClaimRecipe) else "nothing is known"
        yield _answer("What would repair it in spite of its volumes?", answer, *str(recipe).split("\n"))


def _groups_of(reference: Reference, assessment: Assessment) -> Sequence[EvaluatedGroup]:
    return [group for group in assessment.groups if reference in group.spread.workloads]


def _limits_of(reference: Reference, assessment: Assessment) -> Sequence[EvaluatedLimit]:
    return [limit for limit in assessment.limits if any(part.member.reference == reference for part in limit.parts)]


def _state_answers(
    groups: Sequence[EvaluatedGroup],
    limits: Sequence[EvaluatedLimit],
    labels: Mapping[str, str],
    reasons: StateReasons,
) -> Iterator[Answer]:
    """Yield the state of every constraint and every limit."""
    if not groups:
        yield _no_constraint_answer()
    for group in groups:
        for evaluated in (*group.hard, *group.soft):
            yield _constraint_answer(evaluated, reasons.for_constraint(group, evaluated), labels)
    for limit in limits:
        name = f"{limit.group}/{limit.limit} ({limit.rule.bound} per {limit.topology_key}, {key_text(limit.key)})"
        guarantee = (
            "the pods' own constraints guarantee it"
            if limit.state is State.SATISFIED
            else "satisfying the pods' own constraints satisfies it too"
        )
        state, _, message, _ = reasons.for_limit(limit)
        is_unknown = state is State.UNKNOWN
        yield _answer(
            f"Is limit {name} satisfied?",
            f"{state}; {guarantee}" if limit.guaranteed and not is_unknown else str(state),
            message if is_unknown else limit.message,
        )


def _anti_affinity_answers(
    reference: Reference, assessment: Assessment, labels: Mapping[str, str], states: StateReasons
) -> Iterator[Answer]:
    """Yield the state of the required terms that the workload declares, and of the terms that its pods conflict by."""
    for one in find_terms_of(reference, assessment.anti_affinity):
        key = one.term.topology_key
        lines = [f"declared by {name_list(map(str, one.workloads))}"]
        if one.violated:
            domain = labels.get(key)
            this_pod = f"; this pod is in {domain!r}" if domain is not None else ""
            shared = "; ".join(map(conflict_text, one.conflicts[:_MOST]))
            more = f" and {len(one.conflicts) - _MOST} more" if len(one.conflicts) > _MOST else ""
            state = states.for_term(one)
            lines += [f"{shared}{more}{this_pod}", *([f"{state.reason}: {state.message}"] if state.reason else [])]
        yield _answer(
            f"Is required podAntiAffinity over {key} to {one.selected} satisfied?",
            f"{one.state}: {one.message}" if one.message else str(one.state),
            *lines,
        )


def _gone(pod: Pod) -> Answer:
    """Say that the node of a pod no longer exists."""
    return _answer(
        "Does its node exist?",
        f"no, node {pod.node} is gone",
        "no constraint and no limit counts the pod",
        f"kube-controller-manager deletes it{', and its owner creates another one' if _is_replaced(pod) else ''}",
    )


def _is_replaced(pod: Pod) -> bool:
    """Return whether an owner creates another pod for one whose node is gone."""
    on_every_node = pod.owner is None or pod.owner.kind in {"DaemonSet", "Node"}
    return not (on_every_node or pod.finished or pod.terminating)


def _missing_domain_answers(reference: Reference, assessment: Assessment) -> Iterator[Answer]:
    """Yield the domains that constraints do not count because they have no node."""
    for workload, row in worst_rows(assessment.domains_without_nodes):
        if workload == reference and row.would_violate:
            yield _answer(
                f"Which {row.topology_key} has no node?",
                f"{row.domain.value} ({describe_source(row.domain)})",
                describe_domain_without_nodes(row),
            )


def _repair_answers(reference: Reference, plan: Plan, snapshot: Snapshot) -> Iterator[Answer]:
    """Yield how many evictions the repair takes, the counts after the decided evictions, and why fewer do not do."""
    decided, numbers = plan.fates.decided, group_numbers(plan)
    for group in plan.components:
        if reference not in group.workloads or not (group.evictions or decided.get(group.name)):
            continue
        evictions = decided.get(group.name, ())
        before, after = current_counts(group.component), expected_counts(group, evictions, snapshot)
        lines = [f"{short_key(key)} {counts_change(counts, after.get(key, {}))}" for key, counts in before.items()]
        lines += [limit_change(limit, evictions, snapshot) for limit in unsatisfied_limits(group.limits)]
        yield _answer(
            "How many evictions does the repair take?",
            repair_cost(group, numbers[group.name]),
            *lines,
        )
        why = why_no_fewer(group)
        if why:
            yield _answer("Why not fewer?", why)


def _constraint_suggestions(
    reference: Reference, groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], plan: Plan
) -> Iterator[Answer]:
    """Yield constraints, as YAML for the pod template, that would enforce the rules that nothing enforces now."""
    question = "Which constraint would enforce it?"
    combined, alternatives = constraints.combine(_enforcing_spreads(groups, limits))
    if combined:
        this = "this constraint" if len(combined) == 1 else "these constraints"
        effects = "; ".join(spread.effect for spread in combined)
        yield _answer(question, f"with {this}, {effects}", *constraints.constraints_yaml(combined).split("\n"))
    for spread in alternatives:
        yield _answer(
            f"Which one instead over {short_key(spread.topology_key)}, for pods that match {spread.selector}?",
            f"with this constraint, {spread.effect}",
            *constraints.constraints_yaml([spread]).split("\n"),
        )
    not_forced = any(group.reason is Reason.NOT_FORCED and reference in group.workloads for group in plan.components)
    if not_forced and not combined:
        evidence = (
            "its constraints are hard already; with domains of equal size, or a larger maxSkew, the scheduler can be "
            "forced"
        )
        yield _answer(question, "none", evidence)


def _enforcing_spreads(
    groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit]
) -> Iterator[constraints.SuggestedSpread]:
    """Yield the constraint for each violated soft constraint, and for each violated limit that nothing guarantees."""
    soft = [evaluated for group in groups for evaluated in group.soft if evaluated.counts.violated]
    loose = [limit for limit in limits if limit.state is State.VIOLATED and not limit.guaranteed]
    for spread in (*map(constraints.harden, soft), *map(constraints.constraint_for_limit, loose)):
        if spread is not None:
            yield spread


def _no_constraint_answer() -> Answer:
    return _answer(
        "Which topology spread constraints apply?",
        "none",
        "kube-scheduler does not spread these pods",
    )


def _constraint_answer(evaluated: EvaluatedConstraint, state: StateReason, labels: Mapping[str, str]) -> Answer:
    constraint = evaluated.constraint
    action = "hard" if constraint.hard else f"soft, {constraint.origin}"
    question = f"Is {constraint.key} (maxSkew {constraint.max_skew}, {action}) satisfied?"
    if state.state is State.UNKNOWN:
        return _answer(question, str(state.state), state.message)
    domain = labels.get(constraint.key)
    this_pod = f"; this pod is in {domain!r}" if domain is not None else ""
    return _answer(
        question,
        f"{state.state}: skew {evaluated.counts.skew}",
        f"{_list_domains(evaluated.counts.by_domain)}{this_pod}",
    )


def _list_domains(counts: Mapping[str, int]) -> str:
    """List the domains as plan and report do; if there are many, list the fullest and count the others."""
    if len(counts) <= FEW:
        return counts_change(counts, {})
    fullest = sorted(find_filled(counts).items(), key=lambda item: (-item[1], item[0]))[:_MOST]
    return f"{counts_change(dict(fullest), {})} and {len(counts) - len(fullest)} more"


def _replacement_answers(pod: Pod, view: View) -> Iterator[Answer]:
    question = "What would replace it?"
    new_pod = replacement(pod, view)
    if isinstance(new_pod, Unpredictable):
        yield _answer(question, new_pod.reason, new_pod.message)
        return
    same_name = new_pod.name == pod.name
    when = "once it is gone" if same_name else "while it is still terminating"
    owner, ordinal = view.snapshot.owner_of(pod), pod_ordinal(pod.name)
    template = "the owner's current template"
    if owner is not None and ordinal in owner.held_back:
        template = (
            f"the owner's template of revision {owner.revision_at(ordinal)}, at which its partition keeps the pod"
        )
    yield _answer(question, f"a pod from {template}, {when}", str(new_pod))
    state = view.without([pod]) if same_name else view.terminating([pod])
    prediction = predict(new_pod, state)
    if new_pod.least is not None:
        smallest = structs.replace(new_pod, spec=structs.replace(new_pod.spec, requests=new_pod.least))
        yield _answer(
            "Where would kube-scheduler place that?",
            f"not known: on one of {len(predict(smallest, state).feasible | prediction.feasible)} nodes",
            (
                "its template, its namespace and the newest pod say different things of what it will request; with "
                f"the most, {len(prediction.feasible)} nodes admit it"
            ),
        )
        return
    yield _answer(
        "Where would kube-scheduler place that?",
        prediction_summary(prediction),
        _rejections(prediction),
    )


def _rejections(prediction: Prediction) -> str:
    rejected: dict[str, list[str]] = {}
    for node in prediction.nodes:
        if node.rejected_by is not None:
            rejected.setdefault(node.rejected_by, []).append(node.name)
    return "; ".join(f"{plugin} rejects {name_list(sorted(names))}" for plugin, names in rejected.items())


def _why_not_needed(
    groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], conflicts: Sequence[StateReason]
) -> str:
    """Say why a pod stays although nothing refuses its eviction; `conflicts` are the states of its violated terms."""
    evicts = any(limit.state is State.VIOLATED and limit.action is LimitAction.EVICT for limit in limits)
    if evicts or any(group.violated for group in groups):
        return "the repair does not need this eviction"
    unsatisfied = [
        f"{limit.group}/{limit.limit}"
        for limit in limits
        if limit.state is not State.SATISFIED and not is_limit_unknown(limit)
    ]
    if unsatisfied:
        return f"limit {name_list(unsatisfied)} is not repaired by eviction"
    if any(one.reason is None for one in conflicts):
        return "the repair does not need this eviction"
    if conflicts:
        return f"required podAntiAffinity of this pod, or to it, is violated: {conflicts[0].message}"
    counted = [evaluated for group in groups for evaluated in (*group.hard, *group.soft)]
    if any(map(is_constraint_unknown, counted)) or any(map(is_limit_unknown, limits)):
        return f"whether all constraints and limits that count this pod are satisfied is {State.UNKNOWN}"
    return "all constraints and limits that count this pod are satisfied"


def _eviction_answer(
    pod: Pod, reference: Reference, plan: Plan, view: View, details: ExplanationDetails, otherwise: str
) -> tuple[str, str | None, Answer]:
    """Return the verdict, the reason and the answer to whether a pod is evicted."""
    question = "Is it evicted?"
    for eviction in plan.fates.going:
        if eviction.pod.uid == pod.uid:
            idle = details.find_idle()
            now = f"it would be now; {idle}" if idle else "now"
            return MOVES, eviction.cause, _answer(question, now, eviction_text(eviction), _target_text(eviction))
    for waiting in plan.fates.kept:
        if waiting.eviction.pod.uid == pod.uid:
            idle = details.find_idle()
            end = f"It {wait_end(waiting.refusal, plan.made_at, idle)}."
            lines = [_wait_message(waiting.refusal, idle), end, _target_text(waiting.eviction)]
            if not waiting.refusal.end.is_never and reference in find_undecided(plan):
                lines.append(_OTHERS_BY_THEN)
            verdict = STAYS if isinstance(waiting, Never) else WAITS
            return verdict, waiting.reason, _answer(question, waiting.reason, *lines)
    for refusal in plan.refusals:
        if refusal.workload == reference and refusal.pod in {None, pod.name}:
            evidence = str(refusal.refusal)
            return STAYS, refusal.reason, _answer(question, refusal.reason, evidence)
    reason, evidence = _why_it_stays(pod, reference, plan, view, details, otherwise)
    return STAYS, reason, _answer(question, reason or "no", evidence)


def _why_it_stays(
    pod: Pod, reference: Reference, plan: Plan, view: View, details: ExplanationDetails, otherwise: str
) -> tuple[str | None, str]:
    """Return the reason, if any, and a sentence: other pods are evicted instead, or no pod of its workload is."""
    for group in plan.components:
        if reference in group.workloads:
            decided = plan.fates.decided.get(group.name, ())
            if decided:
                return None, _instead(pod, group, decided, plan, view)
            if group.reason is not None:
                return group.reason, component_text(group, details.relaxations)
    return None, otherwise


def _instead(pod: Pod, group: ComponentPlan, decided: Sequence[Eviction], plan: Plan, view: View) -> str:
    """Say which pods are evicted instead, why, and whether the repair may evict other pods later."""
    names = [one.pod.name for one in decided]
    verb = "is" if len(decided) == 1 else "are"
    go = pods_go(names) if decided[0].repair.added else f"{name_list(names)} {verb} evicted"
    text = f"the repair does not need this eviction: {go} instead"
    instead = _find_instead(pod, group, decided, view)
    text += f": {describe_difference(*[one.cost for one in instead])}" if instead is not None else ""
    later = group_numbers(plan)[group.name].later
    if not later:
        return text
    return f"{text}; {plural(later, 'eviction')} of the repair {'is' if later == 1 else 'are'} decided after that"


def _find_instead(
    pod: Pod, group: ComponentPlan, decided: Sequence[Eviction], view: View
) -> tuple[Victim, Victim] | None:
    """Return a pod and the costliest cheaper pod that is evicted, if the cost decided between the two.

    The cost decides between pods of one node, because every method takes the cheapest pod first. It also decides
    between nodes of the same domains if any minimal set of victims is a step: the cheapest set is taken. Otherwise
    other rules may decide.
    """
    staying = group.ranked.find(pod.uid) if group.ranked is not None else None
    if group.ranked is None or staying is None:
        return None
    nodes, keys = view.nodes.by_name, current_counts(group.component)
    evicted = {eviction.pod.uid for eviction in decided}
    cheaper = group.ranked.victims(range(staying.rank))
    for victim in reversed(cheaper):
        if victim.pod.uid in evicted:
            one, other = nodes[pod.node or ""].labels, nodes[victim.pod.node or ""].labels
            alike = group.method is Method.CERTIFICATE and all(one.get(key) == other.get(key) for key in keys)
            if alike or pod.node == victim.pod.node:
                return staying, victim
    return None


def _target_text(eviction: Eviction) -> str:
    targets = ", ".join(
        f"{short_key(target.topology_key)} {name_list(target.values)}" for target in eviction.targets if target.values
    )
    where, added = targets or "any feasible node", eviction.repair.added
    if added:
        verb = "is" if added == 1 else "are"
        return f"it goes in a scale-down once {plural(added, 'pod')} {verb} added in {where}: {certainty(eviction)}"
    return f"its replacement is expected in {where}: {certainty(eviction)}"
