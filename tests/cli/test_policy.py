"""`rebalancer policy`: what it prints and how it ends."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rebalancer.cli.main import main
from rebalancer.policy import default_policy, json_schema, load_policy
from tests.build import HEAD
from tests.cli.files import write_policy

CONFIG = Path(__file__).parents[2] / "config"
POD = Path(__file__).parent / "golden" / "pod.yaml"
SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
"""
BROKEN = Path(__file__).parents[1] / "policy" / "golden" / "broken.yaml"


def test_a_valid_policy_is_reported_as_valid(capsys: pytest.CaptureFixture[str]) -> None:
    """With the hash that plans and logs show, to compare."""
    file = str(CONFIG / "policy.yaml")
    assert main(["policy", "validate", file]) == 0
    assert capsys.readouterr().out == f"{file}: valid (mode Observe, hash {default_policy().hash})\n"


def test_an_invalid_policy_exits_1_with_all_problems_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output stays empty, each line can be jumped to."""
    assert main(["policy", "validate", str(BROKEN)]) == 1
    output = capsys.readouterr()
    expected = BROKEN.with_suffix(".txt").read_text().replace("policy.yaml:", f"{BROKEN}:").splitlines()
    assert output.out == ""
    assert output.err.splitlines() == [f"error: {BROKEN} is not a valid policy, {len(expected)} problems:", *expected]


@pytest.mark.parametrize("argv", [["validate", "absent.yaml"], ["show", "--policy", "absent.yaml"], ["validate", "/"]])
def test_a_file_that_cannot_be_read_is_named(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", *argv]) == 1
    assert capsys.readouterr().err.startswith(f"error: {argv[-1]} cannot be read: ")


def test_a_policy_is_read_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"mode: Evict\n")))
    assert main(["policy", "validate", "-"]) == 1
    assert "standard input:1: apiVersion: missing" in capsys.readouterr().err


def test_show_prints_a_policy_that_means_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With every default filled in; without a file, the shipped policy."""
    assert main(["policy", "show"]) == 0
    assert load_policy(capsys.readouterr().out.encode(), source="shown") == default_policy()
    assert main(["policy", "show", "--policy", write_policy(tmp_path, "interval: 90s\n")]) == 0
    assert "interval: 1m30s\n" in capsys.readouterr().out


def test_the_schema_is_printed_as_it_is_committed(capsys: pytest.CaptureFixture[str]) -> None:
    """The command that renews config/policy.schema.json writes exactly that file."""
    assert main(["policy", "schema"]) == 0
    text = capsys.readouterr().out
    assert json.loads(text) == json_schema()
    assert text == (CONFIG / "policy.schema.json").read_text()


@pytest.mark.parametrize(
    "command",
    [
        ["plan"],
        ["report"],
        ["explain", "deployment/web"],
        ["predict", "--pod", str(POD)],
        ["simulate", "--cordon", "a-0"],
    ],
    ids=lambda command: command[0],
)
def test_the_schedulers_configuration_is_found_beside_the_policy(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever one stands, by a path with `..` and by a link; a file of that name where one stands is another."""
    example = str(Path("docs/examples/zone-returned.json").absolute())
    for name in ("conf", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "conf" / "policy.yaml").write_text(f"{HEAD}scheduler: {{configFile: own.yaml}}\n", encoding="utf-8")
    (tmp_path / "here" / "link.yaml").symlink_to("../conf/policy.yaml")
    (tmp_path / "here" / "own.yaml").write_text("kind: Other\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    scheduler = tmp_path / "conf" / "own.yaml"
    for policy in ("../conf/policy.yaml", str(tmp_path / "conf" / "policy.yaml"), "link.yaml"):
        words = [*command, "--snapshot", example, "--policy", policy]
        scheduler.write_text(SCHEDULER, encoding="utf-8")
        if policy == "link.yaml":
            (tmp_path / "here" / "own.yaml").unlink()
        assert main(words) == 0, capsys.readouterr().err
        scheduler.write_text("kind: Broken\n", encoding="utf-8")
        assert main(words) == 1
        assert "scheduler.configFile: own.yaml: line 1: apiVersion: missing" in capsys.readouterr().err
