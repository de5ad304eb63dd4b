"""Nodes that settle: a step waits only for those on which one of its replacements may land, and not for ever."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.adapters.files import read_snapshot
from rebalancer.admission.memory import update_memory
from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.assessment.starts import NothingStarts
from rebalancer.documents.cluster_map import map_document
from rebalancer.documents.map import NodeState
from rebalancer.documents.nodes import nodes_document
from rebalancer.engine import evaluate
from rebalancer.model.cluster import NEWEST, DisruptionBudget
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.motion import LONGEST_UNSETTLED, DomainMotion, NodeChange, NodeEvent
from rebalancer.model.moves import NO_MEMORY, DomainName, Memory, make_token
from rebalancer.model.pods import PodPhase
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.fates import Never
from rebalancer.planning.plan import Plan
from rebalancer.planning.scope.settling import NodeChanged, NodeNotReady, NodeSettling, SettlingNodes
from rebalancer.policy import default_policy
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster, with_node, with_nodes
from tests.drawing import examples
from tests.planning.build import cause_of
from tests.planning.clusters import nodes, planned, policy
from tests.scheduling.build import pod, taint

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "zone-returned.json"

SETTLE = timedelta(minutes=5)
RULES = policy(nodes=Nodes(settle=SETTLE))


def zone_returned(**spread: int) -> Snapshot:
    """Six pods in each of the zones a and b, none on the two nodes of zone c; node a-3 has just joined."""
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    snapshot = a_cluster("abc", 3, on, spread={ZONE: 1, **spread}, namespace="shop").snapshot()
    return replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name not in {"b-3", "c-3"}))


def ready_since(snapshot: Snapshot, ages: Mapping[str, int]) -> Snapshot:
    """Let nodes have been Ready for so many seconds."""
    taken_at = snapshot.taken_at
    return with_nodes(
        snapshot, {name: {"ready_since": taken_at - timedelta(seconds=age)} for name, age in ages.items()}
    )


def waited(plan: Plan, since: datetime) -> Memory:
    """Return a memory in which the plan's only component first waited at that time."""
    return Memory(settling=((make_token(plan.components[0].name), since),))


