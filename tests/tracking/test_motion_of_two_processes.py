"""A new leader unites what it has seen of a domain in motion with what the last one has saved."""

from datetime import timedelta

from msgspec import structs

from rebalancer.model.motion import DomainMotion, NodeEvent
from rebalancer.model.moves import Memory
from rebalancer.tracking.motion import merge_motion
from tests.scheduling.build import NOW

CORDONED = (NodeEvent.CORDONED,)


def motion(begin: float, end: float, *names: str, by: str = "") -> DomainMotion:
    first, last = (NOW + timedelta(seconds=seconds) for seconds in (begin, end))
    return DomainMotion(
        key="zone",
        value="c",
        since=first,
        until=last,
        moved=last,
        lasting=True,
        had=6,
        lost=len(names),
        nodes=names,
        events=CORDONED,
        by=(by,) if by else (),
    )


def merged(saved: DomainMotion, own: DomainMotion) -> DomainMotion:
    (united,) = merge_motion(Memory(domains_in_motion=(saved,)), Memory(domains_in_motion=(own,))).domains_in_motion
    return united


def test_nodes_that_only_one_of_them_has_seen_go_count() -> None:
    """The follower had started after the first cordon, and saw the last one a moment later than the leader."""
    saved, own = motion(0, 20, "c-0", "c-1", "c-2", by="kubectl"), motion(10, 20.7, "c-1", "c-2", "c-3")
    assert merged(saved, own) == motion(0, 20.7, "c-0", "c-1", "c-2", "c-3", by="kubectl")


def test_a_motion_that_was_over_does_not_shorten_the_next_one() -> None:
    """Its hour would be over too soon; the older one is of a process that has seen nothing since."""
    later = motion(7200, 7210, "c-4", "c-5")
    assert merged(later, motion(0, 20, "c-0", "c-1")) == later
    assert merged(motion(0, 20, "c-0", "c-1"), later) == later


def test_a_motion_that_lasts_is_not_over_however_long_ago_its_last_node_was_lost() -> None:
    """The follower has seen two further nodes go, and come back; those that the leader saw are still away."""
    saved, own = motion(0, 20, "c-0", "c-1", "c-2"), structs.replace(motion(1200, 1210, "c-4", "c-5"), lasting=False)
    assert merged(saved, own) == merged(own, saved) == motion(0, 1210, "c-0", "c-1", "c-2", "c-4", "c-5")
