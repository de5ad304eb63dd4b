"""What `rebalancer lint` says is what happens on real servers: refusals, pending pods, rollouts, drains, lost zones.

The clusters are drawn. An error is never wrong; what was not foretold is counted by its cause.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pytest

from benchmarks.comparison_page import table
from rebalancer.lint.finding import Finding, Rule, Severity
from tests.cluster.linted import Linted, Step, names_zone
from tests.cluster.linted_clusters import draw_cluster
from tests.control_plane.plane import ControlPlane

REFUSED: Final = {
    Rule.UNREADABLE,
    Rule.SELECTOR_MISSES_TEMPLATE,
    Rule.DUPLICATE_CONSTRAINT,
    Rule.MIN_DOMAINS_WITHOUT_HARD,
}
UNPLACED: Final = {Rule.NO_PLACEMENT, Rule.CONTRADICTORY_CONSTRAINTS, Rule.MISSING_DOMAINS, Rule.MISSPELT_KEY}
BUDGETS: Final = {Rule.BUDGET_ALLOWS_NOTHING, Rule.BUDGETS_OVERLAP}
DRAINS: Final = {Rule.DRAIN_NEVER_ENDS, Rule.DRAIN_LEAVES_FEWER}


class Claim(NamedTuple):
    """A finding in a cluster before a step; `happened` is None where nothing shows whether it is so."""

    cluster: str
    step: str
    finding: Finding
    happened: bool | None

    def __str__(self) -> str:
        found = self.finding
        return f"{self.step}: {found.severity} [{found.rule}] {found.manifest.title}: {found.message}"


def hold(steps: Iterable[Step]) -> Iterator[Claim]:
    """Yield all that lint said, with what happened."""
    for step in steps:
        for cluster, findings in step.said.items():
            for found in findings:
                yield Claim(cluster, step.name, found, happens(found, step, cluster))


def happens(found: Finding, step: Step, cluster: str) -> bool | None:
    """Return whether what a finding says before a step is so after it."""
    title, rule = found.manifest.title, found.rule
    is_refused = title in step.refused.get(cluster, ())
    if rule in REFUSED:
        return is_refused if step.name in {"alone", "deployed"} else None
    if is_refused:
        return None
    if rule in BUDGETS or rule in DRAINS:
        return drains(found, step, cluster) if step.name == "drained" else None
    is_rolled_out = step.name == "rolled out" and title in step.objects.get(cluster, ())
    if rule is Rule.ROLLOUT_WEDGES:
        return title in step.undone.get(cluster, ()) if is_rolled_out else None
    if rule is Rule.NOT_WITHOUT_A_ZONE:
        is_lost = step.name == "zone lost" and names_zone(found, *step.objects[cluster])
        return title in step.undone.get(cluster, ()) if is_lost else None
    if rule in UNPLACED:
        if step.name in {"alone", "deployed"} or is_rolled_out:
            return title in step.undone.get(cluster, ())
        return None
    return None


def drains(found: Finding, step: Step, cluster: str) -> bool | None:
    """Return whether pods stay on a drained node, or are fewer once they are evicted."""
    title, stayed = found.manifest.title, step.stayed.get(cluster, {})
    if found.rule in DRAINS:
        return title in stayed or (found.rule is Rule.DRAIN_LEAVES_FEWER and title in step.short.get(cluster, ()))
    held = {one for one in step.held.get(cluster, ()) if selects(found, one)}
    return any(one in stayed for one in held) if held else None


def selects(found: Finding, workload: str) -> bool:
    """Return whether a budget selects the pods of a workload, all of which have the label `of`."""
    labels = found.manifest.find(("spec", "selector", "matchLabels"))
    return "of" in labels or labels["app"] == workload.rpartition("/")[2]


class Surprise(NamedTuple):
    """What happened and no error or warning said before, with the cause."""

    what: str
    cause: str
    cluster: str
    title: str


def find_surprises(steps: Sequence[Step]) -> Iterator[Surprise]:
    """Yield every refusal, workload without all its pods, unfinished rollout or drain that was not foretold."""
    for step in steps:
        for cluster, findings in step.said.items():
            told: set[tuple[str, Rule]] = {
                (one.manifest.title, one.rule) for one in findings if one.severity is not Severity.INFO
            }
            for what, cause, title, rules in events(step, cluster):
                if not any((title, rule) in told for rule in rules) and not (
                    what == "drain does not end" and is_foretold(findings, title)
                ):
                    yield Surprise(what, cause, cluster, title)


def is_foretold(findings: Iterable[Finding], workload: str) -> bool:
    """Return whether a warning of a budget says of a workload's pods that no drain ends."""
    return any(one.rule in BUDGETS and selects(one, workload) for one in findings)


