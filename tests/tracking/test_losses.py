"""Zones that lose nodes: which nodes count, what they held, and when a loss is over."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.documents.memory import memory_text, parse_memory
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.labels import Labels
from rebalancer.model.losses import DomainLoss
from rebalancer.model.moves import Memory
from rebalancer.model.nodes import BEING_REMOVED
from rebalancer.model.pods import OwnerReference
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy
from rebalancer.simulator import ZONE
from rebalancer.tracking import losses as tracking
from rebalancer.tracking.losses import MOST_DOMAINS, MOST_NODES, MOST_OTHERS, observe_losses
from rebalancer.tracking.zones import ZONE_LIFETIME
from tests.build import a_cluster, a_policy, with_nodes

WHOLE = a_cluster("abc", 3, {f"{zone}-{number}": 2 for zone in "abc" for number in (1, 2, 3)}).snapshot()
NOW = WHOLE.taken_at
MINUTE = timedelta(minutes=1)
POLICY = default_policy()
C = ("c-1", "c-2", "c-3")


def without(snapshot: Snapshot, *names: str) -> Snapshot:
    return replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name not in names))


def away(snapshot: Snapshot, *names: str, **fields: Any) -> Snapshot:
    return with_nodes(snapshot, dict.fromkeys(names, fields or {"ready": False}))


def losses(*looks: Snapshot, known: Iterable[DomainLoss] = ()) -> tuple[DomainLoss, ...]:
    """Return what is lost after looks that are a minute apart."""
    found, before = tuple(known), None
    for minute, look in enumerate(looks):
        found = observe_losses(found, before, look, POLICY, NOW + minute * MINUTE)
        before = look
    return found


def brief(found: Iterable[DomainLoss]) -> list[tuple[str, int, int, int]]:
    return [(loss.value, loss.number, loss.had, loss.pods) for loss in found]


RELABELLED = away(WHOLE, *C, labels=Labels({ZONE: "d"}))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (without(WHOLE, *C), [("c", 3, 3, 6)]),
        (without(WHOLE, "c-2"), [("c", 1, 3, 2)]),
        (away(WHOLE, "a-1", "b-1"), [("a", 1, 3, 2), ("b", 1, 3, 2)]),
        (RELABELLED, [("c", 3, 3, 6)]),
        (away(WHOLE, *C, unschedulable=True), []),
        (away(WHOLE, *C, unschedulable=True, ready=False), []),
    ],
    ids=["deleted", "one", "not ready", "relabelled", "cordoned", "cordoned and down"],
)
def test_what_is_lost(after: Snapshot, expected: list[tuple[str, int, int, int]]) -> None:
    """Deleted, not Ready or in another zone; what is cordoned is drained."""
    assert brief(losses(WHOLE, after)) == expected


def test_a_drain_is_no_loss() -> None:
    """Of nodes that were cordoned, or marked by an autoscaler, before they went."""
    marked = away(WHOLE, *C, taints=(Taint(min(BEING_REMOVED), TaintEffect.NO_SCHEDULE),))
    for before in (away(WHOLE, *C, unschedulable=True), marked):
        assert losses(WHOLE, before, without(before, *C)) == ()


def test_a_zone_that_dies_node_by_node() -> None:
    """What each node held when it was lost, and of how many nodes; also when the silent nodes are deleted later."""
    empty = replace(WHOLE, pods=tuple(pod for pod in WHOLE.pods if pod.node not in C))
    looks = (WHOLE, away(WHOLE, "c-1"), away(WHOLE, "c-1", "c-2"), away(empty, *C), without(empty, *C))
    found = losses(*looks)
    assert brief(found) == [("c", 3, 3, 6)]
    assert [node.at for node in found[0].nodes] == [NOW + minute * MINUTE for minute in (1, 2, 3)]
    assert (found[0].since, found[0].until) == (NOW + MINUTE, NOW + 3 * MINUTE)


def test_the_end_of_a_loss() -> None:
    """The nodes are back, by name; or as many new ones are there; or nobody has seen them for long."""
    gone = without(WHOLE, *C)
    assert losses(WHOLE, gone, WHOLE) == ()
    assert brief(losses(WHOLE, gone, without(WHOLE, "c-3"))) == [("c", 1, 3, 2)]
    renamed = tuple(structs.replace(node, name=f"new-{node.name}") for node in WHOLE.nodes if node.name in C)
    assert losses(WHOLE, gone, replace(gone, nodes=(*gone.nodes, *renamed))) == ()
    lost = losses(WHOLE, gone)
    last = NOW + MINUTE + POLICY.topology.remember
    assert observe_losses(lost, gone, gone, POLICY, last - MINUTE / 2) == lost
    assert observe_losses(lost, gone, gone, POLICY, last) == ()
    assert observe_losses(lost, None, gone, POLICY, NOW + 2 * MINUTE) == lost, "for a new leader, too"
    fewer = without(WHOLE, "c-1")
    lost = losses(WHOLE, fewer)
    assert observe_losses(lost, fewer, fewer, POLICY, NOW + MINUTE + ZONE_LIFETIME) == ()
    silent = away(WHOLE, *C)
    lost = losses(WHOLE, silent)
    assert observe_losses(lost, silent, silent, POLICY, last + 5 * MINUTE) == lost, "they are not Ready still"


def test_a_zone_that_the_policy_ignores_is_not_lost() -> None:
    """It was removed on purpose, as somebody says before it goes, or later; what has nodes is not ignored."""
    policy = a_policy(f"topology: {{ignore: {{{ZONE}: [c]}}}}")
    gone = without(WHOLE, *C)
    lost = losses(WHOLE, gone)
    assert brief(lost) == [("c", 3, 3, 6)]
    assert observe_losses(lost, gone, gone, policy, NOW + 2 * MINUTE) == ()
    assert observe_losses((), WHOLE, gone, policy, NOW + MINUTE) == ()
    assert brief(observe_losses((), WHOLE, without(WHOLE, "c-1"), policy, NOW + MINUTE)) == [("c", 1, 3, 2)]


def test_pods_that_belong_to_the_node_do_not_count() -> None:
    """Nobody creates those of DaemonSets, or of the kubelet, anew elsewhere."""
    owner = OwnerReference(group="apps", kind="DaemonSet", name="agent", uid="agent")
    pods = tuple(
        structs.replace(pod, owner=owner) if pod.node == "c-1" else structs.replace(pod, mirror=pod.node == "c-2")
        for pod in WHOLE.pods
    )
    before = replace(WHOLE, pods=pods)
    assert brief(losses(before, without(before, *C))) == [("c", 3, 3, 2)]


def test_what_is_stored_is_bounded() -> None:
    """Whatever is lost; of the others the number is known."""
    zones = "abcdefghijklmnopqrst"[: MOST_DOMAINS + 5]
    many = a_cluster(zones, MOST_NODES + 2).snapshot()
    found = losses(many, replace(many, nodes=()))
    assert len(found) == MOST_DOMAINS
    assert {(len(loss.nodes), loss.number) for loss in found} == {(MOST_NODES, MOST_NODES + 2)}
    assert parse_memory(memory_text(Memory(lost=found))).lost == found
    large = a_cluster("ab", MOST_NODES + MOST_OTHERS + 7).snapshot()
    found = losses(large, without(large, *(node.name for node in large.nodes if node.labels[ZONE] == "a")))
    assert [(len(loss.nodes), len(loss.others), loss.more) for loss in found] == [(MOST_NODES, MOST_OTHERS, 7)]
    assert parse_memory(memory_text(Memory(lost=found))).lost == found


LARGE = a_cluster("ab", 40, {f"a-{number}": 2 for number in range(1, 41)}).snapshot()
NAMES = sorted(node.name for node in LARGE.nodes if node.labels[ZONE] == "a")


def test_unnamed_nodes_come_back() -> None:
    """Those beyond the first twenty, however often they go and come; the loss lasts as long as one of them is away."""
    first = without(LARGE, *NAMES[:25])
    flapping = NAMES[20:25]
    looks = [LARGE, *[first, without(LARGE, *NAMES[:20])] * 4]
    assert brief(losses(*looks)) == [("a", 20, 40, 40)]
    assert brief(losses(*looks, first)) == [("a", 25, 40, 50)]
    silent = away(without(LARGE, *NAMES[:20]), *flapping)
    assert brief(losses(*looks, first, silent)) == [("a", 25, 40, 50)], "they exist, and are not Ready"
    assert brief(losses(*looks, first, without(LARGE, *flapping))) == [("a", 5, 40, 10)]
    assert losses(*looks, first, LARGE) == ()


@pytest.fixture
def few_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes are stored by name and three by a short name."""
    monkeypatch.setattr(tracking, "MOST_NODES", 2)
    monkeypatch.setattr(tracking, "MOST_OTHERS", 3)


