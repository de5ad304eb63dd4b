"""A part of a plan."""

from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.planning.plan import narrow_plan
from rebalancer.policy import Amount, Budgets
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.clusters import planned, pods, policy


def test_a_part_of_a_plan_is_about_the_named_workloads() -> None:
    """What goes, what waits, what is refused and what was found out of them, and nothing of others."""
    blueprint = a_cluster("ab", 2)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 6, "b-1": 1}, spread={ZONE: 1})
    excluded = {"rebalancer.dev/exclude": "true"}
    last = {pod.labels["app"]: pod.uid for pod in blueprint.snapshot().pods if pod.node == "a-1"}
    snapshot = pods(
        blueprint.snapshot(),
        lambda pod: structs.replace(pod, annotations=Labels(excluded)) if pod.uid in last.values() else pod,
    )
    whole = planned(snapshot, policy(budgets=Budgets(max_unavailable=Amount(value=1))))
    both = sorted({eviction.workload for eviction in whole.fates.going})
    assert [reference.name for reference in both] == ["one", "two"]
    parts = [narrow_plan(whole, frozenset({reference})) for reference in both]
    for workload, part in zip(both, parts, strict=True):
        assert {eviction.workload for eviction in part.fates.going} == {workload}
        assert {waiting.eviction.workload for waiting in part.fates.kept} == {workload}
        assert {refused.workload for refused in part.refusals} == {workload}
        assert {workload for group in part.components for workload in group.workloads} == {workload}
    counts = [(len(plan.fates.rows), len(plan.refusals), len(plan.components)) for plan in (*parts, whole)]
    assert [sum(rows) for rows in zip(*counts[:-1], strict=True)] == list(counts[-1])
    assert narrow_plan(whole, None) is whole
    assert narrow_plan(whole, frozenset(both)) == whole
    assert narrow_plan(whole, frozenset()).fates.going == ()
