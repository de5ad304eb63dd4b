"""What every filter plugin looks like."""

from abc import ABC, abstractmethod
from typing import ClassVar

from rebalancer.model.pods import Pod
from rebalancer.scheduling.verdicts import Verdict
from rebalancer.scheduling.view import View


class Filter(ABC):
    """A filter prepared for one pod in one state, then asked node by node.

    Making it is the plugin's PreFilter: whatever does not depend on the node is worked out there, once.
    """

    name: ClassVar[str]
    """kube-scheduler's name of the plugin."""

    refusal: Verdict | None = None
    """Why no node will do, where that follows from the pod alone (a claim that does not exist)."""

    @abstractmethod
    def __init__(self, pod: Pod, view: View) -> None:
        """Prepare for a pod."""

    @abstractmethod
    def verdict(self, node: str) -> Verdict:
        """Judge one node, with the scheduler's own reasons."""

    def admitted(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return those of the nodes that pass: the same answer as `verdict`, for callers that need no reasons."""
        if self.refusal is not None:
            return frozenset()
        return frozenset(node for node in nodes if self.verdict(node))
