"""A process that does not lead shows what the leader has stored and what `plan` would say, with the same numbers."""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from rebalancer.adapters.web.page_address import PageAddress
from rebalancer.adapters.web.page_view import PageView
from rebalancer.admission.pause import Pause
from rebalancer.capacity.evaluated import evaluate_once
from rebalancer.controller.follower import Followed, Follower
from rebalancer.controller.page import StatusPage
from rebalancer.controller.runner import Identity
from rebalancer.controller.saver import SAME_AGAIN
from rebalancer.controller.state import Clocks, InForce, LoopState, PauseRead, PolicyLoaded
from rebalancer.documents.document import to_json
from rebalancer.documents.memory import parse_memory
from rebalancer.documents.next_cycle import foretell
from rebalancer.documents.page import PageDocument
from rebalancer.documents.plan import plan_totals
from rebalancer.documents.status import LeaseStatus, StatusDocument
from rebalancer.locations import Address
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy
from rebalancer.ports import MEMORY_KEY, STATUS_KEY, ReadFailedError
from rebalancer.reporting.headline import headlines
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.simulator import SimulatedCluster
from tests.controller.simulated import Simulation, eager, skewed
from tests.drawing import examples
from tests.reporting.test_plan_numbers import clusters
from tests.reports import all_findings


class Replicas:
    """A leader on a simulated cluster, and another process that follows it."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.cluster = SimulatedCluster(snapshot)
        self.leader = Simulation(self.cluster, policy)
        self.state = LoopState(in_force=InForce(policy=policy, policy_since=self.cluster.now))
        """That of the process that follows: it has had no cycle."""
        self.reads = self.evaluations = 0
        self.error = self.stale = ""
        self.changed: Mapping[str, str] = {}
        """Documents that stand in the place of the stored ones."""
        self.lease = LeaseStatus(holder="test")
        self.follower = Follower(
            read_stored=self._read_stored,
            read_cluster=self._read_cluster,
            find_staleness=lambda: self.stale,
            clocks=Clocks(now=lambda: self.cluster.now, monotonic=self.cluster.seconds),
        )

    def _read_stored(self) -> Mapping[str, str]:
        self.reads += 1
        if self.error:
            raise ReadFailedError(self.error)
        return {**self.cluster.documents, **self.changed}

    def _read_cluster(self, now: object) -> Snapshot:
        self.evaluations += 1
        return self.cluster.snapshot(self.cluster.now)

    def settle(self) -> None:
        """Run the leader's cycles until one requests nothing: what it shows is of the cluster as it is then."""
        self.cluster.advance(SAME_AGAIN)  # then it stores what differs in times alone, too
        before = -1
        while before < len(self.leader.observer.answers):
            before = len(self.leader.observer.answers)
            self.leader.runner.tick()

    def look(self) -> Followed:
        followed = self.follower.look(self.state.in_force)
        assert followed is not None
        return followed

    def page(self, state: LoopState, name: str) -> PageDocument:
        """Return what the page of a process shows in a state of its loop."""
        SHOWN.append(self)
        page = PAGES[name]
        cycle = state.cycle
        page.show(state, all_findings(cycle.view, cycle.assessment, cycle.context.policy) if cycle is not None else ())
        document = page.read(with_report=True)
        assert document is not None
        return document


SHOWN: deque[Replicas] = deque(maxlen=1)
"""Whose pages are shown."""


class _Shown(Follower):
    """The follower of the replicas that are shown."""

    def __init__(self) -> None:
        pass

    def look(self, in_force: InForce) -> Followed | None:
        return SHOWN[0].follower.look(in_force)

    def forget(self) -> None:
        SHOWN[0].follower.forget()


PAGES = {
    name: StatusPage(
        Address("127.0.0.1", 0),
        Identity(name=name, policy_source="test"),
        now=lambda: SHOWN[0].cluster.now,
        read_lease=lambda: SHOWN[0].lease,
        follower=_Shown(),
    )
    for name in ("test", "another")
}
"""Made once: compiling templates takes longer than all that is shown. They serve nobody."""


