"""The plan: for every violated group the proven minimum, the next safe step, what waits for what, and why not more."""

from datetime import datetime

from rebalancer.assessment.groups import Group
from rebalancer.assessment.judgement import Assessment, JudgedGroup
from rebalancer.model.moves import Memory
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.verdicts import Cause, Reason, State
from rebalancer.planning.budgets import Ledger
from rebalancer.planning.distance import distance
from rebalancer.planning.eligibility import Refusal
from rebalancer.planning.forecast import counts_after, targets
from rebalancer.planning.layout import Layout, Site, Victim
from rebalancer.planning.obstacles import obstacle
from rebalancer.planning.plans import Eviction, GroupPlan, Plan, Refused, Waiting
from rebalancer.planning.problem import Problem, Rules
from rebalancer.planning.reach import WIDEST, Step, forget, next_step
from rebalancer.planning.reach import State as Standing
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View


def plan(view: View, assessment: Assessment, policy: Policy, memory: Memory) -> Plan:
    """Plan for every violated group, the worst first. Same input, same plan."""
    planner = _Planner(view, policy, memory)
    for judged in sorted(assessment.violated, key=_urgency):
        planner.consider(judged)
    forget()
    return planner.plan()


def _urgency(judged: JudgedGroup) -> tuple[int, str]:
    worst = max(each.counts.skew - each.constraint.max_skew for each in judged.hard)
    return -worst, judged.group.name


