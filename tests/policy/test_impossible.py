"""A limit is refused if and only if no placement of any number of pods satisfies it: compared with enumeration."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.policy import Condition, Limit, PolicyError, PolicyGroup, Selector, Share, When, load_policy
from rebalancer.policy.impossible import explain_impossible
from tests.drawing import examples

ZONE = "topology.kubernetes.io/zone"
MOST = 16
"""Pods, and domains, that are tried: every limit below that anything satisfies is satisfied by fewer."""

GROUP = PolicyGroup(name="g", selector=Selector())


@cache
def placements(pods: int, domains: int, most: int = MOST) -> tuple[tuple[int, ...], ...]:
    """Return every way to divide pods among domains, in descending order of their counts."""
    if not domains:
        return () if pods else ((),)
    first = range(min(pods, most), -1, -1)
    return tuple((count, *rest) for count in first for rest in placements(pods - count, domains - 1, count))


def satisfies(counts: tuple[int, ...], limit: Limit) -> bool:
    """Evaluate counts by the definition of the limit."""
    if limit.max_share is not None:
        bound = limit.max_share.fraction
        shares = [Fraction(count, sum(counts)) for count in counts if count]
        return all(share < bound if limit.max_share.strict else share <= bound for share in shares)
    if limit.max_pods is not None:
        return max(counts) <= limit.max_pods
    if limit.max_skew is not None:
        return max(counts) - min(counts) <= limit.max_skew
    return min(counts) >= (limit.min_pods or 0)


def numbers(limit: Limit) -> Iterator[tuple[int, int]]:
    """Yield pods and domains for which a limit may be in force."""
    for zones in range(7):
        most = min(len(limit.domains or range(MOST)), zones if limit.topology_key == ZONE else MOST)
        # Each domain that is declared must hold its own.
        least = len(limit.domains) if limit.domains and limit.min_pods else 1
        for pods in range(1, MOST + 1):
            if limit.when.holds(zones=zones, total=pods):
                yield from ((pods, domains) for domains in range(least, most + 1))


def satisfiable(limit: Limit) -> bool:
    tried = set(numbers(limit))
    return any(satisfies(counts, limit) for pods, domains in tried for counts in placements(pods, domains))


conditions = st.none() | st.builds(
    Condition, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(min_value=0, max_value=5)
)
bounds = st.one_of(
    st.sampled_from(["<1/2", "<=1/2", "<1/3", "<=1/3", "<1/4", "<=1/4", "<=2/3", "<3/4", "<34%", "<1/1"]).map(
        lambda written: {"max_share": Share.of(written)}
    ),
    st.integers(1, 4).map(lambda number: {"max_pods": number}),
    st.integers(1, 2).map(lambda number: {"max_skew": number}),
    st.integers(1, 4).map(lambda number: {"min_pods": number}),
)


def limited(bound: dict[str, Any], zones: Condition | None, total: Condition | None, **fields: Any) -> Limit:
    return Limit(name="l", when=When(zones=zones, total=total), **fields, **bound)


def reason(message: str) -> str:
    """Return a message without its numbers: one limit may have two defects, which are reported one by one."""
    return re.sub(r"[<=\d/%]+|zones?|domains?|pods?", "", message.partition(";")[0])


@examples(400)
@given(
    bounds,
    conditions,
    conditions,
    st.sampled_from([ZONE, "rack"]),
    st.none() | st.integers(1, 3).map(lambda number: ("x", "y", "z")[:number]),
)
def test_what_nothing_satisfies_is_refused_and_nothing_else(
    bound: dict[str, Any], zones: Condition | None, total: Condition | None, key: str, domains: tuple[str, ...] | None
) -> None:
    """By conditions, bound, domains and key; and what is proposed instead is not refused for the same reason again."""
    limit = limited(bound, zones, total, topology_key=key, domains=domains)
    message = explain_impossible(limit, GROUP)
    assert bool(message) == (not satisfiable(limit)), message
    for field, written in re.findall(r'(maxPods|minPods|share such as)[: "]+(<=\d+/\d+|\d+)', message):
        name = {"maxPods": "max_pods", "minPods": "min_pods"}.get(field, "max_share")
        change: dict[str, Any] = {name: Share.of(written) if name == "max_share" else int(written)}
        assert reason(explain_impossible(limit.model_copy(update=change), GROUP)) != reason(message)
    for written in re.findall(r'when\.total: "(>=\d+)"', message):
        when = When(zones=zones, total=Condition.of(written))
        assert reason(explain_impossible(limit.model_copy(update={"when": when}), GROUP)) != reason(message)


@pytest.mark.parametrize("bound", [{"max_share": Share.of("<1/3")}, {"max_pods": 1}, {"min_pods": 9}])
def test_within_larger_domains_nothing_is_certain(bound: dict[str, Any]) -> None:
    """What each of them holds is not the total that `when` speaks of."""
    limit = limited(bound, None, Condition.of("<3"), topology_key="rack", within="room", domains=("x",))
    assert explain_impossible(limit, GROUP) == ""


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            'when: {total: "<3"}, topologyKey: rack, maxShare: "<1/3"',
            '<1/3 of 2 pods is less than one; expected a share such as "<=1/2", or when.total: ">=4"',
        ),
        (
            'when: {total: 1}, topologyKey: rack, maxShare: "<=1/2"',
            '<=1/2 of 1 pod is less than one; expected when.total: ">=2"',
        ),
        (
            f'when: {{zones: 3, total: 4}}, topologyKey: {ZONE}, maxShare: "<=1/3"',
            '3 zones with <=1/3 of 4 pods each hold 3; expected a share such as "<=2/4", or another when.total',
        ),
        (
            'topologyKey: rack, domains: [a, b], maxShare: "<1/2"',
            '2 domains cannot each hold <1/2 of the pods; expected a share such as "<=1/2", or more domains',
        ),
        (
            f'when: {{zones: 1}}, topologyKey: {ZONE}, maxShare: "<1/2"',
            '1 zone cannot hold <1/2 of the pods; expected when.zones: ">1"',
        ),
        (
            f'when: {{zones: "<=2", total: ">=6"}}, topologyKey: {ZONE}, maxPods: 2',
            "2 zones with 2 pods each hold 4, when.total requires 6; expected maxPods: 3, or a smaller when.total",
        ),
        (
            'when: {total: "<=2"}, topologyKey: rack, minPods: 3',
            "a domain with 3 pods needs 3, when.total allows 2; expected minPods: 2, or a larger when.total",
        ),
        (
            f"when: {{zones: 1}}, topologyKey: {ZONE}, minPods: 1, domains: [a, b]",
            "2 domains are declared, when.zones allows 1; expected when.zones: 2, or fewer domains",
        ),
        (
            "when: {total: 0}, topologyKey: rack, maxPods: 1",
            "no number satisfies `when` (with at least 1 pod); expected",
        ),
        (f"when: {{zones: 0}}, topologyKey: {ZONE}, maxPods: 1", f"with 0 zones there is no domain of {ZONE}; expect"),
    ],
)
def test_an_impossible_limit_is_refused_with_line_and_example(row: str, message: str) -> None:
    """The message has the line, the reason and a valid example."""
    text = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\ngroups:\n- name: g\n  selector: {}\n"
    text += f"  limits:\n  - {{name: l, {row}}}\n"
    with pytest.raises(PolicyError) as caught:
        load_policy(text.encode(), source="policy.yaml")
    assert str(caught.value).startswith(f"policy.yaml:7: groups[0].limits[0]: {message}")
