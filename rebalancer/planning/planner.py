"""The plan: for every component the proven minimum, the next safe step, what waits for what, and why not more."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Memory, Target
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.planning.answers import forget
from rebalancer.planning.decision import (
    COMPONENT_FORESIGHT,
    LEAST_FORESIGHT,
    MOST_FORESIGHT,
    MOST_HASTE,
    MOST_MOVES,
    ComponentContext,
    Decision,
    decide_multi_class,
    decide_single_class,
)
from rebalancer.planning.formulation import ProblemBuilder, SingleClassProblem
from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.plan import ComponentPlan, Counts, Eviction, Plan, PlanRefusal, Repair, Waiting
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.components import Component, current_counts, find_components, needs_repair
from rebalancer.planning.scope.eligibility import Refusal
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.stuck import stuck_pods
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.outlook import expected_counts, expected_targets, targets_on
from rebalancer.planning.steps.forced import SearchBudget
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View


def plan(view: View, assessment: Assessment, policy: Policy, memory: Memory) -> Plan:
    """Plan for every component that something is to be repaired in, the worst first. Same input, same plan."""
    planner = _Planner(view, assessment, policy, memory)
    try:
        for component in find_components(assessment, planner.stuck, policy.spread.act_on):
            planner.consider(component)
        planner.look_ahead()
    finally:
        forget()
    return planner.plan()


class _Planner:
    """Collects the plan, component by component, over one ledger of budgets."""

    def __init__(self, view: View, assessment: Assessment, policy: Policy, memory: Memory) -> None:
        self._view = view
        self._policy = policy
        self._memory = memory
        self._misses = {miss.group: miss.times for miss in memory.failed_predictions}
        self._spares = {spare.group: spare.goal for spare in memory.extra_evictions}
        self._moving = {move.group for move in memory.in_flight}
        self._now: datetime = view.snapshot.taken_at
        ledger = BudgetLedger(view.snapshot, policy.budgets, memory, assessment.pod_groups)
        self._ledger = ledger
        self._rules = ProblemBuilder(view, policy, ledger, _avoided(assessment.pod_groups))
        self._evictions: list[Eviction] = []
        self._waiting: list[Waiting] = []
        self._groups: list[ComponentPlan] = []
        self._refusals: list[PlanRefusal] = []
        self._steps = 0
        self._foresight = SearchBudget(MOST_FORESIGHT)
        self._haste = SearchBudget(MOST_HASTE)
        self._later: list[tuple[Component, tuple[SingleClassProblem, Decision] | None]] = []
        """What needs looking ahead, and what was found without."""
        self._moves = SearchBudget(MOST_MOVES)
        self.stuck = stuck_pods(view)

    def plan(self) -> Plan:
        return Plan(
            made_at=self._now,
            expires_at=self._now + self._policy.plan_ttl,
            policy_hash=self._policy.hash,
            evictions=tuple(self._evictions),
            waiting=tuple(self._waiting),
            groups=tuple(self._groups),
            refusals=tuple(self._refusals),
        )

    def consider(self, component: Component) -> None:
        """Plan for a component; one for which that takes looking ahead on the real nodes comes later."""
        if not needs_repair(component, self._policy.spread.act_on, self.stuck):
            not_acted = Refusal(Reason.EXCLUDED, "spread.actOn does not list what is violated")
            self._leave(component, Decision(refusal=not_acted))
            return
        problem = self._rules.problem(component)
        if isinstance(problem, Refusal):
            self._leave(component, Decision(refusal=problem))
        elif isinstance(problem, MultiClassProblem):
            self._later.append((component, None))
        else:
            none = SearchBudget(0)
            verdict = decide_single_class(
                problem, self._view, self._known(component, none), partial(self._room, problem)
            )
            if none.cut:
                self._later.append((component, (problem, verdict)))
            else:
                self._conclude(problem, verdict)

    def look_ahead(self) -> None:
        """Plan for those that come later.

        What all of them may cost is bounded. Where that is not enough for all, others come first in the next minute.
        """
        many = max(1, len(self._later))
        share = min(max(MOST_FORESIGHT // many, LEAST_FORESIGHT), COMPONENT_FORESIGHT)
        first = (
            int(self._now.timestamp() // 60) * (MOST_FORESIGHT // share) % many if share * many > MOST_FORESIGHT else 0
        )
        for component, found in (*self._later[first:], *self._later[:first]):
            if found is not None and not found[1].victims and self._foresight.left <= 0:
                self._conclude(*found)
                continue
            # Made anew: others may have taken room meanwhile.
            problem = self._rules.problem(component)
            known = self._known(component, self._foresight.part(share))
            assert not isinstance(problem, Refusal), "what depends on room that was taken is no refusal"
            if isinstance(problem, MultiClassProblem):
                self._conclude(problem, decide_multi_class(problem, self._view, known))
            else:
                self._conclude(problem, decide_single_class(problem, self._view, known, partial(self._room, problem)))

    def _known(self, component: Component, foresight: SearchBudget) -> ComponentContext:
        name = component.name
        return ComponentContext(
            spare_goal=self._spares.get(name),
            failed_predictions=self._misses.get(name, 0),
            moving=name in self._moving,
            effort=foresight,
            haste=self._haste,
            moves=self._moves,
        )

    def _conclude(self, problem: SingleClassProblem | MultiClassProblem, verdict: Decision) -> None:
        for pod, member, refusal in problem.sorted.refused:
            self._refusals.append(
                PlanRefusal(workload=member.reference, pod=pod.name, reason=refusal.reason, message=refusal.message)
            )
        if verdict.victims:
            self._take(problem, verdict)
        else:
            self._leave(problem.component, verdict)

    def _room(self, problem: SingleClassProblem) -> int:
        """Return how many pods the budgets ever let be out at once, of the owner that has the least room."""
        of_owner = {each.member.reference: each for each in problem.victims}
        return min((self._ledger.most(each.member, each.pod) for each in of_owner.values()), default=0)

    def _leave(self, component: Component, verdict: Decision) -> None:
        refusal = verdict.refusal
        assert refusal is not None, "what is left alone says why"
        self._groups.append(_group_plan(component, verdict, refusal, lambda: current_counts(component)))
        self._refusals += [
            PlanRefusal(workload=each, pod=None, reason=refusal.reason, message=refusal.message)
            for each in component.workloads
        ]

    def _take(self, problem: SingleClassProblem | MultiClassProblem, verdict: Decision) -> None:
        """Let the budgets cut a step, and note what waits."""
        component, victims = problem.component, verdict.victims
        self._steps += 1
        repair = self._repair(problem, verdict)
        allowed, blocked = self._granted(victims)
        if allowed < verdict.needed or not self._room_to_follow(verdict, allowed):
            for victim in victims[:allowed]:
                self._ledger.give_back(victim.pod, victim.member)
            blocked = self._too_large(max(verdict.needed, verdict.out), victims[0], blocked)
            allowed = 0
        for victim in victims[:allowed]:
            self._evictions.append(Eviction(repair=repair, pod=victim.pod, workload=victim.member.reference))
        if allowed:
            for reception, sample in _receptions(problem, victims[:allowed]):
                self._rules.rooms.charge(reception, sample, 1 if isinstance(problem, MultiClassProblem) else allowed)
        else:
            self._steps -= 1
        if blocked is not None:
            reason, message = blocked.reason, blocked.message
            if reason is Reason.GROUP_IN_FLIGHT and repair.cause is Cause.PLACEMENT_DEADLOCK:
                message += "; the pod that waits is one of them: with one more allowed it would be freed"
            for victim in victims[allowed:]:
                eviction = Eviction(repair=repair, pod=victim.pod, workload=victim.member.reference)
                self._waiting.append(Waiting(eviction=eviction, reason=reason, message=message))
        outlook = _outlook(problem, verdict)
        self._groups.append(_group_plan(component, verdict, blocked or verdict.refusal, outlook))

    def _repair(self, problem: SingleClassProblem | MultiClassProblem, verdict: Decision) -> Repair:
        component = problem.component
        cause = _cause(component, problem.requirements)
        return Repair(
            step=self._steps,
            group=component.name,
            cause=cause,
            needed=verdict.needed,
            forced=verdict.forced,
            spare=verdict.spare,
            goal=verdict.evictions - len(verdict.victims),
            lasting=self._lasting(component, cause),
            foresee=_foresee(problem, verdict, self._view),
            explain=_sentence(problem.requirements),
        )

    def _lasting(self, component: Component, cause: Cause) -> timedelta:
        """Return how long what is repaired must have lasted."""
        if cause is not Cause.SHARE_LIMIT_VIOLATED:
            return self._policy.spread.for_
        return min(limit.for_ for limit in component.limits if limit.state is not State.SATISFIED)

    def _granted(self, victims: Sequence[Victim]) -> tuple[int, Refusal | None]:
        """Spend the budgets for a prefix of the victims; return its length, and what stops the next one."""
        for allowed, victim in enumerate(victims):
            blocked = self._ledger.blocked(victim.pod, victim.member)
            if blocked is not None:
                return allowed, blocked
            self._ledger.take(victim.pod, victim.member)
        return len(victims), None

    def _room_to_follow(self, verdict: Decision, allowed: int) -> bool:
        """Say whether the budgets have room for what may have to follow where a replacement is stuck."""
        first, taken = verdict.victims[0], 0
        while allowed + taken < verdict.out and self._ledger.blocked(first.pod, first.member) is None:
            self._ledger.take(first.pod, first.member)
            taken += 1
        for _ in range(taken):
            self._ledger.give_back(first.pod, first.member)
        return allowed + taken >= verdict.out

    def _too_large(self, needed: int, victim: Victim, blocked: Refusal | None) -> Refusal:
        most = self._ledger.most(victim.member, victim.pod)
        if needed > most:
            return Refusal(
                Reason.STEP_EXCEEDS_BUDGET,
                f"{needed} must be out at once, the budgets of {victim.member.reference} never allow over {most}",
            )
        room = f"{needed} may have to be out at once, and the budgets have room for fewer just now"
        return blocked or Refusal(Reason.BLOCKED_BY_BUDGET, room)


def _avoided(gathered: Sequence[LimitGroup]) -> frozenset[str]:
    """Return the UIDs of the pods that the policy's groups want to go last."""
    return frozenset(
        pod.uid
        for each in gathered
        if each.group.avoid is not None
        for pod in each.pods
        if each.group.avoid.compiled.matches(pod.labels)
    )


