"""Make the plan: for every component the proven minimum, the next safe step, and why further evictions wait."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.constraint_costs import TooCostly
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.affinity import TermKind
from rebalancer.model.facts import Refusal, find_last
from rebalancer.model.moves import MAX_FAILED_PREDICTIONS, PlanningMemory, Reference
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.planning.adding_first import AdditionPlanner
from rebalancer.planning.anti_affinity.unplanned import NobodyRecreates, NotModelledApart, TermNotActedOn
from rebalancer.planning.by_preemption import PreemptionPlanner
from rebalancer.planning.case import ComponentContext, Decision
from rebalancer.planning.decision import FailedPredictions, PredictionUnverified, StepSearchLimit, decide
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.diagnosis.relaxation import Relaxations
from rebalancer.planning.eviction import Eviction, Outlook, Repair, ViolatedRequirement, ViolatedTerm
from rebalancer.planning.fates import Fate, Fates, Goes, Never, Waits
from rebalancer.planning.formulation import ProblemBuilder, only_class
from rebalancer.planning.plan import ComponentPlan, Plan, PlanRefusal
from rebalancer.planning.preferred import find_better_place
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.problem.protocol import Problem, Step
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger, GroupUnavailable, KeptPods, StepExceedsBudget
from rebalancer.planning.scope.capacity import CapacityIndex
from rebalancer.planning.scope.components import (
    Component,
    Counts,
    current_counts,
    find_components,
    find_joined,
    find_preferring,
    needs_repair,
    stuck_pods,
)
from rebalancer.planning.scope.evicted import EvictedWorkloads
from rebalancer.planning.scope.lasting import RecentChanges
from rebalancer.planning.scope.leaving_nodes import LeavingNodes
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.settling import SettlingNodes
from rebalancer.planning.scope.unable_nodes import refuse_unable
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchBudget, SearchLimits
from rebalancer.planning.search.shares import NamespaceBudgets
from rebalancer.planning.within_budgets import decide_within_budgets
from rebalancer.policy import Permission, Policy
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View


class NotActedOn(Refusal):
    """The policy's spread.actOn does not list the violated kind of constraint."""

    reason = Reason.EXCLUDED

    def __str__(self) -> str:
        return "spread.actOn does not list the violated constraints"


def plan(
    view: View,
    assessment: Assessment,
    policy: Policy,
    memory: PlanningMemory,
    limits: SearchLimits | None = None,
    *,
    only: Collection[Reference] | None = None,
) -> Plan:
    """Plan for every component in which something is to be repaired, the worst first. Same input, same plan.

    With `only`, plan only for components to which some of these workloads belong.
    """
    stuck = stuck_pods(view)
    apart = TermKind.REQUIRED in policy.anti_affinity.act_on
    components = find_components(assessment, stuck, policy.spread.act_on, only, apart=apart)
    namespaces = {component.namespace for component in components}
    planner = _Planner(view, assessment, policy, memory, SearchCache(limits), namespaces)
    for component in _in_turn(components, view, (limits or SearchLimits()).cells_of_namespace):
        planner.consider(component, stuck)
    planner.look_ahead()
    planner.preempt()
    if TermKind.PREFERRED in policy.anti_affinity.act_on:
        repaired = components if only is None else find_components(assessment, stuck, policy.spread.act_on, apart=apart)
        planner.prefer(find_preferring(assessment, repaired, only, apart=apart))
    planner.plan_held()
    planner.leave_costly(assessment.too_costly, only)
    planner.leave_terms(assessment.anti_affinity, only, apart=apart)
    return planner.plan()


def _in_turn(components: Sequence[Component], view: View, share: int) -> Sequence[Component]:
    """Return the components; a namespace's large components take turns each minute if a plan may not hold them all.

    All other components keep their places.
    """
    heavy: defaultdict[str, list[int]] = defaultdict(list)
    for position, component in enumerate(components):
        if len(component.members) > 1 and only_class(component.members) is None:
            heavy[component.namespace].append(position)
    ordered = list(components)
    for positions in heavy.values():
        cells = sum(len(components[position].members) for position in positions) * len(view.nodes.names)
        if cells > share:
            first = view.clock.minute() % len(positions)
            for position, taken in zip(positions, (*positions[first:], *positions[:first]), strict=True):
                ordered[position] = components[taken]
    return ordered


