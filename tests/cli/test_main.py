"""The frame of the command line: help, exit codes, messages, interruption."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import pytest
from pydantic import PlainSerializer, TypeAdapter
from pydantic_core import PydanticSerializationError

from rebalancer import __version__
from rebalancer.cli import main as entry
from rebalancer.cli.errors import CliError, Exit, UsageError
from rebalancer.cli.parsing import Parser
from rebalancer.cli.registry import VERBS, Verb

ROOT = Path(__file__).parents[2]

REBALANCER = Path(sys.executable).with_name("rebalancer")


@pytest.fixture(autouse=True)
def steady_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def call(*argv: str) -> int:
    return entry.main(argv)


def test_the_package_is_the_command() -> None:
    """`python -m rebalancer`, for whoever has it installed where no script is on the PATH."""
    ran = subprocess.run([sys.executable, "-m", "rebalancer", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"rebalancer {__version__}\n"


def test_help_lists_every_verb_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == Exit.FINE
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f"{verb.name} {verb.summary}" in shown for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_help(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    """And its module has what the frame calls."""
    assert call(verb.name, "--help") == Exit.FINE
    assert capsys.readouterr().out.startswith("usage: ")
    assert callable(verb.load().run)


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == Exit.FINE
    assert capsys.readouterr().out == f"rebalancer {__version__}\n"


def test_the_kubectl_plugin_shows_its_own_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Usage lines can be pasted."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-rebalance"])
    call("policy", "show", "--help")
    assert capsys.readouterr().out.startswith("usage: kubectl rebalance policy show ")


@pytest.mark.parametrize(
    "argv", [[], ["--flag"], ["policy"], ["policy", "show", "--flag"], ["policy", "show", "--pol", "x"]]
)
def test_wrong_usage_exits_2_and_says_so_on_standard_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown and abbreviated flags: one line, with the way to help; without any argument the help itself."""
    assert call(*argv) == Exit.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: " if argv else "usage: ")
    assert not argv or output.err.count("\n") == 1
    assert "--help" in output.err


def _ends(outcome: BaseException | int) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return run


def _interrupted_serializer() -> BaseException:
    """Return what pydantic makes of a Ctrl-C in a serializer."""

    def serialize(_: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(PydanticSerializationError) as raised:
        TypeAdapter(Annotated[int, PlainSerializer(serialize)]).dump_python(1)
    return raised.value


@pytest.mark.parametrize(
    ("outcome", "interrupted", "code", "message"),
    [
        (0, Exit.INTERRUPTED, 0, ""),
        (3, Exit.INTERRUPTED, 3, ""),
        (CliError("no cluster; try --context"), Exit.INTERRUPTED, 1, "error: no cluster; try --context\n"),
        (UsageError("both"), Exit.INTERRUPTED, 2, "error: both\n"),
        (
            PermissionError(13, "Permission denied", "plan.json"),
            Exit.INTERRUPTED,
            1,
            "error: plan.json: Permission denied\n",
        ),
        (KeyboardInterrupt(), Exit.INTERRUPTED, 130, ""),
        (KeyboardInterrupt(), Exit.FINE, 0, ""),
        (_interrupted_serializer(), Exit.INTERRUPTED, 130, ""),
        (_interrupted_serializer(), Exit.FINE, 0, ""),
    ],
)
def test_every_end_has_its_exit_code(
    outcome: BaseException | int,
    interrupted: Exit,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0, 1, 2, 3 and 130 as documented; `run` ends with 0 on Ctrl-C."""

    class Stub(Verb):
        def load(self) -> SimpleNamespace:
            return SimpleNamespace(add_arguments=lambda _: None, run=_ends(outcome))

    verb = Stub(name="stub", summary="Do it", module="", interrupted=interrupted)
    monkeypatch.setattr(entry, "VERBS", (verb,))
    assert call("stub") == code
    shown = capsys.readouterr().err
    assert shown.startswith(message)
    assert bool(shown) == bool(message)


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw has to be reported with all there is."""

    class Stub(Verb):
        def load(self) -> SimpleNamespace:
            return SimpleNamespace(add_arguments=lambda _: None, run=_ends(ZeroDivisionError()))

    monkeypatch.setattr(entry, "VERBS", (Stub(name="stub", summary="Do it", module=""),))
    with pytest.raises(ZeroDivisionError):
        call("stub")


def test_a_closed_pipe_is_quiet() -> None:
    """`rebalancer policy schema | head` prints no traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [REBALANCER, "policy", "schema"], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_listing_the_commands_imports_none_of_them() -> None:
    """`--help` answers at once: no pydantic, no YAML, no client."""
    code = (
        "import sys; from rebalancer.cli.main import main; main(['--help']);"
        "heavy = {'pydantic', 'yaml', 'kubernetes', 'shtab', 'msgspec', 'rebalancer.policy'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, timeout=60)


@pytest.mark.parametrize("verb", ["plan", "report", "simulate"])
def test_a_command_that_reads_a_file_loads_no_client(verb: str) -> None:
    """The client takes longer to load than most files to plan, and its classes of API calls as long again."""
    code = (
        "import sys; from rebalancer.cli.main import main; main(sys.argv[1:]);"
        "sys.exit(1 if {'kubernetes', 'urllib3', 'apscheduler'} & set(sys.modules) else 0)"
    )
    command = [sys.executable, "-c", code, verb, "--snapshot", str(ROOT / "docs/examples/zone-returned.json")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)


def test_help_is_never_wider_than_a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    parser = Parser(prog="x", description="word " * 100)
    assert max(map(len, parser.format_help().splitlines())) <= 100


def test_a_mistake_of_ours_keeps_its_traceback_and_its_message_is_one_line() -> None:
    """It may quote a name of the cluster."""
    program = (
        "from rebalancer.cli import main, version\n"
        "def run(args): raise KeyError('web') from ValueError('\\x1b[2J\\nerror: forged')\n"
        "version.run = run\n"
        "main.main(['version'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "ValueError: \\x1b[2J\\nerror: forged"
    assert lines[1:3] == [
        "The above exception was the direct cause of the following exception:",
        "Traceback (most recent call last):",
    ]
    assert lines[-1] == "KeyError: 'web'"
