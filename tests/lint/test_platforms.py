"""Nodes of several architectures or operating systems that a template leaves to the scheduler."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Operation, Rule
from rebalancer.lint.ground import Ground
from rebalancer.model.labels import Labels
from rebalancer.model.nodes import ARCHITECTURE, SYSTEM
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import deployment, manifests, patched, text


def cluster(key: str, *values: str, zones: str = "abc") -> Snapshot:
    """Return as many nodes in each zone as there are values of a label, one of each."""
    blueprint = ClusterBuilder()
    blueprint.zones(zones, len(values))
    made = blueprint.snapshot()
    nodes = [
        structs.replace(node, labels=Labels({**node.labels, key: values[number % len(values)]}))
        for number, node in enumerate(sorted(made.nodes, key=lambda node: node.name))
    ]
    return replace(made, nodes=tuple(nodes))


def mixed(snapshot: Snapshot, made: dict[str, Any]) -> list[Finding]:
    read = manifests(text(made))
    return [one for one in lint(read, Ground(snapshot, read)) if one.rule is Rule.MIXED_PLATFORMS]


def test_nodes_of_several_architectures_are_a_note_with_their_numbers() -> None:
    made = deployment(3)
    (one,) = mixed(cluster(ARCHITECTURE, "amd64", "arm64", "amd64"), made)
    assert (one.severity.value, one.message) == (
        "info",
        (
            "its pods may go to nodes of several architectures, and the template names no kubernetes.io/arch: 6 nodes "
            "with amd64, 3 nodes with arm64. An image that is not made for one of them does not start there; select "
            "what it is made for"
        ),
    )
    path = ("spec", "template", "spec", "nodeSelector")
    assert one.patch == (Operation("add", path, {ARCHITECTURE: "amd64"}),)
    assert one.patch[0].pointer_in(one.manifest) == "/spec/template/spec/nodeSelector"
    assert mixed(cluster(ARCHITECTURE, "amd64", "arm64", "amd64"), patched(made, one)) == []


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def requiring(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


BOTH = {"matchExpressions": [{"key": ARCHITECTURE, "operator": "In", "values": ["amd64", "arm64"]}]}
OF_ZONES = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        ({"nodeSelector": {ARCHITECTURE: "arm64"}}, 0),
        (requiring(BOTH), 0),
        (requiring(BOTH, OF_ZONES), 1),
        (requiring(OF_ZONES), 1),
    ],
)
def test_a_template_that_names_the_label_has_chosen(spec: dict[str, Any], number: int) -> None:
    assert len(mixed(cluster(ARCHITECTURE, "amd64", "arm64"), deployment(3, **spec))) == number


def test_of_equally_many_nodes_none_is_selected() -> None:
    (one,) = mixed(cluster(ARCHITECTURE, "amd64", "arm64"), deployment(3))
    assert one.patch == ()


def test_nodes_of_several_operating_systems_are_a_warning_and_those_of_the_pods_are_selected() -> None:
    nodes = cluster(SYSTEM, "linux", "windows", "windows")
    (one,) = mixed(nodes, deployment(3))
    assert one.severity.value == "warning"
    assert one.patch[0].value == {SYSTEM: "windows"}
    (one,) = mixed(nodes, deployment(3, os={"name": "linux"}))
    assert one.patch[0].value == {SYSTEM: "linux"}
    assert mixed(nodes, deployment(3, nodeSelector={"kubernetes.io/hostname": "a-1"})) == []


def test_a_selector_that_leaves_pods_without_a_node_is_no_change() -> None:
    """Two nodes of 16 cores take two pods, or leave one without a node where a zone is lost, and four take three."""
    large = [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "9"}}}]
    nodes = cluster(ARCHITECTURE, "amd64", "arm64", "amd64", zones="a")
    (one,) = mixed(nodes, deployment(3, containers=large))
    assert one.patch == ()
    (one,) = mixed(nodes, deployment(2, containers=large))
    assert one.patch[0].value == {ARCHITECTURE: "amd64"}
    (one,) = mixed(cluster(ARCHITECTURE, "amd64", "arm64", "amd64", zones="ab"), deployment(3, containers=large))
    assert one.patch == ()


def test_one_platform_is_no_news() -> None:
    assert mixed(cluster(ARCHITECTURE, "amd64"), deployment(3)) == []
    assert mixed(cluster(ARCHITECTURE, "amd64", "arm64"), deployment(0)) == []
