"""Which of its rules a schedule applies to a request: counts and dice, nothing else."""

from __future__ import annotations

import random

from tests.faults.requests import Target
from tests.faults.schedule import EVENT_FAULTS, Fault, Rule, Schedule


class Chooser:
    """The rules of a schedule for one controller, and how many requests there were for each."""

    def __init__(self, schedule: Schedule, controller: int = 0) -> None:
        rules = [rule for rule in schedule.rules if rule.process in {None, controller}]
        self._rules = rules
        self._counts = [0] * len(rules)
        self._dice = [random.Random(f"{schedule.seed} {number}") for number in range(len(rules))]

    def choose(self, target: Target) -> Rule | None:
        """Count a request, and return the first rule that it falls under."""
        chosen: Rule | None = None
        for number, rule in enumerate(self._rules):
            if rule.covers(target) and (rule.fault not in EVENT_FAULTS or target.verb == "watch"):
                self._counts[number] += 1
                if self._hits(number) and chosen is None:
                    chosen = rule
        return chosen

    def _hits(self, number: int) -> bool:
        rule = self._rules[number]
        if not rule.probability:
            return rule.first <= self._counts[number] < rule.first + rule.count
        # The dice of an event fault are thrown for each event, by the stream.
        return rule.fault in EVENT_FAULTS or self._dice[number].random() < rule.probability

    def interrupts(self, watch: Target) -> Fault | None:
        """Return how a watch that is open when the faults begin must end, so that rules for new requests apply.

        GONE makes its client list again, RESET only watch again; None leaves it open.
        """
        listing = Target(verb="list", resource=watch.resource)
        if any(rule.verb == "list" and rule.covers(listing) for rule in self._rules):
            return Fault.GONE
        if any(rule.covers(watch) and rule.fault not in EVENT_FAULTS for rule in self._rules):
            return Fault.RESET
        return None
