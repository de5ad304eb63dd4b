"""Forced means forced: the domains that a plan names for a forced step are all that the scheduler may choose."""

from collections import defaultdict
from datetime import datetime

from rebalancer.adapters.files import read_snapshot
from rebalancer.creation.replacement import replacement
from rebalancer.engine import Evaluation, evaluate
from rebalancer.model.cluster import NEWEST
from rebalancer.planning.eviction import Eviction
from rebalancer.policy import load_policy
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.unpredictable import Unpredictable
from tools.decisions.states import NOW, DrawnState, drawn_states


def evaluated(state: DrawnState) -> Evaluation:
    at = datetime.fromisoformat(NOW)
    snapshot, _ = read_snapshot(state.objects, version=NEWEST, at=at, source=state.name)
    return evaluate(snapshot, load_policy(state.policy, source=state.name))


def forced_steps(evaluation: Evaluation) -> list[list[Eviction]]:
    steps = defaultdict(list)
    for eviction in (*evaluation.plan.fates.going, *(waiting.eviction for waiting in evaluation.plan.fates.kept)):
        if eviction.forced:
            steps[eviction.step].append(eviction)
    return list(steps.values())


def unnamed(eviction: Eviction, step: list[Eviction], evaluation: Evaluation) -> dict[str, set[str]]:
    """Return by key the domains not named, of the nodes that the filters admit once the step is carried out."""
    after = evaluation.view.without([victim.pod for victim in step])
    made = replacement(eviction.pod, after)
    assert not isinstance(made, Unpredictable)
    admitted = feasible(made, after)
    others = {}
    for target in eviction.targets:
        values = after.nodes.values(target.topology_key)
        others[target.topology_key] = {values[node] for node in admitted if node in values} - set(target.values)
    return {key: domains for key, domains in others.items() if domains}


def test_every_node_that_the_filters_admit_lies_in_a_domain_that_is_named() -> None:
    """Also where capacity is reserved for pods that wait, and where workloads with one selector have several bounds."""
    steps = 0
    for state in (*drawn_states(79), *drawn_states(379)):
        evaluation = evaluated(state)
        for step in forced_steps(evaluation):
            steps += 1
            assert [unnamed(eviction, step, evaluation) for eviction in step] == [{}] * len(step), state.name
    assert steps > 9
