"""What overdue replacements hold back: a workload, a namespace, the cluster; and when a probe may go."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from rebalancer.model.moves import Memory, Move, MoveState, OwnFailure, Reference
from rebalancer.model.pods import PodPhase, PodSpec
from rebalancer.tracking.arrivals import PROOF
from rebalancer.tracking.holds import (
    FIRST_PROBE,
    LONGEST_PROBE,
    PROBE_IN_DOUBT,
    find_held_namespaces,
    find_holds,
    find_next_probe,
    find_unreplaced,
    note_proof,
)
from tests.scheduling.build import NOW
from tests.tracking.build import move
from tests.tracking.test_moves import OLD, moved, new, seen

PULLING = "ImagePullBackOff"
DOWN = 'Internal error occurred: failed calling webhook "pods.example.com"'


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def overdue(uid: str, namespace: str, *, seconds: float = 0, name: str = "web", **fields: object) -> Move:
    """Return a move whose replacement is overdue: not created, where no field says otherwise."""
    fields = {"state": MoveState.EVICTED, "uncreated": "", **fields}
    return move(uid, at(seconds), namespace=namespace, workload=Reference(namespace, "Deployment", name), **fields)


def unstarted(uid: str, namespace: str, *, seconds: float = 0, name: str = "web") -> Move:
    return overdue(
        uid,
        namespace,
        seconds=seconds,
        name=name,
        state=MoveState.PENDING,
        uncreated=None,
        unstarted=PULLING,
        replacement="r",
    )


def replaced(uid: str, namespace: str, *, seconds: float) -> Move:
    return move(uid, at(seconds), namespace=namespace, state=MoveState.VERIFIED, arrived=True)


def held(*moves: Move) -> dict[str, str]:
    return {space: one.uid for space, one in find_held_namespaces(moves).items()}


def test_a_replacement_that_does_not_run_holds_its_workload_alone() -> None:
    """The pods of others may have another image."""
    holds = find_holds((unstarted("a", "shop"), replaced("b", "shop", seconds=1)), seen(), at(10))
    assert (dict(holds.namespaces), set(holds.workloads)) == ({}, {Reference("shop", "Deployment", "web")})


def test_one_that_cannot_be_created_or_a_second_workload_holds_the_namespace() -> None:
    """Two pods of one workload do not. What is reported is one that cannot be created, else the oldest."""
    assert held(overdue("a", "shop")) == {"shop": "a"}
    assert held(unstarted("a", "shop"), unstarted("b", "shop", seconds=1)) == {}
    two = (unstarted("b", "shop", seconds=1, name="db"), unstarted("a", "shop"))
    assert held(*two, unstarted("c", "cart", name="db")) == {"shop": "a"}
    assert held(*two, overdue("d", "shop", seconds=2, name="api")) == {"shop": "d"}


def test_a_pod_that_takes_long_to_end_holds_its_workload() -> None:
    going = structs.replace(OLD, deleted=at(1200))
    ending = moved(MoveState.EVICTED)
    assert set(find_holds((ending,), seen(going), at(60)).workloads) == {ending.workload}
    assert not find_holds((ending,), seen(going), at(59)).workloads


def test_the_cluster_holds_where_replacements_are_overdue_in_two_namespaces() -> None:
    """Whatever is wrong with them; not for one namespace, however many of its workloads."""
    assert find_unreplaced((overdue("a", "shop"), overdue("b", "shop", name="db")), None) == ()
    two = (unstarted("b", "cart", seconds=1), overdue("a", "shop", uncreated=DOWN))
    assert [one.uid for one in find_unreplaced(two, None)] == ["a", "b"]


@pytest.mark.parametrize("own", OwnFailure)
def test_a_namespaces_own_failures_do_not_hold_the_cluster(own: OwnFailure) -> None:
    """Two tenants without quota are no sign of a cluster in trouble; a webhook that is down is."""
    full = (overdue("a", "shop", own=own), overdue("b", "cart", own=own))
    assert find_unreplaced(full, None) == ()
    assert find_unreplaced((*full, overdue("c", "api", uncreated=DOWN)), None) == ()
    assert len(find_unreplaced((*full, overdue("c", "api", uncreated=DOWN), unstarted("d", "web")), None)) == 2


def test_a_replacement_that_arrived_says_that_the_cluster_replaces() -> None:
    """It was requested no earlier than they, and became Ready or has run for two minutes."""
    two = (overdue("a", "shop"), overdue("b", "cart", seconds=5))

    def unreplaced(*moves: Move, seconds: float = 10) -> int:
        memory = note_proof(Memory(moves=(*two, *moves)), at(seconds))
        return len(find_unreplaced(memory.moves, memory.replaced_at))

    assert unreplaced() == 2
    for second in (3, 5):
        assert unreplaced(replaced("c", "api", seconds=second)) == 0, "at most one is left"
    assert unreplaced(replaced("c", "api", seconds=-1)) == 2
    running = structs.replace(
        replaced("c", "api", seconds=6), state=MoveState.PENDING, arrived=True, bound_since=at(7), replacement="r"
    )
    assert unreplaced(running, seconds=6 + PROOF.total_seconds()) == 2
    assert unreplaced(running, seconds=7 + PROOF.total_seconds()) == 0


def test_a_proof_outlives_its_move() -> None:
    """Moves that have ended are forgotten, overdue ones are not; a clock that was set back forgets nothing."""
    two = (overdue("a", "shop"), overdue("b", "cart", seconds=5))
    proved = note_proof(Memory(moves=(*two, replaced("c", "api", seconds=6))), at(10))
    later = note_proof(structs.replace(proved, moves=two), at(20))
    assert later.replaced_at == at(6)
    back = note_proof(structs.replace(later, moves=()), at(1))
    assert back.replaced_at == at(1)
    set_back = tuple(structs.replace(one, requested_at=at(1)) for one in two)
    assert find_unreplaced(set_back, back.replaced_at) == ()


def test_a_probe_goes_after_a_minute_and_each_that_fails_doubles_the_wait() -> None:
    """None while one is tried; one that was refused, or that its owner has overtaken, says nothing."""
    two = (overdue("a", "shop"), overdue("b", "cart"))
    since = at(10)
    assert find_next_probe(two, seen(), since, at(20)) == since + FIRST_PROBE
    probe = move("p", at(70), namespace="api", state=MoveState.EVICTED)
    assert find_next_probe((*two, probe), seen(), since, at(71)) is None
    failed = (*two, overdue("p", "api", seconds=70))
    assert find_next_probe(failed, seen(), since, at(80)) == at(70) + 2 * FIRST_PROBE
    twice = (*failed, overdue("q", "web", seconds=200))
    assert find_next_probe(twice, seen(), since, at(210)) == at(200) + 4 * FIRST_PROBE
    for state in (MoveState.REFUSED, MoveState.GONE, MoveState.OVERTAKEN):
        ended = structs.replace(probe, state=state)
        assert find_next_probe((*two, ended), seen(), since, at(80)) == since + FIRST_PROBE
    victim = structs.replace(OLD, uid="p", deleted=at(3600))
    ending = seen(victim)
    assert find_next_probe((*two, probe), ending, since, at(129)) is None
    assert find_next_probe((*two, probe), ending, since, at(130)) == at(130), "it shows nothing for an hour"
    lost = structs.replace(probe, state=MoveState.LOST)
    assert find_next_probe((*two, lost), seen(), since, at(800)) == at(70) + FIRST_PROBE
    many = (*two, *(overdue(str(number), f"s{number}", seconds=100 + number) for number in range(30)))
    assert find_next_probe(many, seen(), since, at(200)) == at(129) + LONGEST_PROBE


def test_a_probe_that_fails_by_its_namespaces_own_failure_lengthens_nobodys_wait() -> None:
    """It says nothing about others: the next one may go at once."""
    two = (overdue("a", "shop"), overdue("b", "cart"))
    since = at(10)
    own = overdue("p", "api", seconds=70, own=OwnFailure.IMAGE)
    assert find_next_probe((*two, own), seen(), since, at(80)) == since + FIRST_PROBE
    assert find_next_probe((*two, overdue("p", "api", seconds=70)), seen(), since, at(80)) == at(70) + 2 * FIRST_PROBE


def test_where_all_failures_may_be_their_namespaces_own_the_first_probe_goes_soon() -> None:
    """That is where nothing fails but images that no other namespace runs. Each that fails doubles the wait as ever."""
    known, moves = [], []
    for second, space in enumerate(("shop", "cart", "api")):
        image = f"registry.example/{space}:1"
        bad = new(space, namespace=space, ready=False, phase=PodPhase.PENDING, start_failure=PULLING)
        known.append(structs.replace(bad, failed_image=image, spec=PodSpec(images=(image,))))
        moves.append(structs.replace(unstarted(f"old-{space}", space, seconds=20 * second), replacement=space))
    since = at(10)
    assert find_next_probe(moves[:2], seen(*known), since, at(15)) == at(20) + 2 * PROBE_IN_DOUBT
    assert find_next_probe(moves[:2], seen(*known), at(25), at(30)) == at(25) + PROBE_IN_DOUBT
    assert find_next_probe(moves, seen(*known), at(25), at(50)) == at(40) + 2 * PROBE_IN_DOUBT
    other = overdue("x", "web", seconds=-1, uncreated=DOWN)
    assert find_next_probe((*moves, other), seen(*known), at(25), at(50)) == at(40) + 2 * FIRST_PROBE
    arrived = replaced("y", "web", seconds=-1)
    assert find_next_probe((*moves[:2], arrived), seen(*known), at(25), at(30)) == at(25) + PROBE_IN_DOUBT
