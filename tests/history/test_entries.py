"""Each kind of change makes its entry, once, whoever leads."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.account.ended import Dropped, Gone
from rebalancer.account.happened import (
    FindSubjects,
    MoveEnded,
    Subject,
    find_ended,
    find_late,
    find_subjects,
    find_violations,
    find_zones,
)
from rebalancer.account.people import NO_ACTS, Acts, find_people, pause_token
from rebalancer.admission.pause import Pause, to_one_line
from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.causes import constraint_token
from rebalancer.engine import evaluate
from rebalancer.history.declared import Declaration, format_declaration, read_declaration
from rebalancer.history.moves import move_entries
from rebalancer.history.people import people_entries
from rebalancer.history.samples import count_above, note_sample
from rebalancer.history.violations import MOST_NAMED, Violation, describe, find_gone, still_open, violation_entries
from rebalancer.history.words import cut
from rebalancer.history.zones import zone_entries
from rebalancer.model.history import NOBODY, TEXT_LIMIT, UNKNOWN, Author, EndedPause, Entry, EntryKind, Noted, SeenGone
from rebalancer.model.moves import Memory, Move, MoveState, Target, ZoneSeen, make_token
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, without_node
from tests.history.build import AT, START
from tests.planning.clusters import sharing
from tests.tracking.build import move


def assessed(snapshot: Snapshot) -> Assessment:
    return evaluate(snapshot, default_policy()).assessment


MINUTE = timedelta(minutes=1)
LATER = START + 10 * MINUTE


def with_state(state: MoveState, **fields: object) -> Move:
    return structs.replace(move("u1", START, pod="web-1"), state=state, **fields)


def moves(before: Move, after: Move) -> list[Entry]:
    return list(move_entries(find_ended((before,), (after,)), None))


def test_a_move_has_one_entry_when_it_ends() -> None:
    """With what is known of it: where from and to, why, since when, and how it ended."""
    target = Target(ZONE, ("c",))
    flying = with_state(MoveState.PENDING, targets=(Target(HOSTNAME, ("c-1", "c-2", "c-3", "c-4")), target))
    ended = structs.replace(flying, state=MoveState.VERIFIED, changed_at=LATER)
    assert moves(flying, flying) == []
    (entry,) = moves(flying, ended)
    assert (entry.kind, entry.pod, entry.uid, entry.node, entry.to) == ("Moved", "web-1", "u1", "a-1", "zone c")
    assert (entry.since, entry.at, entry.outcome, entry.cause) == (AT, AT + 600, "verified", "SkewViolated")
    assert (entry.namespace, entry.workload) == ("default", "Deployment/web")
    assert moves(ended, ended) == []


def test_many_likely_nodes_are_counted() -> None:
    """Only host names are predicted: three are named."""
    flying = with_state(MoveState.EVICTED, targets=(Target(HOSTNAME, ("c-1", "c-2", "c-3", "c-4")), Target(ZONE, ())))
    (entry,) = moves(flying, structs.replace(flying, state=MoveState.LOST))
    assert entry.to == "node c-1/c-2/c-3 or 1 more"


def test_where_the_replacement_is() -> None:
    """The snapshot has its node; a replacement that is gone has none."""
    snapshot = a_cluster("ab", 1, {"a-1": 1, "b-1": 1}).snapshot()
    pod = snapshot.pods[0]
    flying = with_state(MoveState.PENDING, replacement=pod.uid)
    ended = structs.replace(flying, state=MoveState.VERIFIED)
    (entry,) = move_entries(find_ended((flying,), (ended,)), snapshot)
    assert entry.replacement_node == pod.node
    gone = structs.replace(ended, replacement="gone")
    (entry,) = move_entries(find_ended((flying,), (gone,)), snapshot)
    assert entry.replacement_node == ""


def test_a_deferred_refusal_has_not_ended() -> None:
    """Whoever has refused it for the moment may still carry it out: one entry, when that is decided."""
    planned = with_state(MoveState.PLANNED)
    deferred = with_state(MoveState.REFUSED, deferred_until=LATER)
    assert moves(planned, deferred) == []
    assert [entry.outcome for entry in moves(deferred, with_state(MoveState.REFUSED))] == ["refused"]
    assert moves(deferred, with_state(MoveState.EVICTED)) == []


def test_a_clock_that_was_set_back_hides_no_end() -> None:
    """It changes when the move was requested."""
    back = with_state(MoveState.VERIFIED, requested_at=START - MINUTE)
    assert [entry.outcome for entry in moves(with_state(MoveState.PENDING), back)] == ["verified"]


def test_a_move_that_another_leader_has_ended_is_not_reported_again() -> None:
    """What is not followed in the memory before has ended in the entry of somebody else; another request is another."""
    ended = with_state(MoveState.VERIFIED)
    assert list(find_ended((), (ended,))) == []
    again = structs.replace(ended, requested_at=LATER)
    assert list(find_late((with_state(MoveState.PLANNED),), (again,))) == []
    assert list(find_late((with_state(MoveState.PLANNED),), (ended,))) == [MoveEnded(ended, is_late=True)]


(SKEWED,) = assessed(a_cluster("abc", 1, {"a-1": 4}, spread={ZONE: 1}).snapshot()).groups
SUBJECT = Subject(SKEWED, {constraint_token(SKEWED, SKEWED.hard[0]): ViolationCause.NODE_LOST})


def seen(tokens: frozenset[str]) -> Mapping[str, Subject]:
    return dict.fromkeys(tokens, SUBJECT)


def note_violations(
    before: Memory, after: Memory, subjects: FindSubjects, now: datetime
) -> tuple[tuple[Entry, ...], tuple[tuple[str, int], ...]]:
    """Return the entries, and `Noted.open` after them."""
    happened = list(find_violations(before, after, subjects))
    return tuple(violation_entries(happened, now)), still_open(before, after, happened, now)


def test_a_violation_has_a_begin_and_an_end() -> None:
    """The begin says what and why, the end how long it lasted."""
    violated = Memory(seen=(("t", START),))
    (begun,), kept = note_violations(Memory(), violated, seen, START)
    assert (begun.kind, begun.token, begun.what, begun.cause) == ("Violated", "t", "zone skew 4, maxSkew 1", "NodeLost")
    assert kept == ()
    assert note_violations(violated, violated, seen, LATER) == ((), ())
    (ended,), _ = note_violations(violated, Memory(), seen, LATER)
    assert (ended.kind, ended.since, ended.at, ended.workload) == ("Satisfied", AT, AT + 600, "Deployment/web")
    (ended,), _ = note_violations(violated, Memory(), lambda _: {}, LATER)
    assert (ended.kind, ended.workload, ended.token) == ("EndUnknown", "", "t")


def test_a_repair_does_not_interrupt_a_violation() -> None:
    """While its moves are in flight a group may look satisfied: the violation lasts from its begin to its last end."""
    flying = with_state(MoveState.EVICTED, group="web")
    token = make_token("web")
    violated = Memory(seen=((token, START),))
    repaired = Memory(moves=(flying,))
    entries, kept = note_violations(violated, repaired, seen, START + MINUTE)
    assert (entries, kept) == ((), ((token, AT),))
    repaired = structs.replace(repaired, noted=Noted(open=kept))
    again = Memory(moves=(flying,), seen=((token, START + 2 * MINUTE),))
    entries, kept = note_violations(repaired, again, seen, START + 2 * MINUTE)
    assert (entries, kept) == ((), ((token, AT),))
    again = structs.replace(again, noted=Noted(open=kept))
    (ended,), kept = note_violations(again, Memory(), seen, LATER)
    assert (ended.kind, ended.since, kept) == ("Satisfied", AT, ())


def test_a_violation_ends_in_the_cycle_that_saw_it_gone() -> None:
    """Which is when the status counts it no longer, and not when the last pod of its repair is Ready."""
    flying, token = with_state(MoveState.EVICTED, group="web"), make_token("web")
    gone = Memory(moves=(flying,))
    memory = Memory(seen=((token, START),))
    for minute, following in enumerate((gone, Memory(seen=((token, START + MINUTE),), moves=(flying,)), gone, gone), 1):
        now = START + minute * MINUTE
        entries, kept = note_violations(memory, following, seen, now)
        assert (entries, kept) == ((), ((token, AT),))
        noted = Noted(open=kept, gone=find_gone(memory, following, kept, now))
        memory = structs.replace(following, noted=noted)
    assert memory.noted.gone == (SeenGone(token, AT + 180),), "it came back in between"
    (ended,), kept = note_violations(memory, Memory(), seen, LATER)
    assert (ended.kind, ended.since, ended.at) == ("Satisfied", AT, AT + 180)
    assert find_gone(memory, Memory(), kept, LATER) == ()
    subject = SUBJECT._replace(dropped=Dropped(Gone.LIMIT))
    (dropped,), _ = note_violations(memory, Memory(), lambda tokens: dict.fromkeys(tokens, subject), LATER)
    assert (dropped.kind, dropped.at) == ("NoLongerRequired", AT + 600), "that nobody had seen before"


@given(st.lists(st.sets(st.sampled_from("abcdef")), max_size=12))
def test_begins_and_ends_alternate(violated: list[set[str]]) -> None:
    """Whatever is violated when: of each group a begin is followed by its end, and the open ones are the violated."""
    memory = Memory()
    is_open: dict[str, bool] = {}
    for number, tokens in enumerate(violated):
        now = START + number * MINUTE
        known = dict(memory.seen)
        after = Memory(seen=tuple((token, known.get(token, now)) for token in sorted(tokens)), noted=memory.noted)
        entries, kept = note_violations(memory, after, seen, now)
        for entry in entries:
            assert is_open.get(entry.token, False) is (entry.kind == EntryKind.SATISFIED)
            is_open[entry.token] = entry.kind == EntryKind.VIOLATED
        memory = structs.replace(after, noted=structs.replace(after.noted, open=kept))
        assert {token for token, value in is_open.items() if value} == tokens


def test_of_many_violations_at_once_the_first_are_named() -> None:
    """The loss of a zone must not push all else out of the history."""
    tokens = [f"{number:03}" for number in range(MOST_NAMED + 7)]
    memory = Memory(seen=tuple((token, START) for token in tokens))
    entries, _ = note_violations(Memory(), memory, seen, START)
    assert [entry.token for entry in entries] == [*tokens[:MOST_NAMED], ""]
    assert entries[-1].number == 7


def test_violations_are_described() -> None:
    """A group by its violated constraints, whether violated or not; a token that no group has is left out."""
    assessment = assessed(a_cluster("abc", 1, {"a-1": 4}, spread={ZONE: 1}).snapshot())
    (group,) = assessment.groups
    token = make_token(group.spread.name)
    found = find_subjects(assessment, {}, frozenset({token, "other"}))
    assert {name: describe(subject) for name, subject in found.items()} == {
        token: Violation("default", "Deployment/web", "", 1, "zone skew 4, maxSkew 1", "")
    }
    even = assessed(a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, spread={ZONE: 1}).snapshot())
    (group,) = even.groups
    token = make_token(group.spread.name)
    assert describe(find_subjects(even, {}, frozenset({token}))[token]).what == "zone skew 0, maxSkew 1"
    assert find_subjects(even, {}, frozenset({"other"})) == {}


def test_a_pod_without_a_node_is_no_skew() -> None:
    """It is what is to be repaired where every constraint is satisfied, which counts placed pods only."""
    snapshot = a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, spread={ZONE: 1}).snapshot()
    waiting = replace(snapshot, pods=(*snapshot.pods, without_node(snapshot.pods[0], "late")))
    evaluated = assessed(waiting)
    token = make_token(evaluated.groups[0].spread.name)
    assert describe(find_subjects(evaluated, {}, frozenset({token}))[token]).what == "1 pod without a node"


def test_a_violation_names_as_many_of_its_workloads_as_an_entry_takes() -> None:
    """Each whole; the first apart."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    for number in range(9):
        builder.deployment(f"a-rather-long-name-{number}", on={"a-1": 2}, spread={ZONE: 1})
    assessment = assessed(sharing(builder.snapshot()))
    (group,) = (group for group in assessment.groups if len(group.workloads) == 9)
    token = make_token(group.spread.name)
    violation = describe(find_subjects(assessment, {}, frozenset({token}))[token])
    names = [f"Deployment/a-rather-long-name-{number}" for number in range(9)]
    assert (violation.workload, violation.workloads) == (names[0], 9)
    assert violation.others == ",".join(names[1:4])
    assert len(violation.others) <= TEXT_LIMIT


