"""The map as text: the signs, what fits which width, names that are cut where people would cut them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.controller.cycle import Cycle
from rebalancer.documents.cluster_map import map_document
from rebalancer.documents.document import WorkloadName
from rebalancer.documents.map import (
    DomainState,
    MapDocument,
    MapDomain,
    MapLane,
    MapMove,
    MapNode,
    MapRule,
    MapZone,
    MoveKind,
    NodeState,
)
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.reporting.text.layout import TextLayout, visible_width
from rebalancer.reporting.text.map import Words, map_lines, rule_lines
from tests.drawing import examples
from tests.reporting.test_plan_numbers import states

NOW = datetime(2026, 1, 5, 11, 26, tzinfo=UTC)
STATES = {"b-3": NodeState.CORDONED, "c-3": NodeState.SETTLING, "c-4": NodeState.NOT_READY}


def zone(name: str, *numbers: int, back: datetime | None = None) -> MapZone:
    nodes = [f"{name}-{number}" for number in numbers]
    return MapZone(
        name=name,
        nodes=tuple(
            MapNode(
                name=node,
                state=STATES.get(node, NodeState.READY),
                until=NOW + timedelta(seconds=216) if node == "c-3" else None,
            )
            for node in nodes
        ),
        folded={},
        ready=sum(STATES.get(node) is not NodeState.NOT_READY for node in nodes),
        of=len(nodes),
        back=back,
        unsettled_until=None,
    )


def domain(pods: int, least: int, most: int | None) -> MapDomain:
    state = DomainState.ROOM
    if most is not None and pods > most:
        state = DomainState.ABOVE
    elif pods < least:
        state = DomainState.SHORT
    elif pods == most:
        state = DomainState.FULL
    return MapDomain(pods=pods, min=least, max=most, state=state)


def lane(
    name: str,
    nodes: Mapping[str, int],
    least: int,
    most: int,
    *moves: MapMove,
    state: str = "Violated",
    **fields: object,
) -> MapLane:
    held = {one: sum(number for node, number in nodes.items() if node.startswith(one)) for one in "abc"}
    return MapLane(
        topology_key=ZONE,
        what="zone, maxSkew 1",
        state=state,
        reason=None,
        domains={one: domain(number, least, most) for one, number in held.items()},
        more_domains=0,
        since=None,
        namespace="shop",
        workloads=(WorkloadName(kind="Deployment", name=name),),
        zones=held,
        nodes=nodes,
        moves=moves,
        more_moves=0,
        others=(),
        stuck=state in {"Infeasible", "Unfixable"},
    )


def move(
    step: int | None,
    node: str,
    *to: str,
    kind: MoveKind = MoveKind.WAITING,
    landed: str | None = None,
    zones: tuple[str, ...] = ("c",),
) -> MapMove:
    return MapMove(
        step=step,
        pod=f"pod-{node}",
        node=node,
        zone=node[:1],
        kind=kind,
        reason=None if kind is MoveKind.MOVING else "RateLimited",
        landed=landed,
        to_nodes=to,
        to_zones=zones,
    )


def repair() -> MapDocument:
    """Zone c came back: a pod moves, others wait or may go, and one workload is blocked."""
    moving, blocked = MoveKind.MOVING, MoveKind.BLOCKED
    web = {"a-1": 2, "a-2": 2, "a-3": 1, "b-1": 2, "b-2": 2, "b-3": 1, "c-1": 1, "c-2": 1}
    two = {"a-1": 1, "a-2": 1, "a-3": 1, "b-1": 2, "b-2": 1}
    return MapDocument(
        at=NOW,
        key=ZONE,
        zones=(
            zone("a", 1, 2, 3),
            zone("b", 1, 2, 3),
            zone("c", 1, 2, 3, 4, back=NOW - timedelta(minutes=22)),
        ),
        more_zones=0,
        lanes=(
            lane("web", web, 4, 4, move(None, "a-2", kind=moving, landed="c-2"), move(3, "a-1", "c-1", "c-2")),
            lane("search", two, 2, 2, move(1, "a-1", "c-1", kind=moving), move(1, "b-1", "c-2")),
            lane("tokens", {"a-2": 1, "a-3": 1, "b-2": 2}, 1, 2, move(4, "b-2", "c-3")),
            lane(
                "cart", two, 2, 2, move(None, "a-1", kind=blocked), move(None, "b-1", kind=blocked), state="Unfixable"
            ),
        ),
        more=0,
    )


def drawn(document: MapDocument, width: int | None = 80) -> str:
    return "\n".join(map_lines(document, TextLayout(width=width, bar="█")))


def test_how_long_a_node_takes_no_replacement_is_as_of_now() -> None:
    """A map is of the last cycle, and all other times of a screen are of the moment; what is over is not said."""

    def text(after: int, document: MapDocument = repair()) -> str:  # noqa: B008  # nothing changes it
        words = Words(now=NOW + timedelta(seconds=after))
        return "\n".join(map_lines(document, TextLayout(width=200), words))

    assert "3m36 takes no replacement for 3m36s" in text(0)
    assert "6 takes no replacement for 6s" in text(210)
    assert "replacement" not in text(216)
    *others, last = repair().zones
    nodes = tuple(structs.replace(node, until=None) for node in last.nodes)
    unknown = structs.replace(repair(), zones=(*others, structs.replace(last, nodes=nodes)))
    assert "closed takes no replacement yet" in text(0, unknown)


def test_cordoned_nodes_are_ready_and_said_to_be_cordoned() -> None:
    """As `kubectl get nodes` has them, in a zone of one column."""
    first, *others = repair().zones
    folded = {NodeState.CORDONED: 2, NodeState.READY: 1}
    closed = structs.replace(first, nodes=(), folded=folded, ready=1, cordoned=2)
    text = "\n".join(map_lines(structs.replace(repair(), zones=(closed, *others)), TextLayout(width=80)))
    assert "2 cordoned" in text
    assert "of 3 ready" not in text


def test_the_map_of_a_repair() -> None:
    """Pods that stay, moved, move now, wait and are blocked; where they may land; nodes that take none."""
    assert drawn(repair()).splitlines() == [
        "MAP  4 workloads",
        "         | zone a           | zone b            | zone c, back 11:04",
        "         | /max a-1 a-2 a-3 | /max b-1 b-2 b-3  | /max c-1 c-2 c-3  c-4",
        "         |                  |              cord |              3m36 down",
        "! web    | 5/4! #3  ##  #   | 5/4! ##  ##  #    | 2/4- #+3 >+3",
        "! search | 3/2! >1  #   #   | 3/2! #1  #        | 0/2- +1  +1",
        "! tokens | 2/2      #   #   | 2/2      #4       | 0/2-         +4",
        "x cart   | 3/2! x   #   #   | 3/2! #x  #        | 0/2-",
        "# pod   > moving now   >1 moves now, repair 1   3 waits, repair 3",
        "+1 may land here   x kept by a budget   5/4! holds 5, at most 4",
        "2/4- too few, has room   cord cordoned   down not ready",
        "3m36 takes no replacement for 3m36s",
    ]


def test_without_a_terminal_it_is_eighty_columns_wide() -> None:
    assert drawn(repair(), None) == drawn(repair(), 80)


def test_nodes_that_do_not_fit_are_one_column() -> None:
    """With the counts, the steps that leave, and those that may land; the zone says what its nodes are."""
    assert drawn(repair(), 60).splitlines()[:8] == [
        "MAP  4 workloads",
        "         | zone a  | zone b | zone c",
        "         |         |        | 3 of 4 ready",
        "         |         |        | back 11:04",
        "! web    | 5/4! 3  | 5/4!   | 2/4- >+3",
        "! search | 3/2! >1 | 3/2! 1 | 0/2- +1",
        "! tokens | 2/2     | 2/2 4  | 0/2- +4",
        "x cart   | 3/2! x  | 3/2! x | 0/2-",
    ]


def test_zones_that_do_not_fit_have_lines_of_their_own() -> None:
    assert drawn(repair(), 30).splitlines()[:6] == [
        "MAP  4 workloads",
        "zone c: 3 of 4 ready, back",
        "  11:04",
        "! web",
        "  zone a: 5/4! 3",
        "  zone b: 5/4!",
    ]


def test_where_nothing_is_violated_it_says_so() -> None:
    empty = structs.replace(repair(), lanes=())
    assert drawn(empty).splitlines() == ["MAP", "No workload is violated, and no pod moves."]


def test_many_pods_are_numbers() -> None:
    """Of a node and of a step; a step of two digits cannot be taken for two steps."""
    many = {"a-1": 9, "b-1": 1, "c-1": 2}
    moves = [move(12, "a-1", "c-1") for _ in range(6)]
    lanes = (lane("web", many, 4, 4, *moves), lane("db", {"b-1": 1, "c-1": 12}, 4, 5))
    text = drawn(structs.replace(repair(), lanes=lanes))
    assert "! web | 9/4! ###(12)*6" in text
    assert "##+(12)" in text
    assert "#*12" in text
    assert "(12) waits, repair 12" in text


def test_a_pod_that_a_budget_keeps_need_not_be_above_a_bound() -> None:
    """The bound of its zone may be reached and no more, where a rule of another key is violated."""
    blocked = structs.replace(move(1, "a-1", "c-1"), kind=MoveKind.BLOCKED, step=None)
    text = drawn(structs.replace(repair(), lanes=(lane("web", {"a-1": 2, "b-1": 2}, 2, 2, blocked),)))
    assert "2/2  #x" in text
    assert "x kept by a budget" in text
    assert "above" not in text


@pytest.mark.parametrize(
    ("names", "prefix", "shown"),
    [
        (("eu-west-1a", "eu-west-1b", "eu-west-1c"), "zones eu-west-1*", ("zone a", "zone b", "zone c")),
        (("europe-west4-a", "europe-west4-b", "europe-west4-c"), "zones europe-west4-*", ("zone a", "zone c")),
        (("rack-10", "rack-11", "rack-12"), "zones rack-*", ("zone 10", "zone 12")),
        (("zone", "zone-a", "zone-b"), "", ("zone zone", "zone zone-a")),
        (("east", "eastern", "west"), "", ("zone east ", "zone eastern")),
    ],
)
def test_what_all_zones_begin_with_is_said_once(names: tuple[str, ...], prefix: str, shown: tuple[str, ...]) -> None:
    """It is cut neither within a word nor within a number."""
    zones = [structs.replace(one, name=name) for one, name in zip(repair().zones, names, strict=True)]
    lanes = [
        structs.replace(
            one,
            domains=dict(zip(names, one.domains.values(), strict=True)),
            zones=dict(zip(names, one.zones.values(), strict=True)),
        )
        for one in repair().lanes
    ]
    text = drawn(structs.replace(repair(), zones=tuple(zones), lanes=tuple(lanes)), 100)
    assert prefix in text.splitlines()[0]
    assert ("*" in text.splitlines()[0]) == bool(prefix)
    assert all(name in text for name in shown)
    assert "5/4!" in text


def test_the_domain_of_all_node_names_is_said_once() -> None:
    suffix = ".eu-west-1.compute.internal"
    zones = tuple(
        structs.replace(
            one, nodes=tuple(structs.replace(node, name=f"ip-10-{node.name}{suffix}") for node in one.nodes)
        )
        for one in repair().zones
    )
    lines = drawn(structs.replace(repair(), zones=zones)).splitlines()
    assert lines[0] == f"MAP  4 workloads, nodes ip-10-*{suffix}"
    assert lines[2].endswith(" c-1 c-2 c-3  c-4")


def test_each_lane_says_what_it_is() -> None:
    """Its namespace among several, how many workloads it has, and the key that is not the map's."""
    first, second, *_ = repair().lanes
    pair = (WorkloadName(kind="Deployment", name="web"), WorkloadName(kind="Deployment", name="api"))
    by_node = {"a-1": domain(2, 1, 1), "b-1": domain(1, 1, 1), "c-1": domain(0, 1, 1)}
    lanes = (
        structs.replace(first, namespace="auth", workloads=pair),
        structs.replace(
            second, topology_key=HOSTNAME, domains=by_node, nodes={"a-1": 2, "b-1": 1}, zones={"a": 2, "b": 1}, moves=()
        ),
    )
    lines = drawn(structs.replace(repair(), lanes=lanes), 120).splitlines()
    assert lines[4].startswith("! auth/web+1         | 5/4! #3")
    assert lines[5].startswith("! shop/search (node) | 2    ##!")


