"""The memory survives a restart; what somebody has damaged is forgotten, not stumbled over."""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.approval import MOST_PROPOSED
from rebalancer.admission.memory import MOST_IN_FLIGHT
from rebalancer.assessment.causes import MOST_STORED
from rebalancer.documents import memory as memory_document
from rebalancer.documents.memory import (
    MOST_BYTES,
    MOST_FAILED,
    MOST_QUEUED,
    MOST_SINCE,
    MOST_WINDOWS,
    memory_text,
    parse_memory,
)
from rebalancer.history.outbox import MOST_WAITING
from rebalancer.model.approvals import Proposal
from rebalancer.model.breaker import BreakerCause, BreakerState, OpenCause
from rebalancer.model.history import Entry, EntryKind, Noted
from rebalancer.model.motion import DomainMotion, NodeChange, NodeEvent
from rebalancer.model.moves import (
    NO_MEMORY,
    Drain,
    ExtraEviction,
    FailedPrediction,
    Memory,
    Move,
    MoveState,
    ObservedChange,
    OthersEvictions,
    OwnFailure,
    Reference,
    RefusedRequest,
    SentRequest,
    StartWindow,
    Target,
    ZoneSeen,
    make_token,
)
from rebalancer.model.reasons import ViolationCause
from rebalancer.ports import STATUS_BYTES
from rebalancer.tracking.changes import MOST_CHANGES
from rebalancer.tracking.motion import MOST_CHANGES as MOST_NODE_CHANGES
from rebalancer.tracking.motion import MOST_DOMAINS
from rebalancer.tracking.moves import DEFERRED_MOVES_STORED, ENDED_MOVES_STORED
from rebalancer.tracking.requests import sent_request
from tests.drawing import examples
from tests.history.build import HISTORY
from tests.scheduling.build import NOW, ZONE
from tests.tracking.build import move
from tests.tracking.test_moves import MOVE

REFUSED_MOVE = structs.replace(MOVE, uid="refused", state=MoveState.REFUSED, deferred_until=NOW)
MEMORY = Memory(
    moves=(MOVE, REFUSED_MOVE),
    seen=(("group", NOW),),
    refused=(RefusedRequest("g", 1, NOW, timedelta(minutes=1), "admission webhook guard", "not now", "shop/web-1"),),
    sent=(SentRequest(NOW, "a-1", "shop"), SentRequest(NOW + timedelta(seconds=1))),
    failed_predictions=(FailedPrediction("g", 2, NOW),),
    zones=(ZoneSeen("zone", "a", NOW),),
    changes=(ObservedChange(ViolationCause.NODE_LOST, "zone=a", NOW),),
    causes=(("0123456789abcdef", ViolationCause.ROLLOUT), ("1123456789abcdef", ViolationCause.ZONE_LOST)),
    breaker=BreakerState((OpenCause(cause=BreakerCause.API_ERRORS, part=3, total=5, bound=20, since=NOW, last=NOW),)),
    proposal=Proposal(hash="0a1b", policy="2c3d", since=NOW, uids=("u1", "u2"), approved=True),
    settling=(("fedcba9876543210", NOW),),
    windows=(StartWindow(size=8, limited=True, moved_at=NOW), StartWindow(namespace="shop", size=4, moved_at=NOW)),
    queued=(("0011223344556677", NOW),),
    outbox=HISTORY,
    noted=Noted(seq=HISTORY[-1].seq, pause="0123", policy="9f3a", open=(("0011223344556677", 1),), violated=2),
)


def test_round_trip() -> None:
    """What is written is read back."""
    assert parse_memory(memory_text(MEMORY)) == MEMORY
    assert parse_memory("") == NO_MEMORY


