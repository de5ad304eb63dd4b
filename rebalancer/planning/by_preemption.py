"""Repairs by preemption: the last resort if no node takes a component's replacements and the policy allows it.

Problem: zone c needs a pod and is full of pods of lower priority. kube-scheduler would delete some of them for the
replacement, but their owners did not agree to that. Idea: evict one pod, and only if the consequences are known
beforehand. Every outcome of the preemption (`scheduling.preemption`) repairs something. Every pod that would be
preempted may be evicted now, within all budgets, and a node is certain to take its replacement. Only one such eviction
happens at a time, and only while nothing else moves, so that nothing else takes the places in between.

Example, maxSkew 1: zones a, b, c hold 3, 1 and 0 pods of web; batch-x fills c, and b has capacity for it. web-0 is
evicted from a, its replacement preempts batch-x on c, and the replacement of batch-x goes to b: 2, 1, 1.

No minimum is claimed. The evicted pod counts as gone. While it is terminating, it takes capacity on its own node only,
and there a replacement repairs nothing.

Cost: a dry run on each node where preemption may help, and one examination of each outcome, for at most `_CANDIDATES`
pods of a component, within `SearchLimits.preemption_nodes_of_plan`. It costs less if the policy refuses preemption and
only the message is needed, and nothing if no pod of lower priority takes up capacity.
"""

from collections.abc import Hashable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import structs

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.controllers import PodController, members
from rebalancer.creation.replacement import replacement
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.moves import PlanningMemory
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.words import format_duration, name_list, plural
from rebalancer.planning.case import Decision
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.eviction import Preempted
from rebalancer.planning.formulation import ProblemBuilder
from rebalancer.planning.problem.protocol import Step
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import CapacityIndex
from rebalancer.planning.scope.evicted import EvictedWorkloads
from rebalancer.planning.scope.leaving_nodes import LeavingNodes
from rebalancer.planning.scope.requirements import is_acted_on
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.search.limits import SearchBudget, SearchLimitReached
from rebalancer.planning.search.report import Attempt, Method
from rebalancer.planning.single_class.placement import is_no_worse
from rebalancer.policy import Permission
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.pod_topology_spread import PodTopologySpread
from rebalancer.scheduling.population import NO_AFFINITY
from rebalancer.scheduling.preemption import Preemption, find_budgets, find_preemptions
from rebalancer.scheduling.rejections import Rejected, map_verdicts, reject_nodes
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.verdicts import Code, Verdict
from rebalancer.scheduling.view import View

_CANDIDATES: Final = 4
"""Pods of a component that are tried."""


class PreemptionRefused(Fact):
    """The policy refuses a repair by preemption that could be made."""

    def __str__(self) -> str:
        return "eligibility.preemption refuses that: Allow would permit it"


class PreemptionObstacle(Fact):
    """Why no pod is evicted for a repair by preemption."""

    if TYPE_CHECKING:

        @property
        def why(self) -> str:
            """The reason, which follows a colon."""
            raise NotImplementedError

    def __str__(self) -> str:
        return f"nothing is evicted for it: {self.why}"


class PreemptionNotFollowed(PreemptionObstacle):
    """It is not certain which pods would be preempted; `limit_reached`: finding out would take too many dry runs."""

    limit_reached: bool = False

    @property
    def why(self) -> str:
        if self.limit_reached:
            return "too many nodes would have to be tried in one plan"
        return "it is not certain which pods would go"


class PreemptionWouldNotHelp(PreemptionObstacle):
    """A replacement may be placed where it repairs nothing; `node` is "" if some node takes it without preemption."""

    pod: str
    node: str

    @property
    def why(self) -> str:
        where = f"on {self.node}, where it does not help" if self.node else "on a node where it does not help"
        return f"the replacement of {self.pod} may be placed {where}"


class PreemptedPodStays(PreemptionObstacle):
    """A pod that would be preempted, or its node, must be left alone."""

    pod: str
    cause: Refusal

    @property
    def why(self) -> str:
        return f"{self.pod} must not go: {self.cause}"


