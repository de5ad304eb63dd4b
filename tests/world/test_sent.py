"""What the controller requests in seeded worlds, and when, is what is on record."""

from pathlib import Path

from tests.drawing import scaled
from tests.world.sent import Sent, differing, run_seeds

RECORD = Path(__file__).parent / "sent.txt"
"""Written by `python -m tests.world.sent 1 60`; a change that is meant to request otherwise writes it anew."""


def test_the_same_is_requested_at_the_same_times() -> None:
    """With capacity and prevention, and without; `python -m tests.world.sent 1 60 --against FILE` compares them all."""
    assert differing(run_seeds(1, 1 + scaled(3)), RECORD) == []


def test_one_request_more_or_at_another_time_is_noticed() -> None:
    lines = []
    for seconds in (1.0, 1.000001):
        sent = Sent()
        sent.note(seconds, "replica-1", "evict", "web-1", words="evicted")
        lines.append(sent.line)
    assert lines[0] != lines[1]
    assert lines[0].split()[2] == lines[1].split()[2], "its words are the same"