def zones(**last: int) -> Memory:
    """Return the memory of zones that were seen last so many minutes after the start."""
    return Memory(zones=tuple(ZoneSeen(ZONE, name, START + minute * MINUTE) for name, minute in sorted(last.items())))


def changed(before: Memory, after: Memory) -> list[tuple[str, str, int]]:
    return [
        (entry.kind, entry.what, entry.since) for entry in zone_entries(find_zones(before, after, {ZONE}, ()), LATER)
    ]


def test_a_zone_is_lost_once_and_comes_back_once() -> None:
    """Whoever leads: both memories are stored ones."""
    assert changed(zones(a=0, b=0), zones(a=1, b=1)) == []
    assert changed(zones(a=0, b=0), zones(a=1, b=0)) == [("ZoneLost", "zone b", 0)]
    assert changed(zones(a=1, b=0), zones(a=2, b=0)) == []
    assert changed(zones(a=2, b=0), zones(a=3, b=3)) == [("ZoneReturned", "zone b", AT)]
    assert changed(zones(a=3), zones(a=4, c=4)) == [("ZoneReturned", "zone c", 0)]
    assert changed(zones(a=0, b=0), zones(a=1)) == [("ZoneLost", "zone b", 0)], "also if it is forgotten at once"


def test_zones_that_say_nothing() -> None:
    """The first snapshot, an unchanged memory, a label that is none of a zone, the loss of all nodes."""
    assert changed(Memory(), zones(a=0)) == []
    assert changed(zones(a=0), zones(a=0)) == []
    assert list(find_zones(zones(a=0, b=0), zones(a=1, b=0), {"rack"}, ())) == []


