"""What is violated only since a node has changed: nothing is moved for it until the change has lasted."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.memory import update_memory
from rebalancer.engine import evaluate
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import Labels
from rebalancer.model.motion import NodeChange, NodeEvent
from rebalancer.model.moves import NO_MEMORY, Memory, make_token
from rebalancer.model.pods import PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import InclusionPolicy, WhenUnsatisfiable
from rebalancer.planning.plan import Plan
from rebalancer.planning.scope.lasting import CountsInMotion
from rebalancer.policy import Spread
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster, a_policy, change_specs, with_node, without_node
from tests.drawing import examples
from tests.planning.build import EVICTING, cause_of, limit
from tests.planning.clusters import planned, policy
from tests.scheduling.build import taint

SETTLE = timedelta(minutes=5)
NAMES = [f"{zone}-{number}" for zone in "abc" for number in (1, 2)]
RULES = policy(nodes=Nodes(settle=SETTLE))


def cluster(*, on: dict[str, int] | None = None) -> Snapshot:
    """Return six balanced pods, two in each of three zones of two nodes."""
    return a_cluster("abc", 2, on or {"a-1": 2, "b-1": 2, "c-1": 2}, spread={ZONE: 1}, namespace="shop").snapshot()


def labelled(snapshot: Snapshot, name: str, value: str | None, key: str = ZONE) -> Snapshot:
    labels = {label: text for label, text in snapshot.node[name].labels.items() if label != key}
    return with_node(snapshot, name, labels=Labels(labels if value is None else labels | {key: value}))


def changed(
    snapshot: Snapshot, name: str, event: NodeEvent, value: str | None = None, *, key: str = "", seconds: int = 60
) -> NodeChange:
    """Return a change of a node so many seconds ago."""
    return NodeChange(snapshot.taken_at - timedelta(seconds=seconds), name, event, key, value)


def relabelled(snapshot: Snapshot, name: str, value: str | None, seconds: int = 60, key: str = ZONE) -> NodeChange:
    """Return a change of a label; `value` is the one before."""
    return changed(snapshot, name, NodeEvent.RELABELLED, value, key=key, seconds=seconds)


def waits(made: Plan, change: NodeChange) -> bool:
    """Say whether the plan's only component waits because it was not violated so before this change.

    Its evictions are decided all the same, as far as there are any; else they may go, or wait for a node that settles.
    """
    (group,) = made.components
    if group.refusal is None or not isinstance(group.refusal, CountsInMotion):
        assert made.fates.going or made.fates.kept
        return False
    assert made.fates.going == ()
    assert {waiting.refusal for waiting in made.fates.kept} <= {group.refusal}
    assert group.refusal == CountsInMotion(change, SETTLE, change.at + SETTLE)
    return True


def test_a_label_that_has_just_been_changed_moves_no_pod() -> None:
    """Another zone's, or a new zone's: kube-scheduler counts it at once, and it may be a mistake."""
    for name, value in (("c-1", "a"), ("c-2", "d")):
        snapshot = labelled(cluster(), name, value)
        change = relabelled(snapshot, name, "c")
        assert planned(snapshot, RULES).fates.going
        assert waits(planned(snapshot, RULES, Memory(node_changes=(change,))), change)
        lasted = relabelled(snapshot, name, "c", seconds=300)
        assert planned(snapshot, RULES, Memory(node_changes=(lasted,))).fates.going


def test_a_label_that_was_not_there_and_one_that_is_gone_are_changes_too() -> None:
    snapshot = labelled(cluster(), "c-2", "d")
    change = relabelled(snapshot, "c-2", None)
    assert waits(planned(snapshot, RULES, Memory(node_changes=(change,))), change)
    gone = labelled(cluster(on={"a-1": 4, "b-1": 1, "c-1": 3, "c-2": 1}), "c-1", None)
    made = planned(gone, RULES, Memory(node_changes=(relabelled(gone, "c-1", "c"),)))
    assert made.fates.going == ()


def test_what_was_violated_as_much_before_waits_for_nothing() -> None:
    """What the change has made worse does."""
    snapshot = labelled(cluster(on={"a-1": 6, "b-1": 2, "c-1": 1, "c-2": 1}), "b-2", "c")
    change = relabelled(snapshot, "b-2", "b")
    assert not waits(planned(snapshot, RULES, Memory(node_changes=(change,))), change)
    worse = labelled(cluster(on={"a-1": 4, "b-1": 3, "c-1": 1, "c-2": 1}), "c-2", "b")
    change = relabelled(worse, "c-2", "c")
    assert waits(planned(worse, RULES, Memory(node_changes=(change,))), change)


def test_a_label_that_is_put_right_again_changes_nothing() -> None:
    """Of several changes of one label the first says how it was, and the last what it was in between."""
    snapshot = cluster(on={"a-1": 4, "b-1": 2, "c-1": 1})
    rows = (relabelled(snapshot, "c-2", "c", seconds=14), relabelled(snapshot, "c-2", "a", seconds=1))
    assert not waits(planned(snapshot, RULES, Memory(node_changes=rows)), rows[1])
    rows = (relabelled(snapshot, "c-1", "c", seconds=14), relabelled(snapshot, "c-1", "d", seconds=1))
    assert waits(planned(snapshot, RULES, Memory(node_changes=rows)), rows[1])
    wrong = labelled(cluster(), "c-2", "d")
    rows = (relabelled(wrong, "c-2", "c", seconds=14), relabelled(wrong, "c-2", "e", seconds=1))
    assert waits(planned(wrong, RULES, Memory(node_changes=rows)), rows[1])


def test_a_change_of_a_node_that_is_gone_or_was_deleted_reverts_nothing() -> None:
    snapshot = labelled(cluster(), "c-2", "d")
    gone = relabelled(snapshot, "z-1", "z")
    assert planned(snapshot, RULES, Memory(node_changes=(gone,))).fates.going


def test_the_plan_that_waits_holds_until_the_first_change_has_lasted() -> None:
    snapshot = labelled(cluster(), "c-2", "d")
    rows = (relabelled(snapshot, "c-2", "c", seconds=200), relabelled(snapshot, "c-1", "c", seconds=60, key=HOSTNAME))
    assert evaluate(snapshot, RULES, memory=Memory(node_changes=rows)).valid_until == snapshot.taken_at + timedelta(
        seconds=100
    )
    ahead = structs.replace(rows[0], at=snapshot.taken_at + timedelta(days=1))
    made = planned(snapshot, RULES, Memory(node_changes=(ahead,)))
    cause = cause_of(made.components[0])
    assert isinstance(cause, CountsInMotion)
    assert cause.until == snapshot.taken_at + SETTLE


# Taints that a constraint honours


def honouring(snapshot: Snapshot) -> Snapshot:
    """Let the constraints honour the nodes' taints."""

    def honour(_: str, spec: PodSpec) -> PodSpec:
        spread = (structs.replace(one, node_taints_policy=InclusionPolicy.HONOR) for one in spec.spread)
        return structs.replace(spec, spread=tuple(spread))

    return change_specs(snapshot, honour)


