"""Requests are named as the API server names them."""

import pytest

from tests.faults.requests import Target, parse_target


@pytest.mark.parametrize(
    ("method", "address", "target"),
    [
        ("GET", "/api/v1/pods?limit=500", Target(verb="list", resource="pods")),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=7", Target(verb="watch", resource="pods")),
        (
            "GET",
            "/api/v1/namespaces/shop/configmaps?fieldSelector=metadata.name%3Da&watch=1",
            Target(verb="watch", resource="configmaps", namespace="shop"),
        ),
        ("GET", "/api/v1/namespaces/shop", Target(verb="get", resource="namespaces", name="shop")),
        ("GET", "/api/v1/namespaces", Target(verb="list", resource="namespaces")),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/shop/leases/rebalancer",
            Target(verb="update", resource="leases", namespace="shop", name="rebalancer"),
        ),
        (
            "POST",
            "/api/v1/namespaces/shop/pods/web-0/eviction",
            Target(verb="create", resource="pods/eviction", namespace="shop", name="web-0"),
        ),
        ("POST", "/apis/events.k8s.io/v1/namespaces/a/events", Target(verb="create", resource="events", namespace="a")),
        ("DELETE", "/api/v1/nodes/a-0", Target(verb="delete", resource="nodes", name="a-0")),
        ("GET", "/version", Target(verb="get", resource="")),
    ],
)
def test_verb_and_resource_are_read(method: str, address: str, target: Target) -> None:
    assert parse_target(method, address) == target


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "update", "patch", "delete"])
def test_only_writes_write(verb: str) -> None:
    assert Target(verb=verb, resource="pods").writes == (verb in {"create", "update", "patch", "delete"})
