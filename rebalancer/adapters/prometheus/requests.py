"""The name of a request to the API server in a label: as in RBAC, without the names of objects."""

from typing import Final

_ON_ONE: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_ON_ALL: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def parse_request(method: str, path: str) -> tuple[str, str]:
    """Return (verb, resource); the resource is "" for paths without one, such as `/version`.

    Names of objects and namespaces do not appear: the number of series must not grow with the cluster.
    Source: `apiserver/pkg/endpoints/request/requestinfo.go`; subresources are written `pods/eviction`, as RBAC does.
    """
    match path.strip("/").split("/"):
        case ["api", _, *rest] | ["apis", _, _, *rest] if rest:
            pass
        case _:
            return _ON_ONE.get(method, method.lower()), ""
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, *one = rest
    verbs = _ON_ONE if one else _ON_ALL
    subresource = f"/{one[1]}" if len(one) > 1 else ""
    return verbs.get(method, method.lower()), f"{resource}{subresource}"
