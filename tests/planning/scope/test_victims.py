"""The cost of moving a pod: one order for sorting, for integer programs and for what people are told."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.controllers import PodController
from rebalancer.model.deletion_costs import DELETION_COST
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.planning.scope.victims import Allowed, Cost, RankedPods, Victim, describe_difference, sort_by_cost
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.drawing import examples

(SOME, *_) = a_cluster("a", 1, {"a-1": 1}, spread={ZONE: 1}).snapshot().pods
MEMBER = PodController(
    reference=Reference("default", "Deployment", "web"), owner=None, top=None, pods=(SOME,), next_pod=SOME
)
LEAST = Cost(Allowed.NOW, False, 0, 0, False, -100.0, "web-0")
NAMES = ("budgets", "avoid", "priority", "deletion cost", "readiness", "age")

costs = st.builds(
    Cost,
    st.sampled_from(Allowed),
    st.booleans(),
    st.integers(0, 1),
    st.integers(-1, 1),
    st.booleans(),
    st.integers(-9000, 0).map(float),
    st.sampled_from(("web-0", "web-1")),
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """Draw a pod that differs from others in few ways, so that many are equal in most costs."""
    name = f"web-{draw(st.integers(0, 99))}"
    return structs.replace(
        SOME,
        name=name,
        uid=name,
        spec=structs.replace(SOME.spec, priority=draw(st.integers(0, 1))),
        annotations=Labels({DELETION_COST: str(draw(st.integers(0, 1)))}),
        ready=draw(st.booleans()),
        created=SOME.created + timedelta(seconds=draw(st.integers(0, 1))),
    )


@examples(300)
@given(st.lists(pods(), unique_by=lambda pod: pod.uid), st.booleans(), st.data())
def test_pods_are_sorted_by_their_costs(drawn: list[Pod], named: bool, data: st.DataObject) -> None:
    """Part by part is the order of the whole costs, whatever part they differ in, and with victims of last resort."""
    avoided = frozenset(pod.uid for pod in drawn if data.draw(st.booleans()))
    if named:
        drawn.sort(key=lambda pod: pod.name)
    expected = sorted(drawn, key=lambda pod: Victim(pod, MEMBER, 0, pod.uid in avoided).cost)
    sort_by_cost(drawn, avoided, named=named, alike=False)
    assert drawn == expected


@examples(300)
@given(costs, costs)
def test_the_first_cost_in_which_two_pods_differ_is_named(one: Cost, other: Cost) -> None:
    """Those before it are called equal, by their names and in their order; those after it are not mentioned."""
    evicted, staying = sorted((one, other._replace(name="web-2")))
    same = next((place for place, pair in enumerate(zip(evicted, staying, strict=True)) if pair[0] != pair[1]))
    text = describe_difference(staying, evicted)
    before, _, equal = text.partition("; ")
    assert before.startswith(f"{staying.name} ")
    assert evicted.name in before
    if same == len(NAMES):
        assert text == f"{staying.name} costs as much as {evicted.name}, and the name decides"
    else:
        assert [name for name in NAMES if name in equal] == list(NAMES[:same])


def test_a_pod_is_found_among_those_that_may_move() -> None:
    """By its UID, with its rank; None where it may not move."""
    pods = [structs.replace(SOME, uid=uid) for uid in "abc"]
    ranked = RankedPods(pods, MEMBER)
    assert ranked.find("b") == Victim(pods[1], MEMBER, 1)
    assert ranked.find("d") is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"allowed": Allowed.LATER}, "web-1 is allowed by the budgets later than web-0"),
        ({"allowed": Allowed.SCARCE}, "web-1 is one of more pods than the budgets let go now, web-0 is not"),
        ({"allowed": Allowed.NEVER}, "web-1 is never allowed by the budgets, web-0 is"),
        ({"avoided": True}, "web-1 is a victim of last resort by the policy (avoid), web-0 is not; budgets are equal"),
        ({"priority": 5}, "web-1 has priority 5, web-0 0; budgets and avoid are equal"),
        ({"deletion_cost": 7}, "web-1 has deletion cost 7, web-0 0; budgets, avoid and priority are equal"),
        ({"ready": True}, "web-1 is Ready, web-0 is not; budgets, avoid, priority and deletion cost are equal"),
        (
            {"age": 10_700.0},
            "web-1 is older than web-0 by 3h; budgets, avoid, priority, deletion cost and readiness are equal",
        ),
        (
            {"age": 0.0},
            (
                "web-1 may be older than web-0: when it was created is not known; "
                "budgets, avoid, priority, deletion cost and readiness are equal"
            ),
        ),
        ({}, "web-1 costs as much as web-0, and the name decides"),
    ],
)
def test_each_cost_has_its_words(changes: dict[str, Any], text: str) -> None:
    """One sentence each, with the numbers where there are any."""
    assert describe_difference(LEAST._replace(name="web-1", **changes), LEAST) == text
