"""Slow start: few moves are under way at first, steps of several get their turn, and a cluster that holds is probed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from rebalancer.admission.admit import Admission, AdmissionContext, BreakerOpen, admit
from rebalancer.admission.breaker import update_breaker
from rebalancer.admission.memory import update_memory
from rebalancer.admission.slow_start import (
    PATIENCE,
    PodEnding,
    ReplacementNotCreated,
    ReplacementNotRunning,
    StepQueued,
    WindowFull,
    WindowUse,
    describe_windows,
)
from rebalancer.engine import evaluate
from rebalancer.model.approvals import Proposal
from rebalancer.model.breaker import CLOSED, BreakerCause, BreakerState
from rebalancer.model.moves import NO_MEMORY, Memory, Move, MoveState, OwnFailure, Reference, StartWindow
from rebalancer.model.pods import Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Plan
from rebalancer.policy import Amount, Breaker, Budgets, Mode, Policy
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.tracking.arrivals import CLUSTER_PLACE, UNSCHEDULABLE
from rebalancer.tracking.holds import FIRST_PROBE
from rebalancer.tracking.windows import grow_windows
from tests.build import a_cluster, with_evictions, without_node
from tests.controller.simulated import eager
from tests.drawing import examples
from tests.tracking.build import move

PLENTY = dict.fromkeys(
    ("max_unavailable", "per_workload", "per_cycle", "per_node", "per_namespace", "per_minute"), Amount(value=100)
)
POLICY = eager(budgets=Budgets(**PLENTY), slow_start=True)
SECOND = timedelta(seconds=1)


def rules(**budgets: Any) -> Policy:
    return eager(budgets=Budgets(**{**PLENTY, **budgets}), slow_start=True)


def violated(namespaces: int = 3) -> Snapshot:
    """Workloads in as many namespaces, four evictions each."""
    blueprint = a_cluster("abc", 2)
    for number in range(namespaces):
        on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
        blueprint.deployment("web", on=on, spread={ZONE: 1, HOSTNAME: 1}, namespace=f"team-{number}")
    return blueprint.snapshot()


SNAPSHOT = violated()
EVALUATION = evaluate(SNAPSHOT, POLICY)
PLAN = EVALUATION.plan
NOW = SNAPSHOT.taken_at


def needing(number: int, *namespaces: str) -> Plan:
    """Return the plan in which the steps of some namespaces need that many evictions at once."""
    evictions = tuple(
        structs.replace(one, repair=structs.replace(one.repair, needed=number))
        if one.pod.namespace in namespaces
        else one
        for one in PLAN.fates.going
    )
    return with_evictions(PLAN, evictions)


def admitted(
    memory: Memory = NO_MEMORY,
    *,
    made: Plan = PLAN,
    snapshot: Snapshot = SNAPSHOT,
    policy: Policy = POLICY,
    now: datetime = NOW,
    **fields: Any,
) -> Admission:
    memory = update_memory(memory, EVALUATION.assessment, made, now, canary=policy.budgets.canary)
    memory = structs.replace(memory, seen=tuple((token, NOW) for token, _ in memory.seen))
    return admit(made, snapshot, memory, AdmissionContext(policy=policy, mode=Mode.EVICT, now=now, **fields))


def under_way(uid: str, namespace: str, **fields: Any) -> Move:
    """Return a move of another workload, whose replacement has not arrived."""
    fields = {"state": MoveState.EVICTED, "workload": Reference(namespace, "Deployment", uid), **fields}
    return move(uid, fields.pop("at", NOW), namespace=namespace, **fields)


def spaces(admission: Admission) -> Counter[str]:
    return Counter(one.pod.namespace for one in admission.fates.going)


def causes(admission: Admission) -> set[object]:
    return {one.refusal for one in admission.fates.kept}


def windows(admission: Admission) -> dict[str, tuple[int, bool]]:
    return {one.namespace: (one.size, one.limited) for one in admission.windows}


def test_at_first_two_moves_in_the_cluster_and_one_in_a_namespace() -> None:
    """The rest waits, and says for what; the windows that limit are stored."""
    admission = admitted()
    assert sorted(spaces(admission).values()) == [1, 1]
    assert {one.reason for one in admission.fates.kept} == {Reason.SLOW_START}
    full = set(spaces(admission))
    assert causes(admission) == {WindowFull("", 2, under_way=0, going=2)}
    assert windows(admission) == {"": (2, True), **dict.fromkeys(full, (1, True))}


def test_where_only_the_namespace_limits_the_cluster_does_not() -> None:
    one = with_evictions(PLAN, tuple(x for x in PLAN.fates.going if x.pod.namespace == "team-0"))
    admission = admitted(made=one)
    assert spaces(admission) == {"team-0": 1}
    assert causes(admission) == {WindowFull("team-0", 1, under_way=0, going=1)}
    assert windows(admission) == {"team-0": (1, True)}
    memory = Memory(moves=(under_way("x", "team-0"),))
    assert causes(admitted(memory, made=one)) == {WindowFull("team-0", 1, 1)}


def test_without_slow_start_everything_goes() -> None:
    """`budgets.slowStart: false`."""
    admission = admitted(policy=eager(budgets=Budgets(**PLENTY)))
    assert (len(admission.fates.going), admission.windows, admission.queued) == (12, (), ())


def test_what_a_rate_refuses_takes_no_place() -> None:
    """And a window that a rate does not fill does not limit."""
    admission = admitted(policy=rules(per_cycle=Amount(value=1)))
    assert len(admission.fates.going) == 1
    assert {one.reason for one in admission.fates.kept} == {Reason.RATE_LIMITED}
    assert admission.windows == ()


def test_moves_that_have_not_arrived_take_the_places() -> None:
    """Those that have arrived, are overdue elsewhere or over do not."""
    memory = Memory(moves=(under_way("x", "elsewhere"),))
    assert len(admitted(memory).fates.going) == 1
    for fields in ({"arrived": True}, {"state": MoveState.VERIFIED}, {"state": MoveState.REFUSED}, {"uncreated": ""}):
        assert len(admitted(Memory(moves=(under_way("x", "elsewhere", **fields),))).fates.going) == 2
    waits = admitted(Memory(moves=(under_way("x", "elsewhere"),)))
    assert waits.next_try == NOW + 10 * SECOND, "when its replacement is overdue"


def test_a_move_that_gets_no_further_leaves_the_places_of_others_after_two_minutes() -> None:
    """Its replacement may wait for a node for ten minutes, where the policy says so; its own namespace waits for it."""
    patient = POLICY.model_copy(update={"breaker": Breaker(pending_for=timedelta(minutes=10))})
    stuck = tuple(under_way(name, "team-0", state=MoveState.PENDING, replacement=name) for name in "xy")
    before = admitted(Memory(moves=stuck), policy=patient, now=NOW + CLUSTER_PLACE - SECOND)
    assert (before.fates.going, before.next_try) == ((), NOW + CLUSTER_PLACE)
    after = admitted(Memory(moves=stuck), policy=patient, now=NOW + CLUSTER_PLACE)
    assert spaces(after) == {"team-1": 1, "team-2": 1}
    assert WindowFull("team-0", 1, 2) in causes(after) or WindowFull("", 2, 2) in causes(after)
    only = with_evictions(PLAN, tuple(one for one in PLAN.fates.going if one.pod.namespace == "team-0"))
    assert causes(admitted(Memory(moves=stuck), policy=patient, made=only, now=NOW + CLUSTER_PLACE)) == {
        WindowFull("team-0", 1, 2)
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["team-0", "team-1"]),
            st.sampled_from([MoveState.EVICTED, MoveState.PENDING]),
            st.integers(0, 300),
            st.none() | st.integers(0, 300),
        ),
        max_size=6,
    )
)
def test_the_clusters_window_counts_what_got_further_within_two_minutes(
    drawn: list[tuple[str, MoveState, int, int | None]],
) -> None:
    """A namespace's counts all that is under way: over any moves, by an independent count."""
    now = NOW + timedelta(seconds=300)
    moves = [
        under_way(
            str(number),
            space,
            state=state,
            changed_at=NOW + changed * SECOND,
            bound_since=None if bound is None else NOW + bound * SECOND,
        )
        for number, (space, state, changed, bound) in enumerate(drawn)
    ]
    uses = describe_windows(Memory(moves=tuple(moves)), SNAPSHOT, now)
    assert uses.cluster.under_way == sum(max(changed, bound or 0) > 180 for _, _, changed, bound in drawn)
    limited = tuple(StartWindow(namespace=space, size=1, limited=True, moved_at=now) for space in ("team-0", "team-1"))
    known = describe_windows(Memory(moves=tuple(moves), windows=limited), SNAPSHOT, now).namespaces
    for space in ("team-0", "team-1"):
        assert known[space].under_way == sum(one == space for one, _, _, _ in drawn)


