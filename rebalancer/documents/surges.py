"""Surges in documents: surges under way, and the description of surges in events and in the history."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta

from rebalancer.documents.document import CamelCaseStruct, Number, Text, WorkloadName, workload_name
from rebalancer.model.events import NOTE_LIMIT
from rebalancer.model.words import name_list, plural
from rebalancer.surge.record import Ending, Surge
from rebalancer.surge.report import SurgeReport

_MOST_REFUSED: Final = 20


class SurgeStatus(CamelCaseStruct, frozen=True, kw_only=True):
    """A surge: `added` pods are added to the `count` pods of a workload, and once all are Ready, the `victims` go.

    `pods` exist and are not being deleted, `ready` of them are Ready. `waits` says until when the surge waits, or its
    obstacle, "" if it goes on. Added pods are taken back unless all pods are Ready by `until`.
    """

    namespace: Text
    workload: WorkloadName
    phase: Text
    added: Annotated[int, Meta(ge=1)]
    count: Number
    victims: tuple[Text, ...]
    begun: datetime
    until: datetime
    pods: Number
    ready: Number
    waits: str = ""

    @property
    def surplus(self) -> int:
        """How many more pods there are than without the surge."""
        return max(0, min(self.pods - self.count, self.added))


class SurgeRefusal(CamelCaseStruct, frozen=True, kw_only=True):
    """A workload of the last plan to which no pods are added, and why."""

    namespace: Text
    workload: WorkloadName
    why: Text


def surge_refusals(report: SurgeReport) -> tuple[SurgeRefusal, ...]:
    """Convert the first workloads to which no pods are added to their entries, by name."""
    return tuple(
        SurgeRefusal(namespace=one.workload.namespace, workload=workload_name(one.workload), why=one.why[:NOTE_LIMIT])
        for one in sorted(report.refused)[:_MOST_REFUSED]
    )


def surge_status(report: SurgeReport) -> tuple[SurgeStatus, ...]:
    """Convert the surges under way to their entries, the oldest first."""
    return tuple(
        SurgeStatus(
            namespace=one.surge.namespace,
            workload=workload_name(one.surge.workload),
            phase=one.surge.phase,
            added=one.surge.added,
            count=one.surge.count,
            victims=tuple(victim.name for victim in one.surge.victims),
            begun=one.surge.begun,
            until=one.surge.until,
            pods=one.pods,
            ready=one.ready,
            waits=one.waits[:NOTE_LIMIT],
        )
        for one in sorted(report.under_way, key=lambda one: (one.surge.begun, one.surge.uid))
    )


def describe_begin(surge: Surge) -> str:
    """Say what a surge does: `adds 2 pods to 6; once all are Ready, web-1 and web-2 go`."""
    names = [victim.name for victim in surge.victims]
    return f"adds {plural(surge.added, 'pod')} to {surge.count}; once all are Ready, {pods_go(names)}"


def describe_end(surge: Surge, ending: Ending) -> str:
    """Say how a surge has ended."""
    return surge_ended(surge.added, name_pods([victim.name for victim in surge.victims]), ending)


def pods_go(names: Sequence[str]) -> str:
    """Say that these pods go: `web-1 goes`."""
    return f"{name_pods(names)} {'goes' if len(names) == 1 else 'go'}"


def name_pods(names: Sequence[str]) -> str:
    """Name the first pods, and count the rest."""
    return " and ".join(names) if len(names) == 2 else name_list(names)


def surge_ended(added: int, victims: str, ending: str) -> str:
    """Say how the surge of `added` pods ended, after which `victims` were to go; `ending` may be of a later release."""
    if ending == Ending.DONE:
        return f"added {plural(added, 'pod')}, then {victims} went"
    known = {str(one): one.sentence for one in Ending}
    return f"the surge of {plural(added, 'pod')} in place of {victims} has ended: {known.get(ending, ending)}"
