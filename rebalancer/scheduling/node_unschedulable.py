"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from typing import ClassVar, Final

from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.pods import Pod
from rebalancer.scheduling.node_index import tolerates
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable
from rebalancer.scheduling.view import View

CORDONED: Final = Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE)
UNSCHEDULABLE: Final = unresolvable("node(s) were unschedulable")


class NodeUnschedulable(Filter):
    """`spec.unschedulable` rejects, even if the node does not have the matching taint yet.

    Source: `nodeunschedulable/node_unschedulable.go`.
    """

    name: ClassVar = "NodeUnschedulable"

    def __init__(self, pod: Pod, view: View) -> None:
        self._tolerated = tolerates(pod.spec.tolerations, CORDONED)
        self._index = view.nodes

    def verdict(self, node: str) -> Verdict:
        return SUCCESS if self._tolerated or not self._index.by_name[node].unschedulable else UNSCHEDULABLE

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes if self._tolerated else nodes - self._index.cordoned
