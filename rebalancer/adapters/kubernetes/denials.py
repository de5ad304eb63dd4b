"""Distinguishes a request that admission control refused on purpose from a request without the necessary right.

Both may be answered with 403, and a webhook chooses code and details itself. The difference is the beginning of the API
server's message (k8s.io/apiserver: webhook/errors/statuserror.go, policy/validating/dispatcher.go,
admission/errors.go, endpoints/handlers/responsewriters/errors.go):

    admission webhook "NAME" denied the request: WORDS
    pods "POD" is forbidden: ValidatingAdmissionPolicy 'NAME' with binding 'BINDING' denied request: WORDS
    pods "POD" is forbidden: WORDS of an admission plugin
    pods "POD" is forbidden: User "NAME" cannot create resource "pods/eviction" …   (the authorizer)

Three cases are failures, not refusals on purpose: a webhook does not answer (`failed calling webhook`), the expression
of a policy fails, or its parameters are not found.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from rebalancer.ports import Denial

_MOST_NAME: Final = 120
_MOST_WORDS: Final = 240
"""Up to this many characters are kept, because the memory stores them for each group."""

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'

_WEBHOOK: Final = re.compile(
    rf"admission webhook (?P<name>{_QUOTED}) denied the request(?:: (?P<words>.*)| without explanation)", re.DOTALL
)
_FORBIDDEN: Final = re.compile(rf"\S+ {_QUOTED} is forbidden: (?P<words>.+)", re.DOTALL)
"""How the API server begins the message of a policy, an admission plugin and the authorizer."""
_POLICY: Final = re.compile(
    r"(?P<kind>\w+AdmissionPolicy) '(?P<name>[^']*)' with binding '[^']*' denied request: (?P<words>.+)", re.DOTALL
)
_AUTHORIZER: Final = re.compile(rf"User {_QUOTED} cannot ")
_POLICY_FAILED: Final = re.compile(r"failed to configure |.*\bresulted in error: ", re.DOTALL)
_PODS: Final = "pods"
NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""The cause in a Status if the API server refuses a request because the namespace is being deleted."""
_FORBIDDEN_CODE, _TOO_MANY_REQUESTS = 403, 429


def list_causes(status: Mapping[str, Any]) -> list[Any]:
    """Return the reasons of the causes in a Status, which may be any JSON object."""
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return [cause.get("reason") for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []


def find_denial(code: int, status: Mapping[str, Any]) -> Denial | None:
    """Return who in admission control refused a request and why, by the Status of the answer, which may be any JSON.

    None if admission control did not refuse it: the authorizer, the registry or the server itself has answered.
    """
    message = status.get("message")
    if not isinstance(message, str):
        return None
    is_temporary = code == _TOO_MANY_REQUESTS
    webhook = _WEBHOOK.fullmatch(message)
    if webhook is not None:
        return _make_denial(f"admission webhook {_unquote(webhook['name'])}", webhook["words"] or "", is_temporary)
    forbidden = _FORBIDDEN.fullmatch(message)
    if forbidden is None:
        return None
    words = forbidden["words"]
    policy = _POLICY.fullmatch(words)
    if policy is not None:
        if _POLICY_FAILED.match(policy["words"]):
            return None
        return _make_denial(f"{policy['kind']} {policy['name']}", policy["words"], is_temporary)
    details = status.get("details")
    is_about_pod = isinstance(details, dict) and details.get("kind") == _PODS
    if code != _FORBIDDEN_CODE or not is_about_pod or _AUTHORIZER.match(words):
        return None
    if NAMESPACE_TERMINATING in list_causes(status):  # an admission plugin, too; what it refuses is as good as gone
        return None
    return _make_denial("an admission plugin", words, is_temporary)


def _make_denial(refuser: str, words: str, is_temporary: bool) -> Denial:
    words = " ".join(words.split()) or "without explanation"
    return Denial(_shorten(refuser, _MOST_NAME), _shorten(words, _MOST_WORDS), is_temporary)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])
