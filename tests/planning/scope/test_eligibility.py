"""Pods and workloads that policy, annotations and owners keep where they are: each with its reason."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from benchmarks.planning_states import zone_returned
from rebalancer.model.cluster import Namespace
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Memory, MoveState
from rebalancer.model.pods import OwnerReference, Pod
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.diagnosis.obstacles import PodsStay
from rebalancer.planning.scope.eligibility import (
    Annotated,
    Arriving,
    Check,
    EligibilityChecker,
    NamespaceBeingDeleted,
    OnDeleteRevision,
    OwnerShrinking,
    TeamPolicyUnreadable,
)
from rebalancer.policy import TeamPolicies, merge
from rebalancer.policy.merging import UNREAD
from rebalancer.policy.sections import Eligibility
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster, a_policy
from tests.planning.build import on_one_node
from tests.planning.build import planned as plan_small
from tests.planning.clusters import GENEROUS, database, evicted, nodes, owners, planned, pods, policy, returned
from tests.tracking.build import move

ALL_AT_ONCE = policy(budgets=GENEROUS)


def test_one_pod_that_stays_does_not_hold_the_others_that_are_like_it() -> None:
    """Pods that share everything are examined together; one with an annotation of its own makes that impossible."""
    snapshot = zone_returned(9, 1, replicas=6)
    first, *others = (eviction.pod for eviction in planned(snapshot, ALL_AT_ONCE).fates.going)
    excluded = Labels({"rebalancer.dev/exclude": "true"})
    changed = [structs.replace(pod, annotations=excluded) if pod.uid == first.uid else pod for pod in snapshot.pods]
    plan = planned(replace(snapshot, pods=changed), ALL_AT_ONCE)
    assert len(plan.fates.going) == 1 + len(others) > 1
    assert first.uid not in {eviction.pod.uid for eviction in plan.fates.going}
    assert {(refusal.pod, refusal.reason) for refusal in plan.refusals} == {(first.name, Reason.EXCLUDED)}


def test_replacements_that_are_not_ready_are_examined_one_by_one() -> None:
    """Pods that are alike are not all movable while one of them is such a replacement, whichever it is."""
    snapshot = zone_returned(9, 1, replicas=6)
    clock = View(snapshot).clock
    assert EligibilityChecker(snapshot, ALL_AT_ONCE, clock).are_all_movable(snapshot.pods)
    for pod in snapshot.pods:
        checker = EligibilityChecker(snapshot, ALL_AT_ONCE, clock, frozenset({pod.uid}))
        assert not checker.are_all_movable(snapshot.pods)


@pytest.mark.parametrize("chosen", [True, False])
def test_pods_that_are_alike_are_all_selected_by_their_labels_or_none(chosen: bool) -> None:
    """By `eligibility.selector`, which sees the labels that they share."""
    snapshot = zone_returned(9, 1, replicas=6)
    key, value = next(iter(snapshot.pods[0].labels.items()))
    labels = f'{{"{key}": "{value if chosen else "another"}"}}'
    rules = a_policy(f"eligibility: {{minAge: 0s, selector: {{matchLabels: {labels}}}}}\n")
    checker = EligibilityChecker(snapshot, rules, View(snapshot).clock)
    assert checker.are_all_movable(snapshot.pods) == chosen


class Chosen(Refusal):
    """A reason of this test alone."""

    reason = Reason.EXCLUDED

    def __str__(self) -> str:
        return "the test has chosen it"


def test_a_check_that_somebody_adds_is_asked_about_every_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although pods that share everything with the one that stays are examined together by the others."""
    snapshot = zone_returned(9, 1, replicas=6)
    stays, *_ = (eviction.pod for eviction in planned(snapshot, ALL_AT_ONCE).fates.going)
    listed = EligibilityChecker._list_checks

    def add(checker: EligibilityChecker) -> Iterator[Check]:
        yield from listed(checker)
        yield Check(lambda pod: Chosen() if pod.uid == stays.uid else None)

    monkeypatch.setattr(EligibilityChecker, "_list_checks", add)
    plan = planned(snapshot, ALL_AT_ONCE)
    assert plan.fates.going
    assert stays.uid not in {eviction.pod.uid for eviction in plan.fates.going}
    assert [(refusal.pod, refusal.refusal) for refusal in plan.refusals] == [(stays.name, Chosen())]


