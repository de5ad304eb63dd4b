"""The explanation as text: the verdict, then the path of the decision in questions, answers and evidence."""

from collections.abc import Sequence
from typing import Final

from rebalancer.documents.explanation import LEAVES, MOVES, STAYS, WAITS, ExplanationDocument
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, join_lines
from rebalancer.reporting.text.map import map_lines, rule_lines

_STYLES: Final = {MOVES: Style.MOVING, WAITS: Style.CAUTION, STAYS: Style.HEADING, LEAVES: Style.HEADING}


def explanation_text(document: ExplanationDocument, layout: TextLayout = PLAIN, *, foot: Sequence[str] = ()) -> str:
    """Show an explanation, with a workload's map; `foot` names the controller and the policy."""
    reason = "; ".join(filter(None, (document.reason, document.idle)))
    said = "Would move" if document.idle and document.verdict == MOVES else document.verdict
    shown = f"{said} ({reason})" if reason else said
    verdict = layout.paint(shown, _STYLES[document.verdict])
    lines = layout.wrap(f"{layout.heading(document.object)}: {verdict}", hang="  ")
    if document.map is not None:
        lines += ["", *map_lines(document.map, layout), "", *rule_lines(document.map, layout)]
    for answer in document.path:
        lines += ["", *(layout.heading(line) for line in layout.wrap(answer.question))]
        lines += layout.wrap(answer.answer, "  ")
        for line in answer.evidence.split("\n") if answer.evidence else ():
            # What is to be pasted, such as YAML, begins with spaces or a dash and is not wrapped.
            fixed = line.startswith((" ", "- ")) or line.endswith(":")
            lines += [f"  {line}"] if fixed else layout.wrap(line, "  ")
    if foot:
        lines += ["", *(line for text in foot for line in layout.wrap(text))]
    return join_lines(lines)
