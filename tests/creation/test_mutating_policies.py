"""Where a mutating admission policy may change the next pod, a pod that is younger than the policy has to show how."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.cluster import Namespace
from rebalancer.model.creation import MutatingBinding, MutatingPolicy, NewPods
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.workloads import Workload
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from tests.creation.build import HOUR, NOW, a_pod, a_snapshot, an_owner, cpu, requested
from tests.drawing import examples

SHOP = Namespace(name="shop", labels=Labels({"team": "red"}))
ONE = requested(cpu(100))
IN_FORCE = timedelta(seconds=10)
EVERY = NewPods()


def policy(pods: NewPods | None = EVERY, age: timedelta | None = HOUR / 2, name: str = "pin") -> MutatingPolicy:
    return MutatingPolicy(name=name, pods=pods, changed=NOW - age if age is not None else None)


def binding(pods: NewPods | None = EVERY, age: timedelta | None = HOUR / 2, of: str = "pin") -> MutatingBinding:
    return MutatingBinding(name="everywhere", policy=of, pods=pods, changed=NOW - age if age is not None else None)


def for_labels(namespace: dict[str, str], pod: dict[str, str]) -> NewPods:
    return NewPods(LabelSelector.of(namespace), LabelSelector.of(pod))


def next_of(
    *pods: Pod,
    policies: tuple[MutatingPolicy, ...] = (policy(),),
    bindings: tuple[MutatingBinding, ...] = (binding(),),
    owner: Workload | None = None,
    **objects: Any,
) -> Pod | Unpredictable:
    """Return what would replace the first of the pods; all are an hour old unless they say otherwise."""
    objects = {"namespaces": (SHOP,), **objects}
    snapshot = a_snapshot(
        owner or an_owner(ONE), *pods, mutating_policies=policies, mutating_bindings=bindings, **objects
    )
    return replacement(pods[0], View(snapshot))


def test_a_policy_that_no_pod_shows_makes_the_next_one_not_predictable() -> None:
    """The message names the policy and its binding, and the way out."""
    made = next_of(a_pod(ONE))
    assert isinstance(made, Unpredictable)
    assert made.reason is Reason.NOT_PREDICTABLE
    assert "MutatingAdmissionPolicy pin (binding everywhere) may change its replacement" in str(made)
    assert "Restart a pod of it" in str(made)


@pytest.mark.parametrize(
    ("policies", "bindings"),
    [
        ((policy(),), ()),
        ((), (binding(),)),
        ((policy(),), (binding(of="other"),)),
        ((policy(None),), (binding(),)),
        ((policy(),), (binding(None),)),
        ((policy(for_labels({"team": "blue"}, {})),), (binding(),)),
        ((policy(),), (binding(for_labels({"team": "blue"}, {})),)),
        ((policy(for_labels({}, {"app": "db"})),), (binding(),)),
        ((policy(),), (binding(for_labels({}, {"app": "db"})),)),
    ],
)
def test_a_policy_that_is_not_for_the_pod_changes_nothing(
    policies: tuple[MutatingPolicy, ...], bindings: tuple[MutatingBinding, ...]
) -> None:
    """It is without a binding, or its rules or selectors, or those of the binding, are for others."""
    assert isinstance(next_of(a_pod(ONE), policies=policies, bindings=bindings), Pod)


def test_the_labels_of_a_namespace_that_is_not_known_may_match() -> None:
    only_blue = (binding(for_labels({"team": "blue"}, {})),)
    assert isinstance(next_of(a_pod(ONE), bindings=only_blue, namespaces=()), Unpredictable)


def test_a_pod_that_is_younger_than_policy_and_binding_shows_what_they_do() -> None:
    """Then the next one is made as that one was: with its node selector."""
    pinned = structs.replace(
        a_pod(ONE).spec,
        node_affinity=structs.replace(a_pod(ONE).spec.node_affinity, selector=Labels({"pool": "own"})),
    )
    old, young = a_pod(ONE), structs.replace(a_pod(ONE, name="web-2", age=HOUR / 4), spec=pinned)
    made = next_of(old, young)
    assert isinstance(made, Pod)
    assert made.spec.node_affinity.selector == {"pool": "own"}


def test_where_nobody_knows_when_a_policy_was_changed_no_pod_shows_it() -> None:
    """As in a file that was printed without managed fields."""
    young = a_pod(ONE, age=HOUR / 4)
    for policies, bindings in (((policy(age=None),), (binding(),)), ((policy(),), (binding(age=None),))):
        made = next_of(young, policies=policies, bindings=bindings)
        assert isinstance(made, Unpredictable)
        assert "--show-managed-fields" in str(made)


def test_the_first_pod_of_a_template_is_not_predicted() -> None:
    """The template alone does not show what a policy makes of it."""
    other = structs.replace(a_pod(ONE, age=HOUR / 4), labels=Labels({"app": "web", "pod-template-hash": "0"}))
    assert isinstance(next_of(other), Unpredictable)
    assert isinstance(next_of(other, policies=()), Pod)


@examples(200)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0, 1, 2])), min_size=1, max_size=4),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_the_next_pod_is_predicted_exactly_from_a_pod_that_both_have_admitted(
    pods: list[tuple[int, int]], policy_age: int, binding_age: int
) -> None:
    """By definition: the newest pod that was not changed since, else the newest, is more than ten seconds younger."""
    drawn = [
        a_pod(ONE, name=f"web-{number}", age=timedelta(seconds=age), generation=generation)
        for number, (age, generation) in enumerate(pods)
    ]
    unchanged = [age for age, generation in pods if generation <= 1]
    witness = min(unchanged) if unchanged else min(age for age, _ in pods)
    made = next_of(
        *drawn,
        policies=(policy(age=timedelta(seconds=policy_age)),),
        bindings=(binding(age=timedelta(seconds=binding_age)),),
    )
    is_shown = witness + IN_FORCE.total_seconds() < min(policy_age, binding_age)
    assert isinstance(made, Pod) == is_shown


@pytest.mark.parametrize("age", [HOUR / 4, HOUR])
def test_each_binding_counts_by_itself(age: timedelta) -> None:
    """The pod has to be younger than all that are for it."""
    bindings = (binding(age=5 * HOUR), binding(age=HOUR / 2))
    assert isinstance(next_of(a_pod(ONE, age=age), bindings=bindings), Pod) == (age < HOUR / 2)
