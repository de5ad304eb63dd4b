"""deploy/capacity: what the controller's placeholders need, and nothing more."""

from datetime import timedelta

import yaml

from rebalancer.adapters.kubernetes.placeholders import PRIORITY_CLASS, job_manifest
from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm, Toleration
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import Resources
from rebalancer.policy import Capacity
from rebalancer.simulator import ZONE
from tests.deploy.manifests import DEPLOY, Manifest, build

FORM = build(DEPLOY / "capacity")
RULES = Capacity(timeout=timedelta(minutes=10))


def get(kind: str) -> Manifest:
    (manifest,) = [manifest for (name, _, _), manifest in FORM.items() if name == kind]
    return dict(manifest)


def test_the_namespace_is_the_policys_and_restricted() -> None:
    namespace = get("Namespace")
    assert namespace["metadata"]["name"] == RULES.namespace
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert {name for _, name, _ in FORM if name} == {RULES.namespace}


def test_placeholders_give_way_to_every_pod_and_still_get_nodes() -> None:
    """The cluster-autoscaler creates no nodes for pods below -10."""
    priority = get("PriorityClass")
    assert priority["metadata"]["name"] == PRIORITY_CLASS
    assert -10 <= priority["value"] < 0
    assert priority["preemptionPolicy"] == "Never"
    assert priority["globalDefault"] is False


def test_the_rights_are_jobs_and_what_says_how_they_are() -> None:
    rules = {tuple(rule["resources"]): set(rule["verbs"]) for rule in get("Role")["rules"]}
    assert rules == {
        ("jobs",): {"create", "delete", "list"},
        ("events",): {"list"},
    }
    assert get("ClusterRole")["rules"] == [
        {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["get"]}
    ], "in the whole cluster, reading what has no namespace"


def test_the_quota_allows_all_placeholders_of_the_default_policy() -> None:
    assert int(get("ResourceQuota")["spec"]["hard"]["pods"]) >= RULES.max_pods


def test_a_placeholder_is_a_job_that_ends_by_itself_and_holds_what_the_pod_needs() -> None:
    """Requests, extended resources with their limits, node selector, required affinity, tolerations, spread."""
    term = NodeSelectorTerm(expressions=(SelectorRequirement("disk", Operator.IN, ("ssd",)),))
    job = job_manifest(
        Placeholder(
            name="placeholder-1",
            token="t",
            requests=Resources(cpu=800, memory=2**30, ephemeral_storage=5, extended=(("example.com/gpu", 1),)),
            node_affinity=NodeAffinity(selector=Labels({ZONE: "c"}), required=(term,)),
            tolerations=(Toleration(key="dedicated", operator="Exists"),),
            per_node=2,
            nodes=3,
        ),
        RULES,
    )
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"], spec["activeDeadlineSeconds"]) == (0, 0, 1800)
    pod = spec["template"]["spec"]
    assert (pod["priorityClassName"], pod["terminationGracePeriodSeconds"]) == (PRIORITY_CLASS, 0)
    assert pod["nodeSelector"] == {ZONE: "c"}
    assert pod["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    (container,) = pod["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "800m", "memory": str(2**30), "ephemeral-storage": "5", "example.com/gpu": "1"},
        "limits": {"example.com/gpu": "1"},
    }
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
    }
    (constraint,) = pod["topologySpreadConstraints"]
    assert (constraint["maxSkew"], constraint["minDomains"]) == (2, 3)
    assert yaml.safe_dump(job)
