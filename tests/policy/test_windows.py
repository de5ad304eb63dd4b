"""Windows in a policy: what is accepted, and what a person reads about the rest."""

import pytest

from tests.build import HEAD
from tests.policy.test_loader import load, refused

FIELDS = 'a cron schedule of minute, hour, day of month, month and day of week such as "0 22 * * 1-5"'

ZONE = "expected a time zone of the IANA database such as Europe/Berlin"


def windows(fields: str) -> str:
    return f"{HEAD}windows:\n- {{{fields}}}\n"


def test_a_window_reads_back_as_it_is_shown() -> None:
    """The zone is UTC where none is given; blanks between fields do not matter."""
    (window,) = load(windows('schedule: "0  22 * * mon-FRI", duration: 6h')).windows
    assert (window.schedule, window.time_zone) == ("0 22 * * mon-FRI", "UTC")
    assert load(windows('schedule: "0 0 29 2 *", duration: 168h, timeZone: Africa/Abidjan')).windows
    assert load(HEAD).windows == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ('schedule: "0 22 * * *"', "windows[0].duration: missing; expected a value"),
        ("duration: 6h", "windows[0].schedule: missing; expected a value"),
        ("schedule: 22, duration: 6h", f"windows[0].schedule: found 22; expected {FIELDS}"),
        ('schedule: "0 22 * *", duration: 6h', f'windows[0].schedule: found "0 22 * *"; expected {FIELDS}'),
        ('schedule: "0 0 22 * * *", duration: 6h', f'windows[0].schedule: found "0 0 22 * * *"; expected {FIELDS}'),
        (
            'schedule: "@daily", duration: 6h',
            f'windows[0].schedule: found "@daily"; expected {FIELDS}; did you mean "0 0 * * *"?',
        ),
        (
            'schedule: "0 24 * * *", duration: 6h',
            f'windows[0].schedule: found "0 24 * * *"; expected {FIELDS}, with a valid hour',
        ),
        (
            'schedule: "0 0 30 2 *", duration: 6h',
            f'windows[0].schedule: found "0 0 30 2 *"; expected {FIELDS}, with a valid day of month',
        ),
        (
            'schedule: "0 0 * * sat-mon", duration: 6h',
            f'windows[0].schedule: found "0 0 * * sat-mon"; expected {FIELDS}, with a valid day of week',
        ),
        (
            'schedule: "*/0 0 * * *", duration: 6h',
            f'windows[0].schedule: found "*/0 0 * * *"; expected {FIELDS}, with a valid minute',
        ),
        ('schedule: "0 0 L * *", duration: 6h', f'windows[0].schedule: found "0 0 L * *"; expected {FIELDS}'),
        ('schedule: "0 22 * * *", duration: 0s', 'windows[0].duration: found "0s"; expected more than 0s'),
        ('schedule: "0 22 * * *", duration: 168h1s', 'windows[0].duration: found "168h1s"; expected at most 168h'),
        (
            'schedule: "0 22 * * *", duration: 6h, timeZone: europe/berlin',
            f'windows[0].timeZone: found "europe/berlin"; {ZONE}',
        ),
        (
            'schedule: "0 22 * * *", duration: 6h, timeZone: Europe/Brelin',
            f'windows[0].timeZone: found "Europe/Brelin"; {ZONE}; did you mean Europe/Berlin?',
        ),
        ('schedule: "0 22 * * *", duration: 6h, timeZone: New York', f'windows[0].timeZone: found "New York"; {ZONE}'),
        (
            'schedule: "0 22 * * *", duration: 6h, timeZone: localtime',
            f'windows[0].timeZone: found "localtime"; {ZONE}',
        ),
        (
            'schedule: "0 22 * * *", duration: 6h, timeZone: ../../etc/passwd',
            'windows[0].timeZone: found "../../etc/passwd"; expected a time zone of the IANA database',
        ),
        (
            'schedule: "0 22 * * *", duration: 6h, timeZone: 2',
            "windows[0].timeZone: found 2; expected a time zone of the IANA database such as Europe/Berlin",
        ),
    ],
)
def test_mistakes_are_named_with_line_and_field(fields: str, problem: str) -> None:
    """And with what was expected; the likely value where there is one."""
    assert any(line.startswith(f"policy.yaml:4: {problem}") for line in refused(windows(fields))), refused(
        windows(fields)
    )
