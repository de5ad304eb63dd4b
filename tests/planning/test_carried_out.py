"""The cluster after evictions, on paper."""

from collections import Counter

from msgspec import structs

from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Cause
from rebalancer.planning.carried_out import carry_out
from rebalancer.planning.eviction import Eviction, Repair
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster, with_cpu


def evict(pods: list[Pod]) -> list[Eviction]:
    repair = Repair(step=1, group="g", cause=Cause.SKEW_VIOLATED)
    return [Eviction(repair=repair, pod=pod, workload=Reference("default", "Deployment", "web")) for pod in pods]


def test_each_replacement_is_where_the_scheduler_puts_it() -> None:
    """Each counts for the next one: of four two go to either empty zone. All pods are there still."""
    snapshot = a_cluster("abc", 1, {"a-1": 6}, spread={ZONE: 1}).snapshot()
    going = list(snapshot.pods[:4])
    after = carry_out(View(snapshot), evict(going))
    assert after is not None
    assert Counter(pod.node for pod in after.pods) == {"a-1": 2, "b-1": 2, "c-1": 2}
    assert {pod.uid for pod in after.pods if pod.node != "a-1"} == {pod.uid for pod in going}


def test_nothing_is_said_where_a_replacement_is_not_known_or_finds_no_node() -> None:
    """A pod without an owner has none; and one that no node has room for waits."""
    snapshot = a_cluster("abc", 1, {"a-1": 4, "b-1": 2}, spread={ZONE: 1}).snapshot()
    (first, *_) = snapshot.pods
    assert carry_out(View(snapshot), evict([structs.replace(first, owner=None)])) is None
    full = with_cpu(snapshot, 0, "a-1", "b-1", "c-1")
    assert carry_out(View(full), evict([first])) is None
