"""The requests that the breaker goes by: those of the window, and which of them failed."""

from datetime import timedelta
from itertools import pairwise

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
    """Whatever was counted before: requests that are older than the window do not count, however many there are.

    Of those without an answer that follow each other the first counts.
    """
    now = 0.0
    counted = RequestWindow(lambda: now)
    ordered = sorted(requests)
    for moment, code in ordered:
        now = moment
        counted.count(code)
    repeated = [code == before == 0 for (_, before), (_, code) in pairwise([(0.0, 200), *ordered])]
    recent = [
        code
        for (moment, code), again in zip(ordered, repeated, strict=True)
        if int(moment) > now - window and not again
    ]
    counts = counted.read(timedelta(seconds=window))
    assert (counts.total, counts.failed) == (len(recent), sum(code != 200 for code in recent))


def read(*requests: tuple[float, int, float], at: float) -> RequestCounts:
    """Count requests by the moment of their end, their code, and how long they had no answer."""
    now = 0.0
    counted = RequestWindow(lambda: now)
    for moment, code, waited in requests:
        now = moment
        counted.count(code, waited)
    now = at
    return counted.read(timedelta(minutes=5))


def test_an_outage_is_one_failure_whatever_number_of_watches_there_are() -> None:
    """Forty seconds without an answer, with thirty watches that try again every five seconds."""
    before = [(float(second), 200, 0.0) for second in range(10)]
    outage = [(10.0 + second, 0, 0.1) for second in range(0, 40, 5) for _ in range(30)]
    counts = read(*before, *outage, at=50)
    assert counts == RequestCounts(total=11, failed=1)
    counts = read(*before, *outage, (50.0, 200, 0.0), (53.0, 200, 0.0), at=55)
    assert counts == RequestCounts(total=13, failed=1, outage_ended=timedelta(seconds=5))


def test_a_request_from_the_outage_that_fails_after_it_is_part_of_it() -> None:
    """Each watch waits for its own time-out: some are still waiting when another one has its answer already."""
    outage = [(40.0, 0, 5.0), (41.0, 200, 0.0)]
    late = [(42.0, 0, 5.0), (42.5, 200, 0.0), (44.0, 0, 4.9), (45.0, 0, 4.1)]
    assert read(*outage, *late, at=46) == RequestCounts(total=3, failed=1, outage_ended=timedelta(seconds=5))
    again = (45.5, 0, 4.4)  # sent at 41.1
    assert read(*outage, *late, again, at=46) == RequestCounts(total=4, failed=2)


def test_outages_one_after_another_are_as_many_failures() -> None:
    """A balancer with one dead server behind it: every other request has no answer."""
    flaky = [(float(second), 0 if second % 2 else 200, 0.1) for second in range(20)]
    assert read(*flaky, at=20) == RequestCounts(total=20, failed=10)


def test_a_refusal_after_an_outage_is_no_outage() -> None:
    """`outage_ended` is about the last failure."""
    assert read((1.0, 0, 1.0), (2.0, 503, 0.0), at=5) == RequestCounts(total=2, failed=2)
    assert read((1.0, 503, 0.0), at=5) == RequestCounts(total=1, failed=1)
    ended = timedelta(seconds=2)
    assert read((1.0, 503, 0.0), (2.0, 0, 0.0), (3.0, 403, 0.0), (3.5, 0, 0.0), (4.0, 200, 0.0), at=6) == RequestCounts(
        total=5, failed=4, outage_ended=ended
    )


def test_it_stays_small() -> None:
    """An hour is the longest window that a policy can name."""
    now = 0.0
    counted = RequestWindow(lambda: now)
    for second in range(8_000):
        now = second
        counted.count(200)
    assert len(counted._seconds) == 3_600
    assert counted.read(timedelta(hours=1)) == RequestCounts(total=3_600)
