"""What the next leader reads of the last one's memory."""

from structlog.testing import capture_logs

from rebalancer.controller.status import read_memory
from rebalancer.model.moves import NO_MEMORY, Memory, SentRequest
from rebalancer.policy import Amount, Budgets
from rebalancer.reporting.documents.memory import memory_text
from rebalancer.simulator import START
from tests.controller.simulated import eager

POLICY = eager(budgets=Budgets(per_minute=Amount(value=3)))


def test_a_memory_that_cannot_be_read_holds_everything_for_a_minute() -> None:
    """Nobody knows what was evicted in the last minute; the log says so."""
    with capture_logs() as logs:
        assert read_memory("{garbage", POLICY, START).sent == (SentRequest(START),) * 3
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("memory cannot be read", "warning")


def test_a_memory_that_can_be_read_is_what_was_saved() -> None:
    """None at all is one, too: this process is the first to lead."""
    saved = Memory(sent=(SentRequest(START),))
    with capture_logs() as logs:
        assert read_memory(memory_text(saved), POLICY, START) == saved
        assert read_memory("", POLICY, START) == NO_MEMORY
    assert logs == []
