"""Pending pods that are about to preempt: where, whom, and up to how many nodes it is looked at."""

import re
from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.model.pods import Pod, PodSpec, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.diagnosis import closed_nodes
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.formulation import MayBePreempted
from rebalancer.planning.scope import preempting
from rebalancer.planning.scope.preempting import Preempting
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster, without_node
from tests.planning.build import cause_of, crowded, planned
from tests.scheduling.build import node, pod, snapshot

LOW = PodSpec(requests=Resources(cpu=600))


def full() -> Snapshot:
    """Return three nodes with one pod each, which leaves 400m."""
    names = [f"n{number}" for number in range(3)]
    every = [node(name, allocatable=Resources(cpu=1000)) for name in names]
    return snapshot(every, [pod({"app": name}, on=name, name=f"low-{name}", spec=LOW) for name in names])


def urgent(cpu: int = 900, **fields: object) -> Pod:
    spec = structs.replace(PodSpec(requests=Resources(cpu=cpu), priority=10), **fields)
    return pod({"app": "urgent"}, name="urgent", spec=spec)


def test_a_pod_that_fits_nowhere_may_take_the_nodes_of_lower_ones() -> None:
    found = Preempting(View(full()))
    assert found.find_nodes(urgent()) == {"n0", "n1", "n2"}
    assert {uid: str(by) for uid, by in found.victims.items()} == {
        f"default/low-n{number}": "default/urgent" for number in range(3)
    }


@pytest.mark.parametrize(
    "waiting",
    [
        urgent(cpu=400),
        urgent(cpu=1001),
        urgent(priority=0),
        urgent(preempts=False),
        urgent(scheduler="other"),
        urgent(gated=True),
        urgent(node_name="n0"),
        urgent(unpredictable=("resourceClaims",)),
    ],
    ids=["fits", "too large", "priority", "policy", "scheduler", "gates", "node name", "claims"],
)
def test_pods_that_take_none(waiting: Pod) -> None:
    found = Preempting(View(full()))
    assert (found.find_nodes(waiting), found.victims) == (frozenset(), {})


def test_a_nominated_pod_takes_its_node_whatever_is_there() -> None:
    nominated = structs.replace(urgent(preempts=False), nominated_node="n1")
    assert Preempting(View(full())).find_nodes(nominated) == {"n1"}
    assert Preempting(View(full())).find_nodes(structs.replace(nominated, nominated_node="gone")) == frozenset()


def test_beyond_the_limit_every_node_with_lower_pods_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two kinds of pods the first uses up what may be looked at; equal pods cost once."""
    monkeypatch.setattr(preempting, "MOST_NODES", 3)
    state = full()
    high = structs.replace(state.pods[0], spec=structs.replace(LOW, priority=99))
    found = Preempting(View(replace(state, pods=(high, *state.pods[1:]))))
    assert found.find_nodes(urgent()) == found.find_nodes(urgent()) == {"n1", "n2"}
    before = dict(found.victims)
    assert found.find_nodes(urgent(cpu=1001)) == frozenset()
    assert found.find_nodes(urgent(cpu=950)) == {"n1", "n2"}
    assert found.victims == before


def test_a_component_whose_pod_may_be_preempted_waits() -> None:
    blueprint = a_cluster("ab", 1, {"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=100)
    state = blueprint.snapshot()
    cpu = state.nodes[0].allocatable.cpu
    waiting = structs.replace(urgent(cpu=cpu - 50), created=state.taken_at)
    (component,) = planned(replace(state, pods=(*state.pods, waiting))).components
    cause = cause_of(component)
    assert isinstance(cause, MayBePreempted)
    assert (cause.reason, cause.node, cause.preemptor) == (Reason.GROUP_IN_FLIGHT, "b-1", "default/urgent")


def test_a_component_does_not_wait_for_a_pod_of_its_own() -> None:
    """Its own pending pods are part of what is to be placed: that no node has the capacity is said."""
    state = a_cluster("ab", 1, {"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=100).snapshot()
    last = state.pods[-1]
    large = structs.replace(last.spec, priority=10, requests=Resources(cpu=state.nodes[0].allocatable.cpu))
    (component,) = planned(replace(state, pods=(*state.pods, without_node(last, "new", spec=large)))).components
    assert not isinstance(component.refusal, MayBePreempted)


def refusal(state: Snapshot, limits: SearchLimits | None = None) -> NodesTakeNoMore:
    (component,) = planned(state, limits=limits).components
    cause = cause_of(component)
    assert isinstance(cause, NodesTakeNoMore)
    return cause


def test_a_repair_that_would_preempt_says_so_as_far_as_it_may_look() -> None:
    assert re.fullmatch("preempt default/other-.* on c-1", refusal(crowded(5)).preempts)
    assert refusal(crowded(0)).preempts == ""
    assert refusal(crowded(5, cpu=90)).preempts == ""  # too small a node, even if it were empty
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closed_nodes, "_MOST_DRY_RUNS", 1)
        assert re.fullmatch("preempt .* on c-1; or other pods, on c-1", refusal(crowded(5)).preempts)
    assert refusal(crowded(5), SearchLimits(diagnosis_nodes_of_plan=10)).preempts == ""
