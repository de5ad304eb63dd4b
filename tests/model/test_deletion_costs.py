"""Deletion costs: which count, which are the rebalancer's own, and that plans do not depend on these."""

import json
from datetime import UTC, datetime
from random import Random

import pytest

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode as decode_object
from rebalancer.model.deletion_costs import (
    DELETION_COST,
    OWN_DELETION_COST,
    SURGE_COST,
    deletion_cost,
    foreign_cost,
    is_foreign,
    is_overwritten,
)
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod


def decode(annotations: dict[str, str]) -> Pod:
    made = {
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "annotations": annotations},
        "spec": {"containers": [{"name": "web"}]},
        "status": {"phase": "Running"},
    }

    pod = decode_object(PODS, json.dumps(made).encode(), Interner())
    assert isinstance(pod, Pod)
    return pod


def test_a_cost_with_the_marker_of_the_same_value_is_our_own_and_no_annotation() -> None:
    pod = decode({DELETION_COST: "700", OWN_DELETION_COST: "700", "rebalancer.dev/exclude": "true"})
    assert pod.own_deletion_cost == 700
    assert pod.annotations == {"rebalancer.dev/exclude": "true"}
    assert deletion_cost(pod) == 700
    assert foreign_cost(pod) == 0
    assert not is_foreign(pod)


def test_the_mark_of_a_surge_is_our_own_and_below_every_pod_without_a_cost() -> None:
    pod = decode({DELETION_COST: "-1", OWN_DELETION_COST: "-1"})
    assert (pod.own_deletion_cost, pod.annotations) == (SURGE_COST, {})
    assert deletion_cost(pod) < deletion_cost(decode({})) == 0
    assert not is_foreign(pod)


@pytest.mark.parametrize(
    "annotations",
    [
        {DELETION_COST: "700"},
        {DELETION_COST: "700", OWN_DELETION_COST: "600"},
        {DELETION_COST: "0700", OWN_DELETION_COST: "0700"},
        {DELETION_COST: "-5", OWN_DELETION_COST: "-5"},
        {DELETION_COST: "-2", OWN_DELETION_COST: "-2"},
        {DELETION_COST: "-1"},
        {DELETION_COST: "-1", OWN_DELETION_COST: "1"},
        {DELETION_COST: "1000001", OWN_DELETION_COST: "1000001"},
        {OWN_DELETION_COST: "700"},
    ],
)
def test_every_other_cost_belongs_to_somebody_else(annotations: dict[str, str]) -> None:
    pod = decode(annotations)
    assert pod.own_deletion_cost == 0
    assert pod.annotations == annotations
    assert is_foreign(pod)
    assert is_overwritten(pod) == (OWN_DELETION_COST in annotations)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("05", 0),
        ("+5", 0),
        ("5.0", 0),
        ("", 0),
        ("2147483647", 2**31 - 1),
        ("2147483648", 0),
    ],
)
def test_costs_are_read_as_the_controller_reads_them(text: str, cost: int) -> None:
    pod = Pod(
        namespace="shop",
        name="web",
        uid="u",
        created=datetime(2026, 1, 1, tzinfo=UTC),
        annotations=Labels({DELETION_COST: text}),
    )
    assert deletion_cost(pod) == foreign_cost(pod) == cost


def test_of_a_thousand_mixtures_none_hides_a_foreign_cost() -> None:
    for seed in range(1_000):
        random = Random(seed)
        annotations = {
            key: random.choice(["1", "2", "-1", "-2", "abc", ""])
            for key in (DELETION_COST, OWN_DELETION_COST)
            if random.random() < 0.7
        }
        pod = decode(annotations)
        both = annotations.get(DELETION_COST) == annotations.get(OWN_DELETION_COST) and annotations.get(
            DELETION_COST
        ) in {"1", "2", "-1"}
        assert bool(pod.own_deletion_cost) == both
        assert is_foreign(pod) == (not both and bool(annotations))
