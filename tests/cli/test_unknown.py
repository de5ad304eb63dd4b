"""What cannot be counted is never called satisfied: `plan` and `explain` say Unknown where `report` does."""

import json
from pathlib import Path

import pytest

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from tests.cli.files import write_list, write_policy
from tests.control_plane.manifests import ZONE
from tests.control_plane.resources import Manifest
from tests.known_states import build as known

LABELS = {"app": "web"}
LIMIT = """
groups:
- name: web
  selector: {matchLabels: {app: web}}
  limits: [{name: rack-half, topologyKey: rack, maxShare: "<=1/2"}]
"""


def spread(key: str, on: tuple[str, ...] = ("a-0", "b-0", "c-0")) -> known.State:
    rules = [{**known.over_zones(LABELS), "topologyKey": key}]
    return known.cluster(known.deployment("web", on, topologySpreadConstraints=rules))


class TestUnknown:
    """Three pods in three zones, with a constraint or limit over a key that no node has, or without nodes."""

    @pytest.fixture(autouse=True)
    def _prepare(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = tmp_path, capsys

    def says(self, items: list[Manifest], *command: str, policy: str = "") -> str:
        words = ["--snapshot", write_list(self.folder / "all.json", items), "--at", known.minutes_ago(0)]
        words += ["--policy", write_policy(self.folder, policy)]
        assert entry.main([*command, *words]) == Exit.FINE
        return " ".join(self.capsys.readouterr().out.split())

    def test_a_key_that_no_node_has(self) -> None:
        state = spread("rack")
        told = self.says(state.items, "plan")
        assert "Nothing to repair is known." in told
        assert "1 workload is Unknown: no node that was read has the label" in told
        assert "satisf" not in told
        (unknown,) = json.loads(self.says(state.items, "plan", "-o", "json"))["unknown"]
        assert unknown == {"namespace": "shop", "workload": {"kind": "Deployment", "name": "web"}}
        for name in ("deployment/web", "pod/web-0"):
            told = self.says(state.items, "explain", name)
            assert "satisfied? Unknown no node that was read takes such pods and has the label rack" in told
            assert "Satisfied" not in told
        assert "whether all constraints and limits that count this pod are satisfied is Unknown" in told

    def test_a_limit_over_it(self) -> None:
        state = spread(ZONE)
        assert "1 workload is Unknown" in self.says(state.items, "plan", policy=LIMIT)
        told = self.says(state.items, "explain", "pod/web-0", policy=LIMIT)
        assert "satisfied? Unknown no node that was read takes such pods and has the label rack" in told
        assert "that count this pod are satisfied is Unknown" in told

    def test_what_is_violated_beside_it_is_no_less_violated(self) -> None:
        state = spread(ZONE, ("a-0", "a-0", "a-0"))
        assert "Unknown" not in self.says(state.items, "plan", policy=LIMIT)

    def test_without_nodes(self) -> None:
        items = [item for item in spread(ZONE).items if item["kind"] != "Node"]
        told = self.says(items, "plan")
        assert "Unknown what is to be repaired: the snapshot has no Nodes." in told
        assert "1 workload is Unknown" in told

    def test_without_anything(self) -> None:
        told = self.says([], "plan")
        assert "Unknown what is to be repaired: the snapshot has no Nodes and no Pods." in told
        assert "All other workloads" not in told

    def test_what_was_counted_is_satisfied(self) -> None:
        state = spread(ZONE)
        told = self.says(state.items, "plan")
        assert "Nothing to repair. 1 workload satisfies all constraints and limits." in told
        assert "Satisfied: skew 0" in self.says(state.items, "explain", "pod/web-0")
