"""Small clusters of one workload: their states without names, and the snapshot and memory that a state stands for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import permutations, product
from typing import Any, NamedTuple

from msgspec import structs

from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import ExtraEviction, FailedPrediction, Memory, Move, MoveState, Reference, Target
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.reasons import Cause
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.model.workloads import Workload
from rebalancer.policy import Policy, load_policy
from rebalancer.simulator import HOSTNAME, START, ZONE, ClusterBuilder

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)
LONG_AGO = START - timedelta(days=2)

_POLICY = """
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Evict
budgets: {{maxUnavailable: {out}, perWorkload: 100%, perNode: 100%}}
spread: {{for: 0s, actOn: [DoNotSchedule, ScheduleAnyway]}}
eligibility: {{minAge: 0s, minReplicas: 1}}
nodes: {{settle: 0s}}
breaker: {{unreadyNodes: 100%, unreadyInZone: 100%, pendingPods: 100%, apiErrors: 100%, failedMoves: 100%}}
"""

Targets = tuple[tuple[str, tuple[int, ...]], ...]
"""Where a replacement is predicted: by topology key the domains, as indexes of zones or nodes."""


class Hold(NamedTuple):
    """A node: how many Ready pods it holds, and whether it is cordoned."""

    pods: int
    cordoned: bool = False


class State(NamedTuple):
    """A placement and all of the controller's memory that decides about it.

    `waiting` has an entry for each pod without a node, the oldest first: where the controller predicted it, None if it
    evicted nothing for it. `failed` are failed predictions in a row, `goal` that of the extra eviction, -1 if none was
    used.
    """

    nodes: tuple[Hold, ...]
    waiting: tuple[Targets | None, ...] = ()
    failed: int = 0
    goal: int = -1


class World(NamedTuple):
    """What the controller works with: a snapshot, and its memory."""

    snapshot: Snapshot
    memory: Memory


@dataclass(frozen=True)
class Bound:
    """A topology spread constraint without its key."""

    max_skew: int
    soft: bool = False

    def __str__(self) -> str:
        return f"{'soft' if self.soft else 'hard'} {self.max_skew}"


@dataclass(frozen=True)
class Scene:
    """One Deployment on zones with so many nodes each, under constraints on zones and host names.

    `out` is `budgets.maxUnavailable`; at most `pods` replicas and `cordons` cordoned nodes. Others act while at most
    `interference` pods wait for a node. `every_name`: what is decided is taken under every naming of the nodes, else
    under two that are the reverse of each other; names decide between equals.
    """

    zones: tuple[int, ...]
    zone: Bound | None = None
    host: Bound | None = None
    out: str = "100%"
    pods: int = 5
    cordons: int = 1
    interference: int = 1
    every_name: bool = True

    def __str__(self) -> str:
        return f"zones {self.zones}, zone {self.zone}, host {self.host}, maxUnavailable {self.out}, pods {self.pods}"

    @cached_property
    def zone_of(self) -> tuple[int, ...]:
        """The zone of each node."""
        return tuple(zone for zone, size in enumerate(self.zones) for _ in range(size))

    @cached_property
    def policy(self) -> Policy:
        """Everything allowed at once, as often as wanted, hard and soft; no waiting times, no breaker."""
        return load_policy(_POLICY.format(out=self.out).encode(), source="test")

    @cached_property
    def _base(self) -> Snapshot:
        blueprint = ClusterBuilder()
        for number, zone in enumerate(self.zone_of):
            blueprint.node(_node(number), zone=_zone(zone))
        blueprint.deployment("web", on={_node(0): 1})
        base = blueprint.snapshot()
        constraints = tuple(
            SpreadConstraint(
                topology_key=key,
                max_skew=bound.max_skew,
                when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY
                if bound.soft
                else WhenUnsatisfiable.DO_NOT_SCHEDULE,
                selector=LabelSelector.of({"app": "web"}),
            )
            for key, bound in self._bounds
        )

        def owner(workload: Workload) -> Workload:
            template = workload.template
            assert template is not None
            spec = structs.replace(template.spec, spread=constraints)
            return structs.replace(workload, template=structs.replace(template, spec=spec))

        pods = [structs.replace(pod, spec=structs.replace(pod.spec, spread=constraints)) for pod in base.pods]
        return replace(base, pods=tuple(pods), workloads=tuple(map(owner, base.workloads)))

    @cached_property
    def _nodes(self) -> Mapping[bool, tuple[Node, ...]]:
        cordoned = (structs.replace(node, unschedulable=True, taints=(CORDON,)) for node in self._base.nodes)
        return {False: tuple(self._base.nodes), True: tuple(cordoned)}

    # From a state to a snapshot and back

    def world(self, state: State) -> World:
        """Return the snapshot and the memory of a state."""
        prototype = self._base.pods[0]
        pods = [
            structs.replace(prototype, uid=f"{number}-{which}", name=f"web-{number}-{which}", node=_node(number))
            for number, hold in enumerate(state.nodes)
            for which in range(hold.pods)
        ]
        pods += [self.fresh(str(which)) for which in range(len(state.waiting))]
        nodes = tuple(self._nodes[hold.cordoned][number] for number, hold in enumerate(state.nodes))
        snapshot = self.with_pods(replace(self._base, nodes=nodes), pods)
        moves = [
            self._move(which, targets, snapshot) for which, targets in enumerate(state.waiting) if targets is not None
        ]
        failed = (FailedPrediction(self.group, state.failed, LONG_AGO),) if state.failed else ()
        extra = (ExtraEviction(self.group, state.goal),) if state.goal >= 0 else ()
        return World(snapshot, Memory(moves=tuple(moves), failed_predictions=failed, extra_evictions=extra))

    def fresh(self, name: str) -> Pod:
        """Return a pod that waits for a node."""
        return structs.replace(
            self._base.pods[0],
            uid=f"waiting-{name}",
            name=f"web-waiting-{name}",
            node=None,
            ready=False,
            ready_since=None,
            phase=PodPhase.PENDING,
            created=START,
        )

    def with_pods(self, snapshot: Snapshot, pods: list[Pod], replicas: int | None = None) -> Snapshot:
        """Return the snapshot with these pods, and owners that have counted them."""
        counts = {"current": len(pods), "updated": len(pods), "ready": sum(pod.ready for pod in pods)}
        wanted = len(pods) if replicas is None else replicas
        workloads = [structs.replace(owner, replicas=wanted, **counts) for owner in snapshot.workloads]
        return replace(snapshot, pods=tuple(pods), workloads=tuple(workloads))

    @cached_property
    def group(self) -> str:
        """The name of the workload's component."""
        hard = [(key, bound) for key, bound in self._bounds if not bound.soft]
        soft = [(key, bound) for key, bound in self._bounds if bound.soft]
        keys = ",".join(f"{key}:{bound.max_skew}" for key, bound in (*hard, *soft))
        return f"default Deployment/web {keys}"

    @property
    def _bounds(self) -> tuple[tuple[str, Bound], ...]:
        return tuple((key, bound) for key, bound in ((ZONE, self.zone), (HOSTNAME, self.host)) if bound is not None)

    def _move(self, which: int, targets: Targets, snapshot: Snapshot) -> Move:
        owner = next(workload for workload in snapshot.workloads if workload.kind == "ReplicaSet")
        name = {ZONE: _zone, HOSTNAME: _node}
        return Move(
            uid=f"victim-{which}",
            namespace="default",
            pod=f"web-victim-{which}",
            node=_node(0),
            workload=Reference("default", "Deployment", "web"),
            owner_uid=owner.uid,
            replicas=owner.replicas,
            group=self.group,
            cause=Cause.SKEW_VIOLATED,
            targets=tuple(Target(key, tuple(name[key](index) for index in domains)) for key, domains in targets),
            state=MoveState.PENDING,
            requested_at=START,
            changed_at=START,
            replacement=f"waiting-{which}",
        )

    def state(self, world: World) -> State:
        """Return the state of a snapshot and a memory; moves that are over are forgotten."""
        memory = world.memory
        assert {move.group for move in memory.in_flight} <= {self.group}
        targets = {move.replacement: _indexed(move.targets) for move in memory.in_flight}
        counts = [0] * len(self.zone_of)
        waiting: list[Targets | None] = []
        for pod in world.snapshot.pods:
            if pod.node is None:
                waiting.append(targets.pop(pod.uid, None))
            else:
                counts[_index(pod.node)] += 1
        assert not targets, "every move in flight has its replacement"
        return State(
            nodes=tuple(
                Hold(held, node.unschedulable) for held, node in zip(counts, world.snapshot.nodes, strict=True)
            ),
            waiting=tuple(waiting),
            failed=sum(failure.times for failure in memory.failed_predictions),
            goal=next((extra.goal for extra in memory.extra_evictions), -1),
        )

    # Names mean nothing

    @cached_property
    def renamings(self) -> tuple[tuple[int, ...], ...]:
        """Every renaming of nodes that leaves each zone a zone: for each node the one that gets its name."""
        first = [self.zone_of.index(zone) for zone in range(len(self.zones))]
        results = []
        for zones in permutations(range(len(self.zones))):
            if all(self.zones[zone] == self.zones[new] for zone, new in enumerate(zones)):
                inner = [permutations(range(size)) for size in self.zones]
                for orders in product(*inner):
                    within = [
                        first[zones[zone]] + orders[zone][number - first[zone]]
                        for number, zone in enumerate(self.zone_of)
                    ]
                    results.append(tuple(within))
        return tuple(results)

    @property
    def namings(self) -> tuple[tuple[int, ...], ...]:
        """The renamings under which the controller decides."""
        return self.renamings if self.every_name else (self.renamings[0], self.renamings[-1])

    def renamed(self, state: State, renaming: tuple[int, ...]) -> State:
        """Return the state under other names."""
        nodes = [state.nodes[0]] * len(state.nodes)
        zones = [0] * len(self.zones)
        for number, new in enumerate(renaming):
            nodes[new] = state.nodes[number]
            zones[self.zone_of[number]] = self.zone_of[new]
        by_key = {ZONE: zones, HOSTNAME: renaming}
        waiting = tuple(
            None
            if targets is None
            else tuple((key, tuple(sorted(by_key[key][index] for index in domains))) for key, domains in targets)
            for targets in state.waiting
        )
        return State(tuple(nodes), waiting, state.failed, state.goal)

    def canonical(self, state: State) -> State:
        """Return the one state that stands for all that differ in names only."""
        return min((self.renamed(state, renaming) for renaming in self.renamings), key=_sort_key)

    def placements(self) -> Iterator[State]:
        """Yield every placement up to names, with nothing pending and nothing in the memory."""
        seen = set()
        size = len(self.zone_of)
        for counts in product(range(self.pods + 1), repeat=size):
            if sum(counts) > self.pods:
                continue
            for cordoned in product((False, True), repeat=size):
                if sum(cordoned) <= self.cordons:
                    state = self.canonical(State(tuple(map(Hold, counts, cordoned))))
                    if state not in seen:
                        seen.add(state)
                        yield state


def _sort_key(state: State) -> tuple[Any, ...]:
    return state.nodes, tuple((targets is not None, targets or ()) for targets in state.waiting)


def _indexed(targets: tuple[Target, ...]) -> Targets:
    return tuple(sorted((target.topology_key, tuple(sorted(map(_index, target.values)))) for target in targets))


def _index(name: str) -> int:
    return int(name[1:])


def _node(number: int) -> str:
    return f"n{number}"


def _zone(number: int) -> str:
    return f"z{number}"
