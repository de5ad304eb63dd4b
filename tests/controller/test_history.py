"""The loop makes the entries of what it observes, and the writer stores them while its process leads."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from rebalancer.account.people import pause_token
from rebalancer.admission.pause import Pause
from rebalancer.admission.rights import Rights
from rebalancer.controller.history_writer import MOST_SHOWN, HistoryWriter
from rebalancer.controller.loop import step
from rebalancer.controller.state import (
    ApprovalRead,
    CycleDue,
    HistoryStored,
    InForce,
    Leading,
    LoopEvent,
    LoopState,
    PauseRead,
    PolicyLoaded,
    PolicyRefused,
    ProcessFacts,
    Queue,
    RightsRead,
    Save,
)
from rebalancer.controller.status import status_document
from rebalancer.documents.events import EventObjects, events_of
from rebalancer.documents.history import AsOf, history_entry
from rebalancer.documents.memory import memory_text, parse_memory
from rebalancer.history.contents import NO_CONTENTS, Contents, Write
from rebalancer.history.outbox import Stored
from rebalancer.model.events import EventReason
from rebalancer.model.history import NOBODY, Author, EndedPause, Entry, EntryKind
from rebalancer.model.moves import Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy
from rebalancer.ports import MEMORY_KEY, HistoryError
from rebalancer.reporting.text.status import status_text
from rebalancer.simulator import HOSTNAME, ZONE, SimulatedCluster
from tests.build import (
    a_cluster,
    a_policy,
    away_from,
    change_specs,
    with_anti_affinity,
    with_nodes,
    with_owners,
    without_node,
)
from tests.controller.simulated import Simulation, eager
from tests.history.build import AT, START, entry
from tests.planning.clusters import returned

POLICY = eager()
NAME = ProcessFacts(history_name="pod-1")


def led(memory: Memory | None = None, name: str = "pod-1") -> LoopState:
    """Return the state of a new leader whose kill switch has been read."""
    state = LoopState(in_force=InForce(policy=POLICY, policy_since=START), process=ProcessFacts(history_name=name))
    state, _ = step(state, PauseRead(pause=None, author=NOBODY), START)
    return step(state, Leading(leads=True, memory=memory or Memory()), START)[0]


def kinds(state: LoopState) -> list[str]:
    return [entry.kind for entry in state.memory.outbox]


def after(state: LoopState, *events: LoopEvent) -> LoopState:
    for event in events:
        state, _ = step(state, event, START)
    return state


def test_a_process_without_a_history_makes_no_entry() -> None:
    """A simulation has nowhere to store them."""
    assert led(name="").memory == Memory()


def test_nobody_but_the_leader_makes_entries() -> None:
    """What it has seen before counts from when it leads."""
    state = LoopState(in_force=InForce(policy=POLICY, policy_since=START), process=NAME)
    state = after(state, PauseRead(pause=Pause(by="alice"), author=NOBODY))
    assert state.memory == Memory()
    assert kinds(after(state, Leading(leads=True))) == ["Leads", "Paused", "PolicyChanged"]


def test_the_next_leader_repeats_nothing() -> None:
    """It knows from the memory what was reported; only that it leads is new, and a pause that has ended meanwhile."""
    pause = Pause(by="alice")
    first = after(led(), PauseRead(pause=pause, author=NOBODY), ApprovalRead(approved="0a1b"))
    assert kinds(first) == ["Leads", "PolicyChanged", "Paused", "Approved"]
    stored = parse_memory(memory_text(first.memory))
    assert stored.outbox == first.memory.outbox
    second = led(stored, "pod-2")
    assert kinds(second)[4:] == ["Leads", "Resumed"]
    assert history_entry(second.memory.outbox[-1]).at_most, "it may have ended long before this process led"
    seqs = [entry.seq for entry in second.memory.outbox]
    assert seqs == sorted(set(seqs))


def test_who_has_done_it() -> None:
    """As the watch has read it; a reading of the pause alone, right before a request, reports nothing."""
    pause = Pause(by="alice", reason="an upgrade")
    state = after(led(), PauseRead(pause=pause))
    assert state.in_force.pause == pause
    assert "Paused" not in kinds(state)
    state = after(
        state,
        PauseRead(pause=pause, author=NOBODY),
        PauseRead(pause=None, author=Author(who="bob", of=pause_token(pause))),
        ApprovalRead(approved="0a1b", author=Author(who="carol", of="0a1b")),
        PolicyLoaded(policy=eager(Mode.OBSERVE), author=Author(manager="helm", at=1)),
        PolicyRefused(message="line 3", author=Author(manager="kubectl-edit", at=2)),
    )
    acts = [(entry.kind, entry.who, entry.manager) for entry in state.memory.outbox[2:]]
    assert acts == [
        ("Paused", "alice", ""),
        ("Resumed", "bob", ""),
        ("Approved", "carol", ""),
        ("PolicyChanged", "unknown", "helm"),
        ("PolicyRefused", "unknown", "kubectl-edit"),
    ]


def test_a_pause_between_two_cycles_is_stored_without_one() -> None:
    """Each reading of the watch that brings something is saved at once, also after a request has read the pause."""
    pause, state = Pause(by="alice"), led()
    readings = (
        PauseRead(pause=pause),
        PauseRead(pause=pause, author=NOBODY),
        PauseRead(pause=None),
        PauseRead(pause=None, author=Author(who="bob", of=pause_token(pause))),
    )
    for second, reading in enumerate(readings, 1):
        state, requests = step(state, reading, START + timedelta(seconds=second))
        assert any(isinstance(request, Save) for request in requests)
    paused, resumed = state.memory.outbox[2:]
    assert [(one.kind, one.who, one.at - AT) for one in (paused, resumed)] == [
        ("Paused", "alice", 2),
        ("Resumed", "bob", 4),
    ]
    assert state.cycle is None


@pytest.mark.parametrize("led_before", [False, True])
def test_a_pause_while_nobody_led_is_in_the_history(led_before: bool) -> None:
    """The next leader has it from what `resume` has declared, with its times, whichever process read that."""
    ended = EndedPause(by="alice", reason="a look", since=AT + 60, at=AT + 61)
    reading = PauseRead(pause=None, author=Author(who="bob", of="t", ended=ended))
    first, later = led(), START + timedelta(minutes=5)
    if led_before:
        state, _ = step(first, reading, later)
    else:
        state = LoopState(
            in_force=InForce(policy=POLICY, policy_since=START), process=ProcessFacts(history_name="pod-2")
        )
        state, _ = step(state, reading, later)
        state, _ = step(state, Leading(leads=True, memory=first.memory), later)
    found = [history_entry(one) for one in state.memory.outbox if one.kind in {"Paused", "Resumed"}]
    assert [one.text for one in found] == [
        "paused by alice (declared) until somebody resumes: a look",
        "resumed by bob (declared) after 1s",
    ]
    assert [one.at.timestamp() - AT for one in found] == [60, 61]


def test_what_is_stored_is_dropped_from_the_memory() -> None:
    """An answer that says nothing new changes nothing."""
    state = led()
    stored = Stored(entries=state.memory.outbox[0].seq)
    dropped = after(state, HistoryStored(stored=stored))
    assert kinds(dropped) == ["PolicyChanged"]
    assert after(dropped, HistoryStored(stored=stored)).memory is dropped.memory


class Recorded(Simulation):
    """A simulated controller that keeps a history; `store` has all entries that any of its processes has saved."""

    def start(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.adopt()

    def adopt(self) -> None:
        """Let the present process keep the history as well."""
        process = replace(self.runner.state.process, history_name="pod")
        self.runner.state = replace(self.runner.state, process=process)

    def keep(self) -> None:
        """Take what was saved, and have the loop forget it."""
        outbox = parse_memory(self.cluster.load(MEMORY_KEY)).outbox
        for one in outbox:
            assert self.entries.setdefault(one.seq, one) == one, "a number is that of one entry"
        last = max(self.entries, default=0)
        self.runner.tell(HistoryStored(stored=Stored(last, last)))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_repair_in_the_history(restarts: bool) -> None:
    """The zone that came back is repaired: a begin, each move once, an end, and samples; whoever leads when."""
    simulation = Recorded(SimulatedCluster(returned(), seed=1), POLICY)
    simulation.start()
    with capture_logs():
        for _ in range(40):
            simulation.cycles(1)
            simulation.keep()
            if restarts:
                simulation.restart()
                simulation.adopt()
    entries = [simulation.entries[seq] for seq in sorted(simulation.entries)]
    moves = [entry for entry in entries if entry.kind == EntryKind.MOVED]
    assert len({entry.uid for entry in moves}) == len(moves) == simulation.evictions > 0
    assert {entry.outcome for entry in moves} == {"verified"}
    assert all(entry.replacement_node and entry.to and entry.since for entry in moves)
    begun = [entry.token for entry in entries if entry.kind == EntryKind.VIOLATED]
    ended = [entry.token for entry in entries if entry.kind == EntryKind.SATISFIED]
    assert sorted(begun) == sorted(ended)
    assert len(set(begun)) == len(begun) > 0
    samples = [entry for entry in entries if entry.kind == EntryKind.SAMPLE]
    assert samples[0].number > 0
    assert samples[-1].number == samples[-1].above == 0
    assert sum(entry.kind == EntryKind.LEADS for entry in entries) == (40 if restarts else 1)
    last_end = max(entry.at for entry in entries if entry.kind == EntryKind.SATISFIED)
    assert last_end == min(entry.at for entry in samples if not entry.number), "when the status has none violated"
    late = {history_entry(entry).at_most for entry in entries if entry.kind == EntryKind.SATISFIED}
    assert late == {restarts}, "each cycle is the first of a leader"


def test_a_zone_that_is_lost_and_comes_back() -> None:
    """As the snapshots show it, with how long it was gone."""
    whole = a_cluster("abc", 1, {"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1}).snapshot()
    without = replace(
        whole,
        nodes=tuple(node for node in whole.nodes if node.labels[ZONE] != "c"),
        pods=tuple(pod for pod in whole.pods if pod.node != "c-1"),
    )
    state = led()
    for minute, snapshot in enumerate((whole, without, without, whole)):
        now = START + timedelta(minutes=minute)
        state, _ = step(state, CycleDue(snapshot=replace(snapshot, taken_at=now)), now)
    zones = [(entry.kind, entry.what, entry.at - entry.since) for entry in state.memory.outbox if "Zone" in entry.kind]
    assert [zone[:2] for zone in zones] == [("ZoneLost", "zone c"), ("ZoneReturned", "zone c")]
    assert zones[1][2] == 120
    assert not history_entry(state.memory.outbox[-1]).at_most
    now = START + timedelta(minutes=4)
    state, _ = step(state, CycleDue(snapshot=replace(without, taken_at=now)), now)
    following = led(parse_memory(memory_text(state.memory)), "pod-2")
    later = now + timedelta(minutes=5)
    following, _ = step(following, CycleDue(snapshot=replace(whole, taken_at=later)), later)
    (back,) = [one for one in following.memory.outbox[-3:] if one.kind == "ZoneReturned"]
    assert history_entry(back).text == "zone c takes pods again, after at most 5m"


def test_a_pause_that_ended_while_nobody_led_lasted_until_its_end() -> None:
    pause = Pause(by="alice", until=START + timedelta(minutes=2))
    first = after(led(), PauseRead(pause=pause, author=NOBODY))
    later = START + timedelta(minutes=9)
    state = LoopState(in_force=InForce(policy=POLICY, policy_since=START), process=ProcessFacts(history_name="pod-2"))
    state, _ = step(state, PauseRead(pause=pause, author=NOBODY), later)
    state, _ = step(state, Leading(leads=True, memory=first.memory), later)
    ended = history_entry(state.memory.outbox[-1])
    assert (ended.text, ended.at_most, ended.seconds) == ("the pause ended by itself after 2m", False, 120)


LIMIT = """
groups:
- name: web
  selector: {}
  limits:
  - {name: zone, topologyKey: topology.kubernetes.io/zone, maxShare: <=1/2}
