"""NodeAffinity: `nodeSelector`, required and preferred node affinity, and what the profile adds.

Source: `nodeaffinity/node_affinity.go`; matching itself is in `node_index`.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from rebalancer.model.labels import Operator
from rebalancer.model.pods import Pod
from rebalancer.scheduling.node_index import required_part
from rebalancer.scheduling.plugin import Filter, scale_to_hundred
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable
from rebalancer.scheduling.view import View

MISMATCH: Final = unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED: Final = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT: Final = unresolvable("pod affinity terms conflict")
NOT_NAMED: Final = unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]")


class NodeAffinityFilter(Filter):
    """The pod's own terms and the profile's `addedAffinity` must both hold.

    If all terms name nodes (`matchFields`, `metadata.name`), no filter examines other nodes, so the reason of those
    names only this plugin.
    """

    name: ClassVar = "NodeAffinity"

    def __init__(self, pod: Pod, view: View) -> None:
        self._matching = view.nodes.matching(required_part(pod.spec.node_affinity))
        self._enforced = view.nodes.matching(required_part(view.profile.added_affinity))
        self.named = find_named_nodes(pod)
        if self.named is not None and not self.named:
            self.refusal = CONFLICT

    def verdict(self, node: str) -> Verdict:
        if self.named is not None and node not in self.named:
            return NOT_NAMED
        if node not in self._enforced:
            return ENFORCED
        return SUCCESS if node in self._matching else MISMATCH

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes & self._enforced & self._matching


def find_named_nodes(pod: Pod) -> frozenset[str] | None:
    """Return the only nodes that the required terms allow by name, None if a term names no nodes."""
    terms = pod.spec.node_affinity.required
    if not terms:
        return None
    named: set[str] = set()
    for term in terms:
        fields = [field for field in term.fields if field.key == "metadata.name" and field.operator is Operator.IN]
        if not fields:
            return None
        named |= frozenset(fields[0].values).intersection(*(field.values for field in fields[1:]))
    return frozenset(named)


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Return 0 to 100 by the weights of the preferred terms that match; None without such a term."""
    weights = sum_weights(pod, view, nodes)
    return scale_to_hundred(weights) if weights is not None else None


def sum_weights(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Return the raw score: the weights of the preferred terms that match a node; None without such a term."""
    preferred = (*pod.spec.node_affinity.preferred, *view.profile.added_affinity.preferred)
    if not preferred:
        return None
    weights = dict.fromkeys(nodes, 0)
    for entry in preferred:
        for node in view.nodes.selected(entry.term).intersection(weights):
            weights[node] += entry.weight
    return weights
