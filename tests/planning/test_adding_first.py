"""Which repairs add pods first: where the policy says so, and the workload, its budgets and its quotas let it be."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.cluster import Autoscaler
from rebalancer.model.creation import ResourceQuota
from rebalancer.model.deletion_costs import DELETION_COST, SURGE_COST
from rebalancer.model.labels import Labels
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.adding_first import (
    AddedFirst,
    NoSafeAddition,
    NotAddedTo,
    SurgeUnderWay,
    add_first,
    hold_surging,
)
from rebalancer.planning.plan import Plan
from rebalancer.planning.problem.single_class import CapacityReserved, SingleClassProblem
from rebalancer.planning.search.report import Method
from rebalancer.planning.single_class.outlook import AdditionOutlook
from rebalancer.policy import Nodes, Policy, RepairBy, RepairMethod
from rebalancer.policy.selectors import Selector
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, a_policy, with_nodes
from tests.planning.anti_affinity.test_preferred import acting, own
from tests.planning.build import first_problem
from tests.planning.clusters import planned, policy, sharing
from tests.planning.test_by_preemption import crowded
from tests.planning.test_by_preemption import rules as preempting

UNEVEN = {"a-1": 3, "a-2": 2, "b-1": 1}
SPREAD = {ZONE: 1, HOSTNAME: 2}


def cluster(budget: int | None = None, **fields: Any) -> ClusterBuilder:
    builder = a_cluster("abc", 2)
    builder.deployment("web", on=UNEVEN, spread=SPREAD, **fields)
    if budget is not None:
        builder.budget("web", max_unavailable=budget)
    return builder


def surge(snapshot: Snapshot, method: RepairMethod = RepairMethod.SURGE, **rules: Any) -> Plan:
    repair = RepairBy(method=method, **{"namespaces": ("*",), "max_surge": 2, **rules})
    return planned(snapshot, policy(repair=repair))


def added(plan: Plan) -> list[int]:
    """Return how many pods are added before each pod that goes."""
    return [eviction.repair.added for eviction in plan.fates.going]


def test_the_plan_says_what_is_added_what_goes_and_where_the_new_ones_land() -> None:
    """Two at once of three; they land while the others are still there, so that the full zone takes none."""
    plan = surge(cluster().snapshot())
    (component,) = plan.components
    assert (component.state, component.method, component.evictions, component.lower_bound) == (
        State.VIOLATED,
        Method.ADDITION,
        3,
        3,
    )
    assert added(plan) == [2, 2]
    assert {target.topology_key: target.values for target in plan.fates.going[0].targets}[ZONE] == ("b", "c")
    assert component.after is not None
    assert component.after[ZONE] == {"a": 3, "b": 2, "c": 1}
    assert sum(component.after[HOSTNAME].values()) == 6


def test_nothing_of_it_is_ever_evicted() -> None:
    plan = surge(cluster().snapshot())
    held = add_first(plan.fates)
    assert not held.going
    assert {type(one.refusal) for one in held.kept} == {AddedFirst}
    assert add_first(planned(cluster().snapshot(), policy()).fates).going


def test_where_pods_are_to_be_added_first_nothing_is_evicted_for_any_other_reason() -> None:
    """To make smaller what no placement satisfies, for a preferred term, or by preemption."""
    shrunk = a_cluster("ab", 1)
    shrunk.deployment("web", on={"a-1": 5, "b-1": 1}, spread={ZONE: 3})
    limits = """groups:
- name: web
  selector: {}
  limits: [{name: third, topologyKey: topology.kubernetes.io/zone, maxShare: <1/3}]
