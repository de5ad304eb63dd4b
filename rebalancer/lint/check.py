"""All rules over all manifests of a call."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from rebalancer.lint.anti_affinity import check_anti_affinity
from rebalancer.lint.budgets import check_budgets
from rebalancer.lint.constraints import check_constraints
from rebalancer.lint.domains import check_domains
from rebalancer.lint.drains import check_drain
from rebalancer.lint.evictions import check_evictions
from rebalancer.lint.finding import Finding, Rule, Severity, sort_findings
from rebalancer.lint.ground import Ground, is_placed
from rebalancer.lint.in_order import drop_displaced
from rebalancer.lint.keys import check_keys
from rebalancer.lint.label_keys import check_label_keys
from rebalancer.lint.limit_ranges import check_limit_ranges
from rebalancer.lint.limit_rules import check_limits
from rebalancer.lint.manifest import ROOT, Manifest, Manifests
from rebalancer.lint.others import check_others
from rebalancer.lint.others_limits import check_others_limits
from rebalancer.lint.placement import check_placement
from rebalancer.lint.refusals import check_refusals
from rebalancer.lint.rollouts import check_rollouts
from rebalancer.lint.scale_downs import check_scale_downs
from rebalancer.lint.selectors import check_selectors
from rebalancer.lint.steps import check_steps
from rebalancer.lint.twice import check_twice
from rebalancer.policy import Policy

_ALWAYS: Final[Sequence[Callable[[Manifest], Iterator[Finding]]]] = (
    check_refusals,
    check_selectors,
    check_constraints,
    check_label_keys,
)
"""The rules that need only a single manifest."""

_WITHOUT_A_CLUSTER: Final[Sequence[Callable[[Manifest], Iterator[Finding]]]] = (
    check_keys,
    check_anti_affinity,
    check_rollouts,
    check_scale_downs,
)
"""Rules about a single manifest that are applied in this form only if no cluster is known."""


def lint(
    manifests: Manifests,
    ground: Ground | None = None,
    drained: Sequence[str] = (),
    source: str = "",
    policy: Policy | None = None,
) -> Sequence[Finding]:
    """Return what the rules find, by file and line; with a cluster, also what the manifests cause there.

    `drained` are the nodes of the cluster that are to be drained. `source` is the name of the cluster in findings that
    concern no manifest. The manifests are checked against the limits of `policy`.
    """
    findings = [*_find(manifests), *check_twice(manifests), *check_budgets(manifests)]
    findings += check_limit_ranges(manifests, ground)
    if policy is not None:
        findings += check_limits(manifests, ground, policy)
    if ground is None:
        findings += _find_without_a_cluster(manifests.every)
    else:
        findings += _find_without_a_cluster(one for one in manifests.workloads if not is_placed(one))
        for manifest in manifests.workloads:
            played = list(check_steps(manifest, ground))
            found = check_rollouts(manifest, ground)
            findings += [*played, *(one for one in found if not played or one.rule is not Rule.ROLLOUT_WEDGES)]
        findings += [one for manifest in manifests.workloads for one in check_scale_downs(manifest, ground)]
        missing = list(check_domains(ground))
        known = {one.manifest for one in missing if one.severity is Severity.ERROR}
        findings += [*missing, *check_placement(ground, known), *check_others(ground)]
        findings += check_others_limits(ground, policy) if policy is not None else ()
        findings += [*check_evictions(ground, policy), *check_drain(ground, drained, source)]
    return [*drop_displaced(sort_findings(findings))]


def _find_without_a_cluster(manifests: Iterable[Manifest]) -> Iterator[Finding]:
    for manifest in manifests:
        for check in _WITHOUT_A_CLUSTER:
            yield from check(manifest)


def _find(manifests: Manifests) -> Iterator[Finding]:
    for manifest in manifests.every:
        refused = ": the API server refuses it" if manifest.kind else ""
        for problem, severity in ((manifest.problem, Severity.ERROR), (manifest.caution, Severity.WARNING)):
            if problem:
                yield Finding(
                    rule=Rule.UNREADABLE,
                    severity=severity,
                    manifest=manifest,
                    path=ROOT,
                    message=f"{problem}{refused}",
                )
        for check in _ALWAYS:
            yield from check(manifest)
