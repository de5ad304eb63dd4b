"""What `plan` and `explain` print: before and after, why, what waits, the proof, and how certain it is."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.account.numbers import PlanNumbers
from rebalancer.advice.constraints import SuggestedSpread, combine, constraint_for_limit, constraints_yaml
from rebalancer.assessment.assess import Assessment
from rebalancer.documents.explanation import ExplanationDetails, explain_pod, explain_workload
from rebalancer.documents.phrases import counts_change, proof_text
from rebalancer.documents.plan import Totals, mark_moving, plan_document
from rebalancer.documents.plan_notes import find_notes
from rebalancer.engine import evaluate
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import NO_MEMORY, FailedPrediction, Memory, Reference
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.decision import NoSafeEviction, PredictionUnverified
from rebalancer.planning.expected_counts import expected_counts, expected_worst
from rebalancer.planning.fates import NO_FATES
from rebalancer.planning.plan import Plan
from rebalancer.planning.scope.components import current_counts
from rebalancer.policy import Policy
from rebalancer.reporting.text.explanation import explanation_text
from rebalancer.reporting.text.plan import PlanOptions, plan_text
from rebalancer.resilience.comparison import ChangedLoss, Effect, Left, TooManyToCompare
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, START, ZONE, SimulatedCluster
from tests.build import a_cluster, a_layout, a_policy
from tests.controller.simulated import Simulation
from tests.drawing import examples
from tests.planning.clusters import database, laid_out, sharing
from tests.planning.clusters import policy as generous
from tests.tracking.build import move

RECORDED = sorted((Path(__file__).parents[3] / "docs" / "recordings").glob("plan*-120.txt"))

HEAD = """
mode: Evict
eligibility: {minAge: 0s}
nodes: {settle: 0s}
spread: {for: 0s}
budgets: {maxUnavailable: 2, perWorkload: 50%}
groups:
- name: shop
  selector: {}
  limits:
"""
THIRD = '  - {name: third, topologyKey: kubernetes.io/hostname, maxShare: "<=1/3", action: Evict}\n'
HALF = '  - {name: half, topologyKey: topology.kubernetes.io/zone, maxShare: "<=1/2"}\n'
SPREAD = "  - {name: spread, topologyKey: topology.kubernetes.io/zone, maxSkew: 9}\n"


def rules(*limits: str) -> Policy:
    return a_policy(HEAD + "".join(limits))


@dataclass
class Seen:
    """A snapshot with its assessment and plan."""

    snapshot: Snapshot
    view: View
    assessment: Assessment
    plan: Plan

    def text(self) -> str:
        return plan_text(plan_document(self.plan, self.snapshot, acting="mode Evict"))

    def explained(self) -> str:
        reference = Reference("default", "Deployment", "web")
        return explanation_text(explain_workload(reference, self.assessment, self.plan, self.snapshot))

    def pod(self, name: str) -> str:
        (pod,) = (pod for pod in self.snapshot.pods if pod.name == name)
        return explanation_text(explain_pod(pod, self.view, self.assessment, self.plan))


def look(snapshot: Snapshot, policy: Policy, memory: Memory = NO_MEMORY) -> Seen:
    evaluation = evaluate(snapshot, policy, memory=memory)
    return Seen(snapshot, evaluation.view, evaluation.assessment, evaluation.plan)


def crowded(cpu: int = 600) -> Snapshot:
    """Ten pods as 4/2/1/1/1/1 over six nodes, maxSkew 3: all that the constraint asks for, and too many on one node."""
    on = {"a-1": 4, "a-2": 2, "b-1": 1, "b-2": 1, "c-1": 1, "c-2": 1}
    return a_cluster("abc", 2, on, spread={HOSTNAME: 3}, cpu=cpu).snapshot()


def test_a_predicted_repair_of_a_limit() -> None:
    """The limit before and after, where the replacement may land, and that nothing forces it there."""
    seen = look(crowded(), rules(THIRD, HALF))
    name = seen.plan.fates.going[0].pod.name
    assert seen.text() == dedent(f"""\
        Plan (dry run; mode Evict)
        1 pod to move now
        1 eviction is the proved minimum.

        ! default/web (Deployment)  Violated  1 eviction (proved minimum): 1 now
            node (maxSkew 3): a-1:4 a-2:2 b-1:1 b-2:1 c-1:1 c-2:1
            limit shop/third of Deployment/web (maxShare <=1/3 per node): 4 of 10 (40%) in a-1 -> at most 3 of 10 (30%)
            > {name}  a-1 -> node b-1/b-2/c-1/c-2  (predicted, not forced)
              node a-1 holds 4 pods, the emptiest domain 1, limit shop/third (maxShare <=1/3)

        > moves now
        All other workloads: none.
        Snapshot of 2026-01-01 00:00:00Z, policy {seen.plan.policy_hash}. Nothing was changed.
        """)
    text = seen.pod(name)
    assert "its replacement is expected in node b-1, b-2, c-1, c-2: predicted, not forced" in text
    assert "How many evictions does the repair take?\n  1 eviction (proved minimum): 1 now\n" in text
    other = next(pod.name for pod in seen.snapshot.pods if pod.name != name)
    assert f"the repair does not need this eviction: {name} is evicted instead" in seen.pod(other)


FORCING = """
Which constraint would enforce it?
  with this constraint, no domain of kubernetes.io/hostname can hold more than 3 of 10 pods
  topologySpreadConstraints:
  - topologyKey: kubernetes.io/hostname
    maxSkew: 2
    whenUnsatisfiable: DoNotSchedule
    labelSelector:
      matchLabels:
        app: web
