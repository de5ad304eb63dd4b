"""Finds changes in the cluster that call for a cycle at once, so that repairs are as fast as their pods start.

A watch delivers thousands of changes a minute, and almost none matters before the next interval. These do:

* A node begins or ceases to take pods, or an autoscaler begins to remove it.
* A workload is scaled down or has finished its rollout.
* An owner's replacement is awaited, and one of the owner's pods becomes Ready or is gone, or it cannot create one.
* A budget that an eviction waits for allows more.
"""

from typing import NamedTuple

from rebalancer.controller.state import LoopState
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload


class Awaited(NamedTuple):
    """What the loop waits for: replacements by these owners (UIDs), and budgets in these namespaces."""

    owners: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    arrivals: bool = False
    """Whether evictions wait for replacements, so that their binding, or a failed start, matters."""


NOTHING_AWAITED = Awaited()


def find_awaited(state: LoopState) -> Awaited:
    """Return what the loop waits for."""
    if not state.leadership.leads:
        return NOTHING_AWAITED
    owners = frozenset(move.owner_uid for move in state.memory.moves if not move.state.over or move.overdue)
    limited = any(window.limited for window in state.memory.windows)
    arrivals = limited or any(move.overdue for move in state.memory.moves)
    return Awaited(owners, state.cycle.waiting_namespaces if state.cycle is not None else frozenset(), arrivals)


def calls_for_cycle(before: object, after: object, awaited: Awaited) -> bool:
    """Return whether a change calls for a cycle; `before` is None for a new object, `after` for a deleted one."""
    match before if after is None else after:
        case Pod():
            return _pod_matters(before, after, awaited)
        case Node():
            return _takes_pods(before) != _takes_pods(after) or _is_removed(before) != _is_removed(after)
        case Workload():
            if not (isinstance(before, Workload) and isinstance(after, Workload)):
                return False
            return _workload_matters(before, after) or _refuses_pods(before, after, awaited)
        case DisruptionBudget() as budget:
            grew = isinstance(before, DisruptionBudget) and budget.allowed > before.allowed
            return grew and budget.namespace in awaited.namespaces
        case _:
            return False


def _pod_matters(before: object, after: object, awaited: Awaited) -> bool:
    pod = before if after is None else after
    if not isinstance(pod, Pod) or pod.owner is None or pod.owner.uid not in awaited.owners:
        return False
    was_ready = isinstance(before, Pod) and before.ready
    return after is None or pod.ready != was_ready or (awaited.arrivals and _starts(before, pod))


def _starts(before: object, pod: Pod) -> bool:
    """Return whether a pod was bound, or the problem with its start has changed."""
    node, failure = (before.node, before.start_failure) if isinstance(before, Pod) else (None, "")
    return pod.node != node or pod.start_failure != failure


def _refuses_pods(before: Workload, after: Workload, awaited: Awaited) -> bool:
    """Return whether an owner whose replacement is awaited now reports that it cannot create pods."""
    return after.uid in awaited.owners and bool(after.creation_failure) and not before.creation_failure


def _takes_pods(node: object) -> bool:
    return isinstance(node, Node) and node.takes_pods


def _is_removed(node: object) -> bool:
    """Return whether an autoscaler is removing a node, which may be gone before the next cycle."""
    return isinstance(node, Node) and node.being_removed


def _workload_matters(before: Workload, after: Workload) -> bool:
    return after.replicas < before.replicas or (_is_settled(after) and not _is_settled(before))


def _is_settled(workload: Workload) -> bool:
    """Return whether a workload has as many pods of its newest template as it wants."""
    wanted = workload.replicas - len(workload.held_back)
    enough = workload.current == workload.replicas and workload.updated >= wanted
    return workload.observed and enough
