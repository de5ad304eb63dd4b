"""Where the replacements of a step may be placed, and how the domains will look then."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.pods import Pod
from rebalancer.planning.problem.protocol import Infeasible
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.single_class.outlook import SingleClassOutlook
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster
from tests.planning.build import first_problem, limit, planned, policy, softly
from tests.planning.clusters import owners


def test_counts_end_where_no_node_takes_another_pod() -> None:
    """Of ten thousand pods only as many are counted as the nodes can hold."""
    _, problem = first_problem(a_cluster("ab", 1, {"a-1": 3}, spread={ZONE: 1}).snapshot())
    assert isinstance(problem, SingleClassProblem)
    counts = SingleClassOutlook(problem.layout, {}, 10_000, 100).counts()
    assert counts is not None
    assert sum(counts[ZONE].values()) < 10_000


def test_pods_that_return_to_their_domains_have_no_expected_counts() -> None:
    """A step improves the placement: a pod whose emptiest domain is its own will be placed elsewhere."""
    _, problem = first_problem(a_cluster("ab", 1, {"a-1": 3, "b-1": 1}, spread={ZONE: 1}).snapshot())
    assert isinstance(problem, SingleClassProblem)
    assert SingleClassOutlook(problem.layout, {"b-1": 1}, 1, 100).counts() is None
    assert SingleClassOutlook(problem.layout, {"a-1": 1}, 1, 100).counts() == {ZONE: {"a": 2, "b": 2}}


def test_a_key_with_more_than_a_hundred_open_domains_is_no_target() -> None:
    """Its list would say nothing; and many nodes that are alike cannot be distinguished."""
    blueprint = a_cluster("ab", 110, {"a-1": 3, "a-2": 3}, spread={ZONE: 1, HOSTNAME: 4})
    plan = planned(blueprint.snapshot())
    assert plan.fates.going
    assert [target.topology_key for target in plan.fates.going[0].targets] == [ZONE]
    (group,) = planned(softly(blueprint.snapshot()), policy(limit("maxPods: 2"))).components
    assert group.evictions


@given(
    counts=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=2, max_size=3),
    zone_skew=st.integers(1, 2),
    node_skew=st.integers(1, 3),
)
def test_the_targets_of_an_eviction_agree_across_keys(counts: list[list[int]], zone_skew: int, node_skew: int) -> None:
    """Each named node lies in a named zone, and each named zone has a named node."""
    blueprint = ClusterBuilder()
    on: dict[str, int] = {}
    for zone, held in zip("abc", counts, strict=False):
        blueprint.zones(zone, len(held))
        on |= {f"{zone}-{number}": pods for number, pods in enumerate(held, start=1) if pods}
    blueprint.deployment("web", on=on, spread={ZONE: zone_skew, HOSTNAME: node_skew})
    for eviction in planned(blueprint.snapshot()).fates.going:
        targets = {target.topology_key: target.values for target in eviction.targets}
        if targets.keys() >= {ZONE, HOSTNAME}:
            assert set(targets[ZONE]) == {node.partition("-")[0] for node in targets[HOSTNAME]}


def reached_nodes(view: View, victims: Sequence[Victim], sample: Pod, pending: int) -> set[str]:
    """Return every node on which the scheduler's filters let a pod be placed, in any order of what happens.

    Marked victims leave, pending pods like `sample` are placed, and each victim is followed by one more such pod.
    """
    reached: set[str] = set()
    seen: set[tuple[frozenset[str], tuple[str, ...]]] = set()
    states: list[tuple[View, tuple[Victim, ...], int, tuple[str, ...]]] = [(view, tuple(victims), pending, ())]
    while states:
        now, remaining, waiting, placed = states.pop()
        key = frozenset(victim.pod.uid for victim in remaining), placed
        if key in seen:
            continue
        seen.add(key)
        for victim in remaining:
            rest = tuple(other for other in remaining if other is not victim)
            states.append((now.without([victim.pod]), rest, waiting + 1, placed))
        if waiting:
            new = structs.replace(sample, uid=f"new-{len(placed)}", node=None)
            for node in feasible(new, now):
                reached.add(node)
                after = now.with_placed(new, node)
                states.append((after, remaining, waiting - 1, tuple(sorted((*placed, node)))))
    return reached


NODES = st.tuples(st.integers(0, 3), st.integers(0, 2))
"""The pods on a node, and how many more it can take."""


@given(
    zones=st.lists(st.lists(NODES, min_size=1, max_size=2), min_size=2, max_size=3),
    waiting=st.integers(0, 1),
    zone_skew=st.integers(1, 2),
    spread=st.sampled_from([{}, {HOSTNAME: 1}, {HOSTNAME: 2}]),
)
def test_every_node_that_a_replacement_can_land_on_is_named(
    zones: list[list[tuple[int, int]]], waiting: int, zone_skew: int, spread: dict[str, int]
) -> None:
    """Whatever the order of evictions and placements, and whichever feasible nodes the scheduler picks."""
    blueprint = ClusterBuilder()
    on: dict[str, int] = {}
    for zone, held in zip("abc", zones, strict=False):
        for number, (pods, free) in enumerate(held, start=1):
            blueprint.node(f"{zone}-{number}", zone=zone, cpu=1000 * (pods + free))
            on[f"{zone}-{number}"] = pods
    wanted = sum(on.values()) + waiting
    blueprint.deployment("web", on=on, replicas=wanted, spread={ZONE: zone_skew, **spread}, cpu=1000)
    snapshot = owners(
        blueprint.snapshot(), lambda owner: structs.replace(owner, current=wanted, updated=wanted, observed=True)
    )
    problem = first_problem(snapshot)[1] if planned(snapshot).components else None
    if isinstance(problem, SingleClassProblem) and not isinstance(problem.minimum(), Infeasible):
        budget = SearchBudget(10_000)
        searches = (problem.certified_step(), problem.contingent_step(3, budget), problem.forced_step(3, budget))
        step = next((search.step for search in searches if search.step is not None), None)
        if step is not None:
            step = structs.replace(step, victims=step.victims[:3])
            every = frozenset(on)
            reached = reached_nodes(View(snapshot), step.victims, step.victims[0].pod, problem.pending)
            assert problem.landings(step, every) >= reached
