"""What lint says is what happens in the simulator: placement, rollouts, drains, lost zones, of drawn clusters.

An error is never wrong; what was not foretold is counted by its cause. The same clusters as on real servers
(`tests/cluster/test_lint.py`), by other seeds.
"""

from collections.abc import Iterable

import pytest

from tests.lint.experiment import Claim, Event, find_claims, find_events, report
from tests.lint.simulated import Simulated


def run_all(seeds: Iterable[int]) -> tuple[list[Claim], list[Event]]:
    """Do all steps with drawn clusters; return what was said, and what went wrong."""
    claims, events = list[Claim](), list[Event]()
    for seed in seeds:
        steps = list(Simulated(seed).run())
        claims += find_claims(steps)
        events += find_events(steps)
    return claims, events


def test_no_error_is_wrong_in_the_simulator() -> None:
    """Each step goes wrong somewhere, as was said; a rollout too, of which the first pods find a node (seed 112)."""
    claims, events = run_all([*range(1, 40), 112])
    wrong = report(claims, events)
    assert not wrong, "\n".join(map(str, wrong))
    assert {event.what for event in events if event.foretold} == {
        "pods pending after the deployment",
        "rollout does not end",
        "drain does not end",
        "pods pending after the drain",
        "pods pending after the loss of a zone",
    }
    assert any("can wedge after 2 of 3" in claim.finding.message for claim in claims if claim.happened)


@pytest.mark.thorough
@pytest.mark.timeout(3_600)
def test_no_error_is_wrong_in_two_thousand_clusters() -> None:
    """The tables are in docs/results.md."""
    wrong = report(*run_all(range(1_000, 3_000)))
    assert not wrong, "\n".join(map(str, wrong))