def _group_plan(
    component: Component, verdict: Decision, refusal: Refusal | None, outlook: Callable[[], Counts]
) -> ComponentPlan:
    # A step that will never have room is none: nothing leads there.
    never = refusal is not None and refusal.reason is Reason.STEP_EXCEEDS_BUDGET
    return ComponentPlan(
        component=component,
        state=State.UNFIXABLE if never else verdict.state,
        reason=refusal.reason if refusal else None,
        message=refusal.message if refusal else "",
        evictions=verdict.evictions,
        lower_bound=verdict.lower_bound,
        optimal=verdict.optimal,
        outlook=outlook,
    )


def _cause(component: Component, demands: Sequence[Requirement]) -> Cause:
    for each in demands:
        if not isinstance(each.source, EvaluatedLimit) and each.source.counts.violated:
            return Cause.SKEW_VIOLATED
    if any(limit.state is not State.SATISFIED for limit in component.limits):
        return Cause.SHARE_LIMIT_VIOLATED
    return Cause.PLACEMENT_DEADLOCK


def _receptions(
    problem: SingleClassProblem | MultiClassProblem, victims: Sequence[Victim]
) -> list[tuple[frozenset[str], Pod]]:
    if isinstance(problem, SingleClassProblem):
        return [(problem.reception.nodes, problem.sample)]
    kinds = [problem.classes[problem.class_of(victim.pod)] for victim in victims]
    return [(kind.reception.nodes, kind.sample) for kind in kinds]


