"""Moves for tests: what does not matter has a value, what does is named."""

from datetime import datetime
from typing import Any

from rebalancer.model.moves import Move, Reference
from rebalancer.model.reasons import Cause


def move(uid: str, at: datetime, *, namespace: str = "default", **fields: Any) -> Move:
    """Return the move of a pod of the Deployment `web`, asked for at a time."""
    common: dict[str, Any] = {
        "pod": uid,
        "node": "a-1",
        "workload": Reference(namespace, "Deployment", "web"),
        "owner_uid": "",
        "cause": Cause.SKEW_VIOLATED,
        "requested_at": at,
        "changed_at": at,
    }
    return Move(uid=uid, namespace=namespace, **{**common, **fields})
