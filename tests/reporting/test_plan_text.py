"""What `plan` and `explain` print: before and after, why, what waits, the proof, and how certain it is."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from textwrap import dedent

import msgspec
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder, SimulatedCluster
from rebalancer.advice.constraints import SuggestedSpread, combine, constraint_for_limit, constraints_yaml
from rebalancer.assessment.assess import Assessment, assess
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.moves import NO_MEMORY, FailedPrediction, Memory, Reference
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan
from rebalancer.policy import Policy, load_policy
from rebalancer.reporting.documents.explanation import explain_pod, explain_workload
from rebalancer.reporting.documents.plan import Totals, plan_document
from rebalancer.reporting.expected_counts import decided_evictions, expected_counts, expected_worst
from rebalancer.reporting.phrases import counts_change, proof_text
from rebalancer.reporting.text.explanation import explanation_text
from rebalancer.reporting.text.plan import plan_text
from rebalancer.scheduling.view import View
from tests.controller.simulated import Simulation

HEAD = """
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
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
    return load_policy((HEAD + "".join(limits)).encode(), source="policy.yaml")


@dataclass
class Seen:
    """One look: everything that is made of it."""

    snapshot: Snapshot
    view: View
    assessment: Assessment
    plan: Plan

    def text(self) -> str:
        return plan_text(self.plan, self.snapshot, mode="Evict", satisfied=0)

    def explained(self, name: str = "web") -> str:
        reference = Reference("default", "Deployment", name)
        return explanation_text(explain_workload(reference, self.assessment, self.plan, self.snapshot))

    def pod(self, name: str) -> str:
        (found,) = (pod for pod in self.snapshot.pods if pod.name == name)
        return explanation_text(explain_pod(found, self.view, self.assessment, self.plan))


def look(snapshot: Snapshot, policy: Policy, memory: Memory = NO_MEMORY) -> Seen:
    view = View(snapshot)
    assessment = assess(view, policy, memory)
    return Seen(snapshot, view, assessment, plan(view, assessment, policy, memory))


