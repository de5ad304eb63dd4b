"""The plan: for every component the proven minimum, the next safe step, what waits for what, and why not more."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from rebalancer.assessment.judgement import Assessment
from rebalancer.assessment.limits import JudgedLimit
from rebalancer.assessment.pod_groups import GatheredGroup
from rebalancer.model.moves import Memory, Target
from rebalancer.model.pods import Pod
from rebalancer.model.verdicts import Cause, Reason, State
from rebalancer.planning.answers import forget
from rebalancer.planning.budgets import Ledger
from rebalancer.planning.candidates import Victim
from rebalancer.planning.components import Component, components, counts_now, wanted
from rebalancer.planning.demands import Demand
from rebalancer.planning.eligibility import Refusal
from rebalancer.planning.forecast import counts_after, landed, targets
from rebalancer.planning.mixture import Mixed
from rebalancer.planning.plans import Counts, Eviction, GroupPlan, Plan, Refused, Repair, Waiting
from rebalancer.planning.problem import Rules, Uniform
from rebalancer.planning.reach import Effort
from rebalancer.planning.stuck import stuck_pods
from rebalancer.planning.verdict import (
    COMPONENT_FORESIGHT,
    LEAST_FORESIGHT,
    MOST_FORESIGHT,
    MOST_HASTE,
    MOST_MOVES,
    Circumstances,
    Verdict,
    of_mixed,
    of_uniform,
)
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View


def plan(view: View, assessment: Assessment, policy: Policy, memory: Memory) -> Plan:
    """Plan for every component that something is to be repaired in, the worst first. Same input, same plan."""
    planner = _Planner(view, assessment, policy, memory)
    try:
        for component in components(assessment, planner.stuck, policy.spread.act_on):
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
        self._misses = {miss.group: miss.times for miss in memory.misses}
        self._spares = {spare.group: spare.goal for spare in memory.spares}
        self._moving = {move.group for move in memory.in_flight}
        self._now: datetime = view.snapshot.taken_at
        ledger = Ledger(view.snapshot, policy.budgets, memory, assessment.pod_groups)
        self._ledger = ledger
        self._rules = Rules(view, policy, ledger, _avoided(assessment.pod_groups))
        self._evictions: list[Eviction] = []
        self._waiting: list[Waiting] = []
        self._groups: list[GroupPlan] = []
        self._refusals: list[Refused] = []
        self._steps = 0
        self._foresight = Effort(MOST_FORESIGHT)
        self._haste = Effort(MOST_HASTE)
        self._later: list[tuple[Component, tuple[Uniform, Verdict] | None]] = []
        """What needs looking ahead, and what was found without."""
        self._moves = Effort(MOST_MOVES)
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
        if not wanted(component, self._policy.spread.act_on, self.stuck):
            not_acted = Refusal(Reason.EXCLUDED, "spread.actOn does not list what is violated")
            self._leave(component, Verdict(refusal=not_acted))
            return
        problem = self._rules.problem(component)
        if isinstance(problem, Refusal):
            self._leave(component, Verdict(refusal=problem))
        elif isinstance(problem, Mixed):
            self._later.append((component, None))
        else:
            none = Effort(0)
            verdict = of_uniform(problem, self._view, self._known(component, none), partial(self._room, problem))
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
            if isinstance(problem, Mixed):
                self._conclude(problem, of_mixed(problem, self._view, known))
            else:
                self._conclude(problem, of_uniform(problem, self._view, known, partial(self._room, problem)))

    def _known(self, component: Component, foresight: Effort) -> Circumstances:
        name = component.name
        return Circumstances(
            spare_goal=self._spares.get(name),
            misses=self._misses.get(name, 0),
            moving=name in self._moving,
            effort=foresight,
            haste=self._haste,
            moves=self._moves,
        )

    def _conclude(self, problem: Uniform | Mixed, verdict: Verdict) -> None:
        for pod, member, refusal in problem.sorted.refused:
            self._refusals.append(
                Refused(workload=member.reference, pod=pod.name, reason=refusal.reason, message=refusal.message)
            )
        if verdict.victims:
            self._take(problem, verdict)
        else:
            self._leave(problem.component, verdict)

    def _room(self, problem: Uniform) -> int:
        """Return how many pods the budgets ever let be out at once, of the owner that has the least room."""
        of_owner = {each.member.reference: each for each in problem.victims}
        return min((self._ledger.most(each.member, each.pod) for each in of_owner.values()), default=0)

    def _leave(self, component: Component, verdict: Verdict) -> None:
        refusal = verdict.refusal
        assert refusal is not None, "what is left alone says why"
        self._groups.append(_group_plan(component, verdict, refusal, lambda: counts_now(component)))
        self._refusals += [
            Refused(workload=each, pod=None, reason=refusal.reason, message=refusal.message)
            for each in component.workloads
        ]

    def _take(self, problem: Uniform | Mixed, verdict: Verdict) -> None:
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
                self._rules.rooms.charge(reception, sample, 1 if isinstance(problem, Mixed) else allowed)
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

    def _repair(self, problem: Uniform | Mixed, verdict: Verdict) -> Repair:
        component = problem.component
        cause = _cause(component, problem.demands)
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
            explain=_sentence(problem.demands),
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

    def _room_to_follow(self, verdict: Verdict, allowed: int) -> bool:
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


def _avoided(gathered: Sequence[GatheredGroup]) -> frozenset[str]:
    """Return the UIDs of the pods that the policy's groups want to go last."""
    return frozenset(
        pod.uid
        for each in gathered
        if each.group.avoid is not None
        for pod in each.pods
        if each.group.avoid.compiled.matches(pod.labels)
    )


