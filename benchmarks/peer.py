"""The peer: sigs.k8s.io/descheduler, the real program, in one-shot cycles on a state that is laid out.

It is built by Go from source, as the servers of the tests are. Each scenario gets a process of its
own that is told of one namespace only, so that many can be repaired side by side, and nothing of its client's rate
limit is spent on others.
"""

import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.closed_loop.scenario import Scenario
from tests.closed_loop.trial import Figures, figures, wait_at_rest
from tests.cluster.controller import environment
from tests.control_plane.build import DESCHEDULER, programs, required_version
from tests.control_plane.plane import ControlPlane

ACCOUNT = "kube-system/descheduler"
USER = "system:serviceaccount:kube-system:descheduler"
PLUGIN = "RemovePodsViolatingTopologySpreadConstraint"

MOST_CYCLES = 12
DRY_RUNS = 3
"""What one reports is not what the next one does."""

EVERYWHERE = ""
"""The name of a policy that acts in all namespaces."""

AT_ONCE = 2
CYCLE_SECONDS = 120.0
EVICTED = '"Evicted pod in dry run mode"'


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one scenario. `dry_runs` is how many evictions each of three dry runs reported before, sorted."""

    figures: Figures
    dry_runs: tuple[int, ...]


def version() -> str:
    """Return the version that is compared with."""
    return required_version(DESCHEDULER.folder, "sigs.k8s.io/descheduler")


def binary() -> Path:
    """Return the program's path, building it if need be. Raises MissingPart if it can't be had."""
    return programs([DESCHEDULER])[DESCHEDULER.name]


def repair(plane: ControlPlane, scenarios: Sequence[Scenario]) -> dict[str, Outcome]:
    """Run it on what is laid out until it evicts nothing more; return what came of each, by name."""
    mark = plane.audit.mark()
    cycles, dry_runs = run(plane, {each.name: policy(each.name) for each in scenarios})
    result = figures(plane, scenarios, plane.audit.evictions(user=USER, since=mark), cycles)
    return {
        name: Outcome(figures=result[name], dry_runs=tuple(sorted(reported))) for name, reported in dry_runs.items()
    }


def run(
    plane: ControlPlane, policies: Mapping[str, dict[str, Any]], *, dry_runs: int = DRY_RUNS
) -> tuple[Sequence[datetime], Mapping[str, Sequence[int]]]:
    """Run it with one policy for each namespace, or EVERYWHERE, until it evicts nothing more there, or twelve cycles.

    After every cycle the scheduler has settled before the next begins. Returns when the cycles began, and how many
    evictions each dry run reported before, by namespace.
    """
    program = binary()
    plane.api.apply([admin()])
    kubeconfig = plane.kubeconfig(ACCOUNT)
    mark = plane.audit.mark()
    cycles: list[datetime] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as threads:

        def cycle(name: str, *flags: str) -> str:
            file = Path(folder) / f"{name}.yaml"
            file.write_text(yaml.safe_dump(policies[name]))
            return _cycle(program, file, kubeconfig, *flags)

        reported: dict[str, list[int]] = {name: [] for name in policies}
        for _ in range(dry_runs):
            logs = threads.map(lambda name: cycle(name, "--dry-run", "--v=1"), policies)
            for name, log in zip(policies, logs, strict=True):
                reported[name].append(log.count(EVICTED))
        busy = list(policies)
        for _ in range(MOST_CYCLES):
            before = _asked(plane, mark)
            cycles.append(datetime.now(UTC))
            list(threads.map(cycle, busy))
            wait_at_rest(plane)
            after = _asked(plane, mark)
            busy = [name for name in busy if after[name] > before[name]]
            if not busy:
                break
    return cycles, reported


def policy(*namespaces: str, soft: bool = False) -> dict[str, Any]:
    """Return its policy: the plugin for spread constraints, everything else as it is by default.

    It acts on the hard constraints, with `soft` on all, in these namespaces only, in all if none is named.
    """
    arguments: dict[str, Any] = {"constraints": ["DoNotSchedule", *(["ScheduleAnyway"] if soft else [])]}
    if namespaces:
        arguments["namespaces"] = {"include": list(namespaces)}
    return one_plugin(PLUGIN, "balance", {PLUGIN: arguments})


def one_plugin(plugin: str, point: str, arguments: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a policy of one plugin at its extension point, with the arguments of that and of other plugins."""
    # A plugin without arguments of its own, even none, is left out.
    given: dict[str, dict[str, Any]] = {plugin: {}, **arguments}
    profile = {
        "name": "one",
        "pluginConfig": [{"name": name, "args": args} for name, args in given.items()],
        "plugins": {point: {"enabled": [plugin]}},
    }
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}


def _cycle(program: Path, policy: Path, kubeconfig: Path, *flags: str) -> str:
    """Run it once to its end; returns its log."""
    command = [str(program), f"--policy-config-file={policy}", f"--kubeconfig={kubeconfig}"]
    command += ["--disable-metrics", "--secure-port=0", "--logging-format=json", *flags]
    done = subprocess.run(
        command, capture_output=True, check=False, text=True, timeout=CYCLE_SECONDS, env=environment()
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


def _asked(plane: ControlPlane, mark: Any) -> Counter[str]:
    """Count the evictions asked for so far, refused ones too, by namespace, and EVERYWHERE."""
    asked = Counter(eviction.namespace for eviction in plane.audit.evictions(user=USER, since=mark))
    asked[EVERYWHERE] = asked.total()
    return asked


def admin() -> dict[str, Any]:
    """Return the binding that gives it every right."""
    namespace, name = ACCOUNT.split("/")
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "descheduler"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    }
