"""How many pods of a manifest find a node if its rules limit their number, for each size that it may have.

An autoscaler among the manifests may choose any size up to its maxReplicas. At the largest size, the number of pods
without a node is greatest.
"""

from typing import Final, NamedTuple

from rebalancer.lint.finding import Severity
from rebalancer.lint.manifest import Manifest
from rebalancer.model.words import plural

_ENDING: Final = frozenset({"Job", "CronJob"})
"""Kinds whose pods end, so that other pods can take their places."""


class Shortage(NamedTuple):
    """Not all pods find a node: an error at the smallest number of replicas, a warning at larger possible sizes.

    For pods that end it is a warning, too, because the other pods can take their places.
    """

    severity: Severity
    message: str


def find_shortage(manifest: Manifest, most: int) -> Shortage | None:
    """Return that only `most` of the pods find a node; None if that is enough at every size."""
    finds = "finds" if most == 1 else "find"
    if manifest.replicas > most:
        text = f"{most} of {plural(manifest.replicas, 'pod')} {finds} a node"
        if manifest.kind in _ENDING and most:
            return Shortage(Severity.WARNING, f"{text}, and the others once these have ended")
        return Shortage(Severity.ERROR, text)
    largest = manifest.sizes[-1]
    if largest > most:
        text = f"{most} of the {plural(largest, 'pod')} that its autoscaler may choose {finds} a node"
        return Shortage(Severity.WARNING, text)
    return None
