"""Rolling updates that cannot proceed, and the skew that other rolling updates leave."""

from bisect import bisect_left
from collections.abc import Iterator

from rebalancer.lint.finding import Finding, Operation, Rule, Severity, set_field
from rebalancer.lint.ground import Ground, reference_of
from rebalancer.lint.manifest import Manifest, Path
from rebalancer.lint.rollout_skew import find_rollout_skew
from rebalancer.lint.steps import is_played
from rebalancer.lint.strategy import RollingUpdate, is_paused, read_rolling_update
from rebalancer.lint.terms import TEMPLATE_HASH, own_terms, splits_revisions
from rebalancer.lint.wedging_spread import counts_all_revisions, describe_wedging_spread, find_wedging_spreads
from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.pods import Pod
from rebalancer.model.words import plural
from rebalancer.model.workloads import Workload
from rebalancer.resilience.bounds import find_bounds
from rebalancer.resilience.loss import Loss, Service
from rebalancer.resilience.reason import Reasons


def check_rollouts(manifest: Manifest, ground: Ground | None = None) -> Iterator[Finding]:
    """Yield surprising effects of a Deployment's rolling update; with a cluster, also what happens there."""
    update = read_rolling_update(manifest)
    if update is None or not manifest.replicas:
        return
    worst = manifest if ground is not None else _find_wedged_size(manifest)
    if ground is None:
        yield from _wedged(manifest, worst, None)
        yield from _wedged_by_spread(manifest, worst)
    elif not is_played(manifest, ground):
        yield from [*_first_step(manifest, update, ground)] or _wedged(manifest, worst, ground)
    yield from _skewed(manifest)


def _find_wedged_size(manifest: Manifest) -> Manifest:
    """Return the manifest at the largest size at which no pod may be deleted first; that size needs the most domains.

    A share of missing pods rounds down, so it allows more pods at a larger size.
    """
    sizes = manifest.sizes
    at = bisect_left(sizes, 1, key=lambda size: _count_unavailable(manifest.at_size(size)))
    return manifest.at_size(sizes[at - 1]) if at else manifest


def _count_unavailable(manifest: Manifest) -> int:
    update = read_rolling_update(manifest)
    return update.unavailable if update is not None else 1


def _wedged(manifest: Manifest, worst: Manifest, ground: Ground | None) -> Iterator[Finding]:
    """Yield anti-affinity or a host port that needs more domains than replicas, because no pod may be deleted first.

    `worst` is the manifest at the size that is evaluated.
    """
    update = read_rolling_update(worst)
    if update is None or update.unavailable:
        return
    replicas = worst.replicas
    for path, key, rule in _find_exclusive(manifest):
        noun = "node" if key == HOSTNAME else "domain"
        there = ground.count_domains(manifest, key) if ground is not None else None
        if there is not None and (not there or there > replicas):  # another rule reports that no domain is there
            continue
        fewer = "on fewer" if there is None else f"here: {plural(there, noun)} may take its pods"
        yield Finding(
            rule=Rule.ROLLOUT_WEDGES,
            severity=Severity.WARNING,
            manifest=manifest,
            path=path,
            message=f"{_begin(manifest, worst)}, and {rule} keeps it off the {plural(replicas, noun)} of the others: "
            f"it proceeds from {replicas + 1} {noun}s on, and waits for ever {fewer}",
            patch=_allow_one(manifest, update, ground) if there in {None, replicas} else (),
        )


def _find_exclusive(manifest: Manifest) -> Iterator[tuple[Path, str, str]]:
    """Yield the path, key and name of each rule by which two pods of a template exclude each other, at any revision."""
    for path, term in own_terms(manifest, apart=True):
        if not splits_revisions(term.match_label_keys):
            yield path, term.topology_key, f"required anti-affinity over {term.topology_key}"
    template = manifest.workload.template if manifest.workload is not None else None
    if template is not None and template.spec.host_ports and manifest.template is not None:
        port = template.spec.host_ports[0]
        yield (*manifest.template, "spec"), HOSTNAME, f"hostPort {port.port} ({port.protocol})"


def _wedged_by_spread(manifest: Manifest, worst: Manifest) -> Iterator[Finding]:
    """Yield hard constraints that need another domain because no pod may be deleted first.

    Constraints over zones rarely keep a rollout waiting.
    """
    update = read_rolling_update(worst)
    if update is None or update.unavailable:
        return
    for one in find_wedging_spreads(manifest, worst.replicas):
        rare = one.closes and one.constraint.topology_key != HOSTNAME
        yield Finding(
            rule=Rule.ROLLOUT_WEDGES,
            severity=Severity.INFO if rare else Severity.WARNING,
            manifest=manifest,
            path=one.path,
            message=f"{_begin(manifest, worst)}, and {describe_wedging_spread(one)}",
            patch=_allow_one(manifest, update, None),
        )


