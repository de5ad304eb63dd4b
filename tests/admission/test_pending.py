"""Waiting pods are a sign of trouble where a node has capacity for them, or where they replace lost pods."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.pending import count_troubled
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.labels import Labels
from rebalancer.model.moves import ObservedChange
from rebalancer.model.nodes import Node
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec, Resources
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.scheduling.build import NOW, node

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
CREATED = NOW - 2 * MINUTE
GPU = PodSpec(node_affinity=NodeAffinity(selector=Labels({"accelerator": "gpu"})))
LOST = ViolationCause.NODE_LOST


def pods(name: str, number: int, *, owned: bool = True, created: datetime = CREATED, **fields: Any) -> list[Pod]:
    """Return pods of one Job, or without an owner."""
    owner = OwnerReference(group="batch", kind="Job", name=name, uid=f"uid-{name}") if owned else None
    return [
        Pod(namespace="default", name=f"{name}-{n}", uid=f"{name}-{n}", created=created, owner=owner, **fields)
        for n in range(number)
    ]


def sized(cpu: int) -> dict[str, Any]:
    requests = Resources(cpu=cpu)
    return {"spec": PodSpec(requests=requests), "requests": requests}


def three_nodes(**fields: Any) -> list[Node]:
    return [node(name, allocatable=Resources(cpu=4_000), **fields) for name in ("a", "b", "c")]


def count(waiting: list[Pod], nodes: list[Node], others: list[Pod] | None = None, *changes: ObservedChange) -> int:
    snapshot = Snapshot(taken_at=NOW, nodes=tuple(nodes), pods=(*(others or ()), *waiting))
    return count_troubled(waiting, View(snapshot), changes, NOW - MINUTE)


@pytest.mark.parametrize("owned", [True, False])
def test_pods_that_no_node_admits_are_no_sign_of_trouble(*, owned: bool) -> None:
    """A type of node that is not there, and a request that is larger than every node; whoever owns the pods."""
    assert count(pods("gpu", 100, owned=owned, spec=GPU), three_nodes()) == 0
    assert count(pods("large", 100, owned=owned, **sized(4_001)), three_nodes()) == 0
    with_gpu = [*three_nodes(), node("gpu", {"accelerator": "gpu"})]
    assert count(pods("gpu", 100, owned=owned, spec=GPU), with_gpu) == 100


def test_pods_whose_placement_nobody_can_say_are_no_sign_of_trouble() -> None:
    """Another scheduler may not be there, and claims decide what the model does not know: a tenant makes such pods."""
    assert count(pods("other", 100, spec=PodSpec(scheduler="nobody")), three_nodes()) == 0
    assert count(pods("claims", 100, spec=PodSpec(unpredictable=("resourceClaims",))), three_nodes()) == 0
    assert count(pods("usual", 100, spec=PodSpec()), three_nodes()) == 100


def test_a_pod_on_a_node_that_there_never_was_is_no_lost_one() -> None:
    """Whoever creates a pod may name any node; what a kubelet has taken on, or what ran, was lost."""
    waiting = pods("job", 10, spec=GPU)
    (ghost,) = pods("job", 1, node="ghost")
    assert count(waiting, three_nodes(), [ghost]) == 0
    for lost in (structs.replace(ghost, started_at=CREATED), structs.replace(ghost, phase=PodPhase.RUNNING)):
        assert count(waiting, three_nodes(), [structs.replace(lost, uid="lost")]) == 10


def test_as_many_count_as_there_is_capacity_for_and_all_owners_share_it() -> None:
    """In a full batch cluster a finished pod leaves one place: it is free for one of a hundred, not for each."""
    nodes = three_nodes()
    assert count(pods("few", 6, **sized(2_000)), nodes) == 6
    assert count(pods("many", 100, **sized(2_000)), nodes) == 6
    running = [*pods("runs", 3, node="a", **sized(1_000)), *pods("too", 8, node="b", **sized(500))]
    assert count(pods("many", 100, **sized(1_000)), nodes, running) == 1 + 0 + 4
    waiting = [pod for n in range(20) for pod in pods(f"job-{n}", 5, **sized(1_000))]
    assert count(waiting, nodes, running) == 5


def test_a_node_that_has_just_become_ready_is_left_to_the_scheduler() -> None:
    """An autoscaler has added what a Job waits for: its pods are bound within a second or two."""
    for seconds, expected in ((0, 0), (59, 0), (60, 6), (600, 6)):
        young = three_nodes(ready_since=NOW - seconds * SECOND)
        assert count(pods("job", 6, **sized(1_000)), young) == expected, seconds
    assert count(pods("job", 6, **sized(1_000)), three_nodes(ready=False)) == 0


def test_the_first_pod_of_an_owner_and_spec_stands_for_the_others() -> None:
    """Pods of one owner may differ in labels and claims: a question for each would take minutes in a large cluster."""
    first, *others = pods("job", 10)
    claiming = [structs.replace(pod, claims=("not-there",), labels=Labels({"index": pod.name})) for pod in others]
    assert count([first, *claiming], three_nodes()) == 10
    assert count([*claiming, first], three_nodes()) == 0
    assert count([*claiming, *pods("other", 2)], three_nodes()) == 2


@pytest.mark.parametrize(
    ("place", "phase", "expected"),
    [
        ("down", PodPhase.RUNNING, 5),
        ("gone", PodPhase.RUNNING, 5),
        ("down", PodPhase.FAILED, 5),
        ("down", PodPhase.SUCCEEDED, 0),
        ("a", PodPhase.RUNNING, 0),
    ],
)
def test_pods_of_an_owner_that_has_pods_on_a_lost_node_count(place: str, phase: PodPhase, expected: int) -> None:
    """Nothing admits them, but the cluster could run them before; what has succeeded was not lost."""
    nodes = [*three_nodes(), node("down", ready=False)]
    lost = pods("other", 1, node=place, phase=phase, created=NOW - 60 * MINUTE, deleted=NOW)
    waiting = pods("other", 5, spec=GPU)
    assert count(waiting, nodes, lost) == expected
    assert count(pods("job", 5, spec=GPU), nodes, lost) == 0
    alone = pods("alone", 5, owned=False, spec=GPU)
    assert count(alone, nodes, pods("alone", 1, owned=False, node=place, phase=phase)) == 0


@pytest.mark.parametrize(
    ("lost", "older", "expected"),
    [
        (timedelta(0), timedelta(hours=1), 5),
        (6 * MINUTE, timedelta(hours=1), 5),  # an unreachable node, which is deleted once its pods are replaced
        (6 * MINUTE + SECOND, timedelta(hours=1), 0),
        (-MINUTE, timedelta(hours=1), 5),  # observed a cycle later
        (-MINUTE - SECOND, timedelta(hours=1), 0),
        (3 * MINUTE, 4 * MINUTE, 5),
        (3 * MINUTE, 2 * MINUTE, 0),  # the owner is younger than the loss
        (timedelta(0), 30 * SECOND, 0),  # the pods that a Job creates one after the other
        (timedelta(0), timedelta(0), 0),
    ],
)
def test_pods_that_were_created_soon_after_a_node_was_lost_count(
    lost: timedelta, older: timedelta, expected: int
) -> None:
    """The node and its pods are gone from the API: what is stored of the loss, and the age of the owner, remain."""
    change = ObservedChange(LOST, "topology.kubernetes.io/zone=z", CREATED - lost)
    sibling = pods("job", 1, node="a", created=CREATED - older)
    waiting = [structs.replace(pod, uid=f"new-{pod.uid}") for pod in pods("job", 5, spec=GPU)]
    assert count(waiting, three_nodes(), sibling, change) == expected
    assert count(waiting, three_nodes(), sibling) == 0
    other = structs.replace(change, cause=ViolationCause.SCALE_DOWN)
    assert count(waiting, three_nodes(), sibling, other) == 0
    assert count(pods("new", 5, owned=False, spec=GPU), three_nodes(), sibling, change) == 0


def test_the_age_of_an_owner_that_is_read_is_its_own() -> None:
    """A ReplicaSet that has lost all of its pods is older than each of them."""
    blueprint = ClusterBuilder(at=NOW)
    blueprint.zones("abc", 1)
    blueprint.deployment("web", on={"a-1": 6}, cpu=17_000)
    whole = blueprint.snapshot()
    waiting = [structs.replace(pod, node=None, phase=PodPhase.PENDING, created=CREATED) for pod in whole.pods]
    snapshot = replace(whole, pods=tuple(waiting))
    change = ObservedChange(LOST, "topology.kubernetes.io/zone=d", CREATED)
    assert count_troubled(waiting, View(snapshot), (), NOW - MINUTE) == 0
    assert count_troubled(waiting, View(snapshot), (change,), NOW - MINUTE) == 6
    assert count_troubled(waiting, View(replace(snapshot, workloads=())), (change,), NOW - MINUTE) == 0


@given(
    st.lists(st.sampled_from([500, 700, 1_000, 2_500, 4_000, 5_000]), max_size=8),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from([300, 1_000, 2_000, 4_000])), max_size=5),
)
def test_it_counts_as_if_the_pods_were_placed_one_after_the_other(
    running: list[int], jobs: list[tuple[int, int]]
) -> None:
    """By the scheduling model, asked for each pod in the state with all pods before it."""
    nodes = three_nodes()
    others = [pod for n, cpu in enumerate(running) for pod in pods(f"runs-{n}", 1, node="abc"[n % 3], **sized(cpu))]
    waiting = [pod for n, (number, cpu) in enumerate(jobs) for pod in pods(f"job-{n}", number, **sized(cpu))]
    view = View(Snapshot(taken_at=NOW, nodes=tuple(nodes), pods=(*others, *waiting)))
    placed = 0
    for pod in waiting:
        first = min(feasible(pod, view), default="")
        if first:
            placed, view = placed + 1, view.with_placed(pod, first)
    assert count(waiting, nodes, others) == placed
