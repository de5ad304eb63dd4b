"""The approval of a whole plan in `status` and on the page: how much is left, and why an approval has no effect."""

from collections.abc import Iterator
from datetime import datetime

from rebalancer.documents.phrases import from_now
from rebalancer.documents.status import StatusDocument
from rebalancer.model.words import plural


def standing_title(status: StatusDocument) -> str:
    """Name what is approved; return "" if nothing is approved and nobody meant to approve anything."""
    standing = status.standing
    if standing is None:
        return "No approval in force" if status.approval_problem else ""
    return (
        f"Approved with its later steps: plan {standing.plan}, {standing.left} of {standing.evictions} evictions left"
    )


def standing_sentences(status: StatusDocument, now: datetime) -> Iterator[str]:
    """Yield who approved it and until when, how to withdraw the approval, and what is wrong with the written one."""
    standing = status.standing
    if standing is not None:
        by = f" by {standing.by}" if standing.by else ""
        yield f"Approved{by} at {standing.since:%Y-%m-%d %H:%M:%SZ}; ends {from_now(standing.until, now)}."
        yield (
            f"At most {plural(standing.left, 'more pod')} {'is' if standing.left == 1 else 'are'} taken away by it. To "
            "withdraw it, remove the key approval.yaml of ConfigMap rebalancer-approval."
        )
    if status.approval_problem:
        yield f"{status.approval_problem}."