def _begin(manifest: Manifest, worst: Manifest) -> str:
    chosen = "" if worst.replicas == manifest.replicas else ", which its autoscaler may choose,"
    return (
        f"a rolling update of {plural(worst.replicas, 'replica')}{chosen} begins with one pod more, since "
        f"{_unavailable(worst)}"
    )


def _first_step(manifest: Manifest, update: RollingUpdate, ground: Ground) -> Iterator[Finding]:
    """Yield a rollout that is not searched, if no node admits the first new pod while all old pods run.

    Surplus old pods, which go first, are no finding.
    """
    rollout = ground.find_rollout(manifest)
    if rollout is None or update.unavailable or is_paused(manifest) or not 0 < len(rollout[1]) <= manifest.replicas:
        return
    loss = _make_loss(manifest, rollout[0], ground)
    if loss is None or find_bounds(loss)[0].possible:
        return
    yield Finding(
        rule=Rule.ROLLOUT_WEDGES,
        severity=Severity.WARNING,
        manifest=manifest,
        path=update.unavailable_path,
        message=f"the rollout does not begin: {_unavailable(manifest)}, and no node takes a new pod beside the "
        f"{plural(len(rollout[1]), 'old one')}: {Reasons(loss).find(reference_of(manifest))}",
    )


def _make_loss(manifest: Manifest, owner: Workload, ground: Ground) -> Loss | None:
    """Return a loss of no node in which one new pod of an owner is pending; None if that pod is not known."""
    pod = ground.make_pod(owner)
    if not isinstance(pod, Pod):
        return None
    service = Service(
        workload=reference_of(manifest),
        owner=owner,
        sample=pod,
        unknown=None,
        wanted=1,
        now=0,
        bound=0,
        lost=(),
        pending=1,
        waiting=1,
    )
    return Loss(phase=Phase.GONE, nodes=frozenset(), before=ground.now, after=ground.settled, services=(service,))


def _allow_one(manifest: Manifest, update: RollingUpdate, ground: Ground | None) -> tuple[Operation, ...]:
    """Return the change that lets an old pod go first.

    Empty for a rollout in a known cluster, because there it is not proved that the change helps.
    """
    if ground is not None and ground.find_rollout(manifest) is not None:
        return ()
    return set_field(manifest, update.unavailable_path, 1)


def _unavailable(manifest: Manifest) -> str:
    """Say why no pod may be deleted first: because of the field, or because a share rounds down."""
    written = manifest.find(("spec", "strategy", "rollingUpdate", "maxUnavailable"))
    if written is None or isinstance(written, str):
        return f"maxUnavailable {written or '25%'} of {plural(manifest.replicas, 'replica')} is none"
    return f"maxUnavailable is {written}"


def _skewed(manifest: Manifest) -> Iterator[Finding]:
    """Yield hard constraints that count old pods while new pods are placed."""
    workload = manifest.workload
    if workload is None or workload.template is None or manifest.template is None:
        return
    for number, constraint in enumerate(workload.template.spec.spread):
        if not counts_all_revisions(constraint, workload.template.labels):
            continue
        skew, size = _find_worst_skew(manifest, constraint.max_skew)
        if skew <= constraint.max_skew:
            continue
        at = (*manifest.template, "spec", "topologySpreadConstraints", number)
        keys = [*constraint.match_label_keys, TEMPLATE_HASH]
        chosen = "" if size == manifest.replicas else f", with {size} replicas, which its autoscaler may choose"
        selector = constraint.selector
        is_named = selector is not None and TEMPLATE_HASH in {one.key for one in selector.requirements}
        yield Finding(
            rule=Rule.MISSING_MATCH_LABEL_KEYS,
            severity=Severity.INFO,
            manifest=manifest,
            path=at,
            message=f"while a rolling update goes on, the constraint over {constraint.topology_key} counts old pods "
            f"and new ones together: over three domains it can end with a skew of {skew}, where maxSkew is "
            f"{constraint.max_skew}{chosen}",
            patch=() if is_named else set_field(manifest, (*at, "matchLabelKeys"), keys),
        )


def _find_worst_skew(manifest: Manifest, max_skew: int) -> tuple[int, int]:
    """Return the largest skew that a rolling update leaves at any size that is searched, and the smallest such size."""
    worst = 0, manifest.replicas
    for size in manifest.sizes:
        update = read_rolling_update(manifest.at_size(size))
        assert update is not None
        skew = find_rollout_skew(size, update.surge, update.unavailable, max_skew)
        if skew is None:
            break
        worst = max(worst, (skew, size), key=lambda one: one[0])
    return worst