class PreemptionBreaksBudget(PreemptionObstacle):
    """The pods that would be preempted are more than these PodDisruptionBudgets allow."""

    budgets: tuple[str, ...]

    @property
    def why(self) -> str:
        one = len(self.budgets) == 1
        noun, verb = ("PodDisruptionBudget", "allows") if one else ("PodDisruptionBudgets", "allow")
        return f"{noun} {name_list(self.budgets)} {verb} no such disruption"


class PreemptedPodIsRequired(PreemptionObstacle):
    """A pod that would be preempted counts for a constraint or limit that its removal may violate."""

    pod: str

    @property
    def why(self) -> str:
        return f"{self.pod} counts for a constraint or limit that may then be violated"


class PreemptedPodIncomplete(PreemptionObstacle):
    """The workload of a pod that would be preempted already lacks a Ready pod."""

    pod: str
    workload: str

    @property
    def why(self) -> str:
        return f"{self.pod} must not go while {self.workload} lacks a Ready pod"


class PreemptedPodEndsLate(PreemptionObstacle):
    """A pod that would be preempted may take so long to end that the replacement counts as overdue."""

    pod: str
    grace: timedelta
    pending_for: timedelta

    @property
    def why(self) -> str:
        return (
            f"{self.pod} may take {format_duration(self.grace)} to end "
            f"(terminationGracePeriodSeconds), and breaker.pendingFor is {format_duration(self.pending_for)}"
        )


class PreemptedPodWithoutOwner(PreemptionObstacle):
    """A pod that would be preempted has no known owner that creates it again."""

    pod: str

    @property
    def why(self) -> str:
        return f"{self.pod} must not go: no workload that can be moved owns it"


class PreemptedPodWithoutPlace(PreemptionObstacle):
    """No node is certain to take the replacement of a pod that would be preempted."""

    pod: str

    @property
    def why(self) -> str:
        return f"no node is certain to take the replacement of {self.pod}"


class TooManyPreempted(PreemptionObstacle):
    """More pods of a node or namespace would be preempted than a rate of the policy allows at a time."""

    pods: int
    field: str
    allowed: int

    @property
    def why(self) -> str:
        return f"{plural(self.pods, 'pod')} would go, and {self.field} is {self.allowed}"


class PreemptionWaits(Refusal):
    """A repair by preemption is made only while nothing else moves.

    `moves` are in flight, or planned and not carried out yet; `pods` wait for a node that some node may take.
    """

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when nothing else moves"
    passes = True
    preempts: str
    moves: int
    pods: int

    def __str__(self) -> str:
        others = [
            *([f"{plural(self.moves, 'move')}"] if self.moves else []),
            *([f"{plural(self.pods, 'pending pod')}"] if self.pods else []),
        ]
        return (
            f"kube-scheduler would {self.preempts}; a repair may rely on that only while nothing else moves "
            f"(eligibility.preemption: Allow): waiting for {name_list(others)}"
        )


class RepairedByPreemption(Refusal):
    """The rest of a repair by preemption waits: one pod is moved at a time. `lacking` is as in `NodesTakeNoMore`."""

    ends = "when the replacements of the moved pod and of the preempted pods are Ready"

    lacking: bool

    @property
    def reason(self) -> Reason:
        """The reason why no node takes a replacement."""
        return Reason.NO_CAPACITY if self.lacking else Reason.NODES_REJECT

    def __str__(self) -> str:
        return (
            "no node takes another of these pods without preemption: one pod is moved at a time, the next one after "
            "the replacements of the moved pod and of the preempted pods are Ready (eligibility.preemption: Allow)"
        )


