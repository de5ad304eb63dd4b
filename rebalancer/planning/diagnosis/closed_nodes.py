"""Why nodes that would have to take more of a component's pods take none: the filters that reject the pods.

One pod serves as the example, as the scheduler would report it: a pending pod, else a pod of the fullest domain that
would be evicted. If the scheduler could place that pod, but only where it does not help, the nodes of the domains that
take no more are examined. A remedy that opens a node is named only if a trial shows that a placement of all pods then
exists. A change of a constraint is named only if it lets all pending pods be placed.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, Self, TypeAlias

from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.words import name_of_key
from rebalancer.planning.scope.capacity import count_places
from rebalancer.planning.scope.leaving_nodes import DomainsCordoned
from rebalancer.planning.search.limits import SearchBudget, SearchLimitReached
from rebalancer.scheduling.feasibility import FILTERS
from rebalancer.scheduling.node_index import required_part
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit
from rebalancer.scheduling.openings import (
    CHANGES_TRIED,
    admitted_by_spread,
    find_opening,
    find_relaxed_constraint,
    uncordoned,
)
from rebalancer.scheduling.pod_topology_spread import PodTopologySpread
from rebalancer.scheduling.preemption import describe_preemptions, find_preemptions, has_lower_pods
from rebalancer.scheduling.rejections import (
    Rejected,
    Rejection,
    count_rejections,
    describe_rejections,
    map_verdicts,
    reject_nodes,
)
from rebalancer.scheduling.unpredictable import Unpredictable, unpredictable
from rebalancer.scheduling.verdicts import Code
from rebalancer.scheduling.view import View

Trial = Callable[[Mapping[str, int]], bool]
"""Whether a placement of all pods exists if each node, by name, has places for this many more.

Raises SearchLimitReached if no more trials are allowed.
"""

_EXAMPLES: Final = 4
"""Pods that are tried as the example."""

_MOST_DRY_RUNS: Final = 100
"""Nodes on which preemption is tried for one pod."""

_LOOKS_OF_DRY_RUN: Final = 500
"""Trying preemption on a node takes as long as examining this many nodes, 0.5 ms."""

_SHARE_OF_CHANGES: Final = 4
"""The budget for trying changes of constraints is the budget of nodes divided by this."""

_OTHERS: Final = tuple(plugin for plugin in FILTERS if plugin is not PodTopologySpread)


class NoSuchNode(Fact):
    """Domains without any node that the pods need: none offers `resource` or, if that is empty, none matches.

    No capacity that becomes free there helps.
    """

    key: str
    domains: tuple[str, ...]
    resource: str = ""

    def __str__(self) -> str:
        name = f"{self.key.rpartition('/')[2]} {', '.join(self.domains)}"
        has = "has" if len(self.domains) == 1 else "have"
        if self.resource:
            return f"{name} {has} no node with {self.resource}: add one there"
        return f"{name} {has} no node that matches its node selector and affinity: add or label one there"


class NodesTakeNoMore(Refusal):
    """No node that would have to take more of these pods takes any, because filters reject the pods."""

    key: str = ""
    domains: tuple[str, ...] = ()
    nodes: int = 0
    rejections: tuple[Rejection, ...] = ()
    """They add up to `nodes`: all nodes of the cluster, or the nodes of `domains`."""
    lacking: bool = True
    """Resources are missing on the nodes that would have to take the pod."""
    pod: str = ""
    """The example pod, which is `pending` or would be evicted; "" if the nodes of `domains` are meant."""
    pending: bool = False
    preempts: str = ""
    """What the scheduler would do to place the pod, with a verb; "" for nothing."""
    preemption: Fact | None = None
    """What prevents a repair by preemption.

    None if preemption was not examined, or the policy refuses it and it would not be possible anyway.
    """
    absent: tuple[NoSuchNode, ...] = ()
    """The nodes that some domains lack entirely."""
    remedy: str = ""
    """What would open enough of the nodes; "" if no remedy was found."""

    @property
    def reason(self) -> Reason:
        """NoCapacity if resources are missing, NodesReject if other filters reject the pods."""
        return Reason.NO_CAPACITY if self.lacking else Reason.NODES_REJECT

    def __str__(self) -> str:
        if self.pending:
            text = f"no node takes the pending pod {self.pod}"
        elif self.pod:
            text = f"if {self.pod} were evicted, no node would take its replacement"
        elif not self.rejections:
            text = "the nodes that would have to take more of these pods do not have the capacity for all of them"
        elif self.domains:
            text = f"no node of {name_of_key(self.key, self.domains)} takes another of these pods"
        else:
            text = "some of the nodes that would have to take more of these pods take none"
        if self.rejections:
            text += f": {describe_rejections(self.nodes, self.rejections)}"
        if self.preempts:
            text += f"; kube-scheduler would {self.preempts}"
        if self.preemption is not None:
            text += f"; {self.preemption}"
        text = "; ".join((text, *map(str, self.absent)))
        return f"{text}. {self.remedy}" if self.remedy else text


class ClosedDomains(NamedTuple):
    """The domains of a component that take no more of its pods, for the coarsest key with such domains.

    Without such a key, `key` is "" and `others` are the nodes that take no more. `cordoned` are the nodes of domains
    whose nodes are all cordoned.
    """

    key: str = ""
    domains: Mapping[str, frozenset[str]] = {}
    others: frozenset[str] = frozenset()
    cordoned: Mapping[str, frozenset[str]] = {}

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes of these domains."""
        return _join([self.others, *self.domains.values()])

    def within(self, nodes: frozenset[str]) -> tuple[str, ...]:
        """Return the domains whose nodes are all among these, by name."""
        return tuple(sorted(value for value, members in self.domains.items() if members <= nodes))