def test_ramping_doubles() -> None:
    """2, 4, 8, …: each replacement that arrives lets one more go, as long as enough wait."""
    snapshot = violated(40)
    made = evaluate(snapshot, POLICY).plan
    memory, numbers = NO_MEMORY, []
    for second in range(4):
        now = snapshot.taken_at + second * SECOND
        context = AdmissionContext(policy=POLICY, mode=Mode.EVICT, now=now)
        admission = admit(made, snapshot, memory, context)
        numbers.append(len(admission.fates.going))
        moves = tuple(
            under_way(one.pod.uid, one.pod.namespace, at=now, workload=one.workload) for one in admission.fates.going
        )
        arrived = tuple(structs.replace(one, arrived=True, state=MoveState.VERIFIED) for one in moves)
        memory = grow_windows(Memory(moves=arrived, windows=admission.windows), moves, now)
    assert numbers == [2, 4, 8, 16]


def test_a_step_of_several_goes_once_nothing_else_is_under_way() -> None:
    """It may exceed the windows then; what it waits for is said, and since when it waits is stored."""
    made = needing(3, "team-0")
    alone = with_evictions(made, tuple(one for one in made.fates.going if one.pod.namespace == "team-0"))
    assert len(admitted(made=alone).fates.going) == 3
    busy = admitted(Memory(moves=(under_way("x", "elsewhere"),)), made=alone)
    assert (busy.fates.going, causes(busy)) == ((), {WindowFull("", 2, 1)})
    assert [since for _, since in busy.queued] == [NOW]
    larger = Memory(
        moves=(under_way("x", "elsewhere"),),
        windows=(StartWindow(size=4, moved_at=NOW), StartWindow(namespace="team-0", size=3, moved_at=NOW)),
    )
    assert len(admitted(larger, made=alone).fates.going) == 3
    assert not admitted(larger, made=alone).queued


