"""What the next pod requests, by the template, by what admission adds today, and by the newest pod."""

from datetime import datetime
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.containers import ContainerRequests, PodRequests, Role
from rebalancer.model.creation import (
    ContainerTarget,
    LimitRange,
    LimitRangeItem,
    PodWebhook,
    RuntimeClass,
    ScalingMode,
    VerticalAutoscaler,
    WebhookConfiguration,
)
from rebalancer.model.pods import Pod
from tests.creation.build import HOUR, NOW, a_pod, cpu, next_pod, requested

VPA_WEBHOOK = WebhookConfiguration(
    name="vpa-webhook-config",
    mutating=True,
    webhooks=(PodWebhook(configuration="vpa-webhook-config", name="vpa.k8s.io", mutating=True),),
)
WEBHOOKS_READ = frozenset({"MutatingWebhookConfiguration"})


def range_of(pod: Pod) -> tuple[int, int]:
    """Return the most and the least CPU that a pod may request."""
    return pod.spec.requests.cpu, (pod.least or pod.spec.requests).cpu


def limits(default: int, changed: datetime | None = None) -> LimitRange:
    item = LimitRangeItem(kind="Container", default_requests=cpu(default))
    return LimitRange(namespace="shop", name="defaults", items=(item,), changed=changed)


def scaler(target: int, mode: ScalingMode = ScalingMode.AUTO, kind: str = "Deployment") -> VerticalAutoscaler:
    return VerticalAutoscaler(
        namespace="shop",
        name="web",
        target_kind=kind,
        target_name="web" if kind == "Deployment" else "web-x",
        mode=mode,
        targets=(ContainerTarget(container="app", requests=cpu(target)),),
    )


class TestResizedInPlace:
    def test_the_next_pod_has_the_requests_of_the_template(self) -> None:
        for now in (200, 4000):
            assert range_of(next_pod(requested(cpu(1000)), a_pod(requested(cpu(now)), generation=2))) == (1000, 1000)

    def test_an_older_pod_that_was_not_resized_is_the_better_witness(self) -> None:
        resized = a_pod(requested(cpu(4000)), name="web-2", generation=3)
        plain = a_pod(requested(cpu(1500)), age=5 * HOUR)  # a webhook makes it 1500
        assert range_of(next_pod(requested(cpu(1000)), resized, plain)) == (1500, 1500)

    def test_where_versions_are_not_counted_both_are_possible(self) -> None:
        assert range_of(next_pod(requested(cpu(1000)), a_pod(requested(cpu(200)), generation=0))) == (1000, 200)

    def test_of_equal_pods_the_one_that_was_not_resized_counts(self) -> None:
        # Both share a spec and follow each other: resized to what the others were created with.
        other = a_pod(requested(cpu(1500)), name="web-2", age=2 * HOUR)
        resized = structs.replace(other, name="web-3", uid="web-3", created=NOW, generation=2)
        assert range_of(next_pod(requested(cpu(1000)), resized, other)) == (1500, 1500)


