"""Eviction requests, and the meaning of each response.

Every request has the pod's UID, so a repeated or late request cannot evict a StatefulSet's replacement with the same
name. The body of every response is read, because the HTTP code alone does not distinguish a used-up budget from an
overloaded server. Rules: docs/design.md, "Responses".
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.denials import list_causes
from rebalancer.adapters.kubernetes.transport import RequestRefused, Transport, Unreachable
from rebalancer.model.moves import Move
from rebalancer.ports import EvictionAnswer, EvictionResult

_LONGEST_WAIT = 600.0
"""Longest wait in seconds, even if the server asks for more."""

_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"

_BUDGET_CAUSE: Final = "DisruptionBudget"
"""The cause in the Status if a budget refuses: in every 429, and from Kubernetes 1.37 on in every 403."""

_BUDGET_KINDS: Final = frozenset({"poddisruptionbudget", "poddisruptionbudgets"})
"""Kinds in an older server's 403 that is due to a budget: too many disrupted pods, or a negative allowance."""

_FAILED_POLICY: Final = "AdmissionPolicy '"
"""Part of the 403 of a policy that could not be evaluated; a denial on purpose has another text."""

_MISSING: Final = {
    "pods": EvictionResult.GONE,
    "poddisruptionbudgets": EvictionResult.STALE,
}
"""The result of a 404 by kind: if a budget was deleted during the server's own retries, the pod still exists.

Without either kind, the answer comes from a proxy, or from a server without evictions.
"""


def evict(transport: Transport, move: Move) -> EvictionAnswer:
    """Request the eviction of a move's pod."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": move.pod, "namespace": move.namespace},
        "deleteOptions": {"preconditions": {"uid": move.uid}},
    }
    create = client.CoreV1Api(transport).create_namespaced_pod_eviction
    try:
        data = transport.call(create, move.pod, move.namespace, body)
    except RequestRefused as error:
        wait, denial = min(error.retry_after, _LONGEST_WAIT), error.denial
        if denial is not None:  # first of all: a webhook chooses code and details itself
            return EvictionAnswer(EvictionResult.REFUSED, str(error), wait, denial)
        return EvictionAnswer(_classify(error), str(error), wait)
    except Unreachable as error:
        return EvictionAnswer(EvictionResult.UNKNOWN, str(error))
    try:
        status = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return EvictionAnswer(EvictionResult.UNKNOWN, "the response is not JSON")
    if not isinstance(status, dict) or status.get("status") != "Success":
        return EvictionAnswer(EvictionResult.UNKNOWN, f"the response does not have status Success: {data[:200]!r}")
    return EvictionAnswer(EvictionResult.EVICTED)


def _classify(error: RequestRefused) -> EvictionResult:
    """Return the meaning of an error answer, with any JSON object as its body."""
    code, status = error.status, error.details
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    message = status.get("message")
    message = message if isinstance(message, str) else ""
    if code == 500 and _SEVERAL_BUDGETS in message:
        return EvictionResult.FAILED
    if error.namespace_terminating:
        return EvictionResult.GONE  # its namespace is being deleted, with every pod in it
    match code:
        case 404:
            return _MISSING.get(str(details.get("kind")), EvictionResult.FAILED)
        case 409:
            return EvictionResult.CONFLICT
        case 429:
            return _classify_too_many(status, details)
        case 403 if _BUDGET_CAUSE in list_causes(status) or str(details.get("kind")) in _BUDGET_KINDS:
            return EvictionResult.BUDGET
        case 403 if _FAILED_POLICY in message:
            return EvictionResult.FAILED
        case 401 | 403:
            return EvictionResult.FORBIDDEN
        case _ if code >= 500:
            return EvictionResult.UNKNOWN
        case _:
            return EvictionResult.FAILED


def _classify_too_many(status: Mapping[str, Any], details: Mapping[str, Any]) -> EvictionResult:
    if _BUDGET_CAUSE in list_causes(status):
        return EvictionResult.STALE if details.get("retryAfterSeconds") else EvictionResult.BUDGET
    if status and not details.get("retryAfterSeconds"):
        return EvictionResult.FAILED
    return EvictionResult.THROTTLED  # from the server itself: no Status, or a Status that says when to try again
