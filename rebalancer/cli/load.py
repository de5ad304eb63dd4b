"""The first part of `report`, `plan` and the other read-only verbs: a snapshot, assessed and planned."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from rebalancer.adapters.files import UnreadableSnapshot, read_snapshots
from rebalancer.adapters.files.profiles import UnreadableProfile, read_profile
from rebalancer.assessment.assess import find_sizes
from rebalancer.assessment.controllers import stray_reference
from rebalancer.assessment.known_domains import DomainKnowledge
from rebalancer.assessment.name_hints import nearest_name
from rebalancer.assessment.sizes.find import WorkloadSizes
from rebalancer.assessment.unmatched import Unmatched, find_unmatched
from rebalancer.capacity.evaluated import evaluate_once
from rebalancer.cli.acting import Acting
from rebalancer.cli.errors import CliError, warn
from rebalancer.cli.files import ReadPolicy, read_snapshot_files
from rebalancer.cli.options import ReadOptions
from rebalancer.cli.progress import progress
from rebalancer.engine import Evaluation
from rebalancer.locations import own_namespace
from rebalancer.model.moves import Memory, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import reference_of
from rebalancer.policy import Mode, Policy, select_team_namespaces
from rebalancer.reporting.acting import describe_mode, find_idle
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile

if TYPE_CHECKING:
    from rebalancer.cli.cluster import Cluster

_MOST_WARNINGS: Final = 50
"""Up to this many references of the policy to missing objects have a warning each; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class LoadedCluster:
    """A snapshot, evaluated by the policy in force, and the references of the policy to missing objects.

    `acting` is what the controller does with the plan, `read` the policy as read, None for a file of a cluster.
    """

    evaluation: Evaluation
    unmatched: tuple[Unmatched, ...]
    acting: Acting
    read: ReadPolicy | None = None

    @property
    def source(self) -> str:
        """Which policy was used, "" for a file of a cluster. Reads the Lease, like `Acting.line`."""
        return self.read.name(is_led=self.acting.is_led()) if self.read is not None else ""

    def head(self) -> list[str]:
        """Return the lines that name the controller and the policy; none for a file of a cluster."""
        if self.read is None:
            return []
        return [f"Controller: {self.acting.line}", f"Policy {self.policy.cluster.hash} ({self.source})"]

    @property
    def snapshot(self) -> Snapshot:
        """The evaluated snapshot."""
        return self.evaluation.inputs.snapshot

    @property
    def policy(self) -> Policy:
        """The policy in force, with team policies."""
        return self.evaluation.inputs.policy


def load_snapshot(options: ReadOptions) -> Snapshot:
    """Read the cluster or the file that the flags name; warn on standard error about what could not be read."""
    return _load(options)[0]


def _load(options: ReadOptions) -> "tuple[Snapshot, Cluster | None]":
    """Read the snapshot; return it, and the live cluster that it is from."""
    cluster = None
    if not options.snapshots:
        from rebalancer.cli.cluster import Cluster  # noqa: PLC0415  # see there

        cluster = Cluster(options)
        snapshot, warnings = cluster.read_snapshot()
    else:
        files = read_snapshot_files(options.snapshots)
        try:
            snapshot, warnings = read_snapshots(files, version=options.server_version, at=options.at)
        except UnreadableSnapshot as error:
            raise CliError(str(error)) from None
    warn(warnings)
    return snapshot, cluster


def _with_team_maps(snapshot: Snapshot, options: ReadOptions, cluster: "Cluster | None") -> Snapshot:
    """Return the snapshot with the readable ConfigMaps of team policies; warn about unreadable ones."""
    names = {namespace.name for namespace in snapshot.namespaces} | snapshot.pods_in.keys()
    listed = select_team_namespaces(options.policy, names, own_namespace())
    if not listed:
        return replace(snapshot, team_maps=None)
    if cluster is not None:
        return replace(snapshot, team_maps=tuple(cluster.read_team_maps(listed)))
    if snapshot.team_maps is None:
        warn(["the snapshot has no ConfigMaps: team policies are not evaluated; add configmaps to kubectl get"])
        return snapshot
    return replace(snapshot, team_maps=tuple(one for one in snapshot.team_maps if one.namespace in listed))


