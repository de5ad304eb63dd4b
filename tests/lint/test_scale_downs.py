"""What a scale-down of a StatefulSet leaves, as every history of small ones shows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.scale_downs import Remainder, stays_in_order, worst_remainder
from rebalancer.model.snapshot import Snapshot
from tests.lint.build import HOST, ZONE, deployment, patched, spread
from tests.lint.test_limits import found, limited, nodes

_Places = tuple[int | None, ...]
"""The domain of each ordinal, None while it has none."""


def count(places: Sequence[int | None], domains: int) -> list[int]:
    number = Counter(places)
    return [number[domain] for domain in range(domains)]


def place(places: _Places, domains: int, skew: int) -> Iterator[_Places]:
    """Yield what comes of pods without a domain, each in the order of ordinals wherever the constraint admits it."""
    if None not in places:
        yield places
        return
    first, counts = places.index(None), count(places, domains)
    for domain in range(domains):
        if counts[domain] + 1 - min(counts) <= skew:
            yield from place((*places[:first], domain, *places[first + 1 :]), domains, skew)


@cache
def histories(pods: int, domains: int, skew: int, at_once: int) -> frozenset[_Places]:
    """Return all placements that are reached when up to so many pods at a time are replaced."""
    seen = set(place((None,) * pods, domains, skew))
    stack = list(seen)
    while stack:
        places = stack.pop()
        for number in range(1, at_once + 1):
            for gone in combinations(range(pods), number):
                left = tuple(None if ordinal in gone else domain for ordinal, domain in enumerate(places))
                new = set(place(left, domains, skew)) - seen
                seen |= new
                stack += new
    return frozenset(seen)


def skew_of(places: _Places, left: int, domains: int) -> int:
    """Return the skew of the lowest ordinals."""
    counts = count(places[:left], domains)
    return max(counts) - min(counts)


CASES = [(pods, domains, skew) for pods in range(2, 7) for domains in (2, 3) for skew in (1, 2)]


@pytest.mark.parametrize(("pods", "domains", "skew"), CASES)
def test_the_worst_remainder_is_what_some_history_leaves(pods: int, domains: int, skew: int) -> None:
    """The largest skew of a scale-down from within maxSkew, after any replacements, and the most pods that have it."""
    every = [places for places in histories(pods, domains, skew, pods) if skew_of(places, pods, domains) <= skew]
    worst = {left: max(skew_of(places, left, domains) for places in every) for left in range(1, pods + 1)}
    largest = max(worst.values())
    pods_left = max(left for left, found_skew in worst.items() if found_skew == largest)
    assert worst_remainder(pods, domains, skew) == Remainder(pods_left, largest)


@pytest.mark.parametrize(("pods", "domains", "skew"), CASES)
def test_what_stays_in_order_is_within_max_skew_after_every_scale_down(pods: int, domains: int, skew: int) -> None:
    """As long as pods are replaced one at a time; of what does not, that is enough for the worst remainder."""
    left, largest = worst_remainder(pods, domains, skew)
    every = histories(pods, domains, skew, 1)
    if stays_in_order(pods, domains, skew):
        assert all(skew_of(places, number, domains) <= skew for places in every for number in range(1, pods + 1))
    else:
        assert max(skew_of(places, left, domains) for places in every) == largest


def stateful(replicas: int, *rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return deployment(replicas, kind="StatefulSet", topologySpreadConstraints=list(rules), **spec)


def notes(made: dict[str, Any], cluster: Snapshot | None = None) -> list[Finding]:
    return [one for one in found(limited("maxPods: 99"), made, cluster=cluster) if one.rule is Rule.SCALE_DOWN_SKEW]


def test_the_message_names_both_numbers_and_what_stays_even() -> None:
    """Four pods over three zones; the change removes the finding, in a cluster too."""
    made = stateful(4, spread())
    (note,) = notes(made)
    assert note.severity is Severity.INFO
    assert note.message == (
        "a scale-down deletes the highest ordinals, wherever they are: scaled from 4 to 3, one of 3 domains of "
        f"{ZONE} may have 2 and another none, where maxSkew is 1. 6 replicas with maxSkew 1 stay within it while pods "
        "are replaced one at a time"
    )
    assert [(one.path[-1], one.value) for one in note.patch] == [("replicas", 6)]
    assert notes(patched(made, note)) == []
    (there,) = notes(stateful(6, spread(HOST, 2)), nodes(1, 1, 1))
    assert [(one.path[-1], one.value) for one in there.patch] == [("maxSkew", 1)]
    assert notes(patched(stateful(6, spread(HOST, 2)), there), nodes(1, 1, 1)) == []


@pytest.mark.parametrize(
    "made",
    [
        stateful(6, spread()),  # a multiple of the domains
        stateful(2, spread()),
        stateful(4, spread(hard=False)),
        stateful(4, spread(HOST)),  # how many nodes there are is not known
        stateful(4, spread(labelSelector={"matchLabels": {"app": "db"}})),
        stateful(4, spread(minDomains=4)),
        stateful(4, spread(matchLabelKeys=["controller-revision-hash"])),
        deployment(4, topologySpreadConstraints=[spread()]),
    ],
)
def test_what_no_scale_down_skews_is_not_found(made: dict[str, Any]) -> None:
    """Nor what only a cluster decides."""
    assert notes(made) == []


def test_domains_that_take_no_pods_are_left_to_other_rules() -> None:
    """The constraint counts them as empty: what a scale-down leaves is another question then."""
    made = stateful(4, spread(max_skew=2), nodeSelector={ZONE: "a"})
    assert notes(made, nodes(1, 1)) == []


def test_a_limit_that_a_scale_down_violates_is_found() -> None:
    """Seven pods over three nodes are 3, 2, 2 at worst; three of four are more than half."""
    policy, made = limited('maxShare: "<=1/2"'), stateful(7, spread(HOST))
    (note,) = [
        one
        for one in found(policy, made, cluster=nodes(1, 1, 1))
        if one.rule is Rule.SCALE_DOWN_SKEW and one.path == ("spec", "replicas")
    ]
    every = histories(7, 3, 1, 1)
    broken = [left for left in range(2, 7) if any(2 * max(count(one[:left], 3)) > left for one in every)]
    assert list(note.sizes) == broken
    assert note.message.startswith("a scale-down deletes the highest ordinals, wherever they are: 3 of the lowest ")


def test_where_each_domain_holds_one_pod_at_most_no_scale_down_leaves_two() -> None:
    """Required anti-affinity over the key of the constraint."""
    assert notes(stateful(5, spread()))
    apart = {"topologyKey": ZONE, "labelSelector": spread()["labelSelector"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    assert not notes(stateful(5, spread(), affinity=affinity))
