"""Clusters from files: what `kubectl get … -o json|yaml` prints.

`snapshots` reads a file, `encodings` converts its bytes to JSON, `times` finds when it was written, and `gaps` reports
the kinds that it does not contain.
"""

from rebalancer.adapters.files.encodings import UnreadableSnapshot
from rebalancer.adapters.files.snapshots import read_snapshot

__all__ = ["UnreadableSnapshot", "read_snapshot"]
