"""What the API server would refuse a replacement for, and what proves that it does not."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from msgspec import structs

from rebalancer.creation.acceptance import find_refusals
from rebalancer.creation.limit_ranges import LimitRangeViolated, RequestAboveLimit
from rebalancer.creation.named_objects import NamedObjectMissing
from rebalancer.creation.pod_security import PodSecurityViolated
from rebalancer.creation.quotas import QuotaExceeded, QuotaNeedsRequests, find_charges
from rebalancer.creation.webhooks import WebhookUnreachable
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, PreferredPodTerm
from rebalancer.model.cluster import Namespace, PriorityClass, Service, Version
from rebalancer.model.containers import Amounts, PodRequests
from rebalancer.model.creation import (
    ClusterQuota,
    ContainerTarget,
    EndpointSlice,
    LimitRange,
    LimitRangeItem,
    PodWebhook,
    QuotaScope,
    ResourceQuota,
    RuntimeClass,
    SecurityViolation,
    ServiceAccount,
    VerticalAutoscaler,
    WebhookConfiguration,
)
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from tests.creation.build import HOUR, NOW, a_pod, a_snapshot, an_owner, cpu, requested

ONE = requested(cpu(1000))
NAMED = PodAffinityTerm(topology_key="k", selector=None, namespaces=("x",))
SELECTED = PodAffinityTerm(topology_key="k", selector=None, namespace_selector=LabelSelector())
SHOP = Namespace(name="shop", labels=Labels({"team": "red"}))


def refused(owner: Workload, *pods: Pod, new: Pod | None = None, **objects: Any) -> Sequence[Refusal]:
    """Return why a new pod, else one like the owner's template, would be refused."""
    template = owner.template
    assert template is not None
    assert template.requested is not None
    like = structs.replace(a_pod(template.requested, name="new"), spec=template.spec)
    fields = {"namespaces": (SHOP,), **objects}
    return list(find_refusals(owner, new or like, pods, a_snapshot(owner, *pods, **fields)))


