"""What plan, explain and approve say of a repair that adds pods first: it is no eviction."""

import json
from pathlib import Path

import msgspec
import pytest

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.controller.status import status_document
from rebalancer.documents.plan import PlanDocument
from rebalancer.policy import Mode
from rebalancer.ports import PLAN_KEY, STATUS_KEY
from rebalancer.reporting.headline import approval_sentences
from rebalancer.reporting.text.plan import plan_text
from rebalancer.simulator import ZONE
from tests.adapters.kubernetes.fake_server import reachable
from tests.cli.files import ready_nodes, replica_set, write_list, write_policy
from tests.cli.test_approve import proposing
from tests.cli.test_status import at
from tests.control_plane.resources import Manifest
from tests.surge.build import Played, surging

LABELS = {"app": "web"}
EAGER = """mode: {mode}
groups: []
spread: {{for: 0s}}
eligibility: {{minAge: 0s}}
nodes: {{settle: 0s}}
repair: {{method: {method}, maxSurge: 2, namespaces: ["*"], overBudget: ["*"]}}
"""


def crowded(*, budget: int = 0) -> list[Manifest]:
    """Return a ReplicaSet with five of six pods in one of three zones, and a budget."""
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": LABELS},
    }
    on = ["a-0", "a-0", "a-0", "a-1", "a-1", "b-0"]
    pods = replica_set("web", on, namespace="shop", labels=LABELS, topologySpreadConstraints=[rule])
    numbers = {"expectedPods": 6, "currentHealthy": 6, "desiredHealthy": 6 - budget, "disruptionsAllowed": budget}
    disruption: Manifest = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": "web", "uid": "pdb", "generation": 1},
        "spec": {"maxUnavailable": budget, "selector": {"matchLabels": LABELS}},
        "status": {"observedGeneration": 1, **numbers},
    }
    return [*ready_nodes({"a": 2, "b": 2, "c": 2}), *pods, disruption]


class TestFromAFile:
    """The commands on a cluster in a file, which nobody acts on."""

    @pytest.fixture(autouse=True)
    def _prepare(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = tmp_path, capsys

    def says(self, *command: str, method: str = "Surge", mode: str = "Evict", budget: int = 0) -> str:
        policy = write_policy(self.folder, EAGER.format(method=method, mode=mode))
        words = ["--snapshot", write_list(self.folder / "all.yaml", crowded(budget=budget)), "--policy", policy]
        assert entry.main([*command, *words]) == Exit.FINE
        return self.capsys.readouterr().out

    @pytest.mark.parametrize("mode", ["Observe", "Approve", "Evict"])
    def test_the_plan_says_how_many_pods_appear_and_which_go_then(self, mode: str) -> None:
        text = self.says("plan", mode=mode)
        assert "0 pods to move now, 2 to go once as many are added, 1 more in later cycles" in text
        assert "~ adds 2 pods in zone b/c, then web-0 (a-0) and web-1 (a-0) go\n" in text
        assert "Surging: 2 pods are added first (repair.method), so that none is missing" in text
        assert "> web-" not in text
        assert "found by adding pods first" in self.says("plan", "-v", mode=mode)

    def test_names_are_those_of_evictions_alone(self) -> None:
        assert self.says("plan", "-o", "name") == ""
        assert self.says("plan", "-o", "name", method="Evict", budget=1) == "pod/web-0\n"

    def test_the_document_marks_what_goes_in_a_scale_down(self) -> None:
        plan = json.loads(self.says("plan", "-o", "json"))
        assert plan["evictions"] == []
        assert [(one["pod"], one["for"], one["added"]) for one in plan["waiting"]] == [
            ("web-0", "Surging", 2),
            ("web-1", "Surging", 2),
        ]
        assert plan["groups"][0]["method"] == "addition"
        evicted = json.loads(self.says("plan", "-o", "json", method="Evict", budget=1))
        assert "added" not in evicted["evictions"][0]

    def test_where_blocked_adds_only_where_no_eviction_is_allowed(self) -> None:
        assert "adds 2 pods" in self.says("plan", method="SurgeWhereBlocked")
        assert self.says("plan", "-o", "name", method="SurgeWhereBlocked", budget=1) == "pod/web-0\n"

    def test_explain_says_of_a_pod_how_it_goes_and_of_another_which_goes_instead(self) -> None:
        going = self.says("explain", "pod/web-0")
        assert "pod shop/web-0: Waits (Surging)" in going
        assert "it goes in a scale-down once 2 pods are added in zone b, c: forced" in going
        assert "its replacement is expected" not in going
        staying = self.says("explain", "pod/web-2")
        assert "the repair does not need this eviction: web-0 and web-1 go instead" in staying
        workload = self.says("explain", "replicaset/web")
        assert "shop/web (ReplicaSet): Waits (Surging)" in workload
        assert "goes on when 2 more pods of its workload are Ready" in workload


def proposed() -> Played:
    """Return a controller in mode Approve whose surge waits for approval."""
    played = Played(surging(Mode.APPROVE))
    played.run(5)
    return played


def test_a_proposal_says_that_pods_are_added_first() -> None:
    """In the status, and in the plan that is stored; nothing begins before it is approved."""
    played = proposed()
    state = played.controller.state
    assert state.cycle is not None
    assert played.told("SurgeBegan") == []
    status = status_document(state, "test", "test")
    assert status.approval is not None
    assert [one.added for one in status.approval.evictions] == [2, 2]
    sentences = list(approval_sentences(status.approval, played.cluster.now))
    assert any(one.startswith("2 of these pods are not evicted: as many are added first") for one in sentences)
    plan = msgspec.json.decode(state.cycle.plan_json, type=PlanDocument)
    assert [one.added for one in plan.evictions] == [2, 2]
    assert "> adds 2 pods in node b-1/b-2/c-1/c-2, zone b/c, then web-" in plan_text(plan)


def test_approve_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    played = proposed()
    state = played.controller.state
    assert state.cycle is not None
    plan = {**json.loads(state.cycle.plan_json), "expiresAt": at(750.5)}
    status = {**msgspec.to_builtins(status_document(state, "test", "test")), "lastCycle": at(-12)}
    server = proposing({STATUS_KEY: json.dumps(status), PLAN_KEY: json.dumps(plan)})
    with reachable(server, tmp_path, monkeypatch):
        entry.main(["approve", "--dry-run"])
    assert capsys.readouterr().out.count("SkewViolated; 2 pods added first, then scaled down") == 2
