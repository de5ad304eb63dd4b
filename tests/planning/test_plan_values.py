"""A plan is a value: equal inputs give equal plans, and what is decided can be written."""

from datetime import datetime
from operator import ne

import msgspec
import pytest
from msgspec import structs

from rebalancer.adapters.files import read_snapshot
from rebalancer.assessment.assess import assess
from rebalancer.model.cluster import NEWEST
from rebalancer.model.moves import NO_MEMORY, Target
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Outlook, Plan, Repair, ViolatedRequirement, encode_outlook
from rebalancer.planning.planner import plan
from rebalancer.planning.scope.components import Counts
from rebalancer.policy import load_policy
from rebalancer.scheduling.view import View
from tests.planning.clusters import planned, returned
from tools.decisions.states import NOW, DrawnState, drawn_states


def read(state: DrawnState) -> Snapshot:
    return read_snapshot(state.objects, version=NEWEST, at=datetime.fromisoformat(NOW), source=state.name)[0]


def plan_anew(state: DrawnState) -> Plan:
    """Read and plan a state, without anything that another plan has."""
    view, policy = View(read(state)), load_policy(state.policy, source=state.name)
    return plan(view, assess(view, policy, NO_MEMORY), policy, NO_MEMORY)


def encoded(made: Plan) -> bytes:
    return msgspec.json.encode((made.evictions, made.waiting, made.refusals), enc_hook=encode_outlook)


def test_equal_snapshots_give_equal_plans() -> None:
    """In drawn states: the plans are equal with all their components, and are written as the same bytes."""
    kinds = set()
    for state in drawn_states(40):
        one, other = plan_anew(state), plan_anew(state)
        assert read(state) == read(state)
        assert one == other, state.name
        assert [hash(group) for group in one.groups] == [hash(group) for group in other.groups]
        limits = [[limit for group in made.groups for limit in group.limits] for made in (one, other)]
        assert [hash(limit) for limit in limits[0]] == [hash(limit) for limit in limits[1]]
        assert not any(map(ne, (*one.groups, *limits[0]), (*other.groups, *limits[1])))
        assert encoded(one) == encoded(other)
        kinds |= {bool(one.evictions), *(group.method for group in one.groups if group.limits)}
    assert len(kinds) > 2, "plans with and without evictions, also of limits"


def test_what_is_written_names_targets_and_reasons() -> None:
    """Targets, counts after the step, violated requirements and refusals are in the bytes as data."""
    made = planned(returned())
    evictions, waiting, _ = msgspec.json.decode(encoded(made))
    repair = evictions[0]["repair"]
    assert repair["outlook"]["targets"][0]["values"] == ["c"]
    assert repair["outlook"]["counts"] == {key: dict(counts) for key, counts in (made.groups[0].after or {}).items()}
    assert msgspec.convert(repair["violated"], tuple[ViolatedRequirement, ...]) == made.evictions[0].repair.violated
    assert [entry["refusal"]["reason"] for entry in waiting] == [entry.reason for entry in made.waiting]


class Given:
    """Computes a given outlook."""

    def __init__(self, *domains: str, held: int = 1) -> None:
        self._domains, self._held = domains, held

    def targets(self) -> tuple[Target, ...]:
        return (Target("zone", self._domains),)

    def counts(self) -> Counts:
        return {"zone": {"a": self._held}}


def test_plans_differ_where_they_say_otherwise() -> None:
    """In the domains of a replacement, the counts after a step, the state of a component, or the time."""
    outlook = Outlook(Given("a"))
    assert outlook == Outlook(Given("a"))
    assert hash(outlook) == hash(Outlook(Given("a")))
    assert outlook != Outlook(Given("b"))
    assert outlook != Outlook(Given("a", held=2))
    assert outlook != "a"
    made = planned(returned())
    repair, group = made.evictions[0].repair, made.groups[0]
    assert isinstance(repair, Repair)
    assert structs.replace(repair, outlook=outlook) != repair
    assert structs.replace(group, evictions=group.evictions + 1) != group
    assert structs.replace(group, outlook=outlook) != group
    assert group != "web"
    assert structs.replace(made, made_at=made.expires_at) != made


def test_only_outlooks_are_written_by_the_hook() -> None:
    """Anything else that msgspec does not know is a mistake."""
    with pytest.raises(NotImplementedError, match="object is not written"):
        encode_outlook(object())
