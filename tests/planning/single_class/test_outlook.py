"""Where the replacements of a step may be placed, and how the domains will look then."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.single_class.outlook import SingleClassOutlook
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.planning.build import first_problem, limit, planned, policy, softly


def test_counts_end_where_no_node_takes_another_pod() -> None:
    """Of ten thousand pods only as many are counted as the nodes can hold."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 3}, spread={ZONE: 1})
    _, problem = first_problem(blueprint.snapshot())
    assert isinstance(problem, SingleClassProblem)
    counts = SingleClassOutlook(problem.layout, {}, 10_000, 100).counts()
    assert counts is not None
    assert sum(counts[ZONE].values()) < 10_000


def test_pods_that_return_to_their_domains_have_no_expected_counts() -> None:
    """A step improves the placement: a pod whose emptiest domain is its own will be placed elsewhere."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1})
    _, problem = first_problem(blueprint.snapshot())
    assert isinstance(problem, SingleClassProblem)
    assert SingleClassOutlook(problem.layout, {"b-1": 1}, 1, 100).counts() is None
    assert SingleClassOutlook(problem.layout, {"a-1": 1}, 1, 100).counts() == {ZONE: {"a": 2, "b": 2}}


def test_a_key_with_more_than_a_hundred_open_domains_is_no_target() -> None:
    """Its list would say nothing; and many nodes that are alike cannot be distinguished."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 110)
    blueprint.deployment("web", on={"a-1": 3, "a-2": 3}, spread={ZONE: 1, HOSTNAME: 4})
    plan = planned(blueprint.snapshot())
    assert plan.evictions
    assert [target.topology_key for target in plan.evictions[0].targets] == [ZONE]
    (group,) = planned(softly(blueprint.snapshot()), policy(limit("maxPods: 2"))).groups
    assert group.evictions


@settings(deadline=None)
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
    for eviction in planned(blueprint.snapshot()).evictions:
        targets = {target.topology_key: target.values for target in eviction.targets}
        if targets.keys() >= {ZONE, HOSTNAME}:
            assert set(targets[ZONE]) == {node.partition("-")[0] for node in targets[HOSTNAME]}
