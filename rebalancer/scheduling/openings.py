"""Changes that would let nodes take a pod that they reject: the smallest tried change that helps in the model.

For nodes that the pod's spread constraints allow: uncordon a node, remove its taint, bring it back, or free what it
lacks. A node counts only if no other filter rejects it. Nodes are tried one by one, then all nodes that a filter
rejects together. For the pod's own constraints: respect taints when domains are counted, require fewer domains, or
allow more skew. Each change is tried alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from rebalancer.model.affinity import Taint, Toleration
from rebalancer.model.nodes import LEAVING_TAINTS, NOT_READY, UNSERVICEABLE_TAINTS
from rebalancer.model.pods import Pod
from rebalancer.model.quantities import format_amount
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from rebalancer.model.words import name_list, plural
from rebalancer.scheduling.feasibility import FILTERS, feasible, prepare_filters
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit, Shortage, amount_of, find_shortages
from rebalancer.scheduling.node_unschedulable import CORDONED, NodeUnschedulable
from rebalancer.scheduling.place import most_likely, place
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.pod_topology_spread import PodTopologySpread
from rebalancer.scheduling.rejections import Rejected, reject_nodes
from rebalancer.scheduling.taint_toleration import TaintToleration
from rebalancer.scheduling.view import View

_TRIED: Final = 8
"""Nodes that are tried one by one, for each filter."""

_MOST_SEARCHED: Final = 64
"""For up to this many full nodes it is checked whether enough can be freed there."""

_MOST_NAMED: Final = 3
"""For up to this many nodes the message says what they lack."""

_MORE_SKEW: Final = 3
"""The largest increase of maxSkew that is tried."""

CHANGES_TRIED: Final = _MORE_SKEW + 2
"""Changes of one constraint that are tried at most."""

_MOST_PLACED: Final = 20
"""For a change up to this many pods are placed besides the pod itself; with more pods no change is named."""

_OTHERS: Final = tuple(plugin for plugin in FILTERS if plugin is not PodTopologySpread)


def find_opening(
    rejected: Iterable[Rejected],
    wanted: frozenset[str],
    pod: Pod,
    view: View,
    helps: Callable[[Sequence[str]], bool] = lambda _: True,
) -> str:
    """Return what to do with some of the `wanted` nodes to make them take a pod; "" if nothing was found.

    `helps` says whether it is enough if these nodes take such pods.
    """
    for able, say in _openings(rejected, wanted, pod, view):
        for opened in (*([node] for node in able[:_TRIED]), able):
            if opened and helps(opened):
                return say(opened)
    return ""


_Opening = tuple[Sequence[str], Callable[[Sequence[str]], str]]
"""Nodes that would take a pod if something was done, by name, and the sentence for some of them."""


def _openings(rejected: Iterable[Rejected], wanted: frozenset[str], pod: Pod, view: View) -> Iterator[_Opening]:
    """Yield possible changes of the wanted nodes, the smallest first."""
    nodes = {row.plugin.name: row.nodes & wanted for row in rejected}
    cordoned = nodes.get(NodeUnschedulable.name, frozenset())
    yield _passing(uncordoned(pod), view, cordoned), lambda some: f"uncordon {name_list(some)}"
    plugin, by_taint = TaintToleration(pod, view), dict[Taint, list[str]]()
    for taint, tainted in plugin.group(nodes.get(TaintToleration.name, frozenset())):
        by_taint.setdefault(taint, []).extend(tainted)
    for taint, those in sorted(by_taint.items(), key=lambda row: row[0].key):
        if taint.key in NOT_READY:  # all taints of that key go together
            passing = Toleration(key=taint.key, operator="Exists")
        else:
            passing = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
        tolerating = _tolerating(pod, passing)
        yield _passing(tolerating, view, frozenset(those)), partial(_say_untainted, taint, view)
    full = nodes.get(NodeResourcesFit.name, frozenset())
    others = tuple(plugin for plugin in _OTHERS if plugin is not NodeResourcesFit)
    able = [node for node in _passing(pod, view, full, others)[:_MOST_SEARCHED] if _can_be_freed(node, pod, view)]
    yield able, lambda some: _say_freed(some, pod, view)


def _can_be_freed(name: str, pod: Pod, view: View) -> bool:
    """Return whether other owners' pods, which are not tied to the node, use as much as is missing there."""
    node = view.nodes.by_name[name]
    others = [
        other
        for other in view.pods_on(name)
        if not other.mirror and (other.owner is None or (other.owner.kind != "DaemonSet" and other.owner != pod.owner))
    ]
    return all(
        not short.exceeds_node and (short.resource != "pods" or node.pods) and short.missing <= _used(short, others)
        for short in find_shortages(pod, name, view)
    )


