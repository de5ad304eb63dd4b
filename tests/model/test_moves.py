"""What is stored of moves: a memory written by an earlier version is read, and its keys stay."""

import json
from typing import Any

import msgspec

from rebalancer.model.moves import Memory

STORED: dict[str, Any] = {
    "moves": [
        {
            "uid": "1",
            "namespace": "shop",
            "pod": "web-1",
            "node": "a-1",
            "workload": {"namespace": "shop", "kind": "Deployment", "name": "web"},
            "owner_uid": "2",
            "replicas": 3,
            "group": "shop/web",
            "cause": "SkewViolated",
            "targets": [{"topology_key": "topology.kubernetes.io/zone", "values": ["b"]}],
            "state": "planned",
            "asked_at": "2026-01-01T00:00:00Z",
            "changed_at": "2026-01-01T00:00:01Z",
            "replacement": "",
        }
    ],
    "seen": [["shop/web", "2026-01-01T00:00:00Z"]],
    "sent": ["2026-01-01T00:00:00Z"],
    "misses": [{"group": "shop/web", "times": 2, "last": "2026-01-01T00:00:00Z"}],
    "refused": [{"group": "shop/web", "times": 1, "last": "2026-01-01T00:00:00Z", "wait": "PT60S"}],
    "zones": [{"key": "topology.kubernetes.io/zone", "zone": "a", "last": "2026-01-01T00:00:00Z"}],
    "spares": [{"group": "shop/web", "goal": 3, "uid": "1"}],
    "changes": [{"cause": "NodeLost", "subject": "topology.kubernetes.io/zone=a", "at": "2026-01-01T00:00:00Z"}],
    "causes": [["shop/web", "NodeLost"]],
    "breaker": {"causes": []},
    "proposal": None,
    "capacity": [],
    "capacity_attempts": [],
    "capacity_wanted": [],
}
"""A memory as version 0.1 writes it."""

NEW_IN_MOVES = {"awaited_since": None, "uncreated": None}
"""Keys that came later: version 0.1 ignores them."""


def test_a_memory_of_an_earlier_version_is_read_and_written_with_the_same_keys() -> None:
    """An update of the controller loses neither moves nor failed predictions nor extra evictions."""
    memory = msgspec.json.decode(json.dumps(STORED), type=Memory)
    assert [(miss.group, miss.times) for miss in memory.failed_predictions] == [("shop/web", 2)]
    assert [(extra.group, extra.goal, extra.uid) for extra in memory.extra_evictions] == [("shop/web", 3, "1")]
    assert json.loads(msgspec.json.encode(memory)) == {
        **STORED,
        "moves": [STORED["moves"][0] | NEW_IN_MOVES],
        "settling": [],
    }
