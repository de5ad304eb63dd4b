"""Limits of a policy over pods of several workloads, of which a manifest's pods violate one."""

from typing import Any

import pytest

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule
from rebalancer.lint.ground import Ground
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import ZONE, as_written, deployment, manifests, text
from tests.lint.test_limits import limited


def cluster(**on: int) -> Snapshot:
    """Return three zones of one node with pods of `shop/api`."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    blueprint.deployment("api", namespace="shop", on={f"{zone}-1": number for zone, number in on.items()})
    return blueprint.snapshot()


def shared(replicas: int, name: str = "web", **spec: Any) -> dict[str, Any]:
    """Return a Deployment whose pods have the labels of that workload's, and have to be in zone a by default."""
    labels = {"app": "api"}
    fields = {"nodeSelector": {ZONE: "a"}, **spec}
    made = deployment(replicas, labels=labels, selector={"matchLabels": labels}, **fields)
    return made | {"metadata": {"name": name, "namespace": "shop"}}


def violated(snapshot: Snapshot, policy: Policy, *objects: dict[str, Any]) -> list[Finding]:
    read = manifests(text(*objects))
    return [one for one in lint(read, Ground(snapshot, read), policy=policy) if one.rule is Rule.VIOLATES_OTHERS]


OF_ALL = limited("maxPods: 3", ZONE, group_by="app")


def test_new_pods_break_a_limit_that_counts_those_of_another_workload() -> None:
    (one,) = violated(cluster(a=2, b=2, c=2), OF_ALL, shared(2))
    assert (one.severity.value, one.message) == (
        "warning",
        (
            "limit g/l counts pods of shop/api (Deployment), too; it is satisfied now, and may be violated once this "
            f"is deployed: where kube-scheduler most likely places the pods, {ZONE} a holds 4 of 8, the limit is "
            "maxPods 3"
        ),
    )


@pytest.mark.parametrize(
    ("snapshot", "policy", "made"),
    [
        (cluster(a=2, b=2, c=2), OF_ALL, shared(1)),
        (cluster(a=2, b=2, c=2), OF_ALL, shared(2, nodeSelector={})),
        (cluster(a=4, b=1, c=1), OF_ALL, shared(2)),
        (cluster(a=2, b=2, c=2), limited("maxPods: 3", ZONE), shared(2)),
        (cluster(a=3, b=3, c=2), OF_ALL, shared(2)),
        (cluster(a=2, b=2, c=2), OF_ALL, shared(0)),
    ],
    ids=["within it", "spread by the scores", "violated already", "of each workload", "impossible", "none"],
)
def test_what_keeps_it_or_has_no_placement_is_not_its_business(
    snapshot: Snapshot, policy: Policy, made: dict[str, Any]
) -> None:
    assert violated(snapshot, policy, made) == []


def test_workloads_of_the_manifests_alone_are_no_others() -> None:
    api = shared(6, "api", nodeSelector={})
    written = as_written(cluster(a=2, b=2, c=2), api)
    assert violated(written, OF_ALL, api, shared(2)) == []
    assert len(violated(written, OF_ALL, shared(2))) == 1


def test_limits_on_the_skew_are_held_against_new_pods() -> None:
    (one,) = violated(cluster(a=2, b=2, c=2), limited("maxSkew: 1", ZONE, group_by="app"), shared(2))
    assert one.message.endswith(f"{ZONE} a holds 4 of 8, the emptiest 2, maxSkew is 1")
