"""A clean cluster for the next test, without starting a new one.

Whatever wasn't there when the control plane started is deleted, of every kind that the server knows. Only namespaces
stay, emptied and without their labels: the namespace controller takes five seconds and more for one, and finalizing it
in its stead isn't safe, as that controller may still be deleting by name when the next test fills a namespace of the
same name.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.control_plane.api import NOT_FOUND, Api, ApiError, in_parallel

PARTIAL: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
LOOKS: Final = 2
MANY: Final = 50
CLEAN_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 3.0
"""How long an object may wait for its finalizers before they are taken away."""

FOLLOWERS: Final = frozenset(
    {
        "endpoints",
        "endpointslices",
        "ipaddresses",
        "flowschemas",
        "prioritylevelconfigurations",
    }
)
"""Made and deleted by the servers, after something else."""
APART: Final = frozenset({"namespaces", "events"})
"""Handled in their own ways."""
PRESERVED_NAMES: Final = frozenset(
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
    "mutatingadmissionpolicybindings",
    "cronjobs",
    "deployments",
    "statefulsets",
    "daemonsets",
    "jobs",
    "replicasets",
    "replicationcontrollers",
    "pods",
)
"""What refuses deletions or makes new objects goes before the rest."""


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
        self._is_preserved = {(item.collection, item.namespace, item.name) for item in self._items()}

    def clean(self) -> None:
        """Delete what was made since. Raises NotCleanError, naming what remains."""
        started = time.monotonic()
        empty_looks = 0
        # A controller may be in the middle of making pods for an owner that is deleted, so look twice.
        while empty_looks < LOOKS:
            left = sorted(item for item in self._items() if self._foreign(item))
            ending = [namespace for namespace in self._namespaces() if "deletionTimestamp" in namespace["metadata"]]
            empty_looks = 0 if left or ending else empty_looks + 1
            waited = time.monotonic() - started
            if not empty_looks and waited > CLEAN_SECONDS:
                names = [item.path for item in left] + [item["metadata"]["name"] for item in ending]
                raise NotCleanError(f"left over from a previous test: {', '.join(names[:10])}")
            delete = functools.partial(self._delete, force=waited > PATIENCE_SECONDS)
            for items in _grouped(left):
                if items[0].plural == "pods" and len(items) > MANY:
                    in_parallel(self._delete_pods, {item.namespace for item in items})
                else:
                    in_parallel(delete, items)
        in_parallel(self._reset, self._namespaces())

    def _delete(self, item: Item, *, force: bool) -> None:
        with _gone_is_fine():
            if force:
                self._api.patch(item.path, {"metadata": {"finalizers": None}})
            self._api.delete(item.path, grace_seconds=0)

    def _delete_pods(self, namespace: str) -> None:
        self._api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})

    def _reset(self, namespace: dict[str, Any]) -> None:
        """Take events, labels and annotations from a namespace; it labels itself with its name again."""
        metadata = namespace["metadata"]
        path = f"/api/v1/namespaces/{metadata['name']}"
        self._api.request("DELETE", f"{path}/events")
        if metadata["labels"] != {NAME_LABEL: metadata["name"]} or metadata.get("annotations"):
            self._api.patch(path, {"metadata": {"labels": None, "annotations": None}})

    def _foreign(self, item: Item) -> bool:
        """Whether a test made it. Some things the servers put into every namespace, again and again."""
        own = item.name in PRESERVED_NAMES or (item.plural, item.name) == ("serviceaccounts", "default")
        own = own or (item.plural, item.namespace) == ("leases", "kube-system")
        return not own and (item.collection, item.namespace, item.name) not in self._is_preserved

    def _namespaces(self) -> list[dict[str, Any]]:
        return self._api.list("/api/v1/namespaces")

    def _items(self) -> list[Item]:
        return [item for items in in_parallel(self._list, self._collections()) for item in items]

    def _list(self, collection: str) -> list[Item]:
        plural = collection.rsplit("/", maxsplit=1)[1]
        order = FIRST.index(plural) if plural in FIRST else len(FIRST)
        try:
            items = self._api.request("GET", collection, accept=PARTIAL)["items"] or ()
        except ApiError as error:
            # A custom resource whose definition goes away, or has just come; the definition itself is left then.
            if error.code == NOT_FOUND or "storage is (re)initializing" in str(error):
                return []
            raise
        metadata = (item["metadata"] for item in items)
        return [Item(order, collection, item.get("namespace", ""), item["name"]) for item in metadata]

    def _collections(self) -> list[str]:
        """Return the paths of everything that can be listed and deleted, each in its preferred version."""
        groups = self._api.get("/apis")["groups"]
        roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
        # A group goes away with the definition of its last custom resource.
        results = zip(roots, in_parallel(self._api.find, roots), strict=True)
        return [
            f"{root}/{resource['name']}"
            for root, document in results
            for resource in (document or {"resources": ()})["resources"]
            if {"list", "delete"} <= set(resource["verbs"]) and resource["name"] not in FOLLOWERS | APART
        ]


def _grouped(items: Iterable[Item]) -> list[list[Item]]:
    """Return sorted items in groups of the same order."""
    return [list(group) for _, group in itertools.groupby(items, key=lambda item: item.order)]


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.code != NOT_FOUND:
            raise
