"""The worked examples of the documents this project started from, as model objects.

`cases/seed_cases.json` says what each expects; its `meta` explains the fields.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm, PodAffinity, PodAffinityTerm, Taint, TaintEffect
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodPhase, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import InclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from rebalancer.scheduling.view import View
from tests.scheduling.build import NOW, PLENTY, selector

CASES = Path(__file__).parent / "cases"


@cache
def seed_cases() -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads((CASES / "seed_cases.json").read_text())["cases"])


def view_of(case: Mapping[str, Any]) -> View:
    nodes = [
        Node(
            name=row["name"],
            labels=Labels(row["labels"]),
            taints=tuple(Taint(t["key"], TaintEffect(t["effect"]), t["value"]) for t in row.get("taints", ())),
            allocatable=PLENTY,
            created=NOW,
        )
        for row in case["nodes"]
    ]
    pods = [
        Pod(
            namespace=row["namespace"],
            name=row["name"],
            uid=row["name"],
            labels=Labels(row["labels"]),
            node=row["node"],
            phase=PodPhase.RUNNING,
            created=NOW,
        )
        for row in case["existingPods"]
    ]
    return View(Snapshot(taken_at=NOW, nodes=nodes, pods=pods))


def incoming_of(case: Mapping[str, Any]) -> Pod:
    written = case["incomingPod"]
    spec = PodSpec(
        spread=tuple(_constraint(constraint) for constraint in written.get("constraints", ())),
        node_affinity=_node_affinity(written),
        pod_affinity=PodAffinity(
            anti_required=tuple(
                PodAffinityTerm(topology_key=term["topologyKey"], selector=selector(term["labelSelector"]))
                for term in written.get("antiAffinity", ())
            )
        ),
    )
    return Pod(
        namespace=written["namespace"],
        name=written["name"],
        uid=written["name"],
        labels=Labels(written["labels"]),
        spec=spec,
        created=NOW,
    )


def _constraint(written: Mapping[str, Any]) -> SpreadConstraint:
    chosen: LabelSelector | None = None
    if written.get("labelSelector") is not None:
        chosen = selector(written["labelSelector"])
    return SpreadConstraint(
        topology_key=written["topologyKey"],
        max_skew=written["maxSkew"],
        when_unsatisfiable=WhenUnsatisfiable(written["whenUnsatisfiable"]),
        selector=chosen,
        min_domains=written.get("minDomains"),
        node_affinity_policy=InclusionPolicy(written.get("nodeAffinityPolicy", "Honor")),
        node_taints_policy=InclusionPolicy(written.get("nodeTaintsPolicy", "Ignore")),
        match_label_keys=tuple(written.get("matchLabelKeys", ())),
    )


def _node_affinity(written: Mapping[str, Any]) -> NodeAffinity:
    affinity = written.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = None
    if required is not None:
        terms = tuple(
            NodeSelectorTerm(
                tuple(
                    SelectorRequirement(
                        expression["key"], Operator(expression["operator"]), tuple(expression.get("values", ()))
                    )
                    for expression in term["matchExpressions"]
                )
            )
            for term in required["nodeSelectorTerms"]
        )
    return NodeAffinity(selector=Labels(written.get("nodeSelector", {})), required=terms)