class PreemptionPlanner:
    """Plans at most one repair by preemption, after everything else in the plan."""

    def __init__(
        self,
        builder: ProblemBuilder,
        assessment: Assessment,
        memory: PlanningMemory,
        ledger: BudgetLedger,
        capacities: CapacityIndex,
        evicted: EvictedWorkloads,
        leaving: LeavingNodes,
        budget: SearchBudget,
    ) -> None:
        """Take the state that a plan shares; `budget` counts the nodes of dry runs."""
        self._builder = builder
        self._view = builder.view
        self._assessment = assessment
        self._policy = builder.policy
        self._memory = memory
        self._ledger = ledger
        self._capacities = capacities
        self._evicted = evicted
        self._leaving = leaving
        self._budget = budget
        self._pending_for = builder.policy.breaker.pending_for
        self._allowed = builder.policy.eligibility.preemption is Permission.ALLOW

    def revise(self, problem: SingleClassProblem, decision: Decision, planned: int) -> Decision:
        """Return a decision with a step by preemption, or with the reason why there is none.

        The given decision has a refusal and no step; it is returned unchanged if there is nothing to add. `planned` are
        the evictions of the plan so far.
        """
        closed = decision.refusal
        assert isinstance(closed, NodesTakeNoMore), "a component whose replacements no node takes"
        if not closed.preempts or problem.pods.missing:
            return decision
        waits = self._find_others(closed.preempts, planned) if self._allowed else None
        if waits is not None:
            return structs.replace(decision, state=State.VIOLATED, refusal=waits)
        found = self._find(problem) if self._budget.left > 0 else PreemptionNotFollowed(limit_reached=True)
        if not self._allowed:
            found = PreemptionRefused() if isinstance(found, Step) else None
        if not isinstance(found, Step):
            return structs.replace(decision, refusal=structs.replace(closed, preemption=found)) if found else decision
        return structs.replace(
            decision,
            state=State.VIOLATED,
            refusal=RepairedByPreemption(closed.lacking),
            step=found,
            forced=False,
            method=Method.PREEMPTION,
            attempts=(*decision.attempts, Attempt(method=Method.PREEMPTION, answered=True)),
        )

    def _find_others(self, preempts: str, planned: int) -> Refusal | None:
        """Return why the step waits: another move may take a place that the step needs."""
        moves = planned + len(self._memory.in_flight) + len(self._memory.unexecuted)
        return PreemptionWaits(preempts, moves, self._pending) if moves or self._pending else None

    @cached_property
    def _pending(self) -> int:
        return self._capacities.count_pending()

    def _find(self, problem: SingleClassProblem) -> Step | Fact | None:
        """Return a step, or why the first tried pod gives none; None if no pod may move."""
        model = problem.lookahead_model(self._budget)
        candidates = [*islice(model.candidates({}, frozenset()), _CANDIDATES)]
        # Among pods that help equally, a pod that may go now is preferred: the sort is stable.
        candidates.sort(key=lambda one: self._ledger.blocked(one.pod, one.member) is not None)
        first: Fact | None = None
        for victim in candidates:
            try:
                outcomes = self._find_outcomes(victim)
            except SearchLimitReached:
                return first or PreemptionNotFollowed(limit_reached=True)
            why = outcomes if isinstance(outcomes, Fact) else self._refuse(problem, victim, outcomes)
            if why is None and not isinstance(outcomes, Fact):
                preempted = tuple([Preempted(outcome.node, outcome.victims) for outcome in outcomes])
                nodes = frozenset([outcome.node for outcome in outcomes])
                return Step(victims=(victim,), nodes=nodes, preempts=preempted)
            first = first or why
        return first

    def _find_outcomes(self, victim: Victim) -> Sequence[Preemption] | Fact:
        """Return which pods may be preempted for a pod's replacement, or why that is not certain.

        Raises SearchLimitReached if no more nodes may be tried.
        """
        pod, view = victim.pod, self._view
        made = replacement(pod, view)
        if isinstance(made, Unpredictable) or made.least is not None:
            return PreemptionNotFollowed()
        state = view.without([pod])
        rejected = reject_nodes(made, state)
        if sum(len(row.nodes) for row in rejected) < len(state.nodes.names):
            return PreemptionWouldNotHelp(pod.name, "")
        able = _able(made, rejected, state)
        self._budget.spend(len(able))
        outlook = find_preemptions(made, able, state)
        if not outlook.complete or not outlook.outcomes:
            return PreemptionNotFollowed()
        self._budget.spend(len(outlook.outcomes))
        return outlook.outcomes

    def _refuse(self, problem: SingleClassProblem, victim: Victim, outcomes: Sequence[Preemption]) -> Fact | None:
        """Return why a pod must not be evicted, by the first outcome that forbids it."""
        model = problem.lookahead_model(self._budget)
        now, excess = model.sum_of_minima({}), model.excess({})
        for outcome in outcomes:
            deltas: Mapping[Hashable, int] = {victim.pod.node or "": -1, outcome.node: 1}
            if (
                outcome.node == victim.pod.node
                or model.sum_of_minima(deltas) >= now
                or not is_no_worse(model.excess(deltas), excess)
            ):
                return PreemptionWouldNotHelp(victim.pod.name, outcome.node)
        checks = (
            self._refuse_broken(outcome)
            or self._refuse_preempted(problem, outcome)
            or self._refuse_number(outcome)
            or self._refuse_spent(victim, outcome)
            or self._refuse_homeless(victim.pod, outcome)
            for outcome in outcomes
        )
        return next(filter(None, checks), None)

    def _refuse_broken(self, outcome: Preemption) -> Fact | None:
        if not outcome.broken and not outcome.violations:
            return None
        every = {budget for pod in outcome.victims for budget in find_budgets(pod, self._view)}
        return PreemptionBreaksBudget(tuple(sorted(map(str, outcome.broken or every))))

    def _refuse_preempted(self, problem: SingleClassProblem, outcome: Preemption) -> Fact | None:
        """Refuse pods that must not be evicted, or that count for something that evictions repair."""
        node = self._leaving.refusals.get(outcome.node)
        if node is not None:
            return PreemptedPodStays(str(outcome.victims[0]), node)
        for pod in outcome.victims:
            member = self._member_of(pod)
            if member is None:
                return PreemptedPodWithoutOwner(str(pod))
            refusal = self._builder.refuse_eviction(pod, member) or self._evicted.refuse([Victim(pod, member, 0)])
            if refusal is not None:
                return PreemptedPodStays(str(pod), refusal)
            if not self._evicted.is_complete(member):
                return PreemptedPodIncomplete(str(pod), str(member.reference))
            if self._is_required(problem, pod, member):
                return PreemptedPodIsRequired(str(pod))
            if _get_grace(pod) > self._pending_for:
                return PreemptedPodEndsLate(str(pod), _get_grace(pod), self._pending_for)
        return None

    def _member_of(self, pod: Pod) -> PodController | None:
        return self._members.get(pod.owner.uid) if pod.owner is not None else None

    @cached_property
    def _members(self) -> Mapping[str, PodController]:
        return {member.owner.uid: member for member in members(self._view) if member.owner is not None}

    def _is_required(self, problem: SingleClassProblem, pod: Pod, member: PodController) -> bool:
        """Return whether a pod counts for the component, for a constraint of its own, or for a limit."""
        acted_on = {*self._policy.spread.act_on, WhenUnsatisfiable.DO_NOT_SCHEDULE}
        if pod.uid in self._limited or any(own.when_unsatisfiable in acted_on for own in pod.spec.spread):
            return True
        of_component = pod.namespace == problem.component.namespace
        return of_component and any(one.counts(pod.labels, member.reference) for one in problem.requirements)

    @cached_property
    def _limited(self) -> frozenset[str]:
        """The UIDs of the pods that count for a limit for which pods are evicted."""
        limits = [limit for limit in self._assessment.limits if is_acted_on(limit)]
        return frozenset([pod.uid for limit in limits for part in limit.parts for pod in part.pods])

    def _refuse_number(self, outcome: Preemption) -> Fact | None:
        """Refuse more pods of the node, or of one namespace, than may be evicted there at a time."""
        snapshot, budgets = self._view.snapshot, self._policy.budgets
        pods = len(outcome.victims)
        of_node = budgets.per_node.resolve(len(snapshot.pods_on.get(outcome.node, ())))
        if pods > of_node:
            return TooManyPreempted(pods, "budgets.perNode", of_node)
        for namespace in sorted({pod.namespace for pod in outcome.victims}):
            there = sum(pod.namespace == namespace for pod in outcome.victims)
            of_namespace = budgets.per_namespace.resolve(len(snapshot.pods_in.get(namespace, ())))
            if there > of_namespace:
                return TooManyPreempted(there, "budgets.perNamespace", of_namespace)
        return None

    def _refuse_spent(self, victim: Victim, outcome: Preemption) -> Fact | None:
        """Refuse if the budgets do not let all preempted pods go now beside the evicted pod."""
        taken = [(victim.pod, victim.member)]
        self._ledger.take(victim.pod, victim.member)
        try:
            for pod in outcome.victims:
                member = self._member_of(pod)
                assert member is not None, "pods without one have been refused"
                blocked = self._ledger.blocked(pod, member)
                if blocked is not None:
                    return PreemptedPodStays(str(pod), blocked)
                self._ledger.take(pod, member)
                taken.append((pod, member))
        finally:
            for pod, member in taken:
                self._ledger.give_back(pod, member)
        return None

    def _refuse_homeless(self, evicted: Pod, outcome: Preemption) -> Fact | None:
        """Refuse pods whose replacements are not certain to get a node after the preemption.

        A replacement may take the place of the evicted pod, unless that pod takes long to end.
        """
        made, view = replacement(evicted, self._view), self._view
        assert not isinstance(made, Unpredictable), "such pods have been refused"
        ends_late = _get_grace(evicted) > self._pending_for
        after = view.terminating([evicted]) if ends_late else view.without([evicted])
        after = after.without(outcome.victims).with_placed(made, outcome.node)
        new = [(pod, replacement(pod, view)) for pod in outcome.victims]
        known = [one for _, one in new if not isinstance(one, Unpredictable)]
        for pod, own in new:
            if isinstance(own, Unpredictable) or not _finds_node(own, known, after):
                return PreemptedPodWithoutPlace(str(pod))
        return None