@pytest.mark.parametrize("name", ["earlier-memory", "earlier-memory-02c796a", "earlier-memory-0ffcfc1"])
def test_a_memory_of_an_earlier_release_is_read_whole(name: str) -> None:
    """Every value of every part that it wrote: moves, approval, placeholders and back-off among them."""
    recorded = json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    read = json.loads(msgspec.json.encode(parse_memory(recorded["stored"])))

    def left_out(before: Any, after: Any, path: str) -> Iterator[str]:
        if isinstance(before, dict):
            for key, value in before.items():
                yield from left_out(value, after.get(key), f"{path}.{key}")
        elif isinstance(before, list) and len(before) == len(after or ()):
            for number, value in enumerate(before):
                yield from left_out(value, after[number], f"{path}[{number}]")
        elif before != after:
            yield path

    times = recorded["holds"].pop("sent")  # those of the evictions; the nodes were not stored
    assert [one[:1] for one in read["requests"]] == [[time] for time in times] != []
    assert list(left_out(recorded["holds"], read, "")) == []
    assert recorded["holds"]["proposal"]["approved"] is True, "every part is filled"


def test_a_memory_of_an_older_release() -> None:
    """It lacks what that release did not store, and is read; what a newer one stores besides is left out."""
    envelope = json.loads(memory_text(MEMORY))
    stored = json.loads(zlib.decompress(b64decode(envelope["deflated"])))
    del stored["memory"]["settling"]
    for refused in stored["memory"]["refused"]:
        del refused["refuser"], refused["words"], refused["pod"]
    for stored_move in stored["memory"]["moves"]:
        del stored_move["deferred_until"]
        stored_move["invented later"] = "x"
    stored["memory"]["invented later"] = [1]
    envelope["deflated"] = b64encode(zlib.compress(json.dumps(stored).encode())).decode()
    plain = structs.replace(REFUSED_MOVE, deferred_until=None)
    request = RefusedRequest("g", 1, NOW, timedelta(minutes=1))
    older = structs.replace(MEMORY, settling=(), moves=(MOVE, plain), refused=(request,))
    assert parse_memory(json.dumps(envelope)) == older


OLDER_CAUSES = {"ScaleDown", "NodeLost", "DomainReturned", "Rollout", "LabelsChanged", "SoftConstraint", "Unknown"}
"""Those that every release reads; one that knows no other begins with an empty memory when it meets another."""


@pytest.mark.parametrize("cause", ViolationCause)
def test_every_release_reads_the_causes(cause: ViolationCause) -> None:
    """A rollback while a zone is lost forgets nothing; what only newer releases know stands in a field of its own."""
    memory = structs.replace(MEMORY, causes=(("a", cause), ("b", ViolationCause.NODE_LOST)))
    text = memory_text(memory)
    stored = json.loads(zlib.decompress(b64decode(json.loads(text)["deflated"])))["memory"]
    written = {*(one for _, one in stored["causes"]), *(change["cause"] for change in stored["changes"])}
    assert written <= OLDER_CAUSES
    assert ("zone_lost" in stored) == (cause not in OLDER_CAUSES)
    assert parse_memory(text) == memory


def test_whose_failure_it_is_is_stored() -> None:
    """With the move; of a move without one nothing is, as in documents of before."""
    others = structs.replace(MOVE, uid="2")
    own = structs.replace(MOVE, own=OwnFailure.IMAGE, template="1")
    assert parse_memory(memory_text(Memory(moves=(own, others)))).moves == (own, others)
    assert b'"own"' not in msgspec.json.encode(others)


