"""The suggested constraints enforce a limit, and the document says exactly which of them guarantee it."""

import re
from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from rebalancer.advice.suggestion import SuggestionRequest
from rebalancer.documents.suggestion import SuggestionDocument, suggestion_document
from rebalancer.policy import Share
from rebalancer.reporting.text.suggestion import suggestion_text
from tests.drawing import examples

NODE = "kubernetes.io/hostname"
HARD = "DoNotSchedule"


def suggested(limit: str, size: int, *zones: int, group_size: int | None = None) -> SuggestionDocument:
    return suggestion_document(
        SuggestionRequest(share=Share.of(limit), size=size, zones=zones, key=NODE, group_size=group_size)
    )


@pytest.mark.parametrize(
    ("size", "node", "nodes", "zone", "zones"),
    [(6, 1, 6, 2, 5), (8, 2, 7, 3, 6), (10, 3, 8, 4, 7), (12, 3, 10, 5, 8), (18, 5, 14, 8, 11), (20, 6, 15, 9, 12)],
)
def test_the_table_of_the_design(size: int, node: int, nodes: int, zone: int, zones: int) -> None:
    """The maxSkew for "<1/3" and "<1/2", and how many domains it takes until it guarantees them: n - s + 1."""
    for limit, skew, needed in (("<1/3", node, nodes), ("<1/2", zone, zones)):
        loosest = suggested(limit, size, 3).constraints[0]
        assert (loosest.max_skew, loosest.domains_needed) == (skew, needed)
        assert not suggested(limit, size, needed - 1).constraints[0].guaranteed
        assert suggested(limit, size, needed).constraints[0].guaranteed


@pytest.mark.parametrize("size", [1, 2, 3])
def test_never_zero(size: int) -> None:
    """The API refuses a maxSkew of 0; where the limit allows none, no number of domains guarantees it."""
    suggestion = suggested("<1/3", size, 6)
    assert (suggestion.cap, suggestion.constraints[0].max_skew, suggestion.domains_needed) == (0, 1, None)
    assert not suggestion.attainable
    assert not suggestion.guaranteed
    assert "no number of domains" in suggestion_text(suggestion)


def test_one_pod_and_one_domain_are_in_the_singular() -> None:
    text = suggestion_text(suggested("<=1/2", 1, 1))
    assert text.startswith(f'"<=1/2" of 1 pod over 1 domain of {NODE}: at most 0 pods in each domain.')
    assert not re.search(r"\b1 (pods|domains)\b", text)


