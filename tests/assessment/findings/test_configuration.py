"""What is written wrongly is named, with its object and the remedy; what is written well is not."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.model.affinity import NodeAffinity, PodAffinity, PodAffinityTerm
from rebalancer.model.cluster import DisruptionBudget, Version
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import FindingKind
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import default_policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.assessment.findings.build import cordoned, findings, with_specs
from tests.assessment.redis import AZ, CLUSTER, machines, redis
from tests.build import a_cluster, a_policy, with_nodes
from tests.reports import all_findings
from tests.scheduling.build import spread, taint, term

WEB = LabelSelector.of({"app": "web"})


def shop(**constraint: Any) -> Snapshot:
    """Return two pods in each of three zones, with one constraint over the zones."""
    blueprint = a_cluster("abc", 1, {"a-1": 2, "b-1": 2, "c-1": 2})
    constraint = {"selects": WEB, **constraint}
    return with_specs(blueprint.snapshot(), spread=(spread(ZONE, 1, **constraint),))


def only(snapshot: Snapshot, kind: FindingKind) -> str:
    """Return the one finding of a kind, which must be about the Deployment."""
    (finding,) = findings(snapshot, kind)
    assert finding.object == "default/web (Deployment)"
    return finding.message


def test_a_healthy_cluster_has_no_findings() -> None:
    """An even cluster with good constraints has no findings at all."""
    view = View(shop())
    assert all_findings(view, assess(view, default_policy(), NO_MEMORY), default_policy()) == ()


@pytest.mark.parametrize("soft", [False, True])
def test_selectors(soft: bool) -> None:
    """None, an empty one where it counts nobody, and one for other pods; of hard and soft constraints."""
    other = LabelSelector.of({"app": "shop"})
    assert "has no labelSelector" in only(shop(selects=None, soft=soft), FindingKind.SELECTOR_NULL)
    empty = shop(selects=LabelSelector(), soft=soft)
    assert "with which kube-scheduler 1.37 counts no pod" in only(empty, FindingKind.SELECTOR_EMPTY)
    assert findings(replace(empty, version=Version(1, 38)), FindingKind.SELECTOR_EMPTY) == []
    missing = only(shop(selects=other, soft=soft), FindingKind.SELECTOR_MISSES_OWN_PODS)
    assert missing.startswith(f"its constraint over {ZONE} selects app=shop, which its own pods do not match")


def without_key(snapshot: Snapshot, name: str, **labels: str) -> Snapshot:
    return with_nodes(snapshot, {name: {"labels": Labels({HOSTNAME: name, **labels})}})


def test_a_topology_key_that_is_missing_or_misspelt() -> None:
    """Named with the nodes; a misspelling is named as one. Nodes that the pods cannot use are no finding."""
    (finding,) = findings(without_key(shop(), "c-1"), FindingKind.TOPOLOGY_KEY_MISSING)
    assert finding.object == f"node label {ZONE}"
    assert finding.message.startswith("1 of 3 nodes that default/web (Deployment) may use lack it (c-1): ")
    assert finding.message.endswith("; label them, or exclude them by node affinity")
    tainted = with_nodes(without_key(shop(), "c-1"), {"c-1": {"taints": (taint("dedicated"),)}})
    assert findings(tainted, FindingKind.TOPOLOGY_KEY_MISSING) == []
    plain = ClusterBuilder()
    plain.node("a")
    plain.deployment("web", on={"a": 1})
    assert findings(plain.snapshot(), FindingKind.TOPOLOGY_KEY_MISSING) == []


@pytest.mark.parametrize(
    ("label", "misspelt"),
    [
        ("topology.kubernetes.io/zone-typo", True),
        ("topology.kubernetes.io/zon", True),
        ("topology.kubernetes.io/zome", True),
        ("topology.kubernetes.io/zoen", True),
        ("topology.kubernetes.io/zon3", False),
        ("topology.kubernetes.io/node", False),
        ("failure-domain.beta.kubernetes.io/zone", True),
        ("my-zone", True),
        ("topology.kubernetes.io/region", False),
        ("kubernetes.io/os", False),
    ],
)
def test_misspelt_labels_are_recognized(label: str, misspelt: bool) -> None:
    """The documentation's zone-typo, an old name and a missing letter are taken for the key; other labels are not."""
    (finding,) = findings(without_key(shop(), "c-1", **{label: "c"}), FindingKind.TOPOLOGY_KEY_MISSING)
    assert (f"c-1 has {label} instead: rename it to {ZONE}" in finding.message) is misspelt


