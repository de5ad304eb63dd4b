"""A zone, or a node, is lost: status, page, JSON and history say so first, and show what it held."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.adapters.web.page_address import PageAddress
from rebalancer.adapters.web.page_view import PageView
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, LoopState, PolicyLoaded, ProcessFacts
from rebalancer.controller.status import status_document, status_documents
from rebalancer.documents.folded_zones import zones_document
from rebalancer.documents.history import history_entry
from rebalancer.documents.map import NodeState
from rebalancer.documents.zones import NodeMark
from rebalancer.model.labels import Labels
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy
from rebalancer.policy.sections import Nodes
from rebalancer.policy.topology import Topology
from rebalancer.ports import STATUS_KEY
from rebalancer.reporting.text.status import status_text
from rebalancer.simulator import ZONE, ClusterBuilder, SimulatedCluster
from tests.build import a_cluster, a_policy, a_state, with_nodes
from tests.controller.simulated import eager
from tests.controller.test_history import Recorded
from tests.controller.test_page import Browser, new_browser, plain
from tests.reports import page_of

ZONES = ["eu-1a", "eu-1b", "eu-1c"]
C = ("eu-1c-1", "eu-1c-2", "eu-1c-3")
EVEN = {f"{zone}-{number}": 1 for zone in ZONES for number in (1, 2, 3)}
WHOLE = a_cluster(ZONES, 3, EVEN, spread={ZONE: 1})
UNBOUND = a_cluster(ZONES, 3, EVEN)
"""Its pods have no constraint."""
MINUTE = timedelta(minutes=1)


def a_limit(share: str, mode: Mode = Mode.EVICT) -> Policy:
    """Return a policy that bounds the share of a zone; nodes settle in three minutes."""
    limit = f"{{name: zone, topologyKey: {ZONE}, maxShare: {share}}}"
    groups = a_policy(f"groups:\n- {{name: web, selector: {{}}, limits: [{limit}]}}\n").groups
    return eager(mode, nodes=Nodes(settle=3 * MINUTE), groups=groups)


def lose_zone(policy: Policy, whole: ClusterBuilder = WHOLE) -> Recorded:
    """Return a controller on a cluster whose zone eu-1c is gone, after the cycle that has noticed it."""
    simulation = Recorded(SimulatedCluster(whole.snapshot(), seed=1), policy)
    simulation.start()
    simulation.cycles(3)
    simulation.cluster.nodes.remove_domain(ZONE, "eu-1c")
    simulation.runner.tick()
    return simulation


def show(state: LoopState, after: float = 0.0) -> list[str]:
    """Return the lines of `rebalancer status` that many seconds after the last cycle."""
    assert state.cycle is not None
    now = state.cycle.context.now + timedelta(seconds=after)
    return status_text(status_document(state, "leader-1", "test"), now).splitlines()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with new_browser() as browser:
        yield browser


LOST = "Zone eu-1c lost at 00:00:30 UTC: 3 nodes, 3 pods"
IN_VAIN = f"{LOST}; 1 limit violated; no placement satisfies it before it is back"
NOT_YET = f"{LOST}; no placement satisfies 1 limit before it is back"
"""Until its pods are placed elsewhere, no domain holds more than the limit allows."""


def test_a_lost_zone_is_the_headline_everywhere(browser: Browser) -> None:
    """From the first cycle without it, in text, JSON and on the page, as long as it is gone; with its own cause."""
    simulation = lose_zone(a_limit("<1/2"))
    for cycle in range(30):
        state = simulation.runner.state
        assert state.cycle is not None
        (limit,) = state.cycle.assessment.limits
        assert show(state)[1] == f"! {NOT_YET if limit.headroom >= 0 else IN_VAIN}", cycle
        assert set(map(str, state.cycle.causes.values())) == {"ZoneLost"}, cycle
        stored = json.loads({one.key: one.text for one in status_documents(state, "leader-1", "test")}[STATUS_KEY])
        (loss,) = stored["losses"]
        assert (loss["value"], loss["whole"], loss["lost"], loss["pods"], loss["limits"]) == ("eu-1c", True, 3, 3, 1)
        assert loss["nodes"] == list(C)
        simulation.cycles(1)
    browser.page.show(simulation.runner.state, ())
    text = browser.text()
    assert f"<span>{IN_VAIN}</span></h1>" in text
    assert plain(text).count(IN_VAIN) == 2, "the title, and the headline"
    simulation.cluster.nodes.restore_domain(ZONE, "eu-1c")
    simulation.cycles(1)
    assert not any("lost at" in line for line in show(simulation.runner.state))


@pytest.mark.parametrize("whole", [WHOLE, UNBOUND], ids=["constraint", "limit alone"])
def test_the_map_keeps_the_lost_zone(browser: Browser, whole: ClusterBuilder) -> None:
    """Whole, with its nodes and how many pods they held; in text, in the stored status, in the document and drawn."""
    simulation = lose_zone(a_limit("<1/2"), whole)
    state = simulation.runner.state
    stored = json.loads({one.key: one.text for one in status_documents(state, "leader-1", "test")}[STATUS_KEY])
    browser.page.show(state, ())
    page = browser.page.read()
    assert page is not None
    assert page.map is not None
    (zone,) = (zone for zone in page.map.zones if zone.name == "eu-1c")
    assert [(node.name, node.state) for node in zone.nodes] == [(name, NodeState.LOST) for name in C]
    assert (zone.of, zone.ready) == (3, 0)
    assert zone.lost is not None
    assert (zone.lost.whole, zone.lost.nodes, zone.lost.pods) == (True, 3, 3)
    assert [one["lost"] for one in stored["map"]["zones"]][:2] == [None, None]
    assert stored["map"]["zones"][2]["lost"]["pods"] == 3
    assert "zone eu-1c lost at 00:00:30: 3 nodes, 3 pods" in plain(browser.text())
    assert 'fill="url(#lost)"' in browser.text()
    assert state.cycle is not None
    status = structs.replace(status_document(state, "leader-1", "test"), map=state.cycle.stored_map)
    text = status_text(status, state.cycle.context.now)
    heads = [line.rpartition("| ")[2] for line in text.partition("MAP")[2].splitlines()[1:5]]
    assert heads == ["zone c", "lost 00:00", "3 nodes", "3 pods"]
    panels = zones_document(state.cycle.evaluation, state.memory, state.cycle.fates)
    assert panels.nodes == 6
    assert {one.name: one.marks.get(NodeMark.LOST, 0) for one in panels.zones} == {"eu-1a": 0, "eu-1b": 0, "eu-1c": 3}


def test_the_title_of_the_map_has_the_words_of_its_squares() -> None:
    """Nodes that exist and are not Ready are "not ready", though their zone is lost; "lost" are those that are gone."""
    whole = WHOLE.snapshot()
    gone = replace(whole, nodes=tuple(node for node in whole.nodes if node.name not in C))
    for after, title in (
        (whole, "9 nodes in 3 zones"),
        (gone, "6 nodes and 3 lost in 3 zones"),
        (away(whole, C, ready=False), "9 nodes (3 not ready) in 3 zones"),
    ):
        state = looks(a_limit("<1/3"), whole, after)
        assert state.cycle is not None
        view = PageView(page_of(state), PageAddress("/", {}), state.cycle.context.now)
        assert view.map_title.partition(";")[0] == title


def test_the_map_counts_each_lost_node_once() -> None:
    """Also those that are not stored by name, whether they are gone or exist and are not Ready."""
    held = {f"eu-1c-{number}": 1 for number in range(1, 26)}
    whole = a_cluster(ZONES, 25, {**held, "eu-1a-1": 3}, spread={ZONE: 1}).snapshot()
    names = sorted(node.name for node in whole.nodes if node.labels[ZONE] == "eu-1c")
    gone = replace(whole, nodes=tuple(node for node in whole.nodes if node.name not in names))
    rest = replace(whole, nodes=tuple(node for node in whole.nodes if node.name not in names[:20]))
    silent = away(rest, names[20:], ready=False)
    for looked in ((whole, gone), (whole, gone, silent)):
        state = looks(a_limit("<=5/9"), *looked)
        assert state.cycle is not None
        assert state.cycle.stored_map is not None
        (zone,) = (zone for zone in state.cycle.stored_map.zones if zone.name == "eu-1c")
        assert zone.of == 25
        panels = zones_document(state.cycle.evaluation, state.memory, state.cycle.fates)
        (panel,) = (one for one in panels.zones if one.name == "eu-1c")
        assert panel.marks[NodeMark.LOST] + panel.marks.get(NodeMark.NOT_READY, 0) == 25


def test_the_history_names_what_violates_the_limit() -> None:
    """No zone holds more than four of nine when it begins: that two zones are too few is what is wrong."""
    simulation = lose_zone(a_limit("<1/2"))
    simulation.cycles(1)
    simulation.keep()
    entries = [history_entry(entry) for _, entry in sorted(simulation.entries.items())]
    (lost,) = (entry for entry in entries if entry.kind == "ZoneLost")
    assert lost.text == "zone eu-1c is lost: it had 3 nodes with 3 pods"
    (begun,) = (entry for entry in entries if entry.kind == "Violated")
    assert begun.cause == "ZoneLost"
    assert begun.what.startswith("web/zone: 9 pods need 3 domains, there are 2 domains")


def test_a_zone_is_lost_once_and_back_once_however_its_nodes_go() -> None:
    """Silent first, then deleted, created anew, Ready at last; also where the policy names no zone key."""
    whole = a_cluster("abc", 2, {"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1}).snapshot()
    silent, half = away(whole, ["c-1", "c-2"], ready=False), away(whole, ["c-1"], ready=False)
    gone = replace(whole, nodes=tuple(node for node in whole.nodes if node.labels[ZONE] != "c"))
    for looked in (
        (whole, silent, gone, gone, silent, half, whole),
        (whole, half, silent, whole),
        (whole, gone, whole),
        (whole, gone, silent, silent, half),
    ):
        entries = looks(a_policy(), *looked).memory.outbox
        said = [history_entry(entry).text for entry in entries if "Zone" in entry.kind]
        assert len(said) == 2, looked
        assert said[0].startswith("zone c is lost: it had 2 nodes with 1 pod")
        assert said[1].startswith("zone c takes pods again, after ")


def test_status_and_history_name_the_same_time_of_a_loss() -> None:
    """That of the node's condition, though the cycle that sees it comes later; the return says how long it was."""
    silent = away(SNAPSHOT, C, ready=False, lost_since=SNAPSHOT.taken_at + timedelta(seconds=40))
    state = looks(a_limit("<=5/9"), SNAPSHOT, silent, SNAPSHOT)
    lost, back = (history_entry(entry) for entry in state.memory.outbox if "Zone" in entry.kind)
    assert show(looks(a_limit("<=5/9"), SNAPSHOT, silent))[1].startswith(f"! Zone eu-1c lost at {lost.at:%H:%M:%S} UTC")
    assert f"{lost.at:%H:%M:%S}" == "00:00:40"
    assert back.text == "zone eu-1c takes pods again, after 1m20s"


