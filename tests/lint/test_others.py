"""Constraints of other workloads that a manifest violates: for certain, or where its pods most likely go."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Rule
from rebalancer.lint.ground import Ground
from rebalancer.lint.others import Arrivals, can_satisfy
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ClusterBuilder
from tests.drawing import examples
from tests.lint.build import ZONE, affinity, as_written, deployment, manifests, term, text

SHARED = {"matchLabels": {"app": "api"}}


def cluster(skew: int | None = 1, **on: int) -> Snapshot:
    """Return three zones of one node with pods of a workload that is spread over them."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    there = {f"{zone}-1": number for zone, number in on.items()}
    blueprint.deployment("api", namespace="shop", on=there, spread={ZONE: skew} if skew else None)
    return blueprint.snapshot()


def web(replicas: int, **spec: Any) -> dict[str, Any]:
    """Return a Deployment whose pods have the labels of that workload's."""
    return deployment(replicas, labels=SHARED["matchLabels"], selector=SHARED, **spec)


def said(snapshot: Snapshot, *objects: dict[str, Any]) -> Sequence[tuple[str, str]]:
    read = manifests(text(*objects))
    found = lint(read, Ground(snapshot, read))
    return [(one.severity.value, one.message) for one in found if one.rule is Rule.VIOLATES_OTHERS]


def test_pods_that_may_go_to_one_zone_alone_violate_the_constraint_for_certain() -> None:
    expected = (
        f"the constraint of shop/api (Deployment) over {ZONE} (maxSkew 1) counts these pods, too; it is satisfied now, "
        "and is violated once this is deployed: new pods that it counts may go to a alone, and no placement of them "
        "satisfies it"
    )
    assert said(cluster(a=1, b=1, c=1), web(3, nodeSelector={ZONE: "a"})) == [("error", expected)]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, "error"),
        ({"type": "OnDelete"}, "warning"),
        ({"rollingUpdate": {"partition": 3}}, "warning"),
        ({"rollingUpdate": {"partition": 1}}, "warning"),
    ],
)
def test_pods_that_keep_their_template_violate_it_only_where_they_are_replaced(
    strategy: dict[str, Any], expected: str
) -> None:
    """It is not known when, so that no number of new pods is proved."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    on = {f"{zone}-1": 1 for zone in "abc"}
    blueprint.deployment("api", namespace="shop", on=on, spread={ZONE: 1})
    blueprint.stateful_set("web", namespace="shop", on=on)
    made = web(3, kind="StatefulSet", nodeSelector={ZONE: "a"}, updateStrategy=strategy)
    assert [severity for severity, _ in said(blueprint.snapshot(), made)] == [expected]


def test_a_selector_without_requirements_counts_no_pod() -> None:
    """As kube-scheduler counts it, such a constraint is never violated."""
    snapshot = cluster(a=1, b=1, c=1)
    none = tuple(
        structs.replace(one, selector=LabelSelector(())) for pod in snapshot.pods[:1] for one in pod.spec.spread
    )
    pods = [structs.replace(pod, spec=structs.replace(pod.spec, spread=none)) for pod in snapshot.pods]
    assert said(replace(snapshot, pods=tuple(pods)), web(3, nodeSelector={ZONE: "a"})) == []


def test_pods_that_go_anywhere_may_violate_it() -> None:
    """Only one node has the cores, which the sums over domains do not know; where the pods go is played."""
    blueprint = ClusterBuilder()
    for zone, cores in (("a", 64), ("b", 2), ("c", 2)):
        blueprint.node(f"{zone}-1", zone=zone, cpu=1_000 * cores)
    on = {f"{zone}-1": 1 for zone in "abc"}
    blueprint.deployment("api", namespace="shop", on=on, spread={ZONE: 1}, cpu=1_000)
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "2"}}}
    (one,) = said(blueprint.snapshot(), web(3, containers=[container]))
    assert one[0] == "warning"
    assert "may be violated once this is deployed: where kube-scheduler most likely places them, a has" in one[1]


@pytest.mark.parametrize(
    ("snapshot", "made"),
    [
        (cluster(a=1, b=1, c=1), web(1, nodeSelector={ZONE: "a"})),
        (cluster(a=1, b=1, c=1), web(3)),
        (cluster(a=1, b=1, c=1), deployment(3, nodeSelector={ZONE: "a"})),
        (cluster(a=3, b=1, c=1), web(3, nodeSelector={ZONE: "a"})),
        (cluster(None, a=1, b=1, c=1), web(3, nodeSelector={ZONE: "a"})),
        (cluster(3, a=1, b=1, c=1), web(3, nodeSelector={ZONE: "a"})),
    ],
    ids=["within it", "spread by the scores", "others", "violated already", "none", "a larger maxSkew"],
)
def test_nothing_is_said_of_what_stays_satisfied_or_is_violated_already(
    snapshot: Snapshot, made: dict[str, Any]
) -> None:
    assert said(snapshot, made) == []


def test_pods_that_go_leave_others_skewed() -> None:
    """A rollout that gives pods other labels takes them out of the counts: 2, 2 and 0 pods are left."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    blueprint.deployment("api", namespace="shop", on={"a-1": 2, "b-1": 2}, spread={ZONE: 1})
    blueprint.deployment("web", namespace="shop", on={"c-1": 2})
    made = blueprint.snapshot()
    labels = Labels(SHARED["matchLabels"])
    pods = [structs.replace(pod, labels=labels) if pod.node == "c-1" else pod for pod in made.pods]
    (one,) = said(replace(made, pods=tuple(pods)), deployment(2))
    assert (one[0], one[1].rpartition(": ")[2]) == (
        "error",
        "it counts none of the pods that replace the old ones",
    )


