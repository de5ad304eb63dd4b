"""TaintToleration: NoSchedule and NoExecute taints reject, PreferNoSchedule taints lower the score.

Source: `tainttoleration/taint_toleration.go`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.pods import Pod
from rebalancer.scheduling.node_index import REPELLING, tolerates
from rebalancer.scheduling.plugin import Filter, scale_to_hundred
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable
from rebalancer.scheduling.view import View


class TaintToleration(Filter):
    """Every taint that repels must be tolerated."""

    name: ClassVar = "TaintToleration"

    def __init__(self, pod: Pod, view: View) -> None:
        self._tolerations = pod.spec.tolerations
        self._view = view
        self._tolerated = view.nodes.tolerated(pod.spec.tolerations)

    def verdict(self, node: str) -> Verdict:
        """Evaluate one node; before 1.35 the reason names the first taint that is not tolerated."""
        if node in self._tolerated:
            return SUCCESS
        if self._view.rules.taint_reason_short:
            return unresolvable("node(s) had untolerated taint(s)")
        return unresolvable(f"node(s) had untolerated taint {_format_taint(self._first_untolerated(node))}")

    def group(self, nodes: Collection[str]) -> Iterator[tuple[Taint, Sequence[str]]]:
        """Yield each first taint that rejects the pod, with its nodes; thousands of nodes share their taints."""
        alike: dict[tuple[Taint, ...], list[str]] = {}
        for name in nodes:
            alike.setdefault(self._view.nodes.by_name[name].taints, []).append(name)
        for names in alike.values():
            yield self._first_untolerated(names[0]), names

    def _first_untolerated(self, node: str) -> Taint:
        taints = self._view.nodes.by_name[node].taints
        return next(taint for taint in taints if taint.effect in REPELLING and not tolerates(self._tolerations, taint))

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes & self._tolerated


def _format_taint(taint: Taint) -> str:
    return f"{{{taint.key}: {taint.value}}}"


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return 0 to 100: the fewer PreferNoSchedule taints are not tolerated, the better."""
    return scale_to_hundred(count_untolerated(pod, view, nodes), reverse=True)


def count_untolerated(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return the raw score: how many PreferNoSchedule taints of each node the pod does not tolerate."""
    tolerations = [
        toleration for toleration in pod.spec.tolerations if toleration.effect in {"", TaintEffect.PREFER_NO_SCHEDULE}
    ]
    index = view.nodes.by_name
    soft = TaintEffect.PREFER_NO_SCHEDULE
    return {
        node: sum(1 for taint in index[node].taints if taint.effect is soft and not tolerates(tolerations, taint))
        for node in nodes
    }
