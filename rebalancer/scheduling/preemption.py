"""Preemption: which pods of lower priority kube-scheduler deletes for a pod that no node admits.

Problem: a pod fits on no node. Idea: take each node that rejects the pod for a reason that pods can change, and remove
every pod of lower priority. If the pod fits then, put them back one by one, the most important first, as long as it
still fits. The pods that stay out are the victims. Among all such nodes the scheduler takes the node whose victims
matter least.

Example, 4 CPUs a node, a pod of priority 10 with 2 CPUs: a runs pods of 1, 1 and 2 CPUs with the priorities 0, 5 and 5,
b runs a pod of 4 CPUs with priority 3. On a the second pod goes back first, then the third no longer fits, then the
first does: one victim, of priority 5. On b the victim has priority 3: b is chosen.

Some things cannot be known: the order of pods that started in the same second, the order of the budgets, which nodes a
large cluster's dry run reaches, and which of equal nodes wins. They are left open, so the result is a set of outcomes.

Source: `defaultpreemption/default_preemption.go` (SelectVictimsOnNode, PodEligibleToPreemptOthers),
`framework/preemption/preemption.go` (DryRunPreemption, pickOneNodeForPreemption), `preemption/util.go`
(MoreImportantVictim, FilterVictimsWithPDBViolation). Pod groups, which 1.37 preempts as a whole if an administrator
enables that, are not here.

Cost: one run of the filters on one node for each of its pods of lower priority, for each possible order.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import chain, groupby, permutations, product
from math import factorial, prod
from typing import Final, NamedTuple

from msgspec import Struct

from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.model.words import name_list
from rebalancer.scheduling.feasibility import VOLUME_FILTERS, find_nominated_pods, prepare_filters
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.node_ports import NodePorts
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit, drop_ignored_resources, fits
from rebalancer.scheduling.node_usage import Usage, add_usage, get_charge
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread
from rebalancer.scheduling.population import NO_AFFINITY
from rebalancer.scheduling.verdicts import Code, Verdict
from rebalancer.scheduling.view import View

DEFAULT_PREEMPTION: Final = "DefaultPreemption"

BUDGETS: Final = "PodDisruptionBudget"

MOST_ORDERS: Final = 24
"""Up to this many orders of equally important pods, and of budgets, are tried; else one is, and the result says so."""

NEVER: Final = "its preemptionPolicy is Never"
SWITCHED_OFF: Final = "the scheduler's configuration switches preemption off"
NO_NODE: Final = "no node would admit it without the pods of lower priority that run there"

_LOWEST_PRIORITY: Final = 2**31
"""Added to each priority before they are summed, so that more victims never make a smaller sum."""

_NO_START: Final = datetime.max.replace(tzinfo=UTC)

Importance = tuple[int, datetime]
"""The lowest value is the most important: negated priority, then start; pods that have yet to start are last."""

BudgetOrder = Mapping[DisruptionBudget, int]
"""The position of each budget whose position matters."""


class Preemption(Struct, frozen=True, gc=False, kw_only=True):
    """One outcome: the node that the pod is nominated for, and the pods that are deleted there.

    `victims` are sorted, the most important first. `violations` is the scheduler's own number, by which it compares
    nodes: victims whose budget does not allow removing all pods of lower priority. `broken` are the budgets that allow
    fewer disruptions than the victims take.
    """

    node: str
    victims: tuple[Pod, ...]
    violations: int
    broken: tuple[DisruptionBudget, ...]


class PreemptionOutlook(Struct, frozen=True, gc=False, kw_only=True):
    """What preemption would do for a pod that no node admits.

    `complete`: no other outcome is possible. `obstacle` says why nothing is preempted, "" if something is.
    """

    outcomes: tuple[Preemption, ...] = ()
    complete: bool = True
    obstacle: str = ""

    @property
    def excluded(self) -> bool:
        """Whether it is known that nothing is preempted."""
        return self.complete and not self.outcomes

    @property
    def certain(self) -> bool:
        """Whether node and victims are known."""
        return self.complete and len(self.outcomes) == 1


def find_preemptions(pod: Pod, verdicts: Mapping[str, Verdict], view: View) -> PreemptionOutlook:
    """Return what would be preempted for a pod that no node admits; nothing is changed.

    `verdicts` are the scheduler's results for all nodes, in the state of the view.
    """
    obstacle = _find_obstacle(pod, verdicts, view)
    if obstacle:
        return PreemptionOutlook(obstacle=obstacle)
    if view.profile.post_filters != (DEFAULT_PREEMPTION,):
        return PreemptionOutlook(complete=False)
    nodes = [name for name, verdict in verdicts.items() if verdict.code is Code.UNSCHEDULABLE]
    filters, nominated = _PodFilters(pod, view), find_nominated_pods(pod, view)
    runs = [_DryRun(filters, name, nominated.get(name, ())) for name in nodes]
    helping = [run for run in runs if run.helps()]
    if not helping:
        return PreemptionOutlook(obstacle=NO_NODE)
    orders, complete = _order_budgets(helping, view)
    enough = _count_enough(len(nodes), view)
    outcomes: dict[tuple[str, frozenset[str]], Preemption] = {}
    for order in orders:
        for outcome in _pick([run.outcomes(order) for run in helping], enough):
            outcomes.setdefault((outcome.node, frozenset(victim.uid for victim in outcome.victims)), outcome)
    ordered = sorted(outcomes.values(), key=lambda outcome: (outcome.node, [str(victim) for victim in outcome.victims]))
    complete = complete and all(run.exhaustive for run in helping) and BUDGETS not in view.snapshot.unknown
    return PreemptionOutlook(outcomes=tuple(ordered), complete=complete)


def has_lower_pods(pod: Pod, view: View) -> bool:
    """Return whether a pod may preempt at all: its preemptionPolicy allows it, and some pod has a lower priority."""
    lowest = view.memo("lowest priority", lambda: min((other.spec.priority for other in view.snapshot.pods), default=0))
    return pod.spec.preempts and lowest < pod.spec.priority


def describe_preemptions(outlook: PreemptionOutlook) -> str:
    """Say what would be preempted, as a phrase with a verb: an outcome that breaks most budgets, and other places."""
    if not outlook.outcomes:
        return "perhaps preempt pods: the scheduler's configuration has plugins for that which are not known"
    shown = max(outlook.outcomes, key=lambda outcome: len(outcome.broken))
    text = f"preempt {name_list(map(str, shown.victims))} on {shown.node}"
    if shown.broken:
        noun, verb = ("PodDisruptionBudget", "allows") if len(shown.broken) == 1 else ("PodDisruptionBudgets", "allow")
        text += f", more than {noun} {name_list(sorted(map(str, shown.broken)))} {verb}"
    nodes = sorted({outcome.node for outcome in outlook.outcomes if outcome is not shown})
    if nodes or not outlook.complete:
        text += f"; or other pods, on {name_list(nodes or [shown.node])}"
    return text


def _find_obstacle(pod: Pod, verdicts: Mapping[str, Verdict], view: View) -> str:
    if not pod.spec.preempts:
        return NEVER
    if not view.profile.post_filters:
        return SWITCHED_OFF
    nominated = pod.nominated_node
    if nominated is None or nominated not in verdicts or verdicts[nominated].code is Code.UNRESOLVABLE:
        return ""
    ending = any(
        other.preempted and other.terminating and other.spec.priority < pod.spec.priority
        for other in view.pods_on(nominated)
    )
    return f"pods that were preempted on {nominated} are still terminating" if ending else ""


def _count_enough(nodes: int, view: View) -> int:
    """Return after how many nodes with victims the dry run may stop (calculateNumCandidates)."""
    percentage, least = view.profile.preemption_candidates
    return min(nodes, max(nodes * percentage // 100, least))


def _order_budgets(runs: Iterable["_DryRun"], view: View) -> tuple[Sequence[BudgetOrder], bool]:
    """Return the orders of budgets that may make a difference, and whether these are all.

    The scheduler lists them in any order. From 1.37 on, once a pod has violated a budget, no further budget is checked
    for it, so the order decides what is left of the other budgets.
    """
    if not view.rules.first_violation_decides:
        return [{}], True
    shared = {
        budget: None
        for run in runs
        for victim in run.potential
        if len(selecting := find_budgets(victim, view)) > 1
        for budget in selecting
    }
    if factorial(len(shared)) > MOST_ORDERS:
        return [{}], False
    return [{budget: place for place, budget in enumerate(order)} for order in permutations(shared)], True


def find_budgets(pod: Pod, view: View) -> Sequence[DisruptionBudget]:
    """Return the budgets that preemption checks for a pod.

    Unlike the Eviction API it ignores budgets whose selector is `{}`, pods without labels, and budgets that have
    already granted the pod's eviction.
    """
    if not pod.labels:
        return ()
    return [
        budget
        for budget in view.snapshot.budget_selection.budgets_of(pod)
        if budget.selector and not budget.selector.empty and all(name != pod.name for name, _ in budget.disrupted)
    ]


def _pick(by_node: Sequence[Sequence[Preemption]], enough: int) -> Iterator[Preemption]:
    """Yield the outcomes that the scheduler may choose, given the outcomes of each node.

    The dry run begins anywhere and ends once it has `enough` nodes, one of them without a violation: it may miss a
    better node. Among the nodes that it has visited the scheduler takes the best, or any of several equal nodes.
    """
    all_violate = all(any(outcome.violations for outcome in outcomes) for outcomes in by_node)
    none_spared = all(all(outcome.violations for outcome in outcomes) for outcomes in by_node)
    missed = 0 if none_spared else max(0, len(by_node) - enough)
    bar = sorted(max(map(_rank, outcomes)) for outcomes in by_node)[missed]
    for outcomes in by_node:
        for outcome in outcomes:
            if _rank(outcome) <= bar and (all_violate or outcome.violations == 0):
                yield outcome


def _rank(outcome: Preemption) -> tuple[int, int, int, int, float]:
    """Return what the scheduler compares, the lowest first (pickOneNodeForPreemption).

    These are the number of violations, the highest priority, the sum of all priorities, the number of victims, and when
    the first victim with the highest priority started, the latest first. A pod that has yet to start counts as started
    now.
    """
    victims = outcome.victims
    highest = victims[0].spec.priority
    first = min(_get_start(victim) for victim in victims if victim.spec.priority == highest)
    return (
        outcome.violations,
        highest,
        sum(victim.spec.priority + _LOWEST_PRIORITY for victim in victims),
        len(victims),
        -first.timestamp(),
    )


def _get_start(pod: Pod) -> datetime:
    return pod.started_at or _NO_START


def _rank_importance(pod: Pod) -> Importance:
    """Return what the order of victims goes by (MoreImportantVictim): priority, then who started first."""
    return -pod.spec.priority, _get_start(pod)


class _Spread:
    """PodTopologySpread while pods of one node are taken away and put back.

    The plugin then changes the counts that it has (updateWithPod). Unlike the count itself it also subtracts pods that
    are terminating, and pods that `labelSelector: {}` selects: a domain may be left with fewer than none.
    """

    def __init__(self, pod: Pod, view: View) -> None:
        self._namespace = pod.namespace
        self._rows = (
            PodTopologySpread(pod, view).counts if PodTopologySpread.name not in view.profile.filters_off else ()
        )
        self._lowest = [_find_lowest(row) for row in self._rows]
        self._nodes = view.nodes.by_name
        self._weights: dict[tuple[str, Labels], tuple[int, ...]] = {}

    def weigh(self, pod: Pod) -> tuple[int, ...]:
        """Return for each constraint 1 if it counts a pod, else 0."""
        key = pod.namespace, pod.labels
        known = self._weights.get(key)
        if known is None:
            here = pod.namespace == self._namespace
            selectors = [row.constraint.selector for row in self._rows]
            known = tuple(int(here and one is not None and one.matches(pod.labels)) for one in selectors)
            self._weights[key] = known
        return known

    def admits(self, node: str, changes: Sequence[int]) -> bool:
        """Return whether a node passes if each constraint's counted pods change by `changes`."""
        labels = self._nodes[node].labels
        for row, lowest, change in zip(self._rows, self._lowest, changes, strict=True):
            value = labels.get(row.constraint.key)
            if value is None:
                return False
            held = row.by_domain.filled.get(value, 0) + (change if node in row.eligible.nodes else 0)
            others = [count for count, other in lowest if other != value]
            minimum = 0 if row.floor_at_zero else min((held, *others))
            if held + row.self_match - minimum > row.constraint.max_skew:
                return False
        return True