def _get_grace(pod: Pod) -> timedelta:
    return timedelta(seconds=pod.grace_seconds)


def _able(pod: Pod, rejected: Sequence[Rejected], view: View) -> Mapping[str, Verdict]:
    """Return the nodes on which preemption may help, with the scheduler's results there.

    Where a spread constraint rejects a node, only pods that it counts can change that. A node without such pods, which
    are in the pod's own namespace, is left out. The shorter dry run still has all outcomes of the full dry run.
    """
    of_namespace = view.snapshot.pods_in.get(pod.namespace, ())
    lower = {view.where(other) for other in of_namespace if other.spec.priority < pod.spec.priority}
    left = [
        Rejected(row.plugin, row.nodes & lower) if isinstance(row.plugin, PodTopologySpread) else row
        for row in rejected
    ]
    return {name: one for name, one in map_verdicts(left).items() if one.code is Code.UNSCHEDULABLE}


def _finds_node(pod: Pod, new: Sequence[Pod], view: View) -> bool:
    """Return whether a node is certain to take a new pod, wherever the other new pods are placed before.

    If only requests count, each other new pod closes at most the node that it takes. So it is enough to have as many
    nodes as new pods, or one node with capacity for all. If more than requests counts, only a single new pod is certain
    of a node.
    """
    if pod.claims or pod.least is not None or unpredictable(pod, view) is not None:
        return False
    nodes, others = feasible(pod, view), [other for other in new if other is not pod]
    if not others or not nodes:
        return bool(nodes)
    if not all(_only_requests(one, view) for one in new):
        return False
    return len(nodes) > len(others) or any(_has_room(node, pod, others, view) for node in sorted(nodes))


def _only_requests(pod: Pod, view: View) -> bool:
    affine = pod.spec.pod_affinity != NO_AFFINITY or any(True for _ in view.repelling(pod))
    return not (affine or pod.spec.host_ports or pod.spec.spread)


def _has_room(node: str, pod: Pod, others: Sequence[Pod], view: View) -> bool:
    for other in others:
        view = view.with_placed(other, node)
    return node in feasible(pod, view)