class TestQuotas:
    def quota(self, hard: Amounts, used: Amounts, *scopes: QuotaScope) -> ResourceQuota:
        return ResourceQuota(namespace="shop", name="q", hard=hard, used=used, scopes=scopes)

    def test_one_that_is_exactly_full_admits_the_replacement(self) -> None:
        full = self.quota((("pods", 4), ("requests.cpu", 4000)), (("pods", 4), ("requests.cpu", 4000)))
        assert refused(an_owner(ONE), a_pod(ONE), quotas=(full,)) == []

    def test_one_that_is_exceeded_already_does_not(self) -> None:
        over = self.quota((("pods", 3),), (("pods", 4),))
        (refusal,) = refused(an_owner(ONE), a_pod(ONE), quotas=(over,))
        assert refusal == QuotaExceeded("ResourceQuota shop/q", "pods", 3, 4, 1, 1)
        assert "ResourceQuota shop/q limits pods to 3: 4 used" in str(refusal)

    def test_a_replacement_that_needs_more_than_it_returns_may_not_fit(self) -> None:
        full = self.quota((("cpu", 4000),), (("cpu", 4000),))
        small = a_pod(requested(cpu(200)), generation=2)
        (refusal,) = refused(an_owner(ONE), small, quotas=(full,))
        assert isinstance(refusal, QuotaExceeded)
        assert (refusal.returned, refusal.requested) == (200, 1000)

    def test_it_refuses_only_if_it_refuses_the_replacement_of_each_pod(self) -> None:
        full = self.quota((("cpu", 4000),), (("cpu", 4000),))
        small, plain = a_pod(requested(cpu(200)), generation=2), a_pod(ONE, name="web-2")
        assert refused(an_owner(ONE), small, plain, quotas=(full,)) == []

    def test_only_what_the_pod_uses_counts(self) -> None:
        others = self.quota(
            (("count/services", 0), ("requests.nvidia.com/gpu", 0), ("limits.memory", 0), ("services", 0)), ()
        )
        assert not [
            one for one in refused(an_owner(ONE), a_pod(ONE), quotas=(others,)) if isinstance(one, QuotaExceeded)
        ]

    @pytest.mark.parametrize(
        ("name", "amounts", "limits"),
        [
            ("count/pods", cpu(1), ()),
            ("requests.memory", (("memory", 1),), ()),
            ("memory", (("memory", 1),), ()),
            ("requests.ephemeral-storage", (("ephemeral-storage", 1),), ()),
            ("hugepages-2Mi", (("hugepages-2Mi", 1),), ()),
            ("requests.example.com/gpu", (("example.com/gpu", 1),), ()),
            ("limits.cpu", cpu(1), cpu(1)),
        ],
    )
    def test_each_resource_is_counted_under_its_names(self, name: str, amounts: Amounts, limits: Amounts) -> None:
        written = requested(amounts, limits=limits)
        over = self.quota(((name, 0),), ())
        found = refused(an_owner(written), a_pod(written), quotas=(over,))
        assert [one.resource for one in found if isinstance(one, QuotaExceeded)] == []  # what it returns is free again
        over = self.quota(((name, 0),), ((name, 1),))
        found = refused(an_owner(written), a_pod(written), quotas=(over,))
        assert [one.resource for one in found if isinstance(one, QuotaExceeded)] == [name]

    def test_every_container_must_say_what_is_tracked(self) -> None:
        quota = self.quota((("requests.cpu", 10_000), ("limits.memory", 10), ("pods", 9)), ())
        two = requested(cpu(1), (), limits=(("memory", 1),))
        (refusal,) = refused(an_owner(two), a_pod(two), quotas=(quota,))
        assert refusal == QuotaNeedsRequests("ResourceQuota shop/q", ("requests.cpu",), "proxy")
        assert "do not state requests.cpu" in str(refusal)

    def test_pod_level_resources_make_up_for_it(self) -> None:
        quota = self.quota((("requests.cpu", 10_000),), ())
        for level in ({"pod_level": cpu(5)}, {"pod_limits": cpu(5)}):
            whole = requested((), **level)
            assert refused(an_owner(whole), a_pod(whole), quotas=(quota,)) == []

    @pytest.mark.parametrize(
        ("scope", "spec", "counts"),
        [
            (QuotaScope("Terminating"), {}, False),
            (QuotaScope("NotTerminating"), {}, True),
            (QuotaScope("BestEffort"), {}, False),
            (QuotaScope("NotBestEffort"), {}, True),
            (QuotaScope("PriorityClass"), {}, False),
            (QuotaScope("PriorityClass"), {"priority_class": "high"}, True),
            (QuotaScope("PriorityClass", "In", ("high",)), {"priority_class": "high"}, True),
            (QuotaScope("PriorityClass", "In", ("low",)), {"priority_class": "high"}, False),
            (QuotaScope("PriorityClass", "NotIn", ("low",)), {"priority_class": "high"}, True),
            (QuotaScope("PriorityClass", "NotIn", ("high",)), {"priority_class": "high"}, False),
            (QuotaScope("PriorityClass", "DoesNotExist"), {}, True),
            (QuotaScope("PriorityClass", "DoesNotExist"), {"priority_class": "high"}, False),
            (QuotaScope("CrossNamespacePodAffinity"), {}, False),
            (
                QuotaScope("CrossNamespacePodAffinity"),
                {
                    "pod_affinity": PodAffinity(
                        required=(PodAffinityTerm(topology_key="k", selector=None, namespaces=("x",)),)
                    )
                },
                True,
            ),
            (
                QuotaScope("CrossNamespacePodAffinity"),
                {"pod_affinity": PodAffinity(anti_preferred=(PreferredPodTerm(1, SELECTED),))},
                True,
            ),
            (QuotaScope("VolumeAttributesClass"), {}, False),
        ],
    )
    def test_scopes_say_which_pods_count(self, scope: QuotaScope, spec: dict[str, Any], counts: bool) -> None:
        over = self.quota((("pods", 0),), (("pods", 1),), scope)
        found = refused(an_owner(ONE, **spec), a_pod(ONE, **spec), quotas=(over,), unknown=frozenset({"PriorityClass"}))
        assert bool(found) is counts

    def test_best_effort_is_a_pod_that_says_nothing_of_cpu_and_memory(self) -> None:
        over = self.quota((("pods", 0),), (("pods", 1),), QuotaScope("BestEffort"))
        nothing, limited = requested((("example.com/gpu", 1),)), requested((), limits=cpu(5))
        assert refused(an_owner(nothing), a_pod(nothing), quotas=(over,))
        assert not refused(an_owner(limited), a_pod(limited), quotas=(over,))
        sandboxed = requested((), overhead=cpu(100))
        assert refused(an_owner(sandboxed), a_pod(sandboxed), quotas=(over,)), "overhead is no request of a container"
        unknown = structs.replace(a_pod(nothing), requested=None)
        assert refused(an_owner(nothing), unknown, new=unknown, quotas=(over,))

    def test_a_pod_out_of_scope_returns_nothing(self) -> None:
        full = self.quota((("pods", 2),), (("pods", 2),), QuotaScope("PriorityClass", "In", ("high",)))
        new, old = a_pod(ONE, name="new", priority_class="high"), a_pod(ONE)
        (charge,) = find_charges(full, old, new)
        assert (charge.returned, charge.requested) == (0, 1)

    def test_unknown_containers_are_judged_by_the_sum_alone(self) -> None:
        quota = self.quota((("requests.cpu", 0), ("limits.cpu", 0)), (("requests.cpu", 1),))
        pod = structs.replace(a_pod(ONE), requested=None)
        (refusal,) = refused(an_owner(ONE), pod, new=pod, quotas=(quota,))
        assert isinstance(refusal, QuotaExceeded)
        assert refusal.resource == "requests.cpu"

    @pytest.mark.parametrize(
        ("selectors", "counts"),
        [
            ({"labels": LabelSelector.of({"team": "red"})}, True),
            ({"labels": LabelSelector.of({"team": "blue"})}, False),
            ({"annotations": Labels({"owner": "me"})}, True),
            ({"annotations": Labels({"owner": "you"})}, False),
            ({"labels": LabelSelector.of({"team": "red"}), "annotations": Labels({"owner": "you"})}, False),
            ({}, False),
        ],
    )
    def test_a_cluster_quota_counts_the_namespaces_that_it_selects(
        self, selectors: dict[str, Any], counts: bool
    ) -> None:
        over = ClusterQuota(name="all", hard=(("pods", 3),), used=(("pods", 4),), **selectors)
        shop = structs.replace(SHOP, annotations=Labels({"owner": "me"}))
        found = refused(an_owner(ONE), a_pod(ONE), cluster_quotas=(over,), namespaces=(shop,))
        assert bool(found) is counts
        if found:
            assert "ClusterResourceQuota all" in str(found[0])
        assert not refused(an_owner(ONE), a_pod(ONE), cluster_quotas=(over,), namespaces=())


