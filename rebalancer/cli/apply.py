"""`rebalancer apply`: carries out a saved plan if planning now would give the same plan.

The command runs the controller itself, in mode Approve with that plan approved: every budget, pause and check holds,
and nothing outside the plan is evicted. It holds the Lease, so no other controller acts meanwhile.
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from rebalancer.adapters.files.profiles import UnreadableProfile
from rebalancer.adapters.kubernetes.configmaps import CONTROL, find_namespaces
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport, connect
from rebalancer.adapters.web import CannotListen
from rebalancer.admission.approval import MOST_PROPOSED
from rebalancer.assessment.findings import Finding
from rebalancer.cli import logs
from rebalancer.cli.errors import CliError, Exit, warn
from rebalancer.cli.files import choose_policy, read_bytes, source_name
from rebalancer.cli.load import load_cluster
from rebalancer.cli.options import ReadOptions
from rebalancer.cli.parsing import Parser
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.cli.terminal import say
from rebalancer.controller import process
from rebalancer.controller.policy_source import UnreadablePolicy
from rebalancer.controller.state import LoopState
from rebalancer.documents.plan import PlanDocument, snapshot_hash
from rebalancer.locations import parse_policy_location
from rebalancer.model.moves import Move, MoveState
from rebalancer.model.words import name_list, plural
from rebalancer.policy import PolicyError
from rebalancer.settings import Settings

_ENDS: Final = {
    MoveState.VERIFIED: "replaced where predicted",
    MoveState.INEFFECTIVE: "replaced elsewhere",
    MoveState.LOST: "not replaced in time",
    MoveState.OVERTAKEN: "not wanted any more by its owner",
    MoveState.REFUSED: "not evicted: the API server refused",
    MoveState.GONE: "not evicted: gone already",
}
_NEW_PLAN: Final = "make a new one with `rebalancer plan --out FILE`"


def add_arguments(parser: Parser) -> None:
    """Declare the file and the flags."""
    parser.epilog = (
        "Only while no controller runs: a controller carries out plans by itself, or those of `rebalancer approve`. "
        "Ctrl-C ends after the request that is under way. Exit code 1 if not all of the plan was carried out."
    )
    parser.add_argument(
        "file", metavar="FILE", help="a plan, as `rebalancer plan --out FILE` writes it; - is standard input"
    )
    add_settings_arguments(parser, only=("policy", "kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Check the plan against the cluster, then carry it out and show its progress."""
    plan = _read_plan(args.file)
    settings = load_flags(args).model_copy(update={"once": True})
    if not plan.evictions:
        say(["The plan evicts nothing."])
        return Exit.FINE
    if plan.expires_at is not None and plan.expires_at <= datetime.now(UTC):
        raise CliError(f"plan {plan.plan_hash} has expired at {plan.expires_at:%Y-%m-%d %H:%M:%SZ}; {_NEW_PLAN}")
    if any(eviction.preempts for eviction in plan.evictions):
        raise CliError(
            "the plan relies on kube-scheduler's preemption, which only a controller follows to its end: run one in "
            "mode Approve or Evict, or narrow the plan with -n or -l"
        )
    if len(plan.evictions) > MOST_PROPOSED:
        raise CliError(
            f"the plan has {len(plan.evictions)} evictions, and {MOST_PROPOSED} can be carried out at a time; "
            "narrow it with -n or -l"
        )
    _check_lease(settings)
    settings = _take_policy(plan, settings)
    viewer = ApplyViewer(tuple(eviction.uid for eviction in plan.evictions))
    logs.configure_logs(level="error", form="console")  # progress is on standard output
    say([f"Plan {plan.plan_hash}: {plural(len(plan.evictions), 'eviction')}."])
    try:
        finished = process.run(settings, approved=plan, viewer=viewer)
    except (ClusterError, CannotListen, UnreadablePolicy, UnreadableProfile, PolicyError, process.StartError) as error:
        raise CliError(str(error)) from None
    code = viewer.summarize()
    return code if finished else Exit.INTERRUPTED


def _read_plan(name: str) -> PlanDocument:
    source = source_name(name)
    try:
        plan = msgspec.json.decode(read_bytes(name), type=PlanDocument)
    except msgspec.DecodeError as error:
        raise CliError(f"{source}: not a plan, as `rebalancer plan --out FILE` writes it: {error}") from None
    if plan.kind != "Plan":
        raise CliError(f"{source}: found kind {plan.kind}, expected Plan")
    return plan


