"""Scenario files: changes with their times, and a cluster, a policy and a story beside them."""

from collections import Counter
from datetime import timedelta

import pytest

from rebalancer.simulator import START, ZONE
from rebalancer.simulator.play import Play
from rebalancer.simulator.scenario import SHIPPED, ScenarioError, load_scenario, shipped_scenario
from rebalancer.simulator.story import Story


def test_a_scenario_is_a_list_of_changes_in_order() -> None:
    """Each with the text of its flag; `wait` is a time instead of until nothing moves."""
    text = b"""\
steps:
  - removeDomain: topology.kubernetes.io/zone=a
  - {cordon: b-1, wait: 10m}
  - addNode: c-1=topology.kubernetes.io/zone=c
"""
    changes = load_scenario(text, "night.yaml").steps
    assert [change.text for change in changes] == [f"remove-domain {ZONE}=a", "cordon b-1", f"add-node c-1={ZONE}=c"]
    assert [change.wait for change in changes] == [None, timedelta(minutes=10), None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "night.yaml:1: "),
        ("steps: []", "night.yaml:1: expected steps"),
        ("step: []", "night.yaml:1: found step, expected steps only"),
        ("steps:\n  - cordon: a-1\n  - cordn: a-2", "night.yaml:3: found cordn, expected one of"),
        ("steps:\n  - cordn: a-2", "did you mean cordon?"),
        ("steps:\n  - a-2", "night.yaml:2: found 'a-2', expected a mapping"),
        ("steps:\n  - {cordon: a-1, removeNode: a-2}", "night.yaml:2: found 2 changes in one step"),
        ("steps:\n  - {wait: 10m}", "night.yaml:2: found 0 changes in one step"),
        ("steps:\n  - {cordon: 3}", "night.yaml:2: cordon: found 3"),
        ("steps:\n  - {cordon: 'A B'}", "night.yaml:2: cordon: found 'A B', expected the name of a node"),
        ("steps:\n  - {cordon: a, wait: 10}", "night.yaml:2: wait: found 10, expected a duration"),
        ("steps:\n  - {cordon: a, wait: soon}", "night.yaml:2: wait: found 'soon', expected"),
        ("steps:\n  - {cordon: a, after: 10}", "night.yaml:2: after: found 10, expected a duration"),
        ("steps:\n  - {cordon: a, inRepair: 1}", "night.yaml:2: inRepair: found 1, expected true or false"),
        ("steps:\n  - {cordon: a, says: ''}", "night.yaml:2: says: found '', expected text"),
        ("steps:\n  - cordon: a\npace: 0", "night.yaml:3: pace: found 0, expected simulated seconds"),
        ("steps:\n  - cordon: a\npace: fast", "night.yaml:3: pace: found 'fast', expected simulated seconds"),
        ("steps:\n  - cordon: a\npolicy: {mode: Evict}", "night.yaml:3: policy: expected the text of a policy"),
        ("steps:\n  - cordon: a\npolicy: 'mode: Evict'", "night.yaml:3: policy: policy:1: "),
        ("steps:\n  - cordon: a\ncluster: {}", "night.yaml:3: cluster: Object missing required field `zones`"),
        ("steps:\n  - cordon: a\ncluster: {zones: {a: x}}", "night.yaml:3: cluster: Expected `int`, got `str`"),
        ("begin: x\nsteps:\n  - cordon: a", "night.yaml:1: found begin, expected steps only, or also cluster"),
        ("begin: x\nsteps:\n  - cordon: a", "did you mean begins?"),
        ("steps: [", "night.yaml:"),
        ("steps:\n  - {cordon: a, cordon: b}", "night.yaml:2: "),
    ],
)
def test_a_scenario_that_is_none_names_file_line_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(text.encode(), "night.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize("data", [b"\xff", b"#" * (1024 * 1024 + 1)])
def test_a_file_that_is_no_text_or_too_large_is_refused(data: bytes) -> None:
    with pytest.raises(ScenarioError, match=r"night\.yaml:1: "):
        load_scenario(data, "night.yaml")


CLUSTER = """\
cluster:
  zones: {a: 1, b: 2}
  workloads:
  - {kind: Deployment, name: web, pods: {a-1: 2, b-2: 1}, spread: {topology.kubernetes.io/zone: 1}}
  - {kind: StatefulSet, name: db, namespace: data, replicas: 3, budget: {minAvailable: 50%}}
policy: |
  apiVersion: rebalancer.dev/v1alpha1
  kind: RebalancePolicy
  mode: Evict
  spread: {for: 30s}
  nodes: {settle: 10s}
"""


def play_of(steps: str) -> Play:
    return load_scenario(f"{CLUSTER}steps:\n{steps}".encode(), "file").play(seed=1)


def test_a_scenario_describes_its_cluster() -> None:
    """Nodes are named after their zones; running pods are where they are written, the others are created."""
    snapshot = load_scenario(f"{CLUSTER}steps: [cordon: b-1]".encode(), "file").snapshot
    assert snapshot is not None
    assert {node.name: node.labels[ZONE] for node in snapshot.nodes} == {"a-1": "a", "b-1": "b", "b-2": "b"}
    assert Counter(pod.node for pod in snapshot.pods) == {"a-1": 2, "b-2": 1}
    replicas = {(top.namespace, top.name): top.replicas for top in snapshot.workloads if top.owner is None}
    assert replicas == {("default", "web"): 3, ("data", "db"): 3}
    (budget,) = snapshot.budgets
    assert (budget.name, budget.min_available) == ("db", "50%")


def test_a_change_is_made_at_its_time() -> None:
    """Whether or not something still moves; what the loop does before it is a step of its own."""
    play = play_of("- {cordon: b-1, after: 20s}\n- {cordon: b-2, after: 25s}")
    assert [step.at.total_seconds() for step in play.run().steps] == [0, 20, 25]


def test_a_change_in_the_repair_counts_from_the_first_eviction() -> None:
    play = play_of(
        f"- {{removeDomain: {ZONE}=b, after: 10s}}\n- {{restoreDomain: {ZONE}=b, after: 2m}}\n"
        "- {scale: default/deployment/web=4, after: 3s, inRepair: true}"
    )
    outcome = play.run()
    first = min(event.at for event in outcome.events if event.what == "Evicted")
    assert first > timedelta(minutes=2)
    assert outcome.steps[-1].at == first + timedelta(seconds=3)


def test_without_a_repair_the_change_is_made_once_nothing_moves() -> None:
    play = play_of("- {cordon: b-1, after: 20s}\n- {cordon: b-2, after: 3s, inRepair: true}")
    outcome = play.run()
    assert outcome.evictions == 0
    assert outcome.steps[-1].at >= timedelta(seconds=80)


def test_a_pause_of_a_scenario_stops_evictions_at_once() -> None:
    """Until it is ended; the controller knows of it before it wants to evict anything."""
    play = play_of(
        f"- {{removeDomain: {ZONE}=b, after: 10s}}\n- {{restoreDomain: {ZONE}=b, after: 2m}}\n"
        '- {pause: "alice: a test", after: 130s}\n- {resume: alice, after: 10m}'
    )
    for _ in play.advance():
        if play.cluster.now >= START + timedelta(seconds=131):
            break
    assert play.state.in_force.pause is not None
    evicted = [event.at for event in play.run().events if event.what == "Evicted"]
    assert evicted
    assert min(evicted) >= timedelta(minutes=10)


def test_a_story_has_the_scenarios_words() -> None:
    """Each from its change on."""
    text = f"{CLUSTER}begins: Once\npace: 0.5\nsteps: [{{cordon: b-1, after: 20s, says: Watch b-1}}]"
    scenario = load_scenario(text.encode(), "file")
    story = Story(scenario, scenario.play(seed=1))
    assert (story.scene, scenario.pace) == ("Once", 0.5)
    lines = [line for lines in story.advance() for line in lines]
    assert ("Watch b-1", timedelta(seconds=20)) in [(line.text, line.at) for line in lines if line.is_scene]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_bring_all_that_they_need(name: str) -> None:
    scenario = shipped_scenario(name)
    assert scenario.snapshot is not None
    assert scenario.policy is not None
