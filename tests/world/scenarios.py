"""The situations among which a seed draws one: the cluster, the policy, and what happens to them.

`anything` draws every disturbance. Each other scenario has one course of its own, with the same disturbances around it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from msgspec import structs

from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.labels import Labels
from rebalancer.model.nodes import Node
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.policy import (
    Amount,
    Budgets,
    CapacityMode,
    Limit,
    Mode,
    NamespaceFilter,
    Policy,
    PolicyGroup,
    RepairBy,
    RepairMethod,
    ScaleDownPrevention,
    Selector,
    Spread,
)
from rebalancer.ports import EvictionResult
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder, Span, Timings
from tests.build import a_cluster
from tests.controller.simulated import eager
from tests.world.actors import CLUSTER, autoscale, cordon_zone, lose_zone, scale, scale_amid_surge, second_evictor
from tests.world.approver import Approver
from tests.world.disturbances import NETWORK, Disturbance

if TYPE_CHECKING:
    from tests.world.world import World

PAIR = "pair"
"""The namespace, and the pool of two nodes, of the workload with a soft constraint."""

LATE = "pair-2"

LATE_ZONE = "d"
"""The zone that has no node before an autoscaler makes one."""

TRIO = "trio"
"""The namespace, and the pool of three nodes in two racks, of the workload that one eviction alone does not repair."""

RACK = "rack"

_CROWDED_SHARE = 0.2
"""Of the seeds."""

_CROWDED_LIMITS = 120
"""Violated for ever: a memory of the size that a crowded world allows cannot hold so many."""

_EDITED_UNTIL = 300.0
"""Seconds for which the policy is edited again and again."""


def _prepare_nothing(world: "World", random: Random) -> None:
    """Begin as drawn."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`network` and `cluster` are the disturbances that are drawn, `prepare` begins what is the scenario's own."""

    cluster: Sequence[Disturbance] = CLUSTER
    network: Sequence[Disturbance] = NETWORK
    mode: Mode = Mode.EVICT
    prepare: Callable[["World", Random], None] = _prepare_nothing
    has_pair: bool = False
    has_trio: bool = False
    has_surges: bool = False


def draw_timings(random: Random) -> Timings:
    """Draw how late the scheduler and the owners' controllers see what happens."""
    late = random.choice([Span(0.0, 0.0), Span(0.0, 0.0), Span(0.0, 0.3), Span(0.0, 3.0)])
    return Timings(informing=late, binding=late)


def _join_late(world: "World", random: Random) -> None:
    """Let the second node of the pool join after a while."""
    late = world.late_node
    assert late is not None

    def join() -> None:
        world.cluster.nodes.add(late)
        world.note(f"node {late.name} joins")

    world.hub.after(random.uniform(60, 1200), join)


def _refuse_for_ever(world: "World", random: Random) -> None:
    """Let the webhook of one namespace refuse every eviction to the end."""
    namespace = random.choice(world.namespaces)
    result = random.choice([EvictionResult.FAILED, EvictionResult.UNKNOWN, EvictionResult.FORBIDDEN])
    world.refuse_for_ever(namespace, result)
    world.note(f"the webhook of {namespace} answers {result} for ever")


def _edit_amid_steps(world: "World", random: Random) -> None:
    """Edit the policy right after evictions were granted, when steps have begun."""

    def edit() -> None:
        minutes = timedelta(minutes=random.randint(20, 60))
        changed = world.in_force.model_copy(update={"plan_ttl": minutes})
        world.in_force = changed
        for replica in world.living:
            world.hub.after(0.03 * random.random(), lambda replica=replica: replica.load_policy(changed))  # type: ignore[misc]
        world.note("the policy is edited")
        if world.hub.seconds < _EDITED_UNTIL:
            world.at_next("granted", 0.03 * random.random(), edit)

    world.at_next("granted", 0.0, edit)


