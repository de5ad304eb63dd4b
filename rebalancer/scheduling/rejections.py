"""Why nodes take no pod: the filter that rejects each, counted as kube-scheduler counts them for FailedScheduling.

The first filter in the scheduler's order that a node does not pass rejects it. The node counts for every reason that
this filter gives: it may lack both cpu and memory. Example, for twelve nodes: `6 have the taint dedicated=db, 4 have
not enough memory, 2 are cordoned`.

Cost: proportional to the nodes for each filter, as sets; reasons only for rejected nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from rebalancer.model.nodes import NOT_READY
from rebalancer.model.pods import Pod
from rebalancer.scheduling import inter_pod_affinity, node_affinity, node_name, node_ports, node_unschedulable
from rebalancer.scheduling import pod_topology_spread as spread
from rebalancer.scheduling.feasibility import FILTERS, iterate_nominated_nodes, prepare_filters
from rebalancer.scheduling.node_affinity import NodeAffinityFilter
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.taint_toleration import TaintToleration
from rebalancer.scheduling.verdicts import Verdict
from rebalancer.scheduling.view import View


class Rejected(NamedTuple):
    """The nodes that a filter, but no filter before it, rejects."""

    plugin: Filter
    nodes: frozenset[str]


_PHRASES: Final[Mapping[str, tuple[str, str]]] = {
    node_unschedulable.UNSCHEDULABLE.message: ("is cordoned", "are cordoned"),
    node_name.ANOTHER.message: ("is not the node that it names", "are not the node that it names"),
    node_affinity.MISMATCH.message: ("does not match its node affinity", "do not match its node affinity"),
    node_affinity.ENFORCED.message: (
        "does not match the scheduler's own node affinity",
        "do not match the scheduler's own node affinity",
    ),
    node_affinity.NOT_NAMED.message: ("is not named by its node affinity", "are not named by its node affinity"),
    node_ports.TAKEN.message: ("has its host port taken", "have its host port taken"),
    "Too many pods": ("runs as many pods as it may", "run as many pods as they may"),
    spread.UNSATISFIED.message: ("is ruled out by a spread constraint", "are ruled out by a spread constraint"),
    spread.MISSING_LABEL.message: ("lacks the label of a spread constraint", "lack the label of a spread constraint"),
    inter_pod_affinity.AFFINITY.message: ("is ruled out by its pod affinity", "are ruled out by its pod affinity"),
    inter_pod_affinity.OWN_ANTI_AFFINITY.message: (
        "is ruled out by its anti-affinity",
        "are ruled out by its anti-affinity",
    ),
    inter_pod_affinity.THEIR_ANTI_AFFINITY.message: (
        "is ruled out by the anti-affinity of running pods",
        "are ruled out by the anti-affinity of running pods",
    ),
}
"""The words for one node and for several, by the scheduler's reason."""

_LACKS: Final = "Insufficient "
_OF_NODES: Final = "node(s) "


class Rejection(Struct, frozen=True, gc=False):
    """How many nodes a filter rejects for one reason, in the scheduler's words; `taint` is the taint that they have."""

    plugin: str
    reason: str
    nodes: int
    taint: str = ""

    def __str__(self) -> str:
        """Describe the rejection for this many nodes."""
        one = self.nodes == 1
        if self.reason in _PHRASES:
            return f"{self.nodes} {_PHRASES[self.reason][0 if one else 1]}"
        has = "has" if one else "have"
        if self.taint in NOT_READY:
            return f"{self.nodes} {'is' if one else 'are'} not Ready"
        if self.taint:
            return f"{self.nodes} {has} the taint {self.taint}"
        if self.reason.startswith(_LACKS):
            return f"{self.nodes} {has} not enough {self.reason.removeprefix(_LACKS)}"
        if self.reason.startswith(_OF_NODES):
            return f"{self.nodes} {self.reason.removeprefix(_OF_NODES)}"
        return f"{self.nodes} {'is' if one else 'are'} ruled out: {self.reason}"


def reject_nodes(
    pod: Pod, view: View, plugins: Sequence[type[Filter]] = FILTERS, nodes: frozenset[str] | None = None
) -> Sequence[Rejected]:
    """Return which filter rejects which of these (by default all) nodes, in the scheduler's order."""
    left = view.nodes.names if nodes is None else nodes
    rejected: list[Rejected] = []
    for name, state in iterate_nominated_nodes(pod, view):
        if name in left:
            there = _reject(pod, state, plugins, frozenset({name}))
            rejected += there
            left = left - {name} if there else left
    return [*rejected, *_reject(pod, view, plugins, left)]


def _reject(pod: Pod, view: View, plugins: Sequence[type[Filter]], left: frozenset[str]) -> Sequence[Rejected]:
    filters = prepare_filters(pod, view, plugins)
    refused = next((one for one in filters if one.refusal is not None), None)
    if refused is not None:
        return [Rejected(refused, left)] if left else []
    rejected: list[Rejected] = []
    # If an affinity names nodes, no filter examines the other nodes.
    for one in filters:
        if isinstance(one, NodeAffinityFilter) and one.named is not None:
            rejected.append(Rejected(one, left - one.named))
            left &= one.named
    for one in filters:
        passing = one.admit(left)
        if len(passing) < len(left):
            rejected.append(Rejected(one, left - passing))
            left = passing
    return [row for row in rejected if row.nodes]


def map_verdicts(rejected: Iterable[Rejected]) -> Mapping[str, Verdict]:
    """Return the scheduler's result for each rejected node."""
    return {
        node: plugin.verdict(node) if plugin.refusal is None else plugin.refusal
        for plugin, nodes in rejected
        for node in nodes
    }


def count_rejections(rejected: Iterable[Rejected]) -> tuple[Rejection, ...]:
    """Count the nodes by the reason that rejects them, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for plugin, nodes in rejected:
        if isinstance(plugin, TaintToleration):
            counts.update(_count_taints(plugin, nodes))
        else:
            counts.update({(plugin.name, reason, ""): number for reason, number in plugin.count_reasons(nodes).items()})
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return tuple(Rejection(plugin, reason, number, taint) for (plugin, reason, taint), number in rows)


def _count_taints(plugin: TaintToleration, nodes: Collection[str]) -> Mapping[tuple[str, str, str], int]:
    """Count the nodes by the first taint that repels."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for taint, names in plugin.group(nodes):
        counts[plugin.name, plugin.verdict(names[0]).message, str(taint)] += len(names)
    return counts


def describe_rejections(nodes: int, rejections: Iterable[Rejection]) -> str:
    """Say how many of `nodes` nodes are rejected for which reason."""
    said = list(map(str, rejections))
    if not nodes:
        return "no node is there"
    if nodes == 1:
        return f"the only node {' and '.join(text.removeprefix('1 ') for text in said)}"
    return f"of {nodes} nodes {', '.join(said)}"
