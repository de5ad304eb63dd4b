"""Limits in the report: every one as data, the broken ones as a table."""

from rebalancer.documents.report import ReportDocument
from rebalancer.engine import evaluate
from rebalancer.model.snapshot import Snapshot
from rebalancer.reporting.text.report import report_text
from tests.assessment.limits.test_evaluate import NETEASE
from tests.assessment.redis import HOSTNAME, machines, redis
from tests.reports import full_report


def report(snapshot: Snapshot) -> ReportDocument:
    evaluation = evaluate(snapshot, NETEASE)
    return full_report(evaluation.view, evaluation.assessment, evaluation.plan, NETEASE)


SKEWED = redis(machines("abc", 2), [("a1", "b1"), ("a1", "c1"), ("a1", "a1")], skews={HOSTNAME: 1}, zones="abc")


def test_a_row_says_all_there_is() -> None:
    """Bound, cap, counts, the largest share exactly, headroom, state: what a dashboard or script needs."""
    rows = {(row.limit, *row.key.values()): row for row in report(SKEWED).limits}
    row = rows["R2-three-shards", "one"]
    assert (row.group, row.namespace, row.topology_key, row.bound) == ("redis", "cache", HOSTNAME, "maxShare <=1/3")
    assert (row.total, row.cap, row.headroom, row.state, row.reason) == (6, 2, -2, "Violated", "TooYoung")
    assert row.largest is not None
    assert (row.largest.domain, row.largest.count, row.largest.share) == ("a1", 4, 4 / 6)
    assert row.counts == {"a1": 4, "a2": 0, "b1": 1, "b2": 0, "c1": 1, "c2": 0}
    assert row.guaranteed  # its own maxSkew 1 over six nodes forbids it: scheduled before, or after a scaling
    assert rows["R7-three-shards", "one"].severity == "critical"
    assert rows["every-az", "one"].state == "Satisfied"


def test_the_broken_come_first_and_only_they_are_in_the_table() -> None:
    """Thousands of limits that hold are a number, not a page."""
    document = report(SKEWED)
    states = [row.state for row in document.limits]
    assert states == sorted(states, key=lambda state: state == "Satisfied")
    text = report_text(document)
    lines = [line for line in text.splitlines() if line.startswith("redis/")]
    assert len(lines) == sum(state != "Satisfied" for state in states)
    assert text.splitlines()[-1] == "3 of 7 limits are satisfied."


def test_a_large_cluster_is_not_written_out_node_by_node() -> None:
    """Above a hundred domains only those that hold a pod are named."""
    many = redis(machines("abc", 40), [("a1", "b1"), ("a2", "c1"), ("b2", "c2")], zones="abc")
    row = next(row for row in report(many).limits if row.topology_key == HOSTNAME)
    assert row.counts == dict.fromkeys(("a1", "a2", "b1", "b2", "c1", "c2"), 1)
