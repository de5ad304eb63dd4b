"""What losing a domain breaks is what counting finds; what finds no place then, what a cluster with it silent says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from msgspec import structs

from rebalancer.assessment import domain_failures as failures_module
from rebalancer.assessment.assess import assess
from rebalancer.assessment.domain_failures import DomainFailure, simulate_failures
from rebalancer.cli.main import main
from rebalancer.creation.replacement import replacement
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import InclusionPolicy
from rebalancer.policy import Policy, default_policy
from rebalancer.scheduling.place import place
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.assessment.findings.build import shop, with_specs
from tests.assessment.findings.test_replacements import clusters
from tests.assessment.limits.test_evaluate import NETEASE
from tests.assessment.redis import AZ, CLUSTER, machines, redis
from tests.build import HEAD, a_cluster, a_policy
from tests.drawing import examples

WITHIN = f"{{name: w, within: {ZONE}, topologyKey: {HOSTNAME}, maxPods: 1}}"
SILENT = "node.kubernetes.io/unreachable"


def lost(snapshot: Snapshot, policy: Policy | None = None) -> dict[tuple[str, str], DomainFailure]:
    view = View(snapshot)
    assessment = assess(view, policy or default_policy(), NO_MEMORY)
    failures = simulate_failures(assessment.pod_groups, assessment.limits, view).failures
    return {(failure.topology_key, failure.domain): failure for failure in failures}


def policy(limits: str) -> Policy:
    """Return a policy with one group of whole workloads."""
    limits = f", limits: [{limits}]" if limits else ""
    return a_policy(f"groups: [{{name: g, selector: {{}}{limits}}}]")


def test_a_zone_that_holds_half() -> None:
    """With two of four gone no majority is left; a third of six may go."""
    failures = lost(shop(a=2, b=1, c=1))
    half = failures[ZONE, "a"]
    assert [(loss.lost, loss.total, loss.holds) for loss in half.losses] == [(2, 4, False)]
    assert half.broken == 1
    assert failures[ZONE, "b"].broken == 0
    assert [failure.broken for failure in lost(shop(a=2, b=2, c=2)).values()] == [0] * 6


def test_capacity_on_the_survivors() -> None:
    """Two nodes of three take the pods of the third if they have capacity."""
    blueprint = ClusterBuilder()
    for name in "abc":
        blueprint.node(name, cpu=500, zone=name)
    blueprint.deployment("web", on={"a": 2, "b": 2, "c": 2}, cpu=200)
    assert {failure.unplaceable for failure in lost(blueprint.snapshot()).values()} == {2}
    blueprint.deployment("tiny", on={"a": 1}, cpu=50)
    assert lost(blueprint.snapshot())[HOSTNAME, "a"].unplaceable == 2


def test_the_limits_of_the_design() -> None:
    """Of six Redis pods no zone holds more than two and no node more than one: any may go. Then one has three."""
    good = redis(machines("abc", 2), [["a1", "b1"], ["b2", "c1"], ["c2", "a2"]], zones=list("abc"))
    assert [failure.broken for failure in lost(good, NETEASE).values()] == [0] * 9
    bad = redis(machines("abc", 2), [["a1", "b1"], ["a1", "c1"], ["a1", "c2"]], zones=list("abc"))
    failures = lost(bad, NETEASE)
    assert failures[HOSTNAME, "a1"].broken == 1
    assert failures[AZ, "a"].broken == 1
    assert [failure.broken for failure in failures.values()] == sorted(
        (failure.broken for failure in failures.values()), reverse=True
    )


def test_the_report_names_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many pods it is not tried who finds a place; pods of unknown owners are counted apart."""
    made = shop(a=2, b=2, c=2)
    monkeypatch.setattr(failures_module, "MOST_PLACED", 3)
    assert sorted(failure.unplaceable is None for failure in lost(made).values()) == [False, *[True] * 5]
    orphans = replace(made, workloads=tuple(workload for workload in made.workloads if workload.kind == "Deployment"))
    assert [failure.unknown for failure in lost(orphans).values()] == [2] * 6


def test_pods_that_are_missing_do_not_survive() -> None:
    """Three of five run, one in each zone: each is needed for a majority. So is one of three that is not Ready."""
    failures = lost(
        a_cluster("abc", 1, {"a-1": 1, "b-1": 1, "c-1": 1}, name="etcd", stateful=True, replicas=5).snapshot()
    )
    assert [
        (failure.losses[0].lost, failure.losses[0].total, failure.losses[0].left) for failure in failures.values()
    ] == [(1, 5, 2)] * 6
    assert {failure.broken for failure in failures.values()} == {1}
    whole = shop(a=1, b=1, c=1)
    assert {failure.broken for failure in lost(whole).values()} == {0}
    sick = replace(whole, pods=(structs.replace(whole.pods[0], ready=False), *whole.pods[1:]))
    where = sick.pods[0].node
    failures = lost(sick)
    assert {domain for (key, domain), failure in failures.items() if key == HOSTNAME and not failure.broken} == {where}
    assert failures[HOSTNAME, str(where)].losses[0].left == 2


def test_a_lost_zone_remains_a_domain() -> None:
    """Its Node objects stay, and skew is counted from its 0 pods: 2 more than the others hold may come, no third."""
    for skew, pending in ((1, 2), (2, 2), (3, 0)):
        failures = lost(shop({ZONE: skew}, a=2, b=2, c=2))
        assert {failures[ZONE, zone].unplaceable for zone in "abc"} == {pending}
    # Where the pods say so, nodes that take no pod are no domains.
    made = shop({ZONE: 1}, a=2, b=2, c=2)
    honour = tuple(
        structs.replace(constraint, node_taints_policy=InclusionPolicy.HONOR) for constraint in made.pods[0].spec.spread
    )
    assert {failure.unplaceable for failure in lost(with_specs(made, spread=honour)).values()} == {0}


