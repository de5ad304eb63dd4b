"""The commands of the pages that need a kubelet: logs, a command in the container, the way to the status page."""

import json
import shlex
import subprocess

import pytest
import urllib3

from tests.control_plane.api import wait_until
from tests.nodes.controller import Installation
from tests.nodes.test_trouble import shell
from tests.pages import PAGES_BY_HAND, check, commands

__all__ = ["shell"]

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

NEEDED = [command for page in PAGES_BY_HAND for command in commands(page) if command.needs == "a kubelet"]
FORWARDS = "kubectl -n rebalancer-system port-forward deploy/rebalancer 8081"


def test_there_are_such_commands() -> None:
    """The tests below run some, and the one that does not end by itself."""
    texts = [command.text for command in NEEDED]
    assert FORWARDS in texts
    assert len(texts) >= 3


def test_every_command_ends_well(shell: Installation) -> None:
    """Those that end by themselves, with the output that their page shows."""
    shell.install()
    for command in NEEDED:
        if command.text != FORWARDS:
            check(command, shell.run(command.text))


def test_the_status_page_is_reached(shell: Installation) -> None:
    """At the address that the page names, while the command runs."""
    shell.install()
    forwarding = subprocess.Popen(shlex.split(FORWARDS), env=shell.variables, stdout=subprocess.DEVNULL)
    try:

        def shown() -> bytes:
            try:
                answer = urllib3.request("GET", "http://localhost:8081/status.json", timeout=5.0, retries=False)
            except urllib3.exceptions.HTTPError:
                return b""
            return answer.data if answer.status == 200 else b""

        assert json.loads(wait_until(shown, what="the status page"))["acting"]
    finally:
        forwarding.terminate()
        forwarding.wait(10)
