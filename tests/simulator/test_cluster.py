"""The cluster as the loop's port, its watch and its lease."""

from datetime import timedelta
from random import Random

from msgspec import structs

from rebalancer.model.events import Event, EventReason, Regarding
from rebalancer.model.snapshot import Snapshot
from rebalancer.ports import Cluster, Document, Lease, LeaseRecord
from rebalancer.simulator import (
    START,
    ZONE,
    ClusterBuilder,
    Faults,
    SimulatedCluster,
    SimulatedLease,
    TraceEntry,
    TraceKind,
)
from rebalancer.simulator.event_queue import EventQueue
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import Store
from tests.simulator.build import PROMPT, cluster, move, pods, web


def test_it_is_what_the_loop_needs() -> None:
    simulated: Cluster = cluster(web)
    lease: Lease = SimulatedLease()
    assert not simulated.staleness()
    assert lease.read() is None


def test_a_snapshot_of_the_start_is_the_start() -> None:
    first = cluster(web).snapshot(START)
    again = SimulatedCluster(first).snapshot(START)
    assert again == first


def test_every_write_has_a_resource_version_of_its_own() -> None:
    simulated = cluster(web)
    simulated.nodes.remove_domain(ZONE, "c")
    simulated.advance(120)
    snapshot = simulated.snapshot(simulated.now)
    written = [pod.resource_version for pod in snapshot.pods]
    written += [workload.resource_version for workload in snapshot.workloads]
    written += [budget.resource_version for budget in snapshot.budgets]
    fresh = [version for version in written if version]
    assert len(fresh) > 4
    assert len(set(fresh)) == len(fresh)


def test_a_generated_name_that_is_taken_is_drawn_again() -> None:
    builder = ClusterBuilder()
    builder.deployment("web", on={"a-1": 1})
    store = Store(builder.snapshot())
    state = ClusterState(store=store, event_queue=EventQueue(START), random=Random(1), timings=PROMPT)
    first = state.generate_pod_name("default", "web")
    (pod,) = store.pods
    store.pods.drop(pod.uid)
    store.pods.put(structs.replace(pod, name=first))

    state.random.seed(1)
    elsewhere = state.generate_pod_name("other", "web")
    state.random.seed(1)

    assert elsewhere == first != state.generate_pod_name("default", "web")


def test_a_delayed_watch_shows_what_was() -> None:
    simulated = cluster(web, faults=Faults(watch_delay=5.0))
    victim = next(iter(pods(simulated).values()))
    simulated.evict(move(victim))
    simulated.advance(4.9)
    assert pods(simulated)[victim.name] == victim
    simulated.advance(0.2)
    assert pods(simulated)[victim.name].terminating
    assert simulated.snapshot(simulated.now).taken_at == simulated.now


def test_kinds_that_nobody_knew_stay_unknown() -> None:
    simulated = SimulatedCluster(Snapshot(taken_at=START, unknown=frozenset({"PodDisruptionBudget"})))
    simulated.advance(10)
    assert simulated.snapshot(simulated.now).unknown == {"PodDisruptionBudget"}


def test_events_and_documents_are_stored() -> None:
    simulated = cluster(web)
    about = Regarding(kind="Deployment", namespace="default", name="web")
    simulated.record(Event(reason=EventReason.SKEW_VIOLATED, note="6/6/0", regarding=about))
    assert simulated.trace == [TraceEntry(START, TraceKind.EVENT, "Deployment default/web", "SkewViolated: 6/6/0")]
    simulated.save((Document("memory.json", "{}"),))
    assert (simulated.load("memory.json"), simulated.load("plan.json")) == ("{}", "")


def test_a_line_of_the_history_reads_as_a_sentence() -> None:
    entry = TraceEntry(START + timedelta(milliseconds=1500), TraceKind.SCHEDULED, "Pod default/web-1", "to a-1")
    assert str(entry) == "2026-01-01T00:00:01.500Z Scheduled Pod default/web-1: to a-1"


def test_only_who_has_read_a_lease_may_write_it() -> None:
    lease = SimulatedLease()
    first = lease.write(LeaseRecord(holder="a", duration=15))
    assert first is not None
    assert lease.write(LeaseRecord(holder="b", duration=15)) is None
    second = lease.write(LeaseRecord(holder="b", duration=15, version=first.version))
    assert second == lease.read()
    assert lease.write(LeaseRecord(holder="a", duration=15, version=first.version)) is None
