"""Changes in the Resilience document: a command for each kind of workload, and where nodes are added."""

import json
import shlex

import pytest

from rebalancer.documents.resilience import resilience_document
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.resilience.changed import Change, ChangedConstraint, MoreNodes
from rebalancer.resilience.changes import Changes
from tests.build import a_cluster

BOTH = (
    ChangedConstraint(index=0, key=ZONE, honor=True, max_skew=3),
    ChangedConstraint(index=2, key=HOSTNAME, max_skew=2),
)


@pytest.mark.parametrize(
    ("kind", "group", "resource"),
    [
        ("Deployment", "apps", "deployment"),
        ("StatefulSet", "apps", "statefulset"),
        ("ReplicationController", "", "replicationcontroller"),
        ("Rollout", "argoproj.io", "rollout.argoproj.io"),
        ("StatefulSet.apps.kruise.io", "apps.kruise.io", "statefulset.apps.kruise.io"),
    ],
)
def test_a_command_patches_the_constraints_by_their_places(kind: str, group: str, resource: str) -> None:
    """With the resource that kubectl knows the kind by."""
    found = Changes(
        workload=Reference("shop", kind, "web"), group=group, changes=(Change(constraints=BOTH),), complete=True
    )
    ((change,),) = [one.changes for one in resilience_document([ZONE], 1, (), 0, [found]).changes]
    *words, patch = shlex.split(change.command)
    assert words == ["kubectl", "-n", "shop", "patch", resource, "web", "--type=json", "-p"]
    at = "/spec/template/spec/topologySpreadConstraints"
    assert json.loads(patch) == [
        {"op": "add", "path": f"{at}/0/nodeTaintsPolicy", "value": "Honor"},
        {"op": "add", "path": f"{at}/0/maxSkew", "value": 3},
        {"op": "add", "path": f"{at}/2/maxSkew", "value": 2},
    ]


def test_nodes_are_named_with_their_domains_and_need_no_command() -> None:
    change = Change(nodes=(MoreNodes(number=2, like="a-1"),))
    found = Changes(workload=Reference("shop", "Deployment", "web"), group="apps", changes=(change,), complete=True)
    nodes = {one.name: one for one in a_cluster("a").snapshot().nodes}
    document = resilience_document([ZONE, "rack"], 1, (), 0, [found], nodes=nodes)
    (shown,) = document.changes[0].changes
    ((number, like, domains),) = [(one.number, one.like, one.domains) for one in shown.nodes]
    assert (number, like, domains, shown.command) == (2, "a-1", {ZONE: "a"}, "")
