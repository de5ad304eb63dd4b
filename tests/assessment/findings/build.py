"""Small clusters for findings, and what is found in them."""

from dataclasses import replace
from typing import Any

from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.assessment.findings import Finding
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import FindingKind
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, default_policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster, change_specs, with_nodes
from tests.reports import all_findings
from tests.scheduling.build import taint

CORDONED = taint("node.kubernetes.io/unschedulable")


def shop(spread: dict[str, int] | None = None, **on: int) -> Snapshot:
    """Return a Deployment over three zones of one node, so many pods in each, spread hard over zones or as given."""
    places = {f"{zone}-1": number for zone, number in on.items()}
    return a_cluster("abc", 1, places, spread=spread or {ZONE: 1}).snapshot()


def findings(snapshot: Snapshot, kind: FindingKind, policy: Policy | None = None) -> list[Finding]:
    """Return the findings of one kind."""
    view, policy = View(snapshot), policy or default_policy()
    every = all_findings(view, assess(view, policy, NO_MEMORY), policy)
    return [finding for finding in every if finding.kind is kind]


def cordoned(snapshot: Snapshot, *names: str) -> Snapshot:
    """Return the cluster with these nodes cordoned."""
    return with_nodes(snapshot, {name: {"unschedulable": True, "taints": (CORDONED,)} for name in names})


def with_specs(snapshot: Snapshot, *, pods: bool = True, **fields: Any) -> Snapshot:
    """Return the cluster with other fields in the specs of all templates, and of all pods too."""
    changed = change_specs(snapshot, lambda _, spec: structs.replace(spec, **fields))
    return changed if pods else replace(changed, pods=snapshot.pods)
