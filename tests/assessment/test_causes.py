"""The cause of a violation: what was seen to happen first, then what a snapshot shows, and otherwise unknown."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.assessment.causes import MOST_STORED, causes_to_store, constraint_token
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, Leading
from rebalancer.documents.report import ReportedConstraint
from rebalancer.engine import evaluate
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY, Memory, ObservedChange
from rebalancer.model.pods import PodSpec
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim
from rebalancer.policy import Limit, PolicyGroup, Selector, Share
from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.tracking.changes import CHANGE_LIFETIME, MOST_CHANGES, observe_changes
from tests.assessment.findings.build import cordoned, shop, with_specs
from tests.build import a_cluster, a_state, change_specs, with_nodes
from tests.controller.simulated import eager
from tests.reports import cycle_report, full_report
from tests.scheduling.build import NOW, spread, taint, term

SECOND = timedelta(seconds=1)


def later(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, taken_at=snapshot.taken_at + SECOND)


def without(snapshot: Snapshot, node: str) -> Snapshot:
    return replace(snapshot, nodes=[other for other in snapshot.nodes if other.name != node])


def with_owners(snapshot: Snapshot, **fields: Any) -> Snapshot:
    return replace(snapshot, workloads=tuple(structs.replace(workload, **fields) for workload in snapshot.workloads))


def report(snapshot: Snapshot, memory: Memory = NO_MEMORY) -> ReportedConstraint:
    made = evaluate(snapshot, eager(), memory=memory)
    return full_report(made.view, made.assessment, made.plan, eager(), memory=memory).constraints[0]


def seen(*looks: Snapshot) -> str | None:
    """Return the cause that a controller reports after it has seen each of these snapshots in turn."""
    state = a_state(eager(), looks[0].taken_at, since=NOW)
    for look in looks:
        state, _ = step(state, CycleDue(snapshot=look), look.taken_at)
    assert state.cycle is not None
    (group,) = state.cycle.assessment.groups
    return state.cycle.causes.get(constraint_token(group, group.hard[0]))


EVEN = shop(a=4, b=4, c=4)
UNEVEN = later(with_owners(shop(a=4, b=4, c=1), replicas=9))
RELABELLED = tuple(
    structs.replace(pod, labels=Labels({"app": "other", **{k: v for k, v in pod.labels.items() if k != "app"}}))
    if pod.node == "c-1"
    else pod
    for pod in EVEN.pods
)


def same_pods(of: Snapshot, node: str, number: int) -> Snapshot:
    """Return the cluster with but so many pods left on a node."""
    there = [pod for pod in of.pods if pod.node == node][number:]
    return later(replace(of, pods=[pod for pod in of.pods if pod not in there]))


def test_a_scale_down() -> None:
    """Fewer replicas are wanted than before, and then the pods are fewer; also a cycle later."""
    fewer = with_owners(EVEN, replicas=9)
    assert seen(EVEN, same_pods(fewer, "c-1", 1)) is ViolationCause.SCALE_DOWN
    assert seen(EVEN, later(fewer), later(same_pods(fewer, "c-1", 1))) is ViolationCause.SCALE_DOWN


def test_a_node_that_is_lost() -> None:
    """Not Ready, cordoned, or gone while its zone has another."""
    alone = with_nodes(EVEN, {"c-1": {"ready": False}})
    assert seen(EVEN, same_pods(alone, "c-1", 1)) is ViolationCause.NODE_LOST
    assert seen(EVEN, same_pods(cordoned(EVEN, "c-1"), "c-1", 1)) is ViolationCause.NODE_LOST


def stored(snapshot: Snapshot, cause: ViolationCause, *changes: ObservedChange) -> Memory:
    """Return the memory of a leader that has seen the violation of the only constraint, and why."""
    (group,) = evaluate(snapshot, eager(), memory=NO_MEMORY).assessment.groups
    return Memory(causes=((constraint_token(group, group.hard[0]), cause),), changes=changes)


LOST = ObservedChange(ViolationCause.NODE_LOST, f"{ZONE}=c", EVEN.taken_at)


def test_a_loss_that_is_over_is_no_cause_any_more() -> None:
    """In a running process the nodes' return is seen, whether the zone was empty or lacked one node of two."""
    gone = same_pods(with_nodes(EVEN, {"c-1": {"ready": False}}), "c-1", 1)
    back = later(with_nodes(gone, {"c-1": {"ready": True}}))
    assert seen(EVEN, gone) is ViolationCause.NODE_LOST
    assert seen(EVEN, gone, back) is ViolationCause.DOMAIN_RETURNED
    two = a_cluster("abc", 2, {f"{zone}-{n}": 2 for zone in "abc" for n in (1, 2)}, spread={ZONE: 1}).snapshot()
    gone = same_pods(cordoned(two, "c-1"), "c-1", 0)
    back = later(with_nodes(gone, {"c-1": {"unschedulable": False}}))
    assert seen(two, gone) is ViolationCause.NODE_LOST
    assert seen(two, gone, later(gone)) is ViolationCause.NODE_LOST
    assert seen(two, gone, back) is ViolationCause.DOMAIN_RETURNED
    half = cordoned(back, "c-2")
    assert seen(two, gone, half) is ViolationCause.NODE_LOST, "another node of the zone is away"


