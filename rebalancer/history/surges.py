"""Makes one entry for each surge once it has ended."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from rebalancer.account.happened import Occurrence, SurgeEnded
from rebalancer.history.words import cut, workload_text
from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moments import seconds_of
from rebalancer.model.words import name_list


def surge_entries(happened: Iterable[Occurrence], now: datetime) -> Iterator[Entry]:
    """Yield an entry for each surge that has ended."""
    for occurrence in happened:
        if isinstance(occurrence, SurgeEnded):
            surge, ending = occurrence
            yield Entry(
                seq=0,
                at=seconds_of(now),
                kind=EntryKind.SURGED,
                namespace=surge.namespace,
                workload=workload_text(surge.workload),
                what=cut(name_list(victim.name for victim in surge.victims)),
                outcome=ending,
                since=seconds_of(surge.begun),
                number=surge.added,
            )
