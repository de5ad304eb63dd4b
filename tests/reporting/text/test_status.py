"""The status as text: what is in no golden text of `rebalancer status`."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from rebalancer.documents.document import WorkloadName
from rebalancer.documents.overview import Figures
from rebalancer.documents.resilience_status import ResilienceStatus
from rebalancer.documents.status import (
    BlockedNamespace,
    BreakerStatus,
    LeaseStatus,
    MoveEntry,
    PauseStatus,
    PlanSummary,
    PolicyStatus,
    PreventionStatus,
    RefusedEviction,
    StatusDocument,
    TeamPolicyStatus,
)
from rebalancer.documents.waits import WHOLE_CLUSTER, HoldStatus, LikelyDomains, NextMove, RepairWait, Usual
from rebalancer.model.reasons import Reason
from rebalancer.reporting.headline import hold_sentence, wait_sentence
from rebalancer.reporting.text.status import status_text
from tests.reporting.text.test_map import repair

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)


def move(number: int, state: str, ago: timedelta) -> MoveEntry:
    return MoveEntry(
        namespace="shop",
        pod=f"web-{number}",
        uid=f"u{number}",
        node="a-0",
        workload=WorkloadName(kind="Deployment", name="web"),
        state=state,
        since=NOW - ago,
        to={"topology.kubernetes.io/zone": LikelyDomains(values=("c",))},
        reason="SkewViolated",
        requested_at=NOW - ago - timedelta(seconds=31),
        ready_at=NOW - ago if state == "verified" else None,
        usual=Usual(low=20, median=31, high=40, of=4) if state == "pending" else None,
    )


LIKELY = {"topology.kubernetes.io/zone": LikelyDomains(values=("c",)), "rack": LikelyDomains(values=())}

STATUS = StatusDocument(
    mode="Evict",
    paused=None,
    leader="rebalancer-5b8f9-x2x",
    last_cycle=NOW - timedelta(seconds=12),
    stale="",
    breaker=BreakerStatus(open=False, causes=()),
    in_flight=(move(3, "pending", timedelta(seconds=40)),),
    last_moves=(
        move(1, "verified", timedelta(hours=3)),
        move(2, "ineffective", timedelta(minutes=4)),
        move(0, "lost", timedelta(days=2)),
    ),
    plan=PlanSummary(evictions=8, minimum=8),
    refusals={"BlockedByBudget": 5, "StepExceedsBudget": 2},
    waits=(
        RepairWait(
            namespace="shop",
            workloads=(WorkloadName(kind="StatefulSet", name="db"),),
            violated=("zone a:3 b:3 c:0 (maxSkew 1)",),
            evictions=2,
            reason="NodeSettling",
            message="node c-1 may take a replacement and has been Ready for a minute only",
            until=NOW + timedelta(minutes=3, seconds=36),
            ends_with="",
            usual=None,
            then=NextMove(namespace="shop", pod="db-3", node="b-1", domains=LIKELY),
        ),
        RepairWait(
            namespace="shop",
            workloads=(WorkloadName(kind="Deployment", name="web"),),
            reason="BlockedByBudget",
            message="waiting for the replacement of web-3 to be Ready",
            until=None,
            ends_with="when the replacement of web-3 is Ready",
            usual=Usual(low=20, median=31, high=40, of=4),
            then=NextMove(namespace="shop", pod="web-4", node="a-1", domains={}),
        ),
        RepairWait(
            namespace="shop",
            workloads=(WorkloadName(kind="Deployment", name="cart"),),
            evictions=2,
            blocked=2,
            stuck=True,
            reason="StepExceedsBudget",
            message="needs 1 concurrent eviction; PodDisruptionBudget shop/cart never allows any",
            until=None,
            ends_with="",
            usual=None,
            then=None,
        ),
    ),
    holds=(
        HoldStatus(
            scope="topology.kubernetes.io/zone=b",
            reason="DomainUnsettled",
            message="2 of 3 nodes were cordoned: nothing is moved there",
            since=NOW - timedelta(minutes=2),
            until=NOW + timedelta(minutes=3),
            ends_with="",
        ),
    ),
    policy=PolicyStatus(hash="6a7f08fea03efa75", source="configmap:rebalancer-system/rebalancer-policy", valid=True),
    prevention=PreventionStatus(mode="Off", workloads=0, ordered=0, waiting=0, left=0, stopped="", unsteered={}),
)


def test_times_come_with_their_age() -> None:
    """Of the last cycle and of each move; the golden text of `rebalancer status` has the rest."""
    lines = status_text(STATUS, NOW).splitlines()
    assert lines[0] == "Controller: last cycle 12s ago; mode Evict: the controller evicts"
    assert lines[1].endswith(", last cycle 2026-01-05 08:59:48Z.")
    assert lines[6].endswith("  pending  1m ago (last 4 took about 20s to 40s in all)")


def test_nothing_goes_on_where_nobody_leads() -> None:
    """What waited and was held is of the last cycle: no end of it is promised, nothing is next."""
    text = status_text(structs.replace(STATUS, lease=LeaseStatus(free_since=NOW), map=repair()), NOW)
    assert ">\xa0evicted,\xa0not\xa0watched" in text.replace(" ", "\xa0")
    assert ">1 was next, repair 1" in text
    assert "\nWAITING IN THE LAST CYCLE\n" in text
    assert "\nHOLDS IN THE LAST CYCLE\nzone b since 2026-01-05 08:58:00Z (2m ago): DomainUnsettled: " in text
    assert "\nIN FLIGHT IN THE LAST CYCLE\n" in text
    began = "evicted at 2026-01-05 08:58:49Z (1m ago), not watched"
    assert f"  pending  {began}\n" in text
    assert "20s to 40s in all" not in text
    assert "moving" not in text
    assert "goes on" not in text
    assert "ends in" not in text
    assert "next in" not in text


def test_the_last_valid_policy_is_not_the_refused_one() -> None:
    """The source has what is refused."""
    invalid = structs.replace(STATUS.policy, valid=False, error="line 3")
    text = status_text(structs.replace(STATUS, policy=invalid), NOW)
    assert "Policy 6a7f08fea03efa75 (the last valid one, kept in rebalancer-policy-valid), last cycle" in text


def test_where_no_controller_runs_no_policy_stays_in_force() -> None:
    """What was wrong with it was so in the last cycle; the next controller begins with what is written then."""
    for missing, first, last in (
        (False, "a newer policy was invalid in the last cycle", "A newer policy was refused in the last cycle"),
        (True, "no policy could be read in the last cycle", "No policy could be read in the last cycle"),
    ):
        policy = structs.replace(STATUS.policy, valid=False, missing=missing, error="line 3")
        text = status_text(structs.replace(STATUS, policy=policy, lease=LeaseStatus(free_since=NOW)), NOW)
        assert f"; {first}: line 3\n" in text
        assert text.endswith(f"\n{last}, no controller runs, and none starts without a valid one: line 3\n")


def test_a_leader_that_is_silent_is_seen_to_be() -> None:
    """A leader that died holds its Lease until that runs out: what is known of it is when it was renewed."""
    for silent, said in ((2, ""), (7, ", last renewed 7s ago")):
        lease = LeaseStatus(holder=STATUS.leader, renewed=NOW - timedelta(seconds=silent))
        text = status_text(structs.replace(STATUS, lease=lease), NOW)
        assert text.startswith(f"Controller: {STATUS.leader} leads{said}, last cycle 12s ago; mode Evict: ")
    lease = LeaseStatus(last_holder="dead", renewed=NOW - timedelta(seconds=20), free_since=NOW - timedelta(seconds=5))
    text = status_text(structs.replace(STATUS, lease=lease), NOW)
    since = "Lease free since 2026-01-05 08:59:55Z (held by dead, last renewed 20s ago)"
    assert text.startswith(f"Controller: no controller runs: {since}, last cycle 12s ago by {STATUS.leader}\n")


def test_what_is_old_says_as_of_when_it_is() -> None:
    """The controller may have ended another cycle since; without one, the last cycle is the age of all."""
    for seconds, said in ((2, "12s ago"), (9, "at most 12s ago, as of 9s ago")):
        status = structs.replace(STATUS, as_of=NOW - timedelta(seconds=seconds))
        led = structs.replace(status, lease=LeaseStatus(holder=STATUS.leader))
        assert f"last cycle {said}; mode Evict: the controller evicts" in status_text(led, NOW)
    stored = structs.replace(STATUS, as_of=NOW - timedelta(seconds=9))
    free = structs.replace(stored, lease=LeaseStatus(free_since=NOW))
    assert f"last cycle 12s ago by {STATUS.leader}\n" in status_text(free, NOW)


def test_the_breaker_ends_at_the_earliest_at_its_time() -> None:
    """A cycle closes it, which comes after that moment, and only if no bound has been exceeded until then."""
    until = NOW + timedelta(minutes=3)
    hold = structs.replace(STATUS.holds[0], scope=WHOLE_CLUSTER, reason=Reason.BREAKER_OPEN, until=until, ends_with="")
    assert hold_sentence(hold, NOW).endswith("; ends in 3m (2026-01-05 09:03:00Z) at the earliest")
    assert hold_sentence(structs.replace(hold, reason=Reason.PAUSED), NOW).endswith(
        "; ends in 3m (2026-01-05 09:03:00Z)"
    )


def test_what_has_waited_until_a_moment_that_has_passed_goes_on_with_the_next_cycle() -> None:
    """No cycle begins at the end of a hold: it is never said to end in 0s."""
    after = NOW + timedelta(minutes=3, seconds=27)
    over = "; ends with the next cycle (its time was over at 2026-01-05 09:03:00Z)"
    assert hold_sentence(structs.replace(STATUS.holds[0], reason=Reason.OUTSIDE_WINDOW), after).endswith(over)
    for reason in (Reason.DOMAIN_UNSETTLED, Reason.BREAKER_OPEN):
        hold = structs.replace(STATUS.holds[0], reason=reason)
        assert hold_sentence(hold, after).endswith(f"{over} at the earliest"), "it may begin anew before"
    said = (
        "goes on with the next cycle (its time was over at 2026-01-05 09:03:36Z) at the earliest, "
        "then db-3 from b-1 to zone c"
    )
    assert said in wait_sentence(STATUS.waits[0], NOW + timedelta(minutes=4))


def test_what_the_last_leader_has_stored_is_said_to_be_of_its_last_cycle() -> None:
    """Of a new leader that has not ended a cycle, and where nobody leads; of who leads nothing is said."""
    figures = Figures(
        workloads=27,
        violated=7,
        constraints=3,
        violated_constraints=2,
        limits=0,
        violated_limits=0,
        moving=2,
        waiting=1,
        next_at=None,
        unrepairable=0,
        blocked=0,
    )
    known = structs.replace(STATUS, figures=figures)
    cycle = "2026-01-05 08:59:48Z (12s ago)"
    taken_over = status_text(structs.replace(known, lease=LeaseStatus(holder="rebalancer-new")), NOW)
    assert (
        f"\nWhat follows is of the last leader's last cycle, {cycle}: the new leader has not ended one yet.\n"
        in taken_over
    )
    assert "\nA new leader has not ended a cycle yet\n" in taken_over
    assert "Repairing" not in taken_over
    assert f"\nWhat follows is of the last cycle, {cycle}.\n" in status_text(
        structs.replace(known, lease=LeaseStatus(free_since=NOW)), NOW
    )
    led = status_text(structs.replace(known, lease=LeaseStatus(holder=STATUS.leader)), NOW)
    assert "What follows" not in led
    assert "Repairing: 2 pods are moving" in led


def test_a_lost_zone_is_computed_by_a_controller_that_runs() -> None:
    """By a new one soon; where none runs, a command does it."""
    unknown = ResilienceStatus(
        keys=("topology.kubernetes.io/zone",),
        as_of=None,
        workloads=0,
        holding=0,
        not_computed=15,
        domains_left_out=0,
        problem="",
        losses=(),
    )

    def said(lease: LeaseStatus, **fields: object) -> str:
        text = status_text(structs.replace(STATUS, lease=lease, resilience=structs.replace(unknown, **fields)), NOW)
        return text.partition("IF A ZONE IS LOST\n")[2].partition("\n\n")[0]

    led, free = LeaseStatus(holder=STATUS.leader), LeaseStatus(free_since=NOW)
    nobody = "Not computed: 15 workloads, as no controller runs; rebalancer resilience computes it now."
    assert said(free) == nobody
    assert said(led) == "Being computed: 15 workloads; a new leader begins soon after its first cycle."
    assert said(led, as_of=NOW, workloads=9).endswith("\nNot computed yet: 15 workloads.")
    assert said(free, as_of=NOW, workloads=9).endswith(f"\n{nobody}")
    assert said(led, problem="it was killed").startswith("Not computed yet: 15 workloads.\n")


def test_each_wait_has_its_end_and_what_follows() -> None:
    """A time from now with its date, the event where no time can be known, or that it does not end by itself."""
    text = status_text(STATUS, NOW)
    zone = "zone b since 2026-01-05 08:58:00Z (2m ago)"
    hold = f"{zone}: DomainUnsettled: {STATUS.holds[0].message}; ends in 3m (2026-01-05 09:03:00Z) at the earliest"
    assert f"\nHOLDS\n{hold}\n" in text
    messages = [f"{wait.reason}: {wait.message}" for wait in STATUS.waits]
    first = "goes on in 3m36s (2026-01-05 09:03:36Z) at the earliest, then db-3 from b-1 to zone c"
    second = (
        "goes on when the replacement of web-3 is Ready (last 4 took about 20s to 40s), then web-4 from a-1 to any "
        "feasible "
    )
    assert text.partition("\nWAITING\n")[2].splitlines()[:3] == [
        f"shop/db (StatefulSet), zone a:3 b:3 c:0 (maxSkew 1); 2 evictions: {first}. {messages[0]}",
        f"shop/web (Deployment): {second}node. {messages[1]}",
        "",
    ]
    stuck = f"shop/cart (Deployment), 2 evictions blocked: does not end by itself. {messages[2]}"
    assert f"\nCANNOT BE REPAIRED NOW\n{stuck}\n" in text
    half = structs.replace(STATUS.waits[2], blocked=1, stuck=False)
    assert "shop/cart (Deployment), 2 evictions, 1 of them blocked: " in wait_sentence(half, NOW)


def test_before_the_first_cycle() -> None:
    """Nothing has happened yet, and nothing is invented."""
    plan = PlanSummary(evictions=0, minimum=0)
    empty = structs.replace(
        STATUS, last_cycle=None, leader="", in_flight=(), last_moves=(), waits=(), holds=(), plan=plan, refusals={}
    )
    assert status_text(empty, NOW).splitlines() == [
        "Controller: no cycle yet; mode Evict: the controller evicts",
        "Policy 6a7f08fea03efa75 (configmap:rebalancer-system/rebalancer-policy).",
        "Plan: nothing to evict; 0 moves in flight.",
    ]


@pytest.mark.parametrize(
    ("until", "ends"), [(None, "somebody resumes"), (datetime(2999, 1, 1, tzinfo=UTC), "2999-01-01 00:00:00Z")]
)
def test_what_is_wrong_is_at_the_end(until: datetime | None, ends: str) -> None:
    """A refused policy, that of a team, and how a pause ends."""
    team = TeamPolicyStatus(namespace="shop", error="line 4: limits")
    policy = structs.replace(STATUS.policy, valid=False, error="line 2: mode", team_errors=(team,))
    paused = PauseStatus(until=until, reason="zone b", by="alice")
    text = status_text(structs.replace(STATUS, policy=policy, paused=paused), NOW)
    assert f"\nPaused until {ends}; rebalancer resume ends it.\n" in text
    assert text.startswith(
        "Controller: last cycle 12s ago; paused by alice: zone b: the controller will not evict; a newer policy is "
        "invalid: line 2: mode\n"
    )
    assert text.endswith(
        "\nA newer policy is refused, the last valid one stays in force: line 2: mode\n"
        "Team policy of shop: line 4: limits\n"
    )


def test_the_kinds_that_may_not_be_listed_are_in_one_line() -> None:
    text = status_text(structs.replace(STATUS, forbidden_kinds=("LimitRange", "ResourceQuota")), NOW)
    assert text.endswith("\nNot allowed to list LimitRange, ResourceQuota; the roles of this version have the right.\n")


def test_a_namespace_in_which_nothing_is_evicted_is_named() -> None:
    """With the workload, the condition and what to do."""
    blocked = BlockedNamespace(
        namespace="shop",
        workload=WorkloadName(kind="Deployment", name="web"),
        pod="web-0",
        since=NOW,
        failure="exceeded quota: pods",
    )
    breaker = BreakerStatus(open=False, causes=(), namespaces=(blocked,))
    text = status_text(structs.replace(STATUS, breaker=breaker), NOW)
    assert text.endswith(
        "\nCannotCreate: shop/web (Deployment) has no pod in place of web-0, which was evicted: exceeded quota: pods; "
        "nothing is evicted in namespace shop until it has one. Allow the pod to be created, or scale the workload "
        "down\n"
    )


def test_evictions_that_admission_control_refused_are_named() -> None:
    """With the refuser, its words and the next time; of many the first twenty."""
    refused = RefusedEviction(
        group="shop web",
        pod="shop/web-0",
        refuser="admission webhook zone-budget.example.com",
        message="zone b is being rolled",
        times=1,
        next_try=NOW,
    )
    text = status_text(structs.replace(STATUS, refused_evictions=(refused,)), NOW)
    assert text.endswith(
        "\nRefusedByAdmission: shop/web-0: admission webhook zone-budget.example.com refused the eviction: zone b is "
        f"being rolled; tried again at {NOW:%H:%M:%SZ}\n"
    )
    text = status_text(structs.replace(STATUS, refused_evictions=(refused,) * 22), NOW)
    assert text.count("RefusedByAdmission") == 20
    assert text.endswith("\nAdmission control refused 2 more evictions; --output json lists them.\n")
