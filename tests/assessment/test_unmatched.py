"""References of the policy to objects that do not exist are reported with a suggestion, and nothing else is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.assessment.findings import Finding
from rebalancer.assessment.name_hints import nearest_key, nearest_name
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.model.cluster import Namespace
from rebalancer.model.labels import Labels
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import FindingKind
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, Topology, default_policy, load_policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE
from tests.assessment.redis import AZ, machines, redis
from tests.build import a_cluster
from tests.drawing import examples
from tests.reports import all_findings
from tests.scheduling.build import node, pod

NETEASE = load_policy(
    (Path(__file__).parents[2] / "config" / "examples" / "netease.yaml").read_bytes(), source="netease.yaml"
)


def shop() -> Snapshot:
    """Return two Deployments in two namespaces, on two nodes in each of two zones."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("web", on={"a-1": 2, "b-1": 2}, namespace="shop")
    blueprint.deployment("db", on={"a-2": 1, "b-2": 1}, namespace="data")
    return blueprint.snapshot()


SHOP = shop()
"""Its pods have the labels app and pod-template-hash, its nodes kubernetes.io/hostname and the zone's."""

LIMIT = {"name": "l", "maxPods": 9, "topologyKey": ZONE}
APP_WEB = {"matchLabels": {"app": "web"}}


def policy(*groups: dict[str, Any]) -> Policy:
    """Read a policy of groups `g0`, `g1` and so on, of all pods where nothing else is said."""
    made = [{"name": f"g{at}", "selector": {}, **fields} for at, fields in enumerate(groups)]
    document = {"apiVersion": "rebalancer.dev/v1alpha1", "kind": "RebalancePolicy", "groups": made}
    return load_policy(json.dumps(document).encode(), source="policy.json")


def limited(**fields: Any) -> dict[str, Any]:
    """Write a group with one limit."""
    return {"limits": [{**LIMIT, **fields}]}


def messages(snapshot: Snapshot, policy: Policy) -> list[str]:
    """Return the message of everything that the policy references and the cluster lacks."""
    view = View(snapshot)
    return [entry.message for entry in find_unmatched(view, assess(view, policy, NO_MEMORY), policy)]


def zone_keys(snapshot: Snapshot, policy: Policy) -> list[str]:
    """Return the messages about a zone key."""
    return [message for message in messages(snapshot, policy) if "zoneKey" in message]


def missing_keys(snapshot: Snapshot, policy: Policy) -> list[Finding]:
    """Return the findings about topology keys that no node has."""
    view = View(snapshot)
    findings = all_findings(view, assess(view, policy, NO_MEMORY), policy)
    return [finding for finding in findings if finding.kind is FindingKind.TOPOLOGY_KEY_MISSING]


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "app", "operator": operator, "values": list(values)}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "a selector's key": (
        {"selector": {"matchLabels": {"ap": "web"}}},
        "group g0: selector ap=web selects no pod: none has the label ap; did you mean app?",
    ),
    "a selector's value": (
        {"selector": {"matchLabels": {"app": "cache"}}},
        "group g0: selector app=cache selects no pod: none is app=cache",
    ),
    "a selector's value that is near": (
        {"selector": {"matchExpressions": [expression("In", "webb")]}},
        "group g0: selector app=webb selects no pod: none is app=webb; did you mean app=web?",
    ),
    "conditions that no pod meets together": (
        {"selector": {"matchExpressions": [expression("In", "web"), expression("NotIn", "web")]}},
        "group g0: selector app=web,app!=web selects no pod: no pod meets all conditions",
    ),
    "a namespace": (
        {"namespaces": {"include": ["shp"]}},
        "group g0: namespaces.include shp matches no namespace; did you mean shop?",
    ),
    "one glob of two": (
        {"namespaces": {"include": ["shop", "team-*"]}},
        "group g0: namespaces.include team-* matches no namespace",
    ),
    "a namespace of other pods": (
        {"selector": APP_WEB, "namespaces": {"include": ["data"]}},
        "group g0: selector app=web selects no pod: none is app=web",
    ),
    "a label to group by": (
        {"groupBy": ["apps"]},
        "group g0: groupBy apps is a label of no pod that is selected; did you mean app?",
    ),
    "the zone's key": ({"zoneKey": AZ}, f"group g0: zoneKey {AZ} is a label of none of 4 nodes; did you mean {ZONE}?"),
    "a topology key": (
        limited(topologyKey="kubernetes.io/host"),
        f"group g0, limit l: topologyKey kubernetes.io/host is a label of none of 4 nodes; did you mean {HOSTNAME}?",
    ),
    "a topology key like no other": (
        limited(topologyKey="example.com/rack", when={"zones": 2}),
        "group g0, limit l: topologyKey example.com/rack is a label of none of 4 nodes",
    ),
    "the key of larger domains": (
        limited(topologyKey=HOSTNAME, within="zone"),
        f"group g0, limit l: within zone is a label of none of 4 nodes; did you mean {ZONE}?",
    ),
    "a limit's selector": (
        limited(selector={"matchLabels": {"role": "master"}}),
        "group g0, limit l: selector role=master selects no pod: none has the label role",
    ),
    "a limit's groupBy": (
        limited(groupBy=["shard", "app"]),
        "group g0, limit l: groupBy shard is a label of no pod that is selected",
    ),
    "domains": (limited(domains=["a", "zone-b"]), f"group g0, limit l: domains zone-b is the {ZONE} of no node"),
}

