"""What is exported, held against Prometheus' own linter."""

import subprocess
from pathlib import Path

from tests.controller.test_gauges import full, text
from tests.monitoring.programs import promtool

__all__ = ["promtool"]  # a fixture


def test_promtool_finds_nothing_wrong_with_the_metrics(promtool: Path) -> None:
    """Names, types, units and helps of every series are as Prometheus wants them."""
    own = text(full()).partition("# HELP process_")[0]
    assert "rebalancer_limit_state{" in own
    done = subprocess.run([promtool, "check", "metrics"], input=own, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
