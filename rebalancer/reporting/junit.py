"""A report as JUnit XML, which CI systems show: a case for all that it has, down to the loss of each domain."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.reporting.documents import ReportDocument, ReportedFailure
from rebalancer.reporting.failure_text import loss
from rebalancer.reporting.keys import key_text
from rebalancer.reporting.phrases import many

_MOST: Final = 5
"""So many sets of pods are named in the message on one domain."""

_BROKEN: Final = "NotSurvivable"
_UNTRIED: Final = "NotTried"


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
    if document.failures is not None:
        suites["failures"] = list(_failures(document.failures))
    at = document.generated_at
    timestamp = f" timestamp={_quoted(f'{at:%Y-%m-%dT%H:%M:%S}')}" if at is not None else ""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites name={_quoted('rebalancer report')}>"]
    for name, cases in suites.items():
        failed = sum(each.state != State.SATISFIED and not each.skipped for each in cases)
        skipped = sum(each.state != State.SATISFIED and each.skipped for each in cases)
        lines.append(
            f"  <testsuite name={_quoted(name)} tests={_quoted(len(cases))} failures={_quoted(failed)} "
            f'errors="0" skipped={_quoted(skipped)}{timestamp}>'
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
        why = f"; {each.reason}: {each.obstacle}" if each.obstacle else ""
        yield _Case(each.namespace, name, each.state, f"{each.message}{why}", skipped=False)


def _deadlocks(document: ReportDocument) -> Iterator[_Case]:
    for each in document.deadlocks:
        yield _Case(each.namespace, f"Pod/{each.pod}", Reason.PLACEMENT_DEADLOCK, each.message, skipped=False)


def _findings(document: ReportDocument) -> Iterator[_Case]:
    """Yield a skipped case for each: it breaks no promise yet. `--fail-on finding` fails on them."""
    for each in document.findings:
        yield _Case(each.object, each.kind, each.kind, each.message, skipped=True)


def _failures(failures: Sequence[ReportedFailure]) -> Iterator[_Case]:
    """Yield a case for the loss of each domain: it fails where a bound, a majority or a placement does not hold."""
    for each in failures:
        broken = [group for group in each.groups if not group.holds]
        told = [loss(group) for group in broken[:_MOST]]
        told += (
            [f"and {len(broken) - _MOST} more{' at the least' if each.omitted else ''}"] if len(broken) > _MOST else []
        )
        told += (
            [f"{many(each.unplaceable, 'pod')} {'finds' if each.unplaceable == 1 else 'find'} no node afterwards"]
            if each.unplaceable
            else []
        )
        told += ["whether replacements find nodes was not tried"] if each.unplaceable is None else []
        state = _BROKEN if broken or each.unplaceable else _UNTRIED if each.unplaceable is None else State.SATISFIED
        name = f"loss of {each.topology_key} {each.domain}"
        yield _Case(each.topology_key, name, state, "; ".join(told), skipped=state == _UNTRIED)


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