MATCHING = {
    "selector": APP_WEB,
    "namespaces": {"include": ["sh*"]},
    "groupBy": ["app"],
    **limited(domains=["a"], within=HOSTNAME, groupBy=["app"], selector=APP_WEB),
}


@pytest.mark.parametrize(("fields", "message"), CASES.values(), ids=CASES)
def test_what_matches_nothing_is_messages(fields: dict[str, Any], message: str) -> None:
    """Group, limit, field and value, and the nearest that there is; beside it a group that matches says nothing."""
    assert messages(SHOP, policy(fields, MATCHING)) == [message]


def test_what_matches_is_not_messages() -> None:
    """Every field that can match nothing, each with something that it matches."""
    assert messages(SHOP, policy(MATCHING)) == []


def test_a_domain_that_the_policy_declares_exists() -> None:
    """Although no node carries it now."""
    declared = policy(limited(domains=["a", "c"])).model_copy(update={"topology": Topology(domains={ZONE: ("c",)})})
    assert messages(shop(), declared) == []
    assert len(messages(shop(), policy(limited(domains=["a", "c"])))) == 1


def test_labels_that_no_pod_has_together() -> None:
    """Each is there, and still no group comes of them."""
    pods = [
        structs.replace(pod, labels=Labels({**pod.labels, "tier" if pod.namespace == "shop" else "team": "x"}))
        for pod in SHOP.pods
    ]
    reported = messages(replace(SHOP, pods=pods), policy({"groupBy": ["tier", "team"]}))
    assert reported == ["group g0: groupBy [tier, team] are labels that no selected pod has together"]


@pytest.mark.parametrize("zones", ["", "ab"], ids=["without zones", "with zones"])
def test_the_shipped_policy_is_silent_in_an_ordinary_cluster(zones: str) -> None:
    """With zones or without: its limit over zones asks for two of them."""
    names = [("n1", "a"), ("n2", "b")]
    nodes = tuple(node(name, {ZONE: zone} if zones else {}) for name, zone in names)
    assert messages(Snapshot(taken_at=SHOP.taken_at, nodes=nodes, pods=SHOP.pods), default_policy()) == []
    assert messages(SHOP, default_policy()) == []


def test_kubernetes_own_zone_key_is_suggested_where_a_limit_waits_for_it() -> None:
    """Nodes that name their zones otherwise, or a limit for a single zone: either is idle, and looks satisfied."""
    named, bare = (machines("ab", 1), [node("n1"), node("n2")])
    pods = tuple(pod({"app": "web"}, on=node_name) for node_name in ("a1", "n1"))
    clusters = [Snapshot(taken_at=SHOP.taken_at, nodes=tuple(nodes), pods=pods) for nodes in (named, bare)]
    several, single = (policy({"groupBy": ["app"], **limited(when={"zones": zones})}) for zones in (">=2", 1))
    key = f"group g0: zoneKey {ZONE} is a label of none of 2 nodes"
    assert [message for message in messages(clusters[0], several) if "zoneKey" in message] == [
        f"{key}; did you mean {AZ}?"
    ]
    assert [message for message in messages(clusters[1], several) if "zoneKey" in message] == []
    assert [message for message in messages(clusters[1], single) if "zoneKey" in message] == [key]


def test_the_example_is_silent_where_it_is_meant() -> None:
    """And tells once of a zone key that nodes do not have, not with each of its limits."""
    places: list[list[str | None]] = [["a1", "b1"], ["b2", "c1"], ["c2", "a2"]]
    assert messages(redis(machines("abc", 2), places), NETEASE) == []
    renamed = [node(machine.name, {ZONE: machine.labels[AZ]}) for machine in machines("abc", 2)]
    assert messages(redis(renamed, places), NETEASE) == [
        f"group redis: zoneKey {AZ} is a label of none of 6 nodes; did you mean {ZONE}?"
    ]


