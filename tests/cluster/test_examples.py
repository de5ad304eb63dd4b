"""The examples on the real servers: what their pages apply, the event, and the end that they promise.

The controller is a process with the account and rights of `deploy/`, and reads the policy that the page's command has
put into the ConfigMap; only times are shorter.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cluster.controller import FAST, NAMESPACE, ROOT, USER, Controller, install, rebalancer
from tests.cluster.prevention import living, wait_ordered, wait_restricted
from tests.cluster.test_capacity import autoscaler, failed_scheduling, nothing_left
from tests.cluster.test_pages import as_a_reader, run
from tests.control_plane.api import wait_until
from tests.control_plane.layout import lay_out, lose_nodes, nodes, return_nodes
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import wait_settled
from tests.deploy.rendering import require_programs
from tests.pages import EXAMPLES, Command, Place, check, commands

CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy"

PATIENCE: Final = 180.0
"""Seconds; a zone that has just lost nodes is left alone for one minute of them."""


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    require_programs("kubectl")


@dataclass
class Stage:
    """An example that was applied, beside the controller; `left` are the commands of its page after that."""

    cluster: ControlPlane
    namespace: str
    variables: dict[str, str]
    policy: dict[str, Any]
    controller: Controller
    left: list[Command]

    def do(self, command: Command) -> None:
        """Run a command of the page, which must print what that shows."""
        done = run(command.text, ROOT, self.variables)
        assert done.returncode == 0, f"{command.text}\n{done.stdout}\n{done.stderr}"
        check(command, done.stdout)

    def set_window(self, schedule: str) -> None:
        """Write the policy with one window of an hour, in UTC."""
        window = {"schedule": schedule, "duration": "1h"}
        self.controller.policy_file.write_text(yaml.safe_dump({**self.policy, "windows": [window]}))

    def lose_and_return(self, zone: str) -> None:
        lost = lose_nodes(self.cluster, f"{zone}-0", f"{zone}-1")
        wait_settled(self.cluster)
        return_nodes(self.cluster, lost)

    def counts(self) -> Mapping[str, int]:
        """Count the pods by zone; those that are being deleted do not count."""
        zones = {
            node["metadata"]["name"]: node["metadata"]["labels"][ZONE]
            for node in self.cluster.api.list("/api/v1/nodes")
        }
        return Counter(
            zones.get(pod["spec"].get("nodeName", ""), "") for pod in living(self.cluster.api, self.namespace)
        )

    def wait_cycles(self, number: int) -> None:
        self.controller.wait_for("cycle", count=len(self.controller.log("cycle")) + number)


def lose_zone_b(stage: Stage) -> None:
    stage.lose_and_return("b")


def lose_zone_c(stage: Stage) -> None:
    stage.lose_and_return("c")


def add_nodes_when_requested(stage: Stage) -> None:
    """Be the autoscaler of zone c until the placeholders are gone, and no pod of the workload waited for a node."""
    api = stage.cluster.api
    with autoscaler(api):
        wait_until(lambda: stage.counts() == {"a": 2, "b": 2, "c": 2}, what="two pods in each zone", timeout=PATIENCE)
        wait_until(lambda: nothing_left(api), what="the placeholders to go")
    assert not failed_scheduling(api)
    stage.do(stage.left[0])


def scale_down(stage: Stage) -> None:
    wait_restricted(stage.cluster)
    wait_ordered(stage.cluster)
    stage.do(stage.left[0])


def approve_in_the_window(stage: Stage) -> None:
    """Outside the windows nothing is proposed; approve what is while one is open, and not before."""
    look, approve = stage.left
    later = datetime.now(UTC) + timedelta(hours=6)
    stage.set_window(f"0 {later.hour} * * *")
    stage.wait_cycles(2)
    lay_out(stage.cluster, nodes({"c": 2}))
    cycles = stage.controller
    wait_until(
        lambda: any("OutsideWindow" in cycle["waiting_for"] for cycle in cycles.log("cycle")), what="the violation"
    )
    refused = run(approve.text, ROOT, stage.variables)
    assert (refused.returncode, "no plan waits for approval" in refused.stderr) == (1, True)
    stage.set_window("* * * * *")
    wait_until(lambda: run(look.text, ROOT, stage.variables).returncode == 0, what="the proposal", interval=1.0)
    stage.wait_cycles(2)
    assert not stage.cluster.audit.evictions()
    for command in (look, approve):
        stage.do(command)


@dataclass(frozen=True)
class Story:
    """The nodes by zone, the event, the pods by zone at the end, and how many evictions that takes."""

    nodes: Mapping[str, int]
    event: Callable[[Stage], None]
    end: Mapping[str, int]
    evictions: int
    namespace: str = "shop"


THREE: Final = {"a": 2, "b": 2, "c": 2}
STORIES: Final = {
    "approval": Story({"a": 2, "b": 2}, approve_in_the_window, THREE, 2),
    "autoscaled": Story({"a": 2, "b": 2}, add_nodes_when_requested, THREE, 2),
    "prevention": Story(THREE, scale_down, {"a": 1, "b": 1, "c": 1}, 0),
    "redis-limits": Story(THREE, lose_zone_c, {"a": 3, "b": 3, "c": 2}, 2, "redis"),
    "zone-back": Story({"a": 2, "b": 2}, lose_zone_b, {"a": 3, "b": 3}, 3),
}


def faster(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy with the times of tests."""
    made = {
        name: value | policy[name] | value if isinstance(value, dict) and name in policy else value
        for name, value in FAST.items()
    }
    if "capacity" in policy:
        made["capacity"] = policy["capacity"] | {"settle": "1s"}
    return {**policy, **made}


