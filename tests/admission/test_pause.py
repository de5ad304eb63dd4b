"""The kill switch: what its file says, and that whatever cannot be understood stops everything."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.admission.pause import KEY, Pause, find_misnamed, format_pause, read_pause, to_one_line
from rebalancer.admission.written import read_written

ZONES = [UTC, timezone(timedelta(hours=5, minutes=45))]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "until: 2026-01-31T12:00:00Z\nreason: zone b is upgraded\nby: alice\n",
            Pause(until=NOON, reason="zone b is upgraded", by="alice"),
        ),
        ('until: "2026-01-31T13:00:00+01:00"', Pause(until=NOON)),
        ("reason: a look first", Pause(reason="a look first")),
        ('{"until": null, "reason": null, "by": "bob"}', Pause(by="bob")),
        ("", Pause()),
        ("\n \n", Pause()),
        ("{}", Pause()),
    ],
)
def test_what_is_written_is_read(text: str, expected: Pause) -> None:
    """Each field may be left out; without `until` a pause lasts until somebody resumes."""
    assert read_pause(text) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("untill: 2026-01-31T12:00:00Z", "untill"),
        ("until: tomorrow", "until"),
        ("until: 2026-01-31T12:00:00", "timezone"),
        ("until: 2026-01-31", "until"),
        ("until: 2026-13-45T12:00:00Z", "RFC3339"),
        ("until: 12", "until"),
        ("reason: [a, b]", "reason"),
        ("reason: it's: broken: yaml", "mapping"),
        ("- until", "object"),
        ("no", "object"),
        ("null", "object"),
        ("a: &a [*a]", ""),
        ("[" * 1500, ""),
        ("!!python/name:os.system", ""),
        ("until: 0001-01-01T00:00:00+14:00", ""),
        ("a\x00b", ""),
        ("reason: upgrade\nuntil: 2027-06-01T00:00:00Z\nuntil: 2026-01-01T00:00:00Z", "until is there twice"),
        ("reason: " + "x" * 16_384, "at most 16,384"),
    ],
)
def test_what_cannot_be_read_pauses(text: str, names: str) -> None:
    """It pauses for good, and the message says what is wrong and that this is why."""
    pause = read_pause(text)
    assert pause.until is None
    assert pause.holds(datetime.max.replace(tzinfo=UTC))
    assert names in pause.unreadable
    assert "cannot be read, which counts as a pause" in pause.message
    assert pause.unreadable in pause.message


@given(st.text())
@example("until: 2026-01-31T12:00:00Z")
@example("? !!set {a}")
def test_no_text_does_harm(text: str) -> None:
    """Any text at all is a pause, unless it names a moment that is over."""
    pause = read_pause(text)
    assert pause.until is not None or pause.holds(NOON)
    assert "\n" not in pause.message
    assert pause.message.isprintable()


@given(
    st.none() | st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.sampled_from(ZONES)),  # noqa: DTZ001
    st.text().map(to_one_line),
    st.text().map(to_one_line),
)
def test_what_the_command_writes_is_what_the_controller_reads(until: datetime | None, reason: str, by: str) -> None:
    """To the second, in any zone, with any text."""
    pause = Pause(until=until and until.replace(microsecond=0), reason=reason, by=by)
    assert read_pause(format_pause(pause)) == pause


def test_people_can_read_what_the_command_writes() -> None:
    """In UTC, in the order of the message, letters as they are typed."""
    until = NOON.astimezone(ZONES[1])
    text = "until: '2026-01-31T12:00:00Z'\nreason: Umbau für Zürich\nby: Łucja\n"
    assert format_pause(Pause(until=until, reason="Umbau für Zürich", by="Łucja")) == text


def test_it_ends_by_itself() -> None:
    """At `until`, not a moment later or sooner."""
    pause = Pause(until=NOON)
    assert pause.holds(NOON - timedelta(microseconds=1))
    assert not pause.holds(NOON)
    assert Pause().holds(NOON)


def test_an_end_in_the_past_is_explained() -> None:
    """Whoever mistook the year or the zone meant to stop evictions."""
    ended = Pause(until=NOON, reason="an upgrade").explain_end(NOON)
    assert ended == (
        "pause.yaml: until 2026-01-31 12:00:00Z is in the past, so evictions are not paused. Set a later time, leave "
        "`until` out to pause until resumed, or remove the key"
    )
    assert Pause(until=NOON).explain_end(NOON - timedelta(seconds=1)) == ""
    assert Pause().explain_end(NOON) == ""
    assert Pause(unreadable="broken").explain_end(NOON) == ""


def test_the_message_says_who_until_when_and_why() -> None:
    """And where that is not known, it says so or leaves it out."""
    assert Pause(until=NOON, reason="an upgrade", by="alice").message == (
        "paused by alice until 2026-01-31 12:00:00Z: an upgrade"
    )
    assert Pause().message == "paused until somebody resumes: no reason given"


def test_long_texts_are_shortened() -> None:
    """Events and logs show the reason; a long one is truncated."""
    assert to_one_line("a\n\tb\x1b[31m  c") == "a b [31m c"
    assert len(to_one_line("x" * 5000)) == 200


def test_a_pause_under_a_wrong_name_pauses() -> None:
    """Its author meant to stop evictions; keys that are about something else mean nothing."""
    pause = find_misnamed(("notes", "pause.yml"))
    assert pause is not None
    assert pause.message.endswith("found the key pause.yml; expected pause.yaml")
    assert find_misnamed(("notes", KEY)) is None


BOMB = "- &a0 {k0: v}\n" + "".join(f"- &a{n} {{!!merge m: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("by: &a ada\nreason: *a\n", "it has an alias; write the value itself"),
        (BOMB, "it has an alias; write the value itself"),
        ("[" * 1_000, "it has more than 4 levels or 3,000 values"),
        ("".join(f"k{n}: v\n" for n in range(1_600)), "it has more than 4 levels or 3,000 values"),
    ],
    ids=["alias", "merged aliases", "deep", "large"],
)
def test_what_grows_when_it_is_read_is_not_read(text: str, why: str) -> None:
    """A short text may mean billions of values: each replica reads what one person has written."""
    assert read_pause(text).unreadable == why
    assert read_written(text).problem.endswith(why)
