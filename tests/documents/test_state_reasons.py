"""What planning knows of a limit is what the report and the metrics say of it, as it is of constraints."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.admit import Paused
from rebalancer.admission.rights import RightMissing
from rebalancer.controller.cycle import Cycle
from rebalancer.documents.phrases import component_text
from rebalancer.documents.report import ReportDocument, ReportedLimit, report_document
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.moves import NO_MEMORY, FailedPrediction, Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.reporting.text.report import report_text
from rebalancer.simulator import HOSTNAME, ZONE
from tests.admission.test_admit import assess_and_plan
from tests.admission.test_admit import rules as admission_rules
from tests.build import a_cluster, a_layout
from tests.controller.cycles import cycle_of
from tests.drawing import examples
from tests.reporting.text.test_plan import HALF, THIRD, crowded, look, rules
from tests.reports import cycle_report, rows_of, state_of

EVICTED_FOR = HALF.replace("}", ", action: Evict}")


def cycle(snapshot: Snapshot, policy: Policy, memory: Memory = NO_MEMORY) -> Cycle:
    return cycle_of(snapshot, policy, memory=memory)


def missed(snapshot: Snapshot, policy: Policy) -> Memory:
    """Remember three misses of everything that is planned for: where nothing is forced, nothing is tried again."""
    groups = look(snapshot, policy).plan.components
    return structs.replace(
        NO_MEMORY, failed_predictions=tuple(FailedPrediction(group.name, 3, snapshot.taken_at) for group in groups)
    )


def report(done: Cycle) -> ReportDocument:
    return cycle_report(done)


def exported_states(done: Cycle) -> Mapping[str, str]:
    """Return the state of each limit that the metrics show."""
    rows = rows_of(state_of(done), "rebalancer_limit_state")
    return {limit: str(state) for (_, limit, *_, state) in rows}


def limit_rows(done: Cycle) -> Mapping[str, ReportedLimit]:
    return {row.limit: row for row in report(done).limits}


def test_a_limit_that_nothing_forces_is_unfixable() -> None:
    """State, reason and the obstacle, and the constraint that would enforce it; an alert-only limit stays Violated."""
    policy = rules(THIRD, HALF)
    done = cycle(crowded(), policy, missed(crowded(), policy))
    rows = limit_rows(done)
    assert (rows["third"].state, rows["third"].reason) == ("Unfixable", "NotForced")
    assert rows["third"].obstacle.startswith("3 replacements in a row were not placed as predicted")
    assert (rows["half"].state, rows["half"].reason, rows["half"].obstacle) == ("Violated", None, "")
    assert exported_states(done) == {"third": "Unfixable", "half": "Violated"}
    text = report_text(report(done))
    assert f"\ndefault Deployment/web: shop/third: NotForced: {rows['third'].obstacle}\n" in text
    assert (
        "\ndefault Deployment/web: shop/third: A DoNotSchedule constraint with maxSkew 2 on node enforces the limit: "
        "no domain can hold more than 3 of 10 pods; rebalancer explain prints it.\n"
    ) in text
    assert text.endswith("\n0 of 2 limits are satisfied.\n")


def test_what_is_being_repaired_is_violated() -> None:
    """A step goes now: nothing stands in its way."""
    row = limit_rows(cycle(crowded(), rules(THIRD)))["third"]
    assert (row.state, row.reason, row.obstacle) == ("Violated", None, "")


def test_what_waits_for_a_budget_is_violated_and_says_so() -> None:
    """It is repaired as soon as the budget has room; a pod of it is unready."""
    blueprint = a_cluster("abc", 1, {"a-1": 9}, spread={HOSTNAME: 1})
    blueprint.budget("web", min_available=8)
    snapshot = blueprint.snapshot()
    policy = rules(THIRD)
    used_up = tuple(structs.replace(budget, allowed=0) for budget in snapshot.budgets)
    done = cycle(replace(snapshot, budgets=used_up), policy)
    assert not done.plan.fates.going
    row = limit_rows(done)["third"]
    assert (row.state, row.reason) == ("Violated", "BlockedByBudget")
    assert row.guaranteed
    assert "enforces the limit" not in row.remedy


def test_infeasible_stays_infeasible() -> None:
    """Arithmetic has the first word: its reason and its state are not those of the pods around it."""
    done = cycle(a_cluster("ab", 1, {"a-1": 4}, spread={ZONE: 1}).snapshot(), rules(THIRD))
    row = limit_rows(done)["third"]
    assert (row.state, row.reason) == ("Infeasible", "TooFewDomains")
    assert list(exported_states(done).values()) == ["Infeasible"]
    assert report_text(report(done)).endswith("\n0 of 1 limit is satisfied.\n")


def test_what_no_placement_satisfies_together_is_infeasible() -> None:
    """Even over four nodes, and half of it in a zone that has three of them: alone, each can be satisfied."""
    blueprint = a_cluster("a", 3)
    blueprint.zones("b", 1)
    blueprint.deployment("web", on={"a-1": 2, "a-2": 2, "a-3": 2, "b-1": 2}, spread={HOSTNAME: 1})
    done = cycle(blueprint.snapshot(), rules(EVICTED_FOR))
    row = limit_rows(done)["half"]
    assert (row.state, row.reason) == ("Infeasible", "NoArrangement")
    assert "no placement of" in row.obstacle
    assert list(exported_states(done).values()) == ["Infeasible"]


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=2), min_size=2, max_size=3), st.booleans(), st.booleans()
)
@examples(25)
def test_report_metrics_and_plan_say_the_same(counts: list[list[int]], excluded: bool, tried: bool) -> None:
    """Whatever stands in the way of whichever limit; a limit that nothing is evicted for is as its counts are."""
    blueprint, on = a_layout(counts)
    assume(sum(on.values()))
    blueprint.deployment("web", on=on, spread={ZONE: 4})
    snapshot = blueprint.snapshot()
    if excluded:
        left = Labels({"rebalancer.dev/exclude": "true"})
        pods = tuple(structs.replace(pod, annotations=left) for pod in snapshot.pods)
        snapshot = replace(snapshot, pods=pods)
    policy = rules(EVICTED_FOR, THIRD.replace(", action: Evict", ""))
    done = cycle(snapshot, policy, missed(snapshot, policy) if tried else NO_MEMORY)
    planned = {limit.limit: group for group in done.plan.components for limit in group.limits}
    rows, exported = limit_rows(done), exported_states(done)
    for limit in done.assessment.limits:
        row, group = rows[limit.limit], planned.get(limit.limit)
        if group is not None and limit.state == "Violated":
            assert (row.state, row.reason, row.obstacle) == (group.state, group.reason, component_text(group))
        else:
            assert (row.state, row.reason, row.obstacle) == (limit.state, limit.reason, "")
        assert exported[limit.limit] == row.state


def test_workloads_with_the_same_message_share_one_line() -> None:
    """Two workloads with one cause and one remedy share a line."""
    blueprint = a_cluster("ab", 1)
    for name in ("cart", "web"):
        blueprint.deployment(name, on={"a-1": 8}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    nodes = tuple(structs.replace(node, ready=node.name != "b-1") for node in snapshot.nodes)
    text = report_text(report(cycle(replace(snapshot, nodes=nodes), rules(EVICTED_FOR))))
    waits = [line for line in text.splitlines() if "NodeSettling" in line and "shop/half" in line]
    assert [line.partition(": ")[0] for line in waits] == ["default Deployment/cart, Deployment/web"]


@pytest.mark.parametrize("pods", [(2, 2), (3, 1)])
def test_what_the_pods_own_constraints_guarantee_is_reported(pods: tuple[int, int]) -> None:
    """In the row of a limit that does not hold, and in the count of those that do."""
    snapshot = a_cluster("ab", 1, dict(zip(("a-1", "b-1"), pods, strict=True)), spread={ZONE: 1}).snapshot()
    last = report_text(report(cycle(snapshot, rules(HALF)))).splitlines()
    if pods == (2, 2):
        assert last[-1] == "1 of 1 limit is satisfied; the pods' own constraints guarantee it."
    else:
        row = ["shop/half", "default", "Deployment/web", "Violated", "warning", "once"]
        assert row in [line.split()[:6] for line in last]
        assert last[-1] == "0 of 1 limit is satisfied."


@pytest.mark.parametrize("refusal", [Paused("paused by alice: drill"), RightMissing("one", True)])
def test_the_report_names_what_keeps_every_eviction_of_a_repair_back(refusal: Refusal) -> None:
    """A pause and a missing right are no refusals of planning; where one eviction goes, the repair goes on."""
    _, assessment, made = assess_and_plan(admission_rules())
    first = made.fates.evictions[0].pod.uid

    def reported(going: str) -> str:
        fates = made.fates.hold(lambda one: None if one.pod.uid == going else refusal)
        document = report_document(assessment, structs.replace(made, fates=fates), {}, ())
        return report_text(document).replace("\n  ", " ")

    assert reported("").count(f"/web (Deployment): {refusal.reason}: {refusal}\n") == 2
    assert reported(first).count(f"/web (Deployment): {refusal.reason}: {refusal}\n") == 1