def note_people(noted: Noted, acts: Acts, now: datetime) -> tuple[tuple[Entry, ...], Noted]:
    declared, following = find_people(noted, acts, now)
    return tuple(people_entries(declared, now)), following


def people(noted: Noted, acts: Acts) -> tuple[list[tuple[str, str, str, str]], Noted]:
    entries, following = note_people(noted, acts, LATER)
    return [(entry.kind, entry.what, entry.who, entry.manager) for entry in entries], following


READ = replace(NO_ACTS, pause_author=NOBODY)


def test_a_pause_and_its_end() -> None:
    """By whom, where they have said so; a pause that has not been read changes nothing."""
    pause = Pause(reason="an upgrade", by="alice")
    entries, noted = people(Noted(), replace(READ, pause=pause))
    assert entries == [("Paused", "an upgrade", "alice", "")]
    assert people(noted, replace(READ, pause=pause)) == ([], noted)
    assert people(noted, NO_ACTS) == ([], noted)
    resumed = replace(READ, pause_author=Author(who="bob", of=pause_token(pause)))
    entries, after = people(noted, resumed)
    assert entries == [("Resumed", "", "bob", "")]
    assert people(after, resumed) == ([], after)
    stale = replace(READ, pause_author=Author(who="bob", of="an earlier pause"))
    assert people(noted, stale)[0] == [("Resumed", "", UNKNOWN, "")]