class TestInjectedContainers:
    def test_the_newest_pod_shows_what_a_webhook_adds(self) -> None:
        old = a_pod(requested(cpu(1000)), age=5 * HOUR)
        new = a_pod(requested(cpu(1000), cpu(300)), name="web-2")
        assert range_of(next_pod(requested(cpu(1000)), old, new)) == (1300, 1300)

    def test_and_what_it_adds_no_more(self) -> None:
        old = a_pod(requested(cpu(1000), cpu(300)), age=5 * HOUR)
        new = a_pod(requested(cpu(1000)), name="web-2")
        assert range_of(next_pod(requested(cpu(1000)), old, new)) == (1000, 1000)

    def test_a_resized_pod_shows_it_too(self) -> None:
        only = a_pod(requested(cpu(200), cpu(300)), generation=2)
        assert range_of(next_pod(requested(cpu(1000)), only)) == (1300, 1300)

    @pytest.mark.parametrize(("sidecar_first", "expected"), [(True, 1150), (False, 1100)])
    def test_the_order_of_the_pod_decides_what_an_init_container_needs(
        self, sidecar_first: bool, expected: int
    ) -> None:
        """A sidecar that is injected before an init container runs beside it."""
        sidecar = ContainerRequests(name="mesh", role=Role.SIDECAR, requests=cpu(100))
        init = ContainerRequests(name="init", role=Role.INIT, requests=cpu(1050))
        app = requested(cpu(1000)).containers
        first = (sidecar, init) if sidecar_first else (init, sidecar)
        shown = PodRequests(containers=(*first, *app))
        assert range_of(next_pod(PodRequests(containers=(init, *app)), a_pod(shown))) == (expected, expected)

    def test_a_container_that_the_newest_pod_lacks_is_made_all_the_same(self) -> None:
        assert range_of(next_pod(requested(cpu(1000), cpu(50)), a_pod(requested(cpu(1000))))) == (1050, 1050)


class TestLimitRanges:
    def test_without_a_pod_the_default_of_today_counts(self) -> None:
        made = next_pod(requested(()), limit_ranges=(limits(250),))
        assert range_of(made) == (250, 250)
        assert range_of(next_pod(requested(cpu(100)), limit_ranges=(limits(250),))) == (100, 100)

    def test_the_first_of_several_decides(self) -> None:
        other = LimitRange(
            namespace="shop",
            name="other",
            items=(LimitRangeItem(kind="Pod", default_requests=cpu(9)), *limits(700).items),
        )
        assert range_of(next_pod(requested(()), limit_ranges=(limits(250), other))) == (250, 250)
        assert range_of(next_pod(requested(()), limit_ranges=(other, limits(250)))) == (700, 700)

    @pytest.mark.parametrize(
        ("changed", "expected"),
        [
            pytest.param(NOW - 2 * HOUR, (100, 100), id="before the newest pod: a webhook has made it less"),
            pytest.param(NOW - HOUR / 2, (250, 250), id="after the newest pod"),
            pytest.param(None, (250, 100), id="nobody knows when"),
        ],
    )
    def test_a_default_counts_from_its_change_on(self, changed: datetime | None, expected: tuple[int, int]) -> None:
        made = next_pod(requested(()), a_pod(requested(cpu(100))), limit_ranges=(limits(250, changed),))
        assert range_of(made) == expected

    def test_several_are_known_only_together(self) -> None:
        made = next_pod(requested(()), a_pod(requested(cpu(100))), limit_ranges=(limits(250, NOW), limits(9)))
        assert range_of(made) == (250, 100)

    def test_what_neither_template_nor_limits_name_is_a_webhooks(self) -> None:
        assert range_of(next_pod(requested(()), a_pod(requested(cpu(100))))) == (100, 100)

    def test_those_of_other_namespaces_do_not_count(self) -> None:
        other = LimitRange(namespace="other", name="defaults", items=limits(250).items)
        assert range_of(next_pod(requested(()), limit_ranges=(other,))) == (0, 0)

    def test_a_default_that_the_newest_pod_lacks_is_newer_than_it(self) -> None:
        for changed in (None, NOW):
            made = next_pod(requested(()), a_pod(requested(())), limit_ranges=(limits(250, changed),))
            assert range_of(made) == (250, 250)


