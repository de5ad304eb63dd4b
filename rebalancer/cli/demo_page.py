"""The status page of `demo`: the controller's own, of the simulated controller, by the simulated clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from rebalancer.adapters.web import CannotListen
from rebalancer.assessment.findings import find_findings
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.cli.demo_play import DemoRun
from rebalancer.cli.errors import CliError
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.page import StatusPage
from rebalancer.controller.runner import Identity
from rebalancer.locations import Address
from rebalancer.simulator import START

_REFRESH: Final = 2
"""Seconds after which a browser renews the page."""


class DemoPage:
    """Serves the state of the run that is shown; one run follows the other."""

    def __init__(self, address: Address) -> None:
        self._now: datetime = START
        self._cycle: Cycle | None = None
        identity = Identity(name="demo", policy_source="the demo's policy")
        try:
            self._page = StatusPage(address, identity, now=lambda: self._now, refresh=_REFRESH)
        except CannotListen as error:
            raise CliError(f"{error}; choose another address with --page-address") from None

    @property
    def url(self) -> str:
        """Where a browser of this machine finds it."""
        host, port = self._page.address
        here = host in {"127.0.0.1", "0.0.0.0", "::1", "::"}  # noqa: S104  # any address of this machine will do
        shown = "localhost" if here else f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/"

    @contextmanager
    def served(self) -> Iterator[None]:
        """Serve it while the block lasts."""
        self._page.start()
        try:
            yield
        finally:
            self._page.stop()

    def show(self, play: DemoRun) -> None:
        """Show the present state of a run."""
        self._now = play.cluster.now
        cycle = play.loop.cycle
        if cycle is None:
            return
        unmatched = find_unmatched(cycle.view, cycle.assessment, cycle.context.policy)
        self._page.show(play.loop, find_findings(cycle.view, cycle.assessment, unmatched))