def annotated(**notes: str) -> Callable[[Pod], Pod]:
    named = {key.replace("__", "/").replace("_", "-"): value for key, value in notes.items()}
    return lambda pod: structs.replace(pod, annotations=Labels(named))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (annotated(rebalancer_dev__exclude="true"), None),
        (lambda pod: structs.replace(pod, annotations=Labels({"rebalancer.dev/exclude": "true"})), Reason.EXCLUDED),
        (lambda pod: structs.replace(pod, annotations=Labels({"rebalancer.dev/exclude": "false"})), None),
        (
            lambda pod: structs.replace(
                pod, annotations=Labels({"rebalancer.dev/pause-until": "2999-01-01T00:00:00Z"})
            ),
            Reason.EXCLUDED,
        ),
        (
            lambda pod: structs.replace(
                pod, annotations=Labels({"rebalancer.dev/pause-until": "2001-01-01T00:00:00Z"})
            ),
            None,
        ),
        (
            lambda pod: structs.replace(pod, annotations=Labels({"rebalancer.dev/pause-until": "tomorrow"})),
            Reason.EXCLUDED,
        ),
        (
            lambda pod: structs.replace(
                pod, annotations=Labels({"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""})
            ),
            Reason.EXCLUDED,
        ),
        (
            lambda pod: structs.replace(
                pod, annotations=Labels({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
            ),
            Reason.EXCLUDED,
        ),
        (
            lambda pod: structs.replace(pod, annotations=Labels({"karpenter.sh/do-not-disrupt": "true"})),
            Reason.EXCLUDED,
        ),
        (lambda pod: structs.replace(pod, annotations=Labels({"karpenter.sh/do-not-disrupt": "1m"})), None),
        (
            lambda pod: structs.replace(pod, annotations=Labels({"karpenter.sh/do-not-disrupt": "8000h"})),
            Reason.EXCLUDED,
        ),
        (lambda pod: structs.replace(pod, mirror=True), Reason.NOT_EVICTABLE),
    ],
)
def test_pods_that_stay(change: Callable[[Pod], Pod], reason: Reason | None) -> None:
    """Annotations, own and others', keep a pod where it is; it counts all the same."""
    plan = planned(pods(returned(), change))
    if reason is None:
        assert len(plan.fates.going) == 4
    else:
        assert plan.fates.going == ()
        assert {refused.reason for refused in plan.refusals if refused.pod} == {reason}
        passes = {refused.refusal.passes for refused in plan.refusals if refused.pod} == {True}
        assert plan.components[0].state is (State.VIOLATED if passes else State.UNFIXABLE)
        assert plan.components[0].reason is reason


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (Eligibility(min_age=timedelta(days=300)), Reason.TOO_YOUNG),
        (Eligibility(min_age=timedelta(0), min_replicas=13), Reason.TOO_FEW_REPLICAS),
        (Eligibility(min_age=timedelta(0), priority_below=0), Reason.PRIORITY_TOO_HIGH),
        (Eligibility(min_age=timedelta(0), priority_below="unheard-of"), Reason.PRIORITY_TOO_HIGH),
        (Eligibility.model_validate({"minAge": "0s", "owners": ["StatefulSet"]}), Reason.UNKNOWN_OWNER),
        (Eligibility.model_validate({"minAge": "0s", "namespaces": {"exclude": ["sh*"]}}), Reason.EXCLUDED),
        (Eligibility.model_validate({"minAge": "0s", "selector": {"matchLabels": {"a": "b"}}}), Reason.EXCLUDED),
    ],
)
def test_the_rules_of_the_policy(rules: Eligibility, reason: Reason) -> None:
    """Each rule of eligibility refuses with its own reason."""
    plan = planned(returned(), policy(eligibility=rules))
    assert plan.fates.going == ()
    assert {refused.reason for refused in plan.refusals} == {reason}


def test_a_namespace_whose_team_policy_cannot_be_read_is_left_alone() -> None:
    """Whatever its team forbids may be in there."""
    listed = policy(team_policies=TeamPolicies(namespaces=("*",)))
    plan = planned(returned(), merge(listed, {"shop": UNREAD}).policy)
    assert plan.fates.going == ()
    assert TeamPolicyUnreadable("shop") in {refused.refusal for refused in plan.refusals}


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(minutes=2)])
def test_a_clock_that_is_behind_makes_no_pod_too_young(ahead: timedelta) -> None:
    """Pods and nodes seem to be of the future then: they count as new, and without a least age nothing waits for it."""
    snapshot = returned()
    created = snapshot.taken_at + ahead
    fresh = pods(
        nodes(snapshot, lambda node: structs.replace(node, ready_since=created)),
        lambda pod: structs.replace(pod, created=created),
    )
    assert len(planned(fresh).fates.going) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"observed": False},
        {"current": 11},
        {"updated": 5},
        {"replicas": 11},
        {"paused": True},
    ],
)
def test_a_rollout_is_left_to_itself(change: dict[str, Any]) -> None:
    """While the owner is being scaled, rolled out or paused, nothing is moved."""
    plan = planned(owners(returned(), lambda owner: structs.replace(owner, **change)))
    assert plan.fates.going == ()
    assert {refused.reason for refused in plan.refusals} == {Reason.ROLLOUT_IN_PROGRESS}


