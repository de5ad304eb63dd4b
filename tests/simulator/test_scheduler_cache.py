"""What the scheduler sees."""

from random import Random

import pytest
from msgspec import structs

from rebalancer.model.labels import LabelSelector
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.scheduling.view import View
from rebalancer.simulator import START, ZONE, Timings
from rebalancer.simulator.event_queue import EventQueue
from rebalancer.simulator.scheduler import SchedulerCache
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import Store
from tests.build import a_cluster

EVERYTHING = LabelSelector()


def make_state() -> ClusterState:
    return ClusterState(
        store=Store(a_cluster("abc", 2, {"a-1": 9, "b-1": 9, "c-1": 9}, spread={ZONE: 1}).snapshot()),
        event_queue=EventQueue(START),
        random=Random(1),
        timings=Timings(),
    )


@pytest.mark.parametrize("changes", [1, 5, 30, 200])
def test_a_view_that_follows_is_what_a_fresh_one_would_be(changes: int) -> None:
    """Pods are placed, deleted, removed, and made anew; at the end both views count and add up alike."""
    made = make_state()
    cache = SchedulerCache(made, DEFAULT_PROFILE)
    assert cache.view.nodes.names
    for _ in range(changes):
        pods = list(made.store.pods)
        pod = made.random.choice(pods)
        if pod.terminating:
            made.remove(pod)
        elif made.random.random() < 0.5:
            made.delete(pod)
        else:
            new = structs.replace(
                pod, name=made.generate_pod_name("default", "web"), uid=made.uid(), node=None, deleted=None
            )
            made.store.pods.put(new)
            made.store.pods.put(structs.replace(new, node=made.random.choice(["a-1", "b-2", "c-2"])))
        assert cache.view is not None
    fresh = View(made.store.snapshot(START))
    followed = cache.view
    assert followed.live("default", EVERYTHING) == fresh.live("default", EVERYTHING)
    assert followed.present("default", EVERYTHING) == fresh.present("default", EVERYTHING)
    assert [followed.used(node) for node in fresh.nodes.by_name] == [fresh.used(node) for node in fresh.nodes.by_name]
