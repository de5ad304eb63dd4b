"""What people declare: a pause, its end, an approval, a new policy. Each is reported once its author is known.

The last report is in the memory (`Noted`), so that the next leader reports, once, a change that happened while no
process led. A pause that ended unseen leaves a trace: the declaration of its end, or the expired pause itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from msgspec import structs

from rebalancer.account.happened import Declared
from rebalancer.admission.pause import Pause
from rebalancer.admission.rights import Rights
from rebalancer.admission.written import NOT_READ, Written
from rebalancer.model.history import NOBODY, Author, EndedPause, EntryKind, Noted
from rebalancer.model.moments import seconds_of
from rebalancer.model.moves import make_token

NO_RIGHTS: Final = Rights(everywhere=False)
"""Nothing is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Acts:
    """What people declare by the objects that they write, and who changed these objects last."""

    pause: Pause | None = None
    pause_author: Author | None = None
    """Who wrote the kill switch; None before it was read."""
    approved: str = ""
    approval_author: Author = NOBODY
    written: Written = NOT_READ
    """The approval of a whole plan."""
    written_author: Author = NOBODY
    policy: str = ""
    """The hash of the cluster policy in force."""
    policy_error: str = ""
    """Why the newest policy is not in force, "" if it is in force."""
    policy_missing: bool = False
    rights: Rights = NO_RIGHTS
    """Where the account may evict; people grant and revoke this right."""
    policy_author: Author | None = NOBODY
    """Who changed the policy; None until that was read."""


NO_ACTS: Final = Acts()

_MOST_LACKING: Final = 50
"""Up to this many namespaces without the right to evict are stored."""


def pause_token(pause: Pause) -> str:
    """Return a short name of a pause, which tells its end from the end of another pause."""
    return make_token(pause.message)


def find_people(noted: Noted, acts: Acts, now: datetime) -> tuple[Sequence[Declared], Noted]:
    """Return the new declarations, and the state of reports after them."""
    unseen, noted = _find_unseen(noted, acts, now)
    following = structs.replace(
        _note_pause(noted, acts, now),
        approved=acts.approved or noted.approved,  # an approval that is not read yet has not been withdrawn
        whole=acts.written.id or noted.whole,
        lacking=_note_rights(noted, acts.rights),
    )
    if acts.policy_author is not None:
        refused = make_token(acts.policy_error) if acts.policy_error else ""
        following = structs.replace(following, policy=acts.policy, refused=refused)
    found = (
        unseen,
        _find_pause(noted, following, acts),
        _find_others(noted, following, acts),
        _find_rights(noted, following),
    )
    return tuple(chain(*found)), following


def _note_rights(noted: Noted, rights: Rights) -> tuple[str, ...]:
    """Return the namespaces without the right; known ones stay until the right is known to be back."""
    known = [name for name in noted.lacking if not rights.allows(name)]
    return tuple(sorted({*known, *rights.missing}))[:_MOST_LACKING]


def _find_rights(noted: Noted, following: Noted) -> Iterator[Declared]:
    before, after = set(noted.lacking), set(following.lacking)
    for kind, names in (
        (EntryKind.RIGHT_MISSING, sorted(after - before)),
        (EntryKind.RIGHT_GRANTED, sorted(before - after)),
    ):
        if names:
            yield Declared(kind, None, what=", ".join(names), number=len(names))


def describe_end(pause: Pause, author: Author, now: datetime) -> EndedPause:
    """Return the declaration of a pause that ends now; `author` is who wrote it, as Kubernetes recorded."""
    return EndedPause(
        by=pause.by,
        manager=author.manager,
        reason=pause.unreadable or pause.reason,
        since=author.at,
        until=seconds_of(pause.until) if pause.until is not None else 0,
        at=max(seconds_of(now), author.at),
    )


