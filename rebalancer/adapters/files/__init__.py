"""Clusters from files: what `kubectl get … -o json|yaml` prints.

`snapshots` reads files, finds when they were written and which kinds they do not contain; `encodings` converts their
bytes to JSON.
"""

from rebalancer.adapters.files.encodings import UnreadableSnapshot
from rebalancer.adapters.files.snapshots import SnapshotFile, read_snapshot, read_snapshots, reduce_snapshots

__all__ = ["SnapshotFile", "UnreadableSnapshot", "read_snapshot", "read_snapshots", "reduce_snapshots"]
