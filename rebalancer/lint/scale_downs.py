"""What a scale-down of a StatefulSet leaves: it deletes the highest ordinals, regardless of their domains.

Problem: n pods are within maxSkew s over d domains. Which ordinals share a domain depends on where replacements have
gone.

Idea: the fullest domain holds at most a = s + (n - s) // d pods, the emptiest then at least b. If the a pods have low
ordinals and the b pods have high ordinals, a scale-down to n - b leaves a skew of a.

Example: four pods over three zones, maxSkew 1: web-0 and web-1 may share a zone, and web-3 may be the only pod of
another zone. Scaled to 3, the zones have 2, 1 and 0 pods. Replacing pods one at a time leads to such a placement,
unless s is 1 and n is a multiple of d. Then a replaced pod has only one possible domain, so each ordinal stays where
the first placement, in order, has put it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from rebalancer.assessment.guarantees import most_under
from rebalancer.lint.finding import Finding, Operation, Rule, Severity, set_field
from rebalancer.lint.ground import Ground
from rebalancer.lint.limit_numbers import unattainable_sizes
from rebalancer.lint.limit_sizes import domains_of, show_sizes
from rebalancer.lint.limits import CoveredLimit
from rebalancer.lint.manifest import Manifest, Path
from rebalancer.lint.terms import own_terms
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable

_STATEFUL_SET: Final = "StatefulSet"
_REPLICAS: Final[Path] = ("spec", "replicas")
_DOMAINS: Final = 3
"""The number of domains that is assumed if no cluster is known; constraints over nodes are then not checked."""


class Remainder(NamedTuple):
    """The number of remaining pods, those with the lowest ordinals, whose skew may be largest, and that skew."""

    pods: int
    skew: int


def worst_remainder(pods: int, domains: int, max_skew: int) -> Remainder:
    """Return the worst remainder after a scale-down of `pods` pods that are within `max_skew`."""
    fullest = most_under(pods, domains, max_skew)
    emptiest = max(fullest - max_skew, pods - (domains - 1) * fullest, 0)
    return Remainder(pods - emptiest, fullest)


def stays_in_order(pods: int, domains: int, max_skew: int) -> bool:
    """Return whether pods that are replaced one at a time always return to the places of pods created in order."""
    return max_skew == 1 and pods % domains == 0


def check_scale_downs(manifest: Manifest, ground: Ground | None = None) -> Iterator[Finding]:
    """Yield the hard constraints of a StatefulSet that a scale-down may violate."""
    workload = manifest.workload
    if manifest.kind != _STATEFUL_SET or workload is None or workload.template is None or manifest.template is None:
        return
    apart = {term.topology_key for _, term in own_terms(manifest, apart=True)}
    for number, constraint in enumerate(workload.template.spec.spread):
        if constraint.topology_key in apart:  # no domain ever has two of them
            continue
        domains = _count_domains(manifest, constraint, ground)
        if domains is None or stays_in_order(manifest.replicas, domains, constraint.max_skew):
            continue
        left = worst_remainder(manifest.replicas, domains, constraint.max_skew)
        if left.skew > constraint.max_skew and left.pods < manifest.replicas:
            at = (*manifest.template, "spec", "topologySpreadConstraints", number)
            yield _skewed(manifest, at, constraint, domains, left)


def _count_domains(manifest: Manifest, constraint: SpreadConstraint, ground: Ground | None) -> int | None:
    """Return how many domains a hard constraint spreads its own pods over.

    None for other constraints, if a domain admits no pod, and if there are fewer than two domains or fewer than
    minDomains.
    """
    assert manifest.workload is not None
    assert manifest.workload.template is not None
    key, selector = constraint.topology_key, constraint.selector
    hard = constraint.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    if (
        not hard
        or constraint.match_label_keys
        or selector is None
        or not selector.matches(manifest.workload.template.labels)
    ):
        return None
    if ground is None:
        domains = None if key == HOSTNAME else _DOMAINS
    else:
        open_ones = ground.count_domains(manifest, key)
        domains = open_ones if open_ones == len(ground.empty.nodes.groups(key)) else None
    return domains if domains is not None and domains >= max(2, constraint.min_domains or 1) else None


def _skewed(manifest: Manifest, at: Path, constraint: SpreadConstraint, domains: int, left: Remainder) -> Finding:
    even = -(-manifest.replicas // domains) * domains
    patch: tuple[Operation, ...] = ()
    if constraint.max_skew > 1:
        patch += set_field(manifest, (*at, "maxSkew"), 1)
    if even > manifest.replicas:
        patch += set_field(manifest, _REPLICAS, even)
    return Finding(
        rule=Rule.SCALE_DOWN_SKEW,
        severity=Severity.INFO,
        manifest=manifest,
        path=at,
        message=f"a scale-down deletes the highest ordinals, wherever they are: scaled from {manifest.replicas} to "
        f"{left.pods}, one of {domains} domains of {constraint.topology_key} may have {left.skew} and another none, "
        f"where maxSkew is {constraint.max_skew}. {even} replicas with maxSkew 1 stay within it while pods are "
        "replaced one at a time",
        patch=patch,
    )


def check_limit_on_the_way(covered: CoveredLimit, max_skew: int) -> Iterator[Finding]:
    """Yield a StatefulSet whose scale-down may violate a limit that maxSkew guarantees at its full size."""
    manifest, pods = covered.manifests[0], covered.pods
    if manifest.kind != _STATEFUL_SET or len(covered.limit.parts) > 1 or manifest.replicas != pods:
        return
    domains = covered.domains or 0
    if domains < 2 or stays_in_order(pods, domains, max_skew):
        return
    fullest = most_under(pods, domains, max_skew)
    excluded = unattainable_sizes(pods, covered.cap, domains_of(covered, max_skew))
    sizes = tuple(left for left in range(1, pods) if min(left, fullest) > covered.cap.of(left) and left not in excluded)
    if sizes:
        yield Finding(
            rule=Rule.SCALE_DOWN_SKEW,
            severity=Severity.INFO,
            manifest=manifest,
            path=_REPLICAS,
            message=f"a scale-down deletes the highest ordinals, wherever they are: {fullest} of the lowest may be in "
            f"one domain, which violates {covered.title} when it is scaled to {show_sizes(sizes)}",
            sizes=sizes,
        )
