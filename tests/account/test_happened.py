"""What has happened in a step: each rendering of the list names a thing once, and loses none."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.account.happened import (
    Declared,
    Evicted,
    Granted,
    LimitChanged,
    MoveEnded,
    Occurrence,
    PauseChanged,
    Paused,
    RequestAnswered,
    ViolationBegan,
    ViolationEnded,
    WholeEnded,
    ZoneLost,
    ZoneReturned,
)
from rebalancer.admission.pause import Pause
from rebalancer.controller.counters import MOVES, WORKLOAD_EVICTIONS, outcome_of
from rebalancer.controller.loop import step
from rebalancer.controller.state import (
    InForce,
    Leading,
    LoopState,
    PauseRead,
    PolicyAuthorRead,
    PolicyLoaded,
    ProcessFacts,
    Publish,
)
from rebalancer.controller.telemetry import Telemetry
from rebalancer.documents.memory import parse_memory
from rebalancer.model.events import Event, EventReason, Regarding
from rebalancer.model.history import NOBODY, EntryKind
from rebalancer.model.moves import NEVER_GRANTED, Memory, MoveState
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy
from rebalancer.ports import MEMORY_KEY, EvictionResult
from rebalancer.simulator import ZONE, SimulatedCluster
from rebalancer.simulator.timings import Faults
from tests.controller.simulated import Simulation, eager
from tests.controller.test_workload_evictions import telemetry
from tests.drawing import examples
from tests.reporting.test_plan_numbers import clusters
from tests.tracking.build import move as a_move

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROCESS = ProcessFacts(
    policy_object=Regarding(kind="ConfigMap", namespace="ns", name="policy"),
    pause_object=Regarding(kind="ConfigMap", namespace="ns", name="pause"),
    approval_object=Regarding(kind="ConfigMap", namespace="ns", name="approval"),
    history_name="one",
)
RECORDED = {
    MoveEnded: {EntryKind.MOVED},
    ViolationBegan: {EntryKind.VIOLATED, EntryKind.WITHOUT_NODE},
    ViolationEnded: {
        EntryKind.SATISFIED,
        EntryKind.NODE_FOUND,
        EntryKind.NO_LONGER_REQUIRED,
        EntryKind.END_UNKNOWN,
    },
    ZoneLost: {EntryKind.ZONE_LOST},
    ZoneReturned: {EntryKind.ZONE_RETURNED},
    WholeEnded: {EntryKind.APPROVAL_ENDED},
}
DECLARED = (
    EntryKind.PAUSED,
    EntryKind.RESUMED,
    EntryKind.APPROVED,
    EntryKind.POLICY_CHANGED,
    EntryKind.POLICY_REFUSED,
    EntryKind.POLICY_MISSING,
    EntryKind.RIGHT_MISSING,
    EntryKind.RIGHT_GRANTED,
)


class Recording(SimulatedCluster):
    """A cluster that keeps the events."""

    events: list[Event]

    def record(self, event: Event) -> None:
        self.events.append(event)


class Following:
    """Keeps each state, and gives it to the metrics."""

    def __init__(self, metrics: Telemetry) -> None:
        self._metrics = metrics
        self.states: list[LoopState] = []
        self.answers: list[str] = []

    def phase(self, name: str) -> AbstractContextManager[None]:
        return self._metrics.phase(name)

    def changed(self, state: LoopState) -> None:
        self._metrics.changed(state)
        self.states.append(state)
        self.answers += [one.result for one in state.happened if isinstance(one, RequestAnswered)]


class Run:
    """A leader on a simulated cluster, whatever happens to both."""

    def __init__(self, snapshot: Snapshot, policy: Policy, seed: int) -> None:
        self.cluster = Recording(snapshot, seed=seed, faults=Faults(lost_answers=0.2))
        self.cluster.events = []
        self._is_lost = False
        self.metrics, _ = telemetry()
        self.following = Following(self.metrics)
        self.simulation = Simulation(self.cluster, policy, self.following)
        runner = self.simulation.runner
        runner.state = replace(runner.state, process=PROCESS)

    def take(self, what: str) -> None:
        runner = self.simulation.runner
        match what:
            case "pause" | "resume":
                self.cluster.pause = Pause(by="alice") if what == "pause" else None
                runner.tell(PauseRead(pause=self.cluster.pause))
            case "follow":
                runner.tell(Leading(leads=False))
            case "lead":
                runner.tell(Leading(leads=True, memory=parse_memory(self.cluster.load(MEMORY_KEY))))
            case "policy":
                policy = runner.state.in_force.policy.cluster
                mode = Mode.OBSERVE if policy.mode is Mode.EVICT else Mode.EVICT
                runner.tell(PolicyLoaded(policy=policy.model_copy(update={"mode": mode})))
            case "zone":
                nodes = self.cluster.nodes
                (nodes.restore_domain if self._is_lost else nodes.remove_domain)(ZONE, "a")
                self._is_lost = not self._is_lost
            case "wait":
                self.cluster.advance(900)
        self.simulation.cycles(2)

    @property
    def happened(self) -> Sequence[Occurrence]:
        return [occurrence for state in self.following.states for occurrence in state.happened]

    def counted(self, name: str) -> float:
        (family,) = self.metrics._metrics.counter(MOVES if name == MOVES.name else WORKLOAD_EVICTIONS).collect()
        return sum(sample.value for sample in family.samples if sample.name == name)


ACTIONS = st.lists(
    st.sampled_from(["run", "run", "run", "wait", "pause", "resume", "follow", "lead", "policy", "zone"]),
    max_size=5,
)


@given(drawn=clusters(), seed=st.integers(0, 9), actions=ACTIONS)
@examples(40)
def test_each_rendering_names_everything_once(
    drawn: tuple[Snapshot, Policy], seed: int, actions: Sequence[str]
) -> None:
    """Over any run: repairs, pauses, other policies, a lost Lease, waits in which replacements get lost."""
    run = Run(*drawn, seed)
    for action in ("run", *actions):
        run.take(action)
    check_entries(run)
    check_moves(run)
    check_events(run)


def check_entries(run: Run) -> None:
    """Of each kind a step has as many entries as occurrences, and only while the process leads."""
    last = 0
    for state in run.following.states:
        new = [entry for entry in state.memory.outbox if entry.seq > last]
        last = max((entry.seq for entry in state.memory.outbox), default=last)
        assert len({(entry.kind, entry.uid, entry.token, entry.what) for entry in new}) == len(new)
        kinds = Counter(entry.kind for entry in new)
        for happened, recorded in RECORDED.items():
            number = sum(isinstance(occurrence, happened) for occurrence in state.happened)
            assert sum(kinds[kind] for kind in recorded) == (number if state.leadership.leads else 0)
        waits = sum(one.subject.only_waits for one in state.happened if isinstance(one, ViolationBegan) and one.subject)
        assert kinds[EntryKind.WITHOUT_NODE] == (waits if state.leadership.leads else 0)
        declared = Counter(one.kind for one in state.happened if isinstance(one, Declared))
        assert declared == Counter({kind: kinds[kind] for kind in DECLARED if kinds[kind]})


def check_moves(run: Run) -> None:
    """Compare what is counted with what one state after the other says of each move."""
    ended: Counter[str] = Counter()
    granted: Counter[str] = Counter()
    states = run.following.states
    for before, after in pairwise(states):
        if not (before.leadership.leads and after.leadership.leads):
            continue
        known = {move.uid: move.state for move in before.memory.moves}
        for move in after.memory.moves:
            was = known.get(move.uid, MoveState.PLANNED)
            ended[move.uid] += outcome_of(move) is not None and was is not move.state
            not_granted = {MoveState.PLANNED, *NEVER_GRANTED}
            granted[move.uid] += was in not_granted and move.state not in not_granted
    happened = run.happened
    assert max([*ended.values(), *granted.values()], default=0) <= 1
    own = [one.move for one in happened if isinstance(one, MoveEnded) and not one.is_late]
    assert Counter(move.uid for move in own if outcome_of(move) is not None) == +ended
    assert {one.move.uid for one in happened if isinstance(one, Granted)} >= (+granted).keys()
    assert run.counted(MOVES.name) == ended.total()
    assert run.counted(WORKLOAD_EVICTIONS.name) == granted.total()


def check_events(run: Run) -> None:
    """Each answer that grants an eviction, each verdict and each limit has its events, once."""
    reasons = Counter(event.reason for event in run.cluster.events)
    evicted = run.following.answers.count(EvictionResult.EVICTED)
    assert reasons[EventReason.EVICTED] == 2 * evicted == 2 * sum(isinstance(one, Evicted) for one in run.happened)
    ends = Counter(one.move.state for one in run.happened if isinstance(one, MoveEnded) and not one.is_late)
    assert reasons[EventReason.MOVE_VERIFIED] == 2 * ends[MoveState.VERIFIED]
    assert reasons[EventReason.MOVE_INEFFECTIVE] == 2 * (ends[MoveState.INEFFECTIVE] + ends[MoveState.LOST])
    about_limits = [one for one in run.happened if isinstance(one, LimitChanged)]
    assert sum(reasons[reason] for reason in EventReason if reason.startswith("ShareLimit")) == sum(
        len(one.owners) + len(one.pods) for one in about_limits
    )


def test_what_happened_in_one_step_is_not_said_again_in_the_next() -> None:
    """Whoever counts sees the state after each step."""
    first = LoopState(in_force=InForce(policy=eager(), policy_since=NOW), process=PROCESS)
    state, _ = step(first, Leading(leads=True), NOW)
    state, published = step(state, PauseRead(pause=Pause(by="alice")), NOW)
    pause = Pause(by="alice")
    assert state.happened == (Paused(pause), PauseChanged(None, pause))
    assert [request for request in published if isinstance(request, Publish)]
    assert step(state, PolicyAuthorRead(author=NOBODY), NOW) == (replace(state, happened=()), ())


def test_what_the_last_leader_could_not_store_has_an_entry_and_is_not_counted_again() -> None:
    """This process has published and counted it in its last term; only its entry was lost with the memory."""
    metrics, _ = telemetry()
    pending = a_move("uid", NOW, state=MoveState.PENDING)
    own = Memory(moves=(a_move("uid", NOW, state=MoveState.VERIFIED),))
    first = LoopState(in_force=InForce(policy=eager(), policy_since=NOW), process=PROCESS, memory=own)
    state, published = step(first, Leading(leads=True, memory=Memory(moves=(pending,))), NOW)
    assert [one for one in state.happened if not isinstance(one, Declared)] == [MoveEnded(own.moves[0], is_late=True)]
    assert [entry.outcome for entry in state.memory.outbox if entry.kind == EntryKind.MOVED] == ["verified"]
    assert published == ()
    metrics.changed(state)
    (family,) = metrics._metrics.counter(MOVES).collect()
    assert not any(sample.value for sample in family.samples if sample.name == MOVES.name)