def test_an_unexecuted_move_is_stored() -> None:
    """An older release did not store it: its planned moves are in flight."""
    unexecuted = structs.replace(MOVE, unexecuted=True)
    text = memory_text(Memory(moves=(unexecuted,)))
    assert parse_memory(text).unexecuted == (unexecuted,)
    envelope = json.loads(text)
    stored = json.loads(zlib.decompress(b64decode(envelope["deflated"])))
    del stored["memory"]["moves"][0]["unexecuted"]
    envelope["deflated"] = b64encode(zlib.compress(json.dumps(stored).encode())).decode()
    assert parse_memory(json.dumps(envelope)).in_flight == (MOVE,)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-5],
        lambda text: text.replace('"format":2', '"format":3'),
        lambda text: text.replace('"deflated":"', '"deflated":"AAAA'),
        lambda text: "[" * 5000,
        lambda text: "null",
    ],
    ids=["cut off", "another format", "not compressed", "deep", "null"],
)
def test_damage(damage: Callable[[str], str]) -> None:
    """A memory that cannot be read is no memory, and no error."""
    text = memory_text(MEMORY)
    assert damage(text) != text
    assert parse_memory(damage(text)) == NO_MEMORY


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"2026-01-01T00:00:00Z", b"2026-01-01T00:00:00"),
        (b'"state":"planned"', b'"state":"dancing"'),
        (b'"since":{"2026', b'"since":{"2x26'),
    ],
    ids=["a time without a zone", "an unknown state", "no time"],
)
def test_edits(old: bytes, new: bytes) -> None:
    """What somebody has edited into nonsense is no memory either."""
    envelope = json.loads(memory_text(MEMORY))
    data = zlib.decompress(b64decode(envelope["deflated"]))
    assert old in data
    envelope["deflated"] = b64encode(zlib.compress(data.replace(old, new))).decode()
    assert parse_memory(json.dumps(envelope)) == NO_MEMORY


def test_a_bomb() -> None:
    """A memory that decompresses to more than a controller writes is not read whole."""
    bomb = b64encode(zlib.compress(b" " * 100_000_000)).decode()
    assert parse_memory(json.dumps({"format": 2, "deflated": bomb})) == NO_MEMORY


def test_its_size_is_bounded() -> None:
    """With 20,000 violations, as many moves as may be in flight, and everything else at its bound, it fits the map."""
    random = Random(1)

    def uid() -> str:
        return str(UUID(int=random.getrandbits(128)))

    def name(number: int) -> str:
        return f"team-{number % 500}/service-{number} (Deployment) topology.kubernetes.io/zone"

    targets = (Target("topology.kubernetes.io/zone", tuple(f"eu-central-1{letter}" for letter in "abcdefghijklmnop")),)
    moves = tuple(
        move(
            uid(),
            NOW + timedelta(microseconds=random.getrandbits(28)),
            namespace=f"team-{number % 500}",
            pod=f"service-{number}-{random.getrandbits(40):x}-{random.getrandbits(25):x}",
            node=f"ip-10-{random.getrandbits(8)}-{random.getrandbits(8)}-7.eu-central-1.compute.internal",
            owner_uid=uid(),
            workload=Reference(f"team-{number % 500}", "Deployment", f"service-{number}"),
            group=name(number),
            targets=targets,
            replacement=uid(),
            state=MoveState.PENDING,
        )
        for number in range(MOST_IN_FLIGHT + ENDED_MOVES_STORED)
    )
    memory = Memory(
        moves=moves,
        sent=tuple(map(sent_request, moves)),
        seen=tuple((make_token(name(number)), NOW + timedelta(seconds=number)) for number in range(20_000)),
        failed_predictions=tuple(FailedPrediction(name(number), 2, NOW) for number in range(20_000)),
        refused=tuple(RefusedRequest(name(number), 3, NOW, timedelta(minutes=4)) for number in range(20_000)),
        zones=tuple(ZoneSeen("topology.kubernetes.io/zone", f"zone-{number}", NOW) for number in range(200)),
        changes=tuple(
            ObservedChange(ViolationCause.SCALE_DOWN, name(number), NOW + timedelta(seconds=number))
            for number in range(MOST_CHANGES)
        ),
        causes=tuple((make_token(f"c{number}"), ViolationCause.SCALE_DOWN) for number in range(MOST_STORED)),
        proposal=Proposal(hash="0a1b", policy="2c3d", since=NOW, uids=tuple(uid() for _ in range(MOST_PROPOSED))),
        settling=tuple((make_token(name(number)), NOW) for number in range(20_000)),
        windows=tuple(
            StartWindow(namespace=f"team-{n}" if n else "", size=n + 1, moved_at=NOW + timedelta(seconds=n))
            for n in range(20_000)
        ),
        queued=tuple((make_token(name(number)), NOW) for number in range(20_000)),
    )
    text = memory_text(memory)
    assert len(text) <= STATUS_BYTES
    stored = parse_memory(text)
    assert stored.moves == moves
    assert stored.sent == memory.sent
    assert stored.proposal == memory.proposal
    assert stored.windows[0] == memory.windows[0]
    assert set(stored.windows) == {memory.windows[0], *memory.windows[-MOST_WINDOWS + 1 :]}
    assert len(stored.queued) == MOST_QUEUED
    assert {token for token, _ in stored.seen} == {make_token(name(number)) for number in range(MOST_SINCE)}


