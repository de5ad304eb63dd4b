"""Limits in the report: every one as data, the broken ones as a table, all of them as JUnit cases."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from msgspec import structs

from rebalancer.engine import evaluate
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.visible import visible
from rebalancer.reporting.documents.report import LostGroup, ReportDocument, ReportedFailure
from rebalancer.reporting.text.failures import loss_text
from rebalancer.reporting.text.junit import report_junit
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


def test_junit_has_a_case_for_each_constraint_and_limit() -> None:
    """What does not hold fails with its message, and the numbers of the suites agree with their cases."""
    document = report(SKEWED)
    root = ET.fromstring(report_junit(document))
    suites = {suite.attrib["name"]: suite for suite in root}
    assert len(suites["constraints"]) == len(document.constraints)
    assert len(suites["limits"]) == len(document.limits)
    for suite in suites.values():
        assert int(suite.attrib["tests"]) == len(suite)
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
    failed = {case.attrib["name"]: case[0].attrib for case in suites["limits"] if len(case)}
    assert failed["redis/R2-three-shards cluster-name=one kubernetes.io/hostname maxShare <=1/3"] == {
        "type": "Violated",
        "message": "kubernetes.io/hostname a1 holds 4 of 6 (67%), the limit is maxShare <=1/3, which allows 2; "
        "TooYoung: 6 pods stay on their nodes, one-0-0 among them: it is 0s old; eligibility.minAge is 5m: 5m left",
    }


def test_a_soft_constraint_does_not_fail_a_build() -> None:
    """It is the scheduler's preference; the case is skipped and says why."""
    soft = report(redis(machines("a", 2), [("a1",) * 12, ("a1",) * 6])).constraints
    document = structs.replace(report(SKEWED), constraints=soft, limits=())
    assert {row.when_unsatisfiable for row in soft} == {"ScheduleAnyway"}
    suites = ET.fromstring(report_junit(document))
    assert suites[0].attrib["failures"] == "0"
    assert int(suites[0].attrib["skipped"]) == sum(row.state != "Satisfied" for row in soft) > 0


def lost(*failures: ReportedFailure) -> ET.Element:
    """Return the cases on losses."""
    document = structs.replace(report(SKEWED), failures=failures)
    return next(suite for suite in ET.fromstring(report_junit(document)) if suite.attrib["name"] == "failures")


def failure(**changes: Any) -> ReportedFailure:
    """Return the loss of a zone that nothing is broken by."""
    calm = ReportedFailure(topology_key="zone", domain="a", groups=(), omitted=0, unplaceable=0, unknown=0)
    return structs.replace(calm, **changes)


def test_junit_has_a_case_for_each_domain_that_could_be_lost() -> None:
    """It fails where a majority, a bound or a placement would not hold, with what would be lost."""
    half = LostGroup(
        group="redis",
        limit=None,
        namespace="cache",
        key={"cluster": "one"},
        lost=3,
        total=6,
        left=3,
        share=0.5,
        holds=False,
    )
    few = structs.replace(half, limit="R1", lost=1, left=5, share=1 / 6, holds=True)
    suite = lost(
        failure(groups=(few,)),
        failure(domain="b", groups=(half, few), unplaceable=2),
        failure(domain="c", groups=(half,) * 7, omitted=3),
        failure(domain="d", unplaceable=None),
        failure(domain="e", groups=(half,), unplaceable=None),
    )
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["skipped"]) == ("5", "3", "1")
    assert [case.attrib["name"] for case in suite] == [f"loss of zone {domain}" for domain in "abcde"]
    one = "redis cache cluster=one loses 3 of 6 pods (50%); 3 remain"
    assert loss_text(few) == "redis/R1 cache cluster=one loses 1 of 6 pods (17%); 5 remain"
    untried = "the placement of replacements was not simulated: too many pods"
    assert [[(result.tag, result.attrib["message"]) for result in case] for case in suite] == [
        [],
        [("failure", f"{one}; 2 pods have no feasible node afterwards")],
        [("failure", "; ".join([one] * 5 + ["and at least 2 more"]))],
        [("skipped", untried)],
        [("failure", f"{one}; {untried}")],
    ]


def test_failures_that_were_not_requested_have_no_suite() -> None:
    """An empty one would say that none can be lost."""
    suites = ET.fromstring(report_junit(report(SKEWED)))
    assert "failures" not in {suite.attrib["name"] for suite in suites}


@pytest.mark.parametrize("text", ['a"b', "a<b", "a&b", "a\x00b", "a\ufffeb"])
def test_junit_is_xml_whatever_a_message_holds(text: str) -> None:
    """Messages quote names that people chose; characters that XML does not allow are shown."""
    row = report(SKEWED).limits[0]
    document = structs.replace(
        report(SKEWED), constraints=(), limits=(structs.replace(row, message=text, obstacle=""),)
    )
    suites = ET.fromstring(report_junit(document))
    assert suites[1][0][0].attrib["message"] == visible(text)