"""


def test_a_repair_that_is_not_forced_comes_with_the_constraint_that_enforces_it() -> None:
    """After three failed predictions no pod of the group is moved, and the output names the remedy."""
    first = look(crowded(), rules(THIRD))
    failed = tuple(FailedPrediction(group.name, 3, first.snapshot.taken_at) for group in first.plan.components)
    seen = look(crowded(), rules(THIRD), structs.replace(NO_MEMORY, failed_predictions=failed))
    assert FORCING in seen.explained()
    assert FORCING in seen.pod(seen.snapshot.pods[0].name)
    assert "\n    x NotForced: 3 replacements in a row" in seen.text()
    assert "\n    For details: rebalancer explain deployment/web -n default\n" in seen.text()


def test_evictions_that_are_needed_but_not_possible_are_out_of_reach() -> None:
    """The totals of an empty plan: none planned, one needed, which is out of reach; not optimal."""
    first = look(crowded(), rules(THIRD))
    failed = tuple(FailedPrediction(group.name, 3, first.snapshot.taken_at) for group in first.plan.components)
    seen = look(crowded(), rules(THIRD), structs.replace(NO_MEMORY, failed_predictions=failed))
    assert plan_document(seen.plan, seen.snapshot).totals == totals(blocked=1, blocked_lower_bound=1)
    lines = seen.text().splitlines()
    assert lines[1] == "0 pods to move now, 1 blocked (default/web: NotForced)"
    takes = "1 eviction (proved minimum): 1 blocked"
    assert lines[3] == f"x default/web (Deployment)  Unfixable  {takes}"
    assert f"How many evictions does the repair take?\n  {takes}\n" in seen.explained()
    question = "Is limit shop/third (maxShare <=1/3 per kubernetes.io/hostname, Deployment/web) satisfied?"
    assert f"{question}\n  Unfixable\n" in seen.explained()
    whole = plan_document(first.plan, first.snapshot).totals
    assert whole == totals(evictions=1, now=1, lower_bound=1)


def totals(*, evictions: int = 0, optimal: bool = True, **numbers: int) -> Totals:
    """Return the totals of a plan whose number is proved, with these numbers and otherwise none."""
    return Totals(evictions=evictions, optimal=optimal, **PlanNumbers(**numbers)._asdict())


def test_possible_and_impossible_repairs_are_counted_separately() -> None:
    """An eviction that a budget never allows does not count as waiting, in text and JSON."""
    blueprint = a_cluster("ab", 1)
    for name in ("web", "shy"):
        blueprint.deployment(name, on={"a-1": 6}, spread={ZONE: 1})
    blueprint.budget("shy", app="shy", min_available=6)
    seen = look(blueprint.snapshot(), rules(HALF))
    assert seen.text().splitlines()[1:3] == [
        "2 pods to move now, 1 more in later cycles, 3 blocked (default/shy: PDB default/shy allows none)",
        "3 evictions are the proved minimum.",
    ]
    document = plan_document(seen.plan, seen.snapshot)
    assert document.totals == totals(evictions=3, now=2, waiting=1, blocked=3, lower_bound=3, blocked_lower_bound=3)
    assert len(document.waiting) == 1
    never = [refused for refused in document.refusals if refused.reason == Reason.STEP_EXCEEDS_BUDGET]
    assert sum(refused.pod is not None for refused in never) == 3


def test_evictions_after_a_move_in_flight_count_as_later() -> None:
    """They are not decided yet, but they are possible."""
    first = look(crowded(), rules(THIRD))
    (group,) = first.plan.components
    waits = structs.replace(group, refusal=PredictionUnverified())
    first.plan = structs.replace(first.plan, components=(waits,), fates=NO_FATES)
    assert first.text().splitlines()[1] == ("0 pods to move now, 1 more in later cycles (0 waiting, 1 not decided yet)")


def test_a_partial_repair_is_counted_as_such() -> None:
    """Evictions for a group that cannot be repaired completely do not count towards its minimum."""
    seen = look(crowded(), rules(THIRD))
    (group,) = seen.plan.components
    partly = structs.replace(group, state=State.UNFIXABLE, evictions=4, lower_bound=4)
    seen.plan = structs.replace(seen.plan, components=(partly,))
    name = seen.plan.components[0].workloads[0].name
    assert seen.text().splitlines()[1:3] == [
        f"1 pod to move now, 3 blocked (default/{name}: Unfixable)",
        "1 eviction repairs only part of a violation.",
    ]
    document = plan_document(seen.plan, seen.snapshot)
    assert document.totals == totals(evictions=1, now=1, partial=1, blocked=3, blocked_lower_bound=3, optimal=False)


QUARTER = '  - {name: quarter, topologyKey: topology.kubernetes.io/zone, maxShare: "<=1/4", action: Evict}\n'


def test_a_limit_that_no_placement_satisfies_is_said_not_to_be_repaired_by_the_evictions_that_help() -> None:
    """Two zones cannot hold a quarter each: the state is the report's, and nobody reads that the plan repairs it."""
    seen = look(a_cluster("ab", 2, {"a-1": 5, "b-1": 1}).snapshot(), rules(QUARTER))
    text = seen.text()
    assert ", 1 violation is repaired only in part (default/web: TooFewDomains)" in text
    assert "! default/web (Deployment)  Infeasible  2 evictions" in text
    stays = "83%) in a -> 4 of 6 (67%); helps, and stays violated: no placement satisfies it (TooFewDomains)"
    assert stays in text
    assert stays in " ".join(seen.explained().split())


