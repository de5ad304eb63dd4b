"""The node selectors that admission adds to a pod: from its RuntimeClass, and from annotations of its namespace.

Only the pods of a namespace with such an annotation show whether the API server has the plugin PodNodeSelector, or
OpenShift's: their selectors have the annotation's labels, or do not.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from rebalancer.model.cluster import Namespace
from rebalancer.model.labels import NO_LABELS
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot

ANNOTATIONS: Final = ("scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector")


class Plugin(StrEnum):
    """Whether the API server heeds an annotation of namespaces."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


def find_selectors(namespace: Namespace | None) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield each annotation of a namespace that names a node selector, and the labels that it names."""
    for key in ANNOTATIONS if namespace is not None and namespace.annotations else ():
        labels = _read_labels(namespace.annotations.get(key, "")) if namespace is not None else {}
        if labels:
            yield key, labels


def heeds(annotation: str, snapshot: Snapshot) -> Plugin:
    """Return whether the API server heeds an annotation, by the pods of all namespaces that have it.

    A pod that was created before the annotation was last changed is no evidence against it. A pod whose template has
    these labels itself proves nothing.
    """
    verdict = Plugin.UNKNOWN
    for namespace in snapshot.namespaces:
        wanted = dict(find_selectors(namespace)).get(annotation)
        if not wanted:
            continue
        for pod in snapshot.pods_in.get(namespace.name, ()):
            if pod.owner is None or pod.owner.kind == "DaemonSet":  # Pods of DaemonSets are checked but not changed.
                continue
            written = _written_selector(pod, snapshot)
            if wanted.items() <= written.items():
                continue
            if wanted.items() <= pod.spec.node_affinity.selector.items():
                return Plugin.ON
            if namespace.changed is not None and pod.created > namespace.changed:
                verdict = Plugin.OFF
    return verdict


def _written_selector(pod: Pod, snapshot: Snapshot) -> Mapping[str, str]:
    owner = snapshot.owner_of(pod)
    return owner.template.spec.node_affinity.selector if owner is not None and owner.template is not None else NO_LABELS


def _read_labels(text: str) -> dict[str, str]:
    """Read `key=value,key=value`, as `labels.ConvertSelectorToLabelsMap` does; anything else is left out."""
    pairs = (part.partition("=") for part in text.split(","))
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}
