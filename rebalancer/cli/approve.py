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
from rebalancer.cli.confirm import add_confirmation_arguments, is_confirmed
from rebalancer.cli.controller_state import read_lease, read_status
from rebalancer.cli.elsewhere import list_elsewhere, repeat_command
from rebalancer.cli.errors import CliError, Exit, warn
from rebalancer.cli.parsing import Parser
from rebalancer.cli.pause_client import Target, declare, explain_refusals
from rebalancer.cli.refusals import unreadable
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.cli.terminal import say
from rebalancer.model.words import plural
from rebalancer.policy import Mode
from rebalancer.ports import PLAN_KEY
from rebalancer.reporting.acting import describe_controller, describe_status, leaders_time
from rebalancer.reporting.documents.plan import PlanDocument
from rebalancer.reporting.documents.status import StatusDocument
from rebalancer.reporting.documents.waits import shorten
from rebalancer.reporting.phrases import domains_text

_ROLE: Final = "rebalancer-approve"


def add_arguments(parser: Parser) -> None:
    """Declare the hash and the flags."""
    parser.epilog = (
        "It writes the key approved of the ConfigMap rebalancer-approval. The controller evicts exactly the pods of "
        "that plan, within all budgets; `rebalancer pause` stops it."
    )
    parser.add_argument(
        "hash", metavar="HASH", nargs="?", help="the planHash of the plan (default: that of the plan that waits)"
    )
    add_confirmation_arguments(parser)
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Show the plan that waits, ask, and approve it."""
    settings = load_flags(args)
    answers = [flag for flag, is_given in (("--yes", args.yes), ("--dry-run", args.dry_run)) if is_given]
    command = repeat_command(args, "approve", *filter(None, [args.hash]), *answers)
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
    say(_describe(plan, status, now))
    if not is_confirmed(args, f"Approve plan {plan.plan_hash}?"):
        return Exit.FINE if args.dry_run else Exit.ERROR
    control = ControlMap(transport, settings.namespace, APPROVAL)
    with explain_refusals(Target(transport=transport, control=control, role=_ROLE, command=command, led=True)):
        control.put(KEY, plan.plan_hash, declared=declare(transport, plan.plan_hash))
    say([f"Approved plan {plan.plan_hash}. Written to {control}. `rebalancer status --watch` shows its progress."])
    return Exit.FINE


def _describe(plan: PlanDocument, status: StatusDocument, now: datetime) -> Iterator[str]:
    """Yield what the plan evicts, until when it can be approved, and what keeps it from being carried out."""
    expires = f", can be approved until {plan.expires_at:%Y-%m-%d %H:%M:%SZ}" if plan.expires_at is not None else ""
    yield f"Plan {plan.plan_hash}: {plural(len(plan.evictions), 'eviction')}{expires}."
    for eviction in plan.evictions:
        where = f"{eviction.node} -> {domains_text(shorten(eviction.predicted.domains))}"
        yield f"  {eviction.namespace}/{eviction.pod}  {where}  {eviction.reason}"
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
        raise CliError(f"no plan waits for approval: {describe_status(status)}")
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
    if plan is None or not plan.evictions:
        raise CliError("no plan waits for approval: there is nothing to evict")
    if plan.expires_at is not None and plan.expires_at <= now:
        raise CliError(f"plan {plan.plan_hash} has expired; the controller proposes another one in its next cycle")
    return plan
