"""Rebalancer and its peer on the same states of the same real control plane, side by side.

    python -m benchmarks.comparison        # or: make comparison

Prints what it measures and writes docs/comparison.md. Takes some ten minutes, and Go to build the peer once.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks import anti_affinity, peer
from benchmarks.comparison_page import PAGE, table, with_last_sections
from rebalancer import __version__
from tests.closed_loop import ours
from tests.closed_loop.scenario import Scenario
from tests.closed_loop.scenarios import BUDGETED, DEADLOCK, EXAMPLES, FALLS_SHORT, LIMITED, LIMITS, RANDOM
from tests.closed_loop.trial import Figures, set_up
from tests.control_plane.build import MissingPart, Versions
from tests.control_plane.cleaning import Cleaner
from tests.control_plane.plane import ControlPlane

COMMAND = "python -m benchmarks.comparison"

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


def page(rows: Mapping[str, Sequence[Row]], *, today: str, seconds: float) -> str:
    """Return the page, whole."""
    versions = Versions.wanted()
    parts = [
        INTRODUCTION.format(
            today=today,
            minutes=round(seconds / 60),
            ours=__version__,
            peer=peer.version(),
            kubernetes=versions.kubernetes,
            kwok=versions.kwok,
            command=COMMAND,
            most=peer.MOST_CYCLES,
            dry_runs=peer.DRY_RUNS,
        )
    ]
    parts.append(f"## In short\n\n{_short([row for found in rows.values() for row in found])}")
    for title, found in rows.items():
        parts.append(f"## {title}\n\n{_table(found)}")
    return "\n\n".join(parts) + "\n"


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


INTRODUCTION = """\
# Comparison with the descheduler

Rebalancer {ours} and [descheduler](https://github.com/kubernetes-sigs/descheduler) {peer} on the same states of the
same real control plane: kube-apiserver, kube-controller-manager and kube-scheduler {kubernetes}, KWOK {kwok} in the
place of kubelets. Everything below, except the last two sections, was written by

    {command}

on {today}, in {minutes} minutes. The states are data, in `tests/closed_loop/scenarios.py`; the random ones have fixed
seeds. Evictions and refusals are counted in the API server's audit log.

* Rebalancer ran as `rebalancer run --once` with `mode: Evict` and no budgets of its own (`maxUnavailable: 100%` and so
  on), so that only PodDisruptionBudgets limit it; all times that it waits were set to zero.
* The descheduler ran in one-shot cycles with the plugin `RemovePodsViolatingTopologySpreadConstraint`, constraints
  `DoNotSchedule`, everything else as by default; after each cycle the scheduler settled before the next began. It
  stopped when a cycle asked for nothing, after {most} cycles at the latest. A process was given one namespace only.

A state is written as pods per node, zones divided by bars. **least**: the fewest evictions after which all
constraints can hold, on paper. **forced in**: the fewest that do it whatever nodes the scheduler picks, with one more
than the least allowed, from a full search; "-": it cannot be forced. **429**: evictions that the API server refused for
a budget. **again**: evictions of pods that had been moved before. **Pending**: pods without a node at the end.
**repaired**: all constraints hold and nothing is Pending; else the reason that Rebalancer gives. **dry runs**: the
different numbers of evictions that {dry_runs} dry runs of the descheduler reported for the same state before its first
cycle; Rebalancer's is the same plan, not carried out."""


def main() -> int:
    """Measure all, print and write the page."""
    started = time.monotonic()
    rows: dict[str, list[Row]] = {}
    try:
        peer.binary()
        with ControlPlane() as plane:
            for title, scenarios in SETS:
                rows[title] = measure(plane, scenarios)
                print(f"{title}\n\n{_table(rows[title])}\n", flush=True)
            seconds = time.monotonic() - started
            last = anti_affinity.measure(plane)
    except MissingPart as missing:
        print(missing, file=sys.stderr)
        return 1
    today = datetime.now(UTC).date().isoformat()
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_last_sections(page(rows, today=today, seconds=seconds), old, last), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
