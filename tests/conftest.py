"""Fixtures that all tests may use."""

import logging
import os
import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from tests.drawing import register_profiles

register_profiles()
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    # Whoever starts the tests may have it, and the commands would print otherwise; tests of that set it themselves.
    os.environ.pop(_name, None)

pytest_plugins = ["tests.control_plane.fixtures"]


@pytest.fixture(scope="session", autouse=True)
def _heeding_ctrl_c() -> Iterator[None]:
    """Let children obey Ctrl-C where the tests run as a shell's background job, whose children would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    """Leave no configuration of logs to the next test: commands that are run in this process set it."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.configure(**before)
    root.handlers = handlers
    root.setLevel(level)