def test_nothing_overtakes_a_step_that_has_waited_for_two_minutes() -> None:
    """Others go before that, and after it when it has gone."""
    made = needing(3, "team-0")
    memory = Memory(moves=(under_way("x", "elsewhere"),))
    first = admitted(memory, made=made)
    assert set(spaces(first)) <= {"team-1", "team-2"}
    assert len(first.fates.going) == 1
    later = structs.replace(memory, queued=first.queued)
    soon = admitted(later, made=made, now=NOW + PATIENCE - SECOND)
    assert len(soon.fates.going) == 1
    assert soon.queued == first.queued
    late = NOW + PATIENCE
    held = admitted(structs.replace(later, moves=(under_way("x", "elsewhere", at=late),)), made=made, now=late, turn=1)
    assert held.fates.going == ()
    assert causes(held) == {WindowFull("", 2, 1), StepQueued(Reference("team-0", "Deployment", "web"), 3)}
    free = admitted(structs.replace(later, moves=()), made=made, now=late)
    assert spaces(free) == {"team-0": 3}
    ahead = structs.replace(later, queued=tuple((token, late + PATIENCE) for token, _ in first.queued))
    assert admitted(ahead, made=made).queued == first.queued, "a clock that was set back delays nothing"


def test_a_replacement_that_does_not_run_stops_its_workload_alone() -> None:
    """With its kubelet's words; a second workload's stops the namespace, whose window begins anew."""
    web = Reference("team-0", "Deployment", "web")
    overdue = under_way("x", "team-0", workload=web, state=MoveState.PENDING, unstarted="ImagePullBackOff")
    admission = admitted(Memory(moves=(overdue,)), policy=eager(budgets=Budgets(**PLENTY)))
    assert spaces(admission) == {"team-1": 4, "team-2": 4}
    assert causes(admission) == {ReplacementNotRunning(web, "x", "ImagePullBackOff", holds_namespace=False)}
    assert {one.reason for one in admission.fates.kept} == {Reason.SLOW_START}
    db = structs.replace(overdue, uid="y", pod="y", workload=Reference("team-0", "Deployment", "db"))
    api = structs.replace(overdue, uid="z", pod="z", workload=Reference("team-0", "Deployment", "api"))
    grown = (StartWindow(size=9, moved_at=NOW), StartWindow(namespace="team-0", size=9, moved_at=NOW))
    several = admitted(Memory(moves=(api, db), windows=grown))
    assert not spaces(several)["team-0"]
    assert ReplacementNotRunning(db.workload, "y", "ImagePullBackOff", holds_namespace=True) in causes(several)
    assert windows(several)[""][0] == 9
    assert "team-0" not in windows(several)


