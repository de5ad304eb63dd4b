"""Pods with more constraints or terms than the policy allows, or than is read, stay, count, and are named."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from rebalancer.assessment.too_large import refuse_terms
from rebalancer.engine import evaluate
from rebalancer.model.affinity import (
    PodAffinity,
    PodAffinityTerm,
    PreferredPodTerm,
    UnreadTerms,
)
from rebalancer.model.labels import LabelSelector
from rebalancer.model.pods import PodSpec
from rebalancer.model.reasons import FindingKind, Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy.sections import Eligibility
from rebalancer.simulator import ZONE
from tests.assessment.findings.build import with_specs
from tests.build import a_cluster
from tests.planning.clusters import policy
from tests.reports import all_findings
from tests.scheduling.build import spread

TERM = PodAffinityTerm(topology_key=ZONE, selector=LabelSelector())
SOME: dict[str, dict[str, Any]] = {
    "topologySpreadConstraints": {"spread": (spread(selects=LabelSelector.of({"app": "web"})),) * 17},
    "affinity.podAffinity.required…": {"pod_affinity": PodAffinity(required=(TERM,) * 17)},
    "affinity.podAffinity.preferred…": {"pod_affinity": PodAffinity(preferred=(PreferredPodTerm(1, TERM),) * 17)},
    "affinity.podAntiAffinity.required…": {"pod_affinity": PodAffinity(anti_required=(TERM,) * 17)},
    "affinity.podAntiAffinity.preferred…": {
        "pod_affinity": PodAffinity(anti_preferred=(PreferredPodTerm(1, TERM),) * 17)
    },
}
"""Seventeen entries of each list, by its name in a message."""


@pytest.mark.parametrize("field", SOME)
def test_each_list_is_counted_against_the_policys_bound(field: str) -> None:
    """Seventeen entries are more than sixteen, and not more than seventeen."""
    spec = PodSpec(**SOME[field])
    refusal = refuse_terms(spec, 16)
    assert str(refusal) == f"spec.{field} has 17 entries; eligibility.maxTerms is 16"
    assert refuse_terms(spec, 17) is None


def lopsided(**spec: Any) -> Snapshot:
    """Return four pods on one of two zones' nodes, whose specs have these fields."""
    blueprint = a_cluster("ab", 1, {"a-1": 4}, spread={ZONE: 1})
    return with_specs(blueprint.snapshot(), **spec)


def test_a_pod_with_more_constraints_than_the_policy_allows_stays_until_it_allows_more() -> None:
    """It is violated as before, and named with its namespace; a larger maxTerms lets it move."""
    snapshot = lopsided(spread=(spread(selects=LabelSelector.of({"app": "web"})),) * 17)
    stays = evaluate(snapshot, policy())
    assert [group.state for group in stays.plan.components] == [State.UNFIXABLE]
    assert {refusal.reason for refusal in stays.plan.refusals} == {Reason.TOO_LARGE}
    (finding,) = (
        finding
        for finding in all_findings(stays.view, stays.assessment, stays.inputs.policy)
        if finding.kind is FindingKind.TOO_LARGE
    )
    assert finding.object == "Namespace default"
    assert "eligibility.maxTerms is 16" in finding.message
    assert [str(workload) for workload in finding.workloads] == ["default/web (Deployment)"]
    moves = evaluate(snapshot, policy(eligibility=Eligibility(max_terms=17)))
    assert moves.plan.fates.going


def test_a_pod_whose_terms_are_not_read_stays_and_says_so() -> None:
    """Its constraints are unknown: nothing of it is violated, nothing of it is planned, and the finding says why."""
    snapshot = lopsided(spread=(), unread="spec.topologySpreadConstraints has 65 entries")
    made = evaluate(snapshot, policy())
    assert made.plan.components == ()
    (finding,) = (
        finding
        for finding in all_findings(made.view, made.assessment, made.inputs.policy)
        if finding.kind is FindingKind.TOO_LARGE
    )
    assert finding.message.startswith(
        "default/web (Deployment): spec.topologySpreadConstraints has 65 entries. Such pods are not"
    )


def test_what_unread_terms_may_select_is_not_called_forced() -> None:
    """A workload beside such a pod in its namespace is not planned; in another one it is."""
    snapshot = lopsided()
    assert evaluate(snapshot, policy()).plan.fates.going
    unread = UnreadTerms(everywhere=False, own=True, namespaces=frozenset(), labels=frozenset({None}))
    for namespace, planned in (("default", False), ("other", True)):
        spec = PodSpec(unread="too many", pod_affinity=PodAffinity(unread=unread))
        first = snapshot.pods[0]
        stranger = structs.replace(first, name="s", uid="s", namespace=namespace, owner=None, spec=spec)
        made = evaluate(replace(snapshot, pods=(*snapshot.pods, stranger)), policy()).plan
        assert bool(made.fates.going) == planned
        if not planned:
            assert {refusal.reason for refusal in made.refusals} == {Reason.NOT_PREDICTABLE}
