"""Resilience as text: a sentence about all workloads, then the worst loss of each workload at risk.

With `wide`, every loss is shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rebalancer.documents.resilience import (
    AddedNodes,
    ChangedLossEntry,
    ChangeThatHolds,
    ConstraintChange,
    DomainLoss,
    LossesChanged,
    RemainingWorkload,
    ResilienceDocument,
    WorkloadChanges,
)
from rebalancer.model.words import name_list, plural, short_key
from rebalancer.reporting.resilience import name_workload, then_text
from rebalancer.reporting.text.layout import PLAIN, TextLayout, join_lines, more_text

_COLUMNS: Final = ("SERVICE", "IF LOST", "LEFT AT ONCE", "LEFT THEN", "WHY NOT ALL")

_LEGEND: Final = (
    "LEFT AT ONCE: Ready on other nodes. LEFT THEN: once nothing moves any more, at least and at most; between these "
    "the order of deletions and placements decides, or what WHY NOT ALL names."
)

_MOST_OTHERS: Final = 2
"""The most further domains that are named because their loss, too, leaves a workload incomplete."""

_WHILE: Final = {"silent": "while its nodes are silent", "gone": "once its Node objects are deleted"}
"""What a sentence calls the phases."""


class _Row(NamedTuple):
    """A loss of a workload; `others` are further domains of its key whose loss leaves it incomplete, too."""

    loss: DomainLoss
    left: RemainingWorkload
    others: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.left.verdict == "yes"

    @property
    def badness(self) -> tuple[object, ...]:
        """A sort key, worst first, by the shares of the wanted pods that are guaranteed, then possible."""
        left, loss = self.left, self.loss
        wanted = max(1, left.wanted)
        return left.guaranteed / wanted, left.possible / wanted, left.now / wanted, loss.key, loss.value, loss.phase


def resilience_text(
    document: ResilienceDocument,
    layout: TextLayout = PLAIN,
    *,
    head: Iterable[str] = (),
    most: int | None = None,
    wide: bool = False,
) -> str:
    """Show the workloads at risk, worst first; `head` names the controller and the policy."""
    heading = [line for text in head for line in layout.wrap(text)]
    return join_lines([*heading, *resilience_lines(document, layout, most=most, wide=wide)])


def resilience_lines(
    document: ResilienceDocument, layout: TextLayout, *, most: int | None = None, wide: bool = False
) -> list[str]:
    """Return the sentences and the table."""
    rows = [_Row(loss, left) for loss in document.domains for left in loss.workloads]
    shown = sorted(rows if wide else _find_worst(rows), key=_order)
    lines = [line for text in _summary(document, rows) for line in layout.wrap(text)]
    if shown:
        cut = shown[:most]
        lines += ["", *layout.table(_COLUMNS, [_cells(row) for row in cut])]
        lines += [more_text(len(shown) - len(cut))] if len(cut) < len(shown) else []
        lines += layout.wrap(_LEGEND)
    changes = [*_changes_text(document, most)]
    lines += ["", *[line for text in changes for line in layout.wrap(text, hang="  ")]] if changes else []
    return lines


def _order(row: _Row) -> tuple[object, ...]:
    return *row.badness, row.left.namespace, row.left.workload.name


def _find_worst(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Yield the worst loss of each workload that is incomplete after some loss."""
    by_name: dict[tuple[str, str, str], list[_Row]] = {}
    for row in rows:
        if not row.is_whole:
            by_name.setdefault((row.left.namespace, row.left.workload.kind, row.left.workload.name), []).append(row)
    for own in by_name.values():
        worst = min(own, key=lambda row: row.badness)
        others = {row.loss.value for row in own if row.loss.key == worst.loss.key} - {worst.loss.value}
        yield worst._replace(others=tuple(sorted(others)))


def _summary(document: ResilienceDocument, rows: Sequence[_Row]) -> Iterator[str]:
    keys = name_list(short_key(key) for key in document.topology_keys)
    if not document.domains:
        yield f"No node has the label {name_list(document.topology_keys)}: there is no domain. Name another key."
        return
    phases = dict.fromkeys(loss.phase for loss in document.domains)
    parts = [_phase_text(phase, [row for row in rows if row.loss.phase == phase], document) for phase in phases]
    yield f"If any one {keys} were lost: {'; '.join(parts)}."
    yield from _find_minorities(rows, document)
    if document.not_computed:
        yield f"{plural(document.not_computed, 'domain')} more with fewer pods: their loss was not computed."


def _find_minorities(rows: Sequence[_Row], document: ResilienceDocument) -> Iterator[str]:
    """Name the workloads that a loss leaves without a majority of their pods until those come back, if they do."""
    names = sorted(
        {name_workload(row.left.namespace, row.left.workload) for row in rows if not row.left.keeps_majority}
    )
    if names:
        have = "has" if document.workloads == 1 else "have"
        yield (
            f"Right after the worst loss {len(names)} of {plural(document.workloads, 'workload')} {have} no majority "
            f"of their pods: {name_list(names)}."
        )


def _phase_text(phase: str, rows: Sequence[_Row], document: ResilienceDocument) -> str:
    """Say for how many workloads all pods come back in a phase, for how many they do not, and for how many perhaps."""
    at_risk = {(row.left.namespace, row.left.workload) for row in rows if not row.is_whole}
    never = {(row.left.namespace, row.left.workload) for row in rows if row.left.verdict == "no"}
    numbers = {
        "cannot come back whole": len(never),
        "may come back whole": len(at_risk) - len(never),
        f"{'comes' if document.workloads == 1 else 'come'} back whole for certain": document.workloads - len(at_risk),
    }
    said = [f"{number} {words}" for words, number in numbers.items() if number]
    return f"{_WHILE[phase]}, of {plural(document.workloads, 'workload')} {', '.join(said) or 'none is there'}"