def test_zones_without_nodes_and_nodes_that_are_not_listed_are_counted() -> None:
    first, second, third = repair().zones
    zones = (
        structs.replace(first, folded={NodeState.READY: 300, NodeState.NOT_READY: 4}, of=307, ready=303),
        structs.replace(second, nodes=(), of=0, ready=0, unsettled_until=NOW),
        structs.replace(third, name="", back=None),
    )
    document = structs.replace(repair(), zones=zones, more_zones=2, more=7)
    text = drawn(document, 120)
    assert text.startswith("MAP  4 workloads, 2 more not shown\n")
    assert "| zone a, 303 of 307 ready " in text
    assert f"| zone b, no node, unsettled until {NOW:%H:%M:%S} " in text
    later = structs.replace(
        document, zones=(first, structs.replace(zones[1], unsettled_until=NOW + timedelta(minutes=9)))
    )
    assert f"unsettled until {NOW + timedelta(minutes=9):%H:%M}\n" in drawn(later, 120)
    assert "| no zone\n" in text
    assert "a-3 +304" in text
    assert "and 7 more: -n, -l, --limit, -o json" in text
    assert "| nodes" in drawn(structs.replace(document, key=""), 120)


def test_the_rules_show_each_domain_against_its_bounds() -> None:
    first = repair().lanes[0]
    names = [f"n{number}" for number in range(9)]
    nodes = MapRule(
        topology_key=HOSTNAME,
        what="node, maxSkew 1",
        state="Violated",
        reason="NodeSettling",
        domains={name: domain(3 if name == "n4" else 1, 1, 2) for name in names},
        more_domains=4,
        since=NOW,
    )
    fewest = structs.replace(nodes, what="limit l", domains={"a": domain(0, 1, None)}, more_domains=0)
    calm = structs.replace(nodes, domains={name: domain(1, 1, 2) for name in names}, state="Satisfied")
    many = structs.replace(nodes, domains={name: domain(3, 1, 2) for name in names}, more_domains=0)
    lanes = (structs.replace(first, others=(nodes, fewest, calm, many)),)
    document = structs.replace(repair(), lanes=lanes)
    lines = rule_lines(document, TextLayout(width=80, bar="#"))
    assert lines[:11] == [
        "RULES",
        "zone, maxSkew 1: Violated",
        "  a ############!!!  5 of at most 4  ! 1 above",
        "  b ############!!!  5 of at most 4  ! 1 above",
        "  c ######......|    2 of at most 4  - 2 short",
        "node, maxSkew 1: Violated (NodeSettling), violated since 2026-01-05 11:26:00Z",
        "  n4 ######!!!  3 of at most 2  ! 1 above",
        "  and 12 more within their bounds",
        "limit l: Violated (NodeSettling), violated since 2026-01-05 11:26:00Z",
        "  a   0, at least 1  - 1 short",
        "node, maxSkew 1: Satisfied (NodeSettling)",
    ]
    assert lines[11] == "  13 domains within their bounds"
    assert lines[-1] == "  and 5 more"
    assert rule_lines(document, TextLayout())[2] == "  a 5 of at most 4  ! 1 above"
    assert "▓" in rule_lines(document, TextLayout(width=80, bar="█"))[2]
    assert rule_lines(structs.replace(document, lanes=()), TextLayout()) == []


@given(cycle=states(), width=st.integers(20, 130))
@examples(100)
def test_a_map_fits_its_terminal_in_any_locale(cycle: Cycle, width: int) -> None:
    """But for a word that is wider; colours change nothing else."""
    document = map_document(cycle.evaluation, cycle.memory, fates=cycle.fates)
    plain = map_lines(document, TextLayout(width=width))
    colored = map_lines(document, TextLayout(width=width, color=True))
    assert all(len(line) <= width or " " not in line.strip() for line in plain)
    assert "".join(plain).isascii()
    assert [len(line) for line in plain] == [visible_width(line.rstrip()) for line in colored]


def test_what_moves_is_not_marked_as_what_cannot_be_repaired() -> None:
    """Its state may be Unfixable until the pod has arrived: the figures do not count it so, and so the map does not."""
    document = repair()
    moving = tuple(structs.replace(lane, stuck=False) for lane in document.lanes)
    assert any(line.startswith("x cart") for line in drawn(document).splitlines())
    lines = drawn(structs.replace(document, lanes=moving)).splitlines()
    assert any(line.startswith("! cart") for line in lines)
    assert not any(line.startswith("x cart") for line in lines)
