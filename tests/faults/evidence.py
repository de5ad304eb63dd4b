"""A run as text, one line a request, a change of a pod or a pause: for whoever has to explain a breach."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.history import History, PodChange


def describe(history: History) -> str:
    """Return the lines in the order of time, which is counted from the first request."""
    start = history.exchanges[0].begun if history.exchanges else 0.0
    return "\n".join(f"{at - start:8.3f} {text}" for at, text in sorted(_lines(history)))


def _lines(history: History) -> Iterator[tuple[float, str]]:
    for exchange in history.exchanges:
        codes = f"server {exchange.code or '-'}, client {exchange.delivered or '-'}"
        parts = [exchange.process, str(exchange.target), exchange.target.name, codes, exchange.holder, exchange.uid]
        yield exchange.begun, " ".join(part for part in [*parts, exchange.fault and f"({exchange.fault})"] if part)
    for change in history.changes:
        yield change.at, f"pod {change.name} on {change.node or '-'}: {_state(change)} {change.uid}"
    for pause in history.pauses:
        yield pause.stored, "paused"
        yield pause.lifted, "resumed"


def _state(change: PodChange) -> str:
    if change.gone:
        return "gone"
    if change.terminating:
        return "terminating"
    return "ready" if change.ready else "not ready"