"""
SKEWED = a_cluster("ab", 1, {"a-1": 4}, spread={ZONE: 1}).snapshot()
LIMITED = a_policy(LIMIT)
UNLIMITED = a_policy()


def without_spread(snapshot: Snapshot) -> Snapshot:
    return change_specs(snapshot, lambda _, spec: structs.replace(spec, spread=()))


def with_hosts(snapshot: Snapshot) -> Snapshot:
    """Return the cluster in which the pods have one more constraint, over nodes."""
    more = structs.replace(snapshot.pods[0].spec.spread[0], topology_key=HOSTNAME, max_skew=9)
    return change_specs(snapshot, lambda _, spec: structs.replace(spec, spread=(*spec.spread, more)))


GONE = replace(SKEWED, pods=(), workloads=())
SPREAD_OUT = a_cluster("ab", 1, {"a-1": 2, "b-1": 2}, spread={ZONE: 1}).snapshot()
IN_ZONES = "zone maxSkew 1"
ENDS: Mapping[str, tuple[Snapshot, Policy, Mapping[str, str]]] = {
    "repaired": (SPREAD_OUT, LIMITED, {"Satisfied": ""}),
    "the workload is deleted": (
        GONE,
        LIMITED,
        {
            f"{IN_ZONES}: the workload does not exist any more": "NoLongerRequired",
            "limit web/zone: the workload does not exist any more": "NoLongerRequired",
        },
    ),
    "the limit is dropped": (
        SKEWED,
        UNLIMITED,
        {"limit web/zone: the policy has no such limit since 2026-01-05 08:01:00Z": "NoLongerRequired"},
    ),
    "the constraint is removed": (
        without_spread(SKEWED),
        LIMITED,
        {f"{IN_ZONES}: the workload has no such constraint any more": "NoLongerRequired"},
    ),
    "the constraint is counted with another": (
        with_hosts(SKEWED),
        LIMITED,
        {f"{IN_ZONES}: it is counted together with other constraints or workloads now": "NoLongerRequired"},
    ),
    "repaired, with another constraint": (with_hosts(SPREAD_OUT), LIMITED, {"Satisfied": ""}),
    "the workload is scaled to zero": (
        replace(with_owners(SKEWED, *{one.name for one in SKEWED.workloads}, replicas=0), pods=()),
        LIMITED,
        {
            f"{IN_ZONES}: no pod of the workload is counted any more": "NoLongerRequired",
            "limit web/zone: no pod of the workload is counted any more": "NoLongerRequired",
        },
    ),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_violation_ends_as_what_it_was(how: str) -> None:
    """Satisfied only where it is; what is not required any more is said as that, in the history and in events."""
    after_it, policy, expected = ENDS[how]
    state = after(led(), PolicyLoaded(policy=LIMITED))
    state, _ = step(state, CycleDue(snapshot=replace(SKEWED, taken_at=START)), START)
    now = START + timedelta(minutes=1)
    if policy is not LIMITED:
        state, _ = step(state, PolicyLoaded(policy=policy), now)
    state, _ = step(state, CycleDue(snapshot=replace(after_it, taken_at=now)), now)
    ends = [one for one in state.memory.outbox if one.kind in {"Satisfied", "NoLongerRequired"}]
    assert {one.workload for one in ends} == {"Deployment/web"}
    assert all(history_entry(one).seconds == 60 for one in ends)
    if how.startswith("repaired"):
        assert [one.kind for one in ends] == ["Satisfied", "Satisfied"]
        return
    assert {one.what: one.kind for one in ends} == expected
    assert all(one.what in history_entry(one).text and "satisfied" not in history_entry(one).text for one in ends)
    told = {
        (event.reason, event.note)
        for one in state.happened
        for event in events_of(one, EventObjects())
        if event.reason != EventReason.SKEW_VIOLATED
    }
    is_there = "does not exist" not in str(expected)
    notes = {(EventReason.NO_LONGER_REQUIRED, f"no longer required: {what}") for what in expected}
    assert told == (notes if is_there else set())


@pytest.mark.parametrize("later", [GONE, with_hosts(SKEWED)], ids=["gone", "violated together with others"])
def test_a_new_leader_says_nothing_of_a_violation_that_it_has_not_seen(later: Snapshot) -> None:
    """The last leader's memory has its token; whether it is satisfied or not required nobody knows."""
    state, _ = step(after(led(), PolicyLoaded(policy=LIMITED)), CycleDue(snapshot=SKEWED), START)
    second = led(parse_memory(memory_text(state.memory)), "pod-2")
    now = START + timedelta(minutes=1)
    second, _ = step(second, CycleDue(snapshot=replace(later, taken_at=now)), now)
    ends = [history_entry(one) for one in second.memory.outbox if one.token and one.kind != "Violated"]
    assert [(one.kind, one.seconds) for one in ends] == [("EndUnknown", 60)] * 2
    assert all(one.text.endswith("is not known") and one.workload is None for one in ends)