class _Rejections(NamedTuple):
    """The filters that reject nodes, the rejected nodes, and their number by reason."""

    rejected: Sequence[Rejected]
    nodes: frozenset[str]
    counts: tuple[Rejection, ...]

    @classmethod
    def of(cls, rejected: Sequence[Rejected]) -> Self:
        """Count the nodes that filters reject."""
        return cls(rejected, _nodes_of(rejected), count_rejections(rejected))


class _Example(NamedTuple):
    """A pod that no node takes, in the state in which the scheduler would look for one."""

    pod: Pod
    view: View
    name: str = ""
    pending: bool = False


class ClosedNodes(NamedTuple):
    """Nodes that take no more pods of a component or of one of its classes, to be explained.

    `sample` is the replacement of its `placed` pods, which are sorted by which would go first; `pending` pods wait for
    a node. If `alike` is equal, the same nodes reject the samples for the same reasons. `helps` tries whether opened
    nodes are enough.
    """

    sample: Pod
    pending: Sequence[Pod]
    placed: Sequence[Pod]
    closed: ClosedDomains
    view: View
    alike: Hashable
    helps: Trial


ClosedReason: TypeAlias = NodesTakeNoMore | DomainsCordoned | Unpredictable


class Explanations:
    """Explains closed nodes for one plan, each component once: a component is decided up to twice."""

    def __init__(self, nodes: int) -> None:
        """Start with a budget of this many nodes to examine."""
        self.budget = SearchBudget(nodes)
        # The search for constraint changes has its own budget, so that it takes no explanation from another component.
        self._changes = SearchBudget(nodes // _SHARE_OF_CHANGES)
        self._known: dict[str, NodesTakeNoMore | DomainsCordoned] = {}
        # If a zone is down, thousands of workloads have equal requests and are rejected by the same nodes.
        self._rejected: dict[tuple[Hashable, frozenset[str]], _Rejections] = {}

    def explain(self, name: str, nodes: ClosedNodes) -> ClosedReason:
        """Return why the nodes take no more pods of the component of that name.

        Pods whose placement is not predictable get no explanation by nodes. Once the budget is spent, no example and no
        remedy is searched for.
        """
        if (unclear := unpredictable(nodes.sample, nodes.view)) is not None:
            return unclear
        if name not in self._known:
            closed = nodes.closed
            in_maintenance = self._is_maintenance(nodes)
            cordoned = tuple(sorted(closed.cordoned))
            self._known[name] = DomainsCordoned(closed.key, cordoned) if in_maintenance else self._explain(nodes)
        return self._known[name]

    def _explain(self, nodes: ClosedNodes) -> NodesTakeNoMore:
        closed, view = nodes.closed, nodes.view
        every = len(view.nodes.names)
        examples = _examples(nodes) if self._may_look(every) else ()
        for example in islice(examples, _EXAMPLES):
            rejected = reject_nodes(example.pod, example.view)
            if len(_nodes_of(rejected)) == every:
                found, wanted = _Rejections.of(rejected), admitted_by_spread(example.pod, example.view)
                break
        else:
            example, wanted = _Example(nodes.sample, view), closed.nodes
            found = self._reject_closed(nodes.sample, wanted, view, nodes.alike)
            rejected = found.rejected
        return NodesTakeNoMore(
            key=closed.key,
            domains=closed.within(found.nodes) or closed.within(closed.nodes),
            nodes=len(found.nodes),
            rejections=found.counts,
            lacking=_lack_resources(rejected, wanted),
            pod=example.name,
            pending=example.pending,
            preempts=self._describe_preemption(example, rejected, wanted) if example.name else "",
            absent=tuple(_find_absent(nodes.sample, closed, view)),
            remedy=self._find_remedy(rejected, wanted, example, nodes),
        )

    def _find_remedy(
        self, rejected: Sequence[Rejected], wanted: frozenset[str], example: _Example, nodes: ClosedNodes
    ) -> str:
        """Return what opens enough nodes, and for pending pods also which constraint must change."""
        opening = _find_opening(rejected, wanted, example, nodes.helps) if self._may_look(len(wanted)) else ""
        remedy = ", or ".join(filter(None, (opening, self._find_relaxed(rejected, example, nodes.pending))))
        return f"{remedy[:1].upper()}{remedy[1:]}"

    def _find_relaxed(self, rejected: Sequence[Rejected], example: _Example, pending: Sequence[Pod]) -> str:
        """Return which change of a constraint lets nodes take all pods that wait; "" if none was found."""
        if not example.pending or not any(isinstance(row.plugin, PodTopologySpread) for row in rejected):
            return ""
        view, tried = example.view, CHANGES_TRIED * len(example.pod.spec.spread)
        others = [pod for pod in pending if pod.uid != example.pod.uid]
        try:
            self._changes.spend(tried * len(view.nodes.names) * len(pending))
        except SearchLimitReached:
            return ""
        return find_relaxed_constraint(example.pod, view, others)

    def _describe_preemption(self, example: _Example, rejected: Sequence[Rejected], wanted: frozenset[str]) -> str:
        """Say which pods would be preempted for a pod that every node rejects; "" if none, or no trial is left.

        If not all nodes can be tried, the wanted nodes come first; the named outcome is then one of several.
        """
        pod, view = example.pod, example.view
        if not has_lower_pods(pod, view):
            return ""
        able = {name: one for name, one in map_verdicts(rejected).items() if one.code is Code.UNSCHEDULABLE}
        tried = sorted(able, key=lambda name: (name not in wanted, name))[:_MOST_DRY_RUNS]
        if not self._may_look(_LOOKS_OF_DRY_RUN * len(tried)):
            return ""
        outlook = find_preemptions(pod, {name: able[name] for name in tried}, view)
        if outlook.excluded:
            return ""
        return describe_preemptions(structs.replace(outlook, complete=outlook.complete and len(tried) == len(able)))

    def _is_maintenance(self, nodes: ClosedNodes) -> bool:
        """Return whether it is enough to uncordon the domains whose nodes are all cordoned.

        If no trial is left, it counts as enough if these nodes then take such pods.
        """
        cordoned = _join(nodes.closed.cordoned.values())
        if not cordoned:
            return False
        found = self._reject_closed(uncordoned(nodes.sample), cordoned, nodes.view, ("uncordoned", nodes.alike))
        opened = cordoned - found.nodes
        try:
            return bool(opened) and nodes.helps(_count_places(sorted(opened), nodes.sample, nodes.view))
        except SearchLimitReached:
            return True

    def _reject_closed(self, sample: Pod, nodes: frozenset[str], view: View, alike: Hashable) -> _Rejections:
        known = self._rejected.get((alike, nodes))
        if known is None:
            known = self._rejected[alike, nodes] = _Rejections.of(reject_nodes(sample, view, _OTHERS, nodes))
        return known

    def _may_look(self, nodes: int) -> bool:
        try:
            self.budget.spend(nodes)
        except SearchLimitReached:
            return False
        return True


def _find_absent(sample: Pod, closed: ClosedDomains, view: View) -> Iterator[NoSuchNode]:
    """Yield what domains lack: nodes with a device resource, or any node that the pods select.

    Hosts are left out, because a host cannot get another node.
    """
    if closed.key == HOSTNAME:
        return
    by_name, matching = view.nodes.by_name, view.nodes.matching(required_part(sample.spec.node_affinity))
    unmatched = tuple(sorted(value for value, nodes in closed.domains.items() if nodes.isdisjoint(matching)))
    if unmatched:
        yield NoSuchNode(closed.key, unmatched)
    for resource, _ in sample.spec.requests.extended:
        offering = {name for name, node in by_name.items() if dict(node.allocatable.extended).get(resource)}
        without = tuple(sorted(value for value, nodes in closed.domains.items() if nodes.isdisjoint(offering)))
        if without:
            yield NoSuchNode(closed.key, without, resource)


def _lack_resources(rejected: Sequence[Rejected], wanted: frozenset[str]) -> bool:
    """Return whether resources are missing on a wanted node, or no filter rejects a wanted node for other reasons."""
    plugins = {row.plugin.name for row in rejected if not row.nodes.isdisjoint(wanted)}
    return not plugins or NodeResourcesFit.name in plugins


def _nodes_of(rejected: Sequence[Rejected]) -> frozenset[str]:
    return _join([row.nodes for row in rejected])


def _join(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the union of sets; a single set is returned itself, since thousands of components share it."""
    first, *others = [nodes for nodes in sets if nodes] or [frozenset[str]()]
    return first.union(*others) if others else first


def _examples(nodes: ClosedNodes) -> Iterator[_Example]:
    """Yield a pending pod, then pods of the fullest domain that would be evicted."""
    placed, key, view = nodes.placed, nodes.closed.key, nodes.view
    for pod in nodes.pending[:1]:
        yield _Example(pod, view, pod.name, pending=True)
    values = view.nodes.values(key) if key else {}
    domains = [values.get(pod.node or "", pod.node) for pod in placed]
    counts = Counter(domains)
    fullest = max(counts.values(), default=0)
    for pod, domain in zip(placed, domains, strict=True):
        made = replacement(pod, view) if counts[domain] == fullest else None
        if made is not None and not isinstance(made, Unpredictable):
            yield _Example(made, view.without([pod]), pod.name)


def _find_opening(rejected: Sequence[Rejected], wanted: frozenset[str], example: _Example, helps: Trial) -> str:
    """Return what opens enough nodes, "" if nothing that was tried does."""
    pod, view = example.pod, example.view

    def is_enough(nodes: Sequence[str]) -> bool:
        return helps(_count_places(nodes, pod, view))

    try:
        return find_opening(rejected, wanted, pod, view, is_enough)
    except SearchLimitReached:
        return ""


def _count_places(nodes: Sequence[str], pod: Pod, view: View) -> Mapping[str, int]:
    """Return how many such pods each node has places for, at least one: the place that a remedy frees."""
    return {node: max(1, count_places(pod, node, view)) for node in nodes}
