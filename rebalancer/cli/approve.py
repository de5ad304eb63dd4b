"""`rebalancer approve`: in mode Approve, lets the controller carry out the plan that it proposes."""

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import structs

from rebalancer.adapters.kubernetes.configmaps import APPROVAL, STATUS, ControlMap, StatusMap
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport, connect
from rebalancer.admission.approval import KEY
from rebalancer.admission.pause import to_one_line
from rebalancer.admission.written import APPROVAL_KEY, MOST_EVICTIONS, WholeApproval, format_approval
from rebalancer.cli.confirm import add_confirmation_arguments, is_confirmed
from rebalancer.cli.controller_state import read_lease, read_status
from rebalancer.cli.elsewhere import list_elsewhere, repeat_command
from rebalancer.cli.errors import CliError, Exit, UsageError, warn
from rebalancer.cli.parsing import Parser
from rebalancer.cli.pause_client import Target, current_user, declare, explain_refusals, parse_duration_flag
from rebalancer.cli.refusals import unreadable
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.cli.terminal import say
from rebalancer.documents.phrases import domains_text
from rebalancer.documents.plan import PlanDocument
from rebalancer.documents.status import CoveredStatus, StatusDocument
from rebalancer.documents.waits import shorten
from rebalancer.model.words import format_duration, plural
from rebalancer.policy import Mode
from rebalancer.ports import PLAN_KEY
from rebalancer.reporting.acting import describe_controller, find_hindrance, leaders_time
from rebalancer.reporting.text.resilience import changed_loss_lines

_ROLE: Final = "rebalancer-approve"


