"""What a request to the API server is about, read from its method and address as the server itself does."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

WRITES = frozenset({"create", "update", "patch", "delete"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """Verb and resource of a request. `resource` is empty for addresses that are no resource, like `/version`."""

    verb: str
    resource: str
    """The plural, with its subresource: `pods`, `pods/eviction`."""
    namespace: str = ""
    name: str = ""

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.verb in WRITES

    def __str__(self) -> str:
        """Show it as a schedule does."""
        return f"{self.verb} {self.resource or '/'}"


def parse_target(method: str, address: str) -> Target:
    """Read verb, resource, namespace and name."""
    parts = urlsplit(address)
    segments = [segment for segment in parts.path.split("/") if segment]
    if segments[:1] == ["api"]:
        segments = segments[2:]
    elif segments[:1] == ["apis"]:
        segments = segments[3:]
    else:
        segments = []
    namespace = ""
    if len(segments) > 2 and segments[0] == "namespaces":
        namespace, segments = segments[1], segments[2:]
    resource, name, subresource = (*segments, "", "", "")[:3]
    if method == "GET":
        watched = parse_qs(parts.query).get("watch", [""])[0] in {"1", "true"}
        verb = "watch" if watched else "get" if name or not resource else "list"
    else:
        verb = _VERBS.get(method, method.lower())
    return Target(
        verb=verb, resource=f"{resource}/{subresource}" if subresource else resource, namespace=namespace, name=name
    )
