"""The plan as text: what would happen in one line, then each repair with its evictions, and which pods wait or stay.

It is made only from the Plan document, so a saved plan is shown as it was when it was made.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from rebalancer.documents.document import WorkloadName
from rebalancer.documents.domain_counts import ListedCounts
from rebalancer.documents.phrases import (
    DOES_NOT_GO_ON,
    NO_CONTROLLER,
    OR_ANOTHER,
    end_text,
    listed_text,
    method_lines,
    numbers_text,
    proof_text,
    uncounted_text,
    workload_names,
)
from rebalancer.documents.plan import (
    PlanDocument,
    PlannedEviction,
    PlannedGroup,
    PlannedRefusal,
    Totals,
    WaitingEviction,
)
from rebalancer.documents.resilience import ChangedLossEntry
from rebalancer.documents.surges import pods_go
from rebalancer.documents.waits import MOST_LIKELY, LikelyDomains, RepairWait, shorten
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import TIMELESS
from rebalancer.model.words import format_rest, name_list, plural, short_key, shorten_keys
from rebalancer.reporting.headline import NOT_NOW, WITHOUT_NODE
from rebalancer.reporting.text.layout import PLAIN, STATE_STYLES, Style, TextLayout, join_lines, more_text, sections
from rebalancer.reporting.text.resilience import changed_loss_text, unlisted_loss_lines

_MOST_WAITING = 6
"""The most evictions listed under one common wait; the others are counted."""

_MOST_REASONS = 2
"""The most reasons for blocked evictions in the summary; the details of each are below."""

_EXPLAINED = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of workloads that `rebalancer explain` accepts."""

_NOW, _WAITS, _STAYS = ">", "~", "x"
_MEANINGS: Final[Mapping[str, str]] = {_NOW: "moves now", _WAITS: "waits", _STAYS: "stays"}
_STYLES: Final = {_NOW: Style.MOVING, _WAITS: Style.CAUTION, _STAYS: Style.STUCK}


class PlanOptions(NamedTuple):
    """How much of a plan is shown."""

    verbose: bool = False
    """For each group, show why fewer evictions are not enough, and which method found its step or did not."""
    wide: bool = False
    """Show every domain and name."""
    most: int | None = None
    """How many groups are shown, None for all."""


BRIEF: Final = PlanOptions()


def plan_text(plan: PlanDocument, options: PlanOptions = BRIEF, layout: TextLayout = PLAIN) -> str:
    """Show a plan."""
    return join_lines(_PlanText(plan, options, layout).lines())


