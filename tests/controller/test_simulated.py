"""The whole loop on the simulated cluster: what it promises, whatever the scheduler and the network do."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rebalancer.admission.pause import Pause
from rebalancer.controller.runner import EARLY_SECONDS
from rebalancer.controller.state import ApprovalRead, Leading, LoopEvent, LoopState, PauseRead, Saved
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.moves import Move, MoveState
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import NOTHING, OwnerReference
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.single_class.minimum import min_evictions, sum_of_minima
from rebalancer.policy import Amount, Budgets, Mode, Spread, load_policy
from rebalancer.ports import MEMORY_KEY, PLAN_KEY, Document, EvictionAnswer, EvictionResult, SaveAnswer
from rebalancer.simulator import (
    Faults,
    SimulatedCluster,
    Span,
    Timings,
    pick_most_crowded,
)
from tests.build import a_cluster
from tests.controller.simulated import Simulation, Watching, eager, skewed
from tests.drawing import examples
from tests.planning.build import softly
from tests.planning.states import CACHE, bounds, state
from tests.tracking.build import move

ZONES = "abc"
PLACEHOLDER = Placeholder(name="p-1", token="p", requests=NOTHING, node_affinity=NodeAffinity())


def standing(snapshot: Snapshot, counts: list[list[int]]) -> list[list[int]]:
    """Count the workload's pods by node, in the shape of the layout."""
    held = Counter(pod.node for pod in snapshot.pods if not pod.terminating)
    return [[held[f"{name}-{n}"] for n in range(1, len(nodes) + 1)] for name, nodes in zip(ZONES, counts, strict=False)]


layout = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=2, max_size=3).filter(
    lambda counts: sum(map(sum, counts)) >= 2
)
skew = st.integers(1, 2)


@given(layout, skew, skew, st.integers(0, 2**32), st.booleans(), st.booleans())
@examples(30)
def test_repair(counts: list[list[int]], zone: int, host: int, seed: int, stateful: bool, crowded: bool) -> None:
    """At most one eviction more than the distance, nothing pending or worse, no budget overspent, then it is quiet."""
    blueprint = skewed(counts, zone, host, stateful=stateful)
    cluster = SimulatedCluster(blueprint.snapshot(), seed=seed, choose=pick_most_crowded if crowded else None)
    simulation = Simulation(cluster, eager())
    before = min_evictions(state(counts), bounds(zone, host), 0, CACHE)
    simulation.cycles(2 * (before or 2) + 4, apart=30)
    cluster.advance(120)
    snapshot = cluster.snapshot(cluster.now)
    assert not [pod for pod in snapshot.pods if pod.waiting]
    assert len(snapshot.pods) == sum(map(sum, counts))
    assert set(simulation.observer.answers) <= {EvictionResult.EVICTED}, "planned within the budget: nothing is refused"
    after = min_evictions(state(standing(snapshot, counts)), bounds(zone, host), 0, CACHE)
    apart = sum_of_minima(state(counts), bounds(zone, host), CACHE)
    if before is None:
        assert (
            sum_of_minima(state(standing(snapshot, counts)), bounds(zone, host), CACHE) <= apart - simulation.evictions
        )
    else:
        assert after is not None
        assert after <= before
        assert simulation.evictions <= before + 1
    quiet = simulation.evictions
    simulation.cycles(2)
    assert simulation.evictions == quiet


@given(layout, st.integers(0, 2**32), st.floats(0, 0.5), st.floats(0, 20), st.lists(st.booleans(), max_size=12))
@examples(30)
def test_restarts_lost_answers_and_stale_watches(
    counts: list[list[int]], seed: int, lost: float, delay: float, restarts: list[bool]
) -> None:
    """A restart at any cycle, lost answers and old views never cost more than a repair's one eviction to spare."""
    faults = Faults(lost_answers=lost, watch_delay=delay)
    cluster = SimulatedCluster(skewed(counts, 1, 1).snapshot(), seed=seed, faults=faults)
    simulation = Simulation(cluster, eager())
    before = min_evictions(state(counts), bounds(1, 1), 0, CACHE)
    for restart in restarts:
        if restart:
            simulation.restart()
        simulation.cycles(1, apart=15)
    simulation.cycles(2 * (before or 0) + 5, apart=60)
    cluster.advance(300)
    snapshot = cluster.snapshot(cluster.now)
    assert not [pod for pod in snapshot.pods if pod.waiting]
    gone = sum(1 for pod in skewed(counts, 1, 1).snapshot().pods if pod.uid not in snapshot.pod)
    after = min_evictions(state(standing(snapshot, counts)), bounds(1, 1), 0, CACHE)
    if before is not None and after is not None:
        assert gone <= before - after + 1


