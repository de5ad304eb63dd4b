"""A finding: something that is wrong without being violated, on what, and the remedy."""

from collections.abc import Sequence
from dataclasses import dataclass

from rebalancer.model.moves import Reference
from rebalancer.model.reasons import FindingKind

_MOST = 4
"""So many names are given; the rest is counted."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found, on which object, in a sentence that says the remedy; and the workloads that it is about."""

    kind: FindingKind
    object: str
    message: str
    workloads: tuple[Reference, ...] = ()


def workload_finding(kind: FindingKind, workload: Reference, message: str) -> Finding:
    """Make a finding about one workload."""
    return Finding(kind=kind, object=str(workload), message=message, workloads=(workload,))


def list_names(names: Sequence[str]) -> str:
    """Name some, and count the rest."""
    rest = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(name or '""' for name in names[:_MOST]) + rest