def test_a_limit_that_no_placement_satisfies_and_no_eviction_helps_cannot_be_repaired() -> None:
    """It is as even as it can be: the plan says why, and not that there is nothing to repair."""
    seen = look(a_cluster("ab", 2, {"a-1": 3, "b-1": 3}).snapshot(), rules(QUARTER))
    notes = find_notes(seen.plan, seen.assessment)
    text = plan_text(plan_document(seen.plan, seen.snapshot, beside=notes, acting="mode Evict"))
    assert text.splitlines()[1] == "No eviction helps, 1 workload cannot be repaired now (default/web: TooFewDomains)"
    assert "    x TooFewDomains: zone a holds 3 of 6 (50%), the limit is maxShare <=1/4, which allows 1; " in text
    assert "\nx stays\n" in text, "the legend has the mark"
    assert "Nothing to repair" not in text
    assert "does not repair by eviction" not in text


def test_a_limit_that_only_alerts_causes_no_eviction() -> None:
    """The explanation says so and names the constraint that would enforce it."""
    seen = look(crowded(), rules(HALF))
    assert seen.plan.components == ()
    text = seen.pod(seen.snapshot.pods[0].name)
    assert "Is it evicted?\n  no\n  limit shop/half is not repaired by eviction\n" in text
    assert "maxSkew: 3\n    whenUnsatisfiable: DoNotSchedule" in text


def test_satisfied_limits_are_counted() -> None:
    """Only violated limits are named."""
    held = SPREAD.replace("}", ", action: Evict}")
    seen = look(crowded(), rules(THIRD, held))
    assert "\n    1 limit with action Evict on these pods is satisfied\n" in seen.text()
    assert "limit shop/spread" not in seen.text()


