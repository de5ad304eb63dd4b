"""What `report`, `plan` and the other read-only verbs begin with: a snapshot, assessed and planned."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rebalancer.adapters.files import UnreadableSnapshot, read_snapshot
from rebalancer.adapters.kubernetes.cluster import read_once
from rebalancer.adapters.kubernetes.transport import ClusterError, connect
from rebalancer.assessment.assess import Assessment, assess
from rebalancer.assessment.controllers import stray_reference
from rebalancer.assessment.unmatched import Unmatched, find_unmatched
from rebalancer.cli.errors import CliError, warn
from rebalancer.cli.files import read_bytes
from rebalancer.cli.options import ReadOptions
from rebalancer.controller.policy_source import UnreadableProfile, read_profile
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import reference_of
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View

_MOST_WARNINGS: Final = 50
"""References of the policy without an object that have a warning each; the rest is counted."""


@dataclass(frozen=True, kw_only=True)
class LoadedCluster:
    """A snapshot with its assessment and plan, and what the policy references and the cluster lacks."""

    snapshot: Snapshot
    view: View
    assessment: Assessment
    plan: Plan
    unmatched: tuple[Unmatched, ...]


def load_snapshot(options: ReadOptions) -> Snapshot:
    """Read the cluster or the file that the flags name; warn on standard error about what could not be read."""
    if options.snapshot is None:
        try:
            transport = connect(kubeconfig=options.kubeconfig, context=options.context)
            warn(transport.warnings)
            snapshot = read_once(transport, datetime.now(UTC))
        except ClusterError as error:
            raise CliError(str(error)) from None
        warnings = tuple(f"left out: {fault}" for fault in snapshot.faults)
        if snapshot.unknown:
            warnings += (f"not allowed to list {', '.join(sorted(snapshot.unknown))}",)
    else:
        source = "standard input" if options.snapshot == "-" else options.snapshot
        try:
            snapshot, warnings = read_snapshot(
                read_bytes(options.snapshot), version=options.server_version, at=options.at, source=source
            )
        except UnreadableSnapshot as error:
            raise CliError(str(error)) from None
    warn(warnings)
    return snapshot


def load_profile(options: ReadOptions) -> Profile:
    """Return the scheduler profile that the policy names; CliError where it cannot be read."""
    try:
        return read_profile(options.policy, options.policy_folder)
    except UnreadableProfile as error:
        raise CliError(str(error)) from None


def load_cluster(options: ReadOptions) -> LoadedCluster:
    """Read, assess and plan; warn on standard error about references of the policy to objects that do not exist.

    The plan is the controller's own, made without memory and not carried out.
    """
    profile = load_profile(options)
    snapshot = load_snapshot(options)
    view = View(snapshot, profile)
    assessment = assess(view, options.policy, NO_MEMORY)
    unmatched = find_unmatched(view, assessment, options.policy)
    warn([entry.message for entry in unmatched[:_MOST_WARNINGS]])
    if len(unmatched) > _MOST_WARNINGS:
        warn([f"the policy references {len(unmatched) - _MOST_WARNINGS} more objects that do not exist"])
    made = plan(view, assessment, options.policy, NO_MEMORY)
    return LoadedCluster(snapshot=snapshot, view=view, assessment=assessment, plan=made, unmatched=unmatched)


def select_workloads(options: ReadOptions, snapshot: Snapshot) -> frozenset[Reference] | None:
    """Return the workloads that `-n` and `-l` select, None for all."""
    if options.namespace is None and options.selector.empty:
        return None
    workloads = set()
    for pod in snapshot.pods:
        if options.namespace in {None, pod.namespace} and options.selector.matches(pod.labels):
            owner = snapshot.top_owner_of(pod)
            workloads.add(reference_of(owner) if owner is not None else stray_reference(pod))
    return frozenset(workloads)
