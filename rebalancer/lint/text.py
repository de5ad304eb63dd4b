"""Findings in the format of compilers: a line with file, line, severity, message and rule, and the change below it."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from rebalancer.lint.document import LintDocument, LintFinding, PatchOperation
from rebalancer.lint.finding import Severity
from rebalancer.model.words import plural
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, join_lines

_STYLES: Final = {Severity.ERROR: Style.BAD, Severity.WARNING: Style.CAUTION, Severity.INFO: Style.QUIET}


def lint_text(document: LintDocument, layout: TextLayout = PLAIN, consequence: str = "") -> str:
    """Return the findings in their order, then the number of findings of each severity, then `consequence`."""
    lines = [line for one in document.findings for line in _lines(one, layout)]
    return join_lines([*lines, *layout.wrap(" ".join(filter(None, [_summary(document), consequence])))])


def _lines(found: LintFinding, layout: TextLayout) -> Iterator[str]:
    of = f"{found.object}: " if found.object else ""
    text = f"{found.file}:{found.line}: {found.severity}: {of}{found.message} [{found.rule}]"
    first, *others = layout.wrap(text, hang="    ")
    yield first.replace(f" {found.severity}:", f" {layout.paint(found.severity, _STYLES[found.severity])}:", 1)
    yield from others
    for operation in found.patch:
        yield from layout.wrap(_change(operation), "    ", "      ")


def _change(operation: PatchOperation) -> str:
    if operation.op == "remove":
        return f"fix: remove {operation.path}"
    return f"fix: {operation.op} {operation.path} {msgspec.json.encode(operation.value).decode()}"


def _summary(document: LintDocument) -> str:
    number = Counter(one.severity for one in document.findings)
    found = ", ".join(_counted(number[one], one) for one in Severity if number[one]) or "nothing found"
    unread = f"; {plural(len(document.errors), 'file')} not read" if document.errors else ""
    return f"{plural(document.objects, 'object')} in {plural(document.files, 'file')}: {found}{unread}."


def _counted(number: int, severity: Severity) -> str:
    return f"{number} info" if severity is Severity.INFO else plural(number, severity)