def test_a_pod_that_takes_long_to_end_stops_its_workload_alone() -> None:
    """A broker that hands over its queues for an hour, say."""
    victim = next(pod for pod in SNAPSHOT.pods if pod.namespace == "team-0")
    ending = structs.replace(victim, deleted=NOW + timedelta(hours=1))
    snapshot = replace(SNAPSHOT, pods=(ending, *(pod for pod in SNAPSHOT.pods if pod is not victim)))
    going = under_way(
        victim.uid, "team-0", workload=Reference("team-0", "Deployment", "web"), pod="web-7", at=NOW - 60 * SECOND
    )
    admission = admitted(Memory(moves=(going,)), snapshot=snapshot)
    assert set(spaces(admission)) == {"team-1", "team-2"}
    assert PodEnding("web-7") in causes(admission)


def held_cluster(*moves: Move, now: datetime, before: BreakerState = CLOSED) -> BreakerState:
    return update_breaker(before, (), Breaker(), now, moves=moves)


DOWN = (
    under_way("x", "one", uncreated="failed calling webhook"),
    under_way("y", "two", state=MoveState.PENDING, unstarted="ImagePullBackOff"),
)


def test_a_cluster_that_does_not_replace_is_left_alone() -> None:
    """The breaker names the workloads and what is said of them, keeps its beginning, and closes with its cause."""
    state = held_cluster(*DOWN, now=NOW)
    (cause,) = state.causes
    assert (cause.cause, cause.part, cause.total, cause.since) == (BreakerCause.REPLACEMENTS, 2, 2, NOW)
    assert cause.note == "one/x (Deployment): failed calling webhook; two/y (Deployment): ImagePullBackOff"
    later = held_cluster(*DOWN, now=NOW + SECOND, before=state)
    assert (later.causes[0].since, later.causes[0].last) == (NOW, NOW + SECOND)
    ahead = held_cluster(*DOWN, now=NOW - SECOND, before=state)
    assert ahead.causes[0].since == NOW - SECOND
    silent = held_cluster(structs.replace(DOWN[0], uncreated=""), DOWN[1], now=NOW)
    assert silent.causes[0].note.endswith("one/x (Deployment): no pod was created, and nothing says why")
    assert held_cluster(DOWN[0], now=NOW, before=state) == CLOSED
    grown = (StartWindow(size=9, moved_at=NOW), StartWindow(namespace="team-0", size=9, moved_at=NOW))
    admission = admitted(Memory(moves=DOWN, windows=grown), breaker=state)
    assert (admission.fates.going, admission.windows) == ((), ())
    assert causes(admission) == {BreakerOpen(state.causes, NOW, timedelta(minutes=5))}
    assert admission.next_try == NOW + FIRST_PROBE


def test_a_probe_goes_elsewhere_after_a_minute() -> None:
    """One eviction, in a namespace without overdue replacements; while it is tried nothing else goes."""
    at_probe = NOW + FIRST_PROBE
    avoided = under_way("z", "team-0", uncreated="failed calling webhook")
    moves = (*DOWN, avoided)
    state = held_cluster(*moves, now=NOW)
    assert not admitted(Memory(moves=moves), breaker=state, now=at_probe - SECOND).fates.going
    admission = admitted(Memory(moves=moves), breaker=state, now=at_probe)
    (probe,) = admission.fates.going
    assert probe.pod.namespace != "team-0"
    assert len(admission.fates.kept) == 11
    tried = under_way("p", probe.pod.namespace, at=at_probe, state=MoveState.PLANNED)
    during = admitted(Memory(moves=(*moves, tried)), breaker=state, now=at_probe + SECOND)
    assert (during.fates.going, during.next_try) == ((), None)