class Store:
    """ConfigMaps in memory."""

    def __init__(self) -> None:
        self.contents: Contents = NO_CONTENTS
        self.problem = ""
        self.writes: list[Write] = []
        self.reads = 0

    def read(self) -> Contents:
        self.reads += 1
        if self.problem:
            raise HistoryError(self.problem)
        return self.contents

    def write(self, write: Write) -> None:
        self.writes.append(write)
        self.contents = self.contents.after(write)


class Writing:
    """A writer, and what it has told."""

    def __init__(self) -> None:
        self.store = Store()
        self.leads: Iterator[bool] | bool = True
        self.events: list[LoopEvent] = []
        self.writer = HistoryWriter(self.store, leads=self._leads, tell=self.events.append)

    def _leads(self) -> bool:
        return self.leads if isinstance(self.leads, bool) else next(self.leads)


OUTBOX = (entry(EntryKind.LEADS, 1, who="a"), entry(EntryKind.SAMPLE, 2, number=1))


def test_the_page_reads_what_is_saved() -> None:
    """The newest entries and the trend, each once, whether it is written yet or not, without a request."""
    writing = Writing()
    assert writing.writer.read_history().entries == ()
    writing.writer.take(OUTBOX)
    for _ in range(2):
        assert [one.kind for one in writing.writer.read_history().entries] == ["Leads"]
        assert [one.violated for one in writing.writer.read_trend().samples] == [1]
        writing.writer.poll()
    assert writing.events == [HistoryStored(stored=Stored(OUTBOX[0].seq, OUTBOX[1].seq))] * 2
    assert len(writing.store.writes) == 2
    many = tuple(entry(EntryKind.LEADS, 10 + number, who="a") for number in range(MOST_SHOWN + 50))
    writing.writer.take(many, AsOf(START, START - timedelta(seconds=1)))
    document = writing.writer.read_history()
    assert (document.as_of, writing.writer.read_trend().last_cycle) == (START, START - timedelta(seconds=1))
    assert (len(document.entries), document.total) == (MOST_SHOWN, MOST_SHOWN + 51)
    assert writing.store.reads == 1


