"""Why a component cannot be repaired: arithmetic, capacity, or pods that cannot move.

Each obstacle is removed in turn. If no placement exists even with every pod movable and unlimited capacity on every
node, the cause is arithmetic. If a placement exists only with unlimited capacity, the cause is capacity. Otherwise the
cause is pods that stay.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from rebalancer.assessment.anti_affinity.result import EvaluatedTerm
from rebalancer.assessment.controllers import PodController
from rebalancer.model.facts import End, Refusal
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.words import name_list, plural
from rebalancer.planning.diagnosis.closed_nodes import ClosedDomains
from rebalancer.planning.multi_class.classes import PodClass, PodClasses
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement, requirement_for_count
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import Bounds, Inner, count_domains, count_pods, map_leaves
from rebalancer.scheduling.feasibility import admitted_by_labels

Obstacle = tuple[State, Refusal]
Explain = Callable[[ClosedDomains], Refusal]


def _feasible_text(counts: tuple[int, ...]) -> str:
    """Name the numbers of pods that can be placed, with "pod" or "pods" by the last number."""
    are = "pod is" if counts[-1:] == (1,) else "pods are"
    return f"; {' or '.join(map(str, counts))} {are} feasible" if counts else ""


class MinimumSearchLimit(Refusal):
    """The search for the fewest evictions reached its limit."""

    reason = Reason.NOT_FORCED
    ends = "when the search of a later cycle stays within its limit"

    def __str__(self) -> str:
        return "the search for the fewest evictions reached its limit"


class PodsStay(Refusal):
    """Every placement that satisfies everything moves pods that must stay, most of them for the reason of `pod`."""

    pods: int
    pod: str
    cause: Refusal

    @property
    def reason(self) -> Reason:
        """The reason why most of the pods stay."""
        return self.cause.reason

    def _end(self) -> End:
        return self.cause.end

    def __str__(self) -> str:
        return f"{self._stay}: {self.cause}"

    @property
    def timeless(self) -> str:
        return f"{self._stay}: {self.cause.timeless}"

    @property
    def _stay(self) -> str:
        if self.pods == 1:
            return f"pod {self.pod} stays on its node"
        return f"{plural(self.pods, 'pod')} stay on their nodes, for example {self.pod}"


class OthersStay(Refusal):
    """The constraints also count pods of other workloads, which are not moved for this workload."""

    reason = Reason.NOT_EVICTABLE

    def __str__(self) -> str:
        return "the constraints also count pods of other workloads, and those are not moved for this one"


class TooFewDomains(Refusal):
    """Fewer domains exist than minDomains (`required`), so each may hold at most maxSkew pods.

    `feasible` are the nearest numbers of pods that can be placed.
    """

    reason = Reason.TOO_FEW_DOMAINS
    domains: int
    required: int
    max_skew: int
    pods: int
    feasible: tuple[int, ...]

    def __str__(self) -> str:
        verb = "exists" if self.domains == 1 else "exist"
        return (
            f"only {plural(self.domains, 'domain')} {verb} and minDomains is {self.required}, so each may hold at "
            f"most maxSkew ({self.max_skew}): too few for {plural(self.pods, 'pod')}{_feasible_text(self.feasible)}"
        )


class TooFewDomainsApart(Refusal):
    """Required podAntiAffinity keeps more pods apart than there are domains of its key that admit them."""

    reason = Reason.TOO_FEW_DOMAINS
    key: str
    workloads: tuple[Reference, ...]
    pods: int
    domains: int

    def __str__(self) -> str:
        admit = "admits" if self.domains == 1 else "admit"
        pods, declared = plural(self.pods, "pod"), name_list(map(str, self.workloads))
        return (
            f"required podAntiAffinity of {declared} keeps {pods} apart, and only {plural(self.domains, 'domain')} of "
            f"{self.key} {admit} them"
        )


def describe_outnumbered(term: EvaluatedTerm) -> TooFewDomainsApart:
    """Return the numbers of a term whose pods outnumber the domains."""
    needs = term.separation
    assert needs is not None, "an infeasible term says how many domains it needs"
    assert needs.domains is not None, "an infeasible term says how many domains there are"
    return TooFewDomainsApart(term.term.topology_key, term.workloads, needs.pods, needs.domains)


class NoPlacement(Refusal):
    """No placement of `pods` equal pods satisfies everything; `feasible` are the nearest possible numbers of pods."""

    reason = Reason.NO_ARRANGEMENT
    pods: int
    feasible: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"no placement of {plural(self.pods, 'pod')} over the domains satisfies all "
            f"constraints{_feasible_text(self.feasible)}"
        )


class NoPlacementOfClasses(Refusal):
    """No placement of pods of several classes satisfies everything.

    The nearest placement, if known, has `unplaced` pods without a node and exceeds requirements by `excess` pods.
    """

    reason = Reason.NO_ARRANGEMENT
    pods: int
    classes: int
    unplaced: int = 0
    excess: int = 0

    def __str__(self) -> str:
        parts = [f"leaves {plural(self.unplaced, 'pod')} without a node"] if self.unplaced else []
        parts += [f"exceeds the bounds by {plural(self.excess, 'pod')} in all"] if self.excess else []
        nearest = f"; the nearest placement {' and '.join(parts)}" if parts else ""
        pods = f"{plural(self.pods, 'pod')} in {plural(self.classes, 'group')} of identical pods"
        return f"no placement of {pods} satisfies all constraints{nearest}"


def diagnose_single_class(
    layout: Layout,
    requirements: Sequence[Requirement],
    pods: PodPartition,
    cache: SearchCache,
    explain: Explain,
) -> Obstacle:
    """Return why no placement of equal pods satisfies everything; `explain` says why nodes take no more."""
    root, bounds, pending = layout.root, layout.bounds, pods.missing
    total = count_pods(root, cache) + pending
    ideal = without_obstacles(root, cache, places=total)
    if min_evictions(ideal, bounds, pending, cache) is None:
        return State.INFEASIBLE, _diagnose_arithmetic(layout, requirements, ideal, total, cache)
    if min_evictions(without_obstacles(root, cache, places=None), bounds, pending, cache) is None:
        return State.UNFIXABLE, _diagnose_capacity(layout, explain)
    passing = [(pod, member, refusal) for pod, member, refusal in pods.refused if refusal.passes]
    if passing:
        ranked = layout.ranked.joined_by((pod, member) for pod, member, _ in passing)
        soon = layout.with_ranked(ranked)
        if min_evictions(soon.root, bounds, pending, cache) is not None:
            return State.VIOLATED, _diagnose_staying(passing)
    return State.UNFIXABLE, _diagnose_staying(pods.refused)


def diagnose_multi_class(
    classes: PodClasses,
    unsolved: Unsolved,
    limits: SearchLimits,
    nearest: Solution | None,
    explain: Callable[[], Refusal],
) -> Obstacle:
    """Return why no placement of several pod classes satisfies everything. `nearest` is the nearest placement.

    `explain` says why nodes take no more of the pods.
    """
    limit_reached = State.VIOLATED, MinimumSearchLimit()
    if unsolved is Unsolved.LIMIT_REACHED:
        return limit_reached
    free = replace(classes, classes=tuple(replace(pod_class, fixed={}) for pod_class in classes.classes))
    without_staying = solve(free, limits)
    if isinstance(without_staying, Solution):
        refused = classes.pods.refused
        passing = [(pod, member, refusal) for pod, member, refusal in refused if refusal.passes]
        if passing and isinstance(solve(classes.freed(pod for pod, _, _ in passing), limits), Solution):
            return State.VIOLATED, _diagnose_staying(passing)
        return State.UNFIXABLE, _diagnose_staying(refused)
    total = classes.total
    widened = tuple(
        replace(free_class, cap=_unlimited(classes, free_class, total), now={}) for free_class in free.classes
    )
    with_capacity = solve(replace(free, classes=widened, view=None), limits)
    if isinstance(with_capacity, Solution):
        return State.UNFIXABLE, explain()
    if Unsolved.LIMIT_REACHED in {without_staying, with_capacity}:
        return limit_reached
    outnumbered = next((term for term in classes.component.terms if term.state is State.INFEASIBLE), None)
    if outnumbered is not None:
        return State.INFEASIBLE, describe_outnumbered(outnumbered)
    proved = nearest is not None and nearest.evictions == nearest.bound
    cause = NoPlacementOfClasses(
        total,
        len(classes.classes),
        unplaced=nearest.unplaced if nearest is not None and proved else 0,
        excess=nearest.excess if nearest is not None and proved else 0,
    )
    return State.INFEASIBLE, cause


def _unlimited(classes: PodClasses, pod_class: PodClass, total: int) -> dict[str, int]:
    """Return capacity for all pods on every node that a class's requirements count and its affinity selects."""
    assert classes.view is not None, "the nodes are those of the cluster"
    selected = admitted_by_labels(pod_class.sample.spec.node_affinity, classes.view)
    counting = {node for number in pod_class.requirements for node in classes.requirements[number].nodes}
    if classes.component.terms:  # anti-affinity concerns every node
        counting.update(classes.view.nodes.names)
    return dict.fromkeys(sorted({*pod_class.cap, *(counting & selected)}), total)


