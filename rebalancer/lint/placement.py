"""Whether all pods of a manifest find a node: in the cluster as it is, and after the loss of a zone."""

from collections.abc import Collection, Iterator

from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import Manifest
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.model.words import plural
from rebalancer.resilience.loss import lose
from rebalancer.resilience.rows import Remaining, Verdict, find_remaining, find_resilience

_REPLICAS = ("spec", "replicas")


def check_placement(ground: Ground, known: Collection[Manifest]) -> Iterator[Finding]:
    """Yield the workloads of which not every pod finds a node, and those that do not come back after a zone's loss.

    Of the `known` ones it has been said already why they find none.
    """
    rows = find_remaining(lose(ground.deployed, frozenset(), Phase.GONE), ground.by_workload.__contains__)
    found = {row.workload: row for row in rows if row.verdict is not Verdict.YES}
    for workload, row in found.items():
        if ground.by_workload[workload] not in known:
            yield _unplaced(ground.by_workload[workload], row)
    yield from _lost_zones(ground, ground.by_workload.keys() - found.keys())


def _unplaced(manifest: Manifest, row: Remaining) -> Finding:
    certain = row.verdict is Verdict.NO
    least = f"{row.guaranteed} of {plural(row.wanted, 'pod')} are certain to find a node"
    return Finding(
        rule=Rule.NO_PLACEMENT,
        severity=Severity.ERROR if certain else Severity.WARNING,
        manifest=manifest,
        path=_REPLICAS,
        message=f"{describe_most(row) if certain else least}: {row.reason}",
    )


def describe_most(row: Remaining) -> str:
    """Say how many pods of a workload find a node at best."""
    if not row.possible:
        return f"none of {plural(row.wanted, 'pod')} finds a node"
    return f"at most {row.possible} of {plural(row.wanted, 'pod')} find a node"


def _lost_zones(ground: Ground, whole: Collection[Reference]) -> Iterator[Finding]:
    """Yield the workloads that do not come back whole once the nodes of some zone are gone, by their worst zone."""
    worst: dict[Reference, tuple[int, str, Remaining]] = {}
    for lost in find_resilience(ground.deployed, [ZONE], [Phase.GONE], whole.__contains__):
        for row in lost.rows:
            if row.verdict is not Verdict.NO:
                continue
            known = worst.get(row.workload)
            if known is None or row.possible < known[0]:
                worst[row.workload] = row.possible, lost.value, row
    for workload, (_, zone, row) in worst.items():
        yield Finding(
            rule=Rule.NOT_WITHOUT_A_ZONE,
            severity=Severity.WARNING,
            manifest=ground.by_workload[workload],
            path=_REPLICAS,
            message=f"without zone {zone} {describe_most(row)}: {row.reason}",
        )