class FrozenView(SimulatedCluster):
    """A cluster of which the controller sees an old state, as if it had been stopped since."""

    view: Snapshot | None = None

    def snapshot(self, now: datetime) -> Snapshot:
        return super().snapshot(now) if self.view is None else self.view.at(now)


@given(layout, st.integers(0, 2**32), st.booleans())
@examples(20)
def test_an_old_view_evicts_nothing_that_the_true_state_does_not_need(
    counts: list[list[int]], seed: int, stateful: bool
) -> None:
    """Another process repairs while this one stands still: by its old view it evicts no pod."""
    cluster = FrozenView(skewed(counts, 1, 1, stateful=stateful).snapshot(), seed=seed)
    old = cluster.snapshot(cluster.now)
    another = Simulation(cluster, eager())
    another.cycles(2 * (min_evictions(state(counts), bounds(1, 1), 0, CACHE) or 2) + 4, apart=30)
    assume(another.evictions > 0)
    cluster.advance(120)
    cluster.view = old
    simulation = Simulation(cluster, eager())
    simulation.cycles(3)
    assert simulation.evictions == 0


def test_a_step_on_an_old_view_has_a_cycle_follow() -> None:
    """It says which pod is not where it was, and a second later there is another plan, long before the interval."""
    cluster = FrozenView(skewed([[3, 3], [3, 3], [0, 0]], 1, 9, budget=None).snapshot(), seed=1)
    cluster.view = cluster.snapshot(cluster.now)
    gone = cluster.view.pods[-1]
    cluster.evict(move(gone.uid, cluster.now, namespace=gone.namespace, pod=gone.name))
    cluster.advance(30)
    simulation = Simulation(cluster, eager())
    with capture_logs() as logs:
        simulation.runner.tick()
        simulation.runner.drain()
    (why,) = {entry["why"] for entry in logs if entry["event"] == "eviction held back"}
    assert f"pod {gone.name} is gone, it was on node {gone.node}" in why
    assert simulation.evictions == 0
    assert simulation.runner.time_to_cycle() == EARLY_SECONDS
    cluster.view = None
    cluster.advance(EARLY_SECONDS)
    simulation.runner.tick()
    assert simulation.evictions > 0


def test_a_scheduler_that_is_never_as_predicted_ends_the_repair() -> None:
    """After three failed predictions in a row nothing more is evicted, however long replacements take to appear.

    A StatefulSet's replacement is created when its predecessor is gone: until then the constraint holds.
    """
    blueprint = a_cluster(ZONES, 1, {"a-1": 3, "b-1": 1, "c-1": 1}, stateful=True)
    timings = Timings(stopping=Span(20, 20))
    cluster = SimulatedCluster(softly(blueprint.snapshot()), timings=timings, choose=pick_most_crowded)
    simulation = Simulation(cluster, eager(spread=Spread(for_=timedelta(0), act_on=tuple(WhenUnsatisfiable))))
    simulation.cycles(300)
    assert simulation.evictions == 3


def test_a_zone_that_returns() -> None:
    """Twelve pods on two of three zones: four evictions, one each, and the cluster stands even."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    simulation = Simulation(cluster, eager())
    simulation.cycles(20)
    assert simulation.evictions == 4
    assert standing(cluster.snapshot(cluster.now), [[0, 0]] * 3) == [[2, 2]] * 3


@pytest.mark.parametrize("ahead", [-30.0, -1.0, -0.3, 0.3, 1.0, 30.0])
def test_a_clock_that_differs_from_the_servers(ahead: float) -> None:
    """Every replacement is recognised, whatever the controller's clock says, and nothing is evicted twice."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    simulation = Simulation(cluster, eager(), ahead=timedelta(seconds=ahead))
    simulation.cycles(20)
    assert simulation.evictions == 4
    assert {move.state for move in simulation.runner.state.memory.moves} == {MoveState.VERIFIED}


