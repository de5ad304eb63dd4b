"""The real loop over the simulated cluster, with the clock in the test's hand."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from rebalancer.account.happened import RequestAnswered
from rebalancer.controller.runner import Identity, Observer, Runner, Spawn, run_at_once
from rebalancer.controller.state import Clocks, InForce, Leading, LoopState
from rebalancer.controller.takeover import find_remaining
from rebalancer.documents.memory import parse_memory
from rebalancer.policy import Mode, Policy, Spread, default_policy
from rebalancer.policy.sections import Eligibility, Nodes
from rebalancer.ports import MEMORY_KEY, EvictionResult, Monitoring
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder, SimulatedCluster
from tests.build import a_layout

NONE = timedelta(0)


def eager(mode: Mode = Mode.EVICT, *, slow_start: bool = False, **changes: object) -> Policy:
    """Return the default policy with all waiting times taken out, and without slow start."""
    policy = default_policy().model_copy(
        update={
            "mode": mode,
            "spread": Spread(for_=NONE),
            "eligibility": Eligibility(min_age=NONE),
            "nodes": Nodes(settle=NONE),
            **changes,
        }
    )
    budgets = policy.budgets.model_copy(update={"slow_start": slow_start})
    return policy.model_copy(update={"budgets": budgets})


def skewed(
    counts: Sequence[Sequence[int]], zone: int = 1, host: int = 1, *, stateful: bool = False, budget: int | None = 1
) -> ClusterBuilder:
    """Build zones of nodes that hold so many pods of one workload, with a budget of one, or another, or none."""
    blueprint, on = a_layout(counts)
    add = blueprint.stateful_set if stateful else blueprint.deployment
    add("web", on=on, spread={ZONE: zone, HOSTNAME: host})
    if budget is not None:
        blueprint.budget("web", max_unavailable=budget)
    return blueprint


class Watching:
    """An observer that keeps the answers."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        yield

    def changed(self, state: LoopState) -> None:
        self.answers += [one.result for one in state.happened if isinstance(one, RequestAnswered)]


class Simulation:
    """One controller, leading, on one simulated cluster.

    `telling` replaces `observer`; `ahead` is by how much its clock is ahead of the API server's; `monitoring` answers
    guards; `holds_lease` is what the Lease says when somebody else has stored documents.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        policy: Policy,
        telling: Observer | None = None,
        ahead: timedelta = NONE,
        *,
        cycle_ended: Callable[[], None] = lambda: None,
        spawn: Spawn = run_at_once,
        monitoring: Monitoring | None = None,
        holds_lease: bool = False,
    ) -> None:
        self.cluster = cluster
        self._holds_lease = holds_lease
        self._ahead = ahead
        self._cycle_ended = cycle_ended
        self._spawn = spawn
        self._monitoring = monitoring
        self.policy = policy
        self.observer = Watching()
        self._telling = telling or self.observer
        self.runner = self._runner()

    def _runner(self) -> Runner:
        runner = Runner(
            state=LoopState(in_force=InForce(policy=self.policy, policy_since=self.cluster.now)),
            cluster=self.cluster,
            clocks=Clocks(now=lambda: self.cluster.now + self._ahead, monotonic=self.cluster.seconds),
            observer=self._telling,
            may_act=lambda _: True,
            identity=Identity(name="test", policy_source="test"),
            cycle_ended=self._cycle_ended,
            spawn=self._spawn,
            placeholders=self.cluster,
            monitoring=self._monitoring,
            holds_lease=lambda _: self._holds_lease,
        )
        memory = parse_memory(self.cluster.load(MEMORY_KEY))
        remaining = find_remaining(self.cluster, memory, self.cluster.seconds)
        runner.tell(Leading(leads=True, memory=memory, remaining=remaining))
        return runner

    def restart(self) -> None:
        """Begin anew as another process would: with nothing but what was saved."""
        self.runner = self._runner()

    def cycles(self, number: int, *, apart: float = 10.0) -> None:
        """Run so many cycles, seconds apart."""
        for _ in range(number):
            self.runner.tick()
            self.cluster.advance(apart)

    @property
    def evictions(self) -> int:
        """The evictions that were granted."""
        return self.observer.answers.count(EvictionResult.EVICTED)
