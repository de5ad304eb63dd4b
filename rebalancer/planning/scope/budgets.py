"""How many pods may be unavailable: PodDisruptionBudgets, our own limits, and how much of a step they grant.

A PodDisruptionBudget's `disruptionsAllowed` was true when its controller last counted; pods may have become unready
since. So the lesser of that number and our own count in the snapshot is allowed. What is granted is subtracted at once:
a plan never grants the same disruption twice. Rules: docs/design.md, "Batches that never exceed a budget".

A pod that is not Ready is unavailable already, so its eviction spends nothing of our own limits, nor of a budget that
the Eviction API would not check. The eviction is still a move in flight, and if our own limit is 0 nothing goes. A pod
that has been unready for less than a minute may be Ready again before it is evicted, and counts as if it were.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from typing import Final

from msgspec import structs

from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.facts import End, Fact, Refusal
from rebalancer.model.moments import Clock
from rebalancer.model.moves import MoveState, PlanningMemory
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.reasons import Reason
from rebalancer.model.words import format_duration, format_rest, name_list, plural
from rebalancer.model.workloads import Workload
from rebalancer.planning.scope.quotas import QuotaLedger
from rebalancer.planning.scope.victims import Allowed, Victim
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View

_NODE: Final = attrgetter("node")
_UID: Final = attrgetter("uid")


_DELETION_TIMEOUT = timedelta(minutes=2)
"""How long the disruption controller counts a granted eviction against the budget if the pod stays."""

_UNREADY_FOR: Final = timedelta(minutes=1)
"""How long a pod must be unready to count as unavailable, because a restart makes it unready for some seconds."""

_ENDED = frozenset({MoveState.VERIFIED, MoveState.INEFFECTIVE})


MAX_UNAVAILABLE: Final = "budgets.maxUnavailable"
PER_WORKLOAD: Final = "budgets.perWorkload"
"""The policy's fields that limit one workload: pods unavailable for any reason, and moves in flight."""

OF_TEAM: Final = " of the team policy"
"""Text after the name of a budget that the namespace's team policy sets."""


class SeveralBudgets(Refusal):
    """Several PodDisruptionBudgets select the pod, so the API refuses to evict it."""

    reason = Reason.SEVERAL_BUDGETS
    budgets: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"PodDisruptionBudgets {name_list(self.budgets)} select it, and the API refuses to evict such a pod; "
            "let only one select it"
        )


class BudgetNotObserved(Refusal):
    """The PodDisruptionBudget was just changed; its controller has not computed its status yet."""

    reason = Reason.BLOCKED_BY_BUDGET
    ends = "when the status of PodDisruptionBudget {self.budget} is up to date"
    budget: str

    def __str__(self) -> str:
        return f"PodDisruptionBudget {self.budget} was just changed; its status is not up to date yet"


class BudgetNotComputed(Refusal):
    """The disruption controller could not compute the budget's status."""

    reason = Reason.BLOCKED_BY_BUDGET
    ends = "when PodDisruptionBudget {self.budget} is computed again"
    budget: str
    failure: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        if not self.failure:
            return f"PodDisruptionBudget {self.budget} could not be computed; see its DisruptionAllowed condition"
        return f"PodDisruptionBudget {self.budget} could not be computed (SyncFailed: {self.failure}). {self.remedy}"


class BudgetExhausted(Refusal):
    """The PodDisruptionBudget allows no further eviction now; the plan has used `planned` of its disruptions.

    `unready`: the pod is not Ready; with another unhealthyPodEvictionPolicy the API would not check the budget.
    """

    reason = Reason.BLOCKED_BY_BUDGET
    ends = "when PodDisruptionBudget {self.budget} allows another eviction"
    budget: str
    healthy: int
    expected: int
    desired: int
    planned: int = 0
    unready: bool = False

    def __str__(self) -> str:
        more = (
            f"no more than the {plural(self.planned, 'eviction')} planned before" if self.planned else "no eviction now"
        )
        text = (
            f"PodDisruptionBudget {self.budget} allows {more}: "
            f"{self.healthy} of {plural(self.expected, 'pod')} healthy, {self.desired} required"
        )
        if self.unready:
            text += (
                ". The pod is not Ready, and with unhealthyPodEvictionPolicy: AlwaysAllow the API would evict it "
                "without asking the budget"
            )
        return text


