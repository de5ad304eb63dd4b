"""What happens to drawn clusters held against what lint has said before each step: claims, events and their tables.

A claim is a finding, with whether it came true. An event is what went wrong, with what had been said of it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, NamedTuple

from benchmarks.tables import table
from rebalancer.lint.finding import Finding, Rule, Severity
from tests.control_plane.resources import Manifest, key_of

ALONE, DEPLOYED, ROLLED_OUT, DRAINED, ZONE_LOST = "manifests alone", "deployment", "rollout", "drain", "loss of a zone"
"""The steps before which lint is run; the first time without the cluster."""


@dataclass(frozen=True)
class Step:
    """One step of all clusters: `said` is what lint said of each before, the rest what came of it, by their names.

    `objects` are the Deployment, the node or the zone that it is about. `short` are the workloads of which fewer pods
    are on nodes than wanted, `undone` those that have not all of them Ready and of their template, both with the
    reason; `before` were short when the step began. `refused` are the objects that the API server refused, with its
    answer. `held` are the workloads with pods on the node that is drained, `stayed` those of which a pod is still
    there once every eviction that is left is refused, with the refusal.
    """

    name: str
    said: Mapping[str, Sequence[Finding]]
    _: KW_ONLY
    objects: Mapping[str, Sequence[str]] = field(default_factory=dict)
    before: Mapping[str, Collection[str]] = field(default_factory=dict)
    short: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    undone: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    held: Mapping[str, Collection[str]] = field(default_factory=dict)
    stayed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


REFUSED: Final = {
    Rule.UNREADABLE,
    Rule.REFUSED_VALUE,
    Rule.SELECTOR_MISSES_TEMPLATE,
    Rule.DUPLICATE_CONSTRAINT,
    Rule.MIN_DOMAINS_WITHOUT_HARD,
}
UNPLACED: Final = {Rule.NO_PLACEMENT, Rule.CONTRADICTORY_CONSTRAINTS, Rule.MISSING_DOMAINS, Rule.MISSPELT_KEY}
BUDGETS: Final = {Rule.BUDGET_ALLOWS_NOTHING, Rule.BUDGETS_OVERLAP}
DRAINS: Final = {Rule.DRAIN_NEVER_ENDS, Rule.DRAIN_LEAVES_FEWER, Rule.DRAIN_ORDER}
WEDGES: Final = {Rule.ROLLOUT_WEDGES}

ABOUT: Final[Mapping[str, Collection[Rule]]] = {
    ALONE: set(Rule) - {Rule.MISSING_MATCH_LABEL_KEYS, Rule.ANTI_AFFINITY_DOMAINS},
    DEPLOYED: {Rule.NO_PLACEMENT, Rule.MISSING_DOMAINS, *WEDGES},
    ROLLED_OUT: {Rule.NO_PLACEMENT, *WEDGES},
    DRAINED: DRAINS,
    ZONE_LOST: {Rule.NOT_WITHOUT_A_ZONE},
}
"""The rules of which something happens, or not, after lint was run before a step."""


class Claim(NamedTuple):
    """A finding in a cluster before a step; `happened` is None where nothing shows whether it is so."""

    step: str
    finding: Finding
    happened: bool | None

    def __str__(self) -> str:
        found = self.finding
        return f"{self.step}: {found.severity} [{found.rule}] {found.manifest.title}: {found.message}"


def find_claims(steps: Sequence[Step]) -> Iterator[Claim]:
    """Yield what lint said before the steps that they are about, with what happened."""
    for step in steps:
        for cluster, findings in step.said.items():
            for found in findings:
                if found.severity is Severity.INFO:
                    continue
                if found.rule in ABOUT[step.name] and is_about(found, step, cluster):
                    yield Claim(step.name, found, happens(found, step, cluster, steps))


def is_about(found: Finding, step: Step, cluster: str) -> bool:
    """Return whether a step tries what a finding says: this rollout, the loss of this zone."""
    if step.name == ZONE_LOST:
        return names_zone(found, *step.objects[cluster])
    return step.name != ROLLED_OUT or found.manifest.title in step.objects.get(cluster, ())


def happens(found: Finding, step: Step, cluster: str, steps: Sequence[Step]) -> bool | None:
    """Return whether what a finding says before a step is so after it, or after the one that shows it."""
    title, rule = found.manifest.title, found.rule
    if rule in REFUSED:
        return title in step.refused.get(cluster, ())
    if title in step.refused.get(cluster, ()):
        return None
    if rule in BUDGETS or rule in DRAINS:
        (drained,) = [one for one in steps if one.name == DRAINED]
        return drains(found, drained, cluster)
    if rule in WEDGES:
        tried = [one for one in steps if one.name == ROLLED_OUT and title in one.objects.get(cluster, ())]
        return title in tried[0].undone.get(cluster, ()) if tried else None
    if rule in UNPLACED or rule is Rule.NOT_WITHOUT_A_ZONE:
        return title in step.undone.get(cluster, ())
    return None


def drains(found: Finding, step: Step, cluster: str) -> bool | None:
    """Return whether pods stay on a drained node, or are fewer once they are evicted."""
    title, stayed = found.manifest.title, step.stayed.get(cluster, {})
    if found.rule in DRAINS:
        is_fewer = title in step.short.get(cluster, ())
        return title in stayed or (found.rule is Rule.DRAIN_LEAVES_FEWER and is_fewer)
    held = [one for one in step.held.get(cluster, ()) if selects(found, one)]
    return any(one in stayed for one in held) if held else None


def selects(found: Finding, workload: str) -> bool:
    """Return whether a budget selects the pods of a workload, all of which have the label `of`."""
    labels = found.manifest.find(("spec", "selector", "matchLabels"))
    return "of" in labels or labels["app"] == workload.rpartition("/")[2]


class Event(NamedTuple):
    """What went wrong, with the cause, and what had been said of it: `error`, `warning` or nothing."""

    what: str
    cause: str
    title: str
    foretold: str


def find_events(steps: Iterable[Step]) -> Iterator[Event]:
    """Yield every refusal, workload without all its pods, unfinished rollout and drain."""
    for step in steps:
        for cluster, findings in step.said.items():
            for what, causes, rules in _kinds(step, cluster):
                for title, cause in causes.items():
                    yield Event(what, cause, title, foretell(findings, title, rules))


def foretell(findings: Iterable[Finding], title: str, rules: Collection[Rule]) -> str:
    """Return the worst that rules said of a workload, or of a budget of its pods."""
    said = [
        one.severity
        for one in findings
        if one.severity is not Severity.INFO
        and one.rule in rules
        and (selects(one, title) if one.rule in BUDGETS else one.manifest.title == title)
    ]
    return str(min(said, key=lambda one: one.rank)) if said else ""


def _kinds(step: Step, cluster: str) -> Iterator[tuple[str, Mapping[str, str], Collection[Rule]]]:
    """Yield what may go wrong in a step, the workloads with the cause, and the rules that foretell it."""
    before, short = step.before.get(cluster, ()), step.short.get(cluster, {})
    fewer = {title: why for title, why in short.items() if title not in before}
    undone = step.undone.get(cluster, {})
    if step.name == DEPLOYED:
        yield "the API server refuses an object", step.refused.get(cluster, {}), REFUSED
        yield "pods pending after the deployment", short, UNPLACED
    elif step.name == ROLLED_OUT:
        tried = [title for title in step.objects.get(cluster, ()) if title in undone]
        yield "rollout does not end", {title: short.get(title, undone[title]) for title in tried}, UNPLACED | WEDGES
    elif step.name == DRAINED:
        yield "drain does not end", step.stayed.get(cluster, {}), DRAINS | BUDGETS
        yield "pods pending after the drain", fewer, DRAINS | UNPLACED
    elif step.name == ZONE_LOST:
        yield "pods pending after the loss of a zone", fewer, UNPLACED | {Rule.NOT_WITHOUT_A_ZONE}


def report(claims: Sequence[Claim], events: Sequence[Event]) -> Sequence[Claim]:
    """Print the tables of docs/results.md, and return the errors that were wrong."""
    print(f"\n{_claims_table(claims)}\n\n{_events_table(events)}\n")
    for event in events:
        if not event.foretold:
            print("not foretold:", event)
    wrong = [one for one in claims if one.happened is False]
    print("\n".join(f"not so: {claim}" for claim in wrong))
    return [one for one in wrong if one.finding.severity is Severity.ERROR]


def _claims_table(claims: Sequence[Claim]) -> str:
    counts = Counter((one.step, one.finding.rule, one.finding.severity, one.happened) for one in claims)
    rows = []
    for step, rules in ABOUT.items():
        for rule in sorted(rules, key=list(Rule).index):
            for severity in Severity:
                shown = [counts[step, rule, severity, happened] for happened in (True, False, None)]
                if any(shown):
                    rows.append([step, f"`{rule}`", str(severity), *map(str, (sum(shown), *shown))])
    return table(("before", "rule", "severity", "said", "happened", "not", "not tried"), rows)


def _events_table(events: Sequence[Event]) -> str:
    rows = []
    for what in dict.fromkeys(event.what for event in events):
        foretold = Counter(event.foretold for event in events if event.what == what)
        causes = Counter(event.cause for event in events if event.what == what and not event.foretold)
        shown = ", ".join(f"{cause}: {number}" for cause, number in sorted(causes.items())) or "—"
        rows.append([what, *map(str, (foretold.total(), *(foretold[key] for key in ("error", "warning", "")))), shown])
    return table(("what happened", "times", "error", "warning", "not foretold", "cause"), rows)


def title_of(manifest: Manifest) -> str:
    """Return kind, namespace and name, as findings say them."""
    return f"{manifest['kind']} {'/'.join(key_of(manifest))}"


def names_zone(found: Finding, zone: str) -> bool:
    """Return whether a finding is about the loss of this zone."""
    return found.rule is Rule.NOT_WITHOUT_A_ZONE and found.message.startswith(f"without zone {zone} ")


WHYS: Final = {
    "topology spread": "spread",
    "satisfy existing pods anti-affinity": "anti-affinity",
    "match pod anti-affinity": "anti-affinity",
    "match pod affinity": "affinity",
    "Insufficient cpu": "cpu",
    "were unschedulable": "cordoned",
    "missing required label": "spread",
}


def name_causes(message: str) -> str:
    """Return what the scheduler says of a pod that finds no node, in the words of the tables."""
    found = dict.fromkeys(word for text, word in WHYS.items() if text in message)
    return ", ".join(sorted(found)) or "node selector"
