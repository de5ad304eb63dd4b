"""A surge pod that a hard spread constraint keeps off all nodes: from how many domains on it finds one."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.lint.finding import Finding, Rule
from tests.drawing import examples
from tests.lint.build import HOST, ZONE, affinity, autoscaler, deployment, found, patched, spread, term

KEEP_ALL = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def wedges(*constraints: dict[str, Any], replicas: int = 3, **spec: Any) -> list[Finding]:
    made = deployment(replicas, **{"strategy": KEEP_ALL, "topologySpreadConstraints": [*constraints], **spec})
    return found(Rule.ROLLOUT_WEDGES, made)


def test_a_tainted_node_counts_as_empty_and_the_update_needs_a_node_more() -> None:
    (one,) = wedges(spread(HOST))
    assert (one.severity.value, one.message) == (
        "warning",
        (
            "a rolling update of 3 replicas begins with one pod more, since maxUnavailable is 0, and the hard "
            "constraint over kubernetes.io/hostname admits maxSkew (1) pods in each node where another node is "
            "cordoned or tainted, and counts as empty (nodeTaintsPolicy: Ignore): then it proceeds from 4 open nodes "
            "on, and waits for ever on 3"
        ),
    )
    made = deployment(3, strategy=KEEP_ALL, topologySpreadConstraints=[spread(HOST)])
    assert found(Rule.ROLLOUT_WEDGES, patched(made, one)) == []


def test_domains_that_min_domains_asks_for_count_as_empty() -> None:
    (one,) = wedges(spread(ZONE, minDomains=5, nodeTaintsPolicy="Honor"))
    assert one.severity.value == "warning"
    assert one.message.endswith(
        f"over {ZONE} admits maxSkew (1) pods in each domain where there are fewer than 5 (minDomains): then it "
        "proceeds from 4 domains on, and waits for ever on 3"
    )


@pytest.mark.parametrize(
    ("constraint", "more", "expected"),
    [
        (spread(ZONE), {}, ["info"]),
        (spread(HOST, nodeTaintsPolicy="Honor"), {}, []),
        (spread(HOST, 2), {}, []),
        (spread(HOST, hard=False), {}, []),
        (spread(HOST, matchLabelKeys=["pod-template-hash"]), {}, []),
        (spread(HOST), {"strategy": {"rollingUpdate": {"maxUnavailable": 1}}}, []),
        (spread(HOST), {"kind": "StatefulSet"}, []),
        (spread(HOST, labelSelector={"matchLabels": {"app": "api"}}), {}, []),
    ],
)
def test_when_nothing_holds_a_pod_back_nothing_is_said(
    constraint: dict[str, Any], more: dict[str, Any], expected: list[str]
) -> None:
    """Zones are closed rarely: a note. maxSkew 2 does not divide 3 replicas."""
    assert [one.severity.value for one in wedges(constraint, **more)] == expected


def test_anti_affinity_over_the_same_key_says_it_alone() -> None:
    (one,) = wedges(spread(HOST), affinity=affinity(apart=[term()]))
    assert "required anti-affinity" in one.message


def test_an_autoscaler_chooses_the_size_that_needs_most() -> None:
    made = deployment(None, topologySpreadConstraints=[spread(HOST)])
    (one,) = found(Rule.ROLLOUT_WEDGES, made, autoscaler(2, 9))
    assert "3 replicas, which its autoscaler may choose, begins" in one.message
    assert "proceeds from 4 open nodes on" in one.message


def place(counts: Sequence[int], skew: int, fewest: int | None) -> Iterator[tuple[int, ...]]:
    """Yield the counts after another pod in some open domain; `fewest` is given where an empty one counts."""
    least = min(counts) if fewest is None else fewest
    for number, held in enumerate(counts):
        if held + 1 - least <= skew:
            yield (*counts[:number], held + 1, *counts[number + 1 :])


def wedged(replicas: int, skew: int, domains: int, *, empty: bool) -> set[bool]:
    """Return whether a pod more finds no domain, of all ways in which so many pods come into domains one by one."""
    fewest = 0 if empty else None
    states = {(0,) * domains}
    for _ in range(replicas):
        states = {after for state in states for after in place(state, skew, fewest)}
    seen: set[tuple[int, ...]] = set()
    while states - seen:  # an old pod goes, and another new one comes: the counts of all are what matters
        (state, *_) = states - seen
        seen.add(state)
        for more in place(state, skew, fewest):
            states |= {(*more[:at], held - 1, *more[at + 1 :]) for at, held in enumerate(more) if held}
    return {not [*place(state, skew, fewest)] for state in seen}


@given(replicas=st.integers(1, 4), skew=st.integers(1, 3), least=st.integers(1, 6), key=st.sampled_from([HOST, ZONE]))
@examples(40)
def test_it_wedges_on_exactly_the_numbers_of_domains_that_are_said(
    replicas: int, skew: int, least: int, key: str
) -> None:
    """As trying every way to place the pods shows, with and without a domain that is closed."""
    says = wedges(spread(key, skew, minDomains=least), replicas=replicas)
    needed = int(says[0].message.partition(" proceeds from ")[2].split()[0]) if says else None
    closes = bool(says) and "open" in says[0].message
    if needed is not None and not closes:  # minDomains alone are enough for it
        assert True in wedged(replicas, skew, needed - 1, empty=needed - 1 < least)
    for domains, closed in product(range(1, 6), (False, True)):
        is_empty = closed or domains < least
        happens = wedged(replicas, skew, domains, empty=is_empty)
        assert happens <= {True} or happens == {False}  # all ways are alike
        if needed is None or (closes and not closed):
            assert True not in happens
        else:
            assert (True in happens) == (domains == needed - 1 and is_empty)
