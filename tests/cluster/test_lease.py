"""Whatever stands in the Lease, a process leads within two lease durations, and a live leader is not deposed by it."""

import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from rebalancer.adapters.kubernetes.configmaps import StatusMap
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.controller.election import Election
from rebalancer.controller.elector import Elector
from rebalancer.controller.process import SYSTEM_CLOCKS
from rebalancer.model.moves import NO_MEMORY
from rebalancer.ports import Document, LeaseRecord, SaveAnswer
from tests.cluster.controller import ACCOUNT, NAMESPACE, Controller, install, policy
from tests.control_plane.api import ApiError
from tests.control_plane.plane import ControlPlane

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
DURATION = 3.0
MOST = 2**31 - 1
LATE, LONG_AGO = "9999-12-31T23:59:59.000000Z", "2001-01-01T00:00:00.000000Z"
ODDITIES: list[dict[str, Any]] = [
    {"leaseTransitions": MOST},
    {"leaseDurationSeconds": MOST},
    {"leaseDurationSeconds": None},
    {"renewTime": LATE, "acquireTime": LATE},
    {"renewTime": "0000-01-01T00:00:00.000000Z", "acquireTime": "0000-01-01T00:00:00.000000Z"},
    {"renewTime": LONG_AGO},
    {"renewTime": None, "acquireTime": None, "leaseTransitions": None, "leaseDurationSeconds": None},
    {"holderIdentity": " \n\u00e9 strange" * 500},
    {"holderIdentity": ""},
    {"holderIdentity": None},
    {"strategy": "OldestEmulationVersion", "preferredHolder": "another"},
    {"leaseTransitions": MOST, "leaseDurationSeconds": MOST, "renewTime": LATE, "holderIdentity": "a ghost"},
]


def write(plane: ControlPlane, **changes: Any) -> None:
    """Write the Lease of a ghost with something odd in it."""
    plane.api.delete(f"{LEASES}/rebalancer", missing_ok=True)
    spec = {
        "holderIdentity": "ghost",
        "leaseDurationSeconds": round(DURATION),
        "leaseTransitions": 3,
        "acquireTime": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "renewTime": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        **changes,
    }
    metadata = {"name": "rebalancer", "namespace": NAMESPACE}
    plane.api.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


def test_somebody_leads_whatever_stands_in_the_lease(cluster: ControlPlane) -> None:
    install(cluster, "base")
    transport = connect(kubeconfig=str(cluster.kubeconfig(ACCOUNT)))
    for oddity in ODDITIES:
        write(cluster, **oddity)
        candidate = Elector(
            lease=KubernetesLease(transport, namespace=NAMESPACE, timeout=1.0),
            election=Election(identity="candidate", duration=DURATION, deadline=2.0),
            retry=0.2,
            clocks=SYSTEM_CLOCKS,
            load_memory=lambda: NO_MEMORY,
            tell=lambda _: None,
        )
        began = time.monotonic()
        while not candidate.leads():
            assert time.monotonic() - began < 2 * DURATION, (oddity, candidate.problem)
            time.sleep(candidate.take_part())
        assert cluster.api.get(f"{LEASES}/rebalancer")["spec"]["holderIdentity"] == "candidate"
        candidate.take_part()  # renewed as well
        assert candidate.leads()
        assert candidate.problem == ""


@pytest.mark.parametrize("field", ["leaseDurationSeconds", "leaseTransitions"])
def test_the_api_server_itself_refuses_what_is_negative(cluster: ControlPlane, field: str) -> None:
    install(cluster, "base")
    with pytest.raises(ApiError, match="422"):
        write(cluster, **{field: -1})


def test_a_live_leader_is_not_deposed_and_a_dead_one_is_replaced(cluster: ControlPlane, tmp_path: Path) -> None:
    """Of two processes the second waits all the while, and leads within two durations when the first one is gone."""
    install(cluster, "base")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    flags = ("--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s")
    text = policy("Observe", interval="1s")
    with Controller(cluster, folders[0], text, *flags) as one:
        one.wait_for("leading")
        with Controller(cluster, folders[1], text, *flags) as two:
            two.wait_for("another process leads")
            for oddity in ODDITIES:
                if "holderIdentity" not in oddity and "strategy" not in oddity:
                    cluster.api.patch(f"{LEASES}/rebalancer", {"spec": oddity})
                    time.sleep(1.5)
            assert two.log("leading") == []
            cluster.api.patch(f"{LEASES}/rebalancer", {"spec": {"leaseTransitions": MOST}})
            count = len(one.log("cycle"))
            one.wait_for("cycle", count=count + 3, timeout=10)
            assert two.log("leading") == []
            assert one.process is not None
            one.process.kill()
            one.process.wait(10)
            cluster.api.patch(f"{LEASES}/rebalancer", {"spec": ODDITIES[-1]})
            began = time.monotonic()
            two.wait_for("leading", timeout=8)
            print(f"the second process leads after {time.monotonic() - began:.1f} s")
            assert cluster.api.get(f"{LEASES}/rebalancer")["spec"]["leaseTransitions"] == MOST