class WorkloadLimitReached(Refusal):
    """Our own limits for one workload allow no further eviction now: at most `allowed` by `field` of the policy.

    `unavailable` of its replicas are unavailable for any reason, `moving` are in flight, `planned` pods are to be
    evicted first.
    """

    reason = Reason.BLOCKED_BY_BUDGET
    replicas: int
    unavailable: int
    moving: int
    planned: tuple[str, ...]
    field: str
    allowed: int

    def _end(self) -> End:
        if self.planned:
            what, verb = ("replacement", "is") if len(self.planned) == 1 else ("replacements", "are")
            return End(event=f"when the {what} of {name_list(self.planned)} {verb} Ready", of_move=True)
        if self.moving:
            return End(
                event=f"when {'the move' if self.moving == 1 else 'one of the moves'} in flight has ended", of_move=True
            )
        return End(event="when more of its pods are Ready")

    def __str__(self) -> str:
        if self.planned:
            noun = "the replacement" if len(self.planned) == 1 else "the replacements"
            wait = f"waiting for {noun} of {name_list(self.planned)} to be Ready"
        elif self.moving:
            wait = f"waiting for {plural(self.moving, 'move')} in flight to finish"
        else:
            verb = "is" if self.unavailable == 1 else "are"
            wait = f"{self.unavailable} of {plural(self.replicas, 'pod')} {verb} unavailable"
        if self.field.startswith(PER_WORKLOAD):
            return f"{wait}: at most {plural(self.allowed, 'eviction')} of one workload may be in flight ({self.field})"
        return f"{wait}: at most {self.allowed} of {plural(self.replicas, 'pod')} may be unavailable ({self.field})"


class GroupUnavailable(Refusal):
    """The group's disruption.maxInFlight is used up; `pending_is_one`: one is the pod to be placed."""

    reason = Reason.GROUP_IN_FLIGHT
    ends = "when a pod of {self.group} is Ready again"
    group: str
    unavailable: int
    most: int
    pending_is_one: bool = False

    def __str__(self) -> str:
        verb = "is" if self.unavailable == 1 else "are"
        pods = f"{plural(self.unavailable, 'pod')} of {self.group} {verb} unavailable"
        text = f"{pods}; disruption.maxInFlight is {self.most}"
        if self.pending_is_one:
            text += (
                f", and the pending pod is one of them. Raise maxInFlight to {self.most + 1} to let an eviction "
                "make place for it"
            )
        return text


class GroupSettling(Refusal):
    """A pod of the group became Ready less than disruption.settle ago."""

    reason = Reason.GROUP_IN_FLIGHT
    group: str
    ago: timedelta
    settle: timedelta

    def _end(self) -> End:
        return End(after=self.settle - self.ago)

    def __str__(self) -> str:
        return (
            f"a pod of {self.group} became Ready {format_duration(self.ago)} ago; disruption.settle is "
            f"{format_duration(self.settle)}: {format_rest(self.settle - self.ago)} left"
        )

    @property
    def timeless(self) -> str:
        return f"a pod of {self.group} has become Ready; disruption.settle is {format_duration(self.settle)}"


class KeptPods(Fact):
    """Pods that budgets never let go, although they let other pods of the component go.

    `fewest` evictions repair the component; `enough` repair it without these pods, None if no number does.
    """

    pods: tuple[str, ...]
    fewest: int
    enough: int | None

    def __str__(self) -> str:
        named = f"a pod that may not be evicted ({name_list(self.pods)})"
        if self.enough is None:
            return f"Every repair includes {named}"
        if self.enough > self.fewest:
            return (
                f"Every repair of {plural(self.fewest, 'eviction')} includes {named}. A repair without such a pod "
                f"takes {self.enough} evictions, but Rebalancer makes only the fewest"
            )
        return f"The repair includes {named}. No safe eviction of other pods was found"


