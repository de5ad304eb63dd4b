"""Progress of what takes long: shown in a terminal, and only there."""

import io
import sys
import time

import pytest

from rebalancer.cli import progress as module
from rebalancer.cli.progress import progress
from tests.cli.answers import Terminal


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    monkeypatch.setattr(module, "_INTERVAL", 0.01)


def test_what_takes_long_is_shown_and_removed_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is empty again before the result."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("reading the cluster"):
        time.sleep(0.3)
    shown = terminal.getvalue()
    assert "reading the cluster … 0s" in shown
    assert shown.endswith("\r\x1b[K")


def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing flickers."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("planning"):
        pass
    assert terminal.getvalue() == ""


def test_without_a_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of a pipeline stay clean."""
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress("planning"):
        time.sleep(0.2)
    assert pipe.getvalue() == ""


def test_an_error_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message stands on a line of its own."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def fail() -> None:
        with progress("planning"):
            time.sleep(0.2)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert terminal.getvalue().endswith("\r\x1b[K")
