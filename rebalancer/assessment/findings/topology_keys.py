"""TopologyKeyMissing: nodes that a workload may use and that lack the key of one of its constraints, or misspell it.

Such a node takes no pod under a hard constraint, and its pods are not counted. A topology key of the policy is reported
if no node at all has it.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.findings.finding import Finding, list_names
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.name_hints import is_misspelling
from rebalancer.assessment.unmatched import Unmatched
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.node_index import NONE, required_part
from rebalancer.scheduling.spread_constraints import HOSTNAME, ZONE, Origin
from rebalancer.scheduling.view import View

_READ = 100
"""Nodes without the key that are searched for a misspelling."""

_WELL_KNOWN = frozenset(
    {HOSTNAME, ZONE, "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"}
    | {f"failure-domain.beta.kubernetes.io/{name}" for name in ("zone", "region")}
)
"""Labels that clouds and kubelets set; they cannot be renamed."""

_FAR_MORE = 2
"""If a similar label is on more than so many times as many nodes, the constraint's key counts as misspelt."""


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
    """Return the nodes that a pod may use, and those of them that lack a key."""
    affinity, tolerations = required_part(sample.spec.node_affinity), sample.spec.tolerations

    def make() -> tuple[frozenset[str], frozenset[str]]:
        nodes = view.nodes.matching(affinity) & view.nodes.tolerated(tolerations)
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
    """Return which of two similar keys to correct: the other one is well known, or on far more nodes."""
    known, its = key in _WELL_KNOWN, label in _WELL_KNOWN
    many = len(view.nodes.values(label)) > _FAR_MORE * len(view.nodes.values(key))
    if its and not known:
        return f"correct the constraint's topologyKey to {label}"
    if not many:
        return f"rename it to {key}"
    if known and not its:
        return f"label the nodes with {key}, or name {label} in the constraint"
    return f"correct the constraint's topologyKey to {label}"
