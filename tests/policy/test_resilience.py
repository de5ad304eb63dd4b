"""What the policy says must be left of a workload when a domain is lost."""

import pytest

from rebalancer.policy import Policy, PolicyError, Required, TeamReading, load_policy, load_team_policy, merge

HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\n"


def load(text: str) -> Policy:
    return load_policy((HEAD + text).encode(), source="policy.yaml")


def refused(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        load(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "numbers"),
    [("all", [0, 1, 2, 3, 4, 9]), ("majority", [0, 1, 2, 2, 3, 5]), (2, [0, 1, 2, 2, 2, 2])],
)
def test_what_is_required_is_never_more_than_what_is_wanted(written: int | str, numbers: list[int]) -> None:
    required = Required.of(written)
    assert [required.resolve(wanted) for wanted in (0, 1, 2, 3, 4, 9)] == numbers


def test_a_policy_that_says_nothing_has_zones_lost_and_requires_all() -> None:
    made = load("")
    assert made.to_dict()["resilience"] == {
        "keys": ["topology.kubernetes.io/zone"],
        "phases": ["silent", "gone"],
        "require": "all",
    }
    assert load(made.to_yaml().partition("kind: RebalancePolicy\n")[2]) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("resilience: {require: most}\n", 'found "most"; expected all, majority or a whole number of pods such as 2'),
        ("resilience: {require: 0}\n", "found 0; expected a number from 1 to"),
        ("resilience: {require: Majority}\n", "did you mean majority?"),
        ("resilience: {phases: []}\n", "expected [silent, gone], or one of these"),
        ("resilience: {keys: [a, a]}\n", "expected at most 4 keys, without duplicates"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(text: str, words: str) -> None:
    assert words in refused(text)


def test_a_team_may_require_more_and_lose_nothing_that_the_cluster_policy_does_not_lose() -> None:
    """Each key, and each phase, costs the cluster as much as all the others."""
    cluster = load("teamPolicies: {namespaces: [shop]}\nresilience: {phases: [gone]}\n")
    team = (
        "apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\ngroups:\n"
        "- {name: ours, selector: {}, resilience: {require: 2, keys: [topology.kubernetes.io/zone]}}\n"
        "- {name: early, selector: {}, resilience: {phases: [silent]}}\n"
        "- {name: hosts, selector: {}, resilience: {keys: [kubernetes.io/hostname]}}\n"
    )
    reading = TeamReading(policy=load_team_policy(team.encode(), source="team"))
    merged = merge(cluster, {"shop": reading})
    assert [group.name for group in merged.policy.groups] == [*[g.name for g in cluster.groups], "shop/ours"]
    assert merged.problems["shop"] == (
        "groups[1].resilience.phases: found silent; the group is not in force, expected some of gone; "
        "groups[2].resilience.keys: found kubernetes.io/hostname; the group is not in force, expected some of "
        "topology.kubernetes.io/zone"
    )
