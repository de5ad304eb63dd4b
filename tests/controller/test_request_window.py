"""The requests that the breaker goes by: those of the window, and which of them failed."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.admission.breaker import RequestCounts
from rebalancer.controller.request_window import RequestWindow, is_failure


@pytest.mark.parametrize(
    ("code", "failed"),
    [
        *((code, False) for code in (200, 201, 404, 409, 429)),
        *((code, True) for code in (0, 401, 403, 500, 503)),
    ],
)
def test_what_counts_as_a_failure(code: int, *, failed: bool) -> None:
    """What the alert on the API server counts; a budget that forbids an eviction is an answer like any other."""
    assert is_failure(code) is failed


@given(
    requests=st.lists(st.tuples(st.floats(0, 4000), st.sampled_from([200, 0, 503]))),
    window=st.integers(1, 3600),
)
def test_it_counts_the_requests_of_the_window_to_the_second(requests: list[tuple[float, int]], window: int) -> None:
    """Whatever was counted before: requests that are older than the window do not count, however many there are."""
    now = 0.0
    counted = RequestWindow(lambda: now)
    for moment, code in sorted(requests):
        now = moment
        counted.count(code)
    recent = [code for moment, code in requests if int(moment) > now - window]
    expected = RequestCounts(total=len(recent), failed=sum(code != 200 for code in recent))
    assert counted.read(timedelta(seconds=window)) == expected


def test_it_stays_small() -> None:
    """An hour is the longest window that a policy can name."""
    now = 0.0
    counted = RequestWindow(lambda: now)
    for second in range(8_000):
        now = second
        counted.count(200)
    assert len(counted._seconds) == 3_600
    assert counted.read(timedelta(hours=1)) == RequestCounts(total=3_600)
