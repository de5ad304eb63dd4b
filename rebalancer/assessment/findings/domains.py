"""TooFewDomains and DomainUnused: fewer domains than a rule needs, and declared domains without pods."""

from collections.abc import Iterator, Sequence

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.controllers import PodController, members
from rebalancer.assessment.domains import named_domains
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.node_index import required_part
from rebalancer.scheduling.view import View


def too_few_domains_findings(
    groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], view: View
) -> Iterator[Finding]:
    """Yield limits, `minDomains` and anti-affinity that need more domains than exist."""
    for limit in limits:
        if limit.reason is Reason.TOO_FEW_DOMAINS:
            yield Finding(
                kind=FindingKind.TOO_FEW_DOMAINS,
                object=_object_of(limit.gathered),
                message=f"{limit.group}/{limit.limit}: {limit.message}. Add nodes in more domains, or relax the limit",
                workloads=limit.gathered.owners,
            )
    for group in groups:
        for evaluated in group.hard:
            there, least = len(evaluated.counts.by_domain), evaluated.constraint.min_domains
            if there < least:
                key = evaluated.constraint.key
                message = (
                    f"minDomains of its constraint over {key} is {least}, but only {there} exist, so that each "
                    f"takes at most {evaluated.constraint.max_skew} of its pods. Add domains, or lower minDomains"
                )
                if least == 1:  # also the default where minDomains is not set
                    message = (
                        f"no node that counts for its constraint over {key} has this label: none of its pods can be "
                        "placed. Correct the topologyKey, label the nodes, or let the pods use nodes that have it"
                    )
                for workload in group.spread.workloads:
                    yield workload_finding(FindingKind.TOO_FEW_DOMAINS, workload, message)
    for member in members(view):
        yield from _anti_affinity_finding(member, view)


def _anti_affinity_finding(member: PodController, view: View) -> Iterator[Finding]:
    """Yield a finding where a workload whose anti-affinity separates its pods has more pods than domains."""
    sample, top = member.sample, member.top or member.owner
    if sample is None or top is None or not sample.spec.pod_affinity.anti_required:
        return
    usable = view.nodes.matching(required_part(sample.spec.node_affinity))
    for term in sample.spec.pod_affinity.anti_required:
        if not selects(term, sample.namespace, sample, view):
            continue
        there = _count_domains(term, usable, view)
        if there < top.replicas:
            message = (
                f"its anti-affinity over {term.topology_key} allows one of its {top.replicas} pods per domain, and "
                f"there are {there} domains: the rest stays pending. Add domains, scale down, or use preferred "
                "anti-affinity"
            )
            yield workload_finding(FindingKind.TOO_FEW_DOMAINS, member.reference, message)


def _count_domains(term: PodAffinityTerm, usable: frozenset[str], view: View) -> int:
    """Count the domains of a term; each node without the key is a domain of its own."""
    key = term.topology_key

    def make() -> int:
        values = view.nodes.values(key)
        return len({values.get(node, f"\0{node}") for node in usable})

    return view.memo(("domains that exist", key, usable), make)


# Many branches: one finding, from what is declared to what is held; each `if` leaves out a group that has none.
def unused_domain_findings(gathered: Sequence[LimitGroup], view: View) -> Iterator[Finding]:
    """Yield zones without pods that an affinity names or a limit declares, where there are enough pods."""
    for group in gathered:
        key = group.policy_group.zone_key
        declared = frozenset(
            value for limit in group.policy_group.limits if limit.topology_key == key for value in limit.domains or ()
        )
        meant = declared | (named_domains(key, group.affinities) or frozenset())
        if not meant or len(group.pods) < len(meant):
            continue
        values = view.nodes.values(key)
        held = {values[pod.node] for pod in group.pods if pod.node is not None and pod.node in values}
        empty = sorted(meant - held)
        if empty:
            there = view.nodes.groups(key)
            gone = [value for value in empty if value not in there]
            remedy = (
                "spread constraints do not fill every domain: add minPods to a limit, or minDomains to the constraints"
            )
            if gone:
                remedy = f"no node of {list_names(gone)} exists: add nodes, or remove it from the declaration"
            yield Finding(
                kind=FindingKind.DOMAIN_UNUSED,
                object=_object_of(group),
                message=f"{key} {list_names(empty)} is declared but holds none of {len(group.pods)} pods; {remedy}",
                workloads=group.owners,
            )


def _object_of(group: LimitGroup) -> str:
    return str(group.owners[0]) if len(group.owners) == 1 else group.name
