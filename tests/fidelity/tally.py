"""Figures over many trials: how often the model was correct, and how often it gave a certain prediction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tests.control_plane.manifests import ZONE
from tests.fidelity.arena import Trial

FLOORS: Final = {"hard": 0.75, "soft": 0.80, "default": 0.88}
"""How often the zone must be called certain, of trials with several zones, over *equal* and *mixed* in equal parts."""


@dataclass
class Tally:
    """Counts of trials, by what they showed."""

    clusters: int = 0
    trials: Counter[str] = field(default_factory=Counter)
    """By family."""
    results: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    certain: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Trials with several zones in which the zone was certain, by (family, kind)."""
    totals: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Trials with several zones in which the pod found a place, by (family, kind)."""
    plugins: Counter[str] = field(default_factory=Counter)
    """Scores compared, by plugin."""

    def add(self, trial: Trial) -> None:
        """Count a trial."""
        prediction, decision = trial.prediction, trial.decision
        self.trials[trial.family] += 1
        self.wrong += [
            f"seed {trial.seed}, {trial.family}, {prediction.pod}: {difference}" for difference in trial.wrong
        ]
        for plugin, scored in decision.scores.items():
            self.plugins[plugin] += len(scored)
        if decision.failure:
            self.results["pending, message equal"] += 1
            return
        self.results["feasible set equal"] += 1
        self.results["every score equal"] += bool(decision.totals)
        if not decision.landing:
            return
        self.results["landed on a candidate"] += 1
        self.results["landed on the node guessed"] += decision.landing == prediction.likely
        self.results["node certain"] += len(prediction.candidates) == 1
        if trial.several_zones:
            self.totals[trial.family, trial.kind] += 1
            # A node without the label is a place too: where all candidates lack it, that is certain.
            zone_of = trial.view.nodes.values(ZONE)
            zones = {zone_of.get(node) for node in prediction.candidates}
            if len(zones) == 1:
                self.certain[trial.family, trial.kind] += 1
                if zone_of.get(decision.landing) not in zones:
                    self.wrong.append(f"seed {trial.seed}: {zones} was certain, {decision.landing} is not there")

    def share(self, kind: str) -> float:
        """Return how often the zone was certain for a kind of pod, *equal* and *mixed* in equal parts."""
        shares = [self.certain[family, kind] / max(1, self.totals[family, kind]) for family in ("equal", "mixed")]
        return sum(shares) / len(shares)

    def report(self) -> str:
        """Return the figures as lines of a table."""
        lines = [f"clusters: {self.clusters}; pods placed by both: {sum(self.trials.values())} {dict(self.trials)}"]
        lines.append(f"differences: {len(self.wrong)}")
        lines += [f"  {name}: {count}" for name, count in sorted(self.results.items())]
        lines.append(f"scores compared: {dict(sorted(self.plugins.items()))}")
        for kind in ("hard", "soft", "both", "default", "none"):
            if not (self.totals["equal", kind] and self.totals["mixed", kind]):
                continue
            counts = {
                family: f"{self.certain[family, kind]}/{self.totals[family, kind]}"
                for family in ("equal", "mixed", "wild")
            }
            lines.append(f"zone certain, {kind}: {self.share(kind):.1%} (equal and mixed in equal parts; {counts})")
        return "\n".join(lines)
