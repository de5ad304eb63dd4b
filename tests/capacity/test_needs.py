"""Which repairs lack nothing but capacity, and which placeholders would bring it."""

from dataclasses import replace
from datetime import timedelta

import pytest
import yaml
from msgspec import structs

from rebalancer.capacity.decision import decide_capacity
from rebalancer.capacity.needs import Need, find_candidates, find_need
from rebalancer.capacity.requests import Observation
from rebalancer.engine import evaluate
from rebalancer.model.affinity import NodeAffinity, Taint, TaintEffect, Toleration
from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.motion import DomainMotion
from rebalancer.model.moves import NO_MEMORY, CapacityAttempt, DomainName, Memory, Reference, ZoneSeen, make_token
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import PlanRefusal
from rebalancer.policy import Capacity, CapacityMode, Policy, PolicyGroup, Topology
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import HOSTNAME, START, ZONE
from tests.build import a_cluster, with_cpu
from tests.controller.simulated import eager

OBSERVE = Capacity(mode=CapacityMode.OBSERVE)
DECLARED = Topology(domains={ZONE: ("a", "b", "c")})
WEB = Reference("default", "Deployment", "web")
IN_C = DomainName(ZONE, "c")


def pool(*zones: str, **fields: object) -> NodePool:
    row = SelectorRequirement(ZONE, Operator.IN, zones)
    return structs.replace(NodePool(name="general", requirements=(row,)), **fields)


def two_zones(spread: dict[str, int], *, nodes: int = 2, per_node: int = 3, zones: str = "ab") -> Snapshot:
    on = {f"{zone}-{number}": per_node for zone in "ab" for number in range(1, nodes + 1)}
    return a_cluster(zones, nodes, on, spread=spread, cpu=800).snapshot()


def needs(snapshot: Snapshot, policy: Policy, memory: Memory = NO_MEMORY) -> list[Need]:
    evaluation = evaluate(snapshot, policy, memory=memory)
    view, assessment, made = evaluation.view, evaluation.assessment, evaluation.plan
    candidates = find_candidates(view, assessment, made, policy, memory)
    return [need for candidate in candidates if (need := find_need(candidate, view, policy, memory).need) is not None]


def refusals(snapshot: Snapshot, policy: Policy, memory: Memory = NO_MEMORY) -> tuple[PlanRefusal, ...]:
    """Return why repairs wait for capacity, as a command that only reads says it."""
    evaluation = evaluate(snapshot, policy, memory=memory)
    seen = Observation(now=snapshot.taken_at, plan=evaluation.plan, may_begin=False)
    return decide_capacity(evaluation, memory, seen).refusals


def with_pods(snapshot: Snapshot, **spec: object) -> Snapshot:
    def change(pod: Pod) -> Pod:
        return structs.replace(pod, spec=structs.replace(pod.spec, **spec), requests=pod.requests)

    return replace(snapshot, pods=tuple(change(pod) for pod in snapshot.pods))


@pytest.mark.parametrize(
    ("nodes", "per_node", "spread", "apart"), [(2, 3, {ZONE: 1}, 0), (3, 2, {ZONE: 1, HOSTNAME: 1}, 2)]
)
def test_a_zone_without_nodes_needs_as_many_placeholders_as_pods_will_go_there(
    nodes: int, per_node: int, spread: dict[str, int], apart: int
) -> None:
    """Four of twelve pods, each with what the pod requests; two share a node where host names are counted."""
    (need,) = needs(two_zones(spread, nodes=nodes, per_node=per_node), eager(topology=DECLARED))
    assert (need.evictions, len(need.placeholders)) == (4, 4)
    assert need.requests == Resources(cpu=3_200, memory=3_200_000_000)
    (placeholder,) = {structs.replace(placeholder, name="") for placeholder in need.placeholders}
    assert placeholder.node_affinity.selector == {ZONE: "c"}
    assert (placeholder.per_node, placeholder.nodes) == (apart, 2 if apart else 0)