def crowded(cpu: int = 600) -> Snapshot:
    """Ten pods as 4/2/1/1/1/1 over six nodes, maxSkew 3: all that the constraint asks for, and too many on one node."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    on = {"a-1": 4, "a-2": 2, "b-1": 1, "b-2": 1, "c-1": 1, "c-2": 1}
    blueprint.deployment("web", on=on, spread={HOSTNAME: 3}, cpu=cpu)
    return blueprint.snapshot()


def test_a_predicted_repair_of_a_limit() -> None:
    """The limit before and after, where the replacement may land, and that nothing forces it there."""
    seen = look(crowded(), rules(THIRD, HALF))
    name = seen.plan.evictions[0].pod.name
    assert seen.text() == dedent(f"""\
        Snapshot of 2026-01-01 00:00:00Z, policy {seen.plan.policy_hash}, mode Evict.
        1 eviction (proved minimum): 1 now, 0 waiting

        ! default/web (Deployment)  Violated  1 eviction (proved minimum)
            node (maxSkew 3): a-1:4 a-2:2 b-1:1 b-2:1 c-1:1 c-2:1
            limit shop/third of Deployment/web (maxShare <=1/3 per node): 4 of 10 (40%) in a-1 -> at most 3 of 10 (30%)
            1  {name}  a-1 -> node b-1/b-2/c-1/c-2  (predicted, not forced)
               node a-1 holds 4, the emptiest 1, limit shop/third (maxShare <=1/3)

        All other workloads: none.
        Nothing was changed.
        """)
    told = seen.pod(name)
    assert "its replacement is expected in node b-1, b-2, c-1, c-2: predicted, not forced" in told
    assert "How many evictions does the repair take?\n  1 eviction (proved minimum)\n" in told
    other = next(pod.name for pod in seen.snapshot.pods if pod.name != name)
    assert f"the repair does not need this eviction; {name} is evicted instead" in seen.pod(other)


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


def test_what_is_not_forced_comes_with_the_constraint_to_paste() -> None:
    """After three misses the group is left alone, and its owner is told what would help."""
    first = look(crowded(), rules(THIRD))
    misses = tuple(FailedPrediction(group.name, 3, first.snapshot.taken_at) for group in first.plan.groups)
    seen = look(crowded(), rules(THIRD), msgspec.structs.replace(NO_MEMORY, failed_predictions=misses))
    assert FORCING in seen.explained()
    assert FORCING in seen.pod(seen.snapshot.pods[0].name)
    assert "\n    NotForced: 3 moves in a row" in seen.text()
    assert "\n    For details: rebalancer explain deployment/web -n default\n" in seen.text()


def test_what_is_proved_and_cannot_be_done_is_not_planned() -> None:
    """The totals of a plan with nothing in it: none planned, one needed, which is out of reach; not optimal."""
    first = look(crowded(), rules(THIRD))
    misses = tuple(FailedPrediction(group.name, 3, first.snapshot.taken_at) for group in first.plan.groups)
    seen = look(crowded(), rules(THIRD), msgspec.structs.replace(NO_MEMORY, failed_predictions=misses))
    assert plan_document(seen.plan, seen.snapshot).totals == Totals(
        evictions=0, now=0, lower_bound=1, out_of_reach=1, optimal=False
    )
    lines = seen.text().splitlines()
    needed = "1 eviction (proved minimum) is needed for violations that cannot be repaired now"
    assert lines[1] == f"no eviction is possible now; {needed}"
    takes = "1 eviction (proved minimum), but no safe step is possible now"
    assert lines[3] == f"x default/web (Deployment)  Unfixable  {takes}"
    assert f"How many evictions does the repair take?\n  {takes}\n" in seen.explained()
    asked = "Is limit shop/third (maxShare <=1/3 per kubernetes.io/hostname, Deployment/web) satisfied?"
    assert f"{asked}\n  Unfixable\n" in seen.explained()
    whole = plan_document(first.plan, first.snapshot).totals
    assert whole == Totals(evictions=1, now=1, lower_bound=1, out_of_reach=0, optimal=True)


def test_what_is_repaired_beside_what_cannot_be() -> None:
    """Each has its own number; a budget that never has room is not waited for."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    for name in ("web", "shy"):
        blueprint.deployment(name, on={"a-1": 6}, spread={ZONE: 1})
    blueprint.budget("shy", app="shy", min_available=6)
    seen = look(blueprint.snapshot(), rules(HALF))
    assert seen.text().splitlines()[1] == (
        "3 evictions (proved minimum): 2 now, 1 waiting; "
        "3 more evictions (proved minimum) are needed for violations that cannot be repaired now"
    )
    totals = plan_document(seen.plan, seen.snapshot).totals
    assert (totals.now, totals.lower_bound, totals.out_of_reach, totals.optimal) == (2, 6, 3, False)


def test_what_comes_once_a_move_is_over_comes_later() -> None:
    """Nothing of it is decided yet, and it can be had."""
    first = look(crowded(), rules(THIRD))
    (group,) = first.plan.groups
    waits = structs.replace(group, reason=Reason.GROUP_IN_FLIGHT, message="a move is to be verified first")
    first.plan = replace(first.plan, groups=(waits,), evictions=())
    assert first.text().splitlines()[1] == "1 eviction (proved minimum): 0 now, 0 waiting, 1 later"


def test_a_repair_of_a_part_is_counted_as_one() -> None:
    """What goes for a group that cannot be brought right is beside what it would take."""
    seen = look(crowded(), rules(THIRD))
    (group,) = seen.plan.groups
    partly = structs.replace(group, state=State.UNFIXABLE, evictions=4, lower_bound=4)
    seen.plan = replace(seen.plan, groups=(partly,))
    assert seen.text().splitlines()[1] == (
        "1 eviction: 1 now, 0 waiting; 1 repairs only part of a violation; "
        "4 evictions (proved minimum) are needed for violations that cannot be repaired now"
    )


