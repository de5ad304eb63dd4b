"""The suggestion as text: a table of constraints, sizes that cannot satisfy the limit, deadlocks, YAML to paste."""

from collections.abc import Iterator, Sequence
from typing import Final

from rebalancer.documents.document import SizeRange
from rebalancer.documents.suggestion import SuggestedConstraint, SuggestionDocument
from rebalancer.model.nodes import ZONE
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.words import plural
from rebalancer.model.yaml_text import dump_yaml
from rebalancer.reporting.text.layout import PLAIN, TextLayout, join_lines

_COLUMNS: Final = ("MAXSKEW", "WORST CASE", "GUARANTEED HERE", "GUARANTEED FROM")
_MOST_SHOWN: Final = 12
"""So many numbers of pods are listed; the rest is counted."""


def suggestion_text(document: SuggestionDocument, layout: TextLayout = PLAIN) -> str:
    """Show a suggestion, and the YAML to paste where some placement satisfies the limit."""
    domains = f"{plural(document.domains, 'domain')} of {document.topology_key}"
    pods = plural(document.size, "pod")
    lines = [f'"{document.limit}" of {pods} over {domains}: at most {plural(document.cap, "pod")} in each domain.']
    if not document.attainable:
        lines.append(
            f"No placement satisfies it: {plural(document.domains, 'domain')} can hold at most "
            f"{document.domains * document.cap} of {pods}."
        )
    hard = [
        constraint
        for constraint in document.constraints
        if constraint.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE
    ]
    rows = [
        (
            str(constraint.max_skew),
            str(constraint.most),
            "yes" if constraint.guaranteed else "no",
            plural(constraint.domains_needed, "domain") if constraint.domains_needed else "no number of domains",
        )
        for constraint in hard
    ]
    lines = [line for text in lines for line in layout.wrap(text)]
    lines += ["", *layout.table(_COLUMNS, rows)]
    if document.unscalable:
        sizes = ", ".join(map(str, document.unscalable[:_MOST_SHOWN]))
        more = len(document.unscalable) - _MOST_SHOWN
        rest = f" and {more} more" if more > 0 else ""
        which = f"Sizes up to {document.size} for which no placement satisfies both: {sizes}{rest}."
        lines += ["", *layout.wrap(which)]
    lines += [line for text in _size_lines(document) for line in layout.wrap(text)]
    lines += [line for text in _deadlock_lines(document) for line in layout.wrap(text)]
    ending = _yaml_lines(document, hard[-1]) if document.attainable else layout.wrap(_way_out(document))
    return join_lines([*lines, "", *ending])


def _way_out(document: SuggestionDocument) -> str:
    """Say what helps where no constraint can: there is none to paste."""
    if not document.cap:
        none = f'"{document.limit}" allows none of {plural(document.size, "pod")} in a domain'
        return f"No constraint helps: {none}. Give a larger --limit, or a larger --size."
    least = -(-document.size // document.cap)
    return f"No constraint helps: it takes {plural(least, 'domain')} at least. Add domains, or give a larger --limit."


def _size_lines(document: SuggestionDocument) -> Iterator[str]:
    """Yield the sizes that the constraints leave without a placement, and the change."""
    if not document.impossible and not document.unreachable:
        return
    yield ""
    if document.impossible:
        yield f"Sizes up to {document.size} without a placement under the constraints: {_ranges(document.impossible)}."
    if document.unreachable:
        yield f"Sizes that pods which are placed one by one do not reach: {_ranges(document.unreachable)}."
    yield f"{document.change}: then each size has a placement."


def _ranges(ranges: Sequence[SizeRange]) -> str:
    return ", ".join(f"{one.first}-{one.last}" if one.first < one.last else str(one.first) for one in ranges)


def _deadlock_lines(document: SuggestionDocument) -> Sequence[str]:
    groups = document.deadlock
    if groups is None:
        return ()
    which = f"With maxSkew {groups.max_skew}, groups of {groups.size} with anti-affinity"
    if groups.ways is None or groups.stuck is None:
        return "", f"{which}: too many placements to search for deadlocks. Try smaller numbers."
    outcomes = plural(groups.ways, "scheduler outcome")
    if groups.stuck:
        free = f" With maxSkew {groups.free_from} they cannot." if groups.free_from else ""
        return "", f"{which} can deadlock: in {groups.stuck} of {outcomes}.{free}"
    return "", f"{which} cannot deadlock: in none of {outcomes}."


def _yaml_lines(document: SuggestionDocument, hard: SuggestedConstraint) -> Sequence[str]:
    """Return the YAML to paste: the tightest suggested constraint, and the soft one where that is stricter."""
    chosen = [hard] if hard.max_skew == 1 else [hard, document.constraints[-1]]
    rows = [(row.topology_key, row.max_skew, row.when_unsatisfiable) for row in chosen]
    if document.zone_max_skew is not None:
        rows.append((ZONE, document.zone_max_skew, WhenUnsatisfiable.DO_NOT_SCHEDULE))
    constraints = [
        {
            "topologyKey": key,
            "maxSkew": max_skew,
            "whenUnsatisfiable": str(action),
            "labelSelector": {"matchLabels": {"LABEL": "VALUE"}},
        }
        for key, max_skew, action in rows
    ]
    text = dump_yaml({"topologySpreadConstraints": constraints})
    comments = (
        "Replace LABEL: VALUE with labels that all of these pods have, and no others.",
        *_caveats(document, hard),
    )
    return *(f"# {comment}" for comment in comments), *text.splitlines()


def _caveats(document: SuggestionDocument, hard: SuggestedConstraint) -> Iterator[str]:
    """Yield what the constraints do not guarantee: people paste them without the table."""
    domains = plural(document.domains, "domain")
    if not hard.guaranteed and hard.domains_needed is not None:
        yield f'"{document.limit}" is not guaranteed here: one of {domains} may hold {plural(hard.most, "pod")},'
        yield f"the limit allows {document.cap}. It is guaranteed from {plural(hard.domains_needed, 'domain')} on."
    groups = document.deadlock
    if groups is None:
        return
    which = f"groups of {groups.size} with anti-affinity"
    if groups.stuck is None:
        yield f"Whether {which} can deadlock is unknown: too many placements to search."
    elif groups.stuck:
        free = f" With maxSkew {groups.free_from} they cannot." if groups.free_from else ""
        yield f"With these constraints, {which} can deadlock: a pod stays Pending.{free}"
