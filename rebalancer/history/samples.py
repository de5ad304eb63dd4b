"""Samples of the trend, taken when violated workloads, pods above their bounds, or the largest skew change.

The number of violated workloads is the one that status and page show for that cycle.

The bound of a constraint is the most that a domain may hold once the constraint is satisfied. Example: with 12 pods in
3 domains and maxSkew 1, the bound is 4, because with 5 in one domain another would hold at most 3.
"""

from datetime import datetime

from msgspec import structs

from rebalancer.assessment.assess import Assessment, EvaluatedConstraint
from rebalancer.assessment.guarantees import most_under
from rebalancer.model.history import Entry, EntryKind, Noted
from rebalancer.model.moments import seconds_of
from rebalancer.model.reasons import State


def note_sample(noted: Noted, assessment: Assessment, number: int, now: datetime) -> tuple[tuple[Entry, ...], Noted]:
    """Return a sample if its numbers differ from those of the last sample, and the updated `noted`.

    `number` is the number of violated workloads.
    """
    above = skew = 0
    for group in assessment.violated:
        violated = [one for one in group.hard if one.counts.violated]
        above += max(map(count_above, violated), default=0)
        skew = max(skew, *(one.skew for one in violated))
    for limit in assessment.limits:
        if limit.state is not State.SATISFIED:
            above += max(0, -limit.headroom)
    numbers = {"violated": number, "above": above, "skew": skew}
    following = structs.replace(noted, **numbers)
    if following == noted:
        return (), noted
    entry = Entry(seq=0, at=seconds_of(now), kind=EntryKind.SAMPLE, number=numbers["violated"], above=above, skew=skew)
    return (entry,), following


def count_above(evaluated: EvaluatedConstraint) -> int:
    """Return how many pods are above the bounds of the domains of a constraint."""
    held, most = evaluated.counts.by_domain, evaluated.max_skew
    if not held:
        return 0
    if not evaluated.counts.floor_at_zero:
        most = most_under(sum(held.filled.values()), len(held), most)
    return sum(max(0, count - most) for count in held.filled.values())
