"""What the limits of a policy mean for manifests, as every placement of small cases shows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule, Severity
from rebalancer.lint.ground import Ground
from rebalancer.model.labels import Labels
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, Share, Topology, load_policy
from rebalancer.simulator import ClusterBuilder
from tests.drawing import examples
from tests.lint.build import HOST, OWN, ZONE, affinity, autoscaler, deployment, manifests, patched, spread, term, text

SHARES = ["<1/3", "<=1/3", "<1/2", "<=1/2", "<=60%"]


def limited(bound: str, key: str = HOST, *, group_by: str = "Workload", **more: str) -> Policy:
    """Return a policy with one limit, `g/l`, over all pods with the same value of a label, or of a workload."""
    fields = "".join(f", {name}: {value}" for name, value in more.items())
    written = f"""
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
groups:
  - name: g
    selector: {{}}
    groupBy: [{group_by}]
    limits: [{{name: l, topologyKey: {key}, {bound}{fields}}}]
"""
    return load_policy(written.encode(), source="policy.yaml")


def found(policy: Policy, *objects: dict[str, Any], cluster: Snapshot | None = None) -> Sequence[Finding]:
    """Return the findings about limits."""
    read = manifests(text(*objects))
    about = {
        Rule.LIMIT_IMPOSSIBLE,
        Rule.LIMIT_NOT_GUARANTEED,
        Rule.SIZES_BEYOND_LIMIT,
        Rule.SIZES_WITHOUT_PLACEMENT,
        Rule.GROUPS_DEADLOCK,
        Rule.SCALE_DOWN_SKEW,
    }
    ground = Ground(cluster, read) if cluster is not None else None
    return [one for one in lint(read, ground, policy=policy) if one.rule in about]


def of(rule: Rule, findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.rule is rule]


def nodes(*zones: int) -> Snapshot:
    """Return zones with these numbers of nodes."""
    blueprint = ClusterBuilder()
    for zone, number in zip("abcdefgh", zones, strict=False):
        blueprint.zones(zone, number)
    return blueprint.snapshot()


def web(replicas: int, skew: int | None, key: str = HOST, name: str = "web", **spec: Any) -> dict[str, Any]:
    """Return a Deployment with a hard constraint of this maxSkew, None for no constraint."""
    rules: dict[str, Any] = {} if skew is None else {"topologySpreadConstraints": [spread(key, skew)]}
    made = deployment(replicas, **rules, **spec)
    return made | {"metadata": {"name": name, "namespace": "shop"}}


def placements(pods: int, domains: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to divide pods among domains."""
    return (counts for counts in product(range(pods + 1), repeat=domains) if sum(counts) == pods)


def allowed(pods: int, domains: int, skew: int | None) -> list[tuple[int, ...]]:
    """Return the placements that a constraint allows."""
    every = placements(pods, domains)
    return [one for one in every if skew is None or max(one) - min(one) <= skew]


