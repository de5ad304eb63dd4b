"""Windows: open and closed to the second, on real time zones, across both changes of the clock."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.admission.opening import find_opening
from rebalancer.policy import Window

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
BERLIN = "Europe/Berlin"


def window(schedule: str, duration: str, zone: str = "UTC") -> Window:
    return Window.model_validate({"schedule": schedule, "duration": duration, "timeZone": zone})


def moment(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}Z")


def openings(opened: Window, first: str, last: str) -> list[tuple[str, str]]:
    """Return from when till when (UTC) a window is open, asked minute by minute."""
    spans: list[list[datetime]] = []
    now = moment(first)
    while now < moment(last):
        if find_opening([opened], now) is None:
            if not spans or spans[-1][1] != now:
                spans.append([now, now])
            spans[-1][1] = now + MINUTE
        now += MINUTE
    return [(f"{start:%d %H:%M}", f"{end:%d %H:%M}") for start, end in spans]


def test_without_windows_nothing_is_ever_closed() -> None:
    assert find_opening([], moment("2026-06-01T00:00:00")) is None


def test_a_window_opens_and_closes_on_the_second() -> None:
    """It includes its first moment and not its last; while it is closed the next opening is known."""
    nightly = window("0 22 * * *", "6h")
    opens, closes = moment("2026-06-01T22:00:00"), moment("2026-06-02T04:00:00")
    for now, at in (
        (opens - timedelta(microseconds=1), opens),
        (opens, None),
        (closes - timedelta(microseconds=1), None),
        (closes, opens + timedelta(days=1)),
    ):
        opening = find_opening([nightly], now)
        assert (opening and opening.at) == at


def test_of_several_windows_one_is_enough_and_the_first_to_open_is_named() -> None:
    night, noon = window("0 22 * * *", "1h"), window("0 12 * * *", "1h")
    for order in ([night, noon], [noon, night]):
        assert find_opening(order, moment("2026-06-01T22:30:00")) is None
        opening = find_opening(order, moment("2026-06-01T10:00:00"))
        assert opening is not None
        assert (opening.window, opening.at) == (noon, moment("2026-06-01T12:00:00"))


@pytest.mark.parametrize(
    ("schedule", "open_on"),
    [
        ("0 12 * * 1-5", [1, 2, 3, 4, 5, 8]),
        ("0 12 * * MON,wed", [1, 3, 8]),
        ("0 12 * * 0", [7]),
        ("0 12 * * 7", [7]),
        ("0 12 2-8/3 6 *", [2, 5, 8]),
        ("0 12 3 * 0", [3, 7]),
        ("0 12 */2 * 1", [1]),
        ("0 12 1 7 *", []),
    ],
)
def test_schedules_are_those_of_cron(schedule: str, open_on: list[int]) -> None:
    """1 June 2026 is a Monday. Day of month and day of week are alternatives, unless one of them begins with `*`."""
    days = [
        int(start[:2]) for start, _ in openings(window(schedule, "1m"), "2026-06-01T00:00:00", "2026-06-09T00:00:00")
    ]
    assert days == open_on


# The clock of Berlin skips 02:00 to 03:00 on 29 March 2026 (01:00 UTC) and repeats it on 25 October 2026 (00:00 to
# 02:00 UTC).
@pytest.mark.parametrize(
    ("schedule", "duration", "spring", "autumn"),
    [
        pytest.param(
            *("30 2 * * *", "1h"), [("29 01:00", "29 02:00")], [("25 00:30", "25 01:30")], id="skipped and repeated"
        ),
        pytest.param(
            *("0 1 * * *", "3h"), [("29 00:00", "29 03:00")], [("24 23:00", "25 02:00")], id="open during the change"
        ),
        pytest.param(*("0 4 * * *", "1h"), [("29 02:00", "29 03:00")], [("25 03:00", "25 04:00")], id="afterwards"),
        pytest.param(
            *("*/30 2 * * *", "10m"),
            [],
            [("25 00:00", "25 00:10"), ("25 00:30", "25 00:40"), ("25 01:00", "25 01:10"), ("25 01:30", "25 01:40")],
            id="every half hour",
        ),
    ],
)
def test_changes_of_the_clock(
    schedule: str, duration: str, spring: list[tuple[str, str]], autumn: list[tuple[str, str]]
) -> None:
    """A fixed time occurs once: after the gap, in the first pass of a repeated hour. A window lasts as long as ever."""
    berlin = window(schedule, duration, BERLIN)
    assert openings(berlin, "2026-03-28T22:00:00", "2026-03-29T10:00:00") == spring
    assert openings(berlin, "2026-10-24T22:00:00", "2026-10-25T10:00:00") == autumn


class Cron:
    """Given minutes and hours on every day, or each matching minute where `wild`: counted, not computed."""

    def __init__(self, minutes: set[int], hours: set[int], zone: str, *, wild: bool) -> None:
        self.minutes, self.hours, self.zone, self.wild = minutes, hours, ZoneInfo(zone), wild

    @property
    def schedule(self) -> str:
        hours = ",".join(map(str, sorted(self.hours)))
        # `*/1,N` begins with a star and is every minute.
        return f"*/1 {hours} * * *" if self.wild else f"{','.join(map(str, sorted(self.minutes)))} {hours} * * *"

    def occurrences(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """Yield the occurrences between two moments, with some before."""
        if self.wild:
            now = first
            while now <= last:
                if now.astimezone(self.zone).hour in self.hours:
                    yield now
                now += MINUTE
            return
        local = first.replace(tzinfo=None, hour=0, minute=0) - timedelta(days=2)
        while local < last.replace(tzinfo=None) + timedelta(days=2):
            if local.minute in self.minutes and local.hour in self.hours:
                shown = local
                while (exact := shown.replace(tzinfo=self.zone).astimezone(UTC)).astimezone(self.zone).replace(
                    tzinfo=None, fold=0
                ) != shown:
                    shown += MINUTE
                yield exact
            local += MINUTE


ZONES = {
    BERLIN: ("2026-03-29T01:00:00", "2026-10-25T01:00:00"),
    "America/New_York": ("2026-03-08T07:00:00", "2026-11-01T06:00:00"),
    "Australia/Lord_Howe": ("2026-04-04T15:00:00", "2026-10-03T15:30:00"),  # by half an hour
    "America/Sao_Paulo": ("2018-02-18T02:00:00", "2018-11-04T03:00:00"),  # at midnight
    "Asia/Kathmandu": ("2026-03-29T01:00:00",),  # never; 05:45 from UTC
    "UTC": ("2026-03-29T01:00:00",),
}
"""Zones with moments at which their clock changes."""
HALF_HOURS = {"Australia/Lord_Howe"}


@given(
    change=st.sampled_from([(zone, at) for zone, moments in ZONES.items() for at in moments]),
    minutes=st.sets(st.sampled_from([0, 15, 30, 45, 59]), min_size=1),
    hours=st.sets(st.sampled_from([0, 1, 2, 3, 12, 23]), min_size=1),
    wild=st.booleans(),
    lasts=st.integers(1, 300),
    offset=st.integers(-1440, 1440),
)
@example(change=(BERLIN, "2026-10-25T01:00:00"), minutes={30}, hours={2}, wild=False, lasts=60, offset=60)
@example(change=(BERLIN, "2026-03-29T01:00:00"), minutes={30}, hours={2}, wild=False, lasts=60, offset=0)
def test_open_exactly_within_the_duration_after_an_occurrence(
    change: tuple[str, str], minutes: set[int], hours: set[int], *, wild: bool, lasts: int, offset: int
) -> None:
    """On every zone and around every change of its clock, against occurrences counted minute by minute.

    Where a clock changes by half an hour, a schedule with a star may open late, but never without an occurrence.
    """
    zone, at = change
    cron = Cron(minutes, hours, zone, wild=wild)
    now, duration = moment(at) + offset * MINUTE, lasts * MINUTE
    known = sorted(cron.occurrences(now - duration, now + timedelta(days=2)))
    opening = find_opening([window(cron.schedule, f"{lasts}m", zone)], now)
    if wild and zone in HALF_HOURS:
        assert opening.at in known if opening is not None else any(now - duration < start <= now for start in known)
    elif any(now - duration < start <= now for start in known):
        assert opening is None
    else:
        assert opening is not None
        assert opening.at == min(start for start in known if start > now)