def largest(*, name_length: int, targets: int, zones: int) -> Memory:
    """Return a memory with as much of everything as there can be, in which no text repeats another."""
    random = Random(name_length)

    def text(length: int) -> str:
        return "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789-", k=length))

    def uid() -> str:
        return str(UUID(int=random.getrandbits(128)))

    def moment() -> datetime:
        return NOW - timedelta(microseconds=random.getrandbits(31))

    def group() -> str:
        return f"{text(min(63, name_length))} Deployment/{text(name_length)} topology.kubernetes.io/zone:1"

    def in_flight(state: MoveState) -> Move:
        workload = Reference(text(min(63, name_length)), "Deployment", text(name_length))
        return move(
            uid(),
            moment(),
            namespace=workload.namespace,
            pod=f"{workload.name[:52]}-{text(10)}",
            node=text(name_length),
            owner_uid=uid(),
            workload=workload,
            group=f"{workload.namespace} Deployment/{workload.name} kubernetes.io/hostname:1",
            targets=(
                Target("topology.kubernetes.io/zone", ("eu-west-1a", "eu-west-1b")),
                Target("kubernetes.io/hostname", tuple(text(name_length) for _ in range(targets))),
            ),
            replacement=uid(),
            state=state,
            bound_since=moment() if state is MoveState.PENDING else None,
            deferred_until=moment() if state is MoveState.REFUSED else None,
        )

    def motion() -> DomainMotion:
        at = moment()
        names = tuple(text(name_length) for _ in range(50))
        return DomainMotion(
            key=ZONE, value=text(63), since=at, until=at, moved=at, lasting=True, had=60, lost=50, nodes=names
        )

    def evicted() -> OthersEvictions:
        drains = tuple(Drain(text(name_length), text(20)) for _ in range(3))
        workload = Reference(text(63), "Deployment", text(name_length))
        pods = tuple(text(63) for _ in range(3))
        return OthersEvictions(workload=workload, since=moment(), last=moment(), number=9, pods=pods, drains=drains)

    moves = [in_flight(MoveState.PENDING) for _ in range(MOST_IN_FLIGHT)]
    moves += [in_flight(MoveState.VERIFIED) for _ in range(ENDED_MOVES_STORED)]
    moves += [in_flight(MoveState.REFUSED) for _ in range(DEFERRED_MOVES_STORED)]
    return Memory(
        moves=tuple(moves),
        sent=tuple(map(sent_request, moves)),
        seen=tuple((make_token(str(number)), moment()) for number in range(20_000)),
        settling=tuple((make_token(str(number)), moment()) for number in range(20_000)),
        failed_predictions=tuple(FailedPrediction(group(), 2, moment()) for _ in range(2_000)),
        refused=tuple(RefusedRequest(group(), 3, moment(), timedelta(minutes=8)) for _ in range(2_000)),
        zones=tuple(ZoneSeen(f"key-{number % 20}", text(63), moment()) for number in range(zones)),
        extra_evictions=tuple(ExtraEviction(one.group, 3, one.uid) for one in moves),
        changes=tuple(ObservedChange(ViolationCause.SCALE_DOWN, group(), moment()) for _ in range(MOST_CHANGES)),
        causes=tuple((make_token(text(9)), ViolationCause.SCALE_DOWN) for _ in range(MOST_STORED)),
        proposal=Proposal(hash="0a1b", policy="2c3d", since=NOW, uids=tuple(uid() for _ in range(MOST_PROPOSED))),
        windows=tuple(StartWindow(namespace=text(63), size=2, moved_at=moment()) for _ in range(1_000)),
        queued=tuple((make_token(text(9)), moment()) for _ in range(1_000)),
        node_changes=tuple(
            NodeChange(moment(), text(name_length), NodeEvent.CORDONED, ZONE, text(10), "kubectl")
            for _ in range(MOST_NODE_CHANGES)
        ),
        domains_in_motion=tuple(motion() for _ in range(MOST_DOMAINS)),
        evicted_by_others=tuple(evicted() for _ in range(1_000)),
    )


