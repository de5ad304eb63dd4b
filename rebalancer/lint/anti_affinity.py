"""Required anti-affinity of a workload to itself: each domain holds one of its pods."""

from collections.abc import Iterator

from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.manifest import Manifest
from rebalancer.lint.terms import own_terms
from rebalancer.model.nodes import HOSTNAME


def check_anti_affinity(manifest: Manifest) -> Iterator[Finding]:
    """Yield terms over larger domains than nodes, with the number of domains that all replicas need."""
    replicas = max(manifest.replicas, manifest.sizes[-1])
    which = "" if replicas == manifest.replicas else ", as many as its autoscaler may choose,"
    for path, term in own_terms(manifest, apart=True):
        if replicas > 1 and term.topology_key != HOSTNAME:
            yield Finding(
                rule=Rule.ANTI_AFFINITY_DOMAINS,
                severity=Severity.INFO,
                manifest=manifest,
                path=path,
                message=f"required anti-affinity over {term.topology_key} allows one pod in each domain: "
                f"{replicas} replicas{which} need {replicas} of them",
            )
