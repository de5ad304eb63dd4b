"""A plan as a person reads it: the totals with the proof, what changes and why, what waits, what stays, the promise."""

from collections.abc import Iterable, Mapping, Sequence

from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot, get_known_time
from rebalancer.planning.plan import ComponentPlan, Eviction, Plan, Waiting
from rebalancer.planning.scope.components import current_counts
from rebalancer.reporting.expected_counts import after, decided
from rebalancer.reporting.keys import short
from rebalancer.reporting.phrases import (
    broken,
    change,
    limit_change,
    listed,
    many,
    proof,
    repair_takes,
    sureness,
    workloads,
)
from rebalancer.reporting.plan_document import workload_name
from rebalancer.reporting.plan_totals import sums

_PLACES = 4
_EXPLAINED = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})


def plan_text(plan: Plan, snapshot: Snapshot, *, mode: str, satisfied: int, unplanned: int = 0) -> str:
    """Show a plan.

    `satisfied` is how many groups hold all their constraints and limits, `unplanned` how many break only such as
    nothing is evicted for.
    """
    seen = get_known_time(plan.made_at)
    view = f"view of {seen:%Y-%m-%d %H:%M:%SZ}" if seen else "view of a snapshot without a time"
    lines = [f"{view}  policy {plan.policy_hash} ({mode})", _totals(plan)]
    every, going, waiting = decided(plan), _by_group(plan.evictions), _waiting_by_group(plan.waiting)
    for group in plan.groups:
        name = group.name
        lines += ["", *_head(group, every.get(name, ()))]
        lines += _change(group, every.get(name, ()), snapshot)
        for eviction in going.get(name, ()):
            lines += _going(eviction)
        lines += _held_back(group, waiting.get(name, ()), plan)
    lines += ["", f"{many(satisfied, 'group')} of workloads within all constraints and limits."]
    if unplanned:
        break_ = "breaks" if unplanned == 1 else "break"
        lines.append(f"{many(unplanned, 'group')} {break_} only what nothing is evicted for: rebalancer report")
    return "\n".join([*lines, "Nothing was changed.", ""])


def _by_group(evictions: Iterable[Eviction]) -> Mapping[str, Sequence[Eviction]]:
    found: dict[str, list[Eviction]] = {}
    for eviction in evictions:
        found.setdefault(eviction.group, []).append(eviction)
    return found


def _waiting_by_group(waiting: Iterable[Waiting]) -> Mapping[str, Sequence[Waiting]]:
    found: dict[str, list[Waiting]] = {}
    for each in waiting:
        found.setdefault(each.eviction.group, []).append(each)
    return found


def _totals(plan: Plan) -> str:
    """Count what is decided, with the proof for what it brings right; and what would be needed, and cannot be had."""
    found = sums(plan)
    counts = f"{found.now} now, {found.waiting} wait" + (f", {found.later} later" if found.later else "")
    going = found.now + found.waiting
    if found.needed:
        text = f"{proof(found.needed, found.least)}: {counts}"
    elif going:
        text = f"{many(going, 'eviction')}: {counts}"
    else:
        text = "no eviction can be made now" if plan.groups else "nothing to repair"
    if found.part:
        text += f"; {found.part} of them repair{'s' if found.part == 1 else ''} a part"
    if found.out_of_reach:
        more = " more" if found.needed else ""
        text += f"; what cannot be repaired now would take {found.out_of_reach}{more} at the least (proved)"
    return text


def _head(group: ComponentPlan, evictions: Sequence[Eviction]) -> Iterable[str]:
    mark = "!" if group.state is State.VIOLATED else "x"
    names = workloads([workload_name(each) for each in group.workloads])
    text = f"{mark} {group.component.namespace}/{names}  {group.state}"
    if group.evictions:
        text += f"  {repair_takes(group)}"
    elif evictions:
        text += f"  {many(len(evictions), 'eviction')} to repair a part"
    yield text


def _change(group: ComponentPlan, evictions: Sequence[Eviction], snapshot: Snapshot) -> Iterable[str]:
    """Show each constraint and each limit that does not hold, before and after what is decided."""
    before, then = current_counts(group.component), after(group, evictions, snapshot)
    bounds = {(each.constraint.key, each.constraint.max_skew): None for judged in group.groups for each in judged.hard}
    for key, max_skew in bounds:
        yield f"    {short(key)} (maxSkew {max_skew}): {change(before.get(key, {}), then.get(key, {}))}"
    wrong = broken(group.limits)
    for limit in wrong:
        yield f"    {limit_change(limit, evictions, snapshot)}"
    holding = len(group.limits) - len(wrong)
    if holding:
        yield f"    {many(holding, 'limit')} over these pods hold{'s' if holding == 1 else ''}"


def _going(eviction: Eviction) -> Iterable[str]:
    places = ", ".join(f"{short(each.topology_key)} {_either(each.values)}" for each in eviction.targets if each.values)
    sure = sureness(eviction)
    note = f"  ({sure})" if sure != "forced" else ""
    where = f"{eviction.pod.node} -> {places or 'any node that fits'}" if eviction.pod.node else "pending"
    yield f"    {eviction.step}  {eviction.pod.name}  {where}{note}"
    message = eviction.message
    for key in {target.topology_key for target in eviction.targets}:
        message = message.replace(key, short(key))
    yield f"       {message}"


def _either(values: Sequence[str]) -> str:
    return "/".join(values[:_PLACES]) + (f" or {len(values) - _PLACES} more" if len(values) > _PLACES else "")


def _held_back(group: ComponentPlan, waiting: Sequence[Waiting], plan: Plan) -> Iterable[str]:
    """Show what waits and what stays, pods of one reason together, and where the whole reasoning is to be read."""
    why: dict[tuple[str, str], list[str]] = {}
    for each in waiting:
        why.setdefault((each.reason, each.message), []).append(each.eviction.pod.name)
    if group.reason is not None and (group.reason, group.message) not in why:
        yield f"    {group.reason}: {group.message}"
    for (reason, message), names in why.items():
        wait = "waits" if len(names) == 1 else "wait"
        yield f"    {listed(names)} {wait}  {reason}: {message}"
    kept: dict[tuple[str, str], list[str]] = {}
    owners = set(group.workloads)
    for refusal in plan.refusals:
        if refusal.pod is not None and refusal.workload in owners:
            kept.setdefault((refusal.reason, refusal.message), []).append(refusal.pod)
    for (reason, message), names in kept.items():
        stay = "stays" if len(names) == 1 else "stay"
        yield f"    {listed(names)} {stay}  {reason}: {message}"
    first = next((each for each in group.workloads if each.kind in _EXPLAINED), None)
    if group.state is not State.VIOLATED and first is not None:
        yield f"    rebalancer explain {first.kind.lower()}/{first.name} -n {first.namespace}"
