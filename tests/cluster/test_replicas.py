"""Two replicas behind a Service, the leader is killed: the page of the one that is left answers each second.

First it is as of the leader's last cycle, then no controller runs, then it is a leader's. No number contradicts.
"""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import urllib3

from tests.cluster.controller import NAMESPACE, Controller, install, policy
from tests.cluster.test_status_page import lay_out_shop
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane

FLAGS = ("--lease-duration=10s", "--renew-deadline=7s", "--retry-period=4s")
"""The Lease runs out between two tries to take it, two seconds before the next one at least."""

SLOW = {"budgets": {"perMinute": 1}}
"""After the first eviction nothing moves in the course of the test: each page has the same numbers."""

STATUS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"

OF_A_CLUSTER = "rebalancer_planned_evictions"
"""A gauge that only a leader exports."""


class Answer(NamedTuple):
    """What a page said."""

    second: int
    leads: bool
    acting: str
    as_of: float | None
    figures: dict[str, Any] | None

    def __str__(self) -> str:
        whose = "leader " if self.leads else "replica"
        age = f"as of {self.as_of:4.1f} s ago" if self.as_of is not None else 15 * " "
        return f"{self.second:3} s  {whose}  {age}  {self.figures}  {self.acting}"


def read(controller: Controller, path: str) -> bytes:
    port = controller.log("serving the status page")[0]["port"]
    answer = urllib3.request("GET", f"http://127.0.0.1:{port}{path}", timeout=5.0, retries=False)
    assert answer.status == 200, answer.data
    return answer.data


def ask(controller: Controller, began: float) -> Answer:
    """Read the page of a replica, as a browser and as a script do."""
    html, page = read(controller, "/").decode(), json.loads(read(controller, "/status.json"))
    for path in ("/workloads", "/nodes", "/history"):
        read(controller, path)
    follows = page["follows"]
    assert ("This replica does not lead" in html) is (follows is not None)
    as_of = None
    if follows is not None:
        assert follows["leader"] == page["status"]["leader"]
        as_of = (datetime.now(UTC) - datetime.fromisoformat(follows["asOf"])).total_seconds()
    figures = numbers(page)
    assert figures is None or figures["moving"] == len(page["status"]["inFlight"])
    return Answer(round(time.monotonic() - began), page["leads"], page["acting"], as_of, figures)


def numbers(page: dict[str, Any]) -> dict[str, Any] | None:
    """Return the figures but for the next time, which only a leader decides, and the sums of the plan."""
    if page["overview"] is None:
        return None
    figures = {name: number for name, number in page["overview"]["figures"].items() if name != "nextAt"}
    return {**figures, "evictions": page["totals"]["evictions"]}


def exported(controller: Controller) -> set[str]:
    return {name.partition("{")[0] for name in controller.metrics()}


def is_at_rest(controller: Controller) -> bool:
    """Return whether an eviction was verified, and the next one waits for the rate."""
    if not controller.log("cycle"):
        return False
    status = json.loads(read(controller, "/status.json"))["status"]
    return bool(status["lastMoves"]) and not status["inFlight"] and "RateLimited" in status["refusals"]


@pytest.mark.invariant("same-numbers")
def test_the_page_answers_each_second_while_another_replica_takes_over(cluster: ControlPlane, tmp_path: Path) -> None:
    """Until then that replica writes nothing, and exports nothing of the cluster."""
    install(cluster, "base", "evict")
    lay_out_shop(cluster)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    text = policy("Evict", **SLOW)
    with Controller(cluster, folders[0], text, *FLAGS) as one, Controller(cluster, folders[1], text, *FLAGS) as two:
        wait_until(lambda: one.log("leading") or two.log("leading"), what="a leader", timeout=60)
        leader, other = (one, two) if one.log("leading") else (two, one)
        other.wait_for("another process leads")
        wait_until(lambda: is_at_rest(leader), what="the first eviction's replacement", timeout=40)
        led = leader.log("leading")[0]["identity"]
        began = time.monotonic()
        # What the leader stored of its last cycle has to reach the other process first.
        wait_until(
            lambda: ask(other, began).figures == numbers(json.loads(read(leader, "/status.json"))),
            what="the leader's numbers on the replica",
            timeout=20,
        )
        began = time.monotonic()
        answers = [ask(other, began)]
        truth = numbers(json.loads(read(leader, "/status.json")))
        assert OF_A_CLUSTER in exported(leader)
        assert leader.process is not None
        leader.process.kill()
        leader.process.wait(10)
        version = cluster.api.get(STATUS)["metadata"]["resourceVersion"]
        while sum(answer.leads and answer.figures is not None for answer in answers) < 3:
            time.sleep(max(0.0, began + len(answers) - time.monotonic()))
            answers.append(ask(other, began))
            assert time.monotonic() < began + 60
            if not answers[-1].leads and not other.log("leading"):
                assert cluster.api.get(STATUS)["metadata"]["resourceVersion"] == version
                assert OF_A_CLUSTER not in exported(other)
        print("", *answers, sep="\n")
    follows = [answer for answer in answers if answer.acting.startswith(f"{led} leads since ")]
    free = [answer for answer in answers if answer.acting.startswith("no controller runs: Lease free since ")]
    leads = [answer for answer in answers if answer.leads]
    # Whether a second falls between the end of the Lease and the takeover is chance.
    assert follows
    assert leads[-1].acting.endswith("mode Evict: the controller evicts")
    assert answers[: len(follows) + len(free)] == [*follows, *free]
    assert not any(answer.leads for answer in (*follows, *free))
    assert all(answer.as_of is not None for answer in (*follows, *free))
    assert all(f"by {led}" in answer.acting for answer in free)
    assert [answer for answer in answers if answer.figures not in (None, truth)] == []
    assert [answer for answer in (*follows, *free) if answer.figures is None] == []
