"""Clusters from files: what `kubectl get … -o json|yaml` prints.

`snapshots` is the door, `encodings` brings bytes into the form that is decoded, `times` says when it was taken, and
`gaps` what cannot be judged for want of a kind.
"""

from rebalancer.adapters.files.encodings import UnreadableSnapshot
from rebalancer.adapters.files.snapshots import read_snapshot

__all__ = ["UnreadableSnapshot", "read_snapshot"]
