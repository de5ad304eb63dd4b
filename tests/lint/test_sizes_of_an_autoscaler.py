"""Which sizes of a workload count without a cluster, and how few domains its node selector may name."""

from collections.abc import Mapping
from typing import Any

import pytest

from rebalancer.lint.finding import Rule
from tests.lint.build import HOST, ZONE, affinity, autoscaler, deployment, found, spread, term

APART = affinity(apart=[term(ZONE)])
NO_SURGE = {"rollingUpdate": {"maxUnavailable": 0}}


def in_zones(zones: str) -> dict[str, Any]:
    """Return required node affinity to named zones."""
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [*zones]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def said(rule: Rule, *objects: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(one.severity.value, one.message) for one in found(rule, *objects)]


def test_anti_affinity_over_fewer_named_zones_than_pods_is_a_contradiction() -> None:
    """The node selector names the domains, without any cluster; as many as there are pods are enough."""
    message = (
        f"required podAntiAffinity allows one pod in each domain of {ZONE}, and the pods' node selector admits 2: 2 of "
        "3 pods find a node"
    )
    few = APART | in_zones("ab")
    assert said(Rule.CONTRADICTORY_CONSTRAINTS, deployment(3, affinity=few)) == [("error", message)]
    one = deployment(2, affinity=APART, nodeSelector={ZONE: "a"})
    assert [severity for severity, _ in said(Rule.CONTRADICTORY_CONSTRAINTS, one)] == ["error"]
    assert said(Rule.CONTRADICTORY_CONSTRAINTS, deployment(2, affinity=few)) == []
    by_host = affinity(apart=[term(HOST)]) | in_zones("ab")
    assert said(Rule.CONTRADICTORY_CONSTRAINTS, deployment(3, affinity=by_host)) == []


def test_anti_affinity_of_single_pods_is_none() -> None:
    """Where matchLabelKeys name what each pod has for itself."""
    alone = affinity(apart=[term(ZONE, matchLabelKeys=["apps.kubernetes.io/pod-index"])]) | in_zones("ab")
    assert said(Rule.CONTRADICTORY_CONSTRAINTS, deployment(3, kind="StatefulSet", affinity=alone)) == []


def test_fewer_named_zones_than_min_domains_take_max_skew_pods_each() -> None:
    """The global minimum is 0 then, also where the selector names several zones."""
    made = deployment(9, affinity=in_zones("abc"), topologySpreadConstraints=[spread(max_skew=2, minDomains=5)])
    assert said(Rule.CONTRADICTORY_CONSTRAINTS, made) == [
        (
            "error",
            (
                f"minDomains asks for 5 domains of {ZONE}, and the pods' node selector admits 3, each with at most "
                "maxSkew (2) pods: 6 of 9 pods find a node"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (2, 2, []),
        (2, 9, [("warning", "2 of the 9 pods that its autoscaler may choose find a node")]),
        (3, 9, [("error", "2 of 3 pods find a node")]),
    ],
)
def test_a_contradiction_of_a_size_that_an_autoscaler_may_choose_is_a_warning(
    least: int, most: int, expected: list[tuple[str, str]]
) -> None:
    """An error where the least number contradicts already."""
    made = deployment(1, affinity=APART | in_zones("ab"))
    rows = said(Rule.CONTRADICTORY_CONSTRAINTS, made, autoscaler(least, most))
    assert [(severity, message.rpartition(": ")[2]) for severity, message in rows] == expected


def test_anti_affinity_says_how_many_domains_the_largest_size_needs() -> None:
    """Also where one replica is written, which needs no second domain."""
    made = deployment(1, affinity=APART)
    assert said(Rule.ANTI_AFFINITY_DOMAINS, made, autoscaler(1, 7)) == [
        (
            "info",
            (
                f"required anti-affinity over {ZONE} allows one pod in each domain: 7 replicas, as many as its "
                "autoscaler may choose, need 7 of them"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("written", "strategy", "size"),
    [(2, NO_SURGE, 8), (2, {"rollingUpdate": {}}, 3), (6, {"rollingUpdate": {}}, 3)],
)
def test_a_rollout_wedges_at_the_largest_size_at_which_no_pod_may_be_missing(
    written: int, strategy: dict[str, Any], size: int
) -> None:
    """A share that rounds down to none lets one be missing from four replicas on."""
    made = deployment(written, affinity=affinity(apart=[term()]), strategy=strategy)
    ((_, message),) = said(Rule.ROLLOUT_WEDGES, made, autoscaler(2, 8))
    assert message.startswith(f"a rolling update of {size} replicas, which its autoscaler may choose, begins with one")
    assert f"it proceeds from {size + 1} nodes on" in message


def test_the_skew_of_a_rolling_update_is_that_of_the_worst_size() -> None:
    """It is named; one of two replicas alone leaves none."""
    made = deployment(2, topologySpreadConstraints=[spread()])
    assert said(Rule.MISSING_MATCH_LABEL_KEYS, made) == []
    ((_, message),) = said(Rule.MISSING_MATCH_LABEL_KEYS, made, autoscaler(2, 6))
    assert message.endswith(
        "it can end with a skew of 3, where maxSkew is 1, with 5 replicas, which its autoscaler may choose"
    )


@pytest.mark.parametrize("share", ["25%", "1%", "0%", "34%", 0])
def test_a_rollout_wedges_at_the_largest_size_that_spares_none(share: str | int) -> None:
    """As a count of all sizes says, and of two billion sizes, too."""
    part = int(share[:-1]) if isinstance(share, str) else 0
    made = deployment(1, strategy={"rollingUpdate": {"maxUnavailable": share}}, affinity=affinity(apart=[term()]))
    for most in (1, 2, 3, 7, 99, 130):
        wedged = max(size for size in range(1, most + 1) if size * part < 100)
        (one,) = found(Rule.ROLLOUT_WEDGES, made, autoscaler(1, most))
        assert f" of {wedged} replica" in one.message
    assert len(found(Rule.ROLLOUT_WEDGES, made, autoscaler(1, 2_000_000_000))) == 1
