"""Entries of every kind, as a cluster has them."""

from datetime import UTC, datetime
from typing import Any

from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moves import MoveState

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
AT = int(START.timestamp())


def entry(kind: EntryKind, after: int = 0, **fields: Any) -> Entry:
    """Return an entry so many seconds after the start; its number is that of the second."""
    return Entry(seq=AT * 1_000 + after, at=AT + after, kind=kind, **fields)


def moved(after: int, outcome: MoveState, **fields: Any) -> Entry:
    """Return the entry of a move that took half a minute."""
    common: dict[str, Any] = {
        "namespace": "shop",
        "workload": "Deployment/cart",
        "cause": "SkewViolated",
        "pod": "cart-7d4b9c6f5-8xk2f",
        "uid": "0f5e3c1e-3a43-4d0e-8f3b-2c1d5e6f7a8b",
        "node": "node-a-1",
        "to": "zone c",
        "since": AT + after - 31,
    }
    if outcome in {MoveState.VERIFIED, MoveState.INEFFECTIVE}:
        common["ready"] = AT + after
    return entry(EntryKind.MOVED, after, outcome=outcome, **{**common, **fields})


def surged(after: int, outcome: str, **fields: Any) -> Entry:
    """Return the entry of a surge that took a minute and a half."""
    common: dict[str, Any] = {"namespace": "shop", "workload": "Deployment/web", "since": AT + after - 90}
    surge = {**common, "number": 2, "what": "web-1, web-2", **fields}
    return entry(EntryKind.SURGED, after, outcome=outcome, **surge)


HISTORY = (
    entry(EntryKind.LEADS, 0, who="rebalancer-0_1a2b3c4d"),
    entry(EntryKind.POLICY_CHANGED, 1, what="9f3a", who="unknown", manager="helm", since=AT - 60),
    entry(EntryKind.ZONE_LOST, 60, what="zone c"),
    entry(EntryKind.SAMPLE, 61, number=2, above=4, skew=6),
    entry(EntryKind.ZONE_RETURNED, 660, what="zone c", since=AT + 60),
    entry(EntryKind.ZONE_RETURNED, 661, what="zone d"),
    entry(
        EntryKind.VIOLATED,
        670,
        namespace="shop",
        workload="Deployment/cart",
        token="0123456789abcdef",
        what="zone skew 6, maxSkew 1",
        cause="DomainReturned",
        number=1,
    ),
    entry(
        EntryKind.VIOLATED,
        670,
        namespace="shop",
        workload="StatefulSet/db",
        token="fedcba9876543210",
        others="StatefulSet/db-replica,Deployment/db-proxy",
        what="redis/zone: 6 of 12 pods are in a",
        number=3,
    ),
    entry(EntryKind.VIOLATED, 670, number=12),
    entry(EntryKind.PAUSED, 680, what="zone b is upgraded", who="alice", until=AT + 7_880),
    entry(EntryKind.RESUMED, 720, who="bob", since=AT + 680),
    entry(EntryKind.PAUSED, 730, who="unknown", manager="kubectl-patch", since=AT + 729),
    entry(EntryKind.RESUMED, 740, since=AT + 730),
    entry(EntryKind.APPROVED, 750, what="0a1b2c3d", who="alice"),
    moved(800, MoveState.VERIFIED, replacement_node="node-c-2"),
    moved(801, MoveState.INEFFECTIVE, replacement_node="node-b-1"),
    moved(802, MoveState.LOST),
    moved(803, MoveState.OVERTAKEN),
    moved(804, MoveState.REFUSED),
    moved(805, MoveState.GONE, to="", cause=""),
    surged(806, "Done"),
    surged(807, "TimedOut", number=1, what="web-1"),
    entry(
        EntryKind.SATISFIED, 810, namespace="shop", workload="Deployment/cart", token="0123456789abcdef", since=AT + 670
    ),
    entry(EntryKind.SATISFIED, 810, token="fedcba9876543210", since=0),
    entry(EntryKind.SATISFIED, 810, number=12),
    entry(
        EntryKind.NO_LONGER_REQUIRED,
        810,
        namespace="shop",
        workload="Deployment/cart",
        token="0123456789abcdef",
        since=AT + 670,
        what="limit redis/zone: the policy has no such limit",
    ),
    entry(EntryKind.END_UNKNOWN, 810, token="fedcba9876543210", since=AT + 670),
    entry(EntryKind.END_UNKNOWN, 810, number=12),
    entry(EntryKind.NO_LONGER_REQUIRED, 810, number=12),
    entry(EntryKind.POLICY_REFUSED, 820, what="policy.yaml:3: unknown field", who="unknown"),
    entry(EntryKind.DROPPED, 830, number=37),
)
"""A history with an entry of each kind, in each form."""
