"""The scheduler and the owners' controllers act on what they have seen, which is a while ago."""

from collections import Counter

import pytest

from rebalancer.simulator import ZONE, ClusterBuilder, SimulatedCluster, Span, Timings, TraceKind
from tests.simulator.build import cluster, happened, move, pods, web, workload

SLOW = Timings(
    starting=Span(1, 1), stopping=Span(2, 2), reconciling=Span(0, 0), counting=Span(0, 0), informing=Span(3, 3)
)


def lagging(seed: int = 0, timings: Timings = SLOW) -> SimulatedCluster:
    return cluster(web, timings=timings, seed=seed)


def test_a_replacement_is_made_once_the_eviction_has_been_seen() -> None:
    """Not before, and one only, though the controller sees it only after three more seconds."""
    simulated = lagging()
    simulated.advance(10)
    gone = pods(simulated)["web-1"] if "web-1" in pods(simulated) else next(iter(pods(simulated).values()))
    simulated.evict(move(gone))
    simulated.advance(2.9)
    assert not happened(simulated, TraceKind.CREATED)
    simulated.advance(60)
    assert len(happened(simulated, TraceKind.CREATED)) == 1
    assert len(pods(simulated)) == 12


@pytest.mark.parametrize("seed", range(10))
def test_as_many_pods_as_replicas_in_the_end(seed: int) -> None:
    """Whatever is evicted and scaled while nobody has seen what happened before."""
    simulated = lagging(seed, Timings(informing=Span(0.0, 2.0), binding=Span(0.0, 2.0)))
    simulated.advance(10)
    for step, replicas in enumerate((9, 14, 12)):
        for victim in list(pods(simulated).values())[step : step + 2]:
            simulated.evict(move(victim))
        simulated.scale("default", "Deployment", "web", replicas)
        simulated.advance(0.7)
    simulated.advance(120)
    left = pods(simulated).values()
    assert len(left) == 12
    assert all(pod.ready for pod in left)
    assert workload(simulated, "ReplicaSet").observed
    assert workload(simulated, "ReplicaSet").current == 12


def test_the_scheduler_counts_what_it_has_bound_itself() -> None:
    """Six pods at once are spread evenly, though it sees none of their bindings before the last is made."""

    def empty(builder: ClusterBuilder) -> None:
        builder.deployment("web", on={"a-1": 1}, spread={ZONE: 1})

    simulated = cluster(empty, timings=SLOW)
    simulated.scale("default", "Deployment", "web", 6)
    simulated.advance(60)
    assert Counter((pod.node or "")[0] for pod in pods(simulated).values()) == {"a": 2, "b": 2, "c": 2}


def test_the_scheduler_places_by_what_it_has_seen() -> None:
    """A node that was cordoned a second ago still gets a pod."""
    simulated = cluster(lambda builder: builder.deployment("web", on={"a-1": 1}, spread={ZONE: 1}), timings=SLOW)
    for name in ("a-1", "a-2", "b-1", "b-2", "c-2"):
        simulated.nodes.cordon(name)
    simulated.advance(10)
    simulated.scale("default", "Deployment", "web", 2)
    simulated.advance(5.9)  # the number is seen after 3 s, the new pod after 3 more
    simulated.nodes.cordon("c-1")
    simulated.advance(1)
    assert [pod.node for pod in pods(simulated).values() if not pod.ready or pod.node == "c-1"] == ["c-1"]
