"""The promises about surges, checked at each write of them against what is really so."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rebalancer.model.deletion_costs import SURGE_COST
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from rebalancer.ports import ScaleReading
from rebalancer.prevention.plan import PodPatch
from rebalancer.simulator.state import ClusterState
from rebalancer.surge.record import Ending, Phase, Surge, decode_surges
from tests.world.hub import Hub

REQUEST_SECONDS: Final = 3.0
"""From the last check of a request to its arrival: what changes in it nobody could have seen."""

INFORMED_WITHIN: Final = 3.0
"""Seconds after which the controllers of this world have seen every change."""

Breach = Callable[[str], None]


class SurgeMonitor:
    """Follows the replicas that people ask for, the records, and the marks. `most` is `repair.maxSurge`."""

    def __init__(self, state: ClusterState, hub: Hub, breach: Breach, most: int) -> None:
        self._state, self._hub, self._breach, self._most = state, hub, breach, most
        self.stored: Mapping[str, Surge] = {}
        """The stored records, by UID of the workload."""
        self.endings: Counter[Ending] = Counter()
        self.taken: set[tuple[Phase, Phase]] = set()
        """The transitions that were stored."""
        self.asked = {top.uid: top.replicas for top in self._tops()}
        self._ours = False
        self._changed_at: dict[str, float] = {}
        """When the deletion cost of a pod was written last."""
        self._marked: set[str] = set()
        self._unready_since: dict[str, float] = {}
        state.store.workloads.listeners.append(self._workload_changed)
        state.store.pods.listeners.append(self._pod_changed)

    def _tops(self) -> Iterator[Workload]:
        return (item for item in self._state.store.workloads if item.owner is None)

    def _workload_changed(self, before: Workload | None, after: Workload | None) -> None:
        """Take a number that somebody else has written for what is asked for."""
        if self._ours or after is None or after.owner is not None:
            return
        if before is None or before.replicas != after.replicas:
            self.asked[after.uid] = after.replicas

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None or after.ready:
            self._unready_since.pop((after or before).uid, None)  # type: ignore[union-attr]
        else:
            self._unready_since.setdefault(after.uid, self._hub.seconds)

    # Writes

    def stores(self, text: str) -> None:
        """Note what is stored of surges from now on."""
        now = {one.uid: one for one in decode_surges(text)}
        for uid, one in self.stored.items():
            if uid not in now:
                self.endings[one.ending or Ending.DONE] += 1
                if one.phase is not Phase.UNMARKING:
                    self._breach(f"the record of {one.workload} is forgotten in phase {one.phase}")
        self.taken |= {
            (self.stored[uid].phase, one.phase)
            for uid, one in now.items()
            if uid in self.stored and self.stored[uid].phase is not one.phase
        }
        self.stored = now

    def patched(self, patch: PodPatch) -> None:
        """Note that a pod's deletion cost was written."""
        self._changed_at[patch.uid] = self._hub.seconds
        if patch.cost == SURGE_COST:
            self._marked.add(patch.uid)
            if not any(one.owner == self._owner_of(patch.uid) for one in self.stored.values()):
                self._breach(f"pod {patch.name} is marked without a stored record")

    def scales(self, who: str, read: ScaleReading, after: int, scale: Callable[[], bool]) -> None:
        """Check a change of replicas as the API server carries it out."""
        top = self._state.store.workloads.get(read.uid)
        before = None if top is None else top.replicas
        self._ours = True
        done = scale()
        self._ours = False
        if not done or top is None or before is None or before == after:
            return
        asked, surge = self.asked[top.uid], self.stored.get(top.uid)
        if surge is None:
            self._breach(f"{who} scales {top} from {before} to {after} without a stored record")
        elif (after > before and (before != asked or after - asked > self._most)) or (
            after < before and after != asked
        ):
            self._breach(f"{who} scales {top} from {before} to {after}, where {asked} are asked for")
        elif after < before and surge.ending is not Ending.ROLLED_OUT:
            self._check_marks(who, surge)
            if surge.phase is Phase.REMOVING:
                self._check_removal(who, surge)

    def _check_marks(self, who: str, surge: Surge) -> None:
        """Check that the ReplicaSet controller knows the marks as they are."""
        now = self._hub.seconds
        for pod in self._state.store.pods.of(surge.owner):
            age = now - self._changed_at.get(pod.uid, -INFORMED_WITHIN)
            if not pod.terminating and age < INFORMED_WITHIN:
                self._breach(
                    f"{who} removes pods of {surge.workload} {age:.1f}s after the cost of {pod.name} was written"
                )

    def _owner_of(self, uid: str) -> str:
        pod = self._state.store.pods.get(uid)
        return "" if pod is None or pod.owner is None else pod.owner.uid

    def _check_removal(self, who: str, surge: Surge) -> None:
        """Check that the victims are marked, and that no pod goes before them since it is not Ready."""
        now = self._hub.seconds
        for pod in self._state.store.pods.of(surge.owner):
            if pod.terminating:
                continue
            if pod.uid in {one.uid for one in surge.victims} - self._marked:
                self._breach(f"{who} removes pods of {surge.workload}, and {pod.name} was never marked")
            since = self._unready_since.get(pod.uid, now)
            if not pod.ready and now - since > REQUEST_SECONDS:
                self._breach(
                    f"{who} removes pods of {surge.workload}, and {pod.name} has not been Ready for {now - since:.0f}s"
                )

    # The end

    def check_end(self) -> None:
        """Nothing of any surge is left: every workload has as many replicas as people ask for."""
        for one in self.stored.values():
            self._breach(f"a surge of {one.workload} is left in phase {one.phase}")
        for top in self._tops():
            if top.replicas != self.asked[top.uid]:
                self._breach(f"{top} has {top.replicas} replicas at the end, {self.asked[top.uid]} are asked for")
        for pod in self._state.store.pods:
            if not pod.terminating and pod.own_deletion_cost == SURGE_COST:
                self._breach(f"the mark of {pod.name} is left at the end")
