"""What a real control plane does, the simulator allows: recorded episodes, followed change by change."""

from collections import Counter

import pytest

from tests.control_plane.plane import ControlPlane
from tests.traces.acceptor import RejectedError, accept
from tests.traces.changes import Trace
from tests.traces.recorder import record


def follow(traces: list[Trace], first: int) -> Counter[str]:
    """Count the changes of traces, each of which is allowed."""
    counted: Counter[str] = Counter()
    rejected = []
    for seed, trace in enumerate(traces, start=first):
        try:
            accept(trace)
        except RejectedError as reason:
            rejected.append(f"seed {seed}: {reason}\n  " + "\n  ".join(map(str, trace.changes)))
        counted.update(change.what for change in trace.changes)
        counted["traces"] += 1
    assert not rejected, "\n".join(rejected)
    return counted


@pytest.mark.timeout(600)
def test_recorded_episodes_are_allowed(cluster: ControlPlane) -> None:
    """Evictions, deletions, scalings and cordons of 24 workloads, all at the same time."""
    counted = follow(record(cluster, range(24)), 0)
    print(f"\n{dict(counted)}")
    assert counted["traces"] == 24
    assert counted["terminating"] >= 20


@pytest.mark.thorough
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(1000, 2000, 25))
def test_a_thousand_recorded_episodes_are_allowed(cluster: ControlPlane, first: int) -> None:
    """The same for a thousand, 25 at the same time."""
    print(f"\n{dict(follow(record(cluster, range(first, first + 25)), first))}")
