"""Events about replacements that are not created: one for each, and another once the reason is known."""

import pytest

from rebalancer.account.happened import find_overdue
from rebalancer.model.events import EventReason
from rebalancer.model.moves import MoveState
from tests.documents.events.build import about
from tests.scheduling.build import NOW
from tests.tracking.build import move

QUOTA = "exceeded quota: pods"


@pytest.mark.parametrize(
    ("before", "after", "published"),
    [
        (None, "", True),
        (None, QUOTA, True),
        ("", QUOTA, True),
        ("", "", False),
        (QUOTA, QUOTA, False),
        (QUOTA, "", False),
        (QUOTA, None, False),
    ],
)
def test_a_replacement_is_reported_when_it_becomes_overdue_and_when_the_reason_becomes_known(
    before: str | None, after: str | None, published: bool
) -> None:
    moves = [move("web-0", NOW, state=MoveState.EVICTED, uncreated=uncreated) for uncreated in (before, after)]
    events = about(find_overdue(moves[:1], moves[1:]))
    assert [event.reason for event in events] == [EventReason.EVICTION_BLOCKED] * published
    assert all((after or "") in event.note and event.regarding.name == "web" for event in events)
