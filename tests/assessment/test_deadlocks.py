"""A pod whose own rules exclude each other is found, with the rules that clash; one that only lacks capacity is not."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.deadlocks import Deadlock, find_deadlocks
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import Reference
from rebalancer.model.pods import PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View
from tests.assessment.redis import AZ, HOSTNAME, machines, redis
from tests.scheduling.build import ZONE, node, pod, snapshot, spread, taint

SKEWS = {HOSTNAME: 1, AZ: 2}


def three_shards(*, node_skew: int = 1, last: str | None = None) -> Snapshot:
    """Return step 4b: only c1 is below the node's limit, and zone c holds the other pod of the shard."""
    places: list[list[str | None]] = [["a1", "b1"], ["b2", "a2"], ["c2", last]]
    return redis(machines("abc", 2), places, skews={**SKEWS, HOSTNAME: node_skew}, apart=AZ, zones=["a", "b", "c"])


def find(of: Snapshot) -> tuple[Deadlock, ...]:
    return find_deadlocks(View(of))


def test_the_deadlock_of_three_shards() -> None:
    """The last pod of the example finds no node; the message names the two rules, and the maxSkew that frees it."""
    (only,) = find(three_shards())
    assert (only.pod.name, only.workload) == ("one-2-1", Reference("cache", "StatefulSet", "one-2"))
    assert only.message == (
        "kubernetes.io/hostname (maxSkew 1) admits c1; "
        "its anti-affinity over failure-domain.beta.kubernetes.io/zone excludes c. "
        "Raise maxSkew over kubernetes.io/hostname to 2"
    )


def test_the_relaxed_limit_frees_it() -> None:
    """With a maxSkew of 2 for nodes, and once it has a node, there is none."""
    assert find(three_shards(node_skew=2)) == ()
    assert find(three_shards(last="c1")) == ()


def test_a_deadlock_outside_the_scope_is_none_of_ours() -> None:
    """Workloads of its namespace are not read, and events about them may not be written."""
    deadlocked = three_shards()
    assert len(find(replace(deadlocked, scope=frozenset({"cache"})))) == 1
    assert find(replace(deadlocked, scope=frozenset({"shop"}))) == ()


def conflicting(hostname: int) -> Snapshot:
    """Return the documentation's conflict: the zone wants b, the node wants node2."""
    nodes = [node("node1", {ZONE: "a"}), node("node2", {ZONE: "a"}), node("node3", {ZONE: "b"})]
    app = LabelSelector.of({"app": "x"})
    spec = PodSpec(spread=(spread(ZONE, 1, selects=app), spread(HOSTNAME, hostname, selects=app)))
    standing = [pod({"app": "x"}, on, spec=spec) for on in ("node1", "node1", "node2", "node3", "node3")]
    return snapshot(nodes, [*standing, pod({"app": "x"}, spec=spec, name="new")])


def test_two_constraints_exclude_each_other() -> None:
    """Zone and node each admit a node, and not the same one."""
    (only,) = find(conflicting(1))
    assert only.workload == Reference("default", "Pod", "new")
    assert only.message.startswith(
        f"{ZONE} (maxSkew 1) admits b; {HOSTNAME} (maxSkew 1) admits node2. "
        f"Raise maxSkew over {ZONE} to 2 or raise maxSkew over {HOSTNAME} to 2"
    )
    assert find(conflicting(2)) == ()


def test_affinity_and_anti_affinity_exclude_each_other() -> None:
    """A pod that must be beside one and away from the other, both in one zone; no maxSkew is to blame."""
    terms = [PodAffinityTerm(topology_key=ZONE, selector=LabelSelector.of({"app": name})) for name in ("db", "web")]
    spec = PodSpec(pod_affinity=PodAffinity(required=(terms[0],), anti_required=(terms[1],)))
    nodes = [node("a1", {ZONE: "a"}), node("b1", {ZONE: "b"})]
    pods = [pod({"app": "db"}, "a1"), pod({"app": "web"}, "a1"), pod({"app": "new"}, spec=spec)]
    (only,) = find(snapshot(nodes, pods))
    assert only.message == (f"its affinity over {ZONE} admits a; its anti-affinity over {ZONE} excludes a")