def on_delete(revisions: list[str]) -> Snapshot:
    """Return a StatefulSet of which zone c has come back; its pods are of these revisions, its newest is db-2."""
    snapshot = database(on_delete=True, revision="db-2")
    of_pod = dict(zip([pod.uid for pod in snapshot.pods], revisions, strict=True))

    def revised(pod: Pod) -> Pod:
        labels = {key: value for key, value in pod.labels.items() if key != "controller-revision-hash"}
        revision = of_pod[pod.uid]
        return structs.replace(
            pod, labels=Labels({**labels, "controller-revision-hash": revision} if revision else labels)
        )

    return pods(snapshot, revised)


@pytest.mark.parametrize(
    ("revisions", "other"),
    [
        (["db-1"] * 4, ("db-0", "db-1")),
        (["db-2", "db-2", "db-2", "db-1"], ("db-3", "db-1")),
        (["db-2", "", "db-2", "db-2"], ("db-1", "")),
    ],
    ids=["none is updated", "all but one are updated", "one has no revision"],
)
def test_a_rollout_that_is_held_back_by_on_delete_is_not_carried_out(
    revisions: list[str], other: tuple[str, str]
) -> None:
    """Any evicted pod would come back with the newest template, so the StatefulSet is left alone as a whole."""
    plan = planned(on_delete(revisions))
    assert plan.fates.going == ()
    assert plan.components[0].refusal == OnDeleteRevision(*other, "db-2")


def test_on_delete_alone_stops_no_repair() -> None:
    """Where every pod has the newest template an eviction changes none."""
    assert evicted(planned(on_delete(["db-2"] * 4))) == ["db-0"]


def test_an_unknown_owner() -> None:
    """Pods whose owner was not read are not moved: nobody knows what would replace them."""
    snapshot = returned()
    plan = planned(replace(snapshot, workloads=()))
    assert plan.fates.going == ()
    assert {refused.reason for refused in plan.refusals} == {Reason.UNKNOWN_OWNER}


def test_bare_pods() -> None:
    """A pod that nothing would replace is never evicted."""
    alone = replace(returned(), workloads=())
    plan = planned(pods(alone, lambda pod: structs.replace(pod, owner=None)))
    assert plan.fates.going == ()
    assert {refused.reason for refused in plan.refusals} == {Reason.NOT_EVICTABLE}


def test_a_daemon_set() -> None:
    """A DaemonSet's pods belong to their nodes."""
    owner = OwnerReference(group="apps", kind="DaemonSet", name="d", uid="d")
    alone = replace(returned(), workloads=())
    plan = planned(pods(alone, lambda pod: structs.replace(pod, owner=owner)))
    assert {refused.reason for refused in plan.refusals} == {Reason.NOT_EVICTABLE}


def innermost(cause: Fact) -> Fact:
    """Return the cause for which pods stay."""
    return cause.cause if isinstance(cause, PodsStay) else cause


@pytest.mark.parametrize(
    ("owner", "namespace", "kind"),
    [
        ({"annotations": Labels({"rebalancer.dev/exclude": "true"})}, {}, "ReplicaSet"),
        ({}, Labels({"rebalancer.dev/exclude": "true"}), "Namespace"),
    ],
)
def test_whole_workloads_are_excluded(owner: dict[str, Any], namespace: Labels, kind: str) -> None:
    """An annotation on the owner or on the namespace excludes all its pods, and the message says where it is."""
    snapshot = owners(returned(), lambda workload: structs.replace(workload, **owner))
    excluded = replace(snapshot, namespaces=(Namespace(name="shop", annotations=Labels(namespace)),))
    plan = planned(excluded)
    assert plan.fates.going == ()
    assert {refused.reason for refused in plan.refusals} == {Reason.EXCLUDED}
    annotated = Annotated(kind, "rebalancer.dev/exclude", "true")
    assert {innermost(refused.refusal) for refused in plan.refusals} == {annotated}


def test_nothing_is_evicted_in_a_namespace_that_is_being_deleted() -> None:
    """The API server would create no replacement; the message names the namespace."""
    snapshot = replace(returned(), namespaces=(Namespace(name="shop", terminating=True),))
    plan = planned(snapshot)
    assert plan.fates.going == ()
    assert {refused.reason for refused in plan.refusals} == {Reason.CANNOT_CREATE}
    assert {innermost(refused.refusal) for refused in plan.refusals} == {NamespaceBeingDeleted("shop")}


