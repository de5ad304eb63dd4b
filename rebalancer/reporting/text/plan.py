"""The plan as text: what would happen in one line, then each repair with its evictions, what waits and what stays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from rebalancer.account.numbers import PlanNumbers, add_numbers, group_numbers, is_repairable
from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot, get_known_time
from rebalancer.model.words import format_rest, name_list, plural, short_key
from rebalancer.planning.diagnosis.relaxation import NO_RELAXATIONS, Relaxations
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.expected_counts import expected_counts
from rebalancer.planning.fates import Waits
from rebalancer.planning.plan import ComponentPlan, Plan, PlanRefusal
from rebalancer.planning.scope.budgets import StepExceedsBudget
from rebalancer.planning.scope.components import current_counts
from rebalancer.reporting.phrases import (
    certainty,
    component_text,
    counts_change,
    eviction_text,
    limit_change,
    method_lines,
    proof_text,
    repair_cost,
    unsatisfied_limits,
    wait_end,
    why_no_fewer,
    workload_names,
)
from rebalancer.reporting.plan_notes import local_storage_line
from rebalancer.reporting.text.layout import PLAIN, STATE_STYLES, Style, TextLayout, join_lines, more_text, sections

_MOST_DOMAINS = 4
"""So many target domains of an eviction are listed; the rest is counted."""

_MOST_WAITING = 6
"""Evictions that wait for the same and are listed; others are counted."""

_MOST_REASONS = 2
"""So many reasons why something is blocked are in the summary; the details of each are below."""

_EXPLAINED = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of workloads that `rebalancer explain` accepts."""

_NEEDED = frozenset({"Pod", "Node"})
"""Kinds without which nothing is known of what is to be repaired."""

_NOW, _WAITS, _STAYS = ">", "~", "x"
_LEGEND: Final = f"{_NOW} moves now   {_WAITS} waits   {_STAYS} stays"
_STYLES: Final = {_NOW: Style.MOVING, _WAITS: Style.CAUTION, _STAYS: Style.STUCK}


class PlanView(NamedTuple):
    """What is shown of a plan, and what beside it.

    `acting` says what the controller does with it, `policy` which policy it is made by, "" if that needs no words.
    `relaxations` say what would make infeasible groups feasible. `satisfied` is how many other workloads satisfy all
    constraints and limits, `unplanned` how many violate only constraints and limits that no eviction repairs, `unknown`
    of how many nothing could be counted. `missing` are lines about domains without nodes and about capacity that is
    needed. If `verbose`, each group says why no fewer evictions are enough, which method found its step, and why others
    did not. `most` is how many groups are shown, None for all; `wide` shows every domain and name.
    """

    acting: str
    satisfied: int
    policy: str = ""
    unplanned: int = 0
    unknown: int = 0
    relaxations: Relaxations = NO_RELAXATIONS
    missing: Sequence[str] = ()
    verbose: bool = False
    wide: bool = False
    most: int | None = None


def plan_text(plan: Plan, snapshot: Snapshot, view: PlanView, layout: TextLayout = PLAIN) -> str:
    """Show a plan."""
    return join_lines(_PlanText(plan, snapshot, view, layout).lines())