@pytest.mark.usefixtures("few_told")
def test_nodes_that_cannot_be_told_are_counted_by_what_the_zone_lacks() -> None:
    """No more are lost than it lacks, however often they go and come; those that are not Ready stay."""
    ten, five = without(LARGE, *NAMES[:10]), without(LARGE, *NAMES[:5])
    looks = [LARGE, *[ten, five] * 3]
    assert brief(losses(*looks)) == [("a", 5, 40, 10)]
    assert brief(losses(*looks, ten)) == [("a", 10, 40, 20)]
    eight = without(LARGE, *NAMES[:8])
    assert brief(losses(*looks, ten, eight)) == [("a", 8, 40, 16)]
    rest = without(LARGE, *NAMES[5:10])
    assert brief(losses(*looks, ten, rest)) == [("a", 5, 40, 10)], "all that can be told are back"
    assert losses(LARGE, ten, rest)[0].since == NOW + MINUTE
    dead = away(LARGE, *NAMES[:10])
    lost = losses(LARGE, dead)
    later = NOW + MINUTE + ZONE_LIFETIME
    assert brief(observe_losses(lost, dead, dead, POLICY, later)) == [("a", 10, 40, 20)]
    assert observe_losses(losses(LARGE, ten), ten, ten, POLICY, later) == ()