def test_a_stored_loss_that_the_snapshot_contradicts_is_replaced() -> None:
    """After a restart nobody has seen the return: what the first snapshot shows counts, for the change too."""
    known = stored(UNEVEN, ViolationCause.NODE_LOST, LOST)
    assert report(UNEVEN, known).cause == "Unknown"
    returned = {"c-1": {"ready_since": EVEN.taken_at + SECOND}}
    assert report(with_nodes(UNEVEN, returned), known).cause == "DomainReturned"
    assert report(with_nodes(UNEVEN, {"c-1": {"ready": False}}), known).cause == "NodeLost"
    assert report(UNEVEN, stored(UNEVEN, ViolationCause.ROLLOUT, LOST)).cause == "Rollout", (
        "no other cause is concerned"
    )
    scaled = ObservedChange(ViolationCause.SCALE_DOWN, "default/web (Deployment)", EVEN.taken_at - SECOND)
    assert report(UNEVEN, stored(UNEVEN, ViolationCause.NODE_LOST, scaled, LOST)).cause == "ScaleDown"
    assert limit_cause(standing({"a": 4, "b": 1, "c": 1}), memory=Memory(changes=(LOST,))) == "Unknown"


THIRDS = PolicyGroup(
    name="g", selector=Selector(), limits=(Limit(name="zone", topology_key=ZONE, max_share=Share.of("<=2/5")),)
)


def lose_zone(*, pinned: bool = False, rolled_out: bool = False, restarted: bool = False) -> list[ViolationCause]:
    """Return the causes of what is violated in each cycle after zone c is gone, first with its pods."""
    policy = eager(groups=(THIRDS,))
    whole = a_cluster("abc", 1, {"a-1": 3, "b-1": 3, "c-1": 3}, spread={ZONE: 1}).snapshot()
    if pinned:
        affinity = NodeAffinity(required=(term((ZONE, "In", ("a", "b"))),))
        whole = change_specs(whole, lambda _, spec: structs.replace(spec, node_affinity=affinity))
    (made,) = (one for one in whole.workloads if one.kind == "ReplicaSet")
    before = later(replace(whole, workloads=tuple(one for one in whole.workloads if one is not made)))
    looks = [before, replace(whole, taken_at=before.taken_at + SECOND)]
    if rolled_out:
        looks.append(later(with_owners(looks[-1], revision="next")))
    gone = later(without(looks[-1], "c-1"))
    anew = later(
        replace(gone, pods=[structs.replace(pod, node="a-1") if pod.node == "c-1" else pod for pod in gone.pods])
    )
    state = a_state(policy, looks[0].taken_at, since=NOW)
    for look in looks:
        state, _ = step(state, CycleDue(snapshot=look), look.taken_at)
    causes = list[ViolationCause]()
    for look in (gone, anew, later(anew)):
        if restarted:
            state = step(replace(a_state(policy, look.taken_at)), Leading(leads=True, memory=state.memory), NOW)[0]
        state, _ = step(state, CycleDue(snapshot=look), look.taken_at)
        assert state.cycle is not None
        causes += state.cycle.causes.values()
    return causes