@pytest.mark.parametrize(("seconds", "named"), [(600, ""), (601, "10m1s"), (604_800, "168h")])
def test_a_pod_that_may_take_long_to_end_is_named(seconds: int, named: str) -> None:
    """More than ten minutes: a broker that hands over its queues, say."""
    snapshot = crowded()
    pods = tuple(structs.replace(pod, grace_seconds=seconds) for pod in snapshot.pods)
    made = look(replace(snapshot, pods=pods), rules(HALF.replace("}", ", action: Evict}"), THIRD)).plan
    messages = [one.message for one in plan_document(made, snapshot).evictions]
    assert messages
    expected = f". The pod may take {named} to end (terminationGracePeriodSeconds)"
    assert all((expected in message) is bool(named) for message in messages)
    assert all(("to end" in message) is bool(named) for message in messages)


def test_waiting_and_refused_pods_are_listed_by_reason() -> None:
    """Those that wait with where they will go, and what for: a line for each reason."""
    snapshot = a_cluster("abc", 2, {"a-1": 6, "a-2": 6, "b-1": 6, "b-2": 6}, spread={ZONE: 1}).snapshot()
    excluded = [
        structs.replace(pod, annotations=Labels({"rebalancer.dev/exclude": "true"})) if number < 2 else pod
        for number, pod in enumerate(snapshot.pods)
    ]
    seen = look(replace(snapshot, pods=tuple(excluded)), rules(HALF))
    lines = seen.text().splitlines()
    waits = [line for line in lines if line.startswith("    ~ ")]
    (why,) = (line for line in lines if "BlockedByBudget: " in line)
    (stays,) = (line for line in lines if " are not evicted  " in line)
    assert len(waits) == 6
    assert all(line.endswith(" -> zone c") for line in waits)
    assert why.startswith("      BlockedByBudget: ")
    assert ", ".join(pod.name for pod in excluded[:2]) + " are not evicted  Excluded: " in stays
    assert lines[1] == "2 pods to move now, 6 more in later cycles"


@pytest.mark.parametrize(
    ("evictions", "least", "text"),
    [
        (2, 2, "2 evictions (proved minimum)"),
        (1, 1, "1 eviction (proved minimum)"),
        (5, 3, "5 evictions (lower bound 3, gap 2)"),
    ],
)
def test_the_proof_says_whether_the_number_is_the_minimum(evictions: int, least: int, text: str) -> None:
    """Otherwise it names the gap to the lower bound."""
    assert proof_text(evictions, least) == text


def test_text_explanation_and_document_show_the_proof_and_the_detour() -> None:
    """Why no fewer evictions are enough, and why the repair may take more, in the same sentences."""
    seen = look(laid_out({"a": [4, 2], "b": [1, 2, 4]}, 0, 2, 2), generous())
    (group,) = seen.plan.components
    proof, detour = str(group.proof), str(group.detour)
    assert proof.startswith("with at most 7 per zone (b:7)")
    assert detour.endswith("with at most 4 pods evicted at once and no violation made worse on the way: 2 are enough")
    verbose = plan_text(plan_document(seen.plan, seen.snapshot, acting="mode Evict"), PlanOptions(verbose=True))
    assert f"    no fewer: {proof}; {detour}\n" in verbose
    assert f"Why not fewer?\n  {proof}; {detour}\n" in seen.explained()
    assert [one.proof for one in plan_document(seen.plan, seen.snapshot).groups] == [f"{proof}; {detour}"]
    assert proof not in seen.text()