def _check_lease(settings: Settings) -> None:
    """Raise CliError if a process holds the Lease: while a controller runs, waiting for the Lease is useless.

    Also if the controller runs in another namespace: its Lease and its pause would not be read.
    """
    try:
        transport = connect(kubeconfig=str(settings.kubeconfig or "") or None, context=settings.context)
        warn(transport.warnings)
        record = KubernetesLease(transport, namespace=settings.namespace, timeout=5.0).read()
        _check_namespace(transport, settings.namespace)
    except ClusterError as error:
        raise CliError(str(error)) from None
    if record is None or not record.holder or record.renewed is None:
        return
    if (datetime.now(UTC) - record.renewed).total_seconds() < record.duration:
        raise CliError(
            f"{record.holder} holds the Lease {settings.namespace}/rebalancer: a controller runs. In mode Approve it "
            "carries out what `rebalancer approve` approves; else scale it to 0 first"
        )


def _check_namespace(transport: Transport, namespace: str) -> None:
    """Raise CliError if other namespaces have a kill switch and this one has none, as far as they may be read."""
    try:
        namespaces = find_namespaces(transport, CONTROL)
    except (ClusterError, msgspec.DecodeError):
        return
    if namespaces and namespace not in namespaces:
        raise CliError(
            f"namespace {namespace} has no ConfigMap {CONTROL}: the controller, its Lease and its pause are in another "
            f"namespace; choose it with --controller-namespace, one of {name_list(namespaces)}. Where none "
            "runs: "
            f"kubectl create configmap {CONTROL} --namespace {namespace}"
        )


def _take_policy(plan: PlanDocument, settings: Settings) -> Settings:
    """Return the settings with the policy that `rebalancer plan` would choose.

    CliError if the policy, or anything else that the plan depends on, has changed.
    """
    kubeconfig, context = str(settings.kubeconfig) if settings.kubeconfig else None, settings.context
    named = str(settings.policy) if settings.policy is not None else None
    policy = choose_policy(named, settings.namespace, kubeconfig=kubeconfig, context=context)
    if policy.doubt:
        raise CliError("it is not sure which policy is in force; nothing is evicted. Name it with --policy")
    _check_unchanged(
        plan, ReadOptions.live(kubeconfig=kubeconfig, context=context, namespace=settings.namespace, policy=policy)
    )
    return settings.model_copy(update={"policy": parse_policy_location(policy.location) if policy.location else None})


def _check_unchanged(plan: PlanDocument, options: ReadOptions) -> None:
    """Raise CliError if the policy, or anything else that the plan depends on, has changed."""
    cluster = load_cluster(options)
    if cluster.policy.hash != plan.policy_hash:
        raise CliError(
            f"the plan was made with policy {plan.policy_hash}, this is {cluster.policy.hash}; pass the plan's own "
            "with --policy"
        )
    namespaces = {group.namespace for group in plan.groups}
    if snapshot_hash(cluster.snapshot, namespaces) != plan.snapshot_hash:
        raise CliError(
            f"plan {plan.plan_hash} is out of date: pods or disruption budgets in {', '.join(sorted(namespaces))}, or "
            f"nodes, have changed since; {_NEW_PLAN}"
        )


class ApplyViewer:
    """Shows the fates of a plan's evictions, line by line, from the loop's states."""

    def __init__(self, uids: Sequence[str]) -> None:
        self._planned = frozenset(uids)
        self._states: dict[str, MoveState] = {}
        self._waiting = ""

    def start(self) -> None:
        """Do nothing before the first state."""

    def stop(self) -> None:
        """Do nothing more."""

    def show(self, state: LoopState, findings: Sequence[Finding]) -> None:
        """Show the moves that have changed since the last state, and why nothing is evicted."""
        del findings
        for move in state.memory.moves:
            if move.uid in self._planned and self._states.get(move.uid) is not move.state:
                self._states[move.uid] = move.state
                self._show_move(move)
        waiting = ""
        if state.in_force.pause is not None:
            waiting = state.in_force.pause.message
        elif state.cycle is not None and not state.memory.in_flight and not state.cycle.fates.going:
            held = (known for known in state.cycle.fates.kept if known.eviction.pod.uid in self._planned)
            waiting = next((str(known.reason) for known in held), "")
        if waiting and waiting != self._waiting:
            say([f"waiting: {waiting}"])
        self._waiting = waiting

    def _show_move(self, move: Move) -> None:
        if move.state is MoveState.EVICTED:
            say([f"{move.namespace}/{move.pod}: evicted from {move.node}"])
        elif move.state in _ENDS:
            say([f"{move.namespace}/{move.pod}: {_ENDS[move.state]}"])

    def summarize(self) -> Exit:
        """Show the totals; the exit code says whether all of the plan was carried out."""
        states = list(self._states.values())
        verified = states.count(MoveState.VERIFIED)
        done = sum(state not in {MoveState.PLANNED, MoveState.REFUSED, MoveState.GONE} for state in states)
        say([f"{done} of {plural(len(self._planned), 'pod')} evicted, {verified} replaced where predicted."])
        if done < len(self._planned):
            say([f"The rest is not needed any more, or cannot be evicted now: {_NEW_PLAN}."])
        return Exit.FINE if done == len(self._planned) else Exit.ERROR