def test_observing() -> None:
    """In Observe nothing is evicted, and the plan says why."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot())
    simulation = Simulation(cluster, eager(Mode.OBSERVE))
    simulation.cycles(5)
    assert simulation.evictions == 0
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    assert {one.reason for one in cycle.fates.kept if one.eviction in cycle.plan.fates.going} == {"ObserveOnly"}
    assert cycle.plan.lower_bound == 4


def approving(cluster: SimulatedCluster, **changes: Any) -> Simulation:
    return Simulation(cluster, eager(Mode.APPROVE, **changes))


def pending(simulation: Simulation) -> dict[str, Any]:
    """Return the plan that people read in the status."""
    plan: dict[str, Any] = json.loads(simulation.cluster.load(PLAN_KEY))
    return plan


def test_a_person_approves_every_step() -> None:
    """Nothing is evicted before; then exactly the pods of the plan, and the next plan needs an approval of its own."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    simulation = approving(cluster)
    evicted: list[str] = []
    while True:
        simulation.cycles(6)
        assert simulation.evictions == len(evicted)
        plan = pending(simulation)
        if not plan["evictions"]:
            break
        simulation.runner.tell(ApprovalRead(approved=plan["planHash"]))
        simulation.cycles(1)
        evicted += [eviction["uid"] for eviction in plan["evictions"]]
        assert [move.uid for move in simulation.runner.state.memory.moves] == evicted
    assert len(evicted) == 4
    assert standing(cluster.snapshot(cluster.now), [[0, 0]] * 3) == [[2, 2]] * 3


def test_an_approval_serves_once() -> None:
    """The hash stays in the ConfigMap; no later plan has it."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    simulation = approving(cluster)
    simulation.cycles(2)
    plan = pending(simulation)
    simulation.runner.tell(ApprovalRead(approved=plan["planHash"]))
    simulation.cycles(20)
    assert simulation.evictions == len(plan["evictions"]) == 1
    assert pending(simulation)["planHash"] != plan["planHash"]


def test_a_proposal_and_its_approval_survive_a_restart() -> None:
    """Another process proposes the same plan, and carries out what is left of an approved one."""

    class Paused(SimulatedCluster):
        """Pauses the controller after the first eviction."""

        tell: Callable[[LoopEvent], None]
        pauses = True

        def evict(self, move: Move) -> EvictionAnswer:
            if self.pauses:
                self.pause = Pause()
                self.tell(PauseRead(pause=self.pause))
            return super().evict(move)

    budgets = Budgets(max_unavailable=Amount(value=4), per_workload=Amount(value=4))
    cluster = Paused(skewed([[3, 3], [3, 3], [0, 0]], 1, 1, budget=4).snapshot(), seed=1)
    simulation = approving(cluster, budgets=budgets)
    simulation.cycles(1)
    plan = pending(simulation)
    simulation.restart()
    simulation.cycles(1)
    assert {**pending(simulation), "generatedAt": 0} == {**plan, "generatedAt": 0}
    assert len(plan["evictions"]) == 4
    simulation.runner.tell(ApprovalRead(approved=plan["planHash"]))
    cluster.tell = simulation.runner.tell
    simulation.cycles(2)
    assert simulation.evictions == 1
    left = pending(simulation)
    assert left["planHash"] == plan["planHash"]
    assert [entry["uid"] for entry in left["evictions"]] == [entry["uid"] for entry in plan["evictions"][1:]]
    simulation.restart()
    cluster.pause, cluster.pauses = None, False
    simulation.cycles(10)
    assert {move.uid for move in simulation.runner.state.memory.moves} == {entry["uid"] for entry in plan["evictions"]}
    assert simulation.evictions == 4


def test_a_plan_that_nobody_approves_expires() -> None:
    """It is replaced by a new one after `planTTL`; the old hash approves nothing any more."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    simulation = approving(cluster, plan_ttl=timedelta(minutes=5))
    simulation.cycles(1, apart=60)
    first = pending(simulation)
    simulation.cycles(4, apart=60)
    assert {**pending(simulation), "generatedAt": 0} == {**first, "generatedAt": 0}
    simulation.cycles(1, apart=60)
    second = pending(simulation)
    assert (second["planHash"] != first["planHash"], second["evictions"]) == (True, first["evictions"])
    simulation.runner.tell(ApprovalRead(approved=first["planHash"]))
    simulation.cycles(2, apart=60)
    assert simulation.evictions == 0


