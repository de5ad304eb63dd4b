"""The worked examples of CONTRIBUTING: applied to a copy of the tree, each is seen wherever people look for it."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.drawing import sampled
from tools.reference import ROOT

_EXAMPLE: Final = re.compile(r"<!-- example: (\w+) -->\n```diff\n(.*?)```", re.DOTALL)
EXAMPLES: Final = dict(_EXAMPLE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
COPIED: Final = ("rebalancer", "tests", "tools", "config", "deploy", "docs", "benchmarks")
MOST_FILES: Final = 2

SCRAPE: Final = """
from prometheus_client import generate_latest
import rebalancer
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue, InForce, Leading, LoopState
from rebalancer.policy import default_policy
from tests.reports import export, view_of

snapshot = rebalancer.read_snapshot(open("cluster.json", "rb").read())
state = LoopState(in_force=InForce(policy=default_policy(), policy_since=snapshot.taken_at))
state, _ = step(state, Leading(leads=True), snapshot.taken_at)
state, _ = step(state, CycleDue(snapshot=snapshot), snapshot.taken_at)
print(generate_latest(export(view_of(state)).registry).decode())
"""


def parts_of(diff: str) -> Mapping[str, list[tuple[str, str]]]:
    """Return the hunks of each file of a diff as text before and after: the lines' own words say where they belong."""
    files: dict[str, list[tuple[str, str]]] = {}
    for name, hunks in re.findall(r"^--- a/(\S+)\n\+\+\+ b/\S+\n(.*?)(?=^--- a/|\Z)", diff, re.DOTALL | re.MULTILINE):
        for hunk in hunks.split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] in " -")
            after = "".join(line[1:] for line in lines if line[0] in " +")
            files.setdefault(name, []).append((before, after))
    return files


class Tree:
    """A copy of the sources with examples in it."""

    def __init__(self, folder: Path, examples: Iterable[str]) -> None:
        self.folder = folder
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for example in examples:
            for name, hunks in parts_of(EXAMPLES[example]).items():
                text = (folder / name).read_text(encoding="utf-8")
                for before, after in hunks:
                    assert text.count(before) == 1, f"{name} has no such place, or several: {before}"
                    text = text.replace(before, after)
                (folder / name).write_text(text, encoding="utf-8")
        self.python("-m", "tools.reference")

    def python(self, *arguments: str) -> str:
        """Run Python in the copy; return what it prints."""
        command = [sys.executable, *arguments]
        environment = {"PYTHONPATH": str(self.folder), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, check=True, capture_output=True, text=True, timeout=120
        )
        return done.stdout

    def command(self, *arguments: str) -> str:
        """Run a command of the program in the copy."""
        return self.python("-c", "from rebalancer.cli.start import main; main()", *arguments)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tree]:
    """Plant an example in a tree of its own, as in CI, or by default all of them in one."""
    alone = len(sampled(EXAMPLES)) == len(EXAMPLES)

    @cache
    def planted(*examples: str) -> Tree:
        return Tree(tmp_path_factory.mktemp("tree"), examples)

    return lambda example: planted(example) if alone else planted(*EXAMPLES)


@pytest.fixture
def tree(request: pytest.FixtureRequest, plant: Callable[[str], Tree]) -> Tree:
    return plant(request.param)


def test_each_example_touches_at_most_two_files() -> None:
    assert sorted(EXAMPLES) == ["field", "metric", "refusal"]
    assert all(len(parts_of(diff)) <= MOST_FILES for diff in EXAMPLES.values())


@pytest.mark.parametrize("tree", ["refusal"], indirect=True)
def test_a_refusal_is_seen_in_plan_json_metric_explanation_and_reference(tree: Tree) -> None:
    document = json.loads(tree.read("docs/examples/zone-returned.json"))
    pods = [item for item in document["items"] if item["kind"] == "Pod"]
    labelled = [pod for pod in pods if pod["metadata"]["name"].startswith("web-")]
    for item in labelled:
        item["metadata"]["labels"] = {**item["metadata"]["labels"], "example.com/pinned": "yes"}
    (tree.folder / "cluster.json").write_text(json.dumps(document), encoding="utf-8")
    sentence = "it is labelled example.com/pinned: yes; remove the label to allow the eviction"
    assert sentence in re.sub(r"\s+", " ", tree.command("plan", "--snapshot", "cluster.json"))
    refusals = json.loads(tree.command("plan", "--snapshot", "cluster.json", "-o", "json"))["refusals"]
    assert [row["reason"] for row in refusals if row["message"] == sentence] == ["Excluded"] * len(labelled)
    assert sentence in re.sub(r"\s+", " ", tree.command("explain", "deployment/web", "--snapshot", "cluster.json"))
    counted = re.search(r'^rebalancer_refusals\{reason="Excluded"\} (\d+)', tree.python("-c", SCRAPE), re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) >= len(labelled)
    assert "| `Pinned` | `Excluded` | A label of the pod says that it stays where it is. |" in tree.read(
        "docs/reference/reasons.md"
    )


@pytest.mark.parametrize("tree", ["metric"], indirect=True)
def test_a_metric_is_seen_on_the_page_the_dashboard_and_in_the_reference(tree: Tree) -> None:
    shutil.copy(tree.folder / "docs/examples/zone-returned.json", tree.folder / "cluster.json")
    scraped = tree.python("-c", SCRAPE)
    assert "# HELP rebalancer_cordoned_nodes Nodes that are cordoned.\n" in scraped
    assert "rebalancer_cordoned_nodes 0.0\n" in scraped
    assert "rebalancer_cordoned_nodes" in tree.read("deploy/monitoring/dashboard.json")
    assert "| `rebalancer_cordoned_nodes` | gauge |" in tree.read("docs/reference/metrics.md")


@pytest.mark.parametrize("tree", ["field"], indirect=True)
def test_a_policy_field_is_seen_in_schema_policy_and_reference_and_has_an_effect(tree: Tree) -> None:
    schema = json.loads(tree.read("config/policy.schema.json"))
    assert "maxReplicas" in json.dumps(schema)
    assert "maxReplicas: null\n" in tree.command("policy", "show")
    assert "maxReplicas: null\n" in tree.read("config/policy.yaml")
    assert "maxReplicas: null\n" in tree.read("deploy/base/policy.yaml")
    assert "maxReplicas" in tree.read("docs/reference/policy.md")
    policy = tree.read("config/policy.yaml").replace("maxReplicas: null", "maxReplicas: 5")
    (tree.folder / "policy.yaml").write_text(policy, encoding="utf-8")
    shown = tree.command("plan", "--snapshot", "docs/examples/zone-returned.json", "--policy", "policy.yaml")
    assert "it has 12 replicas; eligibility.maxReplicas is 5" in re.sub(r"\s+", " ", shown)
