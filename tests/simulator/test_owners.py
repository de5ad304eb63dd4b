"""ReplicaSets, Deployments and StatefulSets."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.prevention.controller_order import sort_for_deletion
from rebalancer.simulator import START, ZONE, ClusterBuilder, SimulatedCluster, TraceKind
from tests.simulator.build import BOTH, EVERYWHERE, PROMPT, cluster, happened, move, pods, web, workload


def test_a_cluster_at_rest_stays_at_rest() -> None:
    simulated = cluster(web)
    simulated.advance(3600)
    assert not simulated.trace
    assert simulated.next_due is None


def test_a_replica_set_replaces_a_pod_as_soon_as_it_is_terminating() -> None:
    simulated = cluster(web)
    victim = next(iter(pods(simulated).values()))
    simulated.evict(move(victim))
    simulated.advance(0.5)
    now = pods(simulated)
    assert now[victim.name].terminating
    assert len(now) == 13
    new = now[happened(simulated, TraceKind.CREATED)[0]]
    assert (new.owner, new.labels, new.spec) == (victim.owner, victim.labels, victim.spec)
    assert new.uid != victim.uid


def test_the_status_tells_what_the_controller_saw() -> None:
    """Right after an eviction it is one short, then whole again, and ready when the new pod is."""
    simulated = cluster(web)
    simulated.evict(move(next(iter(pods(simulated).values()))))
    simulated.advance(0.15)
    assert workload(simulated, "ReplicaSet").current == 11
    simulated.advance(0.5)
    assert (workload(simulated, "ReplicaSet").current, workload(simulated, "Deployment").ready) == (12, 11)
    simulated.advance(5)
    assert (workload(simulated, "Deployment").current, workload(simulated, "Deployment").ready) == (12, 12)


def test_a_deployment_passes_its_number_on() -> None:
    simulated = cluster(web)
    simulated.scale("default", "Deployment", "web", 15)
    assert not workload(simulated, "Deployment").observed
    simulated.advance(30)
    assert len(pods(simulated)) == 15
    simulated.scale("default", "Deployment", "web", 4)
    simulated.advance(30)
    assert len(pods(simulated)) == 4
    deployment = workload(simulated, "Deployment")
    assert (deployment.current, deployment.ready, deployment.updated, deployment.observed) == (4, 4, 4, True)


def test_a_replica_set_takes_orphans_that_it_selects() -> None:
    def lonely(builder: ClusterBuilder) -> None:
        builder.deployment("web", on=EVERYWHERE)

    first = cluster(lonely).snapshot(START)
    orphan = structs.replace(first.pods[0], owner=None)
    simulated = SimulatedCluster(
        Snapshot(taken_at=START, pods=(orphan, *first.pods[1:]), nodes=first.nodes, workloads=first.workloads),
        timings=PROMPT,
    )
    simulated.advance(5)
    assert happened(simulated, TraceKind.ADOPTED) == [orphan.name]
    assert pods(simulated)[orphan.name].owner == first.pods[0].owner
    assert not happened(simulated, TraceKind.CREATED)


def test_scaling_down_takes_pods_in_the_real_order() -> None:
    """Unscheduled, pending, unready, cheap, crowded, young; then by UID."""
    now = START + timedelta(days=10)

    def pod(name: str, **fields: object) -> Pod:
        base = Pod(
            namespace="default",
            name=name,
            uid=name,
            node="alone",
            phase=PodPhase.RUNNING,
            ready=True,
            ready_since=START,
            created=START,
        )
        return structs.replace(base, **fields)

    cost = "controller.kubernetes.io/pod-deletion-cost"
    order = [
        pod("unscheduled", node=None, phase=PodPhase.PENDING, ready=False),
        pod("pending", phase=PodPhase.PENDING, ready=False),
        pod("unready", ready=False),
        pod("cheap", annotations=Labels({cost: "-5"})),
        pod("crowded", node="crowd"),
        pod("young", ready_since=now - timedelta(minutes=1)),
        pod("a"),
        pod("b"),
        pod("dear", annotations=Labels({cost: "7"})),
    ]
    crowds = Counter[str | None]({"crowd": 3, "alone": 1})
    assert sort_for_deletion(order[::-1], crowds, now) == order


def sets(builder: ClusterBuilder) -> None:
    builder.stateful_set("db", on=dict.fromkeys(EVERYWHERE, 1), spread=BOTH)


def test_a_stateful_set_makes_a_pod_anew_only_when_the_old_one_is_gone() -> None:
    simulated = cluster(sets)
    victim = pods(simulated)["db-2"]
    simulated.evict(move(victim))
    simulated.advance(1.9)
    assert pods(simulated)["db-2"].uid == victim.uid
    simulated.advance(0.5)
    new = pods(simulated)["db-2"]
    assert new.uid != victim.uid
    assert new.labels == victim.labels


def test_a_stateful_set_fills_one_gap_after_the_other() -> None:
    simulated = cluster(sets)
    for name in ("db-1", "db-4"):
        simulated.evict(move(pods(simulated)[name]))
    simulated.advance(30)
    order = [(entry.kind, entry.object[-4:]) for entry in simulated.trace]
    assert order.index((TraceKind.STARTED, "db-1")) < order.index((TraceKind.CREATED, "db-4"))


def test_a_parallel_stateful_set_fills_all_gaps_at_once() -> None:
    snapshot = cluster(sets).snapshot(START)
    at_once = tuple(structs.replace(owner, parallel=True) for owner in snapshot.workloads)
    simulated = SimulatedCluster(replace(snapshot, workloads=at_once), timings=PROMPT)
    for name in ("db-1", "db-4"):
        simulated.evict(move(pods(simulated)[name]))
    simulated.advance(30)
    order = [(entry.kind, entry.object[-4:]) for entry in simulated.trace]
    assert order.index((TraceKind.CREATED, "db-4")) < order.index((TraceKind.STARTED, "db-1"))


@pytest.mark.parametrize(("name", "revision"), [("db-1", "db-1"), ("db-4", "db-2")])
def test_a_stateful_set_with_a_partition_creates_a_pod_at_the_revision_of_its_ordinal(name: str, revision: str) -> None:
    """Whichever is created first; and its status goes on counting only the others as updated."""
    snapshot = cluster(sets).snapshot(START)
    held = tuple(
        structs.replace(owner, current_revision="db-1", revision="db-2", partition=3, updated=3, parallel=True)
        for owner in snapshot.workloads
    )
    labelled = tuple(
        structs.replace(
            pod, labels=Labels({**pod.labels, "controller-revision-hash": f"db-{1 + (pod.name >= 'db-3')}"})
        )
        for pod in snapshot.pods
    )
    simulated = SimulatedCluster(replace(snapshot, workloads=held, pods=labelled), timings=PROMPT)
    for victim in ("db-2", "db-5", name):
        simulated.evict(move(pods(simulated)[victim]))
    simulated.advance(60)
    assert pods(simulated)[name].labels["controller-revision-hash"] == revision
    assert workload(simulated, "StatefulSet").updated == 3


def test_a_stateful_set_gives_up_its_highest_numbers_one_by_one() -> None:
    simulated = cluster(sets)
    simulated.scale("default", "StatefulSet", "db", 3)
    simulated.advance(60)
    assert sorted(pods(simulated)) == ["db-0", "db-1", "db-2"]
    going = [entry for entry in simulated.trace if entry.kind in {TraceKind.DELETED, TraceKind.GONE}]
    assert [entry.object[-4:] for entry in going] == [name for name in ("db-5", "db-4", "db-3") for _ in range(2)]
    assert all(before.at <= after.at for before, after in pairwise(going))


def test_new_numbers_have_their_labels_and_claims() -> None:
    first = cluster(sets).snapshot(START)
    (owner,) = first.workloads
    assert owner.template is not None
    owner = structs.replace(owner, template=structs.replace(owner.template, claim_templates=("data",)))
    simulated = SimulatedCluster(
        Snapshot(taken_at=START, pods=first.pods, nodes=first.nodes, workloads=(owner,)), timings=PROMPT
    )
    simulated.scale("default", "StatefulSet", "db", 7)
    simulated.advance(10)
    new = pods(simulated)["db-6"]
    assert new.claims == ("data-db-6",)
    assert new.labels["apps.kubernetes.io/pod-index"] == "6"
    assert new.labels["statefulset.kubernetes.io/pod-name"] == "db-6"


def test_a_template_that_the_api_server_refuses_makes_no_pods() -> None:
    def described(builder: ClusterBuilder) -> None:
        builder.deployment("web", on=EVERYWHERE, spread={ZONE: 1})

    first = cluster(described).snapshot(START)
    workloads = []
    for owner in first.workloads:
        assert owner.template is not None
        (constraint,) = owner.template.spec.spread
        constraint = structs.replace(constraint, match_label_keys=("app",))
        spec = structs.replace(owner.template.spec, spread=(constraint,))
        workloads.append(structs.replace(owner, template=structs.replace(owner.template, spec=spec)))
    simulated = SimulatedCluster(
        Snapshot(taken_at=START, pods=first.pods, nodes=first.nodes, workloads=workloads), timings=PROMPT
    )
    simulated.evict(move(first.pods[0]))
    simulated.advance(60)
    assert not happened(simulated, TraceKind.CREATED)
    assert len(pods(simulated)) == 11