def _cells(row: _Row) -> Sequence[str]:
    left = row.left
    return (
        name_workload(left.namespace, left.workload),
        f"{short_key(row.loss.key)} {row.loss.value}{_others_text(row.others)}, {row.loss.phase}",
        f"{left.now} of {left.wanted}",
        f"{then_text(left.guaranteed, left.possible)} of {left.wanted}",
        left.reason or "all come back",
    )


def _others_text(others: Sequence[str]) -> str:
    if not others:
        return ""
    more = len(others) - _MOST_OTHERS
    return f" (also {', '.join(others[:_MOST_OTHERS])}{f' and {more} more' if more > 0 else ''})"


def changed_loss_text(row: ChangedLossEntry) -> str:
    """Say what changes when a domain is lost: `guaranteed without zone b (silent): 6 -> 8 of 9, possible 7 -> 9`."""
    where = f"{short_key(row.key)} {row.domain} ({row.phase})"
    text = f"guaranteed without {where}: {_change(row.guaranteed_before, row.guaranteed_after)} of {row.wanted}"
    if (row.possible_before, row.possible_after) == (row.guaranteed_before, row.guaranteed_after):
        return text
    return f"{text}, possible {_change(row.possible_before, row.possible_after)}"


def changed_loss_lines(changed: LossesChanged | None) -> Iterator[str]:
    """Yield a line for each changed loss, with its workload, and then what is not listed or not computed."""
    if changed is None:
        return
    for row in changed.rows:
        yield f"{name_workload(row.namespace, row.workload)}: {changed_loss_text(row)}"
    yield from unlisted_loss_lines(changed)


def unlisted_loss_lines(changed: LossesChanged | None) -> Iterator[str]:
    """Yield how many changed losses are not listed, and why none were computed."""
    if changed is not None and changed.more:
        yield f"Without a zone {plural(changed.more, 'number')} more {'changes' if changed.more == 1 else 'change'}."
    if changed is not None and changed.not_computed:
        which = " of all" if changed.rows else ""
        yield f"What is guaranteed without a zone was not computed{which}: {changed.not_computed}."


def _change(before: int, after: int) -> str:
    return str(after) if before == after else f"{before} -> {after}"


def _changes_text(document: ResilienceDocument, most: int | None) -> Iterator[str]:
    """Yield what makes workloads whole.

    A command is broken before the patch, which is long, where a shell lets it continue.
    """
    if document.planned:
        yield (
            f"Pods of {document.planned} of the services above are to be moved by a repair: look first at what "
            "rebalancer plan says that this changes."
        )
    shown = document.changes[:most]
    silent = max((found.silent_nodes for found in shown if not found.obstacle), default=0)
    if silent:
        yield (
            f"{plural(silent, 'node')} {'is' if silent == 1 else 'are'} not Ready. Changes are computed for the time "
            f"when the pods there have been deleted and replaced, if {'it stays' if silent == 1 else 'they stay'} so."
        )
    for found in shown:
        name = f"{found.namespace}/{found.workload.name}"
        for number, change in enumerate(found.changes):
            with_ = "or" if number else f"{name} comes back whole"
            yield f"{with_} {_change_text(change)}{':' if change.command else '.'}"
            if change.command:
                words, flag, patch = change.command.partition(" -p ")
                yield f"{words}{flag}\\".replace(" ", "\xa0")
                yield f"\xa0\xa0{patch}"
        if not (found.changes and found.complete):
            yield f"{name}: {_none_text(found)}"
    if any(change.command for found in shown for change in found.changes):
        yield (
            "One change of a service is enough. With a larger maxSkew its pods may stand so unevenly from then on. "
            "A patch starts a rollout, which places all pods anew: run this command again after it."
        )
    left = len(document.changes) - len(shown) + document.changes_not_computed
    if left:
        yield f"Changes of {plural(left, 'more workload')} were not searched for, or not shown: name one of them."


def _none_text(found: WorkloadChanges) -> str:
    if not found.complete:
        return "the search for changes ended before all were tried."
    if found.obstacle:
        return f"no change makes it whole for certain: {found.obstacle}."
    return (
        "with its pods where they are now, none of these changes is proved to make it whole: nodeTaintsPolicy: Honor, "
        "a larger maxSkew, up to 10 nodes like those that exist, or two kinds together."
    )


def _change_text(change: ChangeThatHolds) -> str:
    over: dict[str, list[str]] = {}
    for one in change.constraints:
        over.setdefault(_fields_text(one), []).append(short_key(one.topology_key))
    parts = [
        f"{fields} on its constraint{'' if len(keys) == 1 else 's'} over {' and '.join(keys)}"
        for fields, keys in over.items()
    ]
    parts += map(_nodes_text, change.nodes)
    return f"with {' and '.join(parts)}" if parts else "without a change"


def _fields_text(changed: ConstraintChange) -> str:
    fields = [f"nodeTaintsPolicy: {changed.node_taints_policy}"] if changed.node_taints_policy else []
    fields += [f"maxSkew {changed.max_skew}"] if changed.max_skew else []
    return " and ".join(fields)


def _nodes_text(added: AddedNodes) -> str:
    where = " and ".join(f"{short_key(key)} {value}" for key, value in added.domains.items())
    return f"{plural(added.number, 'node')} more like {added.like}{f' in {where}' if where else ''}"
