"""The headline: what happens now and what comes next, in a few words that `status` and the page share."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from rebalancer.model.words import format_rest, plural
from rebalancer.policy import Mode
from rebalancer.reporting.documents.overview import Figures
from rebalancer.reporting.documents.status import StatusDocument


class Sign(StrEnum):
    """What a thing means: each has one shape, one colour and one word, on the page and in the terminal."""

    VIOLATED = "violated"
    MOVING = "moving"
    WAITING = "waiting"
    UNREPAIRABLE = "unrepairable"
    GOOD = "good"
    PAUSE = "pause"
    NOTE = "note"
    NONE = "none"


class Headline(NamedTuple):
    """A sign and its words."""

    sign: Sign
    text: str


def headline(status: StatusDocument, figures: Figures | None, now: datetime) -> Headline:
    """Say what happens and what comes next; `figures` are those of the last cycle, None where there is none."""
    lease = status.lease
    if lease is not None and not lease.holder:
        if lease.free_since is None and lease.error:
            return Headline(Sign.NOTE, "Whether a controller runs is not known")
        return Headline(Sign.NONE, "Nothing is watched, nothing is repaired")
    if status.paused is not None:
        until, by = status.paused.until, f" by {status.paused.by}" if status.paused.by else ""
        end = f"until {_clock(until, now)}" if until is not None else "until somebody resumes"
        return Headline(Sign.PAUSE, f"Paused {end}{by}")
    if figures is None:
        return Headline(Sign.NOTE, "The first cycle has not ended yet")
    return _hindrance(status) or _repair(status, figures, now) or _rest(figures)


def _hindrance(status: StatusDocument) -> Headline | None:
    """Say what keeps every eviction back."""
    if status.mode == Mode.OBSERVE:
        return None
    if status.breaker.open:
        return Headline(Sign.NONE, f"No eviction now: the breaker is open ({', '.join(status.breaker.causes)})")
    if status.stale:
        return Headline(Sign.NONE, f"No eviction now: {status.stale}")
    bad = [guard.name for guard in status.guards if not guard.good]
    return Headline(Sign.NONE, f"No eviction now: not every guard is good ({', '.join(bad)})") if bad else None


def _repair(status: StatusDocument, figures: Figures, now: datetime) -> Headline | None:
    """Say what moves, and what waits for what."""
    approval = status.approval
    if approval is not None and not approval.approved:
        expires = _clock(approval.expires_at, now)
        return Headline(
            Sign.WAITING, f"A plan of {plural(approval.total, 'eviction')} waits for approval until {expires}"
        )
    following = ""
    if figures.next_at is not None:
        left = figures.next_at - now
        following = f", the next eviction is in {format_rest(left)}" if left.total_seconds() > 0 else ""
    if figures.moving:
        verb = "is" if figures.moving == 1 else "are"
        return Headline(Sign.MOVING, f"Repairing: {plural(figures.moving, 'pod')} {verb} moving{following}")
    if not figures.waiting:
        return None
    if status.mode == Mode.OBSERVE:
        would = plural(figures.waiting, "eviction")
        return Headline(
            Sign.VIOLATED, f"{_violated(figures)}: {would} would repair what can be, mode Observe makes none"
        )
    verb = "waits" if figures.waiting == 1 else "wait"
    return Headline(Sign.WAITING, f"{plural(figures.waiting, 'eviction')} {verb}{following}")


def _rest(figures: Figures) -> Headline:
    """Say what is left where nothing moves or waits."""
    if figures.unrepairable and figures.unrepairable == figures.violated:
        return Headline(Sign.UNREPAIRABLE, f"{_violated(figures)} and cannot be repaired")
    if figures.violated:
        return Headline(Sign.VIOLATED, f"{_violated(figures)}, nothing is planned")
    if not figures.workloads:
        return Headline(Sign.NOTE, "No workload has a spread constraint or a limit yet")
    return Headline(Sign.GOOD, "Nothing is violated, nothing moves")


def _clock(moment: datetime, now: datetime) -> str:
    """Write a time, with its day where that is not today."""
    return f"{moment:%H:%M:%S} UTC" if moment.date() == now.date() else f"{moment:%d %b %H:%M:%S} UTC"


def _violated(figures: Figures) -> str:
    return f"{plural(figures.violated, 'workload')} violated"
