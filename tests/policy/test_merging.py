"""The policy in force: team policies make it stricter for their own namespaces, and never looser for anybody."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.policy import (
    Amount,
    LimitAction,
    MergedPolicy,
    Policy,
    TeamBudgets,
    TeamPolicies,
    TeamReading,
    load_policy,
    load_team_policy,
    merge,
    select_team_namespaces,
)
from tests.build import a_policy
from tests.policy.strategies import documents, team_groups

TEAM = "apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\n"
LIMIT = "groups: [{name: g, selector: {}, limits: [{name: l, topologyKey: zone, maxPods: 2, action: Evict}]}]\n"
REFUSED_EVICT = (
    "groups[0].limits[0].action: found Evict; Alert is in force, expected Alert, or the namespace in "
    "teamPolicies.evict of the cluster policy"
)
BUDGETS = ("max_unavailable", "per_workload", "per_namespace")
NAMESPACES = st.sampled_from(["shop", "pay", "team-a"])
LISTS = st.sampled_from([("*",), ("shop", "pay"), ("shop",), ("team-?", "p*"), ()])
SMALL = st.integers(0, 30) | st.integers(0, 100).map(lambda number: f"{number}%")
FIELDS = ("maxUnavailable", "perWorkload", "perNamespace")
"""Amounts so small that often one of two decides."""
LIMITS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "name": st.sampled_from("lm"),
        "topologyKey": st.just("zone"),
        "maxPods": st.integers(1, 9),
        "action": st.sampled_from(["Alert", "Evict"]),
    }
)


def name_of(written: dict[str, Any]) -> str:
    return str(written["name"])


PLAIN: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": st.sampled_from("gh"), "selector": st.just({}), "limits": st.lists(LIMITS, max_size=2, unique_by=name_of)}
)
TEAMS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "apiVersion": st.just("rebalancer.dev/v1alpha1"),
        "kind": st.just("TeamPolicy"),
        "budgets": st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, SMALL)),
        "groups": st.lists(PLAIN | team_groups, min_size=1, max_size=2, unique_by=name_of),
    }
)
CLUSTERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "apiVersion": st.just("rebalancer.dev/v1alpha1"),
        "kind": st.just("RebalancePolicy"),
        "budgets": st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, SMALL)),
        "groups": st.lists(PLAIN, max_size=1),
    }
)


def cluster(text: str = "teamPolicies: {namespaces: [shop, 'team-*'], evict: [pay, team-b]}\n") -> Policy:
    return a_policy(text)


def team(text: str = "", problem: str = "") -> TeamReading:
    return TeamReading(policy=load_team_policy((TEAM + text).encode(), source="team.yaml"), problem=problem)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Policy, dict[str, TeamReading]]:
    """Draw any cluster policy, one that lists more namespaces than it would by chance, and team policies."""
    teams = {"namespaces": list(draw(LISTS)), "evict": list(draw(LISTS))}
    document = {**draw(CLUSTERS | documents), "teamPolicies": teams}
    readings = draw(st.dictionaries(NAMESPACES, TEAMS | st.none(), min_size=2, max_size=3))
    policy = load_policy(yaml.safe_dump(document, allow_unicode=True).encode(), source="policy.yaml")
    return policy, {namespace: reading_of(written) for namespace, written in readings.items()}


def reading_of(document: dict[str, Any] | None) -> TeamReading:
    if document is None:
        return TeamReading(policy=None, problem="team.yaml:1: …")
    return TeamReading(policy=load_team_policy(yaml.safe_dump(document).encode(), source="team.yaml"))


@given(drawn())
def test_everything_of_the_cluster_policy_stays(given_policies: tuple[Policy, dict[str, TeamReading]]) -> None:
    """Mode, eligibility, budgets, windows, breaker: all fields; and all groups with all their limits come first."""
    policy, readings = given_policies
    merged = merge(policy, readings).policy
    for name in Policy.model_fields:
        if name != "groups":
            assert getattr(merged, name) == getattr(policy, name), name
    assert merged.groups[: len(policy.groups)] == policy.groups
    assert merged.cluster == policy


@given(drawn())
def test_what_a_team_adds_concerns_its_own_namespace(given_policies: tuple[Policy, dict[str, TeamReading]]) -> None:
    """Its groups select pods of its namespace and of no other, and evict only where the cluster policy lets them."""
    policy, readings = given_policies
    merged = merge(policy, readings).policy
    for group in merged.groups[len(policy.groups) :]:
        namespace, _, name = group.name.partition("/")
        reading = readings[namespace].policy
        assert reading is not None
        assert [space for space in readings if group.namespaces.selects(space)] == [namespace]
        assert not group.namespaces.selects("other")
        assert policy.team_policies.allows(namespace)
        (written,) = (written for written in reading.groups if written.name == name)
        assert [limit.name for limit in group.limits] == [limit.name for limit in written.limits]
        assert [limit.bound for limit in group.limits] == [limit.bound for limit in written.limits]
        if not policy.team_policies.allows_evict(namespace):
            assert {limit.action for limit in group.limits} <= {LimitAction.ALERT}
        else:
            assert [limit.action for limit in group.limits] == [limit.action for limit in written.limits]
    for namespace in {"other", *readings}:
        if not policy.team_policies.allows(namespace):
            assert merged.rules_of(namespace).budgets == TeamBudgets()
            assert not merged.rules_of(namespace).suspended


@given(drawn(), st.integers(0, 500))
def test_budgets_are_what_the_smaller_of_both_allows(
    given_policies: tuple[Policy, dict[str, TeamReading]], total: int
) -> None:
    """For any number of pods: a team's larger budget changes nothing, a smaller one holds for its namespace."""
    policy, readings = given_policies
    merged = merge(policy, readings).policy
    for namespace, reading in readings.items():
        rules = merged.rules_of(namespace)
        if not policy.team_policies.allows(namespace) or reading.policy is None:
            continue
        for name in BUDGETS:
            bound: Amount = getattr(policy.budgets, name)
            wanted: Amount | None = getattr(reading.policy.budgets, name)
            applied: Amount | None = getattr(rules.budgets, name)
            allowed = min(amount.resolve(total) for amount in (bound, applied) if amount is not None)
            assert allowed <= bound.resolve(total)
            if wanted is not None:
                assert allowed == min(bound.resolve(total), wanted.resolve(total))


