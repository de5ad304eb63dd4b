"""Which changes of nodes are stored, and when a domain is in motion."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.documents.memory import memory_text, parse_memory
from rebalancer.model.labels import Labels
from rebalancer.model.motion import LONGEST_UNSETTLED, DomainMotion, NodeChange, NodeEvent
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.model.nodes import Node
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, default_policy
from rebalancer.policy.sections import Nodes
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.tracking import motion as motion_module
from rebalancer.tracking.motion import MOST_CHANGES, MOST_DOMAINS, Look, find_window, merge_motion, observe_nodes
from rebalancer.tracking.track import watch
from tests.drawing import examples
from tests.scheduling.build import HOSTNAME, NOW, ZONE, node, taint

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
OLD = NOW - timedelta(days=1)
REGION = "topology.kubernetes.io/region"


def rules(settle: timedelta = MINUTE) -> Policy:
    return default_policy().model_copy(update={"groups": (), "nodes": Nodes(settle=settle)})


def member(name: str, zone: str | None = "a", **fields: Any) -> Node:
    """Return a node that has been there for a day; without a zone where that is None."""
    labels = {} if zone is None else {ZONE: zone}
    return node(name, labels, **{"created": OLD, "ready_since": OLD, "uid": name, **fields})


def zone_of(count: int) -> list[Node]:
    return [member(f"a-{number}") for number in range(count)]


def by_name(nodes: Iterable[Node]) -> Mapping[str, Node]:
    return {one.name: one for one in nodes}


def observed(
    before: Iterable[Node] | None,
    after: Iterable[Node],
    memory: Memory = NO_MEMORY,
    now: datetime = NOW,
    *,
    policy: Policy | None = None,
    keys: Sequence[str] = (ZONE, HOSTNAME),
) -> Memory:
    snapshot = Snapshot(taken_at=now, nodes=tuple(after))
    last = None if before is None else Look(by_name(before), now - SECOND)
    return observe_nodes(memory, last, snapshot, policy or rules(), frozenset(keys), now)


def relabelled(one: Node, key: str, value: str | None) -> Node:
    labels = {name: text for name, text in one.labels.items() if name != key}
    return structs.replace(one, labels=Labels(labels if value is None else labels | {key: value}))


class History:
    """A cluster whose nodes are changed by hand, and the memory of a process that looks at it after each change."""

    def __init__(self, nodes: Iterable[Node], policy: Policy | None = None) -> None:
        self.nodes = dict(by_name(nodes))
        self.policy = policy or rules()
        self.memory = NO_MEMORY
        self.now = NOW
        self._last: Look | None = None
        self.look()

    def look(self, seconds: float = 0) -> None:
        self.now += timedelta(seconds=seconds)
        snapshot = Snapshot(taken_at=self.now, nodes=tuple(self.nodes.values()))
        self.memory = watch(self.memory, self._last, snapshot, self.policy, self.now, DEFAULT_PROFILE)
        self._last = Look(dict(self.nodes), self.now)

    def put(self, *names: str, **fields: Any) -> None:
        for name in names:
            self.nodes[name] = structs.replace(self.nodes[name], **fields)

    @property
    def motion(self) -> DomainMotion | None:
        """The one domain in motion."""
        assert len(self.memory.domains_in_motion) <= 1
        return next(iter(self.memory.domains_in_motion), None)

    @property
    def unsettled(self) -> bool:
        return self.motion is not None and self.now < self.motion.settles_at(find_window(self.policy))


# Changes


def test_a_node_that_is_cordoned_is_stored_with_its_zone_and_who_did_it() -> None:
    """The host name is no domain that loses nodes: it is the node."""
    before = zone_of(4)
    cordoned = structs.replace(before[1], unschedulable=True, cordoned_by="kubectl")
    memory = observed(before, [before[0], cordoned, *before[2:]])
    assert memory.node_changes == (NodeChange(NOW, "a-1", NodeEvent.CORDONED, ZONE, "a", "kubectl"),)
    assert memory.domains_in_motion == ()


def test_a_node_that_is_not_ready_or_gone_is_stored_without_who_had_cordoned_it() -> None:
    before = zone_of(9)
    unready = structs.replace(before[1], ready=False, ready_since=None, cordoned_by="kubectl")
    memory = observed(before, [before[0], unready, *before[3:]])
    assert memory.node_changes == (
        NodeChange(NOW, "a-1", NodeEvent.UNREADY, ZONE, "a"),
        NodeChange(NOW, "a-2", NodeEvent.DELETED, ZONE, "a"),
    )


def test_a_node_of_the_same_name_that_is_another_one_counts_as_deleted() -> None:
    before = zone_of(9)
    memory = observed(before, [structs.replace(before[0], uid="new"), *before[1:]])
    assert memory.node_changes == (NodeChange(NOW, "a-0", NodeEvent.DELETED, ZONE, "a"),)


def test_a_node_that_is_uncordoned_is_stored() -> None:
    """One that is Ready again says since when by itself."""
    after = zone_of(2)
    before = [structs.replace(after[0], unschedulable=True), structs.replace(after[1], ready=False)]
    assert observed(before, after).node_changes == (NodeChange(NOW, "a-0", NodeEvent.UNCORDONED),)


def test_a_lost_node_that_is_lost_in_another_way_too_is_lost_once() -> None:
    """One that is cordoned, ends its pods and is then deleted, say."""
    before = [structs.replace(one, unschedulable=True) for one in zone_of(4)]
    assert observed(before, [structs.replace(one, ready=False) for one in before]).node_changes == ()
    assert observed(before, []).node_changes == ()


def test_a_value_of_a_key_in_use_that_changes_is_stored_with_the_value_before() -> None:
    """Also one that has come or gone; of a key that nobody uses nothing is."""
    before = [member("n-0"), member("n-1"), member("n-2", None), member("n-3")]
    after = [
        relabelled(before[0], ZONE, "b"),
        relabelled(before[1], ZONE, None),
        relabelled(before[2], ZONE, "a"),
        relabelled(before[3], "rack", "r"),
    ]
    assert observed(before, after, keys=()).node_changes == (
        NodeChange(NOW, "n-0", NodeEvent.RELABELLED, ZONE, "a"),
        NodeChange(NOW, "n-1", NodeEvent.RELABELLED, ZONE, "a"),
        NodeChange(NOW, "n-2", NodeEvent.RELABELLED, ZONE, None),
    )
    assert {change.key for change in observed(before, after, keys=["rack"]).node_changes} == {ZONE, "rack"}


def test_a_label_that_a_new_node_gets_after_it_has_joined_is_no_change() -> None:
    """Clouds label the zone some seconds later; to give a node another value is a change from the first second on."""
    fresh = [member("n-0", None, created=NOW - 30 * SECOND), member("n-1", created=NOW - 30 * SECOND)]
    memory = observed(fresh, [relabelled(fresh[0], ZONE, "a"), relabelled(fresh[1], ZONE, "b")])
    assert [change.node for change in memory.node_changes] == ["n-1"]


@pytest.mark.parametrize("key", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disruption", "karpenter.sh/disrupted"])
def test_a_node_that_an_autoscaler_removes_is_routine(key: str) -> None:
    """Its taint says why, before or with the cordon, and when the node is gone."""
    before = zone_of(4)
    marked = [structs.replace(one, taints=(taint(key),)) for one in before]
    assert observed(before, [structs.replace(one, unschedulable=True) for one in marked]) == NO_MEMORY
    assert observed(marked, []) == NO_MEMORY


def test_a_node_that_an_autoscaler_only_considers_is_lost_like_any_other() -> None:
    """Its soft taint says that the node is hardly used, and nothing of a failure."""
    before = [structs.replace(one, taints=(taint("DeletionCandidateOfClusterAutoscaler"),)) for one in zone_of(4)]
    assert len(observed(before, [structs.replace(one, ready=False) for one in before]).node_changes) == 4


def test_a_first_look_sees_the_losses_that_have_their_time_on_the_object() -> None:
    """As long as they would be stored; what the memory knows is not stored twice."""
    ages = {"a-0": 59, "a-1": 10, "a-2": -30, "a-3": 60}
    nodes = [structs.replace(one, unschedulable=True, lost_since=NOW - ages[one.name] * SECOND) for one in zone_of(4)]
    nodes += [structs.replace(nodes[1], name="m", taints=(taint("karpenter.sh/disrupted"),)), member("n")]
    known = NodeChange(NOW - 9 * SECOND, "a-1", NodeEvent.CORDONED, ZONE, "a")
    memory = observed(None, nodes, Memory(node_changes=(known,)))
    assert [(change.node, (NOW - change.at).total_seconds()) for change in memory.node_changes] == [
        ("a-0", 59),
        ("a-1", 9),
        ("a-2", 0),
    ]
    assert [one.lost for one in memory.domains_in_motion] == [3]


def test_after_a_long_time_without_a_look_what_is_gone_may_have_been_marked() -> None:
    """What is there and has changed has changed."""
    before = zone_of(3)
    after = [structs.replace(before[0], unschedulable=True), relabelled(before[1], ZONE, "b")]
    for seconds, events in ((60, 3), (61, 2)):
        look = Look(by_name(before), NOW - seconds * SECOND)
        snapshot = Snapshot(taken_at=NOW, nodes=tuple(after))
        assert len(observe_nodes(NO_MEMORY, look, snapshot, rules(), frozenset(), NOW).node_changes) == events


def test_a_node_that_registers_again_with_another_label_or_without_is_relabelled() -> None:
    """Its pods are still there. The label that it gets a moment later is the second change, or none."""
    before = [member("c-1", "c")]
    other, bare = (member("c-1", zone, uid="new", created=NOW) for zone in ("a", None))
    for again in (other, bare):
        memory = observed(before, [again])
        assert NodeChange(NOW, "c-1", NodeEvent.RELABELLED, ZONE, "c") in memory.node_changes
    assert observed([bare], [other]).node_changes == ()


def test_without_an_earlier_look_nothing_has_changed() -> None:
    after = [structs.replace(one, unschedulable=True) for one in zone_of(4)]
    assert observed(None, after) == NO_MEMORY
    assert observed(after, after) == NO_MEMORY


@pytest.mark.parametrize(("settle", "window"), [(0, 60), (59, 60), (300, 300)])
def test_changes_are_stored_for_nodes_settle_and_at_least_a_minute(settle: int, window: int) -> None:
    """A time in the future, from another clock, delays nothing for longer."""
    policy = rules(timedelta(seconds=settle))
    assert find_window(policy) == timedelta(seconds=window)
    change = NodeChange(NOW, "a-0", NodeEvent.UNCORDONED)
    for at, ages in ((NOW, {window - 1: True, window: False}), (NOW + timedelta(days=1), {0: True})):
        for age, stored in ages.items():
            memory = Memory(node_changes=(structs.replace(change, at=at),))
            made = observed(None, [], memory, NOW + age * SECOND, policy=policy)
            assert made.node_changes == ((change,) if stored else ())


def test_a_domain_of_each_key_in_use_that_holds_several_nodes_is_stored() -> None:
    """The zone even where nobody uses it; a node without any is stored by itself."""
    before = [member("n-0"), member("n-1"), member("n-2"), member("m-0", None), member("m-1", None)]
    before[:3] = [structs.replace(one, labels=Labels({**one.labels, REGION: "r"})) for one in before[:3]]
    cordoned = [structs.replace(before[0], unschedulable=True), *before[1:3]]
    cordoned += [structs.replace(before[3], unschedulable=True), before[4]]
    rows = [(change.node, change.key, change.value) for change in observed(before, cordoned, keys=[]).node_changes]
    assert rows == [("m-0", "", None), ("n-0", ZONE, "a")]
    several = [(change.node, change.key) for change in observed(before, cordoned, keys=[REGION, HOSTNAME]).node_changes]
    assert several == [("m-0", ""), ("n-0", REGION), ("n-0", ZONE)]


def test_the_newest_changes_and_domains_are_stored() -> None:
    """A domain in motion is counted before the changes are cut."""
    before = [member(f"{zone}-{number:04}", zone) for zone in ("a", "b") for number in range(MOST_CHANGES)]
    gone = [structs.replace(one, ready=False) for one in before]
    memory = observed(before, [*gone[:-1], relabelled(before[-1], ZONE, "c")])
    assert len(memory.node_changes) == MOST_CHANGES
    assert [one.node for one in memory.node_changes if one.event is NodeEvent.RELABELLED] == [before[-1].name]
    assert [(one.value, one.lost, one.had) for one in memory.domains_in_motion] == [
        ("a", MOST_CHANGES, MOST_CHANGES),
        ("b", MOST_CHANGES - 1, MOST_CHANGES - 1),
    ]
    many = [member(f"n-{zone:03}", f"z{zone:03}") for zone in range(MOST_DOMAINS + 1)]
    dark = [structs.replace(one, ready=False) for one in many[:-1]]
    values = [one.value for one in observed(many, dark).domains_in_motion]
    assert values == [f"z{zone:03}" for zone in range(MOST_DOMAINS)], "the last one is gone, and does not last"


def test_where_more_labels_have_changed_than_are_stored_any_may_have() -> None:
    before = [member(f"a-{number:04}") for number in range(MOST_CHANGES + 1)]
    memory = observed(before, [relabelled(one, ZONE, "b") for one in before])
    assert len(memory.node_changes) == MOST_CHANGES
    assert memory.node_changes[-1] == NodeChange(NOW, "", NodeEvent.RELABELLED)
    assert len(observed(before[1:], [relabelled(one, ZONE, "b") for one in before[1:]]).node_changes) == MOST_CHANGES


# Domains in motion


@pytest.mark.parametrize(
    ("had", "lost", "moves"),
    [
        (1, 1, True),
        (2, 1, False),
        (2, 2, True),
        (8, 1, False),
        (8, 2, True),
        (9, 2, False),
        (9, 3, True),
        (13, 3, False),
    ],
)
def test_a_domain_is_in_motion_when_it_loses_two_nodes_or_its_only_one_and_at_least_a_quarter(
    had: int, lost: int, *, moves: bool
) -> None:
    history = History(zone_of(had))
    history.put(*(f"a-{number}" for number in range(lost)), unschedulable=True)
    history.look()
    assert (history.motion is not None) == moves
    if history.motion is not None:
        assert (history.motion.had, history.motion.lost) == (had, lost)


def test_nodes_that_were_lost_before_or_have_joined_since_are_not_those_that_a_domain_had() -> None:
    """Four of eight are cordoned for long, and four have joined: two of four are half."""
    nodes = [
        *[structs.replace(one, unschedulable=True) for one in zone_of(4)],
        *[member(f"m-{number}") for number in range(4)],
        *[member(f"new-{number}", created=NOW - 59 * SECOND) for number in range(4)],
    ]
    history = History(nodes)
    history.put("m-0", "m-1", ready=False)
    history.look()
    assert history.motion is not None
    assert (history.motion.had, history.motion.lost) == (4, 2)


def test_a_drain_of_one_node_after_the_other_is_one_motion_that_names_all() -> None:
    """Six nodes, cordoned for nine seconds each: from the second one on, until a minute after the last is back."""
    history = History(zone_of(6))
    for number in range(6):
        history.put(f"a-{number}", unschedulable=True, cordoned_by="kubectl")
        history.look(1)
        assert history.unsettled == (number > 0)
        history.put(f"a-{number}", unschedulable=False, cordoned_by="")
        history.look(9)
    motion = history.motion
    assert motion == DomainMotion(
        key=ZONE,
        value="a",
        since=NOW + SECOND,
        until=NOW + 51 * SECOND,
        moved=NOW + 60 * SECOND,
        lasting=False,
        had=6,
        lost=6,
        nodes=tuple(f"a-{number}" for number in range(6)),
        events=(NodeEvent.CORDONED,),
        by=("kubectl",),
    )
    assert motion.settles_at(MINUTE) == NOW + 120 * SECOND
    history.look(59)
    assert history.unsettled
    history.look(1)
    assert history.motion is None


def is_lasting(history: History) -> bool:
    return history.motion is not None and history.motion.lasting


def test_a_domain_whose_nodes_stay_away_is_in_motion_until_they_are_back_and_a_minute() -> None:
    """It settles when fewer are away than it takes to be in motion; new nodes take the place of lost ones."""
    history = History(zone_of(6))
    history.put(*(f"a-{number}" for number in range(4)), unschedulable=True)
    history.look(10)
    history.look(300)
    assert is_lasting(history)
    history.put("a-0", "a-1", unschedulable=False)
    history.look(10)
    assert is_lasting(history)
    history.nodes["a-9"] = member("a-9")
    history.look(10)
    assert not is_lasting(history)
    assert history.motion is not None
    assert history.motion.settles_at(MINUTE) == history.now + MINUTE
    history.look(59)
    assert history.unsettled
    history.look(1)
    assert history.motion is None


def test_nothing_lands_for_an_hour_at_most_and_a_drain_that_goes_on_begins_no_other() -> None:
    """After the hour the domain is stored until it is quiet, so that its next node is no new beginning."""
    history = History(zone_of(8))
    seconds = 0
    while seconds < 4000:
        name = f"a-{seconds // 20 % 8}"
        history.put(name, unschedulable=True)
        history.look(10)
        history.put(name, unschedulable=False)
        history.look(10)
        seconds += 20
        began = NOW + 10 * SECOND
        assert history.unsettled == (timedelta(seconds=30) <= history.now - NOW < began + LONGEST_UNSETTLED - NOW)
    assert history.motion is not None
    history.look(49)
    assert history.motion is not None
    history.look(1)
    assert history.motion is None


def test_a_domain_that_is_lost_again_after_its_longest_time_is_in_motion_again() -> None:
    """A drain has gone on for more than an hour, and now the zone fails."""
    history = History(zone_of(8))
    for number in range(200):
        history.put(f"a-{number % 8}", unschedulable=True)
        history.look(10)
        history.put(f"a-{number % 8}", unschedulable=False)
        history.look(10)
    assert (len(history.memory.domains_in_motion), history.unsettled) == (1, False)
    history.put(*history.nodes, ready=False)
    history.look(5)
    assert (is_lasting(history), history.unsettled) == (True, True)
    assert history.memory.domains_in_motion[0].since >= history.now - MINUTE


def test_a_node_that_is_lost_several_times_counts_once() -> None:
    history = History(zone_of(6))
    for name in ("a-0", "a-1", "a-0", "a-1", "a-0"):
        history.put(name, ready=False)
        history.look(1)
        history.put(name, ready=True)
        history.look(1)
    assert history.motion is not None
    assert (history.motion.lost, history.motion.nodes) == (2, ("a-0", "a-1"))


def test_one_node_that_flaps_moves_no_domain() -> None:
    history = History(zone_of(6))
    for _ in range(10):
        history.put("a-0", ready=False)
        history.look(1)
        history.put("a-0", ready=True)
        history.look(1)
    assert history.motion is None


def test_losses_of_different_kinds_and_hands_are_named_together() -> None:
    history = History(zone_of(6))
    history.put("a-0", unschedulable=True, cordoned_by="zonal-shift")
    history.put("a-1", unschedulable=True, cordoned_by="kubectl")
    history.look(1)
    del history.nodes["a-2"]
    history.put("a-3", ready=False)
    history.put("a-4", unschedulable=True)
    history.look(1)
    assert history.motion is not None
    assert history.motion.events == (NodeEvent.CORDONED, NodeEvent.DELETED, NodeEvent.UNREADY)
    assert history.motion.by == ("kubectl", "zonal-shift")
    assert history.motion.nodes == ("a-0", "a-1", "a-2", "a-3", "a-4")


def test_of_many_lost_nodes_some_names_are_stored_and_no_more_are_counted_than_there_were() -> None:
    history = History(zone_of(60))
    for _ in range(2):
        history.put(*history.nodes, ready=False)
        history.look(1)
        history.put(*history.nodes, ready=True)
        history.look(1)
    assert history.motion is not None
    assert (history.motion.lost, len(history.motion.nodes)) == (60, motion_module._MOST_NODES)


def test_times_in_the_future_delay_nothing_for_longer() -> None:
    """Stored by a process whose clock is ahead."""
    later = NOW + timedelta(days=1)
    stored = DomainMotion(
        key=ZONE, value="a", since=later, until=later, moved=later, lasting=False, had=2, lost=2, nodes=("a-0", "a-1")
    )
    (motion,) = observed(None, zone_of(2), Memory(domains_in_motion=(stored,))).domains_in_motion
    assert (motion.since, motion.until, motion.moved) == (NOW, NOW, NOW)


def test_a_new_leader_knows_what_the_last_one_and_it_itself_have_seen() -> None:
    """Of a domain that both have seen in motion, the last movement and the most losses."""
    one, two = (NodeChange(NOW + number * SECOND, "a-0", NodeEvent.UNCORDONED) for number in range(2))
    motion = DomainMotion(key=ZONE, value="a", since=NOW, until=NOW, moved=NOW, lasting=False, had=6, lost=2)
    further, later = structs.replace(motion, lost=3), structs.replace(motion, moved=NOW + SECOND)
    other = structs.replace(motion, value="b")
    merged = merge_motion(
        Memory(node_changes=(two,), domains_in_motion=(motion, other)),
        Memory(node_changes=(one, two), domains_in_motion=(further,)),
    )
    assert merged.node_changes == (one, two)
    assert merged.domains_in_motion == (further, other)
    swapped = merge_motion(Memory(domains_in_motion=(later,)), Memory(domains_in_motion=(further,)))
    assert swapped.domains_in_motion == (structs.replace(later, lost=3),)


HAPPENINGS = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.sampled_from(["cordon", "uncordon", "fail", "recover", "delete", "add"]),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=25,
)


@examples(200)
@given(nodes=st.integers(1, 5), happenings=HAPPENINGS)
def test_a_drawn_history_agrees_with_the_definition(nodes: int, happenings: list[tuple[int, str, int, bool]]) -> None:
    """From the whole history, without a memory; the stored text may be read by another process at any moment."""
    history = History(zone_of(nodes))
    losses: list[tuple[datetime, str]] = []
    began: tuple[datetime, int] | None = None
    moved, lasting, names = NOW, False, set[str]()
    for seconds, what, number, restarts in happenings:
        before = dict(history.nodes)
        change(history, what, f"a-{number}")
        history.look(seconds)
        now = history.now
        lost = [
            name
            for name, one in before.items()
            if one.takes_pods and (name not in history.nodes or not history.nodes[name].takes_pods)
        ]
        losses += [(now, name) for name in lost]
        usable = sum(one.takes_pods for one in history.nodes.values())
        if began is None:
            recent = {name for at, name in losses if now - at < MINUTE}
            settled = {one.name for one in history.nodes.values() if one.takes_pods and now - one.created >= MINUTE}
            had = len(recent | settled)
            if lost and len(recent) >= threshold(had):
                first = min(at for at, name in losses if now - at < MINUTE)
                began, moved, names = (first, had), now, recent
                lasting = min(away(history, names), had - usable) >= threshold(had)
        else:
            names |= set(lost)
            still = min(away(history, names), began[1] - usable) >= threshold(began[1])
            back = any(
                one.takes_pods and name in before and not before[name].takes_pods for name, one in history.nodes.items()
            )
            moved = now if lost or back or (lasting and not still) else moved
            lasting = still
        end = None
        if began is not None:
            cap = began[0] + LONGEST_UNSETTLED
            end = cap if lasting else min(cap, moved + MINUTE)
            last = max(at for at, _ in losses)
            if now >= end and now - last >= MINUTE:
                began, end = None, None
        assert history.unsettled == (end is not None and now < end)
        assert (history.motion is not None) == (began is not None)
        if restarts:
            history.memory = parse_memory(memory_text(history.memory))


def away(history: History, names: set[str]) -> int:
    """Count those of these nodes that are there and take no pods."""
    return sum(not one.takes_pods for name, one in history.nodes.items() if name in names)


def threshold(had: int) -> int:
    return 1 if had == 1 else max(2, -(-had // 4))


def change(history: History, what: str, name: str) -> None:
    """Let something happen to a node, if it is there."""
    if what == "add":
        history.nodes.setdefault(name, member(name, created=history.now, uid=f"{name}-{history.now}"))
        return
    if name not in history.nodes:
        return
    match what:
        case "cordon":
            history.put(name, unschedulable=True)
        case "uncordon":
            history.put(name, unschedulable=False)
        case "fail":
            history.put(name, ready=False)
        case "recover":
            history.put(name, ready=True)
        case _:
            del history.nodes[name]
