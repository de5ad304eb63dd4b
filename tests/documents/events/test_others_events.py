"""Events about others who evict: one for each workload when a run of their evictions begins."""

from datetime import UTC, datetime, timedelta

from msgspec import structs

from rebalancer.account.happened import find_others
from rebalancer.assessment.evicted import EvictedByOthers
from rebalancer.model.moves import OthersEvictions, Reference
from tests.documents.events.build import about

NINE = datetime(2026, 7, 12, 9, tzinfo=UTC)


def run(name: str) -> OthersEvictions:
    workload = Reference("shop", "Deployment", name)
    return OthersEvictions(workload=workload, since=NINE, last=NINE, number=1, pods=("web-1",), elsewhere=True)


def regarded(before: list[OthersEvictions], after: list[OthersEvictions]) -> list[str]:
    facts = [EvictedByOthers(one, one.since + timedelta(minutes=10)) for one in after]
    return [event.regarding.name for event in about(find_others(before, facts))]


def test_a_run_is_reported_when_it_begins() -> None:
    """Not when it goes on, and again when another one begins."""
    goes_on = structs.replace(run("web"), last=NINE + timedelta(seconds=4), number=2)
    begins_anew = structs.replace(run("web"), since=NINE + timedelta(hours=1))
    assert regarded([], [run("web")]) == ["web"]
    assert regarded([run("web")], [goes_on, run("api")]) == ["api"]
    assert regarded([run("web")], [begins_anew]) == ["web"]


def test_a_drain_of_many_nodes_is_no_flood_of_events() -> None:
    assert len(regarded([], [run(f"web-{number}") for number in range(60)])) == 50
