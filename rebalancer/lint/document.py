"""The Lint document: the findings, as a pipeline reads them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Number, SizeRange, Text, list_ranges
from rebalancer.lint.finding import Finding, Operation, Severity


class PatchOperation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operation of a JSON Patch (RFC 6902) against the document that contains the object."""

    op: Text
    path: str
    value: Any = None


class LintFinding(CamelCaseStruct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule finds in an object.

    `object` is KIND NAMESPACE/NAME, or "" for a file that cannot be read. `help` is the page that explains the rule.
    `patch` is the smallest change that removes the finding, empty if there is none. For rules about limits, `numbers`
    are the numbers of the message by name, and `sizes` are all numbers of pods, of which a message shows only the first
    few.
    """

    rule: Text
    severity: Severity
    file: Text
    line: Annotated[int, Meta(ge=1)]
    object: str
    message: Text
    help: Text
    patch: tuple[PatchOperation, ...]
    numbers: Mapping[str, int] = {}
    sizes: tuple[SizeRange, ...] = ()


class InputError(CamelCaseStruct, frozen=True, kw_only=True):
    """A file that could not be read, and why; its contents were not checked."""

    file: Text
    message: Text


class LintDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """The findings in `objects` objects of `files` files, by file and line; `errors` are the unreadable files."""

    api_version: str = API_VERSION
    kind: str = "Lint"
    files: Number
    objects: Number
    findings: tuple[LintFinding, ...]
    errors: tuple[InputError, ...] = ()


def lint_document(
    findings: Sequence[Finding], files: int, objects: int, errors: Sequence[InputError] = ()
) -> LintDocument:
    """Return the document of findings; `files` are the files that were read."""
    return LintDocument(files=files, objects=objects, findings=tuple(map(_finding, findings)), errors=tuple(errors))


def _finding(found: Finding) -> LintFinding:
    manifest = found.manifest
    return LintFinding(
        rule=found.rule,
        severity=found.severity,
        file=manifest.file,
        line=found.line,
        object=manifest.title,
        message=found.message,
        help=found.rule.help,
        patch=tuple(_operation(one, found) for one in found.patch),
        numbers=found.numbers,
        sizes=list_ranges(found.sizes),
    )


def _operation(one: Operation, found: Finding) -> PatchOperation:
    return PatchOperation(op=one.op, path=one.pointer_in(found.manifest), value=one.value)
