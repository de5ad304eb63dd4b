"""What plugins share: the filter's interface, and the scaling of scores to 0…100."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar, TypeVar

from rebalancer.model.pods import Pod
from rebalancer.scheduling.verdicts import Verdict
from rebalancer.scheduling.view import View

T = TypeVar("T")


class Filter(ABC):
    """A filter prepared for one pod in one state, then called for each node.

    The constructor is the plugin's PreFilter: it computes once what does not depend on the node.
    """

    name: ClassVar[str]
    """kube-scheduler's name of the plugin."""

    refusal: Verdict | None = None
    """Why no node is feasible, if that follows from the pod alone (a claim that does not exist)."""

    @abstractmethod
    def __init__(self, pod: Pod, view: View) -> None:
        """Prepare for a pod."""

    @abstractmethod
    def verdict(self, node: str) -> Verdict:
        """Evaluate one node, with the scheduler's own reasons."""

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return the nodes that pass: the same nodes as by `verdict`, for callers that need no reasons."""
        if self.refusal is not None:
            return frozenset()
        return frozenset(node for node in nodes if self.verdict(node))

    def count_reasons(self, nodes: Iterable[str]) -> Mapping[str, int]:
        """Count the rejected nodes by the scheduler's reasons; one node may have several reasons."""
        if self.refusal is not None:
            return Counter(dict.fromkeys(self.refusal.reasons, len(list(nodes))))
        return Counter(reason for node in nodes for reason in self.verdict(node).reasons)


def scale_to_hundred(raw: Mapping[T, int], *, reverse: bool = False) -> Mapping[T, int]:
    """Scale scores by the greatest, in integer division; with `reverse` the least is the best.

    Source: `plugins/helper/normalize_score.go`. All zero stays zero, or becomes 100 in reverse.
    """
    greatest = max(raw.values(), default=0)
    if greatest == 0:
        return dict.fromkeys(raw, 100) if reverse else raw
    scaled = {node: value * 100 // greatest for node, value in raw.items()}
    return {node: 100 - value for node, value in scaled.items()} if reverse else scaled
