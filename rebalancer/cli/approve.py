"""`rebalancer approve`: in mode Approve, lets the controller carry out the plan that it proposes."""

import argparse
from datetime import UTC, datetime

import msgspec

from rebalancer.adapters.kubernetes.configmaps import APPROVAL, ControlMap, StatusMap
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport, connect
from rebalancer.admission.approval import KEY
from rebalancer.cli.controller_state import read_status
from rebalancer.cli.errors import CliError, Exit, warn
from rebalancer.cli.parsing import Parser
from rebalancer.cli.pause_client import explain_refusals
from rebalancer.cli.settings_flags import add_settings_arguments, load_flags
from rebalancer.cli.terminal import say
from rebalancer.model.words import plural
from rebalancer.policy import Mode
from rebalancer.ports import PLAN_KEY
from rebalancer.reporting.acting import describe_status
from rebalancer.reporting.documents.plan import PlanDocument


def add_arguments(parser: Parser) -> None:
    """Declare the hash and the flags."""
    parser.epilog = (
        "It writes the key approved of the ConfigMap rebalancer-approval. The controller evicts exactly the pods of "
        "that plan, within all budgets; `rebalancer pause` stops it."
    )
    parser.add_argument(
        "hash", metavar="HASH", nargs="?", help="the planHash of the plan (default: that of the plan that waits)"
    )
    add_settings_arguments(parser, only=("kubeconfig", "context", "namespace"))


def run(args: argparse.Namespace) -> int:
    """Approve the plan that waits, and show what it evicts."""
    settings = load_flags(args)
    try:
        transport = connect(kubeconfig=str(settings.kubeconfig or "") or None, context=settings.context)
        warn(transport.warnings)
        plan = _read_pending(transport, settings.namespace)
    except ClusterError as error:
        raise CliError(str(error)) from None
    if args.hash not in {None, plan.plan_hash}:
        raise CliError(f"plan {args.hash} does not wait for approval; the plan that waits is {plan.plan_hash}")
    control = ControlMap(transport, settings.namespace, APPROVAL)
    with explain_refusals(control, "patch and create"):
        control.put(KEY, plan.plan_hash)
    lines = [
        f"Approved plan {plan.plan_hash}: {plural(len(plan.evictions), 'eviction')}.",
        *(f"  {eviction.namespace}/{eviction.pod}  {eviction.node}  {eviction.reason}" for eviction in plan.evictions),
        f"Written to {control}. `rebalancer status --watch` shows its progress.",
    ]
    say(lines)
    return Exit.FINE


def _read_pending(transport: Transport, namespace: str) -> PlanDocument:
    """Return the plan that waits for approval; CliError says why there is none."""
    status = read_status(transport, namespace)
    if status is None:
        raise CliError(f"no controller has written a status in namespace {namespace}; choose it with --namespace")
    if status.mode != Mode.APPROVE:
        raise CliError(f"no plan waits for approval: {describe_status(status)}")
    text = StatusMap(transport, namespace).load(PLAN_KEY)
    try:
        plan = msgspec.json.decode(text or "null", type=PlanDocument | None)
    except msgspec.DecodeError as error:
        raise CliError(f"the plan in namespace {namespace} is of another version: {error}") from None
    if plan is None or not plan.evictions:
        raise CliError("no plan waits for approval: there is nothing to evict")
    if plan.expires_at is not None and plan.expires_at <= datetime.now(UTC):
        raise CliError(f"plan {plan.plan_hash} has expired; the controller proposes another one in its next cycle")
    return plan
