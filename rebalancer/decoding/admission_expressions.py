"""Recognizes, without an evaluator, expressions of admission policies that are false for every eviction.

An eviction is the creation of the subresource `eviction` of a pod. Policies that freeze a namespace compare just that:

    false        request.subResource != "eviction"        !(request.operation == "CREATE")

Every other expression, such as a condition on the requester, stays unknown.
"""

import re
from collections.abc import Mapping
from typing import Final

_KNOWN: Final[Mapping[str, str]] = {
    "request.operation": "CREATE",
    "request.subResource": "eviction",
    "request.resource.resource": "pods",
    "request.resource.group": "",
    "request.resource.version": "v1",
    "request.kind.kind": "Eviction",
}
_COMPARISON: Final = re.compile(r"""([\w.]+)\s*(==|!=)\s*(["'])([^"'\\]*)\3""")
_LONGEST: Final = 200
"""Longer expressions are not evaluated."""


def is_false_of_evictions(expression: str) -> bool:
    """Return whether an expression is false of every eviction."""
    text, negated = expression.strip(), False
    while len(text) <= _LONGEST:
        inner = text[1:-1] if text.startswith("(") and text.endswith(")") else ""
        if inner and not {"(", ")"} & set(inner):
            text = inner.strip()
        elif text.startswith(("!(", "!true", "!false")):
            text, negated = text[1:].strip(), not negated
        else:
            break
    value = _evaluate(text)
    return value is not None and value is negated


def _evaluate(text: str) -> bool | None:
    """Return the value of a literal or of one comparison, None if it is not known."""
    if text in {"true", "false"}:
        return text == "true"
    compared = _COMPARISON.fullmatch(text)
    if compared is None or compared[1] not in _KNOWN:
        return None
    return (_KNOWN[compared[1]] == compared[4]) is (compared[2] == "==")
