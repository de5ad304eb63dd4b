"""Every worked example of the seed documents, each as its own test."""

from collections.abc import Mapping
from typing import Any

import pytest

from rebalancer.scheduling import pod_topology_spread_score
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.pod_topology_spread import PodTopologySpread, constraints_of, counts
from rebalancer.scheduling.predict import predict
from tests.acceptance.seed import incoming_of, seed_cases, view_of

Case = Mapping[str, Any]


def having(field: str) -> pytest.MarkDecorator:
    cases = [case for case in seed_cases() if field in case]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def test_all_fifty_examples_are_here() -> None:
    assert len(seed_cases()) == 50
    assert all("expected" in case or "expectedScores" in case for case in seed_cases())


@having("expected")
def test_spread_judges_each_node_as_the_seed_says(case: Case) -> None:
    spread = PodTopologySpread(incoming_of(case), view_of(case))
    assert {node: spread.verdict(node).code.value for node in case["expected"]} == case["expected"]


@having("expected")
def test_the_fast_path_admits_the_same_nodes(case: Case) -> None:
    view = view_of(case)
    admitted = PodTopologySpread(incoming_of(case), view).admit(view.nodes.names)
    assert admitted == {node for node, code in case["expected"].items() if code == "Success"}


@having("expectedCounts")
def test_pods_are_counted_by_domain_as_the_seed_says(case: Case) -> None:
    pod, view = incoming_of(case), view_of(case)
    counted = [dict(counts(constraint, pod, view).by_domain) for constraint in constraints_of(pod, view).hard]
    assert counted == case["expectedCounts"]


@having("actualSkew")
def test_each_domain_has_the_skew_the_seed_says(case: Case) -> None:
    pod, view = incoming_of(case), view_of(case)
    constraints = constraints_of(pod, view)
    counted = counts((constraints.hard or constraints.soft)[0], pod, view)
    assert {value: counted.skew_of(value) for value in counted.by_domain} == case["actualSkew"]


@having("expectedFeasible")
def test_the_scheduler_as_a_whole_admits_the_nodes_the_seed_says(case: Case) -> None:
    pod, view = incoming_of(case), view_of(case)
    assert feasible(pod, view) == set(case["expectedFeasible"])
    assert predict(pod, view).feasible == set(case["expectedFeasible"])


@having("expectedScores")
def test_the_soft_constraints_score_the_nodes_as_the_seed_says(case: Case) -> None:
    view = view_of(case)
    assert pod_topology_spread_score.score(incoming_of(case), view, case["candidateNodes"]) == case["expectedScores"]
