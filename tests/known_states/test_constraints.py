"""Which pods a spread constraint counts: by selector, revision and namespace."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rebalancer.model.reasons import Reason
from tests.control_plane.resources import Manifest
from tests.known_states.build import CROWDED, State, cluster, deployment, make, namespace, over_zones, replica_set

OPPOSITE = ("b-0", "b-0", "c-0", "c-0", "c-0")
"""Where other pods are if all zones have three pods with those of `CROWDED`."""


class TestMatchLabelKeys:
    """A constraint over `app: web`, only of pods with the same pod-template-hash; others have that label too."""

    def keyed(self, on: tuple[str, ...], others: tuple[str, ...], *, merged: bool) -> State:
        """Return both; `merged`: with the key in the selector of each pod, as API servers from 1.34 on write it."""
        keys = {"matchLabelKeys": ["pod-template-hash"]}
        web = deployment(on=on, topologySpreadConstraints=[over_zones({"app": "web"}, **keys)])
        other = deployment(
            "other", others, app="web", labels={"tier": "x"}, revision="88aa", topologySpreadConstraints=None
        )
        state = cluster(web, other)
        hashed = {"key": "pod-template-hash", "operator": "In", "values": ["5f6d"]}
        for pod in state.pods("web") if merged else ():
            (constraint,) = pod["spec"]["topologySpreadConstraints"]
            constraint["labelSelector"]["matchExpressions"] = [hashed]
        return state

    @pytest.mark.parametrize("merged", [True, False])
    def test_pods_of_another_revision_do_not_make_up_for_its_own(self, merged: bool) -> None:
        assert self.keyed(CROWDED, OPPOSITE, merged=merged).plan().evicted == ["shop/web-0"]

    @pytest.mark.parametrize("merged", [True, False])
    def test_pods_of_another_revision_are_no_violation(self, merged: bool) -> None:
        state = self.keyed(("a-0", "b-0", "c-0"), ("a-0",) * 4, merged=merged)
        assert state.plan().evicted == []


class TestSelectors:
    def selecting(self, selector: Mapping[str, Any] | None, *others: list[Manifest]) -> State:
        constraint = over_zones(None) | ({} if selector is None else {"labelSelector": selector})
        return cluster(deployment(topologySpreadConstraints=[constraint]), *others)

    def test_without_a_selector_no_pod_is_counted(self) -> None:
        """Nor is the pod itself: every zone has 0 and takes it."""
        assert self.selecting(None).plan().evicted == []

    def test_with_an_empty_selector_none_is_counted_either(self) -> None:
        """As kube-scheduler does it: `countPodsMatchSelector` returns 0 for it."""
        assert self.selecting({}).plan().evicted == []

    def test_an_empty_selector_counts_no_pods_of_others(self) -> None:
        crowd = deployment("api", ("a-0",) * 5, topologySpreadConstraints=None)
        assert self.selecting({}, crowd).plan().evicted == []


class TestNamespaces:
    """A workload of the same name, the same labels and the same revision is in another namespace."""

    def both(self, shop: tuple[str, ...], office: tuple[str, ...], **spec: Any) -> State:
        other = deployment(on=office, namespace="office", **spec)
        return cluster(deployment(on=shop), [namespace("office")], other)

    def test_pods_of_the_other_one_do_not_make_up_for_its_own(self) -> None:
        state = self.both(CROWDED, OPPOSITE, topologySpreadConstraints=None)
        assert state.plan().evicted == ["shop/web-0"]

    def test_two_that_are_satisfied_are_not_violated_together(self) -> None:
        spread = ("a-0", "a-0", "b-0", "c-0")
        assert self.both(spread, spread).plan().evicted == []

    def test_both_are_repaired_each_by_itself(self) -> None:
        assert self.both(CROWDED, ("c-0", "c-0", "c-0", "b-0")).plan().evicted == ["office/web-0", "shop/web-0"]

    def test_a_budget_of_the_same_name_counts_its_own_namespace(self) -> None:
        def budget(place: str, allowed: int) -> Manifest:
            return make(
                "policy/v1",
                "PodDisruptionBudget",
                "web",
                place,
                generation=1,
                spec={"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 4 - allowed},
                status={
                    "disruptionsAllowed": allowed,
                    "currentHealthy": 4,
                    "desiredHealthy": 4 - allowed,
                    "expectedPods": 4,
                    "observedGeneration": 1,
                },
            )

        state = self.both(CROWDED, CROWDED).add(budget("shop", 1), budget("office", 0))
        outcome = state.plan()
        assert outcome.evicted == ["shop/web-0"]
        assert "PodDisruptionBudget office/web" in "".join(outcome.refusals.values())


class TestBlueGreen:
    def test_two_deployments_under_one_selector_are_repaired_together(self) -> None:
        """The one that takes the traffic, and the one that will: here only both together are skewed."""
        parts = [
            deployment(
                colour,
                on,
                app="web",
                labels={"colour": colour},
                revision=colour,
                topologySpreadConstraints=[over_zones({"app": "web"})],
            )
            for colour, on in (("blue", ("a-0", "a-0", "b-0")), ("green", ("a-0", "c-0")))
        ]
        outcome = cluster(*parts).plan()
        assert len(outcome.evicted) == 1
        assert outcome.evicted[0] in {"shop/blue-0", "shop/blue-1", "shop/green-0"}

    def test_two_deployments_that_each_count_their_own_pods_are_repaired_apart(self) -> None:
        blue = deployment("blue", CROWDED, labels={"colour": "blue"})
        green = deployment("green", ("c-0", "a-0", "b-0"), labels={"colour": "green"})
        assert cluster(blue, green).plan().evicted == ["shop/blue-0"]

    def switching(self, on: Sequence[str]) -> State:
        """Return the ReplicaSet that takes the traffic, and the preview of the same owner, with pods on these nodes."""
        top = make("argoproj.io/v1alpha1", "Rollout", "web")
        preview = replica_set("web-preview", on, top, revision="77c9")
        return cluster(replica_set("web-active", CROWDED, top), preview)

    def test_two_replica_sets_of_one_owner_wait_for_the_switch(self) -> None:
        """Then the pods of one of them go."""
        assert "Rollout web" in self.switching(CROWDED).plan().assert_kept(Reason.ROLLOUT_IN_PROGRESS)

    def test_once_one_of_them_wants_no_pods_the_other_is_repaired(self) -> None:
        assert self.switching(()).plan().evicted == ["shop/web-active-0"]
