"""A placement deadlock is reported in the report, in the refusals and by events, once."""

from rebalancer.account.account import Account
from rebalancer.account.happened import MOST_DEADLOCKS, find_deadlocked
from rebalancer.documents.report import ReportDocument
from rebalancer.documents.status import count_refusals
from rebalancer.engine import evaluate
from rebalancer.planning.fates import NO_FATES
from rebalancer.reporting.text.report import report_text
from tests.assessment.test_deadlocks import find, three_shards
from tests.controller.simulated import eager
from tests.documents.events.build import about
from tests.reports import full_report


def report(name: str = "") -> ReportDocument:
    evaluation = evaluate(three_shards(), eager())
    view, assessment, made = evaluation.view, evaluation.assessment, evaluation.plan
    return full_report(view, assessment, made, eager(), lambda workload: name in workload.name)


def test_the_report_names_pod_and_rules() -> None:
    """As a row and in the table; not where another workload is asked about."""
    (row,) = report().deadlocks
    assert (row.namespace, row.pod) == ("cache", "one-2-1")
    assert "\ncache/one-2-1: PlacementDeadlock: kubernetes.io/hostname (maxSkew 1) admits c1; " in report_text(report())
    assert report("one-1").deadlocks == ()


def test_it_counts_among_the_refusals() -> None:
    """Alerts read the metric that is made from this."""
    made = evaluate(three_shards(), eager()).plan
    account = Account(plan=made, numbers={}, fates=NO_FATES, moves=())
    assert count_refusals(account, 2)["PlacementDeadlock"] == 2
    assert "PlacementDeadlock" not in count_refusals(account, 0)


def test_events_are_created_once() -> None:
    """On the pod and on its owner when it starts, not again; again when it comes back; at most so many in a cycle."""
    stuck = find(three_shards())
    new, reported = find_deadlocked(frozenset(), stuck)
    assert [(event.regarding.kind, event.regarding.name, event.type) for event in about(new)] == [
        ("Pod", "one-2-1", "Warning"),
        ("StatefulSet", "one-2", "Warning"),
    ]
    assert find_deadlocked(reported, stuck) == ([], reported)
    assert find_deadlocked(reported, ()) == ([], frozenset())
    many = stuck * (MOST_DEADLOCKS + 1)
    assert len(about(find_deadlocked(frozenset(), many)[0])) == 2 * MOST_DEADLOCKS