def test_a_pause_of_somebody_unknown() -> None:
    """Kubernetes has noted the program, and when; a file that cannot be read says why."""
    author = Author(manager="kubectl-patch", at=AT)
    entries, _ = note_people(Noted(), replace(READ, pause=Pause(unreadable="broken"), pause_author=author), LATER)
    (entry,) = entries
    assert (entry.who, entry.manager, entry.since, entry.what) == (UNKNOWN, "kubectl-patch", AT, "broken")


def test_a_pause_that_ends_by_itself() -> None:
    """Nobody has ended it, and it lasted from when it was seen."""
    pause = Pause(until=LATER + MINUTE)
    acts = replace(READ, pause=pause)
    (begun,), noted = note_people(Noted(), acts, LATER)
    assert begun.until == AT + 660
    (ended,), noted = note_people(noted, acts, LATER + MINUTE)
    assert (ended.kind, ended.who, ended.since) == ("Resumed", "", AT + 600)
    assert note_people(noted, acts, LATER + MINUTE) == ((), noted)


ENDED = EndedPause(by="alice", reason="an upgrade", since=AT + 60, at=AT + 61)


def test_a_pause_that_nobody_has_seen_is_known_by_the_declaration_of_its_end() -> None:
    """Begin and end, with who and when, once; whether nobody led, or no watch was open."""
    acts = replace(READ, pause_author=Author(who="bob", of="t", ended=ENDED))
    (begun, ended), noted = note_people(Noted(), acts, LATER)
    assert (begun.kind, begun.at, begun.who, begun.what) == ("Paused", AT + 60, "alice", "an upgrade")
    assert (ended.kind, ended.at, ended.since, ended.who) == ("Resumed", AT + 61, AT + 60, "bob")
    assert note_people(noted, acts, LATER + MINUTE) == ((), noted)
    by_hand = structs.replace(ENDED, by="", manager="kubectl-patch", at=AT + 70)
    again = replace(READ, pause_author=Author(who="bob", of="t", ended=by_hand))
    (begun, ended), _ = note_people(noted, again, LATER)
    assert (begun.who, begun.manager, ended.at) == (UNKNOWN, "kubectl-patch", AT + 70), "the same words, another pause"


