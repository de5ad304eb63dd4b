"""Every step out of a state: by the controller, by the scheduler, and by somebody else."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from msgspec import structs

from rebalancer.admission.admit import AdmissionContext
from rebalancer.controller.cycle import Cycle, CycleInputs, run_cycle
from rebalancer.controller.evictions import queue_evictions
from rebalancer.controller.state import InForce, LoopState
from rebalancer.model.moves import Memory, MoveState
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.eviction import Eviction
from rebalancer.policy import Mode
from rebalancer.prevention.controller_order import sort_for_deletion
from rebalancer.scheduling.place import any_feasible, candidate_nodes
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.scheduling.view import View
from rebalancer.simulator import START
from rebalancer.tracking.moves import MoveEvent, advance_move
from rebalancer.tracking.track import track
from tests.state_graph.scenes import CORDON, Scene, State, World


class Actor(StrEnum):
    """Who makes a step."""

    CONTROLLER = "controller"
    SCHEDULER = "scheduler"
    OTHER = "other"
    """Somebody else: evicts or deletes a pod, scales, cordons and uncordons."""


class Step(NamedTuple):
    """A step to another state; `evictions` is how many pods the controller evicts by it."""

    actor: Actor
    to: State
    evictions: int = 0


Decide = Callable[[Scene, World], Cycle]
"""What the controller decides in one cycle."""


def decide(scene: Scene, world: World) -> Cycle:
    """Run the controller's own cycle."""
    context = AdmissionContext(policy=scene.policy, mode=Mode.EVICT, now=START)
    return run_cycle(
        CycleInputs(
            snapshot=world.snapshot,
            profile=DEFAULT_PROFILE,
            memory=world.memory,
            context=context,
            before=world.snapshot,
        )
    )


def controller_steps(scene: Scene, state: State, choose: Decide = decide) -> Iterator[Step]:
    """Yield what the controller may do under any names: each prefix of what is admitted that is a step.

    A cycle that evicts nothing may still change the memory.
    """
    for named in {scene.renamed(state, renaming) for renaming in scene.namings}:
        world = scene.world(named)
        cycle = choose(scene, world)
        evictions = cycle.fates.going
        if not evictions:
            yield Step(Actor.CONTROLLER, scene.canonical(scene.state(World(world.snapshot, cycle.memory))))
        for many in range(evictions[0].needed if evictions else 1, len(evictions) + 1):
            after = _evicted(scene, world.snapshot, cycle, evictions[:many])
            yield Step(Actor.CONTROLLER, scene.canonical(scene.state(after)), many)


def _evicted(scene: Scene, snapshot: Snapshot, cycle: Cycle, evictions: tuple[Eviction, ...]) -> World:
    """Return what comes of evictions that are granted: the pods are gone, and their replacements wait for a node."""
    loop = LoopState(in_force=InForce(policy=scene.policy, policy_since=START), memory=cycle.memory, cycle=cycle)
    memory = queue_evictions(loop, evictions, START)[0].memory
    victims = {eviction.pod.uid for eviction in evictions}
    moves = tuple(
        advance_move(move, MoveEvent.GRANTED, START) if move.uid in victims else move for move in memory.moves
    )
    pods = [pod for pod in snapshot.pods if pod.uid not in victims]
    pods += [scene.fresh(f"for-{uid}") for uid in sorted(victims)]
    return _observed(scene, snapshot, scene.with_pods(snapshot, pods), structs.replace(memory, moves=moves))


def _observed(scene: Scene, before: Snapshot, after: Snapshot, memory: Memory) -> World:
    """Let the controller's memory follow a change."""
    followed = track(memory, before, after, scene.policy, START)
    assert not any(move.state is MoveState.PLANNED for move in followed.in_flight)
    return World(after, followed)


def scheduler_steps(scene: Scene, state: State) -> Iterator[Step]:
    """Yield the oldest pod that waits on every node that admits it, whatever its score; it is Ready there at once.

    All pods are equal: where a node admits one, it admits the oldest, and the scheduler's queue has it first.
    """
    snapshot, memory = scene.world(state)
    pod = next((pod for pod in snapshot.pods if pod.node is None), None)
    if pod is None:
        return
    for node in candidate_nodes(pod, View(snapshot), any_feasible).feasible:
        placed = structs.replace(pod, node=node, ready=True, ready_since=START, phase=PodPhase.RUNNING)
        pods = [placed if other is pod else other for other in snapshot.pods]
        after = _observed(scene, snapshot, scene.with_pods(snapshot, pods), memory)
        yield Step(Actor.SCHEDULER, scene.canonical(scene.state(after)))


def other_steps(scene: Scene, state: State) -> Iterator[Step]:
    """Yield every step of somebody else: a pod deleted, one replica more or less, a node cordoned or uncordoned.

    They act while few pods wait: the states in which many wait, each predicted before another change, are too many.
    """
    if len(state.waiting) > scene.interference:
        return
    snapshot, memory = scene.world(state)
    for after in (*_deleted(scene, snapshot), *_scaled(scene, snapshot), *_cordoned(scene, snapshot)):
        yield Step(Actor.OTHER, scene.canonical(scene.state(_observed(scene, snapshot, after, memory))))


def _deleted(scene: Scene, snapshot: Snapshot) -> Iterator[Snapshot]:
    for pod in snapshot.pods:
        if pod.node is not None:
            pods = [other for other in snapshot.pods if other is not pod]
            yield scene.with_pods(snapshot, [*pods, scene.fresh("for-deleted")])


def _scaled(scene: Scene, snapshot: Snapshot) -> Iterator[Snapshot]:
    pods = list(snapshot.pods)
    if len(pods) < scene.pods:
        yield scene.with_pods(snapshot, [*pods, scene.fresh("for-scale")])
    for pod in _first_to_go(pods):
        yield scene.with_pods(snapshot, [other for other in pods if other is not pod])


def _first_to_go(pods: list[Pod]) -> list[Pod]:
    """Return the pods that a ReplicaSet may delete first, whatever their ages and UIDs."""
    crowds = Counter(pod.node for pod in pods)
    ordered = sort_for_deletion(pods, crowds, START)
    return [
        pod
        for pod in ordered
        if (pod.node, crowds[pod.node])[pod.node is not None] == _crowd_or_none(ordered[0], crowds)
    ]


def _crowd_or_none(pod: Pod, crowds: Counter[str | None]) -> int | None:
    return None if pod.node is None else crowds[pod.node]


def _cordoned(scene: Scene, snapshot: Snapshot) -> Iterator[Snapshot]:
    many = sum(node.unschedulable for node in snapshot.nodes)
    for node in snapshot.nodes:
        if node.unschedulable or many < scene.cordons:
            taints = () if node.unschedulable else (CORDON,)
            changed = structs.replace(node, unschedulable=not node.unschedulable, taints=taints)
            yield replace(snapshot, nodes=tuple(changed if other is node else other for other in snapshot.nodes))
