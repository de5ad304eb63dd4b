"""Service accounts, so that a program under test runs with exactly its role.

An account is written `namespace/name`, as in `kubectl --as`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.control_plane.api import CONFLICT, Api, ApiError, wait_until
from tests.control_plane.resources import Manifest

RBAC: Final = "rbac.authorization.k8s.io"
TOKEN_SECONDS: Final = 24 * 3600


def ensure_namespace(api: Api, name: str, *, labels: dict[str, str] | None = None) -> None:
    """Create a namespace unless it exists, and wait for its `default` account: no pod is admitted before."""
    create_if_missing(
        api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}
    )
    wait_until(
        lambda: api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"),
        what=f"the service account {name}/default",
    )


def create_if_missing(api: Api, manifest: Manifest) -> None:
    """Create an object; one that exists is left as it is."""
    try:
        api.create(manifest)
    except ApiError as error:
        if error.code != CONFLICT:
            raise


def user_name(account: str) -> str:
    """Return the user that the API server (and the audit log) knows a service account as."""
    namespace, name = account.split("/")
    return f"system:serviceaccount:{namespace}:{name}"


def request_token(api: Api, account: str, *, seconds: int = TOKEN_SECONDS) -> str:
    """Create the service account (and its namespace) if missing, and request a token for it."""
    namespace, name = account.split("/")
    ensure_namespace(api, namespace)
    create_if_missing(
        api, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": name}}
    )
    request: Manifest = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    answer = api.create(request, path=f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token")
    token: str = answer["status"]["token"]
    return token


def grant(api: Api, account: str, rules: Sequence[dict[str, Any]], *, namespace: str = "") -> None:
    """Let a service account do what the rules say: everywhere, or in one namespace.

    The role is named after the account; granting again replaces what was granted before.
    """
    account_namespace, account_name = account.split("/")
    name = f"{account_namespace}.{account_name}"
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    subject = {"kind": "ServiceAccount", "namespace": account_namespace, "name": account_name}
    if namespace:
        ensure_namespace(api, namespace)
    api.apply(
        [
            {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)},
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": [subject],
            },
        ]
    )
