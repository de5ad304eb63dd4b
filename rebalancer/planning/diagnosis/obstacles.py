"""Why a group cannot be made right: arithmetic, room, or pods that cannot move, told apart by lifting one at a time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from msgspec import structs

from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.diagnosis.relaxation import find_relaxation
from rebalancer.planning.formulation import SingleClassProblem
from rebalancer.planning.multi_class.classes import MultiClassProblem, PodClass
from rebalancer.planning.multi_class.solve import Unsolved, solve
from rebalancer.planning.scope.eligibility import Refusal
from rebalancer.planning.scope.requirements import requirement_for_count
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import Bounds, Inner, count_domains, map_leaves
from rebalancer.planning.single_class.placement import count_pods as counted

_FARTHEST = 1000
"""How far from the present number of pods a feasible one is looked for."""


def diagnose_single_class(problem: SingleClassProblem) -> tuple[State, Refusal]:
    """Say what stands in the way of a group whose distance does not exist."""
    layout = problem.layout
    bounds, total = layout.bounds, counted(layout.root) + problem.pending
    ideal = relaxed(layout.root, room=total)
    if min_evictions(ideal, bounds, problem.pending) is None:
        return State.INFEASIBLE, _arithmetic(problem, ideal, total)
    if min_evictions(relaxed(layout.root, room=None), bounds, problem.pending) is None:
        return State.UNFIXABLE, _no_room(problem)
    return State.UNFIXABLE, _tied(problem.sorted.refused)


def diagnose_multi_class(mixed: MultiClassProblem, unsolved: Unsolved) -> tuple[State, Refusal]:
    """Say the same of pods of several kinds."""
    cut_short = State.VIOLATED, Refusal(Reason.NOT_FORCED, "the search for the fewest evictions was cut short")
    if unsolved is Unsolved.GIVEN_UP:
        return cut_short
    free = replace(mixed, classes=tuple(replace(kind, fixed={}) for kind in mixed.classes))
    found = solve(free)
    if not isinstance(found, Unsolved):
        return State.UNFIXABLE, _tied(mixed.sorted.refused)
    total = sum(sum(kind.counts.values()) + kind.pending for kind in mixed.classes)
    roomy = replace(
        free,
        classes=tuple(replace(kind, cap=_anywhere(mixed, kind, total), now={}) for kind in free.classes),
        view=None,
    )
    with_room = solve(roomy)
    if not isinstance(with_room, Unsolved):
        return State.UNFIXABLE, Refusal(
            Reason.NO_CAPACITY, "the nodes that would have to take more of these pods have no room for them"
        )
    if Unsolved.GIVEN_UP in {found, with_room}:
        return cut_short
    would = find_relaxation(mixed)
    message = f"no arrangement of these {total} pods of {len(mixed.classes)} kinds satisfies all"
    return State.INFEASIBLE, Refusal(Reason.NO_ARRANGEMENT, f"{message}; {would}" if would else message)


def _anywhere(mixed: MultiClassProblem, kind: PodClass, total: int) -> dict[str, int]:
    """Return room for everything on all nodes that count for what is asked of a kind."""
    nodes = {*kind.cap, *(node for number in kind.requirements for node in mixed.requirements[number].nodes)}
    return dict.fromkeys(sorted(nodes), total)


def _tied(refused: Sequence[tuple[Pod, PodController, Refusal]]) -> Refusal:
    """Name what most of the pods that stay have in common."""
    reasons = Counter(refusal.reason for _, _, refusal in refused)
    if not reasons:
        return Refusal(Reason.NOT_EVICTABLE, "pods of other workloads count as well, and are not moved for this one")
    reason, times = min(reasons.items(), key=lambda each: (-each[1], each[0]))
    pod, _, refusal = min((each for each in refused if each[2].reason is reason), key=lambda each: each[0].name)
    return Refusal(reason, f"{times} pods stay where they are, {pod.name} for one: {refusal.message}")


@lru_cache(maxsize=1 << 10)
def relaxed(root: Inner, *, room: int | None) -> Inner:
    """Return the arrangement without immovable pods, and with this much room on every node where it is given."""
    return map_leaves(root, lambda leaf: (leaf[0], 0, leaf[2] if room is None else leaf[0] + room, leaf[3]))


def _emptied(root: Inner, room: int) -> Inner:
    """Return the same nodes with nothing on them and room for `room` each."""
    return map_leaves(root, lambda _: (0, 0, room, 0))


def _arithmetic(problem: SingleClassProblem, ideal: Inner, total: int) -> Refusal:
    """Explain with the nearest numbers of pods that could stand right."""
    bounds = problem.layout.bounds
    unmet = [level for level, bound in enumerate(bounds, start=1) if bound.floor_at_zero]
    nearest = [str(number) for number in _nearest(problem, ideal, total)]
    would = f"; {' or '.join(nearest)} would do" if nearest else ""
    if unmet:
        many, skew = count_domains(ideal, unmet[0]), bounds[unmet[0] - 1].max_skew
        return Refusal(
            Reason.TOO_FEW_DOMAINS,
            f"only {many} domains exist, fewer than minDomains, so each may hold {skew}: too few for {total}{would}",
        )
    return Refusal(Reason.NO_ARRANGEMENT, f"no arrangement of {total} pods over these domains satisfies all{would}")


def _nearest(problem: SingleClassProblem, ideal: Inner, total: int) -> list[int]:
    """Return the nearest numbers of pods below and above that could stand right."""
    ways = (range(total - 1, 0, -1), range(total + 1, total + _FARTHEST))
    found = (next((number for number in way if _could_stand(problem, ideal, number, total)), None) for way in ways)
    return [number for number in found if number is not None]


def _could_stand(problem: SingleClassProblem, ideal: Inner, number: int, total: int) -> bool:
    bounds = _bounds(problem, number - total)
    return bounds is not None and min_evictions(_emptied(ideal, number), bounds, number) is not None


def _bounds(problem: SingleClassProblem, more: int) -> Bounds | None:
    """Return what is asked of so many pods more: a share is another number of them. None where that is not known."""
    demands = [requirement_for_count(each, more) for each in problem.requirements]
    known = [each for each in demands if each is not None]
    if len(known) < len(demands):
        return None
    found = []
    for key, bound in zip(problem.layout.keys, problem.layout.bounds, strict=True):
        caps = [each.cap for each in known if each.key == key and each.cap is not None]
        least = max((each.least for each in known if each.key == key), default=0)
        found.append(structs.replace(bound, cap=min(caps, default=None), least=least))
    return tuple(found)


def _no_room(problem: SingleClassProblem) -> Refusal:
    layout = problem.layout
    for level, key in enumerate(layout.keys[:-1]):
        open_ = {path[level] for path in layout.ground.members if layout.takes_more(path)}
        closed = sorted(set(layout.ground.values(level)) - open_)
        cordoned = [value for value in closed if (level, value) in layout.ground.cordoned]
        if cordoned:
            return Refusal(
                Reason.ZONE_IN_MAINTENANCE,
                f"every node of {key} {', '.join(cordoned)} is cordoned; its return is awaited",
            )
        if closed:
            return Refusal(Reason.NO_CAPACITY, f"no node of {key} {', '.join(closed)} takes another of these pods")
    return Refusal(Reason.NO_CAPACITY, "the nodes that would have to take more of these pods have no room for them")
