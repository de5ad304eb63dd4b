"""Why nothing is evicted in a namespace in which a replacement landed elsewhere than predicted."""

from datetime import datetime

from rebalancer.model.facts import Refusal
from rebalancer.model.moves import Memory, Move, Reference, Target
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import name_list, short_key
from rebalancer.tracking.misplaced import find_lost_meanwhile, waits_until


class ReplacementMisplaced(Refusal):
    """A replacement in the namespace was Ready elsewhere than `expected`; the namespace waits until `until`."""

    reason = Reason.BACK_OFF
    ends_at = "until"
    workload: Reference
    pod: str
    expected: tuple[Target, ...]
    """Where the replacement was predicted, with one domain for each key."""
    landed: tuple[Target, ...]
    """Where the replacement was Ready, with one domain for each key; empty if no longer known."""
    until: datetime
    """When the wait ends."""
    lost: tuple[Target, ...] = ()
    """The domains that have lost nodes meanwhile."""

    def __str__(self) -> str:
        namespace = self.workload.namespace
        why = f"a webhook or policy may change new pods of namespace {namespace}"
        if self.lost:
            why = f"{_name(self.lost)} lost nodes meanwhile"
        return (
            f"the replacement of pod {self.pod} of {self.workload} was expected {_place(self.expected)} and "
            f"became Ready {_place(self.landed)}: {why}. Nothing is evicted in namespace "
            f"{namespace} until {self.until:%H:%M:%SZ}"
        )


def _place(targets: tuple[Target, ...]) -> str:
    return f"in {_name(targets)}" if targets else "somewhere else"


def _name(targets: tuple[Target, ...]) -> str:
    return ", ".join(f"{short_key(target.topology_key)} {name_list(target.values)}" for target in targets)


def misplaced_replacement(move: Move, snapshot: Snapshot, memory: Memory) -> ReplacementMisplaced:
    """Return why a move's namespace waits after its replacement became Ready elsewhere."""
    pod = snapshot.pod.get(move.replacement)
    node = snapshot.node.get(pod.node or "") if pod is not None else None
    landed = (
        Target(target.topology_key, (node.labels[target.topology_key],))
        for target in move.targets
        if node is not None and target.topology_key in node.labels
    )
    lost = find_lost_meanwhile(move, memory)
    return ReplacementMisplaced(move.workload, move.pod, move.targets, tuple(landed), waits_until(move), lost)