def test_every_example_has_its_story() -> None:
    assert {Path(page).parent.name for page in EXAMPLES} == STORIES.keys()


@pytest.mark.parametrize(
    "name", [pytest.param("approval", marks=pytest.mark.invariant("approval")), *sorted(STORIES.keys() - {"approval"})]
)
def test_an_example_ends_as_its_page_says(cluster: ControlPlane, tmp_path: Path, name: str) -> None:
    """With the minimum of evictions, no refused request, and a report without a violation."""
    story, page = STORIES[name], f"docs/examples/{name}/README.md"
    on_a_cluster = [command for command in commands(page) if command.place is Place.CLUSTER]
    forms = [command.text.partition(" -k deploy/")[2] for command in on_a_cluster if " -k deploy/" in command.text]
    install(cluster, *dict.fromkeys(["base", *forms]))
    lay_out(cluster, nodes(story.nodes, cpu="8"))
    others = [command for command in on_a_cluster if " -k deploy/" not in command.text]
    applied = [command.text for command in others].index(f"kubectl apply -f docs/examples/{name}/workload.yaml") + 1
    controller = Controller(cluster, tmp_path, "")
    stage = Stage(cluster, story.namespace, as_a_reader(cluster, tmp_path), {}, controller, others[applied:])
    for command in others[:applied]:
        stage.do(command)
    wait_settled(cluster)
    stage.policy = faster(yaml.safe_load(cluster.api.get(CONFIG)["data"]["policy.yaml"]))
    controller.policy_file.write_text(yaml.safe_dump(stage.policy))
    with controller:
        stage.wait_cycles(2)
        story.event(stage)
        wait_until(lambda: stage.counts() == story.end, what=f"{dict(story.end)} pods by zone", timeout=PATIENCE)
        wait_settled(cluster)
        stage.wait_cycles(3)
        assert stage.counts() == story.end
        assert controller.stop() == 0
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * story.evictions
    assert not [request for request in cluster.audit.requests(user=USER) if request.code == 429]
    check_report(stage)


def check_report(stage: Stage) -> None:
    """Nothing is violated for who asks with the example's policy."""
    access = ("--kubeconfig", str(stage.cluster.kubeconfig()), "-n", stage.namespace)
    done = rebalancer("report", "--policy", str(stage.controller.policy_file), *access, "-o", "json")
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    states = [row["state"] for row in (*report["constraints"], *report["limits"])]
    assert set(states) == {"Satisfied"}