def tainted(snapshot: Snapshot, name: str, key: str, **fields: Any) -> Snapshot:
    return with_node(snapshot, name, taints=(taint(key),), **fields)


CORDON = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("event", "key", "fields"),
    [
        (NodeEvent.CORDONED, CORDON, {"unschedulable": True}),
        (NodeEvent.UNREADY, "node.kubernetes.io/not-ready", {"ready": False, "ready_since": None}),
        (NodeEvent.UNREADY, "node.kubernetes.io/unreachable", {"ready": False, "ready_since": None}),
    ],
)
def test_a_node_that_was_lost_a_moment_ago_counts_as_before_where_a_constraint_honours_taints(
    event: NodeEvent, key: str, fields: dict[str, Any]
) -> None:
    """Its pods do not count any more: zone c seems to hold one of three, and zone a too many."""
    laid_out = cluster(on={"a-1": 3, "b-1": 2, "c-1": 2, "c-2": 1})
    snapshot = tainted(honouring(laid_out), "c-1", key, **fields)
    change = changed(snapshot, "c-1", event, "c", key=ZONE)
    assert planned(snapshot, RULES).fates.going
    assert waits(planned(snapshot, RULES, Memory(node_changes=(change,))), change)
    lasted = changed(snapshot, "c-1", event, "c", key=ZONE, seconds=300)
    assert planned(snapshot, RULES, Memory(node_changes=(lasted,))).fates.going