def looks(policy: Policy, *snapshots: Snapshot) -> LoopState:
    """Return the state after cycles that are a minute apart, each with its snapshot."""
    start = snapshots[0].taken_at
    state = a_state(policy, start, process=ProcessFacts(history_name="one"))
    for minute, snapshot in enumerate(snapshots):
        now = start + minute * MINUTE
        state, _ = step(state, CycleDue(snapshot=replace(snapshot, taken_at=now)), now)
    return state


def away(snapshot: Snapshot, names: Sequence[str], **fields: Any) -> Snapshot:
    return with_nodes(snapshot, dict.fromkeys(names, fields))


def moved(snapshot: Snapshot, counts: Sequence[int]) -> Snapshot:
    """Return the cluster in which the pods of zone eu-1c were created anew: so many in eu-1a, so many in eu-1b."""
    left = [*["eu-1a-1"] * counts[0], *["eu-1b-1"] * counts[1]]
    pods = tuple(
        structs.replace(pod, node=left.pop(), uid=f"new-{pod.uid}", name=f"new-{pod.name}") if pod.node in C else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)


SNAPSHOT = WHOLE.snapshot()
WITHOUT_C = replace(SNAPSHOT, nodes=tuple(node for node in SNAPSHOT.nodes if node.name not in C))
ONE_AWAY = replace(SNAPSHOT, nodes=tuple(node for node in SNAPSHOT.nodes if node.name != C[0]))
SHIFTED = away(SNAPSHOT, C, labels=Labels({ZONE: "eu-1d"}))
DYING = (SNAPSHOT, away(SNAPSHOT, C[:1], ready=False), away(SNAPSHOT, C[:2], ready=False))
REPLACED = replace(
    away(SNAPSHOT, C[:2], ready=False),
    nodes=(*away(SNAPSHOT, C[:2], ready=False).nodes, structs.replace(SNAPSHOT.node[C[2]], name="new")),
)
"""Two nodes are silent, and a new one is there."""
DRAINED = replace(ONE_AWAY, nodes=tuple(node for node in ONE_AWAY.nodes if node.name != C[1]))
CORDONED = away(ONE_AWAY, C[1:2], unschedulable=True)
DEAD = away(SNAPSHOT, C, ready=False)
VIOLATED = moved(WITHOUT_C, (3, 0))
UNSETTLED = away(VIOLATED, ("eu-1b-1", "eu-1b-2", "eu-1b-3"), ready_since=SNAPSHOT.taken_at + MINUTE)
WAIT = "repair begins when it is back or in 2m30s (settling)"


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        ((SNAPSHOT, WITHOUT_C), "Zone eu-1c lost at 00:01:00 UTC: 3 nodes, 3 pods"),
        (
            (SNAPSHOT, VIOLATED),
            "Zone eu-1c lost at 00:01:00 UTC: 3 nodes, 3 pods; 1 limit and 1 constraint violated",
        ),
        (
            (SNAPSHOT, UNSETTLED),
            f"Zone eu-1c lost at 00:01:00 UTC: 3 nodes, 3 pods; 1 limit and 1 constraint violated; {WAIT}",
        ),
        ((SNAPSHOT, ONE_AWAY), "Node eu-1c-1 of zone eu-1c lost at 00:01:00 UTC: 1 pod; 2 of 3 nodes are left"),
        (
            (SNAPSHOT, SHIFTED),
            "Zone eu-1c lost at 00:01:00 UTC: 3 nodes, 3 pods; nodes of it are in eu-1d now",
        ),
        (DYING, "Zone eu-1c loses nodes since 00:01:00 UTC: 2 of 3 lost, 2 pods"),
        ((SNAPSHOT, REPLACED), "Zone eu-1c loses nodes since 00:01:00 UTC: 2 of 3 lost, 2 pods"),
        (
            (SNAPSHOT, ONE_AWAY, CORDONED, DRAINED),
            "Node eu-1c-1 of zone eu-1c lost at 00:01:00 UTC: 1 pod; 1 of 3 nodes is left; 1 constraint violated",
        ),
        ((*DYING, DEAD), "Zone eu-1c lost at 00:03:00 UTC: 3 nodes, 3 pods"),
    ],
    ids=["zone", "zone, in repair", "zone, settling", "node", "shifted", "dying", "replaced", "drained", "dead"],
)
def test_what_is_lost_in_one_sentence(snapshots: Sequence[Snapshot], expected: str) -> None:
    """What, since when, what it held; where its nodes are; what is violated because of it, until when that waits."""
    policy = a_limit("<=5/9")
    assert show(looks(policy, *snapshots), after=30)[1] == f"! {expected}"