def test_a_limit_that_only_alerts() -> None:
    """Nothing is evicted for it; who asks is told so, and what would hold it."""
    seen = look(crowded(), rules(HALF))
    assert seen.plan.groups == ()
    told = seen.pod(seen.snapshot.pods[0].name)
    assert "Is it evicted?\n  no\n  limit shop/half is not repaired by eviction\n" in told
    assert "maxSkew: 3\n    whenUnsatisfiable: DoNotSchedule" in told


def test_limits_that_hold_are_counted() -> None:
    """Those in the way of a repair are named only where they are broken."""
    held = SPREAD.replace("}", ", action: Evict}")
    seen = look(crowded(), rules(THIRD, held))
    assert "\n    1 limit on these pods is satisfied\n" in seen.text()
    assert "limit shop/spread" not in seen.text()


def test_what_waits_and_what_stays() -> None:
    """Pods of one reason stand together, each with its reason once."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    blueprint.deployment("web", on={"a-1": 6, "a-2": 6, "b-1": 6, "b-2": 6}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    excluded = [
        msgspec.structs.replace(pod, annotations=Labels({"rebalancer.dev/exclude": "true"})) if number < 2 else pod
        for number, pod in enumerate(snapshot.pods)
    ]
    seen = look(replace(snapshot, pods=tuple(excluded)), rules(HALF))
    lines = seen.text().splitlines()
    (waits,) = (line for line in lines if " wait  " in line)
    (stays,) = (line for line in lines if " are not evicted  " in line)
    assert " and 1 more wait  BlockedByBudget: " in waits
    assert ", ".join(pod.name for pod in excluded[:2]) + " are not evicted  Excluded: " in stays
    assert "8 evictions (proved minimum): 2 now, 6 waiting" in lines[1]


@pytest.mark.parametrize(
    ("evictions", "least", "text"),
    [
        (2, 2, "2 evictions (proved minimum)"),
        (1, 1, "1 eviction (proved minimum)"),
        (5, 3, "5 evictions (lower bound 3, gap 2)"),
    ],
)
def test_the_proof(evictions: int, least: int, text: str) -> None:
    """Proved, or how far from it."""
    assert proof_text(evictions, least) == text


def test_many_domains_are_summed_up() -> None:
    """Before and after; where that is not known, before alone."""
    before = {f"n-{number}": number for number in range(20)}
    assert counts_change(before, {}) == counts_change(before, before) == "0 to 19 over 20 domains"
    assert counts_change(before, {**before, "n-19": 18}) == "0 to 19 over 20 domains -> 0 to 18 over 20 domains"
    assert counts_change({}, {}) == "no domains"


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=2), min_size=2, max_size=3), st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_it_comes_as_it_says(counts: list[list[int]], seed: int) -> None:
    """Where everything goes at once, what was said to be certain is what comes, and no bound is exceeded."""
    blueprint = ClusterBuilder()
    on = {}
    for zone, nodes in zip("abc", counts, strict=False):
        blueprint.zones([zone], len(nodes))
        on.update({f"{zone}-{number}": held for number, held in enumerate(nodes, start=1)})
    assume(sum(on.values()) >= 2)
    blueprint.deployment("web", on=on, spread={ZONE: 4}, cpu=600)
    policy = rules(HALF.replace("}", ", action: Evict}"), THIRD)
    seen = look(blueprint.snapshot(), policy)
    assume(seen.plan.evictions and not seen.plan.waiting)
    (group,) = seen.plan.groups
    going = decided_evictions(seen.plan)[group.name]
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
        if all(len(target.values) == 1 for each in going for target in each.targets if target.topology_key == key):
            assert {domain: stand[domain] for domain in expected} == expected
    for found, limit in zip(worst, look(snapshot, policy).assessment.limits, strict=True):
        if found is not None:
            number, certain = found
            assert limit.maximum == number if certain else limit.maximum <= number


def spreads(pods: int, domains: int, skew: int) -> list[int]:
    """Return the fullest domain of every arrangement within a skew."""
    every = combinations_with_replacement(range(pods + 1), domains)
    return [counts[-1] for counts in every if sum(counts) == pods and counts[-1] - counts[0] <= skew]


def test_all_that_would_force_it_is_one_answer() -> None:
    """Two limits over two keys: one question, one list to paste; over one key the tighter constraint gives both."""
    tight = "  - {name: tight, topologyKey: kubernetes.io/hostname, maxPods: 2}\n"
    seen = look(crowded(), rules(THIRD, HALF, tight))
    (found,) = (pod for pod in seen.snapshot.pods[:1])
    asked = explain_pod(found, seen.view, seen.assessment, seen.plan).path
    assert [number for number in Counter(each.question for each in asked).values() if number > 1] == []
    (answer,) = (each for each in asked if each.question == "Which constraint would enforce it?")
    constraints = yaml.safe_load(answer.evidence)["topologySpreadConstraints"]
    assert [(each["topologyKey"], each["maxSkew"]) for each in constraints] == [(HOSTNAME, 1), (ZONE, 3)]
    assert answer.answer == (
        f"with these constraints, no domain of {HOSTNAME} can hold more than 3 of 10 pods; "
        f"no domain of {HOSTNAME} can hold more than 2 of 10 pods; no domain of {ZONE} can hold more than 5 of 10 pods"
    )


def test_what_a_template_cannot_have_twice_is_asked_apart() -> None:
    """Kubernetes takes one hard constraint for a key: one on other pods over that key can only stand in its stead."""

    def wanted(key: str, skew: int, app: str, gives: str = "that") -> SuggestedSpread:
        return SuggestedSpread(topology_key=key, max_skew=skew, selector=LabelSelector.of({"app": app}), effect=gives)

    soft = wanted(ZONE, 3, "web", "the scheduler enforces what the soft constraint only prefers")
    first, others = combine([wanted(ZONE, 2, "web"), wanted(ZONE, 1, "db"), soft, wanted(HOSTNAME, 1, "db")])
    assert list(first) == [wanted(ZONE, 2, "web"), wanted(HOSTNAME, 1, "db")]
    assert list(others) == [wanted(ZONE, 1, "db")]
    tighter, _ = combine([wanted(ZONE, 5, "web"), soft])
    assert [(each.max_skew, each.effect) for each in tighter] == [
        (3, "that; the scheduler enforces what the soft constraint only prefers")
    ]


def suggested(pods: int, domains: int, bound: str) -> SuggestedSpread | None:
    """Put all pods on one of so many nodes and ask what would force a limit."""
    blueprint = ClusterBuilder()
    blueprint.zones("a", domains)
    blueprint.deployment("web", on={"a-1": pods})
    limit = f"  - {{name: some, topologyKey: kubernetes.io/hostname, {bound}}}\n"
    (judged,) = look(blueprint.snapshot(), rules(limit)).assessment.limits
    return constraint_for_limit(judged)


@pytest.mark.parametrize(("pods", "domains"), list(product((2, 5, 9), (2, 4))))
def test_the_constraint_to_paste_guarantees_the_limit(pods: int, domains: int) -> None:
    """Against every arrangement that it allows; a looser one would not, and none is named where none is enough."""
    for cap in range(1, pods + 1):
        found = suggested(pods, domains, f"maxPods: {cap}")
        possible = cap * domains >= pods
        assert (found is not None) is possible
        if found is not None:
            assert max(spreads(pods, domains, found.max_skew)) <= cap
            assert found.max_skew == cap or max(spreads(pods, domains, found.max_skew + 1)) > cap


def test_what_minima_and_differences_come_to() -> None:
    """A difference is maxSkew itself; a minimum is the loosest one that leaves every domain so much."""
    even = suggested(10, 5, "maxSkew: 2")
    least = suggested(10, 5, "minPods: 2")
    assert even is not None
    assert least is not None
    assert (even.max_skew, even.effect) == (2, "domains of kubernetes.io/hostname differ by at most 2 pods")
    assert (least.max_skew, least.effect) == (1, "each domain of kubernetes.io/hostname holds at least 2 of 10 pods")


def test_selectors_are_written_as_kubernetes_has_them() -> None:
    """Labels with one value, and expressions for all else."""
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


def test_a_soft_constraint_is_shown_as_a_hard_one() -> None:
    """A cluster default too: nothing is evicted for it, and what would hold it can be pasted."""
    blueprint = ClusterBuilder()
    blueprint.zones("a", 2)
    blueprint.deployment("web", on={"a-1": 6})
    told = look(blueprint.snapshot(), rules(HALF)).explained()
    answer = "with this constraint, the scheduler enforces what the soft constraint only prefers"
    assert f"  {answer}\n  topologySpreadConstraints:\n" in told
    assert "  - topologyKey: kubernetes.io/hostname\n    maxSkew: 3\n    whenUnsatisfiable: DoNotSchedule\n" in told


def test_where_every_constraint_is_hard_already() -> None:
    """There is none to paste, and it says so."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 4}, spread={ZONE: 1})
    seen = look(blueprint.snapshot(), rules(SPREAD))
    (group,) = seen.plan.groups
    alone = structs.replace(group, state=State.UNFIXABLE, reason=Reason.NOT_FORCED, message="as told")
    seen.plan = replace(seen.plan, groups=(alone,), evictions=(), waiting=())
    assert "Which constraint would enforce it?\n  none\n  its constraints are hard already" in seen.explained()