def _approve(world: "World", random: Random) -> None:
    """Let an operator approve what is proposed."""
    Approver(world, random).start()


SCENARIOS: Mapping[str, Scenario] = {
    "anything": Scenario(),
    "late node": Scenario(prepare=_join_late, has_pair=True),
    "cordoned zone": Scenario(cluster=(cordon_zone, cordon_zone, scale)),
    "autoscaler": Scenario(cluster=(autoscale, autoscale, lose_zone)),
    "second evictor": Scenario(cluster=(second_evictor, second_evictor, lose_zone)),
    "refusing webhook": Scenario(prepare=_refuse_for_ever),
    "refusing webhook, no other fault": Scenario(prepare=_refuse_for_ever, network=()),
    "approvals": Scenario(prepare=_approve, mode=Mode.APPROVE),
    "large steps": Scenario(prepare=_edit_amid_steps, has_trio=True),
}
SURGES = "surges"
"""The scenario in which pods are added before others go; no seed draws it, so that the others stay what they are."""

FORCED: Mapping[str, Scenario] = {
    **SCENARIOS,
    SURGES: Scenario(cluster=(*CLUSTER, scale_amid_surge, scale_amid_surge), has_surges=True),
}

_WEIGHTS = (8, 1, 1, 1, 1, 1, 1, 2)


def draw_scenario(seed: int) -> str:
    """Draw the name of a seed's scenario."""
    *others, rare = SCENARIOS
    random = Random(f"{seed} scenario")
    drawn = random.choices(others, _WEIGHTS)[0]
    return rare if random.random() < 0.1 else drawn


def draw_cluster(random: Random, scenario: Scenario) -> tuple[Snapshot, Node | None]:
    """Draw at least six nodes and thirty pods; return the first snapshot, and the node that joins late."""
    nodes = random.choice([2, 3])
    blueprint = a_cluster("abc", nodes)
    names = [f"{zone}-{number}" for zone in "abc" for number in range(1, nodes + 1)]
    sizes = random.choice([(15, 15), (18, 12), (12, 12, 9), (15, 9, 9)])
    for namespace, pods in zip(("one", "two", "three"), sizes, strict=False):
        on = dict.fromkeys(names, 0)
        crowded = random.choice([names, names[: 2 * nodes], names])
        for number in range(pods):
            on[crowded[number % len(crowded)]] += 1
        spread = random.choice([{ZONE: 1}, {ZONE: 1, HOSTNAME: 1}, {ZONE: 2, HOSTNAME: 1}])
        if random.random() < 0.3:
            blueprint.stateful_set("web", namespace=namespace, on=on, spread=spread)
        else:
            blueprint.deployment("web", namespace=namespace, on=on, spread=spread)
        if random.random() < 0.4:
            blueprint.budget("web", namespace=namespace, max_unavailable=random.choice([1, 2]))
    if scenario.has_trio:
        return _with_trio(blueprint), None
    if not scenario.has_pair:
        return blueprint.snapshot(), None
    blueprint.node("pair-1", pool=PAIR)
    blueprint.node(LATE, pool=PAIR)
    blueprint.deployment("web", namespace=PAIR, on={"pair-1": random.choice([4, 6])}, spread={HOSTNAME: 1})
    return _soften(blueprint.snapshot())


def _soften(snapshot: Snapshot) -> tuple[Snapshot, Node]:
    """Restrict a workload to the pool, make its constraint soft, and take out the node that joins late."""

    def change(spec: PodSpec) -> PodSpec:
        spread = tuple(
            structs.replace(constraint, when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY)
            for constraint in spec.spread
        )
        return structs.replace(_bind(spec, PAIR), spread=spread)

    snapshot = _change_specs(snapshot, PAIR, change)
    late = next(node for node in snapshot.nodes if node.name == LATE)
    nodes = tuple(node for node in snapshot.nodes if node.name != LATE)
    return replace(snapshot, nodes=nodes), late