@examples(6)
@given(st.integers(1, 63), st.integers(0, 16), st.integers(0, 4_000))
@example(63, 16, 4_000)
@example(34, 4, 0)
def test_no_memory_is_larger_than_the_map(name_length: int, targets: int, zones: int) -> None:
    """With names of up to 63 characters that share nothing; moves in flight, rates, a proposal always stay."""
    memory = largest(name_length=name_length, targets=targets, zones=zones)
    text = memory_text(memory)
    assert len(text.encode()) <= MOST_BYTES <= STATUS_BYTES
    stored = parse_memory(text)

    def needed(moves: tuple[Move, ...]) -> list[object]:
        return [structs.replace(one, node="", targets=one.targets[:1]) for one in moves]

    assert needed(stored.in_flight) == needed(memory.in_flight)
    assert (stored.sent, stored.proposal) == (memory.sent, memory.proposal)
    assert stored.extra_evictions == memory.extra_evictions


@pytest.mark.parametrize("bound", [0, 1_000, 20_000, 60_000, 100_000, 150_000, 200_000])
def test_no_bound_leaves_out_a_move_in_flight(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the bound is, every move in flight is stored as it is: what is too large then is not saved."""
    monkeypatch.setattr(memory_document, "MOST_BYTES", bound)
    memory = largest(name_length=20, targets=4, zones=1_000)
    stored = parse_memory(memory_text(memory))

    def needed(moves: tuple[Move, ...]) -> list[object]:
        return [structs.replace(one, node="", targets=()) for one in moves]

    assert needed(stored.in_flight) == needed(memory.in_flight)
    assert (stored.sent, stored.proposal) == (memory.sent, memory.proposal)


def test_parts_are_left_out_in_the_order_in_which_they_are_missed_least() -> None:
    """A memory that is a little too large loses the newest beginnings of violations, and nothing else."""
    largest_one = largest(name_length=1, targets=0, zones=100)
    memory = structs.replace(
        largest_one, extra_evictions=(), node_changes=(), domains_in_motion=(), evicted_by_others=()
    )
    stored = parse_memory(memory_text(memory))
    assert len(stored.seen) == MOST_SINCE // 5
    assert max(moment for _, moment in stored.seen) <= sorted(moment for _, moment in memory.seen)[MOST_SINCE // 5]
    assert (stored.moves, stored.zones, len(stored.refused)) == (memory.moves, memory.zones, MOST_FAILED)


def test_entries_of_the_history_are_left_out_first() -> None:
    """As many as may wait fit beside an ordinary memory; of one that is too large the newest hundred are stored."""
    random = Random(1)
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789-", k=500)) for _ in range(MOST_WAITING)]
    outbox = tuple(
        Entry(seq=number, at=number, kind=EntryKind.MOVED, pod=text[:253], node=text[253:])
        for number, text in enumerate(words, start=1)
    )
    memory = structs.replace(MEMORY, outbox=outbox)
    text = memory_text(memory)
    assert len(text) > MOST_BYTES // 2
    assert parse_memory(text) == memory
    seen = tuple((make_token(str(number)), NOW - timedelta(seconds=number)) for number in range(MOST_SINCE))
    stored = parse_memory(memory_text(structs.replace(memory, seen=seen)))
    assert stored.outbox == outbox[-100:]
    assert (len(stored.seen), stored.noted) == (MOST_SINCE, memory.noted)