def test_a_probe_is_a_single_eviction_if_possible() -> None:
    """Else as many as a step needs; none where the breaker is open for another cause, too."""
    now = NOW + FIRST_PROBE
    state = held_cluster(*DOWN, now=NOW)
    memory = Memory(moves=DOWN)
    several = admitted(memory, made=needing(2, "team-0", "team-1", "team-2"), breaker=state, now=now)
    assert list(spaces(several).values()) == [2]
    assert spaces(admitted(memory, made=needing(2, "team-0", "team-1"), breaker=state, now=now)) == {"team-2": 1}
    others = held_cluster(*DOWN, now=NOW).causes
    unready = structs.replace(others[0], cause=BreakerCause.UNREADY_NODES)
    assert not admitted(memory, breaker=BreakerState((unready, *others)), now=now).fates.going
    one = with_evictions(PLAN, PLAN.fates.going[:1])
    assert len(admitted(memory, made=one, breaker=state, now=now).fates.going) == 1


def test_a_probe_goes_beside_overdue_replacements_where_there_is_no_other_place() -> None:
    """Two images that are missing must not hold the cluster for good."""
    missing = tuple(
        under_way(name, name, state=MoveState.PENDING, unstarted="ImagePullBackOff") for name in ("team-0", "team-1")
    )
    state = held_cluster(*missing, now=NOW)
    only = with_evictions(PLAN, tuple(one for one in PLAN.fates.going if one.pod.namespace != "team-2"))
    for turn in range(2):
        elsewhere = admitted(Memory(moves=missing), breaker=state, now=NOW + FIRST_PROBE, turn=turn)
        assert spaces(elsewhere) == {"team-2": 1}
        beside = admitted(Memory(moves=missing), made=only, breaker=state, now=NOW + FIRST_PROBE, turn=turn)
        assert len(beside.fates.going) == 1
        uids = [one.pod.uid for one in PLAN.fates.going if one.pod.namespace == beside.fates.going[0].pod.namespace]
        rest = [one.eviction.pod.uid for one in beside.fates.kept if one.eviction.pod.uid in uids]
        assert [beside.fates.going[0].pod.uid, *rest] == uids, "the rest of the step waits, in its order"


@given(st.lists(st.integers(0, 3), min_size=3, max_size=3), st.integers(0, 20))
def test_a_probe_goes_where_the_fewest_have_failed(failures: list[int], turn: int) -> None:
    """Untouched namespaces first, then by the number of failures, own ones included, then by name."""
    failed = [
        under_way(
            f"{space}-{number}",
            space,
            workload=Reference(space, "Deployment", "db"),
            state=MoveState.PENDING,
            unstarted="ImagePullBackOff",
            own=OwnFailure.IMAGE if number else UNSET,
        )
        for space, count in zip(("team-0", "team-1", "team-2"), failures, strict=True)
        for number in range(count)
    ]
    moves = (*DOWN, *failed)
    state = held_cluster(*moves, now=NOW)
    admission = admitted(Memory(moves=moves), breaker=state, now=NOW + FIRST_PROBE, turn=turn)
    assert list(spaces(admission)) == [f"team-{failures.index(min(failures))}"]


def test_own_failures_open_no_breaker() -> None:
    """However many namespaces have some; beside them the cluster's own count as ever."""
    own = tuple(structs.replace(one, own=OwnFailure.OBJECT) for one in DOWN)
    assert held_cluster(*own, now=NOW) == CLOSED
    assert held_cluster(*own, DOWN[0], now=NOW) == CLOSED
    (cause,) = held_cluster(structs.replace(own[0], uid="z", namespace="three"), *DOWN, now=NOW).causes
    assert (cause.part, cause.total) == (2, 3)


