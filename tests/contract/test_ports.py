"""What the controller relies on, on the simulated cluster and on a real one alike."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec import structs

from rebalancer.model.moves import Move, Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause
from rebalancer.model.snapshot import Snapshot
from rebalancer.ports import Document, EvictionResult, LeaseRecord, count_pods
from tests.contract.bench import Bench, Real, Scene, Simulated

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEB = Reference("shop", "Deployment", "web")
KINDS = ["Deployment", "StatefulSet"]


@pytest.fixture(params=["simulated", pytest.param("real", marks=[pytest.mark.cluster, pytest.mark.timeout(600)])])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Return a cluster of each sort."""
    if request.param == "simulated":
        yield Simulated()
        return
    plane = request.getfixturevalue("cluster")
    with contextlib.ExitStack() as cleanup:
        yield Real(plane, cleanup)


def move(pod: Pod, /, **changes: str) -> Move:
    """Return the move that the controller makes of an eviction."""
    assert pod.owner is not None
    made = Move(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node or "",
        workload=WEB,
        owner_uid=pod.owner.uid,
        cause=Cause.SKEW_VIOLATED,
        requested_at=NOW,
        changed_at=NOW,
    )
    return structs.replace(made, **changes)


def ready(snapshot: Snapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if pod.ready and not pod.terminating]


def counted(snapshot: Snapshot, kind: str) -> int:
    """Return the Ready pods in the workload's status."""
    return next(workload.ready for workload in snapshot.workloads if workload.kind == kind)


@pytest.mark.parametrize("kind", KINDS)
def test_an_evicted_pod_is_replaced_by_another_uid(bench: Bench, kind: str) -> None:
    """The pod goes, the owner counts one less, a pod with a new UID becomes Ready, the owner counts all again."""
    scene = Scene(kind=kind)
    bench.lay_out(scene)
    before = bench.snapshot()
    victim = ready(before)[0]
    reference = Reference("shop", kind, "web")
    assert bench.port.count_replicas(reference) == count_pods(scene.pods, before.pods)
    assert bench.port.evict(move(victim)).result is EvictionResult.EVICTED
    # At once, whatever the owner's status says: two evictions may follow each other within milliseconds.
    left = bench.port.count_replicas(reference)
    assert (left.wanted, left.ready) == (scene.pods, scene.pods - 1)
    assert left.pods is not None
    assert victim.uid not in left.pods
    bench.until(lambda now: now.pod.get(victim.uid) is None or now.pod[victim.uid].terminating, "the pod to terminate")
    bench.until(lambda now: counted(now, kind) == scene.pods - 1, "the owner to count one less")
    after = bench.until(lambda now: len(ready(now)) == scene.pods, "a replacement")
    new = [pod for pod in after.pods if pod.uid not in before.pod]
    assert len(new) == 1
    assert (new[0].name == victim.name) is (kind == "StatefulSet"), "only a StatefulSet's has the old name"
    bench.until(lambda now: counted(now, kind) == scene.pods, "the owner to count all")
    assert bench.port.count_replicas(reference) == count_pods(scene.pods, after.pods)


def test_a_pod_that_terminates_is_evicted_without_effect(bench: Bench) -> None:
    """A second request for a pod is granted, and nothing more happens."""
    bench.lay_out(Scene(stopping=8))
    before = bench.snapshot()
    victim = ready(before)[0]
    assert bench.port.evict(move(victim)).result is EvictionResult.EVICTED
    assert bench.port.evict(move(victim)).result is EvictionResult.EVICTED
    bench.until(lambda now: victim.uid not in now.pod, "the pod to go")  # a watch may be late
    after = bench.until(lambda now: len(now.pods) == 3 and len(ready(now)) == 3, "a replacement")
    assert len([pod for pod in after.pods if pod.uid not in before.pod]) == 1


def test_another_uid_is_not_evicted(bench: Bench) -> None:
    """A pod that has the name, but not the UID, stays."""
    bench.lay_out(Scene())
    before = bench.snapshot()
    answer = bench.port.evict(move(before.pods[0], uid="00000000-0000-4000-8000-00000000dead"))
    assert answer.result is EvictionResult.CONFLICT
    assert not bench.snapshot().pods[0].terminating


def test_a_pod_that_does_not_exist_is_gone(bench: Bench) -> None:
    """There is nothing to evict under another name."""
    bench.lay_out(Scene())
    answer = bench.port.evict(move(bench.snapshot().pods[0], pod="web-nobody"))
    assert answer.result is EvictionResult.GONE


def test_a_budget_allows_so_many_and_recovers(bench: Bench) -> None:
    """One may be unavailable: the second is refused until the first one's replacement is Ready."""
    bench.lay_out(Scene(on={"a": 2, "b": 2}, budgets={"web": 1}))
    assert bench.snapshot().budgets[0].allowed == 1
    first, second = ready(bench.snapshot())[:2]
    assert bench.port.evict(move(first)).result is EvictionResult.EVICTED
    assert bench.port.evict(move(second)).result is EvictionResult.BUDGET
    bench.until(lambda now: now.budgets[0].allowed == 0, "the budget to be used up")
    status = bench.until(lambda now: now.budgets[0].allowed == 1 and len(ready(now)) == 4, "the budget to recover")
    budget = status.budgets[0]
    assert (budget.current_healthy, budget.desired_healthy, budget.expected) == (4, 3, 4)
    assert bench.port.evict(move(second)).result is EvictionResult.EVICTED


