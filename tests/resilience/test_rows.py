"""What is said of each workload when a domain is lost: numbers, verdict and reason."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.snapshot import Snapshot
from rebalancer.resilience.rows import LostDomain, Remaining, find_resilience
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.build import with_node


def even(skew: int, *, cpu: int = 100) -> Snapshot:
    """Return twelve pods, four in each of three zones of two nodes."""
    builder = ClusterBuilder()
    builder.zones("abc", 2)
    on = {f"{zone}-{number}": 2 for zone in "abc" for number in (1, 2)}
    builder.deployment("web", on=on, spread={ZONE: skew}, cpu=cpu)
    return builder.snapshot()


def losses(snapshot: Snapshot, key: str = ZONE) -> Sequence[LostDomain]:
    return list(find_resilience(View(snapshot), [key], Phase, lambda _: True))


def left(snapshot: Snapshot, value: str, phase: Phase, name: str = "web") -> Remaining:
    """Return what is left of a workload when a zone is lost."""
    (loss,) = [one for one in losses(snapshot) if (one.value, one.phase) == (value, phase)]
    (row,) = [row for row in loss.rows if row.workload.name == name]
    return row


def said(row: Remaining) -> tuple[int, int, int, str, str]:
    return row.now, row.guaranteed, row.possible, row.verdict, str(row.reason or "")


def test_a_silent_zone_closes_the_others_and_a_deleted_one_does_not() -> None:
    """The example of `bounds`: its pods count until they are deleted, the empty zone after that."""
    snapshot = even(1)
    reason = "maxSkew 1 over zone: a 4, b 4, the lost c 0 (with nodeTaintsPolicy: Honor it does not count)"
    assert said(left(snapshot, "c", Phase.SILENT)) == (8, 8, 8, "no", reason)
    assert said(left(snapshot, "c", Phase.GONE)) == (8, 12, 12, "yes", "")


def test_where_one_pod_may_come_back_the_order_does_not_make_it_whole() -> None:
    """With maxSkew 2 one is placed after the first eviction, or none if all are deleted before."""
    row = left(even(2), "c", Phase.SILENT)
    assert said(row)[:4] == (8, 8, 9, "no")


def test_the_pods_of_a_statefulset_come_back_once_their_nodes_are_deleted() -> None:
    """Silent, they are terminating, and that is said."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.stateful_set("db", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1})
    now, certain, best, verdict, reason = said(left(builder.snapshot(), "b", Phase.SILENT, "db"))
    assert (now, certain, best, verdict) == (2, 2, 2, "no")
    assert reason.startswith("a StatefulSet does not replace pods that are terminating: its 1 lost pod stays so until")
    assert said(left(builder.snapshot(), "b", Phase.GONE, "db")) == (2, 3, 3, "yes", "")


def test_two_services_that_compete_for_one_place_are_told_apart_from_one_that_has_none() -> None:
    """One place for two lost pods of two services: either has it. A third asks for more than any node has."""
    builder = ClusterBuilder()
    builder.node("a-1", cpu=6_000, memory=2**36, zone="a")
    builder.node("b-1", cpu=1_000, memory=2**36, zone="b")
    builder.deployment("one", on={"a-1": 1}, cpu=1_000)
    builder.deployment("two", on={"a-1": 1}, cpu=1_000)
    builder.deployment("wide", on={"a-1": 1}, cpu=3_000)
    snapshot = builder.snapshot()
    verdicts = {name: said(left(snapshot, "a", Phase.GONE, name))[1:4] for name in ("one", "two", "wide")}
    assert verdicts == {"one": (0, 1, "order"), "two": (0, 1, "order"), "wide": (0, 0, "no")}
    assert "not enough cpu" in str(left(snapshot, "a", Phase.GONE, "wide").reason)
    order = {str(left(snapshot, "a", Phase.GONE, name).reason) for name in ("one", "two")}
    assert any(text.startswith("the outcome depends on the order of the pending pods") for text in order)


def test_only_workloads_that_a_loss_touches_have_a_row() -> None:
    """A node without pods takes nobody's; one with pods has those of its workloads."""
    builder = ClusterBuilder()
    builder.zones("ab", 2)
    builder.deployment("web", on={"a-1": 1})
    builder.deployment("api", on={"b-1": 1})
    found = {(one.value, row.workload.name) for one in losses(builder.snapshot(), HOSTNAME) for row in one.rows}
    assert found == {("a-1", "web"), ("b-1", "api")}


def test_the_room_of_pods_that_are_ending_is_there_in_the_end() -> None:
    """A node is full of a terminating pod: it is not, once nothing moves any more."""
    builder = ClusterBuilder()
    builder.node("a-1", cpu=1_000, memory=2**36, zone="a")
    builder.node("b-1", cpu=1_000, memory=2**36, zone="b")
    builder.deployment("web", on={"a-1": 1}, cpu=1_000)
    builder.deployment("old", on={"b-1": 1}, cpu=1_000, replicas=0)
    snapshot = builder.snapshot()
    pods = tuple(structs.replace(pod, deleted=snapshot.taken_at) if pod.node == "b-1" else pod for pod in snapshot.pods)
    assert said(left(snapshot, "a", Phase.GONE))[:4] == (0, 0, 0, "no")
    assert said(left(replace(snapshot, pods=pods), "a", Phase.GONE))[:4] == (0, 1, 1, "yes")


def test_pods_on_other_nodes_that_are_not_ready_are_not_counted_on() -> None:
    """They run, or are replaced, or neither."""
    snapshot = even(2)
    nodes = tuple(structs.replace(node, ready=node.name != "a-1") for node in snapshot.nodes)
    _, certain, best, verdict, reason = said(left(replace(snapshot, nodes=nodes), "c", Phase.GONE))
    assert (certain, best, verdict) == (6, 12, "order")
    assert reason == "2 pods are on other nodes that are not Ready, and the outcome depends on whether those come back"


def test_of_too_many_pods_no_order_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are bounds all the same; why is not said."""
    monkeypatch.setattr("rebalancer.resilience.reason._MOST_PLAYED", 3)
    row = left(even(1), "c", Phase.SILENT)
    assert said(row)[:4] == (8, 8, 8, "no")
    assert str(row.reason) == "more than 3 pods wait for a node: too many to find out why no node takes them"


def test_of_many_domains_those_with_most_pods_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of their names."""
    monkeypatch.setattr("rebalancer.resilience.rows.MOST_DOMAINS", 2)
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.deployment("web", on={"c-1": 2, "b-1": 1, "a-1": 3})
    assert [one.value for one in losses(builder.snapshot()) if one.phase is Phase.GONE] == ["a", "c"]


def test_pods_of_a_node_object_that_is_gone_are_not_left_anywhere() -> None:
    """For some moments they are there, until the garbage collector has found them; then they are replaced."""
    snapshot = even(1)
    snapshot = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != "b-1"))
    row = left(snapshot, "c", Phase.GONE)
    assert (row.now, row.wanted, row.guaranteed) == (6, 12, 12)


def test_pods_of_a_node_that_is_not_ready_are_not_left_at_once() -> None:
    """Whatever their own condition still says."""
    snapshot = with_node(even(1), "b-1", ready=False)
    row = left(snapshot, "c", Phase.GONE)
    assert (row.now, row.wanted) == (6, 12)
    assert (
        str(row.reason)
        == "2 pods are on other nodes that are not Ready, and the outcome depends on whether those come back"
    )
