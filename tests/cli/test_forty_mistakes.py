"""Typical mistakes at the command line: one clear line that names what is wrong, and the right exit code.

Those that need a server, or several lines, are in test_mistakes.py.
"""

from pathlib import Path

import pytest

from rebalancer.cli.errors import Exit
from rebalancer.cli.main import main
from tests.build import HEAD

EXAMPLE = str(Path(__file__).resolve().parents[2] / "docs" / "examples" / "zone-returned.json")
FILES = {
    "bad.yaml": "a: [1\n",
    "cut.json": '{"kind": "List", "items": [',
    "object.json": "{}",
    "words.txt": "hello",
    "empty.json": "",
    "mode.yaml": f"{HEAD}mode: Evcit\n",
    "version.yaml": "apiVersion: rebalancer.dev/v1\nkind: RebalancePolicy\n",
    "unit.yaml": f"{HEAD}interval: 5\n",
    "negative.yaml": f"{HEAD}budgets: {{perCycle: -1}}\n",
    "field.yaml": f"{HEAD}budget: {{}}\n",
    "share.yaml": HEAD + 'groups: [{name: a, selector: {}, limits: [{name: x, topologyKey: z, maxShare: "1/3"}]}]\n',
    "steps.yaml": "nodes:\n- remove-node: a-1\n",
    "plan.json": '{"kind": "Plan"}',
}
OFFLINE = ("--snapshot", EXAMPLE)
MISTAKES: list[tuple[tuple[str, ...], Exit, str]] = [
    (("--vresion",), Exit.USAGE, "did you mean --version?"),
    (("--snapshot", EXAMPLE, "plan"), Exit.USAGE, "expected a command first"),
    (("report", "--snapshot", "nosuch.json"), Exit.ERROR, "nosuch.json cannot be read: No such file"),
    (("report", "--snapshot", "nothing"), Exit.ERROR, "nothing has no file with objects (.json"),
    (("report", "--snapshot", "bad.yaml"), Exit.ERROR, "bad.yaml, line 2: neither JSON nor YAML"),
    (("report", "--snapshot", "cut.json"), Exit.ERROR, "cut.json: it is invalid JSON (Input data was truncated)"),
    (("report", "--snapshot", "object.json"), Exit.ERROR, "object.json: not a list of Kubernetes objects"),
    (("report", "--snapshot", "words.txt"), Exit.ERROR, "words.txt: it is not a Kubernetes object"),
    (("report", "--snapshot", "empty.json"), Exit.ERROR, "empty.json is empty"),
    (
        ("report", *OFFLINE, "-o", "junit"),
        Exit.USAGE,
        "argument -o/--output: JUnit is not written any more: -o json has",
    ),
    (("report", *OFFLINE, "-o", "xml"), Exit.USAGE, "'xml' (choose from 'table', 'wide', 'name', 'json', 'yaml')"),
    (("report", *OFFLINE, "--fail-on", "never"), Exit.USAGE, "argument --fail-on: invalid choice: 'never'"),
    (("report", "--kubeconfig", "nosuch"), Exit.ERROR, "no cluster configured: nosuch"),
    (("report", "--kubeconfig", "bad.yaml"), Exit.ERROR, "no cluster configured: bad.yaml"),
    (("explain", *OFFLINE), Exit.USAGE, "the following arguments are required: KIND/NAME"),
    (("explain", "podd/db-4", *OFFLINE), Exit.USAGE, "did you mean pod/db-4?"),
    (("explain", "pod/db-99", *OFFLINE), Exit.ERROR, "Pod db-99 does not exist"),
    (("explain", "deployment/wbe", "-n", "shop", *OFFLINE), Exit.ERROR, "did you mean web?"),
    (("predict", *OFFLINE), Exit.USAGE, "the following arguments are required: --pod"),
    (("predict", "--pod", "nosuch.yaml", *OFFLINE), Exit.ERROR, "nosuch.yaml"),
    (("suggest",), Exit.USAGE, "required: --limit, --size, --domains"),
    (("suggest", "--limit", "1/3", "--size", "9", "--domains", "3"), Exit.USAGE, "expected an operator and a share"),
    (("suggest", "--limit", "<1/3", "--size", "0", "--domains", "3"), Exit.USAGE, "expected a number from 1 to 5000"),
    (("plan", *OFFLINE, "--limt", "3"), Exit.USAGE, "did you mean --limit?"),
    (("plan", *OFFLINE, "shop"), Exit.USAGE, "unrecognized arguments: shop"),
    (("plan", *OFFLINE, "-l", "app in (a"), Exit.USAGE, "expected a label selector"),
    (("plan", *OFFLINE, "--color", "sometimes"), Exit.USAGE, "invalid choice: 'sometimes'"),
    (("plan", *OFFLINE, "--policy", "mode.yaml"), Exit.ERROR, "did you mean Evict?"),
    (("policy",), Exit.USAGE, "required: COMMAND"),
    (("policy", "schema", "--tea"), Exit.USAGE, "--team? `rebalancer policy schema --help` shows"),
    (("policy", "validate", "version.yaml"), Exit.ERROR, "expected rebalancer.dev/v1alpha1"),
    (("policy", "validate", "unit.yaml"), Exit.ERROR, "did you mean 5s?"),
    (("policy", "validate", "negative.yaml"), Exit.ERROR, "budgets.perCycle: found -1; expected a number from 0"),
    (("policy", "validate", "field.yaml"), Exit.ERROR, "did you mean budgets?"),
    (("policy", "validate", "share.yaml"), Exit.ERROR, 'did you mean "<1/3" or "<=1/3"?'),
    (("simulate", *OFFLINE, "--remove-node", "nosuch"), Exit.ERROR, "node nosuch not found"),
    (("simulate", *OFFLINE, "--scale", "web=3"), Exit.USAGE, "argument --scale: found 'web=3'"),
    (("simulate", *OFFLINE, "--scenario", "steps.yaml"), Exit.ERROR, "steps.yaml:1: found nodes, expected steps only"),
    (("simulate", *OFFLINE, "--each", "nosuch"), Exit.ERROR, "no node has the label nosuch"),
    (("apply", "nosuch.json"), Exit.ERROR, "nosuch.json cannot be read"),
    (("apply", "plan.json"), Exit.ERROR, "plan.json: not a plan"),
    (("pause", "--reason", ""), Exit.USAGE, "--reason is empty"),
    (("run", "--interval", "5"), Exit.USAGE, "unrecognized arguments: --interval 5"),
    (("run", "--metrics-address", "localhost"), Exit.ERROR, "expected HOST:PORT"),
    (("completion", "tcsh"), Exit.USAGE, "invalid choice: 'tcsh'"),
    (("demo", "--seed", "fast"), Exit.USAGE, "argument --seed: invalid int value: 'fast'"),
    (("status", "--kubeconfig", "nosuch"), Exit.ERROR, "pass --kubeconfig and --context"),
]


@pytest.mark.parametrize(("argv", "code", "message"), MISTAKES, ids=[" ".join(row[0][:3]) for row in MISTAKES])
def test_a_mistake_is_named(
    argv: tuple[str, ...],
    code: Exit,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "nothing").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert main(argv) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert message in shown.err
    # A file or the settings may have several problems: a line that says how many, and one for each.
    lines = shown.err.splitlines()
    assert len(lines) == 1 or (len(lines) == 2 and lines[0].endswith(":"))
