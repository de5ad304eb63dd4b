"""Placeholders in the loop: their requests where the memory is not saved, and where the process ends."""

from rebalancer.controller.state import CapacityQueue, CreatePlaceholders, DeletePlaceholders, Save, Saved, Stopping
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.moves import CapacityRequest, DomainName, Memory, Reference
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import NOTHING
from rebalancer.simulator import ZONE
from tests.controller.test_loop import NOW, after, led

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