NO_POD = {"matchLabels": {"none": "such"}}
WRONG = policy(
    {"selector": NO_POD, "namespaces": {"include": ["none", "sh*"]}, "zoneKey": "none"},
    limited(topologyKey="none", selector=NO_POD),
)


def test_what_is_not_known_is_not_messages() -> None:
    """Of pods without pods, of nodes without nodes, of namespaces where these were not read."""
    everything = messages(SHOP, WRONG)
    assert len(everything) == 5
    of_nodes = [message for message in everything if "nodes" in message]
    assert len(of_nodes) == 2
    for nothing in ({"pods": ()}, {"unknown": frozenset({"Pod"})}):
        assert messages(replace(SHOP, **nothing), WRONG) == of_nodes
    for nothing in ({"nodes": ()}, {"unknown": frozenset({"Node"})}):
        assert messages(replace(SHOP, **nothing), WRONG) == [
            message for message in everything if message not in of_nodes
        ]
    unread = messages(replace(SHOP, unknown=frozenset({"Namespace"})), WRONG)
    assert unread == [message for message in everything if "namespaces.include" not in message]
    assert messages(Snapshot(taken_at=SHOP.taken_at), WRONG) == []


def test_what_is_there_without_a_pod_is_no_error() -> None:
    """A workload that is scaled to nothing, and a namespace that is still empty."""
    none = replace(
        SHOP,
        pods=[pod for pod in SHOP.pods if pod.namespace == "data"],
        namespaces=(Namespace(name="shop"), Namespace(name="data"), Namespace(name="next")),
        workloads=[
            structs.replace(workload, replicas=0) if workload.namespace == "shop" else workload
            for workload in SHOP.workloads
        ],
    )
    assert messages(none, policy({"selector": APP_WEB}, {"namespaces": {"include": ["next", "data"]}})) == []


def test_a_key_that_no_node_has_is_a_finding() -> None:
    """Of the policy as of a constraint, with the workloads that the limit is about."""
    missing = missing_keys(SHOP, policy({"groupBy": ["app"], "zoneKey": AZ, **limited(topologyKey="zon")}))
    assert [(finding.object, finding.message) for finding in missing] == [
        (f"node label {AZ}", f"group g0: zoneKey {AZ} is a label of none of 4 nodes; did you mean {ZONE}?"),
        ("node label zon", f"group g0, limit l: topologyKey zon is a label of none of 4 nodes; did you mean {ZONE}?"),
    ]
    assert all(len(finding.workloads) == 2 for finding in missing)
    assert not missing_keys(SHOP, default_policy())


@examples(50)
@given(
    st.sampled_from(["app", "ap", "tier"]),
    st.sampled_from(["web", "db", "wbe"]),
    st.sampled_from(["*", "shop", "data", "shp"]),
    st.sampled_from(["app", "Workload", "shard"]),
)
def test_a_group_is_reported_if_and_only_if_it_selects_no_pod(
    key: str, value: str, namespace: str, group_by: str
) -> None:
    """A group without limits has a message exactly where it selects no pod."""
    group = {"selector": {"matchLabels": {key: value}}, "namespaces": {"include": [namespace]}, "groupBy": [group_by]}
    written = policy(group)
    gathered = assess(View(SHOP), written, NO_MEMORY).pod_groups
    assert bool(messages(SHOP, written)) == (not gathered)


@pytest.mark.parametrize(
    ("word", "there", "near"),
    [
        ("topology.kubernetes.io/zone", {"topology.kubernetes.io/region", "kubernetes.io/os"}, None),
        ("topology.kubernetes.io/zon", {"topology.kubernetes.io/region", ZONE}, ZONE),
        ("kubernetes.io/host", {"kubernetes.io/hostname", "kubernetes.io/os"}, "kubernetes.io/hostname"),
        ("team", {"app", "tier"}, None),
        ("app", {"app.kubernetes.io/name", "apps"}, "apps"),
    ],
)
def test_the_nearest_key(word: str, there: set[str], near: str | None) -> None:
    """One that is meant, or none: a wrong hint is worse than none."""
    assert nearest_key(word, there) == near


def test_a_similar_value_is_suggested_and_a_different_one_is_not() -> None:
    assert nearest_name("shp", {"shop", "data"}) == "shop"
    assert nearest_name("shop-a", {"data"}) is None