def test_a_pause_that_was_seen_is_not_reported_again_by_its_end() -> None:
    """Its end is when it was resumed, not when the controller read that, and not before its begin."""
    pause = Pause(reason="an upgrade", by="alice")
    (_,), noted = note_people(Noted(), replace(READ, pause=pause), START)
    resumed = replace(READ, pause_author=Author(who="bob", of=pause_token(pause), ended=ENDED))
    (ended,), noted = note_people(noted, resumed, LATER)
    assert (ended.kind, ended.at, ended.since, ended.who) == ("Resumed", AT + 61, AT, "bob")
    assert note_people(noted, resumed, LATER + MINUTE) == ((), noted)
    (_,), noted = note_people(noted, replace(READ, pause=pause), LATER)
    (ended,), _ = note_people(noted, resumed, LATER + MINUTE)
    assert ended.at == LATER.timestamp(), "the clock of who has ended it was behind"


def test_a_pause_that_was_over_before_it_was_read() -> None:
    """It has held from when it was written, as Kubernetes has noted, until its time; nobody has ended it."""
    pause = Pause(by="alice", until=START + MINUTE)
    acts = replace(READ, pause=pause, pause_author=Author(manager="kubectl", at=AT + 59))
    (begun, ended), noted = note_people(Noted(), acts, LATER)
    assert (begun.kind, begun.at, begun.who, begun.until) == ("Paused", AT + 59, "alice", AT + 60)
    assert (ended.kind, ended.at, ended.since, ended.who) == ("Resumed", AT + 60, AT + 59, "")
    assert note_people(noted, acts, LATER) == ((), noted)
    removed = structs.replace(ENDED, since=AT + 59, until=AT + 60, at=AT + 70)
    declared = replace(READ, pause_author=Author(who="bob", of=pause_token(pause), ended=removed))
    assert note_people(noted, declared, LATER)[0] == (), "what is over is only removed"
    (begun, ended), _ = note_people(Noted(), declared, LATER)
    assert (begun.at, ended.at, ended.who) == (AT + 59, AT + 60, "")
    for author in (NOBODY, Author(at=AT + 60)):
        never = replace(acts, pause_author=author)
        assert note_people(Noted(), never, LATER)[0] == (), "nothing says that it has paused anything"


def test_what_took_the_place_of_a_pause_and_ended_unseen_has_ended_both() -> None:
    """Evictions were paused from the first begin to the last end."""
    (_,), noted = note_people(Noted(), replace(READ, pause=Pause(reason="a drill")), START)
    acts = replace(READ, pause_author=Author(who="bob", of="t", ended=ENDED))
    entries, _ = note_people(noted, acts, LATER)
    assert [(one.kind, one.at, one.since) for one in entries] == [("Paused", AT + 60, 0), ("Resumed", AT + 61, AT)]