class _Planner:
    """Collects the plan, group by group, over one ledger of budgets."""

    def __init__(self, view: View, policy: Policy, memory: Memory) -> None:
        self._policy = policy
        self._now: datetime = view.snapshot.taken_at
        self._ledger = Ledger(view.snapshot, policy.budgets, memory.in_flight)
        self._rules = Rules(view, policy, self._ledger)
        self._evictions: list[Eviction] = []
        self._waiting: list[Waiting] = []
        self._groups: list[GroupPlan] = []
        self._refusals: list[Refused] = []

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

    def consider(self, judged: JudgedGroup) -> None:
        if WhenUnsatisfiable.DO_NOT_SCHEDULE not in self._policy.spread.act_on:
            self._leave(judged, State.VIOLATED, Refusal(Reason.EXCLUDED, "spread.actOn lists nothing that is repaired"))
            return
        problem = self._rules.problem(judged)
        if isinstance(problem, Refusal):
            self._leave(judged, State.VIOLATED, problem)
            return
        for pod, member, refusal in problem.refused.values():
            self._refusals.append(
                Refused(workload=member.reference, pod=pod.name, reason=refusal.reason, message=refusal.message)
            )
        layout = problem.layout
        fewest = distance(layout.root, layout.bounds, problem.pending)
        if fewest is None:
            state, refusal = obstacle(problem)
            self._leave(judged, state, refusal)
            return
        overlapping = self._overlapping(judged.group, problem)
        if overlapping is not None:
            self._leave(judged, State.VIOLATED, overlapping, fewest)
            return
        step = next_step(Standing(layout.root, problem.pending), layout.bounds, min(fewest, WIDEST))
        if step.victims:
            self._take(judged, problem, step, fewest)
        elif fewest:
            self._leave(judged, State.UNFIXABLE, _unforced(step), fewest)
        else:
            waits = f"{problem.pending} pods without a node will bring it right"
            self._leave(judged, State.VIOLATED, Refusal(Reason.GROUP_IN_FLIGHT, waits))

    def _overlapping(self, group: Group, problem: Problem) -> Refusal | None:
        """Say whether an earlier group's eviction in this plan changes what this group counts."""
        for eviction in self._evictions:
            pod = eviction.pod
            if pod.namespace == group.namespace and problem.selector.matches(pod.labels):
                return Refusal(
                    Reason.GROUP_IN_FLIGHT, f"the move of pod {pod.name} changes its counts; planned anew after"
                )
        return None

    def _leave(self, judged: JudgedGroup, state: State, refusal: Refusal, evictions: int = 0) -> None:
        self._groups.append(
            GroupPlan(
                judged=judged,
                state=state,
                reason=refusal.reason,
                message=refusal.message,
                evictions=evictions,
                lower_bound=evictions,
                optimal=bool(evictions),
                after={each.constraint.key: dict(each.counts.by_domain) for each in judged.hard},
            )
        )
        self._refusals += [
            Refused(workload=each, pod=None, reason=refusal.reason, message=refusal.message)
            for each in judged.group.workloads
        ]

    def _take(self, judged: JudgedGroup, problem: Problem, step: Step, fewest: int) -> None:
        """Name the victims of a step, let the budgets cut it, and note what waits."""
        layout = problem.layout
        chosen: list[tuple[Site, Victim]] = []
        for path in step.victims:
            chosen.append(layout.best(path))
            layout.mark(*chosen[-1])
        foreseen = targets(layout, problem.pending + len(chosen))
        number = 1 + max((each.step for each in self._evictions), default=0)
        named = [
            Eviction(
                step=number,
                group=judged.group.name,
                pod=victim.pod,
                workload=victim.member.reference,
                owner_uid=victim.pod.owner.uid if victim.pod.owner else "",
                cause=Cause.SKEW_VIOLATED,
                message=_sentence(judged, site, layout),
                targets=foreseen,
                needed=step.needed,
            )
            for site, victim in chosen
        ]
        allowed, blocked = self._granted(chosen)
        if allowed < step.needed:
            for _, victim in chosen[:allowed]:
                self._ledger.give_back(victim.pod, victim.member)
            blocked = self._too_large(step, chosen[0][1], blocked)
            allowed = 0
        going = named[:allowed]
        self._evictions += going
        if going:
            self._rules.rooms.charge(problem.receiving, problem.sample, len(going))
        for eviction in named[allowed:]:
            assert blocked is not None
            self._waiting.append(Waiting(eviction=eviction, reason=blocked.reason, message=blocked.message))
        self._groups.append(
            GroupPlan(
                judged=judged,
                # A step that will never have room is none: nothing leads there.
                state=State.UNFIXABLE if blocked and blocked.reason is Reason.STEP_EXCEEDS_BUDGET else State.VIOLATED,
                reason=blocked.reason if blocked else None,
                message=blocked.message if blocked else "",
                evictions=fewest,
                lower_bound=fewest,
                optimal=True,
                after=counts_after(layout, problem.pending + len(named)),
            )
        )

    def _granted(self, chosen: list[tuple[Site, Victim]]) -> tuple[int, Refusal | None]:
        """Spend the budgets for a prefix of the victims; return its length, and what stops the next one."""
        for allowed, (_, victim) in enumerate(chosen):
            blocked = self._ledger.blocked(victim.pod, victim.member)
            if blocked is not None:
                return allowed, blocked
            self._ledger.take(victim.pod, victim.member)
        return len(chosen), None

    def _too_large(self, step: Step, victim: Victim, blocked: Refusal | None) -> Refusal:
        most = self._ledger.most(victim.member)
        if step.needed > most:
            return Refusal(
                Reason.STEP_EXCEEDS_BUDGET,
                f"{step.needed} must be out at once, the budgets of {victim.member.reference} never allow over {most}",
            )
        assert blocked is not None
        return blocked


def _unforced(step: Step) -> Refusal:
    if step.complete:
        return Refusal(
            Reason.NOT_FORCED, "no eviction was found after which the scheduler must bring it nearer to right"
        )
    return Refusal(Reason.NOT_FORCED, "too many ways for the scheduler to go: the search for a safe step was cut short")


def _sentence(judged: JudgedGroup, site: Site, layout: Layout) -> str:
    """Say in a sentence why a pod of this node goes: what its domains hold against what they may."""
    parts = []
    values = dict(zip(layout.keys, site.every, strict=True))
    for each in judged.hard:
        key, counts = each.constraint.key, each.counts
        if counts.violated and key in layout.keys:
            value = values[key]
            held = counts.by_domain.filled.get(value, 0)
            parts.append(
                f"{key} {value} holds {held}, the emptiest {counts.minimum}, maxSkew is {each.constraint.max_skew}"
            )
    return "; ".join(parts)