class TestLimitRanges:
    def limits(self, changed: datetime | None = None, **item: Any) -> LimitRange:
        made = LimitRangeItem(**{"kind": "Container", **item})
        return LimitRange(namespace="shop", name="l", items=(made,), changed=changed)

    @pytest.mark.parametrize(
        ("item", "rule", "amount"),
        [
            ({"least": cpu(1001)}, "min", 1000),
            ({"least": (("memory", 1),)}, "min", None),
            ({"most": cpu(999)}, "max", 3000),
            ({"most": (("memory", 1),)}, "max", None),
            ({"ratio": cpu(2000)}, "maxLimitRequestRatio", 3000),
            ({"ratio": (("memory", 1),)}, "maxLimitRequestRatio", None),
            ({"kind": "Pod", "most": cpu(2999)}, "max", 3000),
            ({"kind": "Pod", "least": cpu(1001)}, "min", 1000),
        ],
    )
    def test_what_is_too_little_too_much_or_missing_is_refused(
        self, item: dict[str, Any], rule: str, amount: int | None
    ) -> None:
        written = requested(cpu(1000), limits=cpu(3000), overhead=cpu(100))
        (refusal,) = refused(an_owner(written), limit_ranges=(self.limits(**item),))
        assert isinstance(refusal, LimitRangeViolated)
        assert (refusal.rule, refusal.amount) == (rule, amount)
        assert refusal.container == ("" if item.get("kind") == "Pod" else "app")
        assert "LimitRange shop/l refuses its replacement" in str(refusal)

    @pytest.mark.parametrize(
        "item",
        [
            {"least": cpu(1000), "most": cpu(3000), "ratio": cpu(3000)},
            {"kind": "Pod", "least": cpu(1000), "most": cpu(3000)},
            {"kind": "PersistentVolumeClaim", "most": (("storage", 1),)},
        ],
    )
    def test_what_is_at_the_bound_is_not(self, item: dict[str, Any]) -> None:
        written = requested(cpu(1000), limits=cpu(3000))
        assert refused(an_owner(written), limit_ranges=(self.limits(**item),)) == []

    def test_a_limit_below_the_least_and_a_request_above_the_most_are_refused(self) -> None:
        low = requested(cpu(300), limits=cpu(500))
        (refusal,) = refused(an_owner(low), limit_ranges=(self.limits(most=cpu(400)),))
        assert isinstance(refusal, LimitRangeViolated)
        assert refusal.amount == 500
        above = requested(cpu(1000), limits=cpu(500))
        found = refused(an_owner(above), limit_ranges=(self.limits(least=cpu(700), most=cpu(700)),))
        assert [one.amount for one in found if isinstance(one, LimitRangeViolated)] == [500]
        found = refused(an_owner(above), limit_ranges=(self.limits(most=cpu(700)),))
        assert [one.amount for one in found if isinstance(one, LimitRangeViolated)] == [1000]
        high = requested(cpu(1000), limits=(("memory", 9),))
        found = refused(an_owner(high), limit_ranges=(self.limits(most=cpu(700)),))
        assert [one.amount for one in found if isinstance(one, LimitRangeViolated)] == [None]

    def test_a_request_above_its_limit_is_refused_unless_a_younger_pod_shows_otherwise(self) -> None:
        above = requested(cpu(1000), limits=cpu(500))
        ranges = (self.limits(NOW - 2 * HOUR),)
        (refusal,) = refused(an_owner(above), limit_ranges=ranges)
        assert refusal == RequestAboveLimit("app", "cpu", 1000, 500)
        assert "would request 1 of cpu, more than its limit of 500m" in str(refusal)
        assert refused(an_owner(above), a_pod(above), limit_ranges=ranges) == []

    def test_what_an_autoscaler_sizes_is_not_judged_by_its_limits(self) -> None:
        target = ContainerTarget(container="app", requests=cpu(900))
        scaler = VerticalAutoscaler(
            namespace="shop", name="v", target_kind="Deployment", target_name="web", targets=(target,)
        )
        strict = self.limits(most=cpu(1))
        assert refused(an_owner(ONE), limit_ranges=(strict,), vertical_autoscalers=(scaler,)) == []
        off = frozenset({"MutatingWebhookConfiguration"})
        assert refused(an_owner(ONE), limit_ranges=(strict,), vertical_autoscalers=(scaler,), known=off)

    def test_a_younger_pod_of_the_template_proves_that_it_is_admitted(self) -> None:
        strict = {"least": cpu(5000)}
        for changed, proved in ((NOW - 2 * HOUR, True), (NOW, False), (None, False)):
            found = refused(an_owner(ONE), a_pod(ONE), limit_ranges=(self.limits(changed, **strict),))
            assert (found == []) is proved
        old_template = structs.replace(a_pod(ONE), labels=Labels({"pod-template-hash": "0"}))
        assert refused(an_owner(ONE), old_template, limit_ranges=(self.limits(NOW - 2 * HOUR, **strict),))
        bare = structs.replace(an_owner(ONE), revision="")
        assert not refused(bare, old_template, limit_ranges=(self.limits(NOW - 2 * HOUR, **strict),))

    def test_of_unknown_containers_nothing_is_said(self) -> None:
        new = structs.replace(a_pod(ONE), requested=None)
        assert refused(an_owner(ONE), new=new, limit_ranges=(self.limits(least=cpu(5000)),)) == []


