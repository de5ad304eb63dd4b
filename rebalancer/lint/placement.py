"""Whether all pods of a manifest find a node: in the cluster as it is, and after the loss of a zone."""

from collections.abc import Collection, Iterator, Mapping

from msgspec import structs

from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import Manifest
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.words import plural
from rebalancer.resilience.loss import Loss, lose
from rebalancer.resilience.reason import Reasons
from rebalancer.resilience.rows import Remaining, Verdict, choose_domains, find_remaining, find_short

_REPLICAS = ("spec", "replicas")


def check_placement(ground: Ground, known: Collection[Manifest]) -> Iterator[Finding]:
    """Yield the workloads of which not every pod finds a node, and those that do not come back after a zone's loss.

    Of the `known` ones it has been said already why they find none.
    """
    found = find_not_whole(lose(ground.deployed, frozenset(), Phase.GONE), ground.by_workload)
    for workload, row in found.items():
        if ground.by_workload[workload] not in known:
            yield _unplaced(ground.by_workload[workload], row, ground)
    whole = ground.by_workload.keys() - found.keys()
    yield from _scaled(ground, whole)
    yield from _lost_zones(ground, whole)


def _scaled(ground: Ground, whole: Collection[Reference]) -> Iterator[Finding]:
    """Yield the workloads of which not every pod finds a node when their autoscalers choose the most."""
    if ground.scaled is None:
        return
    for workload, row in find_not_whole(lose(ground.scaled, frozenset(), Phase.GONE), whole).items():
        if row.verdict is Verdict.NO and row.wanted > ground.by_workload[workload].replicas:
            yield Finding(
                rule=Rule.NO_PLACEMENT_AT_MOST,
                severity=Severity.WARNING,
                manifest=ground.by_workload[workload],
                path=_REPLICAS,
                message=f"scaled to the {row.wanted} replicas of its autoscaler, {describe_most(row)}"
                f"{describe_reason(row)}",
            )


def find_not_whole(loss: Loss, included: Collection[Reference]) -> Mapping[Reference, Remaining]:
    """Return the included workloads of which not every pod finds a node, with the reason.

    Where an order of placements leaves none of its pods without a node, a workload is not asked about: it may be whole.
    Of more pods than are played, those that no order makes whole are found by sums alone.
    """
    reasons = Reasons(loss)
    if reasons.stuck is None:
        return {row.workload: row for row in find_short(loss, included.__contains__)}
    asked = {workload for workload in reasons.stuck if workload in included}
    rows = list(find_remaining(loss, asked.__contains__, briefly=True)) if asked else []
    return {
        row.workload: structs.replace(row, reason=row.reason or reasons.find(row.workload))
        for row in rows
        if row.verdict is not Verdict.YES
    }


def _unplaced(manifest: Manifest, row: Remaining, ground: Ground) -> Finding:
    short = row.verdict is Verdict.NO
    verb = "is" if row.wanted == 1 else "are"
    least = f"{row.guaranteed} of {plural(row.wanted, 'pod')} {verb} certain to find a node"
    counts_old = short and _counts_old_pods(manifest, ground)
    return Finding(
        rule=Rule.NO_PLACEMENT,
        severity=Severity.ERROR if short and not counts_old else Severity.WARNING,
        manifest=manifest,
        path=_REPLICAS,
        message=f"{'placed anew, ' * counts_old}{describe_most(row) if short else least}{describe_reason(row)}",
    )


def _counts_old_pods(manifest: Manifest, ground: Ground) -> bool:
    """Return whether new pods of a rollout may go where they do not without the old ones, which their rules count."""
    rollout = ground.find_rollout(manifest)
    if rollout is None or not rollout[1] or rollout[0].template is None:
        return False
    spec = rollout[0].template.spec
    hard = any(one.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE for one in spec.spread)
    return hard or bool(spec.pod_affinity.required)


def describe_most(row: Remaining) -> str:
    """Say how many pods of a workload find a node at best."""
    if not row.possible:
        return f"none of {plural(row.wanted, 'pod')} finds a node"
    return f"at most {row.possible} of {plural(row.wanted, 'pod')} find a node"


def describe_reason(row: Remaining) -> str:
    """Say why, "" where too many pods wait for a look at it."""
    return f": {row.reason}" if row.reason is not None else ""


def _lost_zones(ground: Ground, whole: Collection[Reference]) -> Iterator[Finding]:
    """Yield the workloads that do not come back whole once the nodes of some zone are gone, by their worst zone."""
    worst: dict[Reference, tuple[int, str, Remaining]] = {}
    for zone, nodes in choose_domains(ZONE, ground.deployed).items():
        for workload, row in find_not_whole(lose(ground.deployed, nodes, Phase.GONE), whole).items():
            if row.verdict is Verdict.NO and row.possible < worst.get(workload, (row.wanted,))[0]:
                worst[workload] = row.possible, zone, row
    for workload, (_, zone, row) in worst.items():
        yield Finding(
            rule=Rule.NOT_WITHOUT_A_ZONE,
            severity=Severity.WARNING,
            manifest=ground.by_workload[workload],
            path=_REPLICAS,
            message=f"without zone {zone} {describe_most(row)}{describe_reason(row)}",
        )