@given(layout, st.integers(0, 2**32), st.lists(st.sampled_from(["approve", "old", "nothing", "restart"]), max_size=12))
@examples(25)
def test_only_approved_pods_are_evicted(counts: list[list[int]], seed: int, actions: list[str]) -> None:
    """Whatever people do and when, and however often the controller starts again."""
    cluster = SimulatedCluster(skewed(counts, 1, 1).snapshot(), seed=seed)
    simulation = approving(cluster, plan_ttl=timedelta(minutes=2))
    approved: set[str] = set()
    hashes = ["none"]
    for action in actions:
        simulation.cycles(1, apart=30)
        plan = pending(simulation)
        if action == "restart":
            simulation.restart()
        if action in {"approve", "restart"}:
            hashes.append(plan["planHash"])
            approved |= {entry["uid"] for entry in plan["evictions"]}
        if action != "nothing":
            simulation.runner.tell(ApprovalRead(approved=hashes[0] if action == "old" else hashes[-1]))
    simulation.cycles(3, apart=30)
    assert {move.uid for move in simulation.runner.state.memory.moves} <= approved
    before = {pod.uid for pod in skewed(counts, 1, 1).snapshot().pods}
    assert before - {pod.uid for pod in cluster.snapshot(cluster.now).pods} <= approved


def test_the_same_seed_gives_the_same_history() -> None:
    """A run can be replayed to the byte."""

    def history() -> list[object]:
        cluster = SimulatedCluster(skewed([[4, 2], [3], [0, 0]], 1, 2).snapshot(), seed=7)
        Simulation(cluster, eager()).cycles(15)
        return list(cluster.trace)

    assert history() == history()


class Switched(SimulatedCluster):
    """A cluster in which somebody flips the kill switch in the middle of things.

    `flips` says at which of the moments that the runner turns to the outside: right before it sends an eviction (its
    memory is saved then), or while the request is under way.
    """

    flips: dict[int, Pause | None] = {}  # noqa: RUF012  # set by the test
    tell: Callable[[LoopEvent], None]
    paused = False
    moments = 0
    evicted_while_paused = 0

    def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
        self._moment()
        return super().save(documents)

    def evict(self, move: Move) -> EvictionAnswer:
        self.evicted_while_paused += self.paused
        self._moment()
        return super().evict(move)

    def _moment(self) -> None:
        if self.moments in self.flips:
            pause = self.flips[self.moments]
            self.pause, self.paused = pause, pause is not None
            self.tell(PauseRead(pause=pause))
        self.moments += 1


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=2), min_size=2, max_size=3),
    st.integers(0, 2**32),
    st.dictionaries(st.integers(0, 25), st.sampled_from([Pause(), Pause(reason="other"), None]), max_size=6),
)
@examples(20)
def test_a_pause_at_any_moment(counts: list[list[int]], seed: int, flips: dict[int, Pause | None]) -> None:
    """From the moment at which it is known not one eviction is sent; what was begun is finished after it, no more."""
    cluster = Switched(skewed(counts, 1, 1).snapshot(), seed=seed)
    budgets = Budgets(max_unavailable=Amount(value=3), per_workload=Amount(value=3))
    simulation = Simulation(cluster, eager(budgets=budgets))
    cluster.flips, cluster.tell = flips, simulation.runner.tell
    before = min_evictions(state(counts), bounds(1, 1), 0, CACHE)
    simulation.cycles(10, apart=30)
    cluster.flips, cluster.pause, cluster.paused = {}, None, False
    simulation.runner.tell(PauseRead(pause=None))
    simulation.cycles(2 * (before or 2) + 4, apart=30)
    cluster.advance(120)
    assert cluster.evicted_while_paused == 0
    assert simulation.observer.answers == [EvictionResult.EVICTED] * simulation.evictions
    snapshot = cluster.snapshot(cluster.now)
    assert not [pod for pod in snapshot.pods if pod.waiting]
    if before is not None:
        assert simulation.evictions <= before + 1
    undisturbed = Simulation(SimulatedCluster(skewed(counts, 1, 1).snapshot(), seed=seed), eager(budgets=budgets))
    undisturbed.cycles(3 * (before or 0) + 15, apart=30)
    assert (simulation.evictions > 0) == (undisturbed.evictions > 0), "after the last pause it goes on"