def load_profile(options: ReadOptions) -> Profile:
    """Return the scheduler profile that the policy names; CliError if it cannot be read.

    A file that only the controller's pod can read is no error: Kubernetes' defaults are used, with a warning.
    """
    read = options.read_policy
    try:
        return read_profile(read.policy, read.folders, read.files)
    except UnreadableProfile as error:
        if read.files is None:
            raise CliError(str(error)) from None
        warn(
            [f"{error}; the scheduler's defaults are taken. Give a policy and its configuration as files with --policy"]
        )
        return replace(DEFAULT_PROFILE, name=read.policy.scheduler.name)


def load_cluster(options: ReadOptions) -> LoadedCluster:
    """Read, assess and plan; warn on standard error about references of the policy to objects that do not exist.

    The plan is made as the controller makes it, with its policy and its memory, and is not carried out.
    """
    profile = load_profile(options)
    with progress("reading the cluster"):
        snapshot, cluster = _load(options)
        mode = options.policy.mode
        acting = _act_on_file(mode) if cluster is None else cluster.read_acting(mode)
    with progress("planning"):
        memory = None if cluster is None else acting.remember(snapshot)
        return _plan(options, _with_team_maps(snapshot, options, cluster), profile, acting, memory)


def _act_on_file(mode: Mode) -> Acting:
    """Return what a controller in this mode would do with the plan for a file of a cluster."""
    idle = partial(find_idle, mode, knows_approvals=False)
    return Acting(partial(describe_mode, mode), find_idle=idle)


def _plan(
    options: ReadOptions, snapshot: Snapshot, profile: Profile, acting: Acting, memory: Memory | None
) -> LoadedCluster:
    evaluation = evaluate_once(snapshot, options.policy, profile, memory)
    problems = list(evaluation.team_problems.items())[:_MOST_WARNINGS]
    warn([f"team policy of {name}: {problem}" for name, problem in problems])
    unmatched = find_unmatched(evaluation.view, evaluation.assessment, evaluation.inputs.policy)
    warn([entry.message for entry in unmatched[:_MOST_WARNINGS]])
    if len(unmatched) > _MOST_WARNINGS:
        warn([f"the policy references {len(unmatched) - _MOST_WARNINGS} more objects that do not exist"])
    evaluation = replace(evaluation, plan=acting.admit(evaluation))
    read = None if options.snapshots else options.read_policy
    return LoadedCluster(evaluation=evaluation, unmatched=unmatched, acting=acting, read=read)


def find_more_sizes(cluster: LoadedCluster) -> tuple[WorkloadSizes, ...]:
    """Return the sizes without a placement of the workloads that no HorizontalPodAutoscaler scales."""
    view, policy = cluster.evaluation.view, cluster.policy
    knowledge = DomainKnowledge.of(view, policy, cluster.evaluation.inputs.memory.planning)
    return find_sizes(cluster.evaluation.assessment.groups, view, policy, knowledge, autoscaled=False)


def select_workloads(options: ReadOptions, snapshot: Snapshot) -> frozenset[Reference] | None:
    """Return the workloads that `-n` and `-l` select, None for all."""
    if options.namespace is None and options.selector.empty:
        return None
    _check_namespace(options.namespace, snapshot)
    workloads = set()
    for pod in snapshot.pods:
        if options.namespace in {None, pod.namespace} and options.selector.matches(pod.labels):
            owner = snapshot.top_owner_of(pod)
            workloads.add(reference_of(owner) if owner is not None else stray_reference(pod))
    if not workloads:
        where = f" in namespace {options.namespace}" if options.namespace is not None else ""
        labels = "" if options.selector.empty else f" with the labels {options.selector}"
        warn([f"there is no pod{where}{labels}"])
    return frozenset(workloads)


def _check_namespace(name: str | None, snapshot: Snapshot) -> None:
    """Raise CliError if a namespace is known not to exist."""
    known = (
        {namespace.name for namespace in snapshot.namespaces} | snapshot.pods_in.keys() | snapshot.workloads_in.keys()
    )
    if name is not None and name not in known and "Namespace" not in snapshot.unknown:
        near = nearest_name(name, known)
        raise CliError(f"namespace {name} does not exist{f'; did you mean {near}?' if near else ''}")
