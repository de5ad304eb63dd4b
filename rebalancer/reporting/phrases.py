"""Phrases that plan, report and explanation share: names, counts before and after, limits, the proof."""

from collections.abc import Iterable, Mapping, Sequence

from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import ComponentPlan, Eviction
from rebalancer.reporting.documents import WorkloadName
from rebalancer.reporting.expected_counts import worst_after
from rebalancer.reporting.keys import key_text, short

_DOMAINS = 12
"""More domains than this are summed up."""

_MOST_NAMED = 5
"""So many pods are named; the rest is counted."""


def many(number: int, what: str) -> str:
    """Count something."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def part(number: int, total: int, what: str, verb: str) -> str:
    """Say of how many of all something holds; `verb` is in the plural, and agrees with all of it."""
    return f"{number} of {many(total, what)} {verb}{'s' if total == 1 else ''}"


def listed(names: Iterable[str]) -> str:
    """Name the first of many."""
    found = list(names)
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return ", ".join(found[:_MOST_NAMED]) + more


def workloads(names: Sequence[WorkloadName]) -> str:
    """Name the first of many workloads with their kinds."""
    shown = ", ".join(f"{each.name} ({each.kind})" for each in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def change(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Show counts by domain, and what they will be; `after` is empty where that is not known."""
    unchanged = not after or after == before
    if len(before) > _DOMAINS:
        return _range(before) if unchanged else f"{_range(before)} -> {_range(after)}"
    start = " ".join(f"{value or '(empty)'}:{before[value]}" for value in sorted(before)) or "no domains"
    return start if unchanged else f"{start} -> {' '.join(str(after.get(value, 0)) for value in sorted(before))}"


def _range(counts: Mapping[str, int]) -> str:
    return f"{min(counts.values())} to {max(counts.values())} over {len(counts)} domains"


def proof(evictions: int, lower_bound: int) -> str:
    """Say how many evictions a repair takes, and whether fewer would do."""
    if evictions == lower_bound:
        return f"{many(evictions, 'eviction')} (minimum {lower_bound}, proved)"
    return f"{many(evictions, 'eviction')} (at least {lower_bound}, {evictions} found: gap {evictions - lower_bound})"


def repair_takes(group: ComponentPlan) -> str:
    """Say how many evictions the whole repair of a group takes, or would."""
    text = proof(group.evictions, group.lower_bound)
    return text if group.state is State.VIOLATED else f"{text}, but no step leads there now"


def sureness(eviction: Eviction) -> str:
    """Say how certain it is that an eviction helps, and whether it may cost one more."""
    sure = "forced" if eviction.forced else "predicted, not forced"
    return f"{sure}; may take one eviction above the minimum" if eviction.repair.spare else sure


def limit_change(limit: EvaluatedLimit, evictions: Sequence[Eviction], snapshot: Snapshot) -> str:
    """Show a limit, what its worst domain holds, and what it will hold."""
    name = f"limit {limit.group}/{limit.limit}" + (f" [{key_text(limit.key)}]" if limit.key else "")
    text = f"{name}, {limit.rule.bound} per {short(limit.topology_key)}: {_standing(limit)}"
    found = worst_after(limit, evictions, snapshot)
    if found is None:
        return text
    number, certain = found
    return f"{text} -> {_held(limit, number)}{'' if certain else ' at most'}"


def _standing(limit: EvaluatedLimit) -> str:
    if limit.max_skew is not None:
        return f"a difference of {limit.maximum - limit.minimum}"
    held = _held(limit, limit.minimum if limit.min_pods is not None else limit.maximum)
    return f"{held} in {limit.worst}" if limit.worst is not None else held


def _held(limit: EvaluatedLimit, number: int) -> str:
    if limit.max_skew is not None:
        return str(number)
    percent = f" ({round(100 * number / limit.total)} %)" if limit.total else ""
    return f"{number} of {limit.total}{percent}"


def broken(limits: Iterable[EvaluatedLimit]) -> list[EvaluatedLimit]:
    """Return the limits that do not hold."""
    return [limit for limit in limits if limit.state is not State.SATISFIED]