"""
    preferring, crowded_out = own([3, 0]).snapshot(), crowded().snapshot()
    for snapshot, evicting in (
        (shrunk.snapshot(), a_policy(limits)),
        (preferring, acting()),
        (crowded_out, preempting()),
    ):
        repair = RepairBy(method=RepairMethod.SURGE, namespaces=("*",), max_surge=2)
        assert added(planned(snapshot, evicting)), "evictions help"
        surging = planned(snapshot, evicting.model_copy(update={"repair": repair}))
        assert 0 not in added(surging)
        blocked = repair.model_copy(update={"method": RepairMethod.SURGE_WHERE_BLOCKED})
        assert added(planned(snapshot, evicting.model_copy(update={"repair": blocked})))


def annotated(snapshot: Snapshot) -> Snapshot:
    pods = list(snapshot.pods)
    pods[0] = structs.replace(pods[0], annotations=Labels({DELETION_COST: "5"}))
    return replace(snapshot, pods=tuple(pods))


def unready(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, pods=(structs.replace(snapshot.pods[0], ready=False), *snapshot.pods[1:]))


def terminating(snapshot: Snapshot) -> Snapshot:
    extra = structs.replace(snapshot.pods[0], uid="old", name="old", deleted=snapshot.taken_at)
    return replace(snapshot, pods=(*snapshot.pods, extra))


def autoscaled(snapshot: Snapshot) -> Snapshot:
    scaler = Autoscaler(namespace="default", name="web", target_kind="Deployment", target_name="web")
    return replace(snapshot, autoscalers=(scaler,))


def full(snapshot: Snapshot) -> Snapshot:
    quota = ResourceQuota(namespace="default", name="pods", hard=(("pods", 6),), used=(("pods", 6),))
    return replace(snapshot, quotas=(quota,))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (annotated, "have set deletion costs of its pods"),
        (unready, "5 of 6 pods are Ready"),
        (terminating, "others are being created or deleted"),
        (autoscaled, "an autoscaler sets its number of replicas"),
        (full, "ResourceQuota default/pods has no pods left for another pod"),
    ],
)
def test_a_workload_to_which_nothing_can_be_added_is_not_evicted_instead(
    change: Callable[[Snapshot], Snapshot], why: str
) -> None:
    """Whoever asks for Surge asks that no pod is missing. With SurgeWhereBlocked evictions repair it."""
    snapshot = change(cluster().snapshot())
    plan = surge(snapshot)
    (component,) = plan.components
    assert not plan.fates.rows
    assert isinstance(component.refusal, NotAddedTo)
    assert (component.state, component.reason, why in str(component.refusal)) == (
        State.UNFIXABLE,
        Reason.SURGE_REFUSED,
        True,
    )
    where_blocked = surge(snapshot, RepairMethod.SURGE_WHERE_BLOCKED)
    assert set(added(where_blocked)) <= {0}


def test_a_stateful_set_and_pods_of_two_owners_are_refused() -> None:
    builder = a_cluster("abc", 2)
    builder.stateful_set("db", on=UNEVEN, spread=SPREAD)
    (component,) = surge(builder.snapshot()).components
    assert "chooses itself which of its pods goes" in str(component.refusal)
    builder = a_cluster("abc", 2)
    for name, on in (("one", {"a-1": 3}), ("two", {"a-2": 3})):
        builder.deployment(name, on=on, spread={ZONE: 1})
    (component,) = surge(sharing(builder.snapshot())).components
    assert "2 owners of pods are repaired together" in str(component.refusal)


@pytest.mark.parametrize(("most", "used", "number"), [(3, 4, 2), (1, 0, 1), (3, 0, 3)])
def test_no_more_pods_are_added_than_the_quota_has_room_for(most: int, used: int, number: int) -> None:
    quota = ResourceQuota(namespace="default", name="pods", hard=(("pods", 6),), used=(("pods", used),))
    plan = surge(replace(cluster().snapshot(), quotas=(quota,)), max_surge=most)
    assert added(plan) == [number] * number


@pytest.mark.parametrize(("budget", "over", "number"), [(0, (), 0), (0, ("default",), 2), (1, (), 1), (2, (), 2)])
def test_what_goes_fits_the_budget_unless_the_policy_overrides_it(
    budget: int, over: tuple[str, ...], number: int
) -> None:
    plan = surge(cluster(budget).snapshot(), over_budget=over)
    assert added(plan) == [number] * number
    if not number:
        assert "PodDisruptionBudget default/web would let none of 7 pods go" in str(plan.components[0].refusal)


def test_where_blocked_evictions_come_first() -> None:
    """Only what a budget never allows, or what no eviction repairs for certain, is repaired by adding first."""
    blocked, rules = RepairMethod.SURGE_WHERE_BLOCKED, {"over_budget": ("*",)}
    assert added(surge(cluster(1).snapshot(), blocked, **rules)) == [0]
    assert added(surge(cluster(0).snapshot(), blocked, **rules)) == [2, 2]
    misled = ClusterBuilder()
    misled.zones("a", 2)
    misled.zones("b", 1)
    misled.deployment("web", on={"a-1": 3, "a-2": 1, "b-1": 4}, spread={ZONE: 1, HOSTNAME: 2})
    assert planned(misled.snapshot(), policy()).components[0].reason is Reason.NOT_FORCED
    assert added(surge(misled.snapshot(), blocked)) == [1]


@pytest.mark.parametrize("method", list(RepairMethod))
def test_while_a_surge_is_under_way_nothing_else_begins(method: RepairMethod) -> None:
    snapshot = cluster().snapshot()
    marked = structs.replace(snapshot.pods[0], own_deletion_cost=SURGE_COST)
    plan = surge(replace(snapshot, pods=(marked, *snapshot.pods[1:])), method)
    assert not plan.fates.rows
    assert plan.components[0].reason is Reason.SURGING


def test_where_no_addition_is_safe_it_is_said() -> None:
    """Zones 2 | 3,1: an added pod goes to the emptiest node, and whichever goes then, as many are left to move."""
    builder = ClusterBuilder()
    builder.zones("a", 1)
    builder.zones("b", 2)
    builder.deployment("web", on={"a-1": 2, "b-1": 3, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1})
    (component,) = surge(builder.snapshot()).components
    assert isinstance(component.refusal, NoSafeAddition)
    assert added(surge(builder.snapshot(), RepairMethod.SURGE_WHERE_BLOCKED)) == [0]


@pytest.mark.parametrize(
    "rules",
    [
        {"namespaces": ("other",)},
        {"selector": Selector(match_labels={"app": "other"})},
        {"method": RepairMethod.EVICT, "namespaces": ()},
    ],
)
def test_elsewhere_pods_are_evicted(rules: dict[str, Any]) -> None:
    repair = RepairBy(**{"method": RepairMethod.SURGE, "namespaces": ("*",), **rules})
    assert added(planned(cluster().snapshot(), policy(repair=repair))) == [0, 0, 0]


def test_what_goes_waits_while_pods_are_added_already() -> None:
    """Of the owners that have a surge, whatever else they would wait for."""
    plan = surge(cluster().snapshot())
    (owner,) = {eviction.owner_uid for eviction in plan.fates.going}
    for fates in (plan.fates, add_first(plan.fates), planned(cluster().snapshot(), policy()).fates):
        held = hold_surging(fates, {owner})
        assert {type(one.refusal) for one in held.kept} == {SurgeUnderWay}
        assert not held.going
        assert hold_surging(fates, set()) == fates
        assert hold_surging(fates, {"another"}) == fates


def test_what_no_budget_allows_stays_blocked_where_the_policy_does_not_override_it() -> None:
    plan = surge(cluster(0).snapshot(), RepairMethod.SURGE_WHERE_BLOCKED)
    assert plan.components[0].reason is Reason.STEP_EXCEEDS_BUDGET


def test_pods_whose_rules_do_not_nest_are_refused() -> None:
    """Racks that lie across zones."""
    snapshot = a_cluster("ab", 2, UNEVEN, spread={ZONE: 1, "rack": 1}).snapshot()
    racks = {node.name: {"labels": Labels({**node.labels, "rack": node.name[-1]})} for node in snapshot.nodes}
    (component,) = surge(with_nodes(snapshot, racks)).components
    assert "do not nest" in str(component.refusal)


def test_a_quota_on_what_the_pods_do_not_use_bounds_nothing() -> None:
    quota = ResourceQuota(namespace="default", name="cpu", hard=(("requests.cpu", 0),), used=(("requests.cpu", 0),))
    assert added(surge(replace(cluster(cpu=0).snapshot(), quotas=(quota,)))) == [2, 2]


def test_added_pods_wait_until_the_nodes_that_may_take_them_have_settled() -> None:
    """No budget is asked meanwhile: none is spent."""
    snapshot = cluster().snapshot()
    fresh = {node.name: {"ready_since": snapshot.taken_at} for node in snapshot.nodes if node.name.startswith("c")}
    repair = RepairBy(method=RepairMethod.SURGE, namespaces=("*",), max_surge=2)
    rules = policy(repair=repair, nodes=Nodes(settle=timedelta(minutes=1)))
    plan = planned(with_nodes(snapshot, fresh), rules)
    assert {one.reason for one in plan.fates.waiting} == {Reason.NODE_SETTLING}
    elsewhere = {node.name: {"ready_since": snapshot.taken_at} for node in snapshot.nodes if node.name == "a-1"}
    assert planned(with_nodes(snapshot, elsewhere), rules).fates.going


def limited(share: str) -> Policy:
    limit = f"{{name: zone, topologyKey: {ZONE}, maxShare: '{share}', action: Evict}}"
    groups = a_policy(f"groups:\n- {{name: all, selector: {{}}, limits: [{limit}]}}\n").groups
    repair = RepairBy(method=RepairMethod.SURGE, namespaces=("*",), max_surge=2)
    return policy(repair=repair, groups=groups)


def test_a_limit_is_repaired_by_adding_first_where_a_constraint_forces_the_scheduler() -> None:
    """The counts of the limit's own key are shown where a constraint is over it."""
    builder = a_cluster("abc", 2)
    builder.deployment("web", on=UNEVEN, spread={HOSTNAME: 1})
    plan = planned(builder.snapshot(), limited("<=1/2"))
    after = plan.components[0].after
    assert not plan.fates.going or (after is not None and ZONE not in after)
    builder = a_cluster("abc", 2)
    builder.deployment("web", on=UNEVEN)
    (component,) = planned(builder.snapshot(), limited("<=1/2")).components
    assert isinstance(component.refusal, NoSafeAddition)


def test_of_a_limit_alone_nobody_knows_what_it_leads_to() -> None:
    """No constraint says where the scheduler places an added pod."""
    builder = a_cluster("abc", 2)
    builder.deployment("web", on=UNEVEN)
    _, problem = first_problem(builder.snapshot(), limited("<=1/2"))
    assert isinstance(problem, SingleClassProblem)
    assert AdditionOutlook(problem.layout, {"a-1": 1}, 1, 100).counts() is None


def test_while_other_pods_may_take_the_places_nothing_is_added() -> None:
    _, problem = first_problem(cluster().snapshot())
    assert isinstance(problem, SingleClassProblem)
    assert problem.addition_step(1).step is not None
    search = structs.replace(problem, lost=1).addition_step(1)
    assert isinstance(search.refusal, CapacityReserved)