def test_many_domains_are_summarized() -> None:
    """Counts before and after; only before where after is unknown."""
    before = {f"n-{number}": number for number in range(20)}
    assert counts_change(before, {}) == counts_change(before, before) == "0 to 19 over 20 domains"
    assert counts_change(before, {**before, "n-19": 18}) == "0 to 19 over 20 domains -> 0 to 18 over 20 domains"
    assert counts_change({}, {}) == "no domains"


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=2), min_size=2, max_size=3), st.integers(0, 99))
@examples(15)
def test_expected_counts_come_true(counts: list[list[int]], seed: int) -> None:
    """Where all evictions go now, exact counts are reached and upper bounds are not exceeded."""
    blueprint, on = a_layout(counts)
    assume(sum(on.values()) >= 2)
    blueprint.deployment("web", on=on, spread={ZONE: 4}, cpu=600)
    policy = rules(HALF.replace("}", ", action: Evict}"), THIRD)
    policy = policy.model_copy(update={"budgets": policy.budgets.model_copy(update={"slow_start": False})})
    seen = look(blueprint.snapshot(), policy)
    assume(seen.plan.fates.going and not seen.plan.fates.kept)
    (group,) = seen.plan.components
    going = seen.plan.fates.decided[group.name]
    shown = expected_counts(group, going, seen.snapshot)
    assert plan_document(seen.plan, seen.snapshot).groups[0].after == shown
    worst = [expected_worst(limit, going, seen.snapshot) for limit in seen.assessment.limits]
    cluster = SimulatedCluster(seen.snapshot, seed=seed)
    Simulation(cluster, policy).cycles(1, apart=120)
    snapshot = cluster.snapshot(cluster.now)
    standing = [snapshot.node[pod.node] for pod in snapshot.pods if pod.node is not None and not pod.terminating]
    for key, expected in shown.items():
        stand = Counter(node.labels[key] for node in standing)
        assert sum(expected.values()) == len(standing)
        if all(
            len(target.values) == 1 for eviction in going for target in eviction.targets if target.topology_key == key
        ):
            assert {domain: stand[domain] for domain in expected} == expected
    for expected_count, limit in zip(worst, look(snapshot, policy).assessment.limits, strict=True):
        if expected_count is not None:
            number, certain = expected_count
            assert limit.maximum == number if certain else limit.maximum <= number


def spreads(pods: int, domains: int, skew: int) -> list[int]:
    """Return the count of the fullest domain for every placement within a skew."""
    every = combinations_with_replacement(range(pods + 1), domains)
    return [counts[-1] for counts in every if sum(counts) == pods and counts[-1] - counts[0] <= skew]


def test_all_enforcing_constraints_are_in_one_answer() -> None:
    """Two limits over two keys: one question, one list to paste; over one key the tighter constraint gives both."""
    tight = "  - {name: tight, topologyKey: kubernetes.io/hostname, maxPods: 2}\n"
    seen = look(crowded(), rules(THIRD, HALF, tight))
    (pod,) = (pod for pod in seen.snapshot.pods[:1])
    answers = explain_pod(pod, seen.view, seen.assessment, seen.plan).path
    assert [number for number in Counter(answer.question for answer in answers).values() if number > 1] == []
    (answer,) = (answer for answer in answers if answer.question == "Which constraint would enforce it?")
    constraints = yaml.safe_load(answer.evidence)["topologySpreadConstraints"]
    assert [(constraint["topologyKey"], constraint["maxSkew"]) for constraint in constraints] == [
        (HOSTNAME, 1),
        (ZONE, 3),
    ]
    assert answer.answer == (
        f"with these constraints, no domain of {HOSTNAME} can hold more than 3 of 10 pods; "
        f"no domain of {HOSTNAME} can hold more than 2 of 10 pods; no domain of {ZONE} can hold more than 5 of 10 pods"
    )


def test_a_second_hard_constraint_for_a_key_is_an_alternative() -> None:
    """Kubernetes accepts one hard constraint for a key: another selector can only replace it."""

    def wanted(key: str, skew: int, app: str, gives: str = "that") -> SuggestedSpread:
        return SuggestedSpread(topology_key=key, max_skew=skew, selector=LabelSelector.of({"app": app}), effect=gives)

    soft = wanted(ZONE, 3, "web", "the scheduler enforces what the soft constraint only prefers")
    first, others = combine([wanted(ZONE, 2, "web"), wanted(ZONE, 1, "db"), soft, wanted(HOSTNAME, 1, "db")])
    assert list(first) == [wanted(ZONE, 2, "web"), wanted(HOSTNAME, 1, "db")]
    assert list(others) == [wanted(ZONE, 1, "db")]
    tighter, _ = combine([wanted(ZONE, 5, "web"), soft])
    assert [(spread.max_skew, spread.effect) for spread in tighter] == [
        (3, "that; the scheduler enforces what the soft constraint only prefers")
    ]


def suggested(pods: int, domains: int, bound: str) -> SuggestedSpread | None:
    """Return the constraint that enforces a limit on pods that all run on one of so many nodes."""
    blueprint = a_cluster("a", domains, {"a-1": pods})
    limit = f"  - {{name: some, topologyKey: kubernetes.io/hostname, {bound}}}\n"
    (evaluated,) = look(blueprint.snapshot(), rules(limit)).assessment.limits
    return constraint_for_limit(evaluated)