def test_each_limit_is_about_its_own_pods() -> None:
    """Two pods and one master in each zone: half of all pods and one master may go. Two masters may not."""
    rules = (
        f'{{name: half, topologyKey: {AZ}, maxShare: "<=1/2"}}, '
        f"{{name: masters, selector: {{matchLabels: {{redis-role: master}}}}, topologyKey: {AZ}, maxPods: 1}}"
    )
    both = f"groups: [{{name: g, selector: {{}}, groupBy: [{CLUSTER}], zoneKey: {AZ}, limits: [{rules}]}}]"
    good = redis(machines("abc", 2), [["a1", "b1"], ["b2", "c1"], ["c2", "a2"]])
    failures = lost(good, a_policy(both))
    assert {failure.broken for failure in failures.values()} == {0}
    assert sorted((loss.limit or "", loss.lost, loss.total) for loss in failures[AZ, "a"].losses) == [
        ("", 2, 6),
        ("masters", 1, 3),
    ]
    bad = redis(machines("abc", 2), [["a1", "b1"], ["a2", "c1"], ["c2", "b2"]])
    assert [(loss.limit, loss.lost, loss.holds) for loss in lost(bad, a_policy(both))[AZ, "a"].losses] == [
        ("masters", 2, False),
        (None, 2, True),
    ]


@pytest.mark.parametrize(
    "rules", ["", f"{{name: few, when: {{total: '>=9'}}, topologyKey: {HOSTNAME}, maxPods: 1}}", WITHIN]
)
def test_a_majority_needs_no_limit(rules: str) -> None:
    """Two of three on one node: its loss leaves no majority, whether or not a limit is in force."""
    made = a_cluster("abc", 2, {"a-1": 2, "b-1": 1}, name="etcd", stateful=True).snapshot()
    failures = lost(made, policy(rules))
    assert {where: failure.broken for where, failure in failures.items()} == {
        (HOSTNAME, "a-1"): 1,
        (ZONE, "a"): 1,
        (HOSTNAME, "b-1"): 0,
        (ZONE, "b"): 0,
    }
    view = View(made)
    assessment = assess(view, policy(rules), NO_MEMORY)
    assert simulate_failures(assessment.pod_groups, assessment.limits, view).domains == 9


@examples(100)
@given(clusters())
def test_against_a_cluster_built_with_the_domain_silent_and_without_it(made: Snapshot) -> None:
    """The same pods find no place as in snapshots whose nodes were really tainted or taken, whichever are more."""
    view = View(made)
    for (key, domain), failure in lost(made).items():
        nodes = {node.name for node in made.nodes if node.labels.get(key) == domain}
        gone = [pod for pod in made.pods if pod.node in nodes]
        others = tuple(pod for pod in made.pods if pod.node not in nodes)
        deleted = tuple(node for node in made.nodes if node.name not in nodes)
        tainted = tuple(
            structs.replace(node, ready=False, taints=(*node.taints, Taint(SILENT, TaintEffect.NO_SCHEDULE)))
            if node.name in nodes
            else node
            for node in made.nodes
        )
        coming = [
            successor
            for successor in (replacement(pod, view) for pod in gone)
            if not isinstance(successor, Unpredictable)
        ]
        assert failure.unplaceable == max(
            len(place(coming, View(replace(made, nodes=left, pods=others))).pending) for left in (deleted, tainted)
        )
        assert failure.unknown == len(gone) - len(coming)
        for loss in failure.losses:
            owned = [
                pod
                for pod in made.pods
                if {str(workload) for workload in loss.workloads} & {str(made.top_owner_of(pod))}
            ]
            there = [pod for pod in owned if pod.node in nodes]
            assert loss.lost == len(there)
            assert loss.left == sum(pod.ready for pod in owned if pod not in there)
            half = loss.total >= 3 and 2 * loss.left <= loss.total
            beyond = loss.total >= 4 and loss.lost > loss.total // 2
            assert loss.holds == (not half and not beyond)


def test_the_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """On request only; the worst first, how many domains there are, hold such pods and can be lost unharmed."""
    flags = ["report", "--snapshot", "docs/examples/zone-returned.json"]
    assert main([*flags, "--failures"]) == 0
    text = capsys.readouterr().out
    worst = text[text.index("IF LOST") :].splitlines()[1]
    assert worst.endswith("workloads shop Deployment/cart loses 3 of 6 pods (50%); 3 remain")
    assert text.endswith(
        "\n6 of 9 domains hold pods of the policy's groups. 0 of these 6 can fail without violating a limit, "
        "losing a majority or leaving a pod pending.\n"
    )
    main([*flags, "--failures", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert (len(document["failures"]), document["failureDomains"]) == (6, 9)
    main([*flags, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert (document["failures"], document["failureDomains"]) == (None, None)
    main(flags)
    assert "IF LOST" not in capsys.readouterr().out
    bare = tmp_path / "policy.yaml"
    bare.write_text(HEAD)
    main([*flags, "--failures", "--policy", str(bare)])
    assert capsys.readouterr().out.endswith("\nNone of the 6 domains holds pods of the policy's groups.\n")
