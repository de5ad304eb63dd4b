"""`rebalancer lint`: what it reads, what it prints, and how it ends."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from rebalancer.cli.errors import Exit
from rebalancer.cli.main import main
from rebalancer.documents.document import document_schema
from rebalancer.lint.document import LintDocument
from rebalancer.lint.finding import Rule
from tests.lint.build import affinity, budget, deployment, spread, term, text

PAGE = Path(__file__).parents[2] / "docs" / "lint.md"
ERROR = text(deployment(labels={"app": "wep"}))
WARNING = text(deployment(affinity=affinity(apart=[term()])))
INFO = text(deployment(6, topologySpreadConstraints=[spread()]))
NOTHING = text(deployment())


def lint(tmp_path: Path, written: str, *flags: str) -> int:
    file = tmp_path / "web.yaml"
    file.write_text(written)
    return main(["lint", str(file), *flags])


@pytest.mark.parametrize(
    ("written", "fails"),
    [(ERROR, ["error", "warning", "info"]), (WARNING, ["warning", "info"]), (INFO, ["info"]), (NOTHING, [])],
)
def test_it_fails_from_a_severity_on(tmp_path: Path, written: str, fails: list[str]) -> None:
    """3 is what is found, not that it could not be looked for; without the flag it fails on errors."""
    for severity in ("error", "warning", "info", "never"):
        expected = Exit.SOMETHING if severity in fails else Exit.FINE
        assert lint(tmp_path, written, "--fail-on", severity) == expected
    assert lint(tmp_path, written) == (Exit.SOMETHING if "error" in fails else Exit.FINE)


def test_json_and_yaml_are_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the fields that its schema has, and the operations of a JSON Patch."""
    lint(tmp_path, WARNING, "-o", "json")
    document = json.loads(capsys.readouterr().out)
    lint(tmp_path, WARNING, "-o", "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == document
    assert document.keys() == document_schema(LintDocument)["$defs"]["LintDocument"]["properties"].keys()
    (finding,) = document["findings"]
    assert finding.keys() == {"rule", "severity", "file", "line", "object", "message", "help", "patch"}
    assert finding["object"] == "Deployment shop/web"
    fix = {"op": "add", "path": "/spec/strategy", "value": {"rollingUpdate": {"maxUnavailable": 1}}}
    assert finding["patch"] == [fix]


def test_a_folder_is_read_with_all_its_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A budget in one file is held against the workload of another; other files are passed over."""
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "web.yml").write_text(NOTHING)
    (tmp_path / "budget.json").write_text(json.dumps(budget(minAvailable=3)))
    (tmp_path / "README.md").write_text("kind: [")
    assert main(["lint", str(tmp_path), "-o", "json"]) == Exit.FINE
    document = json.loads(capsys.readouterr().out)
    assert (document["files"], document["objects"]) == (2, 2)
    assert [one["rule"] for one in document["findings"]] == ["budget-allows-nothing"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What kustomize and helm template print."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(ERROR.encode())))
    assert main(["lint", "-"]) == Exit.SOMETHING
    assert capsys.readouterr().out.startswith("standard input:8: error: Deployment shop/web: ")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.yaml", None, "gone.yaml cannot be read: No such file or directory"),
        ("utf-16.yaml", "kind: Pod".encode("utf-16"), "is not UTF-8; expected YAML or JSON"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None, message: str
) -> None:
    """Nothing found is not the same as nothing looked at."""
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    assert main(["lint", str(file)]) == Exit.ERROR
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("written", ["", "replicas: 3\n", "---\n---\n# notes\n"])
def test_a_file_without_objects_is_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str) -> None:
    """A hook names all files that are committed, the values of a chart, too; nothing from a pipe is its failure."""
    assert lint(tmp_path, written) == Exit.FINE
    assert capsys.readouterr().out == "0 objects in 1 file: nothing found.\n"
    assert lint(tmp_path, written, "-o", "json") == Exit.FINE
    assert json.loads(capsys.readouterr().out)["objects"] == 0


def test_nothing_from_standard_input_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command before the pipe has failed."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert main(["lint", "-"]) == Exit.ERROR
    assert "no Kubernetes object in standard input" in capsys.readouterr().err


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name, in its folder, and by another way to it."""
    (tmp_path / "apps").mkdir()
    lint(tmp_path, NOTHING, str(tmp_path / "web.yaml"), str(tmp_path), str(tmp_path / "apps" / ".." / "web.yaml"))
    assert capsys.readouterr().out == "1 object in 1 file: nothing found.\n"


def test_each_finding_names_the_heading_that_explains_its_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In JSON and in SARIF; the page has a heading for each rule."""
    assert lint(tmp_path, ERROR, "-o", "json") == Exit.SOMETHING
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["help"] == "docs/lint.md#selector-misses-template"
    lint(tmp_path, ERROR, "-o", "sarif")
    rules = json.loads(capsys.readouterr().out)["runs"][0]["tool"]["driver"]["rules"]
    headings = {f"docs/lint.md#{line[4:]}" for line in PAGE.read_text().splitlines() if line.startswith("### ")}
    assert {one["help"]["text"] for one in rules} <= headings
    assert len(rules) == len(Rule)


BINARY = b"kind: Deployment\nname: \xff\xfe"


def two_files(tmp_path: Path, *flags: str) -> int:
    """Lint a folder with a file that can be read, and one that cannot."""
    (tmp_path / "binary.yaml").write_bytes(BINARY)
    (tmp_path / "web.yaml").write_text(ERROR)
    return main(["lint", str(tmp_path), *flags])


def test_a_file_that_cannot_be_read_hides_nothing_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named with the reason, and the exit code is that of bad input, whatever is found."""
    assert two_files(tmp_path) == Exit.ERROR
    printed = capsys.readouterr()
    assert "[selector-misses-template]" in printed.out
    assert printed.out.endswith("1 object in 1 file: 1 error; 1 file not read.\n")
    assert f"{tmp_path}/binary.yaml is not UTF-8; expected YAML or JSON" in printed.err


def test_documents_name_the_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON in `errors`, SARIF as notifications of an invocation that did not succeed; findings are in both."""
    why = {"file": f"{tmp_path}/binary.yaml", "message": f"{tmp_path}/binary.yaml is not UTF-8; expected YAML or JSON"}
    assert two_files(tmp_path, "-o", "json") == Exit.ERROR
    document = json.loads(capsys.readouterr().out)
    assert (document["files"], document["errors"]) == (1, [why])
    assert [one["rule"] for one in document["findings"]] == ["selector-misses-template"]
    assert two_files(tmp_path, "-o", "sarif") == Exit.ERROR
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (invocation,) = run["invocations"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert not invocation["executionSuccessful"]
    assert (notification["level"], notification["message"]["text"]) == ("error", why["message"])
    assert [one["ruleId"] for one in run["results"]] == ["selector-misses-template"]


def test_a_kustomization_is_said_to_be_read_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once, however many folders have one, with the command that lints what is deployed."""
    for folder in ("base", "overlay"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kustomization.yaml").write_text("kind: Kustomization\nresources: [web.yaml]\n")
    (tmp_path / "base" / "web.yaml").write_text(NOTHING)
    assert main(["lint", str(tmp_path)]) == Exit.FINE
    assert capsys.readouterr().err == (
        f"warning: {tmp_path}/base (and 1 other folder) has a kustomization: the files are read as they are. "
        f"What is deployed is seen by: kustomize build {tmp_path}/base | rebalancer lint -\n"
    )


@pytest.mark.parametrize(
    ("written", "flags", "said"),
    [
        (WARNING, [], True),
        (WARNING, ["--fail-on", "never"], False),
        (WARNING, ["--fail-on", "warning"], False),
        (INFO, [], False),
        (NOTHING, [], False),
        (f"{WARNING}---\n{ERROR}", [], False),
    ],
)
def test_warnings_that_do_not_fail_say_what_makes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str, flags: list[str], *, said: bool
) -> None:
    """In the last line, where nobody has chosen what to fail on."""
    lint(tmp_path, written, *flags)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("1 warning. No error, so the exit code is 0; with --fail-on warning it is 3.") == said


def test_a_folder_without_manifests_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is probably another folder that was meant."""
    assert main(["lint", str(tmp_path)]) == Exit.ERROR
    assert "has no manifest (.yaml, .yml, .json)" in capsys.readouterr().err


def test_a_comment_that_names_no_rule_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else a misspelt one would leave people wondering."""
    assert lint(tmp_path, f"# rebalancer-lint: ignore=rollout-wedge spare nodes\n{WARNING}") == Exit.FINE
    printed = capsys.readouterr()
    assert "[rollout-wedges]" in printed.out
    assert "web.yaml: rebalancer-lint: ignore=rollout-wedge names no rule" in printed.err


def test_a_manifests_text_cannot_write_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No line of its own, and no colour."""
    made = deployment(
        topologySpreadConstraints=[spread(labelSelector={"matchLabels": {"a": "b"}}, topologyKey="x\x1b[31m\ny")]
    )
    lint(tmp_path, text(made))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert not any(line.startswith("y ") for line in shown.splitlines())


EXAMPLE = "docs/examples/zone-returned.json"


def test_a_cluster_says_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What only depends on it is known then."""
    made = text(deployment(strategy={"rollingUpdate": {"maxUnavailable": 0}}, affinity=affinity(apart=[term()])))
    assert lint(tmp_path, made, "--fail-on", "warning") == Exit.SOMETHING
    assert "[rollout-wedges]" in capsys.readouterr().out
    assert lint(tmp_path, made, "--fail-on", "warning", "--snapshot", EXAMPLE) == Exit.FINE


def test_a_drain_needs_no_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    """Its findings stand at the file of the cluster."""
    assert main(["lint", "--snapshot", EXAMPLE, "--drain", "a-0"]) == Exit.SOMETHING
    shown = capsys.readouterr().out
    assert shown.startswith(
        f"{EXAMPLE}:1: error: Deployment shop/cart: drain of a-0: 2 pods there: the budget shop/cart "
    )
    assert shown.endswith("0 objects in 0 files: 1 error, 1 info.\n")


POLICY = """
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
groups:
  - {name: g, selector: {}, limits: [{name: half, topologyKey: kubernetes.io/hostname, maxShare: "<=1/2"}]}
"""


def test_the_limits_of_a_policy_are_held_against_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the file that is named, alone and in a cluster; the shipped one is nobody's choice.

    The constraints of the cluster's workload are not those of the manifest, which is said there without a policy.
    """
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    for more in ((), ("--snapshot", EXAMPLE)):
        lint(tmp_path, NOTHING, "-o", "json", *more)
        said = [one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]]
        assert said == (["takes-evictions"] if more else [])
        lint(tmp_path, NOTHING, "-o", "json", "--policy", str(policy), *more)
        (found, *_) = json.loads(capsys.readouterr().out)["findings"]
        assert (found["rule"], found["numbers"]["cap"]) == ("limit-not-guaranteed", 1)
        assert found["numbers"].get("domains") == (6 if more else None)


def test_a_policy_among_the_manifests_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The ConfigMap of the cluster's; a mistake in it is said with its name."""
    metadata = {"name": "rebalancer-policy", "namespace": "rebalancer-system"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": POLICY}}
    lint(tmp_path, text(deployment(), config_map))
    assert "[limit-not-guaranteed]" in capsys.readouterr().out
    lint(tmp_path, text(deployment(), config_map | {"metadata": {"name": "other"}}))
    assert "[limit-not-guaranteed]" not in capsys.readouterr().out
    wrong = {"policy.yaml": POLICY.replace("maxShare", "maxShar")}
    assert lint(tmp_path, text(deployment(), config_map | {"data": wrong})) == Exit.ERROR
    assert "web.yaml is not a valid policy, 1 problem" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["docs", "--policy", "configmap:a/b"], "--policy configmap:… names a live cluster; give a file"),
        (["--drain", "a-0"], "--drain is about nodes of a cluster; give it with --snapshot, --context or --kubeconfig"),
        ([], "name manifests: FILE, a folder, or - for standard input"),
        (["docs", "--snapshot", EXAMPLE, "--context", "prod"], "--snapshot is a file of a cluster"),
        (["--snapshot", EXAMPLE, "--drain", "a-9"], "--drain: there is no node a-9"),
        (["--snapshot", EXAMPLE], "name manifests: FILE, a folder, or - for standard input"),
    ],
)
def test_flags_that_do_not_go_together(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each error says what to give."""
    assert main(["lint", *flags]) == Exit.USAGE
    assert message in capsys.readouterr().err
