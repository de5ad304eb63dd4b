"""The guard of the whole process fails where a plan has become slower or larger than what is stored, and only there."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import guard
from benchmarks.guard import Figures
from benchmarks.recorded.states import SIZES
from tests.control_plane.build import MissingPart


@pytest.mark.parametrize(
    ("now", "within"),
    [
        (Figures(10.0, 300), True),
        (Figures(10.9, 329), True),
        (Figures(5.0, 100), True),
        (Figures(11.1, 300), False),
        (Figures(10.0, 331), False),
    ],
)
def test_up_to_a_tenth_more_is_within(now: Figures, within: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Of time and of memory; both are printed with what is stored and the factor."""
    assert guard.is_within(now, Figures(10.0, 300)) is within
    assert f"{now.ratio:.2f} units, stored 10.00: factor {now.ratio / 10:.2f}" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, for the certificate, is missing")
def test_a_process_is_compared_with_what_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real `plan -o json` against a recorded server: stored it is within, and above a smaller one it is not."""
    monkeypatch.setitem(SIZES, "tiny", (6, 120))
    stored = tmp_path / "guard.json"
    stored.write_text("{}", encoding="utf-8")
    common = ["--size", "tiny", "--rounds", "1", "--work", str(tmp_path), "--stored", str(stored)]
    try:
        assert guard.main([*common, "--store"]) == 0
    except MissingPart as missing:
        pytest.skip(str(missing))
    ratio, peak = json.loads(stored.read_text(encoding="utf-8"))["tiny"]
    assert peak > 10
    stored.write_text(json.dumps({"tiny": [ratio * 10, peak]}), encoding="utf-8")
    assert guard.main(common) == 0
    stored.write_text(json.dumps({"tiny": [ratio / 10, peak]}), encoding="utf-8")
    assert guard.main(common) == 1