def test_a_pause_ends_by_itself() -> None:
    """Until its time nothing is evicted, from then on all that was planned."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    simulation = Simulation(cluster, eager())
    cluster.pause = Pause(until=cluster.now + timedelta(seconds=95))
    simulation.runner.tell(PauseRead(pause=cluster.pause))
    simulation.cycles(10, apart=10)
    assert simulation.evictions == 0
    simulation.cycles(20)
    assert simulation.evictions == 4


def test_a_pause_that_an_eviction_read_right_before_it_ended_does_not_stay() -> None:
    """Its answer came after the watch had said that the pause is over, and the watch has nothing more to say."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    simulation = Simulation(cluster, eager())
    simulation.cycles(1)
    simulation.runner.tell(PauseRead(pause=Pause(reason="an upgrade")))
    simulation.runner.drain()
    paused = simulation.runner.state
    assert paused.in_force.pause == Pause(reason="an upgrade")
    simulation.cycles(20)
    assert simulation.runner.state.in_force.pause is None
    assert simulation.evictions == 4


class Breaking(SimulatedCluster):
    """A cluster whose first eviction request ends with an error of our own, after it was carried out."""

    broken = False

    def evict(self, move: Move) -> EvictionAnswer:
        answer = super().evict(move)
        if not self.broken:
            self.broken = True
            raise TypeError("no mapping")
        return answer


def test_a_request_that_ends_with_an_error_has_an_unknown_answer() -> None:
    """The loop must not wait for it for ever: what became of it is seen, and the repair goes on."""
    cluster = Breaking(skewed([[4], [0]], 1, 4).snapshot(), seed=1)
    simulation = Simulation(cluster, eager())
    simulation.cycles(8, apart=30)
    assert standing(cluster.snapshot(cluster.now), [[4], [0]]) == [[2], [2]]
    assert simulation.observer.answers == [EvictionResult.UNKNOWN, EvictionResult.EVICTED]
    assert not simulation.runner.state.busy


def test_a_metric_that_fails_stops_no_request() -> None:
    """What the loop has decided is carried out, and what it waits for is answered."""

    class Failing(Watching):
        def changed(self, state: LoopState) -> None:
            raise ValueError("too many series")

    cluster = SimulatedCluster(skewed([[4], [0]], 1, 4).snapshot(), seed=1)
    simulation = Simulation(cluster, eager(), telling=Failing())
    with capture_logs() as logs:
        simulation.cycles(8, apart=30)
    assert {entry["event"] for entry in logs} >= {"state not observed"}
    assert standing(cluster.snapshot(cluster.now), [[4], [0]]) == [[2], [2]]


