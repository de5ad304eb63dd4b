"""The bounds that a proof names give the number of evictions, counted without the planner."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from rebalancer.adapters.files import read_snapshot
from rebalancer.engine import evaluate
from rebalancer.model.cluster import NEWEST
from rebalancer.planning.plan import ComponentPlan
from rebalancer.planning.single_class.proof import SingleClassProof
from rebalancer.policy import load_policy
from tests.planning.clusters import laid_out, planned
from tools.decisions.states import NOW, DrawnState, drawn_states


def evictions_named(proof: SingleClassProof, nodes: Mapping[str, Mapping[str, str]], pods: Mapping[str, int]) -> int:
    """Add up the bounds of a proof: `nodes` are labels by node, `pods` how many each node holds.

    That many pods leave for any placement within the bounds, because a node counts once or not at all: what leaves it
    is neither negative nor less than what it holds more than then.
    """
    number, times = -proof.pending, dict.fromkeys(nodes, int(proof.missing))
    for bound in proof.bounds:
        sign = 1 if bound.upper else -1
        for count in bound.domains:
            inside = [node for node, labels in nodes.items() if labels[bound.key] == count.domain]
            number += sign * (sum(pods.get(node, 0) for node in inside) - bound.bound)
            times.update({node: times[node] + sign for node in inside})
    assert set(times.values()) <= {0, 1}
    return number


class _Objects:
    """A drawn state, read as JSON."""

    def __init__(self, state: DrawnState) -> None:
        items: list[dict[str, Any]] = json.loads(state.objects)["items"]
        self.nodes = {one["metadata"]["name"]: one["metadata"]["labels"] for one in items if one["kind"] == "Node"}
        self._pods = [one for one in items if one["kind"] == "Pod"]

    def nodes_of(self, group: ComponentPlan) -> list[str | None]:
        """Return the node of each pod of a group's workloads."""
        apps = {workload.name for workload in group.workloads}
        return [pod["spec"].get("nodeName") for pod in self._pods if pod["metadata"]["labels"]["app"] in apps]


def checked(state: DrawnState) -> Counter[str]:
    """Check every proof by counting in the plan of a state; return how many there are of which sort."""
    snapshot, _ = read_snapshot(state.objects, version=NEWEST, at=datetime.fromisoformat(NOW), source=state.name)
    groups = evaluate(snapshot, load_policy(state.policy, source=state.name)).plan.components
    objects, counted = _Objects(state), Counter[str]()
    for group in groups:
        assert (group.proof is not None) == bool(group.evictions), state.name
        if isinstance(group.proof, SingleClassProof):
            on = objects.nodes_of(group)
            held = Counter(node for node in on if node is not None)
            assert evictions_named(group.proof, objects.nodes, held) == group.evictions, (state.name, str(group.proof))
            assert group.proof.pending in {0, on.count(None)}
            for bound in group.proof.bounds:
                assert [count.held for count in bound.domains] == [
                    sum(held[node] for node, labels in objects.nodes.items() if labels[bound.key] == count.domain)
                    for count in bound.domains
                ]
            assert group.proof.evictions == group.evictions
            counted["plans"] += 1
            counted["missing"] += group.proof.missing
            counted["pending"] += bool(group.proof.pending)
            counted["both"] += len({bound.upper for bound in group.proof.bounds}) == 2
            counted["keys"] += len({bound.key for bound in group.proof.bounds}) > 1
    return counted


def test_the_named_bounds_give_the_number() -> None:
    """In every plan of drawn states of one class, the evictions follow from the named domains and what they hold."""
    counted = sum((checked(state) for state in drawn_states(12)), Counter[str]())
    print(f"named bounds give the number: {dict(counted)}, 0 differences")
    assert counted["plans"] > 100
    assert min(counted[sort] for sort in ("missing", "pending", "both", "keys")) > 0


@pytest.mark.thorough
def test_the_named_bounds_give_the_number_thorough() -> None:
    """The same for all drawn states."""
    counted = sum((checked(state) for state in drawn_states()), Counter[str]())
    print(f"named bounds give the number: {dict(counted)}, 0 differences")
    assert counted["plans"] > 1_000


WHATEVER = "no other count of the emptiest domains takes fewer evictions"


@pytest.mark.parametrize(
    ("counts", "zone", "host", "waiting", "proof", "others"),
    [
        ({"a": [3, 3], "b": [3, 3], "c": [0, 0]}, 1, 1, 0, "at most 4 per zone (a:6, b:6), 4 pods are above", True),
        (
            {"a": [0, 4], "b": [0], "c": [0, 3, 3]},
            *(2, 2, 0),
            "at most 4 per zone (c:6) and at most 2 per node (a-2:4), 4 pods are above",
            True,
        ),
        (
            {"a": [0, 3, 3], "b": [0, 3]},
            *(1, 2, 0),
            "at most 5 per zone (a:6), and within them at least 1 per node (a-1:0), 2 pods are above",
            True,
        ),
        (
            {"a": [3, 3], "b": [3, 3], "c": [0, 0]},
            *(1, 1, 1),
            "at least 4 per zone (c:0), 4 pods are missing (1 pending)",
            False,
        ),
        (
            {"a": [1, 3], "b": [0], "c": [3, 1, 0]},
            *(1, 2, 2),
            "at least 3 per zone (b:0) and at least 1 per node (c-3:0), 4 pods are missing (2 pending)",
            True,
        ),
        ({"a": [1, 3], "b": [1, 3], "c": [0, 2]}, 2, 2, 0, "at least 1 per node (c-1:0), 1 pod is missing", True),
        (
            {"a": [3, 3, 0], "b": [3, 0, 0]},
            *(1, 1, 0),
            "at most 2 per node (a-1:3, a-2:3, b-1:3), 3 pods are above",
            False,
        ),
    ],
)
def test_what_a_proof_says(
    counts: dict[str, list[int]], zone: int, host: int, waiting: int, proof: str, *, others: bool
) -> None:
    """It names the coarsest domains that prove the number, and finer ones only where they add to it.

    Where each emptiest domain can hold one number of pods only, there is nothing else to be tried.
    """
    (group,) = planned(laid_out(counts, waiting, zone, host)).components
    assert str(group.proof) == f"with {proof}{f'; {WHATEVER}' if others else ''}"
