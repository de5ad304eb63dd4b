"""The loop beside others who evict: they are named, and stop it for ten minutes at most."""

from collections.abc import Callable, Iterator, Mapping

from msgspec import structs

from rebalancer.assessment.findings import find_findings
from rebalancer.controller.runner import Runner
from rebalancer.controller.state import Leading
from rebalancer.documents.memory import parse_memory
from rebalancer.model.events import Event, EventReason
from rebalancer.model.moves import OthersEvictions
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.policy import Amount, Budgets
from rebalancer.ports import MEMORY_KEY, EvictionResult
from rebalancer.simulator import ZONE, Faults, SimulatedCluster, Span, Timings
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.reports import rows_of
from tests.tracking.build import move

EVERY = 4
"""Seconds between two evictions of the other one."""

WAIT = 600
"""Seconds for which the rebalancer waits at most."""

SLOW = Timings(starting=Span(6.0, 10.0))
"""Replacements that take longer to start than the other one waits: a workload is never complete."""


NO_FAULTS = Faults()


class Recording(SimulatedCluster):
    """A cluster that keeps the events about others' evictions."""

    def __init__(self, *apps: str, timings: Timings = SLOW, seed: int = 3, faults: Faults = NO_FAULTS) -> None:
        builder = a_cluster("abc", 4)
        for app in apps:
            builder.deployment(app, on={"a-1": 2, "a-2": 2, "b-1": 4, "c-1": 2, "c-2": 2}, spread={ZONE: 1})
        super().__init__(builder.snapshot(), seed=seed, timings=timings, faults=faults)
        self.told: list[Event] = []

    def record(self, event: Event) -> None:
        """Keep an event."""
        if event.reason is EventReason.EVICTED_BY_OTHERS:
            self.told.append(event)

    def pods_of(self, app: str) -> list[Pod]:
        pods = self.snapshot(self.now).pods
        return sorted((pod for pod in pods if pod.labels["app"] == app), key=lambda pod: (pod.node or "", pod.name))

    def evict_beside(self, app: str) -> Pod | None:
        """Evict a Ready pod as another program would; None where there is none."""
        ready = [pod for pod in self.pods_of(app) if pod.ready and not pod.terminating]
        if ready:
            self.evict(move(ready[-1].uid, self.now, pod=ready[-1].name))
        return ready[-1] if ready else None


class Beside(Simulation):
    """A controller that sees each change, beside another program that evicts."""

    def __init__(self, cluster: Recording) -> None:
        budgets = Budgets(max_unavailable=Amount(value=100, percent=True), per_workload=Amount(value=3), per_node=100)
        super().__init__(cluster, eager(budgets=budgets))
        self.recording = cluster
        self.follower: Runner | None = None
        cluster.listen(self._observe)
        self.runner.tick()

    def _observe(self, before: object, after: object) -> None:
        for runner in (self.runner, self.follower):
            if runner is not None:
                runner.observe(before, after)

    def run(
        self, seconds: int, *, evicted: str = "web", each: Callable[[int], None] = lambda _: None
    ) -> Iterator[tuple[int, str]]:
        """Run a cycle every five seconds; yield when a pod of which workload was evicted by the rebalancer."""
        for second in range(seconds):
            if evicted and second % EVERY == 0:
                self.recording.evict_beside(evicted)
            each(second)
            if second % 5 == 0:
                known = {one.uid for one in self.runner.state.memory.moves}
                self.runner.tick()
                for one in self.runner.state.memory.moves:
                    if one.uid not in known:
                        yield second, one.workload.name
            self.cluster.advance(1)

    def skew(self) -> None:
        """Break the constraint of what is at rest: all pods of zone c are on nodes of zone a from now on."""
        moving = {one.workload.name for one in self.runner.state.memory.in_flight}
        for app in {"web", "api"} - moving:
            for number, pod in enumerate(self.recording.pods_of(app)):
                if pod.node is not None and pod.node.startswith("c") and not pod.terminating:
                    self.cluster.state.store.pods.put(structs.replace(pod, node=f"a-{1 + number % 4}"))

    @property
    def runs(self) -> tuple[OthersEvictions, ...]:
        return self.runner.state.memory.evicted_by_others

    def findings(self) -> list[tuple[str, str]]:
        cycle = self.runner.state.cycle
        assert cycle is not None
        every = find_findings(cycle.view, cycle.assessment, ())
        return [(one.object, one.message) for one in every if one.kind is FindingKind.EVICTED_BY_OTHERS]

    def reasons(self) -> set[Reason | None]:
        cycle = self.runner.state.cycle
        assert cycle is not None
        return {group.reason for group in cycle.plan.components}


def skewing(simulation: Beside) -> Callable[[int], None]:
    """Break the constraint again and again: there is always something to repair."""
    return lambda second: simulation.skew() if second % 10 == 0 else None