def test_placeholders_may_run_where_the_pods_may() -> None:
    """Node selector, required affinity, tolerations and requests as admitted are the pods' own."""
    dedicated = Toleration(key="dedicated", operator="Exists")
    affinity = NodeAffinity(selector=Labels({"disk": "ssd"}))
    snapshot = with_pods(two_zones({ZONE: 1}), tolerations=(dedicated,), node_affinity=affinity)
    labelled = tuple(structs.replace(node, labels=Labels({**node.labels, "disk": "ssd"})) for node in snapshot.nodes)
    tainted = pool("a", "b", "c", labels=Labels({"disk": "ssd"}), taints=(Taint("dedicated", TaintEffect.NO_SCHEDULE),))
    (need,) = needs(replace(snapshot, nodes=labelled, node_pools=(tainted,)), eager())
    assert {placeholder.tolerations for placeholder in need.placeholders} == {(dedicated,)}
    assert {placeholder.node_affinity.selector for placeholder in need.placeholders} == {
        Labels({"disk": "ssd", ZONE: "c"})
    }


def test_two_zones_without_nodes_are_one_need() -> None:
    """Asked for one after the other they would cost an eviction more."""
    (need,) = needs(two_zones({ZONE: 1}), eager(topology=Topology(domains={ZONE: ("a", "b", "c", "d")})))
    assert need.evictions == len(need.placeholders) == 6
    assert [str(name) for name in need.candidate.names] == [f"{ZONE}=c", f"{ZONE}=d"]


def test_a_zone_whose_nodes_are_full_needs_capacity() -> None:
    full = with_cpu(two_zones({ZONE: 1}, zones="abc"), 100, "c-1", "c-2")
    (need,) = needs(full, eager(topology=DECLARED))
    assert need.evictions == len(need.placeholders) == 4
    assert not needs(full, eager())  # nobody says that nodes can be had there


@pytest.mark.parametrize(
    ("topology", "pools"),
    [
        (Topology(domains=DECLARED.domains, ignore={ZONE: ("c",)}), ()),
        (DECLARED, (pool("a", "b"),)),
        (Topology(), ()),
    ],
)
def test_ignored_and_unnamed_zones_are_not_requested(topology: Topology, pools: tuple[NodePool, ...]) -> None:
    """Nor is one that the NodePools no longer name, as in a zonal shift, or that is only remembered."""
    snapshot = replace(two_zones({ZONE: 1}), node_pools=pools)
    remembered = Memory(zones=(ZoneSeen(ZONE, "c", snapshot.taken_at),))
    assert not needs(snapshot, eager(topology=topology), remembered)


def test_a_repair_that_lacks_more_than_capacity_is_none() -> None:
    """A balanced workload, and one of which no pod may be evicted."""
    balanced = two_zones({ZONE: 1}, nodes=1, per_node=1)
    assert not needs(balanced, eager(topology=DECLARED))
    excluded = two_zones({ZONE: 1})
    pods = tuple(
        structs.replace(pod, annotations=Labels({"karpenter.sh/do-not-disrupt": "true"})) for pod in excluded.pods
    )
    assert not needs(replace(excluded, pods=pods), eager(topology=DECLARED))


def test_the_key_of_a_new_node_that_nobody_knows_prevents_a_request() -> None:
    """A constraint over racks: which rack a new node in zone c would be in is left open."""
    snapshot = two_zones({ZONE: 1, "rack": 2}, nodes=4, per_node=2)
    racks = tuple(
        structs.replace(node, labels=Labels({**node.labels, "rack": f"{node.labels[ZONE]}{number % 2}"}))
        for number, node in enumerate(snapshot.nodes)
    )
    assert not needs(replace(snapshot, nodes=racks), eager(topology=DECLARED))


def test_a_command_that_reads_says_what_a_repair_needs_and_why_it_is_not_requested() -> None:
    snapshot, policy = two_zones({ZONE: 1}), eager(topology=DECLARED, capacity=OBSERVE)
    (refusal,) = refusals(snapshot, policy)
    assert refusal.reason is Reason.AWAITING_CAPACITY
    assert str(refusal.refusal) == (
        "4 evictions would repair it with capacity for 4 pods in zone c; needs about 3.2 cores and 3 GiB there for "
        "some minutes; not requested: capacity.mode is Observe"
    )
    assert not refusals(snapshot, eager(topology=DECLARED))