@pytest.mark.usefixtures("few_told")
def test_a_count_without_a_time_is_as_old_as_the_named_nodes() -> None:
    """So earlier releases have stored it."""
    ten = without(LARGE, *NAMES[:10])
    stored = [structs.replace(loss, more=loss.more + 3, others=(), more_at=None) for loss in losses(LARGE, ten)]
    (found,) = losses(ten, known=stored)
    assert (found.number, found.more_at) == (10, found.nodes[0].at)


def test_an_empty_node_goes_unnoticed_while_its_zone_lives() -> None:
    """An autoscaler deletes it; where the whole zone goes, it was a part of that."""
    empty = replace(WHOLE, pods=tuple(pod for pod in WHOLE.pods if pod.node != "c-1"))
    assert losses(empty, without(empty, "c-1")) == ()
    assert brief(losses(empty, without(empty, *C))) == [("c", 3, 3, 4)]


@given(st.lists(st.sets(st.sampled_from([node.name for node in WHOLE.nodes])), min_size=1, max_size=5))
def test_nobody_is_lost_who_is_there(gone: list[set[str]]) -> None:
    """However nodes go and come: what is lost is away, and a zone that lacks a node has a loss."""
    looks = [WHOLE, *(without(WHOLE, *names) for names in gone)]
    found = losses(*looks)
    lost = {node.name for loss in found for node in loss.nodes}
    assert lost == gone[-1]
    assert all(loss.had == 3 for loss in found)
