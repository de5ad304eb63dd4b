"""A report as JUnit XML, which CI systems show: one case for each constraint, limit, deadlock and finding."""

from collections.abc import Iterator
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.verdicts import Reason, State
from rebalancer.reporting.documents import ReportDocument
from rebalancer.reporting.limit_text import key_text


class _Case(NamedTuple):
    place: str
    name: str
    state: str
    message: str
    skipped: bool


def report_junit(document: ReportDocument) -> str:
    """Write the report. What is not Satisfied fails; a soft constraint that is not is skipped: nobody promised it."""
    suites = {
        "constraints": list(_constraints(document)),
        "limits": list(_limits(document)),
        "deadlocks": list(_deadlocks(document)),
        "findings": list(_findings(document)),
    }
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites name={_quoted('rebalancer report')}>"]
    for name, cases in suites.items():
        failed = sum(each.state != State.SATISFIED and not each.skipped for each in cases)
        skipped = sum(each.state != State.SATISFIED and each.skipped for each in cases)
        lines.append(
            f"  <testsuite name={_quoted(name)} tests={_quoted(len(cases))} failures={_quoted(failed)} "
            f'errors="0" skipped={_quoted(skipped)} timestamp={_quoted(f"{document.generated_at:%Y-%m-%dT%H:%M:%S}")}>'
        )
        lines += [line for each in cases for line in _case(each)]
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _constraints(document: ReportDocument) -> Iterator[_Case]:
    for each in document.constraints:
        workloads = ", ".join(f"{workload.kind}/{workload.name}" for workload in each.workloads)
        name = f"{workloads} {each.topology_key} maxSkew {each.max_skew} {each.when_unsatisfiable}"
        why = f"; {each.reason}: {each.message}" if each.reason else ""
        soft = each.when_unsatisfiable == WhenUnsatisfiable.SCHEDULE_ANYWAY
        yield _Case(each.namespace, name, each.state, f"skew {each.skew}, maxSkew {each.max_skew}{why}", soft)


def _limits(document: ReportDocument) -> Iterator[_Case]:
    for each in document.limits:
        name = f"{each.group}/{each.limit} {key_text(each.key)} {each.topology_key} {each.bound}"
        yield _Case(each.namespace, name, each.state, each.message, skipped=False)


def _deadlocks(document: ReportDocument) -> Iterator[_Case]:
    for each in document.deadlocks:
        yield _Case(each.namespace, f"Pod/{each.pod}", Reason.PLACEMENT_DEADLOCK, each.message, skipped=False)


def _findings(document: ReportDocument) -> Iterator[_Case]:
    """Yield a skipped case for each: it breaks no promise yet. `--fail-on finding` fails on them."""
    for each in document.findings:
        yield _Case(each.object, each.kind, each.kind, each.message, skipped=True)


def _case(case: _Case) -> Iterator[str]:
    opening = f"    <testcase classname={_quoted(case.place)} name={_quoted(case.name)}"
    if case.state == State.SATISFIED:
        yield f"{opening}/>"
        return
    outcome = "skipped" if case.skipped else f"failure type={_quoted(case.state)}"
    yield f"{opening}>"
    yield f"      <{outcome} message={_quoted(case.message)}/>"
    yield "    </testcase>"


def _quoted(value: object) -> str:
    """Quote an attribute; characters that XML cannot hold are left out."""
    text = str(value)
    return quoteattr("".join(each for each in text if each.isprintable()))