def test_a_new_leader_shows_what_is_stored() -> None:
    """It reads the ConfigMaps once, also if it has nothing to write."""
    writing = Writing()
    old = Writing()
    old.writer.take(OUTBOX)
    old.writer.poll()
    writing.store.contents = old.store.contents
    writing.writer.poll()
    assert [one.kind for one in writing.writer.read_history().entries] == ["Leads"]
    assert writing.store.writes == []
    assert writing.events == []


def test_whoever_does_not_lead_writes_nothing() -> None:
    """Neither at first nor between two writes; who leads again reads again."""
    writing = Writing()
    writing.writer.take(OUTBOX)
    writing.leads = iter([False, True, True, False])
    writing.writer.poll()
    assert writing.store.reads == 0
    writing.writer.poll()
    assert len(writing.store.writes) == 1
    assert writing.events == []
    writing.leads = iter([False, *[True] * 3])
    writing.writer.poll()
    writing.writer.poll()
    assert (writing.store.reads, len(writing.store.writes)) == (2, 2)


def test_what_goes_wrong_is_logged_once_and_tried_again_in_a_minute() -> None:
    """Until it works; what was dropped meanwhile is logged, too."""
    writing = Writing()
    writing.store.problem = "ConfigMap ns/rebalancer-history-0 does not exist"
    dropped = structs.replace(OUTBOX[0], kind=EntryKind.DROPPED, number=3)
    writing.writer.take((dropped, OUTBOX[1]))
    with capture_logs() as logs:
        for _ in range(13):
            writing.writer.poll()
    assert writing.store.reads == 3
    assert [(one["event"], one.get("error")) for one in logs] == [
        ("history entries dropped, the oldest that were not stored", None),
        ("history not stored", writing.store.problem),
    ]
    writing.store.problem = ""
    for _ in range(6):
        writing.writer.poll()
    assert len(writing.store.writes) == 2