class _PlanText:
    """The text of one plan."""

    def __init__(self, plan: PlanDocument, options: PlanOptions, layout: TextLayout) -> None:
        self._plan = plan
        self._options = options
        self._layout = layout
        self._painted: set[str] = set()
        self._going: dict[int, list[PlannedEviction]] = {}
        for eviction in plan.evictions:
            self._going.setdefault(eviction.step, []).append(eviction)
        self._waiting: dict[int, list[WaitingEviction]] = {}
        for wait in plan.waiting:
            self._waiting.setdefault(wait.step, []).append(wait)
        self._losses: dict[tuple[str, WorkloadName], list[ChangedLossEntry]] = {}
        for loss in plan.resilience.rows if plan.resilience is not None else ():
            self._losses.setdefault((loss.namespace, loss.workload), []).append(loss)
        self._staying: dict[tuple[str, str, str], list[tuple[int, PlannedRefusal]]] = {}
        for number, row in enumerate(plan.refusals):
            # Of evictions that no budget ever allows their group says it.
            if row.pod is not None and row.reason != Reason.STEP_EXCEEDS_BUDGET:
                key = row.namespace, row.workload.kind, row.workload.name
                self._staying.setdefault(key, []).append((number, row))

    def lines(self) -> list[str]:
        layout, plan = self._layout, self._plan
        groups = sorted(plan.groups, key=lambda group: not group.is_repairable)
        shown = groups if self._options.most is None else groups[: self._options.most]
        notes = (*plan.notes, *unlisted_loss_lines(plan.resilience))
        return sections(
            [
                self._head(),
                *map(self._group_lines, shown),
                layout.wrap(more_text(len(groups) - len(shown))) if len(shown) < len(groups) else [],
                *map(self._stuck_lines, plan.stuck),
                [line for text in notes for line in layout.wrap(text, hang="  ")],
                [line for text in self._closing(bool(shown or plan.stuck)) for line in layout.wrap(text)],
            ]
        )

    def _head(self) -> list[str]:
        layout = self._layout
        title = f"Plan (dry run; {self._plan.acting})"
        return [
            *(layout.heading(line) for line in layout.wrap(title)),
            *layout.wrap(self._summary()),
            *(line for text in _proof(self._plan.totals) for line in layout.wrap(text)),
        ]

    def _summary(self) -> str:
        """Say in one line how many pods move now, later and not at all, and what prevents them."""
        numbers, groups = self._plan.totals, self._plan.groups
        if not groups:
            return ", ".join(("No eviction helps", *self._stuck())) if self._plan.stuck else self._nothing_planned()
        parts = [self._now()]
        surging = sum(bool(wait.added) for wait in self._plan.waiting)
        if surging:
            parts.append(f"{surging} to go once as many are added")
        following, waiting = numbers.waiting + numbers.later - surging, numbers.waiting - surging
        if following > 0:
            which = f" ({waiting} waiting, {numbers.later} not decided yet)" if numbers.later else ""
            parts.append(f"{following} more in later cycles{which}")
        blocked = [group for group in groups if group.blocked]
        if blocked:
            parts.append(f"{numbers.blocked} blocked ({_reasons(blocked)})")
        return ", ".join((*parts, *self._without_number(), *self._stuck()))

    def _now(self) -> str:
        """Say how many pods move now; if the controller is idle, how many it would move, and why it does not."""
        pods, idle = plural(self._plan.totals.now, "pod"), self._plan.idle
        return f"Would move {pods} now ({idle})" if idle and self._plan.totals.now else f"{pods} to move now"

    def _nothing_planned(self) -> str:
        unread = self._plan.unread
        if unread:
            return (
                f"Unknown what is to be repaired: the snapshot has no {' and no '.join(f'{kind}s' for kind in unread)}."
            )
        return "Nothing to repair is known." if self._plan.unknown else "Nothing to repair."

    def _without_number(self) -> Iterator[str]:
        """Yield what has no number of evictions: violations that wait or are beyond repair, pods without a node."""
        unknown = [group for group in self._plan.groups if not group.evictions and not _decided(group)]
        violated = [group for group in unknown if not group.without_node]
        waiting = [group for group in violated if not group.is_stuck]
        if waiting:
            verb = "waits" if len(waiting) == 1 else "wait"
            yield f"{plural(len(waiting), 'violation')} {verb} ({_reasons(waiting)})"
        others = [group for group in violated if group.is_stuck]
        if others:
            yield f"{plural(len(others), 'violation')} {NOT_NOW} ({_reasons(others)})"
        without = [group for group in unknown if group.without_node]
        if without:
            yield f"{WITHOUT_NODE} ({_reasons(without)})"

    def _stuck(self) -> Iterator[str]:
        """Yield what evictions leave violated because no placement satisfies a limit, with the first reasons."""
        helped = [group for group in self._plan.groups if group.is_repairable and _hopeless(group)]
        if helped:
            verb = "is" if len(helped) == 1 else "are"
            why = _first([f"{_short_name(group)}: {_hopeless(group)}" for group in helped])
            yield f"{plural(len(helped), 'violation')} {verb} repaired only in part ({why})"
        number = self._plan.unrepairable
        if number:
            rows = [f"{_short_name(row)}: {row.reason}" for row in self._plan.stuck]
            yield f"{plural(number, 'workload')} {NOT_NOW} ({_first(rows)})"

    def _stuck_lines(self, row: RepairWait) -> list[str]:
        """Show a limit that no placement satisfies and no eviction improves."""
        layout = self._layout
        mark, name = self._paint(_STAYS), f"{row.namespace}/{workload_names(row.workloads)}"
        lines = layout.wrap(f"{mark} {layout.heading(name)}  {NOT_NOW}", hang="    ")
        for text in (*row.violated, f"{mark} {row.reason}: {shorten_keys(row.message)}"):
            lines += layout.wrap(text, "    ", "      ")
        return lines

    def _closing(self, has_groups: bool) -> Iterator[str]:
        satisfied, unplanned, unknown = self._plan.satisfied, self._plan.unplanned, len(self._plan.unknown)
        legend = self._legend()
        if legend:
            yield self._layout.paint(legend, Style.QUIET)
        workload = "other workload" if has_groups else "workload"
        if satisfied:
            verb = "satisfies" if satisfied == 1 else "satisfy"
            yield f"{plural(satisfied, workload)} {verb} all constraints and limits."
        if unplanned:
            verb = "violates" if unplanned == 1 else "violate"
            which = "constraints or limits that Rebalancer does not repair by eviction; see rebalancer report"
            yield f"{plural(unplanned, workload)} {verb} only {which}."
        if unknown:
            verb = "is" if unknown == 1 else "are"
            yield (
                f"{plural(unknown, workload)} {verb} {State.UNKNOWN}: no node that was read has the label of a "
                "constraint or limit and takes the pods; see rebalancer report."
            )
        if not (satisfied or unplanned or unknown or self._plan.unread):
            yield "All other workloads: none."
        taken_at = self._plan.generated_at
        time = f"{taken_at:%Y-%m-%d %H:%M:%SZ}" if taken_at else "unknown time"
        source = f" ({self._plan.policy_source})" if self._plan.policy_source else ""
        yield f"Snapshot of {time}, policy {self._plan.policy_hash}{source}. Nothing was changed."

    def _legend(self) -> str:
        """Explain the marks that were drawn."""
        meanings = {**_MEANINGS, _NOW: "would move now"} if self._plan.idle else _MEANINGS
        return "   ".join(f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in self._painted)

    def _paint(self, mark: str) -> str:
        self._painted.add(mark)
        return self._layout.paint(mark, _STYLES[mark])

    def _group_lines(self, group: PlannedGroup) -> list[str]:
        layout = self._layout
        shown = _shown_state(group)
        style = STATE_STYLES.get(shown)
        rests = group.is_stuck or (group.without_node and group.state != State.VIOLATED)
        mark = layout.paint(_STAYS if rests else "!", style)
        self._painted |= {_STAYS} if rests else set()
        state = layout.paint(shown, style)
        name = layout.heading(f"{group.namespace}/{workload_names(group.workloads)}")
        cost = f"  {_cost(group)}" if group.evictions or _decided(group) else ""
        lines = layout.wrap(f"{mark} {name}  {state}{cost}", hang="    ")
        for text in self._changes(group):
            lines += layout.wrap(text, "    ", "      ")
        lines += self._going_lines(group)
        lines += self._waiting_lines(group)
        for mark, text in self._obstacles(group):
            lines += layout.wrap(f"{self._paint(mark)} {text}" if mark else text, "    ", "      ")
        if self._options.verbose:
            proof = [f"no fewer: {group.proof}"] if group.proof else []
            for text in (*proof, *method_lines(group.method, group.attempts)):
                lines += layout.wrap(text, "    ", "      ")
        return lines

    def _changes(self, group: PlannedGroup) -> Iterator[str]:
        """Yield constraints, violated limits, and what a lost zone leaves, before and after the decided evictions."""
        decided = _decided(group)
        step = f" (after {decided} of {group.evictions})" if decided and group.later else ""
        bounds = {(constraint.topology_key, constraint.max_skew): None for constraint in group.constraints}
        for key, max_skew in bounds:
            counts = ListedCounts(group.before.get(key, {}), group.after.get(key, {}), group.empty_domains.get(key, 0))
            change = listed_text(counts, wide=self._options.wide)
            yield f"{short_key(key)} (maxSkew {max_skew}): {change}{step if '->' in change else ''}"
        satisfied = 0
        for limit in group.limits:
            satisfied += not limit.change
            if limit.change:
                yield limit.change
        if satisfied:
            verb = "is" if satisfied == 1 else "are"
            yield f"{plural(satisfied, 'limit')} with action Evict on these pods {verb} satisfied"
        for workload in group.workloads:
            for row in self._losses.get((group.namespace, workload), ()):
                name = f"{workload.name}: " if len(group.workloads) > 1 else ""
                yield f"{name}{changed_loss_text(row)}{step}"

    def _going_lines(self, group: PlannedGroup) -> list[str]:
        lines: list[str] = []
        last = ""
        surging = [eviction for eviction in self._going.get(group.step or 0, ()) if eviction.added]
        if surging:
            likely = shorten(surging[0].predicted.domains, None if self._options.wide else MOST_LIKELY)
            lines += self._surge_lines(_NOW, group, surging, likely)
        for eviction in self._going.get(group.step or 0, ()):
            if eviction.added:
                continue
            domains = eviction.predicted.domains
            likely = shorten(domains, None if self._options.wide else MOST_LIKELY)
            message = eviction.message
            for key in domains:
                message = message.replace(key, short_key(key))
            lines += self._eviction_lines(_NOW, group, eviction, likely, "" if message == last else message)
            last = message
        return lines

    def _waiting_lines(self, group: PlannedGroup) -> list[str]:
        layout, lines = self._layout, list[str]()
        waiting = self._waiting.get(group.step or 0, ())
        for (reason, message), together in groupby(waiting, key=lambda wait: (wait.for_, wait.message)):
            waits = list(together)
            if waits[0].added:
                shown = waits
                lines += self._surge_lines(_WAITS, group, waits, waits[0].then.domains)
            else:
                shown = waits if self._options.wide else waits[:_MOST_WAITING]
                for wait in shown:
                    lines += self._eviction_lines(
                        _WAITS, group, wait, wait.then.domains, "", or_another=wait.then.or_another
                    )
            more = f"and {len(waits) - len(shown)} more: " if len(shown) < len(waits) else ""
            why = f"{more}{reason}: {message}{self._end(waits[0], message)}"
            lines += [layout.paint(line, Style.QUIET) for line in layout.wrap(why, "      ")]
        return lines

    def _end(self, of: WaitingEviction | PlannedGroup, message: str) -> str:
        """Say when a wait ends; return "" if its sentence says so already."""
        said, until = self._plan.generated_at, of.until
        if self._plan.idle == NO_CONTROLLER and (until is not None or of.ends_with):
            return f"; {DOES_NOT_GO_ON}"
        rest = format_rest(until - said) if until is not None and said is not None else of.ends_with.removeprefix("in ")
        if rest and re.search(rf"(?<!\w){re.escape(rest)}(?!\w)", message):
            return ""
        return f"; {end_text(until, of.ends_with, said or TIMELESS)}"

    def _eviction_lines(
        self,
        mark: str,
        group: PlannedGroup,
        eviction: PlannedEviction | WaitingEviction,
        likely: Mapping[str, LikelyDomains],
        message: str,
        *,
        or_another: bool = False,
    ) -> list[str]:
        """Show an eviction; `message` says why, or why it waits, and is "" if the line before already says it."""
        layout = self._layout
        notes = [group.certainty] * (group.certainty != "forced") + [OR_ANOTHER] * or_another
        note = f"  ({'; '.join(notes)})" if notes else ""
        where = f"{eviction.node} -> {_name_targets(likely)}" if eviction.node else "pending"
        painted = self._paint(mark)
        return [
            *layout.wrap(f"{painted} {eviction.pod}  {where}{note}", "    ", "      "),
            *(layout.paint(line, Style.QUIET) for line in layout.wrap(message, "      ") if message),
        ]

    def _surge_lines(
        self,
        mark: str,
        group: PlannedGroup,
        victims: Sequence[PlannedEviction | WaitingEviction],
        likely: Mapping[str, LikelyDomains],
    ) -> list[str]:
        """Show a surge: how many pods are added and where, and which pods go then."""
        painted = self._paint(mark)
        names = [f"{victim.pod} ({victim.node})" for victim in victims]
        go = pods_go(names) if not self._options.wide else f"{', '.join(names)} go"
        text = f"{painted} adds {plural(victims[0].added, 'pod')} in {_name_targets(likely)}, then {go}"
        note = f"  ({group.certainty})" if group.certainty != "forced" else ""
        return self._layout.wrap(f"{text}{note}", "    ", "      ")

    def _obstacles(self, group: PlannedGroup) -> Iterator[tuple[str, str]]:
        """Yield why the group is not repaired, or only in part, and which pods are not evicted, by reason.

        The command that explains it follows. Why evictions wait is said where they are listed.
        """
        waiting = {(wait.for_, wait.message) for wait in self._waiting.get(group.step or 0, ())}
        if group.reason is not None and (group.reason, group.message) not in waiting:
            waits = group.is_repairable or (group.moving and bool(group.until or group.ends_with))
            end = self._end(group, group.message) if waits else ""
            yield _WAITS if waits else _STAYS, f"{group.reason}: {group.message}{end}"
        yield from self._describe_staying(group)
        first = next((workload for workload in group.workloads if workload.kind in _EXPLAINED), None)
        if group.state != State.VIOLATED and first is not None:
            yield "", f"For details: rebalancer explain {first.kind.lower()}/{first.name} -n {group.namespace}"

    def _describe_staying(self, group: PlannedGroup) -> Iterator[tuple[str, str]]:
        """Yield which pods are not evicted, by reason."""
        keys = dict.fromkeys((group.namespace, workload.kind, workload.name) for workload in group.workloads)
        rows = sorted((row for key in keys for row in self._staying.get(key, ())), key=lambda row: row[0])
        pods: dict[tuple[str, str], list[str]] = {}
        for _, row in rows:
            pods.setdefault((row.reason, row.message), []).append(row.pod or "")
        for (reason, why), names in pods.items():
            verb = "is" if len(names) == 1 else "are"
            yield _STAYS, f"{self._names(names)} {verb} not evicted  {reason}: {why}"

    def _names(self, names: Sequence[str]) -> str:
        return ", ".join(names) if self._options.wide else name_list(names)