def test_others_keep_it_away() -> None:
    """Anti-affinity of pods that are there counts as a rule, too."""
    away = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"app": "x"}))
    app = LabelSelector.of({"app": "x"})
    spec = PodSpec(spread=(spread(ZONE, 1, selects=app),))
    pods = [
        pod({"app": "x"}, "a1"),
        pod({"app": "guard"}, "b1", spec=PodSpec(pod_affinity=PodAffinity(anti_required=(away,)))),
        pod({"app": "x"}, spec=spec),
    ]
    (only,) = find(snapshot([node("a1", {ZONE: "a"}), node("b1", {ZONE: "b"})], pods))
    assert f"the anti-affinity of running pods over {HOSTNAME} excludes b1" in only.message


def test_what_is_no_deadlock() -> None:
    """A lack of capacity, a zone that takes none, a scheduling gate: no rule excludes another."""
    freed = three_shards(node_skew=2)
    greedy = PodSpec(spread=freed.pods[-1].spec.spread, requests=Resources(cpu=10**9))
    assert find(replace(freed, pods=(*freed.pods[:-1], structs.replace(freed.pods[-1], spec=greedy)))) == ()
    app = LabelSelector.of({"app": "x"})
    spec = PodSpec(spread=(spread(ZONE, 1, selects=app),))
    nodes = [node("a1", {ZONE: "a"}), node("b1", {ZONE: "b"}, taints=(taint("gone"),))]
    assert find(snapshot(nodes, [pod({"app": "x"}, "a1", spec=spec), pod({"app": "x"}, spec=spec)])) == ()
    gated = three_shards()
    last = structs.replace(gated.pods[-1], spec=structs.replace(gated.pods[-1].spec, gated=True))
    assert find(replace(gated, pods=(*gated.pods[:-1], last))) == ()


def _open(taken: Mapping[str, str], shard: str, skew: int) -> list[str]:
    """Return the nodes that a pod of a shard may get, by arithmetic alone: no scheduler, no model."""
    nodes = ["a1", "a2", "b1", "b2", "c1", "c2"]
    on = [taken[name] for name in taken]
    zones = {zone: sum(1 for place in on if place[0] == zone) for zone in "abc"}
    apart = {taken[name][0] for name in taken if name[0] == shard}
    return [
        node
        for node in nodes
        if on.count(node) + 1 - min(map(on.count, nodes)) <= skew
        and zones[node[0]] + 1 - min(zones.values()) <= 2
        and node[0] not in apart
    ]


@given(st.data())
def test_against_arithmetic(data: st.DataObject) -> None:
    """However three shards were placed, the pending pod is reported exactly when arithmetic leaves it no node."""
    order = data.draw(st.sampled_from(list(permutations(["00", "01", "10", "11", "20", "21"]))))
    taken: dict[str, str] = {}
    for name in order[:5]:
        choice = _open(taken, name[0], 1)
        if not choice:
            break
        taken[name] = data.draw(st.sampled_from(choice))
    places = [[taken.get(f"{shard}{index}") for index in range(2)] for shard in range(3)]
    made = redis(machines("abc", 2), places, skews=SKEWS, apart=AZ)
    waiting = [f"{shard}{index}" for shard in range(3) for index in range(2) if places[shard][index] is None]
    expected = {f"one-{name[0]}-{name[1]}" for name in waiting if not _open(taken, name[0], 1)}
    assert {deadlock.pod.name for deadlock in find(made)} == expected
    view = View(made)
    assert all(not feasible(deadlock.pod, view) for deadlock in find_deadlocks(view))
