"""The report on surges: those under way, each with what it waits for, and those that have ended since."""

from typing import NamedTuple

from rebalancer.model.moves import Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.surge.record import Ending, Surge


class UnderWay(NamedTuple):
    """A surge, and why it does not go on ("until …", or an obstacle), "" if it goes on.

    `pods` of its pods exist and are not being deleted; `ready` of these are Ready.
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
    """The surges of a cluster; `stopped` says why no surge writes anything now, "" if nothing prevents writing."""

    under_way: tuple[UnderWay, ...] = ()
    ended: tuple[Ended, ...] = ()
    """The surges that have ended since the last report."""
    refused: tuple[Refused, ...] = ()
    """The refused workloads of the last cycle's plan."""
    stopped: str = ""
    begun: tuple[Surge, ...] = ()
    """The surges begun since the last report, without those that a new leader continues."""


NO_SURGES = SurgeReport()


def count_pods(under_way: UnderWay, snapshot: Snapshot) -> UnderWay:
    """Return the report on a surge with the present numbers of its pods."""
    pods = snapshot.pods_of.get(under_way.surge.owner, ())
    living = [pod for pod in pods if not pod.terminating and not pod.finished]
    return under_way._replace(pods=len(living), ready=sum(pod.ready for pod in living))