def test_others_decide() -> None:
    """Pods of another scheduler, with responders to their eviction, of a PodGroup; owners being deleted: left alone."""
    snapshot = returned()
    spec = snapshot.pods[0].spec
    other = structs.replace(spec, scheduler="other")
    responding = structs.replace(spec, eviction_responders=True)
    grouped = structs.replace(spec, pod_group="train")
    for changed, reason in (
        (pods(snapshot, lambda pod: structs.replace(pod, spec=other)), Reason.OTHER_SCHEDULER),
        (pods(snapshot, lambda pod: structs.replace(pod, spec=grouped)), Reason.POD_GROUP_DISRUPTION),
        (pods(snapshot, lambda pod: structs.replace(pod, spec=responding)), Reason.EXCLUDED),
        (owners(snapshot, lambda owner: structs.replace(owner, deleted=snapshot.taken_at)), Reason.ROLLOUT_IN_PROGRESS),
    ):
        plan = planned(changed)
        assert plan.fates.going == ()
        assert {refused.reason for refused in plan.refusals} == {reason}


def test_one_old_pod_of_another_scheduler() -> None:
    """A pod that still names another scheduler stays; its siblings may go."""
    snapshot = returned()
    last = snapshot.pods[-1].uid
    other = structs.replace(snapshot.pods[0].spec, scheduler="other")
    plan = planned(pods(snapshot, lambda pod: structs.replace(pod, spec=other) if pod.uid == last else pod))
    assert last not in {eviction.pod.uid for eviction in plan.fates.going}
    assert Reason.OTHER_SCHEDULER in {refused.reason for refused in plan.refusals}


def test_karpenters_word() -> None:
    """`false` is no objection."""
    notes = Labels({"karpenter.sh/do-not-disrupt": "false"})
    assert len(planned(pods(returned(), lambda pod: structs.replace(pod, annotations=notes))).fates.going) == 4


def test_annotations_that_say_nothing_about_moving_stop_nobody() -> None:
    assert plan_small(on_one_node(annotations=Labels({"team": "shop"}))).fates.going
    assert not plan_small(on_one_node(annotations=Labels({"rebalancer.dev/exclude": "true"}))).fates.going


def test_a_replacement_is_not_evicted_before_it_is_ready() -> None:
    """Whether the move that it belongs to was right shows only then: else one eviction follows another."""
    snapshot = returned()
    arriving = snapshot.pods[0]
    late = pods(snapshot, lambda pod: structs.replace(pod, ready=False) if pod is arriving else pod)
    known = move("before", snapshot.taken_at, state=MoveState.PENDING, replacement=arriving.uid)
    plan = planned(late, memory=Memory(moves=(known,)))
    assert arriving.uid not in {eviction.pod.uid for eviction in plan.fates.going}
    assert Arriving() in {innermost(refused.refusal) for refused in plan.refusals}
    over = structs.replace(known, state=MoveState.VERIFIED)
    assert Arriving() not in {
        innermost(refused.refusal) for refused in planned(late, memory=Memory(moves=(over,))).refusals
    }


def test_only_pods_that_are_younger_than_the_least_age_are_counted_as_too_young() -> None:
    """Not a replacement of ours that is on its way, nor a pod that starts: each of these has its own reason."""
    snapshot = returned()
    arriving, starting, *others = (pod for pod in snapshot.pods if pod.node == snapshot.pods[0].node)
    now = snapshot.taken_at

    def change(pod: Pod) -> Pod:
        if pod is starting:
            return structs.replace(pod, ready=False, starting_since=now)
        return structs.replace(pod, ready=pod is not arriving, created=now if pod in others else pod.created)

    known = move("before", now, state=MoveState.PENDING, replacement=arriving.uid)
    young = policy(eligibility=Eligibility(min_age=timedelta(minutes=1)))
    plan = planned(pods(snapshot, change), young, memory=Memory(moves=(known,)))
    counted = {row.pod: row.reason for row in plan.refusals if row.pod is not None}
    expected = {pod.name: Reason.TOO_YOUNG for pod in others}
    assert counted == {**expected, arriving.name: Reason.ARRIVING, starting.name: Reason.STARTING}


@pytest.mark.parametrize(("first", "beyond"), [(0, 2), (2, 0), (1, 1), (5, 3)])
def test_a_stateful_set_that_is_about_to_delete_pods_is_left_alone(first: int, beyond: int) -> None:
    """Six pods, as many as it wants, but two others are to come in place of those beyond its ordinals."""
    snapshot = a_cluster(
        "abc", 2, {"a-1": 4, "b-1": 4}, name="db", stateful=True, spread={ZONE: 1}, namespace="shop"
    ).snapshot()
    there = tuple(pod for pod in snapshot.pods if pod.name not in {"db-0", "db-1"})
    shrinking = owners(
        replace(snapshot, pods=there),
        lambda owner: structs.replace(owner, replicas=6, current=6, updated=6, ready=6, first_ordinal=first),
    )
    plan = planned(shrinking)
    fact = OwnerShrinking(beyond, 6)
    assert (fact in {innermost(refused.refusal) for refused in plan.refusals}) == (beyond > 0)
    assert bool(plan.fates.going) == (beyond == 0)
