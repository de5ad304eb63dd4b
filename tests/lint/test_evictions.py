"""How many evictions it takes until the pods of today satisfy a policy, and changes that a rollout brings about."""

from collections.abc import Sequence
from typing import Any

import pytest

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule
from rebalancer.lint.ground import Ground
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import ZONE, as_written, deployment, manifests, spread, text
from tests.lint.test_limits import limited


def cluster(skew: int | None = None, **on: int) -> Snapshot:
    """Return three zones of one node with the pods of shop/web."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    there = {f"{zone}-1": number for zone, number in on.items()}
    blueprint.deployment("web", namespace="shop", on=there, spread={ZONE: skew} if skew else None)
    return blueprint.snapshot()


def found(snapshot: Snapshot, policy: Policy | None, *objects: dict[str, Any]) -> Sequence[Finding]:
    read = manifests(text(*objects))
    return [one for one in lint(read, Ground(snapshot, read), policy=policy) if one.rule is Rule.TAKES_EVICTIONS]


MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "rebalancer-policy", "namespace": "rebalancer-system"},
    "data": {"policy.yaml": ""},
}


@pytest.mark.parametrize(
    ("counts", "most", "evictions"),
    [((4, 1, 1), 2, [2]), ((3, 3, 0), 2, [2]), ((2, 2, 2), 2, []), ((5, 1, 0), 3, [2]), ((6, 0, 0), 1, [])],
)
def test_a_policy_takes_as_many_evictions_as_pods_are_beyond_its_limit(
    counts: tuple[int, int, int], most: int, evictions: list[int]
) -> None:
    """Each domain has to lose what is beyond it; where no placement keeps the limit another rule says so."""
    a, b, c = counts
    snapshot = cluster(a=a, b=b, c=c)
    one = found(snapshot, limited(f"maxPods: {most}", ZONE, action="Evict"), MAP)
    assert [finding.numbers["evictions"] for finding in one] == evictions
    if evictions:
        assert one[0].message == (
            "the policy starts no rollout: it takes 2 evictions (proved minimum) until the pods of today in shop/web "
            "(Deployment) keep limit g/l"
        )


def test_of_manifests_without_the_policy_only_those_count_that_change_no_pod() -> None:
    """Where the number of replicas changes or the template, the pods of today are not those that there will be."""
    policy, same = limited("maxPods: 2", ZONE, action="Evict"), deployment(6)
    snapshot = as_written(cluster(a=4, b=1, c=1), same)
    assert [one.manifest.title for one in found(snapshot, policy, same)] == ["Deployment shop/web"]
    assert found(snapshot, policy, deployment(5)) == []
    assert found(cluster(a=4, b=1, c=1), policy, same) == []


def test_a_rollout_takes_no_eviction() -> None:
    """Constraints are a part of the template: other ones place all pods anew, the same ones say nothing."""
    changed = deployment(3, topologySpreadConstraints=[spread()])
    (one,) = found(cluster(a=3), None, changed)
    assert one.message == (
        "its constraints are not those of the live workload: its rollout places 3 pods anew, and takes no eviction"
    )
    assert found(cluster(1, a=1, b=1, c=1), None, changed) == []


def test_pods_that_an_update_keeps_back_have_to_be_deleted() -> None:
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    blueprint.stateful_set("web", namespace="shop", on={"a-1": 3})
    for strategy, kept in (({"type": "OnDelete"}, 3), ({"rollingUpdate": {"partition": 2}}, 2)):
        rules: dict[str, Any] = {"topologySpreadConstraints": [spread()], "updateStrategy": strategy}
        (one,) = found(blueprint.snapshot(), None, deployment(3, kind="StatefulSet", **rules))
        assert one.message.endswith(
            f"updateStrategy keeps back {kept} of 3 pods: {kept} deletions until all have the new ones"
        )
