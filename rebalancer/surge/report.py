"""The report on surges: those under way, each with what it waits for, and those that have ended since."""

from typing import NamedTuple

from rebalancer.model.moves import Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.surge.record import Ending, Surge


class UnderWay(NamedTuple):
    """A surge, and why it does not go on, "" where it does: "until …" of what it waits for, or an obstacle.

    Of its pods that are not being deleted `pods` are there, and `ready` of these are Ready.
    """

    surge: Surge
    waits: str = ""
    pods: int = 0
    ready: int = 0


class Ended(NamedTuple):
    """A surge that is over, and how it ended."""

    surge: Surge
    ending: Ending


class Refused(NamedTuple):
    """A workload to which no pods are added, and why."""

    workload: Reference
    why: str


class SurgeReport(NamedTuple):
    """The surges of a cluster; `stopped` says why nothing of them is written now, "" where nothing is in the way."""

    under_way: tuple[UnderWay, ...] = ()
    ended: tuple[Ended, ...] = ()
    """Those that have ended since the report before."""
    refused: tuple[Refused, ...] = ()
    """Of the last cycle's plan."""
    stopped: str = ""
    begun: tuple[Surge, ...] = ()
    """Those that have begun since the report before; a new leader goes on with others, which it has not begun."""


NO_SURGES = SurgeReport()


def count_pods(under_way: UnderWay, snapshot: Snapshot) -> UnderWay:
    """Return what is said of a surge with the numbers of its pods."""
    pods = snapshot.pods_of.get(under_way.surge.owner, ())
    living = [pod for pod in pods if not pod.terminating and not pod.finished]
    return under_way._replace(pods=len(living), ready=sum(pod.ready for pod in living))
