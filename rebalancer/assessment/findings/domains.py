"""TooFewDomains and DomainUnused: fewer domains than a rule needs, and declared ones that hold nothing."""

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
    """Yield what needs more domains than there are: limits, `minDomains`, and pods that keep apart from their own."""
    for limit in limits:
        if limit.reason is Reason.TOO_FEW_DOMAINS:
            yield Finding(
                kind=FindingKind.TOO_FEW_DOMAINS,
                object=_name(limit.gathered),
                message=f"{limit.group}/{limit.limit}: {limit.message}. Add nodes in more domains, or loosen the limit",
                workloads=limit.gathered.owners,
            )
    for judged in groups:
        for each in judged.hard:
            there, least = len(each.counts.by_domain), each.constraint.min_domains
            if there < least:
                key = each.constraint.key
                message = (
                    f"minDomains of its constraint over {key} is {least}, and {there} exist: each "
                    f"takes {each.constraint.max_skew} of its pods at most. Add domains, or lower minDomains"
                )
                if least == 1:  # what none given means, too
                    message = (
                        f"no node that counts for its constraint over {key} has this label: none of its pods can be "
                        "placed. Correct the topologyKey, label the nodes, or let the pods use nodes that have it"
                    )
                for workload in judged.group.workloads:
                    yield workload_finding(FindingKind.TOO_FEW_DOMAINS, workload, message)
    for member in members(view):
        yield from _apart(member, view)


def _apart(member: PodController, view: View) -> Iterator[Finding]:
    """Yield a finding where pods that keep away from their own kind are more than the domains."""
    sample, top = member.sample, member.top or member.owner
    if sample is None or top is None or not sample.spec.pod_affinity.anti_required:
        return
    usable = view.nodes.matching(required_part(sample.spec.node_affinity))
    for term in sample.spec.pod_affinity.anti_required:
        if not selects(term, sample.namespace, sample, view):
            continue
        there = _existing(term, usable, view)
        if there < top.replicas:
            message = (
                f"its anti-affinity over {term.topology_key} keeps its {top.replicas} pods apart, and there are "
                f"{there} domains: the rest stays pending. Add domains, scale down, or prefer instead of requiring"
            )
            yield workload_finding(FindingKind.TOO_FEW_DOMAINS, member.reference, message)


def _existing(term: PodAffinityTerm, usable: frozenset[str], view: View) -> int:
    """Count the domains of a term; each node without the key is a place of its own."""
    key = term.topology_key

    def make() -> int:
        values = view.nodes.values(key)
        return len({values.get(node, f"\0{node}") for node in usable})

    return view.memo(("domains that exist", key, usable), make)


def unused_domain_findings(gathered: Sequence[LimitGroup], view: View) -> Iterator[Finding]:
    """Yield the zones that pods' affinity names, or a limit declares, and that hold none although there are enough."""
    for group in gathered:
        key = group.group.zone_key
        declared = frozenset(
            value for limit in group.group.limits if limit.topology_key == key for value in limit.domains or ()
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
            remedy = "spread constraints need not fill each domain: add minPods to a limit, or minDomains to them"
            if gone:
                remedy = f"no node of {list_names(gone)} exists: add nodes, or declare it no longer"
            yield Finding(
                kind=FindingKind.DOMAIN_UNUSED,
                object=_name(group),
                message=f"{key} {list_names(empty)} is declared and holds none of {len(group.pods)} pods; {remedy}",
                workloads=group.owners,
            )


def _name(group: LimitGroup) -> str:
    return str(group.owners[0]) if len(group.owners) == 1 else group.name
