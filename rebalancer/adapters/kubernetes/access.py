"""Asks the API server what this account may do, without doing it."""

from typing import Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.transport import Transport, Unreachable

_SECONDS: Final = 5.0
"""How long an answer may take."""


class _Answer(msgspec.Struct, frozen=True):
    class Status(msgspec.Struct, frozen=True):
        allowed: bool

    status: Status


def may_evict(transport: Transport, namespace: str) -> bool:
    """Return whether this account may evict pods in a namespace ("": in all); raise ClusterError.

    Every account may ask this about itself (ClusterRole system:basic-user).
    """
    attributes = {"namespace": namespace, "verb": "create", "resource": "pods", "subresource": "eviction"}
    review = {"spec": {"resourceAttributes": attributes}}
    create = client.AuthorizationV1Api(transport).create_self_subject_access_review
    return read_verdict(transport.call(create, review, timeout=_SECONDS))


def read_verdict(data: bytes) -> bool:
    """Return the API server's answer about a right; raise Unreachable for an answer of another form."""
    try:
        return msgspec.json.decode(data, type=_Answer).status.allowed
    except msgspec.DecodeError as error:
        raise Unreachable(f"the answer about a right cannot be read: {error}") from None
