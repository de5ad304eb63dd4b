"""Claims whose volumes are directories or disks of nodes: the data stays where the pod was, and no affinity says so."""

from typing import Any

import pytest

from rebalancer.model.reasons import Reason
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.known_states.build import State, bound_claim, cluster, stateful_set, storage_class

ALLOWED = "eligibility: {minAge: 0s, localStorage: {hostPath: Allow}}\n"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
PATH = {"hostPath": {"path": "/srv/data"}}


def database(affinity: dict[str, str] | None = None, **source: Any) -> State:
    """Return a StatefulSet whose volumes have this source, that of a network volume without."""
    state = cluster(stateful_set("db", claims=["data"], podManagementPolicy="Parallel"), [storage_class()])
    for ordinal in range(4):
        claim, volume = bound_claim(f"data-db-{ordinal}", affinity)
        if source:
            del volume["spec"]["csi"]
            volume["spec"] |= source
        state.add(claim, volume)
    return state


@pytest.mark.parametrize("source", [PATH, {"local": {"path": "/mnt/disk"}}])
@pytest.mark.parametrize("affinity", [None, {ZONE: "a b c"}])
def test_a_pod_whose_data_would_stay_behind_stays(source: dict[str, Any], affinity: dict[str, str] | None) -> None:
    said = database(affinity, **source).plan().assert_kept(Reason.LOCAL_STORAGE)
    assert "its eviction would leave behind the data of volume data-db-0 (hostPath)" in said
    assert "eligibility.localStorage.hostPath is Refuse" in said


@pytest.mark.parametrize("source", [{}, {"nfs": {"server": "files.test", "path": "/srv"}}])
def test_a_network_volume_goes_with_its_pod(source: dict[str, Any]) -> None:
    assert database(**source).plan().evicted == ["shop/db-0"]


def test_the_policy_may_allow_it() -> None:
    assert database(**PATH).plan(ALLOWED).evicted == ["shop/db-0"]


@pytest.mark.parametrize(
    ("key", "value", "goes"),
    [(SAFE, "true", True), (f"{SAFE}-local-volumes", "data-db-0", True), (f"{SAFE}-local-volumes", "data", False)],
)
def test_a_pod_may_be_declared_safe(key: str, value: str, goes: bool) -> None:
    """By itself, or for the claims that are listed."""
    state = database(**PATH)
    state.get("Pod", "db-0")["metadata"]["annotations"] = {key: value}
    assert state.plan().evicted == (["shop/db-0"] if goes else [])


def test_a_volume_that_is_bound_to_its_node_pins_its_pod() -> None:
    """As before: the scheduler would bring the pod back to its node."""
    state = database(**PATH)
    for ordinal in range(4):
        node = state.get("Pod", f"db-{ordinal}")["spec"]["nodeName"]
        terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}]
        volume = state.get("PersistentVolume", f"pv-data-db-{ordinal}")
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    state.plan().assert_kept(Reason.VOLUME_PINNED)