def test_the_end_of_the_process_writes_once_more() -> None:
    """Also right after a failure, and whether the thread was started or not."""
    writing = Writing()
    writing.store.problem = "no answer"
    writing.writer.take(OUTBOX)
    with capture_logs():
        writing.writer.poll()
        writing.store.problem = ""
        writing.writer.finish(5.0)
    assert len(writing.store.writes) == 2


def test_a_right_that_is_lost_and_comes_back() -> None:
    """Each once, whoever leads then; what is not known yet is no return."""
    missing = Rights(everywhere=False, missing={"bank": START, "shop": START})
    state = after(led(), RightsRead(rights=missing), RightsRead(rights=missing))
    part = Rights(everywhere=False, granted=frozenset({"shop"}), missing={"bank": START})
    state = after(state, RightsRead(rights=part))
    stored = parse_memory(memory_text(state.memory))
    unasked = LoopState(
        in_force=InForce(policy=POLICY, policy_since=START),
        process=ProcessFacts(history_name="pod-2"),
        queue=Queue(rights=Rights(everywhere=False)),
    )
    following = after(unasked, PauseRead(pause=None, author=NOBODY), Leading(leads=True, memory=stored))
    following = after(following, RightsRead(rights=part), RightsRead(rights=Rights()))
    texts = [history_entry(one).text for one in following.memory.outbox if one.kind.startswith("Right")]
    assert texts == [
        "the controller has no right to evict in bank, shop",
        "the controller may evict in shop again",
        "the controller may evict in bank again",
    ]


