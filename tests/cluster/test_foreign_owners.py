"""Owners that Kubernetes itself does not have: a listed kind is repaired, a Rollout by the ReplicaSet that it owns."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.cluster.controller import USER, Controller, install, policy, rebalancer
from tests.cluster.foreign_owners import (
    LISTED,
    OwnerController,
    an_owner,
    clone_set,
    controlled_by,
    defined,
    pod_set,
)
from tests.control_plane.api import wait_until
from tests.control_plane.layout import lay_out, nodes, pdb, replica_set, spread, stateful_set
from tests.control_plane.manifests import namespace
from tests.control_plane.plane import ControlPlane

OWNERS = [*("ReplicaSet", "StatefulSet"), *LISTED]
FREE = {"maxUnavailable": "100%", "perWorkload": "100%", "slowStart": False, "perNode": 10}
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rebalancer-owners"


def zones_of(plane: ControlPlane, space: str, app: str) -> Counter[str]:
    pods = plane.api.list(f"/api/v1/namespaces/{space}/pods", labels=f"app={app}")
    return Counter(pod["spec"].get("nodeName", "?")[0] for pod in pods if "deletionTimestamp" not in pod["metadata"])


def evictions(plane: ControlPlane) -> Counter[str]:
    return Counter(request.namespace for request in plane.audit.evictions(user=USER) if request.code == 201)


def grant(plane: ControlPlane) -> None:
    """Name the kinds of the test in the component, as an overlay does."""
    install(plane, "components/owners")
    rules = plane.api.get(ROLE)["rules"]
    for group, resource in (("core.strimzi.io", "strimzipodsets"), ("argoproj.io", "rollouts")):
        rules.append({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]})
    plane.api.patch(ROLE, {"rules": rules})


def constraint(app: str) -> dict[str, Any]:
    return {"topologySpreadConstraints": [spread(labels={"app": app})]}


def lay(plane: ControlPlane) -> list[Any]:
    """Lay out workloads in five namespaces, crowded in zone a; return the Rollout, and the owners without pods."""
    names = ("clones", "kafka", "pay", "search", "unlisted")
    spaces = [namespace(name) for name in names]
    parts: list[Any] = [
        replica_set("pay-5f", {"a-0": 3, "b-0": 1}, namespace="pay", labels={"app": "pay"}, **constraint("pay"))
    ]
    parts += [
        stateful_set(app, {"a-0": 2, "b-0": 1}, namespace="search", labels={"app": app}, **constraint(app))
        for app in ("es-master", "es-data")
    ]
    lay_out(
        plane,
        [
            *nodes({"a": 1, "b": 1, "c": 1}),
            *spaces,
            *parts,
            pdb("web", {"app": "web"}, namespace="clones", max_unavailable=1),
        ],
    )
    api = plane.api
    rollout = api.create(
        an_owner("argoproj.io/v1alpha1", "Rollout", "pay", "pay", replicas=4, selector={"matchLabels": {"app": "pay"}})
    )
    operator = api.create(an_owner("search.example/v1", "Cluster", "es", "search", nodeSets=["es-master", "es-data"]))
    api.patch(
        "/apis/apps/v1/namespaces/pay/replicasets/pay-5f", {"metadata": {"ownerReferences": [controlled_by(rollout)]}}
    )
    for app in ("es-master", "es-data"):
        path = f"/apis/apps/v1/namespaces/search/statefulsets/{app}"
        api.patch(path, {"metadata": {"ownerReferences": [controlled_by(operator)]}})
    unlisted = an_owner(
        "search.example/v1",
        "Cluster",
        "own",
        "unlisted",
        **clone_set("own", "unlisted", 4, **constraint("own"))["spec"],
    )
    made = (
        clone_set("web", "clones", 6, **constraint("web")),
        pod_set("kafka", "kafka", 3, **constraint("kafka")),
        unlisted,
    )
    return [rollout, *(api.create(owner) for owner in made)]


def test_owners_of_every_kind_are_repaired_by_what_they_are(cluster: ControlPlane, tmp_path: Path) -> None:
    """Two of a CloneSet's six pods move, one of each other workload; of a kind that is not listed none does."""
    install(cluster, "base", "evict")
    rules = policy("Evict", budgets=FREE, eligibility={"minAge": "0s", "owners": OWNERS}, groups=[], interval="1s")
    with defined(cluster):
        rollout, *owners = lay(cluster)
        with OwnerController(cluster.api, owners) as controller:
            clones, kafka, unlisted = owners
            controller.place(clones, ["a-0"] * 4 + ["b-0"] * 2)
            controller.place(kafka, ["a-0", "a-0", "b-0"])
            controller.place(unlisted, ["a-0"] * 3 + ["b-0"])
            path = "/apis/policy/v1/namespaces/clones/poddisruptionbudgets/web"
            wait_until(lambda: cluster.api.get(path)["status"].get("expectedPods") == 6, what="the scale to be read")
            with Controller(cluster, tmp_path, rules) as process:
                process.wait_for("cycle", count=2)
                assert not evictions(cluster).keys() & {"clones", "kafka", "unlisted"}, "no right, nothing evicted"
                said = explained(cluster, tmp_path, rules, "strimzipodset/kafka", "kafka")
                assert "not allowed to get CustomResourceDefinition" in said or "is not known" in said
                grant(cluster)
                even = {"clones": ("web", 2), "kafka": ("kafka", 1), "pay": ("pay", None), "search": ("es-data", 1)}

                def is_repaired() -> bool:
                    return all(
                        max((found := zones_of(cluster, space, app)).values()) - min(found[zone] for zone in "abc") <= 1
                        for space, (app, _) in even.items()
                    )

                wait_until(is_repaired, what="all workloads to be spread", timeout=120)
                process.wait_for("cycle", count=len(process.log("cycle")) + 3)
            assert evictions(cluster) == {"clones": 2, "kafka": 1, "pay": 1, "search": 2}
            names = {pod["metadata"]["name"] for pod in cluster.api.list("/api/v1/namespaces/kafka/pods")}
            assert names == {"kafka-0", "kafka-1", "kafka-2"}
            regarded = [event["regarding"] for event in cluster.api.list("/apis/events.k8s.io/v1/events")]
            for owner in (clones, rollout):
                named = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
                assert any(named.items() <= one.items() for one in regarded), "kubectl describe shows it"
            said = explained(cluster, tmp_path, rules, "cluster/own", "unlisted")
            assert "eligibility.owners does not list Cluster.search.example" in said


def explained(plane: ControlPlane, folder: Path, rules: str, target: str, space: str) -> str:
    """Return what `rebalancer explain` says to the controller's own account."""
    file = folder / "explain.yaml"
    file.write_text(rules)
    done = rebalancer(
        "explain",
        target,
        "-n",
        space,
        f"--policy={file}",
        f"--kubeconfig={plane.kubeconfig('rebalancer-system/rebalancer')}",
        "-o",
        "json",
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.dumps(json.loads(done.stdout))
