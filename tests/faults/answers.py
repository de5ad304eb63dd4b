"""Answers that the API server, a webhook or something in between would give: code, headers, body."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.faults.requests import Target
from tests.faults.schedule import Fault

Answer = tuple[int, dict[str, str], bytes]

_JSON: Final = {"Content-Type": "application/json"}
_STATUSES: Final = {
    Fault.UNAUTHORIZED: (401, "Unauthorized", "Unauthorized"),
    Fault.FORBIDDEN: (403, "Forbidden", 'User "someone" cannot do this'),
    Fault.MISSING: (404, "NotFound", "not found"),
    Fault.CONFLICT: (409, "Conflict", "the object has been modified; please apply your changes to the latest version"),
    Fault.GONE: (410, "Expired", "too old resource version"),
    Fault.INVALID: (422, "Invalid", "is invalid"),
    Fault.TOO_MANY_REQUESTS: (429, "TooManyRequests", "too many requests, please try again later"),
    Fault.WEBHOOK: (429, "TooManyRequests", 'admission webhook "guard.example.test" denied the request: not now'),
    Fault.ERROR: (500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
}


def make_status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    """Return a Status document."""
    status = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code}
    return {**status, "reason": reason, "message": message, **({"details": details} if details else {})}


def refuse(fault: Fault, target: Target) -> Answer:
    """Return the answer of a fault that is a code."""
    if fault in {Fault.PLAIN, Fault.PLAIN_RETRY_AFTER}:
        headers = {"Content-Type": "text/plain"} | ({"Retry-After": "1"} if fault is Fault.PLAIN_RETRY_AFTER else {})
        return 429, headers, b"Too many requests, please try again later."
    code, reason, message = _STATUSES[fault]
    if fault is Fault.TOO_MANY_REQUESTS:
        status = make_status(code, reason, message, retryAfterSeconds=1)
        return code, {**_JSON, "Retry-After": "1"}, json.dumps(status).encode()
    plural = target.resource.partition("/")[0]
    status = make_status(code, reason, f'{plural} "{target.name}": {message}', name=target.name, kind=plural)
    return code, dict(_JSON), json.dumps(status).encode()


EXPIRED: Final = (
    json.dumps({"type": "ERROR", "object": make_status(410, "Expired", "too old resource version: 1 (2)")}) + "\n"
).encode()
"""The event that ends a watch whose client has to list again."""