def test_a_policy_that_is_gone_was_refused_by_nobody() -> None:
    state = after(led(), PolicyRefused(message="configmap:a/b: there is no such ConfigMap", missing=True))
    last = history_entry(state.memory.outbox[-1])
    said = "no policy can be read, the last one stays in force: configmap:a/b: there is no such ConfigMap"
    assert (last.kind, last.text) == ("PolicyMissing", said)
    assert "PolicyChanged" in kinds(after(state, PolicyLoaded(policy=POLICY)))[2:]


def test_violated_anti_affinity_begins_and_ends() -> None:
    """Satisfied where the pods are apart; where no pod declares the term any more, nobody may say so."""

    def cluster(batch: str, *, declares: bool = True) -> Snapshot:
        builder = a_cluster("ab", 1, {"a-1": 2})
        builder.deployment("batch", on={batch: 2})
        return with_anti_affinity(builder.snapshot(), {"batch": [away_from("web")]} if declares else {})

    apart, together, dropped = cluster("b-1"), cluster("a-1"), cluster("a-1", declares=False)
    for ending, kind, why in (
        (apart, EntryKind.SATISFIED, ""),
        (dropped, EntryKind.NO_LONGER_REQUIRED, "no such podAntiAffinity"),
    ):
        state = replace(led(), in_force=InForce(policy=a_policy("mode: Observe"), policy_since=START))
        state = after(state, CycleDue(snapshot=together), CycleDue(snapshot=ending))
        begun, ended = (entry for entry in state.memory.outbox if entry.workload.endswith("batch"))
        assert (begun.kind, ended.kind) == (EntryKind.VIOLATED, kind)
        assert "Required podAntiAffinity over node to pods that match app=web: 2 pods in excess" in begun.what
        assert why in history_entry(ended).text


def test_pods_that_wait_for_a_node_violate_nothing_and_have_one_later() -> None:
    """Status and page say so in the same words; nothing was violated, so that nothing is satisfied again."""
    placed = with_nodes(
        a_cluster("ab", 1, {"a-1": 1, "b-1": 2}, spread={ZONE: 1}).snapshot(), {"a-1": {"pods": 1}, "b-1": {"pods": 1}}
    )
    first, second, third = placed.pods
    waiting = replace(placed, pods=(first, second, without_node(third)))
    state = replace(led(), in_force=InForce(policy=a_policy("mode: Observe"), policy_since=START))
    state = after(state, CycleDue(snapshot=waiting))
    text = status_text(status_document(state, "one", "policy.yaml"), START).replace("\xa0", " ")
    assert "PODS WAIT FOR A NODE" in text
    assert "CANNOT BE REPAIRED NOW" not in text
    assert "0 cannot be repaired now" in text
    state = after(state, CycleDue(snapshot=placed))
    begun, ended = map(history_entry, [one for one in state.memory.outbox if one.namespace])
    assert (begun.kind, ended.kind) == ("WithoutNode", "NodeFound")
    assert begun.text.endswith("no rule is violated, but pods wait for a node: 1 pod without a node")
    assert "no pod waits for a node any more; seen for " in ended.text
    many = [structs.replace(state.memory.outbox[-1], kind=one.kind, token="", number=9) for one in (begun, ended)]
    assert [history_entry(one).text for one in many] == [
        "9 more workloads began to wait for a node",
        "9 more workloads wait for a node no longer",
    ]
