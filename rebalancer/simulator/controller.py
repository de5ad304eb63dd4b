"""A process of the controller on a simulated cluster, without threads: every cycle runs to its end."""

from contextlib import AbstractContextManager, nullcontext

from rebalancer.account.happened import RequestAnswered
from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.controller.prevention import PreventionWorker
from rebalancer.controller.runner import Identity, Runner
from rebalancer.controller.state import Clocks, InForce, Leading, LoopState, PauseRead
from rebalancer.controller.surge import SurgeWorker
from rebalancer.policy import Guards, Policy
from rebalancer.ports import EvictionResult, Monitoring
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.simulator import SimulatedCluster


class _EvictionCounter:
    """The loop's observer; counts evictions."""

    def __init__(self) -> None:
        self.evicted = 0

    def phase(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002  # the duration is not shown
        """Time nothing."""
        return nullcontext()

    def changed(self, state: LoopState) -> None:
        """Count granted evictions."""
        self.evicted += sum(
            isinstance(one, RequestAnswered) and one.result == EvictionResult.EVICTED for one in state.happened
        )


class _Good:
    """A Prometheus whose answer to every query is good."""

    def ask(self, guards: Guards) -> tuple[GuardAnswer, ...]:
        """Answer each query well."""
        return tuple(GuardAnswer(guard.name, Verdict.GOOD, "supposed to be good") for guard in guards.queries)


class SimulatedController:
    """A controller that leads and follows a policy.

    `name` identifies it; `monitoring` answers the queries of guards.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        policy: Policy,
        *,
        name: str,
        profile: Profile = DEFAULT_PROFILE,
        monitoring: Monitoring | None = None,
    ) -> None:
        self._cluster = cluster
        self._observer = _EvictionCounter()
        clocks = Clocks(now=lambda: cluster.now, monotonic=cluster.seconds)
        self._runner = Runner(
            state=LoopState(in_force=InForce(policy=policy, policy_since=cluster.now, profile=profile)),
            cluster=cluster,
            clocks=clocks,
            observer=self._observer,
            may_act=lambda _: True,
            identity=Identity(name=name, policy_source=name),
            monitoring=monitoring or _Good(),
        )
        self._prevention = PreventionWorker(
            cluster=cluster,
            clocks=clocks,
            get_state=lambda: self._runner.state,
            may_act=lambda _: True,
            tell=self._runner.tell,
            burst=policy.interval.total_seconds(),  # a cycle's patches are sent at once here
        )
        self._surges = SurgeWorker(
            cluster=cluster,
            clocks=clocks,
            get_state=lambda: self._runner.state,
            may_act=lambda _: True,
            tell=self._runner.tell,
        )
        self._runner.tell(Leading(leads=True))

    @property
    def state(self) -> LoopState:
        return self._runner.state

    @property
    def evicted(self) -> int:
        """How many evictions were granted."""
        return self._observer.evicted

    def run_cycle(self) -> None:
        """Run a cycle at the current time, and then the updates of deletion costs and the next steps of surges."""
        self._runner.tick()
        self._prevention.cycle_ended()
        self._prevention.work()
        self.go_on()

    def go_on(self) -> None:
        """Take the next steps of surges; the real controller does so every second."""
        self._surges.work()
        self._runner.drain()

    def observe(self, before: object, after: object) -> None:
        """Observe a change in the cluster, which may call for an early cycle."""
        self._runner.observe(before, after)

    def read_pause(self) -> None:
        """Read the kill switch; the real controller does so every second."""
        self._runner.tell(PauseRead(pause=self._cluster.read_pause()))
        self._runner.drain()

    def time_to_cycle(self) -> float | None:
        """Return the seconds until the next early cycle; None if none is due."""
        return self._runner.time_to_cycle()
