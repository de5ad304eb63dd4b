"""What is stored of moves: a memory written by an earlier version is read, and its keys stay."""

import json
import zlib
from base64 import b64decode, b64encode
from typing import Any

from rebalancer.documents.memory import memory_text, parse_memory

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
    "seen": [],
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

SINCE = {"2026-01-01T00:00:00+00:00": ["shop/web"]}

NEW_IN_MOVES = {
    "awaited_since": None,
    "uncreated": None,
    "bound_since": None,
    "arrived": False,
    "unstarted": None,
    "victim_seen": None,
    "deferred_until": None,
    "counted": False,
    "unexecuted": False,
    "repeats": None,
}
NEW_IN_REFUSED = {"refuser": "", "words": "", "pod": ""}
NEW: dict[str, object] = {
    "unreplaced": None,
    "replaced_at": None,
    "settling": [],
    "windows": [],
    "queued": [],
    "node_changes": [],
    "domains_in_motion": [],
    "evicted_by_others": [],
    "canaries": [],
    "outbox": [],
    "noted": {},
    "lost": [],
    "requests": [["2026-01-01T00:00:00Z", "", ""]],
}
"""Keys that came later: version 0.1 ignores them."""


def test_a_memory_of_an_earlier_version_is_read_and_written_with_the_same_keys() -> None:
    """An update of the controller loses neither moves nor failed predictions nor extra evictions."""
    deflated = b64encode(zlib.compress(json.dumps({"memory": STORED, "since": SINCE}).encode())).decode()
    memory = parse_memory(json.dumps({"format": 2, "deflated": deflated}))
    assert [(miss.group, miss.times) for miss in memory.failed_predictions] == [("shop/web", 2)]
    assert [(extra.group, extra.goal, extra.uid) for extra in memory.extra_evictions] == [("shop/web", 3, "1")]
    stored = json.loads(zlib.decompress(b64decode(json.loads(memory_text(memory))["deflated"])))
    assert stored == {
        "since": SINCE,
        "memory": {
            **STORED,
            **NEW,
            "moves": [STORED["moves"][0] | NEW_IN_MOVES],
            "refused": [STORED["refused"][0] | NEW_IN_REFUSED],
        },
    }