@given(drawn(), st.randoms(use_true_random=False))
def test_the_order_of_the_teams_does_not_matter(
    given_policies: tuple[Policy, dict[str, TeamReading]], random: Any
) -> None:
    """The policy in force, its hash and its problems are the same in any order."""
    policy, readings = given_policies
    shuffled = list(readings.items())
    random.shuffle(shuffled)
    one, two = merge(policy, readings), merge(policy, dict(shuffled))
    assert (one.policy, one.problems, one.policy.hash) == (two.policy, two.problems, two.policy.hash)


@given(drawn(), st.data())
def test_a_team_changes_nothing_for_another(
    given_policies: tuple[Policy, dict[str, TeamReading]], data: st.DataObject
) -> None:
    """Whatever one team writes, or breaks, the rules, groups and problems of the others are the same."""
    policy, readings = given_policies
    changed = data.draw(NAMESPACES)
    other = {**readings, changed: reading_of(data.draw(st.none() | TEAMS))}
    one, two = merge(policy, readings), merge(policy, other)
    for namespace in readings.keys() - {changed}:
        assert one.policy.rules_of(namespace) == two.policy.rules_of(namespace)
        assert one.problems.get(namespace) == two.problems.get(namespace)
    assert [group for group in one.policy.groups if not group.name.startswith(f"{changed}/")] == [
        group for group in two.policy.groups if not group.name.startswith(f"{changed}/")
    ]


@given(drawn())
def test_no_two_groups_have_the_same_name(given_policies: tuple[Policy, dict[str, TeamReading]]) -> None:
    """Metrics, events and the annotation `ignore-limits` name groups."""
    merged = merge(*given_policies).policy
    assert len({group.name for group in merged.groups}) == len(merged.groups)


def test_without_team_policies_the_cluster_policy_is_in_force_itself() -> None:
    """Its hash stays the same, too."""
    policy = cluster()
    for readings in ({}, {"shop": team()}, {"elsewhere": team(LIMIT)}):
        merged = merge(policy, readings)
        assert merged.policy is policy
        assert merged.problems == {}


