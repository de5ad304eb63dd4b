"""What the comparison says of states with podAntiAffinity: the state in a line, the figures, their sums."""

from collections.abc import Sequence
from itertools import product

import pytest

from benchmarks.anti_affinity import (
    Outcome,
    Row,
    avoid,
    is_repaired,
    least_weight,
    outcome,
    preferred_table,
    required_table,
    state,
    title,
)
from rebalancer.model.moments import ALWAYS
from tests.closed_loop.apart import Laid
from tests.control_plane.audit import Request
from tests.planning.anti_affinity.drawn import Drawn, Term, draw_preferring

TWO = Laid(state("aa|a|-", avoid("a", "a")), "two")


def request(name: str, code: int = 201, namespace: str = "two-x") -> Request:
    """Return the request for the eviction of a pod, answered."""
    return Request(
        id="",
        user="",
        agent="",
        verb="create",
        group="",
        resource="pods",
        subresource="eviction",
        namespace=namespace,
        name=name,
        path="",
        code=code,
        reason="",
        message="",
        received=ALWAYS,
        answered=ALWAYS,
    )


def test_a_state_is_a_line() -> None:
    zones = {"n0": "b", "n1": "a", "n2": None, "n3": "a"}
    terms = (Term("a", "zone", "b", everywhere=True), avoid("b", "b", 10))
    pods = (("a", "n3"), ("b", "n0"), ("b", "n3"))
    text = title(Drawn(zones, {"a": "x", "b": "y"}, pods, terms))
    assert text == "-,aB | B | no zone: - — a away from B by zone, any namespace; B rather (10) away from B by node"


def test_a_written_state_is_what_it_says() -> None:
    written = state("aab,-|b", avoid("a", "b"))
    assert written.zones == {"n0": "a", "n1": "a", "n2": "b"}
    assert written.pods == (("a", "n0"), ("a", "n0"), ("b", "n0"), ("b", "n2"))
    assert title(written) == "aab,- | b — a away from b by node"


def test_evictions_of_replacements_are_those_of_pods_that_had_been_moved() -> None:
    """What is refused is none, and what is of other states is of no interest."""
    requests = [
        request("two-a-0"),
        request("two-a-x7k2p"),
        request("two-a-1", 429),
        request("two-a-1", 404),
        request("other", namespace="other-x"),
    ]
    end = outcome(TWO, requests, [("a", "n0"), ("a", "n1"), ("a", "")], "NotForced")
    assert (end.evictions, end.refused, end.again, end.pending, end.reason) == (2, 1, 1, 1, "NotForced")


def ended(*nodes: str, evictions: int = 1) -> Outcome:
    """Return what came of three pods on these nodes."""
    return Outcome(evictions=evictions, refused=0, again=0, placed=[("a", node) for node in nodes])


@pytest.mark.parametrize(
    ("nodes", "repaired"), [(("n0", "n1", "n2"), True), (("n0", "n0", "n2"), False), (("n0", "n1", ""), False)]
)
def test_repaired_are_those_apart_of_which_none_is_pending(nodes: Sequence[str], repaired: bool) -> None:
    assert is_repaired(TWO.drawn, ended(*nodes)) is repaired


def test_the_tables_add_up() -> None:
    no_place = Laid(state("aa", avoid("a", "a")), "one")
    programs = ("ours", "theirs")
    rows = [
        Row(laid=TWO, outcomes=(ended("n0", "n1", "n2"), ended("n0", "n0", "n1", evictions=3))),
        Row(laid=no_place, outcomes=(ended("n0", "n0", evictions=0), ended("n0", ""))),
    ]
    *_, first, second, last = required_table(rows, programs).splitlines()
    assert first.endswith("| 1 | 1 | 1 | 0 | 0 | 0 | yes | 3 | 0 | 0 | 0 | no |")
    assert second.endswith("| - | - | 0 | 0 | 0 | 0 | no | 1 | 0 | 0 | 1 | no |")
    assert last == "| **together** | 1 | 1 in 1 of 2 | 1 | 0 | 0 | 0 | 1 of 2 | 4 | 0 | 0 | 1 | 0 of 2 |"
    rather = Laid(state("aa|a|-", avoid("a", "a", 10)), "rather")
    same = [Row(laid=rather, outcomes=(ended("n0", "n1", "n2"), ended("n0", "n0", "n1", evictions=0)))]
    *_, last = preferred_table(same, programs).splitlines()
    assert (
        last == "| **together** | 20 | 0 | 1 | 0 | 0 | 0 | 0, lower in 1 of 1 | 0 | 0 | 0 | 0 | 20, lower in 0 of 1 |"
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_least_weight_is_that_of_all_placements(seed: int) -> None:
    drawn = draw_preferring(seed)
    apps = [app for app, _ in drawn.pods]
    placements = (list(zip(apps, nodes, strict=True)) for nodes in product(drawn.zones, repeat=len(apps)))
    assert least_weight(drawn) == min(map(drawn.weigh, (one for one in placements if not drawn.conflicts(one))))
