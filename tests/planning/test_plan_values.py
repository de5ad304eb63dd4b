"""A plan is a value: equal inputs give equal plans, and what is decided can be written."""

from datetime import datetime
from fractions import Fraction
from operator import ne

import msgspec
import pytest
from msgspec import structs

from rebalancer.adapters.files import read_snapshot
from rebalancer.assessment.assess import assess
from rebalancer.documents.plan import PlanDocument, plan_document
from rebalancer.model.cluster import NEWEST
from rebalancer.model.moves import NO_MEMORY, Target
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.diagnosis.obstacles import OthersStay
from rebalancer.planning.diagnosis.relaxation import Relaxable, Relaxation
from rebalancer.planning.diagnosis.slack import RelaxedBound
from rebalancer.planning.eviction import Outlook, Repair
from rebalancer.planning.plan import Plan, PlanRefusal, Proof
from rebalancer.planning.plan_file import read_plan, write_plan
from rebalancer.planning.planner import find_relaxations, plan
from rebalancer.planning.scope.components import Counts
from rebalancer.planning.search.report import Method
from rebalancer.policy import default_policy, load_policy
from rebalancer.reporting.text.plan import PlanOptions, plan_text
from rebalancer.scheduling.view import View
from tests.planning.clusters import planned, returned
from tools.decisions.states import NOW, DrawnState, drawn_states


def read(state: DrawnState) -> Snapshot:
    return read_snapshot(state.objects, version=NEWEST, at=datetime.fromisoformat(NOW), source=state.name)[0]


def plan_anew(state: DrawnState) -> Plan:
    """Read and plan a state, without anything that another plan has."""
    view, policy = View(read(state)), load_policy(state.policy, source=state.name)
    return plan(view, assess(view, policy, NO_MEMORY), policy, NO_MEMORY)


def test_equal_snapshots_give_equal_plans() -> None:
    """In drawn states: the plans are equal with all their components, and are written as the same bytes."""
    kinds = set()
    for state in drawn_states(40):
        one, other = plan_anew(state), plan_anew(state)
        assert read(state) == read(state)
        assert one == other, state.name
        assert [hash(group) for group in one.components] == [hash(group) for group in other.components]
        limits = [[limit for group in made.components for limit in group.limits] for made in (one, other)]
        assert [hash(limit) for limit in limits[0]] == [hash(limit) for limit in limits[1]]
        assert not any(map(ne, (*one.components, *limits[0]), (*other.components, *limits[1])))
        assert write_plan(one) == write_plan(other)
        assert hash(one) == hash(other)
        kinds |= {bool(one.fates.going), *(group.method for group in one.components if group.limits)}
    assert len(kinds) > 2, "plans with and without evictions, also of limits"


def test_a_plan_is_written_and_read_back_equal() -> None:
    """In drawn states, whole: where each step leads, every refusal, the relaxations; and said in the same words."""
    facts, relaxed = set(), 0
    for state in drawn_states(45):
        snapshot, policy = read(state), load_policy(state.policy, source=state.name)
        view = View(snapshot)
        assessment = assess(view, policy, NO_MEMORY)
        made = plan(view, assessment, policy, NO_MEMORY)
        back = read_plan(write_plan(made), assessment, snapshot)
        assert back == made, state.name
        assert find_relaxations(back) == find_relaxations(made)
        assert [group.outlook for group in back.components] == [group.outlook for group in made.components]
        for shown in (made, back):
            document = plan_document(made, snapshot, find_relaxations(made))
            assert plan_document(shown, snapshot, find_relaxations(shown)) == document
            live = plan_text(document, PlanOptions(verbose=True, wide=True))
            saved = msgspec.json.decode(msgspec.json.encode(document), type=PlanDocument)
            assert plan_text(saved, PlanOptions(verbose=True, wide=True)) == live
        facts |= {type(group.refusal) for group in made.components} | {type(row.refusal) for row in made.refusals}
        relaxed += len(find_relaxations(back))
    assert len(facts) > 9
    assert relaxed