def _find_unseen(noted: Noted, acts: Acts, now: datetime) -> tuple[Sequence[Declared], Noted]:
    """Return the start of a pause that nobody saw while it held, and the state of reports after it.

    Its end is reported like the end of any other pause.
    """
    author, pause = acts.pause_author, acts.pause
    if author is None:
        return (), noted
    declared, expired = author.ended, pause is not None and not pause.holds(now)
    resumed = make_token(f"{author.of} {declared.since} {declared.at}") if declared is not None else noted.resumed
    over = pause_token(pause) if pause is not None and expired else noted.expired
    following = structs.replace(noted, resumed=resumed, expired=over)
    if resumed != noted.resumed:
        token, ended = author.of, declared
    elif over != noted.expired and pause is not None:
        token, ended = over, describe_end(pause, author, now)
    else:
        return (), following
    # A pause whose time was over when it was written has paused nothing.
    was_none = ended is None or 0 < ended.until <= ended.since or (expired and not ended.since)
    if ended is None or was_none or token in {noted.pause, noted.expired}:
        return (), following
    person = Author(who=ended.by, manager=ended.manager, at=ended.since)
    at = ended.since or ended.at
    begun = Declared(EntryKind.PAUSED, person, what=ended.reason, until=ended.until, at=at)
    since = noted.paused_at if noted.pause else ended.since
    return (begun,), structs.replace(following, pause=token, paused_at=since)


def _note_pause(noted: Noted, acts: Acts, now: datetime) -> Noted:
    if acts.pause_author is None:
        return noted
    if acts.pause is None or not acts.pause.holds(now):
        return structs.replace(noted, pause="", paused_at=0) if noted.pause else noted
    token = pause_token(acts.pause)
    since = noted.paused_at if noted.pause else seconds_of(now)  # a pause that replaces another pause prolongs it
    return noted if noted.pause == token else structs.replace(noted, pause=token, paused_at=since)


def _find_pause(noted: Noted, following: Noted, acts: Acts) -> Iterator[Declared]:
    if noted.pause == following.pause:
        return
    author = acts.pause_author or NOBODY
    if following.pause and acts.pause is not None:
        pause = acts.pause
        yield Declared(
            EntryKind.PAUSED,
            Author(who=pause.by, manager=author.manager, at=author.at),
            what=pause.unreadable or pause.reason,
            until=seconds_of(pause.until) if pause.until is not None else 0,
        )
    else:
        yield _find_end(noted, acts.pause, author)


def _find_end(noted: Noted, pause: Pause | None, author: Author) -> Declared:
    """Return the end of the reported pause. A pause that is still there has ended by its time."""
    declared = author.ended if pause is None and author.of == noted.pause else None
    until = seconds_of(pause.until) if pause is not None and pause.until is not None else 0
    at = until or (declared.at if declared is not None else 0)
    if declared is not None and 0 < declared.until <= declared.at:
        at = until = declared.until  # it was removed afterwards
    ended_by = author.about(noted.pause) if pause is None and not until else None
    # Another clock may have written it: nothing ends before it has begun.
    return Declared(
        EntryKind.RESUMED, ended_by, since=noted.paused_at, until=until, at=max(at, noted.paused_at) if at else 0
    )


def _find_others(noted: Noted, following: Noted, acts: Acts) -> Iterator[Declared]:
    if following.approved != noted.approved:
        yield Declared(EntryKind.APPROVED, acts.approval_author.about(acts.approved), what=acts.approved)
    whole = acts.written.approval
    if whole is not None and following.whole != noted.whole:
        author = acts.written_author.about(whole.plan)
        author = structs.replace(author, who=author.who or whole.by)
        number, until = whole.evictions, seconds_of(whole.until)
        yield Declared(EntryKind.APPROVED, author, what=whole.plan, number=number, until=until)
    if following.policy != noted.policy or (noted.refused and not following.refused):
        kept = int(following.policy == noted.policy)
        yield Declared(EntryKind.POLICY_CHANGED, acts.policy_author or NOBODY, what=acts.policy, number=kept)
    if following.refused and following.refused != noted.refused:
        kind = EntryKind.POLICY_MISSING if acts.policy_missing else EntryKind.POLICY_REFUSED
        yield Declared(kind, acts.policy_author or NOBODY, what=acts.policy_error)
