"""Findings about the keys and domains that constraints and limits name, from a comparison with the existing nodes.

* TopologyKeyMissing: nodes that a workload may use lack the key of one of its constraints, or misspell it. Such a node
  takes no pod under a hard constraint, and its pods are not counted. A topology key of the policy is reported if no
  node at all has it.
* TooFewDomains: fewer domains than a rule needs.
* DomainUnused: declared domains without pods.
* DomainWithoutNodes: a domain exists that no node carries, and a node there would make a constraint violated. Nothing
  is violated for kube-scheduler, and no pod moves when the domain gets its first node back. But the loss of one domain
  takes more of the pods than the constraint intends.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.controllers import PodController, members
from rebalancer.assessment.domains import named_domains
from rebalancer.assessment.domains_without_nodes import DomainWithoutNodes
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.assessment.known_domains import DomainSource, KnownDomain
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.assessment.name_hints import is_misspelling
from rebalancer.assessment.unmatched import Unmatched
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.model.words import plural
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import admitted_by_labels, admitted_by_taints, is_on
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.node_index import NONE, required_part
from rebalancer.scheduling.spread_constraints import Origin
from rebalancer.scheduling.view import View

_READ = 100
"""How many nodes without the key are searched for a misspelling."""

_WELL_KNOWN = frozenset(
    {HOSTNAME, ZONE, "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"}
    | {f"failure-domain.beta.kubernetes.io/{name}" for name in ("zone", "region")}
)
"""Labels that clouds and kubelets set; they cannot be renamed."""

_FAR_MORE = 2
"""If a similar label is on more than this many times as many nodes, the constraint's key counts as misspelt."""


def missing_key_findings(groups: Sequence[EvaluatedGroup], view: View) -> Iterator[Finding]:
    """Yield one finding for each key of a constraint that usable nodes lack."""
    lacking: dict[str, frozenset[str]] = {}
    usable: dict[str, frozenset[str]] = {}
    workloads_of_key: dict[str, dict[Reference, None]] = {}
    for group in groups:
        sample = group.spread.sample
        for constraint in chain(*group.spread.constraints):
            key = constraint.key
            if constraint.origin is Origin.DEFAULT:
                continue
            nodes, without = _usable(sample, key, view)
            if without:
                lacking[key] = lacking.get(key, NONE) | without
                usable[key] = usable.get(key, NONE) | nodes
                workloads_of_key.setdefault(key, {}).update(dict.fromkeys(group.spread.workloads))
    for key, without in lacking.items():
        yield Finding(
            kind=FindingKind.TOPOLOGY_KEY_MISSING,
            object=f"node label {key}",
            message=_message(key, sorted(without), len(usable[key]), sorted(workloads_of_key[key]), view),
            workloads=tuple(sorted(workloads_of_key[key])),
        )


def policy_key_findings(unmatched: Sequence[Unmatched], gathered: Sequence[LimitGroup]) -> Iterator[Finding]:
    """Yield one finding for each topology key of the policy that no node has."""
    for entry in unmatched:
        if entry.is_node_key:
            owners = {owner for group in gathered if group.policy_group.name == entry.group for owner in group.owners}
            yield Finding(
                kind=FindingKind.TOPOLOGY_KEY_MISSING,
                object=f"node label {entry.value}",
                message=entry.message,
                workloads=tuple(sorted(owners)),
            )


def _usable(sample: Pod, key: str, view: View) -> tuple[frozenset[str], frozenset[str]]:
    """Return the nodes that a pod may use, and which of them lack a key."""
    affinity, tolerations = required_part(sample.spec.node_affinity), sample.spec.tolerations

    def make() -> tuple[frozenset[str], frozenset[str]]:
        nodes = admitted_by_labels(sample.spec.node_affinity, view) & admitted_by_taints(tolerations, view)
        return nodes, nodes - view.nodes.carrying((key,))

    return view.memo(("usable without a key", key, affinity, tolerations), make)


def _message(key: str, nodes: Sequence[str], usable: int, workloads_of_key: Sequence[Reference], view: View) -> str:
    who = list_names([str(workload) for workload in workloads_of_key])
    text = f"{len(nodes)} of {usable} nodes that {who} may use lack it ({list_names(nodes)}): "
    text += "a hard constraint admits none of them, and pods there are not counted"
    for node in nodes[:_READ]:
        for label in sorted(view.nodes.by_name[node].labels):
            if is_misspelling(key, label):
                return f"{text}; {node} has {label} instead: {_correction(key, label, view)}"
    return f"{text}; label them, or exclude them by node affinity"


def _correction(key: str, label: str, view: View) -> str:
    """Return which of two similar keys to correct; the right key is well known, or on far more nodes."""
    known, its = key in _WELL_KNOWN, label in _WELL_KNOWN
    many = len(view.nodes.values(label)) > _FAR_MORE * len(view.nodes.values(key))
    if its and not known:
        return f"correct the constraint's topologyKey to {label}"
    if not many:
        return f"rename it to {key}"
    if known and not its:
        return f"label the nodes with {key}, or name {label} in the constraint"
    return f"correct the constraint's topologyKey to {label}"


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
                    message = _no_domain_message(key, view)
                for workload in group.spread.workloads:
                    yield workload_finding(FindingKind.TOO_FEW_DOMAINS, workload, message)
    for member in members(view):
        yield from _anti_affinity_finding(member, view)


def _no_domain_message(key: str, view: View) -> str:
    """Say why no node counts for a constraint: none has its key, or the nodes with the key are excluded."""
    labelled = sum(key in node.labels for node in view.snapshot.nodes)
    if not labelled:
        return (
            f"no node that counts for its constraint over {key} has this label: none of its pods can be "
            "placed. Correct the topologyKey, label the nodes, or let the pods use nodes that have it"
        )
    have = "has" if labelled == 1 else "have"
    return (
        f"{labelled} of {plural(len(view.snapshot.nodes), 'node')} {have} the label {key} of "
        "its constraint, but none of these counts for it: the pods' node selector or affinity, taints under "
        "nodeTaintsPolicy: Honor, or the key of another constraint exclude them, and none of its pods can be placed. "
        "Let the pods use nodes that have the label, or label those that they may use"
    )


def _anti_affinity_finding(member: PodController, view: View) -> Iterator[Finding]:
    """Yield a finding if a workload whose anti-affinity separates its pods has more pods than domains."""
    sample, top = member.sample, member.top or member.owner
    if sample is None or top is None or not sample.spec.pod_affinity.anti_required:
        return
    if not is_on(InterPodAffinity, view):
        return
    usable = admitted_by_labels(sample.spec.node_affinity, view)
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


# Many branches: one finding, from what is declared to what is held; each `if` leaves out groups without a finding.
def unused_domain_findings(gathered: Sequence[LimitGroup], view: View) -> Iterator[Finding]:
    """Yield zones without pods that an affinity names or a limit declares, if there are enough pods."""
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
    """Describe domain, source, skew, the pods lost with one domain, and the remedy."""
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