_ANY_REMEDY: Final = "Raise its maxUnavailable or lower its minAvailable"
"""The remedy if the plan does not say which of the two fields a budget has."""


def _find_remedy(budget: DisruptionBudget) -> str:
    """Say how to make a budget allow more evictions, by the one of the two fields that it has."""
    return "Lower its minAvailable" if budget.max_unavailable is None else "Raise its maxUnavailable"


class StepExceedsBudget(Refusal):
    """The smallest step needs more concurrent evictions than the budgets of the workload ever allow."""

    reason = Reason.STEP_EXCEEDS_BUDGET
    needed: int
    allowed: int
    workload: str = ""
    """The workload's name, "" if there are several."""
    budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that allow no more than `allowed`."""
    fields: tuple[str, ...] = ()
    """The fields of the policy that allow no more than `allowed`.

    Without budgets and fields, the cause is a limit's `disruption`.
    """
    kept: KeptPods | None = None
    """Set if the budgets allow the eviction of other pods."""
    unready: bool = False
    failed: tuple[BudgetNotComputed, ...] = ()
    """The budgets that allow no eviction because their status could not be computed."""
    remedies: tuple[str, ...] = ()
    """For each budget, how to make it allow more evictions."""

    def __str__(self) -> str:
        return self._limits() if self.kept is None else f"{self._limits()}. {self.kept}"

    def _limits(self) -> str:
        needs = f"needs {plural(self.needed, 'concurrent eviction')}"
        allowed = "never allow any" if not self.allowed else f"allow at most {self.allowed}"
        if not self.workload:
            return f"{needs}; the budgets {allowed}. Raise maxUnavailable or lower minAvailable"
        allows = "never allows any" if not self.allowed else f"allows at most {self.allowed}"
        otherwise = (
            ", or set unhealthyPodEvictionPolicy: AlwaysAllow, since the pod is not Ready" if self.unready else ""
        )
        limits = [
            *map(str, self.failed),
            *(
                f"PodDisruptionBudget {name} {allows}. {remedy}{otherwise}"
                for name, remedy in zip(self.budgets, self.remedies or repeat(_ANY_REMEDY), strict=False)
            ),
            *(f"{field} {allows} for {self.workload}. Raise it in the policy" for field in self.fields),
        ]
        if not limits:
            limits = [f"disruption.maxInFlight {allows}. Raise it in the policy"]
        return f"{needs}; {'; '.join(limits)}"


class StepWaitsForBudget(Refusal):
    """The step may need more concurrent evictions than the budgets allow now."""

    reason = Reason.BLOCKED_BY_BUDGET
    needed: int

    def _end(self) -> End:
        return End(event=f"when the budgets allow {plural(self.needed, 'eviction')} at once")

    def __str__(self) -> str:
        return f"may need {plural(self.needed, 'concurrent eviction')}; the budgets allow fewer just now"


class BudgetLedger:
    """What is left of every budget; `take` spends from it."""

    def __init__(self, view: View, policy: Policy, memory: PlanningMemory, gathered: Iterable[LimitGroup] = ()) -> None:
        self._snapshot, self._clock = view.snapshot, view.clock
        self._all_on_nodes = view.all_on_nodes
        self._rules = policy.budgets
        self._rules_of_team = policy.rules_of
        self._moving = Counter(move.workload for move in memory.in_flight)
        self._groups = GroupBudgets(view, memory, gathered)
        self._quotas = QuotaLedger(view.snapshot, memory)
        self._fresh: dict[DisruptionBudget, int] = {}
        self._taken: Counter[DisruptionBudget] = Counter()
        self._taken_of_workload: Counter[str] = Counter()
        """Pods that planned evictions make unavailable."""
        self._limits_of_workload: dict[str, tuple[Mapping[str, int], Mapping[str, int]]] = {}
        self._planned: dict[str, list[str]] = {}
        self._selected = view.snapshot.budget_selection

    def budgets_of(self, pod: Pod) -> Sequence[DisruptionBudget]:
        """Return the budgets that select a pod, by the rules of policy/v1: a null selector selects none, `{}` all."""
        return self._selected.budgets_of(pod)

    def refusal(self, pod: Pod) -> Refusal | None:
        """Return why no budget could ever let this pod be evicted through the API."""
        budgets = self.budgets_of(pod)
        if len(budgets) > 1:
            names = tuple(sorted(f"{budget.namespace}/{budget.name}" for budget in budgets))
            return SeveralBudgets(names)
        return None

    def blocked(self, pod: Pod, member: PodController) -> Refusal | None:
        """Return why this pod may not be evicted now, or None."""
        for budget in self._asked(pod):
            if self._allowance(budget) < 1:
                return self._budget_cause(budget, unready=not self._serves(pod))
        limit = self._workload_limit(member, pod)
        if limit is not None:
            return limit
        return self._groups.blocked(pod) or self._quotas.blocked(pod, member)

    def take(self, pod: Pod, member: PodController) -> None:
        """Spend one eviction of this pod."""
        for budget in self._asked(pod):
            self._taken[budget] += 1
        self._taken_of_workload[_identity(member)] += self._serves(pod)
        self._planned.setdefault(_identity(member), []).append(pod.name)
        self._groups.take(pod, 1)
        self._quotas.take(pod, member, 1)

    def give_back(self, pod: Pod, member: PodController) -> None:
        """Undo `take`: the eviction does not happen after all."""
        for budget in self._asked(pod):
            self._taken[budget] -= 1
        self._taken_of_workload[_identity(member)] -= self._serves(pod)
        self._planned[_identity(member)].remove(pod.name)
        self._groups.take(pod, -1)
        self._quotas.take(pod, member, -1)

    def _serves(self, pod: Pod) -> bool:
        """Return whether a pod is Ready, or may be so again the next moment."""
        return serves(pod, self._clock)

    def _asked(self, pod: Pod) -> Sequence[DisruptionBudget]:
        """Return the budgets that the Eviction API checks for a pod.

        Source: `pkg/registry/core/pod/storage/eviction.go`.
        """
        budgets = self.budgets_of(pod)
        if self._serves(pod):
            return budgets
        if pod.phase is PodPhase.PENDING:
            return ()
        return tuple(
            [one for one in budgets if not (one.always_allow or one.current_healthy >= one.desired_healthy > 0)]
        )

    def grant(self, victims: Sequence[Victim], needed: int, concurrent: int) -> tuple[int, Refusal | None]:
        """Spend the budgets for a prefix of a step; return its length, and what stops the next victim.

        A prefix of fewer than `needed` victims is no step. If the budgets do not allow `concurrent` evictions at once,
        which includes evictions that follow only if a replacement is stuck, nothing goes and nothing is spent.
        """
        granted, blocked = self._grant_prefix(victims)
        if granted >= needed and self._allows_following(victims[0], granted, concurrent):
            return granted, blocked
        for victim in victims[:granted]:
            self.give_back(victim.pod, victim.member)
        return 0, self._refuse_step(victims, granted, max(needed, concurrent), blocked)

    def _grant_prefix(self, victims: Sequence[Victim]) -> tuple[int, Refusal | None]:
        for granted, victim in enumerate(victims):
            blocked = self.blocked(victim.pod, victim.member)
            if blocked is not None:
                return granted, blocked
            self.take(victim.pod, victim.member)
        return len(victims), None

    def _allows_following(self, first: Victim, granted: int, concurrent: int) -> bool:
        """Return whether the budgets allow the evictions that may have to follow if a replacement is stuck."""
        taken: list[Pod] = []
        for number in range(granted, concurrent):
            # The other pods may be Ready even if the first is not.
            following = structs.replace(first.pod, ready=True) if number else first.pod
            if self.blocked(following, first.member) is not None:
                break
            self.take(following, first.member)
            taken.append(following)
        for pod in taken:
            self.give_back(pod, first.member)
        return granted + len(taken) >= concurrent

    def _refuse_step(self, victims: Sequence[Victim], granted: int, needed: int, blocked: Refusal | None) -> Refusal:
        """Return why a step waits, or is never taken: because of its first victim, or of the blocked victim."""
        for victim, least in ((victims[0], needed), (victims[min(granted, len(victims) - 1)], 1)):
            most = self.most(victim.member, victim.pod)
            if least > most:
                return self._exceeded(victim, needed, most)
        return blocked or StepWaitsForBudget(needed)

    def refuse(self, victims: Sequence[Victim], needed: int, concurrent: int) -> Refusal | None:
        """Return why `grant` would let none of these go, None if it lets some go; nothing is spent."""
        granted, blocked = self.grant(victims, needed, concurrent)
        for victim in victims[:granted]:
            self.give_back(victim.pod, victim.member)
        return None if granted else blocked

    def count_granted(self, victims: Sequence[Victim], needed: int, concurrent: int) -> int:
        """Return how many victims of a step `grant` would let go; nothing is spent."""
        granted, _ = self.grant(victims, needed, concurrent)
        for victim in victims[:granted]:
            self.give_back(victim.pod, victim.member)
        return granted

    def may_differ(self, members: Sequence[PodController]) -> bool:
        """Return whether budgets may allow the eviction of some of these owners' pods and not of others: a quick test.

        All Ready pods of one owner with the same labels are under the same PodDisruptionBudgets.
        """
        if len(members) > 1 or self._groups.exist or self._quotas.exist:
            return True
        (member,) = members
        if not all(pod.ready for pod in member.pods):
            return True
        return member.labels is None and bool(self._selected.budgets_in(member.reference.namespace))

    def terms_of(self, victim: Victim) -> Hashable:
        """Return what the budgets read of a pod: they allow the eviction of pods with equal terms at the same times."""
        pod = victim.pod
        # Quotas depend on the pod's own requests.
        own = pod.uid if self._quotas.exist else ""
        return _identity(victim.member), self._serves(pod), self._asked(pod), self._groups.terms_of(pod), own

    def when_allowed(self, victims: Iterable[Victim], needed: int) -> dict[str, Allowed]:
        """Return for each pod, by its UID, when this many pods like it may be evicted at once."""
        known: dict[Hashable, Allowed] = {}
        allowed = {}
        for victim in victims:
            terms = self.terms_of(victim)
            if terms not in known:
                known[terms] = self._when_allowed(victim, needed)
            allowed[victim.pod.uid] = known[terms]
        return allowed

    def _when_allowed(self, victim: Victim, needed: int) -> Allowed:
        if self.most(victim.member, victim.pod) < needed:
            return Allowed.NEVER
        return Allowed.NOW if self._allows_following(victim, 0, needed) else Allowed.LATER

    def most_concurrent(self, victims: Iterable[Victim]) -> int:
        """Return how many of these pods may be evicted at once: the least number over pods that may ever go, else 0."""
        alike = {self.terms_of(victim): victim for victim in victims}
        most = [self.most(victim.member, victim.pod) for victim in alike.values()]
        return min(filter(None, most), default=0)

    def most(self, member: PodController, pod: Pod) -> int:
        """Return how many pods, this pod included, may be evicted concurrently while every other pod is healthy.

        A step that needs more can never be taken.
        """
        most = min([*self._most_of_fields(member, pod).values(), *self._most_of_budgets(pod).values()])
        return min(most, self._groups.most(pod, most))

    def _most_of_fields(self, member: PodController, pod: Pod) -> Mapping[str, int]:
        """Return how many pods, this pod included, our own limits ever allow, by field of the policy."""
        most = self._most_by_field(member)
        if self._serves(pod):
            return most
        return {field: number + (number > 0 and field.startswith(MAX_UNAVAILABLE)) for field, number in most.items()}

    def _most_of_budgets(self, pod: Pod) -> Mapping[DisruptionBudget, int]:
        """Return how many pods, this pod included, each of its PodDisruptionBudgets ever allows."""
        asked = self._asked(pod)
        return {budget: _most_by_budget(budget) + (budget not in asked) for budget in self.budgets_of(pod)}

    def _most_by_field(self, member: PodController) -> dict[str, int]:
        """Return how many pods of an owner our own limits ever allow at once, by field of the policy."""
        workload = member.top or member.owner
        replicas = workload.replicas if workload is not None else 0
        most = {
            MAX_UNAVAILABLE: self._rules.max_unavailable.resolve(replicas),
            PER_WORKLOAD: self._rules.per_workload.resolve(replicas),
        }
        team = self._rules_of_team(member.reference.namespace).budgets
        if team.max_unavailable is not None:
            most[MAX_UNAVAILABLE + OF_TEAM] = team.max_unavailable.resolve(replicas)
        if team.per_workload is not None:
            most[PER_WORKLOAD + OF_TEAM] = team.per_workload.resolve(replicas)
        return most

    def _used_by_field(self, member: PodController) -> dict[str, int]:
        """Return how many pods count now against each of these limits."""
        workload = member.top or member.owner
        assert workload is not None
        unavailable = max(0, workload.replicas - self._available(member))
        moving = self._moving[member.reference]
        return {
            MAX_UNAVAILABLE: unavailable,
            PER_WORKLOAD: moving,
            MAX_UNAVAILABLE + OF_TEAM: unavailable,
            PER_WORKLOAD + OF_TEAM: moving,
        }

    def _limits_by_field(self, member: PodController) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return how many pods of an owner count against each of our own limits, and how many each allows."""
        identity = _identity(member)
        known = self._limits_of_workload.get(identity)
        if known is None:
            known = self._used_by_field(member), self._most_by_field(member)
            self._limits_of_workload[identity] = known
        return known

    def _exceeded(self, first: Victim, needed: int, most: int) -> StepExceedsBudget:
        """Return the refusal with the limits that allow no more than `most`; raising other limits does not help."""
        asked = [budget for budget, number in self._most_of_budgets(first.pod).items() if number == most]
        return StepExceedsBudget(
            needed,
            most,
            str(first.member.reference),
            budgets=tuple(str(budget) for budget in asked if budget.synced),
            failed=tuple(map(_not_computed, (budget for budget in asked if not budget.synced))),
            fields=tuple(
                field for field, number in self._most_of_fields(first.member, first.pod).items() if number == most
            ),
            unready=not self._serves(first.pod),
            remedies=tuple(_find_remedy(budget) for budget in asked if budget.synced),
        )

    def _allowance(self, budget: DisruptionBudget) -> int:
        fresh = self._fresh.get(budget)
        if fresh is None:
            fresh = self._fresh[budget] = self._count_fresh(budget)
        return fresh - self._taken[budget]

    def _count_fresh(self, budget: DisruptionBudget) -> int:
        """Return how many disruptions both the status and our own count of healthy pods allow."""
        if budget.observed_generation < budget.generation or not budget.synced:
            return 0
        granted = {name for name, when in budget.disrupted if not self._clock.has_lasted(when, _DELETION_TIMEOUT)}
        selected = self._selected.pods_of(budget)
        healthy = sum(1 for pod in selected if self._healthy(pod) and pod.name not in granted)
        return max(0, min(budget.allowed, healthy - budget.desired_healthy))

    def _available(self, member: PodController) -> int:
        """Count the workload's pods that have been Ready for its minReadySeconds, over all its ReplicaSets."""
        workload = member.top or member.owner
        assert workload is not None
        if member.top is None or member.top is member.owner:
            return self._serving(member.pods, workload)
        pods_of = self._snapshot.pods_of
        others = [owner for owner in self._snapshot.owned_by[workload.uid] if owner is not member.owner]
        pods = [pod for owner in others for pod in pods_of.get(owner.uid, ())]
        living = [pod for pod in pods if not pod.terminating and not pod.finished]
        return self._serving((*member.pods, *living), workload)

    def _serving(self, pods: Sequence[Pod], workload: Workload) -> int:
        """Count the pods that are available: Ready long enough, on a node that is Ready."""
        if not workload.min_ready_seconds and self._all_nodes_ready:
            return len([True for pod in pods if pod.ready and pod.node is not None])
        ready = [pod for pod in pods if pod.ready]
        steady = timedelta(seconds=workload.min_ready_seconds)
        if steady:
            lasted = self._clock.has_lasted
            ready = [pod for pod in ready if pod.ready_since is None or lasted(pod.ready_since, steady)]
        return sum(map(self._ready_nodes.__contains__, map(_NODE, ready)))

    @cached_property
    def _ready_nodes(self) -> frozenset[str]:
        return frozenset(node.name for node in self._snapshot.nodes if node.ready)

    @cached_property
    def _all_nodes_ready(self) -> bool:
        """Whether all pods that have a node are on nodes that are Ready."""
        return self._all_on_nodes and len(self._ready_nodes) == len(self._snapshot.nodes)

    def _healthy(self, pod: Pod) -> bool:
        """Return whether a pod is healthy; on a lost or not Ready node it is not, whatever its status says."""
        return pod.ready and pod.deleted is None and pod.node in self._ready_nodes and not pod.finished

    def _budget_cause(
        self, budget: DisruptionBudget, *, unready: bool
    ) -> BudgetNotObserved | BudgetNotComputed | BudgetExhausted:
        """Return why a PodDisruptionBudget allows no eviction now."""
        name = f"{budget.namespace}/{budget.name}"
        if budget.observed_generation < budget.generation:
            return BudgetNotObserved(name)
        if not budget.synced:
            return _not_computed(budget)
        healthy, expected, desired = budget.current_healthy, budget.expected, budget.desired_healthy
        return BudgetExhausted(name, healthy, expected, desired, planned=self._taken[budget], unready=unready)

    def _workload_limit(self, member: PodController, pod: Pod) -> WorkloadLimitReached | None:
        """Return which of our own limits allows no eviction of this pod now, None if all do."""
        identity = _identity(member)
        used, most = self._limits_by_field(member)
        planned, serves = self._planned.get(identity, ()), self._serves(pod)
        left = {
            field: most[field]
            - used[field]
            - (len(planned) if field.startswith(PER_WORKLOAD) else self._taken_of_workload[identity])
            for field in most
            if serves or field.startswith(PER_WORKLOAD) or not most[field]
        }
        tightest = min(left, key=left.__getitem__)
        if left[tightest] >= 1:
            return None
        workload = member.top or member.owner
        assert workload is not None
        return WorkloadLimitReached(
            replicas=workload.replicas,
            unavailable=used[MAX_UNAVAILABLE],
            moving=used[PER_WORKLOAD],
            planned=tuple(planned),
            field=tightest,
            allowed=most[tightest],
        )


