"""The ledger of what may be missing: what is given back is as if it had never been taken."""

from rebalancer.adapters.simulator import ZONE, ClusterBuilder
from rebalancer.model.moves import NO_MEMORY
from rebalancer.planning.causes import WorkloadLimitReached
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.policy import Amount, Budgets
from tests.planning.build import policy
from tests.planning.scenes import problems


def test_what_is_given_back_may_be_taken_again() -> None:
    """By others of the workload, and the cause names the pods that are to be evicted, not those given back."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 4}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    (problem,) = problems(snapshot, policy())
    assert isinstance(problem, SingleClassProblem)
    (site,) = problem.layout.sites.values()
    first, second, third, *_ = ((victim.pod, victim.member) for victim in site.movable)
    ledger = BudgetLedger(snapshot, Budgets(max_unavailable=Amount(value=2), per_workload=Amount(value=4)), NO_MEMORY)
    ledger.take(*first)
    ledger.take(*second)
    refusal = ledger.blocked(*third)
    assert refusal is not None
    assert refusal.cause == _limit_reached(first[0].name, second[0].name)
    ledger.give_back(*second)
    assert ledger.blocked(*third) is None
    ledger.take(*third)
    refusal = ledger.blocked(*second)
    assert refusal is not None
    assert refusal.cause == _limit_reached(first[0].name, third[0].name)


def _limit_reached(*planned: str) -> WorkloadLimitReached:
    return WorkloadLimitReached(
        replicas=4, unavailable=0, moving=0, planned=planned, field="budgets.maxUnavailable", allowed=2
    )