def add_arguments(parser: Parser) -> None:
    """Declare the hash and the flags."""
    parser.epilog = (
        "It writes the key approval.yaml of the ConfigMap rebalancer-approval, with --step the key approved. The "
        "controller repairs what the plan repairs, step by step, within all budgets, and takes away no more pods than "
        "approved; --step approves exactly the evictions of the plan. `rebalancer pause` stops it; removing the key "
        "approval.yaml withdraws the approval."
    )
    parser.add_argument(
        "hash", metavar="HASH", nargs="?", help="the planHash of the plan (default: that of the plan that waits)"
    )
    parser.add_argument("--step", action="store_true", help="approve the evictions of the plan, and no later ones")
    parser.add_argument(
        "--evictions",
        metavar="NUMBER",
        type=_parse_number,
        help="how many pods may be taken away in all (default: as many as the plan needs for its repairs)",
    )
    parser.add_argument(
        "--for",
        dest="lasting",
        metavar="DURATION",
        type=parse_duration_flag,
        help="how long, such as 30m or 2h (default: the policy's planTTL)",
    )
    parser.add_argument(
        "--workload",
        dest="workloads",
        metavar="NAMESPACE/KIND/NAME",
        action="append",
        default=[],
        type=_parse_workload,
        help="approve the repairs of this workload only, such as shop/deployment/web; may be given repeatedly",
    )
    parser.add_argument(
        "-N",
        "--in-namespace",
        dest="namespaces",
        metavar="NAME",
        action="append",
        default=[],
        help="approve the repairs of workloads in this namespace only; may be given repeatedly",
    )
    add_confirmation_arguments(parser)
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Show the plan that waits, ask, and approve it."""
    settings = load_flags(args)
    bounds = _list_bounds(args)
    if args.step and bounds:
        raise UsageError(f"--step approves exactly the evictions of the plan; leave {bounds[0]} out")
    answers = [flag for flag, is_given in (("--yes", args.yes), ("--dry-run", args.dry_run)) if is_given]
    command = repeat_command(args, "approve", *filter(None, [args.hash]), *bounds, *answers)
    try:
        transport = connect(kubeconfig=str(settings.kubeconfig or "") or None, context=settings.context)
        warn(transport.warnings)
        status = _read_status(transport, settings.namespace, command)
        now = leaders_time(status, transport.now())
        plan = _read_pending(transport, settings.namespace, status, now)
    except ClusterError as error:
        raise unreadable(error) from None
    if args.hash not in {None, plan.plan_hash}:
        raise CliError(f"plan {args.hash} does not wait for approval; the plan that waits is {plan.plan_hash}")
    approval = None if args.step else _whole_approval(args, plan, status, now)
    say(_describe(plan, status, now, by_step=args.step))
    if approval is not None:
        say(_describe_whole(approval, status))
    if not is_confirmed(args, f"Approve plan {plan.plan_hash}?"):
        return Exit.FINE if args.dry_run else Exit.ERROR
    control = ControlMap(transport, settings.namespace, APPROVAL)
    with explain_refusals(Target(transport=transport, control=control, role=_ROLE, command=command, led=True)):
        declared = declare(transport, plan.plan_hash)
        if approval is None:
            control.put(KEY, plan.plan_hash, declared=declared)
        else:
            approval = structs.replace(approval, by=to_one_line(current_user(transport)))
            control.put(APPROVAL_KEY, format_approval(approval), declared=declared)
    say([f"Approved plan {plan.plan_hash}. Written to {control}. `rebalancer status --watch` shows its progress."])
    return Exit.FINE


def _parse_number(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_EVICTIONS:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number between 1 and {MOST_EVICTIONS}")
    return int(text)


def _parse_workload(text: str) -> str:
    parts = text.split("/")
    if len(parts) != len(("namespace", "kind", "name")) or not all(parts):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected NAMESPACE/KIND/NAME such as shop/deployment/web")
    return text.lower()


def _list_bounds(args: argparse.Namespace) -> list[str]:
    """Return the flags that bound the approval of a whole plan, as they were typed."""
    flags = [f"--evictions={args.evictions}"] if args.evictions is not None else []
    flags += [f"--for={format_duration(args.lasting)}"] if args.lasting is not None else []
    flags += [f"--workload={workload}" for workload in args.workloads]
    return [*flags, *(f"--in-namespace={namespace}" for namespace in args.namespaces)]


def _whole_approval(
    args: argparse.Namespace, plan: PlanDocument, status: StatusDocument, now: datetime
) -> WholeApproval:
    """Return the approval of the plan with its later steps; CliError says why it cannot be approved."""
    waits = status.approval
    if waits is None or waits.hash != plan.plan_hash or not waits.repairs:
        raise CliError(
            f"the status does not have what plan {plan.plan_hash} repairs; repeat after the next cycle, or approve its "
            "evictions alone with --step"
        )
    until = (now + (args.lasting or waits.expires_at - waits.since)).replace(microsecond=0)
    approval = WholeApproval(
        plan=plan.plan_hash,
        evictions=1,
        until=until,
        workloads=tuple(dict.fromkeys(args.workloads)),
        namespaces=tuple(dict.fromkeys(args.namespaces)),
    )
    repairs = _select(approval, waits.repairs)
    if not repairs:
        known = ", ".join(sorted({workload for repair in waits.repairs for workload in repair.workloads}))
        raise CliError(f"plan {plan.plan_hash} repairs nothing of these workloads and namespaces; it repairs {known}")
    needed = min(sum(repair.evictions for repair in repairs), MOST_EVICTIONS)
    return structs.replace(approval, evictions=args.evictions or needed)


def _select(approval: WholeApproval, repairs: Sequence[CoveredStatus]) -> list[CoveredStatus]:
    return [repair for repair in repairs if any(map(approval.includes, repair.workloads))]


def _describe_whole(approval: WholeApproval, status: StatusDocument) -> Iterator[str]:
    """Yield what is approved beyond the evictions of the plan, and which approval this one replaces."""
    repairs = _select(approval, status.approval.repairs) if status.approval is not None else []
    yield (
        f"With its later steps: up to {plural(approval.evictions, 'eviction')} until "
        f"{approval.until:%Y-%m-%d %H:%M:%SZ}, of"
    )
    for repair in repairs:
        workloads = ", ".join(filter(approval.includes, repair.workloads))
        yield f"  {workloads}: {plural(repair.evictions, 'eviction')}"
    if status.standing is not None:
        yield (
            f"It replaces the approval of plan {status.standing.plan}, which has "
            f"{plural(status.standing.left, 'eviction')} left."
        )


def _describe(plan: PlanDocument, status: StatusDocument, now: datetime, *, by_step: bool) -> Iterator[str]:
    """Yield what the plan evicts, until when it can be approved, and what keeps it from being carried out."""
    expires = f", can be approved until {plan.expires_at:%Y-%m-%d %H:%M:%SZ}" if plan.expires_at is not None else ""
    yield f"Plan {plan.plan_hash}: {plural(len(plan.evictions), 'eviction')}{expires}."
    for eviction in plan.evictions:
        where = f"{eviction.node} -> {domains_text(shorten(eviction.predicted.domains))}"
        added = f"; {plural(eviction.added, 'pod')} added first, then scaled down" if eviction.added else ""
        yield f"  {eviction.namespace}/{eviction.pod}  {where}  {eviction.reason}{added}"
    changed = list(changed_loss_lines(plan.resilience))
    if changed:
        between = ", not after this step alone: in between less may be guaranteed than now" if by_step else ""
        yield f"Once all that is decided of its repairs is done{between}:"
        yield from (f"  {line}" for line in changed)
    if status.paused is not None:
        yield f"Nothing of it is evicted before the pause ends: {describe_controller(status, now)}."
    elif status.lease is not None and not status.lease.holder and not status.lease.error:
        yield f"Nothing of it is evicted before a controller runs: {describe_controller(status, now)}."


def _read_status(transport: Transport, namespace: str, command: Sequence[str]) -> StatusDocument:
    status = read_status(transport, namespace)
    if status is None:
        elsewhere = list_elsewhere(transport, STATUS, namespace, command)
        raise CliError(f"no controller has written a status in namespace {namespace}", *elsewhere)
    return structs.replace(status, lease=read_lease(transport, namespace))


def _read_pending(transport: Transport, namespace: str, status: StatusDocument, now: datetime) -> PlanDocument:
    """Return the plan that waits for approval; CliError says why there is none."""
    if status.mode != Mode.APPROVE:
        raise CliError(f"no plan waits for approval: {describe_controller(status, now)}")
    text = StatusMap(transport, namespace).load(PLAN_KEY)
    try:
        plan = msgspec.json.decode(text or "null", type=PlanDocument | None)
    except msgspec.DecodeError as error:
        raise CliError(f"the plan in namespace {namespace} is of another version: {error}") from None
    if plan is None and status.approval is not None:
        raise CliError(
            f"plan {status.approval.hash} of {plural(status.approval.total, 'eviction')} waits, and is too large to be "
            "stored and shown; lower budgets.perCycle, so that a smaller one is proposed"
        )
    if plan is None or not plan.evictions or status.approval is None:
        raise CliError(f"no plan waits for approval: {_describe_rest(status)}")
    if plan.expires_at is not None and plan.expires_at <= now:
        raise CliError(f"plan {plan.plan_hash} has expired; the controller proposes another one in its next cycle")
    return plan


def _describe_rest(status: StatusDocument) -> str:
    """Describe the state if no plan waits for approval."""
    standing, figures = status.standing, status.figures
    if standing is not None:
        left = plural(standing.left, "eviction")
        until = f"{left} left until {standing.until:%Y-%m-%d %H:%M:%SZ}"
        if hindrance := "evictions are paused" if status.paused is not None else find_hindrance(status):
            return f"that of plan {standing.plan} is in force, {until}; nothing goes now: {hindrance}"
        return f"that of plan {standing.plan} is in force, {until}"
    if figures is not None and figures.waiting:
        number = plural(figures.waiting, "eviction")
        return f"{number} {'waits' if figures.waiting == 1 else 'wait'} for something else, see rebalancer status"
    return "there is nothing to evict"