def _outlook(problem: SingleClassProblem | MultiClassProblem, verdict: Decision) -> Callable[[], Counts]:
    """Say how the counts will be when a step has landed well, worked out when somebody asks."""
    if isinstance(problem, MultiClassProblem) or verdict.landing is not None:
        return lambda: current_counts(problem.component)
    return lambda: expected_counts(problem.layout, _going(verdict), problem.pending + len(verdict.victims))


def _going(verdict: Decision) -> Mapping[str, int]:
    return Counter(victim.pod.node or "" for victim in verdict.victims)


def _foresee(
    problem: SingleClassProblem | MultiClassProblem, verdict: Decision, view: View
) -> Callable[[], tuple[Target, ...]]:
    if isinstance(problem, SingleClassProblem) and verdict.landing is None:
        return lambda: expected_targets(problem.layout, _going(verdict), problem.pending + len(verdict.victims))
    landing, keys = verdict.landing or frozenset(), dict.fromkeys(each.key for each in problem.requirements)
    return lambda: targets_on({key: view.nodes.values(key) for key in keys}, landing)


def _sentence(demands: Sequence[Requirement]) -> Callable[[Pod], str]:
    """Say in a sentence why a pod of this node goes: what its domains hold against what they may."""

    def say(pod: Pod) -> str:
        parts = []
        for each in demands:
            value = each.domain.get(pod.node or "")
            if each.violated and value is not None:
                held, least = each.by_domain().get(value, 0), each.emptiest
                parts.append(f"{each.key} {value} holds {held}, the emptiest {least}, {each.text}")
        return "; ".join(parts) or "a pod that waits finds a place once it has gone"

    return say
