"""The workloads with pods that find no node, after a loss or without a loss, and how messages say so."""

from collections.abc import Collection, Mapping

from msgspec import structs

from rebalancer.lint.volumes import drop_volumes, find_with_volumes, join_with_bare
from rebalancer.model.facts import Fact
from rebalancer.model.moves import Reference
from rebalancer.model.words import plural
from rebalancer.resilience.creation import find_spent
from rebalancer.resilience.loss import Loss
from rebalancer.resilience.reason import Reasons
from rebalancer.resilience.rows import Remaining, Verdict, find_remaining, find_short


def find_not_whole(loss: Loss, included: Collection[Reference]) -> Mapping[Reference, Remaining]:
    """Return the included workloads with pods that find no node, with the reason.

    If the pods would find no node even without their volumes, the reason for that is named.
    """
    rows = _find_rows(loss, included)
    asked = rows.keys() & find_with_volumes(loss)
    if not asked:
        return rows
    bare = _find_rows(drop_volumes(loss), asked)
    return {one: join_with_bare(row, bare.get(one), loss) if one in asked else row for one, row in rows.items()}


def _find_rows(loss: Loss, included: Collection[Reference]) -> Mapping[Reference, Remaining]:
    """Return the rows of the included workloads whose pods do not all find a node.

    If some order of placements gives all pods of a workload a node, it is left out, except if a quota may refuse a pod.
    If there are too many pods to simulate, sums find the workloads that lack nodes in any order.
    """
    reasons = Reasons(loss)
    if reasons.stuck is None:
        return {row.workload: row for row in find_short(loss, included.__contains__)}
    over = _find_over_quota(loss)
    asked = {workload for workload in (*reasons.stuck, *over) if workload is not None and workload in included}
    rows = list(find_remaining(loss, asked.__contains__, briefly=True)) if asked else []
    return {
        row.workload: structs.replace(row, reason=over.get(row.workload) or row.reason or reasons.find(row.workload))
        for row in rows
        if row.verdict is not Verdict.YES
    }


def _find_over_quota(loss: Loss) -> Mapping[Reference | None, Fact]:
    """Return the workloads with pods that a quota may not admit, with the reason."""
    return {loss.services[number].workload: reason for number, reason in find_spent(loss).items()}


def describe_most(row: Remaining) -> str:
    """Say how many pods of a workload find a node at best."""
    if not row.possible:
        return f"none of {plural(row.wanted, 'pod')} finds a node"
    return f"at most {row.possible} of {plural(row.wanted, 'pod')} find a node"


def describe_reason(row: Remaining) -> str:
    """Say why the pods find no node; return "" if too many pods are pending to find out."""
    return f": {row.reason}" if row.reason is not None else ""
