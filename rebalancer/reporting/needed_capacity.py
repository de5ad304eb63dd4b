"""Repairs that lack nothing but capacity in one line each: what they need, and why it is not there."""

from collections.abc import Collection, Iterable

from rebalancer.capacity.causes import OF_CAPACITY
from rebalancer.model.moves import Reference
from rebalancer.planning.plan import PlanRefusal
from rebalancer.reporting.phrases import name_list
from rebalancer.reporting.refusals import refusal_text


def needed_capacity_lines(refusals: Iterable[PlanRefusal], chosen: Collection[Reference] | None = None) -> list[str]:
    """Return a line for each need of capacity; `chosen` are the workloads of interest, None for all."""
    workloads: dict[str, dict[Reference, None]] = {}
    for row in refusals:
        if isinstance(row.refusal.cause, OF_CAPACITY) and (chosen is None or row.workload in chosen):
            text = f"{row.reason}: {{}}: {refusal_text(row.refusal)}"
            workloads.setdefault(text, {})[row.workload] = None
    return [text.replace("{}", name_list(map(str, names)), 1) for text, names in workloads.items()]
