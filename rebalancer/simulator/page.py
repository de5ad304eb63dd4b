"""The status page of a simulation: the real controller's page, with the simulated controller and clock."""

from datetime import datetime
from typing import Final

from rebalancer.assessment.findings import find_findings
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.controller.page import StatusPage
from rebalancer.controller.runner import Identity
from rebalancer.locations import Address
from rebalancer.simulator import START
from rebalancer.simulator.play import Play

_REFRESH: Final = 2
"""The interval, in seconds, at which a browser reloads the page."""


class SimulatedPage(StatusPage):
    """Serves the state of a play. Raises CannotListen, as the status page of a controller does."""

    def __init__(self, address: Address) -> None:
        self._shown_at: datetime = START
        identity = Identity(name="simulation", policy_source="the simulation's policy")
        super().__init__(address, identity, now=lambda: self._shown_at, refresh=_REFRESH)

    @property
    def url(self) -> str:
        """The address of the page for a browser on this machine."""
        host, port = self.address
        here = host in {"127.0.0.1", "0.0.0.0", "::1", "::"}  # noqa: S104  # any address of this machine will do
        shown = "localhost" if here else f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/"

    def show_play(self, play: Play) -> None:
        """Show the state of a play; before its first cycle has ended, there is nothing to show."""
        self._shown_at = play.cluster.now
        cycle = play.state.cycle
        if cycle is not None:
            unmatched = find_unmatched(cycle.view, cycle.assessment, cycle.context.policy)
            self.show(play.state, find_findings(cycle.view, cycle.assessment, unmatched))
