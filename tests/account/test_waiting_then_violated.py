"""What waits for a node, is violated and satisfied: each begin has its end, and each lasts from its own begin."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.account.happened import find_since
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, Leading, ProcessFacts
from rebalancer.engine import evaluate
from rebalancer.model.history import EntryKind
from rebalancer.model.moments import seconds_of
from rebalancer.model.moves import make_token
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy
from rebalancer.simulator import ZONE
from tests.build import a_cluster, a_state, without_node
from tests.drawing import examples


def build(on: dict[str, int], waiting: int = 0) -> Snapshot:
    """Return a workload of which pods are on these nodes, and others wait; zone c has room for one pod."""
    blueprint = a_cluster("ab", on=on, spread={ZONE: 1}, replicas=sum(on.values()) + waiting)
    blueprint.node("c-1", zone="c", cpu=100)
    snapshot = blueprint.snapshot()
    late = (without_node(snapshot.pods[0], f"late-{number}") for number in range(waiting))
    return replace(snapshot, pods=(*snapshot.pods, *late))


SNAPSHOTS: Final = {
    "satisfied": build({"a-1": 2, "b-1": 2, "c-1": 1}),
    "waiting": build({"a-1": 2, "b-1": 2, "c-1": 1}, waiting=1),
    "violated": build({"a-1": 4, "b-1": 1, "c-1": 1}),
}
START: Final = SNAPSHOTS["satisfied"].taken_at
ENDS: Final = {EntryKind.WITHOUT_NODE: EntryKind.NODE_FOUND, EntryKind.VIOLATED: EntryKind.SATISFIED}


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(sorted(SNAPSHOTS)), st.booleans()), max_size=8))
def test_each_begin_is_told_and_its_end_counts_from_it(drawn: list[tuple[str, bool]]) -> None:
    """A violation has its begin although pods waited before, whoever leads; what was violated ends as satisfied."""
    now = START
    state = a_state(default_policy(), now, process=ProcessFacts(history_name="pod"))
    (group,) = evaluate(SNAPSHOTS["satisfied"], default_policy()).assessment.groups
    token = make_token(group.spread.name)
    expected: list[tuple[str, int, int]] = []
    kind, since = "", 0
    for name, is_new_leader in drawn:
        now += timedelta(minutes=1)
        if is_new_leader:
            state, _ = step(state, Leading(leads=True, memory=state.memory), now)
        state, _ = step(state, CycleDue(snapshot=replace(SNAPSHOTS[name], taken_at=now)), now)
        at = seconds_of(now)
        if name == "satisfied" and kind:
            expected.append((ENDS[EntryKind(kind)], at, since))
            kind = ""
        elif (name == "violated" and kind != EntryKind.VIOLATED) or (name == "waiting" and not kind):
            kind = EntryKind.VIOLATED if name == "violated" else EntryKind.WITHOUT_NODE
            since = at
            expected.append((kind, at, 0))
        if kind:
            assert seconds_of(find_since(state.memory)[token]) == since, "as report, page and explanation say it"
    told = [(one.kind, one.at, one.since) for one in state.memory.outbox if one.token == token]
    assert told == expected