def serves(pod: Pod, clock: Clock) -> bool:
    """Return whether a pod is Ready, or has not been unready for long enough to count as unavailable."""
    since = pod.unready_since
    return pod.ready or (since is not None and not clock.has_lasted(since, _UNREADY_FOR))


def _not_computed(budget: DisruptionBudget) -> BudgetNotComputed:
    return BudgetNotComputed(str(budget), budget.failure, budget.remedy if budget.failure else "")


def _most_by_budget(budget: DisruptionBudget) -> int:
    """Return how many disruptions a budget allows while every pod is healthy."""
    return max(0, budget.expected - budget.desired_healthy)


def _identity(member: PodController) -> str:
    workload = member.top or member.owner
    assert workload is not None
    return workload.uid


class GroupBudgets:
    """Budgets of the policy's groups: `disruption.maxInFlight`, and the pause `settle` after a pod became Ready.

    The memory has the last replacements by our clock, even if they have failed. Older replacements, and those of pods
    that others evicted, are read from the pods. Times in the future, from a node's clock, are ignored.
    """

    def __init__(self, view: View, memory: PlanningMemory, gathered: Iterable[LimitGroup]) -> None:
        self._snapshot, self._clock = view.snapshot, view.clock
        self._groups: dict[str, list[LimitGroup]] = {}
        """The groups of each pod, by the pod's UID."""
        self._unavailable: dict[str, int] = {}
        self._unexecuted: dict[str, frozenset[str]] = {}
        """UIDs of a group's pods whose evictions may still be carried out: they count against other pods' evictions."""
        self._last_ready: dict[str, datetime | None] = {}
        arrived = {move.replacement: move.changed_at for move in memory.moves if move.state in _ENDED}
        for group in gathered:
            rule = group.policy_group.disruption
            if rule.max_in_flight is None and not rule.settle:
                continue
            for pod in group.pods:
                self._groups.setdefault(pod.uid, []).append(group)
            self._unavailable[group.name] = self._count_missing(group)
            self._unexecuted[group.name] = memory.unexecuted_pods.intersection(map(_UID, group.pods))
            if rule.settle:
                since = [pod.ready_since for pod in group.pods if pod.ready_since is not None]
                since = [moment for moment in since if moment <= view.snapshot.taken_at]
                since += [arrived[pod.uid] for pod in group.pods if pod.uid in arrived]
                self._last_ready[group.name] = max(since, default=None)

    def _count_missing(self, group: LimitGroup) -> int:
        """Count the members that are unready, waiting, evicted by anybody, or still to be created."""
        nodes = self._snapshot.node
        ready = sum(
            1
            for pod in group.pods
            if pod.ready and pod.node is not None and pod.node in nodes and nodes[pod.node].ready
        )
        owners = {part.member.owner.uid: part.member for part in group.parts if part.member.owner is not None}
        wanted = sum(
            max(member.owner.replicas if member.owner is not None else 0, len(member.pods))
            for member in owners.values()
            if self._is_whole(member.pods, group)
        )
        partly = sum(len(part.pods) for part in group.parts if not self._is_whole(part.member.pods, group))
        return max(0, wanted + partly - ready)

    def _is_whole(self, pods: Sequence[Pod], group: LimitGroup) -> bool:
        """Return whether all pods of an owner are in the group; then pods that it has still to create count, too."""
        return all(group in self._groups.get(pod.uid, ()) for pod in pods)

    @property
    def exist(self) -> bool:
        """Whether a group limits how its pods are disrupted."""
        return bool(self._groups)

    def terms_of(self, pod: Pod) -> Hashable:
        """Return the pod's groups, each with whether this pod's eviction is already counted in it."""
        groups = self._groups.get(pod.uid, ())
        return tuple([(group.name, pod.uid if pod.uid in self._unexecuted[group.name] else "") for group in groups])

    def blocked(self, pod: Pod) -> Refusal | None:
        """Return why this pod's groups allow no further eviction now, or None."""
        for group in self._groups.get(pod.uid, ()):
            rule = group.policy_group.disruption
            unavailable = self._unavailable[group.name] + len(self._unexecuted[group.name] - {pod.uid})
            # An unavailable pod is already counted, so its eviction does not change the count.
            asked = serves(pod, self._clock) or not rule.max_in_flight
            if rule.max_in_flight is not None and asked and unavailable >= rule.max_in_flight:
                return GroupUnavailable(group.name, unavailable, rule.max_in_flight)
            since = self._last_ready.get(group.name)
            if since is not None and not self._clock.has_lasted(since, rule.settle):
                return GroupSettling(group.name, self._clock.age_of(since), rule.settle)
        return None

    def take(self, pod: Pod, number: int) -> None:
        """Add `number` to the unavailable pods of a pod's groups: 1 for an eviction, -1 to undo it."""
        for group in self._groups.get(pod.uid, ()) if serves(pod, self._clock) else ():
            self._unavailable[group.name] += number

    def most(self, pod: Pod, otherwise: int) -> int:
        """Return how many pods of the pod's groups, this pod included, may ever be evicted at once."""
        limits = [group.policy_group.disruption.max_in_flight for group in self._groups.get(pod.uid, ())]
        itself = not serves(pod, self._clock)
        return min((limit + (itself and limit > 0) for limit in limits if limit is not None), default=otherwise)
