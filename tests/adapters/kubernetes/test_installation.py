"""Whatever right to read the controller's account lacks is named, alone, and where."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml

from rebalancer.adapters.kubernetes.cluster import BY_NAMESPACE
from rebalancer.adapters.kubernetes.installation import find_missing_rights
from rebalancer.decoding.kinds import KIND_NAMED, KINDS, OPTIONAL_KINDS, ResourceKind
from tests.adapters.kubernetes.fake_server import Handler, answer, served

ACCOUNT = "system:serviceaccount:ops:rebalancer"
Right = tuple[str, str, str]
"""Group, resource and verb."""


def list_granted() -> frozenset[Right]:
    """Return what the shipped ClusterRoles allow."""
    files = (Path("deploy/base") / name for name in ("cluster-role.yaml", "workloads.yaml"))
    rules = [rule for file in files for one in yaml.safe_load_all(file.read_text()) for rule in one.get("rules", ())]
    return frozenset(
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def allow(is_allowed: Callable[[Right, str], bool]) -> Handler:
    """Return a server that says what is allowed, by right and namespace."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        review = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        assert review["spec"]["user"] == ACCOUNT
        asked = review["spec"]["resourceAttributes"]
        right = (asked["group"], asked["resource"], asked["verb"])
        is_eviction = asked["subresource"] == "eviction"
        allowed = is_eviction or is_allowed(right, asked["namespace"])
        answer(request, 201, {"status": {"allowed": allowed}})

    return handle


def name(kind: ResourceKind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def test_what_the_shipped_roles_allow_lacks_nothing() -> None:
    granted = list_granted()
    with served(allow(lambda right, _: right in granted)) as transport:
        assert find_missing_rights(transport, ACCOUNT, ["shop"], evicts=True) == {}


@pytest.mark.parametrize("kind", [*KINDS, *OPTIONAL_KINDS], ids=lambda kind: kind.name)
def test_each_kind_that_may_not_be_read_is_named(kind: ResourceKind) -> None:
    verbs = [verb for verb in ("list", "watch") if (kind.group, kind.plural, verb) in list_granted()]
    for missing in (verbs, verbs[-1:]):
        granted = list_granted() - {(kind.group, kind.plural, verb) for verb in missing}
        with served(allow(lambda right, _, known=granted: right in known)) as transport:  # type: ignore[misc]
            found = find_missing_rights(transport, ACCOUNT, ["shop", "web"], evicts=False)
        assert found == {f"{' and '.join(missing)} {name(kind)}": ()}


def test_workloads_may_be_read_in_their_namespaces_alone() -> None:
    granted = list_granted()
    of_namespaces = {KIND_NAMED[one].plural for one in BY_NAMESPACE} | {
        kind.plural for kind in OPTIONAL_KINDS if kind.namespaced and kind.name != "EndpointSlice"
    }

    def is_allowed(right: Right, namespace: str) -> bool:
        return right in granted and (right[1] not in of_namespaces or namespace == "shop")

    with served(allow(is_allowed)) as transport:
        assert find_missing_rights(transport, ACCOUNT, ["shop"], evicts=True) == {}
        missing = find_missing_rights(transport, ACCOUNT, ["shop", "web"], evicts=True)
    assert set(missing.values()) == {("web",)}
    named = {one for right in missing for one in right.removeprefix("list and watch ").split(", ")}
    assert {one.partition(".")[0] for one in named} == of_namespaces