def test_replacements_land_on_nodes_of_their_domains() -> None:
    """On some node of each; where there is no step on none, and a plan that was read does not say where."""
    by_counting = by_following = 0
    for state in drawn_states(45):
        snapshot, policy = read(state), load_policy(state.policy, source=state.name)
        view = View(snapshot)
        assessment = assess(view, policy, NO_MEMORY)
        made = plan(view, assessment, policy, NO_MEMORY)
        every = view.nodes.names
        for group in made.components:
            assert group.outlook is not None
            landings = group.outlook.landings(every)
            for target in group.outlook.targets:
                values = view.nodes.values(target.topology_key)
                assert {values[node] for node in landings} == set(target.values), state.name
            if group.method is None:
                assert not landings
            by_counting += bool(landings) and group.method is Method.CERTIFICATE
            by_following += bool(landings) and group.method is Method.LOOKAHEAD
        back = read_plan(write_plan(made), assessment, snapshot)
        assert not any(group.outlook.landings(every) for group in back.components if group.outlook is not None)
    assert by_counting
    assert by_following


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"pod":"', b'"pod":"x'),
        (b'"groups":["', b'"groups":["x'),
        (b'"refusal":{"kind":"', b'"refusal":{"kind":"x'),
        (b"{", b"["),
        (b'"made_at":"', b'"made_at":null,"x":"'),
        (b'"kind":"OthersStay"', b'"kind":"CapacityObserves"'),
        (b'"groups":["', b'"groups":[],"x":["'),
        (b'"state":"', b'"state":"x'),
    ],
)
def test_a_plan_of_another_snapshot_is_refused(old: bytes, new: bytes) -> None:
    """Nothing is guessed where a pod, a group or a kind of fact is not known."""
    snapshot = returned()
    assessment = assess(View(snapshot), default_policy(), NO_MEMORY)
    made = planned(snapshot)
    refused = PlanRefusal(workload=made.components[0].workloads[0], pod=None, refusal=OthersStay())
    data = write_plan(structs.replace(made, refusals=(refused,)))
    assert old in data
    with pytest.raises(ValueError, match="not a plan of this snapshot"):
        read_plan(data.replace(old, new, 1), assessment, snapshot)


@pytest.mark.parametrize("data", [b"null", b"[]", b"", b"[" * 100_000, b'"plan"'])
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    """With one kind of error, whatever it is."""
    snapshot = returned()
    assessment = assess(View(snapshot), default_policy(), NO_MEMORY)
    with pytest.raises(ValueError, match="not a plan of this snapshot"):
        read_plan(data, assessment, snapshot)


def test_a_relaxed_share_is_read_back_exactly() -> None:
    """A third is no decimal number."""
    snapshot = returned()
    assessment = assess(View(snapshot), default_policy(), NO_MEMORY)
    made = planned(snapshot)
    relaxation = Relaxation(bound=RelaxedBound(limit="caches/zones", max_share=Fraction(1, 3)))
    groups = tuple(structs.replace(group, relaxable=Relaxable(lambda: relaxation)) for group in made.components)
    back = read_plan(write_plan(structs.replace(made, components=groups)), assessment, snapshot)
    assert find_relaxations(back) == dict.fromkeys((group.name for group in groups), relaxation)


class Given:
    """Computes a given outlook."""

    def __init__(self, *domains: str, held: int = 1) -> None:
        self._domains, self._held = domains, held

    def targets(self) -> tuple[Target, ...]:
        return (Target("zone", self._domains),)

    def counts(self) -> Counts:
        return {"zone": {"a": self._held}}

    def landings(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes


def test_plans_differ_where_they_say_otherwise() -> None:
    """In the domains of a replacement, the counts after a step, the state of a component, or the time."""
    outlook = Outlook(Given("a"))
    assert outlook == Outlook(Given("a"))
    assert hash(outlook) == hash(Outlook(Given("a")))
    assert outlook != Outlook(Given("b"))
    assert outlook != Outlook(Given("a", held=2))
    assert outlook != "a"
    proof = Proof(OthersStay)
    assert (proof, hash(proof)) == (Proof(OthersStay), hash(OthersStay()))
    assert proof != "a"
    made = planned(returned())
    repair, group = made.fates.going[0].repair, made.components[0]
    assert isinstance(repair, Repair)
    assert structs.replace(repair, outlook=outlook) != repair
    assert structs.replace(group, evictions=group.evictions + 1) != group
    assert structs.replace(group, outlook=outlook) != group
    assert group != "web"
    assert structs.replace(made, made_at=made.expires_at) != made
