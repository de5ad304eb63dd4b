"""What is said of capacity that does not come: the autoscaler's own words, and the state of its machine."""

from typing import Any

import pytest

from rebalancer.adapters.kubernetes.placeholders import PlaceholderStore
from tests.adapters.kubernetes.fake_server import ApiServer, served


def event(pod: str, note: str, reporter: str, at: str) -> dict[str, Any]:
    return {"regarding": {"kind": "Pod", "name": pod}, "note": note, "reportingController": reporter, "eventTime": at}


EVENTS = [
    event("r1-a-x", "0/6 nodes are available", "default-scheduler", "2026-01-01T10:00:09Z"),
    event("r1-a-x", "no nodepool matched", "karpenter", "2026-01-01T10:00:01Z"),
    event("r1-b-x", "Pod should schedule on: nodeclaim/general-7x2", "karpenter", "2026-01-01T10:00:05Z"),
    event("r2-a-x", "0/6 nodes are available", "default-scheduler", "2026-01-01T10:00:09Z"),
]
CONDITIONS = [
    {"type": "Launched", "status": "False", "reason": "LaunchFailed", "message": "no capacity in zone c"},
    {"type": "Registered", "status": "Unknown", "reason": "AwaitingReconciliation"},
    {"type": "Drifted", "status": "False"},
    {"type": "Initialized", "status": "True"},
]


@pytest.mark.parametrize(
    ("token", "code", "expected"),
    [
        (
            "r1",
            200,
            (
                "karpenter: Pod should schedule on: nodeclaim/general-7x2; "
                "NodeClaim general-7x2 is not Launched: LaunchFailed no capacity in zone c; "
                "NodeClaim general-7x2 is not Registered: AwaitingReconciliation"
            ),
        ),
        ("r1", 404, "karpenter: Pod should schedule on: nodeclaim/general-7x2"),
        ("r1", 403, "karpenter: Pod should schedule on: nodeclaim/general-7x2"),
        ("r2", 200, "default-scheduler: 0/6 nodes are available"),
        ("r3", 200, ""),
    ],
)
def test_the_newest_word_of_the_autoscaler_and_what_its_machine_lacks(token: str, code: int, expected: str) -> None:
    """The scheduler's only where no autoscaler has said anything; a machine that is gone or hidden says nothing."""
    server = ApiServer()
    server.answers["GET", "/apis/events.k8s.io/v1/namespaces/room/events"] = 200, {"items": EVENTS}
    answered = (200, {"status": {"conditions": CONDITIONS}}) if code == 200 else code
    server.answers["GET", "/apis/karpenter.sh/v1/nodeclaims/general-7x2"] = answered
    with served(server) as transport:
        assert PlaceholderStore(transport).explain_placeholder("room", token) == expected
