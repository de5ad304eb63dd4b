"""What the evictions of a plan come to: what is decided, what is to follow, and what cannot be had."""

from typing import NamedTuple

from rebalancer.model.reasons import Reason, State
from rebalancer.planning.plan import ComponentPlan, Plan


class Sums(NamedTuple):
    """Numbers of evictions.

    `needed` brings all of some groups right, `least` is proved for those; `now` and `waiting` are decided, `later`
    is to follow. `part` of what is decided repairs groups in part. `out_of_reach` is the least for the groups that
    nothing brings right now. What waits for a budget that never has room does not count as waiting.
    """

    now: int
    waiting: int
    later: int
    part: int
    needed: int
    least: int
    out_of_reach: int


def sums(plan: Plan) -> Sums:
    """Sum a plan up."""
    whole = {group.name: group for group in plan.groups if to_the_end(group)}
    waiting = [each.eviction for each in plan.waiting if each.reason is not Reason.STEP_EXCEEDS_BUDGET]
    part = sum(each.group not in whole for each in (*plan.evictions, *waiting))
    needed = sum(group.evictions for group in whole.values())
    least = sum(group.lower_bound for group in whole.values())
    return Sums(
        now=len(plan.evictions),
        waiting=len(waiting),
        later=max(0, needed + part - len(plan.evictions) - len(waiting)),
        part=part,
        needed=needed,
        least=least,
        out_of_reach=plan.lower_bound - least,
    )


def to_the_end(group: ComponentPlan) -> bool:
    """Say whether all of a group is being brought right by evictions, or will be once something else is over."""
    return group.state is State.VIOLATED and bool(group.evictions)
