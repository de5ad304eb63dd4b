"""Domains without nodes in one line each: which workloads would violate their constraints with a node there."""

from collections.abc import Collection, Iterable

from rebalancer.assessment.domains_without_nodes import DomainWithoutNodes
from rebalancer.assessment.findings.missing_domains import describe_source
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import FindingKind
from rebalancer.reporting.keys import short_key
from rebalancer.reporting.phrases import name_list


def missing_domain_lines(rows: Iterable[DomainWithoutNodes], chosen: Collection[Reference] | None = None) -> list[str]:
    """Return a line for each domain and source; `chosen` are the workloads of interest, None for all."""
    workloads: dict[str, dict[Reference, None]] = {}
    for row in rows:
        affected = [workload for workload in row.workloads if chosen is None or workload in chosen]
        if row.would_violate and affected:
            domain = f"{short_key(row.topology_key)} {row.domain.value} has no node ({describe_source(row.domain)})"
            workloads.setdefault(domain, {}).update(dict.fromkeys(affected))
    return [
        f"{FindingKind.DOMAIN_WITHOUT_NODES}: {domain}: with a node there, the pods of {name_list(map(str, names))} "
        "would violate maxSkew"
        for domain, names in workloads.items()
    ]