def test_in_mode_approve_a_probe_is_of_what_a_person_has_approved() -> None:
    """Else the first step of the plan would keep it for itself."""
    policy = POLICY.model_copy(update={"mode": Mode.APPROVE})
    state = held_cluster(*DOWN, now=NOW)
    approved = [one.pod.uid for one in PLAN.fates.going if one.pod.namespace == "team-2"]
    proposal = Proposal(hash="h", policy=policy.hash, since=NOW, uids=tuple(approved), approved=True)
    memory = Memory(moves=DOWN, proposal=proposal, seen=())
    context = AdmissionContext(
        policy=policy, mode=Mode.APPROVE, now=NOW + FIRST_PROBE, breaker=state, approved="h", at_once=True
    )
    admission = admit(PLAN, SNAPSHOT, memory, context)
    assert [one.pod.uid for one in admission.fates.going] == approved[:1]


def test_several_steps_that_wait_keep_their_place() -> None:
    """Each since it began to wait; also over a cycle in which nothing may go. A proposal does not depend on them."""
    made = needing(3, "team-0", "team-1")
    memory = Memory(moves=(under_way("x", "elsewhere"),))
    first = admitted(memory, made=made)
    assert [since for _, since in first.queued] == [NOW, NOW]
    late = NOW + PATIENCE
    busy = structs.replace(memory, queued=first.queued, moves=(under_way("x", "elsewhere", at=late),))
    second = admitted(busy, made=made, now=late)
    assert (second.fates.going, second.queued) == ((), first.queued)
    assert admitted(busy, made=made, now=late, stale="Pod: silent").queued == first.queued
    gone = admitted(structs.replace(busy, moves=()), made=made, now=late)
    assert len(gone.fates.going) == 3
    assert len(gone.queued) == 1
    policy = POLICY.model_copy(update={"mode": Mode.APPROVE})
    context = AdmissionContext(policy=policy, mode=Mode.APPROVE, now=late, at_once=True)
    proposals = {
        admit(made, SNAPSHOT, Memory(queued=queued), context).proposal
        for queued in ((), first.queued[1:], first.queued)
    }
    assert len(proposals) == 1


def test_how_slow_start_stands() -> None:
    """For status, page and metrics: the cluster, and the namespaces whose window limits."""
    memory = Memory(
        moves=(under_way("x", "shop"), under_way("y", "cart")),
        windows=(
            StartWindow(size=4, limited=True, moved_at=NOW),
            StartWindow(namespace="cart", size=5, moved_at=NOW),
            StartWindow(namespace="shop", size=1, limited=True, moved_at=NOW),
        ),
    )
    uses = describe_windows(memory, SNAPSHOT, NOW)
    assert uses.cluster == WindowUse(4, 2)
    assert uses.namespaces == {"shop": WindowUse(1, 1)}


@given(st.data())
def test_no_window_is_exceeded(data: st.DataObject) -> None:
    """Whatever is under way and whatever the windows are, but by one step of several where nothing else is."""
    names = [f"team-{number}" for number in range(3)]
    sizes = {name: data.draw(st.integers(1, 4)) for name in names} | {"": data.draw(st.integers(2, 6))}
    moves = tuple(
        under_way(f"m{number}", data.draw(st.sampled_from(names))) for number in range(data.draw(st.integers(0, 5)))
    )
    memory = Memory(
        moves=moves, windows=tuple(StartWindow(namespace=name, size=size, moved_at=NOW) for name, size in sizes.items())
    )
    needed = data.draw(st.integers(1, 4))
    admission = admitted(memory, made=needing(needed, "team-1"), turn=data.draw(st.integers(0, 3)))
    before = Counter(one.namespace for one in moves)
    after = before + spaces(admission)
    assert_within(sizes, before, after, admission.fates.going)


def assert_within(sizes: dict[str, int], before: Counter[str], after: Counter[str], evictions: Sequence[Any]) -> None:
    whole = {name: after[name] for name in sizes if name} | {"": after.total()}
    began = {name: before[name] for name in sizes if name} | {"": before.total()}
    several = max((one.needed for one in evictions), default=1)
    for name, number in whole.items():
        own = [one for one in evictions if name in {"", one.pod.namespace}]
        assert (
            number <= sizes[name] or not own or (began[name] == 0 and several > 1 and number <= sizes[name] + several)
        )


