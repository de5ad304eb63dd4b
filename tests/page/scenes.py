"""What a person sees of a morning: a zone is lost, comes back and is repaired, is lost again, somebody pauses.

Each scene is a state of one simulated controller with the history that it has by then, at the simulated time.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple

from structlog.testing import capture_logs

from rebalancer.adapters.web.page_address import PageAddress
from rebalancer.admission.pause import Pause
from rebalancer.assessment.findings import Finding, find_findings
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.controller.page import StatusPage
from rebalancer.controller.runner import Identity
from rebalancer.controller.state import LoopState, PauseRead
from rebalancer.documents.history import HistoryDocument, TrendDocument, history_document, trend_document
from rebalancer.documents.page import PageDocument
from rebalancer.documents.status import LeaseStatus
from rebalancer.history.trend import Trend, extend_trend
from rebalancer.locations import Address
from rebalancer.model.history import Author, EntryKind
from rebalancer.model.moves import MoveState
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder, SimulatedCluster
from tests.build import a_policy
from tests.controller.test_history import Recorded

ZONES: Final = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
BEGIN: Final = datetime(2026, 1, 14, 8, 52, tzinfo=UTC)
LEADER: Final = "rebalancer-5d9c7b6f4-x2k8q"
CLUSTER: Final = "prod-eu"
POLICY: Final = """\
mode: Evict
interval: 10s
spread: {for: 30s}
eligibility: {minAge: 2m}
nodes: {settle: 90s}
budgets: {maxUnavailable: 1, perWorkload: 25%}
groups:
- name: quorum
  selector: {matchLabels: {app: db}}
  limits: [{name: below-half, topologyKey: topology.kubernetes.io/zone, maxShare: "<1/2", severity: critical}]
"""
_STEP: Final = 10.0
"""Seconds from one cycle to the next."""


class Scene(NamedTuple):
    """What the page shows, and when."""

    state: LoopState
    findings: tuple[Finding, ...]
    past: tuple[HistoryDocument, TrendDocument]
    now: datetime


def a_shop() -> ClusterBuilder:
    """Return three zones, four workloads that are spread over them, and one that was placed badly and may not move."""
    builder = ClusterBuilder(at=BEGIN)
    builder.zones(ZONES, 2)
    even = {f"{zone}-{number}": 1 for number in (1, 2) for zone in ZONES}
    for name, pods in (("web", 2), ("search", 1), ("mail", 1)):
        on = dict.fromkeys(even, pods)
        builder.deployment(name, namespace="shop", on=on, spread={ZONE: 1, HOSTNAME: 2})
        builder.budget(name, namespace="shop", max_unavailable=1)
    builder.stateful_set("db", namespace="shop", on=even, spread={ZONE: 1})
    builder.budget("db", namespace="shop", max_unavailable=1)
    badly = {f"{ZONES[0]}-1": 2, f"{ZONES[0]}-2": 2, f"{ZONES[1]}-1": 1}
    builder.deployment("cart", namespace="shop", on=badly, spread={ZONE: 1})
    builder.budget("cart", namespace="shop", max_unavailable=0)
    return builder


class Morning(Recorded):
    """The controller, and what has happened so far."""

    def wait(self, minutes: float) -> None:
        """Run cycles for some minutes."""
        for _ in range(int(minutes * 60 / _STEP)):
            self.cycles(1, apart=_STEP)
            self.keep()

    def wait_for(self, is_so: Callable[[LoopState], bool]) -> None:
        """Run cycles until something is so, an hour at most."""
        for _ in range(360):
            if is_so(self.runner.state):
                return
            self.wait(_STEP / 60)
        raise AssertionError("it has not come so far within an hour")

    def pause(self, pause: Pause | None) -> None:
        self.cluster.pause = pause
        self.runner.tell(PauseRead(pause=pause, author=Author()))

    def scene(self) -> Scene:
        """Return what there is to see five seconds after the last cycle."""
        state = self.runner.state
        cycle = state.cycle
        assert cycle is not None
        entries = [self.entries[seq] for seq in sorted(self.entries)]
        shown = [one for one in entries if one.kind != EntryKind.SAMPLE]
        past = history_document(shown, total=len(shown)), trend_document(extend_trend(Trend(), entries))
        findings = find_findings(
            cycle.view, cycle.assessment, find_unmatched(cycle.view, cycle.assessment, self.policy)
        )
        state = replace(state, process=replace(state.process, cluster_name=CLUSTER))
        return Scene(state, tuple(findings), past, cycle.context.now + timedelta(seconds=5))


def knows_usual(state: LoopState) -> bool:
    """Return whether pods move of a workload of which others have moved."""
    moved = {move.workload for move in state.memory.moves if move.state is MoveState.VERIFIED}
    return any(move.workload in moved for move in state.memory.in_flight)


SCENES: Final = ("ordinary", "lost-zone", "repairing", "paused")


@cache
def scenes() -> Mapping[str, Scene]:
    """Play the morning once."""
    with capture_logs():
        return dict(play())


def play() -> Iterator[tuple[str, Scene]]:
    """Yield the scenes by their names."""
    morning = Morning(SimulatedCluster(a_shop().snapshot(), seed=1), a_policy(POLICY))
    morning.start()
    morning.wait(14)
    morning.cluster.nodes.remove_domain(ZONE, ZONES[2])
    morning.wait(21)
    morning.cluster.nodes.restore_domain(ZONE, ZONES[2])
    morning.wait(30)
    yield "ordinary", morning.scene()
    morning.cluster.nodes.remove_domain(ZONE, ZONES[1])
    morning.wait(4)
    yield "lost-zone", morning.scene()
    morning.cluster.nodes.restore_domain(ZONE, ZONES[1])
    morning.wait_for(knows_usual)
    yield "repairing", morning.scene()
    morning.pause(Pause(by="alice", reason="zone b is upgraded", until=morning.cluster.now + timedelta(minutes=30)))
    morning.wait(1)
    yield "paused", morning.scene()


def read(scene: Scene, path: str = "/", **query: str) -> PageDocument:
    """Return what a view of a scene is made of."""
    with new_page(scene) as page:
        document = page.read(PageAddress(path, query).selection)
    assert document is not None
    return document


@contextmanager
def shown(scene: Scene) -> Iterator[str]:
    """Serve the page of a scene; yields its address."""
    with new_page(scene) as page:
        page.start()
        yield f"http://localhost:{page.address[1]}/"


@contextmanager
def new_page(scene: Scene) -> Iterator[StatusPage]:
    lease = LeaseStatus(holder=LEADER, since=BEGIN)
    page = StatusPage(
        Address("127.0.0.1", 0),
        Identity(name=LEADER, policy_source="configmap:rebalancer-system/rebalancer-policy"),
        now=lambda: scene.now,
        read_lease=lambda: lease,
        read_past=lambda: scene.past,
    )
    page.show(scene.state, scene.findings)
    try:
        yield page
    finally:
        page.stop()