def find_differences(one: object, other: object, path: str = "") -> set[str]:
    """Return the fields of two documents that are not equal: of drawn ones nobody reads more."""
    if isinstance(one, Struct) and type(one) is type(other):
        fields = one.__struct_fields__
        parts = (find_differences(getattr(one, name), getattr(other, name), f"{path}.{name}") for name in fields)
        return set[str]().union(*parts)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return set[str]().union(*(find_differences(*pair, path) for pair in zip(one, other, strict=True)))
    return set() if one == other else {path.removeprefix(".") + f" {one!r:.90} {other!r:.90}"}


def in_order(page: PageDocument) -> PageDocument:
    """Return a page with its waiting evictions by UID, without what their messages say besides reason and end.

    Whose turn is first in a cycle is the leader's alone, and a stored wait leaves out what changes with time.
    """
    waiting = sorted(page.waiting, key=attrgetter("uid"))
    return structs.replace(page, waiting=tuple(structs.replace(one, message="") for one in waiting))


@given(clusters(), st.integers(0, 3), st.sampled_from([*Mode, None]))
@examples(100)
def test_a_follower_shows_the_numbers_of_the_leader_and_of_plan(
    drawn: tuple[Snapshot, Policy], cycles: int, mode: Mode | None
) -> None:
    """Whatever is violated, moves, waits, is paused or only observed; None is a pause."""
    snapshot, policy = drawn
    replicas = Replicas(snapshot, policy.model_copy(update={"mode": mode or Mode.EVICT}))
    if mode is None:
        replicas.cluster.pause = Pause(by="ann", reason="upgrade")
        replicas.leader.runner.tell(PauseRead(pause=replicas.cluster.pause))
    replicas.leader.cycles(cycles)
    replicas.settle()
    leaders = replicas.page(replicas.leader.runner.state, "test")
    own = replicas.page(replicas.state, "another")
    assert (leaders.leads, own.leads) == (True, False)
    assert (leaders.follows is None, own.follows is None) == (True, False)
    assert own.overview is not None
    alike = structs.replace(own, leads=True, follows=None, status=structs.replace(own.status, map=None))
    assert sorted(find_differences(in_order(alike), in_order(leaders))) == []
    assert own.overview.figures == own.status.figures
    assert own.overview.figures.moving == len(own.status.in_flight)
    planned = evaluate_once(
        replicas.cluster.snapshot(replicas.cluster.now),
        replicas.leader.policy,
        DEFAULT_PROFILE,
        parse_memory(replicas.cluster.documents[MEMORY_KEY]),
    )
    said = plan_totals(structs.replace(planned.plan, fates=foretell(planned, own.status)))
    assert own.totals is not None
    if mode is Mode.OBSERVE:  # `plan` says what would go now, and the page of a leader that it waits
        said = structs.replace(said, now=own.totals.now, waiting=own.totals.waiting)
    assert own.totals == said


def replicas(policy: Policy | None = None) -> Replicas:
    """Return replicas of which one has evicted a pod of a workload that needs four evictions."""
    made = Replicas(skewed([[4], [0], [0]], budget=None).snapshot(), policy or eager(slow_start=True))
    made.leader.cycles(1)
    made.settle()
    return made


def test_it_evaluates_for_who_looks_once_for_each_status_or_interval() -> None:
    """However many look; and reads what is stored once in a second."""
    shown = replicas()
    assert (shown.reads, shown.evaluations) == (0, 0)
    for _ in range(5):
        shown.look()
    assert (shown.reads, shown.evaluations) == (1, 1)
    shown.cluster.advance(2)
    shown.look()
    assert (shown.reads, shown.evaluations) == (2, 1), "the same status, within the interval"
    shown.cluster.advance(SAME_AGAIN)
    shown.leader.runner.tick()
    shown.look()
    assert shown.evaluations == 2, "the leader has stored another status"
    shown.cluster.advance(shown.leader.policy.interval.total_seconds())
    shown.look()
    assert shown.evaluations == 3, "an interval is over"
    shown.follower.forget()
    shown.look()
    assert shown.evaluations == 4