def test_a_node_that_is_back_is_no_reason_where_a_constraint_honours_taints() -> None:
    """Zone c was no domain before."""
    snapshot = honouring(cluster(on={"a-1": 3, "b-1": 3}))
    snapshot = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != "c-2"))
    change = changed(snapshot, "c-1", NodeEvent.UNCORDONED)
    assert waits(planned(snapshot, RULES, Memory(node_changes=(change,))), change)


def test_where_taints_do_not_count_a_node_that_is_back_may_be_a_reason_but_no_target() -> None:
    snapshot = cluster(on={"a-1": 3, "b-1": 3})
    made = planned(snapshot, RULES, Memory(node_changes=(changed(snapshot, "c-1", NodeEvent.UNCORDONED),)))
    assert {waiting.reason for waiting in made.fates.kept} == {Reason.NODE_SETTLING}
    assert made.fates.kept


# Limits, soft constraints, pods that no node admits


HALF = a_policy(EVICTING.replace("settle: 0s", "settle: 5m") + limit("maxShare: <1/2", key=ZONE))


def test_a_limit_that_is_violated_only_since_a_label_has_changed_waits() -> None:
    """A limit that was violated as much before does not."""
    snapshot = labelled(a_cluster("abc", 2, {"a-1": 2, "b-1": 2, "c-1": 2}, namespace="shop").snapshot(), "c-1", "a")
    change = relabelled(snapshot, "c-1", "c")
    assert planned(snapshot, HALF).fates.going
    assert waits(planned(snapshot, HALF, Memory(node_changes=(change,))), change)
    for row in (relabelled(snapshot, "c-2", "c"), changed(snapshot, "c-1", NodeEvent.UNCORDONED)):
        assert not waits(planned(snapshot, HALF, Memory(node_changes=(row,))), row)


def test_a_soft_constraint_that_is_acted_on_waits_too_and_one_that_is_not_waits_for_nothing() -> None:
    soft = change_specs(
        labelled(cluster(on={"a-1": 3, "b-1": 2, "c-1": 2}), "b-2", "d"),
        lambda _, spec: structs.replace(
            spec,
            spread=tuple(
                structs.replace(one, when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY) for one in spec.spread
            ),
        ),
    )
    change = relabelled(soft, "b-2", "b")
    acting = policy(nodes=Nodes(settle=SETTLE), spread=Spread(for_=timedelta(0), act_on=tuple(WhenUnsatisfiable)))
    assert waits(planned(soft, acting, Memory(node_changes=(change,))), change)
    assert planned(soft, RULES, Memory(node_changes=(change,))).components == ()


def test_a_pod_that_no_node_admits_since_a_node_was_lost_waits_with_all_of_its_workload() -> None:
    """A pod that no node admitted before either does not."""
    laid_out = a_cluster(
        "abc", 1, {"a-1": 1, "b-1": 1}, replicas=3, spread={ZONE: 1, HOSTNAME: 1}, namespace="shop"
    ).snapshot()
    pending = without_node(laid_out.pods[0], "web-3")
    snapshot = tainted(replace(laid_out, pods=(*laid_out.pods, pending)), "c-1", CORDON, unschedulable=True)
    row = changed(snapshot, "c-1", NodeEvent.CORDONED, "c", key=ZONE)
    (group,) = planned(snapshot, RULES, Memory(node_changes=(row,))).components
    assert group.refusal == CountsInMotion(row, SETTLE, row.at + SETTLE)
    for name, memory in (("a-1", structs.replace(row, node="a-1")), ("c-1", structs.replace(row, at=row.at - SETTLE))):
        (group,) = planned(snapshot, RULES, Memory(node_changes=(memory,))).components
        assert group.refusal is not None
        assert not isinstance(group.refusal, CountsInMotion), name


def test_so_does_one_of_a_workload_without_constraints() -> None:
    """No eviction repairs that, and no step is looked for."""
    laid_out = a_cluster("abc", 1, {"a-1": 1, "b-1": 1}, replicas=3, namespace="shop").snapshot()
    own = structs.replace(laid_out.pods[0].spec, requests=Resources(cpu=9_000))
    pods = [structs.replace(pod, spec=own, requests=own.requests) for pod in laid_out.pods]
    pending = without_node(pods[0], "web-3")
    snapshot = tainted(replace(laid_out, pods=(*pods, pending)), "c-1", CORDON, unschedulable=True)
    row = changed(snapshot, "c-1", NodeEvent.CORDONED, "c", key=ZONE)
    made = planned(snapshot, RULES, Memory(node_changes=(row,)))
    assert [group.refusal for group in made.components] == [CountsInMotion(row, SETTLE, row.at + SETTLE)]
    assert (made.fates.going, made.fates.kept) == ((), ())


@examples(100)
@given(
    pods_on=st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4), min_size=1),
    swaps=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([*"abcd", None])), min_size=1, max_size=3),
)
def test_only_what_was_violated_with_the_old_labels_too_is_ever_decided(
    pods_on: dict[str, int], swaps: list[tuple[str, str | None]]
) -> None:
    """And with as great a skew, by the same pods in the same zones."""
    before = cluster(on=pods_on)
    after = before
    for name, value in swaps:
        after = labelled(after, name, value)
    rows = tuple(
        relabelled(after, name, before.node[name].labels[ZONE]) for name in sorted({name for name, _ in swaps})
    )
    made = planned(after, RULES, Memory(node_changes=rows))
    old, new = (evaluate(snapshot, RULES).assessment.groups[0].hard[0].counts for snapshot in (before, after))
    same = old.violated and old.skew >= new.skew and dict(old.by_domain.filled) == dict(new.by_domain.filled)
    waiting = [one for one in made.fates.kept if not isinstance(one.refusal, CountsInMotion)]
    assert not (made.fates.going or waiting) or same
    if new.violated:
        (group,) = made.components
        waits_for_nodes = group.refusal is not None and isinstance(group.refusal, CountsInMotion)
        assert waits_for_nodes != same


def test_what_is_satisfied_waits_for_nothing_where_something_else_is_violated_as_before() -> None:
    """A soft constraint that is not acted on does not, either; one that is violated since then does."""
    snapshot = labelled(
        a_cluster("abc", 2, {"a-1": 4, "b-1": 1, "c-1": 1}, spread={ZONE: 1, HOSTNAME: 9}, namespace="shop").snapshot(),
        "a-1",
        "x",
        HOSTNAME,
    )
    row = relabelled(snapshot, "a-1", "y", key=HOSTNAME)
    assert not waits(planned(snapshot, RULES, Memory(node_changes=(row,))), row)

    def with_host_names(max_skew: int, *, soft: bool) -> Snapshot:
        when = WhenUnsatisfiable.SCHEDULE_ANYWAY if soft else WhenUnsatisfiable.DO_NOT_SCHEDULE

        def change(_: str, spec: PodSpec) -> PodSpec:
            zone, name = spec.spread
            return structs.replace(
                spec, spread=(zone, structs.replace(name, max_skew=max_skew, when_unsatisfiable=when))
            )

        return change_specs(snapshot, change)

    assert not waits(planned(with_host_names(1, soft=True), RULES, Memory(node_changes=(row,))), row)
    assert waits(planned(with_host_names(1, soft=False), RULES, Memory(node_changes=(row,))), row)