def test_pods_that_may_preempt_those_that_count_violate_it_not_for_certain() -> None:
    """Who is preempted is not known; where nobody is, the zone has too many."""
    first = web(3, nodeSelector={ZONE: "a"}, priority=100)
    assert [severity for severity, _ in said(cluster(a=1, b=1, c=1), first)] == ["warning"]


def test_what_a_scale_down_takes_away_is_not_counted_on() -> None:
    """3, 2 and 2 pods, of which 2 in zone a are of the workload that is scaled to 1, and another one comes there."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    blueprint.deployment("api", namespace="shop", on={"a-1": 1, "b-1": 2, "c-1": 2}, spread={ZONE: 1})
    blueprint.deployment("web", namespace="shop", on={"a-1": 2})
    made = as_written(blueprint.snapshot(), deployment(1))
    pods = [structs.replace(pod, labels=Labels({**pod.labels, "app": "api"})) for pod in made.pods]
    changed = replace(made, pods=tuple(pods))
    new = web(1, nodeSelector={ZONE: "a"}) | {"metadata": {"name": "new", "namespace": "shop"}}
    assert [severity for severity, _ in said(changed, new)] == ["error"]
    assert [severity for severity, _ in said(changed, deployment(1), new)] == ["warning"]


def test_required_anti_affinity_of_others_is_never_violated() -> None:
    """kube-scheduler keeps the new pods off: they find no node, and that is said."""
    made = [web(3, affinity=affinity(apart=[term(labelSelector=SHARED)]))]
    assert said(cluster(a=1, b=1, c=1), *made) == []


@given(
    held=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    free=st.sets(st.integers(0, 2)),
    least=st.integers(0, 4),
    more=st.integers(0, 2),
    skew=st.integers(1, 3),
    floor=st.booleans(),
)
@examples(300)
def test_it_is_certain_where_no_division_of_the_pods_satisfies_the_constraint(
    held: list[int], free: set[int], least: int, more: int, skew: int, floor: bool
) -> None:
    """As trying every division shows."""
    domains = [number in free for number in range(len(held))]
    ways = product(*(range(least + more + 1) if is_free else (0,) for is_free in domains))
    ends = [
        [have + new for have, new in zip(held, way, strict=True)] for way in ways if least <= sum(way) <= least + more
    ]
    expected = any(max(end) - (0 if floor else min(end)) <= skew for end in ends)
    names = dict(zip("abc", held, strict=False))
    arrivals = Arrivals(
        frozenset(name for name, is_free in zip(names, domains, strict=True) if is_free), least, least + more
    )
    assert can_satisfy(names, skew, arrivals, floor_at_zero=floor) is expected
