"""Placeholders in the loop: their requests where the memory is not saved, and where the process ends."""

from datetime import timedelta

from msgspec import structs

from rebalancer.controller.capacity import CapacityReading
from rebalancer.controller.state import (
    CapacityQueue,
    CreatePlaceholders,
    CycleDue,
    DeletePlaceholders,
    Save,
    Saved,
    Stopping,
)
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.moves import CapacityRequest, DomainName, Memory, Reference
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import NOTHING
from rebalancer.policy import Capacity, CapacityMode
from rebalancer.simulator import ZONE
from tests.controller.test_loop import EVICTING, NOW, SNAPSHOT, after, led

CAPACITY = Capacity(mode=CapacityMode.REQUEST)

PLACEHOLDER = Placeholder(name="web-1", token="web", requests=NOTHING, node_affinity=NodeAffinity())
REQUEST = CapacityRequest(
    token="web",
    workloads=(Reference("default", "Deployment", "web"),),
    domains=(DomainName(ZONE, "c"),),
    placeholders=("web-1",),
    since=NOW,
)


def test_a_leader_that_ends_releases_its_placeholders_and_stores_that() -> None:
    state = led(memory=Memory(capacity=(REQUEST,)), capacity=CapacityQueue(to_create=(PLACEHOLDER,)))
    ended, requests = after(state, Stopping())
    assert requests == (DeletePlaceholders(names=("web-1",)), Save())
    assert ended.memory.capacity == ()
    assert ended.capacity.to_create == ()


def test_nothing_is_created_for_a_request_that_is_not_saved() -> None:
    """The request is forgotten, so that a later cycle makes it again; once it is saved, its Job is created."""
    state = led(memory=Memory(capacity=(REQUEST,)), capacity=CapacityQueue(to_create=(PLACEHOLDER,)))
    unsaved, requests = after(state, Saved(problem="HTTP 500"))
    assert requests == ()
    assert unsaved.memory.capacity == ()
    saved, requests = after(state, Saved())
    assert requests == (CreatePlaceholders(placeholders=(PLACEHOLDER,), term=state.leadership.term),)
    assert saved.memory.capacity == (REQUEST,)


def test_placeholders_that_cannot_be_read_stop_no_cycle() -> None:
    """Also when a request has waited for too long, of which nobody can say why."""
    late = CAPACITY.timeout + timedelta(seconds=1)
    request = structs.replace(REQUEST, since=NOW - late)
    policy = EVICTING.model_copy(update={"capacity": CAPACITY})
    state = led(memory=Memory(capacity=(request,)), policy=policy)
    unread = CapacityReading(problem="no right to list Jobs")
    state, _ = after(state, CycleDue(snapshot=SNAPSHOT, capacity=unread))
    assert state.cycle is not None
    assert state.cycle.capacity is not None