def test_a_zone_that_is_gone_for_good_can_be_dismissed() -> None:
    """After an hour the sentence names the field; once the zone is in it, nothing is lost."""
    policy = a_limit("<=5/9")
    state = looks(policy, SNAPSHOT, WITHOUT_C)
    way_out = "if the zone is gone for good, add it to topology.ignore"
    assert way_out not in show(state, after=3599)[1]
    dead = looks(policy, SNAPSHOT, DEAD)
    assert way_out not in show(dead, after=3600)[1], "its nodes exist"
    assert show(state, after=3600)[1] == f"! Zone eu-1c lost at 00:01:00 UTC: 3 nodes, 3 pods; {way_out}"
    ignored = eager(Mode.EVICT, topology=Topology(ignore={ZONE: ("eu-1c",)}))
    now = SNAPSHOT.taken_at + 2 * MINUTE
    state, _ = step(state, PolicyLoaded(policy=ignored), now)
    state, _ = step(state, CycleDue(snapshot=replace(WITHOUT_C, taken_at=now)), now)
    assert not any("eu-1c" in line for line in show(state))


def test_what_happens_next_follows_the_loss() -> None:
    """The other sentence is not lost; in mode Observe no repair is promised."""
    lines = show(looks(a_limit("<=5/9"), SNAPSHOT, VIOLATED), after=30)
    assert lines[2] == "> Repairing: 1 pod is moving"
    observed = show(looks(a_limit("<=5/9", Mode.OBSERVE), SNAPSHOT, UNSETTLED), after=30)
    assert observed[1].endswith("1 limit and 1 constraint violated")
