"""Workloads whose constraints take too much to be evaluated have a refusal, and others are planned as ever."""

from dataclasses import replace

from rebalancer.assessment.assess import assess
from rebalancer.assessment.constraint_costs import ConstraintsTooCostly, TooCostly
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.planning.planner import plan
from rebalancer.scheduling.view import View
from tests.build import a_cluster
from tests.planning.build import policy


def test_each_workload_that_is_left_out_is_refused_by_name() -> None:
    """Of those that are asked for only those."""
    view, rules = View(a_cluster("ab", 1).snapshot()), policy()
    heavy, other = (Reference("shop", "Deployment", name) for name in ("heavy", "other"))
    refusal = ConstraintsTooCostly("shop", 3_000_000, 2_000_000)
    assessment = replace(assess(view, rules, NO_MEMORY), too_costly=(TooCostly(refusal, (heavy, other)),))
    made = plan(view, assessment, rules, NO_MEMORY)
    assert [(one.workload, one.refusal) for one in made.refusals] == [(heavy, refusal), (other, refusal)]
    narrowed = plan(view, assessment, rules, NO_MEMORY, only=[other])
    assert [one.workload for one in narrowed.refusals] == [other]
