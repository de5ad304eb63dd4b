"""The loop asks about guards only where evictions wait for them, and evicts a step at a time while they are good."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.admission.pause import Pause
from rebalancer.controller.runner import Spawn, run_at_once
from rebalancer.controller.state import GuardsRead, Leading, LoopState, PauseRead, PolicyLoaded
from rebalancer.controller.status import status_document
from rebalancer.model.events import EventReason, Regarding
from rebalancer.model.reasons import Reason
from rebalancer.policy import Amount, Budgets, Guard, Guards, Mode, Policy, Prometheus
from rebalancer.reporting.acting import describe_status
from rebalancer.simulator import ZONE, SimulatedCluster
from rebalancer.simulator.trace import TraceKind
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

LASTING = 30
MANY = Amount(value=100)
PLENTY = Budgets(max_unavailable=MANY, per_workload=MANY, per_node=MANY)


def guards(seconds: int = LASTING) -> Guards:
    guard = Guard(name="errors", query="errors > 5", present="up == 1", for_=timedelta(seconds=seconds))
    return Guards(prometheus=Prometheus(url="http://prometheus:9090"), queries=(guard,))


class Asked:
    """A Prometheus with one answer at a time, which counts questions."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.verdict = Verdict.GOOD
        self.at: list[float] = []
        self._clock = clock

    def ask(self, guards: Guards) -> tuple[GuardAnswer, ...]:
        self.at.append(self._clock())
        return tuple(GuardAnswer(guard.name, self.verdict, "the query returned nothing") for guard in guards.queries)


def skewed() -> SimulatedCluster:
    """Three workloads in their namespaces, of each three pods have to move."""
    blueprint = a_cluster("abc", 2)
    for name in ("web", "db", "cart"):
        blueprint.deployment(name, on={"a-1": 3, "a-2": 2, "b-1": 1}, spread={ZONE: 1}, namespace=name)
    return SimulatedCluster(blueprint.snapshot())


class Guarded(Simulation):
    """A simulation with a Prometheus; every early cycle happens."""

    def __init__(self, policy: Policy, *, spawn: Spawn = run_at_once) -> None:
        cluster = skewed()
        self.asked = Asked(cluster.seconds)
        super().__init__(cluster, policy, spawn=spawn, monitoring=self.asked)
        cluster.listen(self._observe)

    def _observe(self, before: object, after: object) -> None:
        self.runner.observe(before, after)  # of the process that runs then

    @property
    def state(self) -> LoopState:
        return self.runner.state

    def run(self, seconds: int) -> None:
        """Let time pass second by second; cycles come when they are due, at the latest after the interval."""
        for second in range(seconds):
            due = self.runner.time_to_cycle()
            if second % 60 == 0 or (due is not None and due <= 0.5):
                self.runner.tick()
            else:
                self.runner.drain()
            self.cluster.advance(1.0)


@pytest.fixture
def guarded() -> Guarded:
    return Guarded(eager(guards=guards(), budgets=PLENTY))


def test_steps_go_one_at_a_time_each_after_good_answers(guarded: Guarded) -> None:
    """The first not before the guard was good for 30 seconds."""
    evicted = [guarded.cluster.seconds()]
    for _ in range(400):
        guarded.run(1)
        if guarded.evictions + 1 > len(evicted):
            assert guarded.state.guards.quiet_since is None, "however soon its replacement is Ready"
        evicted += [guarded.cluster.seconds()] * (guarded.evictions + 1 - len(evicted))
    assert guarded.evictions == 9

    assert all(LASTING < later - earlier < LASTING + 15 for earlier, later in pairwise(evicted))
    assert guarded.state.cycle is not None
    assert not guarded.state.cycle.assessment.violated


def test_questions_are_few(guarded: Guarded) -> None:
    """A handful around each step, none when all is done, one in an interval while the guard is bad."""
    guarded.run(600)
    assert guarded.state.cycle is not None
    assert not guarded.state.cycle.assessment.violated
    before = len(guarded.asked.at)
    assert before <= 6 * guarded.evictions
    guarded.run(600)
    assert len(guarded.asked.at) == before
    other = Guarded(eager(guards=guards()))
    other.asked.verdict = Verdict.BAD
    other.run(600)
    assert len(other.asked.at) <= 11


@pytest.mark.parametrize("verdict", [Verdict.BAD, Verdict.ERROR])
def test_a_bad_answer_stops_until_it_was_good_again_for_long_enough(guarded: Guarded, verdict: Verdict) -> None:
    guarded.run(40)
    assert guarded.evictions == 1
    guarded.asked.verdict = verdict
    guarded.run(600)
    assert guarded.evictions == 1
    assert guarded.state.cycle is not None
    assert {one.reason for one in guarded.state.cycle.fates.kept} == {Reason.AWAITING_GUARDS}
    document = status_document(guarded.state, "one", "here")
    assert [(guard.name, guard.good) for guard in document.guards] == [("errors", False)]
    assert describe_status(document) == "mode Evict, but not every guard is good (errors): no eviction now"
    guarded.asked.verdict = Verdict.GOOD
    good_from = guarded.cluster.seconds()
    while guarded.evictions == 1:
        guarded.run(1)
        assert guarded.cluster.seconds() < good_from + 60 + LASTING + 15
    good = [at for at in guarded.asked.at if at >= good_from]
    assert guarded.cluster.seconds() - good[0] >= LASTING


