"""Operating systems and architectures, which the scheduler does not compare with what the pods can run on."""

from typing import Any

import pytest

from rebalancer.model.reasons import FindingKind, Reason
from tests.cli.files import ready_nodes
from tests.control_plane.resources import Manifest
from tests.known_states.build import CROWDED, State, cluster, deployment, namespace, unready

SYSTEM = "kubernetes.io/os"
ARCHITECTURE = "kubernetes.io/arch"


def labelled(state: State, key: str, **values: str) -> State:
    """Label the nodes a-0, b-0 and c-0 with these values, by zone."""
    for zone, value in values.items():
        state.get("Node", f"{zone}-0")["metadata"]["labels"][key] = value
    return state


class TestSystems:
    def systems(self, *parts: list[Manifest], c: str = "windows", **spec: Any) -> State:
        spec = {"os": {"name": "linux"}, **spec}
        return labelled(cluster(deployment(**spec), *parts), SYSTEM, a="linux", b="linux", c=c)

    def test_nothing_goes_to_a_node_whose_kubelet_rejects_it(self) -> None:
        state = self.systems()
        assert "node c-0 may take a replacement and runs windows" in state.plan().assert_kept(Reason.NOT_PREDICTABLE)
        (finding,) = state.find(FindingKind.SYSTEM_NOT_SELECTED)
        assert finding.object == "shop/web (Deployment)"
        assert "each runs windows, where spec.os of the pods is linux" in finding.message
        assert "(c-0)" in finding.message
        assert "Add nodeSelector kubernetes.io/os: linux" in finding.message

    @pytest.mark.parametrize(
        ("c", "spec"), [("linux", {}), ("windows", {"os": None})], ids=["one system", "the pods do not say"]
    )
    def test_where_nothing_differs_pods_go(self, c: str, spec: dict[str, Any]) -> None:
        state = self.systems(c=c, **spec)
        assert state.plan().evicted == ["shop/web-0"]
        assert state.find(FindingKind.SYSTEM_NOT_SELECTED) == []

    def test_where_the_template_selects_the_system_nobody_goes_there(self) -> None:
        state = self.systems(nodeSelector={SYSTEM: "linux"})
        assert state.plan().evicted == ["shop/web-0"]
        assert state.find(FindingKind.SYSTEM_NOT_SELECTED) == []

    def test_a_taint_that_the_pods_do_not_tolerate_does_as_well(self) -> None:
        state = self.systems()
        state.get("Node", "c-0")["spec"]["taints"] = [{"key": "os", "value": "windows", "effect": "NoSchedule"}]
        state.add(labelled(cluster(), SYSTEM, c="linux").get("Node", "c-0") | {"metadata": self.another_node()})
        assert state.plan().evicted == ["shop/web-0"]
        assert state.find(FindingKind.SYSTEM_NOT_SELECTED) == []

    def another_node(self) -> Manifest:
        metadata: Manifest = cluster().get("Node", "c-0")["metadata"]
        return {**metadata, "name": "c-1", "uid": "c-1", "labels": {**metadata["labels"], SYSTEM: "linux"}}

    def test_a_node_of_another_system_that_takes_no_replacement_delays_nothing(self) -> None:
        """It lies in the zone that is full however the step goes; the finding is there all the same."""
        state = labelled(self.systems(c="linux"), SYSTEM, a="windows")
        assert state.plan().evicted == ["shop/web-0"]
        assert len(state.find(FindingKind.SYSTEM_NOT_SELECTED)) == 1

    def test_pods_of_several_systems_that_select_their_own_are_moved_together(self) -> None:
        """Their replacements land on nodes of both systems, each on one of its own."""
        state = State(*(node for zone in "abc" for node in ready_nodes({zone: 2})), namespace("shop"))
        for name, ordinal, system in (("web", 0, "linux"), ("win", 1, "windows")):
            own: dict[str, Any] = {"os": {"name": system}, "nodeSelector": {SYSTEM: system}}
            state.add(*deployment(name, [f"a-{ordinal}"] * 2, app="shared", **own))
            for zone in "abc":
                state.get("Node", f"{zone}-{ordinal}")["metadata"]["labels"][SYSTEM] = system
        outcome = state.plan()
        assert (len(outcome.evicted), outcome.reasons) == (2, set())

    def test_a_workload_that_nothing_constrains_has_no_finding(self) -> None:
        assert self.systems(topologySpreadConstraints=[]).find(FindingKind.SYSTEM_NOT_SELECTED, "groups: []") == []

    def test_one_that_a_limit_concerns_has(self) -> None:
        limit = "{name: half, topologyKey: topology.kubernetes.io/zone, maxShare: <=1/2}"
        policy = f"groups: [{{name: all, selector: {{}}, limits: [{limit}]}}]"
        assert len(self.systems(topologySpreadConstraints=[]).find(FindingKind.SYSTEM_NOT_SELECTED, policy)) == 1


class TestArchitectures:
    def architectures(self, c: str = "arm64", **spec: Any) -> State:
        return labelled(cluster(deployment(**spec)), ARCHITECTURE, a="amd64", b="amd64", c=c)

    def test_they_are_a_finding_and_no_refusal(self) -> None:
        state = self.architectures().add(*deployment("shelf", CROWDED))
        (finding,) = state.find(FindingKind.ARCHITECTURE_NOT_SELECTED)
        assert finding.object == "node label kubernetes.io/arch"
        assert [str(one) for one in finding.workloads] == ["shop/shelf (Deployment)", "shop/web (Deployment)"]
        assert "nodes of amd64, arm64" in finding.message
        assert set(state.plan().evicted) == {"shop/shelf-0", "shop/web-0"}

    @pytest.mark.parametrize("select", ["amd64", "arm64"])
    def test_a_template_that_selects_one_has_none(self, select: str) -> None:
        state = self.architectures(nodeSelector={ARCHITECTURE: select})
        assert state.find(FindingKind.ARCHITECTURE_NOT_SELECTED) == []

    def test_nor_where_all_are_the_same(self) -> None:
        assert self.architectures(c="amd64").find(FindingKind.ARCHITECTURE_NOT_SELECTED) == []

    def test_pods_that_are_ready_on_each_show_that_the_images_are_built_for_all(self) -> None:
        state = self.architectures(on=["a-0", "c-0"])
        assert state.find(FindingKind.ARCHITECTURE_NOT_SELECTED) == []
        unready(state.get("Pod", "web-1"))
        assert len(state.find(FindingKind.ARCHITECTURE_NOT_SELECTED)) == 1

    def test_a_workload_that_nothing_constrains_has_none(self) -> None:
        state = self.architectures(topologySpreadConstraints=[])
        assert state.find(FindingKind.ARCHITECTURE_NOT_SELECTED, "groups: []") == []
