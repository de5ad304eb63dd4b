"""What is said of workloads with volumes: what follows without them, and that the rest depends on them."""

from dataclasses import replace
from typing import Any

import pytest

from rebalancer.lint.finding import Rule
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim
from tests.lint.build import ZONE, affinity, deployment, term
from tests.lint.test_in_a_cluster import PLACEMENT, cpu, findings, nodes, said

UNREAD = frozenset({"PersistentVolumeClaim", "PersistentVolume", "StorageClass"})
NO_LIST = (
    "its volumes are not known here: no PersistentVolumeClaim list was read; add it to the snapshot, or the right to "
    "list them"
)
NO_CLAIM = "its volumes are not known here: PersistentVolumeClaim data-web-0 is not there yet"


def stateful(replicas: int = 3, **spec: Any) -> dict[str, Any]:
    """Return a StatefulSet of which each pod has a claim of its own."""
    made = deployment(replicas, kind="StatefulSet", **spec)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return made


IMPOSSIBLE = [
    (
        stateful(5, affinity=affinity(apart=[term()])),
        "at most 3 of 5 pods find a node: of 3 nodes 3 are ruled out by its anti-affinity",
    ),
    (
        stateful(nodeSelector={ZONE: "x"}),
        "none of 3 pods finds a node: of 3 nodes 3 do not match its node affinity",
    ),
    (stateful(containers=cpu("20")), "none of 3 pods finds a node: of 3 nodes 3 have not enough cpu"),
]


@pytest.mark.parametrize("unread", [UNREAD, frozenset[str]()])
@pytest.mark.parametrize(("made", "message"), IMPOSSIBLE)
def test_what_no_node_takes_without_volumes_is_an_error_with_them(
    made: dict[str, Any], message: str, unread: frozenset[str]
) -> None:
    """Whether their lists were read or not: volumes only take nodes away."""
    cluster = replace(nodes().snapshot(), unknown=unread)
    assert said(findings(cluster, made), *PLACEMENT) == [("error", message)]


@pytest.mark.parametrize(("unread", "cause"), [(UNREAD, NO_LIST), (frozenset[str](), NO_CLAIM)])
def test_what_depends_on_volumes_alone_is_a_note_with_its_cause(unread: frozenset[str], cause: str) -> None:
    """What follows from the loss of a zone without them is said all the same."""
    cluster = replace(nodes().snapshot(), unknown=unread)
    note = ("info", f"0 of 3 pods are certain to find a node: {cause}")
    assert said(findings(cluster, stateful()), *PLACEMENT) == [note]
    lost = "without zone a at most 2 of 3 pods find a node: of 2 nodes 2 have not enough cpu"
    assert said(findings(cluster, stateful(containers=cpu("9"))), *PLACEMENT) == [("warning", lost), note]


def test_a_claim_that_nobody_creates_by_itself_is_a_warning() -> None:
    """Pods of a Deployment wait for it."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    assert said(findings(nodes().snapshot(), deployment(volumes=volumes)), *PLACEMENT) == [
        (
            "warning",
            (
                "0 of 3 pods are certain to find a node: PersistentVolumeClaim data is not there yet, and its pods "
                "wait until then"
            ),
        )
    ]


def test_what_is_uncertain_besides_volumes_is_said_with_them() -> None:
    """Here the pods of another workload, which may take the room first."""
    other = deployment(3, containers=cpu("9")) | {"metadata": {"name": "api", "namespace": "shop"}}
    found = findings(nodes("ab", 2).snapshot(), other, stateful(3, containers=cpu("9")))
    (row,) = [one for one in found if one.rule is Rule.NO_PLACEMENT and one.manifest.name == "web"]
    assert (row.severity, row.message) == (
        "warning",
        (f"0 of 3 pods are certain to find a node: {NO_CLAIM}; besides, of 4 nodes 4 have not enough cpu"),
    )


def test_what_follows_without_known_volumes_is_the_reason_too() -> None:
    """That the volumes are known changes nothing about the rule that keeps pods from nodes."""
    claim = PersistentVolumeClaim(namespace="shop", name="data", volume="pv", bound=True)
    cluster = replace(nodes("ab").snapshot(), claims=(claim,), volumes=(PersistentVolume(name="pv"),))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    wide = deployment(3, affinity=affinity(apart=[term(ZONE)]), volumes=volumes)
    assert said(findings(cluster, wide), Rule.NO_PLACEMENT) == [
        ("error", "at most 2 of 3 pods find a node: of 2 nodes 2 are ruled out by its anti-affinity")
    ]
