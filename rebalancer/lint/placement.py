"""Whether all pods of a manifest find a node: in the cluster as it is, and after the loss of a zone."""

from collections.abc import Collection, Iterator

from rebalancer.lint.doubts import describe_doubt
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import Manifest
from rebalancer.lint.not_whole import describe_most, describe_reason, find_not_whole
from rebalancer.lint.platforms import check_platforms
from rebalancer.lint.remedies import MAX_REPLICAS, REPLICAS, Remedies, lose_none
from rebalancer.lint.volumes import VolumesUnknown
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.words import plural
from rebalancer.resilience.loss import lose
from rebalancer.resilience.rows import Remaining, Verdict, choose_domains


def check_placement(ground: Ground, known: Collection[Manifest]) -> Iterator[Finding]:
    """Yield the workloads with pods that find no node now, or after the loss of a zone.

    The reasons for the `known` workloads have already been reported.
    """
    found = find_not_whole(lose_none(ground.deployed), ground.by_workload)
    remedies = Remedies(ground, found)
    for workload, row in found.items():
        if ground.by_workload[workload] not in known:
            yield _unplaced(ground.by_workload[workload], row, ground, remedies)
    whole = ground.by_workload.keys() - {one for one, row in found.items() if not _only_volumes_decide(row)}
    yield from _scaled(ground, whole, remedies)
    lost = [*_lost_zones(ground, whole, remedies)]
    yield from lost
    yield from check_platforms(ground, remedies, {one.manifest for one in lost})


def _scaled(ground: Ground, whole: Collection[Reference], remedies: Remedies) -> Iterator[Finding]:
    """Yield the workloads with pods that find no node if their autoscalers choose the most replicas."""
    if ground.scaled is None:
        return
    for workload, row in find_not_whole(lose_none(ground.scaled), whole).items():
        manifest = ground.by_workload[workload]
        if row.verdict is not Verdict.NO or row.wanted <= manifest.replicas:
            continue
        scaler = ground.manifests.find_scaler(manifest)
        at, path, of = manifest, REPLICAS, "its autoscaler"
        patch = remedies.scale(manifest, ground.scaled)
        if not patch and scaler is not None:
            at, path, of = scaler, MAX_REPLICAS, f"this autoscaler of {manifest.title}"
            patch = remedies.limit_scaling(manifest, scaler, row)
        yield Finding(
            rule=Rule.NO_PLACEMENT_AT_MOST,
            severity=Severity.WARNING,
            manifest=at,
            path=path,
            message=f"scaled to {row.wanted} replicas, which {of} may choose, {describe_most(row)}"
            f"{describe_reason(row)}",
            patch=patch,
        )


def _unplaced(manifest: Manifest, row: Remaining, ground: Ground, remedies: Remedies) -> Finding:
    short = row.verdict is Verdict.NO
    verb = "is" if row.wanted == 1 else "are"
    least = f"{row.guaranteed} of {plural(row.wanted, 'pod')} {verb} certain to find a node"
    more = f"; of {manifest.replicas} replicas no more are placed here" if manifest.replicas > row.wanted else ""
    counts_old = short and _counts_old_pods(manifest, ground)
    doubt = describe_doubt(manifest, ground, row.wanted - row.possible) if short else ""
    severity = Severity.ERROR if short and not counts_old and not doubt else Severity.WARNING
    return Finding(
        rule=Rule.NO_PLACEMENT,
        severity=Severity.INFO if _only_volumes_decide(row) else severity,
        manifest=manifest,
        path=REPLICAS,
        message=f"{'placed anew, ' * counts_old}{describe_most(row) if short else least}{describe_reason(row)}"
        f"{more}{f'; {doubt}' if doubt else ''}",
        patch=remedies.place(manifest, row),
    )


def _only_volumes_decide(row: Remaining) -> bool:
    """Return whether all pods certainly find a node, if their volumes, which are unknown, allow it."""
    return isinstance(row.reason, VolumesUnknown) and not row.reason.besides


def _counts_old_pods(manifest: Manifest, ground: Ground) -> bool:
    """Return whether a rollout's new pods may use some nodes only because their rules count old pods."""
    rollout = ground.find_rollout(manifest)
    if rollout is None or not rollout[1] or rollout[0].template is None:
        return False
    spec = rollout[0].template.spec
    hard = any(one.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE for one in spec.spread)
    return hard or bool(spec.pod_affinity.required)


def _lost_zones(ground: Ground, whole: Collection[Reference], remedies: Remedies) -> Iterator[Finding]:
    """Yield the workloads whose pods do not all come back after the loss of some zone, with the worst zone of each."""
    worst: dict[Reference, tuple[str, Remaining]] = {}
    for zone, nodes in choose_domains(ZONE, ground.deployed).items():
        for workload, row in find_not_whole(lose(ground.deployed, nodes, Phase.GONE), whole).items():
            least = worst[workload][1].possible if workload in worst else row.wanted
            if row.verdict is Verdict.NO and row.possible < least:
                worst[workload] = zone, row
    for workload, (zone, row) in worst.items():
        manifest = ground.by_workload[workload]
        yield Finding(
            rule=Rule.NOT_WITHOUT_A_ZONE,
            severity=Severity.WARNING,
            manifest=manifest,
            path=REPLICAS,
            message=f"without zone {zone} {describe_most(row)}{describe_reason(row)}",
            patch=remedies.lose_zone(manifest, zone),
        )
