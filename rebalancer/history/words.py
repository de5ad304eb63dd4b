"""Texts of limited length for entries."""

from collections.abc import Iterable
from itertools import accumulate

from rebalancer.admission.pause import to_one_line
from rebalancer.model.history import NAME_LIMIT, TEXT_LIMIT
from rebalancer.model.moves import Reference


def cut(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return a text, whose author may be anybody, as one line of at most `limit` characters."""
    text = to_one_line(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def workload_text(workload: Reference) -> str:
    """Name a workload within its namespace: KIND/NAME."""
    return cut(f"{workload.kind}/{workload.name}", NAME_LIMIT)


def join_workloads(named: Iterable[str]) -> str:
    """Join whole names of workloads, up to TEXT_LIMIT characters."""
    names = tuple(named)
    ends = accumulate(len(name) + 1 for name in names)
    return ",".join(name for name, end in zip(names, ends, strict=True) if end <= TEXT_LIMIT + 1)
