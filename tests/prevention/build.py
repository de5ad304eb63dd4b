"""Groups of pods by hand, drawn ones, and the best order by trying all."""

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from rebalancer.planning.scope.bounds import Bound
from rebalancer.prevention.outcome import Price
from rebalancer.prevention.scale_down import UNCOUNTED, Rule, ScaleDown

Bounds = Bound | Sequence[Bound | None]


def make_rule(
    domains: Sequence[int],
    bound: Bounds,
    *,
    key: str = "zone",
    fixed: Sequence[int] = (),
    lowest: int | None = None,
    highest: int | None = None,
) -> Rule:
    """Make a rule over pods whose domains are given; domains that have no pod follow from `lowest` and `highest`."""
    most = max(domains, default=-1) + 1
    bounds = (bound,) * (len(domains) + 1) if isinstance(bound, Bound) else tuple(bound)
    return Rule(
        topology_key=key,
        domains=tuple(domains),
        fixed=tuple(fixed) or (0,) * most,
        lowest=lowest,
        highest=highest,
        bounds=bounds,
    )


def make_group(*rules: Rule, avoided: Sequence[int] = ()) -> ScaleDown:
    return ScaleDown(size=len(rules[0].domains), rules=rules, avoided=frozenset(avoided))


def spread(*domains: Sequence[int], skew: int = 1, avoided: Sequence[int] = ()) -> ScaleDown:
    """Make a group with one constraint for each list of domains, the coarsest first, over exactly these domains."""
    return make_group(*(make_rule(domains_of_key, Bound(max_skew=skew)) for domains_of_key in domains), avoided=avoided)


def draw_bound(random: Random, size: int) -> Bounds:
    """Draw a maxSkew, a cap, a share or a floor."""
    match random.randrange(5):
        case 0 | 1:
            return Bound(max_skew=random.randint(1, 3), floor_at_zero=random.random() < 0.15)
        case 2:
            return Bound(cap=random.randint(1, max(1, size // 2)))
        case 3:
            parts, least = random.randint(2, 4), random.randint(0, 3)
            return [
                Bound(cap=max(1, remaining // parts)) if remaining > least else None for remaining in range(size + 1)
            ]
        case _:
            return Bound(least=1)


def draw_nested(random: Random, size: int) -> ScaleDown:
    """Draw zones with hosts, all pods counted, with bounds on either level or both."""
    zones = random.randint(1, 4)
    hosts = [zone for zone in range(zones) for _ in range(random.randint(1, 3))]
    where = [random.randrange(len(hosts)) for _ in range(size)]
    by_zone = make_rule(
        [hosts[host] for host in where], draw_bound(random, size), fixed=_draw_fixed(random, zones), **_others(random)
    )
    by_host = make_rule(
        where, draw_bound(random, size), key="host", fixed=_draw_fixed(random, len(hosts)), **_others(random)
    )
    rules = [by_zone, by_host] if random.random() < 0.7 else [random.choice([by_zone, by_host])]
    return make_group(*rules, avoided=[pod for pod in range(size) if random.random() < 0.2])


def draw_any(random: Random, size: int) -> ScaleDown:
    """Draw rules whose domains have nothing to do with domains_of_key other, and which need not count every pod."""
    rules = []
    for number in range(random.randint(1, 3)):
        count = random.randint(1, 4)
        domains = [random.randrange(count) if random.random() < 0.9 else UNCOUNTED for _ in range(size)]
        rules.append(
            make_rule(
                domains,
                draw_bound(random, size),
                key=f"key{number}",
                fixed=_draw_fixed(random, count),
                **_others(random),
            )
        )
    return make_group(*rules)


def _draw_fixed(random: Random, count: int) -> list[int]:
    return [random.choice([0, 0, 0, 1, 2]) for _ in range(count)]


def _others(random: Random) -> Mapping[str, Any]:
    if random.random() < 0.7:
        return {}
    lowest = random.randint(0, 2)
    return {"lowest": lowest, "highest": lowest + random.randint(0, 2)}


def best_price(group: ScaleDown) -> Price:
    """Return the price of the best order, by every set of pods that can remain."""

    @cache
    def best_from(remaining: frozenset[int]) -> Price:
        if len(remaining) <= 1:
            return Price()
        choices = []
        for pod in remaining:
            after = remaining - {pod}
            later = best_from(after)
            excess = group.excess_of(sorted(after)) if len(after) > 0 else 0
            choices.append(Price(later.violated + (excess > 0), later.excess + excess))
        return min(choices)

    return best_from(frozenset(range(group.size)))
