"""The ledger of what may be missing: what is given back is as if it had never been taken."""

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.assessment.controllers import members
from rebalancer.model.moves import NO_MEMORY
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger, WorkloadLimitReached
from rebalancer.policy import NO_TEAM_POLICY, Amount, Budgets, TeamBudgets, TeamPolicies, TeamReading, merge
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.build import policy
from tests.planning.scenes import problems


def test_what_is_given_back_may_be_taken_again() -> None:
    """By others of the workload, and the cause names the pods that are to be evicted, not those given back."""
    snapshot = a_cluster("ab", 2, {"a-1": 4}, spread={ZONE: 1}).snapshot()
    (problem,) = problems(snapshot, policy())
    assert isinstance(problem, SingleClassProblem)
    (site,) = problem.layout.sites.values()
    first, second, third, *_ = ((victim.pod, victim.member) for victim in site.movable)
    rules = policy().model_copy(update={"budgets": budgets(2, 4)})
    ledger = BudgetLedger(View(snapshot), rules, NO_MEMORY)
    ledger.take(*first)
    ledger.take(*second)
    refusal = ledger.blocked(*third)
    assert refusal is not None
    assert refusal == _limit_reached(first[0].name, second[0].name)
    ledger.give_back(*second)
    assert ledger.blocked(*third) is None
    ledger.take(*third)
    refusal = ledger.blocked(*second)
    assert refusal is not None
    assert refusal == _limit_reached(first[0].name, third[0].name)


def budgets(max_unavailable: int, per_workload: int) -> Budgets:
    return Budgets(max_unavailable=Amount(value=max_unavailable), per_workload=Amount(value=per_workload))


AMOUNTS = st.builds(Amount, value=st.integers(0, 9)) | st.builds(
    Amount, value=st.integers(0, 100), percent=st.just(True)
)


@given(AMOUNTS, AMOUNTS, AMOUNTS | st.none(), AMOUNTS | st.none())
def test_a_team_never_gets_more_than_the_cluster_policy_allows(
    unavailable: Amount, moving: Amount, of_team: Amount | None, moving_of_team: Amount | None
) -> None:
    """The smallest of all budgets decides, in the namespace of the team alone."""
    blueprint = a_cluster("ab", 2)
    for namespace in ("shop", "pay"):
        blueprint.deployment("web", on={"a-1": 6}, spread={ZONE: 1}, namespace=namespace)
    snapshot = blueprint.snapshot()
    cluster = policy().model_copy(
        update={
            "budgets": Budgets(max_unavailable=unavailable, per_workload=moving),
            "team_policies": TeamPolicies(namespaces=("shop",)),
        }
    )
    team = NO_TEAM_POLICY.model_copy(
        update={"budgets": TeamBudgets(max_unavailable=of_team, per_workload=moving_of_team)}
    )
    merged = merge(cluster, {"shop": TeamReading(policy=team)}).policy
    before = min(unavailable.resolve(6), moving.resolve(6))
    after = min([before, *(amount.resolve(6) for amount in (of_team, moving_of_team) if amount is not None)])
    for member in members(View(snapshot)):
        ledger = BudgetLedger(View(snapshot), merged, NO_MEMORY)
        allowed = after if member.reference.namespace == "shop" else before
        assert ledger.most(member, member.pods[0]) == allowed
        for pod in member.pods[:allowed]:
            assert ledger.blocked(pod, member) is None
            ledger.take(pod, member)
        assert allowed >= len(member.pods) or ledger.blocked(member.pods[allowed], member) is not None


def test_the_budget_of_a_team_is_named_where_it_decides() -> None:
    """A person is not sent to the cluster policy for a budget of the team's."""
    snapshot = a_cluster("ab", 2, {"a-1": 6}, spread={ZONE: 1}).snapshot()
    cluster = policy().model_copy(update={"budgets": budgets(9, 9), "team_policies": TeamPolicies(namespaces=("*",))})
    team = NO_TEAM_POLICY.model_copy(update={"budgets": TeamBudgets(per_workload=Amount(value=1))})
    merged = merge(cluster, {"default": TeamReading(policy=team)}).policy
    (member,) = members(View(snapshot))
    ledger = BudgetLedger(View(snapshot), merged, NO_MEMORY)
    ledger.take(member.pods[0], member)
    refusal = ledger.blocked(member.pods[1], member)
    assert refusal is not None
    assert str(refusal) == (
        f"waiting for the replacement of {member.pods[0].name} to be Ready: at most 1 eviction of one workload may be "
        "in flight (budgets.perWorkload of the team policy)"
    )


def _limit_reached(*planned: str) -> WorkloadLimitReached:
    return WorkloadLimitReached(
        replicas=4, unavailable=0, moving=0, planned=planned, field="budgets.maxUnavailable", allowed=2
    )
