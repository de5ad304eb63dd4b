"""The plan as text: totals with the proof, then each group with its evictions, what waits and what is not evicted."""

from collections.abc import Iterable, Mapping, Sequence

from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot, get_known_time
from rebalancer.planning.expected_counts import decided_evictions, expected_counts
from rebalancer.planning.plan import ComponentPlan, Eviction, Plan, Waiting
from rebalancer.planning.scope.components import current_counts
from rebalancer.reporting.keys import short_key
from rebalancer.reporting.local_storage import local_storage_line
from rebalancer.reporting.phrases import (
    certainty,
    counts_change,
    limit_change,
    name_list,
    plural,
    proof_text,
    repair_cost,
    unsatisfied_limits,
    workload_names,
)
from rebalancer.reporting.plan_totals import plan_totals
from rebalancer.reporting.refusals import NO_RELAXATIONS, Relaxations, component_text, eviction_text, refusal_text
from rebalancer.reporting.searches import method_lines

_MOST_DOMAINS = 4
"""So many target domains of an eviction are listed; the rest is counted."""

_EXPLAINED = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of workloads that `rebalancer explain` accepts."""


def plan_text(
    plan: Plan,
    snapshot: Snapshot,
    relaxations: Relaxations = NO_RELAXATIONS,
    *,
    mode: str,
    satisfied: int,
    unplanned: int = 0,
    missing: Sequence[str] = (),
    verbose: bool = False,
) -> str:
    """Show a plan.

    `relaxations` say what would make infeasible groups feasible. `satisfied` is how many other workloads satisfy all
    constraints and limits, `unplanned` how many violate only constraints and limits that no eviction repairs. `missing`
    are lines about domains without nodes and about capacity that is needed. If `verbose`, each group says which method
    found its step, and why others did not.
    """
    taken_at = get_known_time(plan.made_at)
    time = f"{taken_at:%Y-%m-%d %H:%M:%SZ}" if taken_at else "unknown time"
    lines = [f"Snapshot of {time}, policy {plan.policy_hash}, mode {mode}.", _totals(plan)]
    decided, going, waiting = decided_evictions(plan), _by_group(plan.evictions), _waiting_by_group(plan.waiting)
    for group in plan.groups:
        name = group.name
        lines += ["", *_head(group, decided.get(name, ()))]
        lines += _changes(group, decided.get(name, ()), snapshot)
        for eviction in going.get(name, ()):
            lines += _eviction_lines(eviction)
        lines += _obstacles(group, waiting.get(name, ()), plan, relaxations)
        if verbose:
            lines += [f"    {line}" for line in method_lines(group)]
    held = local_storage_line(plan.refusals)
    lines += ["", held] if held else []
    lines += ["", *missing] if missing else []
    return "\n".join([*lines, "", *_others(satisfied, unplanned), "Nothing was changed.", ""])


def _others(satisfied: int, unplanned: int) -> Iterable[str]:
    if satisfied:
        verb = "satisfies" if satisfied == 1 else "satisfy"
        yield f"{plural(satisfied, 'other workload')} {verb} all constraints and limits."
    if unplanned:
        verb = "violates" if unplanned == 1 else "violate"
        which = "constraints or limits that Rebalancer does not repair by eviction; see rebalancer report"
        yield f"{plural(unplanned, 'other workload')} {verb} only {which}."
    if not satisfied and not unplanned:
        yield "All other workloads: none."


def _by_group(evictions: Iterable[Eviction]) -> Mapping[str, Sequence[Eviction]]:
    by_group: dict[str, list[Eviction]] = {}
    for eviction in evictions:
        by_group.setdefault(eviction.group, []).append(eviction)
    return by_group


def _waiting_by_group(waiting: Iterable[Waiting]) -> Mapping[str, Sequence[Waiting]]:
    by_group: dict[str, list[Waiting]] = {}
    for wait in waiting:
        by_group.setdefault(wait.eviction.group, []).append(wait)
    return by_group


def _totals(plan: Plan) -> str:
    """Count the decided evictions, with the proof for what they repair; then what cannot be repaired now."""
    totals = plan_totals(plan)
    counts = f"{totals.now} now, {totals.waiting} waiting" + (f", {totals.later} later" if totals.later else "")
    decided = totals.now + totals.waiting
    if totals.needed:
        text = f"{proof_text(totals.needed, totals.lower_bound)}: {counts}"
    elif decided:
        text = f"{plural(decided, 'eviction')}: {counts}"
    else:
        text = "no eviction is possible now" if plan.groups else "nothing to repair"
    if totals.partial:
        text += f"; {totals.partial} repair{'s' if totals.partial == 1 else ''} only part of a violation"
    if totals.out_of_reach:
        more = " more" if totals.needed else ""
        verb = "is" if totals.out_of_reach == 1 else "are"
        text += (
            f"; {totals.out_of_reach}{more} eviction{'' if totals.out_of_reach == 1 else 's'} (proved minimum) {verb} "
            "needed for violations that cannot be repaired now"
        )
    return text


def _head(group: ComponentPlan, evictions: Sequence[Eviction]) -> Iterable[str]:
    mark = "!" if group.state is State.VIOLATED else "x"
    text = f"{mark} {group.component.namespace}/{workload_names(group.workloads)}  {group.state}"
    if group.evictions:
        text += f"  {repair_cost(group)}"
    elif evictions:
        text += f"  {plural(len(evictions), 'eviction')} for a partial repair"
    yield text


def _changes(group: ComponentPlan, evictions: Sequence[Eviction], snapshot: Snapshot) -> Iterable[str]:
    """Show each constraint and each violated limit before and after the decided evictions."""
    before, after = current_counts(group.component), expected_counts(group, evictions, snapshot)
    bounds = {
        (evaluated.constraint.key, evaluated.constraint.max_skew): None
        for evaluated_group in group.groups
        for evaluated in evaluated_group.hard
    }
    for key, max_skew in bounds:
        yield f"    {short_key(key)} (maxSkew {max_skew}): {counts_change(before.get(key, {}), after.get(key, {}))}"
    unsatisfied = unsatisfied_limits(group.limits)
    for limit in unsatisfied:
        yield f"    {limit_change(limit, evictions, snapshot)}"
    satisfied = len(group.limits) - len(unsatisfied)
    if satisfied:
        yield f"    {plural(satisfied, 'limit')} on these pods {'is' if satisfied == 1 else 'are'} satisfied"


def _eviction_lines(eviction: Eviction) -> Iterable[str]:
    targets = ", ".join(
        f"{short_key(target.topology_key)} {_alternatives(target.values)}"
        for target in eviction.targets
        if target.values
    )
    how = certainty(eviction)
    note = f"  ({how})" if how != "forced" else ""
    where = f"{eviction.pod.node} -> {targets or 'any feasible node'}" if eviction.pod.node else "pending"
    yield f"    {eviction.step}  {eviction.pod.name}  {where}{note}"
    message = eviction_text(eviction)
    for key in {target.topology_key for target in eviction.targets}:
        message = message.replace(key, short_key(key))
    yield f"       {message}"


def _alternatives(domains: Sequence[str]) -> str:
    more = f" or {len(domains) - _MOST_DOMAINS} more" if len(domains) > _MOST_DOMAINS else ""
    return "/".join(domains[:_MOST_DOMAINS]) + more


def _obstacles(group: ComponentPlan, waiting: Sequence[Waiting], plan: Plan, relaxations: Relaxations) -> Iterable[str]:
    """Show which pods wait and which are not evicted, by reason; and the command that explains it."""
    waiting_pods: dict[tuple[str, str], list[str]] = {}
    for wait in waiting:
        waiting_pods.setdefault((wait.reason, refusal_text(wait.refusal)), []).append(wait.eviction.pod.name)
    message = component_text(group, relaxations)
    if group.reason is not None and (group.reason, message) not in waiting_pods:
        yield f"    {group.reason}: {message}"
    for (reason, why), names in waiting_pods.items():
        verb = "waits" if len(names) == 1 else "wait"
        yield f"    {name_list(names)} {verb}  {reason}: {why}"
    staying_pods: dict[tuple[str, str], list[str]] = {}
    workloads = set(group.workloads)
    for refusal in plan.refusals:
        if refusal.pod is not None and refusal.workload in workloads:
            staying_pods.setdefault((refusal.reason, refusal_text(refusal.refusal)), []).append(refusal.pod)
    for (reason, why), names in staying_pods.items():
        verb = "is" if len(names) == 1 else "are"
        yield f"    {name_list(names)} {verb} not evicted  {reason}: {why}"
    first = next((workload for workload in group.workloads if workload.kind in _EXPLAINED), None)
    if group.state is not State.VIOLATED and first is not None:
        yield f"    For details: rebalancer explain {first.kind.lower()}/{first.name} -n {first.namespace}"