@pytest.mark.parametrize(
    ("requested", "there", "nodes", "remedy"),
    [
        (f"{ZONE}e", ZONE, 3, f"correct the constraint's topologyKey to {ZONE}"),
        (f"{ZONE}e", ZONE, 1, f"correct the constraint's topologyKey to {ZONE}"),
        (ZONE, f"{ZONE}e", 1, f"rename it to {ZONE}"),
        (ZONE, f"{ZONE}e", 3, f"label the nodes with {ZONE}, or name {ZONE}e in the constraint"),
        (ZONE, AZ, 1, f"rename it to {ZONE}"),
        (ZONE, AZ, 3, f"correct the constraint's topologyKey to {AZ}"),
        ("example.com/rack", "example.com/racks", 3, "correct the constraint's topologyKey to example.com/racks"),
        ("example.com/rack", "example.com/racks", 1, "rename it to example.com/rack"),
    ],
)
def test_which_of_two_spellings_is_wrong(requested: str, there: str, nodes: int, remedy: str) -> None:
    """Nobody renames a label that the cloud sets, nor those of all nodes, to agree with a slip in one constraint."""
    names = [f"{zone}-1" for zone in "abc"]
    labels = {
        name: {"labels": Labels({HOSTNAME: name, there if place < nodes else requested: name[0]})}
        for place, name in enumerate(names)
    }
    made = with_nodes(with_specs(shop(), spread=(spread(requested, 1, selects=WEB),)), labels)
    (missing,) = [
        finding for finding in findings(made, FindingKind.TOPOLOGY_KEY_MISSING) if "may use lack it" in finding.message
    ]
    assert missing.object == f"node label {requested}"
    assert missing.message.endswith(f"; a-1 has {there} instead: {remedy}")


def test_a_domain_that_counts_and_is_closed_for_good() -> None:
    """A tainted zone holds the minimum at 0 for ever; honoured taints and cordons are no contradiction."""
    blueprint = a_cluster("abc", 1, {"a-1": 1, "b-1": 1}, replicas=6)
    tainted = with_nodes(blueprint.snapshot(), {"c-1": {"taints": (taint("dedicated"),)}})

    def contradiction(**constraint: Any) -> list[str]:
        made = with_specs(tainted, spread=(spread(ZONE, constraint.pop("skew", 1), selects=WEB, **constraint),))
        return [finding.message for finding in findings(made, FindingKind.CONSTRAINTS_CONTRADICT)]

    (message,) = contradiction()
    assert message.startswith(f"its constraint counts {ZONE} c, but affinity or taints keep its pods out: at most ")
    assert "at most 2 of 6 pods can be placed" in message
    assert contradiction(taints="Honor") == []
    assert contradiction(skew=3) == []
    assert contradiction(min_domains=4) == []
    ineffective = with_specs(tainted, spread=(spread(ZONE, 1, selects=LabelSelector()),))
    assert findings(ineffective, FindingKind.CONSTRAINTS_CONTRADICT) == []
    fine = with_specs(blueprint.snapshot(), spread=(spread(ZONE, 1, selects=WEB),))
    assert findings(cordoned(fine, "c-1"), FindingKind.CONSTRAINTS_CONTRADICT) == []


def test_affinity_that_the_constraint_does_not_honour() -> None:
    """Pods kept out of a zone that counts: the same contradiction; with Honor the zone is no domain."""
    affinity = NodeAffinity(required=(term((ZONE, "In", ("a", "b"))),))
    blueprint = a_cluster("abc", 1, {"a-1": 1, "b-1": 1}, replicas=4)
    for policy, number in (("Ignore", 1), ("Honor", 0)):
        constraint = spread(ZONE, 1, selects=WEB, affinity=policy)
        made = with_specs(blueprint.snapshot(), spread=(constraint,), node_affinity=affinity)
        assert len(findings(made, FindingKind.CONSTRAINTS_CONTRADICT)) == number