def _find_lowest(row: Counts) -> Sequence[tuple[int, str]]:
    """Return the two domains with the lowest counts: if one changes, the other is the lowest of the rest."""
    filled = row.by_domain.filled
    return nsmallest(2, ((filled.get(value, 0), value) for value in row.by_domain.domains))


_OTHERS: Final[Sequence[type[Filter]]] = (NodePorts, *VOLUME_FILTERS, InterPodAffinity)
"""The filters that depend on the node's pods, without NodeResourcesFit and PodTopologySpread."""


class _PodFilters:
    """The filters for one pod whose verdict the pods of a node can change."""

    def __init__(self, pod: Pod, view: View) -> None:
        self.pod: Final = pod
        self.view: Final = view
        self.spread: Final = _Spread(pod, view)
        self._requests = drop_ignored_resources(pod.spec.requests, view.profile)
        self._fit_is_on = NodeResourcesFit.name not in view.profile.filters_off
        meets_affinity = pod.spec.pod_affinity != NO_AFFINITY or any(True for _ in view.repelling(pod))
        self.others: Final[Sequence[type[Filter]]] = (
            *((NodePorts,) if pod.spec.host_ports else ()),
            *(VOLUME_FILTERS if pod.claims else ()),
            *((InterPodAffinity,) if meets_affinity else ()),
        )
        """The filters of `_OTHERS` that may reject the pod."""

    def admit_counts(self, node: str, used: Usage, changes: Sequence[int]) -> bool:
        """Say whether NodeResourcesFit and PodTopologySpread pass; 5,000 nodes take 4 times as long with states."""
        fitting = not self._fit_is_on or fits(self._requests, self.view.nodes.by_name[node], used)
        return fitting and self.spread.admits(node, changes)