def _group_plan(
    component: Component, verdict: Verdict, refusal: Refusal | None, outlook: Callable[[], Counts]
) -> GroupPlan:
    # A step that will never have room is none: nothing leads there.
    never = refusal is not None and refusal.reason is Reason.STEP_EXCEEDS_BUDGET
    return GroupPlan(
        component=component,
        state=State.UNFIXABLE if never else verdict.state,
        reason=refusal.reason if refusal else None,
        message=refusal.message if refusal else "",
        evictions=verdict.evictions,
        lower_bound=verdict.lower_bound,
        optimal=verdict.optimal,
        outlook=outlook,
    )


def _cause(component: Component, demands: Sequence[Demand]) -> Cause:
    for each in demands:
        if not isinstance(each.source, JudgedLimit) and each.source.counts.violated:
            return Cause.SKEW_VIOLATED
    if any(limit.state is not State.SATISFIED for limit in component.limits):
        return Cause.SHARE_LIMIT_VIOLATED
    return Cause.PLACEMENT_DEADLOCK


def _receptions(problem: Uniform | Mixed, victims: Sequence[Victim]) -> list[tuple[frozenset[str], Pod]]:
    if isinstance(problem, Uniform):
        return [(problem.reception.nodes, problem.sample)]
    kinds = [problem.kinds[problem.kind_of(victim.pod)] for victim in victims]
    return [(kind.reception.nodes, kind.sample) for kind in kinds]


def _outlook(problem: Uniform | Mixed, verdict: Verdict) -> Callable[[], Counts]:
    """Say how the counts will be when a step has landed well, worked out when somebody asks."""
    if isinstance(problem, Mixed) or verdict.landing is not None:
        return lambda: counts_now(problem.component)
    return lambda: counts_after(problem.layout, _going(verdict), problem.pending + len(verdict.victims))


def _going(verdict: Verdict) -> Mapping[str, int]:
    return Counter(victim.pod.node or "" for victim in verdict.victims)


def _foresee(problem: Uniform | Mixed, verdict: Verdict, view: View) -> Callable[[], tuple[Target, ...]]:
    if isinstance(problem, Uniform) and verdict.landing is None:
        return lambda: targets(problem.layout, _going(verdict), problem.pending + len(verdict.victims))
    landing, keys = verdict.landing or frozenset(), dict.fromkeys(each.key for each in problem.demands)
    return lambda: landed({key: view.nodes.values(key) for key in keys}, landing)


def _sentence(demands: Sequence[Demand]) -> Callable[[Pod], str]:
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
