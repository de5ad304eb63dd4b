"""A Lease in memory, with the API server's rule: a write must have the version of the stored record."""

from itertools import count

from msgspec import structs

from rebalancer.ports import LeaseRecord


class SimulatedLease:
    """One Lease that any number of simulated processes may hold."""

    def __init__(self) -> None:
        self._record: LeaseRecord | None = None
        self._versions = count(1)

    def read(self) -> LeaseRecord | None:
        """Return the record, None if there is none."""
        return self._record

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        """Write the record; return None if somebody else wrote one since it was read."""
        if record.version != ("" if self._record is None else self._record.version):
            return None
        self._record = structs.replace(record, version=str(next(self._versions)))
        return self._record
