"""Explains why the API server refuses a planned eviction for a budget: the budget has changed since the plan."""

from typing import Final

from rebalancer.model.moves import Move
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import name_list, plural

_MOST_WORDS: Final = 480
"""Characters that are stored and shown."""


def describe_broken_premise(move: Move, snapshot: Snapshot, answer: str) -> str:
    """Say which budget the plan relied on, with its status then, and what the API server says now."""
    pod = snapshot.pod.get(move.uid)
    budgets = snapshot.budget_selection.budgets_of(pod) if pod is not None else ()
    counted = [
        f"{budget} to allow {plural(budget.allowed, 'eviction')} ({budget.current_healthy} of {budget.desired_healthy} "
        "healthy pods required)"
        for budget in budgets
    ]
    premise = (
        f"PodDisruptionBudget {name_list(counted)}"
        if counted
        else f"no PodDisruptionBudget to select pod {move.namespace}/{move.pod}"
    )
    words = f"the plan counted on {premise}; the API server says: {answer}"
    return words if len(words) <= _MOST_WORDS else f"{words[: _MOST_WORDS - 1]}…"