class TestNamedObjects:
    def test_a_class_or_account_that_is_gone_is_named(self) -> None:
        owner = an_owner(ONE, runtime_class="kata", priority_class="high", service_account="robot")
        known = frozenset({"RuntimeClass", "ServiceAccount"})
        found = refused(owner, known=known, service_accounts=(ServiceAccount("shop", "default"),))
        assert found == [
            NamedObjectMissing("RuntimeClass", "kata"),
            NamedObjectMissing("PriorityClass", "high"),
            NamedObjectMissing("ServiceAccount", "shop/robot"),
        ]
        assert "RuntimeClass kata, which does not exist" in str(found[0])

    def test_what_admission_has_filled_in_is_not_named_by_the_template(self) -> None:
        """The default class of yesterday is gone; today's takes its place."""
        witness = structs.replace(a_pod(ONE), spec=structs.replace(a_pod(ONE).spec, priority_class="old-default"))
        assert refused(an_owner(ONE), witness, new=witness) == []

    def test_accounts_are_judged_in_namespaces_that_show_one(self) -> None:
        owner = an_owner(ONE, service_account="robot")
        known = frozenset({"ServiceAccount"})
        assert refused(owner, known=known, service_accounts=(ServiceAccount("other", "default"),)) == []

    def test_what_is_there_and_what_was_not_read_is_not(self) -> None:
        owner = an_owner(ONE, runtime_class="kata", priority_class="high", service_account="robot")
        assert refused(owner, unknown=frozenset({"PriorityClass"})) == []
        there: dict[str, Any] = {
            "known": frozenset({"RuntimeClass", "ServiceAccount"}),
            "runtime_classes": (RuntimeClass(name="kata"),),
            "priority_classes": (PriorityClass(name="high", value=1),),
            "service_accounts": (ServiceAccount("shop", "robot"),),
        }
        assert refused(owner, **there) == []
        assert refused(an_owner(ONE, priority_class="system-node-critical")) == []