def test_a_budget_of_none_allows_nothing(bench: Bench) -> None:
    """The pod stays, and the answer says that a budget refused."""
    bench.lay_out(Scene(budgets={"web": 0}))
    assert bench.snapshot().budgets[0].allowed == 0
    assert bench.port.evict(move(ready(bench.snapshot())[0])).result is EvictionResult.BUDGET
    assert len(ready(bench.snapshot())) == 3


def test_two_budgets_allow_nothing(bench: Bench) -> None:
    """The server does not evict a pod that has two budgets, however much they allow."""
    bench.lay_out(Scene(budgets={"web": 2, "wide": 3}))
    assert bench.port.evict(move(ready(bench.snapshot())[0])).result is EvictionResult.FAILED
    assert len(ready(bench.snapshot())) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_scale_down_deletes_and_replaces_nothing(bench: Bench, kind: str) -> None:
    """Of three pods one stays, one of the three."""
    bench.lay_out(Scene(kind=kind))
    before = bench.snapshot()
    bench.scale(kind, 1)
    after = bench.until(lambda now: len(now.pods) == 1, "two pods to go")
    assert after.pods[0].uid in before.pod
    if kind == "StatefulSet":
        assert after.pods[0].name == "web-0"
    bench.until(lambda now: counted(now, kind) == 1, "the owner to count one")


def test_the_pods_of_a_deleted_node_are_collected_and_replaced(bench: Bench) -> None:
    """They are deleted after a while, though no kubelet ends them; their replacements come to the other node."""
    bench.lay_out(Scene())
    before = bench.snapshot()
    bench.remove_node("a")
    after = bench.until(
        lambda now: len(now.pods) == len(ready(now)) == 3 and {pod.node for pod in now.pods} == {"b"}, "replacements"
    )
    assert len([pod for pod in after.pods if pod.uid in before.pod]) == 1


def test_a_pod_without_capacity_waits(bench: Bench) -> None:
    """Two nodes of two cores hold four pods of one; the fifth has no node, and gets one when there is capacity."""
    bench.lay_out(Scene(nodes={"a": 2, "b": 2}, on={"a": 2, "b": 2}))
    bench.scale("Deployment", 5)
    waiting = bench.until(lambda now: len(now.pods) == 5, "a fifth pod")
    assert [pod.node for pod in waiting.pods].count(None) == 1
    bench.scale("Deployment", 4)
    after = bench.until(lambda now: len(now.pods) == 4, "it to go")
    assert all(pod.node is not None for pod in after.pods), "the one that waits goes first"


def test_who_saves_after_another_reads_first(bench: Bench) -> None:
    """What another process has stored since is not overwritten; after it was read, saving works again."""
    bench.lay_out(Scene())
    assert bench.port.load("memory.json") == ""
    assert bench.port.save((Document("memory.json", "one"), Document("plan.json", "p"))).problem == ""
    assert bench.port.load("memory.json") == "one"
    bench.save_as_another(Document("memory.json", "two"))
    answer = bench.port.save((Document("memory.json", "three"),))
    assert answer.conflict
    assert answer.problem
    assert bench.port.load("memory.json") == "two"
    assert bench.port.save((Document("memory.json", "three"),)).problem == ""
    assert bench.port.load("memory.json") == "three"
    assert bench.port.load("plan.json") == "", "what is saved replaces everything"


def test_the_lease_goes_to_the_first_who_writes(bench: Bench) -> None:
    """Who has read an older version writes nothing, neither at the creation nor later."""
    ours, theirs = bench.lease(), bench.lease()
    assert ours.read() is None
    record = LeaseRecord(holder="us", duration=15, acquired=NOW, renewed=NOW)
    first = ours.write(record)
    assert first is not None
    assert theirs.write(structs.replace(record, holder="them")) is None, "it exists already"
    read = theirs.read()
    assert read == first
    second = theirs.write(structs.replace(read, holder="them"))
    assert second is not None
    assert ours.write(structs.replace(first, holder="us again")) is None
    assert ours.read() == second
    assert second.version != first.version


def test_a_pause_is_read_at_once(bench: Bench) -> None:
    """From the moment when it is written it is read, whatever the watches show."""
    bench.lay_out(Scene())
    assert bench.port.read_pause() is None
    bench.pause("maintenance")
    pause = bench.port.read_pause()
    assert pause is not None
    assert (pause.reason, pause.until) == ("maintenance", None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_remains_until_it_is_evicted(bench: Bench, kind: str) -> None:
    """From the eviction on it does not, whatever the watches show; a replacement of its name is another pod."""
    bench.lay_out(Scene(kind=kind, stopping=3.0))
    before = bench.snapshot()
    victim, other = ready(before)[:2]
    assert bench.port.pod_remains(move(victim))
    assert not bench.port.pod_remains(move(victim, uid="another"))
    assert bench.port.evict(move(victim)).result is EvictionResult.EVICTED
    assert not bench.port.pod_remains(move(victim)), "it is terminating"
    bench.until(lambda now: len([pod for pod in ready(now) if pod.uid != victim.uid]) == 3, "a replacement")
    bench.until(lambda now: victim.uid not in now.pod, "the pod to go")
    assert not bench.port.pod_remains(move(victim))
    assert bench.port.pod_remains(move(other))
