"""The rebalancer on a set of scenarios: the process as users start it, until nothing is left to do."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rebalancer.model.reasons import Reason
from tests.closed_loop.scenario import Scenario
from tests.closed_loop.trial import Figures, figures, wait_at_rest
from tests.cluster.controller import ACCOUNT, USER, Controller, install, policy, rebalancer
from tests.control_plane.audit import Request
from tests.control_plane.plane import ControlPlane

ALL_AT_ONCE = {
    "maxUnavailable": "100%",
    "perWorkload": "100%",
    "perCycle": 10_000,
    "perNode": 1_000,
    "perNamespace": 1_000,
    "perMinute": 10_000,
}
"""No budget but the PodDisruptionBudgets: what is safe at once is the planner's own business then."""

RUN_SECONDS = 400.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one scenario.

    `planned` is how many evictions the plan announced before anything was done, those aside for which there will never
    be capacity. `state` and `reason` are what it says at the end, empty where it finds nothing to repair; `left` is how
    many evictions it would make at once then.
    """

    figures: Figures
    planned: int
    left: int
    state: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run until nothing is left to do: the plans before and after it, its cycles and requests for evictions."""

    planned: Mapping[str, Any]
    left: Mapping[str, Any]
    cycles: Sequence[datetime]
    requests: Sequence[Request]


def run_once(plane: ControlPlane, policy_text: str) -> Run:
    """Run it on what is laid out until nothing is left to do."""
    install(plane, "base", "evict")
    before = plane.audit.mark()
    with tempfile.TemporaryDirectory() as folder:
        controller = Controller(plane, Path(folder), policy_text, "--once")
        planned = _plan(plane, controller.policy_file)
        with controller:
            code = controller.wait(RUN_SECONDS)
            assert code == 0, controller.log_file.read_text()[-4000:]
        wait_at_rest(plane)
        return Run(
            planned=planned,
            left=_plan(plane, controller.policy_file),
            cycles=[datetime.fromisoformat(line["timestamp"]) for line in controller.log("cycle")],
            requests=plane.audit.evictions(user=USER, since=before),
        )


def repair(plane: ControlPlane, scenarios: Sequence[Scenario]) -> dict[str, Outcome]:
    """Run it on what is laid out, and return what came of each scenario, by name."""
    run = run_once(plane, policy("Evict", interval="1s", budgets=ALL_AT_ONCE, **_groups(scenarios)))
    result = figures(plane, scenarios, run.requests, run.cycles)
    return {
        scenario.name: Outcome(
            figures=result[scenario.name],
            planned=_count(_announced(run.planned), scenario.name),
            left=_count(run.left["evictions"], scenario.name),
            **_verdict(run.left, scenario.name),
        )
        for scenario in scenarios
    }


def _groups(scenarios: Sequence[Scenario]) -> dict[str, Any]:
    groups = [scenario.limit for scenario in scenarios if scenario.limit is not None]
    return {"groups": groups} if groups else {}


def _plan(plane: ControlPlane, policy_file: Path) -> dict[str, Any]:
    """Ask for the plan of now, without carrying it out."""
    done = rebalancer("plan", f"--kubeconfig={plane.kubeconfig(ACCOUNT)}", f"--policy={policy_file}", "--output=json")
    assert done.returncode == 0, done.stderr.decode()
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _announced(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    never = Reason.STEP_EXCEEDS_BUDGET
    return [*plan["evictions"], *(entry for entry in plan["waiting"] if entry["for"] != never)]


def _count(evictions: Sequence[Mapping[str, Any]], namespace: str) -> int:
    return sum(eviction["namespace"] == namespace for eviction in evictions)


def _verdict(plan: Mapping[str, Any], namespace: str) -> dict[str, str]:
    group: Mapping[str, Any] = next((group for group in plan["groups"] if group["namespace"] == namespace), {})
    return {"state": group.get("state", ""), "reason": group.get("reason") or ""}
