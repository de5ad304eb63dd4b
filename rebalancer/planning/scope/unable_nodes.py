"""Nodes that the scheduler may choose for a replacement although it would not run there, or not for long.

A step waits only if one of its replacements may be placed on such a node.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from rebalancer.assessment.unable_nodes import find_inabilities
from rebalancer.model.affinity import Taint, TaintEffect, Toleration
from rebalancer.model.facts import Refusal
from rebalancer.model.nodes import NOT_READY
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.feasibility import is_on
from rebalancer.scheduling.node_index import tolerates
from rebalancer.scheduling.taint_toleration import TaintToleration
from rebalancer.scheduling.view import View

_Landings = Callable[[frozenset[str]], Collection[str]]


class NodeUnable(Refusal):
    """A node that may take a replacement cannot run it: `lack` says what it lacks, `remedy` what to do."""

    reason = Reason.NOT_PREDICTABLE
    node: str
    lack: str
    remedy: str

    def __str__(self) -> str:
        return f"node {self.node} may take a replacement and {self.lack}: it would not run there. {self.remedy}"


class ToleratedForAWhile(Refusal):
    """A node that may take a replacement has a NoExecute taint that the pods tolerate for a limited time."""

    reason = Reason.NODE_LEAVING
    ends = "when node {self.node} or its taint {self.taint} is gone"
    node: str
    taint: str
    seconds: int

    def __str__(self) -> str:
        return (
            f"node {self.node} may take a replacement and has the taint {self.taint} (NoExecute), which the pods "
            f"tolerate for {self.seconds} s, after which the replacement would be evicted"
        )


def refuse_unable(places: Iterable[tuple[Pod, frozenset[str]]], view: View, find_landings: _Landings) -> Refusal | None:
    """Return why a step must not create these replacements; None if it may.

    `places` are example pods, each with the nodes that may take it; `find_landings` returns which of some nodes may
    take a replacement.
    """
    for sample, nodes in places:
        for inability in find_inabilities(sample, view):
            unable = inability.nodes & nodes
            landings = unable if inability.uncounted else find_landings(unable)
            if landings:
                return NodeUnable(min(landings), inability.lack, inability.remedy)
        ending = _find_ending(sample.spec.tolerations, view)
        landings = find_landings(nodes & ending.keys()) if ending else ()
        if landings:
            return ending[min(landings)]
    return None


def _find_ending(tolerations: tuple[Toleration, ...], view: View) -> Mapping[str, ToleratedForAWhile]:
    """Return the nodes from which the taint manager evicts pods with these tolerations, by name."""
    if is_on(TaintToleration, view) and all(toleration.seconds is None for toleration in tolerations):
        return {}

    def make() -> Mapping[str, ToleratedForAWhile]:
        ending = {}
        for node in view.snapshot.nodes:
            limits = list(_limit_tolerance(node.taints, tolerations)) if node.taints else []
            if limits:
                seconds, taint = min(limits)
                ending[node.name] = ToleratedForAWhile(node.name, taint, seconds)
        return ending

    return view.memo(("tolerated for a while", tolerations), make)


def _limit_tolerance(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Iterator[tuple[int, str]]:
    """Yield (seconds, taint) for NoExecute taints that the tolerations tolerate for a limited time.

    For each taint the first matching toleration counts. Without a match the time is 0, for example if the scheduler's
    configuration disables TaintToleration. Nodes that are not Ready are left to `settling`. Source:
    `GetMatchingTolerations` and `getMinTolerationTime` of `pkg/controller/tainteviction`.
    """
    for taint in taints:
        if taint.effect is TaintEffect.NO_EXECUTE and taint.key not in NOT_READY:
            first = next((toleration for toleration in tolerations if tolerates((toleration,), taint)), None)
            if first is None:
                yield 0, str(taint)
            elif first.seconds is not None:
                yield max(0, first.seconds), str(taint)
