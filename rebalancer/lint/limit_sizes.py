"""Numbers of pods that a limit and its constraint exclude, and groups of pods that block each other under it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rebalancer.assessment.sizes.changes import SizeNames, find_change
from rebalancer.assessment.sizes.layout import evaluate_sizes, join_sizes, list_sizes
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.limit_numbers import Domains, search_deadlocks, size_problem, unattainable_sizes
from rebalancer.lint.limits import CoveredLimit
from rebalancer.lint.manifest import Path
from rebalancer.lint.terms import own_terms
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.pods import Pod
from rebalancer.model.words import plural, short_key

_REPLICAS: Path = ("spec", "replicas")

_MOST_SHOWN: Final = 12
"""At most this many ranges of sizes are listed; the rest are counted."""


def check_sizes(covered: CoveredLimit, max_skew: int | None) -> Iterator[Finding]:
    """Yield the numbers of pods without a placement.

    For limit and constraints together, these are numbers that may be chosen; for the constraints only, all numbers.
    `max_skew` is the maxSkew over the limit's domains that all the pods have, or should have.
    """
    cap = covered.cap
    if covered.domains is None or max_skew is None:
        sizes = tuple(size for size in covered.sizes if not cap.of(size))
        if sizes:
            yield _beyond(covered, sizes, f"of {show_sizes(sizes)} pods {covered.title} allows none in a domain")
        return
    domains = domains_of(covered, max_skew)
    excluded = {*unattainable_sizes(covered.sizes[-1], cap, domains)}
    sizes = tuple(size for size in covered.sizes if size in excluded)
    if sizes:
        both = f"both {covered.title} and {_constraints(covered, domains)}"
        yield _beyond(covered, sizes, f"no placement of {show_sizes(sizes)} pods satisfies {both}")
    problem = size_problem(covered.pods, domains)
    impossible, unreachable = evaluate_sizes(problem)
    if not impossible and not unreachable:
        return
    larger = covered.larger_key
    change = find_change(
        problem, None, SizeNames(covered.limit.topology_key, larger, f"the smallest {short_key(larger)}")
    )
    helps = f"{change}: then each number has one" if change else "No single change is enough"
    under = f"with {_constraints(covered, domains)}"
    reached = "pods that are placed one by one do not reach these numbers"
    for found, what in ((impossible, "these numbers of pods have no placement"), (unreachable, reached)):
        if found:
            yield Finding(
                rule=Rule.SIZES_WITHOUT_PLACEMENT,
                severity=Severity.WARNING if covered.pods in found else Severity.INFO,
                manifest=covered.manifests[0],
                path=_REPLICAS,
                message=f"{under} {what}: {show_sizes(found)}. {helps}",
                sizes=found,
            )


def _beyond(covered: CoveredLimit, sizes: tuple[int, ...], message: str) -> Finding:
    return Finding(
        rule=Rule.SIZES_BEYOND_LIMIT,
        severity=Severity.INFO,
        manifest=covered.manifests[0],
        path=_REPLICAS,
        message=message,
        sizes=sizes,
    )


def show_sizes(sizes: Sequence[int]) -> str:
    """Write sizes as ranges; if there are too many ranges, say how many more sizes there are."""
    ranges = join_sizes(sizes)
    if len(ranges) <= _MOST_SHOWN:
        return list_sizes(sizes)
    last = ranges[_MOST_SHOWN - 1][1]
    return f"{list_sizes([size for size in sizes if size <= last])} and {sum(size > last for size in sizes)} more"


def domains_of(covered: CoveredLimit, max_skew: int) -> Domains:
    """Return the domains of a limit, with the maxSkew over them and, if there are larger domains, over those."""
    zones = covered.zones
    return Domains(zones, max_skew, covered.find_max_skew(covered.larger_key) if len(zones) > 1 else None)


def _constraints(covered: CoveredLimit, domains: Domains) -> str:
    of_zones = f" and {domains.zone_max_skew} over {covered.larger_key}" if domains.zone_max_skew is not None else ""
    return f"maxSkew {domains.max_skew} over {covered.limit.topology_key}{of_zones}"


def check_groups(covered: CoveredLimit, max_skew: int) -> Iterator[Finding]:
    """Yield workloads of equal size that can block each other: each keeps its own pods apart by anti-affinity."""
    size = _find_group_size(covered)
    if size is None or covered.domains is None:
        return
    groups, domains = len(covered.manifests), domains_of(covered, max_skew)
    which = f"with {_constraints(covered, domains)}, {groups} groups of {size} with anti-affinity"
    found = search_deadlocks(groups, size, domains)
    if found is not None and not found.stuck:
        return
    numbers = {"groups": groups, "groupSize": size}
    if found is None:
        message = f"{which}: too many placements to search for deadlocks"
    else:
        free = f". With maxSkew {found.free_from} none does" if found.free_from is not None else ""
        outcomes = plural(found.ways, "scheduler outcome")
        message = f"{which} can deadlock: {found.stuck} of {outcomes} leave a pod pending{free}"
        numbers |= {"ways": found.ways, "stuck": found.stuck}
        numbers |= {"freeFrom": found.free_from} if found.free_from is not None else {}
    yield Finding(
        rule=Rule.GROUPS_DEADLOCK,
        severity=Severity.INFO if found is None else Severity.WARNING,
        manifest=covered.manifests[0],
        path=_REPLICAS,
        message=message,
        numbers=numbers,
    )


def _find_group_size(covered: CoveredLimit) -> int | None:
    """Return how many pods each workload has, all kept apart over the same domains; None if the numbers differ."""
    if len(covered.limit.parts) != len(covered.manifests) or len({one.replicas for one in covered.manifests}) > 1:
        return None
    key = covered.larger_key if len(covered.zones) > 1 else covered.limit.topology_key
    samples = covered.samples
    if len(samples) < len(covered.manifests):
        return None
    for number, manifest in enumerate(covered.manifests):
        terms = [term for _, term in own_terms(manifest, apart=True) if term.topology_key == key]
        others = (*samples[:number], *samples[number + 1 :])
        if not terms or any(_selects_any(term, others) for term in terms):
            return None
    return covered.manifests[0].replicas


def _selects_any(term: PodAffinityTerm, pods: Iterable[Pod]) -> bool:
    return term.selector is not None and any(term.selector.matches(pod.labels) for pod in pods)
