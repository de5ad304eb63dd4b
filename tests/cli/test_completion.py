"""`rebalancer completion`: the script completes what the parsers accept."""

import re
import shlex
import shutil
import subprocess

import pytest

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.cli.registry import VERBS


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert entry.main(["completion", shell]) == Exit.FINE
    return capsys.readouterr().out


def completed(text: str, *words: str) -> set[str]:
    """Return what bash offers for the last of these words."""
    line = " ".join(map(shlex.quote, words))
    case = f"COMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n"
    program = f'{text}\n{case}_shtab_rebalancer\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash", "--norc"], input=program, capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "some", "none"),
    [
        (["rebalancer", ""], {verb.name for verb in VERBS}, {"--snapshot"}),
        (["rebalancer", "pl"], {"plan"}, {"policy"}),
        (["rebalancer", "plan", "--"], {"--snapshot", "--limit", "--detailed-exitcode"}, {"--failures", "validate"}),
        (["rebalancer", "report", "--fa"], {"--failures", "--fail-on"}, {"--snapshot"}),
        (["rebalancer", "plan", "-n", "shop", "-o", ""], {"table", "wide", "name", "json", "yaml"}, {"jsonl"}),
        (["rebalancer", "report", "-o", "j"], {"json"}, {"yaml"}),
        (["rebalancer", "policy", ""], {"validate", "schema", "show"}, {"plan"}),
        (["rebalancer", "policy", "show", "--"], {"--policy"}, {"--team"}),
        (["rebalancer", "completion", ""], {"bash", "zsh", "fish"}, set()),
        (["rebalancer", "plan", "--policy", "READ"], {"README.md"}, {"--limit"}),
        (["rebalancer", "run", "--policy", "READ"], {"README.md"}, set()),
        (["rebalancer", "policy", "validate", "READ"], {"README.md"}, set()),
        (["rebalancer", "explain", "-n", "policy", ""], set(), {"validate"}),
    ],
)
def test_bash_completes_commands_flags_values_and_files(
    words: list[str], some: set[str], none: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    offered = completed(script("bash", capsys), *words)
    assert some <= offered
    assert not none & offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_every_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert all(verb.name in text for verb in VERBS)
    assert "snapshot" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_plugin_of_kubectl_is_completed_too(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(r"^(complete|compdef) .*\bkubectl-rebalance\b", script(shell, capsys), re.MULTILINE)


def test_zsh_offers_files_or_choices_for_a_value_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A colon in the name of a value, such as HOST:PORT, would have what follows it run."""
    values = re.findall(r"[^\\]\]:([^:\"]*):([^\"]*)\"$", script("zsh", capsys), re.MULTILINE)
    assert ("HOST PORT", "") in values
    assert {action for _, action in values if not action.startswith("(")} == {"", "_files"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_accepts_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    done = subprocess.run(
        [program, "-n"], input=script(shell, capsys), capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["completion", "tcsh"]) == Exit.USAGE
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err