def placements(size: int, domains: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to divide pods among domains, in ascending order of their counts."""
    return (counts for counts in combinations_with_replacement(range(size + 1), domains) if sum(counts) == size)


@examples(150)
@given(st.sampled_from(["<1/3", "<=1/3", "<1/2", "<=1/2", "<34%", "<=60%"]), st.integers(1, 10), st.integers(1, 5))
def test_the_document_agrees_with_every_placement(limit: str, size: int, domains: int) -> None:
    """What each constraint allows at worst, whether that is within the limit, and from how many domains on."""
    suggestion = suggested(limit, size, domains)
    for constraint in suggestion.constraints[:-1]:
        allowed = [one for one in placements(size, domains) if one[-1] - one[0] <= constraint.max_skew]
        assert constraint.most == max(max(one) for one in allowed)
        assert constraint.guaranteed == all(max(one) <= suggestion.cap for one in allowed)
        if constraint.domains_needed is not None:
            assert constraint.guaranteed == (domains >= constraint.domains_needed)
    assert suggestion.attainable == any(max(one) <= suggestion.cap for one in placements(size, domains))
    skew, share = suggestion.constraints[0].max_skew, Share.of(limit)
    assert list(suggestion.unscalable) == [
        pods
        for pods in range(1, size + 1)
        if not any(max(one) - min(one) <= skew and max(one) <= share.cap(pods) for one in placements(pods, domains))
    ]


def pasted(document: SuggestionDocument) -> tuple[list[str], dict[str, Any]]:
    """Return the comments above the YAML of a suggestion's text, and the hard constraint in it."""
    comments, _, text = suggestion_text(document).partition("\ntopologySpreadConstraints:")
    (hard,) = [entry for entry in yaml.safe_load("-" + text.partition("-")[2]) if entry["whenUnsatisfiable"] == HARD]
    return [line for line in comments.splitlines() if line.startswith("#")], hard


@examples(150)
@given(st.sampled_from(["<1/3", "<=1/3", "<1/2", "<=60%"]), st.integers(1, 10), st.integers(1, 5))
def test_document_and_yaml_are_about_the_same_constraint(limit: str, size: int, domains: int) -> None:
    """`guaranteed` and `domainsNeeded` are of what is pasted, and the YAML says what it is not."""
    suggestion = suggested(limit, size, domains)
    assume(suggestion.attainable)
    comments, hard = pasted(suggestion)
    allowed = [one for one in placements(size, domains) if one[-1] - one[0] <= hard["maxSkew"]]
    assert suggestion.guaranteed == all(one[-1] <= suggestion.cap for one in allowed)
    same = [
        entry
        for entry in suggestion.constraints
        if (entry.when_unsatisfiable, entry.max_skew) == (HARD, hard["maxSkew"])
    ]
    assert [entry.domains_needed for entry in same] == [suggestion.domains_needed]
    comment = " ".join(comments)
    assert ("not guarantee" in comment) == (not suggestion.guaranteed)
    assert (
        suggestion.domains_needed is None
        or suggestion.guaranteed
        or f"from {suggestion.domains_needed} domains on" in comment
    )


@examples(150)
@given(st.sampled_from(["<1/3", "<=1/3", "<1/2", "<=60%"]), st.integers(1, 10), st.integers(1, 5))
def test_there_is_nothing_to_paste_where_no_placement_satisfies_the_limit(limit: str, size: int, domains: int) -> None:
    """But the smallest number of domains that has one, or that none has."""
    text = suggestion_text(suggested(limit, size, domains))
    fitting = [number for number in range(1, 11) if suggested(limit, size, number).attainable]
    assert ("topologySpreadConstraints:" in text) == (domains in fitting)
    if domains not in fitting:
        least = f"it takes {fitting[0]} domain{'s'[: fitting[0] > 1]} at least." if fitting else "Give a larger --limit"
        assert f"No constraint helps: {least}" in text if fitting else least in text


def test_the_yaml_says_that_groups_can_deadlock() -> None:
    """And with which maxSkew they cannot, or that it was not tried."""
    assert "groups of 2 with anti-affinity can deadlock" in pasted(suggested("<1/3", 6, 2, 2, 2, group_size=2))[0][-1]
    assert pasted(suggested("<1/3", 6, 2, 2, 2, group_size=2))[0][-1].endswith("With maxSkew 2 they cannot.")
    assert "is unknown: too many placements to search" in pasted(suggested("<1/2", 60, 4, 4, 4, group_size=2))[0][-1]
    assert "deadlock" not in str(pasted(suggested("<=1/2", 6, 2, 2, 2, group_size=2))[0])


def test_deadlocks_of_groups() -> None:
    """As they are simulated: possible for three shards, not asked for, or too many to try."""
    suggestion = suggested("<1/3", 6, 2, 2, 2, group_size=2)
    assert suggestion.deadlock is not None
    assert (suggestion.deadlock.ways, suggestion.deadlock.stuck, suggestion.deadlock.free_from) == (480, 96, 2)
    assert "can deadlock: in 96 of 480 scheduler outcomes. With maxSkew 2 they cannot." in suggestion_text(suggestion)
    relaxed = suggested("<=1/3", 6, 2, 2, 2, group_size=2)
    assert relaxed.deadlock is not None
    assert relaxed.deadlock.max_skew == relaxed.constraints[-2].max_skew
    loose = suggested("<=1/2", 6, 2, 2, 2, group_size=2)
    assert "groups of 2 with anti-affinity cannot deadlock: in none of" in suggestion_text(loose)
    assert suggested("<1/3", 6, 6).deadlock is None
    large = suggested("<1/2", 60, 4, 4, 4, group_size=2)
    assert large.deadlock is not None
    assert large.deadlock.ways is None
    assert "too many placements to search for deadlocks" in suggestion_text(large)