def test_what_was_planned_in_an_earlier_term_is_neither_stored_nor_evicted() -> None:
    """A process may lose the lease and win it again while it plans: another one has led in between."""
    cluster = SimulatedCluster(skewed([[4], [0]], 1, 1).snapshot())
    simulation, term = Simulation(cluster, eager()), [0]
    simulation.runner._may_act = lambda of: of == term[0]

    class Deposed(Watching):
        @contextmanager
        def phase(self, name: str) -> Iterator[None]:
            yield
            term[0] += name == "plan"

    simulation.runner._observer = Deposed()
    simulation.runner.tick()
    assert simulation.runner.state.cycle is not None
    assert simulation.runner.state.cycle.fates.going
    assert cluster.load(MEMORY_KEY) == ""
    assert simulation.evictions == 0
    simulation.runner._observer = simulation.observer
    simulation.runner.tell(Leading(leads=True, term=1))
    simulation.runner.tick()
    assert simulation.evictions == 1


def test_a_request_that_hung_while_another_process_led_is_not_sent() -> None:
    """The term counts in which it was planned, not that in which its checks are done."""
    cluster = SimulatedCluster(skewed([[4], [0]], 1, 1).snapshot())
    hanging: list[Callable[[], None]] = []
    simulation, term = Simulation(cluster, eager(), spawn=hanging.append), [0]
    simulation.runner._may_act = lambda of: of == term[0]
    simulation.runner.tick()
    (request,) = hanging
    term[0] = 1
    simulation.runner.tell(Leading(leads=False))
    simulation.runner.tell(Leading(leads=True, term=1))
    simulation.runner.drain()
    with capture_logs() as logs:
        request()
    assert simulation.evictions == 0
    assert [entry["why"] for entry in logs] == ["this process no longer leads"]


class Saving(SimulatedCluster):
    """A cluster that counts what is stored."""

    sizes: tuple[int, ...] = ()

    def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
        self.sizes += (sum(len(document.text) for document in documents),)
        return super().save(documents)


@pytest.mark.parametrize("pods", [6, 24])
def test_the_status_is_stored_twice_a_cycle_however_many_evictions_it_has(pods: int) -> None:
    """Before the first request, and after the last answer; etcd keeps every revision of it."""
    cluster = Saving(skewed([[pods], [0]], 1, 1, budget=pods).snapshot(), seed=1)
    budgets = Budgets.model_validate({"maxUnavailable": "100%", "perWorkload": "100%", "perNode": 100, "perCycle": 100})
    simulation = Simulation(cluster, eager(budgets=budgets))
    simulation.runner.tick()
    assert simulation.evictions >= pods // 4
    assert len(cluster.sizes) == 2
    assert max(cluster.sizes) < 7_600 + 1_500 * simulation.evictions


def test_a_thread_that_cannot_be_had_loses_no_request() -> None:
    """The eviction is not sent; the next plan has it again."""
    threads = iter([False, False, True, True, True])

    def spawn(work: Callable[[], None]) -> None:
        if not next(threads):
            raise RuntimeError("can't start new thread")
        work()

    cluster = SimulatedCluster(skewed([[4], [0]], 1, 4).snapshot(), seed=1)
    simulation = Simulation(cluster, eager(), spawn=spawn)
    simulation.cycles(10, apart=30)
    assert standing(cluster.snapshot(cluster.now), [[4], [0]]) == [[2], [2]]
    assert simulation.evictions == 2


def test_a_memory_that_is_saved_again_has_a_cycle_follow() -> None:
    """The plan that waited for it is made at once, not after another interval."""

    class Refusing(SimulatedCluster):
        refuses = True

        def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
            return SaveAnswer("HTTP 500") if self.refuses else super().save(documents)

    cluster = Refusing(skewed([[4], [0]], 1, 4).snapshot(), seed=1)
    simulation = Simulation(cluster, eager())
    simulation.cycles(1)
    assert simulation.runner.time_to_cycle() is None
    cluster.refuses = False
    simulation.cycles(1)
    assert simulation.evictions == 0
    assert simulation.runner.time_to_cycle() == 0
    simulation.cycles(1)
    assert simulation.evictions == 1


