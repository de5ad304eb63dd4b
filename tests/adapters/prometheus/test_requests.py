"""Requests are named as RBAC names them."""

import pytest

from rebalancer.adapters.prometheus import parse_request


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/api/v1/pods", "list", "pods"),
        ("GET", "/api/v1/namespaces", "list", "namespaces"),
        ("GET", "/api/v1/namespaces/shop", "get", "namespaces"),
        ("GET", "/api/v1/namespaces/shop/configmaps", "list", "configmaps"),
        ("GET", "/api/v1/namespaces/shop/configmaps/status", "get", "configmaps"),
        ("PATCH", "/api/v1/namespaces/shop/configmaps/status", "patch", "configmaps"),
        ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction", "create", "pods/eviction"),
        ("GET", "/apis/apps/v1/replicasets", "list", "replicasets"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", "create", "events"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/rebalancer", "update", "leases"),
        ("GET", "/version", "get", ""),
        ("GET", "/api", "get", ""),
        ("GET", "/apis/apps/v1", "get", ""),
        ("OPTIONS", "/version", "options", ""),
    ],
)
def test_requests_are_named_as_kubernetes_names_them(method: str, path: str, verb: str, resource: str) -> None:
    """Without the names of objects: the number of series does not grow with the cluster."""
    assert parse_request(method, path) == (verb, resource)