def _name_targets(likely: Mapping[str, LikelyDomains]) -> str:
    targets = ", ".join(
        f"{short_key(key)} {'/'.join(domains.values)}{f' or {domains.more} more' if domains.more else ''}"
        for key, domains in likely.items()
        if domains.values
    )
    return targets or "any feasible node"


def _decided(group: PlannedGroup) -> int:
    """Return how many of the group's evictions are decided."""
    return group.now + group.waiting


def _shown_state(group: PlannedGroup) -> State:
    """Return the state in the heading of a group. While pods move, what seems beyond repair may be repaired."""
    if _hopeless(group):
        return State.INFEASIBLE
    return State(group.state) if group.is_stuck or group.without_node else State.VIOLATED


def _hopeless(group: PlannedGroup) -> str:
    """Return why no placement satisfies a limit of a group; "" if some placement does."""
    return next((limit.reason for limit in group.limits if limit.reason), "")


def _cost(group: PlannedGroup) -> str:
    if group.evictions:
        return f"{proof_text(group.evictions, group.lower_bound)}: {numbers_text(group)}"
    return f"{plural(_decided(group), 'eviction')} for a partial repair: {numbers_text(group)}"


def _proof(numbers: Totals) -> Iterator[str]:
    """Say whether the number of evictions is proved to be the minimum."""
    whole = numbers.evictions - numbers.partial
    if numbers.partial:
        verb = "repairs" if numbers.partial == 1 else "repair"
        rest = f"; the others: {proof_text(whole, numbers.lower_bound)}" if whole else ""
        yield f"{plural(numbers.partial, 'eviction')} {verb} only part of a violation{rest}."
    elif numbers.optimal and whole:
        yield f"{plural(whole, 'eviction')} {'is' if whole == 1 else 'are'} the proved minimum."
    elif whole and numbers.uncounted:
        yield f"{plural(whole, 'eviction')}, {uncounted_text(numbers.uncounted)}."
    elif whole:
        yield f"{proof_text(whole, numbers.lower_bound)}."


def _reasons(groups: Sequence[PlannedGroup]) -> str:
    """Say what prevents the repair of the first groups, and count the others."""
    return _first([f"{_short_name(group)}: {group.brief}" for group in groups])


def _first(texts: Sequence[str]) -> str:
    more = [f"{len(texts) - _MOST_REASONS} more"] if len(texts) > _MOST_REASONS else []
    return "; ".join((*texts[:_MOST_REASONS], *more))


def _short_name(group: PlannedGroup | RepairWait) -> str:
    return f"{group.namespace}/{name_list(workload.name for workload in group.workloads)}"
