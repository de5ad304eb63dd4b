"""What losing a domain breaks is what counting finds; what finds no place then, what a cluster without it says."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from rebalancer.adapters.simulator import HOSTNAME, ZONE, Blueprint
from rebalancer.assessment import failures as failures_module
from rebalancer.assessment.failures import Failure, failures
from rebalancer.assessment.judgement import assess
from rebalancer.cli.main import main
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, default_policy
from rebalancer.scheduling.place import place
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from tests.assessment.findings.test_replacements import clusters, shop
from tests.assessment.redis import AZ, machines, redis
from tests.assessment.test_limits import NETEASE


def lost(snapshot: Snapshot, policy: Policy | None = None) -> dict[tuple[str, str], Failure]:
    view = View(snapshot)
    assessment = assess(view, policy or default_policy(), NO_MEMORY)
    return {(each.topology_key, each.domain): each for each in failures(assessment.limits, view)}


def test_a_zone_that_holds_half() -> None:
    """With two of four gone no majority is left; a third of six may go."""
    found = lost(shop(a=2, b=1, c=1))
    half = found[ZONE, "a"]
    assert [(loss.lost, loss.total, loss.holds) for loss in half.losses] == [(2, 4, False)]
    assert half.broken == 1
    assert found[ZONE, "b"].broken == 0
    assert [each.broken for each in lost(shop(a=2, b=2, c=2)).values()] == [0] * 6


def test_room_and_constraints_of_the_survivors() -> None:
    """Two nodes of three take the pods of the third if they have room, and if the constraints let them."""
    blueprint = Blueprint()
    for name in "abc":
        blueprint.node(name, cpu=500, zone=name)
    blueprint.deployment("web", on={"a": 2, "b": 2, "c": 2}, cpu=200)
    assert {each.unplaceable for each in lost(blueprint.snapshot()).values()} == {2}
    blueprint.deployment("tiny", on={"a": 1}, cpu=50)
    assert lost(blueprint.snapshot())[HOSTNAME, "a"].unplaceable == 2
    assert {each.unplaceable for each in lost(shop(a=2, b=2, c=2)).values()} == {0}
    assert lost(shop({ZONE: 1, HOSTNAME: 1}, a=2, b=2, c=2))[ZONE, "a"].unplaceable == 0


def test_the_limits_of_the_design() -> None:
    """Of six Redis pods no zone holds more than two and no node more than one: any may go. Then one has three."""
    good = redis(machines("abc", 2), [["a1", "b1"], ["b2", "c1"], ["c2", "a2"]], zones=list("abc"))
    assert [each.broken for each in lost(good, NETEASE).values()] == [0] * 9
    bad = redis(machines("abc", 2), [["a1", "b1"], ["a1", "c1"], ["a1", "c2"]], zones=list("abc"))
    found = lost(bad, NETEASE)
    assert found[HOSTNAME, "a1"].broken == 1
    assert found[AZ, "a"].broken == 1
    assert [each.broken for each in found.values()] == sorted((each.broken for each in found.values()), reverse=True)


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many pods it is not tried who finds a place; pods of unknown owners are counted apart."""
    made = shop(a=2, b=2, c=2)
    monkeypatch.setattr(failures_module, "MOST_PLACED", 3)
    assert sorted(each.unplaceable is None for each in lost(made).values()) == [False, *[True] * 5]
    orphans = replace(made, workloads=tuple(each for each in made.workloads if each.kind == "Deployment"))
    assert [each.unknown for each in lost(orphans).values()] == [2] * 6


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_against_a_cluster_built_without_the_domain(made: Snapshot) -> None:
    """The same pods find no place as in a snapshot from which nodes and pods were really taken."""
    view = View(made)
    for (key, domain), failure in lost(made).items():
        nodes = {node.name for node in made.nodes if node.labels.get(key) == domain}
        gone = [pod for pod in made.pods if pod.node in nodes]
        left = replace(
            made,
            nodes=tuple(node for node in made.nodes if node.name not in nodes),
            pods=tuple(pod for pod in made.pods if pod.node not in nodes),
        )
        coming = [each for each in (replacement(pod, view) for pod in gone) if not isinstance(each, Unpredictable)]
        assert failure.unplaceable == len(place(coming, View(left)).pending)
        assert failure.unknown == len(gone) - len(coming)
        for loss in failure.losses:
            there = [pod for pod in gone if {str(each) for each in loss.workloads} & {str(made.top_owner_of(pod))}]
            assert loss.lost == len(there)
            half = loss.total >= 3 and 2 * (loss.total - loss.lost) <= loss.total
            beyond = loss.total >= 4 and loss.lost > loss.total // 2
            assert loss.holds == (not half and not beyond)


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    """On request only; the worst first, and how many can be lost unharmed."""
    example = "docs/examples/zone-returned.json"
    assert main(["report", "--failures", "--snapshot", example]) == 0
    text = capsys.readouterr().out
    assert "IF LOST" in text
    assert "domains can be lost without breaking a bound, a majority or a placement." in text
    main(["report", "--snapshot", example])
    assert "IF LOST" not in capsys.readouterr().out
