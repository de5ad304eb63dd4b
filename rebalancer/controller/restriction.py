"""Whether this identity can change only the deletion costs of pods: the API server must refuse to change a label.

A proof is valid for ten minutes, a failed check for one. It is checked before each patch of a pod.
"""

from typing import Final

from rebalancer.controller.state import Clocks
from rebalancer.ports import PodAnnotator
from rebalancer.prevention.plan import PodPatch

CHECK_EVERY: Final = 600.0
"""Seconds for which the proof is valid that this identity cannot change more than deletion costs."""

CHECK_AGAIN: Final = 60.0
"""Seconds after which a failed check is repeated."""


class Restriction:
    """Proves the restriction, for one thread."""

    def __init__(self, cluster: PodAnnotator, clocks: Clocks) -> None:
        self._cluster = cluster
        self._clocks = clocks
        self._checked_at: float | None = None
        self.missing = ""
        """Why this identity might change more, by the last answer; "" if it cannot, or before the first check."""

    def check(self, patch: PodPatch) -> str:
        """Return why this identity might change more of pods than deletion costs, "" if it is proved that it cannot."""
        now = self._clocks.monotonic()
        valid_for = CHECK_AGAIN if self.missing else CHECK_EVERY
        if self._checked_at is None or now - self._checked_at >= valid_for:
            self._checked_at = now
            self.missing = self._cluster.find_missing_restriction(patch.namespace, patch.name)
        return self.missing
