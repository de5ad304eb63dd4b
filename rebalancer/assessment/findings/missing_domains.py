"""DomainWithoutNodes: a domain that exists, that no node carries, and that would violate a constraint with a node.

Nothing is violated for kube-scheduler, and no pod moves when the domain gets its first node back. But the loss of one
domain takes more of the pods than the constraint intends.
"""

from collections.abc import Iterable, Iterator, Sequence

from rebalancer.assessment.domains_without_nodes import DomainWithoutNodes
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.assessment.known_domains import DomainSource, KnownDomain
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import FindingKind


def domain_without_nodes_findings(rows: Iterable[DomainWithoutNodes]) -> Iterator[Finding]:
    """Yield a finding for each workload, topology key and domain that would violate a constraint."""
    for workload, row in worst_rows(rows):
        if row.would_violate:
            yield workload_finding(FindingKind.DOMAIN_WITHOUT_NODES, workload, describe_domain_without_nodes(row))


def worst_rows(rows: Iterable[DomainWithoutNodes]) -> Sequence[tuple[Reference, DomainWithoutNodes]]:
    """Return one row for each workload, topology key and domain: of several constraints, the one exceeded most."""
    worst: dict[tuple[Reference, str, str], DomainWithoutNodes] = {}
    for row in rows:
        for workload in row.workloads:
            place = workload, row.topology_key, row.domain.value
            known = worst.get(place)
            if known is None or (row.skew - row.max_skew, row.skew) > (known.skew - known.max_skew, known.skew):
                worst[place] = row
    return [(workload, row) for (workload, _, _), row in worst.items()]


def describe_domain_without_nodes(row: DomainWithoutNodes) -> str:
    """Return domain, source, skew, what the loss of one domain takes, and what to do."""
    domain, percent = row.domain, round(100 * row.lost / row.total)
    return (
        f"{row.topology_key} {domain.value} has no node ({describe_source(domain)}): with a node there the skew would "
        f"be {row.skew}, maxSkew is {row.max_skew}; the loss of one domain takes {row.lost} of {row.total} pods "
        f"({percent}%). Add a node in {domain.value}, or list it in topology.ignore of the policy"
    )


def describe_source(domain: KnownDomain) -> str:
    """Return how a domain is known."""
    match domain.source:
        case DomainSource.DECLARED:
            return "declared in topology.domains"
        case DomainSource.NODE_POOL:
            plural = "NodePool" if len(domain.pools) == 1 else "NodePools"
            return f"{plural} {list_names(domain.pools)}"
        case DomainSource.REMEMBERED:
            last = f"{domain.last_seen:%Y-%m-%d %H:%MZ}" if domain.last_seen is not None else "some time ago"
            return f"last seen {last}"
