"""NodeName: a pod that names its node fits on no other."""

from typing import ClassVar, Final

from rebalancer.model.pods import Pod
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable
from rebalancer.scheduling.view import View

ANOTHER: Final = unresolvable("node(s) didn't match the requested node name")


class NodeName(Filter):
    """The node that a template or manifest names (`PodSpec.node_name`), not the node where a pod runs (`Pod.node`).

    Such a pod is bound from the start and never reaches the scheduler: `unpredictable` reports it.
    Source: `nodename/node_name.go`.
    """

    name: ClassVar = "NodeName"

    def __init__(self, pod: Pod, view: View) -> None:  # noqa: ARG002  # as every filter
        self._named = pod.spec.node_name

    def verdict(self, node: str) -> Verdict:
        return SUCCESS if self._named in {None, node} else ANOTHER

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes if self._named is None else nodes & {self._named}
