"""A model of the cluster after evictions: each replacement runs where kube-scheduler most likely places it.

If the scheduler is forced to repay a step, this is one of the step's outcomes; all have equal counts for the
scheduler's rules.
"""

from collections.abc import Collection
from dataclasses import replace

from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.eviction import Eviction
from rebalancer.scheduling.place import candidate_nodes, most_likely
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View


def carry_out(view: View, evictions: Collection[Eviction]) -> Snapshot | None:
    """Return the snapshot after evictions, None if a replacement is not known or finds no node."""
    uids = {eviction.pod.uid for eviction in evictions}
    state = view.without([eviction.pod for eviction in evictions])
    moved: dict[str, Pod] = {}
    for eviction in evictions:
        new = replacement(eviction.pod, view)
        if isinstance(new, Unpredictable):
            return None
        chosen = candidate_nodes(new, state, most_likely).chosen
        if not chosen:
            return None
        node = next(iter(chosen))
        state = state.with_placed(new, node)
        # The replacement counts as settled: how long the repair takes is not the question.
        moved[eviction.pod.uid] = structs.replace(
            eviction.pod, labels=new.labels, spec=new.spec, requests=new.requests, node=node, phase=PodPhase.RUNNING
        )
    pods = tuple([moved[pod.uid] if pod.uid in uids else pod for pod in view.snapshot.pods])
    return replace(view.snapshot, pods=pods)
