"""The memory survives a restart; what somebody has damaged is forgotten, not stumbled over."""

from datetime import timedelta

import pytest

from rebalancer.model.moves import NO_MEMORY, FailedPrediction, Memory, ObservedChange, ZoneSeen
from rebalancer.model.reasons import ViolationCause
from rebalancer.reporting.documents.status import memory_text, parse_memory
from tests.scheduling.build import NOW
from tests.tracking.test_moves import MOVE

MEMORY = Memory(
    moves=(MOVE,),
    seen=(("group", NOW),),
    sent=(NOW, NOW + timedelta(seconds=1)),
    failed_predictions=(FailedPrediction("g", 2, NOW),),
    zones=(ZoneSeen("zone", "a", NOW),),
    changes=(ObservedChange(ViolationCause.NODE_LOST, "zone=a", NOW),),
    causes=(("0123456789abcdef", ViolationCause.ROLLOUT),),
)


def test_round_trip() -> None:
    """What is written is read back."""
    assert parse_memory(memory_text(MEMORY)) == MEMORY
    assert parse_memory("") == NO_MEMORY


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-5],
        lambda text: text.replace("2026-01-01T00:00:00Z", "2026-01-01T00:00:00"),
        lambda text: text.replace('"state":"planned"', '"state":"dancing"'),
        lambda text: text.replace('"format":1', '"format":2'),
        lambda text: "[" * 5000,
        lambda text: "null",
    ],
    ids=["cut off", "a time without a zone", "an unknown state", "another format", "deep", "null"],
)
def test_damage(damage: object) -> None:
    """A memory that cannot be read is no memory, and no error."""
    assert callable(damage)
    text = memory_text(MEMORY)
    assert damage(text) != text
    assert parse_memory(damage(text)) == NO_MEMORY
