"""Eviction requests, and the meaning of each response.

Every request has the pod's UID, so that a repeated or late request cannot evict a StatefulSet's replacement of the same
name. The body of every response is read; the HTTP code alone does not distinguish a used-up budget from an overloaded
server. Rules: docs/semantics.md, "Responses".
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from rebalancer.adapters.kubernetes.transport import RequestRefused, Transport, Unreachable
from rebalancer.model.moves import Move
from rebalancer.ports import EvictionAnswer, EvictionResult

_LONGEST_WAIT = 600.0
"""Seconds; a server that asks for more is asked again sooner."""

_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
_WEBHOOK = "admission webhook "
"""How the API server begins the message of every refusal by a webhook, whatever the webhook answers."""


def evict(transport: Transport, move: Move) -> EvictionAnswer:
    """Request the eviction of a move's pod."""
    path = f"/api/v1/namespaces/{move.namespace}/pods/{move.pod}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": move.pod, "namespace": move.namespace},
        "deleteOptions": {"preconditions": {"uid": move.uid}},
    }
    try:
        data = transport.request("POST", path, body=body)
    except RequestRefused as error:
        return EvictionAnswer(_classify(error.status, error.details), str(error), min(error.retry_after, _LONGEST_WAIT))
    except Unreachable as error:
        return EvictionAnswer(EvictionResult.UNKNOWN, str(error))
    try:
        status = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return EvictionAnswer(EvictionResult.UNKNOWN, "the response is not JSON")
    if not isinstance(status, dict) or status.get("status") != "Success":
        return EvictionAnswer(EvictionResult.UNKNOWN, f"the response does not have status Success: {data[:200]!r}")
    return EvictionAnswer(EvictionResult.EVICTED)


# Many branches: a table of the API's answers.
def _classify(code: int, status: Mapping[str, Any]) -> EvictionResult:
    details = status.get("details") or {}
    causes = {cause.get("reason") for cause in details.get("causes") or () if isinstance(cause, dict)}
    message = str(status.get("message", ""))
    match code:
        case 404:
            # A budget can be deleted during the server's own retries; then the pod still exists.
            return EvictionResult.STALE if details.get("kind") == "poddisruptionbudgets" else EvictionResult.GONE
        case 409:
            return EvictionResult.CONFLICT
        case 429 if "DisruptionBudget" in causes:
            return EvictionResult.STALE if details.get("retryAfterSeconds") else EvictionResult.BUDGET
        case 429 if status and (message.startswith(_WEBHOOK) or not details.get("retryAfterSeconds")):
            return EvictionResult.FAILED
        case 429:  # of the server itself: without a Status, or with one that says when to try again
            return EvictionResult.THROTTLED
        case 401 | 403:
            return EvictionResult.FORBIDDEN
        case 500 if _SEVERAL_BUDGETS in message:
            return EvictionResult.FAILED
        case _ if code >= 500:
            return EvictionResult.UNKNOWN
        case _:
            return EvictionResult.FAILED
