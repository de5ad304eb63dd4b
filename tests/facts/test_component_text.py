"""Why a component is not repaired, with what would make it feasible."""

from fractions import Fraction

import pytest

from rebalancer.assessment.assess import assess
from rebalancer.documents.explanation import ExplanationDetails, explain_workload
from rebalancer.documents.phrases import component_text
from rebalancer.documents.plan import plan_document
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.reasons import State
from rebalancer.planning.diagnosis.relaxation import Relaxation, ReplicaChange
from rebalancer.planning.diagnosis.slack import RelaxedBound
from rebalancer.planning.planner import find_relaxations
from rebalancer.reporting.text.explanation import explanation_text
from rebalancer.reporting.text.plan import plan_text
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.planning.build import DEADLOCK, planned
from tests.planning.build import shards as repairable
from tests.planning.diagnosis.test_relaxation import shards

CART = Reference("shop", "Deployment", "cart")


def component(relaxation: Relaxation | None) -> str:
    """Return the sentence about an infeasible component."""
    (group,) = planned(shards(2).snapshot(), shards(2).policy()).components
    assert group.state is State.INFEASIBLE
    return component_text(group, {} if relaxation is None else {group.name: relaxation})


def change(name: str, replicas: int, more: int) -> ReplicaChange:
    return ReplicaChange(Reference("default", "StatefulSet", name), replicas, more)


NEAREST = (
    "no placement of 6 pods in 2 groups of identical pods satisfies all constraints; the nearest placement leaves 2 "
    "pods without a node"
)
TWO = (change("w0", 2, -1), change("w1", 1, -1))


@pytest.mark.parametrize(
    ("relaxation", "options"),
    [
        (None, ""),
        (Relaxation(), ""),
        (
            Relaxation(TWO),
            "; feasible with 2 replicas of default/w0 (StatefulSet) and 1 replica of default/w1 (StatefulSet)",
        ),
        (
            Relaxation(tuple(change(f"w{number}", 2, -2) for number in range(4))),
            "; feasible with 8 fewer pods in 4 workloads",
        ),
        (
            Relaxation((*(change(f"w{number}", 2, -1) for number in range(3)), change("w3", 4, 1))),
            "; feasible with 3 fewer and 1 more pods in 4 workloads",
        ),
        (
            Relaxation((change("w0", 3, -1),), RelaxedBound(limit="g/l0", max_pods=6)),
            "; feasible with 3 replicas of default/w0 (StatefulSet), or with maxPods 6 in limit g/l0",
        ),
        (Relaxation(bound=RelaxedBound(limit="g/l0", min_pods=1)), "; feasible with minPods 1 in limit g/l0"),
        (Relaxation(bound=RelaxedBound(limit="g/l0", max_skew=4)), "; feasible with maxSkew 4 in limit g/l0"),
        (
            Relaxation(bound=RelaxedBound(limit="g/l0", max_share=Fraction(3, 4))),
            "; feasible with maxShare <=3/4 in limit g/l0",
        ),
        (
            Relaxation(bound=RelaxedBound(key=ZONE, workloads=(CART,), max_skew=2)),
            f"; feasible with maxSkew 2 over {ZONE} in shop/cart (Deployment)",
        ),
        (
            Relaxation(bound=RelaxedBound(key="rack", workloads=(CART,) * 5, max_skew=2)),
            (
                "; feasible with maxSkew 2 over rack in shop/cart (Deployment), shop/cart (Deployment), "
                "shop/cart (Deployment) and 2 more"
            ),
        ),
        (
            Relaxation((change("w0", 3, -1),), limit_reached=True),
            (
                "; feasible with 3 replicas of default/w0 (StatefulSet); "
                "the search limit was reached, so something nearer may exist"
            ),
        ),
    ],
)
def test_a_relaxation_is_named_as_it_would_be_written(relaxation: Relaxation | None, options: str) -> None:
    """Workloads with their replicas, or how much all change together; a bound with its object, field and value."""
    assert component(relaxation) == NEAREST + options


def test_plan_and_explanation_name_the_relaxation() -> None:
    """A person reads it where it says why nothing is planned."""
    scene = shards(2)
    snapshot, policy = scene.snapshot(), scene.policy()
    plan = planned(snapshot, policy)
    relaxations = find_relaxations(plan)
    replicas = "2 replicas of default/w0 (StatefulSet) and 2 replicas of default/w1 (StatefulSet)"
    reference = Reference("default", "StatefulSet", "w0")
    details = ExplanationDetails(relaxations, verbose=False)
    document = explain_workload(reference, assess(View(snapshot), policy, NO_MEMORY), plan, snapshot, details)
    shown = plan_text(plan_document(plan, snapshot, relaxations, acting="mode Evict"))
    for text in (shown, explanation_text(document)):
        assert f"{NEAREST}; feasible with {replicas}\n" in text


def test_a_component_that_is_repaired_has_no_sentence() -> None:
    """Nothing keeps it."""
    (group,) = planned(repairable(DEADLOCK)).components
    assert group.refusal is None
    assert component_text(group) == ""