@pytest.mark.parametrize(("pods", "domains"), list(product((2, 5, 9), (2, 4))))
def test_the_suggested_constraint_guarantees_the_limit(pods: int, domains: int) -> None:
    """In every placement that it allows; a looser one does not, and none is suggested where none is enough."""
    for cap in range(1, pods + 1):
        spread = suggested(pods, domains, f"maxPods: {cap}")
        possible = cap * domains >= pods
        assert (spread is not None) is possible
        if spread is not None:
            assert max(spreads(pods, domains, spread.max_skew)) <= cap
            assert spread.max_skew == cap or max(spreads(pods, domains, spread.max_skew + 1)) > cap


def test_limits_on_minimum_and_skew_have_a_suggested_constraint() -> None:
    """A maxSkew limit gives that maxSkew; a minPods limit the loosest maxSkew that gives every domain so many."""
    even = suggested(10, 5, "maxSkew: 2")
    least = suggested(10, 5, "minPods: 2")
    assert even is not None
    assert least is not None
    assert (even.max_skew, even.effect) == (2, "domains of kubernetes.io/hostname differ by at most 2 pods")
    assert (least.max_skew, least.effect) == (1, "each domain of kubernetes.io/hostname holds at least 2 of 10 pods")


def test_selectors_are_written_as_kubernetes_writes_them() -> None:
    """Labels with one value as matchLabels, everything else as matchExpressions."""
    selector = LabelSelector.of(
        {"app": "web"},
        [SelectorRequirement("tier", Operator.EXISTS), SelectorRequirement("zone", Operator.IN, ("a", "b"))],
    )
    text = constraints_yaml([SuggestedSpread(topology_key="zone", max_skew=1, selector=selector, effect="")])
    (constraint,) = yaml.safe_load(text)["topologySpreadConstraints"]
    assert constraint["labelSelector"] == {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "Exists"},
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
        ],
    }


def test_a_violated_soft_constraint_is_suggested_as_a_hard_one() -> None:
    """Default constraints of the cluster too."""
    text = look(a_cluster("a", 2, {"a-1": 6}).snapshot(), rules(HALF)).explained()
    answer = "with this constraint, the scheduler enforces what the soft constraint only prefers"
    assert f"  {answer}\n  topologySpreadConstraints:\n" in text
    assert "  - topologyKey: kubernetes.io/hostname\n    maxSkew: 3\n    whenUnsatisfiable: DoNotSchedule\n" in text


def test_no_constraint_is_suggested_where_all_are_hard() -> None:
    """The explanation says so."""
    seen = look(a_cluster("ab", 1, {"a-1": 4}, spread={ZONE: 1}).snapshot(), rules(SPREAD))
    (group,) = seen.plan.components
    alone = structs.replace(group, state=State.UNFIXABLE, refusal=NoSafeEviction())
    seen.plan = structs.replace(seen.plan, components=(alone,), fates=NO_FATES)
    assert "Which constraint would enforce it?\n  none\n  its constraints are hard already" in seen.explained()


@pytest.mark.parametrize("changes", ["", ", groupBy: [app]", ", selector: {matchLabels: {app: web}}"])
def test_the_suggested_selector_selects_exactly_the_pods(changes: str) -> None:
    """The workload's own, with the labels that a finer limit divides by or selects."""
    spread = suggested(4, 4, f"maxPods: 2{changes}")
    assert spread is not None
    assert spread.selector == LabelSelector.of({"app": "web"})


def test_pods_without_distinguishing_template_labels_have_no_suggested_constraint() -> None:
    """A limit on a label that the template lacks has no constraint to paste."""
    snapshot = a_cluster("a", 4, {"a-1": 4}).snapshot()
    roles = [structs.replace(pod, labels=Labels({**pod.labels, "role": "master"})) for pod in snapshot.pods]
    limit = "  - {name: some, topologyKey: kubernetes.io/hostname, maxPods: 2, groupBy: [role]}\n"
    (evaluated,) = look(replace(snapshot, pods=tuple(roles)), rules(limit)).assessment.limits
    assert constraint_for_limit(evaluated) is None


