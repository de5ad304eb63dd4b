"""Clusters from files: what `kubectl get … -o json|yaml` prints.

`snapshots` reads a file, finds when it was written and which kinds it does not contain; `encodings` converts its bytes
to JSON.
"""

from rebalancer.adapters.files.encodings import UnreadableSnapshot
from rebalancer.adapters.files.snapshots import read_snapshot, reduce_snapshot

__all__ = ["UnreadableSnapshot", "read_snapshot", "reduce_snapshot"]