def test_a_changed_policy_is_evaluated_when_the_leader_acts_by_it() -> None:
    """Two policies have two answers: between them there is none."""
    shown = replicas()
    policy = shown.leader.policy.model_copy(update={"interval": timedelta(seconds=7)})
    shown.state = replace(shown.state, in_force=replace(shown.state.in_force, policy=policy))
    followed = shown.look()
    assert followed.source is None
    own, leaders = policy.cluster.hash, shown.leader.policy.cluster.hash
    assert followed.follows.problem == f"the stored status is by policy {leaders}, this replica has read {own}"
    assert followed.status.in_flight, "what the leader has stored is shown all the same"
    shown.leader.runner.tell(PolicyLoaded(policy=policy))
    shown.leader.runner.tick()
    shown.cluster.advance(1)
    assert shown.look().source is not None


def test_what_was_read_serves_for_some_seconds_without_an_answer() -> None:
    shown = replicas()
    before = shown.look()
    shown.error = "no answer"
    shown.cluster.advance(9)
    assert shown.look() == before
    shown.cluster.advance(2)
    after = shown.look()
    assert (after.source, after.follows.problem) == (None, "the stored status cannot be read: no answer")
    assert after.status == before.status
    shown.error = ""
    shown.cluster.advance(1)
    assert shown.look().source is not None


@pytest.mark.parametrize("stored", ["", "{}", '{"kind": "Status"}'])
def test_without_a_status_that_it_can_read_it_names_the_leader(stored: str) -> None:
    """Where nobody has stored one, or another version has."""
    shown = replicas()
    shown.changed = {STATUS_KEY: stored}
    assert shown.follower.look(shown.state.in_force) is None
    page = shown.page(shown.state, "another")
    assert page.acting == "this process does not lead: test does, and this process is ready to take over"
    assert (page.follows, page.overview) == (None, None)


def test_nothing_is_evaluated_without_the_moves_or_on_an_old_view() -> None:
    shown = replicas()
    shown.stale = "Pod: no watch event for 61s"
    assert shown.look().follows.problem == shown.stale
    shown.stale, shown.changed = "", {MEMORY_KEY: "of another version"}
    shown.cluster.advance(1)
    problem = "what the leader has stored of its moves cannot be read by the version of this replica"
    assert shown.look().follows.problem == problem
    assert shown.evaluations == 0


def test_a_reason_that_this_version_does_not_know_is_left_to_the_leader() -> None:
    """In a rolling update the leader may be newer: a word of its own must not take the page away."""
    shown = replicas()
    text = shown.cluster.documents[STATUS_KEY]
    shown.changed = {STATUS_KEY: text.replace("SlowStart", "NewReason").replace("GroupInFlight", "NewReason")}
    assert shown.changed[STATUS_KEY] != text
    assert shown.look().source is not None


def test_a_leader_shows_its_own_cycle_and_forgets_what_it_has_evaluated() -> None:
    shown = replicas()
    shown.look()
    page = shown.page(shown.leader.runner.state, "test")
    assert (page.leads, page.follows) == (True, None)
    shown.look()
    assert shown.evaluations == 2


def paused() -> tuple[Replicas, StatusDocument]:
    """Return replicas of which the leader is paused before its first eviction, and what it has stored."""
    shown = Replicas(skewed([[4], [0], [0]], budget=None).snapshot(), eager())
    shown.cluster.pause = Pause()
    shown.leader.runner.tell(PauseRead(pause=shown.cluster.pause))
    shown.leader.cycles(1, apart=3)
    return shown, shown.look().status


def page_with(shown: Replicas, status: StatusDocument) -> PageDocument:
    """Return the page a second later, with another stored status."""
    shown.changed = {STATUS_KEY: to_json(status).decode()}
    shown.cluster.advance(1)
    return shown.page(shown.state, "another")


