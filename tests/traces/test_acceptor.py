"""The acceptor allows what a cluster does, and names the first change that none could make."""

from collections.abc import Sequence

import pytest

from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ClusterBuilder
from tests.traces.acceptor import RejectedError, accept
from tests.traces.changes import Change, Trace, What


def cluster() -> Snapshot:
    """Return five pods on two of three nodes, of which one may be unavailable; c is full."""
    blueprint = ClusterBuilder()
    blueprint.node("a", zone="a")
    blueprint.node("b", zone="b")
    blueprint.node("c", zone="c", cpu=50)
    blueprint.deployment("web", on={"a": 2, "b": 3})
    blueprint.budget("web", max_unavailable=1)
    return blueprint.snapshot()


BEFORE = cluster()
FIRST, SECOND = BEFORE.pods[0], BEFORE.pods[4]
OWNER = FIRST.owner.uid if FIRST.owner is not None else ""

EVICTED = Change(What.TERMINATING, FIRST.uid)
NEW = Change(What.CREATED, "new", "web-new", OWNER)
PLACED = Change(What.BOUND, "new", "a")
STARTED = Change(What.READY, "new")
STOPPED = Change(What.GONE, FIRST.uid)
OTHER = Change(What.TERMINATING, SECOND.uid)


def follow(changes: Sequence[Change]) -> None:
    accept(Trace(BEFORE, frozenset({FIRST.uid, SECOND.uid}), frozenset(), tuple(changes)))


@pytest.mark.parametrize(
    "changes",
    [
        [EVICTED, NEW, PLACED, STARTED, STOPPED],
        [EVICTED, STOPPED, NEW, PLACED, STARTED],
        [EVICTED, NEW, STOPPED, PLACED, STARTED, OTHER, NEW._replace(uid="n2"), Change(What.BOUND, "n2", "b")],
    ],
)
def test_what_a_cluster_does_is_allowed(changes: Sequence[Change]) -> None:
    """In every order that delays can bring about."""
    follow(changes)


@pytest.mark.parametrize(
    ("changes", "index"),
    [
        ([NEW, EVICTED, STOPPED, PLACED, STARTED], 0),
        ([EVICTED, NEW, NEW._replace(uid="n2"), PLACED], 2),
        ([EVICTED, NEW, PLACED._replace(detail="c")], 2),
        ([EVICTED, NEW, STOPPED, PLACED._replace(detail="b")], 3),
        ([EVICTED, NEW, STARTED], 2),
        ([STOPPED], 0),
        ([EVICTED, NEW, PLACED, OTHER, STARTED], 3),
        ([Change(What.TERMINATING, BEFORE.pods[1].uid)], 0),
        ([EVICTED, STOPPED], 2),
    ],
    ids=[
        "a replacement before the eviction",
        "two replacements",
        "bound to a node that is full",
        "bound to a node that is not among the best",
        "ready before it is bound",
        "gone without having been deleted",
        "more than the budget allows",
        "terminating though nobody deletes it",
        "never replaced",
    ],
)
def test_what_no_cluster_does_is_rejected(changes: Sequence[Change], index: int) -> None:
    """With the index of the first change that no action makes."""
    with pytest.raises(RejectedError, match=f"^change {index}"):
        follow(changes)
