"""Every constraint of every living workload is evaluated, and nothing else."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.documents.plan import plan_document
from rebalancer.documents.plan_notes import PlanNotes
from rebalancer.engine import evaluate
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.pods import PodPhase
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.policy.sections import Eligibility, EligibleNamespaces
from rebalancer.reporting.text.plan import plan_text
from rebalancer.reporting.text.report import report_text
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster
from tests.controller.simulated import eager
from tests.reports import full_report


def shop() -> ClusterBuilder:
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("web", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1, HOSTNAME: 3}, namespace="shop")
    blueprint.stateful_set("db", on={"a-1": 1, "b-1": 1}, spread={ZONE: 1}, namespace="shop")
    blueprint.deployment("plain", on={"a-1": 2}, namespace="shop")
    return blueprint


def test_groups() -> None:
    """A Deployment is known by its own name, defaults are soft, and a workload without constraints has none."""
    groups = {
        group.spread.workloads[0].name: group for group in assess(View(shop().snapshot()), eager(), NO_MEMORY).groups
    }
    assert {evaluated.constraint.key: evaluated.state for evaluated in groups["web"].hard} == {
        ZONE: State.VIOLATED,
        HOSTNAME: State.SATISFIED,
    }
    assert groups["web"].spread.workloads == (Reference("shop", "Deployment", "web"),)
    assert groups["web"].violated
    assert not groups["db"].violated
    assert not groups["plain"].hard
    assert {evaluated.constraint.when_unsatisfiable for evaluated in groups["plain"].soft} == {
        WhenUnsatisfiable.SCHEDULE_ANYWAY
    }


def test_without_defaults() -> None:
    """Where the scheduler has no default constraints, a workload without its own is not evaluated at all."""
    view = View(shop().snapshot(), Profile(default_constraints=()))
    assert [group.spread.workloads[0].name for group in assess(view, eager(), NO_MEMORY).groups] == ["web", "db"]


def test_the_dead_do_not_count() -> None:
    """Terminating and finished pods are nobody's members."""
    snapshot = shop().snapshot()
    changed: dict[str, dict[str, Any]] = {"web": {"phase": PodPhase.SUCCEEDED}, "db": {"deleted": snapshot.taken_at}}
    dead = tuple(
        structs.replace(pod, **next(fields for name, fields in changed.items() if pod.name.startswith(name)))
        for pod in snapshot.pods
        if not pod.name.startswith("plain")
    )
    assert assess(View(replace(snapshot, pods=dead)), eager(), NO_MEMORY).groups == ()


def test_a_report() -> None:
    """The violated come first, with state and reason; only the chosen are listed."""
    snapshot = shop().snapshot()
    evaluation = evaluate(snapshot, eager())
    view, assessment, made = evaluation.view, evaluation.assessment, evaluation.plan
    rows = full_report(view, assessment, made, eager()).constraints
    assert [row.state for row in rows] == ["Violated", *["Satisfied"] * (len(rows) - 1)]
    assert (rows[0].counts, rows[0].skew, rows[0].origin) == ({"a": 3, "b": 1}, 2, "own")
    chosen = full_report(view, assessment, made, eager(), lambda workload: workload.name == "db").constraints
    assert {workload.name for row in chosen for workload in row.workloads} == {"db"}
    assert (
        report_text(full_report(view, assessment, made, eager(), lambda _: False))
        .splitlines()[2]
        .startswith("No workload")
    )


def test_a_plan_counts_the_workloads_that_satisfy_everything() -> None:
    snapshot = shop().snapshot()
    made = evaluate(snapshot, eager()).plan
    text = plan_text(plan_document(made, snapshot, beside=PlanNotes(satisfied=2), acting="mode Observe"))
    assert "\n2 other workloads satisfy all constraints and limits.\n" in text


@pytest.mark.parametrize(("others", "movable"), [(10, False), (5, True)])
def test_only_workloads_of_the_scope_are_assessed_and_all_pods_use_capacity(others: int, movable: bool) -> None:
    """What is outside is in no group and no limit; what is inside is planned as if all were known."""
    blueprint = ClusterBuilder()
    for zone in "abc":
        blueprint.node(f"{zone}-1", zone=zone, cpu=1000)
    blueprint.deployment("web", on={"a-1": 3, "b-1": 3}, spread={ZONE: 1}, namespace="shop")
    blueprint.deployment("web", on={"c-1": others}, spread={ZONE: 1}, namespace="other")
    whole = blueprint.snapshot()
    inside = tuple(workload for workload in whole.workloads if workload.namespace == "shop")
    part = replace(whole, workloads=inside, scope=frozenset({"shop"}))
    only_shop = EligibleNamespaces(include=("shop",))
    policy = eager(eligibility=Eligibility(min_age=timedelta(0), namespaces=only_shop))
    scoped, full = evaluate(part, policy), evaluate(whole, policy)
    seen, all_seen = scoped.assessment, full.assessment
    assert {group.spread.namespace for group in all_seen.groups} == {"shop", "other"}
    (group,) = seen.groups
    assert group.spread.namespace == "shop"
    (same,) = [other for other in all_seen.groups if other.spread.namespace == "shop"]
    assert [one.counts.by_node for one in group.hard] == [one.counts.by_node for one in same.hard]
    members = [one.member for limit in seen.limits for one in limit.parts]
    assert {member.reference.namespace for member in members} == {"shop"}
    evictions = [eviction.pod.name for eviction in scoped.plan.fates.going]
    assert bool(evictions) is movable, "c-1 is full, or not"
    assert evictions == [eviction.pod.name for eviction in full.plan.fates.going]