@examples(100)
@given(
    st.sampled_from(SHARES),
    st.integers(1, 7),
    st.lists(st.integers(1, 2), min_size=1, max_size=2),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_in_a_cluster_every_placement_agrees(share: str, pods: int, zones: list[int], skew: int | None) -> None:
    """Impossible where none keeps the limit, not guaranteed where the constraint allows another; the change helps."""
    policy, cluster, cap = limited(f'maxShare: "{share}"'), nodes(*zones), Share.of(share).cap(pods)
    domains, made = sum(zones), web(pods, skew)
    findings = found(policy, made, cluster=cluster)
    fits = any(max(one) <= cap for one in placements(pods, domains))
    worst = max(max(one) for one in allowed(pods, domains, skew))
    impossible, open_ones = of(Rule.LIMIT_IMPOSSIBLE, findings), of(Rule.LIMIT_NOT_GUARANTEED, findings)
    assert [one.severity for one in impossible] == ([] if fits else [Severity.ERROR])
    assert [one.numbers["most"] for one in open_ones] == ([worst] if fits and worst > cap else [])
    for one in impossible:
        after = patched(made, one)["spec"]["replicas"]
        possible = [
            number
            for number in range(pods + 1, 2 * pods + 2)
            if -(-number // domains) <= Share.of(share).cap(number)  # the fullest domain of the most even placement
        ]
        assert after == next(iter(possible), after)
        assert after == pods or of(Rule.LIMIT_IMPOSSIBLE, found(policy, web(after, skew), cluster=cluster)) == []
    for one in open_ones:
        after = patched(made, one)
        assert of(Rule.LIMIT_NOT_GUARANTEED, found(policy, after, cluster=cluster)) == []
        (rule,) = after["spec"]["template"]["spec"]["topologySpreadConstraints"]
        looser = [max(max(n) for n in allowed(pods, domains, number)) for number in range(1, cap + 1)]
        assert [most <= cap for most in looser[rule["maxSkew"] - 1 :]] == [True] + [False] * (cap - rule["maxSkew"])


@examples(100)
@given(st.sampled_from(SHARES), st.integers(1, 7), st.one_of(st.none(), st.integers(1, 4)))
def test_without_a_cluster_every_number_of_domains_agrees(share: str, pods: int, skew: int | None) -> None:
    """An error where none is enough, not guaranteed where no number guarantees it; else how many it takes."""
    policy, cap, made = limited(f'maxShare: "{share}"'), Share.of(share).cap(pods), web(pods, skew)
    numbers = range(1, min(pods, 5) + 1)

    def guaranteed(max_skew: int | None) -> list[int]:
        return [d for d in numbers if all(max(one) <= cap for one in allowed(pods, d, max_skew))]

    fits = [d for d in numbers if any(max(one) <= cap for one in placements(pods, d))]
    findings = found(policy, made)
    open_ones, impossible = of(Rule.LIMIT_NOT_GUARANTEED, findings), of(Rule.LIMIT_IMPOSSIBLE, findings)
    if not cap:
        assert not fits
        assert [one.severity for one in impossible] == [Severity.ERROR]
        assert open_ones == []
        return
    is_guaranteed = skew is not None and skew <= cap
    if guaranteed(skew):
        assert is_guaranteed
    assert len(open_ones) == (not is_guaranteed)
    assert [one.severity for one in impossible] == ([Severity.INFO] if is_guaranteed else [])
    for one in impossible:
        assert fits[:1] in ([one.numbers["domainsNeeded"]], [])
        from_on = one.numbers.get("domainsThatGuarantee", one.numbers["domainsNeeded"])
        assert guaranteed(skew) == [d for d in numbers if d >= from_on]
    for one in open_ones:
        assert guaranteed(one.numbers["maxSkew"]) == [d for d in numbers if d >= one.numbers["domainsNeeded"]] == fits
        assert of(Rule.LIMIT_NOT_GUARANTEED, found(policy, patched(made, one))) == []


def test_the_messages_name_limit_numbers_and_the_way_out() -> None:
    scaled = (web(10, None), autoscaler(1, 10))
    (warning, note) = found(limited('maxShare: "<1/3"'), *scaled, cluster=nodes(2, 2, 2))
    assert warning.message == (
        f"limit g/l (maxShare <1/3) allows 3 of 10 pods in a domain of {HOST}, and no hard constraint guarantees it: "
        "one of 6 domains may hold 10. maxSkew 3 still allows 4, and guarantees it from 8 domains on; maxSkew 2 allows "
        "3, and guarantees it from 5 domains on"
    )
    assert (note.severity, note.sizes) == (Severity.INFO, (1, 2, 3))
    assert note.message == (
        f"no placement of 1-3 pods satisfies both limit g/l (maxShare <1/3) and maxSkew 2 over {HOST}"
    )
    (alone,) = found(limited('maxShare: "<1/3"'), web(10, None))
    assert alone.message.endswith(
        "10. maxSkew 3 guarantees it from 8 domains on; maxSkew 1 guarantees it from 4 domains on"
    )
    (error,) = found(limited('maxShare: "<1/3"'), web(3, None), cluster=nodes(2, 2, 2))
    assert error.message == (
        "limit g/l (maxShare <1/3) allows none of 3 pods in a domain, so every placement violates it. Raise replicas "
        "until it counts 4 or allow more in the policy"
    )
    (error,) = found(limited("maxPods: 2"), web(7, 1), cluster=nodes(1, 1, 1))
    assert error.message == (
        f"limit g/l (maxPods 2) allows 2 of 7 pods in a domain of {HOST}: it takes 4 domains, and the cluster has 3. "
        f"Add nodes with another value of {HOST} or allow more in the policy"
    )
    (note,) = found(limited("maxPods: 3"), web(7, 3))
    assert note.message == (
        f"limit g/l (maxPods 3) allows 3 of 7 pods in a domain of {HOST}: it takes at least 3 domains, and maxSkew 3 "
        "guarantees it from 5 on"
    )


def test_pods_of_several_workloads_are_counted_together() -> None:
    """Each of them needs the constraint: one finding each; when all have it, there is none."""
    policy = limited("maxPods: 2", group_by="app")
    made = [web(3, None, name=name) for name in ("web", "api")]
    findings = of(Rule.LIMIT_NOT_GUARANTEED, found(policy, *made, cluster=nodes(2, 2)))
    assert [one.manifest.name for one in findings] == ["web", "api"]
    assert {one.numbers["pods"] for one in findings} == {6}
    assert findings[0].patch[0].value[0]["labelSelector"] == OWN
    after = [patched(one, finding) for one, finding in zip(made, findings, strict=True)]
    assert of(Rule.LIMIT_NOT_GUARANTEED, found(policy, made[0], after[1], cluster=nodes(2, 2))) != []
    assert of(Rule.LIMIT_NOT_GUARANTEED, found(policy, *after, cluster=nodes(2, 2))) == []


def test_pods_of_the_cluster_that_belong_to_the_same_limit_count() -> None:
    """Those of a workload that is no manifest of the call."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", namespace="shop", on={"a-0": 2, "b-0": 1})
    policy, made = limited("maxPods: 2", group_by="app"), web(2, None, name="api")
    (error, *_) = found(policy, made, cluster=blueprint.snapshot())
    assert (error.rule, error.numbers["pods"], error.numbers["domains"]) == (Rule.LIMIT_IMPOSSIBLE, 5, 2)


@pytest.mark.parametrize(
    ("made", "guaranteed"),
    [
        (web(4, 2, ZONE), True),  # no node holds more than its zone
        (web(4, None, affinity=affinity(apart=[term()])), True),
        (web(4, None, affinity=affinity(apart=[term(ZONE)])), True),
        (web(4, None, affinity=affinity(apart=[term(labelSelector={"matchLabels": {"app": "db"}})])), False),
        (web(4, 3), False),
        (deployment(4, topologySpreadConstraints=[spread(HOST, hard=False)]), False),
        (deployment(4, topologySpreadConstraints=[spread(HOST, labelSelector={"matchLabels": {"a": "b"}})]), False),
    ],
)
def test_without_a_cluster_other_rules_guarantee_a_limit_too(made: dict[str, Any], *, guaranteed: bool) -> None:
    """A constraint over zones, and anti-affinity to the own pods; nothing soft, and nothing about other pods."""
    assert bool(of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 2"), made))) is not guaranteed


def test_a_constraint_over_nodes_guarantees_nothing_over_zones() -> None:
    assert of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 2", ZONE), web(4, 1)))
    assert of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 2", ZONE), web(4, 1), cluster=nodes(2, 2)))


def test_a_constraint_over_zones_guarantees_nothing_over_racks() -> None:
    """That racks lie in zones is not known, as it is of nodes."""
    assert of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 2", "example.com/rack"), web(4, 1, ZONE)))


def test_a_constraint_of_one_revision_does_not_count_the_pods_of_several_workloads() -> None:
    """Each has a hash of its own; of one workload it counts all pods, once a rollout has ended."""
    rule = spread(HOST, matchLabelKeys=["pod-template-hash"])
    made = [
        deployment(2, topologySpreadConstraints=[rule]) | {"metadata": {"name": name, "namespace": "shop"}}
        for name in ("web", "api")
    ]
    assert of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 1", group_by="app"), *made))
    assert of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 1", group_by="app"), made[0])) == []


def test_a_limit_over_living_pods_counts_those_that_are_wanted() -> None:
    """They live once the manifest is deployed."""
    findings = found(limited("maxPods: 2", of="live"), web(4, None), cluster=nodes(2, 2))
    assert of(Rule.LIMIT_NOT_GUARANTEED, findings)[0].numbers["pods"] == 4


def test_where_another_hard_constraint_is_in_its_place_there_is_no_change() -> None:
    """The API server takes one for each key; of a looser one the maxSkew is replaced."""
    other = deployment(4, topologySpreadConstraints=[spread(HOST, labelSelector={"matchLabels": {"a": "b"}})])
    assert of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 2"), other))[0].patch == ()
    (looser,) = of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 2"), web(4, 3)))
    assert [(one.op, one.path[-1], one.value) for one in looser.patch] == [("replace", "maxSkew", 1)]
    (second,) = of(Rule.LIMIT_NOT_GUARANTEED, found(limited("maxPods: 2"), web(4, 4, ZONE)))
    assert [(one.op, one.path[-1]) for one in second.patch] == [("add", 1)]


def test_a_limit_for_a_number_of_zones_says_so_where_they_are_not_known() -> None:
    """And is no error then; in a cluster it applies or not."""
    policy = limited('maxShare: "<1/3"', when='{zones: ">=3"}')
    (warning,) = found(policy, web(3, None))
    assert warning.severity is Severity.WARNING
    assert warning.message.startswith("limit g/l (maxShare <1/3; where zones is >=3) allows none of 3 pods")
    assert found(policy, web(3, None), cluster=nodes(2, 2)) == []
    assert found(policy, web(3, None), cluster=nodes(1, 1, 1))[0].severity is Severity.ERROR


def test_what_is_not_proved_is_no_error() -> None:
    """Pods on a node without the key are not counted, and a zone without nodes may get some."""
    policy, cluster = limited("maxPods: 2", ZONE), nodes(1, 1)
    (error,) = found(policy, web(5, 1, ZONE), cluster=cluster)
    assert error.severity is Severity.ERROR
    without = structs.replace(cluster.nodes[-1], name="x", labels=Labels({HOST: "x"}))
    bare = replace(cluster, nodes=(*cluster.nodes, without))
    (warning,) = found(policy, web(5, 1, ZONE), cluster=bare)
    assert warning.severity is Severity.WARNING
    declared = policy.model_copy(update={"topology": Topology(domains={ZONE: ("a", "b", "c")})})
    (warning,) = found(declared, web(5, 1, ZONE), cluster=cluster)
    assert warning.severity is Severity.WARNING
    assert "it takes 3 domains, and only 2 of 3 have a node. Add nodes" in warning.message


def test_what_a_policy_says_of_no_manifest_is_not_said() -> None:
    """Nor of other bounds, of named domains, within larger ones, or below the total from which it applies."""
    assert found(limited("maxPods: 2", ZONE, domains="[a, b]"), web(4, None)) == []
    assert found(limited("minPods: 1"), web(4, None)) == []
    assert found(limited("maxSkew: 1"), web(4, None)) == []
    assert found(limited("maxPods: 2", within=ZONE), web(4, None)) == []
    assert found(limited("maxPods: 2", when='{total: ">=5"}'), web(4, None)) == []
    assert found(limited("maxPods: 4"), web(4, None)) == []
    assert found(limited("maxPods: 2"), web(0, None)) == []


UNEVEN = limited('maxShare: "<=40%"')


def test_sizes_that_two_constraints_leave_without_a_placement_are_listed() -> None:
    """Fourteen are 7 and 7 by zone, 3 and 7 by node; the change that is named leaves no such size."""
    made = deployment(20, topologySpreadConstraints=[spread(ZONE), spread(HOST, 3)])
    without, unreached = of(Rule.SIZES_WITHOUT_PLACEMENT, found(UNEVEN, made, cluster=nodes(2, 1)))
    assert (without.severity, without.sizes) == (Severity.WARNING, (14, 16, 17, 18, 19, 20))
    assert (unreached.severity, unreached.sizes) == (Severity.INFO, (15,))
    assert without.message == (
        f"with maxSkew 3 over {HOST} and 1 over {ZONE} these numbers of pods have no placement: 14, 16-20. Add a node "
        "in the smallest zone: then each number has one"
    )
    assert of(Rule.SIZES_WITHOUT_PLACEMENT, found(UNEVEN, made, cluster=nodes(2, 2))) == []


def test_where_zones_differ_too_much_the_last_change_is_named() -> None:
    """Zones of one, five and nine nodes: a second node in the first does not bring it near the others."""
    policy = limited('maxShare: "<=1/10"')
    (one, *_) = of(Rule.SIZES_WITHOUT_PLACEMENT, found(policy, web(60, 1, ZONE), cluster=nodes(1, 5, 9)))
    assert one.message.endswith("ScheduleAnyway: then each number has one")


def test_sizes_that_nobody_chooses_are_not_listed() -> None:
    """Without an autoscaler the written number alone counts, with one what it may choose, also more than is written."""
    policy, cluster = limited('maxShare: "<=1/3"'), nodes(1, 1, 1)
    assert of(Rule.SIZES_BEYOND_LIMIT, found(policy, web(60, 1), cluster=cluster)) == []
    (note,) = of(Rule.SIZES_BEYOND_LIMIT, found(policy, web(6, 1), autoscaler(4, 8), cluster=cluster))
    assert note.sizes == (4, 5, 7, 8)
    (alone,) = of(Rule.SIZES_BEYOND_LIMIT, found(limited('maxShare: "<1/3"'), web(6, 1), autoscaler(2, 4)))
    assert (alone.sizes, alone.message) == (
        (2, 3),
        "of 2-3 pods limit g/l (maxShare <1/3) allows none in a domain",
    )


def test_many_sizes_are_counted_and_listed_in_the_document() -> None:
    """With "<=1/3" over three nodes, all but the multiples of three."""
    scaled = (web(60, 1), autoscaler(1, 60))
    assert found(limited('maxShare: "<=1/3"'), web(60, 1), autoscaler(1, 2_000_000_000)), "it ends"
    (note,) = of(Rule.SIZES_BEYOND_LIMIT, found(limited('maxShare: "<=1/3"'), *scaled, cluster=nodes(1, 1, 1)))
    assert note.sizes == tuple(size for size in range(1, 61) if size % 3)
    assert note.message.startswith(
        "no placement of 1-2, 4-5, 7-8, 10-11, 13-14, 16-17, 19-20, 22-23, 25-26, 28-29, 31-32, 34-35 and 16 more "
    )


def shards(number: int, size: int, skew: int | None = 1) -> list[dict[str, Any]]:
    """Return groups of pods, each kept apart over zones by its own anti-affinity."""
    made = []
    for name in map(str, range(number)):
        own = {"matchLabels": {"shard": name}}
        apart = affinity(apart=[term(ZONE, labelSelector=own)])
        labels = {"app": "web", "shard": name}
        made.append(web(size, skew, name=f"web-{name}", labels=labels, selector=own, affinity=apart))
    return made


def test_groups_that_can_block_each_other_are_found() -> None:
    """Three shards of two in three zones of two nodes: 96 of 480 orders with maxSkew 1, none with maxSkew 2."""
    policy, cluster = limited("maxPods: 1", group_by="app"), nodes(2, 2, 2)
    (warning,) = of(Rule.GROUPS_DEADLOCK, found(policy, *shards(3, 2), cluster=cluster))
    assert warning.message == (
        f"with maxSkew 1 over {HOST}, 3 groups of 2 with anti-affinity can deadlock: 96 of 480 scheduler outcomes "
        "leave a pod pending. With maxSkew 2 none does"
    )
    assert warning.numbers == {"groups": 3, "groupSize": 2, "ways": 480, "stuck": 96, "freeFrom": 2}
    loose = limited("maxPods: 2", group_by="app")
    assert of(Rule.GROUPS_DEADLOCK, found(loose, *shards(3, 2, 2), cluster=cluster)) == []
    assert of(Rule.GROUPS_DEADLOCK, found(policy, *(web(2, 1, name=name) for name in "abc"), cluster=cluster)) == []
    of_all = [web(2, 1, name=name, affinity=affinity(apart=[term(ZONE)])) for name in "abc"]
    assert of(Rule.GROUPS_DEADLOCK, found(policy, *of_all, cluster=cluster)) == []
    (note,) = of(
        Rule.GROUPS_DEADLOCK, found(limited("maxPods: 9", group_by="app"), *shards(30, 2), cluster=nodes(4, 4, 4))
    )
    assert note.message.endswith(": too many placements to search for deadlocks")
    assert note.severity is Severity.INFO
