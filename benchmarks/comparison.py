"""Rebalancer and its peer on the same states of the same real control plane, side by side.

    python -m benchmarks.comparison        # or: make comparison

Prints a row for each state, and the sums that docs/comparison.md has. Takes some ten minutes, and Go to build the peer
once. Dry runs: the different numbers of evictions that the peer's dry runs reported before its first cycle.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import anti_affinity, peer
from benchmarks.tables import table
from tests.closed_loop import ours
from tests.closed_loop.scenario import Scenario
from tests.closed_loop.scenarios import BUDGETED, DEADLOCK, EXAMPLES, FALLS_SHORT, LIMITED, LIMITS, RANDOM
from tests.closed_loop.trial import Figures, set_up
from tests.control_plane.build import MissingPart
from tests.control_plane.cleaning import Cleaner
from tests.control_plane.plane import ControlPlane

SETS: tuple[tuple[str, Sequence[Scenario]], ...] = (
    ("Where counting each constraint alone, and trying instead of planning, falls short", FALLS_SHORT),
    ("Worked examples", (*EXAMPLES, DEADLOCK)),
    ("Limits that the pods' own constraints do not force", (*LIMITS, *LIMITED)),
    ("Random clusters, zone and hostname constraints together", RANDOM),
    ("Random clusters with a PodDisruptionBudget", BUDGETED),
)

HEADS = (
    "state",
    "least",
    "forced in",
    "evictions",
    "cycles",
    "429",
    "again",
    "Pending",
    "repaired",
    "peer: evictions",
    "cycles",
    "429",
    "again",
    "Pending",
    "repaired",
    "dry runs",
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One scenario and what came of it."""

    scenario: Scenario
    ours: ours.Outcome
    peer: peer.Outcome

    @property
    def cells(self) -> list[str]:
        """The row of the table."""
        forced = self.scenario.forced()
        planned = self.ours
        return [
            self.scenario.title,
            str(self.scenario.distance),
            "-" if forced is None else str(forced),
            *_cells(planned.figures, planned.reason),
            *_cells(self.peer.figures, ""),
            ", ".join(map(str, sorted(set(self.peer.dry_runs)))),
        ]


def _cells(found: Figures, reason: str) -> list[str]:
    evictions = f"{found.evictions} ({found.dear} of priority 1000)" if found.dear else str(found.evictions)
    end = "yes" if found.repaired else f"no: {reason}" if reason else "no"
    return [evictions, *map(str, (found.cycles, found.refused, found.again, found.pending)), end]


def measure(plane: ControlPlane, scenarios: Sequence[Scenario]) -> list[Row]:
    """Let both repair the same states, one after the other."""
    cleaner = Cleaner(plane.api)
    set_up(plane, scenarios)
    mine = ours.repair(plane, scenarios)
    cleaner.clean()
    set_up(plane, scenarios)
    theirs = peer.repair(plane, scenarios)
    cleaner.clean()
    return [Row(scenario=each, ours=mine[each.name], peer=theirs[each.name]) for each in scenarios]


def _table(rows: Sequence[Row]) -> str:
    return table(HEADS, [*(row.cells for row in rows), *([_sum(rows)] if len(rows) > 9 else [])])


def _short(rows: Sequence[Row]) -> str:
    """Return the sums, apart for states whose repair can be forced and for those where it cannot."""
    groups = {
        "repair can be forced": [row for row in rows if row.scenario.forced() is not None],
        "it cannot": [row for row in rows if row.scenario.forced() is None],
    }
    heads = ["states", "least", *(f"{who}: {what}" for who in ("Rebalancer", "descheduler") for what in SUMS)]
    lines = []
    for title, found in groups.items():
        least = sum(row.scenario.distance for row in found)
        sums = [*_sums([row.ours.figures for row in found]), *_sums([row.peer.figures for row in found])]
        lines.append([f"{len(found)} where {title}", str(least), *sums])
    return table(heads, lines)


SUMS = ("evictions", "429", "again", "Pending", "repaired")


def _sums(found: Sequence[Figures]) -> list[str]:
    sums = [sum(getattr(outcome, field) for outcome in found) for field in ("evictions", "refused", "again", "pending")]
    return [*map(str, sums), f"{sum(outcome.repaired for outcome in found)} of {len(found)}"]


def _sum(rows: Sequence[Row]) -> list[str]:
    """Return the last row of a table: sums, and how many of the states were repaired."""

    def sums(found: Sequence[Figures]) -> list[str]:
        evictions, *rest = _sums(found)
        return [evictions, str(sum(outcome.cycles for outcome in found)), *rest]

    forced = [each for each in (row.scenario.forced() for row in rows) if each is not None]
    return [
        "**together**",
        str(sum(row.scenario.distance for row in rows)),
        f"{len(forced)} of {len(rows)}",
        *sums([row.ours.figures for row in rows]),
        *sums([row.peer.figures for row in rows]),
        "",
    ]


def main() -> int:
    """Measure all, and print the tables."""
    rows: list[Row] = []
    try:
        peer.binary()
        with ControlPlane() as plane:
            print(f"{anti_affinity.versions()}\n")
            for title, scenarios in SETS:
                found = measure(plane, scenarios)
                print(f"{title}\n\n{_table(found)}\n", flush=True)
                rows += found
            print(f"In short\n\n{_short(rows)}\n", flush=True)
            anti_affinity.measure(plane)
    except MissingPart as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
