"""A person at a terminal, who answers a question."""

import io
import sys

import pytest


class Terminal(io.StringIO):
    """What is written to a terminal, or read from it."""

    def isatty(self) -> bool:
        return True


def answer_with(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have a command ask in a terminal, where somebody types this, "" for the end of the input."""
    monkeypatch.setattr(sys, "stdin", Terminal(f"{text}\n" if text else ""))
