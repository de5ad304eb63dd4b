"""Repairs of anti-affinity beside other repairs, other namespaces, budgets and cycles."""

from dataclasses import replace

from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.pods import HostPort, PodSpec
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.anti_affinity.unplanned import NotModelledApart, OthersNeedNotMove
from rebalancer.planning.plan_file import read_plan, write_plan
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, away_from, change_specs, with_anti_affinity
from tests.planning.anti_affinity.test_minimum import acting, going, landings
from tests.planning.build import planned


def test_the_last_place_of_a_node_that_another_repair_takes_is_no_place() -> None:
    """Nor an error where a two-sided term is over that node, too."""
    builder = ClusterBuilder()
    for node, cpu in (("n1", 16_000), ("n2", 16_000), ("n3", 100)):
        builder.node(node, cpu=cpu)
    builder.deployment("web", on={"n1": 1})
    builder.deployment("api", on={"n1": 1})
    builder.deployment("own", on={"n2": 2})
    snapshot = with_anti_affinity(builder.snapshot(), {"web": [away_from("api")], "own": [away_from("own")]})
    assert {pod.labels["app"] for pod in going(planned(snapshot, acting()))} == {"own"}


def test_two_steps_of_one_plan_do_not_share_a_place() -> None:
    """A pod of the same workload that may leave the node frees nothing for a replacement that must not wait."""
    builder = ClusterBuilder()
    builder.node("n0")
    builder.node("n1", cpu=200)
    builder.deployment("own", on={"n0": 2})
    builder.deployment("web", on={"n0": 1, "n1": 1})
    builder.deployment("api", on={"n0": 1})
    snapshot = with_anti_affinity(builder.snapshot(), {"own": [away_from("own")], "web": [away_from("api")]})
    for pod in going(planned(snapshot, acting())):
        after = list(landings(snapshot, pod))
        assert after, "a replacement is left pending"
        snapshot = after[0]


def everybody() -> PodAffinityTerm:
    nothing = LabelSelector.of({})
    return PodAffinityTerm(topology_key=HOSTNAME, selector=nothing, namespace_selector=nothing)


def test_a_pod_that_stays_has_no_pods_of_other_namespaces_evicted() -> None:
    """Whoever may create a pod with a nodeName could empty the node by a term that selects everybody."""
    builder = a_cluster("abc", 1)
    builder.deployment("web", on={"a-1": 1, "b-1": 1}, namespace="shop")
    builder.deployment("evil", on={"a-1": 1}, namespace="evil")

    def declare(app: str, spec: PodSpec) -> PodSpec:
        affinity = PodAffinity(anti_required=(everybody(),))
        return structs.replace(spec, node_name="a-1", pod_affinity=affinity) if app == "evil" else spec

    snapshot = change_specs(builder.snapshot(), declare)
    bare = tuple(structs.replace(pod, owner=None) if pod.namespace == "evil" else pod for pod in snapshot.pods)
    owners = tuple(one for one in snapshot.workloads if one.namespace != "evil")
    for hostile in (snapshot, replace(snapshot, pods=bare, workloads=owners)):
        plan = planned(hostile, acting())
        assert not plan.fates.evictions
        assert {type(component.refusal) for component in plan.components} == {OthersNeedNotMove}


def two_sided() -> ClusterBuilder:
    """Return three batch pods that avoid the api pod beside them."""
    builder = a_cluster("abcd", 1)
    builder.deployment("batch", on={"a-1": 3})
    builder.deployment("api", on={"a-1": 1})
    return builder


def test_where_a_budget_forbids_one_side_the_other_goes() -> None:
    """Though that takes more evictions."""
    builder = two_sided()
    builder.budget("api", max_unavailable=0)
    plan = planned(with_anti_affinity(builder.snapshot(), {"batch": [away_from("api")]}), acting())
    assert [component.evictions for component in plan.components] == [3]
    assert {pod.labels["app"] for pod in going(plan)} == {"batch"}


def test_a_plan_with_terms_is_read_back_equal() -> None:
    snapshot = with_anti_affinity(two_sided().snapshot(), {"batch": [away_from("api"), away_from("nobody")]})
    plan = planned(snapshot, acting())
    assert read_plan(write_plan(plan), assess(View(snapshot), acting(), NO_MEMORY), snapshot) == plan


def test_a_component_keeps_its_name_while_one_term_after_the_other_is_repaired() -> None:
    """The memory knows it by that."""
    builder = a_cluster("abcdef", 1, {"a-1": 2})
    builder.deployment("batch", on={"a-1": 1, "b-1": 2})
    snapshot: Snapshot = with_anti_affinity(
        builder.snapshot(), {"web": [away_from("web"), away_from("batch")], "batch": [away_from("batch")]}
    )
    names = set()
    while going(plan := planned(snapshot, acting())):
        names |= {component.name for component in plan.components}
        snapshot = next(landings(snapshot, going(plan)[0]))
    assert len(names) == 1


def test_a_workload_that_is_not_modelled_for_it_is_repaired_as_before() -> None:
    """With host ports: its spread is repaired, and the term says why not."""
    snapshot = a_cluster("abc", 2, {"a-1": 1, "a-2": 1}, spread={ZONE: 1}).snapshot()

    def tie(_: str, spec: PodSpec) -> PodSpec:
        affinity = PodAffinity(anti_required=(away_from("web", ZONE),))
        return structs.replace(spec, pod_affinity=affinity, host_ports=(HostPort("0.0.0.0", "TCP", 80),))

    plan = planned(change_specs(snapshot, tie), acting())
    assert not any(component.component.terms for component in plan.components)
    (row,) = (one for one in plan.refusals if isinstance(one.refusal, NotModelledApart))
    assert (row.reason, row.workload.name) == (Reason.NOT_PREDICTABLE, "web")
