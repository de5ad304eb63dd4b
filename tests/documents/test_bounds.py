"""The bounds of a domain are those of every placement that satisfies the constraint or the limit."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.documents.bounds import DomainBounds, constraint_bounds, limit_bounds
from rebalancer.engine import evaluate
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ZONE
from tests.build import a_layout, change_specs
from tests.drawing import examples
from tests.planning.build import limit, policy

COUNTS = st.lists(st.integers(0, 4), min_size=1, max_size=4)


@cache
def placements(number: int, domains: int) -> Sequence[tuple[int, ...]]:
    """Return every way to put so many pods into domains."""
    return [held for held in product(range(number + 1), repeat=domains) if sum(held) == number]


def extremes(number: int, domains: int, satisfies: Callable[[tuple[int, ...]], bool]) -> tuple[int, int] | None:
    """Return the fewest and the most pods that a domain holds in a placement; None where none is satisfying."""
    held = [count for placement in placements(number, domains) if satisfies(placement) for count in placement]
    return (min(held), max(held)) if held else None


def laid_out(counts: Sequence[int], skew: int, min_domains: int = 1) -> Snapshot:
    """Put a Deployment on zones of one node."""
    blueprint, on = a_layout([[held] for held in counts], "abcd")
    blueprint.deployment("web", on=on, replicas=sum(counts), spread={ZONE: skew})

    def with_domains(_: str, spec: PodSpec) -> PodSpec:
        spread = tuple(structs.replace(one, min_domains=min_domains) for one in spec.spread)
        return structs.replace(spec, spread=spread)

    return change_specs(blueprint.snapshot(), with_domains)


@given(counts=COUNTS, skew=st.integers(1, 3), min_domains=st.integers(1, 5))
@examples(200)
def test_the_bounds_of_a_constraint_are_reached_and_never_exceeded(
    counts: list[int], skew: int, min_domains: int
) -> None:
    """Where no placement satisfies it, no domain may hold more than maxSkew."""
    number, domains = sum(counts), len(counts)
    if not number:
        return
    (group,) = evaluate(laid_out(counts, skew, min_domains), policy()).assessment.groups
    bounds = constraint_bounds(group.hard[0].counts)
    at_zero = domains < min_domains
    expected = extremes(number, domains, lambda held: max(held) - (0 if at_zero else min(held)) <= skew)
    assert (bounds.min, bounds.max) == (expected or (0, skew))


@given(counts=COUNTS, rule=st.sampled_from(["maxPods", "maxSkew", "minPods"]), number=st.integers(1, 3))
@examples(200)
def test_the_bounds_of_a_limit_are_those_of_every_placement_and_its_cap(
    counts: list[int], rule: str, number: int
) -> None:
    """What it states itself, a cap or minPods, also where the pods reach it in no placement."""
    total, domains = sum(counts), len(counts)
    if not total:
        return
    found = evaluate(laid_out(counts, 9), policy(limit(f"{rule}: {number}", key=ZONE))).assessment.limits
    satisfies: dict[str, Callable[[tuple[int, ...]], bool]] = {
        "maxPods": lambda held: max(held) <= number,
        "maxSkew": lambda held: max(held) - min(held) <= number,
        "minPods": lambda held: min(held) >= number,
    }
    expected = extremes(total, domains, satisfies[rule])
    bounds = limit_bounds(found[0])
    if rule == "maxPods":
        assert bounds == DomainBounds(min=expected[0] if expected else 0, max=number)
    elif rule == "minPods":
        assert bounds == DomainBounds(min=number, max=expected[1] if expected else None)
    else:
        assert expected is not None, "some placement is even"
        assert bounds == DomainBounds(min=expected[0], max=expected[1])


def test_a_domain_without_nodes_stays_empty() -> None:
    """So the others hold what it does not, and maxSkew is a cap for them."""

    def bounds(bound: str) -> DomainBounds:
        rules = policy(limit(bound, key=ZONE, more=", domains: [a, b, z]"))
        return limit_bounds(evaluate(laid_out([3, 1], 9), rules).assessment.limits[0])

    assert bounds("maxSkew: 2") == DomainBounds(min=2, max=2)
    assert bounds("maxPods: 3") == DomainBounds(min=1, max=3)
    assert bounds("minPods: 1") == DomainBounds(min=1, max=None)
