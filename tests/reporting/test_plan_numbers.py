"""One set of numbers: text, JSON, metrics, status and explanations of one plan never disagree."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from msgspec import structs

from rebalancer.account.numbers import PlanNumbers, add_numbers, group_numbers, plan_numbers
from rebalancer.admission.rates import RateReached
from rebalancer.controller.account import find_account
from rebalancer.controller.cycle import Cycle
from rebalancer.documents.explanation import MOVES, ExplanationDetails, explain_pod, explain_workload
from rebalancer.documents.phrases import NO_CONTROLLER
from rebalancer.documents.plan import PlanDocument, plan_document
from rebalancer.model.labels import Labels
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Amount, Budgets, Policy, load_policy
from rebalancer.reporting.text.explanation import explanation_text
from rebalancer.reporting.text.plan import plan_text
from rebalancer.reporting.text.report import report_text
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.controller.cycles import cycle_of
from tests.planning.clusters import sharing
from tests.reports import cycle_report, rows_of, state_of

PARTS = ("now", "waiting", "later", "blocked")
LIMIT = """
- name: all
  selector: {}
  limits: [{name: zone, topologyKey: topology.kubernetes.io/zone, maxShare: "<=1/2", action: Evict}]
"""
POLICY = """
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Evict
eligibility: {minAge: 0s}
nodes: {settle: 0s}
spread: {for: 0s}
groups: GROUPS
"""


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Snapshot, Policy]:
    """Draw a cluster and a policy: workloads over zones of nodes, alone or sharing, budgets, limits, excluded pods."""
    blueprint, nodes = ClusterBuilder(), []
    for zone in "abc"[: draw(st.integers(2, 3))]:
        size = draw(st.integers(1, 3))
        blueprint.zones(zone, size)
        nodes += [f"{zone}-{number}" for number in range(1, size + 1)]
    for name in ("web", "db", "cart")[: draw(st.integers(1, 3))]:
        on = {node: number for node in nodes if (number := draw(st.integers(0, 4)))}
        spread = draw(st.sampled_from([{ZONE: 1}, {ZONE: 1, HOSTNAME: 1}, {ZONE: 2, HOSTNAME: 3}, {}]))
        pending = draw(st.sampled_from([0, 0, 0, 1]))
        blueprint.deployment(name, on=on, spread=spread, replicas=sum(on.values()) + pending)
        allowed = draw(st.sampled_from([None, None, 0, 1, 2]))
        if allowed is not None:
            blueprint.budget(name, max_unavailable=allowed)
    snapshot = blueprint.snapshot()
    if draw(st.sampled_from([False, False, True])):
        snapshot = sharing(snapshot)
    excluded = draw(st.sets(st.integers(0, 12), max_size=3))
    rules = POLICY.replace("GROUPS", draw(st.sampled_from(["[]", LIMIT])))
    policy = load_policy(rules.encode(), source="policy.yaml").model_copy(
        update={"budgets": Budgets(max_unavailable=Amount(value=draw(st.integers(1, 4))), per_workload=Amount(value=4))}
    )
    return exclude(snapshot, excluded), policy


def states() -> st.SearchStrategy[Cycle]:
    """Return cycles over the clusters."""
    return clusters().map(lambda drawn: cycle_of(*drawn))


def exclude(snapshot: Snapshot, numbers: set[int]) -> Snapshot:
    """Annotate these pods so that they are never evicted."""
    mark = Labels({"rebalancer.dev/exclude": "true"})
    changed = (
        structs.replace(pod, annotations=mark) if number in numbers else pod for number, pod in enumerate(snapshot.pods)
    )
    return replace(snapshot, pods=tuple(changed))


def numbers_in(text: str) -> Mapping[str, int]:
    """Return the parts that a text lists, such as `1 now, 3 waiting`."""
    return {name: int(number) for number, name in re.findall(r"(\d+) (now|waiting|later|blocked)\b", text)}


def nonzero(numbers: PlanNumbers) -> Mapping[str, int]:
    return {name: getattr(numbers, name) for name in PARTS if getattr(numbers, name)}


def summary_numbers(line: str) -> Mapping[str, int]:
    """Return what the summary says: evictions now, those that follow, and those that are blocked."""
    matches = {
        "now": re.search(r"^(?:Would move )?(\d+) pods? (?:to move )?now", line),
        "following": re.search(r"(\d+) more in later cycles", line),
        "blocked": re.search(r"(\d+) blocked \(", line),
    }
    return {name: int(match[1]) for name, match in matches.items() if match is not None}


def check_idle(cycle: Cycle) -> None:
    """Check that nothing is said to move where the controller moves nothing, and that the numbers stay."""
    plan, snapshot, idle = cycle.plan, cycle.snapshot, "mode Observe moves none"
    acts, rests = (plan_text(plan_document(plan, snapshot, acting="mode", idle=one)) for one in ("", idle))
    assert "moves now" not in rests
    for before, after in zip(acts.splitlines()[1:2], rests.splitlines()[1:2], strict=True):
        assert summary_numbers(before) == summary_numbers(after)
        assert (idle in after) == bool(plan_numbers(plan).now) == ("to move now" in before and before != after)
    details = ExplanationDetails(find_idle=lambda: idle)
    for workload in {workload for group in plan.components for workload in group.workloads}:
        explained = explain_workload(workload, cycle.assessment, plan, snapshot, details)
        assert (explained.idle == idle) == (explained.verdict == MOVES)
        assert explanation_text(explained).count(f"{workload}: Moves") == 0
    for eviction in plan.fates.going:
        answers = explain_pod(eviction.pod, cycle.view, cycle.assessment, plan, details)
        assert [one.answer for one in answers.path if one.question == "Is it evicted?"] == [f"it would be now; {idle}"]


def check_unwatched(cycle: Cycle) -> None:
    """Check that nothing is said to go on where no controller runs, or to be repaired in part where nothing is now."""
    reached = RateReached("perMinute", 1, timedelta(seconds=27))
    plan, snapshot = structs.replace(cycle.plan, fates=cycle.plan.fates.hold(lambda _: reached)), cycle.snapshot
    texts = [plan_text(plan_document(plan, snapshot, acting="no controller runs", idle=NO_CONTROLLER))]
    details = ExplanationDetails(find_idle=lambda: NO_CONTROLLER)
    workloads = {workload for group in plan.components for workload in group.workloads}
    pods = [wait.eviction.pod for wait in plan.fates.waiting]
    explained = [
        *(explain_workload(one, cycle.assessment, plan, snapshot, details) for one in workloads),
        *(explain_pod(pod, cycle.view, cycle.assessment, plan, details) for pod in pods),
    ]
    texts += map(explanation_text, explained)
    for text in texts:
        assert not re.search(r"goes\s+on\s|27s", text)
        assert "Why is only part of it repaired?" not in text
    for text in texts[1:]:
        assert "Waits (" not in text or NO_CONTROLLER in " ".join(text.split()).partition("?")[0]
    heading = "WHY NOT REPAIRED, BESIDES THAT NO CONTROLLER RUNS"
    watched, unwatched = (report_text(cycle_report(cycle), idle=idle) for idle in ("", NO_CONTROLLER))
    assert unwatched.count(heading) == watched.count("WHY NOT REPAIRED")
    waiting = texts[len(texts) - len(pods) :]
    assert all("does not go on" in " ".join(text.split()) for text in waiting)


def check_plan(cycle: Cycle) -> None:
    """Check the numbers of evictions: text, JSON, metrics and explanations say the same of a plan."""
    plan, snapshot = cycle.plan, cycle.snapshot
    numbers, groups = plan_numbers(plan), group_numbers(plan)
    assert add_numbers(groups.values()) == numbers
    document = plan_document(plan, snapshot)
    check_document(document, numbers, groups)
    state = state_of(cycle)
    held = plan_numbers(structs.replace(plan, fates=find_account(state, cycle).fates))
    parts = {(part,): getattr(held, part) for part in PARTS}
    assert rows_of(state, "rebalancer_plan_evictions") == parts
    assert rows_of(state, "rebalancer_minimum_evictions") == {(): numbers.lower_bound}
    text = plan_text(plan_document(plan, snapshot, acting="mode Evict"))
    if plan.components:
        following = numbers.waiting + numbers.later
        expected = {"now": numbers.now, "following": following, "blocked": numbers.blocked}
        shown = summary_numbers(text.splitlines()[1])
        assert shown == {name: number for name, number in expected.items() if number or name == "now"}
    check_idle(cycle)
    check_unwatched(cycle)
    heads = [line for line in text.splitlines() if line.startswith(("! ", "x ")) and "/" in line]  # not the legend
    said = Counter(frozenset(numbers_in(line.rpartition("): ")[2]).items()) for line in heads)
    of_groups = Counter(frozenset(nonzero(one).items()) for one in groups.values())
    of_limits = Counter({frozenset[tuple[str, int]](): len(document.stuck)})
    assert said == of_groups + of_limits, text
    for group in plan.components:
        for workload in group.workloads:
            explained = explain_workload(workload, cycle.assessment, plan, snapshot)
            takes = [answer.answer for answer in explained.path if answer.question.startswith("How many evictions")]
            assert [numbers_in(answer) for answer in takes] == (
                [nonzero(groups[group.name])] if nonzero(groups[group.name]) else []
            )


def check_document(document: PlanDocument, numbers: PlanNumbers, groups: Mapping[str, PlanNumbers]) -> None:
    """Check that the totals are the sums of what is listed, and that optimal means what it says."""
    totals = document.totals
    assert totals.evictions == totals.now + totals.waiting + totals.later == numbers.evictions
    assert (len(document.evictions), len(document.waiting)) == (totals.now, totals.waiting)
    for part in PARTS:
        assert getattr(totals, part) == getattr(numbers, part) == sum(getattr(group, part) for group in document.groups)
    assert totals.optimal == (totals.evictions == totals.lower_bound)
    assert totals.lower_bound <= totals.evictions
    assert totals.blocked_lower_bound <= totals.blocked
    for group, one in zip(document.groups, groups.values(), strict=True):
        assert one.evictions + one.blocked >= group.evictions
        if group.state == State.VIOLATED and group.evictions and not one.partial:
            assert one.evictions == group.evictions
        if not one.now and not one.waiting:
            assert group.after == group.before
