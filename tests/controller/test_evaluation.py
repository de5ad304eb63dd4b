"""What was evaluated is used again while nothing but time has passed, and is then what a new evaluation would give."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from msgspec import structs

from rebalancer.capacity.needs import RehearsedNeed
from rebalancer.controller.cycle import Cycle
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import FailedPrediction, Memory, MoveState
from rebalancer.model.reasons import Reason
from rebalancer.planning.diagnosis.relaxation import Relaxation, find_relaxation
from rebalancer.planning.multi_class.classes import PodClasses
from rebalancer.planning.problem import multi_class
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.policy import Capacity, CapacityMode, Mode, Policy, Topology
from rebalancer.simulator import ZONE, SimulatedCluster
from tests.build import a_cluster
from tests.controller.cycles import cycle_of
from tests.controller.simulated import eager
from tests.drawing import sampled, scaled
from tests.planning.diagnosis.test_relaxation import shards
from tests.scheduling.build import NOW
from tests.tracking.build import move
from tests.world.scenarios import SCENARIOS, draw_cluster


def draw_policy(random: Random, mode: CapacityMode = CapacityMode.OFF) -> Policy:
    """Draw what time alone can change: ages of pods and nodes, and how long domains are remembered.

    With a mode of capacity repairs that lack it in a declared zone are rehearsed.
    """
    policy = eager(capacity=Capacity(mode=mode), topology=Topology(domains={ZONE: ("a", "b", "c", "d")}))
    minutes = [timedelta(minutes=number) for number in (0, 1, 3)]
    return policy.model_copy(
        update={
            "eligibility": policy.eligibility.model_copy(update={"min_age": random.choice(minutes)}),
            "nodes": policy.nodes.model_copy(update={"settle": random.choice(minutes)}),
            "topology": policy.topology.model_copy(update={"remember": random.choice(minutes)}),
        }
    )


def disturb(cluster: SimulatedCluster, random: Random) -> None:
    """Delete a pod, scale a workload, or let a zone go or come back."""
    snapshot = cluster.snapshot(cluster.now)
    match random.randrange(3):
        case 0:
            cluster.state.delete(random.choice(snapshot.pods))
        case 1:
            top = random.choice([workload for workload in snapshot.workloads if workload.owner is None])
            cluster.scale(top.namespace, top.kind, top.name, random.randint(1, 8))
        case _ if any(node.labels.get(ZONE) == "c" for node in snapshot.nodes):
            cluster.nodes.remove_domain(ZONE, "c")
        case _:
            cluster.nodes.restore_domain(ZONE, "c")


def run(cluster: SimulatedCluster, policy: Policy, last: Cycle | None, *, again: bool) -> Cycle:
    """Run a cycle; `again` says whether the last evaluation may be used again."""
    return cycle_of(cluster.snapshot(cluster.now), policy, mode=Mode.EVICT, last=last, again=again)


def admitted(cycle: Cycle) -> tuple[list[str], list[tuple[str, Refusal]]]:
    """Return the pods to evict, and those that wait with the reasons."""
    waiting = [(one.eviction.pod.uid, one.refusal) for one in cycle.fates.kept]
    return [eviction.pod.uid for eviction in cycle.fates.going], waiting


@pytest.mark.parametrize(
    ("seed", "mode"), [*((seed, CapacityMode.OFF) for seed in sampled([0, 1, 2, 4, 5])), (3, CapacityMode.OBSERVE)]
)
def test_what_is_used_again_is_what_a_new_evaluation_gives(seed: int, mode: CapacityMode) -> None:
    """Memory, admission and plan are the same, over a quarter of an hour with a change now and then."""
    random = Random(f"again {seed}")
    first, _ = draw_cluster(random, SCENARIOS["anything"])
    cluster, policy = SimulatedCluster(first, seed=seed), draw_policy(random, mode)
    last: Cycle | None = None
    reused = rehearsed = 0
    cycles = max(30, scaled(60))
    for _ in range(cycles):
        if random.random() < 0.15:
            disturb(cluster, random)
        cluster.advance(random.choice([0.5, 5, 15, 40]))
        fresh, made = (run(cluster, policy, last, again=again) for again in (False, True))
        reused += last is not None and made.assessment is last.assessment
        assert made.memory == fresh.memory
        assert admitted(made) == admitted(fresh)
        assert made.plan_json == fresh.plan_json
        assert made.view.snapshot.taken_at == fresh.view.snapshot.taken_at
        rehearsed += any(refusal.refusal.reason is Reason.AWAITING_CAPACITY for refusal in made.plan.refusals)
        last = made
    assert reused > cycles / 6
    assert rehearsed > 0 or mode is CapacityMode.OFF


def test_a_repair_that_waits_for_capacity_is_rehearsed_again_only_after_a_change() -> None:
    """A rehearsal is a search on a cluster that does not exist: a second of the processor in the worst case."""
    on = {f"{zone}-{number}": 2 for zone in "ab" for number in (1, 2, 3)}
    cluster, policy = (
        SimulatedCluster(a_cluster("ab", 3, on, spread={ZONE: 1}).snapshot(), seed=1),
        draw_policy(Random(2), CapacityMode.OBSERVE),
    )
    cluster.advance(600)
    last = run(cluster, policy, run(cluster, policy, None, again=True), again=True)

    def rehearsals(cycle: Cycle) -> list[RehearsedNeed]:
        assert cycle.capacity is not None
        return [entry for _, entry in cycle.capacity.rehearsed.values()]

    (first,) = rehearsals(last)
    assert first.need is not None
    cluster.advance(30)
    later = run(cluster, policy, last, again=True)
    assert rehearsals(later) == [first]
    assert rehearsals(later)[0] is first
    cluster.nodes.remove("b-3")
    changed = run(cluster, policy, later, again=True)
    assert all(entry is not first for entry in rehearsals(changed))


def test_another_policy_or_memory_is_evaluated_anew() -> None:
    """Although the objects are the same."""
    random = Random(1)
    first, _ = draw_cluster(random, SCENARIOS["anything"])
    cluster, policy = SimulatedCluster(first, seed=1), eager()
    cluster.advance(600)
    last = run(cluster, policy, run(cluster, policy, None, again=True), again=True)
    assert run(cluster, policy, last, again=True).assessment is last.assessment
    assert run(cluster, policy.model_copy(), last, again=True).assessment is not last.assessment
    moved = replace(
        last, memory=structs.replace(last.memory, failed_predictions=(FailedPrediction("web", 1, cluster.now),))
    )
    assert run(cluster, policy, moved, again=True).assessment is not last.assessment


def test_when_a_pod_was_last_seen_to_end_is_no_reason_to_plan_anew() -> None:
    """It changes in every cycle, for a week perhaps, and neither assessment nor plan reads it."""
    state = move("a", NOW, state=MoveState.EVICTED)
    first = Memory(moves=(state,)).planning
    later = structs.replace(state, victim_seen=NOW, bound_since=NOW)
    assert Memory(moves=(later,)).planning == first
    assert Memory(moves=(structs.replace(state, state=MoveState.PENDING),)).planning != first


def test_what_would_make_a_component_feasible_is_searched_once_for_an_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It costs integer programs: never between admission and the first eviction, nor again in every idle cycle."""
    searches = []

    def searched(classes: PodClasses, limits: SearchLimits) -> Relaxation:
        searches.append(classes)
        return find_relaxation(classes, limits)

    monkeypatch.setattr(multi_class, "find_relaxation", searched)
    first, policy = shards(2).snapshot(), shards(2).policy()
    last: Cycle | None = None
    for seconds in range(4):
        last = cycle_of(replace(first, taken_at=first.taken_at + timedelta(seconds=seconds)), policy, last=last)
        assert list(last.relaxations) == [last.plan.components[0].name]
        assert len(searches) == 1
        assert "feasible with" in last.plan_json
