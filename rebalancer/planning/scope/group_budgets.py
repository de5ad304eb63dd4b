"""How many of a group of the policy may be away at once, over all its workloads and whatever the cause."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.model.moves import Memory, MoveState
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.scope.eligibility import Refusal
from rebalancer.policy import format_duration

_ENDED = frozenset({MoveState.VERIFIED, MoveState.INEFFECTIVE})


class GroupBudgets:
    """The groups that limit it (`disruption.maxInFlight`), or ask for a pause after each replacement (`settle`)."""

    def __init__(self, snapshot: Snapshot, memory: Memory, gathered: Iterable[LimitGroup]) -> None:
        self._now: datetime = snapshot.taken_at
        self._snapshot = snapshot
        self._groups: dict[str, list[LimitGroup]] = {}
        """By the pod's UID."""
        self._away: dict[str, int] = {}
        self._landed: dict[str, datetime] = {}
        arrived = {move.replacement: move.changed_at for move in memory.moves if move.state in _ENDED}
        for group in gathered:
            rule = group.group.disruption
            if rule.max_in_flight is None and not rule.settle:
                continue
            for pod in group.pods:
                self._groups.setdefault(pod.uid, []).append(group)
            self._away[group.name] = self._missing(group)
            landed = [arrived[pod.uid] for pod in group.pods if pod.uid in arrived]
            if landed:
                self._landed[group.name] = max(landed)

    def _missing(self, group: LimitGroup) -> int:
        """Count the members that are unready, waiting, evicted by anybody, or still to be created."""
        nodes = self._snapshot.node
        ready = sum(
            1
            for pod in group.pods
            if pod.ready and pod.node is not None and pod.node in nodes and nodes[pod.node].ready
        )
        owners = {part.member.owner.uid: part.member for part in group.parts if part.member.owner is not None}
        wanted = sum(
            max(member.owner.replicas if member.owner is not None else 0, len(member.pods))
            for member in owners.values()
            if self._whole(member.pods, group)
        )
        partly = sum(len(part.pods) for part in group.parts if not self._whole(part.member.pods, group))
        return max(0, wanted + partly - ready)

    def _whole(self, pods: Sequence[Pod], group: LimitGroup) -> bool:
        """Say whether all pods of an owner are in the group: then those that it lacks are missing here."""
        return all(group in self._groups.get(pod.uid, ()) for pod in pods)

    def blocked(self, pod: Pod) -> Refusal | None:
        """Say why this pod's group lets nobody more go just now, or None."""
        for group in self._groups.get(pod.uid, ()):
            rule, away = group.group.disruption, self._away[group.name]
            if rule.max_in_flight is not None and away >= rule.max_in_flight:
                return Refusal(
                    Reason.GROUP_IN_FLIGHT,
                    f"{away} of {group.name} are away, disruption.maxInFlight is {rule.max_in_flight}",
                )
            landed = self._landed.get(group.name)
            if landed is not None and self._now - landed < rule.settle:
                return Refusal(
                    Reason.GROUP_IN_FLIGHT,
                    f"the last replacement in {group.name} came {int((self._now - landed).total_seconds())}s ago, "
                    f"disruption.settle is {format_duration(rule.settle)}",
                )
        return None

    def take(self, pod: Pod, number: int) -> None:
        """Count a pod as away, or no longer."""
        for group in self._groups.get(pod.uid, ()):
            self._away[group.name] += number

    def most(self, pod: Pod, otherwise: int) -> int:
        """Return how many of the pod's groups may ever be away at once."""
        limits: Mapping[str, int | None] = {
            group.name: group.group.disruption.max_in_flight for group in self._groups.get(pod.uid, ())
        }
        return min((each for each in limits.values() if each is not None), default=otherwise)
