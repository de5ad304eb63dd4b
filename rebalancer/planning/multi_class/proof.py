"""Why several pod classes need that many evictions: what the integer program proved, and what binds.

Problem: the program proves a number, not a reason. Idea: undo an eviction of the placement found. Whatever is violated
then is binding: if no requirement, capacity or anti-affinity were violated, the placement would take one eviction
fewer.

Example: zones of 5 and 1 pods, maxSkew 2 for zones and 4 for nodes. One eviction leads to 4 and 2. With the eviction
undone the zones differ by 4, so the zone constraint binds. No node holds more than before, so the node constraint does
not bind.

Cost: one pass over the nodes of each requirement.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import product
from math import inf

from msgspec import Struct

from rebalancer.model.facts import Fact
from rebalancer.model.moves import Reference
from rebalancer.model.words import limit_name, name_list, plural, short_key
from rebalancer.planning.multi_class.classes import PodClass, PodClasses
from rebalancer.planning.multi_class.solve import Solution
from rebalancer.planning.scope.requirements import Requirement


class BindingRequirement(Struct, frozen=True, gc=False):
    """A requirement that undoing an eviction violates: `limit` is a limit's name, "" for a constraint.

    `workloads` are the workloads whose pods a constraint counts, if it does not count all pods.
    """

    key: str
    limit: str
    bound: str
    workloads: tuple[Reference, ...]

    def __str__(self) -> str:
        """Return its name and its bound."""
        if self.limit:
            return limit_name(self.limit, self.bound, self.key)
        whose = f" of {name_list(map(str, self.workloads))}" if self.workloads else ""
        return f"{short_key(self.key)} (maxSkew {self.bound}){whose}"


class BindingTerm(Struct, frozen=True, gc=False):
    """A required term of podAntiAffinity that is repaired, of these workloads."""

    key: str
    workloads: tuple[Reference, ...]

    def __str__(self) -> str:
        """Return which workloads declare the term, and its key."""
        return f"required podAntiAffinity of {name_list(map(str, self.workloads))} over {short_key(self.key)}"


class MultiClassProof(Fact):
    """What an integer program proved of the fewest evictions, and what binds in its placement."""

    evictions: int
    lower_bound: int
    binding: tuple[BindingRequirement, ...]
    apart: tuple[BindingTerm, ...] = ()

    def __str__(self) -> str:
        text = f"an integer program proves that no placement takes fewer than {plural(self.lower_bound, 'eviction')}"
        if self.evictions > self.lower_bound:
            return f"{text}; the best placement that it found within its limits takes {self.evictions}"
        what = " or ".join(map(str, (*self.binding, *self.apart))) or "the capacity of a node or an anti-affinity"
        return f"{text}; undoing {'it' if self.evictions == 1 else 'one of them'} can violate {what}"


def prove(classes: PodClasses, solution: Solution) -> MultiClassProof:
    """Return the proof of a solution that satisfies all requirements."""
    numbers = (number for number in range(len(classes.requirements)) if _binds(classes, number, solution))
    binding = dict.fromkeys(_named(classes, number) for number in numbers)
    violated = (one.source for one in classes.exclusions if one.source is not None and one.source.violated)
    apart = dict.fromkeys(BindingTerm(term.term.topology_key, term.workloads) for term in violated)
    return MultiClassProof(solution.evictions, solution.bound, tuple(binding), tuple(apart))


def _named(classes: PodClasses, number: int) -> BindingRequirement:
    requirement, counted = classes.requirements[number], _counted(classes, number)
    workloads = {member.reference: None for index in counted for member in classes.classes[index].members}
    of_all = bool(requirement.limit) or len(counted) == len(classes.classes)
    return BindingRequirement(
        requirement.key, requirement.limit, requirement.stated_bound, () if of_all else tuple(workloads)
    )


def _counted(classes: PodClasses, number: int) -> list[int]:
    """Return the classes whose pods a requirement counts."""
    return [index for index, pod_class in enumerate(classes.classes) if number in pod_class.requirements]


def _binds(classes: PodClasses, number: int, solution: Solution) -> bool:
    """Return whether a requirement, which the solution satisfies, would be violated with some eviction undone.

    An undone eviction moves a pod back from one domain to another. The excess grows with the count of the domain that
    takes it, and with the emptiness of the domain that gives it. The two best candidates of each are enough to find a
    pair of different domains.
    """
    requirement = classes.requirements[number]
    counted, after = _counted(classes, number), _counts(requirement, classes.others[number])
    for (index, node), placed in solution.placed.items():
        if index in counted and node in requirement.nodes:
            after[requirement.domain[node]] += placed
    low, high = min(after.values(), default=0), max(after.values(), default=0)
    bound = requirement.bound.on_paper()
    for index in counted:
        gave, took = _changed(requirement, classes.classes[index], index, solution)
        fullest = sorted(gave, key=lambda domain: -after.get(domain, -1))[:2]
        emptiest = sorted(took, key=lambda domain: after.get(domain, inf))[:2]
        for back, away in product(fullest, emptiest):
            least, most = min(low, after.get(away, low + 1) - 1), max(high, after.get(back, high - 1) + 1)
            if back != away and bound.excess(least, most) > 0:
                return True
    return False


def _counts(requirement: Requirement, others: Mapping[str, int]) -> Counter[str | None]:
    """Return the pods of no class by domain, including domains without any."""
    counts = Counter[str | None]()
    for node in requirement.nodes:
        counts[requirement.domain[node]] += others.get(node, 0)
    return counts


def _changed(
    requirement: Requirement, pod_class: PodClass, index: int, solution: Solution
) -> tuple[Collection[str | None], Collection[str | None]]:
    """Return the domains that gave pods of a class and the domains that took some; None: nodes that do not count."""
    gave, took = dict[str | None, None](), dict[str | None, None]()
    placed = {node: number for (of, node), number in solution.placed.items() if of == index}
    for node in {**pod_class.counts, **placed}:
        change = placed.get(node, 0) - pod_class.counts.get(node, 0)
        domain = requirement.domain[node] if node in requirement.nodes else None
        if change:
            (gave if change < 0 else took)[domain] = None
    return gave, took