def _diagnose_staying(refused: Sequence[tuple[Pod, PodController, Refusal]]) -> Refusal:
    """Return the most frequent reason why pods stay, with one of them."""
    reasons = Counter(refusal.reason for _, _, refusal in refused)
    if not reasons:
        return OthersStay()
    reason, times = min(reasons.items(), key=lambda counted: (-counted[1], counted[0]))
    alike = [(pod, refusal) for pod, _, refusal in refused if refusal.reason is reason]
    pod, refusal = min(alike, key=lambda pair: pair[0].name)
    return PodsStay(times, pod.name, refusal)


def without_obstacles(root: Inner, cache: SearchCache, *, places: int | None) -> Inner:
    """Return the placement with every pod movable and, if `places` is given, that many more places on every node."""
    known = cache.unobstructed.known.get((root, places))
    if known is not None:
        return known  # type: ignore[no-any-return]
    free = map_leaves(root, lambda leaf: (leaf[0], 0, leaf[2] if places is None else leaf[0] + places, leaf[3]))
    cache.unobstructed.store((root, places), free)
    return free


def _diagnose_arithmetic(
    layout: Layout, requirements: Sequence[Requirement], ideal: Inner, total: int, cache: SearchCache
) -> Refusal:
    """Explain an arithmetic obstacle by the nearest numbers of pods that can be placed as required."""
    feasible = tuple(_nearest_feasible(layout, requirements, ideal, total, cache))
    for level, bound in enumerate(layout.bounds, start=1):
        if bound.floor_at_zero:
            required = max(one.min_domains for one in requirements if one.key == layout.keys[level - 1])
            return TooFewDomains(count_domains(ideal, level), required, bound.max_skew or 0, total, feasible)
    return NoPlacement(total, feasible)