class _PlanText:
    """The text of one plan."""

    def __init__(self, plan: Plan, snapshot: Snapshot, view: PlanView, layout: TextLayout) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._view = view
        self._layout = layout
        self._numbers = group_numbers(plan)
        self._total = add_numbers(self._numbers.values())
        self._decided = plan.fates.decided
        self._going: dict[str, list[Eviction]] = {}
        for eviction in plan.fates.going:
            self._going.setdefault(eviction.group, []).append(eviction)
        self._waiting: dict[str, list[Waits]] = {}
        for wait in plan.fates.waiting:
            self._waiting.setdefault(wait.eviction.group, []).append(wait)
        self._staying: dict[Reference, list[tuple[int, PlanRefusal]]] = {}
        for number, refusal in enumerate(plan.refusals):
            if refusal.pod is not None:
                self._staying.setdefault(refusal.workload, []).append((number, refusal))

    def lines(self) -> list[str]:
        layout, plan = self._layout, self._plan
        groups = sorted(plan.components, key=lambda group: not is_repairable(group))
        shown = groups if self._view.most is None else groups[: self._view.most]
        held = local_storage_line(plan.refusals)
        closing = [held] if held else []
        return sections(
            [
                self._head(),
                *map(self._group_lines, shown),
                layout.wrap(more_text(len(groups) - len(shown))) if len(shown) < len(groups) else [],
                [line for text in closing for line in layout.wrap(text, hang="  ")],
                [line for text in self._view.missing for line in layout.wrap(text, hang="  ")],
                [line for text in self._closing(bool(shown)) for line in layout.wrap(text)],
            ]
        )

    def _head(self) -> list[str]:
        layout = self._layout
        title = f"Plan (dry run; {self._view.acting})"
        return [
            *(layout.heading(line) for line in layout.wrap(title)),
            *layout.wrap(self._summary()),
            *(line for text in _proof(self._total) for line in layout.wrap(text)),
        ]

    def _summary(self) -> str:
        """Say in one line how many pods move now, later and not, and what stands in the way."""
        numbers, groups = self._total, self._plan.components
        if not groups:
            return self._nothing_planned()
        parts = [f"{plural(numbers.now, 'pod')} to move now"]
        following = numbers.waiting + numbers.later
        if following:
            which = f" ({numbers.waiting} waiting, {numbers.later} not decided yet)" if numbers.later else ""
            parts.append(f"{following} more in later cycles{which}")
        blocked = [group for group in groups if self._numbers[group.name].blocked]
        if blocked:
            parts.append(f"{numbers.blocked} blocked ({_reasons(blocked)})")
        return ", ".join((*parts, *self._without_number()))

    def _nothing_planned(self) -> str:
        unread = sorted(self._snapshot.unknown & _NEEDED)
        if unread:
            return (
                f"Unknown what is to be repaired: the snapshot has no {' and no '.join(f'{kind}s' for kind in unread)}."
            )
        return "Nothing to repair is known." if self._view.unknown else "Nothing to repair."

    def _without_number(self) -> Iterator[str]:
        """Yield the violations for which no number of evictions is known: they wait, or cannot be repaired."""
        unknown = [
            group for group in self._plan.components if not group.evictions and not self._decided.get(group.name)
        ]
        waiting = [group for group in unknown if group.state is State.VIOLATED]
        if waiting:
            verb = "waits" if len(waiting) == 1 else "wait"
            yield f"{plural(len(waiting), 'violation')} {verb} ({_reasons(waiting)})"
        others = [group for group in unknown if group.state is not State.VIOLATED]
        if others:
            yield f"{plural(len(others), 'violation')} cannot be repaired ({_reasons(others)})"

    def _closing(self, has_groups: bool) -> Iterator[str]:
        satisfied, unplanned, unknown = self._view.satisfied, self._view.unplanned, self._view.unknown
        if has_groups:
            yield self._layout.paint(_LEGEND, Style.QUIET)
        if satisfied:
            verb = "satisfies" if satisfied == 1 else "satisfy"
            yield f"{plural(satisfied, 'other workload')} {verb} all constraints and limits."
        if unplanned:
            verb = "violates" if unplanned == 1 else "violate"
            which = "constraints or limits that Rebalancer does not repair by eviction; see rebalancer report"
            yield f"{plural(unplanned, 'other workload')} {verb} only {which}."
        if unknown:
            verb = "is" if unknown == 1 else "are"
            yield (
                f"{plural(unknown, 'other workload')} {verb} {State.UNKNOWN}: no node that was read has the label of a "
                "constraint or limit and takes the pods; see rebalancer report."
            )
        if not (satisfied or unplanned or unknown or self._snapshot.unknown & _NEEDED):
            yield "All other workloads: none."
        taken_at = get_known_time(self._plan.made_at)
        time = f"{taken_at:%Y-%m-%d %H:%M:%SZ}" if taken_at else "unknown time"
        source = f" ({self._view.policy})" if self._view.policy else ""
        yield f"Snapshot of {time}, policy {self._plan.policy_hash}{source}. Nothing was changed."

    def _group_lines(self, group: ComponentPlan) -> list[str]:
        layout, decided = self._layout, self._decided.get(group.name, ())
        numbers = self._numbers[group.name]
        style = STATE_STYLES.get(group.state)
        mark = layout.paint("!" if group.state is State.VIOLATED else _STAYS, style)
        state = layout.paint(group.state, style)
        name = layout.heading(f"{group.component.namespace}/{workload_names(group.workloads)}")
        cost = f"  {repair_cost(group, numbers)}" if group.evictions or decided else ""
        lines = layout.wrap(f"{mark} {name}  {state}{cost}", hang="    ")
        for text in self._changes(group, decided, numbers):
            lines += layout.wrap(text, "    ", "      ")
        last = ""
        for eviction in self._going.get(group.name, ()):
            message = _shorten(eviction_text(eviction), eviction)
            lines += self._eviction_lines(_NOW, eviction, "" if message == last else message)
            last = message
        for refusal, together in groupby(self._waiting.get(group.name, ()), key=attrgetter("refusal")):
            evictions = [wait.eviction for wait in together]
            shown = evictions if self._view.wide else evictions[:_MOST_WAITING]
            for eviction in shown:
                lines += self._eviction_lines(_WAITS, eviction, "")
            more = f"and {len(evictions) - len(shown)} more: " if len(shown) < len(evictions) else ""
            why = f"{more}{refusal.reason}: {refusal}{self._end(refusal)}"
            lines += [layout.paint(line, Style.QUIET) for line in layout.wrap(why, "      ")]
        for mark, text in self._obstacles(group):
            lines += layout.wrap(f"{layout.paint(mark, _STYLES.get(mark))} {text}" if mark else text, "    ", "      ")
        if self._view.verbose:
            why = why_no_fewer(group)
            for text in (*([f"no fewer: {why}"] if why else []), *method_lines(group)):
                lines += layout.wrap(text, "    ", "      ")
        return lines

    def _changes(self, group: ComponentPlan, evictions: Sequence[Eviction], numbers: PlanNumbers) -> Iterator[str]:
        """Yield each constraint and each violated limit before and after the decided evictions."""
        before, after = current_counts(group.component), expected_counts(group, evictions, self._snapshot)
        bounds = {
            (evaluated.constraint.key, evaluated.constraint.max_skew): None
            for evaluated_group in group.groups
            for evaluated in evaluated_group.hard
        }
        step = f" (after {numbers.now + numbers.waiting} of {group.evictions})" if evictions and numbers.later else ""
        for key, max_skew in bounds:
            change = counts_change(before.get(key, {}), after.get(key, {}), wide=self._view.wide)
            yield f"{short_key(key)} (maxSkew {max_skew}): {change}{step if '->' in change else ''}"
        unsatisfied = unsatisfied_limits(group.limits)
        for limit in unsatisfied:
            yield limit_change(limit, evictions, self._snapshot)
        satisfied = len(group.limits) - len(unsatisfied)
        if satisfied:
            yield f"{plural(satisfied, 'limit')} on these pods {'is' if satisfied == 1 else 'are'} satisfied"

    def _end(self, refusal: Refusal) -> str:
        """Say when a wait ends, "" where its sentence says that."""
        after = refusal.end.after
        said = after is not None and format_rest(after) in str(refusal)
        return "" if said else f"; {wait_end(refusal, self._plan.made_at)}"

    def _eviction_lines(self, mark: str, eviction: Eviction, message: str) -> list[str]:
        """Show an eviction; `message` says why, or why it waits, "" if the line before says the same."""
        layout = self._layout
        targets = ", ".join(
            f"{short_key(target.topology_key)} {self._alternatives(target.values)}"
            for target in eviction.targets
            if target.values
        )
        how = certainty(eviction)
        note = f"  ({how})" if how != "forced" else ""
        where = f"{eviction.pod.node} -> {targets or 'any feasible node'}" if eviction.pod.node else "pending"
        painted = layout.paint(mark, _STYLES[mark])
        return [
            *layout.wrap(f"{painted} {eviction.pod.name}  {where}{note}", "    ", "      "),
            *(layout.paint(line, Style.QUIET) for line in layout.wrap(message, "      ") if message),
        ]

    def _alternatives(self, domains: Sequence[str]) -> str:
        most = len(domains) if self._view.wide else _MOST_DOMAINS
        more = f" or {len(domains) - most} more" if len(domains) > most else ""
        return "/".join(domains[:most]) + more

    def _obstacles(self, group: ComponentPlan) -> Iterator[tuple[str, str]]:
        """Yield a mark with why the group is not repaired, or only in part, and which pods are not evicted, by reason.

        And the command that explains it. Why evictions wait is said with them.
        """
        waiting = {wait.refusal for wait in self._waiting.get(group.name, ())}
        if group.refusal is not None and group.refusal not in waiting:
            waits = is_repairable(group)
            end = self._end(group.refusal) if waits else ""
            message = component_text(group, self._view.relaxations)
            yield _WAITS if waits else _STAYS, f"{group.reason}: {message}{end}"
        yield from self._describe_staying(group)
        first = next((workload for workload in group.workloads if workload.kind in _EXPLAINED), None)
        if group.state is not State.VIOLATED and first is not None:
            yield "", f"For details: rebalancer explain {first.kind.lower()}/{first.name} -n {first.namespace}"

    def _describe_staying(self, group: ComponentPlan) -> Iterator[tuple[str, str]]:
        """Yield which pods are not evicted, by reason."""
        rows = [row for workload in set(group.workloads) for row in self._staying.get(workload, ())]
        rows.sort(key=itemgetter(0))
        staying = _pods_by_text((refusal.pod or "", refusal.refusal) for _, refusal in rows)
        for (reason, why), names in staying.items():
            verb = "is" if len(names) == 1 else "are"
            yield _STAYS, f"{self._names(names)} {verb} not evicted  {reason}: {why}"

    def _names(self, names: Sequence[str]) -> str:
        return ", ".join(names) if self._view.wide else name_list(names)