def test_a_change_is_one_event_on_the_policy(guarded: Guarded) -> None:
    def reasons() -> list[str]:
        notes = [entry.detail for entry in guarded.cluster.trace if entry.kind is TraceKind.EVENT]
        return [note.partition(":")[0] for note in notes if note.startswith("Guard")]

    regarding = Regarding(kind="ConfigMap", namespace="rebalancer-system", name="rebalancer-policy")
    state = guarded.runner.state
    guarded.runner.state = replace(state, process=replace(state.process, policy_object=regarding))
    guarded.run(40)
    assert not reasons()
    guarded.asked.verdict = Verdict.BAD
    guarded.run(300)
    assert reasons() == [EventReason.GUARD_NOT_GOOD]
    guarded.asked.verdict = Verdict.GOOD
    guarded.run(120)
    assert reasons() == [EventReason.GUARD_NOT_GOOD, EventReason.GUARD_GOOD]


def test_a_restart_begins_the_time_anew(guarded: Guarded) -> None:
    guarded.run(25)
    guarded.restart()
    guarded.run(25)
    assert guarded.evictions < 1
    guarded.run(15)
    assert guarded.evictions == 1


def test_leadership_that_was_lost_begins_the_time_anew(guarded: Guarded) -> None:
    """Even if it is won again at once: another leader may have acted in between."""
    guarded.run(25)
    for leads in (False, True):
        guarded.runner.tell(Leading(leads=leads))
    guarded.run(25)
    assert guarded.evictions < 1
    guarded.run(15)
    assert guarded.evictions == 1


def test_who_does_not_lead_asks_nothing(guarded: Guarded) -> None:
    guarded.runner.tell(Leading(leads=False))
    guarded.run(120)
    assert not guarded.asked.at


def test_what_is_held_by_something_else_asks_nothing() -> None:
    """A pause, or the mode Observe."""
    for mode in (Mode.OBSERVE, Mode.EVICT):
        simulation = Guarded(eager(mode, guards=guards()))
        if mode is Mode.EVICT:
            simulation.cluster.pause = Pause(reason="test")
            simulation.runner.tell(PauseRead(pause=simulation.cluster.pause))
        simulation.run(200)
        assert not simulation.asked.at


def test_a_question_that_hangs_blocks_nothing_but_evictions() -> None:
    """Cycles go on, nothing is asked beside it, and nothing is evicted; its late answer counts as of its beginning."""
    hanging: list[Callable[[], None]] = []
    simulation = Guarded(eager(guards=guards(0)), spawn=hanging.append)
    simulation.run(300)
    assert len(hanging) == 1
    assert simulation.state.turn > 4
    began = simulation.cluster.seconds() - 300
    answers = (GuardAnswer("errors", Verdict.GOOD, ""),)
    simulation.runner.tell(GuardsRead(guards=guards(0), answers=answers, at=began))
    simulation.run(5)
    assert len(hanging) == 2, "it is asked again, not evicted by an answer of long ago"
    hanging[1]()
    simulation.run(5)
    assert len(simulation.asked.at) == 1
    assert len(hanging) == 3, "the request of the one eviction that goes"


def test_an_answer_about_another_policy_changes_nothing(guarded: Guarded) -> None:
    guarded.run(20)
    before = guarded.state.guards
    guarded.runner.tell(GuardsRead(guards=guards(7), answers=(), at=guarded.cluster.seconds()))
    guarded.runner.drain()
    assert guarded.state.guards.good_since == before.good_since
    guarded.runner.tell(PolicyLoaded(policy=eager(guards=guards(40))))
    guarded.run(35)
    assert guarded.evictions < 1, "the new guard was asked from then on"
    guarded.run(20)
    assert guarded.evictions == 1


def test_without_a_prometheus_nothing_goes() -> None:
    simulation = Simulation(skewed(), eager(guards=guards()))
    simulation.cycles(20)
    assert not simulation.evictions


def test_a_canary_goes_before_the_others_of_its_workload() -> None:
    """The move of one pod is verified, then the rest goes at once; without canaries it all goes at once."""
    for canary, first in ((0, 9), (1, 3)):
        policy = eager(budgets=PLENTY.model_copy(update={"canary": canary}))
        simulation = Simulation(skewed(), policy)
        simulation.runner.tick()
        assert simulation.evictions == first
        assert simulation.runner.state.cycle is not None
        reasons = {one.reason for one in simulation.runner.state.cycle.fates.kept}
        assert reasons == ({Reason.AWAITING_CANARY} if canary else set())
        stored: set[int] = set()
        for _ in range(12):
            simulation.cycles(1)
            stored.add(len(simulation.runner.state.memory.canaries))
        assert stored == ({0, 3} if canary else {0}), "while the workloads are under repair"
        assert simulation.evictions == 9
        assert not simulation.runner.state.cycle.assessment.violated


def test_an_answer_that_decides_nothing_makes_no_cycle(guarded: Guarded) -> None:
    """On a large cluster each takes seconds; one that turns bad, or is good for long enough, makes one at once."""
    guarded.run(5)
    turn, by, at = guarded.state.turn, guards(), guarded.cluster.seconds()
    good = GuardAnswer("errors", Verdict.GOOD, "")
    for verdict, later, cycles in (
        (good, 5, 0),
        (good._replace(verdict=Verdict.BAD), 6, 1),
        (good, 7, 2),
        (good, 37, 3),
    ):
        guarded.runner.tell(GuardsRead(guards=by, answers=(verdict,), at=at + later))
        guarded.runner.drain()
        assert guarded.state.turn == turn + cycles