class TestLimits:
    """The limits of the next pod: quotas and LimitRanges judge them, the scheduler does not."""

    def limits_of(self, pod: Pod) -> dict[str, int]:
        assert pod.requested is not None
        return dict(pod.requested.containers[0].limits)

    def test_a_container_that_states_none_gets_the_default_of_today(self) -> None:
        item = LimitRangeItem(kind="Container", default_limits=cpu(2000))
        ranges = (LimitRange(namespace="shop", name="l", items=(item,), changed=NOW),)
        assert self.limits_of(next_pod(requested(cpu(100)), limit_ranges=ranges)) == {"cpu": 2000}
        assert self.limits_of(next_pod(requested(cpu(100)), a_pod(requested(cpu(100))), limit_ranges=ranges)) == {
            "cpu": 2000
        }
        stated = requested(cpu(100), limits=cpu(300))
        assert self.limits_of(next_pod(stated, limit_ranges=ranges)) == {"cpu": 300}

    def test_those_that_a_webhook_adds_are_seen_in_the_newest_pod(self) -> None:
        shown = a_pod(requested(cpu(100), limits=cpu(700)))
        assert self.limits_of(next_pod(requested(cpu(100)), shown)) == {"cpu": 700}

    def test_where_it_is_not_known_which_count_those_of_the_newest_pod_do(self) -> None:
        item = LimitRangeItem(kind="Container", default_limits=cpu(2000))
        ranges = (LimitRange(namespace="shop", name="l", items=(item,)),)
        shown = a_pod(requested(cpu(100), limits=cpu(700)))
        assert self.limits_of(next_pod(requested(cpu(100)), shown, limit_ranges=ranges)) == {"cpu": 700}


class TestVerticalAutoscalers:
    def test_the_target_counts_where_the_webhook_is_registered(self) -> None:
        seen: dict[str, Any] = {"vertical_autoscalers": (scaler(700),), "known": WEBHOOKS_READ}
        assert range_of(next_pod(requested(cpu(1000)), webhooks=(VPA_WEBHOOK,), **seen)) == (700, 700)
        assert range_of(next_pod(requested(cpu(1000)), **seen)) == (1000, 1000)

    def test_the_newest_pod_is_a_second_witness(self) -> None:
        seen: dict[str, Any] = {"webhooks": (VPA_WEBHOOK,), "known": WEBHOOKS_READ}
        made = next_pod(requested(cpu(1000)), a_pod(requested(cpu(500))), vertical_autoscalers=(scaler(700),), **seen)
        assert range_of(made) == (700, 500)

    def test_where_webhooks_were_not_read_the_template_may_count_too(self) -> None:
        assert range_of(next_pod(requested(cpu(1000)), vertical_autoscalers=(scaler(700),))) == (1000, 700)

    def test_in_mode_off_it_changes_nothing(self) -> None:
        seen: dict[str, Any] = {"webhooks": (VPA_WEBHOOK,), "known": WEBHOOKS_READ}
        off = scaler(700, ScalingMode.OFF)
        assert range_of(next_pod(requested(cpu(1000)), vertical_autoscalers=(off,), **seen)) == (1000, 1000)

    def test_one_that_targets_the_replica_set_itself_counts(self) -> None:
        seen: dict[str, Any] = {"webhooks": (VPA_WEBHOOK,), "known": WEBHOOKS_READ}
        own = scaler(700, kind="ReplicaSet")
        assert range_of(next_pod(requested(cpu(1000)), vertical_autoscalers=(own,), **seen)) == (700, 700)


class TestRuntimeClasses:
    def test_the_overhead_is_that_of_today(self) -> None:
        shown = requested(cpu(1000), overhead=cpu(50))
        pods = (a_pod(shown, runtime_class="kata"),)
        known = RuntimeClass(name="kata", overhead=cpu(250))
        assert range_of(next_pod(requested(cpu(1000)), *pods, runtime_class="kata", runtime_classes=(known,))) == (
            1250,
            1250,
        )
        # Where classes were not read, the newest pod shows it; without one there is none.
        assert range_of(next_pod(requested(cpu(1000)), *pods, runtime_class="kata")) == (1050, 1050)
        assert range_of(next_pod(requested(cpu(1000)), runtime_class="kata")) == (1000, 1000)


def test_pods_that_are_as_their_template_keep_their_spec() -> None:
    pod = a_pod(requested(cpu(1000)))
    assert next_pod(requested(cpu(1000)), pod).spec is pod.spec
