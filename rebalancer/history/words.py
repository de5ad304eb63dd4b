"""Texts of limited length for entries."""

from rebalancer.admission.pause import to_one_line
from rebalancer.model.history import NAME_LIMIT, TEXT_LIMIT
from rebalancer.model.moves import Reference


def cut(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return a text as one line of at most so many characters: anybody may have written it."""
    text = to_one_line(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def workload_text(workload: Reference) -> str:
    """Name a workload within its namespace: KIND/NAME."""
    return cut(f"{workload.kind}/{workload.name}", NAME_LIMIT)
