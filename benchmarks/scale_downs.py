"""Scale-downs on a real control plane, with prevention and without, side by side.

    python -m benchmarks.scale_downs        # or: make scale-downs

Prints its tables as Markdown. Takes some ten minutes.
"""

import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from rebalancer import __version__
from tests.cluster.scale_downs import BATCHES, CASES, PLAIN, STEERED, Result, Tally, measure
from tests.control_plane.build import MissingPart, Versions
from tests.control_plane.plane import ControlPlane

COMMAND = "python -m benchmarks.scale_downs"
_HEADS = (
    "before",
    "order kept",
    "scale-downs",
    "ended violated",
    "avoidably",
    "largest share of a zone",
    "evictions to repair",
)

_TEXT = """\
Twelve nodes in three zones; Deployments of 6 to 30 pods with hard constraints over zone and host name, a part of them
also with limits. The real scheduler places the pods, the real controllers delete them. Each Deployment exists twice:
in one namespace `prevention.scaleDown` is `Steer`, in the other it is not. Both are scaled down by the same steps, in
one go or as an autoscaler does, right after each other; before that nothing happens, or a node is lost and comes
back, or all Deployments are rolled out. A scale-down ends violated if a hard constraint or a limit does not hold
afterwards, avoidably if the pods that were there could have been deleted in an order that leaves none violated."""


def page(result: Result, seconds: float) -> str:
    """Return the Markdown with the tables of all runs."""
    rows = [_row(before, space, tally) for (before, space), tally in result.tallies.items()]
    total = {space: _sum(result, space) for space in (STEERED, PLAIN)}
    rows += [_row("all", space, total[space]) for space in (STEERED, PLAIN)]
    saved = total[PLAIN].evictions - total[STEERED].evictions
    lines = [
        "# Scale-downs with and without prevention",
        "",
        f"Printed by `{COMMAND}` on {datetime.now(UTC):%Y-%m-%d}. {_versions()}",
        "",
        _TEXT,
        "",
        "| " + " | ".join(_HEADS) + " |",
        "| " + " | ".join("---" for _ in _HEADS) + " |",
        *rows,
        "",
        f"{saved} evictions were saved by {result.patches} patches of annotations. The run took {seconds:.0f} seconds.",
        "",
    ]
    return "\n".join(lines)


def _versions() -> str:
    return f"Rebalancer {__version__}, Kubernetes {Versions.wanted().kubernetes}."


def _sum(result: Result, space: str) -> Tally:
    total = Tally()
    for (_, one), tally in result.tallies.items():
        if one == space:
            total.scale_downs += tally.scale_downs
            total.violated += tally.violated
            total.avoidable += tally.avoidable
            total.evictions += tally.evictions
            total.largest = max(total.largest, tally.largest)
    return total


def _row(before: str, space: str, tally: Tally) -> str:
    cells = (
        before,
        "yes" if space == STEERED else "no",
        tally.scale_downs,
        tally.violated,
        tally.avoidable,
        f"{round(100 * tally.largest)}%",
        tally.evictions,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Measure, and print the tables."""
    print(f"{len(BATCHES)} batches of {CASES} workloads")
    began = time.monotonic()
    try:
        with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
            result = measure(plane, Path(folder))
    except MissingPart as missing:
        sys.exit(f"no control plane: {missing}")
    print(page(result, time.monotonic() - began))


if __name__ == "__main__":
    main()