def _with_trio(blueprint: ClusterBuilder) -> Snapshot:
    """Add racks of one and two nodes that hold 1 and 4, 0 pods of a workload: its first step is of two evictions."""
    for name in ("x-1", "y-1", "y-2"):
        blueprint.node(name, rack=name[0], pool=TRIO)
    blueprint.deployment("web", namespace=TRIO, on={"x-1": 1, "y-1": 4}, spread={RACK: 2, HOSTNAME: 1})
    return _change_specs(blueprint.snapshot(), TRIO, lambda spec: _bind(spec, TRIO))


def _bind(spec: PodSpec, pool: str) -> PodSpec:
    return structs.replace(spec, node_affinity=NodeAffinity(selector=Labels({"pool": pool})))


def _change_specs(snapshot: Snapshot, namespace: str, change: Callable[[PodSpec], PodSpec]) -> Snapshot:
    """Change the pods of a namespace, and the templates of its workloads."""
    pods = tuple(
        structs.replace(pod, spec=change(pod.spec)) if pod.namespace == namespace else pod for pod in snapshot.pods
    )
    workloads = tuple(
        structs.replace(workload, template=structs.replace(workload.template, spec=change(workload.template.spec)))
        if workload.namespace == namespace and workload.template is not None
        else workload
        for workload in snapshot.workloads
    )
    return replace(snapshot, pods=pods, workloads=workloads)


def is_crowded(seed: int) -> bool:
    """Draw whether more is violated in a seed's world than can be stored."""
    return Random(f"{seed} crowd").random() < _CROWDED_SHARE


def add_violations(policy: Policy) -> Policy:
    """Add limits of one workload that no placement can satisfy, and for which nothing is evicted."""
    limits = tuple(Limit(name=f"one-pod-{number}", topology_key=ZONE, max_pods=1) for number in range(_CROWDED_LIMITS))
    crowd = PolicyGroup(name="crowd", selector=Selector(), namespaces=NamespaceFilter(include=("one",)), limits=limits)
    return policy.model_copy(update={"groups": (*policy.groups, crowd)})


def add_features(policy: Policy) -> Policy:
    """Let capacity be requested, also in a zone without nodes, and deletion costs be kept in order."""
    waits = {"timeout": timedelta(minutes=3), "settle": timedelta(seconds=10)}
    capacity = policy.capacity.model_copy(update={"mode": CapacityMode.REQUEST, **waits})
    topology = policy.topology.model_copy(update={"domains": {ZONE: ("a", "b", "c", LATE_ZONE)}})
    prevention = policy.prevention.model_copy(update={"scale_down": ScaleDownPrevention.STEER})
    return policy.model_copy(update={"capacity": capacity, "prevention": prevention, "topology": topology})


def add_surges(policy: Policy) -> Policy:
    """Let every repair add pods first, whatever the budgets of the cluster say."""
    seconds = {"settle": timedelta(seconds=3), "timeout": timedelta(minutes=2)}
    repair = RepairBy(method=RepairMethod.SURGE, namespaces=("*",), over_budget=("*",), max_surge=2, **seconds)
    return policy.model_copy(update={"repair": repair})


def draw_policy(random: Random, scenario: Scenario) -> Policy:
    """Draw budgets, interval and durations."""
    budgets = Budgets(
        max_unavailable=Amount(value=random.choice([2, 3] if scenario.has_trio else [1, 1, 2, 3])),
        per_workload=Amount(value=random.choice([2, 9] if scenario.has_trio else [1, 2, 9])),
        per_node=Amount(value=9),
    )
    return eager(
        mode=scenario.mode,
        slow_start=True,
        budgets=budgets,
        interval=timedelta(seconds=random.choice([30, 60, 60])),
        plan_ttl=timedelta(minutes=random.choice([2, 15])),
        spread=Spread(for_=timedelta(seconds=random.choice([0, 30])), act_on=tuple(WhenUnsatisfiable)),
    )