@pytest.mark.parametrize("bound", ['maxShare: "<=1/3", within: topology.kubernetes.io/zone', "maxPods: 1"])
def test_no_constraint_is_suggested_where_no_single_one_is_enough(bound: str) -> None:
    """A bound within a larger domain, or one that no placement satisfies."""
    assert suggested(9, 4, bound) is None


def test_freeing_a_pending_pod_predicts_no_counts() -> None:
    """The domain of the pending pod is not known, so neither are the counts of limits."""
    seen = look(crowded(), rules(THIRD))
    (group,) = seen.plan.components
    (eviction,) = seen.plan.fates.going
    freeing = structs.replace(eviction, repair=structs.replace(eviction.repair, cause=Cause.PLACEMENT_DEADLOCK))
    assert expected_counts(group, [freeing], seen.snapshot) == {}
    assert expected_worst(group.limits[0], [freeing], seen.snapshot) is None
    assert expected_counts(group, [], seen.snapshot) == current_counts(group.component)


def changed(name: str, phase: Phase, before: tuple[int, int], after: tuple[int, int]) -> ChangedLoss:
    workload = Reference("default", "Deployment", name)
    return ChangedLoss(
        workload=workload, key=ZONE, value="b", phase=phase, wanted=9, before=Left(*before), after=Left(*after)
    )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_the_legend_has_the_marks_of_the_plan_and_no_others(path: Path) -> None:
    """Of each recorded plan: a mark begins the line of a workload, a pod or an obstacle."""
    *above, legend = re.split(r"\n(?=[>~x] (?:would move now|waits|stays))", path.read_text(encoding="utf-8"))
    marks = set(re.findall(r"^ *([>~x]) \S", above[0], flags=re.MULTILINE))
    assert set(re.findall(r"(?:^| {3})([>~x]) ", legend.splitlines()[0])) == marks


def test_where_only_a_pod_finds_no_node_no_violation_is_counted() -> None:
    """Pods are counted where they are placed: the status says of the same state that no rule is violated."""
    blueprint = a_cluster("ab", on={"a-1": 2, "b-1": 2, "c-1": 1}, spread={ZONE: 1}, replicas=6)
    blueprint.node("c-1", zone="c", cpu=100)
    simulation = Simulation(SimulatedCluster(blueprint.snapshot(), seed=1), generous())
    simulation.cycles(2)  # the sixth pod is created
    assert simulation.runner.state.cycle is not None
    seen = look(simulation.runner.state.cycle.snapshot, generous())
    assert seen.text().splitlines()[1] == "0 pods to move now, pods wait for a node (default/web: NoCapacity)"
    assert [group.without_node for group in plan_document(seen.plan, seen.snapshot, acting="").groups] == [True]


def test_what_a_lost_zone_leaves_is_said_with_each_repair() -> None:
    """For certain and, where that is another number, at best; what is not listed or computed in a line below."""
    snapshot = a_cluster("abc", 2, {"a-1": 5, "b-1": 4}, spread={ZONE: 1}).snapshot()
    seen = look(snapshot, generous())

    def text(effect: Effect) -> list[str]:
        document = plan_document(seen.plan, snapshot, acting="mode Evict", effect=effect)
        return [line.strip() for line in plan_text(document).splitlines() if "without" in line or "Without" in line]

    assert text(Effect()) == []
    rows = (changed("web", Phase.GONE, (6, 6), (9, 9)), changed("web", Phase.SILENT, (6, 8), (6, 7)))
    assert text(Effect(rows=(*rows, changed("api", Phase.GONE, (6, 6), (9, 9))))) == [
        "guaranteed without zone b (gone): 6 -> 9 of 9",
        "guaranteed without zone b (silent): 6 of 9, possible 8 -> 7",
    ]
    many = Effect(rows=tuple(changed(f"web{number}", Phase.GONE, (6, 6), (number, 9)) for number in range(62)))
    assert text(many) == ["Without a zone 2 numbers more change."]
    listed = plan_document(seen.plan, snapshot, effect=many).resilience
    assert listed is not None
    assert [row.guaranteed_after for row in listed.rows] == list(range(60))
    unknown = Effect(unknown=TooManyToCompare("pods", 9_000, 5_000))
    assert text(unknown) == [
        "What is guaranteed without a zone was not computed: there are 9,000 pods, more than 5,000."
    ]


