"""The zones as shapes: the numbers of words, bars, squares and table are those of the document."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.adapters.web.zones_drawing import PITCH, ROW, WIDTH, ZonePanel, draw_zone_panels, tabulate_zones
from rebalancer.documents.zones import NodeMark, ZoneEntry, ZonesDocument

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"
PARTS = {
    "stay": "staying",
    "moving": "moving",
    "will move": "waiting",
    "cannot move": "blocked",
    "may arrive": "arriving",
}
WORDS = {
    "closed": NodeMark.SETTLING,
    "losing pods": NodeMark.LOSING,
    "receiving pods": NodeMark.RECEIVING,
    "without a move": NodeMark.UNCHANGED,
}


def zone(name: str = "a", goal: int | None = None, settles_at: datetime | None = None, **numbers: int) -> ZoneEntry:
    """Return a zone: its pods by part, its nodes by mark."""
    parts = {part: numbers.pop(part, 0) for part in (*PARTS.values(), "above")}
    return ZoneEntry(
        name=name,
        marks={NodeMark(mark.replace("_", " ")): number for mark, number in numbers.items()},
        settles_at=settles_at,
        pods=sum(parts.values()) - parts["arriving"] - parts["above"],
        goal=goal,
        **parts,
    )


def document(*zones: ZoneEntry, key: str = ZONE, more: int = 0) -> ZonesDocument:
    nodes = sum(sum(one.marks.values()) for one in zones)
    return ZonesDocument(key=key, nodes=nodes, zones=zones, more_zones=more)


@st.composite
def drawn_zones(draw: st.DrawFn) -> ZonesDocument:
    number = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 5_000))
    zones = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        parts: dict[str, Any] = {part: draw(number) for part in (*PARTS.values(), "above")}
        marks: dict[str, Any] = {mark.replace(" ", "_"): count for mark in NodeMark if (count := draw(number))}
        zones.append(zone(name, draw(st.none() | number), **parts, **marks))
    return document(*zones)


def numbers_in(text: str) -> dict[str, int]:
    """Return what a sentence counts: `1,240 stay, 6 moving`."""
    return {words: int(number.replace(",", "")) for number, words in re.findall(r"([\d,]+) ([a-z ]+)", text)}


@given(drawn_zones())
def test_words_and_table_say_the_numbers_of_the_document(drawn: ZonesDocument) -> None:
    """A screen reader hears every number that is not 0; the short sentence has what does not stay."""
    panels, table = draw_zone_panels(drawn, NOW).zones, tabulate_zones(drawn)
    for described, panel, (title, cells) in zip(drawn.zones, panels, table.rows, strict=True):
        parts = {words: number for words, part in PARTS.items() if (number := getattr(described, part))}
        said = numbers_in(panel.whole.partition(": ")[2])
        assert said == parts
        assert numbers_in(panel.moves) == {words: number for words, number in parts.items() if words != "stay"}
        assert panel.pods.startswith(f"{described.pods:,} pod")
        goal = "" if described.goal is None else f", at most {described.goal:,} when repaired"
        assert panel.pods.partition(" of violated workloads")[2] == goal
        marks = numbers_in(panel.every.partition(": ")[2])
        assert {WORDS.get(words) or NodeMark(words): number for words, number in marks.items()} == described.marks
        assert title == panel.title
        row = dict(zip(table.head, (int(cell.replace(",", "") or -1) for cell in cells), strict=True))
        assert {words: row[words] for words in parts} == parts
        assert {words: row[words] for words in marks} == marks
        assert (row["nodes"], row["pods"], row["above the bounds"], row["at most when repaired"]) == (
            sum(described.marks.values()),
            described.pods,
            described.above,
            described.goal if goal else -1,
        )


@given(drawn_zones())
def test_all_bars_have_one_scale(drawn: ZonesDocument) -> None:
    """Parts lie side by side; each that is not 0 can be seen, and the line is where the bound ends."""
    panels = draw_zone_panels(drawn, NOW).zones
    units = set[float]()
    for described, panel in zip(drawn.zones, panels, strict=True):
        shown = {one.kind: one.width for one in panel.segments}
        assert shown.keys() == {part for part in PARTS.values() if getattr(described, part)}
        assert all(one.x + one.width == pytest.approx(other.x) for one, other in pairwise(panel.segments))
        assert all(width >= 2.5 for width in shown.values())
        assert sum(shown.values()) <= WIDTH
        units.update(width / getattr(described, kind) for kind, width in shown.items() if width > 40)
        units.update(
            [panel.line / described.goal] if panel.line is not None and described.goal and panel.line > 40 else []
        )
    assert not units or max(units) == pytest.approx(min(units), rel=0.01)


def squares_of(panel: ZonePanel) -> list[str]:
    """Return the kinds of the squares, row by row."""
    at: dict[tuple[float, float], str] = {}
    for run in panel.runs:
        for row in range(int(run.height / PITCH)):
            for column in range(int(run.width / PITCH)):
                place = run.y / PITCH + row, run.x / PITCH + column
                assert place not in at, "squares lie upon each other"
                at[place] = run.kind
    assert sorted(at) == [divmod(number, ROW) for number in range(len(at))], "a gap between squares"
    assert panel.height == PITCH * -(-len(at) // ROW)
    return [at[place] for place in sorted(at)]


@given(drawn_zones())
def test_each_node_has_a_square_or_shares_one_with_others_of_its_kind(drawn: ZonesDocument) -> None:
    """Those with something to say first; a dozen and a half runs at most draw them."""
    drawing = draw_zone_panels(drawn, NOW)
    assert (drawing.square == 1) == (drawn.nodes < 2_000)
    for described, panel in zip(drawn.zones, drawing.zones, strict=True):
        assert squares_of(panel) == [
            mark.replace(" ", "-")
            for mark in NodeMark
            for _ in range(-(-described.marks.get(mark, 0) // drawing.square))
        ]
        assert len(panel.runs) <= 3 * len(described.marks)
        assert drawing.square == 1 or len(squares_of(panel)) <= 10 * ROW + len(NodeMark)


def test_five_thousand_nodes_are_a_dozen_runs() -> None:
    drawn = document(*(zone(name, not_ready=4, settling=18, losing=70, unchanged=1_575) for name in "abc"))
    drawing = draw_zone_panels(drawn, NOW)
    assert drawing.square == 5
    assert all(len(panel.runs) <= 12 for panel in drawing.zones)
    assert draw_zone_panels(document(zone(unchanged=1_999)), NOW).square == 1
    assert draw_zone_panels(document(zone(unchanged=250), *(zone(unchanged=250),) * 7), NOW).square == 2


@pytest.mark.parametrize(
    ("numbers", "above", "flow", "moves"),
    [
        ({"moving": 1, "above": 1}, True, "1 pod moves", "1 moving"),
        ({"moving": 1, "waiting": 1_200, "above": 2}, True, "1,201 pods move", "1 moving, 1,200 will move"),
        ({"arriving": 3}, False, "3 may arrive", "3 may arrive"),
        (
            {"waiting": 1, "arriving": 3, "above": 1},
            True,
            "1 pod moves, 3 may arrive",
            "1 will move, 3 may arrive",
        ),
        ({"staying": 3, "blocked": 2, "above": 2}, True, "", "2 cannot move"),
        ({"staying": 3}, False, "", ""),
    ],
)
def test_what_leaves_and_arrives_is_said_first(numbers: dict[str, Any], above: bool, flow: str, moves: str) -> None:
    drawing = draw_zone_panels(document(zone(**numbers), zone("b")), NOW)
    panel = drawing.zones[0]
    assert drawing.concerned
    assert (panel.above, panel.flow, panel.moves) == (above, flow, moves)


def test_the_states_of_nodes_are_said_with_their_end() -> None:
    """Which may be over when the page is read."""
    settling = zone(settling=18, not_ready=2, cordoned=1, unchanged=1, settles_at=NOW + timedelta(minutes=5))
    words = "22 nodes: 2 not ready, 1 cordoned, 18 closed"
    (panel,) = draw_zone_panels(document(settling), NOW).zones
    assert panel.nodes == f"{words}, the last until 00:05:00"
    (later,) = draw_zone_panels(document(settling), NOW + timedelta(hours=1)).zones
    assert later.nodes == words
    (calm,) = draw_zone_panels(document(zone(losing=1)), NOW).zones
    assert (calm.nodes, calm.every) == ("1 node", "1 node: 1 losing pods")


def test_zones_are_named_by_their_key() -> None:
    drawn = document(zone("a"), zone(""), more=3)
    assert [panel.title for panel in draw_zone_panels(drawn, NOW).zones] == ["zone a", "zone (none)"]
    assert draw_zone_panels(drawn, NOW).more == 3
    assert not draw_zone_panels(drawn, NOW).concerned
    (whole,) = draw_zone_panels(structs.replace(document(zone("")), key=""), NOW).zones
    assert (whole.title, whole.pods, whole.runs) == ("nodes (none)", "0 pods of violated workloads", [])