def test_a_replacement_that_is_not_created_is_named_before_the_window() -> None:
    """What an operator can do something about comes first."""
    refused = under_way("x", "team-0", uncreated="exceeded quota: pods")
    admission = admitted(Memory(moves=(refused,)))
    assert ReplacementNotCreated(refused.workload, "x", "exceeded quota: pods") in causes(admission)


def test_the_same_pod_takes_the_place_that_it_has_taken() -> None:
    """What may still be carried out is under way; a new request for its pod is no further move."""
    first, *_ = PLAN.fates.going
    unexecuted = under_way(
        first.pod.uid,
        first.pod.namespace,
        state=MoveState.PLANNED,
        unexecuted=True,
        workload=first.workload,
        group=first.group,
    )
    other = under_way("x", "elsewhere")
    assert describe_windows(Memory(moves=(unexecuted, other)), SNAPSHOT, NOW).cluster == WindowUse(2, 2)
    admission = admitted(Memory(moves=(unexecuted, other)))
    assert [one.pod.uid for one in admission.fates.going] == [first.pod.uid]
    assert WindowFull("", 2, 2) in causes(admission)


def test_a_replacement_that_no_node_admits_keeps_nothing_of_its_own_repair() -> None:
    """Planning knows of it: the next step may be what makes its place. Other workloads wait for it as ever."""
    web = Reference("team-0", "Deployment", "web")
    group = next(one.group for one in PLAN.fates.going if one.pod.namespace == "team-0")
    sample = next(pod for pod in SNAPSHOT.pods if pod.namespace == "team-0")
    everywhere = structs.replace(sample.spec, requests=Resources(cpu=10_000_000))
    for spec, goes in ((everywhere, True), (sample.spec, False)):
        pending = without_node(sample, "r", spec=spec)
        snapshot = replace(SNAPSHOT, pods=(*SNAPSHOT.pods, pending))
        fresh = under_way("x", "team-0", workload=web, group=group, state=MoveState.PENDING, replacement="r")
        overdue = structs.replace(fresh, unstarted=UNSCHEDULABLE)
        for move_, others in ((fresh, 1), (overdue, 2)):
            alone = with_evictions(PLAN, tuple(e for e in PLAN.fates.going if e.pod.namespace == "team-0"))
            assert bool(admitted(Memory(moves=(move_,)), snapshot=snapshot, made=alone).fates.going) is goes
            elsewhere = with_evictions(PLAN, tuple(e for e in PLAN.fates.going if e.pod.namespace != "team-0"))
            assert len(admitted(Memory(moves=(move_,)), snapshot=snapshot, made=elsewhere).fates.going) == others


def test_a_request_without_an_answer_takes_a_place_for_ten_seconds() -> None:
    """By then a snapshot shows whether it was granted."""
    for second, number in ((9.9, 1), (10, 2)):
        unanswered = under_way("x", "elsewhere", state=MoveState.PLANNED, at=NOW - second * SECOND)
        assert len(admitted(Memory(moves=(unanswered,))).fates.going) == number


@given(st.lists(st.sampled_from(["team-0", "team-1", "elsewhere"]), max_size=4), st.integers(1, 5))
@examples(100)
def test_only_what_was_requested_is_said_to_be_under_way(namespaces: list[str], size: int) -> None:
    """What goes now is said to go first; both together are what the window has no place beside."""
    moves = tuple(under_way(f"{name}-{number}", name) for number, name in enumerate(namespaces))
    sizes = tuple(StartWindow(namespace=name, size=size, limited=True, moved_at=NOW) for name in ("", "team-0"))
    admission = admitted(Memory(moves=moves, windows=sizes))
    for refusal in causes(admission):
        assert isinstance(refusal, WindowFull)
        place = refusal.namespace
        assert refusal.under_way == sum(place in ("", name) for name in namespaces)
        assert refusal.going == sum(number for name, number in spaces(admission).items() if place in ("", name))
        assert refusal.under_way + refusal.going >= refusal.allowed
        assert ("under way" in str(refusal)) == (refusal.under_way > 0)
