"""The loss of a domain in `status` and on the page: how many workloads keep enough pods, and the worst losses."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rebalancer.documents.document import WorkloadName
from rebalancer.documents.phrases import ago
from rebalancer.documents.resilience_status import ResilienceStatus
from rebalancer.model.words import plural, short_key

COLUMNS: Final = ("WORKLOAD", "IF LOST", "AT ONCE", "THEN", "REQUIRED", "WHY")


def loss_title(status: ResilienceStatus) -> str:
    """Name the loss that the rows describe: `If a zone is lost`."""
    return f"If a {_name_keys(status)} is lost"


def _name_keys(status: ResilienceStatus) -> str:
    return " or ".join(short_key(key) for key in status.keys)


def resilience_sentences(status: ResilienceStatus, now: datetime, *, is_led: bool) -> Iterator[str]:
    """Yield what is true of all workloads, what is not known, and why; `is_led`: a running controller computes it."""
    if status.as_of is not None:
        yield (
            f"As of {status.as_of:%Y-%m-%d %H:%M:%SZ} ({ago(status.as_of, now)}) {status.holding} of "
            f"{plural(status.workloads, 'workload')} would keep for certain what is required, whichever "
            f"{_name_keys(status)} were lost."
        )
    if status.not_computed:
        yield _describe_not_computed(status, is_led=is_led)
    if status.domains_left_out:
        domains = plural(status.domains_left_out, "domain")
        yield f"Not computed: the loss of {domains}, those with fewest pods of keys that have more than a hundred."
    if status.problem:
        yield f"It cannot be computed: {status.problem}."


def _describe_not_computed(status: ResilienceStatus, *, is_led: bool) -> str:
    workloads = plural(status.not_computed, "workload")
    if not is_led:
        return f"Not computed: {workloads}, as no controller runs; rebalancer resilience computes it now."
    if status.as_of is None and not status.problem:
        return f"Being computed: {workloads}; a new leader begins soon after its first cycle."
    return f"Not computed yet: {workloads}."


def worst_rows(status: ResilienceStatus) -> Sequence[Sequence[str]]:
    """Return the cells of the worst losses, one for each workload that would keep fewer pods than required."""
    return [
        (
            name_workload(loss.namespace, loss.workload),
            f"{short_key(loss.key)} {loss.domain}, {loss.phase}",
            f"{loss.now} of {loss.wanted}",
            then_text(loss.guaranteed, loss.possible),
            str(loss.required),
            loss.reason,
        )
        for loss in status.losses
    ]


def name_workload(namespace: str, workload: WorkloadName) -> str:
    """Name a workload in a row of losses: `shop/web (Deployment)`."""
    return f"{namespace}/{workload.name} ({workload.kind})"


def then_text(guaranteed: int, possible: int) -> str:
    """Say how many pods are left once nothing moves any more."""
    return f"{guaranteed} to {possible}" if guaranteed < possible else str(guaranteed)