def test_the_page_says_whose_each_part_is_and_how_old() -> None:
    """And that an eviction which nothing known keeps back, as right after a pause, is the leader's to decide."""
    shown, status = paused()
    page = page_with(shown, structs.replace(status, paused=None, waits=()))
    view = PageView(page, PageAddress("/", {}), shown.cluster.now)
    stored, own = view.follows
    assert stored == "This replica does not lead. What the controller does, moves and waits: as of 4s ago, led by test."
    assert own.startswith("Counts, map and plan: this replica's own evaluation, 0s ago, as rebalancer plan makes it.")
    assert page.evictions
    assert view.steps.entries[0].when == "when the leader decides"
    assert list(PageView(structs.replace(page, follows=None), PageAddress("/", {}), shown.cluster.now).follows) == []


def test_without_a_leader_the_page_keeps_its_content_and_says_so() -> None:
    """Nothing goes on when a wait has ended, and no time is said at which something did."""
    shown, status = paused()
    assert status.figures is not None
    later = structs.replace(status.figures, next_at=shown.cluster.now + timedelta(minutes=1))
    for lease, acting, when, follows in (
        (
            LeaseStatus(free_since=shown.cluster.now),
            "no controller runs: Lease free since",
            "when a controller leads",
            False,
        ),
        (LeaseStatus(holder="test"), "test leads", "does not end by itself", True),
        (
            LeaseStatus(holder="another"),
            "this process holds the Lease and does not lead yet",
            "does not end by itself",
            True,
        ),
    ):
        shown.lease = lease
        page = page_with(shown, structs.replace(status, figures=later))
        assert page.acting.startswith(acting)
        assert bool(page.commands) is not follows
        view = PageView(page, PageAddress("/", {}), shown.cluster.now)
        assert view.steps.entries[0].when == when
        assert {row.ends.short for row in view.rows.entries if row.ends is not None} == {when}
        assert any("the next in " in figure.detail for figure in view.figures) is follows
        assert (view.figures[1].label == "Moving now") is follows


def test_what_keeps_all_back_holds_beyond_the_stored_waits_and_a_stored_wait_holds_its_repair() -> None:
    """The status has the first twenty waits alone; what the leader has met since its cycle, it alone knows."""
    shown, status = paused()
    page = page_with(shown, structs.replace(status, waits=()))
    assert page.evictions == ()
    assert Reason.PAUSED in {one.for_ for one in page.waiting}
    observing = Replicas(skewed([[4], [0], [0]], budget=None).snapshot(), eager(Mode.OBSERVE))
    observing.leader.cycles(1)
    page = page_with(observing, structs.replace(observing.look().status, waits=()))
    assert page.evictions == ()
    assert Reason.OBSERVE_ONLY in {one.for_ for one in page.waiting}
    (wait,) = status.waits
    until = shown.cluster.now + timedelta(minutes=3)
    refused = structs.replace(wait, reason=Reason.BACK_OFF, message="it was refused", until=until, ends_with="")
    page = page_with(shown, structs.replace(status, paused=None, waits=(refused,)))
    assert page.evictions == ()
    assert page.overview is not None
    (row,) = page.overview.rows
    assert row.wait == refused
    elsewhere = structs.replace(refused, namespace="another")
    assert page_with(shown, structs.replace(status, paused=None, waits=(elsewhere,))).evictions


def test_what_moves_is_what_the_leader_has_stored() -> None:
    """Also a moment before the leader has seen that a replacement is Ready: list and number say the same."""
    shown = replicas()
    shown.cluster.advance(60)
    page = shown.page(shown.state, "another")
    assert len(page.status.in_flight) > 0
    assert page.overview is not None
    assert page.overview.figures.moving == len(page.status.in_flight)


def test_it_says_why_nothing_is_evaluated() -> None:
    shown = replicas()
    shown.stale = "Pod: no watch event for 61s"
    page = shown.page(shown.state, "another")
    view = PageView(page, PageAddress("/", {}), shown.cluster.now)
    assert view.follows[1] == "Nothing is evaluated: Pod: no watch event for 61s."
    assert view.headline.text == headlines(page.status, page.status.figures, shown.cluster.now)[0].text
