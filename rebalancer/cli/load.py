"""What `report`, `plan` and other verbs that only look begin with: a snapshot, judged and planned."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rebalancer.adapters.files import UnreadableSnapshot, read_snapshot
from rebalancer.adapters.kubernetes.cluster import read_once
from rebalancer.adapters.kubernetes.transport import ClusterError, connect
from rebalancer.assessment.assess import Assessment, assess
from rebalancer.cli.errors import CliError
from rebalancer.cli.files import read_bytes
from rebalancer.cli.options import Reading
from rebalancer.controller.profiles import NoProfile, profile_of
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan
from rebalancer.scheduling.view import View

_MOST_TOLD: Final = 50
"""Things that match nothing of which each has its warning."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look at a cluster."""

    snapshot: Snapshot
    view: View
    assessment: Assessment
    plan: Plan


def read(reading: Reading) -> Snapshot:
    """Read the cluster or the file that the flags name; what could not be read is told on standard error."""
    if reading.snapshot is None:
        try:
            transport = connect(kubeconfig=reading.kubeconfig, context=reading.context)
            snapshot = read_once(transport, datetime.now(UTC))
        except ClusterError as error:
            raise CliError(str(error)) from None
        warnings = tuple(f"left out: {fault}" for fault in snapshot.faults)
        if snapshot.unknown:
            warnings += (f"not allowed to list {', '.join(sorted(snapshot.unknown))}",)
    else:
        source = "standard input" if reading.snapshot == "-" else reading.snapshot
        try:
            snapshot, warnings = read_snapshot(
                read_bytes(reading.snapshot), version=reading.server_version, at=reading.at, source=source
            )
        except UnreadableSnapshot as error:
            raise CliError(str(error)) from None
    _warn(warnings)
    return snapshot


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)  # noqa: T201


def look(reading: Reading) -> Look:
    """Read, judge and plan; what the policy names and the cluster lacks is told on standard error.

    The plan is the controller's own, made without memory and not carried out.
    """
    try:
        profile = profile_of(reading.policy)
    except NoProfile as error:
        raise CliError(str(error)) from None
    snapshot = read(reading)
    view = View(snapshot, profile)
    assessment = assess(view, reading.policy, NO_MEMORY)
    idle = [each.message for each in assessment.unmatched]
    _warn(idle[:_MOST_TOLD])
    if len(idle) > _MOST_TOLD:
        _warn([f"and {len(idle) - _MOST_TOLD} more that the policy names and the cluster lacks"])
    return Look(
        snapshot=snapshot, view=view, assessment=assessment, plan=plan(view, assessment, reading.policy, NO_MEMORY)
    )


def chosen(reading: Reading, snapshot: Snapshot) -> frozenset[Reference] | None:
    """Return the workloads that `-n` and `-l` choose, None for all."""
    if reading.namespace is None and reading.selector.empty:
        return None
    found = set()
    for pod in snapshot.pods:
        if reading.namespace in {None, pod.namespace} and reading.selector.matches(pod.labels):
            owner = snapshot.top_owner_of(pod)
            if owner is not None:
                found.add(Reference(owner.namespace, owner.kind, owner.name))
            elif pod.owner is not None:
                found.add(Reference(pod.namespace, pod.owner.kind, pod.owner.name))
            else:
                found.add(Reference(pod.namespace, "Pod", pod.name))
    return frozenset(found)
