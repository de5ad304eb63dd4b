"""Groups and limits of a policy: shares, conditions, and what cannot be meant."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.policy import Basis, Condition, LimitAction, Policy, PolicyError, Share, load_policy
from rebalancer.policy.conditions import find_greatest
from tests.policy import strategies

NETEASE = Path(__file__).parents[2] / "config" / "examples" / "netease.yaml"
HEADER = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\ngroups:\n- name: g\n  selector: {}\n"


def limits(*rows: str) -> str:
    """Write a policy whose only group has these limits, from line 7 on."""
    return HEADER + "  limits:\n" + "".join(f"  - {{{row}}}\n" for row in rows)


def load(text: str) -> Policy:
    return load_policy(text.encode(), source="policy.yaml")


def refused(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(text)
    return str(caught.value).splitlines()


@given(st.booleans(), st.fractions(0, 1, max_denominator=40), st.integers(0, 500))
def test_a_cap_is_the_largest_number_within_the_share(strict: bool, fraction: Fraction, total: int) -> None:
    """Tried one by one in whole numbers, whether the total is divisible or not."""
    share = Share(strict, fraction)
    part, whole = fraction.numerator, fraction.denominator
    fits = [n for n in range(total + 1) if (n * whole < total * part if strict else n * whole <= total * part)]
    assert share.cap(total) == max(fits, default=0)
    assert [n for n in range(total + 1) if share.holds(n, total)] == (fits or [0])


@pytest.mark.parametrize(
    ("written", "caps"),
    [
        ("<1/3", {2: 0, 4: 1, 6: 1, 8: 2, 10: 3, 12: 3, 18: 5, 20: 6}),
        ("<=1/3", {2: 0, 4: 1, 6: 2, 8: 2, 10: 3, 12: 4, 18: 6, 20: 6}),
        ("<1/2", {2: 0, 4: 1, 6: 2, 8: 3, 10: 4, 12: 5, 18: 8, 20: 9}),
        ("<=1/2", {2: 1, 4: 2, 6: 3, 8: 4, 10: 5, 12: 6, 18: 9, 20: 10}),
    ],
)
def test_the_caps_of_the_design_that_the_limits_come_from(written: str, caps: dict[int, int]) -> None:
    """One to ten shards of two."""
    assert {total: Share.of(written).cap(total) for total in caps} == caps


@given(strategies.shares)
def test_a_share_is_formatted_as_it_is_read(written: str) -> None:
    """And shares that mean the same are shown, and hashed, alike."""
    share = Share.of(written)
    assert Share.of(str(share)) == share


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("<50%", "<1/2"),
        ("<=2/6", "<=1/3"),
        ("<34%", "<34%"),
        ("<17/50", "<34%"),
        ("<=33.5%", "<=33.5%"),
        ("<5/99", "<5/99"),
    ],
)
def test_a_share_is_formatted_as_people_write_it(written: str, shown: str) -> None:
    assert str(Share.of(written)) == shown


@pytest.mark.parametrize(
    "written",
    ["1/3", ">1", "0", "", "<0%", "<=1", "<=100%", "<4/3", "<1/0", "<1/3\n", "<-1/3", "<.5", "<1e1%", "< 1/3"],
)
def test_everything_else_is_no_share(written: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        Share.of(written)


@given(
    st.lists(st.builds(Condition, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(0, 9)), max_size=3)
)
def test_the_greatest_number_that_meets_conditions_is_found(drawn: list[Condition]) -> None:
    """Held against trying them all; beyond the numbers named, all or none meet."""
    fitting = [number for number in range(12) if all(condition.holds(number) for condition in drawn)]
    expected = -1 if not fitting else None if fitting[-1] == 11 else fitting[-1]
    assert find_greatest(*drawn) == expected


@pytest.mark.parametrize(("written", "meets"), [(3, {3}), ("!=3", {2, 4}), ("<3", {2}), (">=3", {3, 4}), ("=2", {2})])
def test_conditions_compare(written: int | str, meets: set[int]) -> None:
    """Each comparison operator holds for the numbers that it describes."""
    condition = Condition.of(written)
    assert {number for number in (2, 3, 4) if condition.holds(number)} == meets
    assert Condition.of(condition.written) == condition


def test_the_example_says_the_rules_of_the_design_for_every_number_of_zones() -> None:
    """R1 to R8 by name, each in force for the zones and totals that it is meant for; anchors included."""
    (group,) = load_policy(NETEASE.read_bytes(), source="netease.yaml").groups
    assert (group.disruption.max_in_flight, group.disruption.settle.total_seconds()) == (1, 120)
    in_force = {
        (zones, total): [limit.name for limit in group.limits if limit.when.holds(zones=zones, total=total)]
        for zones in (1, 2, 3, 4)
        for total in (6, 10)
    }
    several = ["R8", "every-az"]
    assert in_force == {
        (1, 6): ["R1", "R2-single-az"],
        (1, 10): ["R1", "R2-single-az"],
        (2, 6): ["R2-three-shards", "R3-R6", "R4", "R5"],
        (2, 10): ["R2", "R3-R6", "R4", "R5"],
        (3, 6): ["R2-three-shards", "R3-R6", "R7-three-shards", *several],
        (3, 10): ["R2", "R3-R6", "R7", *several],
        (4, 6): ["R2-three-shards", "R3-R6", "R7-three-shards", *several],
        (4, 10): ["R2", "R3-R6", "R7", *several],
    }
    by_name = {limit.name: limit for limit in group.limits}
    assert by_name["R5"].within == by_name["R8"].topology_key == group.zone_key
    assert by_name["R3-R6"].group_by == by_name["R1"].group_by
    assert by_name["R7"].action is LimitAction.EVICT
    assert by_name["R7"].of is Basis.DESIRED
    assert by_name["R7"].bound == "maxShare <1/2"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "maxShare: 1/3",
            'maxShare: found "1/3"; expected an operator and a share such as "<1/3", "<=1/2" or "<34%"; did',
        ),
        ('maxShare: ">1"', 'maxShare: found ">1"; expected an operator and a share such as "<1/3"'),
        ("maxShare: 0", 'maxShare: found 0; expected an operator and a share such as "<1/3"'),
        ('maxShare: "<=100%"', 'maxShare: found "<=100%"; expected a share below the whole: an op'),
        ('maxShare: "= 1/3"', 'maxShare: found "= 1/3"; expected an operator and a share such as "<1/3"'),
        ('maxShare: "≤ 1/3"', 'maxShare: found "≤ 1/3"; expected an operator and a share such as "<1/3"'),
        ('groupBy: ["my label"], maxPods: 1', 'groupBy[0]: found "my label"; expected a label key such as app'),
        (
            "maxPods: 1, maxSkew: 1",
            "expected exactly one of maxShare, maxPods, maxSkew and minPods, for example maxShare",
        ),
        ("maxPods: 1, within: zone", "expected within to be a key of larger domains than topologyKey"),
        (
            'maxPods: 1, when: {zones: "3"}',
            'when.zones: found "3"; expected a whole number such as 3, or one with =, !=',
        ),
        ("maxPods: 1, when: {zones: true}", "when.zones: found true; expected a whole number such as 3, or one with"),
        ('maxPods: 1, when: {total: ">= 3"}', "when.total: found "),
    ],
)
def test_a_bad_limit_is_refused_with_line_and_example(line: str, problem: str) -> None:
    """The message alone is enough to fix the policy."""
    (message,) = refused(limits("name: ok, topologyKey: host, maxPods: 1", f"name: bad, topologyKey: zone, {line}"))
    assert re.match(r"policy\.yaml:8: groups\[0\]\.limits\[1\][.:]", message)
    assert problem in message


CONTRADICTIONS: dict[str, tuple[list[str], str]] = {
    "more at least than at most": (
        ["name: few, topologyKey: zone, maxPods: 2", "name: many, topologyKey: zone, minPods: 3"],
        ":8: groups[0].limits[1]: contradicts few on line 7: a domain of zone cannot satisfy minPods 3 and maxPods 2;",
    ),
    "more at least than a share allows": (
        ["name: a, topologyKey: zone, minPods: 3", 'name: b, when: {total: 6}, topologyKey: zone, maxShare: "<1/2"'],
        ":8: groups[0].limits[1]: contradicts a on line 7: a domain of zone cannot satisfy minPods 3 and maxShare <1/2",
    ),
    "none allowed": (
        ["name: a, topologyKey: zone, minPods: 1", 'name: b, when: {total: 2}, topologyKey: zone, maxShare: "<1/2"'],
        ":8: groups[0].limits[1]: contradicts a on line 7: a domain of zone cannot satisfy minPods 1 and maxShare <1/2",
    ),
    "a part needs more than the whole may have": (
        [
            "name: all, topologyKey: zone, maxPods: 1",
            "name: some, topologyKey: zone, minPods: 2, selector: {matchLabels: {a: b}}",
        ],
        ":8: groups[0].limits[1]: contradicts all on line 7",
    ),
    "one domain in common": (
        [
            "name: some, topologyKey: zone, minPods: 2, selector: {matchLabels: {a: b}}, domains: [x]",
            "name: x, topologyKey: zone, maxPods: 1, selector: {matchLabels: {a: b}}, domains: [x, y]",
        ],
        ":8: groups[0].limits[1]: contradicts some on line 7",
    ),
    "two zones below half each": (
        ['name: half, when: {zones: 2}, topologyKey: topology.kubernetes.io/zone, maxShare: "<1/2"'],
        ':7: groups[0].limits[0]: 2 zones cannot each hold <1/2 of the pods; expected a share such as "<=1/2", or',
    ),
    "more domains than pods": (
        ['name: each, when: {total: "<=8"}, topologyKey: zone, minPods: 3, domains: [a, b, c]'],
        ":7: groups[0].limits[0]: 3 domains with 3 pods each need 9, when.total allows 8; expected minPods: 2, or",
    ),
    "never in force": (
        ['name: never, when: {zones: "<0"}, topologyKey: zone, maxPods: 1'],
        ":7: groups[0].limits[0]: no number satisfies `when`",
    ),
    "one name for two limits": (
        ["name: a, topologyKey: zone, maxPods: 2", "name: a, topologyKey: host, maxPods: 3"],
        ':8: groups[0].limits[1].name: found "a", which line 7 has already; expected a unique name',
    ),
}


@pytest.mark.parametrize(("rows", "problem"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_cannot_hold_together_is_refused(rows: list[str], problem: str) -> None:
    """What is provable from the policy alone: the line, what is wrong, what would do."""
    assert any(line.startswith(f"policy.yaml{problem}") for line in refused(limits(*rows))), refused(limits(*rows))


def test_two_groups_of_one_name_are_refused() -> None:
    """The name tells them apart in metrics and annotations."""
    assert refused(HEADER + "- {name: g, selector: {}}\n") == [
        'policy.yaml:6: groups[1].name: found "g", which line 4 has already; expected a unique name'
    ]


def groups(one: str, two: str) -> str:
    """Write a policy of two groups, whose only limits are a minPods on line 4 and a maxPods on line 5."""
    bounds = ("minPods: 3", "maxPods: 2")
    rows = [
        f"- {{name: g{at}, {fields}, limits: [{{name: l{at}, topologyKey: zone, {bound}, {of_limit}}}]}}\n"
        for at, (bound, (fields, _, of_limit)) in enumerate(
            zip(bounds, (group.partition(" | ") for group in (one, two)), strict=True)
        )
    ]
    return HEADER.partition("- name")[0] + "".join(rows).replace(", }", "}")


WEB = "selector: {matchLabels: {app: web, tier: front}}"
TIER, APP = ({"key": key, "operator": "In", "values": [value]} for key, value in (("tier", "front"), ("app", "web")))
EXPRESSED = f"selector: {json.dumps({'matchExpressions': [TIER, APP]})}"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (WEB, WEB),
        (WEB, EXPRESSED),
        (WEB, "selector: {matchLabels: {app: web}} | selector: {matchLabels: {tier: front}}"),
        (
            f"{WEB}, groupBy: [a, b], namespaces: {{include: [x, y]}}",
            f"{WEB}, groupBy: [b, a], namespaces: {{include: [y, x]}}",
        ),
    ],
)
def test_groups_of_the_same_pods_must_agree(one: str, two: str) -> None:
    """However their selectors are written."""
    (message,) = refused(groups(one, two))
    assert message.startswith(
        "policy.yaml:5: groups[1].limits[0]: contradicts g0/l0 on line 4: a domain of zone cannot satisfy"
    )


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (WEB, "selector: {matchLabels: {app: web}}"),
        (WEB, "selector: {}"),
        (WEB, f"{WEB}, groupBy: [shard]"),
        (WEB, f"{WEB}, namespaces: {{include: [x]}}"),
        (WEB, f"{WEB}, namespaces: {{exclude: [x]}}"),
        (WEB, f"{WEB} | groupBy: [shard]"),
        (WEB, f"{WEB} | selector: {{matchLabels: {{role: a}}}}"),
        (f"{WEB} | when: {{total: 9}}", f"{WEB} | when: {{total: 6}}"),
        (WEB, f"{WEB} | within: region"),
    ],
)
def test_groups_of_other_pods_may_differ(one: str, two: str) -> None:
    """Some pod may be in one of them only, and nothing is certain."""
    assert len(load(groups(one, two)).groups) == 2


ZONE = "topologyKey: topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("when: {zones: 2}, topologyKey: zone, maxPods: 2", "when: {zones: 3}, topologyKey: zone, minPods: 3"),
        ("when: {total: 6}, topologyKey: zone, maxPods: 2", "when: {total: 9}, topologyKey: zone, minPods: 3"),
        ("topologyKey: zone, maxPods: 2", "topologyKey: host, minPods: 3"),
        ("topologyKey: zone, within: region, maxPods: 2", "topologyKey: zone, minPods: 3"),
        ("topologyKey: zone, maxPods: 2, domains: [x]", "topologyKey: zone, minPods: 3, domains: [y]"),
        ("topologyKey: zone, maxPods: 2, groupBy: [shard]", "topologyKey: zone, minPods: 3"),
        ("topologyKey: zone, maxPods: 2, selector: {matchLabels: {a: b}}", "topologyKey: zone, minPods: 3"),
        ('topologyKey: zone, maxShare: "<1/3"', "topologyKey: zone, minPods: 3"),
        ("topologyKey: zone, maxPods: 3", "topologyKey: zone, minPods: 3"),
        ('topologyKey: zone, maxShare: "<1/3"', "when: {total: 6}, groupBy: [shard], topologyKey: zone, minPods: 3"),
        (f'when: {{zones: ">=2"}}, {ZONE}, maxShare: "<1/2"', f'when: {{zones: 2}}, {ZONE}, maxShare: "<=1/2"'),
    ],
)
def test_limits_that_may_hold_together_are_accepted(one: str, two: str) -> None:
    """Other conditions, domains, pods or groups: what is not provably wrong is left to the assessment."""
    assert len(load(limits(f"name: one, {one}", f"name: two, {two}")).groups[0].limits) == 2
