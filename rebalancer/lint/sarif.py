"""The findings in SARIF 2.1.0, the format of code scanning.

The rules have links to the page of rules.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from rebalancer import __version__
from rebalancer.lint.document import InputError, LintDocument, LintFinding
from rebalancer.lint.finding import Rule, Severity

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(document: LintDocument) -> Mapping[str, Any]:
    """Return the log of one run."""
    rules = [{"id": rule, "shortDescription": {"text": rule.sentence}, "help": {"text": rule.help}} for rule in Rule]
    driver = {"name": "rebalancer lint", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(document.errors)],
        "results": [*_results(document.findings)],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(errors: Sequence[InputError]) -> Mapping[str, Any]:
    """Return whether everything was read, and a notification for each file that could not be read."""
    notifications = [
        {
            "level": "error",
            "message": {"text": error.message},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(error.file)}}}],
        }
        for error in errors
    ]
    return {"executionSuccessful": not errors, "toolExecutionNotifications": notifications}


def _results(findings: Iterable[LintFinding]) -> Iterable[Mapping[str, Any]]:
    numbers = {rule.value: number for number, rule in enumerate(Rule)}
    for found in findings:
        of = f"{found.object}: " if found.object else ""
        place = {"artifactLocation": {"uri": _uri(found.file)}, "region": {"startLine": found.line}}
        yield {
            "ruleId": found.rule,
            "ruleIndex": numbers[found.rule],
            "level": _LEVELS[found.severity],
            "message": {"text": f"{of}{found.message}"},
            "locations": [{"physicalLocation": place}],
        }


def _uri(file: str) -> str:
    """Return a file's name as a relative reference; None for standard input."""
    return quote(file.removeprefix("./"))
