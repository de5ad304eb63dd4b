"""The Check document and its text: one line for each check, and below it the remedy."""

from collections.abc import Iterator, Sequence
from typing import Final

from rebalancer.checks.results import Outcome, Result
from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Text
from rebalancer.model.words import plural
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, join_lines

_SIGNS: Final = {
    Outcome.OK: ("ok", Style.GOOD),
    Outcome.NOTE: ("--", None),
    Outcome.UNKNOWN: ("??", Style.CAUTION),
    Outcome.WRONG: ("!!", Style.BAD),
}


class CheckRow(CamelCaseStruct, frozen=True, kw_only=True):
    """One check. `outcome` is ok, note, unknown or wrong; `remedy` says what to do, "" if nothing."""

    name: Text
    outcome: Outcome
    message: str
    remedy: str


class CheckDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """The preconditions of every eviction. `wrong` says whether a check has failed."""

    api_version: str = API_VERSION
    kind: str = "Check"
    wrong: bool
    checks: tuple[CheckRow, ...]


def check_document(results: Sequence[Result]) -> CheckDocument:
    """Return the document of results."""
    rows = (CheckRow(name=one.name, outcome=one.outcome, message=one.text, remedy=one.remedy) for one in results)
    return CheckDocument(wrong=any(one.outcome is Outcome.WRONG for one in results), checks=tuple(rows))


def check_text(document: CheckDocument, layout: TextLayout = PLAIN) -> str:
    """Return the results in order as text, and then how many are wrong."""
    return join_lines([*(line for row in document.checks for line in _lines(row, layout)), "", _summary(document)])


def _lines(row: CheckRow, layout: TextLayout) -> Iterator[str]:
    sign, style = _SIGNS[row.outcome]
    first, *others = layout.wrap(f"{sign} {row.name}: {row.message}", hang="   ")
    yield layout.paint(sign, style) + first.removeprefix(sign)
    yield from others
    if row.remedy and row.outcome is not Outcome.OK:
        yield from layout.wrap(row.remedy, "   ")


def _summary(document: CheckDocument) -> str:
    wrong = sum(row.outcome is Outcome.WRONG for row in document.checks)
    unknown = sum(row.outcome is Outcome.UNKNOWN for row in document.checks)
    known = f", {unknown} not known" if unknown else ""
    checks = plural(len(document.checks), "check")
    return f"{f'{wrong} of {checks} wrong' if wrong else f'{checks}, nothing wrong'}{known}."
