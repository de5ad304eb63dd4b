"""Prevention in the loop, on the simulated cluster: what is written when, and what never is."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
from msgspec import structs

from rebalancer.admission.pause import Pause
from rebalancer.assessment.assess import assess
from rebalancer.controller.prevention import PreventionWorker
from rebalancer.controller.state import Clocks, Leading, PauseRead, PolicyLoaded
from rebalancer.model.deletion_costs import DELETION_COST, OWN_DELETION_COST, SURGE_COST, is_foreign
from rebalancer.model.labels import Labels
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, NamespaceFilter, Policy, ScaleDownPrevention
from rebalancer.policy.prevention import Prevention as PreventionRules
from rebalancer.ports import PatchAnswer, PatchResult
from rebalancer.prevention.groups import find_pod_groups
from rebalancer.prevention.outcome import find_outcome, is_no_worse, price
from rebalancer.prevention.plan import PodPatch
from rebalancer.scheduling.view import View
from rebalancer.simulator import SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SPREAD = {ZONE: 1, HOSTNAME: 1}


def steering(mode: ScaleDownPrevention = ScaleDownPrevention.STEER, **fields: object) -> Policy:
    rules = PreventionRules(scale_down=mode).model_copy(update=fields)
    return eager(Mode.OBSERVE, groups=(), prevention=rules)


def cluster(
    replicas: int = 30, *, namespaces: int = 1, change: Callable[[Snapshot], Snapshot] | None = None
) -> SimulatedCluster:
    """Return a cluster of 12 nodes in 3 zones with a Deployment of so many pods, which the scheduler has placed."""
    blueprint = a_cluster("abc", 4)
    for number in range(namespaces):
        blueprint.deployment("web", replicas=replicas, spread=SPREAD, namespace=f"shop-{number}")
    made = SimulatedCluster(blueprint.snapshot())
    made.advance(60)
    if change is not None:
        made = SimulatedCluster(change(made.snapshot(made.now)))
        made.advance(1)
    return made


class Steered(Simulation):
    """A controller with prevention, whose patches are sent right after each cycle, if it `works`."""

    works = True

    def __init__(self, made: SimulatedCluster, policy: Policy, *, burst: float = 60.0, wait: bool = False) -> None:
        self.results: list[PatchResult] = []
        super().__init__(made, policy, cycle_ended=self._ended)
        self._burst = burst
        self.prevention = self._prevent()

    def _prevent(self) -> PreventionWorker:
        return PreventionWorker(
            cluster=self.cluster,
            clocks=Clocks(now=lambda: self.cluster.now, monotonic=self.cluster.seconds),
            get_state=lambda: self.runner.state,
            may_act=lambda _: True,
            tell=self.runner.tell,
            count=self.results.append,
            burst=self._burst,
        )

    def _ended(self) -> None:
        self.prevention.cycle_ended()
        if self.works:
            self.prevention.work()

    def restart(self) -> None:
        super().restart()
        self.prevention = self._prevent()

    def load(self, policy: Policy) -> None:
        self.runner.tell(PolicyLoaded(policy=policy))

    @property
    def snapshot(self) -> Snapshot:
        return self.cluster.snapshot(self.cluster.now)

    @property
    def patches(self) -> int:
        return len(self.cluster.patches)


def skews(snapshot: Snapshot, namespace: str = "shop-0") -> dict[str, int]:
    """Return the skew over zones and nodes of the pods that are there."""
    nodes = snapshot.node
    result = {}
    for key in SPREAD:
        counts = dict.fromkeys((node.labels[key] for node in snapshot.nodes), 0)
        for pod in snapshot.pods:
            if pod.namespace == namespace and not pod.terminating and pod.node is not None:
                counts[nodes[pod.node].labels[key]] += 1
        result[key] = max(counts.values()) - min(counts.values())
    return result


def test_a_night_of_scale_downs_stays_spread_and_without_steering_it_does_not() -> None:
    """From 30 to 20, 12, 6 and 3, and in one go."""
    ended = {}
    for mode in (ScaleDownPrevention.OFF, ScaleDownPrevention.STEER):
        broken = 0
        for ladder in [(20, 12, 6, 3), (3,), (12, 6), (29, 15, 3)]:
            made = cluster(30)
            run = Steered(made, steering(mode))
            run.cycles(3)
            for replicas in ladder:
                made.scale("shop-0", "Deployment", "web", replicas)
                made.advance(30)
                broken += max(skews(run.snapshot).values()) > 1
                run.cycles(1)
        ended[mode] = broken
    assert ended[ScaleDownPrevention.STEER] == 0
    assert ended[ScaleDownPrevention.OFF] > 0


def test_nothing_is_patched_in_a_thousand_cycles_of_a_steady_cluster() -> None:
    made = cluster(12)
    run = Steered(made, steering())
    run.cycles(3)
    before = run.patches
    assert before > 0
    run.cycles(1_000)
    assert run.patches == before


def test_off_sends_nothing_and_removes_what_is_our_own() -> None:
    made = cluster(12)
    run = Steered(made, steering(ScaleDownPrevention.OFF))
    run.cycles(3)
    assert run.patches == 0
    run.load(steering())
    run.cycles(2)
    assert any(pod.own_deletion_cost for pod in run.snapshot.pods)
    run.load(steering(ScaleDownPrevention.OFF))
    run.cycles(3)
    assert not any(pod.own_deletion_cost or pod.annotations for pod in run.snapshot.pods)
    assert run.runner.state.reported.prevention.left == 0
    before = run.patches
    run.cycles(3)
    assert run.patches == before


def test_the_costs_of_a_workload_stay_as_they_are_from_the_first_mark_of_a_surge_to_its_last() -> None:
    """Whether its order is kept or removed; it is once the mark has gone."""
    made = cluster(12)
    run = Steered(made, steering())
    run.cycles(3)
    marked = run.snapshot.pods[0]
    _patch(made, marked, SURGE_COST)
    costs = {pod.uid: pod.own_deletion_cost for pod in made.snapshot(made.now).pods}
    assert list(costs.values()).count(SURGE_COST) == 1 < sum(map(bool, costs.values()))
    before = run.patches
    for mode in (ScaleDownPrevention.STEER, ScaleDownPrevention.OFF):
        run.load(steering(mode))
        run.cycles(3)
        assert {pod.uid: pod.own_deletion_cost for pod in run.snapshot.pods} == costs
        report = run.runner.state.reported.prevention
        assert (report.left, report.unsteered.get("Surging", 0)) == (0, mode is ScaleDownPrevention.STEER)
    assert run.patches == before
    _patch(made, marked, None)
    run.cycles(3)
    assert not any(pod.own_deletion_cost for pod in run.snapshot.pods)


def _patch(made: SimulatedCluster, pod: Pod, cost: int | None) -> None:
    (now,) = [one for one in made.snapshot(made.now).pods if one.uid == pod.uid]
    version = now.resource_version
    patch = PodPatch(namespace=pod.namespace, name=pod.name, uid=pod.uid, resource_version=version, cost=cost)
    assert made.patch_cost(patch).result is PatchResult.PATCHED


def test_observe_reports_the_risk_and_writes_nothing() -> None:
    made = cluster(30)
    run = Steered(made, steering(ScaleDownPrevention.OBSERVE))
    run.cycles(2)
    assert run.patches == 0
    report = run.runner.state.reported.prevention
    assert report.workloads == 1
    (finding,) = report.findings
    assert "30 to" in finding.message
    assert "are likely to remain in" in finding.message
    run.load(steering())
    run.cycles(3)
    assert run.runner.state.reported.prevention.findings == ()


def check_mixture(seed: int) -> None:
    """Steer and clean up beside drawn costs of others: their pods stay as they are, and nothing of ours is left."""
    random = Random(seed)

    def mix(snapshot: Snapshot) -> Snapshot:
        pods = []
        for pod in snapshot.pods:
            annotations = {}
            if random.random() < 0.3:
                annotations[DELETION_COST] = random.choice(["5", "-3", "0", "nonsense"])
            if random.random() < 0.1:
                annotations[OWN_DELETION_COST] = "7"
            pods.append(structs.replace(pod, annotations=Labels(annotations)))
        return replace(snapshot, pods=tuple(pods))

    made = cluster(4, namespaces=6, change=mix)
    before = {pod.uid: pod for pod in made.snapshot(made.now).pods}
    touched = {pod.namespace for pod in before.values() if is_foreign(pod)}
    run = Steered(made, steering())
    run.cycles(2)
    for pod in run.snapshot.pods:
        if pod.namespace in touched:
            assert pod == before[pod.uid]
    run.load(steering(ScaleDownPrevention.OFF))
    run.cycles(3)
    for pod in run.snapshot.pods:
        old = before[pod.uid].annotations
        assert pod.own_deletion_cost == 0
        assert OWN_DELETION_COST not in pod.annotations
        assert pod.annotations.get(DELETION_COST) == old.get(DELETION_COST)


def test_foreign_costs_are_never_touched() -> None:
    """Over drawn mixtures of costs and markers."""
    for seed in range(60):
        check_mixture(seed)


@pytest.mark.thorough
def test_foreign_costs_are_never_touched_in_a_thousand_mixtures() -> None:
    for seed in range(1_000, 2_000):
        check_mixture(seed)


class _LateSteered(Steered):
    """One whose patches are not sent right after a cycle, and whose clock was set back meanwhile."""

    def _ended(self) -> None:
        self.prevention.cycle_ended()

    def send_late(self, seconds: float) -> int:
        """Send what the last cycle has planned, so many seconds after it; return how many patches."""
        self.cluster.advance(seconds)
        self.prevention._clocks = Clocks(
            now=lambda: self.cluster.now - timedelta(minutes=10), monotonic=self.cluster.seconds
        )
        self.prevention.work()
        return self.patches


def test_a_clock_that_was_set_back_keeps_no_old_patch_alive() -> None:
    """The patches of a cycle of a minute ago wait for the next one."""
    for seconds, sent in ((1, True), (61, False)):
        run = _LateSteered(cluster(12), steering())
        run.cycles(2)
        assert bool(run.send_late(seconds)) == sent


def test_a_pause_stops_patches_at_once() -> None:
    made = cluster(12)
    run = Steered(made, steering())
    made.pause = Pause(until=None, reason="test", by="me")
    run.cycles(3)
    assert run.patches == 0
    run.runner.tell(PauseRead(pause=made.pause))
    run.cycles(2)
    assert run.patches == 0
    assert "test" in run.runner.state.reported.prevention.stopped
    made.pause = None
    run.runner.tell(PauseRead(pause=None))
    run.cycles(2)
    assert run.patches > 0
    assert run.runner.state.reported.prevention.stopped == ""


def test_without_the_restriction_nothing_is_patched() -> None:
    made = cluster(12)
    made.restricted = False
    run = Steered(made, steering())
    run.cycles(20)
    assert run.patches == 0
    assert run.runner.state.reported.prevention.stopped == "a change of a label was not refused"
    made.restricted = True
    run.cycles(20)
    assert run.patches > 0


def test_a_process_that_may_only_observe_patches_nothing() -> None:
    made = cluster(12)
    run = Steered(made, steering())
    run.runner.state = replace(run.runner.state, process=replace(run.runner.state.process, furthest_mode=Mode.OBSERVE))
    run.cycles(3)
    assert run.patches == 0


def test_only_the_leader_patches() -> None:
    made = cluster(12)
    run = Steered(made, steering())
    run.runner.tell(Leading(leads=False))
    run.cycles(3)
    assert run.patches == 0


def test_what_an_earlier_term_has_evaluated_is_not_patched() -> None:
    """A process that leads again plans anew first: another one may have patched in between."""
    made = cluster(12)
    run = Steered(made, steering())
    run.works = False  # its thread is late
    run.runner.tick()
    run.runner.tell(Leading(leads=False))
    run.runner.tell(Leading(leads=True, term=1))
    run.runner.drain()
    run.prevention.work()
    assert run.patches == 0
    run.runner.tick()
    run.prevention.work()
    assert run.patches > 0


def test_only_named_namespaces_are_steered_and_the_others_cleaned() -> None:
    made = cluster(6, namespaces=2)
    run = Steered(made, steering())
    run.cycles(2)
    assert {pod.namespace for pod in run.snapshot.pods if pod.own_deletion_cost} == {"shop-0", "shop-1"}
    run.load(steering(namespaces=NamespaceFilter(include=("shop-1",))))
    run.cycles(2)
    assert {pod.namespace for pod in run.snapshot.pods if pod.own_deletion_cost} == {"shop-1"}


def test_patches_keep_to_the_rate() -> None:
    made = cluster(30)
    run = Steered(made, steering(per_minute=6), burst=1.0)
    began = made.now
    while run.patches < 12:
        run.cycles(1, apart=5)
    assert made.now - began >= timedelta(seconds=100)


def test_a_restart_at_any_patch_resumes_without_memory() -> None:
    """A new process before each cycle: in the end all pods have their order, and nothing was written twice."""
    made = cluster(12)
    run = Steered(made, steering(per_minute=60), burst=1.0)
    for _ in range(40):
        run.cycles(1, apart=2)
        run.restart()
    assert run.runner.state.reported.prevention.stopped == ""
    run.cycles(2)
    assert run.runner.state.reported.prevention.ordered == 1
    assert len({patch.uid for patch in made.patches}) == len(made.patches)


def test_a_lost_pod_is_waited_for_and_its_replacement_takes_its_place() -> None:
    made = cluster(30)
    run = Steered(made, steering())
    run.cycles(3)
    before = run.patches
    starts = 0
    random = Random(1)
    for _ in range(30):
        pod = random.choice([pod for pod in run.snapshot.pods if not pod.terminating])
        made.state.delete(pod)
        starts += 1
        made.advance(20)
        run.cycles(2)
    assert run.runner.state.reported.prevention.ordered == 1
    print(f"{run.patches - before} patches for {starts} pod starts")
    assert run.patches - before <= 2 * starts


def test_plans_are_the_same_with_and_without_our_costs() -> None:
    made = cluster(30)
    off = Simulation(made, eager(Mode.OBSERVE))
    off.cycles(1, apart=0)
    first = off.runner.state.cycle
    run = Steered(made, steering())
    run.cycles(2, apart=0)
    again = Simulation(made, eager(Mode.OBSERVE))
    again.cycles(1, apart=0)
    second = again.runner.state.cycle
    assert first is not None
    assert second is not None
    assert any(pod.own_deletion_cost for pod in second.snapshot.pods)
    assert second.plan_json == first.plan_json


@pytest.mark.parametrize("result", list(PatchResult))
def test_a_patch_that_is_not_carried_out_holds_back_its_workload_only(result: PatchResult) -> None:
    made = cluster(6, namespaces=2)
    run = Steered(made, steering())
    real = made.patch_cost

    def refuse(patch: object) -> object:
        assert hasattr(patch, "namespace")
        if patch.namespace == "shop-0" and result is not PatchResult.PATCHED:
            return PatchAnswer(result, message="refused")
        return real(patch)  # type: ignore[arg-type]

    made.patch_cost = refuse  # type: ignore[method-assign, assignment]
    run.cycles(3)
    steered = {pod.namespace for pod in run.snapshot.pods if pod.own_deletion_cost}
    assert "shop-1" in steered
    assert ("shop-0" in steered) == (result is PatchResult.PATCHED)
    if result is PatchResult.FAILED:
        assert run.results.count(result) == 1


def test_two_leaders_and_restarts_make_no_state_worse_than_the_one_before() -> None:
    """Two processes that both believe to lead, in turns: every state is an order no worse for any number of pods."""
    made = cluster(20)
    outcomes: list[tuple[int, ...]] = []
    real = made.patch_cost

    def evaluate() -> tuple[int, ...]:
        view = View(made.snapshot(made.now))
        policy = steering()
        (group,) = find_pod_groups(view, assess(view, policy, NO_MEMORY), policy, NO_MEMORY)
        return find_outcome(group.problem, [pod.own_deletion_cost for pod in group.pods])

    def watch(patch: PodPatch) -> PatchAnswer:
        answer = real(patch)
        outcomes.append(evaluate())
        return answer

    outcomes.append(evaluate())
    made.patch_cost = watch  # type: ignore[method-assign]
    runs = [Steered(made, steering(per_minute=60), burst=2.0) for _ in range(2)]
    for turn in range(40):
        run = runs[turn % 2]
        run.cycles(1, apart=1)
        if turn % 5 == 4:
            run.restart()
    assert len(outcomes) > 10
    assert all(is_no_worse(after, before) for before, after in pairwise(outcomes))
    assert price(outcomes[-1]) == (0, 0)
