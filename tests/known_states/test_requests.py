"""What the replacement of an evicted pod requests: of its template and admission, not of the pod that is evicted.

Zone c, where it must go, has a node with 1 CPU.
"""

from copy import deepcopy
from typing import Any

from rebalancer.model.reasons import Reason
from tests.control_plane.resources import Manifest
from tests.known_states.build import (
    State,
    assert_evicted,
    assert_no_room,
    changed,
    cluster,
    containers,
    deployment,
    make,
)


class TestResizedInPlace:
    """The pods run with other requests than their template has."""

    def resized(self, template: str, pods: str) -> State:
        state = cluster(deployment(cpu=template), c="1")
        for pod in state.pods():
            requests = {"cpu": pods, "memory": "64Mi"}
            pod["metadata"]["generation"] = 2
            pod["spec"]["containers"][0]["resources"]["requests"] = requests
            pod["status"]["containerStatuses"] = [
                {"name": "app", "allocatedResources": requests, "resources": {"requests": requests}}
            ]
        return state

    def test_pods_that_were_made_smaller_come_back_as_large_as_their_template(self) -> None:
        assert_no_room(self.resized(template="2", pods="200m"))

    def test_pods_that_were_made_larger_come_back_as_small_as_their_template(self) -> None:
        assert_evicted(self.resized(template="200m", pods="2"))


class TestLimitRangeDefault:
    """The template requests no CPU; the namespace's LimitRange decides."""

    def defaulted(self, today: str, at: str) -> State:
        item = {"type": "Container", "defaultRequest": {"cpu": today}}
        limits = make("v1", "LimitRange", "sizes", managedFields=changed(at), spec={"limits": [item]})
        state = cluster(deployment(containers=containers("")), [limits], c="1")
        for pod in state.pods():
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
        return state

    def test_a_default_that_was_raised_since_holds_for_the_replacement(self) -> None:
        assert_no_room(self.defaulted("2", "2026-05-01T00:00:00Z"))

    def test_one_that_still_is_what_the_pods_have_fits(self) -> None:
        assert_evicted(self.defaulted("100m", "2026-05-01T00:00:00Z"))


class TestVerticalAutoscaler:
    """Its recommendation reaches new pods through its webhook."""

    def recommended(self, target: str, webhook: str = "vpa.k8s.io", mode: str = "Initial") -> State:
        hook: Manifest = {
            "name": webhook,
            "clientConfig": {"service": {"namespace": "kube-system", "name": "vpa-webhook"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "failurePolicy": "Ignore",
        }
        scaler = make(
            "autoscaling.k8s.io/v1",
            "VerticalPodAutoscaler",
            "web-size",
            spec={
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "updatePolicy": {"updateMode": mode},
            },
            status={
                "recommendation": {"containerRecommendations": [{"containerName": "app", "target": {"cpu": target}}]}
            },
        )
        configuration = make(
            "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "hooks", None, webhooks=[hook]
        )
        return cluster(deployment(), [scaler, configuration], c="1")

    def test_where_a_target_that_fits_nowhere_may_be_what_the_replacement_requests_nothing_is_evicted(self) -> None:
        """The newest pod is older than the recommendation: it says nothing against it, and nothing for it."""
        said = self.recommended("2").plan().assert_kept(Reason.NOT_PREDICTABLE)
        assert "a new pod of shop/web (ReplicaSet) will request between 100m and 2 of cpu" in said

    def test_one_that_the_newest_pod_has_got_is_what_the_replacement_requests(self) -> None:
        state = self.recommended("2")
        newest = state.get("Pod", "web-3")
        newest["metadata"]["creationTimestamp"] = "2026-05-02T00:00:00Z"
        newest["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
        assert_no_room(state)

    def test_without_its_webhook_no_new_pod_gets_it(self) -> None:
        assert_evicted(self.recommended("2", webhook="inject.mesh.test"))

    def test_a_target_that_fits_is_no_obstacle(self) -> None:
        assert_evicted(self.recommended("200m"))

    def test_one_that_is_off_recommends_only(self) -> None:
        assert_evicted(self.recommended("2", mode="Off"))


class TestInjectedSidecar:
    """A webhook adds a container that the template does not have."""

    def injected(self, cpu: str) -> State:
        """Return the state in which only the newest pod was created since the webhook is there."""
        state = cluster(deployment(), c="1")
        newest: dict[str, Any] = state.get("Pod", "web-3")
        newest["metadata"]["creationTimestamp"] = "2026-05-02T00:00:00Z"
        newest["spec"]["containers"] += deepcopy(containers(cpu, name="proxy"))
        return state

    def test_one_that_the_newest_pod_has_makes_the_replacement_too_large(self) -> None:
        assert_no_room(self.injected("2"))

    def test_one_that_fits_is_no_obstacle(self) -> None:
        assert_evicted(self.injected("500m"))
