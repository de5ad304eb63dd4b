"""At most one process acts, by each one's own monotonic clock."""

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.controller.election import Election, next_record, observe_lease, record_renewal, release_record
from rebalancer.ports import LeaseRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DURATION, DEADLINE = 15.0, 10.0


def candidate(name: str) -> Election:
    return Election(identity=name, duration=DURATION, deadline=DEADLINE)


class Store:
    """A Lease with the API server's compare-and-swap."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.version = 0

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        if (self.record.version if self.record else "") != record.version:
            return None
        self.version += 1
        self.record = LeaseRecord(
            holder=record.holder,
            duration=record.duration,
            acquired=record.acquired,
            renewed=record.renewed,
            transitions=record.transitions,
            version=str(self.version),
        )
        return self.record


def attempt(election: Election, store: Store, at: float) -> Election:
    election = observe_lease(election, store.record, at)
    wanted = next_record(election, at, NOW + timedelta(seconds=at))
    written = store.write(wanted) if wanted is not None else None
    return record_renewal(election, written, at) if written is not None else election


def test_first_come() -> None:
    """The first takes the lease, the second waits as long as it is renewed."""
    store = Store()
    one, two = attempt(candidate("one"), store, 0), attempt(candidate("two"), store, 1)
    assert one.leads(1)
    assert not two.leads(1)
    for second in range(2, 40, 2):
        one = attempt(one, store, second)
        two = attempt(two, store, second + 1)
        assert one.leads(second + 1)
        assert not two.leads(second + 1)
    assert store.record is not None
    assert (store.record.transitions, store.record.acquired) == (0, NOW)


def test_a_silent_leader_is_replaced() -> None:
    """A leader that cannot renew stops at its deadline; others take over only after the lease has run out."""
    store = Store()
    one, two = attempt(candidate("one"), store, 0), attempt(candidate("two"), store, 1)
    assert one.leads(DEADLINE - 0.1)
    assert not one.leads(DEADLINE)
    assert not attempt(two, store, 1 + DURATION - 0.1).leads(1 + DURATION)
    two = attempt(two, store, 1 + DURATION)
    assert two.leads(1 + DURATION)
    assert store.record is not None
    assert (store.record.holder, store.record.transitions) == ("two", 1)


def test_handing_back() -> None:
    """A released lease can be taken at once; one that is not ours is not touched."""
    store = Store()
    one = attempt(candidate("one"), store, 0)
    two = attempt(candidate("two"), store, 1)
    assert release_record(two, NOW) is None
    given_back = release_record(one, NOW)
    assert given_back is not None
    store.write(given_back)
    assert attempt(two, store, 2).leads(2)


def test_a_shorter_lease_does_not_depose_a_leader_with_a_longer_one() -> None:
    """A rolling update from 60/40/20 s to 15/10/2 s: the new process waits for the 60 s that the old one has written.

    With its own 15 s it would take over at 16 s, while the old one renews every 20 s and acts.
    """
    store = Store()
    old = attempt(Election(identity="old", duration=60.0, deadline=40.0), store, 0)
    new = candidate("new")
    for second in range(1, 60):
        new = attempt(new, store, second)
        assert not new.leads(second), second
    assert not old.leads(40)  # long before anybody takes over
    for second in range(60, 65):
        new = attempt(new, store, second)
    assert new.leads(64)
    assert store.record is not None
    assert store.record.duration == DURATION


@given(st.one_of(st.integers(0, 700), st.integers(0, 2**31 - 1)))
def test_a_lease_is_honoured_as_written_up_to_ten_minutes(duration: int) -> None:
    """One of a leader that is gone, too; beyond that, or where nothing is written, it has the candidate's duration."""
    store, two = Store(), candidate("two")
    store.write(LeaseRecord(holder="ghost", duration=duration, renewed=datetime.max.replace(tzinfo=UTC)))
    first = float(duration) if duration in range(1, 601) else DURATION
    two = attempt(two, store, 0)
    two = attempt(two, store, first - 0.1)
    assert not two.leads(first)
    assert attempt(two, store, first).leads(first)


TIMES = st.sampled_from([(60.0, 40.0), (15.0, 10.0), (600.0, 400.0), (4.0, 3.0)])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two", "three"]),
            st.one_of(st.floats(0.1, 4), st.floats(4, 60)),
            st.booleans(),
            st.booleans(),
        ),
        max_size=60,
    ),
    st.tuples(TIMES, TIMES, TIMES),
)
@example(
    [("one", 1.0, True, True), ("two", 1.0, True, True), ("two", 16.0, True, True)],
    ((60.0, 40.0), (15.0, 10.0), (15.0, 10.0)),
)
def test_never_two(steps: list[tuple[str, float, bool, bool]], times: tuple[tuple[float, float], ...]) -> None:
    """Whoever tries when, with answers lost or requests that never arrive: never do two lead at one moment.

    Nor where each has settings of its own, as in a rolling update that shortens the Lease or lengthens it.
    """
    store = Store()
    elections = {
        name: Election(identity=name, duration=duration, deadline=deadline)
        for name, (duration, deadline) in zip(("one", "two", "three"), times, strict=True)
    }
    at = 0.0
    for name, passed, arrives, answered in steps:
        at += passed
        election = observe_lease(elections[name], store.record, at)
        wanted = next_record(election, at, NOW)
        written = store.write(wanted) if wanted is not None and arrives else None
        elections[name] = record_renewal(election, written, at) if written is not None and answered else election
        assert sum(election.leads(at) for election in elections.values()) <= 1
