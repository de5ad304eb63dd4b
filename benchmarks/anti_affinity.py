"""Rebalancer and its peer on states that violate podAntiAffinity, whose sums docs/comparison.md has.

    python -m benchmarks.anti_affinity       # `python -m benchmarks.comparison` measures it, too

The states are those that the tests draw, and six examples. All lie side by side, each on nodes and in namespaces of its
own, so that one process of the peer can act on all of them. What is right is a search over all placements.

A state is printed as the apps of the pods on each node, `-` for none, zones divided by bars; an app in capitals is in
another namespace. Least: the fewest evictions after which no two pods share a domain against a term; "-": no placement
keeps all apart. Forced in: the same, where they do it whatever nodes the scheduler picks; "-": it cannot be forced.
Weight: of the violated preferred terms, over all ordered pairs of pods; least weight: of all placements that violate
nothing required.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import Any, Final

from benchmarks import peer
from benchmarks.tables import table
from rebalancer import __version__
from tests.closed_loop.apart import Laid
from tests.closed_loop.ours import ALL_AT_ONCE, run_once
from tests.closed_loop.trial import wait_at_rest
from tests.cluster.controller import policy
from tests.control_plane.audit import Request
from tests.control_plane.build import MissingPart, Versions
from tests.control_plane.cleaning import Cleaner
from tests.control_plane.layout import deployment, lay_out, spread
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.workloads import TEMPLATE_HASH
from tests.planning.anti_affinity.drawn import Drawn, Term, draw, draw_preferring

LAYOUT_SECONDS: Final = 400.0

OURS: Final = "Rebalancer"
PLUGIN: Final = "RemovePodsViolatingInterPodAntiAffinity"
DUPLICATES: Final = "RemoveDuplicates"
NODE_FIT: Final[dict[str, Any]] = {"DefaultEvictor": {"nodeFit": True}}

Run = Callable[[ControlPlane], tuple[Sequence[Request], Mapping[str, str]]]
"""Lets a program repair what is laid out; returns its requests, and its reason for what is left, by namespace."""


class ByRevision(Laid):
    """Deployments whose terms select pods of their own revision only."""

    make = staticmethod(deployment)

    def terms(self, app: str) -> Iterator[tuple[int, Manifest]]:
        """Yield the terms with the key that tells revisions apart."""
        for weight, term in super().terms(app):
            yield weight, {**term, "matchLabelKeys": [TEMPLATE_HASH]}


class AlsoSpread(Laid):
    """Workloads that also spread over the zones, maxSkew 1."""

    def spec(self, app: str) -> Mapping[str, Any]:
        """Return it with the constraint."""
        return {**super().spec(app), "topologySpreadConstraints": [spread(ZONE, labels=self.labels(app))]}


def state(placement: str, *terms: Term) -> Drawn:
    """Return a state of one namespace: pods per node as letters of their apps, zones divided by bars."""
    zones: dict[str, str | None] = {}
    pods: list[tuple[str, str]] = []
    for zone, nodes in zip("abcd", placement.split("|"), strict=False):
        for apps in nodes.split(","):
            name = f"n{len(zones)}"
            zones[name] = zone
            pods += [(app, name) for app in apps.strip(" -")]
    return Drawn(zones, {app: "x" for app, _ in sorted(pods)}, tuple(sorted(pods)), terms)


def avoid(app: str, to: str, weight: int = 0) -> Term:
    """Return the term of an app that keeps away from the pods of another one, or its own, over the nodes."""
    return Term(app, HOSTNAME, to, everywhere=False, weight=weight)


REQUIRED: Final[Sequence[Laid]] = (
    Laid(state("aa|aa|-", avoid("a", "a")), "more-pods-than-nodes"),
    Laid(state("aaab|-|b|-", avoid("a", "b")), "only-others-declare"),
    ByRevision(state("aa|a|-", avoid("a", "a")), "match-label-keys"),
    AlsoSpread(state("aa,-|a,a,-", avoid("a", "a")), "spread-names-the-zone"),
    *(Laid(draw(seed), f"drawn-{seed}") for seed in (*range(8), *range(100, 140))),
)
PREFERRED: Final[Sequence[Laid]] = (
    Laid(state("aa|a|-", avoid("a", "a", 100)), "node-back"),
    Laid(state("aa|a", avoid("a", "a", 100)), "two-nodes"),
    *(Laid(draw_preferring(seed), f"preferring-{seed}") for seed in (*range(4), *range(100, 120))),
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one state: granted evictions, those refused with 429, those of pods that had been moved before.

    `placed` are its pods at the end, by app and node, "" for none; `reason` says why the rest is not repaired, if the
    program says so.
    """

    evictions: int
    refused: int
    again: int
    placed: Sequence[tuple[str, str]]
    reason: str = ""

    @property
    def pending(self) -> int:
        """How many pods have no node."""
        return sum(not node for _, node in self.placed)

    @property
    def bound(self) -> list[tuple[str, str]]:
        """The pods that have one."""
        return [pod for pod in self.placed if pod[1]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A state, and what came of it by each program, in the order of the columns."""

    laid: Laid
    outcomes: Sequence[Outcome]


def outcome(laid: Laid, requests: Iterable[Request], placed: Sequence[tuple[str, str]], reason: str = "") -> Outcome:
    """Return what came of a state, given the requested evictions of all states."""
    own = [request for request in requests if request.namespace in laid.namespaces]
    granted = [request.name for request in own if request.code == 201]
    names = {name for workload in laid.workloads() for name in workload.pod_names}
    return Outcome(
        evictions=len(granted),
        refused=sum(request.code == 429 for request in own),
        again=len(granted) - len(names.intersection(granted)),
        placed=placed,
        reason=reason,
    )


def is_repaired(drawn: Drawn, end: Outcome) -> bool:
    """Return whether no two pods are where a required term forbids it, and none is without a node."""
    return not end.pending and not drawn.conflicts(end.bound)


def least_weight(drawn: Drawn) -> int:
    """Return the least weight of all placements of its pods in which nothing required is violated."""
    apps = [app for app in drawn.namespaces if any(of == app for of, _ in drawn.pods)]
    ways = []
    for app in apps:
        number = sum(of == app for of, _ in drawn.pods)
        ways.append([[(app, node) for node in nodes] for nodes in combinations_with_replacement(drawn.zones, number)])
    placements = ([pod for part in parts for pod in part] for parts in product(*ways))
    return min(drawn.weigh(placement) for placement in placements if not drawn.conflicts(placement))


def title(drawn: Drawn) -> str:
    """Return a state in a line: the apps of the pods on each node, and the terms."""
    upper = {app for app, namespace in drawn.namespaces.items() if namespace != drawn.namespaces["a"]}

    def name(app: str) -> str:
        return app.upper() if app in upper else app

    by_zone: dict[str | None, list[str]] = {}
    for node, zone in sorted(drawn.zones.items(), key=lambda item: (item[1] is None, item[1] or "", item[0])):
        by_zone.setdefault(zone, []).append("".join(name(app) for app, on in drawn.pods if on == node) or "-")
    nodes = " | ".join(f"{'' if zone else 'no zone: '}{','.join(held)}" for zone, held in by_zone.items())
    terms = [
        f"{name(term.app)} {'away from' if not term.weight else f'rather ({term.weight}) away from'} {name(term.to)} "
        f"by {'node' if term.key == HOSTNAME else 'zone'}{', any namespace' if term.everywhere else ''}"
        for term in drawn.terms
    ]
    return f"{nodes} — {'; '.join(terms)}"


def required_table(rows: Sequence[Row], programs: Sequence[str]) -> str:
    """Return the table of the states whose required terms are violated."""
    heads = ["state", "least", "forced in"]
    for program in programs:
        heads += [f"{program}: evictions", "429", "again", "Pending", "repaired"]
    lines = []
    fewest: list[int] = []
    forced: list[int] = []
    for row in rows:
        drawn = row.laid.drawn
        least = drawn.minimum()
        is_forced = least is not None and drawn.can_be_forced(drawn.pods, least)
        fewest += [] if least is None else [least]
        forced += [least] if least is not None and is_forced else []
        cells = [_named(row.laid), "-" if least is None else str(least), str(least) if is_forced else "-"]
        for end in row.outcomes:
            why = f"no: {end.reason}" if end.reason else "no"
            cells += [*_counts([end]), "yes" if is_repaired(drawn, end) else why]
        lines.append(cells)
    sums = ["**together**", str(sum(fewest)), f"{sum(forced)} in {len(forced)} of {len(rows)}"]
    for ends in zip(*(row.outcomes for row in rows), strict=True):
        repaired = sum(is_repaired(row.laid.drawn, end) for row, end in zip(rows, ends, strict=True))
        sums += [*_counts(ends), f"{repaired} of {len(rows)}"]
    return table(heads, [*lines, sums])


def preferred_table(rows: Sequence[Row], programs: Sequence[str]) -> str:
    """Return the table of the states of which only preferred terms are not satisfied."""
    heads = ["state", "weight", "least weight"]
    for program in programs:
        heads += [f"{program}: evictions", "429", "again", "Pending", "weight"]
    least = [least_weight(row.laid.drawn) for row in rows]
    begun = [row.laid.drawn.weigh(row.laid.drawn.pods) for row in rows]
    lines = []
    for row, start, fewest in zip(rows, begun, least, strict=True):
        cells = [_named(row.laid), str(start), str(fewest)]
        for end in row.outcomes:
            cells += [*_counts([end]), str(row.laid.drawn.weigh(end.bound))]
        lines.append(cells)
    sums = ["**together**", str(sum(begun)), str(sum(least))]
    for ends in zip(*(row.outcomes for row in rows), strict=True):
        weights = [row.laid.drawn.weigh(end.bound) for row, end in zip(rows, ends, strict=True)]
        lower = sum(weight < start for weight, start in zip(weights, begun, strict=True))
        sums += [*_counts(ends), f"{sum(weights)}, lower in {lower} of {len(rows)}"]
    return table(heads, [*lines, sums])


def _named(laid: Laid) -> str:
    return f"{laid.name}: {title(laid.drawn)}"


def _counts(ends: Sequence[Outcome]) -> list[str]:
    return [str(sum(getattr(end, field) for end in ends)) for field in ("evictions", "refused", "again", "pending")]


def ours(*kinds: str) -> Run:
    """Return how Rebalancer repairs terms of these kinds."""
    text = policy(
        "Evict",
        interval="1s",
        budgets={**ALL_AT_ONCE, "slowStart": False},
        eligibility={"minAge": "0s", "minReplicas": 1},
        antiAffinity={"actOn": list(kinds), "for": "0s"},
    )

    def run(plane: ControlPlane) -> tuple[Sequence[Request], Mapping[str, str]]:
        done = run_once(plane, text)
        return done.requests, {group["namespace"]: group["reason"] or "" for group in done.left["groups"]}

    return run


def theirs(plugin: str, point: str, arguments: dict[str, Any] | None = None) -> Run:
    """Return how a plugin of the descheduler does, in cycles until one asks for nothing."""

    def run(plane: ControlPlane) -> tuple[Sequence[Request], Mapping[str, str]]:
        mark = plane.audit.mark()
        peer.run(plane, {peer.EVERYWHERE: peer.one_plugin(plugin, point, arguments or {})}, dry_runs=0)
        return plane.audit.evictions(user=peer.USER, since=mark), {}

    return run


PROGRAMS_REQUIRED: Final[Mapping[str, Run]] = {
    OURS: ours("Required"),
    "descheduler": theirs(PLUGIN, "deschedule"),
    "with nodeFit": theirs(PLUGIN, "deschedule", NODE_FIT),
}
PROGRAMS_PREFERRED: Final[Mapping[str, Run]] = {
    OURS: ours("Required", "Preferred"),
    f"descheduler, {PLUGIN}": theirs(PLUGIN, "deschedule"),
    f"descheduler, {DUPLICATES}": theirs(DUPLICATES, "balance"),
}


def compare(plane: ControlPlane, laid: Sequence[Laid], programs: Mapping[str, Run]) -> list[Row]:
    """Let each program repair the same states, one after the other."""
    cleaner = Cleaner(plane.api)
    columns: list[list[Outcome]] = []
    for name, run in programs.items():
        started = time.monotonic()
        lay_out(plane, [part for one in laid for part in one.parts()], timeout=LAYOUT_SECONDS)
        requests, reasons = run(plane)
        wait_at_rest(plane)
        columns.append(
            [
                outcome(one, requests, one.placed(plane.api), next(filter(None, map(reasons.get, one.namespaces)), ""))
                for one in laid
            ]
        )
        cleaner.clean()
        print(f"{name}: {len(laid)} states in {time.monotonic() - started:.0f} s", flush=True)
    return [Row(laid=one, outcomes=ends) for one, ends in zip(laid, zip(*columns, strict=True), strict=True)]


def versions() -> str:
    """Name the programs that are compared."""
    return f"Kubernetes {Versions.wanted().kubernetes}, descheduler {peer.version()}, Rebalancer {__version__}"


def measure(plane: ControlPlane) -> None:
    """Measure all, and print the tables."""
    required = required_table(compare(plane, REQUIRED, PROGRAMS_REQUIRED), [*PROGRAMS_REQUIRED])
    preferred = preferred_table(compare(plane, PREFERRED, PROGRAMS_PREFERRED), [*PROGRAMS_PREFERRED])
    print(f"{versions()}\n\nViolated required terms\n\n{required}\n\nPreferred terms\n\n{preferred}", flush=True)


def main() -> int:
    """Measure on a control plane of its own."""
    try:
        peer.binary()
        with ControlPlane() as plane:
            measure(plane)
    except MissingPart as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
