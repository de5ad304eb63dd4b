"""Findings are in the report, in metrics, and in an exit code on request."""

from pathlib import Path

import pytest

from rebalancer.cli.main import main
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue
from rebalancer.documents.report import ReportDocument, WorkloadFilter, every_workload
from rebalancer.engine import evaluate
from rebalancer.model.reasons import FindingKind
from rebalancer.model.snapshot import Snapshot
from rebalancer.reporting.text.report import report_text
from rebalancer.simulator import ZONE
from tests.assessment.findings.build import cordoned, shop
from tests.assessment.findings.test_configuration import budget, budgets
from tests.build import a_state
from tests.controller.simulated import eager
from tests.reports import full_report, rows_of

WAITING = cordoned(shop({ZONE: 1}, a=2, b=2, c=2), "c-1")
EXAMPLE = str(Path(__file__).parents[2] / "docs" / "examples" / "zone-returned.json")


def report(snapshot: Snapshot, chosen: WorkloadFilter = every_workload) -> ReportDocument:
    evaluation = evaluate(snapshot, eager())
    return full_report(evaluation.view, evaluation.assessment, evaluation.plan, eager(), chosen)


def test_the_report_names_kind_object_and_remedy() -> None:
    """As a row and as a line; of the chosen workloads only."""
    document = report(WAITING)
    (row,) = document.findings
    assert (row.kind, row.object) == ("ReplacementBlocked", "default/web (Deployment)")
    assert "\nReplacementBlocked: default/web (Deployment): if web-" in report_text(document)
    assert report(WAITING, lambda _: False).findings == ()
    nobodys = budgets(budget("web", max_unavailable=0, selector=None))
    assert len(report(nobodys).findings) == 1
    assert report(nobodys, lambda _: True).findings == ()


def test_figures_of_a_cycle() -> None:
    """Every evaluated workload has a series, and each kind its number."""
    now = WAITING.taken_at
    state, _ = step(a_state(eager(), now), CycleDue(snapshot=WAITING), now)
    assert rows_of(state, "rebalancer_replacement_blocked") == {("default", "Deployment", "web"): 1}
    assert rows_of(state, "rebalancer_findings") == {(FindingKind.REPLACEMENT_BLOCKED,): 1}


def test_an_exit_code_for_findings(capsys: pytest.CaptureFixture[str]) -> None:
    """The example has a budget that never allows anything; only who asks for findings fails on it."""
    arguments = ["report", "--snapshot", EXAMPLE]
    assert main([*arguments, "--fail-on", "finding"]) == 3
    assert "BudgetAlwaysZero: PodDisruptionBudget shop/cart" in capsys.readouterr().out
    assert main([*arguments, "--fail-on", "finding", "-l", "app=web"]) == 0
    assert main([*arguments, "--fail-on", "infeasible"]) == 0
