"""The whole repair on supposed nodes: how many evictions it takes, and which pods end on the supposed nodes.

Problem: how much capacity does a repair need, and where, before the planner knows it? Idea: plan, carry the step out in
the model, and plan again, until nothing is left. A forced step holds for every node that the scheduler may pick, so the
repair can go on from the state after it. Example: zones a:6 b:6 and one supposed node in c; the plan evicts two of
each, and all four end on the supposed node. Bound: a plan of one component for each step, at most `_MOST_STEPS`.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec import Struct

from rebalancer.capacity.supposed import is_supposed
from rebalancer.engine import evaluate
from rebalancer.model.facts import Refusal
from rebalancer.model.moments import ALWAYS
from rebalancer.model.moves import Memory, Reference
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.carried_out import carry_out
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View

_MOST_STEPS: Final = 40


class Rehearsal(Struct, frozen=True, kw_only=True):
    """A repair that supposed nodes make possible: its evictions, and the pods that end on them, by the node's name.

    `first` are the evictions that the first plan decided, `component` the name of what it repairs.
    """

    component: str
    workloads: tuple[Reference, ...]
    evictions: int
    placed: tuple[tuple[str, Pod], ...]
    first: tuple[Eviction, ...]


# Many branches: each step may be the last, in several ways.
def rehearse(
    view: View,
    nodes: Collection[Node],
    workloads: Collection[Reference],
    policy: Policy,
    memory: Memory,
) -> tuple[Rehearsal | Refusal | None, datetime]:
    """Repair the component of some workloads with these nodes added; None where nothing would be repaired.

    A refusal says what the repair lacks besides capacity. The time says until when the result is valid.
    """
    snapshot = replace(view.snapshot, nodes=(*view.snapshot.nodes, *nodes))
    evictions = 0
    first: Plan | None = None
    component: ComponentPlan | None = None
    valid_until = ALWAYS
    for _ in range(_MOST_STEPS):
        evaluation = evaluate(snapshot, policy, profile=view.profile, memory=memory, only=workloads)
        valid_until = min(valid_until, evaluation.valid_until)
        made, state = evaluation.plan, evaluation.view
        group = made.components[0] if made.components else None
        if group is None:
            break
        if first is None:
            first, component = made, group
        victims = made.fates.evictions
        if not victims:
            return group.refusal, valid_until
        following = carry_out(state, victims)
        if following is None:
            return None, valid_until
        snapshot, evictions = following, evictions + len(victims)
    else:
        return None, valid_until
    if first is None or component is None:
        return None, valid_until
    rehearsal = Rehearsal(
        component=component.name,
        workloads=component.workloads,
        evictions=evictions,
        placed=tuple(_find_placed(snapshot, {eviction.owner_uid for eviction in first.fates.evictions})),
        first=first.fates.evictions,
    )
    return rehearsal, valid_until


def _find_placed(snapshot: Snapshot, owners: Collection[str]) -> Iterator[tuple[str, Pod]]:
    """Yield the pods of these owners that are on nodes that do not exist yet."""
    for pod in snapshot.pods:
        if pod.node is not None and is_supposed(pod.node) and pod.owner is not None and pod.owner.uid in owners:
            yield pod.node, pod
