"""Surges in the simulated cluster: no pod is ever missing, whatever dies or interferes, and nothing of them is left."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.pause import Pause
from rebalancer.controller.state import ApprovalRead, PauseRead, PolicyLoaded
from rebalancer.model.cluster import Autoscaler
from rebalancer.model.creation import ResourceQuota
from rebalancer.model.deletion_costs import SURGE_COST
from rebalancer.model.moves import Reference
from rebalancer.policy import Mode, RepairBy, RepairMethod
from rebalancer.ports import ReadFailedError, ScaleAnswer, ScaleReading, ScaleResult
from rebalancer.simulator import ZONE, RollingUpdate
from rebalancer.surge.record import Ending, Phase
from tests.build import a_cluster
from tests.controller.simulated import skewed
from tests.drawing import examples
from tests.planning.clusters import planned
from tests.surge.build import a_surge
from tests.surge.play import Play, Watched, pods, surging

Counts = Sequence[Sequence[int]]

layouts = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=2, max_size=3).filter(
    lambda counts: 2 <= sum(map(sum, counts)) <= 12
)


def play(counts: Counts, zone: int = 1, host: int = 1, most: int = 2, budget: int | None = 0, seed: int = 1) -> Play:
    cluster = Watched(skewed(counts, zone, host, budget=budget).snapshot(), seed=seed)
    return Play(cluster, surging(most))


def check(played: Play, wanted: int, most: int) -> None:
    """No pod was missing, never more were added than may be, none was evicted, and nothing is left."""
    assert played.least_ready >= wanted
    assert played.most_alive <= wanted + most
    assert played.simulation.observer.answers == []
    assert_nothing_left(played)


def assert_nothing_left(played: Play) -> None:
    assert played.records == ()
    assert not any(pod.own_deletion_cost == SURGE_COST for pod in pods(played.cluster.snapshot(played.cluster.now)))


def replicas(played: Play) -> int:
    snapshot = played.cluster.snapshot(played.cluster.now)
    return next(one.replicas for one in snapshot.workloads if one.kind == "Deployment")


def zone_counts(played: Play) -> list[int]:
    snapshot = played.cluster.snapshot(played.cluster.now)
    counts = {node.labels[ZONE]: 0 for node in snapshot.nodes}
    for pod in pods(snapshot):
        counts[snapshot.node[pod.node or ""].labels[ZONE]] += 1
    return sorted(counts.values())


@given(layouts, st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
@examples(60)
def test_no_pod_is_ever_missing_and_each_surge_ends_as_predicted(
    counts: Counts, zone: int, host: int, most: int, seed: int
) -> None:
    """By a budget that allows nothing; what the planner has promised is repaired."""
    wanted = sum(map(sum, counts))
    played = play(counts, zone, host, most, seed=seed)
    played.seconds(60 * (1 + wanted))
    while played.records:
        played.seconds(1)
    check(played, wanted, most)
    assert {one.ending for one in played.ended} <= {Ending.DONE}
    assert replicas(played) == wanted


HALF = [[3, 2], [1, 0], [0, 0]]


def test_a_surge_with_two_pods_at_once() -> None:
    played = play(HALF)
    played.seconds(200)
    check(played, 6, 2)
    assert zone_counts(played) == [2, 2, 2]
    assert [(one.surge.added, one.ending) for one in played.ended] == [(2, "Done"), (1, "Done")]


def count_writes() -> int:
    played = play(HALF)
    played.seconds(200)
    return played.cluster.writes


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whoever_leads_next_goes_on_whatever_write_the_last_one_died_at(*, after: bool) -> None:
    """Right before each write, and right after it, before its answer is known."""
    writes = count_writes()
    assert writes > 15
    for number in range(1, writes + 1):
        played = play(HALF)
        played.cluster.dies_at, played.cluster.dies_after = number, after
        played.seconds(230)
        check(played, 6, 2)
        assert zone_counts(played) == [2, 2, 2], number
        assert replicas(played) == 6, number


def begun(phase: Phase, most: int = 2) -> Play:
    """Return a play in which a surge has come to a phase."""
    played = play(HALF, most=most)
    for _ in range(60):
        played.seconds(1)
        if any(one.phase is phase for one in played.records):
            return played
    raise AssertionError(f"no surge came to {phase}")


def scale(played: Play, number: int) -> None:
    played.cluster.scale("default", "Deployment", "web", number)


@pytest.mark.parametrize("phase", [Phase.MARKING, Phase.WAITING])
@pytest.mark.parametrize("number", [3, 5, 12])
def test_the_number_of_somebody_else_stands(phase: Phase, number: int) -> None:
    """And nothing of the surge is left, also where it comes right after the scale-up."""
    played = begun(phase)
    scale(played, number)
    played.seconds(5)
    assert Ending.SCALED in {one.ending for one in played.ended}
    stop(played)
    assert replicas(played) == number
    assert_nothing_left(played)


def stop(played: Play, cycle: int = 10**6) -> None:
    """Let the policy add nothing any more, and what is under way end."""
    rules = RepairBy(method=RepairMethod.EVICT)
    policy = played.policy.model_copy(update={"repair": rules})
    played.simulation.runner.tell(PolicyLoaded(policy=policy))
    played.simulation.runner.drain()
    played.seconds(40, cycle)


def test_a_pause_sends_nothing_and_the_surplus_stays_until_it_ends() -> None:
    played = begun(Phase.WAITING)
    played.cluster.pause = Pause(by="alice")
    played.simulation.runner.tell(PauseRead(pause=played.cluster.pause))
    played.simulation.runner.drain()
    writes = played.cluster.writes
    played.seconds(60)
    assert (played.cluster.writes, replicas(played)) == (writes, 8)
    said = played.simulation.runner.state.reported.surges
    assert "alice" in said.stopped
    played.cluster.pause = None
    played.simulation.runner.tell(PauseRead(pause=None))
    played.simulation.runner.drain()
    played.seconds(200)
    check(played, 6, 2)


def test_added_pods_that_never_become_ready_are_taken_back() -> None:
    """The new one goes first, since it is not Ready: the marked one stays."""
    played = begun(Phase.ADDING)
    for node in played.cluster.snapshot(played.cluster.now).nodes:
        played.cluster.nodes.cordon(node.name)
    played.seconds(200)
    assert Ending.TIMED_OUT in {one.ending for one in played.ended}
    assert played.least_ready >= 6
    assert replicas(played) == 6
    assert_nothing_left(played)


def test_a_policy_that_does_not_add_there_any_more_takes_back() -> None:
    played = begun(Phase.WAITING)
    stop(played)
    assert {one.ending for one in played.ended} == {Ending.NOT_WANTED}
    assert (replicas(played), played.least_ready) == (6, 6)
    assert_nothing_left(played)


def start_uids(played: Play) -> set[str]:
    return {pod.uid for pod in pods(played.cluster.snapshot(played.cluster.now))}


@given(layouts, st.integers(1, 3), st.integers(0, 6), st.booleans(), st.integers(0, 99))
@examples(40)
def test_what_is_taken_back_are_the_added_pods_however_many_of_them_are_ready(
    counts: Counts, most: int, seconds: int, restarts: bool, seed: int
) -> None:
    """The policy does not want them any more so many seconds after the scale-up: every pod of before stays."""
    played = play(counts, most=most, seed=seed)
    first = start_uids(played)
    for _ in range(40):
        played.seconds(1)
        if any(one.phase is Phase.WAITING for one in played.records):
            break
    else:
        return  # nothing to add
    played.seconds(seconds)
    if restarts:
        played.restart()
    stop(played, cycle=10)
    assert_nothing_left(played)
    assert played.least_ready >= len(first)
    assert replicas(played) == len(first)
    assert [one.ending for one in played.ended] == [Ending.NOT_WANTED]
    assert start_uids(played) == first


def test_right_before_the_marked_pods_go_it_can_still_be_given_up() -> None:
    played = begun(Phase.REMOVING)
    first = {one.uid for one in played.records[0].victims}
    stop(played)
    assert [one.ending for one in played.ended] == [Ending.NOT_WANTED]
    assert replicas(played) == 6
    assert first <= start_uids(played)
    assert_nothing_left(played)


def test_where_no_mark_can_be_written_any_more_the_added_pods_are_taken_back_all_the_same() -> None:
    """A minute later: somebody has removed the admission policy that proves what can be written."""
    played = begun(Phase.ADDING)
    for node in played.cluster.snapshot(played.cluster.now).nodes:
        played.cluster.nodes.cordon(node.name)
    played.seconds(2)
    played.cluster.restricted = False
    played.restart()  # without the proof of before
    played.seconds(1)
    stop(played)
    assert replicas(played) == 8
    played.seconds(60, cycle=10**6)
    assert replicas(played) == 6
    assert played.least_ready >= 6


def test_an_autoscaler_that_appears_has_the_last_word() -> None:
    played = begun(Phase.WAITING)
    scaler = Autoscaler(namespace="default", name="web", target_kind="Deployment", target_name="web")
    played.cluster.autoscalers = (scaler,)
    played.seconds(5)
    assert [one.ending for one in played.ended] == [Ending.AUTOSCALED]
    assert replicas(played) == 8
    assert_nothing_left(played)


@pytest.mark.parametrize("phase", [Phase.MARKING, Phase.WAITING])
def test_a_rollout_that_begins_has_its_replicas_back_at_once(phase: Phase) -> None:
    """And its new pods have no mark: what the update ends with is what was asked for."""
    played = begun(phase)
    workload = next(one for one in played.cluster.snapshot(played.cluster.now).workloads if one.kind == "Deployment")
    assert workload.template is not None
    spec = structs.replace(workload.template.spec, images=("another",))
    played.cluster.roll_out(
        Reference("default", "Deployment", "web"),
        structs.replace(workload.template, spec=spec),
        RollingUpdate(1, 0),
    )
    for _ in range(4):
        played.seconds(1, cycle=10**6)
    assert replicas(played) == 6
    stop(played)
    played.seconds(200, cycle=10**6)
    assert {one.ending for one in played.ended} == {Ending.ROLLED_OUT}
    assert played.least_ready >= 6
    assert_nothing_left(played)


def test_in_mode_approve_a_surge_begins_once_somebody_approves_it() -> None:
    """What is approved are the pods that go."""
    played = play(HALF)
    policy = played.policy.model_copy(update={"mode": Mode.APPROVE})
    runner = played.simulation.runner
    runner.tell(PolicyLoaded(policy=policy))
    runner.drain()
    played.seconds(30)
    proposal = runner.state.memory.proposal
    assert proposal is not None
    assert (len(proposal.uids), played.cluster.writes, replicas(played)) == (2, 0, 6)
    runner.tell(ApprovalRead(approved=proposal.hash))
    runner.drain()
    played.seconds(60)
    check(played, 6, 2)
    assert [one.ending for one in played.ended] == [Ending.DONE]
    assert {one.uid for one in played.ended[0].surge.victims} == set(proposal.uids)
    following = runner.state.memory.proposal
    assert following is not None
    assert not following.approved


def test_a_record_that_cannot_be_stored_stops_nothing_else() -> None:
    """Two surges, and a ConfigMap that refuses every third write: each goes on with the next look."""
    builder = a_cluster("abc", 2)
    for name in ("web", "cart"):
        builder.deployment(name, on={"a-1": 3, "a-2": 2, "b-1": 1}, spread={ZONE: 1})
    played = Play(Watched(builder.snapshot(), seed=1), surging())
    played.cluster.refuses_every = 3
    played.seconds(200)
    assert [one.ending for one in played.ended] == [Ending.DONE] * len(played.ended)
    assert len(played.ended) >= 4
    check(played, 12, 4)


@pytest.mark.parametrize("method", [RepairMethod.SURGE, RepairMethod.EVICT])
def test_a_mark_without_a_record_is_removed(method: RepairMethod) -> None:
    """A view that was behind did not show it when its record was closed; its workload would never be repaired again."""
    played = Play(Watched(skewed([[2], [2]], budget=0).snapshot(), seed=1), surging(method=method))
    table = played.cluster.state.store.pods
    table.put(structs.replace(next(iter(table)), own_deletion_cost=SURGE_COST))
    played.seconds(15)
    assert_nothing_left(played)


@given(layouts, st.integers(2, 3), st.integers(0, 99), st.integers(1, 3))
@examples(30)
def test_two_leaders_at_once_do_not_scale_anything_twice(counts: Counts, most: int, seed: int, every: int) -> None:
    """Each takes itself for the leader, as one does that was stopped, and looks in turn with the other."""
    wanted = sum(map(sum, counts))
    played = play(counts, most=most, seed=seed)
    first = played.worker
    played.restart()
    second = played.worker
    for number in range(60 * (1 + wanted)):
        played.worker = first if number // every % 2 else second
        played.seconds(1)
    while played.records:
        played.seconds(1)
    assert played.least_ready >= wanted
    assert played.most_alive <= wanted + most
    assert replicas(played) == wanted
    assert_nothing_left(played)


def test_a_phase_that_does_not_follow_is_never_entered() -> None:
    """A defect stores nothing."""
    with pytest.raises(AssertionError, match="Removing does not follow Marking"):
        a_surge(phase=Phase.MARKING).enter(Phase.REMOVING)


class Unread(Watched):
    """A cluster that counts how often the records are read."""

    reads: int = 0

    def load_surges(self) -> str:
        self.reads += 1
        return super().load_surges()


def test_off_nothing_is_requested_and_what_has_begun_is_taken_back_all_the_same() -> None:
    """Whoever leads next under a policy that only evicts reads the records only where a pod is marked."""
    builder = skewed(HALF)
    off = surging().model_copy(update={"repair": RepairBy()})
    played = Play(Unread(builder.snapshot(), seed=1), off)
    played.seconds(60)
    assert isinstance(played.cluster, Unread)
    assert (played.cluster.reads, played.cluster.surges) == (0, "")
    played = Play(Unread(skewed(HALF, budget=0).snapshot(), seed=1), surging())
    while not any(one.phase is Phase.WAITING for one in played.records):
        played.seconds(1)
    played.simulation.runner.tell(PolicyLoaded(policy=off))
    played.simulation.runner.drain()
    played.restart()
    played.seconds(60)
    assert (replicas(played), played.least_ready) == (6, 6)
    assert_nothing_left(played)


def test_records_that_cannot_be_read_are_read_again_after_a_while() -> None:
    """Not each second: the API server would refuse each."""

    class Refusing(Unread):
        def load_surges(self) -> str:
            super().load_surges()
            raise ReadFailedError("ConfigMap rebalancer-system/rebalancer-surges does not exist")

    played = Play(Refusing(skewed(HALF, budget=0).snapshot(), seed=1), surging())
    played.seconds(65)
    assert isinstance(played.cluster, Unread)
    assert played.cluster.reads == 3
    assert "does not exist" in played.simulation.runner.state.reported.surges.stopped
    assert replicas(played) == 6


def test_without_the_admission_policy_nothing_is_marked_and_it_is_not_asked_for_each_second() -> None:
    """As for prevention: an answer without the proof serves for a minute, for all surges."""

    class Unbounded(Watched):
        asked: int = 0

        def find_missing_restriction(self, namespace: str, pod: str) -> str:
            self.asked += 1
            return super().find_missing_restriction(namespace, pod)

    played = Play(Unbounded(skewed(HALF, budget=0).snapshot(), seed=1), surging())
    played.cluster.restricted = False
    played.seconds(65)
    assert isinstance(played.cluster, Unbounded)
    assert (played.cluster.asked, played.cluster.patches, replicas(played)) == (1, [], 6)
    (under_way,) = played.simulation.runner.state.reported.surges.under_way
    assert "a label was not refused" in under_way.waits
    played.cluster.restricted = True
    played.seconds(200)
    check(played, 6, 2)


# Numbers that could be anybody's


@pytest.mark.parametrize("phase", [Phase.MARKING, Phase.ADDING])
@pytest.mark.parametrize("method", [RepairMethod.SURGE, RepairMethod.EVICT])
def test_the_number_of_somebody_else_stands_where_it_is_the_one_that_was_to_be_written(
    phase: Phase, method: RepairMethod
) -> None:
    """With two pods more than six, eight is what somebody has asked for."""
    played = begun(phase)
    scale(played, 8)
    if method is RepairMethod.EVICT:
        stop(played)
    played.seconds(65, cycle=10**6)
    assert [one.ending for one in played.ended] == [Ending.SCALED]
    assert replicas(played) == 8
    assert_nothing_left(played)


def paused(played: Play, by: str = "alice") -> None:
    played.cluster.pause = Pause(by=by)
    played.simulation.runner.tell(PauseRead(pause=played.cluster.pause))
    played.simulation.runner.drain()


def resume(played: Play) -> None:
    played.cluster.pause = None
    played.simulation.runner.tell(PauseRead(pause=None))
    played.simulation.runner.drain()


@pytest.mark.parametrize(("phase", "raised", "number"), [(Phase.ADDING, 8, 6), (Phase.REMOVING, 6, 8)])
def test_a_number_that_somebody_writes_during_a_pause_stands(phase: Phase, raised: int, number: int) -> None:
    """Right after the surge has scaled, before its record says so: it is scaled back by hand, or asked for more."""
    played = begun(phase)
    while replicas(played) != raised:
        played.worker.work()
    paused(played)
    scale(played, number)
    played.seconds(20, cycle=10**6)
    resume(played)
    played.seconds(65, cycle=10**6)
    assert replicas(played) == number
    assert {one.ending for one in played.ended} <= {Ending.SCALED, Ending.DONE}
    assert_nothing_left(played)


class Late(Watched):
    """A cluster whose API server carries out a scale-up later than it has lost the answer."""

    held: list[Callable[[], object]]

    def set_replicas(self, workload: Reference, read: ScaleReading, replicas: int) -> ScaleAnswer:
        honest = super().set_replicas
        if replicas > read.replicas and not hasattr(self, "held"):
            self.held = [lambda: honest(workload, read, replicas)]
            return ScaleAnswer(ScaleResult.UNKNOWN, message="no answer")
        return honest(workload, read, replicas)


def test_a_scale_up_that_is_carried_out_late_is_taken_back() -> None:
    """The policy has changed meanwhile; the record outlives what the API server may still do."""
    cluster = Late(skewed(HALF, budget=0).snapshot(), seed=1)
    played = Play(cluster, surging())
    while not hasattr(cluster, "held"):
        played.seconds(1)
    stop(played)
    cluster.held[0]()
    assert replicas(played) == 8
    played.seconds(180)
    assert replicas(played) == 6
    assert_nothing_left(played)


@pytest.mark.parametrize("seconds", range(1, 25))
def test_while_added_pods_are_taken_back_the_next_leader_finds_the_record(seconds: int) -> None:
    """Whenever the last one dies, under a policy that only evicts: by the marks, of which one is always there."""
    played = begun(Phase.WAITING, most=1)
    rules = played.policy.model_copy(update={"repair": RepairBy()})
    played.simulation.runner.tell(PolicyLoaded(policy=rules))
    played.simulation.runner.drain()
    played.seconds(seconds, cycle=10)
    played.restart()
    played.seconds(120, cycle=10)
    assert replicas(played) == 6
    assert played.least_ready >= 6
    assert_nothing_left(played)


@pytest.mark.parametrize("text", ["", "[{", "[]"])
def test_records_that_somebody_empties_or_damages_are_written_again(text: str) -> None:
    played = begun(Phase.WAITING)
    played.cluster.surges = text
    played.seconds(200)
    check(played, 6, 2)
    assert zone_counts(played) == [2, 2, 2]


def test_records_that_somebody_empties_are_not_forgotten_where_they_cannot_be_written_at_once() -> None:
    """A pause comes right when they are missing: they are written again when it ends."""
    played = begun(Phase.WAITING)
    played.cluster.surges = ""
    while played.worker._records is not None:
        played.worker.work()
        played.cluster.advance(1)
    played.cluster.pause = Pause(by="alice")
    played.seconds(60, cycle=10**6)
    assert (played.records, replicas(played)) == ((), 8)
    played.cluster.pause = None
    played.seconds(200)
    check(played, 6, 2)


def test_damaged_records_are_said_where_pods_are_marked_whatever_the_policy_is() -> None:
    played = begun(Phase.WAITING)
    played.cluster.surges = "[{"
    played.restart()
    stop(played, cycle=10)
    assert "cannot be read" in played.simulation.runner.state.reported.surges.stopped


def test_what_has_no_mark_within_the_timeout_has_not_begun_and_is_no_failure() -> None:
    """The admission policy is missing: nothing was added, so that no prediction has failed."""
    played = play(HALF)
    played.cluster.restricted = False
    played.seconds(400)
    assert {one.ending for one in played.ended} == {Ending.NOT_BEGUN}
    assert played.simulation.runner.state.memory.failed_predictions == ()
    played.cluster.restricted = True
    played.seconds(300)
    check(played, 6, 2)
    assert zone_counts(played) == [2, 2, 2]


def test_a_pause_that_is_longer_than_the_timeout_makes_no_surge_fail() -> None:
    """All pods are Ready when it ends; but it is looked at them for `settle` before any goes."""
    played = begun(Phase.WAITING)
    paused(played)
    played.seconds(300, cycle=10**6)
    resume(played)
    played.seconds(2, cycle=10**6)
    assert replicas(played) == 8
    played.seconds(200)
    assert {one.ending for one in played.ended} == {Ending.DONE}
    check(played, 6, 2)


def test_what_goes_fits_its_budget_when_it_goes() -> None:
    """The policy overrides it no more: the pods stay until the timeout, and the added ones are taken back."""
    played = begun(Phase.WAITING)
    rules = played.policy.repair.model_copy(update={"over_budget": ()})
    policy = played.policy.model_copy(update={"repair": rules})
    before = start_uids(played)
    played.simulation.runner.tell(PolicyLoaded(policy=policy))
    played.simulation.runner.drain()
    played.seconds(60, cycle=10**6)
    (under_way,) = played.simulation.runner.state.reported.surges.under_way
    assert (replicas(played), under_way.waits) == (8, "until PodDisruptionBudget default/web lets 2 pods go")
    played.seconds(120, cycle=10**6)
    assert {one.ending for one in played.ended} == {Ending.TIMED_OUT}
    assert replicas(played) == 6
    assert {one.uid for one in played.ended[0].surge.victims} <= before & start_uids(played)


def test_fewer_pods_are_added_where_the_policy_says_so_before_any_is() -> None:
    played = begun(Phase.MARKING)
    rules = played.policy.repair.model_copy(update={"max_surge": 1})
    played.simulation.runner.tell(PolicyLoaded(policy=played.policy.model_copy(update={"repair": rules})))
    played.simulation.runner.drain()
    played.seconds(250)
    assert played.most_alive == 7
    assert Ending.NOT_WANTED in {one.ending for one in played.ended}


def test_nothing_is_stored_once_the_kill_switch_is_set() -> None:
    """Although the loop has not heard of it yet."""
    played = begun(Phase.WAITING)
    played.cluster.pause = Pause(by="alice")
    played.seconds(2, cycle=10**6)
    stores = played.cluster.stores
    played.seconds(60, cycle=10**6)
    assert played.cluster.stores == stores


class Silent(Watched):
    """A cluster whose answers to stores are lost."""

    def save_surges(self, text: str) -> str:
        super().save_surges(text)
        return "no answer"


def test_a_record_whose_answer_was_lost_is_stored_all_the_same() -> None:
    """Every begin and every end is told."""
    played = Play(Silent(skewed(HALF, budget=0).snapshot(), seed=1), surging())
    played.seconds(200)
    check(played, 6, 2)
    assert [one.ending for one in played.ended] == [Ending.DONE, Ending.DONE]


def test_surges_of_one_plan_share_a_quota() -> None:
    """Nine pods are allowed, and eight are there: one Deployment after the other gets the ninth."""
    builder = a_cluster("abc", 2)
    for name in ("web", "cart"):
        builder.deployment(name, on={"a-1": 3, "b-1": 1}, spread={ZONE: 1})
    quota = ResourceQuota(namespace="default", name="pods", hard=(("pods", 9),), used=(("pods", 8),))
    snapshot = replace(builder.snapshot(), quotas=(quota,))
    plan = planned(snapshot, surging(1).model_copy(update={"repair": surging(1).repair}))
    assert [eviction.repair.added for eviction in plan.fates.going] == [1]
