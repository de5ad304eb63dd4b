"""The recordings of docs/recordings are what the commands show today in a real terminal."""

import shutil
from itertools import product

import pytest

from tests.cli.recording import FOLDER, RECORDED, WIDTHS, file_of, record, write_index
from tests.cli.test_golden import COMMANDS
from tests.drawing import sampled


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize(("name", "width"), sampled(product(RECORDED, WIDTHS)))
def test_a_recording_is_what_the_terminal_shows(name: str, width: int) -> None:
    """To the letter, at each width; `make recordings` writes the files anew."""
    assert record(name, width) == file_of(name, width).read_text(encoding="utf-8")


def test_every_recording_has_a_command_and_every_command_a_recording() -> None:
    """But for those whose output is a file for other programs."""
    expected = {file_of(name, width).name for name in RECORDED for width in WIDTHS}
    assert {path.name for path in FOLDER.glob("*.txt")} == expected
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == write_index()
    recorded = {COMMANDS[name][0] for name in RECORDED}
    assert {command[0] for command in COMMANDS.values()} - recorded == {"snapshot", "completion"}


@pytest.mark.parametrize("name", RECORDED)
def test_no_line_is_wider_than_its_terminal(name: str) -> None:
    """A terminal would break it within a word; the line of the command itself is not the program's."""
    for width in WIDTHS:
        lines = file_of(name, width).read_text(encoding="utf-8").splitlines()[1:]
        assert all(len(line) <= width for line in lines)
