"""The ledger of what may be missing: what is given back is as if it had never been taken."""

from rebalancer.adapters.simulator import ZONE, ClusterBuilder
from rebalancer.model.moves import NO_MEMORY
from rebalancer.planning.formulation import SingleClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.policy import Amount, Budgets
from tests.planning.multi_class.test_classes import policy
from tests.planning.scenes import problems


def test_what_is_given_back_may_be_taken_again() -> None:
    """By others of the workload, and the message counts what is to go, not what was given back."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 4}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    (problem,) = problems(snapshot, policy())
    assert isinstance(problem, SingleClassProblem)
    (site,) = problem.layout.sites.values()
    first, second, third, *_ = ((each.pod, each.member) for each in site.movable)
    ledger = BudgetLedger(snapshot, Budgets(max_unavailable=Amount(value=2), per_workload=Amount(value=4)), NO_MEMORY)
    ledger.take(*first)
    ledger.take(*second)
    refusal = ledger.blocked(*third)
    assert refusal is not None
    assert refusal.message.startswith("0 of 4 are unavailable, 0 moving and 2 to go now")
    ledger.give_back(*second)
    assert ledger.blocked(*third) is None
    ledger.take(*third)
    assert ledger.blocked(*second) == refusal
