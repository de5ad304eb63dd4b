"""What `status` and the page say of waits, holds and the plan that waits for approval: the same sentences."""

from collections.abc import Iterator
from datetime import datetime

from rebalancer.model.words import plural
from rebalancer.reporting.documents.status import ApprovalStatus
from rebalancer.reporting.documents.waits import HoldStatus, RepairWait
from rebalancer.reporting.phrases import ago, domains_text, end_text, from_now, workload_names


def hold_sentence(hold: HoldStatus, now: datetime) -> str:
    """Say what is held, since when, why and until when."""
    since = f" since {hold.since:%Y-%m-%d %H:%M:%SZ} ({ago(hold.since, now)})" if hold.since is not None else ""
    return f"{hold.scope}{since}: {hold.reason}: {hold.message}; {end_text(hold.until, hold.ends_with, now)}"


def wait_sentence(wait: RepairWait, now: datetime) -> str:
    """Say when a repair goes on, with what, and why not before."""
    end = end_text(wait.until, wait.ends_with, now, wait.usual)
    then = ""
    if wait.then is not None and (wait.until is not None or wait.ends_with):
        then = f", then {wait.then.pod} from {wait.then.node or 'no node'} to {domains_text(wait.then.domains)}"
    return f"{wait.namespace}/{workload_names(wait.workloads)}: {end}{then}. {wait.reason}: {wait.message}"


def approval_title(approval: ApprovalStatus) -> str:
    """Name the plan, and whether it waits for approval."""
    what = "Approved" if approval.approved else "To be approved"
    return f"{what}: plan {approval.hash}, {plural(approval.total, 'eviction')}"


def approval_sentences(approval: ApprovalStatus, now: datetime) -> Iterator[str]:
    """Yield until when it is proposed or carried out, how it is approved and by whom, and how many are not shown."""
    if approval.approved:
        yield f"Approved {ago(approval.since, now)}; without progress it ends {from_now(approval.expires_at, now)}."
    else:
        yield f"Proposed {ago(approval.since, now)}; expires {from_now(approval.expires_at, now)}."
        yield f"{approval.command} shows it and asks. Who may: {approval.who}."
    more = approval.total - len(approval.evictions)
    if more > 0:
        yield f"And {plural(more, 'more eviction')}; rebalancer plan --output json lists all."
