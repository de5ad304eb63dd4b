"""The map as shapes: filled squares are pods, arrows begin and end where pods do, words say the same."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.adapters.web.map_drawing import WIDE, draw_map, draw_zones, tabulate
from rebalancer.documents.document import WorkloadName
from rebalancer.documents.map import (
    DomainState,
    MapDocument,
    MapDomain,
    MapLane,
    MapMove,
    MapNode,
    MapZone,
    MoveKind,
    NodeState,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"
FILLED = {"pod", "waiting", "blocked", "landed"}


def zone(name: str, nodes: int, state: NodeState = NodeState.READY, until: datetime | None = None) -> MapZone:
    listed = tuple(MapNode(name=f"{name}-{number}", state=state, until=until) for number in range(1, nodes + 1))
    return MapZone(name=name, nodes=listed, folded={}, ready=nodes, of=nodes, back=None, unsettled_until=None)


def move(
    pod: str, node: str, *to: str, step: int | None = 1, kind: MoveKind = MoveKind.WAITING, landed: str | None = None
) -> MapMove:
    return MapMove(
        step=step,
        pod=pod,
        node=node,
        zone=node[0],
        kind=kind,
        reason=None,
        landed=landed,
        to_nodes=to,
        to_zones=tuple(sorted({name[0] for name in to})),
    )


def lane(nodes: dict[str, int], *moves: MapMove, high: int | None = 4, low: int = 0) -> MapLane:
    zones = Counter({name[0]: 0 for name in nodes})
    for name, number in nodes.items():
        zones[name[0]] += number
    domains = {
        name: MapDomain(
            pods=pods,
            min=low,
            max=high,
            state=DomainState.ABOVE if high is not None and pods > high else DomainState.ROOM,
        )
        for name, pods in zones.items()
    }
    return MapLane(
        topology_key=ZONE,
        what="zone, maxSkew 1",
        state="Violated",
        reason=None,
        domains=domains,
        more_domains=0,
        since=None,
        namespace="shop",
        workloads=(WorkloadName(kind="Deployment", name="web"),),
        zones=dict(zones),
        nodes={name: number for name, number in nodes.items() if number},
        moves=moves,
        more_moves=0,
        others=(),
    )


def document(*lanes: MapLane, zones: tuple[MapZone, ...] = (zone("a", 2), zone("b", 2))) -> MapDocument:
    return MapDocument(at=NOW, key=ZONE, zones=zones, more_zones=0, lanes=lanes, more=0)


@st.composite
def drawn_maps(draw: st.DrawFn) -> MapDocument:
    names = [f"{name}-{number}" for name in "ab" for number in (1, 2)]
    lanes = []
    for row in range(draw(st.integers(1, 3))):
        nodes = {name: draw(st.integers(0, 7)) for name in names}
        moves = []
        for number, name in enumerate(names):
            for pod in range(draw(st.integers(0, nodes[name]))):
                kind = draw(st.sampled_from([MoveKind.WAITING, MoveKind.BLOCKED]))
                to = draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
                moves.append(move(f"{row}{name}{pod}", name, *to, step=number + 1, kind=kind))
        lanes.append(lane(nodes, *moves))
    return document(*lanes)


@given(drawn_maps())
def test_the_filled_squares_of_a_node_are_its_pods(drawn: MapDocument) -> None:
    """Each has a square, or a number stands for those without a mark; in the whole map as in those of the zones."""
    boxes = {column.name: column for box in draw_map(drawn, NOW).zones for column in box.columns}
    for shown, described in zip(draw_map(drawn, NOW).lanes, drawn.lanes, strict=True):
        for name, column in boxes.items():
            inside = [one for one in shown.squares if column.x <= one.x < column.x + column.width]
            filled = [one for one in inside if one.kind in FILLED]
            pods = sum(int(one.text) if one.kind == "pod" and one.text else 1 for one in filled)
            room = int((column.width - 7) / 18)
            assert len(inside) <= room
            assert pods == described.nodes.get(name, 0) or len(inside) == room


@given(drawn_maps())
def test_words_and_table_say_the_counts(drawn: MapDocument) -> None:
    sentence, table = draw_map(drawn, NOW).sentence, tabulate(drawn)
    for described, (name, cells) in zip(drawn.lanes, table.rows, strict=True):
        assert name == "shop/web"
        for zone_name, cell in zip("ab", cells, strict=False):
            assert cell == f"{described.zones[zone_name]} of at most 4"
            assert f"{zone_name} {cell}" in sentence
        nodes = [described.nodes.get(name, 0) for name in table.head[2:]]
        assert [int(cell) for cell in cells[2:]] == nodes
        for one in described.moves:
            assert (f"repair {one.step}: {one.pod} from {one.node}" in sentence) == (one.kind is MoveKind.WAITING)


def test_an_arrow_goes_from_the_pod_to_where_it_may_land() -> None:
    drawn = draw_map(document(lane({"a-1": 5, "b-1": 1}, move("x", "a-1", "b-1", "b-2"))), NOW)
    (arrow,) = drawn.lanes[0].arrows
    places = {
        one.kind: [other.x + 7.5 for other in drawn.lanes[0].squares if other.kind == one.kind]
        for one in drawn.lanes[0].squares
    }
    assert arrow.kind == "waiting"
    assert f"M{places['waiting'][0]:g} " in arrow.trunk
    assert [float(tip[1:].partition(" ")[0]) for tip in arrow.tips] == places["ghost"]


def test_a_pod_that_has_landed_is_drawn_there_and_missing_where_it_was() -> None:
    moving = move("x", "a-1", "b-1", "b-2", kind=MoveKind.MOVING, landed="b-2")
    drawn = draw_map(document(lane({"a-1": 4, "b-2": 1}, moving)), NOW)
    assert [(one.kind, one.text) for one in drawn.lanes[0].squares if one.kind != "pod"] == [
        ("gone", "1"),
        ("landed", "1"),
    ]
    assert [arrow.kind for arrow in drawn.lanes[0].arrows] == ["moving"]


def test_a_pod_that_cannot_move_has_a_cross_and_no_arrow() -> None:
    drawn = draw_map(document(lane({"a-1": 5}, move("x", "a-1", "b-1", step=None, kind=MoveKind.BLOCKED))), NOW)
    assert ("blocked", "\N{MULTIPLICATION SIGN}") in [(one.kind, one.text) for one in drawn.lanes[0].squares]
    assert [one.kind for one in drawn.lanes[0].squares if one.kind == "ghost"] == []
    assert drawn.lanes[0].arrows == []


def test_with_very_many_moves_numbers_alone_say_where_pods_go() -> None:
    moves = [move(f"x-{number}", "a-1", "b-1", step=number) for number in range(1, 9)]
    assert draw_map(document(lane({"a-1": 8}, *moves)), NOW).lanes[0].arrows == []


@pytest.mark.parametrize(
    ("state", "until", "said", "pattern"),
    [
        (NodeState.READY, None, "ready", ""),
        (NodeState.CORDONED, None, "cordoned", "cordoned"),
        (NodeState.NOT_READY, None, "not ready", "not-ready"),
        (NodeState.SETTLING, NOW + timedelta(seconds=216), "closed 3m36s", "settling"),
        (NodeState.SETTLING, NOW, "closed", "settling"),
    ],
)
def test_a_node_says_whether_it_takes_pods(state: NodeState, until: datetime | None, said: str, pattern: str) -> None:
    drawn = draw_map(document(lane({"a-1": 1}), zones=(zone("a", 1, state, until),)), NOW)
    (column,) = drawn.zones[0].columns
    assert (column.state, column.pattern) == (said, pattern)


def test_of_many_nodes_each_zone_is_a_column() -> None:
    """With all its pods, and arrows from zone to zone; the counts, their bounds and the frames stay."""
    zones = tuple(zone(name, 20) for name in "abc")
    moves = (move("x", "a-1", "c-1", "c-2"), move("y", "a-7", kind=MoveKind.BLOCKED, step=None))
    drawn = draw_map(document(lane({"a-1": 3, "a-7": 2, "b-1": 1, "c-1": 0}, *moves), zones=zones), NOW)
    assert [box.title for box in drawn.zones] == ["zone a", "zone b", "zone c"]
    assert [[column.name for column in box.columns] for box in drawn.zones] == [["nodes"]] * 3
    kinds = Counter(one.kind for one in drawn.lanes[0].squares)
    assert kinds == {"pod": 4, "waiting": 1, "blocked": 1, "ghost": 1}
    assert len(drawn.lanes[0].arrows) == 1
    assert [(one.pods, one.bound, one.frame) for one in drawn.lanes[0].counts] == [
        (5, "/4", "above"),
        (1, "/4", ""),
        (0, "/4", ""),
    ]
    assert max(box.x + box.width for box in drawn.zones) <= WIDE


def test_a_zone_whose_nodes_take_no_pods_says_so_when_it_is_one_column() -> None:
    lost = MapZone(
        name="a", nodes=(), folded={NodeState.NOT_READY: 12}, ready=0, of=12, back=None, unsettled_until=None
    )
    drawn = draw_map(document(lane({"a-1": 1, "b-1": 1}), zones=(lost, zone("b", 40))), NOW)
    assert [column.pattern for box in drawn.zones for column in box.columns] == ["not-ready", ""]


def test_a_zone_whose_nodes_are_cordoned_has_ready_nodes() -> None:
    """As `kubectl get nodes` has them: Ready,SchedulingDisabled."""
    zones = [
        structs.replace(zone("a", 2), ready=0, cordoned=2),
        structs.replace(zone("b", 2), ready=0, cordoned=2, nodes=(), folded={NodeState.CORDONED: 2}),
        structs.replace(
            zone("c", 3), ready=1, cordoned=1, nodes=(), folded={NodeState.CORDONED: 1, NodeState.NOT_READY: 1}
        ),
    ]
    drawn = draw_map(document(lane({"a-1": 1}), zones=tuple(zones)), NOW)
    assert [box.detail for box in drawn.zones] == [
        "2 of 2 nodes ready, 2 cordoned",
        "2 of 2 nodes ready, 2 cordoned",
        "2 of 3 nodes ready, 1 cordoned, 1 not ready",
    ]


def test_pods_on_nodes_without_a_zone_are_drawn() -> None:
    described = lane({"a-1": 1, "b-1": 1})
    without = MapLane(**{name: getattr(described, name) for name in described.__struct_fields__} | {"zones": {"": 6}})
    nowhere = MapZone(name="", nodes=(), folded={NodeState.READY: 90}, ready=90, of=90, back=None, unsettled_until=None)
    drawn = draw_map(document(without, zones=(nowhere,)), NOW)
    assert [one.kind for one in drawn.lanes[0].squares] == ["pod"] * 6


def test_of_very_many_zones_every_column_has_room() -> None:
    """The map is wider then, and scrolls."""
    zones = tuple(zone(f"z{number}", 5) for number in range(24))
    drawn = draw_map(document(lane({"a-1": 1}), zones=zones), NOW)
    assert all(column.width >= 39 for box in drawn.zones for column in box.columns)
    assert drawn.width > WIDE


def test_a_narrow_screen_has_a_map_for_each_zone() -> None:
    drawings = draw_zones(document(lane({"a-1": 5, "b-1": 1}, move("x", "a-1", "b-1"))), NOW)
    assert [drawing.title for drawing in drawings] == ["zone a", "zone b"]
    assert all(drawing.lanes[0].arrows == [] for drawing in drawings)


def test_a_rule_of_another_key_bounds_no_zone() -> None:
    described = lane({"a-1": 5, "b-1": 1}, high=1)
    by_node = MapLane(
        **{name: getattr(described, name) for name in described.__struct_fields__}
        | {"topology_key": "kubernetes.io/hostname"}
    )
    drawn = draw_map(document(by_node), NOW)
    assert [(one.pods, one.bound, one.mark) for one in drawn.lanes[0].counts] == [(5, "", ""), (1, "", "")]


@given(st.text("abcdefgh-1", min_size=1, max_size=63), st.integers(0, 2))
def test_the_name_of_a_zone_is_whole_on_every_screen(name: str, more: int) -> None:
    """It goes on in the next line, and so does what is said beside it; nodes and lanes begin below all of it."""
    zones = (zone(name, 2), *(zone(f"z{number}", 2) for number in range(more)))
    described = document(lane({"a-1": 1}), zones=zones)
    for drawn in (draw_map(described, NOW), *draw_zones(described, NOW)):
        for box in drawn.zones:
            assert "".join(line.title for line in box.lines).replace(" ", "") == box.title.replace(" ", "")
            assert " ".join(line.detail for line in box.lines if line.detail) == box.detail
            for line in box.lines:
                assert 10 + len(line.title) * 7.2 + len(line.detail) * 6.2 <= box.width
                assert line.y < drawn.top
        assert all(one.y > drawn.top for one in drawn.lanes)
