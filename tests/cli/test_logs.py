"""The log of an exception: where it happened, and nothing of what the process had in its variables."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import structlog
from rebalancer.cli.logs import configure_logs

configure_logs(level="info", form="{form}")

def dig(depth, token, pods):
    if depth == 0:
        raise ValueError("no such zone")
    dig(depth - 1, token, pods)

try:
    dig({depth}, "ey" + "Jtoken" * 3, ["web-" + str(number) for number in range(100_000)])
except ValueError:
    structlog.get_logger("test").exception("cycle failed")
"""


def logged(form: str, depth: int) -> str:
    """Return what a process logs about an exception that deep."""
    program = PROGRAM.format(form=form, depth=depth)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return run.stderr


@pytest.mark.parametrize("form", ["json", "console"])
def test_an_exception_is_logged_without_variables(form: str) -> None:
    """They hold tokens and whole clusters; type, message and places are enough."""
    text = logged(form, 3)
    assert "ValueError" in text
    assert "no such zone" in text
    assert "in dig" in text or '"name": "dig"' in text
    assert "eyJtoken" not in text
    assert "web-1" not in text


@pytest.mark.parametrize("form", ["json", "console"])
def test_the_log_of_a_deep_exception_is_short(form: str) -> None:
    """The first or the last calls are there, up to 20 of 900."""
    text = logged(form, 900)
    assert "no such zone" in text
    assert len(text) < 20_000
    assert text.count("dig") < 50


def test_an_exception_is_one_line_of_json() -> None:
    """With the frames as data."""
    (line,) = logged("json", 2).splitlines()
    entry = json.loads(line)
    (exception,) = entry["exception"]
    assert (entry["event"], exception["exc_type"]) == ("cycle failed", "ValueError")
    assert [frame["name"] for frame in exception["frames"]] == ["<module>", "dig", "dig", "dig"]
    assert all(frame.keys() == {"filename", "lineno", "name"} for frame in exception["frames"])
