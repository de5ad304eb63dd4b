"""Lost pods that nobody is certain to delete from silent nodes: nothing is built on their replacements."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.model.affinity import Toleration
from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.resilience.bounds import Bounds, find_bounds
from rebalancer.resilience.left_there import NotDeleted
from rebalancer.resilience.loss import lose
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.build import change_specs

UNREACHABLE = "node.kubernetes.io/unreachable"


def found(snapshot: Snapshot, phase: Phase, *nodes: str) -> Mapping[str, Bounds]:
    """Return what is left of each workload when these nodes are lost."""
    loss = lose(View(snapshot), frozenset(nodes), phase)
    return {
        service.workload.name: bounds
        for service, bounds in zip(loss.services, find_bounds(loss), strict=True)
        if service.workload is not None
    }


def two_zones(*tolerations: Toleration) -> Snapshot:
    """Return six pods in two zones of one node, of which two are on the first."""
    builder = ClusterBuilder()
    builder.zones("ab", 1)
    builder.deployment("web", on={"a-1": 2, "b-1": 4})

    def change(_: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, tolerations=tolerations)

    return change_specs(builder.snapshot(), change) if tolerations else builder.snapshot()


@pytest.mark.parametrize(
    ("tolerations", "guaranteed"),
    [
        ((), 6),
        ((Toleration(key=UNREACHABLE, operator="Exists", effect="NoExecute"),), 4),
        ((Toleration(operator="Exists"),), 4),
        ((Toleration(key=UNREACHABLE, operator="Exists", seconds=30),), 6),
        ((Toleration(operator="Exists"), Toleration(key=UNREACHABLE, operator="Exists", seconds=30)), 6),
        ((Toleration(key="other", operator="Exists"),), 6),
    ],
)
def test_a_pod_that_tolerates_a_silent_node_without_an_end_stays_there(
    tolerations: tuple[Toleration, ...], guaranteed: int
) -> None:
    """Of several tolerations the shortest counts. Once its Node object is deleted the pod is replaced in any case."""
    snapshot = two_zones(*tolerations)
    assert found(snapshot, Phase.SILENT, "a-1")["web"].guaranteed == guaranteed
    assert found(snapshot, Phase.SILENT, "a-1")["web"].possible == 6
    assert found(snapshot, Phase.GONE, "a-1")["web"].guaranteed == 6


@pytest.mark.parametrize(("silent", "guaranteed"), [(2, 5), (3, 2), (5, 5)])
def test_where_most_of_a_zone_is_silent_and_not_all_the_node_controller_may_stop(silent: int, guaranteed: int) -> None:
    """Of five nodes three are 60 %; with all of them the zone is lost, and its pods are evicted."""
    builder = ClusterBuilder()
    builder.zones("ab", 5)
    builder.deployment("web", on={f"a-{number}": 1 for number in range(1, 6)})
    lost = [f"a-{number}" for number in range(1, silent + 1)]
    assert found(builder.snapshot(), Phase.SILENT, *lost)["web"].guaranteed == guaranteed
    assert found(builder.snapshot(), Phase.GONE, *lost)["web"].guaranteed == 5


def test_a_service_whose_constraint_counts_pods_that_may_stay_is_not_bounded_by_it() -> None:
    """They may count on, or not: its own pods are evicted, and may come back or be kept away."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.deployment("web", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={HOSTNAME: 1})
    builder.deployment("web-stays", on={"a-1": 1})
    snapshot = builder.snapshot()

    def change(app: str, spec: PodSpec) -> PodSpec:
        if app == "web":
            return spec
        return structs.replace(spec, tolerations=(Toleration(operator="Exists"),))

    changed = change_specs(snapshot, change)
    pods = tuple(structs.replace(pod, labels=snapshot.pods[0].labels) for pod in changed.pods)
    loss = lose(View(replace(changed, pods=pods)), frozenset(["a-1"]), Phase.SILENT)
    by_name = {
        service.workload.name: bounds
        for service, bounds in zip(loss.services, find_bounds(loss), strict=True)
        if service.workload is not None
    }
    assert by_name["web"] == Bounds(2, 3, NotDeleted())