def _pods_by_text(rows: Iterable[tuple[str, Refusal]]) -> Mapping[tuple[str, str], list[str]]:
    """Return the names of pods by reason and text; pods that follow each other mostly share a refusal."""
    pods: dict[tuple[str, str], list[str]] = {}
    for refusal, together in groupby(rows, key=itemgetter(1)):
        names = pods.setdefault((refusal.reason, str(refusal)), [])
        names += (name for name, _ in together)
    return pods


def _shorten(message: str, eviction: Eviction) -> str:
    for target in eviction.targets:
        message = message.replace(target.topology_key, short_key(target.topology_key))
    return message


def _proof(numbers: PlanNumbers) -> Iterator[str]:
    """Say whether the number of evictions is the minimum."""
    whole = numbers.evictions - numbers.partial
    if numbers.partial:
        verb = "repairs" if numbers.partial == 1 else "repair"
        rest = f"; the others: {proof_text(whole, numbers.lower_bound)}" if whole else ""
        yield f"{plural(numbers.partial, 'eviction')} {verb} only part of a violation{rest}."
    elif numbers.optimal and whole:
        yield f"{plural(whole, 'eviction')} {'is' if whole == 1 else 'are'} the proved minimum."
    elif whole:
        yield f"{proof_text(whole, numbers.lower_bound)}."


def _reasons(groups: Sequence[ComponentPlan]) -> str:
    """Say for the first groups what stands in the way, and count the others."""
    first = [f"{_short_name(group)}: {_short_reason(group)}" for group in groups[:_MOST_REASONS]]
    more = [f"{len(groups) - _MOST_REASONS} more"] if len(groups) > _MOST_REASONS else []
    return "; ".join((*first, *more))


def _short_name(group: ComponentPlan) -> str:
    return f"{group.component.namespace}/{name_list(workload.name for workload in group.workloads)}"


def _short_reason(group: ComponentPlan) -> str:
    cause = group.refusal
    if isinstance(cause, StepExceedsBudget) and cause.budgets:
        allows = f"{cause.allowed} at once" if cause.allowed else "none"
        return f"PDB {name_list(cause.budgets)} {'allow' if len(cause.budgets) > 1 else 'allows'} {allows}"
    return str(group.reason or group.state)
