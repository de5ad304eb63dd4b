"""All rules over all manifests of a call."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rebalancer.lint.anti_affinity import check_anti_affinity
from rebalancer.lint.budgets import check_budgets
from rebalancer.lint.constraints import check_constraints
from rebalancer.lint.finding import Finding, Rule, Severity, sort_findings
from rebalancer.lint.keys import check_keys
from rebalancer.lint.manifest import ROOT, Manifest, Manifests
from rebalancer.lint.rollouts import check_rollouts
from rebalancer.lint.selectors import check_selectors

_OF_ONE: Final[Sequence[Callable[[Manifest], Iterator[Finding]]]] = (
    check_selectors,
    check_keys,
    check_constraints,
    check_rollouts,
    check_anti_affinity,
)
"""What follows from one manifest alone."""


def lint(manifests: Manifests) -> Sequence[Finding]:
    """Return what the rules find, by file and line."""
    return sort_findings(_find(manifests))


def _find(manifests: Manifests) -> Iterator[Finding]:
    for manifest in manifests.every:
        if manifest.problem:
            yield Finding(
                rule=Rule.UNREADABLE,
                severity=Severity.ERROR,
                manifest=manifest,
                path=ROOT,
                message=f"{manifest.problem}: the API server refuses it" if manifest.kind else manifest.problem,
            )
        for check in _OF_ONE:
            yield from check(manifest)
    yield from check_budgets(manifests)