@pytest.mark.invariant("one-leader")
def test_a_rolling_update_to_a_shorter_lease_never_lets_two_processes_act(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """60/40/20 s and 15/10/2 s, divided by five: the new process waits for the duration that the old one has written.

    The old one renews the Lease every 4 s. A process that waited for its own 3 s would take the Lease from it while it
    acts; once it is stopped, only after 12 s.
    """
    install(cluster, "base")
    folders = [tmp_path / "old", tmp_path / "new"]
    for folder in folders:
        folder.mkdir()
    text = policy("Observe", interval="1s")
    long = ("--lease-duration=12s", "--renew-deadline=8s", "--retry-period=4s")
    short = ("--lease-duration=3s", "--renew-deadline=2s", "--retry-period=1s")

    def moments(controller: Controller, event: str) -> list[datetime]:
        """Return when it logged an event; a cycle that could save nothing, and so did not act, is none."""
        return [datetime.fromisoformat(line["timestamp"]) for line in controller.log(event) if not line.get("unsaved")]

    with Controller(cluster, folders[0], text, *long) as old:
        old.wait_for("cycle")
        with Controller(cluster, folders[1], text, *short) as new:
            new.wait_for("another process leads")
            time.sleep(12)
            ran = moments(old, "cycle")
            print(f"while the old process acted ({len(ran)} cycles), the new one led {len(new.log('leading'))} times")
            assert new.log("leading") == []
            assert old.log("no longer leading") == []
            assert old.process is not None
            os.kill(old.process.pid, signal.SIGSTOP)
            try:
                renewed = datetime.fromisoformat(cluster.api.get(f"{LEASES}/rebalancer")["spec"]["renewTime"])
                new.wait_for("cycle", timeout=20)
            finally:
                os.kill(old.process.pid, signal.SIGCONT)
            (led,) = moments(new, "leading")
            waited = (led - renewed).total_seconds()
            print(f"the new process leads {waited:.1f} s after the old one's last renewal, with a deadline of 8 s")
            assert 11.5 < waited < 18
            old.wait_for("no longer leading", timeout=10)
            new.wait_for("cycle", count=len(new.log("cycle")) + 3)
            assert max(moments(old, "cycle")) < led
            assert new.log("no longer leading") == []


def test_whole_seconds_are_stored_and_what_others_write_stays(cluster: ControlPlane) -> None:
    """The API server refuses times without six digits after the point; a label of others survives."""
    install(cluster, "base")
    lease = KubernetesLease(connect(kubeconfig=str(cluster.kubeconfig(ACCOUNT))), namespace=NAMESPACE, timeout=5.0)
    cluster.api.delete(f"{LEASES}/rebalancer", missing_ok=True)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    record = LeaseRecord(holder="me", duration=15, acquired=noon, renewed=noon)
    created = lease.write(record)
    assert created is not None
    assert structs.replace(created, version="") == record
    foreign = {"metadata": {"labels": {"of": "others"}}}
    cluster.api.patch(f"{LEASES}/rebalancer", foreign)
    assert lease.write(created) is None, "it has been changed since it was read"
    read = lease.read()
    assert read is not None
    later = lease.write(structs.replace(read, renewed=noon + timedelta(seconds=1)))
    assert later is not None
    stored = cluster.api.get(f"{LEASES}/rebalancer")
    assert stored["metadata"]["labels"] == foreign["metadata"]["labels"]
    assert stored["spec"]["renewTime"] == "2026-01-01T12:00:01.000000Z"


def test_what_others_write_into_the_status_stays(cluster: ControlPlane) -> None:
    """Labels, annotations and binary data; a document of theirs goes, as one that is not written any more."""
    install(cluster, "base")
    status = StatusMap(connect(kubeconfig=str(cluster.kubeconfig(ACCOUNT))), NAMESPACE)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"
    status.load("memory.json")
    foreign = {"metadata": {"annotations": {"of": "others"}}, "binaryData": {"picture": "AAAA"}}
    cluster.api.patch(path, {**foreign, "data": {"theirs": "1"}})
    assert status.save((Document("a", "1"),)).conflict
    status.load("a")
    for documents in ((Document("a", "1"), Document("b", "2")), (Document("a", "2"),)):
        assert status.save(documents) == SaveAnswer()
    stored = cluster.api.get(path)
    assert stored["data"] == {"a": "2"}
    assert stored["binaryData"] == foreign["binaryData"]
    assert stored["metadata"]["annotations"]["of"] == "others"
