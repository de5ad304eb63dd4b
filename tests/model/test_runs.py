"""Runs of pods: in whatever order pods are listed, indexes have the same pods as without runs."""

from random import Random
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec, Resources
from rebalancer.model.runs import find_runs
from tests.scheduling.build import NOW, pod, snapshot

_OWNERS = [OwnerReference(group="apps", kind="ReplicaSet", name=name, uid=name) for name in ("a", "b")]


def _make_pods(number: int) -> list[Pod]:
    alike = pod({"app": "a"}, on="n1", owner=_OWNERS[0])
    return [structs.replace(alike, name=f"p{index}", uid=f"p{index}") for index in range(number)]


def test_pods_that_are_alike_and_adjacent_are_one_run() -> None:
    """Their nodes may differ, and some may wait for one."""
    first, second, third = _make_pods(3)
    (run,) = find_runs([first, structs.replace(second, node=None), structs.replace(third, node="n2")])
    assert [member.name for member in run.pods] == ["p0", "p1", "p2"]
    assert run.nodes == ["n1", "n2"]
    assert find_runs([]) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"owner": _OWNERS[1]},
        {"owner": None},
        {"labels": Labels({"app": "b"})},
        {"spec": PodSpec(priority=1)},
        {"phase": PodPhase.SUCCEEDED},
        {"requests": Resources(cpu=1)},
        {"scored": (1, 1)},
        {"deleted": NOW},
        {"namespace": "other"},
    ],
)
def test_a_pod_that_differs_ends_a_run(fields: dict[str, Any]) -> None:
    """In anything that an index over runs takes from one of the pods."""
    first, second, third = _make_pods(3)
    runs = find_runs([first, structs.replace(second, **fields), third])
    assert [[member.name for member in run.pods] for run in runs] == [["p0"], ["p1"], ["p2"]]


def test_indexes_over_runs_have_the_pods_in_their_order() -> None:
    """Of owners whose pods are mixed with others'."""
    random = Random(7)
    made = [
        structs.replace(
            member,
            owner=random.choice([*_OWNERS, None]),
            node=random.choice(["n1", "n2", None]),
            phase=random.choice(list(PodPhase)),
            deleted=random.choice([None, None, NOW]),
        )
        for member in _make_pods(200)
    ]
    indexed = snapshot([], made)
    for owner in _OWNERS:
        assert list(indexed.pods_of[owner.uid]) == [member for member in made if member.owner is owner]
    assert len(indexed.pods_of) == len(_OWNERS)
    assert list(indexed.unplaced) == [member for member in made if member.waiting]
    for run in indexed.runs:
        assert {run.living} == {not member.terminating and not member.finished for member in run.pods}
