"""Nodes of another operating system than the pods name in `spec.os`, which the scheduler does not look at."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from rebalancer.model.facts import Refusal
from rebalancer.model.nodes import SYSTEM
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.view import View


class NodeOfAnotherSystem(Refusal):
    """A node that may take a replacement runs another operating system than the pods: its kubelet would reject them.

    The scheduler does not look at `spec.os`; the ReplicaSet makes one pod after the other (PodOSNotSupported).
    """

    reason = Reason.NOT_PREDICTABLE
    node: str
    node_system: str
    pod_system: str

    def __str__(self) -> str:
        return (
            f"node {self.node} may take a replacement and runs {self.node_system}, where spec.os of the pods is "
            f"{self.pod_system}: its kubelet would reject it. Select nodes by kubernetes.io/os in the template"
        )


class NodeSystems:
    """The operating systems of the nodes of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def _nodes_of(self) -> Mapping[str, frozenset[str]]:
        """The nodes by the operating system that they are labelled with."""
        return dict(sorted(self._view.nodes.groups(SYSTEM).items()))

    def refuse(
        self, sample: Pod, nodes: frozenset[str], find_landings: Callable[[frozenset[str]], Collection[str]]
    ) -> Refusal | None:
        """Return why replacements like `sample`, which these nodes have capacity for, must not be made; or None.

        `find_landings` returns those of some nodes on which one of them may land.
        """
        wanted = sample.spec.os
        for system, others in self._nodes_of.items() if wanted else ():
            landings = find_landings(others & nodes) if system != wanted else ()
            if landings:
                return NodeOfAnotherSystem(min(landings), system, wanted)
        return None