class TestPodSecurity:
    BAD = (
        SecurityViolation("baseline", "hostNetwork is true"),
        SecurityViolation("restricted", "runAsNonRoot is not true"),
        SecurityViolation("restricted", "new rule", 30),
        SecurityViolation("baseline", "old rule", 0, 25),
    )

    def judged(self, labels: dict[str, str], *pods: Pod, changed: datetime | None = None, **owner: Any) -> list[str]:
        keys = {f"pod-security.kubernetes.io/{key}": value for key, value in labels.items()}
        namespace = Namespace(name="shop", labels=Labels(keys), changed=changed)
        written = an_owner(ONE, security=self.BAD, **owner)
        found = refused(written, *pods, namespaces=(namespace,), version=Version(1, 33))
        if not found:
            return []
        (refusal,) = found
        assert isinstance(refusal, PodSecurityViolated)
        assert "namespace shop enforces Pod Security" in str(refusal)
        return list(refusal.violations)

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            ({}, []),
            ({"enforce": "privileged"}, []),
            ({"warn": "restricted", "audit": "restricted"}, []),
            ({"enforce": "baseline"}, ["hostNetwork is true"]),
            ({"enforce": "restricted"}, ["hostNetwork is true", "runAsNonRoot is not true", "new rule"]),
            (
                {"enforce": "restricted", "enforce-version": "v1.24"},
                ["hostNetwork is true", "runAsNonRoot is not true", "old rule"],
            ),
            ({"enforce": "baseline", "enforce-version": "latest"}, ["hostNetwork is true"]),
            ({"enforce": "baseline", "enforce-version": "v1.99"}, ["hostNetwork is true"]),
            ({"enforce": "baseline", "enforce-version": "nonsense"}, ["hostNetwork is true"]),
            ({"enforce": "nonsense"}, ["hostNetwork is true", "runAsNonRoot is not true", "new rule"]),
        ],
    )
    def test_the_enforced_level_and_version_decide(self, labels: dict[str, str], expected: list[str]) -> None:
        assert self.judged(labels) == expected

    def test_a_template_without_violations_is_admitted(self) -> None:
        labels = Labels({"pod-security.kubernetes.io/enforce": "restricted"})
        assert refused(an_owner(ONE), namespaces=(Namespace(name="shop", labels=labels),)) == []
        only_old = an_owner(ONE, security=self.BAD[3:])
        assert refused(only_old, namespaces=(Namespace(name="shop", labels=labels),)) == []

    def test_a_younger_pod_shows_an_exemption(self) -> None:
        enforced = {"enforce": "restricted"}
        assert self.judged(enforced, a_pod(ONE), changed=NOW - 2 * HOUR) == []
        assert self.judged(enforced, a_pod(ONE), changed=NOW)