@pytest.mark.parametrize("rolled_out", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_lost_zone_is_the_cause_from_its_first_cycle(rolled_out: bool, restarted: bool) -> None:
    """Also of a Deployment that is new or was rolled out shortly before, and for a leader that has not seen it go."""
    causes = lose_zone(rolled_out=rolled_out, restarted=restarted)
    assert len(causes) >= 3
    assert set(causes) == {ViolationCause.ZONE_LOST}


def test_a_zone_that_pods_may_not_use_is_no_cause() -> None:
    """They lose nothing with it."""
    assert ViolationCause.ZONE_LOST not in lose_zone(pinned=True)


def test_a_deleted_node_is_lost_until_a_new_one_comes() -> None:
    """The others of its zone are all Ready, and it was lost nevertheless."""
    deleted = structs.replace(LOST, deleted=True)
    known = stored(UNEVEN, ViolationCause.NODE_LOST, deleted)
    assert report(UNEVEN, known).cause == "NodeLost"
    replaced = {"c-1": {"created": EVEN.taken_at + SECOND, "ready_since": EVEN.taken_at + SECOND}}
    assert report(with_nodes(UNEVEN, replaced), known).cause == "DomainReturned"


@pytest.mark.parametrize("serving", [False, True])
def test_a_deleted_node_is_lost_although_a_cordoned_one_of_its_zone_comes_back(serving: bool) -> None:
    """The pods went with the deleted node: the return of another does not change why, until the deleted is replaced."""
    names = [f"{zone}-{number}" for zone in "abc" for number in range(1, 4 if serving else 3)]
    two = a_cluster("abc", 3 if serving else 2, dict.fromkeys(names, 2), spread={ZONE: 1}).snapshot()
    shut = later(cordoned(two, "c-1"))
    gone = same_pods(without(shut, "c-2"), "c-2", 0)
    back = later(with_nodes(gone, {"c-1": {"unschedulable": False, "taints": ()}}))
    assert seen(two, shut, gone) is ViolationCause.NODE_LOST
    assert seen(two, shut, gone, back, later(later(back))) is ViolationCause.NODE_LOST
    node = structs.replace(two.node["c-2"], uid="anew", created=back.taken_at, ready_since=back.taken_at)
    replaced = later(replace(back, nodes=[*back.nodes, node]))
    assert seen(two, shut, gone, back, replaced) is ViolationCause.DOMAIN_RETURNED


def test_nodes_that_are_deleted_when_another_of_a_lost_zone_is_back_are_lost_anew() -> None:
    """Their pods counted until then, though the nodes were not Ready: not the return has violated the constraint."""
    whole = a_cluster("abc", 3, {f"{zone}-{n}": 1 for zone in "abc" for n in (1, 2, 3)}, spread={ZONE: 1}).snapshot()
    silent = later(with_nodes(whole, {f"c-{number}": {"ready": False} for number in (1, 2, 3)}))
    back = later(with_nodes(silent, {"c-1": {"ready": True}}))
    gone = later(without(without(back, "c-2"), "c-3"))
    assert seen(whole, silent, back) is None
    assert seen(whole, silent, back, gone) is ViolationCause.NODE_LOST


def test_a_node_that_is_deleted_without_pods_that_counted_is_no_loss() -> None:
    """One that never was Ready; and one that was drained before its kubelet stopped, after another took its place."""
    idle = structs.replace(EVEN.node["c-1"], name="c-9", uid="never", ready=False)
    came = later(replace(EVEN, nodes=[*EVEN.nodes, idle]))
    fewer = later(with_owners(came, replicas=9))
    went = later(without(fewer, "c-9"))
    assert seen(EVEN, came, fewer, went, same_pods(went, "c-1", 1)) is ViolationCause.SCALE_DOWN
    shut = later(cordoned(EVEN, "c-1"))
    new = structs.replace(EVEN.node["c-1"], name="c-3", uid="new", created=shut.taken_at, ready_since=shut.taken_at)
    drained = [structs.replace(pod, node="c-3") if pod.node == "c-1" else pod for pod in EVEN.pods]
    moved = later(replace(shut, nodes=[*shut.nodes, new], pods=drained))
    silent = later(with_nodes(moved, {"c-1": {"ready": False}}))
    gone = later(without(silent, "c-1"))
    assert seen(EVEN, shut, moved, silent, gone, same_pods(gone, "c-3", 1)) is not ViolationCause.NODE_LOST


def test_a_deleted_node_that_was_replaced_is_not_lost_again_by_a_cordon() -> None:
    """Its zone was cordoned later, and serves again: no node is missing, pods only came meanwhile."""
    gone = later(without(EVEN, "c-1"))
    node = structs.replace(EVEN.node["c-1"], uid="anew", created=gone.taken_at, ready_since=gone.taken_at)
    replaced = later(replace(gone, nodes=[*gone.nodes, structs.replace(node, created=gone.taken_at + SECOND)]))
    shut = later(cordoned(replaced, "c-1"))
    scaled = same_pods(shut, "c-1", 1)
    opened = later(with_nodes(scaled, {"c-1": {"unschedulable": False, "taints": ()}}))
    assert seen(EVEN, gone, replaced, shut, scaled) is ViolationCause.NODE_LOST
    assert seen(EVEN, gone, replaced, shut, scaled, opened) is ViolationCause.DOMAIN_RETURNED
    missing = later(without(replaced, "c-1"))
    assert seen(EVEN, gone, replaced, same_pods(missing, "c-1", 1)) is not ViolationCause.DOMAIN_RETURNED


def test_what_changes_while_the_view_is_stale_is_compared_afterwards() -> None:
    """Half of a change may be missing there: its pods are gone, and the watch of Deployments is silent.

    Such a cycle stores no cause. The next view is compared with the last one that was not stale.
    """
    young = {"c-1": {"ready_since": EVEN.taken_at}}  # by which the half alone looks like a domain that has returned
    after = with_nodes(same_pods(with_owners(EVEN, replicas=9), "c-1", 1), young)
    half = replace(after, workloads=EVEN.workloads)
    state = a_state(eager(), EVEN.taken_at, since=NOW)
    causes = []
    for look, stale in ((EVEN, ""), (half, "silent"), (later(half), "silent"), (later(after), ""), (later(after), "x")):
        state, _ = step(state, CycleDue(snapshot=look, stale=stale), look.taken_at)
        causes.append([cause for _, cause in state.memory.causes])
    assert causes == [[], [], [], [ViolationCause.SCALE_DOWN], [ViolationCause.SCALE_DOWN]]


def test_a_process_that_leads_again_compares_with_nothing_from_before() -> None:
    """Another leader has observed what changed meanwhile, and stored it."""
    scaled = same_pods(with_owners(EVEN, replicas=9), "c-1", 1)
    state, _ = step(a_state(eager(), EVEN.taken_at, since=NOW), CycleDue(snapshot=EVEN), EVEN.taken_at)
    for event in (Leading(leads=False), Leading(leads=True), CycleDue(snapshot=scaled)):
        state, _ = step(state, event, scaled.taken_at)
    assert state.memory.changes == ()


def test_a_loss_on_a_stale_view_leaves_no_cause() -> None:
    """The nodes seemed lost when their watch fell silent, and are Ready when it speaks again."""
    gone = same_pods(with_nodes(EVEN, {"c-1": {"ready": False}}), "c-1", 1)
    state = a_state(eager(), EVEN.taken_at, since=NOW)
    for look, stale in ((gone, "silent"), (later(with_nodes(gone, {"c-1": {"ready": True}})), "")):
        state, _ = step(state, CycleDue(snapshot=look, stale=stale), look.taken_at)
        assert not {ViolationCause.NODE_LOST, ViolationCause.ZONE_LOST} & {cause for _, cause in state.memory.causes}
        assert not (stale and state.memory.causes)


def test_a_domain_that_returns() -> None:
    """A zone without a node has one again; by the times of a snapshot as well."""
    gone = without(shop(a=6, b=6, c=0), "c-1")
    assert seen(gone, later(shop(a=6, b=6, c=0))) is ViolationCause.DOMAIN_RETURNED
    fresh = with_nodes(shop(a=6, b=6, c=0), {"c-1": {"created": EVEN.taken_at, "ready_since": EVEN.taken_at}})
    assert report(fresh).cause == "DomainReturned"


def test_a_rollout() -> None:
    """Another template since the last look, or pods of two templates in one snapshot."""
    rolled = with_owners(EVEN, revision="next")
    assert seen(EVEN, same_pods(rolled, "c-1", 1)) is ViolationCause.ROLLOUT
    made = a_cluster("abc", 1, {"a-1": 4, "b-1": 1, "c-1": 1}, stateful=True, spread={ZONE: 1}).snapshot()
    first, *rest = made.pods
    old = structs.replace(first, labels=Labels({**first.labels, "controller-revision-hash": "old"}))
    assert report(replace(made, pods=(old, *rest))).cause == "Rollout"


def test_labels_that_changed() -> None:
    """Pods that were relabelled are not counted any more; nodes that were lie in another zone."""
    assert seen(EVEN, later(replace(EVEN, pods=RELABELLED))) is ViolationCause.LABELS_CHANGED
    assert report(replace(EVEN, pods=RELABELLED)).cause == "LabelsChanged"
    moved = with_nodes(EVEN, {"b-1": {"labels": Labels({HOSTNAME: "b-1", ZONE: "a"})}})
    assert seen(EVEN, later(moved)) is ViolationCause.LABELS_CHANGED


def test_what_was_lost_before_there_was_the_workload_is_no_cause() -> None:
    """Its pods were placed while the others of its zones were cordoned: once these take pods, that is the cause.

    As it is seen, and by the times of a snapshot.
    """
    begun = EVEN.taken_at + 3 * SECOND
    empty = replace(EVEN, workloads=[], pods=[])
    shut = later(
        with_nodes(cordoned(empty, "b-1", "c-1"), {name: {"lost_since": NOW + SECOND} for name in ("b-1", "c-1")})
    )
    made = with_owners(shop(a=6, b=0, c=0), created=begun)
    pods = tuple(structs.replace(pod, created=begun) for pod in made.pods)
    placed = replace(made, nodes=shut.nodes, pods=pods, taken_at=begun)
    opened = later(with_nodes(placed, {name: {"unschedulable": False, "taints": ()} for name in ("b-1", "c-1")}))
    assert seen(empty, shut, placed) is ViolationCause.UNKNOWN
    assert report(placed).cause == "Unknown"
    assert seen(empty, shut, placed, opened) is ViolationCause.DOMAIN_RETURNED
    before = later(replace(shut, nodes=opened.nodes))
    assert seen(empty, shut, before, replace(opened, taken_at=begun)) is ViolationCause.UNKNOWN
    older = with_owners(placed, created=NOW)
    assert report(older).cause == "NodeLost"


def at_loss(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot a second later, with zone c not Ready since then."""
    at = snapshot.taken_at + SECOND
    return replace(with_nodes(snapshot, {"c-1": {"ready": False, "lost_since": at}}), taken_at=at)


@pytest.mark.parametrize("cordon", [False, True])
def test_what_was_violated_before_a_zone_was_lost_is_not_violated_by_the_loss_or_the_return(cordon: bool) -> None:
    """Its cause stays unknown: the zone was empty while it was whole."""
    empty = later(shop(a=3, b=3, c=0))
    gone = later(cordoned(empty, "c-1")) if cordon else at_loss(empty)
    back = later(replace(gone, nodes=with_nodes(empty, {"c-1": {"ready_since": gone.taken_at + SECOND}}).nodes))
    for looks in ((empty, gone), (empty, gone, later(gone)), (empty, gone, back), (empty, gone, back, later(back))):
        assert seen(*looks) is ViolationCause.UNKNOWN


def test_a_limit_that_was_violated_before_a_zone_was_lost_is_not_counted_among_what_the_loss_violates() -> None:
    """Nor is the constraint; of what the loss did violate, both are counted."""

    def consequences(*looks: Snapshot) -> tuple[int, int]:
        state = a_state(eager(groups=(THIRDS,)), looks[0].taken_at, since=NOW)
        for look in looks:
            state, _ = step(state, CycleDue(snapshot=look), look.taken_at)
        assert state.cycle is not None
        (loss,) = state.cycle.losses
        return loss.consequences.constraints, loss.consequences.limits

    empty = later(shop(a=3, b=3, c=0))
    assert consequences(shop(a=3, b=3, c=0), empty, at_loss(empty)) == (0, 0)
    gone = at_loss(EVEN)
    moved = [structs.replace(pod, node="a-1") if pod.node == "c-1" else pod for pod in gone.pods]
    assert consequences(EVEN, replace(gone, pods=moved)) == (1, 1)


def test_without_a_memory_pods_that_are_older_than_a_loss_and_complete_show_that_it_is_no_cause() -> None:
    """Where one is missing, is younger, or is on a lost node, the loss may have violated it."""
    empty = later(shop(a=3, b=3, c=0))
    gone = at_loss(empty)
    assert report(gone).cause == "Unknown"
    assert report(with_owners(gone, replicas=7)).cause == "NodeLost"
    first, *rest = gone.pods
    moved = structs.replace(first, created=gone.taken_at)
    assert report(replace(gone, pods=(moved, *rest), taken_at=gone.taken_at + SECOND)).cause == "NodeLost"
    held = at_loss(later(shop(a=4, b=4, c=1)))
    assert report(held).cause == "NodeLost"
    assert report(with_nodes(gone, {"c-1": {"lost_since": None}})).cause == "NodeLost", "nobody knows since when"


def test_a_loss_that_ends_the_removal_of_a_node_is_the_cause_although_its_pods_went_first() -> None:
    """An autoscaler taints a node, evicts its pods, and deletes it last."""
    leaving = later(with_nodes(EVEN, {"c-1": {"taints": (taint("ToBeDeletedByClusterAutoscaler"),)}}))
    drained = same_pods(leaving, "c-1", 1)
    deleted = later(with_nodes(drained, {"c-1": {"ready": False}}))
    assert seen(EVEN, leaving, drained, deleted) is ViolationCause.NODE_LOST
    before = later(UNEVEN)
    assert seen(UNEVEN, before, same_pods(later(leaving), "c-1", 1), later(deleted)) is ViolationCause.UNKNOWN


def test_what_nothing_shows_is_unknown() -> None:
    """Also the first time that a controller looks."""
    assert report(UNEVEN).cause == "Unknown"
    assert seen(UNEVEN) is ViolationCause.UNKNOWN
    assert report(EVEN).cause is None


def test_the_cause_stays_while_the_violation_lasts() -> None:
    """The first cause found is reported as long as the constraint is violated, and forgotten afterwards."""
    looks = [EVEN, same_pods(with_owners(EVEN, replicas=9), "c-1", 1)]
    looks.append(later(cordoned(looks[-1], "b-1")))
    assert seen(*looks) is ViolationCause.SCALE_DOWN
    aged = replace(looks[-1], taken_at=EVEN.taken_at + 2 * CHANGE_LIFETIME)
    assert seen(*looks, aged) is ViolationCause.SCALE_DOWN
    held = replace(EVEN, taken_at=aged.taken_at + SECOND)
    again = replace(UNEVEN, taken_at=held.taken_at + SECOND, workloads=EVEN.workloads)
    assert seen(*looks, aged, held, again) is ViolationCause.UNKNOWN


def test_a_change_is_a_cause_for_an_hour() -> None:
    """Then it is forgotten; of many the newest are kept, and a time ahead of ours is now."""
    old = ObservedChange(ViolationCause.SCALE_DOWN, "default/web (Deployment)", EVEN.taken_at)
    memory = Memory(changes=(old,))
    assert observe_changes(memory, None, later(EVEN), ()) == (old,)
    assert observe_changes(memory, None, replace(EVEN, taken_at=EVEN.taken_at + CHANGE_LIFETIME), ()) == ()
    past = replace(EVEN, taken_at=EVEN.taken_at - SECOND)
    assert observe_changes(memory, None, past, ())[0].at == past.taken_at
    many = Memory(changes=tuple(structs.replace(old, subject=f"w{number}") for number in range(MOST_CHANGES + 9)))
    assert len(observe_changes(many, None, EVEN, ())) == MOST_CHANGES


def test_of_many_causes_those_that_are_known_are_stored_first() -> None:
    """What nothing is known of is evaluated again in each cycle, which costs little."""
    made = evaluate(UNEVEN, eager())
    (unknown,) = made.causes

    def kept(number: int) -> list[ViolationCause]:
        causes = {f"{each:05}": ViolationCause.ROLLOUT for each in range(number)}
        return [cause for _, cause in causes_to_store({**causes, **made.causes}, made.assessment, made.view, NO_MEMORY)]

    assert made.causes[unknown] is ViolationCause.UNKNOWN
    assert kept(MOST_STORED - 1).count(ViolationCause.UNKNOWN) == 1
    assert kept(MOST_STORED + 9) == [ViolationCause.ROLLOUT] * MOST_STORED


def limit_cause(snapshot: Snapshot, *, key: str = ZONE, memory: Memory = NO_MEMORY, **rule: Any) -> str | None:
    """Return the cause of the violation of one limit over all pods, whatever their owners."""
    bound = rule or {"max_share": Share.of("<=1/2")}
    limit = Limit(name="only", topology_key=key, **bound)
    group = PolicyGroup(name="all", selector=Selector(), group_by=("team",), limits=(limit,))
    policy = eager().model_copy(update={"groups": (group,)})
    made = evaluate(snapshot, policy, memory=memory)
    (row,) = full_report(made.view, made.assessment, made.plan, policy, memory=memory).limits
    assert (row.cause is None) == (row.state == "Satisfied")
    return row.cause


def standing(*owners: dict[str, int], spreads: Sequence[SpreadConstraint | None] = (), zones: str = "abc") -> Snapshot:
    """Return Deployments of one team with so many pods in each zone of one node, and what spreads each of them."""
    blueprint = a_cluster(zones, 1)
    for number, on in enumerate(owners):
        blueprint.deployment(f"w{number}", on={f"{zone}-1": pods for zone, pods in on.items()})
    spread_of = {f"w{number}": constraint for number, constraint in enumerate(spreads)}

    def spread_by(app: str, spec: PodSpec) -> PodSpec:
        constraint = spread_of.get(app)
        if constraint is None:
            return structs.replace(spec, spread=())
        return structs.replace(spec, spread=(structs.replace(constraint, selector=LabelSelector.of({"app": app})),))

    return change_specs(blueprint.snapshot(), spread_by, team="x")


SOFT_ZONE, SOFT_NODE = spread(ZONE, 1, soft=True), spread(HOSTNAME, 1, soft=True)


def test_a_soft_constraint_that_did_not_hold_is_the_cause_of_a_limits_violation() -> None:
    """It is violated itself, over the same key, and the limit could have held with it."""
    assert limit_cause(standing({"a": 4, "b": 1, "c": 1}, spreads=[SOFT_ZONE])) == "SoftConstraint"
    assert limit_cause(standing({"a": 4, "b": 1, "c": 1}, spreads=[SOFT_NODE])) == "Unknown"
    assert limit_cause(standing({"a": 4, "b": 1, "c": 1}, spreads=[SOFT_NODE]), key=HOSTNAME) == "SoftConstraint"
    assert limit_cause(standing({"a": 4, "b": 1, "c": 1}, spreads=[spread(ZONE, 3, soft=True)])) == "Unknown"
    assert limit_cause(standing({"a": 4, "b": 4, "c": 1}, spreads=[SOFT_ZONE]), min_pods=2) == "SoftConstraint"
    assert limit_cause(standing({"a": 3, "b": 3, "c": 2}, spreads=[SOFT_ZONE]), max_skew=1) is None
    assert limit_cause(standing({"a": 4, "b": 3, "c": 2}, spreads=[SOFT_ZONE]), max_skew=1) == "SoftConstraint"


def test_the_schedulers_default_that_holds_is_no_cause() -> None:
    """It allows a skew of 5 over zones and of 3 over nodes: what it allows it cannot have prevented."""
    assert limit_cause(standing({"a": 4, "b": 1, "c": 1})) == "Unknown"
    assert limit_cause(standing({"a": 6, "b": 1, "c": 1})) == "Unknown"
    assert limit_cause(standing({"a": 4, "b": 1, "c": 1}), key=HOSTNAME) == "Unknown"
    assert limit_cause(standing({"a": 6, "b": 1, "c": 1}), key=HOSTNAME) == "SoftConstraint"
    assert limit_cause(standing({"a": 8, "b": 1, "c": 1})) == "SoftConstraint"


def test_what_no_soft_constraint_could_have_prevented_has_another_cause() -> None:
    """Pods of another owner that break the limit alone, spread shards, and a limit that no placement satisfies."""
    lone, uneven = {"a": 4, "b": 0, "c": 1}, {"a": 3, "b": 0, "c": 0}
    assert limit_cause(standing(lone, uneven, spreads=[spread(ZONE, 4, soft=True), SOFT_ZONE])) == "SoftConstraint"
    lone = {"a": 5, "b": 0, "c": 1}
    assert limit_cause(standing(lone, uneven, spreads=[spread(ZONE, 5, soft=True), SOFT_ZONE])) == "Unknown"
    shards = [{"a": 1, "b": 1, "c": 0}] * 3 + [{"a": 1}] * 2
    assert limit_cause(standing(*shards, spreads=[SOFT_ZONE] * 5), max_pods=4) == "Unknown"
    assert limit_cause(standing({"a": 5, "b": 1}, spreads=[SOFT_ZONE], zones="ab"), max_pods=2) == "Unknown"


def test_a_hard_constraint_beside_a_soft_one() -> None:
    """While the hard one holds the soft one is to blame; once it does not, something else has happened."""
    made = standing({"a": 4, "b": 1, "c": 1}, spreads=[SOFT_ZONE])
    (soft,) = made.pods[0].spec.spread
    for skew, cause in ((3, "SoftConstraint"), (2, "Unknown")):
        assert limit_cause(with_specs(made, spread=(soft, spread(ZONE, skew, selects=soft.selector)))) == cause


def test_limits_alike_in_distribution_have_their_own_causes() -> None:
    """The same counts, after a scaling down, with a cordoned zone, under a soft constraint and without any of it."""
    on = {"a": 4, "b": 1, "c": 1}
    scaled = Memory(changes=(ObservedChange(ViolationCause.SCALE_DOWN, "default/w0 (Deployment)", EVEN.taken_at),))
    seen_from = [
        limit_cause(standing(on), memory=scaled),
        limit_cause(cordoned(standing(on), "b-1", "c-1")),
        limit_cause(standing(on, spreads=[SOFT_ZONE])),
        limit_cause(standing(on)),
    ]
    assert seen_from == ["ScaleDown", "NodeLost", "SoftConstraint", "Unknown"]
    assert limit_cause(standing(on, spreads=[SOFT_ZONE]), memory=scaled) == "ScaleDown"


def softened(snapshot: Snapshot) -> Snapshot:
    (constraint,) = snapshot.pods[0].spec.spread
    return with_specs(snapshot, spread=(spread(ZONE, 1, soft=True, selects=constraint.selector),))


@pytest.mark.parametrize("make", [softened, lambda made: cordoned(made, "c-1"), lambda made: made])
def test_alike_in_distribution(make: Callable[[Snapshot], Snapshot]) -> None:
    """The same counts over the zones, whatever led to them."""
    assert report(make(UNEVEN)).counts == {"a": 4, "b": 4, "c": 1}


def test_different_in_cause() -> None:
    """A soft constraint, a cordoned zone and a scale-down are distinguished, and each has its remedy."""
    rows = [report(softened(UNEVEN)), report(cordoned(UNEVEN, "c-1"))]
    looks = [EVEN, same_pods(with_owners(EVEN, replicas=9), "c-1", 1)]
    state, _ = step(a_state(eager(), NOW), CycleDue(snapshot=looks[0]), looks[0].taken_at)
    state, requests = step(state, CycleDue(snapshot=looks[1]), looks[1].taken_at)
    assert state.cycle is not None
    rows.append(cycle_report(state.cycle).constraints[0])
    assert [row.cause for row in rows] == ["SoftConstraint", "NodeLost", "ScaleDown"]
    assert len({row.remedy for row in rows}) == 3
    assert any("cause ScaleDown" in str(request) for request in requests)


def pinned(snapshot: Snapshot) -> Snapshot:
    """Return the cluster with a volume for each pod that reaches its zone only."""
    pods, claims, volumes = [], [], []
    for pod in snapshot.pods:
        zone = snapshot.node[pod.node or ""].labels[ZONE]
        name = f"data-{pod.name}"
        claims.append(PersistentVolumeClaim(namespace=pod.namespace, name=name, volume=name, bound=True))
        reach = (term((ZONE, "In", (zone,))),)
        volumes.append(PersistentVolume(name=name, node_affinity=reach, claim=(pod.namespace, name), phase="Bound"))
        pods.append(structs.replace(pod, claims=(name,)))
    return replace(snapshot, pods=pods, claims=tuple(claims), volumes=tuple(volumes))


def test_a_volume_that_pins() -> None:
    """The same counts again: what keeps the pods is their volumes, and the remedy says so."""
    blueprint = a_cluster("abc", 1, {"a-1": 4, "b-1": 4, "c-1": 1}, name="db", stateful=True, spread={ZONE: 1})
    free, tied = report(blueprint.snapshot()), report(pinned(blueprint.snapshot()))
    assert free.counts == tied.counts == {"a": 4, "b": 4, "c": 1}
    assert (tied.state, tied.reason) == ("Unfixable", "VolumePinned")
    assert tied.remedy.startswith("Move the data to volumes that other domains can attach.")
    assert free.remedy != tied.remedy


def test_a_zone_that_is_down_needs_its_nodes_not_capacity() -> None:
    """Full nodes and silent ones are told apart, in the reason and in the remedy."""
    silent = {"taints": (taint("node.kubernetes.io/unreachable"),), "ready": False, "ready_since": None}
    full, down = (report(with_nodes(UNEVEN, {"c-1": fields})) for fields in ({"pods": 1}, silent))
    assert (full.reason, down.reason) == ("NoCapacity", "NodesReject")
    assert (full.cause != "NodeLost", down.cause) == (True, "NodeLost")
    assert full.remedy.startswith("Add nodes that take these pods in the emptier domains")
    assert down.remedy.startswith("Bring back or uncordon the nodes of the emptiest domain")