def events(step: Step, cluster: str) -> Iterator[tuple[str, str, str, set[Rule]]]:
    """Yield what went wrong in a step: what, why, the workload, and the rules that foretell it."""
    short, undone = step.short.get(cluster, {}), step.undone.get(cluster, {})
    if step.name == "deployed":
        for title, answer in step.refused.get(cluster, {}).items():
            yield "refused", answer, title, REFUSED
        for title, why in short.items():
            yield "pending after deployment", why, title, UNPLACED
    if step.name == "rolled out":
        for title in step.objects.get(cluster, ()):
            if title in undone and title not in step.before.get(cluster, ()):
                why = short.get(title) or undone[title]
                yield "rollout not done", why, title, UNPLACED | {Rule.ROLLOUT_WEDGES}
    if step.name == "drained":
        for title, why in step.stayed.get(cluster, {}).items():
            yield "drain does not end", why, title, DRAINS
        for title, why in short.items():
            if title not in step.before.get(cluster, ()):
                yield "pending after a drain", why, title, DRAINS | UNPLACED
    if step.name == "zone lost":
        for title, why in short.items():
            if title not in step.before.get(cluster, ()):
                yield "pending after the loss of a zone", why, title, UNPLACED | {Rule.NOT_WITHOUT_A_ZONE}


def run(plane: ControlPlane, seeds: Sequence[int], rollouts: int) -> list[Step]:
    """Do all steps with drawn clusters."""
    linted = Linted(plane, [draw_cluster(seed) for seed in seeds])
    steps = [*linted.deploy()]
    steps += [linted.roll_out(number) for number in range(rollouts)]
    return [*steps, linted.drain(), linted.lose_zones()]


def report(steps: Sequence[Step]) -> list[Claim]:
    """Print the tables, and return the errors that were wrong."""
    claims = [*hold(steps)]
    counts = Counter((one.step, one.finding.severity, one.finding.rule, one.happened) for one in claims)
    heads = ("said before", "rule", "severity", "said", "happened", "not", "nothing shows it")
    rows = []
    for step in dict.fromkeys(one.name for one in steps):
        for rule in Rule:
            for severity in Severity:
                shown = [counts[step, severity, rule, happened] for happened in (True, False, None)]
                if any(shown[:2]):
                    rows.append([step, str(rule), str(severity), *map(str, (sum(shown), *shown))])
    print("\n" + table(heads, rows))
    surprises = [*find_surprises(steps)]
    whys = Counter((one.what, one.cause) for one in surprises)
    print("\n" + table(("not foretold", "cause", "number"), [[*why, str(n)] for why, n in sorted(whys.items())]))
    for one in surprises:
        print(*one, sep=" | ")
    wrong = [one for one in claims if one.happened is False]
    for claim in wrong:
        print("NOT:", claim)
    return [one for one in wrong if one.finding.severity is Severity.ERROR]


def test_no_error_is_wrong(cluster: ControlPlane) -> None:
    """Eight drawn clusters, one rollout in each."""
    wrong = report(run(cluster, range(8), rollouts=1))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.thorough
def test_no_error_is_wrong_in_sixty_clusters(cluster: ControlPlane) -> None:
    """The tables of docs/lint.md."""
    wrong = report(run(cluster, range(100, 160), rollouts=3))
    assert not wrong, "\n".join(map(str, wrong))