def test_a_second_evictor_is_named_and_stops_only_its_workload_for_ten_minutes_at_most() -> None:
    cluster = Recording("web", "api")
    simulation = Beside(cluster)
    evicted = list(simulation.run(WAIT + 60, each=skewing(simulation)))
    web, api = ([second for second, app in evicted if app == name] for name in ("web", "api"))
    assert [second for second in web if second < WAIT] == []
    assert web[0] <= WAIT + 10
    assert api[0] == 0
    assert {second // 60 for second in api} == set(range(11)), "the other one is repaired all the time"
    ((about, message),) = simulation.findings()
    assert about == "default/web (Deployment)"
    assert f"{(WAIT + 60) // EVERY - 1} pods (" in message
    (event,) = cluster.told
    assert (event.regarding.name, event.type) == ("web", "Normal")
    assert event.note.startswith("1 pod (web-")


def test_the_moves_go_on_when_the_other_one_stops() -> None:
    """As soon as the pods are Ready, and for the next minutes it is told who evicted."""
    cluster = Recording("web")
    simulation = Beside(cluster)
    assert list(simulation.run(60, each=skewing(simulation))) == []
    assert simulation.reasons() == {Reason.EVICTED_BY_OTHERS}
    evicted = list(simulation.run(60, evicted="", each=skewing(simulation)))
    assert evicted[0][0] <= 15
    assert simulation.findings()
    list(simulation.run(WAIT, evicted=""))
    assert (simulation.findings(), simulation.runs) == ([], ())


def test_a_gauge_counts_the_evicted_pods_of_the_workload_until_ten_minutes_after_the_last() -> None:
    """A workload that nobody touches has no series, as it has no finding."""
    simulation = Beside(Recording("web", "api"))

    def evicted() -> Mapping[tuple[str, ...], float]:
        return rows_of(simulation.runner.state, "rebalancer_evicted_by_others")

    assert evicted() == {}
    list(simulation.run(60))
    (run,) = simulation.runs
    assert evicted() == {("default", "Deployment", "web"): run.number} == {("default", "Deployment", "web"): 14}
    list(simulation.run(WAIT - 10, evicted=""))
    assert evicted()
    list(simulation.run(20, evicted=""))
    assert evicted() == {}


def test_a_moment_in_which_all_pods_are_ready_is_enough() -> None:
    """Where replacements start faster than the other one evicts."""
    simulation = Beside(Recording("web", timings=Timings(starting=Span(1.0, 2.0))))
    assert list(simulation.run(120, each=skewing(simulation)))


def test_a_restart_neither_forgets_the_wait_nor_begins_another_one() -> None:
    """Nor is it told again."""
    cluster = Recording("web")
    simulation = Beside(cluster)
    first = list(simulation.run(WAIT // 2, each=skewing(simulation)))
    (before,) = simulation.runs
    simulation.restart()
    second = list(simulation.run(WAIT // 2 - 5, each=skewing(simulation)))
    third = list(simulation.run(60, each=skewing(simulation)))
    assert (first, second) == ([], [])
    assert third[0][0] <= 15
    assert simulation.runs[0].since == before.since
    assert len(cluster.told) == 1


def test_evictions_of_the_rebalancer_are_nobody_elses() -> None:
    """With answers that are lost, of which half are carried out; a restart, or another leader, at any time."""
    for seed in range(5):
        cluster = Recording("web", "api", seed=seed, faults=Faults(lost_answers=0.5))
        simulation = Beside(cluster)
        for number in range(12):
            list(simulation.run(25 + number, evicted="", each=skewing(simulation)))
            assert simulation.runs == ()
            if number % 3 == 0:
                simulation.restart()
            elif number % 3 == 1:
                lead_again(simulation)
        assert simulation.observer.answers.count(EvictionResult.UNKNOWN)
        assert cluster.told == []


def lead_again(simulation: Beside) -> None:
    """Let another process lead for a while, whose evictions the first one sees."""
    simulation.runner.tell(Leading(leads=False))
    simulation.runner.tick()
    first = simulation.follower = simulation.runner
    simulation.restart()
    list(simulation.run(25, evicted="", each=skewing(simulation)))
    first.tick()
    memory = parse_memory(simulation.cluster.load(MEMORY_KEY))
    simulation.runner, simulation.follower = first, None
    first.tell(Leading(leads=True, memory=memory, term=2))


def test_a_process_that_does_not_lead_counts_nothing() -> None:
    """What it sees may be the leader's, whose moves it does not know."""
    cluster = Recording("web")
    simulation = Beside(cluster)
    simulation.runner.tell(Leading(leads=False))
    simulation.runner.tick()
    list(simulation.run(9))
    simulation.runner.tell(Leading(leads=True, term=2))
    simulation.runner.tick()
    assert simulation.runs == ()


def test_a_stale_view_counts_too() -> None:
    """The evictions were seen; only the moves are not followed."""
    cluster = Recording("web")
    simulation = Beside(cluster)
    cluster.staleness = lambda: "Node: the watch has failed"  # type: ignore[method-assign]
    list(simulation.run(10))
    assert simulation.runs[0].number == 2


def test_a_drain_is_named() -> None:
    cluster = Recording("web")
    simulation = Beside(cluster)
    cluster.nodes.cordon("c-2")
    list(simulation.run(5))
    ((_, message),) = simulation.findings()
    assert message.endswith(": node c-2 is being drained")


def test_a_pod_that_is_deleted_or_preempted_was_not_evicted() -> None:
    """Neither leaves the condition of the Eviction API."""
    cluster = Recording("web")
    simulation = Beside(cluster)
    for pod in cluster.pods_of("web")[:2]:
        cluster.state.delete(pod)
    list(simulation.run(10, evicted=""))
    assert (simulation.runs, cluster.told) == ((), [])
