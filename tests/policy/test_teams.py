"""Reading team policies: as strictly as the cluster policy, and bounded, so that no team can break the controller."""

import time
from contextlib import suppress
from textwrap import dedent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.policy import NO_TEAM_POLICY, Amount, PolicyError, TeamPolicy, load_team_policy
from rebalancer.policy.teams import LARGEST_TEAM_FILE, MOST_GROUPS, MOST_LIMITS
from tests.policy.strategies import team_documents

HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\n"


def load(text: str) -> TeamPolicy:
    return load_team_policy(dedent(text).encode(), source="team.yaml")


def refused(text: str | bytes) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load_team_policy(text if isinstance(text, bytes) else dedent(text).encode(), source="team.yaml")
    return str(caught.value).splitlines()


def group(number: int, limits: int) -> str:
    rules = ", ".join(f"{{name: l{index}, topologyKey: k{index}, maxPods: 1}}" for index in range(limits))
    return f"- {{name: g{number}, selector: {{}}, limits: [{rules}]}}\n"


def test_the_smallest_team_policy_changes_nothing() -> None:
    assert load(HEAD) == NO_TEAM_POLICY


def test_a_team_policy_has_budgets_and_groups() -> None:
    """The values are those of the cluster policy's fields, null is the cluster policy's budget."""
    policy = load(HEAD + "budgets: {perWorkload: 5%, maxUnavailable: null}\ngroups:\n" + group(1, 2))
    assert policy.budgets.per_workload == Amount(value=5, percent=True)
    assert policy.budgets.max_unavailable is None
    assert [limit.name for limit in policy.groups[0].limits] == ["l0", "l1"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "team.yaml:1: the file is empty; expected at least apiVersion and kind"),
        (HEAD.replace("Team", "Rebalance"), 'team.yaml:2: kind: found "RebalancePolicy"; expected TeamPolicy'),
        (HEAD + "mode: Evict\n", "team.yaml:3: mode: unknown field; known here: apiVersion, kind, budgets, groups"),
        (HEAD + "eligibility: {}\n", "team.yaml:3: eligibility: unknown field"),
        (HEAD + "budgets: {perCycle: 1}\n", "team.yaml:3: budgets.perCycle: unknown field; known here: maxUnavailable"),
        (HEAD + "budgets: {maxUnavailabel: 1}\n", "team.yaml:3: budgets.maxUnavailabel: unknown field; did you mean"),
        (HEAD + "budgets: {perWorkload: -1}\n", "team.yaml:3: budgets.perWorkload: found -1; expected a number"),
        (
            HEAD + "groups: [{name: g, selector: {}, namespaces: {include: ['*']}}]\n",
            "team.yaml:3: groups[0]: expected no `namespaces`: a group of a team policy has pods of the policy's own",
        ),
        (
            HEAD + "groups:\n" + group(1, 0) + group(1, 0),
            'team.yaml:5: groups[1].name: found "g1", which line 4 has already; expected a unique name',
        ),
        (
            HEAD + "groups:\n" + "".join(group(number, 0) for number in range(MOST_GROUPS + 1)),
            "team.yaml:3: groups: found a list; expected at most 10 groups in a team policy, not 11",
        ),
        (
            HEAD + "groups:\n" + group(1, MOST_LIMITS) + group(2, 1),
            "team.yaml:3: groups: found a list; expected at most 50 limits in a team policy, not 51",
        ),
        (
            HEAD + "#" * LARGEST_TEAM_FILE,
            "team.yaml:1: the file has 65,589 bytes; expected at most 65,536, which is what a team policy may have",
        ),
        (HEAD.encode() + b"\xff", "team.yaml:3: found the byte 0xff; expected text in UTF-8"),
        (HEAD + "groups: " + "[" * 1000, "team.yaml:3: nested deeper than 32 levels"),
    ],
)
def test_what_a_team_may_not_write_is_refused_with_line_and_field(text: str | bytes, problem: str) -> None:
    assert refused(text)[0].startswith(problem), refused(text)


def test_a_team_may_not_allow_what_preempts_the_pods_of_others() -> None:
    (problem,) = refused(HEAD + "eligibility: {preemption: Allow}\n")
    assert "team.yaml:3: eligibility" in problem


@pytest.mark.parametrize("number", [MOST_GROUPS, 1])
def test_the_bounds_themselves_are_allowed(number: int) -> None:
    limits = MOST_LIMITS // number
    assert len(load(HEAD + "groups:\n" + "".join(group(index, limits) for index in range(number))).groups) == number


def test_a_bomb_of_anchors_is_refused_before_it_is_expanded() -> None:
    """Nine levels of ten aliases each mean a billion values; a bounded number of them is visited."""
    levels = "".join(f"a{level + 1}: &a{level + 1} [{', '.join([f'*a{level}'] * 10)}]\n" for level in range(9))
    began = time.process_time()
    assert "more than 25,000 values" in refused(HEAD + "a0: &a0 x\n" + levels)[0]
    assert time.process_time() - began < 30, "the expansion would take hours"


@given(team_documents)
def test_every_drawn_team_policy_is_read(document: dict[str, object]) -> None:
    """What the other properties draw is valid."""
    policy = load_team_policy(yaml.safe_dump(document, allow_unicode=True).encode(), source="team.yaml")
    assert len(policy.groups) == len(document.get("groups", []))  # type: ignore[arg-type]  # a list


@given(st.binary(max_size=200))
def test_any_bytes_are_a_team_policy_or_an_error(data: bytes) -> None:
    with suppress(PolicyError):
        assert isinstance(load_team_policy(HEAD.encode() + data, source="team.yaml"), TeamPolicy)