def find_relaxations(plan: Plan) -> Relaxations:
    """Return the smallest relaxation of every infeasible component of several pod classes, by the component's name.

    Each relaxation costs several integer programs, once for a plan. The controller and the commands that show
    relaxations read it.
    """
    return {group.name: group.relaxable.relaxation for group in plan.components if group.relaxable is not None}


class _Planner:
    """Collects the plan, component by component, with one budget ledger and one capacity index."""

    def __init__(
        self,
        view: View,
        assessment: Assessment,
        policy: Policy,
        memory: PlanningMemory,
        cache: SearchCache,
        namespaces: Collection[str],
    ) -> None:
        self._view = view
        self._policy = policy
        self._limits = cache.limits
        self._failed = {failed.group: failed.times for failed in memory.failed_predictions}
        # If the extra eviction was not carried out, it may still be used for the same pod.
        unused = memory.unexecuted_pods
        self._extras = {extra.group: extra.goal for extra in memory.extra_evictions if extra.uid not in unused}
        self._moving = {move.group for move in memory.in_flight}
        self._now: datetime = view.snapshot.taken_at
        self._ledger = BudgetLedger(view, policy, memory, assessment.pod_groups)
        self._adding = AdditionPlanner(view, policy, self._ledger)
        self._capacities = CapacityIndex(view)
        limits, allows = cache.limits, policy.eligibility.preemption is Permission.ALLOW
        if allows:
            self._capacities.charge_preempted()
        arriving = frozenset([move.replacement for move in memory.in_flight if move.replacement])
        avoided = _avoided(assessment.pod_groups)
        self._builder = ProblemBuilder(
            view, policy, self._ledger, self._capacities, cache, avoided, arriving, namespaces
        )
        self._leaving = LeavingNodes(view)
        self._settling = SettlingNodes(view, policy, memory, assessment)
        self._recent = RecentChanges(view, policy, memory)
        self._evicted = EvictedWorkloads(view, assessment.evicted_by_others)
        self._fates: list[Fate] = []
        self._going = 0
        self._components: list[ComponentPlan] = []
        self._refusals: list[PlanRefusal] = []
        self._steps = 0
        self._lookahead = NamespaceBudgets(SearchBudget(limits.lookahead_nodes_of_plan), namespaces)
        self._quick = NamespaceBudgets(SearchBudget(limits.quick_nodes_of_plan), namespaces)
        self._contingent = NamespaceBudgets(SearchBudget(limits.contingent_states_of_plan), namespaces)
        self._later: list[_Postponed] = []
        self._waiting_for_nodes: list[tuple[Component, Refusal]] = []
        self._closed: list[_Closed] = []
        self._preemption = self._plan_preemption(assessment, memory, allows=allows)

    def _plan_preemption(self, assessment: Assessment, memory: PlanningMemory, *, allows: bool) -> PreemptionPlanner:
        """Return the planner of repairs by preemption; if the policy forbids them, it says what they would take."""
        limits = self._limits
        return PreemptionPlanner(
            self._builder,
            assessment,
            memory,
            self._ledger,
            self._capacities,
            self._evicted,
            self._leaving,
            SearchBudget(limits.preemption_nodes_of_plan if allows else limits.refused_preemption_nodes_of_plan),
        )

    def plan(self) -> Plan:
        return Plan(
            made_at=self._now,
            expires_at=self._now + self._policy.plan_ttl,
            policy_hash=self._policy.hash,
            fates=Fates(tuple(self._fates)),
            components=tuple(self._components),
            refusals=tuple(self._refusals),
        )

    def consider(self, component: Component, stuck: frozenset[str]) -> None:
        """Plan for a component; a component that needs lookahead on the real nodes is planned later."""
        if not needs_repair(component, self._policy.spread.act_on, stuck):
            self._leave(component, Decision(refusal=NotActedOn()))
            return
        held = self._recent.refuse(component, stuck)
        if held is not None:
            self._waiting_for_nodes.append((component, held))
            return
        problem = self._builder.problem(component)
        if problem is None:
            return
        if isinstance(problem, Refusal):
            self._leave(component, Decision(refusal=problem))
        elif problem.always_looks_ahead:
            self._later.append(_Postponed(problem, None, self._going))
        else:
            decision = self._decide(problem, None)
            if decision.needs_lookahead:
                self._later.append(_Postponed(problem, decision, self._going))
            else:
                self._conclude(problem, decision)

    def look_ahead(self) -> None:
        """Plan for the components that need lookahead.

        They share one budget. If that is not enough for all, the plan of the next minute begins with other components.
        """
        limits, many = self._limits, max(1, len(self._later))
        whole = limits.lookahead_nodes_of_plan
        share = min(max(whole // many, limits.lookahead_nodes_of_component_least), limits.lookahead_nodes_of_component)
        first = self._view.clock.minute() * (whole // share) % many if share * many > whole else 0
        for problem, without, evictions in (*self._later[first:], *self._later[:first]):
            if without is not None and without.step is None and self._lookahead.left <= 0:
                self._conclude(problem, without)
            else:
                now = self._build_again(problem) if evictions != self._going else problem
                budget = self._lookahead.of(now.component.namespace)
                self._conclude(now, self._decide(now, budget.part(share)))

    def plan_held(self) -> None:
        """Plan for components that wait because a node has changed, after all other components.

        This order leaves the search budgets to the other components. A waiting component gets no lookahead.
        """
        for component, held in self._waiting_for_nodes:
            problem = self._builder.problem(component)
            if problem is None or isinstance(problem, Refusal) or problem.always_looks_ahead:
                self._leave(component, Decision(refusal=held))
                continue
            decision = self._decide(problem, None)
            if decision.step is not None:
                self._take(problem, decision, decision.step, held)
            else:
                self._leave(component, Decision(refusal=held))

    def preempt(self) -> None:
        """Revise the decisions about components whose replacements no node takes, after all other planning.

        They share one budget: if the policy allows such repairs, the plan of the next minute begins with another
        component.
        """
        many, allows = len(self._closed), self._policy.eligibility.preemption is Permission.ALLOW
        first = self._view.clock.minute() % many if allows and many > 1 else 0
        for position, problem, before in (*self._closed[first:], *self._closed[:first]):
            after = self._preemption.revise(problem, before, self._going)
            if after is before:
                continue
            if after.step is not None:
                self._refusals = [one for one in self._refusals if one.refusal is not before.refusal]
                self._take(problem, after, after.step)
            else:
                self._refusals = [_with_refusal(one, before.refusal, after.refusal) for one in self._refusals]
                self._leave_component(problem.component, after)
            self._components[position] = self._components.pop()

    def prefer(self, components: Sequence[Component]) -> None:
        """Plan a move for each component if the move honours its preferred terms more.

        They share one budget, and each namespace has its part. If it is not enough for all, the plan of the next minute
        begins with other components.
        """
        limits, many = self._limits, max(1, len(components))
        namespaces = {component.namespace for component in components}
        shared = NamespaceBudgets(SearchBudget(limits.preferred_nodes_of_plan), namespaces)
        at_once = max(1, limits.preferred_nodes_of_plan // (2 * limits.lookahead_start))
        first = self._view.clock.minute() * at_once % many if many > at_once else 0
        for component in (*components[first:], *components[:first]):
            refusal = self._refuse_preferring(component)
            if refusal is not None:
                self._leave(component, Decision(refusal=refusal))
                continue
            problem = self._recent.refuse(component, frozenset()) or self._builder.problem(component)
            budget = shared.of(component.namespace)
            if isinstance(problem, MultiClassProblem) and budget.left > limits.lookahead_start:
                self._prefer(problem, budget)
            else:
                self._leave_unmoved(component, problem if isinstance(problem, Refusal) else StepSearchLimit())

    def _prefer(self, problem: MultiClassProblem, budget: SearchBudget) -> None:
        """Plan a move for a component, if a move is predicted to honour its preferred terms more."""
        decision = decide_within_budgets(
            problem, lambda narrowed: find_better_place(narrowed, self._view, budget, self._limits), self._ledger
        )
        if decision.step is not None:
            self._take(problem, decision, decision.step)
        else:
            assert decision.refusal is not None, "a component without a step has a refusal"
            self._leave_unmoved(problem.component, decision.refusal)

    def _refuse_preferring(self, component: Component) -> Refusal | None:
        """Return why nothing is predicted for a component, for example because a move is under way."""
        if (ban := self._adding.find_eviction_ban(component)) is not None:
            return ban
        if component.name in self._moving:
            return PredictionUnverified()
        failed = self._failed.get(component.name, 0)
        return FailedPredictions(failed) if failed >= MAX_FAILED_PREDICTIONS else None

    def _leave_unmoved(self, component: Component, refusal: Refusal) -> None:
        """Record why preferred terms are not honoured more, without a refused component, since nothing is violated."""
        self._refuse(component.workloads, refusal)

    def leave_costly(self, left: Iterable[TooCostly], only: Collection[Reference] | None) -> None:
        """Record the workloads whose constraints are not evaluated, as their namespace's constraints take too much."""
        for refusal, workloads in left:
            self._refuse(workloads, refusal, only)

    def leave_terms(self, terms: Iterable[EvaluatedTerm], only: Collection[Reference] | None, *, apart: bool) -> None:
        """Record the workloads with violated terms that are not repaired; without `apart` no term is repaired."""
        for term in terms:
            if not term.violated or (apart and find_joined(term)):
                continue
            refusal = _explain_unplanned(term) if apart else TermNotActedOn(TermKind.REQUIRED)
            self._refuse(term.workloads, refusal, only)

    def _refuse(
        self, workloads: Iterable[Reference], refusal: Refusal, only: Collection[Reference] | None = None
    ) -> None:
        """Record why no pod of these workloads moves; with `only`, just for the workloads that it names."""
        self._refusals += [
            PlanRefusal(workload=workload, pod=None, refusal=refusal)
            for workload in workloads
            if only is None or workload in only
        ]

    def _build_again(self, problem: Problem) -> Problem:
        """Return the component's problem made anew: steps of other components have reserved capacity since."""
        built = self._builder.problem(problem.component)
        assert built is not None, "what is required of a component stays the same"
        assert not isinstance(built, Refusal), "reserved capacity does not refuse a component"
        return built

    def _decide(self, problem: Problem, lookahead: SearchBudget | None) -> Decision:
        name = problem.component.name
        context = ComponentContext(
            extra_goal=self._extras.get(name),
            failed_predictions=self._failed.get(name, 0),
            moving=name in self._moving,
            lookahead=lookahead,
            quick=self._quick.of(problem.component.namespace),
            contingent=self._contingent.of(problem.component.namespace),
        )

        def decide_for(problem: Problem) -> Decision:
            return decide(problem, self._view, context, self._ledger, self._limits)

        return self._adding.revise(problem, decide_within_budgets(problem, decide_for, self._ledger))

    def _conclude(self, problem: Problem, decision: Decision) -> None:
        for pod, member, refusal in problem.pods.refused:
            self._refusals.append(PlanRefusal(workload=member.reference, pod=pod.name, refusal=refusal))
        if decision.step is not None:
            self._take(problem, decision, decision.step)
        else:
            may_evict = self._adding.find_eviction_ban(problem.component) is None
            if may_evict and isinstance(problem, SingleClassProblem) and isinstance(decision.refusal, NodesTakeNoMore):
                self._closed.append(_Closed(len(self._components), problem, decision))
            self._leave(problem.component, decision)

    def _leave(self, component: Component, decision: Decision) -> None:
        self._refuse(component.workloads, self._leave_component(component, decision))

    def _leave_component(self, component: Component, decision: Decision) -> Refusal:
        """Record a component without a step; return why it has none."""
        refusal = decision.refusal
        assert refusal is not None, "a component without a step has a refusal"
        self._components.append(_component_plan(component, decision, refusal, Outlook(_Unchanged(component))))
        return refusal

    def _take(self, problem: Problem, decision: Decision, step: Step, held: Refusal | None = None) -> None:
        """Spend the budgets for a prefix of a step; record the evictions that wait for budgets or for a node.

        All evictions wait if the step is `held`.
        """
        component, victims = problem.component, step.victims
        outlook = Outlook(problem.outlook(step))
        obstacles = self._find_obstacles(problem, step, held)
        granted, first = 0, next(obstacles, None)
        if first is None and step.added:
            granted, blocked = len(victims), None  # in a surge no pod is missing in between
        elif first is None:
            granted, blocked = self._ledger.grant(victims, step.needed, step.concurrent)
        else:
            blocked = find_last(first, self._find_following(obstacles, step), self._now)
        self._steps += bool(granted)
        number = self._steps if granted else self._steps + 1
        repair = self._repair(problem, decision, number, outlook)
        evictions = [Eviction(repair=repair, pod=victim.pod, workload=victim.member.reference) for victim in victims]
        self._going += granted
        self._fates += map(Goes, evictions[:granted])
        for reservation in problem.reservations(victims[:granted]) if granted else ():
            self._capacities.charge(reservation.nodes, reservation.sample, reservation.pods)
        if blocked is not None:
            blocked = _with_kept(_with_pending(blocked, repair.cause), decision.kept)
            kept = Never if isinstance(blocked, StepExceedsBudget) else Waits
            self._fates += [kept(eviction, blocked) for eviction in evictions[granted:]]
        # If the first evictions go now, the repair is under way: the reason for waiting is attached to the later
        # evictions.
        refusal = decision.refusal if granted else blocked or decision.refusal
        planned = _component_plan(component, decision, refusal, outlook)
        self._components.append(structs.replace(planned, first=first) if first is not blocked else planned)

    def _find_following(self, obstacles: Iterator[Refusal], step: Step) -> Iterator[Refusal]:
        """Yield what else a step with an obstacle waits for: other obstacles and budgets. No budget is spent."""
        yield from obstacles
        if step.added:
            return
        refused = self._ledger.refuse(step.victims, step.needed, step.concurrent)
        if refused is not None:
            yield refused

    def _find_obstacles(self, problem: Problem, step: Step, held: Refusal | None) -> Iterator[Refusal]:
        """Yield why a step must wait: it is `held`, others evict its workload's pods, or unfit nodes may be chosen."""
        evicted = self._evicted.refuse(step.victims)
        yield from (one for one in (held, evicted) if one is not None)

        def find_landings(nodes: frozenset[str]) -> frozenset[str]:
            return problem.landings(step, nodes)

        keys = [requirement.key for requirement in problem.requirements]
        keys += [term.term.topology_key for term in problem.component.apart]
        leaving = self._leaving.refuse(keys, find_landings)
        if leaving is not None:
            yield leaving
        yield from self._settling.find_waits(problem.component, find_landings)
        preempting = frozenset(outcome.node for outcome in step.preempts)
        # A union with an empty set would copy; thousands of steps share one set of thousands of nodes.
        places = [
            (one.sample, one.nodes | preempting if preempting else one.nodes)
            for one in problem.reservations(step.victims)
        ]
        # The replacements keep the claims of the evicted pods.
        places += [(one.pod, self._view.nodes.names) for one in step.victims if one.pod.claims or one.pod.drivers]
        unable = refuse_unable(places, self._view, find_landings)
        if unable is not None:
            yield unable

    def _repair(self, problem: Problem, decision: Decision, number: int, outlook: Outlook) -> Repair:
        component, step = problem.component, decision.step
        assert step is not None, "a repair has a step"
        cause = _cause(component, problem.requirements)
        return Repair(
            step=number,
            group=component.name,
            cause=cause,
            needed=step.needed,
            forced=decision.forced,
            extra=decision.extra,
            goal=decision.evictions - len(step.victims),
            lasting=self._lasting(component, cause),
            outlook=outlook,
            violated=tuple(_violated(problem.requirements, step)),
            apart=tuple(_find_apart(component.apart, step, self._view)),
            preempts=step.preempts,
            added=step.added,
        )

    def _lasting(self, component: Component, cause: Cause) -> timedelta:
        """Return how long the violation must have lasted."""
        if cause is Cause.ANTI_AFFINITY_VIOLATED:
            return self._policy.anti_affinity.for_
        if cause is not Cause.SHARE_LIMIT_VIOLATED:
            return self._policy.spread.for_
        return min(limit.for_ for limit in component.limits if limit.state is not State.SATISFIED)


class _Postponed(NamedTuple):
    """A component that needs lookahead: its problem, the decision without lookahead, the evictions planned by then."""

    problem: Problem
    decision: Decision | None
    evictions: int


class _Closed(NamedTuple):
    """A component whose replacements no node takes, and its position in the plan."""

    position: int
    problem: SingleClassProblem
    decision: Decision


class _Unchanged:
    """The outlook of a component without a step."""

    def __init__(self, component: Component) -> None:
        self._component = component

    def targets(self) -> tuple[()]:
        return ()

    def counts(self) -> Counts:
        return current_counts(self._component)

    def landings(self, _: frozenset[str]) -> frozenset[str]:
        return frozenset()


def _avoided(groups: Sequence[LimitGroup]) -> frozenset[str]:
    """Return the UIDs of the pods that the policy's groups evict last (`avoid`)."""
    return frozenset(
        pod.uid
        for group in groups
        if group.policy_group.avoid is not None
        for pod in group.pods
        if group.policy_group.avoid.compiled.matches(pod.labels)
    )


def _component_plan(
    component: Component, decision: Decision, refusal: Refusal | None, outlook: Outlook
) -> ComponentPlan:
    # A step that the budgets never allow does not repair the component.
    never = refusal is not None and refusal.reason is Reason.STEP_EXCEEDS_BUDGET
    return ComponentPlan(
        component=component,
        state=State.UNFIXABLE if never else decision.state,
        refusal=refusal,
        evictions=decision.evictions,
        lower_bound=decision.lower_bound,
        optimal=decision.optimal,
        proved=decision.proved,
        detour=decision.detour,
        method=decision.method,
        attempts=decision.attempts,
        outlook=outlook,
        relaxable=decision.relaxable,
        ranked=decision.ranked,
    )


def _with_refusal(row: PlanRefusal, before: Refusal | None, after: Refusal | None) -> PlanRefusal:
    """Return a row whose refusal is replaced by that of a later decision."""
    return structs.replace(row, refusal=after) if row.refusal is before else row


def _violated(requirements: Sequence[Requirement], step: Step) -> Iterator[ViolatedRequirement]:
    """Yield the violated requirements, as far as they concern the victims of a step."""
    nodes = [victim.pod.node or "" for victim in step.victims]
    for requirement in requirements:
        if requirement.violated:
            held = requirement.by_domain()
            domain = {node: requirement.domain[node] for node in nodes if node in requirement.domain}
            yield ViolatedRequirement(
                key=requirement.key,
                limit=requirement.limit,
                bound=requirement.stated_bound,
                emptiest=requirement.emptiest,
                domain=domain,
                held={name: held.get(name, 0) for name in domain.values()},
            )


def _explain_unplanned(term: EvaluatedTerm) -> Refusal:
    """Return why nothing is planned for a violated term that is acted on."""
    if not term.members:
        return NobodyRecreates()
    first = term.members[0]
    if isinstance(first.next_pod, Unpredictable):
        return NotModelledApart(first.reference, first.next_pod.message)
    return NotModelledApart(first.reference, "its pods have host ports, or required affinity to pods")


def _find_apart(terms: Sequence[EvaluatedTerm], step: Step, view: View) -> Iterator[ViolatedTerm]:
    """Yield the violated terms, as far as they concern the victims of a step."""
    for term in terms:
        values = view.nodes.values(term.term.topology_key)
        nodes = [victim.pod.node or "" for victim in step.victims]
        domain = {node: values[node] for node in nodes if node in values}
        yield ViolatedTerm(
            key=term.term.topology_key,
            declared=term.workloads,
            weight=term.weight,
            domain=domain,
            together={
                conflict.domain: tuple(sorted(pod.name for side in conflict.sides for pod in side.pods))
                for conflict in term.conflicts
                if conflict.domain in domain.values()
            },
        )


def _with_pending(blocked: Refusal, cause: Cause) -> Refusal:
    """Set `pending_is_one` if a pending pod, which the repair would place, uses up a group's maxInFlight."""
    if isinstance(blocked, GroupUnavailable) and cause is Cause.PLACEMENT_DEADLOCK:
        return structs.replace(blocked, pending_is_one=True)
    return blocked


def _with_kept(blocked: Refusal, kept: KeptPods | None) -> Refusal:
    """Name the pods that the budgets never let go, if they let other pods of the component go."""
    if isinstance(blocked, StepExceedsBudget):
        return structs.replace(blocked, kept=kept)
    return blocked


def _cause(component: Component, requirements: Sequence[Requirement]) -> Cause:
    for requirement in requirements:
        if not isinstance(requirement.source, EvaluatedLimit) and requirement.source.counts.violated:
            return Cause.SKEW_VIOLATED
    if any(limit.state is not State.SATISFIED for limit in component.limits):
        return Cause.SHARE_LIMIT_VIOLATED
    apart = component.terms or component.preferred
    return Cause.ANTI_AFFINITY_VIOLATED if apart else Cause.PLACEMENT_DEADLOCK