def _nearest_feasible(
    layout: Layout, requirements: Sequence[Requirement], ideal: Inner, total: int, cache: SearchCache
) -> list[int]:
    """Return the nearest numbers of pods below and above that can be placed as required."""

    def is_feasible(number: int) -> bool:
        bounds = _bounds_for(layout, requirements, number - total)
        empty = map_leaves(ideal, lambda _: (0, 0, number, 0))
        return bounds is not None and min_evictions(empty, bounds, number, cache) is not None

    far = cache.limits.feasible_count_distance
    directions = range(total - 1, max(0, total - 1 - far), -1), range(total + 1, total + 1 + far)
    nearest = (next((number for number in numbers if is_feasible(number)), None) for numbers in directions)
    return [number for number in nearest if number is not None]


def _bounds_for(layout: Layout, requirements: Sequence[Requirement], more: int) -> Bounds | None:
    """Return the bounds for `more` pods, which change bounds given as shares; None if a bound is not known."""
    changed = [requirement_for_count(requirement, more) for requirement in requirements]
    known = [requirement for requirement in changed if requirement is not None]
    if len(known) < len(changed):
        return None
    bounds = []
    for key, bound in zip(layout.keys, layout.bounds, strict=True):
        caps = [other.bound.cap for other in known if other.key == key and other.bound.cap is not None]
        least = max((other.bound.least for other in known if other.key == key), default=0)
        bounds.append(structs.replace(bound, cap=min(caps, default=None), least=least))
    return tuple(bounds)


def _diagnose_capacity(layout: Layout, explain: Explain) -> Refusal:
    """Explain the coarsest domains that take no more of these pods."""
    without_room = layout.closed_nodes()
    for key, nodes_of in layout.domains():
        closed = {value: nodes for value, nodes in sorted(nodes_of.items()) if without_room.issuperset(nodes)}
        cordoned = {value: nodes for value, nodes in closed.items() if layout.topology.are_cordoned(nodes)}
        if closed:
            return explain(ClosedDomains(key, closed, cordoned=cordoned))
    return explain(ClosedDomains(others=without_room))
