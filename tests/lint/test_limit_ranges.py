"""LimitRanges that refuse the pods of a template: an error where nothing else may change them."""

from dataclasses import replace
from typing import Any

import pytest

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule
from rebalancer.lint.ground import Ground
from rebalancer.model.cluster import Namespace
from rebalancer.model.creation import (
    ContainerTarget,
    LimitRange,
    LimitRangeItem,
    PodWebhook,
    VerticalAutoscaler,
    WebhookConfiguration,
)
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import as_written, deployment, found, manifests, patched, text

READ = frozenset({"MutatingWebhookConfiguration"})


def limits(**item: Any) -> dict[str, Any]:
    """Return a LimitRange of the namespace `shop` with an item about containers."""
    metadata = {"name": "limits", "namespace": "shop"}
    spec = {"limits": [{"type": "Container", **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec}


def web(limit: str | None = None, request: str | None = None, **fields: Any) -> dict[str, Any]:
    amounts = {"limits": limit, "requests": request}
    resources = {side: {"cpu": amount} for side, amount in amounts.items() if amount is not None}
    return deployment(**fields, containers=[{"name": "web", "image": "web", "resources": resources}])


AT_MOST_ONE = LimitRange(
    namespace="shop", name="limits", items=(LimitRangeItem(kind="Container", most=(("cpu", 1_000),)),)
)


def cluster(limit_range: LimitRange = AT_MOST_ONE, *, running: int = 0, **fields: Any) -> Snapshot:
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 1)
    if running:
        blueprint.deployment("web", namespace="shop", on={"a-1": running})
    return replace(blueprint.snapshot(), **{"limit_ranges": (limit_range,), "known": READ, **fields})


def refused(snapshot: Snapshot, *objects: dict[str, Any]) -> list[Finding]:
    read = manifests(text(*objects))
    return [one for one in lint(read, Ground(snapshot, read)) if one.rule is Rule.REFUSED_BY_LIMIT_RANGE]


def test_a_limit_range_of_the_cluster_refuses_new_pods_for_certain() -> None:
    (one,) = refused(cluster(), web("2"))
    assert (one.severity.value, one.message) == (
        "error",
        "LimitRange shop/limits refuses its pods: max of cpu is 1, and container web has 2; no new pod is created",
    )
    assert one.path == ("spec", "template", "spec", "containers", 0)
    assert refused(cluster(), web("1")) == []
    assert refused(cluster(), web("2", replicas=0)) == []
    elsewhere = web("2") | {"metadata": {"name": "web", "namespace": "other"}}
    assert refused(cluster(), elsewhere) == []


HOOK = PodWebhook(configuration="sizes", name="sizes.example.com", mutating=True, of_evictions=False)
APART = LabelSelector.of({"sized": "yes"}, ())


def hooked(**fields: Any) -> dict[str, Any]:
    hook = PodWebhook(**{name: getattr(HOOK, name) for name in HOOK.__struct_fields__} | fields)
    return {"webhooks": (WebhookConfiguration(name="sizes", mutating=True, webhooks=(hook,)),)}


@pytest.mark.parametrize(
    ("fields", "made", "doubt"),
    [
        ({"known": frozenset()}, web("2"), "unless a webhook changes it: add MutatingWebhookConfigurations to the"),
        (hooked(), web("2"), "unless webhook sizes.example.com of MutatingWebhookConfiguration sizes changes it"),
        (hooked(objects=APART), web("2"), ""),
        (hooked(of_evictions=True), web("2"), ""),
        (hooked(namespaces=APART), web("2"), "unless webhook sizes.example.com"),
        (hooked(namespaces=APART) | {"namespaces": (Namespace(name="shop", labels=Labels({})),)}, web("2"), ""),
        ({}, web("2", kind="DaemonSet"), "once one is wanted"),
        ({}, web("2", kind="Job"), "once one is wanted"),
        ({}, limits(max={"cpu": "1"}), None),
    ],
)
def test_what_may_change_or_spare_the_pods_makes_it_a_warning(
    fields: dict[str, Any], made: dict[str, Any], doubt: str | None
) -> None:
    objects = [made] if doubt is not None else [made, web("2")]
    (one,) = refused(cluster(**fields), *objects)
    expected = "unless it is created before the LimitRange" if doubt is None else doubt
    assert one.severity.value == ("warning" if expected else "error")
    assert one.message.partition("; no new pod is created")[2].removeprefix(", ").startswith(expected)


def test_pods_of_today_and_those_kept_back_stay() -> None:
    made = web("2", replicas=3)
    (same,) = refused(as_written(cluster(running=3), made), made)
    assert same.message.endswith("no new pod is created, once one is wanted: those of today stay")
    assert [one.severity.value for one in refused(cluster(running=3), made)] == ["error"]
    paused = made | {"spec": {**made["spec"], "paused": True}}
    (one,) = refused(cluster(running=3), paused)
    assert one.message.endswith("no new pod is created, once one is to have the new template")


def test_an_autoscaler_of_requests_keeps_within_the_limit_range() -> None:
    scaler = VerticalAutoscaler(
        namespace="shop",
        name="web",
        target_kind="Deployment",
        target_name="web",
        targets=(ContainerTarget(container="web", requests=(("cpu", 500),)),),
    )
    fields = hooked(objects=APART)
    (configuration,) = fields["webhooks"]
    hook = PodWebhook(configuration="vpa", name="vpa.k8s.io", mutating=True, objects=APART)
    hooks = (configuration, WebhookConfiguration(name="vpa", mutating=True, webhooks=(hook,)))
    assert refused(cluster(vertical_autoscalers=(scaler,), webhooks=hooks), web("2")) == []


@pytest.mark.parametrize(
    ("item", "made", "expected"),
    [
        ({"max": {"cpu": "1"}}, web("2"), {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
        ({"max": {"cpu": "1"}}, web("2", "1500m"), {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
        ({"max": {"cpu": "1"}}, web("2", "500m"), {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}),
        ({"min": {"cpu": "1"}}, web(None, "500m"), {"requests": {"cpu": "1"}}),
        ({"min": {"cpu": "1"}}, web("800m", "500m"), {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, web("3", "1"), None),
        ({"default": {"cpu": "1"}}, web(None, "2"), None),
    ],
)
def test_the_change_is_what_the_bound_allows(
    item: dict[str, Any], made: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    """Without a cluster, too: the LimitRange is among the manifests; after the change nothing is found."""
    (one,) = found(Rule.REFUSED_BY_LIMIT_RANGE, limits(**item), made)
    assert one.severity.value == "warning"
    assert bool(one.patch) == (expected is not None)
    if expected is not None:
        changed = patched(made, one)
        assert changed["spec"]["template"]["spec"]["containers"][0]["resources"] == expected
        assert found(Rule.REFUSED_BY_LIMIT_RANGE, limits(**item), changed) == []


def test_a_default_limit_below_a_request_refuses_the_pods() -> None:
    (one,) = found(Rule.REFUSED_BY_LIMIT_RANGE, limits(default={"cpu": "1"}), web(None, "2"))
    assert one.message.startswith(
        "the API server refuses its pods: container web requests 2 of cpu, more than the limit of 1 that a LimitRange"
    )


def test_what_a_limit_range_gives_by_default_decides_whether_pods_find_a_node() -> None:
    large = LimitRange(
        namespace="shop", name="sizes", items=(LimitRangeItem(kind="Container", default_requests=(("cpu", 99_000),)),)
    )
    read = manifests(text(deployment(3)))
    (one,) = [one for one in lint(read, Ground(cluster(large), read)) if one.rule is Rule.NO_PLACEMENT]
    assert one.message == "none of 3 pods finds a node: of 3 nodes 3 have not enough cpu"
