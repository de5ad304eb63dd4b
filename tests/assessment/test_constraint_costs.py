"""What one namespace may cost in a cycle: counted in operations, from the snapshot alone, and nobody else's waits."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.constraint_costs import share_out
from rebalancer.assessment.spread_groups import find_spread_groups
from rebalancer.engine import evaluate
from rebalancer.model.labels import LabelSelector, Operator, SelectorRequirement
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.policy import default_policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE, ClusterBuilder
from tests.assessment.findings.build import with_specs
from tests.build import a_cluster, change_specs
from tests.drawing import examples
from tests.reports import all_findings
from tests.scheduling.build import spread


def teams(sizes: dict[str, int]) -> ClusterBuilder:
    """Return a cluster with so many workloads of one constraint in each namespace."""
    blueprint = a_cluster("ab", 1)
    for namespace, number in sizes.items():
        for one in range(number):
            blueprint.deployment(f"w{one:03}", namespace=namespace, on={"a-1": 1, "b-1": 1}, spread={ZONE: 1})
    return blueprint


@examples(100)
@given(st.dictionaries(st.sampled_from(("one", "two", "three")), st.integers(1, 9), min_size=1), st.integers(0, 10))
def test_each_namespace_has_its_share_whatever_others_have(sizes: dict[str, int], share: int) -> None:
    """Of each as many constraints are evaluated as its share allows, in the order of names; the others are named."""
    view = View(teams(sizes).snapshot())
    shared = share_out(find_spread_groups(view), view, share)
    for namespace, number in sizes.items():
        evaluated = [group.workloads[0].name for group in shared.groups if group.namespace == namespace]
        left = [workload.name for one in shared.left for workload in one.workloads if workload.namespace == namespace]
        assert evaluated == [f"w{one:03}" for one in range(min(number, share))]
        assert evaluated + left == [f"w{one:03}" for one in range(number)]
    assert {one.refusal.namespace: one.refusal.operations for one in shared.left} == {
        namespace: number for namespace, number in sizes.items() if number > share
    }


def test_a_selector_without_a_value_costs_as_many_operations_as_there_are_sets_of_labels() -> None:
    """It is compared with all of them, so the constraint with a value goes first, whatever their names."""
    exists = LabelSelector((SelectorRequirement("app", Operator.EXISTS),))
    view = View(with_specs(teams({"one": 5}).snapshot(), spread=(spread(ZONE, selects=exists),)))
    groups = find_spread_groups(view)
    assert len(groups) == 1  # they count the same pods
    assert share_out(groups, view, 4).groups == ()
    (left,) = share_out(groups, view, 4).left
    assert (left.refusal.operations, len(left.workloads)) == (5, 5)
    assert "selectors that name a label's value" in str(left.refusal)
    assert share_out(groups, view, 5).left == ()
    never = View(with_specs(teams({"one": 5}).snapshot(), spread=(spread(ZONE, selects=None),)))
    assert share_out(find_spread_groups(never), never, 1).left == ()


def test_what_is_beyond_the_share_is_found_reported_and_refused() -> None:
    """A namespace with 40,001 constraints: one workload waits, says why with the numbers, and a finding names it."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("honest", namespace="other", on={"a-1": 2, "b-1": 2}, spread={ZONE: 1})
    blueprint.deployment("many", on={"a-1": 1, "b-1": 1})
    own = LabelSelector.of({"app": "many"})
    many = tuple(spread(ZONE, number + 1, selects=own) for number in range(40_001))
    snapshot = blueprint.snapshot()
    changed = change_specs(snapshot, lambda name, spec: structs.replace(spec, spread=many) if name == "many" else spec)
    made = evaluate(changed, default_policy())
    assert [group.spread.namespace for group in made.assessment.groups] == ["other"]
    (refusal,) = made.plan.refusals
    assert (refusal.reason, refusal.workload.name) == (Reason.NAMESPACE_TOO_COSTLY, "many")
    assert "take 40,001 operations in a cycle, and a namespace may take 40,000" in str(refusal.refusal)
    findings = all_findings(made.view, made.assessment, made.inputs.policy)
    (finding,) = (one for one in findings if one.kind is FindingKind.NAMESPACE_TOO_COSTLY)
    assert finding.object == "Namespace default"
    assert "Not evaluated: default/many (Deployment)" in finding.message
    only = evaluate(changed, default_policy(), only=[refusal.workload])
    assert len(only.plan.refusals) == 1
    others = [group.workloads[0] for group in made.assessment.groups]
    assert evaluate(changed, default_policy(), only=others).plan.refusals == ()
