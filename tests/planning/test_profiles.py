"""What is planned under a scheduler whose configuration switches a filter off: forcing, capacity and targets.

The planner and the model that `explain` and `predict` show must agree: a move that is called forced lands where the
filters that are on leave nothing else, on no node whose kubelet would reject the pod.
"""

import json
from collections import Counter
from random import Random
from typing import Any, Final

import pytest
from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.documents.document import to_json
from rebalancer.documents.plan import plan_document
from rebalancer.engine import Evaluation, evaluate
from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm, Taint, TaintEffect
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.scope.unable_nodes import ToleratedForAWhile
from rebalancer.scheduling.feasibility import FILTERS, feasible
from rebalancer.scheduling.node_affinity import NodeAffinityFilter
from rebalancer.scheduling.node_ports import NodePorts
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit
from rebalancer.scheduling.profile import Profile
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster, change_specs, with_node
from tests.planning.build import policy
from tests.planning.scenes import several_classes

PLUGINS: Final = [plugin.name for plugin in FILTERS]
KUBELETS: Final = (NodeAffinityFilter, NodePorts, NodeResourcesFit)


def planned(snapshot: Snapshot, seed: int, profile: Profile) -> tuple[Evaluation, list[dict[str, Any]]]:
    """Return an evaluation, and the evictions as the plan's document has them."""
    made = evaluate(snapshot, several_classes(Random(seed)).policy(), profile=profile)
    document = json.loads(to_json(plan_document(made.plan, snapshot)))
    return made, document["evictions"]


def check(seed: int, profile: Profile, counted: Counter[str]) -> None:
    """Compare what is planned for a drawn cluster with what the filters leave the replacements."""
    scene = several_classes(Random(seed))
    if not scene.works:
        return
    made, evictions = planned(scene.snapshot(), seed, profile)
    for eviction, said in zip(made.plan.fates.going, evictions, strict=True):
        of_step = [one.pod for one in made.plan.fates.going if one.repair.step == eviction.repair.step]
        nodes = _may_land(eviction.pod, of_step, made)
        counted["forced" if said["predicted"]["forced"] else "predicted"] += 1
        if said["predicted"]["forced"]:
            for key in (HOSTNAME, ZONE):
                domains = {made.view.nodes.values(key)[node] for node in nodes}
                assert domains <= set(said["predicted"]["domains"].get(key, domains)), (seed, eviction.pod, key)


def _may_land(pod: Pod, gone: list[Pod], made: Evaluation) -> frozenset[str]:
    """Return where the scheduler may place what replaces a pod first; a kubelet must take it wherever that is."""
    new, state = replacement(pod, made.view), made.view.without(gone)
    assert isinstance(new, Pod)
    nodes = feasible(new, state)
    for plugin in KUBELETS:
        assert nodes <= plugin(new, state).admit(made.view.nodes.names), (pod, plugin)
    return nodes


@pytest.mark.parametrize("plugin", ["none", *PLUGINS])
def test_what_is_called_forced_is_forced_by_the_filters_that_are_on(plugin: str) -> None:
    counted: Counter[str] = Counter()
    for seed in range(40):
        check(seed, Profile(filters_off=frozenset({plugin})), counted)
    print(f"{plugin} off: {dict(counted)}")
    assert counted["predicted" if plugin == "PodTopologySpread" else "forced"] > 5


def test_without_the_filter_for_spread_nothing_is_forced_to_another_domain() -> None:
    """Evictions that scores alone would bring home are predictions, as those for soft constraints."""
    forced = 0
    for seed in range(40):
        scene = several_classes(Random(seed))
        if scene.works:
            _, evictions = planned(scene.snapshot(), seed, Profile(filters_off=frozenset({"PodTopologySpread"})))
            forced += sum(eviction["predicted"]["forced"] for eviction in evictions)
    assert forced <= 1  # where a single node is left by all other filters


def lopsided(**spec: Any) -> Snapshot:
    """Return three zones of a node and a workload of which zone c has no pod; its pods have these fields."""
    snapshot = a_cluster("abc", 1, on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}).snapshot()
    return change_specs(snapshot, lambda _, own: structs.replace(own, **spec))


TOKENS: Final = Resources(cpu=100, memory=0, ephemeral_storage=0, extended=(("tokens.test/one", 1),))


def test_a_resource_that_the_scheduler_ignores_is_no_capacity() -> None:
    """No node offers it: an extender looks after it, or a kubelet that does not count it."""
    snapshot = lopsided(requests=TOKENS)
    assert evaluate(snapshot, policy()).plan.components[0].refusal is not None
    for profile in (
        Profile(ignored_resources=frozenset({"tokens.test/one"})),
        Profile(ignored_resource_groups=frozenset({"tokens.test"})),
    ):
        (eviction,) = evaluate(snapshot, policy(), profile=profile).plan.fates.going
        assert eviction.pod.node == "a-1"


def test_nodes_that_the_profile_keeps_pods_from_are_no_targets() -> None:
    """`addedAffinity`: here it leaves zone c out."""
    only = NodeSelectorTerm(expressions=(SelectorRequirement(ZONE, Operator.IN, ("a", "b")),))
    profile = Profile(added_affinity=NodeAffinity(required=(only,)))
    assert evaluate(lopsided(), policy()).plan.fates.going
    made = evaluate(lopsided(), policy(), profile=profile).plan
    assert made.fates.going == ()
    (component,) = made.components
    assert component.reason is Reason.NODES_REJECT
    assert "the scheduler's own node affinity" in str(component.refusal)


def test_a_taint_that_evicts_is_no_target_for_a_scheduler_that_does_not_look_at_taints() -> None:
    """Its taint manager ends each replacement at once."""
    tainted = with_node(lopsided(), "c-1", taints=(Taint("example.test/gone", TaintEffect.NO_EXECUTE),))
    made = evaluate(tainted, policy(), profile=Profile(filters_off=frozenset({"TaintToleration"}))).plan
    assert (made.fates.going, made.components[0].refusal) == ((), ToleratedForAWhile("c-1", "example.test/gone", 0))


def test_a_node_whose_kubelet_rejects_what_the_scheduler_does_not_check_is_no_target() -> None:
    selecting = lopsided(node_affinity=NodeAffinity(selector=Labels({"disk": "fast"})))
    for node in ("a-1", "b-1"):
        labels = Labels({**selecting.node[node].labels, "disk": "fast"})
        selecting = with_node(selecting, node, labels=labels)
    made = evaluate(selecting, policy(), profile=Profile(filters_off=frozenset({"NodeAffinity"}))).plan
    assert made.fates.going == ()
    assert "node c-1 may take a replacement and does not pass NodeAffinity" in str(made.components[0].refusal)


def test_counting_calls_nothing_forced_without_the_filter_for_spread() -> None:
    """Pods of one class, of which counting alone decides: with the filter the one eviction is forced to zone c."""
    (eviction,) = evaluate(lopsided(), policy()).plan.fates.going
    assert eviction.repair.forced
    off = Profile(filters_off=frozenset({"PodTopologySpread"}))
    assert not any(one.repair.forced for one in evaluate(lopsided(), policy(), profile=off).plan.fates.going)