class _Left(NamedTuple):
    """What is left of a node without some pods: these pods, the usage of the others, and the change for the spread."""

    gone: Mapping[str, Pod]
    used: Usage
    changes: Sequence[int]


class _DryRun:
    """One node without its pods of lower priority, and with the pods among them that fit beside the pod."""

    def __init__(self, filters: _PodFilters, node: str, nominated: Sequence[Pod]) -> None:
        pod, view = filters.pod, filters.view
        self._filters, self._view, self._node = filters, view, node
        self._added = [nominated, ()] if nominated else [()]
        lower = [other for other in view.pods_on(node) if other.spec.priority < pod.spec.priority]
        self.potential: Final = sorted(lower, key=_rank_importance)
        """The pods of lower priority, the most important first; equally important pods in any order."""
        self._ties = [[*equals] for _, equals in groupby(self.potential, _rank_importance)]
        self.exhaustive: Final = prod(factorial(len(equals)) for equals in self._ties) <= MOST_ORDERS
        """Whether `outcomes` has every outcome."""

    def helps(self) -> bool:
        """Return whether there are pods of lower priority and the pod fits without them."""
        return bool(self.potential) and self._fits(self._empty())

    def outcomes(self, order: BudgetOrder) -> Sequence[Preemption]:
        """Return the outcomes on this node, if the scheduler has the budgets in this order."""
        orders = product(*map(permutations, self._ties)) if self.exhaustive else [self._ties]
        found: dict[frozenset[str], Preemption] = {}
        for groups in orders:
            outcome = self._reprieve([*chain.from_iterable(groups)], order)
            found.setdefault(frozenset(victim.uid for victim in outcome.victims), outcome)
        return [*found.values()]

    def _reprieve(self, potential: Sequence[Pod], order: BudgetOrder) -> Preemption:
        """Put pods back while the pod still fits: first pods whose budget would be violated, then the others."""
        violating, others = _divide_by_budgets(potential, order, self._view)
        left, violations = self._empty(), 0
        for number, pod in enumerate((*violating, *others)):
            more = self._take_back(left, pod)
            if self._fits(more):
                left = more
            else:
                violations += number < len(violating)
        victims = sorted(left.gone.values(), key=_rank_importance)
        taken = Counter(budget for victim in victims for budget in find_budgets(victim, self._view))
        broken = tuple(budget for budget, number in taken.items() if number > max(0, budget.allowed))
        return Preemption(node=self._node, victims=tuple(victims), violations=violations, broken=broken)

    def _empty(self) -> _Left:
        """Return the node without any pod of lower priority."""
        rules, gone = self._view.rules, {pod.uid: pod for pod in self.potential}
        used = add_usage(((get_charge(pod, rules), -1) for pod in self.potential), self._view.used(self._node))
        weights = [self._filters.spread.weigh(pod) for pod in self.potential]
        return _Left(gone, used, [-sum(column) for column in zip(*weights, strict=True)])

    def _take_back(self, left: _Left, pod: Pod) -> _Left:
        gone = {uid: other for uid, other in left.gone.items() if uid != pod.uid}
        return _Left(gone, *self._add(left, [pod]))

    def _add(self, left: _Left, pods: Sequence[Pod]) -> tuple[Usage, Sequence[int]]:
        used = add_usage([(get_charge(pod, self._view.rules), 1) for pod in pods], left.used)
        changes = left.changes
        for pod in pods:
            changes = [change + weight for change, weight in zip(changes, self._filters.spread.weigh(pod), strict=True)]
        return used, changes

    def _fits(self, left: _Left) -> bool:
        """Return whether the pod fits on what is left, even once the pods nominated for the node have arrived."""
        return all(self._passes(left, added) for added in self._added)

    def _passes(self, left: _Left, added: Sequence[Pod]) -> bool:
        filters, name = self._filters, self._node
        used, changes = self._add(left, added)
        if not filters.admit_counts(name, used, changes):
            return False
        others = _OTHERS if added else filters.others
        if not others:  # the usual case, which needs no derived view
            return True
        state = self._view.without(left.gone.values())
        for nominated in added:
            state = state.with_placed(nominated, name)
        return all(plugin.verdict(name) for plugin in prepare_filters(filters.pod, state, others))


def _divide_by_budgets(potential: Iterable[Pod], order: BudgetOrder, view: View) -> tuple[Sequence[Pod], Sequence[Pod]]:
    """Return the pods whose budgets would be violated if all were preempted in this order, and the others."""
    left: dict[DisruptionBudget, int] = {}
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in potential:
        violates = False
        for budget in sorted(find_budgets(pod, view), key=lambda one: order.get(one, 0)):
            left[budget] = left.get(budget, budget.allowed) - 1
            if left[budget] < 0:
                violates = True
                if view.rules.first_violation_decides:
                    break
        (violating if violates else others).append(pod)
    return violating, others
