"""VolumeZone: zone and region labels of a bound volume must match the node's.

Source: `volumezone/volume_zone.go`. Volumes with node affinity are handled by VolumeBinding.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from rebalancer.model.labels import Labels
from rebalancer.model.nodes import BETA_REGION, BETA_ZONE, REGION, ZONE
from rebalancer.model.pods import Pod
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable
from rebalancer.scheduling.view import View

KEYS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
TODAY: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
SEPARATOR: Final = "__"
CONFLICT: Final = unresolvable("node(s) had no available volume zone")


class VolumeZone(Filter):
    """A node without any zone or region label passes; otherwise each label of each volume must match."""

    name: ClassVar = "VolumeZone"

    def __init__(self, pod: Pod, view: View) -> None:
        """Collect the labels of the pod's volumes; a volume that does not exist refuses the pod."""
        self._index = view.nodes
        self._wanted: list[tuple[str, frozenset[str]]] = []
        for name in pod.claims:
            claim = view.snapshot.claim.get((pod.namespace, name))
            if claim is None or not claim.volume:
                continue
            volume = view.snapshot.volume.get(claim.volume)
            if volume is None:
                self.refusal = unresolvable(f'persistentvolume "{claim.volume}" not found')
                return
            self._wanted.extend(_read_topologies(volume.labels))

    def verdict(self, node: str) -> Verdict:
        labels = self._index.by_name[node].labels
        if not any(key in labels for key in KEYS):
            return SUCCESS
        for key, values in self._wanted:
            value = labels.get(key, labels.get(TODAY.get(key, key)))
            if value is None or value not in values:
                return CONFLICT
        return SUCCESS

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes if not self._wanted and self.refusal is None else super().admit(nodes)


def _read_topologies(labels: Labels) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield (key, values); a value may name several zones, joined with `__`. A value with an empty zone is ignored."""
    for key in KEYS:
        if key in labels:
            values = [zone.strip() for zone in labels[key].split(SEPARATOR)]
            if all(values):
                yield key, frozenset(values)