def test_approvals_and_policies() -> None:
    """An approval by whom it declares; a policy by its field manager; a refused one once."""
    approved = replace(NO_ACTS, approved="0a1b", approval_author=Author(who="alice", of="0a1b"))
    entries, noted = people(Noted(), approved)
    assert entries == [("Approved", "0a1b", "alice", "")]
    assert people(noted, NO_ACTS) == ([], noted), "not read yet"
    other = replace(approved, approved="2c3d")
    assert people(noted, other)[0] == [("Approved", "2c3d", UNKNOWN, "")], "the declaration is about another plan"
    changed_by = replace(NO_ACTS, policy="9f3a", policy_author=Author(manager="helm", at=AT))
    entries, noted = people(Noted(), changed_by)
    assert entries == [("PolicyChanged", "9f3a", UNKNOWN, "helm")]
    refused = replace(changed_by, policy_error="line 3")
    entries, noted = people(noted, refused)
    assert entries == [("PolicyRefused", "line 3", UNKNOWN, "helm")]
    assert people(noted, refused) == ([], noted)
    assert people(noted, changed_by)[0] == [("PolicyChanged", "9f3a", UNKNOWN, "helm")], "it is in force again"
    said, _ = find_people(noted, changed_by, START)
    other_one, _ = find_people(noted, replace(changed_by, policy="77aa"), START)
    assert [one.number for one in (*said, *other_one)] == [1, 0], "it was in force throughout, the other one is new"


def test_a_pause_that_takes_the_place_of_another_prolongs_it() -> None:
    """Evictions have been paused since the first."""
    (_,), noted = note_people(Noted(), replace(READ, pause=Pause(reason="a drill")), LATER)
    longer = replace(READ, pause=Pause(reason="an incident"))
    (begun,), noted = note_people(noted, longer, LATER + MINUTE)
    assert (begun.kind, begun.what) == ("Paused", "an incident")
    (ended,), _ = note_people(noted, READ, LATER + 2 * MINUTE)
    assert ended.at - ended.since == 120


def test_a_declaration_can_be_read_again() -> None:
    """What somebody has damaged declares nothing."""
    declared = Declaration(by="alice", of="0a1b")
    assert read_declaration(format_declaration(declared)) == declared
    ended = structs.replace(declared, ended=ENDED)
    assert read_declaration(format_declaration(ended)) == ended
    for wrong in ({"since": AT + 62}, {"since": -1}, {"until": -1}, {"until": 10**12}, {"at": 10**12}):
        odd = structs.replace(declared, ended=structs.replace(ENDED, **wrong))
        assert read_declaration(format_declaration(odd)) == declared
    assert read_declaration("") == read_declaration("{") == read_declaration('{"by": 3}') == Declaration()


def test_a_sample_where_a_number_changes() -> None:
    """Of 12 pods in 3 zones a zone may hold 4: of 6 and 6, four are above."""
    skewed = assessed(a_cluster("abc", 1, {"a-1": 6, "b-1": 6}, spread={ZONE: 1}).snapshot())
    (sample,), noted = note_sample(Noted(), skewed, 1, START)
    assert (sample.number, sample.above, sample.skew) == (1, 4, 6)
    assert note_sample(noted, skewed, 1, LATER) == ((), noted)
    even = assessed(a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, spread={ZONE: 1}).snapshot())
    (sample,), _ = note_sample(noted, even, 0, LATER)
    assert (sample.number, sample.above, sample.skew) == (0, 0, 0)


def test_a_constraint_without_domains_has_no_pod_above() -> None:
    """No node has its key."""
    (group,) = assessed(a_cluster("a", 1, {"a-1": 2}, spread={"rack": 1}).snapshot()).groups
    assert [count_above(one) for one in group.hard] == [0]


@given(st.text(max_size=300), st.integers(1, 200))
def test_texts_are_cut(text: str, limit: int) -> None:
    """At most so long, in one line, and as they are where they are short."""
    assert len(cut(text, limit)) <= limit
    line = to_one_line(text)
    assert cut(text, limit) == line or len(line) > limit
