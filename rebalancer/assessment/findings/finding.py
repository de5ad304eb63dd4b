"""A finding: a fault that violates no constraint, its object, and the remedy."""

from collections.abc import Sequence
from dataclasses import dataclass

from rebalancer.model.moves import Reference
from rebalancer.model.reasons import FindingKind

_MOST = 4
"""Up to this many names are in a message; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding: kind, object, a message with the remedy, and the workloads that it affects."""

    kind: FindingKind
    object: str
    message: str
    workloads: tuple[Reference, ...] = ()


def workload_finding(kind: FindingKind, workload: Reference, message: str) -> Finding:
    """Make a finding about one workload."""
    return Finding(kind=kind, object=str(workload), message=message, workloads=(workload,))


def list_names(names: Sequence[str]) -> str:
    """Name the first few and count the rest."""
    rest = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(name or '""' for name in names[:_MOST]) + rest