def test_of_workloads_that_are_repaired_together_each_is_named() -> None:
    """With what it keeps."""
    builder = a_cluster("abc", 1, {"a-1": 3, "b-1": 3}, spread={ZONE: 1})
    builder.deployment("api", on={"a-1": 3, "b-1": 3}, spread={ZONE: 1})
    snapshot = sharing(builder.snapshot())
    seen = look(snapshot, generous())
    effect = Effect(rows=(changed("api", Phase.GONE, (6, 6), (9, 9)),))
    text = plan_text(plan_document(seen.plan, snapshot, acting="mode Evict", effect=effect))
    assert "\n    api: guaranteed without zone b (gone): 6 -> 9 of 9\n" in text


def test_what_a_moving_pod_may_change_is_not_said_to_be_out_of_reach() -> None:
    """A StatefulSet creates nothing above db-0 before that is Ready again; once it is, the repair goes on."""
    held = database({"b-1": 1, "a-1": 3})
    snapshot = replace(held, pods=[structs.replace(pod, ready=pod.name != "db-0") for pod in held.pods])
    seen = look(snapshot, a_policy())
    document = plan_document(seen.plan, snapshot, acting="mode Evict")
    arriving = move("db-0", snapshot.taken_at, namespace="shop", workload=Reference("shop", "StatefulSet", "db"))
    rests, moves = (plan_text(mark_moving(document, moves)) for moves in ((), (arriving,)))
    assert "0 pods to move now, 1 violation cannot be repaired now (shop/db: CannotCreate)\n" in rests
    assert "\nx shop/db (StatefulSet)  Unfixable\n" in rests
    assert "For details: rebalancer explain" in rests
    assert "1 violation waits (shop/db: CannotCreate)" in moves
    assert "\n! shop/db (StatefulSet)  Violated\n" in moves
    assert "\n    ~ CannotCreate: " in moves
    assert "; goes on when pod db-0 is Ready" in moves
    assert "For details: rebalancer explain" in moves
    details = ExplanationDetails(moving=frozenset({arriving.workload}))
    rests, moves = (
        explanation_text(explain_workload(arriving.workload, seen.assessment, seen.plan, snapshot, one))
        for one in (ExplanationDetails(), details)
    )
    assert rests.startswith("shop/db (StatefulSet): Stays (CannotCreate)\n")
    assert "Unfixable: skew 3" in rests
    assert moves.startswith("shop/db (StatefulSet): Waits (CannotCreate)\n")
    assert "Violated: skew 3" in moves
    assert "When does that end?\n  goes on when pod db-0 is Ready" in moves


def test_pods_that_only_wait_for_a_node_violate_nothing_while_others_move_either() -> None:
    blueprint = a_cluster("ab", on={"a-1": 2, "b-1": 2, "c-1": 1}, spread={ZONE: 1}, replicas=6)
    blueprint.node("c-1", zone="c", cpu=100)
    simulation = Simulation(SimulatedCluster(blueprint.snapshot(), seed=1), generous())
    simulation.cycles(2)  # the sixth pod is created
    assert simulation.runner.state.cycle is not None
    seen = look(simulation.runner.state.cycle.snapshot, generous())
    document = plan_document(seen.plan, seen.snapshot, acting="mode Evict")
    moving = move("web-1", seen.snapshot.taken_at)
    assert plan_text(mark_moving(document, [moving])) == plan_text(document)


@pytest.mark.parametrize("late", [{"ready": False}, {"created": START}])
def test_the_next_pod_is_not_promised_while_others_may_not_go_yet(late: dict[str, Any]) -> None:
    """Once db-1 is Ready, db-2 and db-4 may go, too; and db-1 itself, once it is old enough."""
    held = database({"a-1": 4, "b-1": 1})
    for unready in (False, True):
        pods = [structs.replace(pod, **late) if unready and pod.name == "db-1" else pod for pod in held.pods]
        snapshot = replace(held, pods=pods)
        arriving = move("db-1", snapshot.taken_at, workload=Reference("shop", "StatefulSet", "db"), namespace="shop")
        seen = look(snapshot, a_policy(), structs.replace(NO_MEMORY, moves=(arriving,)))
        text = plan_text(plan_document(seen.plan, snapshot, acting="mode Evict"))
        waiting = [line for line in text.splitlines() if line.startswith("    ~ db-")]
        assert waiting
        assert all(("or another pod" in line) == unready for line in waiting), text