def test_a_group_with_the_pod_of_a_job_is_repaired() -> None:
    """Its unavailable pods count, but nobody reads a Job before an eviction: its kind is not watched."""
    snapshot = skewed([[4], [0]], 1, 4).snapshot()
    job = OwnerReference(group="batch", kind="Job", name="backup", uid="job")
    stray = msgspec.structs.replace(snapshot.pods[0], name="backup-1", uid="stray", owner=job, node="b-1")
    text = b"""apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
groups: [{name: all, selector: {matchLabels: {app: web}}, groupBy: [app], disruption: {maxInFlight: 1}}]
"""
    groups = load_policy(text, source="a test").groups
    cluster = SimulatedCluster(replace(snapshot, pods=(*snapshot.pods, stray), budgets=()), seed=1)
    simulation = Simulation(cluster, eager(groups=groups))
    simulation.cycles(1)
    (group,) = simulation.runner.state.cycle.assessment.pod_groups  # type: ignore[union-attr]
    assert {owner.kind for owner in group.owners} == {"Deployment", "Job"}
    simulation.cycles(9, apart=30)
    assert simulation.evictions == 1
    assert standing(cluster.snapshot(cluster.now), [[4], [0]]) == [[3], [2]]


def test_placeholders_whose_thread_cannot_be_had_are_refused() -> None:
    """The loop goes on with what else was requested, and waits for no answer about them."""

    def spawn(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    cluster = SimulatedCluster(skewed([[4], [0]], 1, 4).snapshot(), seed=1)
    runner = Simulation(cluster, eager(), spawn=spawn).runner
    runner.drain()
    runner.state = replace(runner.state, capacity=replace(runner.state.capacity, to_create=(PLACEHOLDER,)))
    runner.tell(Saved())
    runner.drain()
    assert (runner.state.capacity.creating, runner.state.capacity.refused) == (
        frozenset(),
        {"p": "can't start new thread"},
    )


def test_a_placeholder_that_fails_with_an_error_of_our_own_is_refused() -> None:
    """The loop waits for no answer that never comes."""

    def fail(placeholder: Placeholder) -> str:
        raise KeyError(placeholder.name)

    cluster = SimulatedCluster(skewed([[4], [0]], 1, 4).snapshot(), seed=1)
    cluster.jobs.refuse = fail
    runner = Simulation(cluster, eager()).runner
    runner.drain()
    runner.state = replace(runner.state, capacity=replace(runner.state.capacity, to_create=(PLACEHOLDER,)))
    runner.tell(Saved())
    runner.drain()
    assert (runner.state.capacity.creating, runner.state.capacity.refused) == (frozenset(), {"p": "KeyError: 'p-1'"})


@pytest.mark.parametrize("stopping", [False, True])
def test_placeholders_are_deleted_beside_the_loop_but_before_the_process_ends(stopping: bool) -> None:
    """Slow requests hold up no eviction; at the end nobody would wait for another thread."""
    waiting: list[Callable[[], None]] = []
    cluster = SimulatedCluster(skewed([[4], [0]], 1, 4).snapshot(), seed=1)
    cluster.create_placeholder(PLACEHOLDER, eager().capacity)
    runner = Simulation(cluster, eager(), spawn=waiting.append).runner
    runner.drain()
    runner.state = replace(
        runner.state,
        capacity=replace(runner.state.capacity, to_delete=(PLACEHOLDER.name,)),
        leadership=replace(runner.state.leadership, stopping=stopping),
    )
    runner.tell(Saved())
    runner.drain()
    assert bool(cluster.list_placeholders(eager().capacity.namespace)) == (not stopping)
    for work in waiting:
        work()
    assert not cluster.list_placeholders(eager().capacity.namespace)


def test_the_log_says_what_has_happened_and_what_evictions_wait_for() -> None:
    """Moves and policies as they are reported; violations are counted by the cycle's line alone."""
    cluster = SimulatedCluster(skewed([[4], [0]], 1, 4).snapshot(), seed=1)
    with capture_logs() as logs:
        Simulation(cluster, eager()).cycles(6, apart=30)
    reported = {entry["reason"] for entry in logs if entry["event"] == "reported"}
    assert "MoveVerified" in reported
    assert "SkewViolated" not in reported
    first = next(entry for entry in logs if entry["event"] == "cycle")
    assert sum(first["waiting_for"].values()) == first["waiting"]
    assert first["breaker"] == []
