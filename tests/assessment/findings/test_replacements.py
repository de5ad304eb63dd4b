"""ReplacementBlocked is reported exactly where the scheduling model leaves the replacement of some pod no node."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.reasons import FindingKind
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.assessment.findings.build import cordoned, findings, shop, with_specs
from tests.build import with_nodes
from tests.drawing import examples

KIND = FindingKind.REPLACEMENT_BLOCKED


def test_a_cordoned_zone_is_an_outage_in_waiting() -> None:
    """Even spread, nothing violated: yet what vanishes in the cordoned zone can come back nowhere."""
    (finding,) = findings(cordoned(shop(a=2, b=2, c=2), "c-1"), KIND)
    assert finding.object == "default/web (Deployment)"
    assert finding.message.startswith("if web-")
    assert finding.message.endswith(
        " on c-1 were deleted, no node would admit its replacement: of 3 nodes 2 are ruled out by a spread constraint, "
        f"1 is cordoned. Uncordon c-1, or set nodeTaintsPolicy: Honor in its constraint over {ZONE}"
    )


@pytest.mark.parametrize(
    "fine",
    [
        shop(a=2, b=2, c=2),
        shop(a=3, b=3),
        shop({ZONE: 3}, a=3, b=3),
        cordoned(shop(a=3, b=2, c=2), "a-1"),
        cordoned(shop({HOSTNAME: 5}, a=2, b=2), "c-1"),
    ],
    ids=["even", "a zone that is back", "a loose constraint", "the fullest zone", "capacity to spare"],
)
def test_what_is_no_finding(fine: Snapshot) -> None:
    """Where each replacement has a node, nothing is reported."""
    assert findings(fine, KIND) == []


def test_full_nodes_block_a_pod_of_a_cordoned_one() -> None:
    """Without any constraint, too: the nodes that admit pods are full."""
    blueprint = ClusterBuilder()
    blueprint.node("a", cpu=1_000)
    blueprint.node("b", cpu=1_000)
    blueprint.deployment("web", on={"a": 1, "b": 1}, cpu=600)
    full = blueprint.snapshot()
    assert findings(full, KIND) == []
    (finding,) = findings(cordoned(full, "b"), KIND)
    assert finding.message.endswith(": of 2 nodes 1 has not enough cpu, 1 is cordoned. Uncordon b")


def test_a_key_that_no_node_has() -> None:
    """No larger maxSkew would help: there is no domain at all."""
    (finding,) = findings(shop({f"{ZONE}e": 1}, a=1, b=1), KIND)
    assert finding.message.endswith(
        ": of 3 nodes 3 lack the label of a spread constraint. "
        f"Correct the topologyKey {ZONE}e, or label the nodes: none has it"
    )


def test_a_template_that_asks_for_more_than_its_pods_have() -> None:
    """What vanishes leaves less than its replacement needs."""
    blueprint = ClusterBuilder()
    blueprint.node("a", cpu=1_000)
    made = blueprint.deployment("web", on={"a": 1}, cpu=600)
    small = blueprint.snapshot()
    (owner,) = [workload for workload in small.workloads if workload.kind == "ReplicaSet"]
    assert owner.template is not None
    assert made.name == "web"
    larger = structs.replace(owner.template.requests, cpu=1_200)
    spec = structs.replace(owner.template.spec, requests=larger)
    grown = structs.replace(
        owner, revision="next", template=structs.replace(owner.template, requests=larger, spec=spec)
    )
    workloads = tuple(grown if workload is owner else workload for workload in small.workloads)
    assert findings(small, KIND) == []
    assert len(findings(replace(small, workloads=workloads), KIND)) == 1


def test_anti_affinity_without_a_spare_domain() -> None:
    """One for each zone: with its zone cordoned, a pod that must be alone finds none."""
    term = PodAffinityTerm(topology_key=ZONE, selector=LabelSelector.of({"app": "web"}))
    alone = with_specs(shop({ZONE: 3}, a=1, b=1, c=1), pod_affinity=PodAffinity(anti_required=(term,)))
    assert findings(alone, KIND) == []
    (finding,) = findings(cordoned(alone, "c-1"), KIND)
    assert finding.message.endswith(": of 3 nodes 2 are ruled out by its anti-affinity, 1 is cordoned. Uncordon c-1")


def test_nothing_is_reported_without_knowledge_of_nodes() -> None:
    """A pod whose place the model cannot know, an owner without pods, a cluster whose nodes were not read."""
    gated = with_specs(cordoned(shop(a=2, b=2, c=2), "c-1"), gated=True)
    assert findings(gated, KIND) == []
    assert findings(replace(cordoned(shop(a=1), "a-1"), nodes=()), KIND) == []
    assert findings(replace(cordoned(shop(a=2, b=2, c=2), "c-1"), unknown=frozenset({"Node"})), KIND) == []


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Draw two or three zones of one or two nodes, some cordoned or small, with two workloads anywhere on them."""
    blueprint = ClusterBuilder()
    names = [
        f"{zone}-{number}" for zone in "abc"[: draw(st.integers(2, 3))] for number in range(draw(st.integers(1, 2)))
    ]
    for name in names:
        blueprint.node(name, zone=name[0], cpu=draw(st.sampled_from([350, 600, 4_000])))
    for workload in ("web", "db"):
        on = draw(st.dictionaries(st.sampled_from(names), st.integers(1, 3), max_size=len(names)))
        spread = draw(st.dictionaries(st.sampled_from([ZONE, HOSTNAME]), st.integers(1, 2)))
        build = draw(st.sampled_from([blueprint.deployment, blueprint.stateful_set]))
        build(workload, on=on, spread=spread, cpu=draw(st.sampled_from([100, 300])))
    made = cordoned(blueprint.snapshot(), *draw(st.sets(st.sampled_from(names))))
    if draw(st.booleans()):
        key = draw(st.sampled_from([ZONE, HOSTNAME]))
        terms = (PodAffinityTerm(topology_key=key, selector=LabelSelector.of({"app": "db"})),)
        apart = draw(st.booleans())
        made = with_specs(made, pod_affinity=PodAffinity(anti_required=terms) if apart else PodAffinity(required=terms))
    if draw(st.booleans()):
        name = draw(st.sampled_from(names))
        labels = draw(st.sampled_from([Labels({HOSTNAME: name}), made.nodes[0].labels]))
        made = with_nodes(made, {name: {"labels": labels}})
    if draw(st.booleans()):
        other = draw(st.sampled_from([LabelSelector.of({"app": "web"}), LabelSelector(), None]))
        constraints = made.pods[0].spec.spread if made.pods else ()
        made = with_specs(made, spread=tuple(structs.replace(constraint, selector=other) for constraint in constraints))
    return made


@examples(300)
@given(made=clusters())
def test_against_every_pod(made: Snapshot) -> None:
    """A workload is reported exactly if no node could take the replacement of one of its pods."""
    view = View(made)
    expected = set()
    for pod in made.pods:
        coming = replacement(pod, view)
        if pod.node is not None and not isinstance(coming, Unpredictable) and not feasible(coming, view.without([pod])):
            expected.add(str(made.top_owner_of(pod)))
    assert {finding.object for finding in findings(made, KIND)} == expected