def test_a_command_requests_nothing_where_the_controller_would() -> None:
    """It names the need, and no reason why it is not requested."""
    snapshot, policy = two_zones({ZONE: 1}), eager(topology=DECLARED, capacity=Capacity(mode=CapacityMode.REQUEST))
    evaluation = evaluate(snapshot, policy)
    seen = Observation(now=snapshot.taken_at, plan=evaluation.plan, may_begin=False)
    decision = decide_capacity(evaluation, NO_MEMORY, seen, lasting=timedelta(0))
    assert not decision.begun
    assert not decision.created
    (refusal,) = decision.refusals
    assert str(refusal.refusal) == (
        "4 evictions would repair it with capacity for 4 pods in zone c; needs about 3.2 cores and 3 GiB there for "
        "some minutes"
    )
    assert decide_capacity(evaluation, NO_MEMORY, structs.replace(seen, may_begin=True), lasting=timedelta(0)).begun


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (
            Memory(zones=(ZoneSeen(ZONE, "c", START - timedelta(minutes=1)),)),
            "zone c lost its nodes 1m ago; capacity is requested there in 9m at the earliest",
        ),
        (Memory(zones=(ZoneSeen(ZONE, "c", START - timedelta(minutes=11)),)), ""),
        (
            Memory(
                capacity_attempts=(
                    CapacityAttempt(
                        token=make_token(str(WEB)), domain=IN_C, times=1, last=START - timedelta(minutes=4)
                    ),
                )
            ),
            "capacity requested in zone c was used and is gone again; requested again in 6m at the earliest",
        ),
    ],
)
def test_a_domain_that_has_just_lost_a_node_is_left_alone(memory: Memory, text: str) -> None:
    """An autoscaler takes nodes away again; to request them at once would go on for ever."""
    snapshot, policy = two_zones({ZONE: 1}), eager(topology=DECLARED, capacity=OBSERVE)
    (refusal,) = refusals(snapshot, policy, memory)
    assert refusal.reason is (Reason.NO_CAPACITY if text else Reason.AWAITING_CAPACITY)
    assert text in str(refusal.refusal)


def test_no_node_is_requested_where_nodes_are_lost() -> None:
    """In a zonal shift a full zone would get new nodes."""
    full = with_cpu(two_zones({ZONE: 1}, zones="abc"), 100, "c-1", "c-2")
    at = START - timedelta(minutes=4)
    motion = DomainMotion(key=ZONE, value="c", since=at, until=at, moved=at, lasting=False, had=2, lost=2)
    policy = eager(topology=DECLARED, capacity=OBSERVE, nodes=Nodes(settle=timedelta(minutes=5)))
    for value, reason in (("c", Reason.NO_CAPACITY), ("b", Reason.AWAITING_CAPACITY)):
        memory = Memory(domains_in_motion=(structs.replace(motion, value=value),))
        (refusal,) = refusals(full, policy, memory)
        assert refusal.reason is reason
        assert ("Nothing is moved there" in str(refusal.refusal)) == (value == "c")


@pytest.mark.parametrize(("share", "expected"), [("<=2/5", 4), ("<=1/2", 0), ("<=1/4", 0)])
def test_a_limit_that_only_a_further_zone_can_satisfy_needs_capacity_there(share: str, expected: int) -> None:
    """Two zones cannot hold less than a half each; a limit that three zones break as well asks for nothing."""
    limit = f"{{name: zone, topologyKey: {ZONE}, maxShare: '{share}', action: Evict}}"
    group = yaml.safe_load(f"{{name: web, selector: {{}}, zoneKey: {ZONE}, limits: [{limit}]}}")
    policy = eager(topology=DECLARED, groups=(PolicyGroup.model_validate(group),))
    rows = needs(two_zones({ZONE: 12}), policy)
    assert sum(len(need.placeholders) for need in rows) == expected
    assert sum(need.evictions for need in rows) == expected