def test_the_hash_names_the_team_policies_too() -> None:
    """Two plans with the same hash were made by the same rules."""
    policy = cluster()
    hashes = {
        merge(policy, {"shop": reading}).policy.hash
        for reading in (
            team(),
            team(LIMIT),
            team("budgets: {perWorkload: 1}\n"),
            team("budgets: {perWorkload: 0}\n"),
            TeamReading(policy=None, problem="…"),
        )
    }
    assert len(hashes) == 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "budgets: {maxUnavailable: 2}\n",
            "budgets.maxUnavailable: found 2; the cluster policy's 1 stays in force, expected at most 1",
        ),
        (
            "budgets: {perWorkload: 11%}\n",
            "budgets.perWorkload: found 11%; the cluster policy's 10% stays in force, expected at most 10%",
        ),
        (LIMIT, REFUSED_EVICT),
        (
            "groups: [{name: g, selector: {}, zoneKey: rack}]\n",
            "groups[0].zoneKey: found rack; the group is not in force, expected topology.kubernetes.io/zone",
        ),
    ],
)
def test_what_would_loosen_has_no_effect_and_a_message(text: str, problem: str) -> None:
    """One message that names the field, the value, what is in force and what is expected."""
    assert merge(cluster(), {"shop": team(text)}).problems == {"shop": problem}


def test_the_rest_of_a_team_policy_is_in_force_beside_what_is_refused() -> None:
    """A limit that may only alert alerts; a budget that may not grow leaves the other budgets as they are written."""
    reading = team("budgets: {maxUnavailable: 5, perNamespace: 3}\n" + LIMIT)
    merged = merge(cluster(), {"shop": reading}).policy
    assert merged.rules_of("shop").budgets == TeamBudgets(per_namespace=Amount(value=3))
    assert [(group.name, group.limits[0].action) for group in merged.groups] == [("shop/g", "Alert")]


def test_evict_needs_the_namespace_in_both_lists() -> None:
    """`evict` alone does not make a namespace a team's."""
    policy = cluster("teamPolicies: {namespaces: ['team-*'], evict: [pay, team-b]}\n")
    readings = {name: team(LIMIT) for name in ("pay", "team-a", "team-b")}
    merged = merge(policy, readings)
    assert {group.name: group.limits[0].action for group in merged.policy.groups} == {
        "team-a/g": "Alert",
        "team-b/g": "Evict",
    }
    assert merged.problems.keys() == {"team-a"}


def test_a_zone_key_of_the_cluster_policy_may_be_used() -> None:
    """Zones are stored for each key; a team may use those that are stored anyway."""
    policy = cluster("teamPolicies: {namespaces: [shop]}\ngroups: [{name: own, selector: {}, zoneKey: rack}]\n")
    merged = merge(policy, {"shop": team("groups: [{name: g, selector: {}, zoneKey: rack}]\n")})
    assert [group.name for group in merged.policy.groups] == ["own", "shop/g"]
    assert merged.problems == {}


def test_a_namespace_whose_team_policy_was_never_valid_is_left_alone() -> None:
    """With a valid one from before, that one holds; both are reported."""
    readings = {
        "shop": TeamReading(policy=None, problem="team.yaml:3: …"),
        "team-a": team("budgets: {perWorkload: 1}\n", problem="team.yaml:4: …"),
    }
    merged = merge(cluster(), readings)
    assert merged.policy.rules_of("shop").suspended
    assert not merged.policy.rules_of("team-a").suspended
    assert merged.policy.rules_of("team-a").budgets.per_workload == Amount(value=1)
    assert merged.problems == {"shop": "team.yaml:3: …", "team-a": "team.yaml:4: …"}


def test_the_own_namespace_of_the_rebalancer_is_never_a_teams() -> None:
    """There, the ConfigMap of that name is the cluster policy."""
    policy = cluster("teamPolicies: {namespaces: ['*']}\n")
    there = ["shop", "rebalancer-system", "pay", "shop"]
    assert select_team_namespaces(policy, there, "rebalancer-system") == ["pay", "shop"]
    assert select_team_namespaces(cluster(""), there, "rebalancer-system") == []


def test_the_policy_in_force_is_shown_with_what_teams_add() -> None:
    """As a document: the groups by their names in force, the budgets and suspensions by namespace."""
    readings = {"shop": team("budgets: {perWorkload: 1}\n" + LIMIT), "team-a": TeamReading(policy=None, problem="…")}
    merged = merge(cluster(), readings).policy
    assert isinstance(merged, MergedPolicy)
    shown = yaml.safe_load(merged.to_yaml())
    assert [group["name"] for group in shown["groups"]] == ["shop/g"]
    assert shown["teams"]["shop"]["budgets"]["perWorkload"] == 1
    assert shown["teams"]["team-a"]["suspended"] is True
    assert "own" not in shown


def test_the_lists_are_empty_by_default() -> None:
    """Nobody's ConfigMap is read until the cluster policy says so."""
    assert TeamPolicies() == TeamPolicies(namespaces=(), evict=())
    assert not TeamPolicies(evict=("*",)).allows_evict("shop")
