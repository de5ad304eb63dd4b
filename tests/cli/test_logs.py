"""The log: where an exception happened, and nothing of the process's variables; on a console, lines for people."""

import json
import subprocess
import sys

import pytest

from rebalancer.model.visible import visible

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


CYCLES = """
from collections import Counter

import structlog
from rebalancer.cli.logs import configure_logs
from rebalancer.policy import default_policy

configure_logs(level="info", form="{form}")
log = structlog.get_logger("test")
log.info("starting", settings={{"interval": "1m", "once": False}}, policy=default_policy().to_dict(), policy_hash="abc")
for waiting in (Counter(), Counter(), Counter(BlockedByBudget=2, TooYoung=1), Counter()):
    log.info("cycle", violated=0, waiting_for=waiting, breaker=[], stale="")
    log.info("reported", note="as before")
"""


def cycles_logged(form: str) -> list[str]:
    """Return the lines of a start and four cycles, of which the second changes nothing."""
    program = CYCLES.format(form=form)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return run.stderr.splitlines()


def test_a_console_has_one_short_line_for_each_cycle_that_changes_something() -> None:
    """Without empty fields, and without the policy, which is in the ConfigMap; what is zero is there."""
    start, *lines = cycles_logged("console")
    cycles = [line for line in lines if "] cycle " in line]
    assert "policy_hash=abc" in start
    assert "RebalancePolicy" not in start
    assert [line.partition("[test] ")[2].split() for line in cycles] == [
        ["violated=0"],
        ["violated=0", "waiting_for='BlockedByBudget", "2,", "TooYoung", "1'"],
        ["violated=0"],
    ]
    assert len(lines) == 7
    assert all(len(line) < 200 for line in (start, *lines))


def test_json_has_every_cycle_with_every_field() -> None:
    """Programs read it."""
    start, *lines = map(json.loads, cycles_logged("json"))
    assert start["policy"]["kind"] == "RebalancePolicy"
    cycles = [line for line in lines if line["event"] == "cycle"]
    assert [cycle["waiting_for"] for cycle in cycles] == [{}, {}, {"BlockedByBudget": 2, "TooYoung": 1}, {}]
    assert all({"breaker", "stale", "violated", "timestamp"} <= cycle.keys() for cycle in cycles)


HOSTILE = """
import structlog
from rebalancer.cli.logs import configure_logs

configure_logs(level="info", form="{form}")
name = "web\\x1b[2J\\x7f\\u202e\\u2028\\r\\n2026-01-01 [info     ] forged"
log = structlog.get_logger("test")
log.info(name, pods=[name, (name,)], counts={{name: name}}, **{{name: name}})
log.info("nested", pods={{name: [name]}}, names={{name}})
try:
    raise ValueError(name)
except ValueError:
    log.exception(name)
"""


@pytest.mark.parametrize("form", ["json", "console"])
def test_names_write_no_lines_and_no_control_characters(form: str) -> None:
    """Wherever in an event they are, and in the message of an exception."""
    program = HOSTILE.format(form=form)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    text = run.stderr.decode()
    assert text.count("forged") > 9
    assert visible(text.replace("\n", "")) == text.replace("\n", "")
    events = [line for line in text.splitlines() if not line.startswith("    ")]
    assert len(events) == 3
    assert not [line for line in text.splitlines() if line.strip().startswith("2026-01-01")]
