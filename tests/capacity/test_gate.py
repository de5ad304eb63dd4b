"""Evictions go only where their replacements find a node while every placeholder that still exists is in its place."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.capacity.gate import (
    CapacityBeingFreed,
    CapacityDisputed,
    CapacityHeld,
    CapacityIncomplete,
    Gate,
    pass_gate,
)
from rebalancer.engine import evaluate
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.labels import Labels
from rebalancer.model.moves import CapacityRequest, CapacityState, DomainName, Reference, Target
from rebalancer.model.placeholders import PLACEHOLDER_LABEL, REQUEST_LABEL
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.eviction import Eviction, Outlook
from rebalancer.planning.fates import Fates, Goes
from rebalancer.policy import Amount, Budgets
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, START, ZONE
from tests.build import a_cluster
from tests.controller.simulated import eager

NAMES = ("p-1", "p-2", "p-3", "p-4")
POLICY = eager(budgets=Budgets(max_unavailable=Amount(value=2), per_workload=Amount(value=9), per_node=Amount(value=9)))


def snapshot(*, cpu: int = 3_200, kind: str = "deployment", workloads: Sequence[str] = ("web",)) -> Snapshot:
    """Return six pods of each workload in zones a and b each, and a node in zone c for so many millicores."""
    builder = a_cluster("ab", 2)
    labels = {ZONE: "c"}
    builder.node("c-1", cpu=cpu, **labels)  # type: ignore[arg-type]  # the labels are no amounts
    for name in workloads:
        on = {f"{zone}-{number}": 3 for zone in "ab" for number in (1, 2)}
        add = builder.deployment if kind == "deployment" else builder.stateful_set
        add(name, on=on, spread={ZONE: 1}, cpu=800)
    return builder.snapshot()


def placeholder(name: str, made: Snapshot, **changes: object) -> Pod:
    """Return a placeholder on the node in zone c, as large as a pod of the workload."""
    labels = Labels({PLACEHOLDER_LABEL: name, REQUEST_LABEL: "web"})
    pod = structs.replace(
        made.pods[0],
        name=name,
        uid=name,
        namespace="capacity",
        labels=labels,
        owner=None,
        node="c-1",
        spec=PodSpec(requests=made.pods[0].requests),
    )
    return structs.replace(pod, **changes)


def request(*names: str, **changes: object) -> CapacityRequest:
    made = CapacityRequest(
        token="web",
        workloads=(Reference("default", "Deployment", "web"), Reference("default", "StatefulSet", "web")),
        domains=(DomainName(ZONE, "c"),),
        placeholders=names,
        nodes=("c-1",),
        state=CapacityState.READY,
        since=START,
    )
    return structs.replace(made, **changes)


def planned(made: Snapshot) -> tuple[Eviction, ...]:
    """Return the evictions that would go if no placeholder existed."""
    evictions = evaluate(made, POLICY).plan.fates.going
    assert evictions
    return evictions


def gate(made: Snapshot, held: Sequence[Pod], *requests: CapacityRequest) -> Gate:
    evictions = planned(made)
    return pass_gate(Fates(tuple(map(Goes, evictions))), View(replace(made, pods=(*made.pods, *held))), held, requests)


def names(evictions: Sequence[Eviction]) -> list[str]:
    return [eviction.pod.name for eviction in evictions]


def causes(passed: Gate) -> set[object]:
    return {waiting.refusal for waiting in passed.fates.kept}


def stranger(made: Snapshot, *, cpu: int) -> Pod:
    """Return a pod of nobody that waits for a node in zone c."""
    requests = structs.replace(made.pods[0].requests, cpu=cpu)
    spec = PodSpec(requests=requests, node_affinity=NodeAffinity(selector=Labels({ZONE: "c"})))
    pod = structs.replace(made.pods[0], name="stranger", uid="stranger", labels=Labels(), owner=None, node=None)
    return structs.replace(pod, spec=spec, requests=requests)


def test_without_placeholders_and_requests_everything_goes() -> None:
    passed = gate(snapshot(), ())
    assert (names(passed.fates.going), passed.fates.kept, passed.freed) == (names(planned(snapshot())), (), ())


@pytest.mark.parametrize("kind", ["deployment", "stateful_set"])
def test_the_placeholders_of_a_step_are_deleted_first(kind: str) -> None:
    """As many as the step has evictions, and nothing goes before they are gone; then exactly the step goes."""
    made = snapshot(kind=kind)
    step = planned(made)
    held = [placeholder(name, made) for name in NAMES]
    first = gate(made, held, request(*NAMES))
    assert (first.fates.going, first.freed) == ((), NAMES[: len(step)])
    assert causes(first) == {CapacityBeingFreed(len(step))}
    leaving = [structs.replace(pod, deleted=START) if pod.name in first.freed else pod for pod in held]
    second = gate(made, leaving, request(*NAMES))
    assert (second.fates.going, second.freed, causes(second)) == ((), (), {CapacityBeingFreed(len(step))})
    third = gate(made, held[len(step) :], request(*NAMES[len(step) :]))
    assert (names(third.fates.going), third.freed, third.fates.kept) == (names(step), (), ())


def test_nothing_goes_before_the_whole_request_is_ready() -> None:
    """What seems free is what a placeholder without a node was created for."""
    made = snapshot()
    passed = gate(made, [placeholder("p-1", made)], request(*NAMES, state=CapacityState.REQUESTED))
    assert (passed.fates.going, passed.freed, causes(passed)) == ((), (), {CapacityIncomplete()})


def test_a_placeholder_that_is_no_longer_wanted_is_awaited() -> None:
    """Its Job is deleted, its pod still there."""
    made = snapshot()
    held = [placeholder(name, made) for name in NAMES]
    passed = gate(made, held, request(*NAMES[2:]))
    assert (passed.fates.going, passed.freed, causes(passed)) == ((), (), {CapacityBeingFreed(2)})


@pytest.mark.parametrize("free", [False, True])
def test_a_foreign_pod_that_could_take_the_capacity_holds_the_step(free: bool) -> None:
    """Whether it is free already, or only once the placeholders are deleted. One that fits nowhere holds nothing."""
    made = snapshot()
    step = planned(made)
    left = NAMES[len(step) :] if free else NAMES
    held = [placeholder(name, made) for name in left]
    for cpu, expected in ((700, {CapacityDisputed("default/stranger")}), (9_000, set())):
        passed = gate(replace(made, pods=(*made.pods, stranger(made, cpu=cpu))), held, request(*left))
        assert {cause for cause in causes(passed) if isinstance(cause, CapacityDisputed)} == expected
        assert not (expected and (passed.fates.going or passed.freed))


def test_capacity_that_another_request_holds_is_not_taken() -> None:
    """Nothing is deleted for a workload that has no request, and nothing of it is evicted into held capacity."""
    made = snapshot()
    held = [placeholder(name, made) for name in NAMES]
    passed = gate(made, held, request(*NAMES, workloads=(Reference("default", "Deployment", "other"),)))
    assert (passed.fates.going, passed.freed, causes(passed)) == ((), (), {CapacityHeld()})


def test_a_part_of_a_step_goes_where_it_is_a_step_by_itself() -> None:
    """Capacity for one of two replacements is free: one eviction goes, the other waits."""
    made = snapshot()
    step = planned(made)
    assert (len(step), step[0].needed) == (2, 1)
    held = [placeholder(name, made) for name in NAMES[1:]]
    passed = gate(made, held, request(workloads=(Reference("default", "Deployment", "other"),)))
    assert (names(passed.fates.going), causes(passed)) == (names(step[:1]), {CapacityHeld()})


def test_two_workloads_do_not_count_on_the_same_capacity() -> None:
    """Of two steps for one free place the first goes."""
    made = snapshot(workloads=("web", "api"))
    held = [placeholder(name, made) for name in NAMES[1:]]
    passed = gate(made, held, request("p-2"))
    assert len(passed.fates.going) == 1
    assert {waiting.eviction.workload for waiting in passed.fates.kept} >= {
        eviction.workload for eviction in planned(made)
    } - {passed.fates.going[0].workload}


def test_a_placeholder_too_small_for_a_replacement_frees_nothing() -> None:
    """Not even all of them together make the place."""
    made = snapshot(cpu=500)
    wide = snapshot()
    held = [placeholder("p-1", made, requests=structs.replace(made.pods[0].requests, cpu=100))]
    evictions = planned(wide)
    passed = pass_gate(
        Fates(tuple(map(Goes, evictions))), View(replace(made, pods=(*made.pods, *held))), held, [request("p-1")]
    )
    assert (passed.fates.going, passed.freed, causes(passed)) == ((), (), {CapacityHeld()})


def test_a_prediction_counts_only_where_it_still_holds() -> None:
    """Scores were computed without placeholders: a replacement that may now go elsewhere is not evicted for."""
    made = snapshot()
    (first, *_) = planned(made)
    for values, goes in ((("c",), True), (("a",), False)):
        elsewhere = Outlook(_Elsewhere((Target(ZONE, values), Target(HOSTNAME, ("c-1",)))))
        repair = structs.replace(first.repair, forced=False, outlook=elsewhere)
        eviction = structs.replace(first, repair=repair)
        passed = pass_gate(Fates((Goes(eviction),)), View(made), (), [request()])
        assert bool(passed.fates.going) == goes


class _Elsewhere:
    """An outlook with other targets."""

    def __init__(self, targets: tuple[Target, ...]) -> None:
        self._targets = targets

    def targets(self) -> tuple[Target, ...]:
        return self._targets

    def counts(self) -> dict[str, dict[str, int]]:
        return {}

    def landings(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes
