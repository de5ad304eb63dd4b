"""The change that is named makes a workload whole, none cheaper of its kind does, and nobody has less by it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import OwnerReference
from rebalancer.model.snapshot import Snapshot
from rebalancer.resilience.changed import Change, MoreNodes
from rebalancer.resilience.changes import find_all_changes
from rebalancer.resilience.loss import lose
from rebalancer.resilience.rows import find_resilience
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.build import with_node
from tests.drawing import examples
from tests.resilience.changing import BOTH, carry_out, cheaper, find, holds, over
from tests.resilience.drawn import draw_loss
from tests.resilience.played import Play
from tests.resilience.test_rows import even

_MOST_STATES: Final = 1_500


def changes_of(
    snapshot: Snapshot, phases: Sequence[Phase] = BOTH, name: str = "web", key: str = ZONE
) -> Sequence[Change]:
    (found,) = find(snapshot, phases, name, key)
    assert found.complete
    return found.changes


def check(snapshot: Snapshot, phases: Sequence[Phase]) -> Collection[str]:
    """Check all changes of a cluster; return their kinds."""
    kinds = set()
    for found in find(snapshot, phases):
        for change in found.changes:
            changed = carry_out(snapshot, found.workload, change)
            assert holds(snapshot, changed, found.workload, phases), f"{found.workload}: {change}"
            for less in cheaper(snapshot, found.workload, change):
                with_less = carry_out(snapshot, found.workload, less)
                assert not holds(snapshot, with_less, found.workload, phases), f"{found.workload}: {less} for {change}"
            check_played(changed, found.workload, phases)
            kinds.add(
                " ".join(sorted({*[str(one.honor) for one in change.constraints], *["nodes"] * bool(change.nodes)}))
            )
    return kinds


def check_played(snapshot: Snapshot, workload: Reference, phases: Sequence[Phase]) -> None:
    """Play every loss of a zone: the workload is whole in the end, in whatever order and on whichever nodes."""
    view = View(snapshot)
    for nodes in view.nodes.groups(ZONE).values():
        for phase in phases:
            loss = lose(view, nodes, phase)
            ends, _ = Play(loss).ends(_MOST_STATES)
            for number, service in enumerate(loss.services):
                if service.workload == workload:
                    assert min(end[number] for end in ends) >= service.wanted, f"{workload}: {phase} {sorted(nodes)}"


@given(st.integers(0, 10**6), st.sampled_from([BOTH, (Phase.GONE,)]))
@examples(10)
def test_a_named_change_makes_whole_in_every_order_and_none_cheaper_does(seed: int, phases: Sequence[Phase]) -> None:
    """Of drawn clusters; the change is carried out on the model, and every order of each loss is played."""
    check(draw_loss(seed).before.snapshot, phases)


@pytest.mark.thorough
def test_changes_of_a_hundred_and_fifty_clusters() -> None:
    """The same; all kinds are among them."""
    kinds = {kind for seed in range(150) for phases in (BOTH, (Phase.GONE,)) for kind in check_of(seed, phases)}
    assert {"True", "False", "nodes"} <= kinds


def check_of(seed: int, phases: Sequence[Phase]) -> Collection[str]:
    return check(draw_loss(seed).before.snapshot, phases)


def test_a_silent_zone_is_no_domain_with_honor_or_bears_a_larger_max_skew() -> None:
    """12 pods, 4 in each zone: 6 and 6 beside the lost zone's 0. Nodes change nothing."""
    assert changes_of(even(1)) == (
        Change(constraints=(over(ZONE),)),
        Change(constraints=(over(ZONE, skew=6),)),
    )


def test_nodes_are_added_where_the_fewest_do() -> None:
    """Zone a loses two pods of the size of a node, and b has one such node; a itself has one for the pod of b."""
    builder = ClusterBuilder()
    for node in ("a-1", "a-2", "a-3", "b-1", "b-2"):
        builder.node(node, cpu=1_000, memory=2**36, zone=node[0])
    builder.deployment("web", on={"a-1": 1, "a-2": 1, "b-1": 1}, cpu=1_000)
    assert changes_of(builder.snapshot(), [Phase.GONE]) == (Change(nodes=(MoreNodes(number=1, like="b-1"),)),)


def test_nodes_are_added_in_each_domain_where_those_of_one_are_lost_with_it() -> None:
    """Two full zones: whichever is lost, the other takes one pod more."""
    builder = ClusterBuilder()
    for node in ("a-1", "b-1"):
        builder.node(node, cpu=1_000, memory=2**36, zone=node[0])
    builder.deployment("web", on={"a-1": 1, "b-1": 1}, cpu=1_000)
    nodes = tuple(MoreNodes(number=1, like=like) for like in ("a-1", "b-1"))
    assert changes_of(builder.snapshot()) == (Change(nodes=nodes),)


def test_a_further_node_keeps_a_domain_whose_only_node_is_lost() -> None:
    """The only node of a zone is silent: the zone holds no pod and closes the others, unless it has another node."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.deployment("web", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1})
    changes = changes_of(builder.snapshot(), [Phase.SILENT], key=HOSTNAME)
    assert Change(nodes=tuple(MoreNodes(number=1, like=f"{zone}-1") for zone in "abc")) in changes


def test_of_two_constraints_the_least_sum_is_named() -> None:
    """The lost zone counts for the one over zones, its node for the one over nodes."""
    builder = ClusterBuilder()
    builder.zones("ab", 1)
    builder.deployment("web", on={"a-1": 1, "b-1": 1}, spread={ZONE: 1, HOSTNAME: 1})
    assert changes_of(builder.snapshot(), [Phase.SILENT])[1] == Change(
        constraints=(over(ZONE, skew=2), over(HOSTNAME, 1, skew=2))
    )


def test_the_pods_of_daemonsets_are_on_the_nodes_that_are_added() -> None:
    """Half of each is an agent's: for two pods more it takes two nodes."""
    builder = ClusterBuilder()
    builder.node("a-1", cpu=1_500, memory=2**36, zone="a")
    builder.node("b-1", cpu=1_000, memory=2**36, zone="b")
    builder.deployment("web", on={"a-1": 3}, cpu=500)
    builder.deployment("agent", on={"b-1": 1}, cpu=500, replicas=0)
    snapshot = builder.snapshot()
    agents = OwnerReference(group="apps", kind="DaemonSet", name="agent", uid="agent")
    pods = tuple(structs.replace(pod, owner=agents) if pod.node == "b-1" else pod for pod in snapshot.pods)
    owned = replace(snapshot, pods=pods, workloads=tuple(one for one in snapshot.workloads if "agent" not in one.name))
    assert changes_of(owned, [Phase.GONE]) == (Change(nodes=(MoreNodes(number=2, like="b-1"),)),)


def test_two_kinds_are_named_together_only_where_none_holds_alone() -> None:
    """Silent, the lost zone closes the others; and these have no room either."""
    builder = ClusterBuilder()
    for node in ("a-1", "b-1", "c-1"):
        builder.node(node, cpu=2_000 if node == "a-1" else 1_000, memory=2**36, zone=node[0])
    builder.deployment("web", on={"b-1": 1, "c-1": 1, "a-1": 1}, cpu=1_000, spread={ZONE: 1})
    builder.node("a-0", cpu=100, memory=2**36, zone="a")
    changes = changes_of(builder.snapshot())
    assert all(change.constraints and change.nodes for change in changes)
    assert {change.constraints for change in changes} == {(over(ZONE),), (over(ZONE, skew=2),)}


def test_nothing_is_named_that_takes_from_others() -> None:
    """With Honor `web` is whole, on the place that was certain for `api`, or on one that is too small for `api`."""
    builder = ClusterBuilder()
    for node, cpu in {"a-1": 2_000, "b-1": 1_500, "b-2": 500}.items():
        builder.node(node, cpu=cpu, memory=2**36, zone=node[0])
    builder.deployment("web", on={"a-1": 1, "b-1": 1}, cpu=500, spread={ZONE: 1})
    builder.deployment("api", on={"a-1": 1}, cpu=1_000)
    changes = changes_of(builder.snapshot(), [Phase.SILENT])
    assert changes
    assert all(change.nodes for change in changes)


@pytest.mark.parametrize("cordoned", [False, True])
def test_nodes_that_are_not_there_for_pods_are_no_example(cordoned: bool) -> None:
    """Neither cordoned ones nor those that are not Ready."""
    builder = ClusterBuilder()
    for node, cpu in {"a-1": 3_000, "b-0": 1_000, "b-1": 1_000}.items():
        builder.node(node, cpu=cpu, memory=2**36, zone=node[0])
    builder.deployment("web", on={"a-1": 3}, cpu=1_000)
    fields = {"unschedulable": True} if cordoned else {"ready": False}
    snapshot = with_node(builder.snapshot(), "b-0", **fields)
    assert {more.like for change in changes_of(snapshot, [Phase.GONE]) for more in change.nodes} == {"b-1"}


def test_what_no_change_mends_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A StatefulSet's pods on silent nodes are not replaced."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.stateful_set("db", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1})
    monkeypatch.setattr("rebalancer.resilience.changes._WORK", 1)
    assert changes_of(builder.snapshot(), name="db") == ()


def test_a_search_that_ends_before_all_was_tried_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found until then is named."""
    monkeypatch.setattr("rebalancer.resilience.changes._WORK", 30)
    (found,) = find(even(1), name="web")
    assert not found.complete
    assert found.changes == (Change(constraints=(over(ZONE),)),)


def test_of_many_workloads_changes_of_the_worst_are_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And in a large cluster of none, unless it is named."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.deployment("web", on={"a-1": 2, "b-1": 2, "c-1": 2}, spread={ZONE: 1})
    builder.deployment("worse", on={"a-1": 1}, cpu=15_800)
    view = View(builder.snapshot())
    losses = [*find_resilience(view, [ZONE], BOTH, lambda _: True)]
    monkeypatch.setattr("rebalancer.resilience.changes._MOST_WORKLOADS", 1)
    found, left = find_all_changes(view, [ZONE], BOTH, losses, named=False)
    assert ([one.workload.name for one in found], left) == (["worse"], 1)
    monkeypatch.setattr("rebalancer.resilience.changes._LARGEST", 1)
    assert find_all_changes(view, [ZONE], BOTH, losses, named=False) == ([], 2)


def test_without_a_name_a_search_that_ends_too_early_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workload is counted among those of which no change was found; what was found of it is shown."""
    view = View(even(1))
    losses = [*find_resilience(view, [ZONE], BOTH, lambda _: True)]
    monkeypatch.setattr("rebalancer.resilience.changes._WORK_OF_ALL", 5)
    assert find_all_changes(view, [ZONE], BOTH, losses, named=False) == ([], 1)
    monkeypatch.setattr("rebalancer.resilience.changes._WORK_OF_ALL", 30)
    (found,), left = find_all_changes(view, [ZONE], BOTH, losses, named=False)
    assert (len(found.changes), found.complete, left) == (1, False, 0)