@pytest.mark.parametrize("changes", ["", ", groupBy: [app]", ", selector: {matchLabels: {app: web}}"])
def test_the_selector_to_paste_is_that_of_the_pods(changes: str) -> None:
    """The workload's own, with the labels that a finer limit divides by or selects."""
    found = suggested(4, 4, f"maxPods: 2{changes}")
    assert found is not None
    assert found.selector == LabelSelector.of({"app": "web"})


def test_pods_that_labels_do_not_tell() -> None:
    """A limit on a label that the template lacks has no constraint to paste."""
    blueprint = ClusterBuilder()
    blueprint.zones("a", 4)
    blueprint.deployment("web", on={"a-1": 4})
    snapshot = blueprint.snapshot()
    roles = [msgspec.structs.replace(pod, labels=Labels({**pod.labels, "role": "master"})) for pod in snapshot.pods]
    limit = "  - {name: some, topologyKey: kubernetes.io/hostname, maxPods: 2, groupBy: [role]}\n"
    (judged,) = look(replace(snapshot, pods=tuple(roles)), rules(limit)).assessment.limits
    assert constraint_for_limit(judged) is None


@pytest.mark.parametrize("bound", ['maxShare: "<=1/3", within: topology.kubernetes.io/zone', "maxPods: 1"])
def test_what_no_single_constraint_gives(bound: str) -> None:
    """A bound within a larger domain, or one that no arrangement meets."""
    assert suggested(9, 4, bound) is None


def test_what_frees_a_waiting_pod_promises_no_counts() -> None:
    """Who was waiting comes in, nobody says where; limits are left as they are then, too."""
    seen = look(crowded(), rules(THIRD))
    (group,) = seen.plan.groups
    (eviction,) = seen.plan.evictions
    freeing = msgspec.structs.replace(eviction, repair=replace(eviction.repair, cause=Cause.PLACEMENT_DEADLOCK))
    assert expected_counts(group, [freeing], seen.snapshot) == {}
    assert expected_worst(group.limits[0], [freeing], seen.snapshot) is None
    assert expected_counts(group, [], seen.snapshot) == group.after