def test_affinity_and_anti_affinity_to_the_same_pods() -> None:
    """No node is both beside and away from them; over different keys it may be."""
    near = PodAffinityTerm(topology_key=ZONE, selector=WEB)
    far = PodAffinityTerm(topology_key=HOSTNAME, selector=WEB)
    both = with_specs(shop(), pod_affinity=PodAffinity(required=(near,), anti_required=(near,)))
    assert "it requires both affinity and anti-affinity to app=web" in only(both, FindingKind.CONSTRAINTS_CONTRADICT)
    fine = with_specs(shop(), pod_affinity=PodAffinity(required=(near,), anti_required=(far,)))
    assert findings(fine, FindingKind.CONSTRAINTS_CONTRADICT) == []


def test_too_few_domains() -> None:
    """For minDomains, for pods that keep apart, for a limit."""
    kind = FindingKind.TOO_FEW_DOMAINS
    assert "minDomains of its constraint" in only(shop(min_domains=4), kind)
    assert findings(shop(min_domains=3), kind) == []
    unknown = only(with_specs(shop(), spread=(spread(f"{ZONE}e", 1, selects=WEB),)), kind)
    assert unknown.startswith(f"no node that counts for its constraint over {ZONE}e has this label: ")
    assert "minDomains" not in unknown
    apart = PodAffinity(anti_required=(PodAffinityTerm(topology_key=HOSTNAME, selector=WEB),))
    assert "allows one of its 6 pods per domain, and there are 3 domains" in only(
        with_specs(shop(), pod_affinity=apart), kind
    )
    others = PodAffinity(anti_required=(PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"a": "b"})),))
    assert findings(with_specs(shop(), pod_affinity=others), kind) == []
    share = a_policy(
        "groups: [{name: all, selector: {}, limits: "
        '[{name: third, topologyKey: kubernetes.io/hostname, maxShare: "<1/3"}]}]'
    )
    (finding,) = findings(shop(), kind, share)
    assert finding.object == "default/web (Deployment)"
    assert finding.message.startswith("all/third: ")
    assert finding.message.endswith("Add nodes in more domains, or relax the limit")


def redis_group() -> Any:
    return a_policy(f"groups: [{{name: redis, selector: {{}}, groupBy: [{CLUSTER}], zoneKey: {AZ}, limits: []}}]")


def test_a_declared_zone_that_holds_none() -> None:
    """Four zones named by affinity, six pods in three of them: allowed by every constraint, and reported."""
    kind = FindingKind.DOMAIN_UNUSED
    places: list[list[str | None]] = [["a1", "b1"], ["c1", "a2"], ["b2", "c2"]]
    made = redis(machines("abcd", 2), places, zones=list("abcd"))
    (finding,) = findings(made, kind, redis_group())
    assert finding.object == f"group redis cache {CLUSTER}=one"
    assert finding.message.startswith(f"{AZ} d is declared but holds none of 6 pods; spread constraints do not")
    (gone,) = findings(redis(machines("abc", 2), places, zones=list("abcd")), kind, redis_group())
    assert gone.message.endswith("no node of d exists: add nodes, or remove it from the declaration")
    assert findings(redis(machines("abcd", 2), places, zones=list("abc")), kind, redis_group()) == []
    assert findings(redis(machines("abcd", 2), places), kind, redis_group()) == []
    assert findings(redis(machines("abcd", 2), [["a1", "b1"]], zones=list("abcd")), kind, redis_group()) == []


