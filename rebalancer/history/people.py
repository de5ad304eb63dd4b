"""An entry for each thing that people have said: a pause, its end, an approval, another policy.

What was reported last is in the memory (`Noted`), so that a change that happens while nobody leads is reported once, by
the next leader.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec import structs

from rebalancer.admission.pause import Pause
from rebalancer.admission.written import NOT_READ, Written
from rebalancer.history.outbox import seconds_of
from rebalancer.history.words import cut
from rebalancer.model.history import NOBODY, UNKNOWN, Author, Entry, EntryKind, Noted
from rebalancer.model.moves import make_token


@dataclass(frozen=True, kw_only=True, slots=True)
class Acts:
    """What people have said, as the objects that they write say it, and who has changed these last."""

    pause: Pause | None = None
    pause_author: Author | None = None
    """None before the kill switch was read."""
    approved: str = ""
    approval_author: Author = NOBODY
    written: Written = NOT_READ
    """The approval of a whole plan."""
    written_author: Author = NOBODY
    policy: str = ""
    """The hash of the cluster policy in force."""
    policy_error: str = ""
    """Why the newest policy is not in force, "" if it is."""
    policy_author: Author | None = NOBODY
    """None until it was read."""


NO_ACTS: Final = Acts()


def pause_token(pause: Pause) -> str:
    """Return a short name of a pause, by which its end can be told from that of another."""
    return make_token(pause.message)


def note_people(noted: Noted, acts: Acts, now: datetime) -> tuple[tuple[Entry, ...], Noted]:
    """Return the entries for what is new, and what has been reported after them."""
    following = structs.replace(
        _note_pause(noted, acts, now),
        approved=acts.approved or noted.approved,  # an approval that is not read yet has not been withdrawn
        whole=acts.written.id or noted.whole,
    )
    if acts.policy_author is not None:
        refused = make_token(acts.policy_error) if acts.policy_error else ""
        following = structs.replace(following, policy=acts.policy, refused=refused)
    return (*_pause_entries(noted, following, acts, now), *_other_entries(noted, following, acts, now)), following


def _note_pause(noted: Noted, acts: Acts, now: datetime) -> Noted:
    if acts.pause_author is None:
        return noted
    if acts.pause is None or not acts.pause.holds(now):
        return structs.replace(noted, pause="", paused_at=0) if noted.pause else noted
    token = pause_token(acts.pause)
    since = noted.paused_at if noted.pause else seconds_of(now)  # one that takes the place of another prolongs it
    return noted if noted.pause == token else structs.replace(noted, pause=token, paused_at=since)


def _pause_entries(noted: Noted, following: Noted, acts: Acts, now: datetime) -> Iterator[Entry]:
    if noted.pause == following.pause:
        return
    author = acts.pause_author or NOBODY
    if following.pause and acts.pause is not None:
        pause = acts.pause
        yield _act(
            EntryKind.PAUSED,
            Author(who=pause.by, manager=author.manager, at=author.at),
            now,
            what=pause.unreadable or pause.reason,
            until=seconds_of(pause.until) if pause.until is not None else 0,
        )
    elif acts.pause is not None:
        # Its time is over. Nobody has ended it.
        yield Entry(seq=0, at=seconds_of(now), kind=EntryKind.RESUMED, since=noted.paused_at)
    else:
        yield structs.replace(_act(EntryKind.RESUMED, _about(author, noted.pause), now), since=noted.paused_at)


def _other_entries(noted: Noted, following: Noted, acts: Acts, now: datetime) -> Iterator[Entry]:
    if following.approved != noted.approved:
        yield _act(EntryKind.APPROVED, _about(acts.approval_author, acts.approved), now, what=acts.approved)
    whole = acts.written.approval
    if whole is not None and following.whole != noted.whole:
        author = _about(acts.written_author, whole.plan)
        author = structs.replace(author, who=author.who or whole.by)
        yield _act(
            EntryKind.APPROVED, author, now, what=whole.plan, number=whole.evictions, until=seconds_of(whole.until)
        )
    if following.policy != noted.policy or (noted.refused and not following.refused):
        yield _act(EntryKind.POLICY_CHANGED, acts.policy_author or NOBODY, now, what=acts.policy)
    if following.refused and following.refused != noted.refused:
        yield _act(EntryKind.POLICY_REFUSED, acts.policy_author or NOBODY, now, what=acts.policy_error)


def _about(author: Author, of: str) -> Author:
    """Return the author without a declaration that is about something else, such as an earlier pause."""
    return author if author.of == of else structs.replace(author, who="")


def _act(kind: EntryKind, author: Author, now: datetime, *, what: str = "", until: int = 0, number: int = 0) -> Entry:
    """Make an entry; the field manager stands in for a person whom nothing names."""
    who = cut(author.who or UNKNOWN)
    act = Entry(seq=0, at=seconds_of(now), kind=kind, who=who, what=cut(what), until=until, number=number)
    return act if author.who else structs.replace(act, manager=cut(author.manager), since=author.at)
