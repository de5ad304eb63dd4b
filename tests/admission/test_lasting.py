"""What outlasts the wait of a component without decided evictions."""

from datetime import timedelta

from msgspec import structs

from rebalancer.admission.admit import NotProposedYet, Paused
from rebalancer.admission.lasting import outlast_component
from rebalancer.admission.rights import Rights
from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.plan import ComponentPlan
from tests.planning.clusters import planned, returned

SNAPSHOT = returned()
NOW = SNAPSHOT.taken_at
EVERYWHERE = Rights()


def paused(minutes: float | None) -> Paused:
    return Paused("an incident", None if minutes is None else NOW + timedelta(minutes=minutes))


def component(refusal: Refusal | None, state: State = State.VIOLATED) -> ComponentPlan:
    return structs.replace(planned(SNAPSHOT).components[0], refusal=refusal, state=state)


def outlasted(one: ComponentPlan, common: Refusal | None, approved: tuple[str, ...] | None = None) -> Refusal | None:
    return outlast_component(one, common, EVERYWHERE, approved, NOW)


def test_what_is_repaired_waits_for_nothing() -> None:
    """Whatever keeps everything back."""
    assert outlasted(component(None), paused(None)) is None


def test_what_ends_last_is_named() -> None:
    """A moment, or none; what keeps everything back and ends before is not."""
    five = component(paused(5))
    assert outlasted(five, paused(6)) == paused(6)
    assert outlasted(five, paused(None)) == paused(None)
    assert outlasted(five, paused(4)) == outlasted(five, None) == paused(5)


def test_an_event_that_makes_evictions_possible_stays_named() -> None:
    """Of a component that no eviction repairs now: the event is what to do."""
    stuck = component(NotProposedYet(), State.UNFIXABLE)
    assert outlasted(stuck, paused(6)) == NotProposedYet()
    assert outlasted(component(NotProposedYet()), paused(6)) == paused(6)


def test_nothing_goes_on_before_somebody_has_approved_it() -> None:
    """The wait stays named, and ends with an approval, too; what is approved needs none."""
    five = component(paused(5))
    waits = outlasted(five, None, ())
    assert waits is not None
    assert (waits.reason, waits.end.event) == (
        Reason.PAUSED,
        f"when it is {NOW + timedelta(minutes=5):%Y-%m-%d %H:%M:%SZ}, and somebody approves it",
    )
    assert outlasted(five, None, (five.name,)) == paused(5)