def test_different_values_after_a_scaling_are_reported() -> None:
    """From 6 to 10 pods the node's maxSkew goes from 1 to 3: the old shards carry the old value until they restart."""
    kind = FindingKind.MIXED_CONSTRAINTS
    old = redis(machines("abc", 2), [["a1", "b1"], ["b2", "c1"], ["c2", "a2"]], skews={HOSTNAME: 1})
    new = redis(machines("abc", 2), [["a1", "b1"], ["b2", "c1"]], skews={HOSTNAME: 3}, first=3)
    grown = replace(old, pods=(*old.pods, *new.pods), workloads=(*old.workloads, *new.workloads))
    (finding,) = findings(grown, kind)
    assert finding.object == "cache/one-0 (StatefulSet)"
    assert len(finding.workloads) == 5
    assert "is carried as maxSkew 1 (6 pods), as maxSkew 3 (4 pods)" in finding.message
    assert findings(old, kind) == []


def test_a_template_with_another_value_than_its_pods() -> None:
    """The next pod is placed by another rule than those that run."""
    changed = with_specs(shop(), pods=False, spread=(spread(ZONE, 2, selects=WEB, min_domains=2),))
    workloads = tuple(structs.replace(workload, revision="") for workload in changed.workloads)
    message = only(replace(changed, workloads=workloads), FindingKind.MIXED_CONSTRAINTS)
    assert "as maxSkew 1 and minDomains 1 (6 pods), as maxSkew 2 and minDomains 2 (the next pod)" in message


def budgets(*disruption_budgets: DisruptionBudget) -> Snapshot:
    return replace(shop(), budgets=disruption_budgets)


def budget(name: str, **fields: Any) -> DisruptionBudget:
    fields = {"selector": WEB, "expected": 6, "observed_generation": 1, **fields}
    return DisruptionBudget(namespace="default", name=name, **fields)


def test_several_budgets_on_a_pod() -> None:
    """The API server refuses to evict such pods; a budget of other pods does not count."""
    both = budgets(budget("one", max_unavailable=1), budget("two", min_available=1, desired_healthy=1))
    assert only(both, FindingKind.SEVERAL_BUDGETS).startswith("PodDisruptionBudgets one, two select the same pods")
    other = budget("two", max_unavailable=1, selector=LabelSelector.of({"app": "shop"}))
    assert findings(budgets(budget("one", max_unavailable=1), other), FindingKind.SEVERAL_BUDGETS) == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"max_unavailable": 0}, "maxUnavailable is 0"),
        ({"max_unavailable": "0%"}, "maxUnavailable is 0%"),
        ({"min_available": "100%"}, "minAvailable is 100%"),
        ({"min_available": 6, "desired_healthy": 6}, "minAvailable 6 means 6 of 6 pods"),
        ({"min_available": "90%", "desired_healthy": 6}, "minAvailable 90% means 6 of 6 pods"),
        ({"max_unavailable": 0, "selector": None}, "maxUnavailable is 0"),
        ({"min_available": 6, "desired_healthy": 6, "generation": 2}, None),
        ({"min_available": 5, "desired_healthy": 5}, None),
        ({"max_unavailable": 1, "desired_healthy": 6}, None),
    ],
)
def test_a_budget_that_never_allows_anything(fields: dict[str, Any], why: str | None) -> None:
    """From what it says, or from what its status of today says that this means; not from one of yesterday."""
    always_zero = findings(budgets(budget("web", **fields)), FindingKind.BUDGET_ALWAYS_ZERO)
    assert [finding.object for finding in always_zero] == (["PodDisruptionBudget default/web"] if why else [])
    if why:
        assert always_zero[0].message.startswith(f"{why}: no pod can ever be evicted")
        assert [workload.name for workload in always_zero[0].workloads] == (
            ["web"] if fields.get("selector", WEB) else []
        )


def test_a_template_whose_pods_are_refused() -> None:
    """Whether the owner has pods or not; not where it wants none."""
    kind = FindingKind.TEMPLATE_REFUSED
    refused = shop(keys=("app",))
    assert only(refused, kind).startswith("app is in both matchLabelKeys and labelSelector")
    assert len(findings(replace(refused, pods=()), kind)) == 1
    idle = tuple(structs.replace(workload, replicas=0) for workload in refused.workloads)
    assert findings(replace(refused, pods=(), workloads=idle), kind) == []