def decided(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    """Return the pods that are evicted now, with the zones of their replacements."""
    return [(eviction.pod.name, eviction.targets[0].values) for eviction in plan.fates.going]


@pytest.mark.parametrize("spread", [{}, {HOSTNAME: 1}], ids=["by counting", "by search"])
def test_a_node_on_which_no_replacement_can_land_delays_nothing(spread: dict[str, int]) -> None:
    """Zone a is over the emptiest zone's count plus maxSkew however the step goes, so its young node takes nothing."""
    snapshot = zone_returned(**spread)
    made = planned(ready_since(snapshot, {"a-3": 120}), RULES)
    assert decided(made) == decided(planned(snapshot, RULES))
    assert {zones for _, zones in decided(made)} == {("c",)}
    assert made.components[0].evictions == (5 if spread else 4)


def test_a_young_node_in_a_zone_that_is_filled_delays_the_step_and_the_plan_shows_it() -> None:
    """The evictions are decided, with their minimum; they wait until the node that settles last has settled."""
    snapshot = zone_returned()
    made = planned(ready_since(snapshot, {"a-3": 10, "c-1": 60, "c-2": 120}), RULES)
    assert made.fates.going == ()
    waiting = [(waiting.reason, waiting.eviction.targets[0].values) for waiting in made.fates.kept]
    assert waiting == [(Reason.NODE_SETTLING, ("c",))] * 4
    (group,) = made.components
    since = snapshot.taken_at - timedelta(seconds=60)
    assert cause_of(group) == NodeSettling("c-1", since, SETTLE, since + SETTLE)
    assert (group.evictions, group.lower_bound) == (4, 4)


def test_a_component_waits_for_nodes_that_settle_only_once() -> None:
    """Nodes that join or flap meanwhile do not begin the wait anew; once it is over they count like any other."""
    snapshot = ready_since(zone_returned(), {"c-1": 0, "c-2": 20})
    first = planned(snapshot, RULES)
    for ago, waits in ((299, True), (300, False), (10_000, False)):
        since = snapshot.taken_at - timedelta(seconds=ago)
        made = planned(snapshot, RULES, waited(first, since))
        assert (made.fates.going == ()) == waits
        if waits:
            cause = cause_of(made.components[0])
            assert isinstance(cause, NodeSettling)
            assert cause.until == since + SETTLE


def test_a_plan_that_waits_holds_until_the_wait_is_over() -> None:
    """Nothing else need change for the next plan to be another."""
    evaluation = evaluate(ready_since(zone_returned(), {"c-1": 60}), RULES)
    assert not evaluation.plan.fates.going
    assert evaluation.valid_until == evaluation.plan.made_at + timedelta(minutes=4)


def test_a_wait_of_a_clock_that_is_ahead_begins_now() -> None:
    """A stored time, or a node's, in the future of this clock delays nothing for longer than nodes.settle."""
    snapshot = ready_since(zone_returned(), {"c-1": -7200})
    later = snapshot.taken_at + timedelta(hours=1)
    cause = cause_of(planned(snapshot, RULES, waited(planned(snapshot, RULES), later)).components[0])
    assert isinstance(cause, NodeSettling)
    assert cause.until == snapshot.taken_at + SETTLE


def test_a_node_that_is_not_ready_is_waited_for_only_where_it_is_a_target() -> None:
    """Its own wait does not end with the component's: a replacement there would not become Ready."""
    snapshot = zone_returned()

    def unready(name: str, memory: Memory = NO_MEMORY) -> Plan:
        return planned(with_node(snapshot, name, ready=False, ready_since=None), RULES, memory)

    assert len(unready("a-3").fates.going) == 4
    held = unready("c-2", waited(unready("a-3"), snapshot.taken_at - 2 * SETTLE))
    assert held.fates.going == ()
    assert cause_of(held.components[0]) == NodeNotReady("c-2")


def changed(seconds: int, name: str, event: NodeEvent, key: str = "", value: str | None = None) -> NodeChange:
    """Return a change of a node so many seconds ago."""
    return NodeChange(zone_returned().taken_at - timedelta(seconds=seconds), name, event, key, value)


def lost(name: str, snapshot: Snapshot | None = None) -> Snapshot:
    """Return a cluster with a node that is cordoned, and has its taint."""
    taints = (taint("node.kubernetes.io/unschedulable"),)
    return with_node(snapshot or zone_returned(), name, unschedulable=True, taints=taints)


UNCORDONED = changed(60, "c-1", NodeEvent.UNCORDONED)


@pytest.mark.parametrize(
    "change",
    [UNCORDONED, changed(60, "c-1", NodeEvent.RELABELLED, HOSTNAME, "d-1")],
    ids=lambda change: change.event.value,
)
def test_a_node_that_has_changed_delays_a_step_that_may_land_there(change: NodeChange) -> None:
    """It waits from the change on, however long the component has waited for others; an hour at most in all."""
    snapshot = zone_returned()
    made = planned(snapshot, RULES, Memory(node_changes=(change,)))
    assert made.fates.going == ()
    assert [waiting.reason for waiting in made.fates.kept] == [Reason.NODE_SETTLING] * 4
    for minutes, left in ((0, 240), (55, 240), (59, 60)):
        first = waited(made, snapshot.taken_at - timedelta(minutes=minutes))
        held = cause_of(planned(snapshot, RULES, structs.replace(first, node_changes=(change,))).components[0])
        until = snapshot.taken_at + timedelta(seconds=left)
        assert held == NodeChanged(change, None, LONGEST_UNSETTLED, until)
    over = waited(made, snapshot.taken_at - LONGEST_UNSETTLED)
    assert len(planned(snapshot, RULES, structs.replace(over, node_changes=(change,))).fates.going) == 4


def test_a_change_that_has_lasted_or_is_of_another_zone_delays_nothing() -> None:
    settled = structs.replace(UNCORDONED, at=UNCORDONED.at - timedelta(seconds=240))
    for change in (settled, structs.replace(UNCORDONED, node="a-3"), structs.replace(UNCORDONED, node="gone")):
        assert len(planned(zone_returned(), RULES, Memory(node_changes=(change,))).fates.going) == 4


def test_the_last_of_several_reasons_is_reported() -> None:
    """A node that became Ready after another was uncordoned, and the other way round."""
    snapshot = ready_since(zone_returned(), {"c-2": 30})
    cause = cause_of(planned(snapshot, RULES, Memory(node_changes=(UNCORDONED,))).components[0])
    assert isinstance(cause, NodeSettling)
    assert cause.node == "c-2"
    same = cause_of(
        planned(ready_since(zone_returned(), {"c-1": 30}), RULES, Memory(node_changes=(UNCORDONED,))).components[0]
    )
    assert isinstance(same, NodeSettling)
    older = ready_since(zone_returned(), {"c-1": 90, "c-2": 90})
    cause = cause_of(planned(older, RULES, Memory(node_changes=(UNCORDONED,))).components[0])
    assert cause == NodeChanged(UNCORDONED, None, LONGEST_UNSETTLED, UNCORDONED.at + SETTLE)


@pytest.mark.parametrize("event", [NodeEvent.CORDONED, NodeEvent.UNREADY])
def test_a_node_that_was_lost_delays_what_may_land_in_its_zone_as_long_as_it_is_away(event: NodeEvent) -> None:
    """What has happened to it may happen to its neighbours. Once it is back it has to settle by itself."""
    change, zoneless = changed(60, "c-1", event, ZONE, "c"), changed(60, "x", event)
    made = planned(lost("c-1"), RULES, Memory(node_changes=(zoneless, change)))
    assert made.fates.going == ()
    assert cause_of(made.components[0]) == NodeChanged(change, DomainName(ZONE, "c"), SETTLE, change.at + SETTLE)
    assert (
        len(planned(lost("c-1"), RULES, Memory(node_changes=(changed(300, "c-1", event, ZONE, "c"),))).fates.going) == 4
    )
    assert len(planned(zone_returned(), RULES, Memory(node_changes=(change,))).fates.going) == 4
    elsewhere = changed(60, "a-1", event, ZONE, "a")
    assert len(planned(lost("a-1"), RULES, Memory(node_changes=(elsewhere,))).fates.going) == 4


def test_each_node_that_settles_has_its_end() -> None:
    """By its own last change or a neighbour's, whatever a component still waits for; a clock ahead makes none later."""
    snapshot = lost("b-1", ready_since(zone_returned(), {"c-1": 30, "c-2": 400, "a-3": -60}))
    cordoned = changed(60, "b-1", NodeEvent.CORDONED, ZONE, "b")
    evaluation = evaluate(snapshot, RULES, memory=Memory(node_changes=(cordoned,)))
    ends = SettlingNodes(evaluation.view, RULES, evaluation.inputs.memory, evaluation.assessment).ends
    now = snapshot.taken_at
    neighbours = dict.fromkeys(("b-1", "b-2"), cordoned.at + SETTLE)
    assert ends == {"c-1": now - timedelta(seconds=30) + SETTLE, "a-3": now + SETTLE, **neighbours}


EVENTS = (NodeEvent.CORDONED, NodeEvent.UNREADY, NodeEvent.UNCORDONED)


@given(
    ages=st.dictionaries(st.sampled_from(("a-1", "b-1", "b-2", "c-1")), st.integers(0, 400)),
    events=st.lists(st.tuples(st.integers(0, 400), st.sampled_from(("a-1", "b-1", "c-1")), st.sampled_from(EVENTS))),
)
@examples(100)
def test_a_node_is_said_to_have_changed_only_where_it_has(
    ages: dict[str, int], events: list[tuple[int, str, NodeEvent]]
) -> None:
    """Of a Ready node beside a lost one nothing else is said than which one is lost, and no node is said to settle."""
    last = {name: event for _, name, event in sorted(events, reverse=True)}
    lost_ones = [name for name, event in last.items() if event.is_loss]
    changes = tuple(changed(age, name, event, ZONE, name[0]) for age, name, event in sorted(events, reverse=True))
    snapshot = reduce(lambda made, name: lost(name, made), lost_ones, ready_since(zone_returned(), ages))
    memory = Memory(node_changes=changes)
    evaluation = evaluate(snapshot, RULES, memory=memory)
    own = {name for name, age in ages.items() if age < SETTLE.seconds}
    own |= {name for age, name, event in events if age < SETTLE.seconds and not event.is_loss}
    for row in nodes_document(evaluation, memory).nodes:
        if row.state is NodeState.SETTLING:
            assert "settl" not in row.why.replace("nodes.settle", "")
            if row.why.startswith("near it node "):
                assert row.why.split()[3] in lost_ones
            else:
                assert row.why == "it has changed lately (nodes.settle)"
                assert row.name in own


def motion(value: str, seconds: int, *, key: str = ZONE, lasting: bool = False) -> DomainMotion:
    """Return the motion of a domain that lost nodes so many seconds ago."""
    at = zone_returned().taken_at - timedelta(seconds=seconds)
    return DomainMotion(key=key, value=value, since=at, until=at, moved=at, lasting=lasting, had=2, lost=2)


@pytest.mark.parametrize("lasting", [False, True])
def test_no_node_has_settled_before_the_domain_that_it_is_in(lasting: bool) -> None:
    """Nor is a node ready whose zone is closed; of a node that changed after its zone, its own end is the later one."""
    snapshot = ready_since(zone_returned(), {"c-1": 290, "a-3": 30})
    memory = Memory(domains_in_motion=(motion("c", 60, lasting=lasting), motion("a", 120)))
    evaluation = evaluate(snapshot, RULES, memory=memory)
    settling = SettlingNodes(evaluation.view, RULES, evaluation.inputs.memory, evaluation.assessment)
    first, last = sorted(evaluation.assessment.unsettled_domains, key=lambda one: one.motion.value)
    own = snapshot.taken_at - timedelta(seconds=30) + SETTLE
    of_domains = {**dict.fromkeys(("a-1", "a-2"), first.until), **dict.fromkeys(("c-1", "c-2"), last.until)}
    assert settling.ends == {**of_domains, "a-3": own}
    assert {name: domain.until for name, domain in settling.held.items()} == of_domains
    rows = {row.name: row for row in nodes_document(evaluation, memory).nodes}
    assert (rows["c-1"].state, rows["c-1"].until) == (NodeState.SETTLING, last.until)
    assert (rows["c-1"].since, rows["c-1"].why) == (last.motion.since, last.sentence)
    assert (rows["a-3"].since, rows["a-3"].until) == (own - SETTLE, own)
    assert "nodes.settle" in rows["a-3"].why
    shown = {node.name: node.until for zone in map_document(evaluation, memory).zones for node in zone.nodes}
    assert {name: until for name, until in shown.items() if until is not None} == settling.ends


def test_a_step_waits_for_what_ends_last_of_the_nodes_and_their_domain() -> None:
    """Zone c settles a while before its node does: the step goes on when the node has settled, not before."""
    snapshot = ready_since(zone_returned(), {"c-1": 30})
    earlier, later = (Memory(domains_in_motion=(motion("c", seconds),)) for seconds in (120, 10))
    (waits,) = planned(snapshot, RULES, earlier).components
    assert isinstance(waits.first, UnsettledDomain)
    assert isinstance(waits.refusal, NodeSettling)
    (waits,) = planned(snapshot, RULES, later).components
    assert isinstance(waits.refusal, UnsettledDomain)
    assert waits.first is None


@pytest.mark.parametrize(
    ("memory", "ages"),
    [
        (Memory(domains_in_motion=(motion("c", 60),)), {}),
        (Memory(domains_in_motion=(motion("c", 60, lasting=True),)), {}),
        (NO_MEMORY, {"c-1": 60}),
    ],
)
def test_a_budget_that_never_opens_is_said_while_nodes_settle(memory: Memory, ages: Mapping[str, int]) -> None:
    """What it waits for first ends, and then the budget keeps it for ever: it is not said to go on.

    The wait for nodes is stored as before: it counts from now on whatever becomes of the budget.
    """
    snapshot = ready_since(zone_returned(), ages)
    healthy = len(snapshot.pods)
    closed = DisruptionBudget(
        namespace="shop",
        name="web",
        selector=LabelSelector(),
        min_available=healthy,
        observed_generation=1,
        current_healthy=healthy,
        desired_healthy=healthy,
        expected=healthy,
    )
    evaluation = evaluate(replace(snapshot, budgets=(closed,)), RULES, memory=memory)
    (component,) = evaluation.plan.components
    assert (component.state, component.reason) == (State.UNFIXABLE, Reason.STEP_EXCEEDS_BUDGET)
    assert all(isinstance(fate, Never) for fate in evaluation.plan.fates.rows)
    open_budget = evaluate(snapshot, RULES, memory=memory)
    (waiting,) = open_budget.plan.components
    assert (waiting.state, waiting.refusal) == (State.VIOLATED, component.first)
    stored = [
        update_memory(memory, one.assessment, one.plan, snapshot.taken_at).settling for one in (evaluation, open_budget)
    ]
    assert stored[0] == stored[1]


def test_a_deleted_node_and_one_without_a_zone_delay_no_neighbour() -> None:
    """A node pool that shrinks deletes nodes."""
    for change in (changed(60, "c-9", NodeEvent.DELETED, ZONE, "c"), changed(60, "c-1", NodeEvent.CORDONED)):
        assert len(planned(lost("c-1"), RULES, Memory(node_changes=(change,))).fates.going) == 4


def test_of_several_domains_of_a_lost_node_the_smallest_waits() -> None:
    """Its region is the whole cluster; a node that is gone by now counts like one that is away."""
    snapshot = nodes(lost("a-1"), lambda node: structs.replace(node, labels=Labels({**node.labels, "region": "r"})))
    rows = tuple(changed(60, "a-1", NodeEvent.CORDONED, *domain) for domain in (("region", "r"), (ZONE, "a")))
    assert len(planned(snapshot, RULES, Memory(node_changes=rows)).fates.going) == 4
    gone = tuple(structs.replace(row, node="c-9", value="c" if row.key == ZONE else "r") for row in rows)
    cause = cause_of(planned(snapshot, RULES, Memory(node_changes=gone)).components[0])
    assert isinstance(cause, NodeChanged)
    assert cause.domain == DomainName(ZONE, "c")


def in_motion(**fields: Any) -> DomainMotion:
    """Return zone c in motion, settled in 60 seconds, with other fields."""
    at = zone_returned().taken_at - timedelta(minutes=4)
    common: dict[str, Any] = {"value": "c", "since": at, "until": at, "moved": at, "lasting": False}
    return DomainMotion(key=ZONE, had=3, lost=2, **{**common, **fields})


def test_nothing_lands_in_a_domain_in_motion_until_it_has_settled_however_long_a_component_has_waited() -> None:
    snapshot = zone_returned()
    made = planned(snapshot, RULES, Memory(domains_in_motion=(in_motion(),)))
    assert made.fates.going == ()
    assert [waiting.reason for waiting in made.fates.kept] == [Reason.DOMAIN_UNSETTLED] * 4
    assert cause_of(made.components[0]) == UnsettledDomain(in_motion(), snapshot.taken_at + timedelta(minutes=1))
    memory = waited(made, snapshot.taken_at - timedelta(days=1))
    motion = in_motion(lasting=True)
    lasting = planned(snapshot, RULES, structs.replace(memory, domains_in_motion=(motion,)))
    assert cause_of(lasting.components[0]) == UnsettledDomain(motion, snapshot.taken_at + timedelta(minutes=56))


def test_a_domain_that_has_settled_or_in_which_nothing_can_land_delays_nothing() -> None:
    past = zone_returned().taken_at - timedelta(minutes=5)
    for motion in (
        in_motion(moved=past),
        in_motion(value="a"),
        in_motion(since=past - LONGEST_UNSETTLED, lasting=True),
    ):
        assert len(planned(zone_returned(), RULES, Memory(domains_in_motion=(motion,))).fates.going) == 4


def test_of_several_domains_in_motion_the_one_that_settles_last_is_reported() -> None:
    """A zone within a region, say."""
    snapshot = nodes(zone_returned(), lambda node: structs.replace(node, labels=Labels({**node.labels, "region": "r"})))
    region = structs.replace(in_motion(value="r", moved=snapshot.taken_at), key="region")
    for motions in ((in_motion(), region), (region, in_motion())):
        cause = cause_of(planned(snapshot, RULES, Memory(domains_in_motion=motions)).components[0])
        assert cause == UnsettledDomain(region, snapshot.taken_at + SETTLE)


def test_a_component_that_waits_for_a_node_that_has_changed_has_its_wait_stored() -> None:
    """As for a node that has become Ready; not while a whole domain is in motion."""
    snapshot = zone_returned()
    for memory, stored in (
        (Memory(node_changes=(UNCORDONED,)), 1),
        (Memory(domains_in_motion=(in_motion(),)), 0),
    ):
        made = evaluate(snapshot, RULES, memory=memory)
        later = update_memory(memory, made.assessment, made.plan, snapshot.taken_at)
        assert len(later.settling) == stored


def test_the_example_with_a_node_that_has_just_joined_a_full_zone() -> None:
    """Its 8 evictions go on, from the same pods; web needs one more, since the new node is a host name to fill too."""
    snapshot, _ = read_snapshot(EXAMPLE.read_bytes(), version=NEWEST, at=None, source=EXAMPLE.name)
    rules = default_policy()
    young = structs.replace(
        snapshot.node["a-1"],
        name="a-9",
        uid="a-9",
        labels=Labels({**snapshot.node["a-1"].labels, HOSTNAME: "a-9"}),
        ready_since=snapshot.taken_at - timedelta(minutes=2),
    )
    joined = replace(snapshot, nodes=(*snapshot.nodes, young))
    before, after = planned(snapshot, rules), planned(joined, rules)
    assert decided(after) == decided(before)
    assert len(after.fates.going) == 3
    minima = {group.workloads[0].name: group.evictions for group in before.components}
    assert minima == {"web": 4, "search": 2, "db": 2, "cart": 2}  # no budget ever lets a pod of cart go
    assert {group.workloads[0].name: group.evictions for group in after.components} == {**minima, "web": 5}


def with_stuck(node: str, *minutes: int) -> Snapshot:
    """Return the cluster with pods of others on a node for which it has made no sandbox for so long."""
    snapshot = zone_returned()
    stuck = [
        pod(on=node, name=f"stuck-{at}", phase=PodPhase.PENDING, has_sandbox=False, unstarted_since=since)
        for at, since in enumerate(snapshot.taken_at - timedelta(minutes=ago) for ago in minutes)
    ]
    return replace(snapshot, pods=(*snapshot.pods, *stuck))


def test_a_step_does_not_begin_while_nothing_starts_on_one_of_its_targets() -> None:
    made = planned(with_stuck("c-2", 12, 11), RULES)
    assert [waiting.reason for waiting in made.fates.kept] == [Reason.NOTHING_STARTS_THERE] * 4
    since = made.made_at - timedelta(minutes=12)
    names = "default/stuck-0", "default/stuck-1"
    assert cause_of(made.components[0]) == NothingStarts("c-2", names, since)
    assert len(planned(with_stuck("a-3", 12, 11), RULES).fates.going) == 4


def test_a_plan_holds_until_a_pod_has_been_stuck_for_long() -> None:
    evaluation = evaluate(with_stuck("c-2", 12, 7), RULES)
    assert len(evaluation.plan.fates.going) == 4
    assert evaluation.valid_until == evaluation.plan.made_at + timedelta(minutes=3)
