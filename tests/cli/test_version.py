"""`rebalancer version`: what people are asked for when they report a problem."""

import platform
from pathlib import Path

import pytest

import rebalancer
from rebalancer.build import find_revision
from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit

FILE = Path(rebalancer.__file__).with_name("REVISION")


def test_it_names_the_program_python_and_kubernetes(capsys: pytest.CaptureFixture[str]) -> None:
    """One a line, the name first; from sources the revision is not known, and no line says so."""
    assert entry.main(["version"]) == Exit.FINE
    assert capsys.readouterr().out.splitlines() == [
        f"rebalancer {rebalancer.__version__}",
        f"Python {platform.python_version()}",
        "Kubernetes 1.30 to 1.37",
    ]


def test_the_revision_is_that_which_the_build_of_an_image_wrote(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not FILE.exists()
    assert find_revision() == ""
    (tmp_path / "REVISION").write_text("0123abc\n")
    monkeypatch.setattr("rebalancer.build.__file__", str(tmp_path / "build.py"))
    assert find_revision() == "0123abc"
