"""What is stored when, and who may write over whom: the status ConfigMap and the Lease on a small API server."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rebalancer.adapters.kubernetes.configmaps import StatusMap
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.controller.election import Election
from rebalancer.controller.elector import Elector
from rebalancer.controller.saver import MOST_ATTEMPTS, SAME_AGAIN, Saver
from rebalancer.controller.state import Clocks, LoopState
from rebalancer.documents.memory import parse_memory
from rebalancer.documents.status import StatusDocument
from rebalancer.model.moves import SentRequest
from rebalancer.ports import MEMORY_KEY, STATUS_KEY
from rebalancer.simulator import SimulatedCluster
from tests.adapters.kubernetes.fake_server import ApiServer, served
from tests.controller.simulated import Simulation, eager, skewed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATUS = "/api/v1/namespaces/ns/configmaps/rebalancer-status"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/rebalancer"
PATCH = ("PATCH", STATUS)


class Process:
    """A process that leads: its Lease, its status, and its state after a cycle."""

    def __init__(self, transport: Transport, name: str = "one") -> None:
        self.time = 0.0
        clocks = Clocks(now=lambda: NOW + timedelta(seconds=self.time), monotonic=lambda: self.time)
        self.map = StatusMap(transport, "ns")
        self.elector = Elector(
            lease=KubernetesLease(transport, namespace="ns", timeout=2.0),
            election=Election(identity=name, duration=15.0, deadline=10.0),
            retry=2.0,
            clocks=clocks,
            load_memory=lambda: parse_memory(self.map.load(MEMORY_KEY)),
            tell=lambda _: None,
        )
        self.elector.take_part()
        self.saver = Saver(self.map, clocks, self.elector.confirms, identity=name, policy_source="p")  # type: ignore[arg-type]  # it saves and loads
        simulation = Simulation(SimulatedCluster(skewed([[2], [2], [2]]).snapshot()), eager())
        simulation.cycles(1)
        self.simulation = simulation

    @property
    def state(self) -> LoopState:
        state = self.simulation.runner.state
        return replace(state, leadership=replace(state.leadership, term=1))

    def save(self, state: LoopState | None = None) -> str | None:
        """Save a state, or the present one; return the problem, None where nothing was to be stored."""
        answer = self.saver.save(state or self.state)
        return None if answer is None else answer.problem


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def one(server: ApiServer) -> Iterator[Process]:
    with served(server) as transport:
        yield Process(transport)


def write_as_stranger(server: ApiServer) -> None:
    server.put(STATUS, data={MEMORY_KEY: "of a stranger", "theirs": "1"})


def stored(server: ApiServer) -> set[str]:
    return set(server.data(STATUS))


# How often


def test_what_differs_in_times_alone_waits_for_a_quarter_of_a_minute(server: ApiServer, one: Process) -> None:
    """Of a cycle a second one in fifteen is stored."""
    assert SAME_AGAIN == 15
    saved = []
    for _ in range(31):
        saved.append(one.save())
        one.simulation.cycles(1, apart=1)
        one.time += 1
    assert [number for number, answer in enumerate(saved) if answer == ""] == [0, 15, 30]
    assert server.requests.count(PATCH) == 2, "the first one creates it"


def test_whatever_else_differs_is_stored_at_once(server: ApiServer, one: Process) -> None:
    """The memory, the status, another term; and again where the last answer was none."""
    assert one.save() == ""
    assert one.save() is None
    sent = replace(one.state, memory=msgspec.structs.replace(one.state.memory, sent=(SentRequest(NOW),)))
    assert one.save(sent) == ""
    assert one.save(sent) is None
    erroneous = replace(sent, in_force=replace(sent.in_force, policy_error="line 1"))
    assert one.save(erroneous) == ""
    server.answers[PATCH] = 500, "broken"
    assert "broken" in str(one.save(sent))
    del server.answers[PATCH]
    assert one.save(sent) == ""
    assert one.save(replace(sent, leadership=replace(sent.leadership, term=2))) == ""


def test_what_evictions_wait_for_is_stored_at_once(one: Process) -> None:
    """So is what a placeholder waits for, and the end of the process, whatever has changed."""
    assert one.save() == ""
    other = Simulation(SimulatedCluster(skewed([[4], [2], [0]]).snapshot()), eager())
    other.runner._spawn = lambda _: None  # the requests hang
    other.runner.tick()
    eviction = other.runner.state.cycle.fates.going[0] if other.runner.state.cycle is not None else None
    assert eviction is not None
    state = one.state
    assert one.save(replace(state, queue=replace(state.queue, evictions=(eviction,)))) == ""
    assert one.save() is None
    assert one.save(replace(state, leadership=replace(state.leadership, stopping=True))) == ""


# Over whom


def test_a_stranger_is_overwritten_by_who_holds_the_lease(server: ApiServer, one: Process) -> None:
    """However often it writes; nothing of it is read as ours, and its documents go."""
    assert one.save() == ""
    before = one.state
    for number in range(1, 6):
        write_as_stranger(server)
        assert one.save(ending(before, number)) == ""
        assert stored(server) >= {MEMORY_KEY, STATUS_KEY}
        assert "theirs" not in stored(server)
        assert len(parse_memory(server.data(STATUS)[MEMORY_KEY]).sent) == number
    assert ("GET", LEASE) in server.requests


def ending(state: LoopState, number: int = 1) -> LoopState:
    """Return the state of a process that ends, with another memory for each number: it is stored at once."""
    memory = msgspec.structs.replace(state.memory, sent=(SentRequest(NOW),) * number)
    return replace(state, memory=memory, leadership=replace(state.leadership, stopping=True))


def test_a_stranger_that_is_always_quicker_is_given_up_for_this_time(
    server: ApiServer, one: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten writes; the next request to save tries again."""
    assert one.save() == ""
    server.requests.clear()
    honest = server._answer

    def answer(method: str, path: str, query: dict[str, list[str]], body: object) -> object:
        if (method, path) == PATCH:
            write_as_stranger(server)
        return honest(method, path, query, body)

    monkeypatch.setattr(server, "_answer", answer)
    stopping = ending(one.state)
    assert "HTTP 409" in str(one.save(stopping))
    assert server.requests.count(PATCH) == MOST_ATTEMPTS
    monkeypatch.undo()
    assert one.save(stopping) == ""


