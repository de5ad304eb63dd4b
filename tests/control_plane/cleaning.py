"""A clean cluster for the next test, without starting a new one.

Whatever wasn't there when the control plane started is deleted, of every kind that the server knows. Waiting for the
namespace controller would take five seconds and more, so namespaces are emptied and finalized here.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.control_plane.api import NOT_FOUND, Api, ApiError, in_parallel

PARTIAL: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
CLEAN_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 3.0
"""How long an object may wait for its finalizers before they are taken away."""

FOLLOWERS: Final = frozenset(
    {"endpoints", "endpointslices", "ipaddresses", "flowschemas", "prioritylevelconfigurations"}
)
"""Made and deleted by the servers, after something else."""
KEPT_NAMES: Final = frozenset(
    {
        "kube-root-ca.crt",
        "extension-apiserver-authentication",
        "kube-apiserver-legacy-service-account-token-tracking",
    }
)
FIRST: Final = (
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicybindings",
    "namespaces",
    "cronjobs",
    "deployments",
    "statefulsets",
    "daemonsets",
    "jobs",
    "replicasets",
    "replicationcontrollers",
    "pods",
)
"""What refuses deletions or makes new objects goes before the rest. No controller fills a namespace that terminates."""


class NotCleanError(AssertionError):
    """Something of a previous test can't be deleted."""


@dataclass(frozen=True, order=True)
class Item:
    """An object, by where it is."""

    order: int
    collection: str
    """The path of all of its kind, `/api/v1/pods`."""
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """The object's own path."""
        if not self.namespace:
            return f"{self.collection}/{self.name}"
        root, plural = self.collection.rsplit("/", maxsplit=1)
        return f"{root}/namespaces/{self.namespace}/{plural}/{self.name}"

    @property
    def plural(self) -> str:
        """The resource's name."""
        return self.collection.rsplit("/", maxsplit=1)[1]


class Cleaner:
    """Knows what a fresh control plane has, and deletes everything else."""

    def __init__(self, api: Api) -> None:
        """Take stock: this is what clean means."""
        self._api = api
        items = self._items()
        self._kept = {(item.collection, item.namespace, item.name) for item in items}
        self._namespaces = {item.name for item in items if item.plural == "namespaces"}

    def clean(self) -> None:
        """Delete what was made since. Raises NotCleanError, naming what remains."""
        started = time.monotonic()
        while left := sorted(item for item in self._items() if self._foreign(item)):
            waited = time.monotonic() - started
            if waited > CLEAN_SECONDS:
                message = f"left over from a previous test: {', '.join(item.path for item in left[:10])}"
                raise NotCleanError(message)
            delete = functools.partial(self._delete, force=waited > PATIENCE_SECONDS)
            for _, items in _grouped(left):
                in_parallel(delete, items)
            contents = {item.namespace for item in self._items() if self._foreign(item)}
            for item in left:
                if item.plural == "namespaces" and item.name not in contents:
                    self._finalize(item)
        for namespace in self._namespaces:
            self._forget_events(namespace)

    def _delete(self, item: Item, *, force: bool) -> None:
        options: dict[str, Any] = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        with _gone_is_fine():
            if force and item.plural != "namespaces":
                self._api.patch(item.path, {"metadata": {"finalizers": None}})
            self._api.request("DELETE", item.path, options)

    def _finalize(self, item: Item) -> None:
        with _gone_is_fine():
            self._forget_events(item.name)
            namespace = self._api.get(item.path)
            namespace["spec"]["finalizers"] = []
            self._api.request("PUT", f"{item.path}/finalize", namespace)

    def _forget_events(self, namespace: str) -> None:
        self._api.request("DELETE", f"/api/v1/namespaces/{namespace}/events")

    def _foreign(self, item: Item) -> bool:
        """Whether a test made it. What the servers put into every namespace counts only where the namespace goes."""
        if (item.collection, item.namespace, item.name) in self._kept:
            return False
        if not item.namespace or item.namespace not in self._namespaces:
            return True
        own = item.name in KEPT_NAMES or (item.plural, item.name) == ("serviceaccounts", "default")
        return not own and (item.plural, item.namespace) != ("leases", "kube-system")

    def _items(self) -> list[Item]:
        return [item for items in in_parallel(self._list, self._collections()) for item in items]

    def _list(self, collection: str) -> list[Item]:
        plural = collection.rsplit("/", maxsplit=1)[1]
        order = FIRST.index(plural) if plural in FIRST else len(FIRST)
        try:
            found = self._api.request("GET", collection, accept=PARTIAL)["items"] or ()
        except ApiError as error:
            # A custom resource whose definition goes away.
            if error.code == NOT_FOUND:
                return []
            raise
        metadata = (item["metadata"] for item in found)
        return [Item(order, collection, each.get("namespace", ""), each["name"]) for each in metadata]

    def _collections(self) -> list[str]:
        """Return the paths of everything that can be listed and deleted, each in its preferred version."""
        groups = self._api.get("/apis")["groups"]
        roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
        found = zip(roots, in_parallel(self._api.get, roots), strict=True)
        return [
            f"{root}/{resource['name']}"
            for root, document in found
            for resource in document["resources"]
            if {"list", "delete"} <= set(resource["verbs"]) and resource["name"] not in FOLLOWERS | {"events"}
        ]


def _grouped(items: Iterable[Item]) -> list[tuple[int, list[Item]]]:
    groups: dict[int, list[Item]] = {}
    for item in items:
        groups.setdefault(item.order, []).append(item)
    return sorted(groups.items())


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.code != NOT_FOUND:
            raise