class TestWebhooks:
    HOOK = PodWebhook(configuration="guard", name="pods.guard.io", service=("guard", "api"))
    KNOWN = frozenset({"EndpointSlice"})

    def judged(self, hook: PodWebhook, ready: int = 0, **objects: Any) -> Sequence[Refusal]:
        fields: dict[str, Any] = {
            "webhooks": (WebhookConfiguration(name="guard", webhooks=(hook,)),),
            "services": (Service(namespace="guard", name="api"),),
            "endpoint_slices": (EndpointSlice(namespace="guard", name="api-1", service="api", ready=ready),),
            "known": self.KNOWN,
        }
        return refused(an_owner(ONE), **{**fields, **objects})

    def test_one_that_must_answer_and_has_no_ready_endpoint_is_named(self) -> None:
        (refusal,) = self.judged(self.HOOK)
        assert refusal == WebhookUnreachable(
            "ValidatingWebhookConfiguration guard", "pods.guard.io", "guard/api", exists=True
        )
        assert "has no ready endpoint" in str(refusal)
        other = (Service(namespace="guard", name="other"),)
        (refusal,) = self.judged(structs.replace(self.HOOK, mutating=True), services=other, endpoint_slices=())
        assert refusal == WebhookUnreachable(
            "MutatingWebhookConfiguration guard", "pods.guard.io", "guard/api", exists=False
        )
        assert "does not exist" in str(refusal)

    def test_one_that_answers_need_not_or_is_elsewhere_is_not(self) -> None:
        assert self.judged(self.HOOK, ready=1) == []
        assert self.judged(self.HOOK, endpoint_slices=()) == [], "an ExternalName, or its slices were not read"
        no_slices: dict[str, Any] = {"services": (), "endpoint_slices": ()}
        assert self.judged(self.HOOK, **no_slices, unknown=frozenset({"Service"}), namespaces=(SHOP,)) == []
        assert self.judged(self.HOOK, **no_slices, namespaces=(SHOP, Namespace(name="guard"))) == [], "not read there"
        assert self.judged(self.HOOK, **no_slices, namespaces=(SHOP,), scope=frozenset({"shop"})) == []
        assert self.judged(self.HOOK, **no_slices, namespaces=(SHOP,)), "its namespace is gone"
        assert self.judged(structs.replace(self.HOOK, must_answer=False)) == []
        assert self.judged(structs.replace(self.HOOK, service=None)) == []
        assert self.judged(structs.replace(self.HOOK, is_conditional=True)) == []

    @pytest.mark.parametrize(
        ("selectors", "asked"),
        [
            ({"namespaces": LabelSelector()}, True),
            ({"namespaces": LabelSelector.of({"team": "red"})}, True),
            ({"namespaces": LabelSelector.of({"team": "blue"})}, False),
            ({"objects": LabelSelector.of({"app": "web"})}, True),
            ({"objects": LabelSelector.of({"app": "db"})}, False),
        ],
    )
    def test_selectors_decide_whether_it_is_asked(self, selectors: dict[str, Any], asked: bool) -> None:
        hook = structs.replace(self.HOOK, **selectors)
        assert bool(self.judged(hook)) is asked

    def test_of_an_unknown_namespace_its_selector_says_nothing(self) -> None:
        hook = structs.replace(self.HOOK, namespaces=LabelSelector.of({"team": "red"}))
        assert self.judged(hook, namespaces=()) == []


def test_an_owner_without_a_template_is_judged_by_the_pod_alone() -> None:
    over = ResourceQuota(namespace="shop", name="q", hard=(("pods", 3),), used=(("pods", 4),))
    bare = structs.replace(an_owner(ONE), template=None)
    found = list(find_refusals(bare, a_pod(ONE), [a_pod(ONE)], a_snapshot(bare, quotas=(over,))))
    assert [type(one) for one in found] == [QuotaExceeded]


def test_an_owner_without_pods_is_not_refused_by_quotas() -> None:
    over = ResourceQuota(namespace="shop", name="q", hard=(("pods", 3),), used=(("pods", 4),))
    assert refused(an_owner(PodRequests()), quotas=(over,)) == []
