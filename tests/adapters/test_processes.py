"""A second process makes a text beside this one: the text is the same, and nothing is left over."""

import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rebalancer.adapters import processes
from rebalancer.adapters.processes import beside, has_second_processor
from tests.adapters.kubernetes.test_receiver import count_open, list_children

pytestmark = pytest.mark.skipif(not has_second_processor(), reason="needs Linux and two processors")

LINES = [f"{number}: é, 😀\r\n" for number in range(200_000)]


class Maker:
    """Makes the lines after the one that names the process; `delay` is waited before."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    def __call__(self) -> Iterator[str]:
        time.sleep(self._delay)
        yield f"{os.getpid()}\n"
        yield from LINES


def split(text: str) -> tuple[int, str]:
    """Return the process that made a text, and the lines."""
    maker, _, lines = text.partition("\n")
    return int(maker), lines


def test_the_text_is_made_by_another_process_while_this_one_works() -> None:
    before = count_open()
    with beside(Maker()) as take:
        (child,) = list_children()
        maker, lines = split("".join(take()))
    assert maker == child
    assert lines == "".join(LINES)
    assert count_open() == before


def test_a_text_that_nobody_takes_is_no_longer_made() -> None:
    before = count_open()
    with beside(Maker(delay=60)):
        assert len(list_children()) == before[1] + 1
    assert count_open() == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_the_text_is_made_here_where_the_other_process_ends_or_is_silent(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_SILENT_SECONDS", 0.5)
    before = count_open()
    with beside(Maker(delay=0.2)) as take:
        (child,) = list_children()
        os.kill(child, number)
        maker, lines = split("".join(take()))
    assert maker == os.getpid()
    assert lines == "".join(LINES)
    assert count_open() == before


def test_an_error_is_raised_here() -> None:
    def fail() -> Iterator[str]:
        yield "a"
        raise ValueError("no text")

    before = count_open()
    with pytest.raises(ValueError, match="no text"), beside(fail) as take:
        list(take())
    assert count_open() == before


@pytest.mark.parametrize("files", [0, 1, 2])
def test_the_text_is_made_here_where_there_are_no_more_files(files: int) -> None:
    before, limits = count_open(), resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(file.name) for file in Path("/proc/self/fd").iterdir())
    fill = [os.open(os.devnull, os.O_RDONLY) for _ in range(highest)]  # no gaps
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + files, limits[1]))
        with beside(Maker()) as take:
            text = "".join(take())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for file in fill:
            os.close(file)
    assert split(text)[0] == os.getpid()
    assert count_open() == before


def test_the_other_process_writes_nothing_where_this_one_does(capfd: pytest.CaptureFixture[str]) -> None:
    def speak() -> Iterator[str]:
        os.write(1, b"out")
        os.write(2, b"err")
        yield "text"

    with beside(speak) as take:
        assert list(take()) == ["text"]
    assert capfd.readouterr() == ("", "")
