"""Events about limits: on change only, on owners and on the pods concerned, never more than a bounded number."""

from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from rebalancer.account.happened import MOST_REPORTED, ReportedStates, find_limit_changes
from rebalancer.assessment.assess import assess
from rebalancer.assessment.causes import Causes, limit_token
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.events import Event, EventReason
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Limit, PolicyGroup, Selector, Share, default_policy
from rebalancer.scheduling.view import View
from tests.assessment.limits.test_domains_without_nodes import limit_over, two_zones
from tests.assessment.redis import CLUSTER, HOSTNAME, SHARD, machines, redis
from tests.documents.events.build import about

NO_CAUSES: Final[Causes] = MappingProxyType({})
THIRD = Limit(name="node-third", topology_key=HOSTNAME, max_share=Share.of("<=1/3"))
SHARDS_APART = Limit(name="apart", topology_key=HOSTNAME, max_pods=1, group_by=(SHARD,))


def limits(snapshot: Snapshot, *rules: Limit) -> tuple[EvaluatedLimit, ...]:
    group = PolicyGroup(name="redis", selector=Selector(), group_by=(CLUSTER,), limits=rules or (THIRD,))
    policy = default_policy().model_copy(update={"groups": (group,)})
    return assess(View(snapshot), policy, NO_MEMORY).limits


def limit_events(
    reported: ReportedStates, evaluated: Sequence[EvaluatedLimit], causes: Causes = NO_CAUSES
) -> tuple[list[Event], ReportedStates]:
    changes, after = find_limit_changes(reported, evaluated, causes)
    return about(changes), after


def summary(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.reason, f"{event.regarding.kind}/{event.regarding.name}") for event in events]


SPREAD = redis(machines("a", 6), [("a1", "a2"), ("a3", "a4"), ("a5", "a6")])
CROWDED = redis(machines("a", 6), [("a1", "a1"), ("a1", "a4"), ("a5", "a6")])
FEW = redis(machines("a", 2), [("a1", "a2"), ("a1", "a2"), ("a1", "a2")])


def test_a_violation_is_reported_on_the_owners_and_on_pods_of_the_fullest_domain() -> None:
    """With its numbers, and with the UIDs that `kubectl describe` goes by."""
    events, _ = limit_events({}, limits(CROWDED))
    owners = [(EventReason.SHARE_LIMIT_VIOLATED, f"StatefulSet/one-{number}") for number in range(3)]
    pods = [(EventReason.SHARE_LIMIT_VIOLATED, f"Pod/{name}") for name in ("one-0-0", "one-0-1", "one-1-0")]
    assert summary(events) == [*owners, *pods]
    assert {event.note for event in events} == {
        "redis/node-third: kubernetes.io/hostname a1 holds 3 of 6 (50%), the limit is maxShare <=1/3, which allows 2"
    }
    assert all(event.regarding.uid and event.regarding.namespace == "cache" for event in events)
    assert {(event.type, event.action) for event in events} == {("Warning", "Assess")}


def test_a_thousand_cycles_of_one_violation_report_it_once() -> None:
    """On change only."""
    evaluated = limits(CROWDED)
    known: ReportedStates = {}
    counted: Counter[str] = Counter()
    for _ in range(1_000):
        events, known = limit_events(known, evaluated)
        counted.update(event.reason for event in events)
    assert counted == {EventReason.SHARE_LIMIT_VIOLATED: 6}


def test_each_change_of_state_is_reported() -> None:
    """Violated, Infeasible, Recovered; and nothing of what always held."""
    known: ReportedStates = {}
    seen = []
    for snapshot in (SPREAD, CROWDED, FEW, CROWDED, SPREAD, SPREAD):
        events, known = limit_events(known, limits(snapshot))
        seen.append({event.reason for event in events})
    assert seen == [
        set(),
        {EventReason.SHARE_LIMIT_VIOLATED},
        {EventReason.SHARE_LIMIT_INFEASIBLE},
        {EventReason.SHARE_LIMIT_VIOLATED},
        {EventReason.SHARE_LIMIT_RECOVERED},
        set(),
    ]
    assert not known


def test_a_violation_that_the_last_process_reported_is_not_reported_again() -> None:
    """A new leader knows the tokens of what was violated."""
    evaluated = limits(CROWDED)
    token = limit_token(evaluated[0])
    events, known = limit_events({token: State.VIOLATED}, evaluated)
    assert not events
    assert known == {token: State.VIOLATED}


def test_a_limit_that_is_gone_is_forgotten() -> None:
    """With its policy or its pods; nothing is left to report."""
    _, known = limit_events({}, limits(CROWDED))
    assert limit_events(known, ()) == ([], {})


def test_a_flood_is_spread_over_cycles_the_worst_first() -> None:
    """Two hundred events in a cycle at most, and none is lost."""
    shards = [("a1",) * (3 if number == 150 else 2) for number in range(300)]
    evaluated = limits(redis(machines("a", 2), shards), SHARDS_APART)
    known: ReportedStates = {}
    batches: list[list[Event]] = []
    while not batches or batches[-1]:
        events, known = limit_events(known, evaluated)
        batches.append(events)
    assert all(len(batch) <= MOST_REPORTED for batch in batches)
    assert batches[0][0].regarding.name == "one-150"
    on_owners = Counter(event.regarding.name for batch in batches for event in batch if event.regarding.kind != "Pod")
    assert on_owners == {f"one-{number}": 1 for number in range(300)}


def test_a_limit_on_very_many_pods_is_reported_on_a_few() -> None:
    """Ten owners and five pods; the report has the rest."""
    events, _ = limit_events({}, limits(redis(machines("a", 6), [("a1", "a1")] * 40)))
    assert Counter(event.regarding.kind for event in events) == {"StatefulSet": 10, "Pod": 5}


def test_an_empty_domain_is_nobodys_fault() -> None:
    """MinPods is reported on the owners only: an empty domain has no pod."""
    every = Limit(name="every-node", topology_key=HOSTNAME, min_pods=1)
    events, _ = limit_events({}, limits(redis(machines("a", 3), [("a1", "a1"), ("a2", "a2")]), every))
    assert summary(events) == [(EventReason.SHARE_LIMIT_VIOLATED, f"StatefulSet/one-{number}") for number in range(2)]


def test_the_cause_is_named_where_it_is_known() -> None:
    """In the words of the report; an unknown one is not worth a word."""
    evaluated = limits(CROWDED)
    known = dict.fromkeys(map(limit_token, evaluated), ViolationCause.SCALE_DOWN)
    events, _ = limit_events({}, evaluated, known)
    assert all(event.note.endswith(", cause ScaleDown") for event in events)
    unknown = dict.fromkeys(known, ViolationCause.UNKNOWN)
    assert not any("cause" in event.note for event in limit_events({}, evaluated, unknown)[0])


def test_a_limit_that_lacks_only_a_node_is_violated_for_events() -> None:
    """Where the last repair with the existing nodes is done, the violation goes on: no further event."""
    before, after = (limit_over(two_zones(*held), max_skew=1) for held in ((5, 1), (3, 3)))
    assert (before.state, after.state) == (State.VIOLATED, State.UNFIXABLE)
    events, reported = limit_events({}, [before])
    assert {event.reason for event in events} == {EventReason.SHARE_LIMIT_VIOLATED}
    assert limit_events(reported, [after]) == ([], reported)
    events, _ = limit_events({}, [after])
    assert {event.reason for event in events} == {EventReason.SHARE_LIMIT_VIOLATED}