def _used(short: Shortage, pods: Sequence[Pod]) -> int:
    """Return how much of a resource pods use."""
    if short.resource == "pods":
        return len(pods)
    return sum(amount_of(pod.requests, short.resource) for pod in pods)


def uncordoned(pod: Pod) -> Pod:
    """Return a pod for which no node is cordoned; the taint goes with the cordon."""
    return _tolerating(pod, Toleration(key=CORDONED.key, operator="Exists"))


def _tolerating(pod: Pod, toleration: Toleration) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration)))


def _passing(
    pod: Pod, view: View, nodes: frozenset[str], filters: Sequence[type[Filter]] | None = None
) -> Sequence[str]:
    """Return which of the nodes pass the filters: by default all filters but that of spread constraints."""
    rejected = reject_nodes(pod, view, _OTHERS if filters is None else filters, nodes) if nodes else ()
    return sorted(nodes.difference(*(row.nodes for row in rejected)))


def admitted_by_spread(pod: Pod, view: View) -> frozenset[str]:
    """Return the nodes that the pod's spread constraints allow, all other filters aside."""
    nodes = view.nodes.names
    for spread in prepare_filters(pod, view, (PodTopologySpread,)):
        nodes = spread.admit(nodes)
    return nodes


def _say_untainted(taint: Taint, view: View, nodes: Sequence[str]) -> str:
    named, key = name_list(nodes), taint.key
    if key in NOT_READY:
        return f"bring back {named}"
    one = len(nodes) == 1
    if key in LEAVING_TAINTS or any(view.nodes.by_name[name].leaving_by_policy == key for name in nodes):
        return f"wait until {named} {'is' if one else 'are'} back or gone (taint {taint})"
    if key in UNSERVICEABLE_TAINTS:
        serving = f"{named} {'serves' if one else 'serve'} pods (taint {taint})"
        return f"wait until {serving}, or repair {'it' if one else 'them'}"
    return f"remove the taint {taint} from {named}, or tolerate it"


def _say_freed(nodes: Sequence[str], pod: Pod, view: View) -> str:
    parts = []
    for node in nodes[:_MOST_NAMED]:
        amounts = [
            plural(short.missing, "place")
            if short.resource == "pods"
            else f"{format_amount(short.resource, short.missing)} {short.resource}"
            for short in find_shortages(pod, node, view)
        ]
        parts.append(f"{' and '.join(amounts)} on {node}")
    more = f" and likewise on {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return f"free {', '.join(parts)}{more}"


def find_relaxed_constraint(pod: Pod, view: View, others: Sequence[Pod] = ()) -> str:
    """Return which change of one of its own constraints would let a node take a pod; "" if none was found.

    `others` wait beside the pod and have the same constraints; the change must let all of them be placed, too.
    """
    written = pod.spec.spread
    if len(others) > _MOST_PLACED or any(other.spec.spread != written for other in others):
        return ""
    pods = (pod, *others)
    for number, constraint in enumerate(written):
        if constraint.when_unsatisfiable is not WhenUnsatisfiable.DO_NOT_SCHEDULE:
            continue
        key = constraint.topology_key
        domains = len(view.nodes.groups(key))
        if not domains and _is_placed_with(pods, view, (*written[:number], *written[number + 1 :])):
            return f"correct the topologyKey {key}, or label the nodes: none has it"
        for changed, text in _changes(constraint, domains):
            if _is_placed_with(pods, view, (*written[:number], changed, *written[number + 1 :])):
                return f"set {text} in its constraint over {key}"
    return ""


def _is_placed_with(pods: Sequence[Pod], view: View, spread: tuple[SpreadConstraint, ...]) -> bool:
    """Return whether pods with these constraints are placed, one after the other as the scheduler most likely would."""
    changed = [structs.replace(pod, spec=structs.replace(pod.spec, spread=spread)) for pod in pods]
    if not feasible(changed[0], view):
        return False
    return len(changed) == 1 or not place(changed, view, most_likely).pending


def _changes(constraint: SpreadConstraint, domains: int) -> Iterator[tuple[SpreadConstraint, str]]:
    if constraint.node_taints_policy is InclusionPolicy.IGNORE:
        honored = structs.replace(constraint, node_taints_policy=InclusionPolicy.HONOR)
        yield honored, "nodeTaintsPolicy: Honor"
    if (constraint.min_domains or 1) > domains > 0:
        yield structs.replace(constraint, min_domains=domains), f"minDomains: {domains}"
    for more in range(1, _MORE_SKEW + 1):
        skew = constraint.max_skew + more
        yield structs.replace(constraint, max_skew=skew), f"maxSkew: {skew}"
