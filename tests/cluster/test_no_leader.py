"""Where no controller runs, `status`, `plan` and the page say so, and since when: none says that it evicts."""

import json
import os
import re
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import urllib3

from tests.cluster.controller import NAMESPACE, Controller, install, policy, rebalancer
from tests.control_plane.accounts import grant
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane

EVICTS = "mode Evict: the controller evicts"
NONE = re.compile(
    r"no controller runs: Lease free since (\S+ \S+)(?: \(held by [^)]+\))?, last cycle (\d+)s ago by \S+"
)
QUICK = ("--lease-duration=6s", "--renew-deadline=3s", "--retry-period=1s")


def status(plane: ControlPlane, *flags: str, user: str = "admin") -> str:
    words = ("status", "--kubeconfig", str(plane.kubeconfig(user)), "-n", NAMESPACE, *flags)
    shown = rebalancer(*words, env={"COLUMNS": "300"})
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.decode()


def plan(plane: ControlPlane, user: str = "admin") -> str:
    shown = rebalancer("plan", "--kubeconfig", str(plane.kubeconfig(user)), env={"COLUMNS": "300"})
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.decode()


def acting(plane: ControlPlane, user: str = "admin") -> tuple[str, str]:
    """Return what `status` and `plan` say of the controller."""
    first, second = status(plane, user=user).splitlines()[0], plan(plane, user=user).splitlines()[0]
    assert first.startswith("Controller: ")
    assert second.startswith("Plan (dry run; ")
    return first.removeprefix("Controller: "), second.removeprefix("Plan (dry run; ").removesuffix(")")


def are_at_work(plane: ControlPlane, user: str = "admin") -> bool:
    """Return whether both say that a leader evicts."""
    return all(" leads since " in line and line.endswith(f"; {EVICTS}") for line in acting(plane, user))


def lease(plane: ControlPlane) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(status(plane, "-o", "json"))["lease"]
    return document


def renewed(plane: ControlPlane) -> datetime:
    """Return when the Lease was last written by who held it."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rebalancer"
    return datetime.fromisoformat(plane.api.get(path)["spec"]["renewTime"])


def check_free(plane: ControlPlane, since: datetime, last: datetime) -> None:
    """Both commands and the document have the time since when the Lease is free, and the age of the last cycle."""
    for line in acting(plane):
        match = NONE.fullmatch(line)
        assert match is not None, line
        free = datetime.fromisoformat(match[1])
        assert abs(free - since) < timedelta(seconds=1.5), line
        assert abs(int(match[2]) - (datetime.now(UTC) - last).total_seconds()) < 6, line
    document = lease(plane)
    assert document["holder"] == ""
    assert abs(datetime.fromisoformat(document["freeSince"]) - since) < timedelta(seconds=1.5)


def test_a_stopped_and_a_killed_controller_are_reported_as_gone(cluster: ControlPlane, tmp_path: Path) -> None:
    """Stopped, it gives the Lease back; killed, it leaves it to run out."""
    install(cluster, "base", "evict")
    text = policy("Evict", interval="2s")

    def ran(controller: Controller) -> datetime:
        return datetime.fromisoformat(controller.log("cycle")[-1]["timestamp"])

    began = datetime.now(UTC)
    with Controller(cluster, tmp_path, text, *QUICK) as controller:
        controller.wait_for("cycle", count=2)
        wait_until(lambda: are_at_work(cluster), what="the status", timeout=20)
        held = lease(cluster)
        assert abs(datetime.fromisoformat(held.pop("since")) - began) < timedelta(seconds=10)
        assert held == {
            "holder": controller.log("leading")[0]["identity"],
            "freeSince": None,
            "aheadSeconds": 0,
            "error": "",
        }
        asked = datetime.now(UTC)
        assert controller.stop() == 0
        released = renewed(cluster)
        assert asked <= released <= datetime.now(UTC)
    time.sleep(2)
    check_free(cluster, released, ran(controller))
    with Controller(cluster, tmp_path, text, *QUICK) as controller:
        controller.wait_for("cycle", count=2)
        assert controller.process is not None
        controller.process.kill()
        controller.process.wait(10)
        ends = renewed(cluster) + timedelta(seconds=6)
        assert lease(cluster)["holder"] == controller.log("leading")[0]["identity"]
        time.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds()))
        check_free(cluster, ends, ran(controller))


def test_who_may_not_read_the_lease_learns_what_is_missing(cluster: ControlPlane, tmp_path: Path) -> None:
    """The role for people has the right."""
    install(cluster, "base", "evict")
    readable = ["", "apps", "policy", "storage.k8s.io", "scheduling.k8s.io", "karpenter.sh", "autoscaling"]
    grant(cluster.api, "shop/guest", [{"apiGroups": readable, "resources": ["*"], "verbs": ["get", "list"]}])
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "oncall-views"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rebalancer-view"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "shop", "name": "oncall"}],
    }
    cluster.api.apply([binding])
    with Controller(cluster, tmp_path, policy("Evict", interval="2s")) as controller:
        controller.wait_for("cycle", count=2)
        wait_until(lambda: are_at_work(cluster, "shop/oncall"), what="the status", timeout=20)
        unread = (
            f"whether a controller runs is not known: not allowed to get Lease {NAMESPACE}/rebalancer; "
            "the ClusterRole rebalancer-view has the right; last cycle "
        )
        for line in acting(cluster, "shop/guest"):
            assert line.startswith(unread), line


def test_the_page_of_a_process_that_has_lost_contact_says_so(cluster: ControlPlane, tmp_path: Path) -> None:
    """So does the page of one that waits; while one leads, the other's page says the same of it."""
    install(cluster, "base", "evict")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    text = policy("Evict", interval="1s")

    def page(controller: Controller) -> dict[str, Any]:
        port = controller.wait_for("serving the status page")[0]["port"]
        document: dict[str, Any] = json.loads(urllib3.request("GET", f"http://127.0.0.1:{port}/status.json").data)
        return document

    with Controller(cluster, folders[0], text, *QUICK) as one:
        identity = one.wait_for("leading")[0]["identity"]
        one.wait_for("cycle", count=2)
        with Controller(cluster, folders[1], text, *QUICK) as two:
            two.wait_for("another process leads")
            assert page(one)["acting"].endswith(f"; {EVICTS}")
            wait_until(
                lambda: page(two)["acting"].startswith(f"{identity} leads since ") and page(two)["report"] is not None,
                what="the other page",
            )
            server = cluster.running["kube-apiserver"]
            os.kill(server, signal.SIGSTOP)
            try:
                for controller in (one, two):
                    lost = "no controller runs as far as this process knows: Lease free since "

                    def has_lost_contact(controller: Controller = controller, lost: str = lost) -> bool:
                        return bool(page(controller)["acting"].startswith(lost))

                    wait_until(has_lost_contact, what="the page", timeout=20)
                    assert page(controller)["leads"] is False

                    def has_no_figures(controller: Controller = controller) -> bool:
                        return page(controller)["report"] is None

                    wait_until(has_no_figures, what="the end of what was read before", timeout=20)
            finally:
                os.kill(server, signal.SIGCONT)
            wait_until(
                lambda: any(page(one_of)["acting"].endswith(f"; {EVICTS}") for one_of in (one, two)),
                what="a leader",
                timeout=60,
            )