def lose_to_another(server: ApiServer, one: Process) -> None:
    """Let another process take the Lease; this one does not know yet."""
    record = {"holderIdentity": "two", "leaseDurationSeconds": 15, "leaseTransitions": 2}
    server.put(LEASE, spec=record)


def win_back(server: ApiServer, one: Process) -> None:
    """Let this process hold it again, after another has led in between."""
    spec = server.objects[LEASE]["spec"]
    server.put(LEASE, spec={**spec, "leaseTransitions": 2})


def hide_lease(server: ApiServer, one: Process) -> None:
    server.answers["GET", LEASE] = 503, "not now"


def run_out(server: ApiServer, one: Process) -> None:
    one.time += 10.0


def hide_status(server: ApiServer, one: Process) -> None:
    server.answers["GET", STATUS] = 503, "not now"


@pytest.mark.parametrize("trouble", [lose_to_another, win_back, hide_lease, run_out, hide_status])
def test_who_may_not_hold_the_lease_overwrites_nothing(
    server: ApiServer, one: Process, trouble: Callable[[ApiServer, Process], None]
) -> None:
    """Not at the second try either, when it knows the version: what is there may be the next leader's."""
    assert one.save() == ""
    write_as_stranger(server)
    trouble(server, one)
    stopping = ending(one.state)
    for _ in range(3):
        assert one.save(stopping) != ""
        assert stored(server) == {MEMORY_KEY, "theirs"}
    server.answers.clear()
    if trouble in {hide_lease, hide_status}:
        assert one.save(stopping) == "", "once it can be read that it is ours"


def test_a_new_term_begins_with_what_it_has_read(server: ApiServer, one: Process) -> None:
    """Whatever was contested in the last one."""
    assert one.save() == ""
    write_as_stranger(server)
    lose_to_another(server, one)
    stopping = ending(one.state)
    assert one.save(stopping) != ""
    one.map.load(MEMORY_KEY)
    assert one.save(replace(stopping, leadership=replace(stopping.leadership, term=2))) == ""


def test_what_is_stored_says_as_of_when(one: Process) -> None:
    """What differs in that alone is not stored again before its time: a reader sees how old it is."""
    one.save()
    stored = msgspec.json.decode(one.map.load(STATUS_KEY), type=StatusDocument)
    assert stored.as_of == NOW
    one.time = SAME_AGAIN - 1
    one.elector.take_part()
    assert one.save() is None
    one.time = SAME_AGAIN
    one.save()
    stored = msgspec.json.decode(one.map.load(STATUS_KEY), type=StatusDocument)
    assert stored.as_of == NOW + timedelta(seconds=SAME_AGAIN)
