"""What is planned together has a name by which it is remembered."""

from dataclasses import replace

from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import State
from rebalancer.planning.scope.components import Component, find_components
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.build import limit, policy


def test_what_is_not_violated_has_a_name_too() -> None:
    """Where nothing is violated and only a pod waits in vain, it is the first group's."""
    assessment = assess(
        View(a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, spread={ZONE: 1}).snapshot()),
        policy(limit("maxPods: 1")),
        NO_MEMORY,
    )
    (group,), (rule,) = assessment.groups, assessment.limits
    assert not group.violated
    assert rule.state is State.SATISFIED
    assert Component.of((group,), (rule,)).name == group.spread.name


def test_pods_that_nobody_owns_are_planned_with_those_that_count_them() -> None:
    """Two of them, with a constraint of their own, are two members beside the workload whose label they carry."""
    snapshot = a_cluster("ab", 1, {"a-1": 5, "b-1": 1}, spread={ZONE: 1}).snapshot()
    first, second, *others = snapshot.pods
    (written,) = first.spec.spread
    spec = structs.replace(first.spec, spread=(structs.replace(written, max_skew=2),))
    bare = [structs.replace(pod, owner=None, spec=spec) for pod in (first, second)]
    assessment = assess(View(replace(snapshot, pods=(*bare, *others))), policy(), NO_MEMORY)
    (result,) = find_components(assessment, frozenset(), policy().spread.act_on)
    assert len(result.groups) == 2
    assert {len(member.pods) for member in result.members if member.owner is not None} == {4}
    assert [member.pods for member in result.members if member.owner is None] == [(pod,) for pod in bare]
