"""The report as JUnit XML for CI systems: a case for each constraint, limit, deadlock, finding and domain loss."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.visible import visible
from rebalancer.model.words import plural
from rebalancer.reporting.documents.report import ReportDocument, ReportedFailure
from rebalancer.reporting.phrases import key_text
from rebalancer.reporting.text.failures import loss_text
from rebalancer.reporting.text.layout import join_lines

_MOST: Final = 5
"""So many sets of pods are listed in the message on one domain; the rest is counted."""

_BROKEN: Final = "NotSurvivable"
_UNTRIED: Final = "NotTried"
_WAITING: Final = "WithoutNode"


class _Case(NamedTuple):
    place: str
    name: str
    state: str
    message: str
    skipped: bool


def report_junit(document: ReportDocument) -> str:
    """Render the report. A case that is not Satisfied fails.

    Skipped are a soft constraint, since it is a preference, and what is not known.
    """
    suites = {
        "constraints": list(_constraint_cases(document)),
        "limits": list(_limit_cases(document)),
        "deadlocks": list(_deadlock_cases(document)),
        "waiting": list(_waiting_cases(document)),
        "findings": list(_finding_cases(document)),
    }
    if document.failures is not None:
        suites["failures"] = list(_failure_cases(document.failures))
    time = document.generated_at
    timestamp = f" timestamp={_quote(f'{time:%Y-%m-%dT%H:%M:%S}')}" if time is not None else ""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites name={_quote('rebalancer report')}>"]
    for name, cases in suites.items():
        failed = sum(case.state != State.SATISFIED and not case.skipped for case in cases)
        skipped = sum(case.state != State.SATISFIED and case.skipped for case in cases)
        lines.append(
            f"  <testsuite name={_quote(name)} tests={_quote(len(cases))} failures={_quote(failed)} "
            f'errors="0" skipped={_quote(skipped)}{timestamp}>'
        )
        lines += [line for case in cases for line in _case_lines(case)]
        lines.append("  </testsuite>")
    return join_lines([*lines, "</testsuites>"])


def _constraint_cases(document: ReportDocument) -> Iterator[_Case]:
    for row in document.constraints:
        workloads = ", ".join(f"{workload.kind}/{workload.name}" for workload in row.workloads)
        name = f"{workloads} {row.topology_key} maxSkew {row.max_skew} {row.when_unsatisfiable}"
        why = f"; {row.reason}: {row.message}" if row.reason else ""
        soft = row.when_unsatisfiable == WhenUnsatisfiable.SCHEDULE_ANYWAY or row.state == State.UNKNOWN
        yield _Case(row.namespace, name, row.state, f"skew {row.skew}, maxSkew {row.max_skew}{why}", soft)


def _limit_cases(document: ReportDocument) -> Iterator[_Case]:
    for limit in document.limits:
        name = f"{limit.group}/{limit.limit} {key_text(limit.key)} {limit.topology_key} {limit.bound}"
        why = f"; {limit.reason}: {limit.obstacle}" if limit.obstacle else ""
        unknown = limit.state == State.UNKNOWN
        yield _Case(limit.namespace, name, limit.state, f"{limit.message}{why}", skipped=unknown)


def _deadlock_cases(document: ReportDocument) -> Iterator[_Case]:
    for row in document.deadlocks:
        yield _Case(row.namespace, f"Pod/{row.pod}", Reason.PLACEMENT_DEADLOCK, row.message, skipped=False)


def _waiting_cases(document: ReportDocument) -> Iterator[_Case]:
    """Yield a case for each workload with pods that have no node; those that are held back on purpose are skipped."""
    for row in document.waiting:
        name = f"{row.workload.kind}/{row.workload.name}: {plural(len(row.pods), 'pod')} without a node"
        yield _Case(row.namespace, name, _WAITING, row.message, skipped=row.gated)


def _finding_cases(document: ReportDocument) -> Iterator[_Case]:
    """Yield a skipped case for each finding: it violates nothing yet. `--fail-on finding` fails on findings."""
    for finding in document.findings:
        yield _Case(finding.object, finding.kind, finding.kind, finding.message, skipped=True)


def _failure_cases(failures: Sequence[ReportedFailure]) -> Iterator[_Case]:
    """Yield a case for the loss of each domain: it fails on a violated limit, a lost majority or an unplaceable pod."""
    for failure in failures:
        broken = [group for group in failure.groups if not group.holds]
        messages = [loss_text(group) for group in broken[:_MOST]]
        if len(broken) > _MOST:
            messages.append(f"and {'at least ' if failure.omitted else ''}{len(broken) - _MOST} more")
        if failure.unplaceable:
            verb = "has" if failure.unplaceable == 1 else "have"
            messages.append(f"{plural(failure.unplaceable, 'pod')} {verb} no feasible node afterwards")
        if failure.unplaceable is None:
            messages.append("the placement of replacements was not simulated: too many pods")
        untried = _UNTRIED if failure.unplaceable is None else State.SATISFIED
        state = _BROKEN if broken or failure.unplaceable else untried
        name = f"loss of {failure.topology_key} {failure.domain}"
        yield _Case(failure.topology_key, name, state, "; ".join(messages), skipped=state == _UNTRIED)


def _case_lines(case: _Case) -> Iterator[str]:
    opening = f"    <testcase classname={_quote(case.place)} name={_quote(case.name)}"
    if case.state == State.SATISFIED:
        yield f"{opening}/>"
        return
    outcome = "skipped" if case.skipped else f"failure type={_quote(case.state)}"
    yield f"{opening}>"
    yield f"      <{outcome} message={_quote(case.message)}/>"
    yield "    </testcase>"


def _quote(value: object) -> str:
    """Quote an attribute; characters that XML does not allow are made visible."""
    return quoteattr(visible(str(value)))