def test_changes_of_other_kinds_beside_a_label_hide_nothing() -> None:
    snapshot = labelled(cluster(), "c-2", "d")
    row = relabelled(snapshot, "c-2", "c", seconds=1)
    rows = (changed(snapshot, "b-1", NodeEvent.UNCORDONED), row)
    assert waits(planned(snapshot, RULES, Memory(node_changes=rows)), row)


def test_only_of_the_pods_that_no_node_admits_it_matters_what_was_before() -> None:
    """Whether a running pod had a node then says nothing."""
    laid_out = cluster()
    huge = structs.replace(laid_out.pods[0].spec, requests=Resources(cpu=10**9))
    pending = without_node(laid_out.pods[0], "web-7", spec=huge, requests=huge.requests)
    snapshot = replace(laid_out, pods=(*laid_out.pods, pending))
    row = changed(snapshot, "a-2", NodeEvent.CORDONED, "a", key=ZONE)
    (group,) = planned(snapshot, RULES, Memory(node_changes=(row,))).components
    assert group.refusal is not None
    assert not isinstance(group.refusal, CountsInMotion)


def test_where_more_labels_have_changed_than_are_stored_every_repair_waits() -> None:
    snapshot = cluster(on={"a-1": 4, "b-1": 1, "c-1": 1})
    unknown = NodeChange(snapshot.taken_at - timedelta(seconds=60), "", NodeEvent.RELABELLED)
    assert waits(planned(snapshot, RULES, Memory(node_changes=(unknown,))), unknown)
    lasted = structs.replace(unknown, at=snapshot.taken_at - SETTLE)
    assert planned(snapshot, RULES, Memory(node_changes=(lasted,))).fates.going


def test_a_node_that_was_deleted_and_registered_again_is_no_change_of_its_own() -> None:
    snapshot = labelled(cluster(), "c-2", "d")
    row = relabelled(snapshot, "c-2", "c")
    rows = (row, changed(snapshot, "c-2", NodeEvent.DELETED, "c", key=ZONE, seconds=1))
    assert waits(planned(snapshot, RULES, Memory(node_changes=rows)), row)


def test_a_component_waits_for_nodes_that_are_lost_and_come_back_only_once() -> None:
    """Where a constraint honours taints, one that is lost every minute would else delay a repair without end."""
    snapshot = honouring(cluster(on={"a-1": 3, "b-1": 3}))
    snapshot = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != "c-2"))
    row = changed(snapshot, "c-1", NodeEvent.UNCORDONED)
    memory = Memory(node_changes=(row,))
    (group,) = planned(snapshot, RULES, memory).components
    token = make_token(group.name)
    held = planned(
        snapshot, RULES, structs.replace(memory, settling=((token, snapshot.taken_at - timedelta(seconds=290)),))
    )
    assert held.components[0].first == CountsInMotion(row, SETTLE, snapshot.taken_at + timedelta(seconds=10))
    over = structs.replace(memory, settling=((token, snapshot.taken_at - SETTLE),))
    assert not waits(planned(snapshot, RULES, over), row)
    for change, stored in ((row, 1), (relabelled(snapshot, "a-1", "c"), 0)):
        made = evaluate(snapshot, RULES, memory=Memory(node_changes=(change,)))
        assert isinstance(made.plan.components[0].refusal, Refusal)
        assert isinstance(made.plan.components[0].refusal, CountsInMotion)
        later = update_memory(NO_MEMORY, made.assessment, made.plan, snapshot.taken_at)
        assert len(later.settling) == stored


def test_the_last_change_of_a_node_with_pods_of_the_component_is_named() -> None:
    snapshot = labelled(cluster(), "c-1", "a")
    row = relabelled(snapshot, "c-1", "c", seconds=30)
    rows = (row, relabelled(snapshot, "b-2", "a", seconds=10, key="rack"))
    assert waits(planned(snapshot, RULES, Memory(node_changes=rows)), row)
