"""The Status document: what an operator reads first."""

import msgspec

from rebalancer.model.breaker import CLOSED, BreakerCause, BreakerState, OpenCause
from rebalancer.reporting.documents.status import BreakerStatus, breaker_status
from tests.scheduling.build import NOW


def test_the_breaker_in_the_status() -> None:
    """Whether it is open, and for what; without a state it is closed."""
    causes = tuple(
        OpenCause(cause=cause, part=5, total=9, bound=20, since=NOW, last=NOW)
        for cause in (BreakerCause.UNREADY_NODES, BreakerCause.FAILED_MOVES)
    )
    expected = {"open": True, "causes": ("unready_nodes", "failed_moves"), "namespaces": ()}
    assert msgspec.to_builtins(breaker_status(BreakerState(causes), ())) == expected
    assert breaker_status(CLOSED, ()) == BreakerStatus(open=False, causes=())
